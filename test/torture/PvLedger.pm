# A load with a ledger: clients execute transactions that are made up at random, and the
# ledger knows which rows each of them leaves behind.  psql writes to a file which commits
# the server has acknowledged.  After a crash the server must have all of these, of the
# transaction after them all or nothing, and nothing else.
#
# Each client has rows of its own in all tables, which lie on the same pages as those of
# others.  So its part of the tables is known from the number of its last transaction, which
# each transaction writes into its row of the table "mark".  The rows of the table "account"
# are common: clients add to them.
#
# Some commits are asynchronous: they may be lost, with all that followed them.
package PvLedger;

use strict;
use warnings FATAL => 'all';

use Digest::MD5 qw(md5_hex);
use Exporter 'import';
use PostgreSQL::Test::Utils;
use PvTest;
use PvTorture;
use Test::More;

our @EXPORT = qw(ledger_tables ledger_create ledger_script ledger_settle ledger_findings ledger_workers %ledger_seen);

# The rows that a client may have, at most, and the width of them
my %table = (
	rows_main => { most => 800, width => 150 },
	rows_hot => { most => 200, width => 40 },
	rows_toast => { most => 50, width => 2500 },
	rows_tail => { most => 900, width => 300 });
my @tables = sort keys %table;
my $accounts = 20;

# For each client its last transaction, its rows (table -> id -> v), and the transactions
# that have been sent: each has what it does.
my @client;

# account -> balance; the option of the table "option" that the last transaction has set
my %balance = map { $_ => 0 } 1 .. $accounts;

# What was checked: numbers of transactions
our %ledger_seen = (acknowledged => 0, doubtful => 0, prepared => 0, asynchronous_lost => 0);

sub ledger_tables { return @tables; }

sub pad { my ($name, $v) = @_; return "repeat('" . chr(97 + $v % 26) . "', $table{$name}{width})"; }

# The statements that create the tables, for this many clients
sub ledger_create
{
	my ($nclients) = @_;
	my @sql = ('CREATE TABLE mark (client int PRIMARY KEY, n int) WITH (parvacuum.enabled, fillfactor = 50)',
		'CREATE TABLE account (id int PRIMARY KEY, balance int) WITH (parvacuum.enabled)',
		'CREATE TABLE option (a int) WITH (parvacuum.enabled, parvacuum.workers = 0)',
		"INSERT INTO account SELECT generate_series(1, $accounts), 0");
	for my $name (@tables)
	{
		push @sql, "CREATE TABLE $name (id int PRIMARY KEY, v int, pad text)
			WITH (parvacuum.enabled, autovacuum_vacuum_threshold = 10, autovacuum_vacuum_scale_factor = 0, fillfactor = " . ($name eq 'rows_hot' ? 60 : 95) . ')',
		  "ALTER TABLE $name ALTER pad SET STORAGE " . ($name eq 'rows_toast' ? 'EXTERNAL' : 'PLAIN');
	}
	push @sql, 'CREATE INDEX rows_main_v ON rows_main (v, pad)', 'CREATE INDEX rows_main_hash ON rows_main USING hash (v)',
	  'CREATE INDEX rows_main_gin ON rows_main USING gin ((ARRAY[v, id % 7])) WITH (fastupdate = on)',
	  'CREATE INDEX rows_tail_v ON rows_tail (v)', 'CREATE INDEX rows_tail_brin ON rows_tail USING brin (v)';
	for my $c (0 .. $nclients - 1)
	{
		$client[$c] = { n => 0, option => 0, rows => { map { $_ => {} } @tables }, sent => [] };
		push @sql, "INSERT INTO mark VALUES ($c, 0)";
	}
	return @sql;
}

# The IDs that a client may use begin here.
sub first_id { return ($_[0] + 1) * 100000; }

# Up to this many IDs of rows that a client has, or of those that it has not: a run of them,
# or scattered ones.  Half of the possible IDs are in use, so few are tried in vain.
sub some_ids
{
	my ($c, $name, $rows, $n, $used) = @_;
	my ($first, $possible) = (first_id($c), 2 * $table{$name}{most});
	my $from = int rand $possible;
	my $run = chance(0.3);
	my %chosen;
	for my $i (1 .. 3 * $n)
	{
		my $id = $first + ($run ? ($from + $i) % $possible : int rand $possible);
		$chosen{$id} = 1 if $used == exists $rows->{$id};
		last if keys %chosen >= $n;
	}
	return sort { $a <=> $b } keys %chosen;
}

# A statement that changes rows, and what it does to them: changes are noted in a list of
# table, id and v, which is undefined if the row is deleted.  Without the list, the change is
# one that will be rolled back.
sub make_change
{
	my ($c, $n, $now, $did) = @_;
	my $name = one_of('rows_main', @tables);
	my $rows = $now->{$name};
	my $most = $table{$name}{most};
	my $size = $name eq 'rows_tail' && chance(0.3) ? 800 : $name eq 'rows_toast' ? 1 + int rand 8 : 1 + int rand(chance(0.1) ? 300 : 30);
	my $has = keys %$rows;
	my $what = $has < $most / 3 ? 'insert' : $has > $most ? 'delete' : one_of(qw(insert update update delete));
	my @ids = some_ids($c, $name, $rows, $size, $what ne 'insert');

	return () if !@ids;
	for my $id ($did ? @ids : ())
	{
		push @$did, [ $name, $id, $what eq 'delete' ? undef : $n ];
		if ($what eq 'delete') { delete $rows->{$id}; }
		else { $rows->{$id} = $n; }
	}
	my $list = join ',', @ids;
	return "INSERT INTO $name SELECT id, $n, " . pad($name, $n) . " FROM unnest('{$list}'::int[]) id" if $what eq 'insert';
	return "UPDATE $name SET v = $n, pad = " . pad($name, $n) . " WHERE id = ANY ('{$list}')" if $what eq 'update';
	return "DELETE FROM $name WHERE id = ANY ('{$list}')";
}

# One transaction of a client: the text for psql.  What it does is appended to the list of
# what was sent.
sub make_transaction
{
	my ($c, $n, $now) = @_;
	my %tx = (n => $n, did => [], add => {}, kind => chance(0.08) ? 'prepared' : chance(0.25) ? 'asynchronous' : 'plain');
	my @sql = ('BEGIN', "UPDATE mark SET n = $n WHERE client = $c");

	push @sql, 'SET LOCAL synchronous_commit = off' if $tx{kind} eq 'asynchronous';

	# A subtransaction that is rolled back must leave nothing behind.  It comes first, so that
	# it does not delete rows that its own transaction has inserted: of such a row, frozen and
	# then locked, wal_consistency_checking says that it is damaged (on any server: heap_mask()
	# leaves the flag HEAP_COMBOCID, which replay clears).
	push @sql, 'SAVEPOINT s', make_change($c, $n, $now), 'ROLLBACK TO s' if chance(0.2);
	push @sql, make_change($c, $n, $now, $tx{did}) for 1 .. 1 + int rand 3;
	if ($tx{kind} ne 'prepared' && chance(0.03) && $c == 0)
	{
		$tx{option} = int rand 4;
		push @sql, "ALTER TABLE option SET (parvacuum.workers = $tx{option})";
	}
	if (chance(0.3))
	{
		my ($id, $amount) = (1 + int rand $accounts, 1 + int rand 100);
		$tx{add}{$id} = $amount;
		push @sql, "UPDATE account SET balance = balance + $amount WHERE id = $id";
	}
	push @sql, 'INSERT INTO unlogged_rows SELECT i, i FROM generate_series(1, 20) i' if chance(0.2);

	# The last one, so that whoever waits for these rows does not wait in a circle.  Rows
	# of others get multixacts.
	push @sql, 'SELECT count(*) FROM (SELECT FROM ' . one_of(@tables) . ' WHERE id % 97 = ' . int(rand 97) . ' FOR SHARE SKIP LOCKED) x'
	  if chance(0.15) && $tx{kind} ne 'prepared';
	push @{ $client[$c]{sent} }, \%tx;
	return join ";\n", @sql, "PREPARE TRANSACTION '$c.$n';\n\\echo prepared $n\nCOMMIT PREPARED '$c.$n';\n\\echo done $n\n"
	  if $tx{kind} eq 'prepared';
	return join ";\n", @sql, "COMMIT;\n\\echo done $n\n";
}

# The script of a client for psql: this many transactions, and some that it rolls back.
sub ledger_script
{
	my ($c, $count) = @_;
	my $client = $client[$c];
	my %now = map { $_ => { %{ $client->{rows}{$_} } } } @tables;
	my $text = "\\o /dev/null\n";

	$client->{sent} = [];
	for my $n ($client->{n} + 1 .. $client->{n} + $count)
	{
		$text .= join ";\n", 'BEGIN', "UPDATE mark SET n = -1 WHERE client = $c", make_change($c, $n, \%now), "ROLLBACK;\n" if chance(0.15);
		$text .= make_transaction($c, $n, \%now);
	}
	return $text;
}

# What psql says of a client: the last transaction that was acknowledged, the last one that
# cannot be lost, and the last one that was prepared.
sub read_acknowledged
{
	my ($c, $file) = @_;
	my ($done, $safe, $prepared) = ($client[$c]{n}) x 3;
	my %kind = map { $_->{n} => $_->{kind} } @{ $client[$c]{sent} };

	for (split /\n/, slurp_file($file))
	{
		my ($what, $n) = /^(done|prepared) (\d+)$/ or next;
		$prepared = $n if $what eq 'prepared';
		$done = $n if $what eq 'done';
		$safe = $n if $what eq 'prepared' || $kind{$n} ne 'asynchronous';
	}
	return ($done, $safe, $prepared);
}

# After recovery: end the transactions that are still prepared, see how far each client has
# come, and what its rows must be.  The files are those of psql.  Returns faults.
sub ledger_settle
{
	my ($node, $lossless, @files) = @_;
	my @faults;
	my @known = map { [ read_acknowledged($_, $files[$_]) ] } 0 .. $#files;

	for my $gid (split /\n/, pv_sql($node, 'SELECT gid FROM pg_prepared_xacts ORDER BY gid'))
	{
		my ($c, $n) = split /\./, $gid;
		my $end = $known[$c][2] == $n || chance(0.5) ? 'COMMIT' : 'ROLLBACK';
		pv_sql($node, "$end PREPARED '$gid'");
		$ledger_seen{prepared}++;
	}
	for (split /\n/, pv_sql($node, 'SELECT client, n FROM mark ORDER BY client'))
	{
		my ($c, $n) = split /\|/;
		my $client = $client[$c];
		my ($done, $safe) = @{ $known[$c] };

		# without a crash of the server nothing is lost
		$safe = $done if $lossless && $done > $safe;
		push @faults, "client $c: transaction $safe was acknowledged, but the last one is $n" if $n < $safe;
		push @faults, "client $c: transaction $n was not acknowledged, the last one was $done" if $n > ($done > $safe ? $done : $safe) + 1;
		$ledger_seen{acknowledged} += ($n < $done ? $n : $done) - $client->{n};
		$ledger_seen{doubtful}++ if $n > $done;
		$ledger_seen{asynchronous_lost} += $done - $n if $n < $done;
		for my $tx (grep { $_->{n} <= $n } @{ $client->{sent} })
		{
			for (@{ $tx->{did} })
			{
				my ($name, $id, $v) = @$_;
				if (defined $v) { $client->{rows}{$name}{$id} = $v; }
				else { delete $client->{rows}{$name}{$id}; }
			}
			$balance{$_} += $tx->{add}{$_} for keys %{ $tx->{add} };
			$client->{option} = $tx->{option} if defined $tx->{option};
		}
		$client->{n} = $n;
		$client->{sent} = [];
	}
	return @faults;
}

# The rows of a table as text, by the ledger
sub expected_rows
{
	my ($name) = @_;
	my %all = map { %{ $_->{rows}{$name} } } @client;
	return map { my $p = chr(97 + $all{$_} % 26); "$_ $all{$_} $p $p $table{$name}{width}" } sort { $a <=> $b } keys %all;
}

my $row = q{concat_ws(' ', id, v, left(pad, 1), right(pad, 1), length(pad))};
my %plan = (
	'sequential scan' => [ 'id > 0', 'enable_indexscan', 'enable_indexonlyscan', 'enable_bitmapscan' ],
	'index scan' => [ 'id > 0', 'enable_seqscan', 'enable_bitmapscan' ],
	'bitmap scan' => [ 'id > 0', 'enable_seqscan', 'enable_indexscan', 'enable_indexonlyscan' ],
	'scan of the other index' => [ 'v > 0', 'enable_seqscan', 'enable_bitmapscan' ]);

# The rows that the server has and the ledger has not, or the other way around
sub differences
{
	my ($node, $name) = @_;
	my %expected = map { $_ => 1 } expected_rows($name);
	my @more;
	for (split /\n/, pv_sql($node, "SELECT $row FROM $name ORDER BY id"))
	{
		push @more, $_ if !delete $expected{$_};
	}
	return 'too many: ' . join(', ', splice @more, 0, 5) . '; missing: ' . join(', ', grep { defined } (sort keys %expected)[ 0 .. 4 ]);
}

# Compare the rows of all tables with the ledger, by each kind of scan, with one query for
# all.  Returns faults.
sub ledger_findings
{
	my ($node) = @_;
	my (@sql, @faults, %seen);

	for my $name (@tables)
	{
		for my $plan (sort keys %plan)
		{
			next if $plan =~ /other/ && $name !~ /main|tail/;
			my ($where, @off) = @{ $plan{$plan} };
			push @sql, map({ "SET $_ = off" } @off), "SELECT '$name', '$plan', md5(coalesce(string_agg(r, ',' ORDER BY id), ''))
				FROM (SELECT id, $row AS r FROM $name WHERE $where OFFSET 0) x", 'RESET ALL';
		}
		push @sql, 'SET enable_seqscan = off', 'SET enable_bitmapscan = off',
		  "SELECT '$name', 'index-only scan', md5(coalesce(string_agg(id::text, ',' ORDER BY id), '')) FROM (SELECT id FROM $name WHERE id > 0 OFFSET 0) x", 'RESET ALL';
	}
	my %md5 = map { my @rows = expected_rows($_); ($_ => md5_hex(join ',', @rows), "$_ only" => md5_hex(join ',', map { /^(\d+)/ } @rows)) } @tables;
	for (split /\n/, pv_sql($node, join ";\n", @sql))
	{
		my ($name, $plan, $md5) = split /\|/;
		next if $md5 eq $md5{ $plan =~ /only/ ? "$name only" : $name };
		push @faults, "$name: the $plan finds other rows than the ledger; " . ($seen{$name}++ ? '' : differences($node, $name));
	}
	my $expected = join ' ', map { $balance{$_} } 1 .. $accounts;
	my $got = pv_sql($node, q{SELECT string_agg(balance::text, ' ' ORDER BY id) FROM account});
	push @faults, "the accounts have $got, the ledger has $expected" if $got ne $expected;
	return @faults;
}

# The option parvacuum.workers of the table "option", by the ledger
sub ledger_workers { return $client[0]{option}; }

1;
