# A cluster of Citus for the tests of test/cluster: a coordinator and workers, all on this
# machine, with parvacuum and the oracle in each, and what is on their shards.
#
# The nodes reach each other by their Unix sockets: the name of a node in Citus is the
# directory of its socket, which libpq takes for a host.  So the tests use no TCP.
package PvCluster;

use strict;
use warnings FATAL => 'all';

use Exporter 'import';
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use PvTest;

our @EXPORT = qw(pv_citus_cluster pv_citus_node pv_add_worker pv_stop_node pv_on_shards pv_shard_options pv_shard_findings);

# The settings of all nodes, where the test does not say otherwise.  Citus must be the first
# library.  It moves shards by logical replication.
my %default = (
	'shared_preload_libraries' => 'citus, parvacuum',
	'wal_level' => 'logical',
	'max_prepared_transactions' => 50,
	'shared_buffers' => '32MB',
	'citus.enable_statistics_collection' => 'off',
	'citus.node_connection_timeout' => '10s',
	'citus.shard_count' => 4);

# A server with Citus and parvacuum, started, that belongs to no cluster yet.
sub pv_citus_node
{
	my ($name, %settings) = @_;
	my $node = pv_node($name, allows_streaming => 'logical');

	# Late minor releases allow only those output plugins of others that are listed.
	my $plugins = '';
	run_log([ 'postgres', '-D', $node->data_dir, '-C', 'output_plugin_libraries' ], '>', \$plugins, '2>', \my $error);
	chomp $plugins;
	$settings{output_plugin_libraries} //= "$plugins, citus" if $plugins;

	%settings = (%default, 'citus.local_hostname' => $node->host, %settings);
	$node->append_conf('postgresql.conf', join '', map { "$_ = '$settings{$_}'\n" } sort keys %settings);
	$node->start;
	$node->safe_psql('postgres', 'CREATE EXTENSION citus');
	pv_setup($node);
	return $node;
}

# Make a server a worker of the cluster.
sub pv_add_worker
{
	my ($coordinator, $worker) = @_;
	$coordinator->safe_psql('postgres', sprintf q{SELECT citus_add_node('%s', %d)}, $worker->host, $worker->port);
	return;
}

# A coordinator and this many workers, with settings that all of them have.  Returns the
# coordinator and the workers.  The coordinator has parvacuum_cluster if that is installed.
sub pv_citus_cluster
{
	my ($name, $workers, %settings) = @_;
	my $coordinator = pv_citus_node("${name}_coordinator", %settings);
	my @workers = map { pv_citus_node("${name}_worker$_", %settings) } 1 .. $workers;

	$coordinator->safe_psql('postgres', sprintf q{SELECT citus_set_coordinator_host('%s', %d)}, $coordinator->host, $coordinator->port);
	pv_add_worker($coordinator, $_) for @workers;
	if ($coordinator->safe_psql('postgres', q{SELECT count(*) FROM pg_available_extensions WHERE name = 'parvacuum_cluster'}))
	{
		$coordinator->safe_psql('postgres', 'CREATE EXTENSION dblink; CREATE EXTENSION parvacuum_cluster');
	}
	return ($coordinator, @workers);
}

# Stop a node at once, so that the others cannot reach it.
sub pv_stop_node
{
	my ($node) = @_;
	$node->stop('immediate');
	return;
}

# What a query answers for the shards of a table, in which %s stands for the name of a shard:
# each answer after the number of its shards.
sub pv_on_shards
{
	my ($coordinator, $table, $query) = @_;
	return $coordinator->safe_psql('postgres', qq{
		SELECT string_agg(n || ': ' || result, E'\\n' ORDER BY n DESC, result)
		FROM (SELECT result, count(*) AS n FROM run_command_on_placements('$table', \$query\$$query\$query\$) GROUP BY result) AS answers});
}

# The options that the shards of a table have, and where these come from
sub pv_shard_options
{
	my ($coordinator, $table) = @_;
	return pv_on_shards($coordinator, $table, q{
		SELECT concat_ws(' ', 'enabled=' || enabled, 'workers=' || workers, 'by ' || enabled_from)
		FROM parvacuum_tables WHERE relid = '%s'::regclass});
}

# What the oracle finds in the shards of a table, empty if that is nothing
sub pv_shard_findings
{
	my ($coordinator, $table) = @_;
	return $coordinator->safe_psql('postgres', qq{
		SELECT concat_ws(' ', shardid, result) FROM run_command_on_placements('$table', \$query\$
			SELECT string_agg(f::text, ', ') FROM oracle.check_table('%s') f\$query\$)
		WHERE NOT success OR result <> ''});
}

1;
