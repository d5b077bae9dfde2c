# parvacuum_cluster beside roles that mean harm: the names of their servers, schemas and
# functions; vacuums on this server in the caller's rights; what ends them

use strict;
use warnings FATAL => 'all';

use FindBin;
use lib $FindBin::RealBin;
use IO::Select;
use IO::Socket::UNIX;
use POSIX ();
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use PvTest;
use Test::More;

my $node = pv_node('main');
$node->append_conf('postgresql.conf', "autovacuum = off\nlog_connections = on\nlog_min_messages = log\ndeadlock_timeout = 100ms\n");
$node->start;
pv_setup($node);
my $port = $node->port;
my $host = $node->host;
my $me = $node->safe_psql('postgres', 'SELECT current_user');
sub sql { return pv_sql($node, @_); }
sub error_of { my ($rc, $out, $err) = $node->psql('postgres', join(";\n", @_)); return $err; }
sub as_role { my ($role, @statements) = @_; return sql("SET SESSION AUTHORIZATION $role", @statements); }

# mallory owns a database, with what a trap needs: connections of superusers to it are in the log.
$node->safe_psql('postgres', $_) for 'CREATE ROLE mallory LOGIN', 'CREATE DATABASE trap OWNER mallory', 'CREATE DATABASE far';
$node->safe_psql('far', 'CREATE EXTENSION parvacuum; CREATE TABLE e2 (i int); CREATE TABLE e3 (i int)');
sub trapped { return scalar(my @lines = slurp_file($node->logfile) =~ /connection authorized: user=$me database=trap/g); }
sub server_sql { my ($name, $database, $at) = @_; return sprintf q{CREATE SERVER "%s" FOREIGN DATA WRAPPER postgres_fdw OPTIONS (host '%s', port '%s', dbname '%s')}, $name, $at // $host, $port, $database; }
sub trap_sql { my ($name) = @_; return (server_sql($name, 'trap'), qq{CREATE USER MAPPING FOR PUBLIC SERVER "$name" OPTIONS (user '$me')}, qq{GRANT USAGE ON FOREIGN SERVER "$name" TO PUBLIC}); }

sql('CREATE EXTENSION parvacuum_cluster', 'CREATE EXTENSION postgres_fdw', 'CREATE SCHEMA tools AUTHORIZATION mallory', 'CREATE EXTENSION dblink SCHEMA tools', 'GRANT USAGE ON FOREIGN DATA WRAPPER postgres_fdw TO mallory', 'CREATE SCHEMA mallory AUTHORIZATION mallory',
	server_sql('far', 'far'), "CREATE USER MAPPING FOR $me SERVER far",
	'CREATE TABLE e (i int, t text) PARTITION BY RANGE (i)', 'CREATE TABLE e1 PARTITION OF e FOR VALUES FROM (0) TO (10)', 'CREATE TABLE e4 PARTITION OF e FOR VALUES FROM (30) TO (40)',
	q{CREATE FOREIGN TABLE e2 PARTITION OF e FOR VALUES FROM (10) TO (20) SERVER far OPTIONS (table_name 'e2')}, 'INSERT INTO e1 SELECT 1 FROM generate_series(1, 1000)', 'INSERT INTO e4 SELECT 31 FROM generate_series(1, 500)', 'DELETE FROM e1', 'DELETE FROM e4');
my $run = q{SELECT concat_ws(' ', node, shard, outcome, error) FROM parvacuum_run_cluster('e'%s) ORDER BY 1};
my $done = "far public.e2 done\nlocal public.e1 done\nlocal public.e4 done";
my @views = map { "SELECT count(*) FROM parvacuum_cluster_$_ WHERE node_error IS NOT NULL" } qw(progress history queue tables blockers wraparound);

# Names of servers: those of connection strings, in any order, of nodes and of connections, of 63
# bytes, in any alphabet; and no name but the one of the server leads anywhere.
is(sql(sprintf $run, ''), $done, 'all partitions are vacuumed');
my @words = ("dbname='postgres'", "user='$me'", "port='$port'", "host='$host'");
my @names = (map({ my $i = $_; substr join(' ', @words[ $i .. 3 ], @words[ 0 .. $i - 1 ]), 0, 63 } 0 .. 3), map({ my $string = join ' ', map { s/'//gr } @words; substr $string, 0, $_ } 63, 20),
	"host=$host", "dbname=postgres", 'local', 'here', '', 'parvacuum_cluster_1', 'parvacuum_cluster_q1', "\xc3\xa9" x 31, 'far ', 'FAR');
sql('SET SESSION AUTHORIZATION mallory', map { trap_sql($_) } grep { $_ ne '' } @names);
is(sql(sprintf $run, ''), $done, 'servers of another role: a run');
is(sql(@views, 'SELECT string_agg(node, chr(32) ORDER BY node) FROM parvacuum_cluster_cap(3)'), "0\n" x 6 . 'far local', 'servers of another role: views, and a limit');
is(sql(q{SET parvacuum_cluster.local_server = 'local'}, sprintf $run, ''), $done, 'servers of another role: no setting leads to them');
is(trapped(), 0, 'servers of another role: no connection of a superuser goes there');
is(sql(q{SELECT max_workers FROM parvacuum_cluster_cap() WHERE node = 'local'}), 3, 'the limit is in effect');

# A name that passes to a server of another role, after the snapshot of a transaction
my @take = ('ALTER SERVER far RENAME TO far_away', 'SET SESSION AUTHORIZATION mallory', trap_sql('far'));
my $taken = pv_session($node);
$taken->query_safe(q{BEGIN ISOLATION LEVEL REPEATABLE READ; SELECT count(*) FROM pg_foreign_server});
sql(@take);
like($taken->query_safe(sprintf $run, ''), qr/^far public\.e2 failed (?:there is no such node|the current role cannot use server "far")/m, 'a name that was taken: a run');
like($taken->query_safe('SELECT node, node_error FROM parvacuum_cluster_history WHERE node <> \'local\''), qr/^$|cannot use/, 'a name that was taken: views');
is($taken->query_safe(q{DO $$BEGIN PERFORM parvacuum_cluster_send('parvacuum_cluster_1', 'far', 'SELECT 1'); EXCEPTION WHEN insufficient_privilege THEN RETURN; END$$}), '', 'a name that was taken: it is checked where it is used');
$taken->query_safe('COMMIT');
is(trapped(), 0, 'a name that was taken: no connection of a superuser goes there');
sql('DROP SERVER far CASCADE', 'ALTER SERVER far_away RENAME TO far');

# A server is held while it connects: here to a socket at which nobody answers, or where a
# proxy passes everything on when the file "go" exists.
my $dir = PostgreSQL::Test::Utils::tempdir_short;
my $go = "$dir/go";
my $proxy = fork // die "fork: $!";
if (!$proxy)
{
	my $listener = IO::Socket::UNIX->new(Local => "$dir/.s.PGSQL.$port", Listen => 5) or POSIX::_exit(1);
	local $SIG{CHLD} = 'IGNORE';
	for (;;)
	{
		my $client = $listener->accept or next;
		next if fork;
		while (!-e $go) { select undef, undef, undef, 0.01; }
		my $server = IO::Socket::UNIX->new(Peer => "$host/.s.PGSQL.$port") or POSIX::_exit(1);
		my $both = IO::Select->new($client, $server);
		while (my @ready = $both->can_read)
		{
			for my $from (@ready)
			{
				POSIX::_exit(0) if !sysread $from, my $data, 65536;
				syswrite $from == $client ? $server : $client, $data;
			}
		}
	}
}
chmod 0777, $dir;
while (!-S "$dir/.s.PGSQL.$port") { select undef, undef, undef, 0.01; }
my $held = q{SELECT count(*) FROM pg_locks WHERE locktype = 'object' AND classid = 'pg_foreign_server'::regclass AND granted AND mode = 'AccessShareLock'};
my $waiting = q{SELECT count(*) FROM pg_locks WHERE classid = 'pg_foreign_server'::regclass AND NOT granted};
sql("ALTER SERVER far OPTIONS (SET host '$dir')");
for my $change ('ALTER SERVER far RENAME TO far_away', 'DROP SERVER far CASCADE')
{
	my $slow = pv_start_run($node, sprintf $run, '');
	ok(pv_await($node, $held, 1), "$change: a connection is being made");
	my $changed = pv_start_run($node, "BEGIN; $change; ROLLBACK");
	ok(pv_await($node, $waiting, 1), "$change: it waits meanwhile");
	append_to_file($go, '');
	ok(pv_finish($slow) && pv_finish($changed), "$change: both end");
	is($slow->{out}, $done, "$change: the run is done");
	unlink $go;
}
my $slow = pv_start_run($node, sprintf $run, '');
ok(pv_await($node, $held, 1), 'a server that is given away: a connection is being made');
sql('ALTER SERVER far OWNER TO mallory');
append_to_file($go, '');
ok(pv_finish($slow), 'a server that is given away: the run ends');
like($slow->{out}, qr/^far public\.e2 failed the current role cannot use server "far"/, 'a server that is given away: nothing is sent');
is(sql("ALTER SERVER far OWNER TO $me", "ALTER SERVER far OPTIONS (SET host '$host')", 'SELECT coalesce(cardinality(tools.dblink_get_connections()), 0)', sprintf $run, ''), "0\n$done", 'and taken back');
kill 'KILL', $proxy;
waitpid $proxy, 0;

# A wrapper whose handler has the name of that of postgres_fdw
sql('CREATE EXTENSION file_fdw SCHEMA mallory', 'ALTER FUNCTION mallory.file_fdw_handler() RENAME TO postgres_fdw_handler', 'CREATE FOREIGN DATA WRAPPER other HANDLER mallory.postgres_fdw_handler', 'CREATE SERVER other FOREIGN DATA WRAPPER other', 'CREATE USER MAPPING FOR PUBLIC SERVER other',
	q{CREATE TABLE o (i int) PARTITION BY LIST (i)}, 'CREATE TABLE o1 PARTITION OF o DEFAULT', 'CREATE FOREIGN TABLE o2 PARTITION OF o FOR VALUES IN (2) SERVER other');
is(sql(q{SELECT count(*) FROM parvacuum_cluster_shards('o')}, q{SELECT count(*) FROM parvacuum_cluster_nodes() WHERE server = 'other'}), "1\n0", 'a wrapper with a handler of the same name is not postgres_fdw');

# The owner of the schema that dblink is in: has another schema of that name, before a call and
# after the snapshot of a transaction.
my $planted = join ";\n", map { "CREATE FUNCTION tools.$_ LANGUAGE plpgsql AS 'BEGIN RAISE LOG ''planted, as %'', current_user; RETURN NULL; END'" }
  'dblink_connect(text, text) RETURNS text', 'dblink_exec(text, text) RETURNS text', 'dblink_send_query(text, text) RETURNS int', 'dblink_is_busy(text) RETURNS int', 'dblink_disconnect(text) RETURNS text', 'dblink_get_connections() RETURNS text[]', 'dblink_error_message(text) RETURNS text', 'dblink_cancel_query(text) RETURNS text';
sql('GRANT CREATE ON DATABASE postgres TO mallory');
pv_new_log($node);
$taken->query_safe(q{BEGIN ISOLATION LEVEL REPEATABLE READ; SELECT count(*) FROM pg_namespace});
as_role('mallory', 'ALTER SCHEMA tools RENAME TO elsewhere', 'CREATE SCHEMA tools', $planted);
is(sql(sprintf $run, ''), $done, 'a planted schema of dblink: a run');
like($taken->query_safe(sprintf $run, ''), qr/^$done$/, 'a planted schema of dblink: a run in a transaction that began before');
is(sql(@views), join("\n", (0) x 6), 'a planted schema of dblink: views');
$taken->query_safe('COMMIT');
$taken->quit;
unlike(pv_new_log($node), qr/planted, as (?!%)/, 'a planted schema of dblink: nothing in it was called');
sql('SELECT tools.dblink_connect(\'a\', \'b\')');
like(pv_new_log($node), qr/planted, as $me/, 'it would have been seen');

# The functions of dblink belong to a superuser, and the rights to call them are asked.
sql('ALTER FUNCTION elsewhere.dblink_connect(text, text) OWNER TO mallory');
like(sql(sprintf $run, ''), qr/^far public\.e2 failed the extension "dblink" has no function dblink_connect\(\) of a superuser/, 'a function of dblink that belongs to another role is not called');
sql("ALTER FUNCTION elsewhere.dblink_connect(text, text) OWNER TO $me", 'REVOKE EXECUTE ON FUNCTION elsewhere.dblink_connect(text, text) FROM PUBLIC', 'CREATE ROLE other LOGIN', 'GRANT USAGE ON SCHEMA mallory TO other', 'GRANT SELECT ON e TO other', 'GRANT USAGE ON FOREIGN SERVER far TO other', 'CREATE USER MAPPING FOR other SERVER far');
like(as_role('other', sprintf $run, ''), qr/^far public\.e2 failed permission denied for function dblink_/, 'nor without USAGE on its schema');
like(as_role("$me; GRANT USAGE ON SCHEMA elsewhere TO other; SET SESSION AUTHORIZATION other", sprintf $run, ''), qr/^far public\.e2 failed permission denied for function dblink_connect$/m, 'nor without EXECUTE');
sql('GRANT EXECUTE ON FUNCTION elsewhere.dblink_connect(text, text) TO PUBLIC', 'DROP SCHEMA tools CASCADE', 'ALTER SCHEMA elsewhere RENAME TO tools');

# On this server an ordinary role vacuums what it may vacuum, and nobody connects.
as_role('mallory', 'CREATE TABLE mallory.t (i int, t text) PARTITION BY LIST (i)', map({ "CREATE TABLE mallory.t$_ PARTITION OF mallory.t FOR VALUES IN ($_)" } 1 .. 3), 'INSERT INTO mallory.t SELECT i FROM generate_series(1, 3) i, generate_series(1, 300)', 'DELETE FROM mallory.t');
sql('ALTER TABLE mallory.t3 OWNER TO other', 'GRANT USAGE ON FOREIGN SERVER far TO mallory', q{CREATE USER MAPPING FOR mallory SERVER far}, q{CREATE FOREIGN TABLE mallory.t4 PARTITION OF mallory.t FOR VALUES IN (4) SERVER far OPTIONS (schema_name 'public', table_name 'e3')}, 'REVOKE CONNECT ON DATABASE postgres FROM mallory, PUBLIC', 'GRANT CONNECT ON DATABASE postgres TO other');
my $of_mallory = q{SELECT concat_ws(' ', node, shard, relation, outcome, tuples_removed, substring(error, '^permission denied|^password')) FROM parvacuum_run_cluster('mallory.t') ORDER BY shard};
my $result = "local mallory.t1 t1 done 300\nlocal mallory.t2 t2 done 300\nlocal mallory.t3 failed permission denied\nfar public.e3 failed password";
sql('SELECT parvacuum_history_reset()');
pv_new_log($node);
is(as_role('mallory', $of_mallory), $result, 'an ordinary role vacuums its own partitions here');
is(sql(q{SELECT DISTINCT usename FROM parvacuum_history WHERE relname ~ '^t\d'}), 'mallory', 'as itself');
unlike(pv_new_log($node), qr/user=mallory/, 'without a connection');
is(sql('SET ROLE mallory', $of_mallory =~ s/tuples_removed, //r), $result =~ s/ 300//gr, 'so it is after SET ROLE');
sql('CREATE FUNCTION mallory.as_definer() RETURNS SETOF text SECURITY DEFINER LANGUAGE sql AS $$' . $of_mallory =~ s/tuples_removed, //r . '$$', 'ALTER FUNCTION mallory.as_definer() OWNER TO mallory');
is(sql('SELECT * FROM mallory.as_definer()'), $result =~ s/ 300//gr, 'and in a function with the rights of its owner');
is(sql('SET ROLE other', 'SELECT * FROM mallory.as_definer()'), $result =~ s/ 300//gr, 'which are not those of SET ROLE');
is(sql('SET search_path = mallory', q{SELECT string_agg(relation, ' ' ORDER BY relation) FROM public.parvacuum_run_cluster('t') WHERE node = 'local'}), 'mallory.t1 mallory.t2 mallory.t3', 'names are shown by the default search path');
sql(q{CREATE FUNCTION mallory.expression(i int) RETURNS int IMMUTABLE LANGUAGE plpgsql AS $$BEGIN PERFORM public.parvacuum_cluster_begin('mallory.t1', 0, false, 'auto', NULL, false, false, false, false); RETURN i; END$$});
sql('INSERT INTO mallory.t1 VALUES (1)');
like(error_of('CREATE INDEX ON mallory.t1 (mallory.expression(i))'), qr/cannot execute parvacuum_run_cluster\(\) within security-restricted operation/, 'functions of an index begin no run');

# A setting of the session, and transactions of all kinds
for my $kind ('ISOLATION LEVEL SERIALIZABLE', 'ISOLATION LEVEL SERIALIZABLE, READ ONLY, DEFERRABLE', 'READ ONLY')
{
	is(sql("BEGIN; SET TRANSACTION $kind", sprintf($run, ''), 'COMMIT'), $done, "a transaction $kind");
}
like(error_of(sprintf q{SELECT FROM parvacuum_run_cluster('e', verbose => true)}), qr/INFO:  \S+ on node \w+: vacuumed in \d+ ms \(1 of 3\)\n.*: vacuumed in \d+ ms \(3 of 3\)/s, 'verbose');
is(as_role('mallory', q{SELECT string_agg(outcome, ' ' ORDER BY outcome) FROM parvacuum_run_cluster('mallory.t', stop_on_error => true) WHERE node = 'local'}) =~ /not run|^done done failed$/ ? 1 : 0, 1, 'stop_on_error');

# How many vacuums at a time, where another session has locked the partitions
my $lock = pv_session($node);
my $leaders = q{SELECT count(*) FROM pg_stat_activity WHERE backend_type LIKE 'parvacuum background leader%' AND wait_event_type = 'Lock'};
for my $at_once (1, 2)
{
	$lock->query_safe('BEGIN; LOCK e1, e4 IN SHARE UPDATE EXCLUSIVE MODE');
	sql('SELECT parvacuum_history_reset()');
	my $started = pv_start_run($node, sprintf $run, ", shards_at_once_per_node => $at_once");
	ok(pv_await($node, $leaders, $at_once), "$at_once at a time");
	ok(pv_await($node, q{SELECT count(*) > 0 FROM parvacuum_history WHERE relname = 'e2'}, 'true') && sql($leaders) == $at_once, "$at_once at a time, and no more");
	$lock->query_safe('COMMIT');
	ok(pv_finish($started), "$at_once at a time: the run ends");
	is($started->{out}, $done, "$at_once at a time: all is done");
}
pv_reload_with($node, 'parvacuum.max_runs' => 0);
is(sql(q{SELECT string_agg(substring(error, '^too many runs'), ', ') FROM parvacuum_run_cluster('e')}), 'too many runs, too many runs, too many runs', 'the places of runs are counted');
sql('ALTER SYSTEM RESET parvacuum.max_runs', 'SELECT pg_reload_conf()');

# What ends a run ends its vacuums here; what ends a vacuum does not end the run.
my $no_leader = q{SELECT count(*) FROM pg_stat_activity WHERE backend_type LIKE 'parvacuum background leader%'};
my %ends = ('a cancel' => [ 'pg_cancel_backend', '57014|canceling statement due to user request' ], 'a termination' => [ 'pg_terminate_backend', undef ]);
for my $how (sort keys %ends)
{
	my ($function, $reason) = @{ $ends{$how} };
	sql('SELECT parvacuum_history_reset()', q{INSERT INTO e SELECT 1 FROM generate_series(1, 1000)});
	my $started = pv_start_run($node, sprintf($run, ', shards_at_once_per_node => 2, disable_page_skipping => true'), vacuum_cost_delay => '100ms', vacuum_cost_limit => 1, vacuum_cost_page_hit => 50);
	ok(pv_await($node, q{SELECT count(*) FROM parvacuum_progress WHERE relation = 'e1'::regclass AND participant IS NULL}, 1), "$how: a vacuum here");
	sql("SELECT $function(pid) FROM pg_stat_activity WHERE application_name = '$started->{tag}' AND backend_type = 'client backend'");
	ok(!pv_finish($started), "$how: the run ends");
	ok(pv_await($node, $no_leader, 0), "$how: no vacuum goes on");
	is(sql(q{SELECT sqlstate || '|' || error FROM parvacuum_history WHERE relname = 'e1'}), $reason, "$how: the history says why") if $reason;
}
$lock->query_safe('BEGIN; LOCK e1 IN SHARE UPDATE EXCLUSIVE MODE');
sql('SELECT parvacuum_history_reset()');
my $started = pv_start_run($node, sprintf $run, ', shards_at_once_per_node => 2');
ok(pv_await($node, q{SELECT count(*) FROM parvacuum_history WHERE relname ~ '^e[24]'}, 2) && pv_await($node, $leaders, 1), 'a vacuum is canceled: it waits');
sql(q{SELECT pg_cancel_backend(pid) FROM pg_stat_activity WHERE backend_type LIKE 'parvacuum background leader%'});
ok(pv_finish($started), 'a vacuum is canceled: the run goes on');
like($started->{out}, qr/^far public\.e2 done\nlocal public\.e1 failed canceling statement due to user request\nlocal public\.e4 done$/, 'a vacuum is canceled: it has the error');
is(sql(q{SET statement_timeout = '60s'}, 'BEGIN', 'SAVEPOINT a', q{SELECT count(*) FROM (SELECT parvacuum_cluster_begin('e1', 0, false, 'auto', NULL, false, false, false, false)) x}, 'ROLLBACK', $no_leader), "1\n0", 'a run that was begun ends with the transaction');
$lock->query_safe('COMMIT');

# The session has locked what a vacuum needs: at first, or in a circle with another session
like(error_of('BEGIN', 'LOCK e1 IN SHARE UPDATE EXCLUSIVE MODE', sprintf $run, ''), qr/because this session has locked them/, 'a partition that this session has locked');
sql('CREATE TABLE x (i int)');
my $caller = pv_session($node);
$caller->query_safe('BEGIN; LOCK x');
$lock->query_safe('BEGIN; LOCK e1');
$lock->query_until(qr/asked/, "\\echo asked\nLOCK x;\n");
ok(pv_await($node, q{SELECT count(*) FROM pg_locks WHERE relation = 'x'::regclass AND NOT granted}, 1), 'a circle: another session waits for this one');
like($caller->query_safe(sprintf $run, ''), qr/^far public\.e2 done\nlocal public\.e1 failed .*\nlocal public\.e4 done$/s, 'a circle: only the partition of the other session has an error');
$caller->query_safe('COMMIT');
$_->quit for $caller, $lock;

# What a partition's owner lets his function raise is an error of that partition only, whatever its code and its text are.
sql('ALTER TABLE e4 OWNER TO mallory', q{CREATE FUNCTION mallory.f(i int) RETURNS int IMMUTABLE LANGUAGE plpgsql AS 'BEGIN RETURN i; END'},
	'CREATE INDEX owned ON e4 USING brin (mallory.f(i)) WITH (pages_per_range = 1)', 'INSERT INTO e4 SELECT 31 FROM generate_series(1, 5000)', 'ANALYZE e4');    # the largest one is first
for my $raise (q{'failed to connect to me'}, q{'x' USING ERRCODE = 'assert_failure'}, q{'%', repeat('long ', 10000)})
{
	sql(qq{CREATE OR REPLACE FUNCTION mallory.f(i int) RETURNS int IMMUTABLE LANGUAGE plpgsql AS \$\$ BEGIN RAISE EXCEPTION $raise; END \$\$});
	is(sql(sprintf($run, '') =~ s/, error\)/, left(error, 10))/r), "far public.e2 done\nlocal public.e1 done\nlocal public.e4 failed " . ($raise =~ /^'%/ ? 'long long ' : $raise =~ /^'x/ ? 'x' : 'failed to '), "a function that raises $raise");
}
cmp_ok(sql(sprintf($run, '') =~ s/concat_ws\(.*?\)/max(length(error))/r =~ s/ ORDER BY 1//r), '<=', 10100, 'no text is too long');
sql('DROP INDEX owned', 'ALTER TABLE e4 OWNER TO CURRENT_USER');

# A limit: with the rights of ALTER SYSTEM, in a transaction too
is(sql('BEGIN', q{SELECT max_workers, error FROM parvacuum_cluster_cap(5, 'local')}, 'ROLLBACK', 'SELECT pg_sleep(0)', 'SHOW parvacuum.max_workers'), "5|\n\n5", 'a limit here stays when the transaction is rolled back');
is($node->safe_psql('postgres', 'SHOW parvacuum.max_workers'), 5, 'all sessions have it');
is(as_role('other', q{SELECT max_workers, error FROM parvacuum_cluster_cap(6, 'local')}), '5|permission denied to set parameter "parvacuum.max_workers"', 'others cannot set it');
like(as_role("$me; GRANT ALTER SYSTEM ON PARAMETER parvacuum.max_workers TO other; SET SESSION AUTHORIZATION other", q{SELECT error FROM parvacuum_cluster_cap(6, 'local')}), qr/permission denied for function pg_reload_conf/, 'nor reload');
is(as_role("$me; GRANT EXECUTE ON FUNCTION pg_reload_conf() TO other; SET SESSION AUTHORIZATION other", q{SELECT max_workers, error FROM parvacuum_cluster_cap(7, 'local')}), '7|', 'who may, can');

# The script of the extension, in a schema with functions and operators of another role
$node->safe_psql('far', join ";\n", 'DROP EXTENSION parvacuum', 'CREATE SCHEMA s AUTHORIZATION mallory', 'SET SESSION AUTHORIZATION mallory', 'CREATE TABLE s.calls (who name)',
	map({ "CREATE FUNCTION s.$_ LANGUAGE plpgsql AS 'BEGIN INSERT INTO s.calls VALUES (current_user); RETURN NULL; END'" } 'eq(oid, regnamespace) RETURNS bool', 'format(text, name) RETURNS text'),
	'CREATE OPERATOR s.= (FUNCTION = s.eq, LEFTARG = oid, RIGHTARG = regnamespace)');
$node->safe_psql('far', 'CREATE EXTENSION parvacuum SCHEMA s');
is($node->safe_psql('far', 'SELECT count(*) FROM s.calls'), 0, 'the script calls nothing of another role');

is(trapped(), 0, 'no superuser was led astray');
$node->safe_psql('trap', 'SELECT 1');
is(trapped(), 1, 'it would have been seen');
pv_no_crash($node, 'the server');
done_testing();
