# parvacuum_cluster on what is not the ordinary case: all kinds of tables of Citus, nodes that are
# disabled, have no parvacuum or are not the coordinator, roles with few rights, a standby.

use strict;
use warnings FATAL => 'all';

use FindBin;
use lib $FindBin::RealBin, "$FindBin::RealBin/../t";
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use PvCluster;
use PvTest;
use Test::More;

my ($coordinator, @workers) = pv_citus_cluster('odd', 2);
my @place = map { $_->host . ':' . $_->port } $coordinator, @workers;

sub sql { return $coordinator->safe_psql('postgres', join ";\n", @_); }

# The result of a run: for each node the number of shards of each outcome, with the error
sub run_of
{
	my ($table, @settings) = @_;
	my $out = sql(@settings, qq{
		SELECT concat_ws(' ', node, outcome, count(*), regexp_replace(error, '_\\d+', '', 'g'))
		FROM parvacuum_run_cluster('$table', shards_at_once_per_node => 3)
		GROUP BY node, outcome, regexp_replace(error, '_\\d+', '', 'g') ORDER BY node});
	$out =~ s/\Q$place[$_]\E/node $_/g for 0 .. $#place;
	return $out;
}

# All kinds of tables
sql(q{
	CREATE TABLE dist (i int, t text);
	SELECT create_distributed_table('dist', 'i', colocate_with => 'none');
	CREATE TABLE everywhere (i int);
	SELECT create_reference_table('everywhere');
	CREATE TABLE here (i int);
	SELECT citus_add_local_table_to_metadata('here');
	SET citus.enable_schema_based_sharding = on;
	CREATE SCHEMA "tenant %s ?";
	CREATE TABLE "tenant %s ?"."it's" (i int);
	SET citus.shard_replication_factor = 2;
	CREATE TABLE twice (i int);
	SELECT create_distributed_table('twice', 'i', colocate_with => 'none');
	RESET citus.shard_replication_factor;
	CREATE TABLE parts (i int, d int) PARTITION BY LIST (d);
	CREATE TABLE "part %1$s 'x" PARTITION OF parts FOR VALUES IN (1);
	CREATE TABLE part2 PARTITION OF parts FOR VALUES IN (2);
	SELECT create_distributed_table('parts', 'i', colocate_with => 'none')});
is(run_of('dist'), "node 1 done 2\nnode 2 done 2", 'a distributed table');
is(run_of('everywhere'), "node 0 done 1\nnode 1 done 1\nnode 2 done 1", 'a reference table');
is(run_of('here'), 'node 0 done 1', 'a table that is on the coordinator only');
like(run_of(q{"tenant %s ?"."it''s"}), qr/^node \d done 1$/, 'a table of a schema that is a shard');
is(run_of('twice'), "node 1 done 4\nnode 2 done 4", 'each shard is on two nodes');
is(run_of('parts'), "node 1 done 4\nnode 2 done 4", 'partitions');
is(run_of('"part %1$s \'\'x"'), "node 1 done 2\nnode 2 done 2", 'one of them');
if (sql(q{SELECT count(*) FROM pg_available_extensions WHERE name = 'citus_columnar'}))
{
	sql(q{
		CREATE EXTENSION IF NOT EXISTS citus_columnar;
		CREATE TABLE col (i int) USING columnar;
		SELECT create_distributed_table('col', 'i', colocate_with => 'none')});
	is(run_of('col'), "node 1 skipped 2\nnode 2 skipped 2", 'a columnar table');
}

# A partitioned table that Citus does not know, with a partition here and one on a foreign server
sql(q{CREATE EXTENSION postgres_fdw},
	sprintf(q{CREATE SERVER "%s" FOREIGN DATA WRAPPER postgres_fdw OPTIONS (host '%s', port '%s', dbname 'postgres')}, $place[1], $workers[0]->host, $workers[0]->port),
	qq{CREATE USER MAPPING FOR PUBLIC SERVER "$place[1]"});
$workers[0]->safe_psql('postgres', 'CREATE TABLE plain2 (i int)');
sql('CREATE TABLE plain (i int) PARTITION BY LIST (i)', 'CREATE TABLE plain1 PARTITION OF plain FOR VALUES IN (1)',
	qq{CREATE FOREIGN TABLE plain2 PARTITION OF plain FOR VALUES IN (2) SERVER "$place[1]"});
is(run_of('plain'), qq{"node 1" done 1\nnode 0 done 1}, 'partitions here and on a foreign server that has the name of a node');
sql('DROP FOREIGN TABLE plain2');

# Results belong to what was asked, although some nodes cannot be asked.
is(sql(qq{SELECT string_agg(place || ' ' || success || ' ' || CASE WHEN success THEN result ELSE '' END, ', ' ORDER BY place)
	FROM parvacuum_cluster_execute(ARRAY['$place[2]', 'none', '$place[0]', '$place[2]', '$place[1]'], ARRAY['SELECT 1', 'SELECT 2', 'SELECT 3', 'SELECT 4', 'SELECT 5'])}),
	'1 true 1, 2 false , 3 true 3, 4 true 4, 5 true 5', 'results have the places of their commands');

# Roles
sql(q{CREATE ROLE other LOGIN}, q{CREATE SCHEMA closed}, 'ALTER EXTENSION dblink SET SCHEMA closed');
is(run_of('dist', 'SET SESSION AUTHORIZATION other'), "node 1 failed 2 permission denied to vacuum table \"dist\"\nnode 2 failed 2 permission denied to vacuum table \"dist\"",
	'a role may do no more than on the nodes');
is(sql('SET SESSION AUTHORIZATION other', q{SELECT count(*), count(error) FROM parvacuum_cluster_cap()}), '3|0', 'it may see all nodes');
is(sql('SET SESSION AUTHORIZATION other', q{SELECT count(error) FROM parvacuum_cluster_cap(1)}), '3', 'but not change them');
sql(q{SELECT run_command_on_all_nodes('GRANT ALTER SYSTEM ON PARAMETER parvacuum.max_workers TO other')});
is(sql('SET SESSION AUTHORIZATION other', q{SELECT error, count(*) FROM parvacuum_cluster_cap(7) GROUP BY 1}), 'permission denied for function pg_reload_conf|3', 'a change that does not take effect is an error');
my $lock = pv_session($workers[0]);
$lock->query_safe(q{SET citus.enable_manual_changes_to_shards = on});
$lock->query_safe(q{BEGIN; LOCK } . sql(qq{SELECT min(shard) FROM parvacuum_cluster_shards('dist') WHERE node = '$place[1]'}));
my ($rc, $out, $err) = $coordinator->psql('postgres', q{SET statement_timeout = '2s'; SELECT FROM parvacuum_run_cluster('dist')});
like($err, qr/^psql:.*ERROR:  canceling statement due to statement timeout$/m, 'a timeout while a shard is locked');
my $started = pv_start_run($coordinator, q{SELECT count(*) FROM parvacuum_run_cluster('dist') WHERE outcome = 'done'});
ok(pv_await($workers[0], q{SELECT count(*) FROM pg_stat_activity WHERE query LIKE '%parvacuum_run(%' AND state = 'active' AND backend_type = 'client backend' AND pid <> pg_backend_pid()}, 1), 'a run waits for a lock');
is(sql(q{SET lock_timeout = '10s'}, "SELECT citus_set_node_property('${\ $workers[1]->host}', ${\ $workers[1]->port}, 'shouldhaveshards', true)",
	"SELECT citus_activate_node('${\ $workers[1]->host}', ${\ $workers[1]->port}) > 0", 'CREATE TABLE during (i int)', q{SELECT create_distributed_table('during', 'i', colocate_with => 'none')}), "\nt\n",
	'Citus can change its nodes and tables during a run');
$lock->query_safe('COMMIT');
$lock->quit;
ok(pv_finish($started), 'the run goes on');
is($started->{out}, 4, 'all shards are vacuumed');

# A worker, where Citus has created the extension as well, as the one that is asked
is($workers[0]->safe_psql('postgres', q{SELECT count(*), count(DISTINCT node) FROM parvacuum_run_cluster('dist') WHERE outcome = 'done'}), '4|2', 'a worker can do it as well');
is($workers[0]->safe_psql('postgres', q{SELECT count(*), count(node_error) FROM (SELECT DISTINCT node, node_error FROM parvacuum_cluster_tables) t}), '3|0', 'and see all nodes');

# A node that is disabled, and one without parvacuum
sql(q{DROP TABLE dist, parts, during, here; DROP SCHEMA "tenant %s ?" CASCADE; DROP TABLE IF EXISTS col});
sql("SELECT citus_disable_node('${\ $workers[1]->host}', ${\ $workers[1]->port}, synchronous => true)");
is(run_of('twice'), "node 1 done 4\nnode 2 failed 4 the node is disabled", 'a disabled node does not keep the others from being vacuumed');
is(sql(qq{SELECT node_error FROM parvacuum_cluster_history WHERE node = '$place[2]'}), 'the node is disabled', 'it has a row in the views');
sql("SELECT citus_activate_node('${\ $workers[1]->host}', ${\ $workers[1]->port})");

# A standby of the coordinator.  The node that was disabled has lost its shards.
$coordinator->backup('b');
my $standby = PostgreSQL::Test::Cluster->new('odd_standby');
$standby->init_from_backup($coordinator, 'b', has_streaming => 1);
$standby->start;
pv_catch_up($coordinator, $standby);
is($standby->safe_psql('postgres', q{SELECT count(*), count(*) FILTER (WHERE outcome = 'done') FROM parvacuum_run_cluster('twice')}), '4|4', 'a standby of the coordinator can vacuum the shards of workers');
$standby->stop;

# The coordinator does not belong to the cluster.
sql('DROP TABLE everywhere', "SELECT citus_remove_node('${\ $coordinator->host}', ${\ $coordinator->port})");
is(sql(q{SELECT string_agg(kind, ' ' ORDER BY kind) FROM parvacuum_cluster_nodes() WHERE active}), 'citus citus local', 'a coordinator that is no node of Citus is a node');
is(run_of('twice'), 'node 1 done 4', 'and can have the others vacuum');
is(sql(q{SELECT node_error FROM parvacuum_cluster_tables WHERE node = 'local' LIMIT 1}), '', 'and is in the views');

pv_no_crash($_, $_->name) for $coordinator, @workers;
done_testing();
