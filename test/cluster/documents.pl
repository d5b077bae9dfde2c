# The commands of docs/clusters.md that need Citus run as they are written there, but for the names
# of the nodes in them.  documents.pl of test/t runs the others.

use strict;
use warnings FATAL => 'all';

use FindBin;
use lib $FindBin::RealBin, "$FindBin::RealBin/../t";
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use PvCluster;
use PvDocuments;
use PvTest;
use Test::More;

my %excuse = ('begun by process 4711' => 'a message');

my ($coordinator, @workers) = pv_citus_cluster('documents', 2);
my @nodes = ($coordinator, @workers);
sub sql { return $coordinator->safe_psql('postgres', join ";\n", @_); }

$_->safe_psql('postgres', 'SET citus.enable_ddl_propagation = off; CREATE DATABASE shop') for @nodes;
sql('DROP EXTENSION parvacuum_cluster, parvacuum',
	'CREATE TABLE orders (id int PRIMARY KEY, customer int)', q{SELECT create_distributed_table('orders', 'id')},
	'INSERT INTO orders SELECT i, i % 100 FROM generate_series(1, 10000) i', 'DELETE FROM orders WHERE customer < 20');

for my $block (pv_blocks('docs/clusters.md', '# Clusters', '## Foreign partitions'))
{
	next if $block->{kind} eq 'output' || pv_excused($block, %excuse);

	# in the document they are localhost:54701 to localhost:54703
	$block->{text} =~ s/localhost:5470([1-3])/$nodes[$1 - 1]->host . ':' . $nodes[$1 - 1]->port/ge;
	if ($block->{kind} eq 'sql')
	{
		pv_run_sql($coordinator, 'postgres', $block);
	}
	elsif ($block->{kind} eq 'conf')
	{
		my %want = pv_settings_of($block);
		is($_->safe_psql('postgres', 'SHOW shared_preload_libraries'), $want{shared_preload_libraries}, "$block->{file}:$block->{line}: " . $_->name . ' has these libraries') for @nodes;
	}
	else
	{
		fail("$block->{file}:$block->{line}: neither a command nor excused");
	}
}
is(join(', ', pv_unused_excuses(%excuse)), '', 'each excuse is used');
is(pv_shard_options($coordinator, 'orders'), '4: enabled=true workers=1 by table', 'the shards have the options of the document');
pv_no_crash($_, $_->name) for @nodes;
done_testing();
