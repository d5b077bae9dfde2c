# pg_database knows how old the oldest table of a database is: once in each pass of the
# scheduler, also if nothing had to be vacuumed; and if that fails, the next pass does it.

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
parvacuum.scheduler_workers = 1
log_error_verbosity = default
});
$node->start;
pv_setup($node);

sub sql { return $node->safe_psql('postgres', join ";\n", @_); }
my $age = q{SELECT age(datfrozenxid) FROM pg_database WHERE datname = 'postgres'};

# A table that is older than all others by 1000 transactions, and holds back the database.
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
cmp_ok(sql($age), '>=', 1000, 'it is gone, and nobody has looked');
pv_reload_with($node, 'parvacuum.scheduler' => 'on');
until_young('a pass that finds nothing to vacuum');
is(sql('SELECT vacuums, errors FROM parvacuum_scheduler_stats()'), '0|0', 'as it was');
pv_reload_with($node, 'parvacuum.scheduler' => 'off');
ok(pv_await($node, q{SELECT count(*) FROM pg_stat_activity WHERE backend_type = 'parvacuum scheduler worker'}, 0), 'no process is left');

# A session is in the way.  The end of a pass waits a moment for it, and then leaves that to
# the next one; or it is cancelled.
make_oldest('second');
sql('DROP TABLE second');
my $session = $node->background_psql('postgres');
$session->query_safe('BEGIN; LOCK TABLE pg_database IN SHARE MODE');
pv_reload_with($node, 'parvacuum.scheduler' => 'on');
my $waits = q{FROM pg_locks JOIN pg_stat_activity USING (pid) WHERE relation = 'pg_database'::regclass AND NOT granted AND backend_type = 'parvacuum scheduler worker'};
ok(pv_await($node, "SELECT count(*) $waits", 1), 'the end of a pass waits');
ok(pv_await($node, "SELECT count(*) $waits", 0), 'but not for long');
unlike(slurp_file($node->logfile), qr/lock timeout/, 'of which the log does not tell');
ok($node->poll_query_until('postgres', "SELECT coalesce(bool_or(pg_cancel_backend(pid)), false) $waits"), 'the next one is cancelled');
ok($node->wait_for_log(qr/ERROR:  canceling statement due to user request/), 'as the log says');
$session->query_safe('COMMIT');
$session->quit;
until_young('a later pass does it');
unlike(slurp_file($node->logfile), qr/exited with exit code/, 'no process ended by that');

pv_no_crash($node, 'the server');
$node->stop;
done_testing();
