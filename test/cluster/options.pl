# Options of distributed tables: they reach the shards that are there, and those that are made,
# moved and split later, on all nodes; and then Citus's VACUUM is ours on each shard.

use strict;
use warnings FATAL => 'all';

use FindBin;
use lib $FindBin::RealBin, "$FindBin::RealBin/../t";
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use PvCluster;
use PvTest;
use Test::More;

my ($coordinator, @workers) = pv_citus_cluster('options', 2);
my $added;

sub sql { return $coordinator->safe_psql('postgres', $_[0]); }
sub options { return pv_shard_options($coordinator, $_[0]); }
sub place { my ($node) = @_; return sprintf "'%s', %d", $node->host, $node->port; }
sub node_id { my ($node) = @_; return sql('SELECT nodeid FROM pg_dist_node WHERE nodeport = ' . $node->port); }

# The first shard of a table that is on a node
sub shard_on
{
	my ($table, $node) = @_;
	return sql(sprintf q{SELECT min(shardid) FROM citus_shards WHERE table_name = '%s'::regclass AND nodeport = %d}, $table, $node->port);
}

# Move a shard of a table from one node to another.  One test: it is there.
sub move
{
	my ($table, $from, $to, $mode) = @_;
	my $shard = shard_on($table, $from);
	sql(sprintf q{SELECT citus_move_shard_placement(%d, %s, %s, '%s')}, $shard, place($from), place($to), $mode);
	is(sql("SELECT nodeport FROM citus_shards WHERE shardid = $shard"), $to->port, "a shard is moved with $mode");
	return;
}

# Split a shard of a table in the middle, and put half of it on another node.
sub split_shard
{
	my ($table, $from, $to, $mode) = @_;
	my $shard = shard_on($table, $from);
	sql(qq{
		SELECT citus_split_shard_by_split_points($shard,
			ARRAY[(SELECT ((shardminvalue::bigint + shardmaxvalue::bigint) / 2)::text FROM pg_dist_shard WHERE shardid = $shard)],
			ARRAY[${\ node_id($from)}, ${\ node_id($to)}], '$mode')});
	return;
}

sql('CREATE EXTENSION pgstattuple');
sql(q{
	CREATE TABLE dist (id int PRIMARY KEY, note text);
	SELECT create_distributed_table('dist', 'id', colocate_with => 'none');
	INSERT INTO dist SELECT i, 'note ' || i FROM generate_series(1, 10000) i});
is(options('dist'), '4: enabled=false by default', 'the shards of a table without options have none');

sql('ALTER TABLE dist SET (parvacuum.enabled, parvacuum.workers = 2)');
is(options('dist'), '4: enabled=true workers=2 by table', 'ALTER TABLE SET reaches the shards that are there');

sql(q{
	CREATE TABLE later (id int PRIMARY KEY) WITH (parvacuum.enabled, parvacuum.workers = 3);
	SELECT create_distributed_table('later', 'id', colocate_with => 'none')});
is(options('later'), '4: enabled=true workers=3 by table', 'a table that is distributed has its options on its shards');

sql(q{
	CREATE TABLE everywhere (id int PRIMARY KEY) WITH (parvacuum.enabled);
	SELECT create_reference_table('everywhere')});
is(options('everywhere'), '3: enabled=true by table', 'so does a reference table');

sql(q{
	CREATE TABLE parts (id int, day int, PRIMARY KEY (id, day)) PARTITION BY RANGE (day);
	CREATE TABLE part1 PARTITION OF parts FOR VALUES FROM (0) TO (10);
	SELECT create_distributed_table('parts', 'id', colocate_with => 'none');
	ALTER TABLE parts SET (parvacuum.enabled, parvacuum.workers = 1);
	CREATE TABLE part2 PARTITION OF parts FOR VALUES FROM (10) TO (20);
	CREATE TABLE part3 PARTITION OF parts FOR VALUES FROM (20) TO (30) WITH (parvacuum.workers = 4)});
is(options('parts'), '4: enabled=true workers=1 by table', 'the shards of a partitioned table have its options');
is(options('part1'), '4: enabled=true workers=1 by ancestor', 'those of its partitions have them from the shards above');
is(options('part2'), '4: enabled=true workers=1 by ancestor', 'so have those of a partition that is made later');
is(options('part3'), '4: enabled=true workers=4 by ancestor', 'and those of a partition with an option have it');

for my $mode (qw(force_logical block_writes))
{
	move('dist', @workers, $mode);
	is(options('dist'), '4: enabled=true workers=2 by table', "$mode: it has its options there");
	move('parts', @workers, $mode);
	is(options('part3'), '4: enabled=true workers=4 by ancestor', "$mode: so have the shards of partitions");
}

my $shards = 4;
for my $mode (qw(force_logical block_writes))
{
	$shards++;
	split_shard('dist', reverse(@workers), $mode);
	is(options('dist'), "$shards: enabled=true workers=2 by table", "shards that are split with $mode have the options");
	split_shard('parts', reverse(@workers), $mode);
	is(options('part3'), "$shards: enabled=true workers=4 by ancestor", "$mode: so have those of partitions");
}

$added = pv_citus_node('options_added');
pv_add_worker($coordinator, $added);
is($added->safe_psql('postgres', q{SELECT enabled, workers FROM parvacuum_tables WHERE relid = 'dist'::regclass}),
	't|2', 'a node that is added later has the options of the table');
sql('SELECT replicate_reference_tables()');
is(options('everywhere'), '4: enabled=true by table', 'and the copy of a reference table there has them');
move('dist', $workers[1], $added, 'force_logical');
is(options('dist'), "$shards: enabled=true workers=2 by table", 'a shard that is moved there has its options');

sql(q{SELECT alter_distributed_table('later', shard_count => 3)});
is(options('later'), '3: enabled=true workers=3 by table', 'a table with another number of shards keeps its options');

sql('ALTER TABLE dist RESET (parvacuum.workers)');
is(options('dist'), "$shards: enabled=true by table", 'ALTER TABLE RESET reaches all shards');
sql('ALTER TABLE parts RESET (parvacuum.workers)');
is(options('part2'), "$shards: enabled=true by ancestor", 'so it does in partitions');
is(options('part3'), "$shards: enabled=true workers=4 by ancestor", 'but for those with an option of their own');

# what the histories of all workers say of the shards of a table
sub vacuumed
{
	my ($table) = @_;
	return pv_on_shards($coordinator, $table, q{
		SELECT concat_ws(' ', count(*), 'done by', string_agg(started_by, ' '), 'rows removed:', sum(tuples_removed) > 0)
		FROM parvacuum_history WHERE relname = '%s' AND outcome = 'done' AND by_engine});
}

sql(q{
	CREATE TABLE stock (id int PRIMARY KEY, note text);
	SELECT create_distributed_table('stock', 'id', colocate_with => 'none');
	INSERT INTO stock SELECT * FROM dist;
	DELETE FROM dist WHERE id % 3 = 0;
	DELETE FROM stock WHERE id % 3 = 0});
sql('VACUUM dist');
sql('VACUUM stock');
is(vacuumed('dist'), "$shards: 1 done by command rows removed: t", 'VACUUM of the table vacuums each shard with parvacuum');
is(vacuumed('stock'), '4: 0 done by rows removed:', 'without options it does not');
is(pv_shard_findings($coordinator, 'dist'), '', 'the shards are whole');
is(sql('SELECT count(*), count(*) FILTER (WHERE id % 3 = 0) FROM dist'), '6667|0', 'and have all rows');

# A worker that is restarted without the library: VACUUM by PostgreSQL on its shards.
sub preload
{
	my ($libraries) = @_;
	$workers[1]->append_conf('postgresql.conf', "shared_preload_libraries = '$libraries'\n");
	$workers[1]->restart;
	return;
}

# how many vacuums of shards of dist the histories of all workers have
sub runs
{
	return sql(q{
		SELECT sum(result::int) FROM run_command_on_workers(
			$$SELECT count(*) FROM parvacuum_history WHERE relname LIKE 'dist\_%' AND by_engine$$)});
}

my $runs = runs();
my $kept = sql(q{SELECT count(*) FROM citus_shards WHERE table_name = 'dist'::regclass AND nodeport <> } . $workers[1]->port);
preload('citus');
sql('DELETE FROM dist WHERE id % 5 = 0');
sql('VACUUM dist');
my ($rc, $stdout, $stderr) = $coordinator->psql('postgres', sprintf q{SELECT citus_move_shard_placement(%d, %s, %s, 'block_writes')},
	shard_on('dist', $workers[0]), place($workers[0]), place($workers[1]));
like($stderr, qr/ERROR: .*security label provider "parvacuum" is not loaded\n/, 'a shard with options cannot be moved to a node that has lost the library');
move('dist', $workers[1], $workers[0], 'force_logical');
is(pv_on_shards($coordinator, 'dist', q{SELECT count(*) FROM pg_seclabel WHERE objoid = '%s'::regclass AND provider = 'parvacuum'}), "$shards: 1",
	'one that is moved away from there keeps its options');
is(pv_on_shards($coordinator, 'dist', q{SELECT dead_tuple_count FROM pgstattuple('%s')}), "$shards: 0", 'VACUUM has vacuumed the shards there as well');
preload('citus, parvacuum');
is(runs() - $runs, $kept, 'and parvacuum only those of the other nodes');
is(pv_shard_findings($coordinator, 'dist'), '', 'all shards are whole');

sql('ALTER TABLE dist SET (parvacuum.enabled = false)');
is(options('dist'), "$shards: enabled=false by table", 'a table is taken out on all shards');
is(sql(q{SELECT string_agg(result, ' ') FROM run_command_on_workers('SELECT parvacuum_reset_options() > 0')}), 't t t', 'the options of a node can be removed');
is(options('dist'), "$shards: enabled=false by default", 'and then its shards have none');

# A node without the library.  Each statement that would set an option there fails as a whole.
my $without = pv_citus_node('options_without', 'shared_preload_libraries' => 'citus');
my $place = $without->host . ':' . $without->port;
($rc, $stdout, $stderr) = $coordinator->psql('postgres', "SELECT citus_add_node(${\ place($without)})");
isnt($rc, 0, 'a node where parvacuum is not preloaded cannot join while a table has options');
like($stderr, qr/security label provider "parvacuum" is not loaded/, 'the warning says why');

sql('SELECT parvacuum_reset_options()');
pv_add_worker($coordinator, $without);
sql('SELECT replicate_reference_tables()');
move('dist', $workers[1], $without, 'force_logical');
($rc, $stdout, $stderr) = $coordinator->psql('postgres', 'ALTER TABLE dist SET (parvacuum.enabled)');
isnt($rc, 0, 'if it has joined, options cannot be set');
like($stderr, qr/unrecognized parameter namespace "parvacuum"\n.* \Q$place\E$/m, 'the error names the parameter and the node');
is(sql('SELECT enabled FROM parvacuum_tables WHERE relid = \'dist\'::regclass'), 'f', 'they are not set on the coordinator either');
is(options('dist'), "$shards: enabled=false by default", 'nor on any shard');
($rc, $stdout, $stderr) = $coordinator->psql('postgres', q{
	CREATE TABLE refused (id int PRIMARY KEY) WITH (parvacuum.enabled);
	SELECT create_distributed_table('refused', 'id')});
like($stderr, qr/ERROR: .*security label provider "parvacuum" is not loaded\n.* \Q$place\E$/m, 'a table with options cannot be distributed');

pv_no_crash($_, $_->name) for $coordinator, @workers, $added, $without;
done_testing();
