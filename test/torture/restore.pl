# Recovery to a point in time, at the boundaries of the records of a vacuum: each time the
# table has the rows of the transactions that had committed by then, and is whole before and
# after another vacuum.  Beside the vacuum one session commits numbered transactions, so
# that the rows are known at each LSN.

use strict;
use warnings FATAL => 'all';

use FindBin;
use lib $FindBin::RealBin, "$FindBin::RealBin/../t";
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use PvTest;
use PvTorture;
use Test::More;
use Time::HiRes qw(time);

my %done = map { $_ => 0 } qw(lsns vacuums kinds);
my %kinds;
my $names = 0;
my $per_vacuum = $ENV{PV_SECONDS} ? 25 : 3;

my $node = pv_node('primary', allows_streaming => 1, extra => [ chance(0.5) ? '-k' : '--no-sync' ]);
$node->append_conf('postgresql.conf', "wal_keep_size = '2GB'\nautovacuum = off\n" . (chance(0.5) ? "wal_consistency_checking = 'all'\nwal_compression = on\n" : ''));
$node->start;
pv_setup($node);
pv_sql($node, 'CREATE EXTENSION pg_walinspect');

# Rows whose number is in "step" have been changed by that transaction.
my $state = q{SELECT count(*), sum(hashtextextended(t::text, 0)), (SELECT count(*) FROM step) FROM restored t};
my $by_index = q{SET enable_seqscan = off; SELECT count(*), sum(hashtextextended(t::text, 0)), (SELECT count(*) FROM step) FROM restored t WHERE id > 0};

sub create
{
	my $rows = 3000 + int rand 5000;
	my @indexes = grep { chance(0.6) } 'INDEX ON restored (k)', 'INDEX ON restored USING hash (k)', 'INDEX ON restored USING gin (tags)',
	  'INDEX ON restored USING gist (at)', 'INDEX ON restored USING spgist (at)', 'INDEX ON restored USING brin (id)', 'INDEX ON restored (pad, k)';
	my $share = one_of(3, 10, 40, 95);
	my $fillfactor = one_of(50, 80, 100);
	pv_sql($node, join ";\n", qq{
		DROP TABLE IF EXISTS restored, step;
		CREATE TABLE step (n int);
		CREATE TABLE restored (id int PRIMARY KEY, k int, v int, pad text, tags int[], at point) WITH (autovacuum_enabled = off, fillfactor = $fillfactor);
		INSERT INTO restored SELECT i, i % 500, 0, repeat('x', i % 90), ARRAY[i % 7, i], point(i % 100, i) FROM generate_series(1, $rows) i},
		(map { "CREATE $_" } @indexes),
		chance(0.3) ? 'UPDATE restored SET v = v + 1 WHERE id % 3 = 0' : (),
		chance(0.3) ? 'UPDATE restored SET k = k + 1 WHERE id % 5 = 0' : (),
		"DELETE FROM restored WHERE hashint4extended(id, $names) & 127 < " . int($share * 1.28),
		chance(0.3) ? "DELETE FROM restored WHERE id > $rows / 2" : ());
	return;
}

# Vacuum the table while the numbered transactions commit.  Returns the LSNs of its records,
# by kind, and for each number of transactions the rows, with the LSN of its commit.
sub vacuum_beside
{
	my $arguments = "workers => " . int(rand 4) . ", index_cleanup => 'on', truncate => true, freeze => " . one_of('true', 'false');
	my $store = chance(0.3) ? 1 : 0;
	my $from = pv_sql($node, 'SELECT pg_current_wal_insert_lsn()');
	my @states = ([ $from, pv_sql($node, $state) ]);
	my $run = pv_start_run($node, "SELECT parvacuum_run('restored', $arguments)", vacuum_cost_delay => 5, vacuum_cost_limit => 100,
		$store ? ('parvacuum.store_limit' => 1) : ());
	my $session = pv_session($node);
	my $end = time + 20;

	while (time < $end)
	{
		$run->{handle}->pump_nb;
		last if !$run->{handle}->pumpable;
		my $n = @states;
		my $change = one_of('UPDATE restored SET v = v + 1', 'UPDATE restored SET k = k + 1', 'DELETE FROM restored');
		$session->query_safe("BEGIN; INSERT INTO step VALUES ($n); $change WHERE id % 97 = " . int(rand 97) . '; COMMIT');
		push @states, [ split /\n/, $session->query_safe("SELECT pg_current_wal_insert_lsn(); $state") ];
	}
	$session->quit;
	ok(pv_finish($run), 'the vacuum has succeeded') or diag $run->{err};
	my $to = pv_sql($node, q{SELECT pg_logical_emit_message(true, 'restore', 'x') \\g /dev/null
		SELECT pg_current_wal_flush_lsn()});
	my %records;
	push @{ $records{ $_->[0] } }, $_->[1] for map { [ split /\|/, $_, 2 ] } split /\n/, pv_sql($node, qq{
		SELECT resource_manager || ' ' || record_type, start_lsn || '|' || end_lsn FROM pg_get_wal_records_info('$from', '$to')
		WHERE resource_manager NOT IN ('XLOG', 'Standby') ORDER BY start_lsn});
	pv_sql($node, 'SELECT pg_switch_wal() \g /dev/null');
	return (\%records, \@states);
}

sub lsn
{
	my ($high, $low) = $_[0] =~ m{^(\w+)/(\w+)$} or die "no LSN: $_[0]";
	return hex($high) * 4294967296 + hex($low);
}

# Restore the backup up to a record, and check the server.
sub restore
{
	my ($backup, $record, $states, $what) = @_;
	my ($start, $end) = split /\|/, $record;
	my $new = PostgreSQL::Test::Cluster->new('restored_' . ++$names);
	my $before = chance(0.3);
	my $to = $before ? $start : $end;

	$new->init_from_backup($node, $backup);
	my $wal = $node->data_dir . '/pg_wal';
	$new->append_conf('postgresql.conf', qq{
restore_command = 'cp "$wal/%f" "%p"'
recovery_target_lsn = '$start'
recovery_target_inclusive = } . ($before ? 'off' : 'on') . qq{
recovery_target_timeline = 'current'
recovery_target_action = 'promote'
});
	append_to_file($new->data_dir . '/recovery.signal', '');
	$new->start;
	$new->poll_query_until('postgres', 'SELECT NOT pg_is_in_recovery()');

	# the last transaction whose commit had been replayed
	my @known = grep { lsn($_->[0]) <= lsn($to) } @$states;
	my $expected = pv_sql($new, 'SELECT count(*) FROM step');
	cmp_ok($expected, '>=', $#known, "$what: no transaction that had committed is lost");
	cmp_ok($expected, '<=', $#known + 1, "$what: no transaction that had not committed is there");
	my $rows = $states->[$expected][1] // 'no such state';
	is(pv_sql($new, $state), $rows, "$what: the rows are those of that moment");
	is(pv_sql($new, $by_index), $rows, "$what: so they are by an index");
	is(pv_findings($new, 'restored'), '', "$what: the table is whole");
	is($new->psql('postgres', q{SELECT parvacuum_run('restored', workers => 2, index_cleanup => 'on')}), 0, "$what: it can be vacuumed");
	is(pv_sql($new, $state), $rows, "$what: a vacuum there has lost nothing");
	is(pv_findings($new, 'restored'), '', "$what: the table is whole after it");
	pv_no_crash($new, $what);
	unlike(slurp_file($new->logfile), qr/inconsistent page/, "$what: each page was replayed with the same result");
	$new->teardown_node;
	$new->clean_node;
	$done{lsns}++;
	return;
}

my $stop = time + pv_seconds(1, 0);
my $n = 0;
do
{
	my $round = $seed + $n++;
	srand($round);
	create();
	my $backup = "backup_$n";
	$node->backup($backup);
	my ($records, $states) = vacuum_beside();
	$done{vacuums}++;

	# one record of each kind, and then others at random
	my @kinds = sort { ($kinds{$a} // 0) <=> ($kinds{$b} // 0) || $a cmp $b } keys %$records;
	for my $i (0 .. $per_vacuum - 1)
	{
		my $kind = $i < @kinds ? $kinds[$i] : one_of(@kinds);
		$kinds{$kind}++;
		restore($backup, one_of(@{ $records->{$kind} }), $states, "vacuum by seed $round, $kind");
		last if !Test::More->builder->is_passing || $i > 3 && time > $stop;
	}
	system('rm', '-rf', $node->backup_dir . "/$backup");
} while (time < $stop && Test::More->builder->is_passing);

note "$kinds{$_} of $_" for sort keys %kinds;
pv_figure($done{lsns}, 'LSNs of vacuums restored to');
pv_figure(scalar(keys %kinds), 'kinds of records at which recovery ended');
pv_figure($done{vacuums}, 'vacuums of which these were');
pv_no_crash($node, 'the primary');
$node->stop;
done_testing();
