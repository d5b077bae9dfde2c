# A reload of the configuration during a vacuum that does not belong to a session, with
# parallel workers: the failsafe, cost limits and measurements change.  That does not
# depend on the launcher, and works for autovacuum and the scheduler.

use strict;
use warnings FATAL => 'all';

use FindBin;
use lib $FindBin::RealBin;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use PvTest;
use Test::More;

my $node = pv_node('reload');

# A page costs 100 units; 200 units each 20 ms are 10 ms for a page.
my %slow = (autovacuum_vacuum_cost_limit => 200, autovacuum_vacuum_cost_delay => '20ms');
$node->append_conf('postgresql.conf', q{
autovacuum = on
autovacuum_naptime = 1s
autovacuum_analyze_threshold = 2000000000
log_autovacuum_min_duration = 0
vacuum_cost_page_hit = 100
vacuum_cost_page_miss = 100
vacuum_cost_page_dirty = 0
parvacuum.min_parallel_pages = 0
});
$node->start;
pv_setup($node);

sub sql { return pv_sql($node, @_); }

# The lines of the log about the table, when they are there
sub entry
{
	my ($table) = @_;
	my $log = '';
	for (1 .. 10 * $PostgreSQL::Test::Utils::timeout_default)
	{
		$log .= pv_new_log($node);
		last if $log =~ /table "postgres\.public\.$table": index scans:.*?system usage/s;
		select undef, undef, undef, 0.1;
	}
	return $log;
}

my $progress = q{FROM pg_stat_progress_vacuum WHERE relid = '%s'::regclass};

# The failsafe age is never below 1.05 times autovacuum_freeze_max_age, which is 210
# million.  XIDs are compared modulo 2^32, so a young cluster can have an older table.
sub make_table
{
	my ($table, $rows) = @_;
	sql("CREATE TABLE $table (id int, pad text) WITH (autovacuum_enabled = off, parvacuum.enabled, parvacuum.workers = 2)",
		"INSERT INTO $table SELECT i, repeat('x', 900) FROM generate_series(1, $rows) i",
		"CREATE INDEX ${table}_id ON $table (id)", "CREATE INDEX ${table}_hash ON $table USING hash (id)",
		"DELETE FROM $table WHERE id % 3 = 0");

	# The vacuum begins with the next statement, and is to remove all of that.
	ok(pv_await($node, 'SELECT count(*) FROM pg_stat_activity WHERE pid <> pg_backend_pid() AND age(backend_xmin) > 0', 0), "$table: no older snapshot remains");
	sql("UPDATE pg_class SET relfrozenxid = ((pg_current_xact_id()::text::bigint - 300000000) & 4294967295)::text::xid WHERE relname = '$table'");
	return;
}

sub launcher { return sql(q{SELECT pid FROM pg_stat_activity WHERE backend_type = 'parvacuum launcher'}); }

# Two pages a second: such a scan takes longer than the tests wait for its end.
my %slower = (autovacuum_vacuum_cost_limit => 20, autovacuum_vacuum_cost_delay => '100ms');

# who: the backend type of the process. phase: its phase at the time of the reload.
sub failsafe
{
	my ($what, $who, $phase) = @_;
	my $table = 'old_' . ($what =~ s/\W+/_/gr);
	pv_new_log($node);
	pv_reload_with($node, $phase eq 'scanning heap' ? %slower : %slow);
	make_table($table, 8000);
	ok(pv_await($node, "SELECT count(*) FROM pg_stat_activity a JOIN pg_stat_progress_vacuum p USING (pid)
		WHERE relid = '$table'::regclass AND backend_type = '$who' AND phase = '$phase'", 1), "$what: the vacuum is running");
	ok(pv_await($node, q{SELECT count(*) FROM pg_stat_activity WHERE backend_type = 'parallel worker'}, 2), "$what: the vacuum has its workers");

	sql('ALTER SYSTEM SET vacuum_failsafe_age = 0', 'SELECT pg_reload_conf()');
	my $log = entry($table);
	like($log, qr/WARNING:.*"postgres\.public\.$table" as a failsafe after \d index scans/, "$what: the failsafe begins");
	like($log, qr/table "postgres\.public\.$table": index scans: \d.*?index scan bypassed by failsafe.*?engine: parvacuum, 2 parallel workers/s,
		"$what: indexes are left out");
	my $items = sql("SELECT count(*) > 0 FROM generate_series(0, oracle.nblocks('$table') - 1) b, heap_page_items(get_raw_page('$table', 'main', b)) WHERE lp_flags = 3");
	is($items, 't', "$what: dead line pointers remain");
	cmp_ok(sql("SELECT age(relfrozenxid) FROM pg_class WHERE relname = '$table'"), '<', 100_000, "$what: relfrozenxid has advanced");
	is(pv_findings($node, $table), '', "$what: the table is whole");

	sql('ALTER SYSTEM RESET vacuum_failsafe_age');
	pv_reload_with($node, autovacuum_vacuum_cost_delay => 0);
	sql("DROP TABLE $table");
	return;
}

failsafe('autovacuum', 'autovacuum worker', 'scanning heap');
failsafe('autovacuum in an index', 'autovacuum worker', 'vacuuming indexes');

# A launcher that is stopped is as good as none; one that has exited would be started
# again.
my $launcher = launcher();
END { kill 'CONT', $launcher if $launcher; }
kill 'STOP', $launcher;
failsafe('no launcher', 'autovacuum worker', 'scanning heap');

#
# All other settings that take effect, and their way back to the default
#

# A table that keeps its workers busy for long
pv_reload_with($node, %slow);
sql(q{CREATE TABLE long (id int, pad text) WITH (autovacuum_enabled = off, autovacuum_vacuum_threshold = 1, autovacuum_vacuum_scale_factor = 0, parvacuum.enabled, parvacuum.workers = 2)},
	q{INSERT INTO long SELECT i, repeat('x', 900) FROM generate_series(1, 16000) i}, 'DELETE FROM long WHERE id % 3 = 0',
	'ALTER TABLE long SET (autovacuum_enabled = on)');
my $passed = 'SELECT heap_blks_scanned ' . sprintf($progress, 'long');
ok(pv_await($node, 'SELECT count(*) ' . sprintf($progress, 'long') . q{ AND heap_blks_scanned > 0}, 1), 'autovacuum is running');
pv_new_log($node);

sub advance
{
	my ($blocks, $what) = @_;
	my $from = sql($passed) || 0;
	ok(pv_await($node, "SELECT coalesce((SELECT heap_blks_scanned >= $from + $blocks " . sprintf($progress, 'long') . '), true)', 'true'), $what);
	return;
}

# An error in a file, and a setting that is removed: no setting changes, and no process
# fails.
advance(32, 'autovacuum goes on');
$node->append_conf('postgresql.conf', "no_such_setting = 1\nautovacuum_vacuum_cost_delay = 100ms\n");
$node->reload;
advance(32, 'autovacuum goes on after a reload of a file with an error');
$node->adjust_conf('postgresql.conf', 'no_such_setting', undef);
for my $setting ('track_io_timing = on', 'parvacuum.autovacuum_cost_limit_scale = 0.5')
{
	my ($name) = $setting =~ /^(\S+)/;
	my $default = sql("SHOW $name");
	$node->append_conf('postgresql.conf', "$setting\n");
	$node->reload;
	ok($node->poll_query_until('postgres', "SELECT current_setting('$name') <> '$default'"), "$setting is in effect");
	advance(4, "autovacuum goes on with $setting");
	$node->adjust_conf('postgresql.conf', $name, undef);
	$node->reload;
	ok($node->poll_query_until('postgres', "SELECT current_setting('$name') = '$default'"), "$setting is removed");
	advance(4, "autovacuum goes on without $setting");
}
$node->adjust_conf('postgresql.conf', 'autovacuum_vacuum_cost_delay', undef);

sql(q{ALTER SYSTEM SET track_io_timing = on}, q{ALTER SYSTEM SET maintenance_io_concurrency = 3},
	$node->pg_version >= 18 ? q{ALTER SYSTEM SET track_cost_delay_timing = on} : 'SELECT 1', q{SELECT pg_reload_conf()});
advance(64, 'the settings of measurements are in effect');
sql('ALTER SYSTEM RESET autovacuum_vacuum_cost_limit', 'SELECT pg_reload_conf()');

# 200 units are the default of vacuum_cost_limit, so the vacuum does not become faster by
# that; pages that cost nothing make it faster.
sql('ALTER SYSTEM SET vacuum_cost_page_hit = 0', 'ALTER SYSTEM SET vacuum_cost_page_miss = 0', 'SELECT pg_reload_conf()');
my $log = entry('long');
like($log, qr/of table "postgres\.public\.long".*I\/O timings: read: .*system usage/s, 'times of reading are measured from then on');
like($log, qr/^\s*delay time: (?!0\.000)/m, 'times slept are measured from then on') if $node->pg_version >= 18;
is(sql('SHOW track_io_timing'), 'on', 'sessions have the setting, too');
is(pv_findings($node, 'long'), '', 'the table is whole');
kill 'CONT', $launcher;

# A session that waited here may have kept the deleted rows, so the table can be due again.
sql('DROP TABLE long');

#
# The scheduler
#
sql("ALTER SYSTEM RESET $_") for qw(vacuum_cost_page_hit vacuum_cost_page_miss);
pv_reload_with($node, 'autovacuum' => 'off', 'parvacuum.scheduler' => 'on');
failsafe('scheduler', 'parvacuum scheduler worker', 'scanning heap');

pv_no_crash($node, 'the server');
$node->stop;
done_testing();
