# Each database scan of the scheduler ends with an update of pg_database by the oldest
# table, also if there was nothing to vacuum.  If that fails, the next scan does it.

use strict;
use warnings FATAL => 'all';

use FindBin;
use lib $FindBin::RealBin;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use PvTest;
use Test::More;

my $node = pv_node('frozenxid');
$node->append_conf('postgresql.conf', q{
autovacuum_naptime = 1s
autovacuum_vacuum_threshold = 1000000
autovacuum_analyze_threshold = 1000000
autovacuum_vacuum_insert_threshold = -1
parvacuum.scheduler_workers = 1
log_error_verbosity = default
});
$node->start;
pv_setup($node);

sub sql { return pv_sql($node, join ";\n", @_); }
my $age = q{SELECT age(datfrozenxid) FROM pg_database WHERE datname = 'postgres'};

# A table that is older than all others by 1000 transactions, and holds back the database
sub make_oldest
{
	my ($table) = @_;
	sql("CREATE TABLE $table (i int)");
	sql(q{DO $$ BEGIN FOR i IN 1 .. 1000 LOOP PERFORM txid_current(); COMMIT; END LOOP; END $$});
	sql("\\o /dev/null\nSELECT format('VACUUM (FREEZE) %s', oid::regclass) FROM pg_class WHERE relkind IN ('r', 'm') AND relname <> '$table' AND relpersistence <> 't' \\gexec");
	cmp_ok(sql($age), '>=', 1000, "$table is the oldest");
	return;
}
sub until_young
{
	my ($what) = @_;
	ok(pv_await($node, "SELECT ($age) < 1000", 'true'), $what) or diag sql($age), pv_processes($node);
	return;
}

sql('CREATE TABLE idle (i int) WITH (parvacuum.enabled)');
make_oldest('first');
sql('DROP TABLE first');
cmp_ok(sql($age), '>=', 1000, 'the table is dropped, and pg_database is unchanged');
pv_reload_with($node, 'parvacuum.scheduler' => 'on');
until_young('a database scan without anything to vacuum updates pg_database');
is(sql('SELECT vacuums, errors FROM parvacuum_scheduler_stats()'), '0|0', 'no table was vacuumed');
pv_reload_with($node, 'parvacuum.scheduler' => 'off');
ok(pv_await($node, q{SELECT count(*) FROM pg_stat_activity WHERE backend_type = 'parvacuum scheduler worker'}, 0), 'no worker remains');

# A session is in the way.  The end of a scan waits for it for a moment, and then leaves
# the update to the next scan; or it is canceled.
make_oldest('second');
sql('DROP TABLE second');
my $session = $node->background_psql('postgres');
$session->query_safe('BEGIN; LOCK TABLE pg_database IN SHARE MODE');
pv_reload_with($node, 'parvacuum.scheduler' => 'on');
my $waits = q{FROM pg_locks JOIN pg_stat_activity USING (pid) WHERE relation = 'pg_database'::regclass AND NOT granted AND backend_type = 'parvacuum scheduler worker'};
ok(pv_await($node, "SELECT count(*) $waits", 1), 'the end of a database scan waits');
ok(pv_await($node, "SELECT count(*) $waits", 0), 'the worker ends within seconds');
unlike(slurp_file($node->logfile), qr/lock timeout/, 'the timeout is not logged');
ok($node->poll_query_until('postgres', "SELECT coalesce(bool_or(pg_cancel_backend(pid)), false) $waits"), 'the next worker is canceled');
ok($node->wait_for_log(qr/ERROR:  canceling statement due to user request/), 'the cancel is logged');
$session->query_safe('COMMIT');
$session->quit;
until_young('a later database scan updates pg_database');
unlike(slurp_file($node->logfile), qr/exited with exit code/, 'no worker has failed');

pv_no_crash($node, 'the server');
$node->stop;
done_testing();
