# Damaged pages: random bytes, broken line pointers, impossible tuple headers, torn and
# zeroed pages, wrong links and entries in indexes, wrong maps, files that are too short.
# Stock VACUUM and parvacuum get the same files.  parvacuum must not crash, hang or fail
# where stock VACUUM does not, it names the block where stock VACUUM does, and neither the
# rows of the other pages nor other tables suffer.

use strict;
use warnings FATAL => 'all';

use FindBin;
use lib $FindBin::RealBin, "$FindBin::RealBin/../t";
use File::Copy qw(copy);
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use PvTest;
use PvTorture;
use Test::More;
use Time::HiRes qw(sleep time);

use constant { BLOCK => 8192, PAIRS => 10 };

my $node = pv_node('corrupt');
$node->append_conf('postgresql.conf', "restart_after_crash = on\nstatement_timeout = 15s\nmax_connections = 20\n");
$node->start;
pv_setup($node);
my $data = $node->data_dir;
my (%count, %core_crashes);
my $checksums = 0;

sub sql { return pv_sql($node, @_); }

#
# Damage.  Each takes a reference to a page of 8192 bytes.
#
# Nothing is read or written outside of it, whatever the page says.
sub put { my ($page, $at, $format, $value) = @_; my $bytes = pack $format, $value; substr($$page, $at, length $bytes) = $bytes if $at + length $bytes <= BLOCK; return; }
sub get { my ($page, $at, $format) = @_; return $at + 8 <= BLOCK ? unpack $format, substr $$page, $at, 8 : 0; }
sub random_bytes { return pack 'C*', map { int rand 256 } 1 .. $_[0]; }

# A number that is wrong in an interesting way
sub wrong { return one_of(0, 1, 2, int rand 30, int rand 8192, 8160, 8191, 8192, 65535, int rand 65536); }
sub wrong_xid { return one_of(0, 1, 2, 3, int rand 1000, 0xFFFFFFFF, 0x7FFFFFFF, 0x80000000, int rand 4294967295); }

# Where the line pointer of an item, and the tuple of an item, begin
sub item { my ($page) = @_; my $n = int((get($page, 12, 'S') - 24) / 4); return 24 + 4 * ($n > 0 ? int rand $n : 0); }
sub tuple { my ($page) = @_; my $at = 0; for (1 .. 20) { my $lp = get($page, item($page), 'L'); $at = $lp & 0x7FFF; return $at if (($lp >> 15) & 3) == 1 && $at < BLOCK - 30; } return 4096; }
sub pointer { my ($page, $change) = @_; my $at = item($page); my $lp = get($page, $at, 'L'); put($page, $at, 'L', $change->($lp & 0x7FFF, ($lp >> 15) & 3, $lp >> 17)); return; }
sub packed { my ($off, $flags, $len) = @_; return ($off & 0x7FFF) | (($flags & 3) << 15) | (($len & 0x7FFF) << 17); }

# What is wrong with where the line pointers lead?
sub astray
{
	my ($page) = @_;
	my $n = int((get($page, 12, 'S') - 24) / 4);
	my ($end, %wrong) = 0;
	for (sort { $a->[0] <=> $b->[0] } map { [ $_ & 0x7FFF, $_ >> 17 ] } grep { (($_ >> 15) & 3) == 1 } map { get($page, 24 + 4 * $_, 'L') } 0 .. ($n < 2000 ? $n : 2000) - 1)
	{
		my ($at, $length) = @$_;
		$wrong{'a tuple in its header'} = 1 if $at < 24;
		$wrong{'a tuple in another page'} = 1 if $at + 23 > BLOCK;
		$wrong{'tuples that overlap'} = 1 if $at < $end;
		$end = $at + $length if $end < $at + $length;
	}
	return join '', map { ", $_" } sort keys %wrong;
}

my %page_damage = (
	bytes => sub { my ($p) = @_; my $n = 1 + int rand 40; substr($$p, int rand(BLOCK - $n), $n) = random_bytes($n); },
	header_bytes => sub { my ($p) = @_; substr($$p, int rand 24, 1) = random_bytes(1); },
	all => sub { my ($p) = @_; $$p = random_bytes(BLOCK); },
	zeroed => sub { my ($p) = @_; $$p = "\0" x BLOCK; },
	torn => sub { my ($p) = @_; my $at = 512 * (1 + int rand 15); substr($$p, $at) = "\0" x (BLOCK - $at); },
	lower => sub { my ($p) = @_; put($p, 12, 'S', wrong()); },
	upper => sub { my ($p) = @_; put($p, 14, 'S', wrong()); },
	special => sub { my ($p) = @_; put($p, 16, 'S', wrong()); },
	more_items => sub { my ($p) = @_; put($p, 12, 'S', get($p, 12, 'S') + 4 * (1 + int rand 20)); },
	item_offset => sub { pointer($_[0], sub { packed(wrong(), $_[1], $_[2]) }); },
	item_length => sub { pointer($_[0], sub { packed($_[0], $_[1], wrong()) }); },
	item_flags => sub { pointer($_[0], sub { packed($_[0], int rand 4, $_[2]) }); },
	item => sub { pointer($_[0], sub { packed(wrong(), int rand 4, wrong()) }); });
my %heap_damage = (%page_damage,
	xmin => sub { put($_[0], tuple($_[0]), 'L', wrong_xid()); },
	xmax => sub { put($_[0], tuple($_[0]) + 4, 'L', wrong_xid()); },
	xmax_multi => sub { my $t = tuple($_[0]); put($_[0], $t + 4, 'L', wrong_xid()); put($_[0], $t + 20, 'S', (get($_[0], $t + 20, 'S') & ~0xF800) | 0x1000); },
	infomask => sub { put($_[0], tuple($_[0]) + 20, 'S', int rand 65536); },
	natts => sub { put($_[0], tuple($_[0]) + 18, 'S', int rand 65536); },
	hoff => sub { put($_[0], tuple($_[0]) + 22, 'C', int rand 256); },
	ctid => sub { my $t = tuple($_[0]); put($_[0], $t + 14, 'S', int rand 4); put($_[0], $t + 16, 'S', wrong()); },
	hint => sub { put($_[0], 20, 'L', wrong_xid()); },
	all_visible => sub { put($_[0], 10, 'S', get($_[0], 10, 'S') ^ (1 << int rand 3)); });
my %index_damage = (%page_damage,
	tid => sub { my $t = tuple($_[0]); put($_[0], $t, 'S', one_of(0, 1, 65535)); put($_[0], $t + 2, 'S', int rand 65536); put($_[0], $t + 4, 'S', wrong()); },
	entry_size => sub { put($_[0], tuple($_[0]) + 6, 'S', int rand 65536); },
	opaque => sub { my ($p) = @_; put($p, BLOCK - 16 + 4 * int rand 4, 'L', one_of(0, 1, 2, 3, 4, 5, int rand 20, 0xFFFFFFFF, int rand 4294967295)); },
	flags => sub { my ($p) = @_; put($p, BLOCK - 4, 'S', 1 << int rand 10); });

sub one_key { my ($table) = @_; return (sort keys %$table)[ int rand keys %$table ]; }

sub pages_of { my ($file) = @_; return -e $file ? int((-s $file) / BLOCK) : 0; }

# Damage a page of a file, or the file.  Returns what was done, and the pages of which
# nothing is expected any more.
sub damage
{
	my ($file, $kinds) = @_;
	my $n = pages_of($file) or return;
	if ($kinds eq 'size')
	{
		my $size = int(rand $n) * BLOCK + (chance(0.3) ? 100 : 0);
		truncate $file, $size or die "$file: $!";
		return ("size $size", int($size / BLOCK) .. $n - 1);
	}
	my $block = one_of(0, $n - 1, map { int rand $n } 1 .. 4);
	my $kind = one_key($kinds);
	open(my $handle, '+<:raw', $file) or die "$file: $!";
	seek $handle, $block * BLOCK, 0;
	read($handle, my $page, BLOCK) == BLOCK or die "$file: $!";
	$kinds->{$kind}->(\$page);
	seek $handle, $block * BLOCK, 0;
	print $handle substr $page, 0, BLOCK;
	close $handle or die "$file: $!";
	return ("$kind in page $block" . ($kinds == \%heap_damage ? astray(\$page) : ''), $block);
}

#
# Tables
#
my %indexes = (btree => '(id)', duplicates => '(k)', gin => 'USING gin (a)', hash => 'USING hash (k)', gist => 'USING gist (box(point(k, id), point(k, id)))',
	spgist => 'USING spgist (pad)', brin => 'USING brin (id)');

# A pair with the contents in the table "ours" only.  Returns a description.
sub make_pair
{
	my ($n) = @_;
	my @wanted = ('btree', chance(0.5) ? 'duplicates' : (), chance(0.5) ? one_of(qw(gin hash gist spgist brin)) : ());
	@wanted = () if chance(0.15);
	my @sql;
	for my $kind (qw(stock ours))
	{
		my $table = "$kind$n";
		push @sql, "DROP TABLE IF EXISTS $table", "CREATE TABLE $table (id int, k int, a int[], pad text) WITH (autovacuum_enabled = off, parvacuum.enabled = " . ($kind eq 'ours' ? 'on' : 'off') . ')';
	}
	my $rows = 500 + int rand 1000;
	push @sql, "INSERT INTO ours$n SELECT i, i % 40, ARRAY[i % 50, i % 7], repeat(chr(97 + i % 20), 30) FROM generate_series(1, $rows) i";
	for my $kind (qw(stock ours)) { my $i = 0; push @sql, map { "CREATE INDEX $kind${n}_" . $i++ . " ON $kind$n $indexes{$_}" } @wanted; }
	sql(@sql);
	sql("VACUUM ours$n") if chance(0.5);
	sql("UPDATE ours$n SET k = k + 1 WHERE id % " . (3 + int rand 10) . ' = 1',
		one_of("DELETE FROM ours$n WHERE id % 4 = 2", "DELETE FROM ours$n WHERE id > " . int(rand $rows), "UPDATE ours$n SET id = id + 1 WHERE id % 5 = 0"));
	sql("VACUUM (INDEX_CLEANUP off) ours$n", "DELETE FROM ours$n WHERE id % 9 = 5") if chance(0.3);
	sql("BEGIN; UPDATE ours$n SET k = 0 WHERE id % 6 = 1; ROLLBACK") if chance(0.3);

	# the files of both, in the same order
	my %files;
	for my $kind (qw(stock ours))
	{
		$files{$kind} = [ map { "$data/$_" } split /\n/, sql("SELECT pg_relation_filepath(oid) FROM pg_class WHERE relname ~ '^$kind${n}(_\\d)?\$' ORDER BY relname") ];
	}
	my %rows = map { split /=/ } split /\n/, blocks_digest("ours$n");
	return { n => $n, files => \%files, indexes => \@wanted, rows => \%rows };
}

# A digest of the visible rows of each block
sub blocks_digest
{
	my ($table) = @_;
	return sql(qq{SELECT (ctid::text::point)[0]::int || '=' || count(*) || ' ' || sum(hashtextextended(t::text, 0)) FROM $table t GROUP BY (ctid::text::point)[0]::int});
}

# Damage the files of "ours", and copy all to "stock"; the server is down.
sub damage_pair
{
	my ($pair) = @_;
	my @ours = @{ $pair->{files}{ours} };
	for (1 .. one_of(1, 1, 1, 2, 4))
	{
		my $index = @ours > 1 && chance(0.45) ? 1 + int rand @ours - 1 : 0;
		my $fork = $index == 0 && chance(0.15) ? one_of('_vm', '_fsm') : '';
		my ($what, @pages) = damage("$ours[$index]$fork", chance(0.06) ? 'size' : $fork ? \%page_damage : $index ? \%index_damage : \%heap_damage);
		next if !$what;
		$pair->{damages}++;
		$pair->{what} .= ($index ? "index $pair->{indexes}[$index - 1]" : "heap$fork") . ": $what; ";
		delete @{ $pair->{rows} }{@pages} if $index == 0 && $fork eq '';
		$count{pages}++;
	}
	for my $i (0 .. $#ours)
	{
		for my $fork ('', qw(_vm _fsm))
		{
			my $stock = "$pair->{files}{stock}[$i]$fork";
			unlink $stock;
			copy("$ours[$i]$fork", $stock) if -e "$ours[$i]$fork";
		}
	}
	return;
}

#
# Vacuums
#
# One vacuum.  Returns 'ok', 'error', 'hangs' or 'crash', what was said, and whether the
# server is there.
sub vacuum
{
	my ($table, $options) = @_;
	pv_new_log($node);
	my $timed_out = 0;
	my ($rc, $out, $err) = $node->psql('postgres', "VACUUM ($options) $table", timeout => 40, timed_out => \$timed_out);
	if ($timed_out)
	{
		# It does not even react to a cancel.
		$node->stop('immediate');
		my $started = $node->start(fail_ok => 1);
		return ('hangs', 'no end of it, and it cannot be canceled', $started);
	}
	my $come_back = pv_await_ready($node, pv_log_seen($node));
	my $log = pv_new_log($node);
	return ('crash', join "\n", grep { /TRAP:|PANIC:|terminated by signal/ } split /\n/, $log), $come_back if !$come_back || $log =~ /TRAP:|PANIC:|terminated by signal/;
	return ($err =~ /ERROR|FATAL/ ? $err =~ /statement timeout/ ? 'hangs' : 'error' : 'ok', $err, 1);
}

# Take away what an error of core's names: an index, a tuple or a page.  Returns whether core
# may come further now.
sub out_of_the_way
{
	my ($pair, $said) = @_;
	if ($said =~ /index "(stock\d+_\d)"/)
	{
		sql("DROP INDEX $1");
		return 1;
	}
	return 0 if $checksums || $said !~ /while (?:scanning|vacuuming) block (\d+)(?: offset (\d+))? of relation/;
	my ($block, $offset) = ($1, $2);
	$node->stop;
	open(my $handle, '+<:raw', $pair->{files}{stock}[0]) or die "$pair->{files}{stock}[0]: $!";
	seek $handle, $block * BLOCK + ($offset ? 20 + 4 * $offset : 0), 0;
	print $handle "\0" x ($offset ? 4 : BLOCK);
	close $handle or die "$pair->{files}{stock}[0]: $!";
	$node->start;
	return 1;
}

# May core end better for such a page by chance?
sub is_by_chance
{
	my ($name, $ours, $said) = @_;

	# A tuple in the header has the page's LSN for its xmin, so that its status is known or not
	# by chance.  Tuples that share bytes are moved apart by pruning, which changes their bytes.
	# The engine and core from 17 on plan freezing before pruning, earlier core after it.  When
	# core has pruned a page for the engine, the engine reads the page once more.
	return 1 if $ours eq 'error' && $name =~ /a tuple in its header|tuples that overlap/;
	return 1 if $name =~ /tuples that overlap/ && $said =~ /TRAP:.*heapam\.c/;

	# A line pointer beyond the end leads to whatever page is next in memory.  Core's
	# HeapTupleSatisfiesVacuum() sets hint bits there.  If the tuple stays, pruning ends in a PANIC.
	return 1 if $ours ne 'hangs' && $name =~ /a tuple in another page/ && $said !~ /signal 11/;

	# The engine keeps a redirection to a row that has its own line pointer, where core may
	# remove it.  Core's assertions allow neither such a redirection nor one with a length.
	return 1 if $said =~ /TRAP:.*(?:HeapTupleHeaderIsHeapOnly|ItemIdIsNormal).*pruneheap\.c/;
	return 0;
}

my %worse = (ok => 0, error => 1, hangs => 2, crash => 3);
sub one_pair
{
	my ($batch, $pair) = @_;
	my $n = $pair->{n};
	my $options = one_of('INDEX_CLEANUP on', 'INDEX_CLEANUP auto', 'INDEX_CLEANUP on, FREEZE', 'INDEX_CLEANUP on, DISABLE_PAGE_SKIPPING', 'FREEZE, DISABLE_PAGE_SKIPPING, INDEX_CLEANUP on') . ', TRUNCATE ' . one_of('on', 'off');

	# With workers, another damage may be found first.
	my $workers = ($pair->{damages} // 0) > 1 ? 0 : one_of(0, 2);
	my ($core, $core_said, $core_back) = vacuum("stock$n", "$options, PARALLEL 0");
	my ($ours, $ours_said, $ours_back) = $core_back && $core ne 'hangs' ? vacuum("ours$n", "$options, PARALLEL $workers") : ('ok', '', 1);
	my $name = "batch $batch, pair $n: " . ($pair->{what} // 'nothing') . " $options, $workers workers, checksums $checksums";

	# Core stops at the first damage that it raises an error for.  It takes the tuples of a page
	# and the indexes in another order than the engine.
	for (1 .. 10)
	{
		last if $core ne 'error' || $worse{$ours} <= $worse{$core} || !$ours_back || !out_of_the_way($pair, $core_said);
		note "$name: core goes on after $core_said";
		($core, $core_said, $core_back) = vacuum("stock$n", "$options, PARALLEL 0");
	}

	$count{"core: $core"}++;
	$count{"ours: $ours"}++;
	note "$name: core $core, ours $ours";
	note "core: $core_said" if $core =~ /crash|hangs/;
	$core_crashes{"$pair->{what} $core_said"}++ if $core eq 'crash';
	my @bad;
	push @bad, "worse than core, which said: $core_said" if $worse{$ours} > $worse{$core} && !is_by_chance($name, $ours, $ours_said);
	push @bad, 'no block is named' if $ours eq 'error' && $core eq 'error' && $core_said =~ /(?:block|page) \d/ && $ours_said !~ /(?:block|page) \d/;
	if ($core_back && $ours_back && $ours ne 'crash' && $name !~ /a tuple in another page/)
	{
		# the planner must not look into damaged indexes
		my $blocks = join ',', sort { $a <=> $b } keys %{ $pair->{rows} };
		my $now = $blocks eq '' ? '' : sql("UPDATE pg_index SET indisvalid = false WHERE indrelid = 'ours$n'::regclass", qq{SELECT string_agg(b || '=' || d, E'\\n' ORDER BY b) FROM unnest(ARRAY[$blocks]) b, LATERAL (
			SELECT count(*) || ' ' || sum(hashtextextended(t::text, 0)) AS d FROM ours$n t WHERE ctid >= format('(%s,0)', b)::tid AND ctid < format('(%s,0)', b + 1)::tid) x});
		my $before = join "\n", map { "$_=$pair->{rows}{$_}" } sort { $a <=> $b } keys %{ $pair->{rows} };
		push @bad, "rows of other pages: before $before, now $now" if $now ne $before;
	}
	if (@bad)
	{
		fail($name);
		diag join "\n", @bad, "ours said: $ours_said";
	}
	return (!@bad, $core_back && $ours_back);
}

# Keep a copy of the whole cluster, for the case that recovery is not possible either.
sql('CREATE TABLE other (id int PRIMARY KEY, k int) WITH (parvacuum.enabled, autovacuum_enabled = off)', 'INSERT INTO other SELECT i, 0 FROM generate_series(1, 2000) i');
$node->stop;
PostgreSQL::Test::RecursiveCopy::copypath($data, "$data.copy");

# Begin anew with the copy, if the server cannot recover, or cannot write a page whose damaged
# LSN is in the future.
sub replace_files
{
	note 'the files of the server are replaced';
	$node->stop('immediate', fail_ok => 1) if -e "$data/postmaster.pid";
	$node->{_pid} = undef;
	PostgreSQL::Test::Utils::system_or_bail('rm', '-rf', $data);
	PostgreSQL::Test::RecursiveCopy::copypath("$data.copy", $data);
	chmod 0700, $data;
	$checksums = 0;
	return;
}

sub one_batch
{
	my ($batch) = @_;
	if (!$node->start(fail_ok => 1))
	{
		replace_files();
		$node->start;
	}
	my @pairs = map { make_pair($_) } 1 .. PAIRS;
	# what the catalog says of a table is the same as well
	my @columns = qw(relfrozenxid relminmxid relpages reltuples relallvisible);
	sql("UPDATE pg_class s SET (" . join(', ', @columns) . ') = (SELECT ' . join(', ', @columns) . q{ FROM pg_class o WHERE o.relname = replace(s.relname, 'stock', 'ours')) WHERE s.relname LIKE 'stock%'});
	$node->stop;
	my $sums = chance(0.2) ? 1 : 0;
	command_ok([ 'pg_checksums', $sums ? '--enable' : '--disable', '-D', $data ], 'checksums') if $sums != $checksums;
	$checksums = $sums;
	damage_pair($_) for @pairs;
	$node->start;
	pv_new_log($node);
	my ($good, $alive) = (1, 1);
	for my $pair (@pairs)
	{
		my ($fine, $back) = one_pair($batch, $pair);
		$good &&= $fine;
		$alive &&= $back;
		last if !$alive;
	}
	if ($alive)
	{
		sql('UPDATE other SET k = k + 1', "SELECT parvacuum_run('other', workers => 2)");
		is(pv_findings($node, 'other'), '', "batch $batch: another table is whole") if $batch % 10 == 0;
		$node->stop;
	}
	else
	{
		replace_files();
	}
	return $good;
}

my $until = time + pv_seconds(1, 5);
my $batch = 0;
while (time < $until)
{
	one_batch($batch++) or last;
}
ok(1, 'all batches are done');
note join ', ', map { "$_ $count{$_}" } sort keys %count;
note "core crashes: $_" for sort keys %core_crashes;
pv_figure($count{pages}, 'damaged pages vacuumed');
pv_figure($count{'ours: crash'} // 0, 'crashes, of stock VACUUM ' . ($count{'core: crash'} // 0));
done_testing();
