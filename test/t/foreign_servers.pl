# parvacuum_cluster where a table has partitions on foreign servers: a vacuum of all of them,
# servers that are down or die under way, what ends a run, roles, and the views of all nodes

use strict;
use warnings FATAL => 'all';

use FindBin;
use lib $FindBin::RealBin;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use PvTest;
use Test::More;

# The server with the partitioned table, and two with its partitions
my ($node, $one, $two) = map { pv_node($_) } qw(main one two);
my %server = (one => $one, two => $two);
for my $n ($node, $one, $two)
{
	$n->append_conf('postgresql.conf', "autovacuum = off\n");
	$n->start;
	$n->safe_psql('postgres', 'CREATE EXTENSION parvacuum');
}
pv_setup($_) for $node, $one, $two;
sub sql { return pv_sql($node, @_); }
sub error_of { my ($rc, $out, $err) = $node->psql('postgres', $_[0]); return $err; }

# The result of a run, and how often each shard was vacuumed since the last call
my $run = q{SELECT concat_ws(' ', node, shard, outcome, tuples_removed, error) FROM parvacuum_run_cluster('p'%s) ORDER BY 1};
sub run_of { return sql(sprintf $run, $_[0] // ''); }

sub times_vacuumed
{
	my @counts;
	for my $n ($node, $one, $two)
	{
		next if !defined $n->{_pid};
		push @counts, $n->safe_psql('postgres', q{SELECT relname || ' ' || count(*) FROM parvacuum_history WHERE relname ~ '^p\d' GROUP BY relname ORDER BY 1});
		$n->safe_psql('postgres', 'SELECT parvacuum_history_reset()');
	}
	return join ' ', map { split /\n/ } @counts;
}

sql('CREATE EXTENSION parvacuum_cluster', 'CREATE EXTENSION postgres_fdw', 'CREATE TABLE p (i int, t text) PARTITION BY RANGE (i)');
is(sql('SELECT node, kind, is_local FROM parvacuum_cluster_nodes()'), 'local|local|t', 'without foreign partitions there is one node');
for my $name (qw(one two))
{
	sql(sprintf q{CREATE SERVER %s FOREIGN DATA WRAPPER postgres_fdw OPTIONS (host '%s', port '%s', dbname 'postgres', batch_size '1000')}, $name, $server{$name}->host, $server{$name}->port);
}
is(sql('SELECT count(*) FROM parvacuum_cluster_nodes()'), 1, 'a server without partitions is no node');

# p1 and p2 are on the first server, p3 is on the second one, under another name, and p4 is here.
$one->safe_psql('postgres', 'CREATE TABLE p1 (i int PRIMARY KEY, t text); CREATE TABLE p2 (i int PRIMARY KEY, t text)');
$two->safe_psql('postgres', q{CREATE SCHEMA "it's"; CREATE TABLE "it's"."p3 ""x" (i int PRIMARY KEY, t text)});
sql(q{CREATE FOREIGN TABLE p1 PARTITION OF p FOR VALUES FROM (0) TO (10000) SERVER one},
	q{CREATE FOREIGN TABLE p2 PARTITION OF p FOR VALUES FROM (10000) TO (40000) SERVER one},
	q{CREATE FOREIGN TABLE p3 PARTITION OF p FOR VALUES FROM (40000) TO (50000) SERVER two OPTIONS (schema_name 'it''s', table_name 'p3 "x')},
	q{CREATE TABLE p4 PARTITION OF p FOR VALUES FROM (50000) TO (60000)});
is(sql('SELECT count(*) FROM parvacuum_cluster_nodes()'), 1, 'a server without a user mapping is no node');
like(run_of(), qr/^one public\.p1 failed there is no such node, or the current role cannot use it\n.*\ntwo /ms, 'without a user mapping there is an error for each partition');
sql('CREATE USER MAPPING FOR CURRENT_USER SERVER one', 'CREATE USER MAPPING FOR PUBLIC SERVER two');
is(sql('SELECT node, kind, server FROM parvacuum_cluster_nodes() ORDER BY 1'), "local|local|\none|server|one\ntwo|server|two", 'servers with partitions and a user mapping are nodes');
like(run_of(), qr/^local public\.p4 done 0\none public\.p1 failed the extension "dblink" is needed/s, 'without dblink there are errors that name it, but for what is here');
sql('CREATE SCHEMA tools', 'CREATE EXTENSION dblink SCHEMA tools');

# All partitions
my $fill = 'DELETE FROM p; INSERT INTO p SELECT i, repeat(\'x\', 50) FROM generate_series(0, 59999) i; DELETE FROM p WHERE i % 3 = 0';
sql($fill);
times_vacuumed();
is(run_of(', workers => 0'), qq{local public.p4 done 3333\none public.p1 done 3334\none public.p2 done 10000\ntwo "it's"."p3 ""x" done 3333}, 'all partitions are vacuumed where they are');
is(times_vacuumed(), 'p4 1 p1 1 p2 1 p3 "x 1', 'each was vacuumed once');
is(sql(q{SELECT node, outcome, error, relation, workers_planned, pages_total > 0, tuples_remaining, elapsed_ms > 0, relfrozenxid_advanced IS NOT NULL FROM parvacuum_run_cluster('p2', workers => 0)}),
	'one|done||p2|0|t|20000|t|t', 'a partition alone is vacuumed, with the figures of parvacuum_run()');
is(sql(q{SELECT bool_and(relfrozenxid_advanced), count(*) FROM parvacuum_run_cluster('p', freeze => true, "analyze" => true, index_cleanup => 'off', truncate => false, disable_page_skipping => true)}), 't|4', 'arguments reach parvacuum_run()');
is($two->safe_psql('postgres', q{SELECT relallvisible > 0 FROM pg_class WHERE relname LIKE 'p3 "x'}) . $one->safe_psql('postgres', q{SELECT last_analyze IS NOT NULL FROM pg_stat_user_tables WHERE relname = 'p1'}), 'tt', 'and do there what they say');
like(error_of(q{SELECT FROM parvacuum_run_cluster('p', verbose => true)}), qr/INFO:  [^\n]+ on node \w+: vacuumed in \d+ ms \(1 of 4\)\n.*: vacuumed in \d+ ms \(4 of 4\)/s, 'verbose says what is done');

# Who may create functions in the schema of the extension cannot have superusers execute them:
# each of these matches a call of ours, but not as well as our own function.
for my $n ($node, $one, $two)
{
	my $planted = q{LANGUAGE plpgsql AS $$ BEGIN RAISE EXCEPTION 'planted, as %', current_user; END $$};
	$n->safe_psql('postgres', join ";\n", 'CREATE ROLE pv_planter', 'GRANT CREATE ON SCHEMA public TO pv_planter', 'SET ROLE pv_planter',
		map { "CREATE FUNCTION public.$_ $planted" }
		  'parvacuum_cluster_error(text) RETURNS text', 'parvacuum_cluster_query(anyelement) RETURNS TABLE (node text, groupid int, result jsonb, error text)',
		'parvacuum_cluster_probe(text[], text) RETURNS TABLE (node text, schema text, pages jsonb, error text)',
		'parvacuum_cluster_execute(anyarray, anyarray) RETURNS TABLE (place int, node text, success bool, result text)',
		'parvacuum_cluster_dblink(text, VARIADIC anyarray) RETURNS text', 'parvacuum_cluster_connect(text, text) RETURNS void', 'parvacuum_cluster_may_use(bigint) RETURNS bool', 'parvacuum_cluster_by_postgres(bigint) RETURNS bool',
		'parvacuum_cluster_begin(oid, int, bool, text, bool, bool, bool, bool, bool) RETURNS int', 'parvacuum_cluster_look(bigint) RETURNS record', 'parvacuum_cluster_ended(bigint) RETURNS bool',
		'parvacuum_cluster_result(bigint) RETURNS SETOF record', 'parvacuum_cluster_stop(bigint, text, text) RETURNS void', 'parvacuum_cluster_set_limit(bigint) RETURNS void',
		'parvacuum_run(regclass, workers text, freeze text, index_cleanup text, truncate text, "analyze" text, skip_locked text, disable_page_skipping text) RETURNS TABLE (relid regclass)',
		'parvacuum_run(regclass, workers int, freeze bool, index_cleanup text, truncate bool, "analyze" bool, skip_locked bool, disable_page_skipping bool) RETURNS TABLE (relid regclass)');
}
unlike(run_of(), qr/planted|failed/, 'planted functions: a run does not call them');
unlike(error_of(q{SELECT count(*) FROM parvacuum_cluster_history; SELECT count(*) FROM parvacuum_cluster_blockers; SELECT count(*) FROM parvacuum_cluster_wraparound}) . sql(q{SELECT count(*) FROM parvacuum_cluster_cap() WHERE error IS NOT NULL}),
	qr/planted|[1-9]/, 'planted functions: views do not call them');
$_->safe_psql('postgres', 'DROP OWNED BY pv_planter') for $node, $one, $two;

# Nor can the owner of a database, who may set the search path of all its sessions and so hide
# types, functions and operators.
for my $indexed ([ $node, 'p4' ], [ $one, 'p1' ])
{
	my ($n, $table) = @$indexed;
	$n->safe_psql('postgres', join ";\n", 'CREATE FUNCTION public.magnitude(i int) RETURNS int IMMUTABLE LANGUAGE plpgsql AS $$BEGIN RETURN abs(i); END$$', "CREATE INDEX planted_i ON public.$table (public.magnitude(i))");
}
for my $n ($node, $one, $two)
{
	$n->safe_psql('postgres', join ";\n", 'CREATE SCHEMA planted',
		q{CREATE FUNCTION planted.f(anyelement) RETURNS pg_catalog.bool LANGUAGE plpgsql AS $$BEGIN RAISE EXCEPTION 'planted, as %', current_user; END$$},
		(map { "CREATE FUNCTION planted.o($_, $_) RETURNS pg_catalog.bool LANGUAGE sql AS \$\$SELECT planted.f(1)\$\$" } qw(text name oid int8)),
		'CREATE FUNCTION planted.abs(int) RETURNS int LANGUAGE sql AS $$SELECT planted.f(1)::int$$',
		'CREATE FUNCTION planted.age(xid) RETURNS pg_catalog.bool LANGUAGE sql AS $$SELECT planted.f(1)$$',
		'CREATE FUNCTION planted.count() RETURNS pg_catalog.bool LANGUAGE sql AS $$SELECT planted.f(1)$$',
		(map { "CREATE DOMAIN planted.$_ AS pg_catalog.$_ CHECK (planted.f(VALUE))" } qw(bool text name jsonb regclass)),
		(map { my $op = $_; map { "CREATE OPERATOR planted.$op (FUNCTION = planted.o, LEFTARG = pg_catalog.$_, RIGHTARG = pg_catalog.$_)" } qw(text name oid int8) } qw(= <> !~ >)),
		'ALTER DATABASE postgres SET search_path = planted, pg_catalog');
}
my $public = q{SET search_path = public};
is(sql($public, q{SELECT string_agg(outcome || coalesce(' ' || error, ''), ' ') FROM parvacuum_run_cluster('p', workers => 0, "analyze" => true)}), 'done done done done', 'a planted search path: a run does not follow it');
is(sql($public, map { "SELECT count(node_error) FROM parvacuum_cluster_$_" } qw(progress history queue tables blockers wraparound)), "0\n0\n0\n0\n0\n0", 'a planted search path: views do not follow it');
is(sql($public, q{SELECT count(error) FROM parvacuum_cluster_cap(16)}), 0, 'a planted search path: a limit does not follow it');
$_->safe_psql('postgres', 'ALTER DATABASE postgres RESET search_path; DROP SCHEMA planted CASCADE') for $node, $one, $two;
$_->safe_psql('postgres', 'DROP FUNCTION magnitude CASCADE') for $node, $one;

# A transaction that has locked a partition here would wait for itself.
like(error_of(q{SET statement_timeout = '60s'; BEGIN; LOCK p4; SELECT parvacuum_run_cluster('p')}),
	qr/ERROR:  cannot vacuum the shards of table "public.p" because this session has locked them\nDETAIL:.*\nHINT:  Release the lock first\./, 'a transaction that has locked a partition');
like(error_of(q{SET statement_timeout = '60s'; BEGIN; TRUNCATE p1; SELECT parvacuum_run_cluster('p')}), qr/because this session has locked them/, 'one that has truncated a partition of another server');
is(sql('BEGIN', 'LOCK p4 IN ROW EXCLUSIVE MODE', q{SELECT count(*) FROM parvacuum_run_cluster('p') WHERE outcome = 'done'}, 'COMMIT'), 4, 'one that has written to it');

# TOAST tables have no rows, however the other server writes names.
$_->safe_psql('postgres', 'ALTER ROLE CURRENT_USER SET quote_all_identifiers = on') for $one, $two;
is(sql(q{SELECT count(*) FROM parvacuum_run_cluster('p')}), 4, 'TOAST tables have no rows');
$_->safe_psql('postgres', 'ALTER ROLE CURRENT_USER RESET ALL') for $one, $two;

# A locked partition
my $session = pv_session($one);
$session->query_safe('BEGIN; LOCK p1');
like(run_of(', skip_locked => true'), qr/^one public\.p1 skipped$/m, 'a locked partition is skipped');
$session->query_safe('COMMIT');

# Caps: at most so many at a time, by when each server began and ended its vacuums.  Of those that
# ran at one time, the one that began last began while the others ran.
sub most_at_once
{
	my ($arguments) = @_;
	sql($fill);
	times_vacuumed();
	$_->safe_psql('postgres', q{ALTER ROLE CURRENT_USER SET vacuum_cost_delay = '20ms'; ALTER ROLE CURRENT_USER SET vacuum_cost_limit = 30}) for $node, $one, $two;
	my $shards = $node->safe_psql('postgres', "SELECT count(*) FROM parvacuum_run_cluster('p', workers => 0$arguments) WHERE outcome = 'done'");
	$_->safe_psql('postgres', 'ALTER ROLE CURRENT_USER RESET ALL') for $node, $one, $two;
	my @vacuums;
	for my $n ($node, $one, $two)
	{
		push @vacuums, map { [ $n->name, split /\|/ ] }
		  split /\n/, $n->safe_psql('postgres', q{SELECT extract(epoch FROM start_time), extract(epoch FROM end_time) FROM parvacuum_history WHERE relname ~ '^p\d'});
	}
	my ($most_nodes, $most) = (0, 0);
	for my $last (@vacuums)
	{
		my %running;
		$running{ $_->[0] }++ for grep { $_->[1] <= $last->[1] && $last->[1] < $_->[2] } @vacuums;
		$most_nodes = keys %running if keys %running > $most_nodes;
		for (values %running) { $most = $_ if $_ > $most; }
	}
	return "$shards shards, $most_nodes nodes, $most on a node";
}
is(most_at_once(', shards_at_once_per_node => 2'), '4 shards, 3 nodes, 2 on a node', 'two at a time on each node');
is(most_at_once(', nodes_at_once => 1'), '4 shards, 1 nodes, 1 on a node', 'one node at a time');
is(sql(q{SELECT node, relname FROM parvacuum_cluster_history WHERE relname ~ '^p\d' ORDER BY start_time LIMIT 1}), 'one|p2', 'the largest partition of the node with most to do is first');
is(most_at_once(''), '4 shards, 3 nodes, 1 on a node', 'by default all nodes at a time, and one partition of each');

# Views of all nodes
is(sql(q{SELECT node, node_error, count(*) > 0 FROM parvacuum_cluster_history WHERE relname ~ '^p\d' GROUP BY 1, 2 ORDER BY 1}), "local||t\none||t\ntwo||t", 'history of all nodes');
$one->safe_psql('postgres', 'ALTER TABLE p2 SET (parvacuum.enabled, parvacuum.workers = 3)');
is(sql(q{SELECT node, relation, enabled, workers FROM parvacuum_cluster_tables WHERE workers IS NOT NULL}), 'one|p2|t|3', 'options of tables of other nodes');
is(sql(q{SELECT node, count(*), bool_and(xid_age > 0 AND xids_left > 2000000000), count(relation) FROM parvacuum_cluster_wraparound GROUP BY 1 ORDER BY 1}), "local|3|t|1\none|3|t|1\ntwo|3|t|1", 'distance from wraparound of all databases of all nodes');
$session->query_safe('BEGIN; SELECT pg_current_xact_id()');
$two->safe_psql('postgres', 'SELECT pg_current_xact_id()') for 1 .. 5;
is(sql(q{SELECT node, kind, state FROM parvacuum_cluster_blockers WHERE node <> 'local'}), 'one|idle in transaction|idle in transaction', 'who holds back the horizon on another node')
  or diag sql('TABLE parvacuum_cluster_blockers');
$session->query_safe('COMMIT');
is(sql(q{SELECT count(*) FROM parvacuum_cluster_queue WHERE node_error IS NOT NULL}), 0, 'queues of all nodes');

# A limit of workers
is(sql('SELECT node, groupid, max_workers, workers, error FROM parvacuum_cluster_cap() ORDER BY 1'), "local||16|0|\none||16|0|\ntwo||16|0|", 'workers that nodes may have');
is(sql(q{SELECT node, max_workers, error FROM parvacuum_cluster_cap(3, 'two')}), 'two|3|', 'a limit for one node');
is(sql(q{SELECT node, max_workers, error FROM parvacuum_cluster_cap(2) ORDER BY 1}), "local|2|\none|2|\ntwo|2|", 'a limit for all nodes');
like(error_of(q{SELECT parvacuum_cluster_cap(3, 'three')}), qr/there is no such node/, 'no such node');
like(error_of(q{SELECT parvacuum_cluster_cap(-1)}), qr/must be between 0 and 1024/, 'no such limit');

# What ends a run ends it on all servers
my $slow = q{ALTER ROLE CURRENT_USER SET vacuum_cost_delay = '100ms'; ALTER ROLE CURRENT_USER SET vacuum_cost_limit = 1; ALTER ROLE CURRENT_USER SET vacuum_cost_page_hit = 50};
my $reset = 'ALTER ROLE CURRENT_USER RESET ALL';
my $running = q{SELECT count(*) FROM pg_stat_activity WHERE query LIKE '%parvacuum_run(%' AND state = 'active' AND backend_type = 'client backend' AND pid <> pg_backend_pid()};
for my $how (qw(pg_cancel_backend pg_terminate_backend))
{
	sql($fill);
	$_->safe_psql('postgres', $slow) for $one, $two;
	my $started = pv_start_run($node, q{SELECT count(*) FROM parvacuum_run_cluster('p', disable_page_skipping => true)});
	ok(pv_await($one, $running, 1) && pv_await($two, $running, 1), "$how: a run on both servers");
	is($one->safe_psql('postgres', "$running AND backend_xmin IS NOT NULL"), 0, "$how: it holds no snapshot there");
	is(sql(q{SELECT string_agg(DISTINCT node, ' ' ORDER BY node) FROM parvacuum_cluster_progress WHERE node <> 'local' AND participant IS NULL}), 'one two', "$how: progress of all nodes");
	sql("SELECT $how(pid) FROM pg_stat_activity WHERE application_name = '$started->{tag}'");
	ok(!pv_finish($started), "$how: the run ends");
	ok(pv_await($one, $running, 0) && pv_await($two, $running, 0), "$how: it ends on both servers");
	ok(pv_await($one, 'SELECT count(*) FROM parvacuum_progress', 0) && pv_await($two, 'SELECT count(*) FROM parvacuum_progress', 0), "$how: no vacuum goes on");
	$_->safe_psql('postgres', $reset) for $one, $two;
}
is(sql(q{SELECT count(*) FROM parvacuum_run_cluster('p') WHERE outcome = 'done'; SELECT coalesce(cardinality(tools.dblink_get_connections()), 0)}), "4\n0", 'the next run works, and leaves no connection');

# A partition that is detached while others are vacuumed is forgotten.
sql($fill);
$one->safe_psql('postgres', $slow);
my $started = pv_start_run($node, q{SELECT string_agg(shard, ' ' ORDER BY shard) FROM parvacuum_run_cluster('p', disable_page_skipping => true)});
ok(pv_await($one, $running, 1), 'detached: a run');
$one->safe_psql('postgres', $reset);
sql('ALTER TABLE p DETACH PARTITION p1');
$one->safe_psql('postgres', 'SELECT pg_cancel_backend(pid) FROM pg_stat_activity WHERE query LIKE \'%parvacuum_run(%\' AND state = \'active\' AND pid <> pg_backend_pid()');
ok(pv_finish($started), 'detached: the run goes on');
is($started->{out}, q{"it's"."p3 ""x" public.p2 public.p4}, 'detached: the other partitions are in the result');
sql('ALTER TABLE p ATTACH PARTITION p1 FOR VALUES FROM (0) TO (10000)');

# A partition that is renamed under way is vacuumed once.
$session->query_safe('BEGIN; LOCK p1');
times_vacuumed();
$started = pv_start_run($node, q{SELECT string_agg(shard, ' ' ORDER BY shard) FROM parvacuum_run_cluster('p', workers => 0)});
ok(pv_await($node, q{SELECT count(*) FROM parvacuum_history WHERE relname = 'p4' AND outcome = 'done'}, 1), 'renamed: a partition is vacuumed');
sql('ALTER TABLE p4 RENAME TO p4_renamed');
$session->query_safe('COMMIT');
ok(pv_finish($started), 'renamed: the run goes on');
is($started->{out}, q{"it's"."p3 ""x" public.p1 public.p2 public.p4}, 'renamed: it is in the result once');
is(times_vacuumed(), 'p4 1 p1 1 p2 1 p3 "x 1', 'renamed: it was vacuumed once');
sql('ALTER TABLE p4_renamed RENAME TO p4');

# A partition on a server that had none, attached while others are vacuumed
my $other = pv_session($one);
$one->safe_psql('postgres', "CREATE TABLE e$_ (i int)") for 1, 2;
$two->safe_psql('postgres', 'CREATE TABLE e3 (i int)');
sql('CREATE TABLE e (i int) PARTITION BY LIST (i)', map { "CREATE FOREIGN TABLE e$_ PARTITION OF e FOR VALUES IN ($_) SERVER one" } 1, 2);
$session->query_safe('BEGIN; LOCK e1');
$other->query_safe('BEGIN; LOCK e2');
$started = pv_start_run($node, q{SELECT string_agg(concat_ws(' ', node, shard, outcome, error), ', ' ORDER BY shard) FROM parvacuum_run_cluster('e', workers => 0, shards_at_once_per_node => 2)});
ok(pv_await($one, $running, 2), 'attached: a run');
sql('CREATE FOREIGN TABLE e3 PARTITION OF e FOR VALUES IN (3) SERVER two');
$other->query_safe('COMMIT');
ok(pv_await($two, q{SELECT count(*) FROM parvacuum_history WHERE relname = 'e3' AND outcome = 'done'}, 1), 'attached: the other server vacuums it');
$session->query_safe('COMMIT');
ok(pv_finish($started), 'attached: the run goes on');
is($started->{out}, 'one public.e1 done, one public.e2 done, two public.e3 done', 'attached: all are vacuumed, also the one that took longest');
$other->quit;

# A server that dies under way
sql($fill);
times_vacuumed();
$two->safe_psql('postgres', $slow);
$started = pv_start_run($node, sprintf $run, ', workers => 0');
ok(pv_await($two, $running, 1), 'death: a run');
$two->stop('immediate');
ok(pv_finish($started), 'death: the run goes on');
like($started->{out}, qr/^local public\.p4 done \d+\none public\.p1 done \d+\none public\.p2 done \d+\ntwo .* failed .*(?:terminat|clos)/, 'death: one partition has an error');
is(times_vacuumed(), 'p4 1 p1 1 p2 1', 'death: the others were vacuumed once');

# A server that is down
like(run_of(), qr/^local public\.p4 done 0\none public\.p1 done 0\none public\.p2 done 0\ntwo .* failed .*connect/s, 'a server that is down does not keep others from being vacuumed') or diag run_of();
is(sql(q{SELECT string_agg(outcome, ' ' ORDER BY shard) FROM parvacuum_run_cluster('p', stop_on_error => true)}), 'failed not run done done', 'unless the caller wants that');
like(sql('SELECT node, node_error FROM parvacuum_cluster_history WHERE node_error IS NOT NULL'), qr/^two\|could not .*connect/, 'it has a row in the views');
is(sql('SELECT count(*) > 1 FROM parvacuum_cluster_history WHERE node_error IS NULL'), 't', 'beside the rows of others');
$two->start;
$two->safe_psql('postgres', $reset);

# A server without parvacuum
$two->safe_psql('postgres', 'DROP EXTENSION parvacuum CASCADE');
like(run_of(), qr/^two .* failed the extension "parvacuum" is not installed in this database$/m, 'a server without parvacuum');
$two->safe_psql('postgres', 'CREATE EXTENSION parvacuum SCHEMA "it\'s"');
unlike(run_of(), qr/failed/, 'parvacuum is in another schema');

# Roles
sql('CREATE ROLE pv_other LOGIN', 'CREATE USER MAPPING FOR pv_other SERVER one OPTIONS (user \'pv_other\')');
$one->safe_psql('postgres', 'CREATE ROLE pv_other LOGIN');
sub as_other { return sql('SET SESSION AUTHORIZATION pv_other', @_); }
is(as_other('SELECT node FROM parvacuum_cluster_nodes()'), 'local', 'a role has only nodes that it may use');
like(as_other(sprintf $run, ''), qr/^local public\.p4 failed permission denied .*\none public\.p1 failed there is no such node/s, 'it has errors for the others, and for what it may not vacuum');
sql('GRANT USAGE ON FOREIGN SERVER one TO pv_other', 'GRANT USAGE ON SCHEMA tools TO pv_other');
like(as_other(sprintf $run, ''), qr/^one public\.p1 failed password/m, 'it needs a password in its user mapping, as it does for postgres_fdw');
sql(q{CREATE USER MAPPING FOR CURRENT_USER SERVER one}) if !sql(q{SELECT count(*) FROM pg_user_mappings WHERE srvname = 'one' AND usename = current_user});
is(as_other(q{SELECT max_workers, error FROM parvacuum_cluster_cap(1, 'local')}), '2|permission denied to set parameter "parvacuum.max_workers"', 'it cannot change limits');

# A server of a role that is no superuser: only that role uses it, whoever made the mapping.
my $servers = q{SELECT coalesce(string_agg(node, ' ' ORDER BY node), '') FROM parvacuum_cluster_nodes() WHERE kind = 'server'};
sql('CREATE ROLE pv_maker', 'CREATE ROLE pv_third LOGIN', 'GRANT USAGE ON FOREIGN DATA WRAPPER postgres_fdw TO pv_maker', 'GRANT CREATE ON SCHEMA public TO pv_maker', 'SET ROLE pv_maker',
	sprintf(q{CREATE SERVER theirs FOREIGN DATA WRAPPER postgres_fdw OPTIONS (host '%s', port '%s', dbname 'postgres')}, $one->host, $one->port),
	q{CREATE USER MAPPING FOR PUBLIC SERVER theirs OPTIONS (user 'pv_other')}, 'GRANT USAGE ON FOREIGN SERVER theirs TO PUBLIC',
	'CREATE TABLE theirs (i int) PARTITION BY LIST (i)', q{CREATE FOREIGN TABLE theirs_1 PARTITION OF theirs DEFAULT SERVER theirs OPTIONS (table_name 'p1')});
is(sql($servers), 'one two', 'a server of another role is no node for a superuser');
is(sql('SET SESSION AUTHORIZATION pv_third', $servers), '', 'nor for a third role');
is(sql('SET ROLE pv_maker', $servers), 'theirs', 'but for its owner');
is(sql('GRANT pv_maker TO pv_third', 'SET SESSION AUTHORIZATION pv_third', $servers), '', 'nor for a member of that role');
sql('REVOKE pv_maker FROM pv_third', 'SET ROLE pv_maker', q{CREATE USER MAPPING FOR pv_third SERVER theirs OPTIONS (user 'pv_other')}, sprintf q{CREATE USER MAPPING FOR %s SERVER theirs}, sql('SELECT current_user'));
is(sql('SET SESSION AUTHORIZATION pv_third', $servers), '', 'nor for a role for which its owner has made a mapping');
is(sql($servers), 'one two', 'its owner can make a mapping for a superuser, which changes nothing');
like(sql(q{SELECT error FROM parvacuum_run_cluster('theirs')}), qr/^there is no such node, or the current role cannot use it$/, 'a superuser does not have it vacuum');
sql(sprintf 'ALTER SERVER theirs OWNER TO %s', sql('SELECT current_user'));
is(sql($servers), 'one theirs two', 'a server that a superuser owns is a node for a superuser');
sql('DROP SERVER theirs CASCADE', 'DROP TABLE theirs');

# Errors
like(error_of(q{SELECT parvacuum_run_cluster('p4')}), qr/table "public.p4" is not sharded\nHINT:  Use parvacuum_run\(\)/, 'a table that is not sharded');
like(error_of(q{SELECT parvacuum_run_cluster(NULL)}), qr/only workers, nodes_at_once and truncate can be NULL/, 'no table');
like(error_of(q{SELECT parvacuum_run_cluster('p', nodes_at_once => 0)}), qr/must be at least 1/, 'no node at once');
like(error_of(q{SELECT parvacuum_run_cluster('p', shards_at_once_per_node => 0)}), qr/must be at least 1/, 'no shard at once');
like(error_of(q{SELECT parvacuum_run_cluster('none')}), qr/relation "none" does not exist/, 'no such table');
like(run_of(q{, index_cleanup => 'perhaps'}), qr/failed .*index_cleanup/, 'an argument that parvacuum_run() refuses');

# Text that is dangerous if it is formatted or replaced twice
like(run_of(q{, index_cleanup => '%2$L %s'}), qr/^one public\.p1 failed [^\n]*"%2\$L %s"$/m, 'arguments with format specifications');
my $hard = q{s%L@parvacuum@ ?\\'};
my $hard_schema = qq{"$hard"};

sub server
{
	my ($name, $n, $database, $user) = @_;
	return sprintf(q{CREATE SERVER %s FOREIGN DATA WRAPPER postgres_fdw OPTIONS (host '%s', port '%s', dbname '%s')}, $name, $n->host, $n->port, $database),
	  "CREATE USER MAPPING FOR PUBLIC SERVER $name" . ($user ? " OPTIONS (user '$user')" : '');
}
$one->safe_psql('postgres', qq{CREATE SCHEMA $hard_schema; CREATE TABLE $hard_schema."t "" %s" (i int) PARTITION BY LIST (i);
	CREATE TABLE h1 PARTITION OF $hard_schema."t "" %s" FOR VALUES IN (1, 2); CREATE TABLE h2 PARTITION OF $hard_schema."t "" %s" DEFAULT});
sql(qq{CREATE SCHEMA $hard_schema},
	qq{CREATE TABLE $hard_schema.h (i int) PARTITION BY LIST (i)},
	qq{CREATE TABLE $hard_schema.sub PARTITION OF $hard_schema.h FOR VALUES IN (1, 2) PARTITION BY LIST (i)},
	qq{CREATE TABLE $hard_schema."%1\$s ""'" PARTITION OF $hard_schema.sub FOR VALUES IN (1)},
	server('local', $one, 'postgres'), server($hard_schema, $one, 'postgres'),
	qq{CREATE FOREIGN TABLE h3 PARTITION OF $hard_schema.sub FOR VALUES IN (2) SERVER local OPTIONS (table_name 'p1')},
	qq{CREATE FOREIGN TABLE h4 PARTITION OF $hard_schema.h FOR VALUES IN (3) SERVER $hard_schema OPTIONS (schema_name 's%L\@parvacuum\@ ?\\''', table_name 't " %s')},
	qq{CREATE FOREIGN TABLE h5 PARTITION OF $hard_schema.h FOR VALUES IN (4) SERVER local OPTIONS (table_name 'p1')},
	'CREATE EXTENSION file_fdw', 'CREATE SERVER files FOREIGN DATA WRAPPER file_fdw',
	qq{CREATE FOREIGN TABLE h6 PARTITION OF $hard_schema.h FOR VALUES IN (5) SERVER files OPTIONS (filename '/dev/null')});
is(sql(qq{SELECT concat_ws(' ', node, shard, outcome, count(*), error) FROM parvacuum_run_cluster(\$\$$hard_schema.h\$\$) GROUP BY node, shard, outcome, error ORDER BY 1}),
	qq{"local" public.p1 done 1\nlocal $hard_schema."%1\$s ""'" done 1\n$hard $hard_schema."t "" %s" done 2},
	'names that are hard to quote, partitions of partitions, a server named like this one, one table twice, and a file');
is(sql(q{SELECT count(DISTINCT node), count(node_error) FROM parvacuum_cluster_tables}), '5|0', 'hard names in the views');
sql('CREATE DATABASE odd');
is($node->safe_psql('odd', q{CREATE SCHEMA "a%s b"; CREATE EXTENSION parvacuum SCHEMA "a%s b"; CREATE EXTENSION parvacuum_cluster SCHEMA "a%s b";
	SELECT node, node_error FROM "a%s b".parvacuum_cluster_wraparound LIMIT 1}), 'local|', 'a schema with a format specification');

# A table whose partitions are these tables of a server, and a role that has few connections there and may not use a schema
sub pieces
{
	my ($name, $server, @tables) = @_;
	return "CREATE TABLE $name (i int) PARTITION BY LIST (i)", map { "CREATE FOREIGN TABLE ${name}_$_ PARTITION OF $name FOR VALUES IN ($_) SERVER $server OPTIONS ($tables[$_])" } 0 .. $#tables;
}
$one->safe_psql('postgres', 'CREATE ROLE few LOGIN CONNECTION LIMIT 2; CREATE SCHEMA closed; CREATE TABLE closed.f0 (i int)');
$one->safe_psql('postgres', "CREATE TABLE f$_ (i int); ALTER TABLE f$_ OWNER TO few") for 1 .. 5;
sql(server('few', $one, 'postgres', 'few'), pieces('f', 'few', q{schema_name 'closed', table_name 'f0'}, map { "table_name 'f$_'" } 1 .. 5));
like(sql(q{SELECT string_agg(concat_ws(' ', shard, outcome, error), ', ' ORDER BY shard) FROM parvacuum_run_cluster('f', shards_at_once_per_node => 5, workers => 0)}),
	qr/^closed\.f0 failed permission denied for schema closed(, public\.f\d done){5}$/, 'fewer connections than the caller wants, and a schema that is closed');

# A server whose results are none
$one->safe_psql('postgres', 'CREATE DATABASE fake');
$one->safe_psql('fake', q{CREATE TABLE t (i int); CREATE EXTENSION parvacuum; CREATE SCHEMA other; ALTER FUNCTION parvacuum_run SET SCHEMA other;
	CREATE FUNCTION parvacuum_run(r regclass, workers int, freeze bool, index_cleanup text, truncate bool, "analyze" bool, skip_locked bool, disable_page_skipping bool, verbose bool,
		OUT relid regclass, OUT node text, OUT tuples_removed text, OUT elapsed_ms float8) RETURNS SETOF record LANGUAGE sql AS
	$$SELECT r, 'another', CASE workers WHEN 0 THEN 'many' ELSE '5' END, 'Infinity'::float8$$});
sql(server('fake', $one, 'fake'), pieces('g', 'fake', q{table_name 't'}), q{CREATE FOREIGN TABLE g_1 PARTITION OF g FOR VALUES IN (9) SERVER one OPTIONS (table_name 'p1')});
is(sql(q{SELECT concat_ws(' ', node, outcome, error) FROM parvacuum_run_cluster('g', workers => 0) ORDER BY node}),
	qq{fake failed the result of the node is not understood: invalid input syntax for type bigint: "many"\none done}, 'a result that cannot be understood');
is(sql(q{SELECT concat_ws(' ', node, tuples_removed, elapsed_ms) FROM parvacuum_run_cluster('g') WHERE node = 'fake'}), 'fake 5 Infinity', 'a node cannot say that it is another');

# A server of another encoding, which has not all letters
$two->safe_psql('postgres', q{CREATE DATABASE latin TEMPLATE template0 ENCODING 'LATIN1' LOCALE 'C'});
$two->safe_psql('latin', q{CREATE EXTENSION parvacuum; CREATE TABLE plain (i int); CREATE TABLE U&"caf\00E9" (i int)});
sql(q{CREATE DATABASE utf8 TEMPLATE template0 ENCODING 'UTF8' LOCALE 'C'});
$node->safe_psql('utf8', join ";\n", 'CREATE EXTENSION parvacuum_cluster CASCADE', 'CREATE EXTENSION dblink', 'CREATE EXTENSION postgres_fdw', server('latin', $two, 'latin'), pieces('l', 'latin', q{table_name 'plain'}, q{table_name U&'caf\00E9'}, q{table_name U&'\65E5\672C'}));
is($node->safe_psql('utf8', q{SELECT string_agg(outcome || coalesce(substring(error, ' has no equivalent in encoding'), ''), ', ' ORDER BY shard COLLATE "C") FROM parvacuum_run_cluster('l')}),
	'done, failed has no equivalent in encoding, done', 'a name that the other server cannot have does not keep others from being vacuumed');

# A name that is none
sql(pieces('z', 'one', q{table_name 'p1'}, q{table_name ''}, q{schema_name ''}));
is(sql(q{SELECT string_agg(concat_ws(' ', shard, outcome, substring(error, 'does not exist')), ', ' ORDER BY shard) FROM parvacuum_run_cluster('z')}),
	q{"".z_2 failed does not exist, public."" failed does not exist, public.p1 done}, 'an empty name does not keep others from being vacuumed');

# Connections of the caller, and one that an earlier call could not close
is(sql(q{SELECT count(*) FROM tools.dblink_connect('parvacuum_cluster_mine', 'one') a, tools.dblink_connect('parvacuum_cluster_1', 'one') b},
	q{SELECT string_agg(outcome, ' ') FROM parvacuum_run_cluster('g')}, 'SELECT tools.dblink_get_connections()'),
	"1\ndone done\n{parvacuum_cluster_mine}", 'a connection that was left is replaced, and those of the caller stay');
my $lock = pv_session($one);
$lock->query_safe('BEGIN; LOCK p1');
my ($rc, $out, $err) = $node->psql('postgres', q{
	SELECT count(*) FROM tools.dblink_connect('parvacuum_cluster_mine', 'one');
	BEGIN;
	SAVEPOINT s;
	SET LOCAL statement_timeout = '2s';
	SELECT outcome FROM parvacuum_run_cluster('g');
	ROLLBACK TO s;
	SELECT tools.dblink_get_connections();
	DECLARE c CURSOR FOR SELECT outcome FROM parvacuum_run_cluster('g', skip_locked => true) WHERE node = 'one';
	FETCH 1 FROM c;
	CLOSE c;
	SELECT count(*) FROM pg_locks WHERE pid = pg_backend_pid() AND relation IN ('g'::regclass, 'g_0'::regclass, 'g_1'::regclass);
	COMMIT}, on_error_stop => 0);
is($out, "1\n{parvacuum_cluster_mine}\nskipped\n0", 'a timeout in a subtransaction closes the connections of the run; then a cursor; no table is locked');
like($err, qr/canceling statement due to statement timeout/, 'the error is that of the timeout');
ok(pv_await($one, $running, 0), 'nothing waits for the lock any more');
$lock->query_safe('COMMIT');
$lock->quit;

# To look for what is to do must not take longer than the vacuums.
my $many = 400;
$one->safe_psql('postgres', qq{DO \$\$BEGIN FOR i IN 1 .. $many LOOP EXECUTE format('CREATE TABLE m%s (i int)', i); END LOOP; END\$\$});
sql('CREATE TABLE m (i int) PARTITION BY LIST (i)',
	qq{DO \$\$BEGIN FOR i IN 1 .. $many LOOP EXECUTE format('CREATE FOREIGN TABLE m%s PARTITION OF m FOR VALUES IN (%1\$s) SERVER one', i); END LOOP; END\$\$});
is(sql(q{SET track_functions = 'all'}, q{SELECT count(*) FROM parvacuum_run_cluster('m', workers => 0) WHERE outcome = 'done'}, 'DO $$BEGIN PERFORM pg_stat_force_next_flush(); END$$',
	q{SELECT sum(total_time) FILTER (WHERE funcname = 'parvacuum_cluster_shards') < 0.2 * sum(total_time) FILTER (WHERE funcname = 'parvacuum_run_cluster') FROM pg_stat_user_functions}),
	"$many\nt", 'with many partitions most of the time is that of the vacuums')
  or diag sql('SELECT funcname, calls, total_time, self_time FROM pg_stat_user_functions');

$session->quit;
pv_no_crash($_, $_->name) for $node, $one, $two;
done_testing();
