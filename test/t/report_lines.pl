# The report of a vacuum, line by line: on each version the lines of stock VACUUM about
# the twin come first, in their order and with their words, and our own lines come after
# them.  The same holds for messages during the vacuum, at DEBUG2 and INFO.

use strict;
use warnings FATAL => 'all';

use FindBin;
use lib $FindBin::RealBin;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use PvTest;
use Test::More;

my $node = pv_node('lines');
$node->append_conf('postgresql.conf', q{
autovacuum_naptime = 1s
log_autovacuum_min_duration = 0
});
$node->start;
pv_setup($node);

sub sql { return pv_sql($node, @_); }

# The lines of a report without their numbers, and with one name for both twins
sub shapes
{
	my ($text) = @_;
	my @lines = split /\n/, $text;
	s/^\s+//, s/\b(?:stock|ours)(_\w+)?\b/'it' . ($1 \/\/ '')/e, s/\d+(?:\.\d+)?/N/g for @lines;

	# 19 counts the workers of each index phase; ours are those of the whole vacuum, and
	# stand in the line "engine"
	@lines = grep { !/^parallel workers: / } @lines;

	# whether time has passed is a matter of chance
	s/^(system usage): .*/$1/ for @lines;
	return @lines;
}

# The report is the last message; its lines are the first one and those that follow it.
sub report
{
	my ($said) = @_;
	my ($text) = $said =~ /^(?:psql:\S+ )?INFO:  (finished vacuuming .*)/ms;
	$text //= '';
	$text =~ s/\n(?:psql:\S+ )?(?:DEBUG|INFO|LOG|NOTICE|WARNING):.*//s;
	return $text;
}

sub vacuum
{
	my ($table, $options, @settings) = @_;
	my ($rc, $out, $err) = $node->psql('postgres', join ";\n", @settings, "VACUUM (VERBOSE$options) $table");
	is($rc, 0, "$table is vacuumed") or diag $err;
	return $err;
}

# Our lines begin with those of stock VACUUM.
sub same_shape
{
	my ($what, $stock, $ours) = @_;
	my @stock = shapes($stock);
	my @ours = shapes($ours);
	my @rest = splice @ours, scalar @stock;
	cmp_ok(scalar @stock, '>=', 6, "$what: stock VACUUM has a report") or diag $stock;
	is_deeply(\@ours, \@stock, "$what: the same lines in the same order");
	like($rest[0] // '', qr/^(?:frozen|visibility map|index "\w+"|engine): /, "$what: our own lines follow");
	ok((grep { /^engine: parvacuum/ } @rest), "$what: the report is that of the engine");
	return;
}

my @rows = ('CREATE TABLE %s (a int, b int) WITH (autovacuum_enabled = off)', 'INSERT INTO %s SELECT i, i FROM generate_series(1, 20000) i');
my @indexes = ('CREATE INDEX %s_a ON %s (a)', 'CREATE INDEX %s_b ON %s USING hash (b)');

sub make
{
	my ($twin, @statements) = @_;
	sql(map { s/%s/$twin/gr } 'DROP TABLE IF EXISTS %s', @statements);
	sql('ALTER TABLE ours SET (parvacuum.enabled)') if $twin eq 'ours';
	return;
}

sub compare
{
	my ($what, $statements, $options, @settings) = @_;
	my %said;
	for my $twin (qw(stock ours))
	{
		make($twin, @$statements);
		$said{$twin} = report(vacuum($twin, $options, @settings));
	}
	same_shape($what, @said{qw(stock ours)});
	return @said{qw(stock ours)};
}

my ($stock, $ours) = compare('no index', [ @rows, 'DELETE FROM %s WHERE a % 3 = 0' ], '');
my $dead = qr/^(index scan not needed: .*)$/m;
is(($ours =~ $dead)[0], ($stock =~ $dead)[0], 'no index: the number of dead item identifiers is that of stock VACUUM');
compare('indexes', [ @rows, @indexes, 'DELETE FROM %s WHERE a % 3 = 0' ], '');
compare('indexes left out', [ @rows, @indexes, 'DELETE FROM %s WHERE a % 3 = 0' ], ', INDEX_CLEANUP off');
compare('timings', [ @rows, @indexes, 'DELETE FROM %s WHERE a % 3 = 0' ], '', 'SET track_io_timing = on',
	$node->pg_version >= 18 ? 'SET track_cost_delay_timing = on' : 'SELECT 1');
compare('few dead rows', [ @rows, @indexes, 'DELETE FROM %s WHERE a = 7' ], '');
compare('frozen, truncated, multixact',
	[ @rows, @indexes, 'DELETE FROM %s WHERE a > 500', 'BEGIN', 'SELECT FROM %s WHERE a = 3 FOR KEY SHARE', 'SAVEPOINT s',
		'SELECT FROM %s WHERE a = 3 FOR UPDATE', 'COMMIT' ], ', FREEZE');
compare('failsafe', [ @rows, @indexes, 'DELETE FROM %s WHERE a % 3 = 0',
		q{UPDATE pg_class SET relfrozenxid = ((pg_current_xact_id()::text::bigint - 300000000) & 4294967295)::text::xid WHERE relname = '%s'} ],
	'', 'SET vacuum_failsafe_age = 0', 'SET client_min_messages = error');

# A page that another session has pinned is not pruned.
{
	my %said;
	for my $twin (qw(stock ours))
	{
		make($twin, @rows, 'DELETE FROM %s WHERE a = 2');
		my $reader = $node->background_psql('postgres');
		$reader->query_safe("BEGIN; DECLARE c CURSOR FOR SELECT a FROM $twin; FETCH 1 FROM c");
		$said{$twin} = report(vacuum($twin, ''));
		$reader->query_safe('COMMIT');
		$reader->quit;
	}
	like($said{stock}, qr/^tuples missed: 1 dead from 1 pages/m, 'a pinned page: stock VACUUM skips it');
	same_shape('a pinned page', @said{qw(stock ours)});
}

# Messages during the vacuum
my %debug;
for my $twin (qw(stock ours))
{
	make($twin, @rows, @indexes, 'DELETE FROM %s WHERE a % 3 = 0');
	my $said = vacuum($twin, '', 'SET client_min_messages = debug2');
	$debug{$twin} = [ $said =~ /^(?:psql:\S+ )?DEBUG:  (table "$twin": removed .*)$/m ? $1 =~ s/$twin/it/r : 'nothing' ];
}
like($debug{stock}[0], qr/removed 6666 dead item identifiers in \d+ pages/, 'DEBUG2: stock VACUUM reports what the second heap pass removed');
is_deeply($debug{ours}, $debug{stock}, 'DEBUG2: our vacuum reports the same');

# The numbers are those of all participants together, each of which begins before another one
# has ended.
my %numbers;
for my $workers (0, 2)
{
	sql('DROP TABLE ours', 'CREATE UNLOGGED TABLE ours (a int, b text) WITH (fillfactor = 50, autovacuum_enabled = off, parvacuum.enabled)',
		q{INSERT INTO ours SELECT i, repeat('x', 500) FROM generate_series(1, 20000) i}, 'CREATE INDEX ON ours (a)');
	sql('VACUUM ours');
	sql('DELETE FROM ours WHERE a % 50 = 0');
	my $gate = pv_session($node);
	$gate->query_safe('SELECT pg_advisory_lock(28790)');
	my $run = pv_start_run($node, "VACUUM (VERBOSE, FREEZE, INDEX_CLEANUP on, PARALLEL $workers) ours", 'parvacuum.wait_at' => 'scan');
	ok(pv_await($node, q{SELECT count(*) FROM pg_locks WHERE locktype = 'advisory' AND NOT granted}, $workers + 1), "numbers, $workers workers: all participants begin");
	$gate->quit;
	ok(pv_finish($run), "numbers, $workers workers: the vacuum succeeds") or diag $run->{err};
	$numbers{$workers} = join "\n", report($run->{err}) =~ /^((?:pages|tuples|frozen|visibility map|index scan needed): .*)$/mg;
}
like($numbers{0}, qr/ \(2458 were all-visible\)$/m, 'numbers: pages that were all-visible become all-frozen');
is($numbers{2}, $numbers{0}, 'numbers: they do not depend on the number of workers');

SKIP:
{
	skip 'eager scanning came with 18', 1 if $node->pg_version < 18;
	my %eager;
	for my $twin (qw(stock ours))
	{
		sql("DROP TABLE $twin", "CREATE TABLE $twin (a int, b text) WITH (fillfactor = 10, autovacuum_enabled = off)",
			"INSERT INTO $twin SELECT i, repeat('x', 500) FROM generate_series(1, 12000) i",
			q{DO $$ BEGIN FOR i IN 1 .. 200 LOOP PERFORM pg_current_xact_id(); COMMIT; END LOOP; END $$},
			'CREATE TABLE IF NOT EXISTS flushed ()', 'CHECKPOINT', "VACUUM $twin",
			q{DO $$ BEGIN FOR i IN 1 .. 20 LOOP PERFORM pg_current_xact_id(); COMMIT; END LOOP; END $$});
		sql('ALTER TABLE ours SET (parvacuum.enabled)') if $twin eq 'ours';
		$eager{$twin} = join "\n", map { s/$twin/it/r } vacuum($twin, '', 'SET vacuum_freeze_min_age = 100') =~ /INFO:  (disabling eager .*)$/mg;
	}
	like($eager{stock}, qr/^disabling eager scanning after freezing 2\d\d\d eagerly scanned blocks/, 'eager scanning: stock VACUUM reports its end');
	is($eager{ours}, $eager{stock}, 'eager scanning: our vacuum reports its end, once');
}

# The entry of autovacuum in the log
sub entry_of
{
	my ($table) = @_;
	sql("ALTER TABLE $table SET (autovacuum_enabled = on, autovacuum_vacuum_threshold = 1, autovacuum_vacuum_scale_factor = 0)");
	for (1 .. 10 * $PostgreSQL::Test::Utils::timeout_default)
	{
		return $1 if slurp_file($node->logfile) =~ /LOG:  (?:00000: )?(automatic vacuum of table "postgres\.public\.$table".*?system usage[^\n]*\n(?:\t[^\n]*\n)*)/s;
		select undef, undef, undef, 0.1;
	}
	return '';
}
make($_, @rows, @indexes, 'DELETE FROM %s WHERE a % 3 = 0') for qw(stock ours);
pv_reload_with($node, track_io_timing => 'on', autovacuum => 'on');
same_shape('autovacuum', map { entry_of($_) } qw(stock ours));

pv_no_crash($node, 'the server');
$node->stop;
done_testing();
