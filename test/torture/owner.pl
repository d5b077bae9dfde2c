# Hostile roles with the least rights execute statements made up at random, thousands of
# them, and have the functions of indexes, statistics, domains and triggers execute such
# statements while VACUUM, ANALYZE, autovacuum and the scheduler run.  The server stays up,
# no code runs with more rights than the owner's, the tables of others are not changed nor
# seen, and are vacuumed in time.

use strict;
use warnings FATAL => 'all';

use FindBin;
use lib $FindBin::RealBin, "$FindBin::RealBin/../t";
use POSIX qw(WNOHANG);
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use PvOwner;
use PvTest;
use PvTorture;
use Test::More;
use Time::HiRes qw(sleep time);

my $node = pv_node('torture_owner');
$node->append_conf('postgresql.conf', q{
autovacuum_naptime = 1s
autovacuum_vacuum_cost_delay = 0
autovacuum_vacuum_threshold = 50
autovacuum_vacuum_scale_factor = 0
deadlock_timeout = 100ms
parvacuum.scheduler = on
parvacuum.scheduler_workers = 3
parvacuum.longest_at_table = 2s
dynamic_shared_memory_type = mmap
log_min_messages = log
log_min_error_statement = panic
log_statement = none
log_connections = on
max_connections = 40
max_locks_per_transaction = 512
});

# If a function that VACUUM calls builds an index with parallel workers, the workers inherit
# PROC_IN_VACUUM, and an assertion of core fails.  It does so with stock VACUUM as well.
# Therefore no table is large enough for workers.
$node->append_conf('postgresql.conf', "min_parallel_table_scan_size = '1GB'");
$node->start;
pv_setup($node);
my ($major) = $node->pg_version =~ /^(\d+)/;

# Each role may fill the table of locks for a moment.
sub sql
{
	for (1 .. 100)
	{
		my ($rc, $out, $err) = $node->psql('postgres', join ";\n", @_);
		return $out if $rc == 0;
		die "@_: $err" if $err !~ /out of shared memory/;
		sleep 0.2;
	}
	die "@_: there are no locks left";
}
sub log_text { return slurp_file($node->logfile); }

# One session of a role executes the statements of a file.  Its errors are in another file.
my $dir = $ENV{PV_KEEP} || PostgreSQL::Test::Utils::tempdir;
sub connstr { return $node->connstr('postgres') . " user=$_[0]"; }

sub start_batch
{
	my ($role, $number, @statements) = @_;
	my %batch = (role => $role, number => $number, size => scalar @statements, file => "$dir/$number.sql", begun => time);
	append_to_file($batch{file}, join '', map { "$_;\n" } @statements);
	$batch{pid} = fork // die "fork: $!";
	return \%batch if $batch{pid};

	# Long statements are canceled, and waiting for locks ends early.
	$ENV{PGOPTIONS} = '-c statement_timeout=' . (grep({ $_ eq $role } @hostile) ? 400 : 5000) . ' -c lock_timeout=50 -c client_min_messages=error';
	$ENV{PGAPPNAME} = "batch$number";
	open STDIN, '<', '/dev/null' or POSIX::_exit(1);
	open STDOUT, '>', '/dev/null' or POSIX::_exit(1);
	open STDERR, '>', "$batch{file}.err" or POSIX::_exit(1);
	exec 'psql', '-XAtq', '-v', 'VERBOSITY=verbose', '-v', 'SHOW_CONTEXT=never', '-d', connstr($role), '-f', $batch{file} or POSIX::_exit(1);
}

# How many statements were executed, and what has failed, by SQLSTATE
my ($tried, $failed, $lost) = (0, 0, 0);
my (%states, @internal);

sub finish_batch
{
	my ($batch, $status) = @_;
	my $errors = slurp_file("$batch->{file}.err");
	my ($last) = $errors =~ /:(\d+): (?:error: )?(?:connection to server was lost|server closed)/;
	($last) = $errors =~ /:(\d+): [^\n]*\n*\z/ if !$last && $status;
	$tried += $status ? $last // 0 : $batch->{size};
	$lost++ if $status;
	while ($errors =~ /:(\d+): (?:ERROR|FATAL):  (\w{5}): ([^\n]*)((?:\n(?!psql:)[^\n]*)*)/g)
	{
		my ($line, $state, $message, $rest) = ($1, $2, $3, $4);
		my ($function, $file) = $rest =~ /^LOCATION:  (\S+), (\S+):\d+/m ? ($1, $2) : ('unknown', 'unknown');
		$failed++;
		$states{$state}++;
		push @internal, "batch $batch->{number}, line $line, $batch->{role}: $message ($function, $file)" if $state eq 'XX000' || $state =~ /^XX00/;
	}
	unlink $batch->{file}, "$batch->{file}.err" if !$ENV{PV_KEEP};
	return;
}

#
# The roles, and what each of them has
#
my $bootstrap = sql('SELECT rolname FROM pg_roles WHERE oid = 10');
sql('SET client_min_messages = error',
	map({ "CREATE ROLE $_ LOGIN" } @hostile, 'victim'), 'GRANT pg_read_all_stats TO reader', ($major >= 17 ? 'GRANT pg_maintain TO keeper' : ()),
	'CREATE SCHEMA mallory AUTHORIZATION mallory', 'GRANT USAGE ON SCHEMA mallory TO PUBLIC', 'CREATE SCHEMA victim AUTHORIZATION victim', 'GRANT USAGE ON SCHEMA victim TO PUBLIC',
	'CREATE FOREIGN DATA WRAPPER dummy', 'CREATE SERVER dummy FOREIGN DATA WRAPPER dummy', 'GRANT USAGE ON FOREIGN SERVER dummy TO mallory',
	'SET SESSION AUTHORIZATION victim', 'CREATE TABLE victim.plain (id int, t text) WITH (parvacuum.enabled, parvacuum.workers = 1, autovacuum_vacuum_threshold = 0)', q{INSERT INTO victim.plain SELECT i, 'x' FROM generate_series(1, 5000) i}, 'CREATE INDEX plain_i ON victim.plain (id)',
	'CREATE TABLE victim.large (id int, t char(2400)) WITH (parvacuum.enabled, autovacuum_vacuum_threshold = 0)', 'ALTER TABLE victim.large ALTER t SET STORAGE PLAIN', q{INSERT INTO victim.large SELECT i, 'x' FROM generate_series(1, 25500) i},
	'CREATE TABLE victim.secret WITH (parvacuum.enabled, autovacuum_enabled = off) AS SELECT i AS id, md5(i::text) AS t FROM generate_series(1, 100) i', 'CREATE SEQUENCE victim.counter', 'CREATE VIEW victim.looks AS TABLE victim.secret', 'CREATE MATERIALIZED VIEW victim.summary AS SELECT count(*) FROM victim.plain',
	'CREATE TABLE victim.ledger (id int) PARTITION BY RANGE (id) WITH (parvacuum.enabled)', 'CREATE TABLE victim.ledger_1 PARTITION OF victim.ledger FOR VALUES FROM (1) TO (1000)', 'INSERT INTO victim.ledger SELECT generate_series(1, 999)');

# Scheduler and autovacuum log their errors, unlike sessions: see log_min_messages.
sql("ALTER ROLE $bootstrap SET log_min_messages = error");

# The hostile owner has a database too.  No superuser is led there by a foreign server.
sql($_) for 'CREATE DATABASE far', 'CREATE DATABASE trap OWNER mallory';
$node->safe_psql('far', 'CREATE EXTENSION parvacuum; CREATE TABLE c2 (id int)');
sql('SET client_min_messages = error', map({ "CREATE EXTENSION $_" } qw(postgres_fdw dblink parvacuum_cluster)), 'GRANT USAGE ON FOREIGN DATA WRAPPER postgres_fdw TO mallory',
	sprintf(q{CREATE SERVER far FOREIGN DATA WRAPPER postgres_fdw OPTIONS (host '%s', port '%s', dbname 'far')}, $node->host, $node->port), "CREATE USER MAPPING FOR $bootstrap SERVER far",
	'CREATE TABLE mallory.c (id int) PARTITION BY LIST (id)', 'CREATE TABLE mallory.c1 PARTITION OF mallory.c DEFAULT', q{CREATE FOREIGN TABLE mallory.c2 PARTITION OF mallory.c FOR VALUES IN (2) SERVER far OPTIONS (schema_name 'public', table_name 'c2')},
	map { "ALTER TABLE mallory.$_ OWNER TO mallory" } qw(c c1 c2));
connect_to($node->host, $node->port, $bootstrap);

my @learned = learn(\&sql, $major);
note sprintf 'learned: %d functions and procedures, %d views, %d settings, %d options of tables', @learned;
cmp_ok($_, '>', 0, 'there is something to try') for @learned;

srand $seed;
my ($rc, $out, $err) = $node->psql('postgres', join(";\n", evil_functions(), q{CREATE DOMAIN mallory.checked AS int CHECK (mallory.evil_0(VALUE) > 0)},
		q{CREATE FUNCTION mallory.distance(a int, b int) RETURNS float8 IMMUTABLE LANGUAGE plpgsql AS 'BEGIN PERFORM mallory.evil_3(a); RETURN a - b; END'}, 'CREATE TYPE mallory.span AS RANGE (subtype = int4, subtype_diff = mallory.distance)',
		q{CREATE FUNCTION mallory.fire() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN PERFORM mallory.evil_4(NEW.id); RETURN NEW; END'}, q{CREATE FUNCTION mallory.leak(x anyelement) RETURNS text COST 0.0001 LANGUAGE plpgsql AS 'BEGIN RETURN x::text; END'},
		q{CREATE FUNCTION mallory.deeper(i int) RETURNS int LANGUAGE plpgsql AS 'BEGIN RETURN mallory.deeper(i + 1); END'},
		'CREATE SEQUENCE mallory.s', 'CREATE TABLE mallory.parent (id int)', 'CREATE TABLE mallory.p (id int) PARTITION BY RANGE (id) WITH (parvacuum.enabled)', 'CREATE TABLE mallory.p1 PARTITION OF mallory.p FOR VALUES FROM (0) TO (1000)', 'CREATE FOREIGN TABLE mallory.foreign_table (id int) SERVER dummy',
		map({ tables_of($_) } 0 .. 9), large_tables(), slow_tables(), 'CREATE VIEW mallory.v AS TABLE mallory.t1', 'CREATE MATERIALIZED VIEW mallory.m AS SELECT id FROM mallory.t2', namesakes()), connstr => connstr('mallory'), on_error_stop => 1);
is($err, '', 'the hostile owner has tables and functions');

# What must be the same at the end
my $roles = join ', ', map { "'$_'" } @hostile, @memberships;
my $unchanged = qq{SELECT t FROM (
	SELECT format('%s %s', oid, a) AS t FROM pg_authid a UNION ALL SELECT m::text FROM pg_auth_members m UNION ALL SELECT s::text FROM pg_db_role_setting s WHERE setrole NOT IN (SELECT oid FROM pg_roles WHERE rolname IN ($roles))
	UNION ALL SELECT datname FROM pg_database UNION ALL SELECT extname || extversion FROM pg_extension UNION ALL SELECT s::text FROM pg_file_settings s WHERE name <> ALL ('{autovacuum}') UNION ALL SELECT s::text FROM victim.secret s UNION ALL SELECT 'plain ' || id FROM victim.plain
	UNION ALL SELECT 'ledger ' || id FROM victim.ledger UNION ALL SELECT format('%s %s %s %s', relname, relowner, coalesce(relacl, acldefault(CASE relkind WHEN 'S' THEN 's' ELSE 'r' END::"char", relowner)), reloptions) FROM pg_class WHERE relnamespace = 'victim'::regnamespace OR oid IN (SELECT objid FROM pg_depend WHERE deptype = 'e')
	UNION ALL SELECT format('%s %s', l.objoid::regclass, l) FROM pg_seclabel l JOIN pg_class c ON c.oid = l.objoid WHERE c.relnamespace = 'victim'::regnamespace UNION ALL SELECT proname || p.proacl::text FROM pg_proc p WHERE pronamespace = 'public'::regnamespace
	UNION ALL SELECT format('%s %s', backend_type, pid) FROM pg_stat_activity WHERE backend_type IN ('parvacuum launcher', 'checkpointer', 'background writer', 'walwriter') OR application_name = 'resident') x ORDER BY t};
my $resident = start_batch('victim', 0, 'SET statement_timeout = 0', "SET application_name = 'resident'", 'DO $$ BEGIN LOOP PERFORM pg_sleep(0.1); COMMIT; END LOOP; END $$');
ok(pv_await($node, q{SELECT count(*) FROM pg_stat_activity WHERE application_name = 'resident' AND wait_event = 'PgSleep'}, 1), 'the victim has a session');
ok(pv_await($node, q{SELECT count(*) FROM pg_stat_activity WHERE backend_type = 'parvacuum launcher'}, 1), 'the launcher is running');
my $before = sql($unchanged);
sub segments { return scalar(my @files = glob $node->data_dir . '/pg_dynshmem/*'); }
my $segments = segments();
my $postmaster = slurp_file($node->data_dir . '/postmaster.pid') =~ s/\n.*//sr;

#
# What each hostile role sees of the tables of others in our views: nothing.  parvacuum_tables
# and parvacuum_queue show names and options, as pg_class does, to all.
#
my @views = split /\n/, sql(q{SELECT c.oid::regclass FROM pg_class c JOIN pg_attribute a ON attrelid = c.oid AND attname = 'relid' JOIN pg_depend d ON d.objid = c.oid AND deptype = 'e' WHERE relkind = 'v' AND relname !~ '^parvacuum_(cluster_)?(tables|queue)$' ORDER BY 1});
my $looks = 0;
my @seen;
sub look
{
	my $role = one_of('mallory', 'nothing', $major >= 17 ? 'keeper' : 'mallory');
	for my $view (@views)
	{
		my ($rc, $out, $err) = $node->psql('postgres', "SELECT relid, v FROM $view v WHERE relid IS NOT NULL AND relid NOT IN (SELECT oid FROM pg_catalog.pg_class WHERE pg_catalog.pg_has_role(relowner, 'USAGE')) AND relid IN (SELECT oid FROM pg_catalog.pg_class WHERE relnamespace = 'victim'::regnamespace)",
			connstr => connstr($role) . " options='-c statement_timeout=20s -c search_path=pg_catalog,public'");
		push @seen, "$role in $view: $out" if $out ne '';
		$looks++ if $rc == 0;
	}
	return;
}

#
# The victim's tables, a small and a large one, need a vacuum again and again.  They have so
# many dead rows that no other table has a higher score, so that only those come before them
# that were there before.  Who waits for half an hour after all is not served.
#
my $count = q{SELECT vacuum_count + autovacuum_count FROM pg_stat_all_tables WHERE relid IN ('victim.plain'::regclass, 'victim.large'::regclass) ORDER BY relid};
my $others = q{SELECT coalesce(sum(vacuum_count + autovacuum_count), 0) FROM pg_stat_all_tables WHERE schemaname = 'mallory'};
my ($served, $longest, $since, @from) = (0, 0);
my $bound = 180;
my @late;

sub ask_for_vacuum
{
	sql('SET ROLE victim', 'UPDATE victim.plain SET t = t', 'UPDATE victim.large SET t = t WHERE id % 4 = 0');
	$since = time;
	return;
}

sub look_after_victim
{
	my @now = split /\n/, sql($count);
	if (!defined $since)
	{
		@from = @now;
		ask_for_vacuum();
	}
	elsif (!grep { $now[$_] eq $from[$_] } 0 .. $#now)
	{
		$longest = time - $since if time - $since > $longest;
		$served++;
		undef $since;
	}
	elsif (time - $since > $bound)
	{
		push @late, sprintf "not vacuumed for %d s:\n%s\n%s\n%s", time - $since, sql('SELECT * FROM parvacuum_queue LIMIT 20'), sql('SELECT * FROM parvacuum_blockers'), pv_processes($node);
		undef $since;
	}
	return;
}

# Scheduler and autovacuum are on in turn; autovacuum without the scheduler never is, since
# it guarantees nothing.
my %modes = (scheduler => [ 'on', 'off' ], both => [ 'on', 'on' ]);
my $mode = 'scheduler';
sub change_mode
{
	$mode = $mode eq 'both' ? 'scheduler' : 'both';
	my ($scheduler, $autovacuum) = @{ $modes{$mode} };
	sql("ALTER SYSTEM SET autovacuum = $autovacuum", 'SELECT pg_reload_conf()');
	return;
}

#
# The sessions: each of these roles has one at a time, with a batch of statements.
#
my @slots = ('mallory', 'mallory', 'mallory|reader|nothing|keeper', $bootstrap);
my %running;
my $number = 0;
my $end = time + pv_seconds(1, 6);
my $next_look = my $next_mode = time;

# Prepared transactions hold back the horizon, and no vacuum can do anything about it.  So does
# an ANALYZE by core's autovacuum, which waits for a function of the owner for as long as that
# takes.
sub end_holders
{
	my ($age) = @_;
	sql(qq{SELECT pg_terminate_backend(b.pid) FROM parvacuum_blockers b JOIN pg_stat_activity a USING (pid) WHERE backend_type = 'autovacuum worker' AND duration > interval '$age'});
	my $prepared = sql(qq{SELECT format('ROLLBACK PREPARED %L;', gid) FROM pg_prepared_xacts WHERE prepared <= now() - interval '$age'});
	$node->psql('postgres', $prepared, on_error_stop => 0) if $prepared ne '';
	return;
}

sub start_slot
{
	my ($slot) = @_;
	$number++;
	srand $seed * 1000003 + $number;
	my $role = one_of(split /\|/, $slots[$slot]);
	my @statements = $role eq $bootstrap ? map({ administration() } 1 .. 30) : map({ statement($role) } 1 .. 600);
	unshift @statements, one_of('SET search_path = mallory, pg_catalog, public', 'SET search_path = public, mallory', 'SELECT 1') if $role ne $bootstrap;

	# Tables that were dropped come back, with functions that can be indexed.
	unshift @statements, map({ "ALTER FUNCTION mallory.evil_$_(int) IMMUTABLE" } 0 .. $evils - 1), map { tables_of($_) } $number % 10, int rand 10 if $role eq 'mallory';
	$running{$slot} = start_batch($role, $number, @statements);
	return;
}

# A session that takes too long is terminated, because its functions may ignore a cancel.  It
# must end then.
my @stuck;
sub end_session
{
	my ($batch) = @_;
	if (!$batch->{ended})
	{
		$batch->{ended} = time;
		sql("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name = 'batch$batch->{number}'");
	}
	elsif (time - $batch->{ended} > 60 && !$batch->{stuck})
	{
		$batch->{stuck} = 1;
		push @stuck, sql("SELECT wait_event, query FROM pg_stat_activity WHERE application_name = 'batch$batch->{number}'");
		kill 'TERM', $batch->{pid};
	}
	return;
}

sub reap
{
	for my $slot (sort keys %running)
	{
		my $batch = $running{$slot};
		if (waitpid($batch->{pid}, WNOHANG) == 0)
		{
			end_session($batch) if time - $batch->{begun} > 60;
			next;
		}
		my $status = $?;
		delete $running{$slot};
		finish_batch($batch, $status);
		return 0 if -e "$dir/stop";
		start_slot($slot) if time < $end;
	}
	return;
}

start_slot($_) for 0 .. $#slots;
while (%running)
{
	reap();
	last if !kill 0, $postmaster;
	if (time >= $next_look)
	{
		look_after_victim();
		look();
		$node->psql('postgres', join(';', map { "UPDATE mallory.slow_$_ SET id = id" } 1 .. $PvOwner::slow), connstr => connstr('mallory') . " options='-c lock_timeout=50'");

		# Prepared transactions and settings of roles would stop all that follows.
		end_holders('1 s');
		$node->psql('postgres', join ';', map { "ALTER ROLE $_ RESET ALL" } @hostile) if chance(0.2);
		$next_look = time + 1;
	}
	if (time >= $next_mode)
	{
		change_mode();
		$next_mode = time + 20;
	}
	sleep 0.02;
}

#
# The end
#
ok(kill(0, $postmaster) && slurp_file($node->data_dir . '/postmaster.pid') =~ /^$postmaster\n/, 'the server is the same') or diag log_text() =~ /(.*TRAP:.*|.*terminated by signal.*(?:\n.*)?)/;
pv_no_crash($node, 'the server');
BAIL_OUT('the server is gone') if !kill 0, $postmaster;

sub until_served
{
	while (defined $since)
	{
		look_after_victim();
		sleep 0.1;
	}
	return;
}
end_holders('0 s');
until_served();
if (!$served)
{
	look_after_victim();
	until_served();
}
is(scalar(@stuck), 0, 'all sessions can be ended') or diag @stuck;
is(scalar(@late), 0, "tables of others are vacuumed within $bound s") or diag @late;
cmp_ok($served, '>', 0, 'tables of others are vacuumed');
is(scalar(@seen), 0, 'no role sees anything about tables of others in the views') or diag @seen[ 0 .. ($#seen > 5 ? 5 : $#seen) ];
# an administrator has called parvacuum_cluster_cap()
sql('ALTER SYSTEM RESET parvacuum.max_workers');
my %changed;
$changed{$_}++ for split /\n/, $before;
$changed{$_}-- for split /\n/, sql($unchanged);
my @changed = grep { $changed{$_} } sort keys %changed;
is(scalar(@changed), 0, 'roles, settings, databases, processes and the tables of others are as before')
  or diag map { ($changed{$_} > 0 ? 'was: ' : 'is: ') . "$_\n" } @changed[ 0 .. ($#changed > 9 ? 9 : $#changed) ];
my $text = log_text();
my @canaries = $text =~ /(canary: .*)/g;
is(scalar(@canaries), 0, 'no function was run with more rights than those of its owner') or diag join "\n", @canaries[ 0 .. ($#canaries > 5 ? 5 : $#canaries) ];
ok(!-e '/tmp/parvacuum_owner', 'no file was written');
is(scalar(my @trapped = $text =~ /connection authorized: user=$bootstrap database=trap/g), 0, 'no superuser was led into the database of the hostile owner');
cmp_ok(scalar(my @led = $text =~ /connection authorized: user=$bootstrap database=far/g), '>', 0, 'superusers were connected elsewhere');
my $vacuumed = sql($others);

# Internal errors that come from our files.  Core has a relation.c as well; its error is that
# of a relation that is dropped meanwhile.
my @ours = map { s{.*/}{}r } glob "$FindBin::RealBin/../../src/*/*.c";
my @unexpected = grep { my ($file) = /, (\S+)\)$/; $file && !/\(relation_open, / && grep { $_ eq $file } @ours } @internal;
is(scalar(@unexpected), 0, 'no internal error of parvacuum') or diag join "\n", @unexpected[ 0 .. ($#unexpected > 9 ? 9 : $#unexpected) ];
note "internal errors of core: $_" for @internal[ 0 .. ($#internal > 9 ? 9 : $#internal) ];

# Nothing is left when all sessions have ended.  Autovacuum's workers, too: functions of the
# owner may stay in them for as long as they like, as without parvacuum.
sql('ALTER SYSTEM SET autovacuum = off', 'ALTER SYSTEM SET parvacuum.scheduler = off', 'SELECT pg_reload_conf()',
	q{SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE usename IN ('mallory', 'nothing', 'reader', 'keeper') OR backend_type = 'autovacuum worker'});
end_holders('0 s');
ok(pv_await($node, q{SELECT count(*) FROM pg_stat_activity WHERE backend_type LIKE 'parvacuum%' AND backend_type <> 'parvacuum launcher' OR backend_type IN ('parallel worker', 'autovacuum worker') OR usename IN ('mallory', 'nothing', 'reader', 'keeper')}, 0), 'no process is left') or diag pv_processes($node);
is(sql(q{SELECT * FROM pg_locks WHERE pid IS DISTINCT FROM pg_backend_pid() AND pid NOT IN (SELECT pid FROM pg_stat_activity WHERE application_name = 'resident')}), '', 'no lock is left');
is(sql(q{SELECT * FROM parvacuum_progress}), '', 'no progress is left');

# Core's statistics take a few when they grow.
cmp_ok(segments(), '<=', $segments + 8, 'no segment of shared memory is left by the vacuums');
sql(q{SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name = 'resident'});
waitpid $resident->{pid}, 0;
is(pv_findings($node, $_), '', "$_ is whole") for qw(victim.plain victim.large victim.secret victim.ledger_1);

# The canary can sing.
sql(evil_functions(), 'SELECT 1');
srand $seed;
sql(PvOwner::evil_function(0), 'SELECT mallory.evil_0(0)');
like(log_text(), qr/canary: evil_0 is run as $bootstrap by $bootstrap/, 'functions of the owner tell if they are run by others');

pv_figure($tried, 'hostile statements tried');
pv_figure($failed, 'of these failed');
pv_figure($vacuumed, 'vacuums of the hostile owner\'s tables');
pv_figure($served, sprintf 'vacuums of the victim\'s tables meanwhile, after %.1f s at most', $longest);
pv_figure($looks, 'looks at what hostile roles see in views');
note join ', ', map { "$_: $states{$_}" } sort { $states{$b} <=> $states{$a} } keys %states;
note "$number batches, $lost ended early";

$node->stop;
done_testing();
