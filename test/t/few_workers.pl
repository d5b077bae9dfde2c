# A server with too few background workers: fewer start than planned, or none, or not
# even the background leader; and two runs that share parvacuum.max_workers.

use strict;
use warnings FATAL => 'all';

use FindBin;
use lib $FindBin::RealBin;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use PvTest;
use Test::More;

my $node = pv_node('few');
my $made = 0;

# Start the server with this many background workers; core's launcher and ours take one
# each.
sub restart_with
{
	my ($processes, %settings) = @_;
	$node->append_conf('postgresql.conf', join '', "max_worker_processes = $processes\n",
		map { "$_ = $settings{$_}\n" } sort keys %settings);
	if ($made++) { $node->restart; }
	else { $node->start; pv_setup($node); }
	return;
}

# One slot is taken by the logical replication launcher, one by our launcher, and one by
# the background leader.
for my $free (0, 1, 2)
{
	restart_with(3 + $free);
	is(pv_trial($node, "'few', 'updates', 6000, 3, 'truncate small_store', ARRAY['btree', 'gin', 'hash'], 400"),
		'', "$free slots for workers: the result is that of stock VACUUM");
	is($node->safe_psql('postgres', q{SELECT result->>'workers_planned', result->>'workers_launched' FROM oracle.run}),
		"3|$free", "$free slots for workers: that many have started");
}

restart_with(1);
$node->safe_psql('postgres', 'DROP TABLE stock; CREATE TABLE other AS SELECT 1 AS i');
my ($rc, $out, $err) = $node->psql('postgres', "\\set VERBOSITY verbose\nSELECT parvacuum_run('ours')");
isnt($rc, 0, 'no slot for the background leader: an error');
like($err, qr/ERROR:  53\w\w\w:/, 'no slot for the background leader: the SQLSTATE');
like($err, qr/HINT:.*max_worker_processes/, 'no slot for the background leader: the hint');
is($node->safe_psql('postgres', 'VACUUM ours; SELECT 1'), 1, 'no slot for the background leader: stock VACUUM succeeds');

# Two runs, six slots
restart_with(32, 'parvacuum.max_workers' => 6);
$node->safe_psql('postgres', q{
	CREATE TABLE a (id int, pad text) WITH (autovacuum_enabled = off);
	INSERT INTO a SELECT i, repeat('x', 400) FROM generate_series(1, 8000) i;
	CREATE TABLE b (LIKE a) WITH (autovacuum_enabled = off);
	INSERT INTO b SELECT * FROM a;
	DELETE FROM a WHERE id % 3 = 0;
	DELETE FROM b WHERE id % 3 = 0;
});
my $holder = pv_hold($node, 'a');
my $slow = pv_start_run($node, "SELECT workers_launched FROM parvacuum_run('a', workers => 4) WHERE relid = 'a'::regclass",
	'parvacuum.wait_at' => 'scan');
ok(pv_await($node, q{SELECT count(*) FROM pg_stat_activity WHERE backend_type = 'parallel worker'}, 4), 'the first run has four workers');
is($node->safe_psql('postgres', q{SELECT workers_launched FROM parvacuum_run('b', workers => 4) WHERE relid = 'b'::regclass}), 2, 'the second run has two workers');
$holder->quit;
ok(pv_finish($slow), 'the first run succeeds') or diag $slow->{err};
is($slow->{out}, 4, 'the first run had four workers');
is($node->safe_psql('postgres', q{SELECT workers_launched FROM parvacuum_run('b', workers => 6) WHERE relid = 'b'::regclass}), 6, 'all six workers are available afterwards');
is(pv_findings($node, $_), '', "$_ is whole") for qw(a b);

# Workers that the server does not start are available to others at once.  Those that did
# start do all of the work, the upper levels of the free space map included.
$node->safe_psql('postgres', q{
	CREATE TABLE e (LIKE a) WITH (autovacuum_enabled = off);
	INSERT INTO e SELECT * FROM a;
	CREATE INDEX ON e (id);
	DELETE FROM e WHERE id % 5 = 0});
my $root = q{SELECT fsm_page_contents(get_raw_page('e', 'fsm', 0)) LIKE '0: %'};
is($node->safe_psql('postgres', $root), 'f', 'the root of the free space map is not up to date');
my $gate = $node->background_psql('postgres');
$gate->query_safe('SELECT pg_advisory_lock(28790)');
my $few = pv_start_run($node, "SELECT workers_launched FROM parvacuum_run('e', workers => 5) WHERE relid = 'e'::regclass",
	max_parallel_workers => 1, 'parvacuum.wait_at' => 'leader\ scan');
ok(pv_await($node, q{SELECT count(*) FROM pg_stat_activity WHERE backend_type = 'parvacuum background leader' AND wait_event = 'advisory'}, 1),
	'the leader waits, and has started its workers');
is($node->safe_psql('postgres', q{SELECT workers_launched FROM parvacuum_run('b', workers => 5) WHERE relid = 'b'::regclass}), 5, 'those that it did not get are available');
$gate->quit;
ok(pv_finish($few), 'the run with one worker succeeds') or diag $few->{err};
is($few->{out}, 1, 'the run had one worker');
is($node->safe_psql('postgres', $root), 't', 'the root of the free space map is up to date');

# A worker scans the table and makes its visibility map while the leader waits.  pg_class and
# the result have its work afterwards.
$node->safe_psql('postgres', q{
	CREATE TABLE c (id int, pad text) WITH (autovacuum_enabled = off);
	INSERT INTO c SELECT i, repeat('x', 400) FROM generate_series(1, 8000) i;
	SELECT pg_current_xact_id();
});
$gate = $node->background_psql('postgres');
$gate->query_safe('SELECT pg_advisory_lock(28790)');
my $behind = pv_start_run($node, "SELECT workers_launched, wal_records >= pages_scanned, buffers_hit + buffers_read >= pages_scanned FROM parvacuum_run('c', workers => 1) WHERE relid = 'c'::regclass",
	'parvacuum.wait_at' => 'leader\ scan');
ok(pv_await($node, q{SELECT count(*) FROM pg_stat_activity WHERE backend_type = 'parvacuum background leader' AND wait_event = 'advisory'}, 1),
	'the leader waits');
ok(pv_await($node, q{SELECT count(*) FROM pg_visibility_map('c') WHERE NOT all_visible}, 0), 'the worker scans all pages');
$gate->quit;
ok(pv_finish($behind), 'the run succeeds') or diag $behind->{err};
is($behind->{out}, '1|t|t', 'the result has the WAL and the buffers of the worker');
is($node->safe_psql('postgres', q{SELECT relallvisible = relpages FROM pg_class WHERE oid = 'c'::regclass}), 't',
	'pg_class has the number of all-visible pages');
is($node->safe_psql('postgres', q{SELECT relfrozenxid = (SELECT min(xmin::text::bigint)::text::xid FROM c) FROM pg_class WHERE oid = 'c'::regclass}), 't',
	'pg_class has the oldest XID of the pages');
is(pv_findings($node, 'c'), '', 'c is whole');

# The same in a session that has vacuumed another table before.  It reads no catalog between
# the first heap pass and the update of pg_class, so nothing else tells it of the new map.
$node->safe_psql('postgres', 'CREATE TABLE d (LIKE c) WITH (autovacuum_enabled = off); INSERT INTO d SELECT * FROM c');
$gate = $node->background_psql('postgres');
$gate->query_safe('SELECT pg_advisory_lock(28790)');
my $session = pv_session($node);
$session->query_safe($_) for 'SET parvacuum.enabled = on', 'VACUUM b', q{SET parvacuum.wait_at = 'leader scan'};
$session->query_until(qr/begun/, "\\echo begun\nVACUUM (PARALLEL 1) d;\n");
ok(pv_await($node, q{SELECT count(*) FROM pg_visibility_map('d') WHERE NOT all_visible}, 0), 'the worker scans all pages for a session');
$gate->quit;
$session->query_safe('SELECT 1');
$session->quit;
is($node->safe_psql('postgres', q{SELECT relallvisible = relpages FROM pg_class WHERE oid = 'd'::regclass}), 't',
	'pg_class has the number of all-visible pages that the session has not seen');

# A change by the administrator affects the next run.
pv_reload_with($node, 'parvacuum.max_workers' => 1);
is($node->safe_psql('postgres', q{SELECT workers_launched FROM parvacuum_run('b', workers => 6) WHERE relid = 'b'::regclass}), 1, 'parvacuum.max_workers = 1 is in effect');

pv_no_crash($node, 'the server');
$node->stop;
done_testing();
