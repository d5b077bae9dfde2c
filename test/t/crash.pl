# A server crashes during a vacuum and recovers.  A standby replays vacuums while it is
# read, and compares each page with the image that the primary has logged.

use strict;
use warnings FATAL => 'all';

use FindBin;
use lib $FindBin::RealBin;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use PvTest;
use Test::More;

my $primary = pv_node('primary', allows_streaming => 1);
$primary->append_conf('postgresql.conf', "wal_consistency_checking = 'all'\nwal_keep_size = '2GB'\n");
$primary->start;
pv_setup($primary);
$primary->backup('base');

# The standby's queries need the rows as long as they run.
my $standby = PostgreSQL::Test::Cluster->new('standby');
$standby->init_from_backup($primary, 'base', has_streaming => 1);
$standby->append_conf('postgresql.conf', "max_standby_streaming_delay = -1\n");
$standby->start;

#
# Crashes
#
# The leader is held when it begins with a phase, while its workers do the work.
my $run = "SELECT workers_launched FROM parvacuum_run('ours', workers => 2, index_cleanup => 'on', disable_page_skipping => true) WHERE relid = 'ours'::regclass";

pv_sql($primary, "\\o /dev/null\nSELECT * FROM oracle.make_twins('updates', 8000, ARRAY['btree', 'gist'], 400) \\gexec\n");
for my $phase ('scanning heap', 'vacuuming indexes', 'vacuuming heap')
{
	my $holder = pv_hold($primary, 'ours');
	my $started = pv_start_run($primary, $run, 'parvacuum.wait_at' => "leader\\ $pv_place{$phase}");
	pv_await_held($primary, 1, $phase);
	is(pv_sql($primary, 'SELECT phase FROM pg_stat_progress_vacuum'), $phase, "$phase: the run shows the phase");
	ok(pv_await($primary, "SELECT count(*) FROM parvacuum_progress WHERE phase = 'waiting for others'", 2), "$phase: the workers have done their work");
	$primary->stop('immediate');
	$holder->quit;
	ok(!pv_finish($started), "$phase: the run fails");
	$primary->start;
	is(pv_findings($primary, 'ours'), '', "$phase: after recovery the table is whole");
}

# With FREEZE. Without it, from 16 on, stock VACUUM freezes pages on which it has
# something to prune, and the table has no such pages any more.
pv_sql($primary, 'VACUUM (INDEX_CLEANUP on, FREEZE, DISABLE_PAGE_SKIPPING) stock');
is(pv_sql($primary, $run =~ s{\) WHERE}{, freeze => true) WHERE}r), 2, 'a run after the crashes succeeds');
is(pv_differences($primary), '', 'the table equals the twin that stock VACUUM has vacuumed');

#
# Replay
#

sub standby_is_same
{
	my ($what) = @_;
	my $digest = q{
		SELECT l, oracle.rows_digest(l), md5(string_agg(oracle.line_pointers(l, blk), '' ORDER BY blk))
		FROM unnest(ARRAY['ours', 'stock', oracle.toast_of('ours')]::regclass[]) l, generate_series(0, oracle.nblocks(l) - 1) blk
		GROUP BY l};

	pv_catch_up($primary, $standby);
	is(pv_sql($standby, $digest), pv_sql($primary, $digest),
		"$what: the standby has the same rows and line pointers");
	is(pv_sql($standby, q{
		SELECT f.* FROM oracle.leaves('ours') l, oracle.check_heap(l) f;
		SELECT bt_index_check(indexrelid, true)::text FROM pg_index i JOIN pg_class c ON c.oid = indexrelid
		WHERE indrelid = 'ours'::regclass AND relam = (SELECT oid FROM pg_am WHERE amname = 'btree')}) =~ s/\n//gr,
		'', "$what: the tables are whole on the standby");
	return;
}

for my $kind (qw(scattered updates aborted multixacts tail gaps frozen toast))
{
	my ($rows, $width) = $kind eq 'toast' ? (300, 3000) : (2500, 300);
	for (['truncate', q{'btree', 'hash', 'gist'}], ['freeze small_store no_truncate', q{'btree', 'gin', 'spgist', 'brin'}])
	{
		my ($wishes, $indexes) = @$_;
		my $what = "$kind, $wishes";
		is(pv_trial($primary, "'$kind', '$kind', $rows, 3, '$wishes', ARRAY[$indexes], $width"),
			'', "$what: no fault on the primary");
		standby_is_same($what);
	}
}

#
# A query on the standby still needs the rows: replay must wait for it.
#
pv_sql($primary, q{
	CREATE TABLE seen (id int, v int) WITH (autovacuum_enabled = off);
	INSERT INTO seen SELECT i, 0 FROM generate_series(1, 50000) i;
	CREATE INDEX ON seen (id);
	SELECT parvacuum_run('seen', workers => 2);
});
my $digit = 0;
for my $statement ('DELETE FROM seen', 'UPDATE seen SET v = v + 1')
{
	for my $options ('', ', freeze => true')
	{
		my $change = "$statement WHERE id % 10 = " . $digit++;

		pv_catch_up($primary, $standby);
		my $count = 'SELECT count(*), sum(v) FROM seen';
		my $reader = pv_session($standby);
		my $before = $reader->query_safe("BEGIN ISOLATION LEVEL REPEATABLE READ; $count");
		pv_sql($primary, $change);
		pv_sql($primary, "SELECT parvacuum_run('seen', workers => 2, index_cleanup => 'on'$options)");
		ok($standby->poll_query_until('postgres',
			q{SELECT count(*) = 1 FROM pg_stat_activity WHERE backend_type = 'startup' AND wait_event = 'RecoveryConflictSnapshot'}),
			"$change$options: replay waits for a reader");
		is($reader->query_safe($count), $before, "$change$options: the reader sees the same rows");
		is($reader->query_safe("SET enable_seqscan = off; $count WHERE id > 0"), $before, "$change$options: also by the index");
		$reader->query_safe('COMMIT');
		$reader->quit;
	}
}
pv_catch_up($primary, $standby);
is(pv_sql($standby, 'SELECT count(*), sum(v) FROM seen'),
	pv_sql($primary, 'SELECT count(*), sum(v) FROM seen'), 'afterwards the standby has the rows of the primary');

#
# No vacuum runs on the standby itself.
#
for my $sql (q{SELECT parvacuum_run('seen')}, q{CALL parvacuum('seen')})
{
	my ($rc, $out, $err) = $standby->psql('postgres', $sql);
	isnt($rc, 0, "$sql fails on the standby");
	like($err, qr/recovery/, 'the error says that the server is in recovery');
}

pv_no_crash($standby, 'the standby');
unlike(slurp_file($standby->logfile), qr/inconsistent page/, 'each page was replayed with the same result');

# A promoted server can use what the vacuums have left.
$standby->promote;
is(pv_findings($standby, $_), '', "$_ is whole on the promoted standby") for qw(ours seen);
like(pv_sql($standby, "SELECT workers_launched FROM parvacuum_run('seen', workers => 2) WHERE relid = 'seen'::regclass"), qr/^2$/, 'the promoted standby can vacuum the table');

$standby->stop;
$primary->stop;

#
# A vacuum that logs nothing, just after a switch to another WAL segment: it must not ask
# the WAL writer to flush a position that does not exist.
#
my $quiet = pv_node('quiet');
$quiet->append_conf('postgresql.conf', "wal_level = minimal\nmax_wal_senders = 0\nwal_buffers = 1MB\n");
$quiet->start;
pv_sql($quiet, q{
	CREATE EXTENSION parvacuum;
	CREATE TABLE t AS SELECT i, repeat('x', 500) AS pad FROM generate_series(1, 5000) i;
	VACUUM (FREEZE) t;
	CHECKPOINT});
for (1 .. 5)
{
	my ($rc, $out, $err) = $quiet->psql('postgres', q{
		SET parvacuum.enabled = on;
		SELECT pg_switch_wal() \g /dev/null
		VACUUM (PARALLEL 0, DISABLE_PAGE_SKIPPING) t;
		SELECT pg_sleep(0.4)}, on_error_stop => 1);
	is($rc, 0, 'a vacuum that logs nothing succeeds') or last;
}
unlike(slurp_file($quiet->logfile), qr/past end of|PANIC/, 'the WAL writer reports no error');
pv_no_crash($quiet, 'the server');
$quiet->stop;
done_testing();
