# parvacuum_run_cluster() on a cluster of Citus: all kinds of tables, limits of what runs at a
# time, nodes that are down or die under way, shards that move and tables that are dropped under
# way, cancels, prepared transactions left behind, and the views of all nodes

use strict;
use warnings FATAL => 'all';

use FindBin;
use lib $FindBin::RealBin, "$FindBin::RealBin/../t";
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use PvCluster;
use PvTest;
use Test::More;

my ($coordinator, @workers) = pv_citus_cluster('run', 2, autovacuum => 'off');
my %by_port = map { $_->port => $_ } $coordinator, @workers;
my $last = $workers[1];
sub sql { return $coordinator->safe_psql('postgres', join ";\n", @_); }
sub place { my ($node) = @_; return sprintf "'%s', %d", $node->host, $node->port; }
sub name_of { my ($node) = @_; return $node->host . ':' . $node->port; }

# The number of rows of a run for each outcome, and the rows removed
sub run_of
{
	my ($table, $arguments) = @_;
	return sql(sprintf q{SELECT string_agg(line, ', ') FROM (SELECT concat_ws(' ', count(*), outcome, sum(tuples_removed)) AS line
		FROM parvacuum_run_cluster('%s'%s) GROUP BY outcome ORDER BY outcome) lines}, $table, $arguments // '');
}

# The vacuums in the history of all nodes, of shards of a table; then the history is emptied.
# The names of a table that was renamed have a bar in between.
sub vacuums_of
{
	my ($table) = @_;
	my $counts = sql(qq{SELECT string_agg(DISTINCT times::text, ' ') || ' x ' || count(*) FROM (SELECT node, substring(relname, '\\d+\$'), count(*) AS times FROM parvacuum_cluster_history
		WHERE relname ~ '^(${table})_\\d+\$' GROUP BY 1, 2) shards});
	reset_history();
	return $counts;
}
sub reset_history { $_->safe_psql('postgres', 'SELECT parvacuum_history_reset()') for grep { defined $_->{_pid} } $coordinator, @workers; return; }

is(sql('SELECT node, kind, groupid, is_local, active FROM parvacuum_cluster_nodes() ORDER BY groupid'),
	sprintf("%s|citus|0|t|t\n%s|citus|1|f|t\n%s|citus|2|f|t", map { name_of($_) } $coordinator, @workers), 'the nodes of Citus are those of the cluster');

# Tables of all kinds
sql('SET citus.shard_count = 8',
	'CREATE TABLE dist (id int PRIMARY KEY, v int, note text)', q{SELECT create_distributed_table('dist', 'id')},
	q{CREATE TABLE "It's %s" (id int PRIMARY KEY, note text)}, q{SELECT create_distributed_table('"It''s %s"', 'id', colocate_with => 'none')},
	'CREATE TABLE ref (id int PRIMARY KEY)', q{SELECT create_reference_table('ref')},
	'CREATE TABLE own (id int PRIMARY KEY)', q{SELECT citus_add_local_table_to_metadata('own')},
	'SET citus.shard_replication_factor = 2', 'CREATE TABLE twice (id int, note text)', q{SELECT create_distributed_table('twice', 'id', shard_count => 4, colocate_with => 'none')},
	'SET citus.shard_replication_factor = 1',
	'CREATE TABLE app (id int, note text)', q{SELECT create_distributed_table('app', 'id', 'append')},
	'CREATE TABLE part (id int, day int) PARTITION BY LIST (day)', 'CREATE TABLE part_1 PARTITION OF part FOR VALUES IN (1)', 'CREATE TABLE part_2 PARTITION OF part FOR VALUES IN (2)',
	q{SELECT create_distributed_table('part', 'id', shard_count => 4, colocate_with => 'none')},
	'CREATE SCHEMA tenant', q{SELECT citus_schema_distribute('tenant')}, 'CREATE TABLE tenant.orders (id int PRIMARY KEY, note text)');
is(run_of('app'), '', 'a table that has no shard yet');
my $shard = sql(q{SELECT master_create_empty_shard('app')});
sub fill
{
	my ($table, $columns) = @_;
	sql("DELETE FROM $table", "INSERT INTO $table SELECT $columns FROM generate_series(1, 30000) i", "DELETE FROM $table WHERE id % 3 = 0");
	return;
}
my %columns = (dist => q{i, i, repeat('x', 50)}, '"It\'s %s"' => q{i, 'x'}, ref => 'i', own => 'i', twice => q{i, 'x'}, part => 'i, 1 + i % 2', 'tenant.orders' => q{i, 'x'});
my %rows = (dist => '8 done 10000', '"It\'s %s"' => '8 done 10000', ref => '3 done 30000', own => '1 done 10000', twice => '8 done 20000', part => '8 done 10000', 'tenant.orders' => '1 done 10000');
for my $table (sort keys %columns)
{
	fill($table, $columns{$table});
	is(run_of($table =~ s/'/''/gr, ', workers => 0'), $rows{$table}, "$table: each placement of each shard is vacuumed");
}
is(run_of('app'), '1 done 0', 'a table that is distributed by appending');
is(run_of('part_1', ', workers => 0, disable_page_skipping => true'), '4 done 0', 'a partition alone');
is(vacuums_of('dist'), '1 x 8', 'each shard was vacuumed once');
is(sql(q{SELECT bool_and(shard = 'public.' || relation AND shardid::text = substring(relation, '\d+$') AND groupid IN (1, 2) AND node IS NOT NULL AND error IS NULL AND elapsed_ms > 0 AND tuples_remaining > 0 AND pages_total > 0)
	FROM parvacuum_run_cluster('dist')}), 't', 'the columns of the result');
is(sql(q{SELECT count(*), count(*) FILTER (WHERE shard <> 'public.' || relation) FROM parvacuum_run_cluster('dist', shards_at_once_per_node => 4)}),
	'8|0', 'several at a time: each row has the result of its shard');
my ($rc, $out, $err) = $coordinator->psql('postgres', q{SELECT * FROM parvacuum_run('dist')});
like($err, qr/or use parvacuum_run_cluster\(\) of the extension parvacuum_cluster/, 'parvacuum_run() points to it');
($rc, $out, $err) = $coordinator->psql('postgres', q{SELECT * FROM parvacuum_plan('dist')});
like($err, qr/shards of table "public.dist" are left out\n.*\n.*Call the function on the servers that have them/, 'parvacuum_plan() says that it is not about them');
is(sql(q{SELECT count(*) FROM run_command_on_placements('dist', $$SELECT jsonb_agg(to_jsonb(p)) FROM parvacuum_plan('%s') p$$) WHERE success}), 8, 'it can be called for them');
($rc, $out, $err) = $coordinator->psql('postgres', q{SET statement_timeout = '60s'; BEGIN; TRUNCATE dist; SELECT parvacuum_run_cluster('dist')});
like($err, qr/cannot vacuum the shards of table "public.dist" because this session has locked them/, 'a transaction that has locked the shards would wait for itself');
is(sql('BEGIN', 'INSERT INTO dist VALUES (-1)', q{SELECT count(*) FROM parvacuum_run_cluster('dist') WHERE outcome = 'done'}, 'ROLLBACK'), 8, 'one that has written to the table does not');
($rc, $out, $err) = $workers[0]->psql('postgres', q{SELECT outcome, count(*) FROM parvacuum_run_cluster('dist') GROUP BY 1});
is($out, 'done|8', 'it works from each node') or diag $err;

# How many at a time: by the statements that the nodes execute
my $slow = q{ALTER SYSTEM SET vacuum_cost_delay = '20ms'; ALTER SYSTEM SET vacuum_cost_limit = 20; SELECT pg_reload_conf()};
my $fast = q{ALTER SYSTEM RESET vacuum_cost_delay; ALTER SYSTEM RESET vacuum_cost_limit; SELECT pg_reload_conf()};
sub make { my ($what, @nodes) = @_; for my $n (@nodes) { $n->safe_psql('postgres', $_) for split /; /, $what; } return; }
my $running = q{SELECT count(*) FROM pg_stat_activity WHERE query LIKE '%parvacuum_run(%' AND state = 'active' AND backend_type = 'client backend' AND pid <> pg_backend_pid()};
sub most_at_once
{
	my ($arguments) = @_;
	fill('dist', $columns{dist});
	my $started = pv_start_run($coordinator, "SELECT count(*) FROM parvacuum_run_cluster('dist', workers => 0$arguments) WHERE outcome = 'done'");
	my ($most_nodes, $most, $busy) = (0, 0, 1);
	while ($busy)
	{

		# The nodes are asked one after the other.  Those were busy together that are so both times.
		my ($before, $after) = map { [ map { $_->safe_psql('postgres', $running) } @workers ] } 1 .. 2;
		my $nodes = grep { $before->[$_] > 0 && $after->[$_] > 0 } 0 .. $#workers;
		for my $n (@$before) { $most = $n if $n > $most; }
		$most_nodes = $nodes if $nodes > $most_nodes;
		$busy = sql(qq{SELECT count(*) FROM pg_stat_activity WHERE application_name = '$started->{tag}'});
	}
	pv_finish($started);
	return "$started->{out} shards, $most_nodes nodes, $most on a node";
}
make($slow, @workers);
is(most_at_once(''), '8 shards, 2 nodes, 1 on a node', 'by default all nodes at a time, and one shard of each');
is(most_at_once(', shards_at_once_per_node => 3'), '8 shards, 2 nodes, 3 on a node', 'three at a time on each node');
is(most_at_once(', nodes_at_once => 1, shards_at_once_per_node => 2'), '8 shards, 1 nodes, 2 on a node', 'one node at a time');

# Progress, and what ends a run ends it on all nodes
for my $how (qw(pg_cancel_backend pg_terminate_backend))
{
	fill('dist', $columns{dist});
	my $started = pv_start_run($coordinator, q{SELECT count(*) FROM parvacuum_run_cluster('dist', workers => 0, disable_page_skipping => true)});
	ok(pv_await($workers[0], $running, 1) && pv_await($workers[1], $running, 1), "$how: a run on both nodes");
	ok(pv_await($coordinator, q{SELECT count(DISTINCT node) FROM parvacuum_cluster_progress WHERE relation ~ '^dist_\d+$' AND participant IS NULL AND phase = 'scanning heap'}, 2), "$how: progress of all nodes");
	sql("SELECT $how(pid) FROM pg_stat_activity WHERE application_name = '$started->{tag}'");
	ok(!pv_finish($started), "$how: the run ends");
	ok(pv_await($_, $running, 0) && pv_await($_, 'SELECT count(*) FROM parvacuum_progress', 0), "$how: it ends on a node") for @workers;
}

# A shard that moves under way is vacuumed once, where it is then or was before.
fill('dist', $columns{dist});
reset_history();
my $started = pv_start_run($coordinator, q{SELECT count(*), count(DISTINCT shardid), min(outcome), max(outcome) FROM parvacuum_run_cluster('dist', workers => 0)});
ok(pv_await($workers[0], $running, 1), 'move: a run');
my $moved = sql(sprintf q{SELECT max(shardid) FROM citus_shards WHERE table_name = 'dist'::regclass AND nodeport = %d}, $workers[0]->port);
sql(sprintf q{SELECT citus_move_shard_placement(%d, %s, %s, 'block_writes')}, $moved, place($workers[0]), place($workers[1]));
ok(pv_finish($started), 'move: the run goes on') or diag $started->{err};
is($started->{out}, '8|8|done|done', 'move: each shard is in the result once');
is(vacuums_of('dist'), '1 x 8', 'move: each shard was vacuumed once');

# A shard that moves to a node that had none, while another one is locked
sql('CREATE TABLE few (id int)', q{SELECT create_distributed_table('few', 'id', shard_count => 4, colocate_with => 'none')});
my $in_few = q{FROM citus_shards WHERE table_name = 'few'::regclass};
sql(sprintf q{SELECT citus_move_shard_placement(%d, %s, %s, 'block_writes')}, $_, place($last), place($workers[0])) for split /\n/, sql(sprintf "SELECT shardid $in_few AND nodeport = %d", $last->port);
my $lock = pv_session($workers[0]);
$lock->query_safe('SET citus.enable_manual_changes_to_shards = on');
$lock->query_safe('BEGIN; LOCK few_' . sql("SELECT min(shardid) $in_few"));
$started = pv_start_run($coordinator, q{SELECT string_agg(groupid || ' ' || outcome, ', ' ORDER BY shardid) FROM parvacuum_run_cluster('few', workers => 0)});
ok(pv_await($workers[0], $running, 1), 'another node: a run');
sql(sprintf q{SELECT citus_move_shard_placement(%d, %s, %s, 'block_writes')}, sql("SELECT max(shardid) $in_few"), place($workers[0]), place($last));
$lock->query_safe('COMMIT');
$lock->quit;
ok(pv_finish($started), 'another node: the run goes on') or diag $started->{err};
is($started->{out}, '1 done, 1 done, 1 done, 2 done', 'another node: the shard is vacuumed there');

# A table that is renamed under way: so are its shards, which are vacuumed once.
fill('dist', $columns{dist});
reset_history();
$started = pv_start_run($coordinator, q{SELECT count(DISTINCT relation) = count(*), count(DISTINCT shardid), min(outcome), max(outcome) FROM parvacuum_run_cluster('dist', workers => 0)});
ok(pv_await($coordinator, q{SELECT least(count(*), 1) FROM parvacuum_cluster_history WHERE relname ~ '^dist_\d+$' AND outcome = 'done'}, 1), 'rename: a run');
sql('ALTER TABLE dist RENAME TO renamed');
ok(pv_finish($started), 'rename: the run goes on') or diag $started->{err};
is($started->{out}, 't|8|done|done', 'rename: all shards are in the result');
is(vacuums_of('dist|renamed'), '1 x 8', 'rename: each shard was vacuumed once');
sql('ALTER TABLE renamed RENAME TO dist');

# A table that is dropped under way: no lock of the run is in the way, and it ends without an error,
# also if its snapshot still has the table.  Then shards that are gone may be in the result.
for my $level ('read\\ committed', 'repeatable\\ read')
{
	sql('SET citus.shard_count = 8', 'CREATE TABLE gone (id int, v int, note text)', q{SELECT create_distributed_table('gone', 'id', colocate_with => 'none')});
	fill('gone', $columns{dist});
	$started = pv_start_run($coordinator, q{SELECT count(*) BETWEEN 1 AND 7, min(outcome), max(outcome) FROM parvacuum_run_cluster('gone', workers => 0)}, default_transaction_isolation => $level);
	ok(pv_await($workers[0], $running, 1), 'drop: a run');
	sql(q{SELECT pg_sleep(0.5)}, 'DROP TABLE gone');
	ok(pv_finish($started), 'drop: the run ends well') or diag $started->{err};
	like($started->{out}, $level =~ /committed/ ? qr/^t\|done\|done$/ : qr/^[tf]\|done\|(?:done|failed)$/, 'drop: it has the shards vacuumed before');
}

# A node that dies under way
fill('dist', $columns{dist});
reset_history();
$started = pv_start_run($coordinator, q{SELECT string_agg(outcome || ' ' || n || ' ' || groups, ', ' ORDER BY outcome) || E'\n' || max(error)
	FROM (SELECT outcome, count(*) AS n, string_agg(DISTINCT groupid::text, ' ') AS groups, max(error) AS error FROM parvacuum_run_cluster('dist', workers => 0) GROUP BY outcome) o});
ok(pv_await($last, $running, 1), 'death: a run');
my $on_last = sql(sprintf q{SELECT count(*) FROM citus_shards WHERE table_name = 'dist'::regclass AND nodeport = %d}, $last->port);
my $on_first = 8 - $on_last;
pv_stop_node($last);
ok(pv_finish($started), 'death: the run goes on') or diag $started->{err};
like($started->{out}, qr/^done \d 1(?: 2)?, failed \d 2\n/, 'death: the shards of that node have errors, and the others are done');
like($started->{out}, qr/\n.*(?:connect|terminat)/s, 'death: the error says why');
is(vacuums_of('dist'), "1 x $on_first", 'death: each shard of the other node was vacuumed once');

# A node that is down
is(run_of('dist'), "$on_first done 0, $on_last failed", 'a node that is down does not keep others from being vacuumed');
is(sql(q{SELECT count(*) FILTER (WHERE outcome = 'failed') > 0 AND count(*) FILTER (WHERE outcome = 'not run') > 0 AND count(*) = 8 FROM parvacuum_run_cluster('dist', stop_on_error => true)}), 't', 'unless the caller wants that');
my $down = name_of($last);
for my $view (qw(progress history queue tables blockers wraparound))
{
	like(sql("SELECT node || ' ' || node_error FROM parvacuum_cluster_$view WHERE node_error IS NOT NULL"), qr/^\Q$down\E failed to connect to /, "it has a row with the error in parvacuum_cluster_$view");
}
like(sql('SELECT node, error FROM parvacuum_cluster_cap() WHERE error IS NOT NULL'), qr/^\Q$down\E\|failed to connect/, 'and in parvacuum_cluster_cap()');

# What is to become of a transaction of a node that is down, or of another database, is not known
# here.  Nor does a name that only looks like one of Citus break the view.
sub prepare { my ($database, $gid) = @_; $workers[0]->safe_psql($database, "BEGIN; SELECT pg_current_xact_id(); PREPARE TRANSACTION '$gid'"); return; }
prepare('postgres', 'citus_2_1234567_3_0');
prepare('template1', 'citus_0_1234567_4_0');
prepare('postgres', 'citus_99999999999_99999999999_5_0');
is(sql(q{SELECT distributed_transaction, release FROM parvacuum_cluster_blockers WHERE kind = 'prepared transaction' ORDER BY name}),
	"begun by process 1234567 of group 0 of Citus in database template1|SELECT recover_prepared_transactions() in database template1 on the node of group 0\n" .
	"begun by process 1234567 of node $down; whether it is to be committed is not known, because that node cannot be asked|SELECT recover_prepared_transactions() on node $down\n" .
	q{|/* other nodes may have committed it: better call recover_prepared_transactions() of Citus on the node that began it */ ROLLBACK PREPARED 'citus_99999999999_99999999999_5_0'}, 'prepared transactions of a node that is down, of another database, and of nobody');
$workers[0]->safe_psql('template1', q{ROLLBACK PREPARED 'citus_0_1234567_4_0'});
$workers[0]->safe_psql('postgres', "ROLLBACK PREPARED '$_'") for qw(citus_2_1234567_3_0 citus_99999999999_99999999999_5_0);
$last->start;

# Who holds back the horizon anywhere: a prepared transaction of Citus that was left behind, to be
# committed or to be rolled back
sql('CREATE TABLE keeps (id int)');
for my $case ([ 'citus_0_1234567_8_0', 'committed' ], [ 'citus_0_1234567_9_0', 'rolled back' ])
{
	my ($gid, $end) = @$case;
	sql(sprintf q{SELECT FROM master_run_on_worker(ARRAY['%s'], ARRAY[%d], ARRAY['CREATE TABLE IF NOT EXISTS left_behind (id int)'], true)}, $last->host, $last->port);
	$last->safe_psql('postgres', "BEGIN; INSERT INTO left_behind VALUES (1); PREPARE TRANSACTION '$gid'");
	sql("INSERT INTO pg_dist_transaction VALUES (2, '$gid')") if $end eq 'committed';
	$last->safe_psql('postgres', 'SELECT pg_current_xact_id()') for 1 .. 3;
	my $holder = sql('SELECT node, kind, name, distributed_transaction, release FROM parvacuum_cluster_blockers LIMIT 1');
	like($holder, qr/^\Q$down\E\|prepared transaction\|$gid\|begun by process 1234567 of node \S+; to be $end/, "a prepared transaction that is to be $end");
	like($holder, qr/\|SELECT recover_prepared_transactions\(\) on node \Q${\ name_of($coordinator)}\E$/, 'the statement that ends it');
	sql('SELECT recover_prepared_transactions()');
	is(sql(q{SELECT count(*) FROM parvacuum_cluster_blockers WHERE kind = 'prepared transaction'}), 0, 'that ends it');
}

# A limit of workers for a node, a group and all
is(sql(q{SELECT string_agg(max_workers::text, ' ' ORDER BY groupid) FROM parvacuum_cluster_cap(3, for_group => 1)}), '3', 'a limit for a group');
is(sql(sprintf q{SELECT groupid, max_workers FROM parvacuum_cluster_cap(2, '%s')}, $down), '2|2', 'a limit for a node');
is(sql(q{SELECT string_agg(max_workers::text, ' ' ORDER BY groupid) FROM parvacuum_cluster_cap(5)}), '5 5 5', 'a limit for all');

# Wraparound: the shard that is the oldest
make($fast, @workers);
sql(q{SELECT count(*) FROM parvacuum_run_cluster('dist', freeze => true)});
is(sql(q{SELECT count(*) FROM parvacuum_cluster_wraparound WHERE xid_age >= 0 AND percent_to_autovacuum < 1 AND node_error IS NULL}), 9, 'the distance from wraparound of three databases of three nodes');

is(pv_shard_findings($coordinator, $_), '', "the shards of $_ are whole") for qw(dist twice);
pv_no_crash($_, $_->name) for $coordinator, $workers[0];
done_testing();
