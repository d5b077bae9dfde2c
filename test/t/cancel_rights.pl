# parvacuum_cancel() hits the table that it names and no other.  A role that may only
# vacuum a table cannot keep a vacuum from preventing wraparound.  It also hits VACUUM
# commands and autovacuum workers that process the table with the engine.

use strict;
use warnings FATAL => 'all';

use FindBin;
use lib $FindBin::RealBin;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use PvTest;
use Test::More;

my $node = pv_node('cancel');
$node->append_conf('postgresql.conf', q{
autovacuum_naptime = 1h
autovacuum_vacuum_cost_delay = 0
vacuum_freeze_min_age = 0
max_parallel_maintenance_workers = 0
parvacuum.scheduler = on
parvacuum.scheduler_workers = 2
log_statement = none
log_min_error_statement = panic
parvacuum.wait_at = scan
});
$node->start;
pv_setup($node);

sub sql { return pv_sql($node, @_); }

# The queue, the counts and the processes, to explain a failure
sub described { return join "\n", sql('SELECT * FROM parvacuum_queue LIMIT 20'), sql('SELECT * FROM parvacuum_scheduler_stats()'), pv_processes($node); }

my $active = q{SELECT count(*) FROM parvacuum_queue_items() WHERE state <> 'waiting'};
my $canceled = q{SELECT coalesce(string_agg(relid::regclass::text, ' ' ORDER BY relid), '') FROM parvacuum_queue_items() WHERE reason = 'canceled'};

# A query that a role repeats until it is stopped
sub start_loop
{
	my ($role, $script) = @_;
	local $ENV{PGOPTIONS} = "-c client_min_messages=error -c role=$role";
	return pv_start_pgbench($node, $PostgreSQL::Test::Utils::timeout_default, 1, asks => [ 1, $script ]);
}
sub stop_loop
{
	my ($bench) = @_;
	$bench->{handle}->signal('TERM');
	$bench->{handle}->finish;
	return;
}

# Ignores errors, because refusals are part of the test.
sql('CREATE ROLE pv_owner', 'GRANT USAGE ON SCHEMA public TO pv_owner', q{
	CREATE FUNCTION try(what text) RETURNS text LANGUAGE plpgsql AS $$
	DECLARE
		answer text;
	BEGIN
		EXECUTE 'SELECT ' || what INTO answer;
		RETURN answer;
	EXCEPTION WHEN insufficient_privilege THEN
		RETURN SQLERRM;
	END $$});

#
# Many tables that are vacuumed in no time, one of which is canceled all the time
#
my @others = map { "quick_$_" } 1 .. 60;
my $sometimes = join ";\n", map { "SELECT parvacuum_enqueue('$_')" . ($_ =~ /[05]$/ ? q{; SELECT parvacuum_enqueue('hit', urgent => true)} : '') } @others;
sql(map { ("CREATE TABLE $_ (id int PRIMARY KEY) WITH (parvacuum.enabled)", "INSERT INTO $_ SELECT generate_series(1, 100)", "ALTER TABLE $_ OWNER TO pv_owner") } 'hit', @others);

for my $role ('postgres', 'pv_owner')
{
	my $role_name = $role eq 'postgres' ? sql('SELECT current_user') : $role;
	my $before = sql('SELECT vacuums FROM parvacuum_scheduler_stats()');
	my @loops = map { start_loop($role_name, q{SELECT parvacuum_cancel('hit');}) } 1 .. 2;
	my ($wrong, $hit) = ('', 0);
	for my $round (1 .. 20)
	{
		sql($sometimes);
		pv_await($node, $active, 0) or die described();
		my $tables = sql($canceled);
		$hit++ if $tables =~ /\bhit\b/;
		$wrong .= "$round: $tables\n" if $tables !~ /^(hit)?$/;
	}
	stop_loop($_) for @loops;
	cmp_ok($hit, '>', 0, "$role: the table is canceled");
	is($wrong, '', "$role: no other table is canceled");
	cmp_ok(sql('SELECT vacuums FROM parvacuum_scheduler_stats()') - $before, '>=', 20 * @others, "$role: all others are vacuumed each time");
}
my $log = slurp_file($node->logfile);
my @tables = $log =~ /canceling statement due to user request.*?scheduled vacuum of table "postgres\.public\.(\w+)"/gs;
cmp_ok(scalar(@tables), '>', 0, 'vacuums in progress were canceled: ' . @tables);
is(join(' ', grep { $_ ne 'hit' } @tables), '', 'the log names no other table');
is(sql('SELECT errors FROM parvacuum_scheduler_stats()'), 0, 'no error is counted');

#
# An old table, and its owner, who does not want it to be vacuumed
#
sql('CREATE TABLE old (id int, pad char(2400)) WITH (parvacuum.enabled, autovacuum_freeze_max_age = 100000)',
	'ALTER TABLE old ALTER pad SET STORAGE PLAIN', q{INSERT INTO old SELECT i, 'x' FROM generate_series(1, 300) i}, 'ALTER TABLE old OWNER TO pv_owner');
sql('DO $$ BEGIN FOR i IN 1 .. 95000 LOOP PERFORM pg_current_xact_id(); COMMIT; END LOOP; END $$');
my $age = q{(SELECT age(relfrozenxid) FROM pg_class WHERE relname = 'old')};
cmp_ok(sql("SELECT $age"), '>', 90000, 'the table is old');

my $holder = pv_hold($node, 'old');
my @loops = map { start_loop('pv_owner', $_) } q{SELECT try($$parvacuum_cancel('old')$$);},
  q{SELECT try($$parvacuum_enqueue('old')$$); SELECT try($$parvacuum_cancel('old')$$);};
pv_reload_with($node, autovacuum_naptime => 1);
my $running = q{(SELECT state FROM parvacuum_queue_items() WHERE relid = 'old'::regclass AND wraparound)};
# It runs for a moment only if it was his request, which he has canceled before.
ok(pv_await($node, "SELECT concat($running, ' ', ($pv_held))", 'running t'), 'the old table is vacuumed while its owner tries to cancel') or diag described();
is(sql(q{SET ROLE pv_owner}, q{SELECT try($$parvacuum_cancel('old')$$)}), 'permission denied to cancel a vacuum that prevents wraparound', 'the owner may not cancel it') or diag described();
$holder->quit;
ok(pv_await($node, "SELECT $age < 50000", 'true'), 'the vacuum is completed') or diag described();
stop_loop($_) for @loops;
ok(pv_await($node, $active, 0), 'the queue is empty') or diag described();
is(pv_findings($node, 'old'), '', 'the table is whole');

# In the queue behind another table, it stays there.
pv_reload_with($node, 'parvacuum.scheduler_workers' => 1);
sql('ALTER TABLE old SET (parvacuum.enabled = off)', 'CREATE TABLE slow (id int, pad char(2400)) WITH (autovacuum_vacuum_threshold = 1, autovacuum_vacuum_scale_factor = 0)',
	'ALTER TABLE slow ALTER pad SET STORAGE PLAIN', q{INSERT INTO slow SELECT i, 'x' FROM generate_series(1, 3000) i}, 'DELETE FROM slow WHERE id % 3 = 0');
sql('DO $$ BEGIN FOR i IN 1 .. 95000 LOOP PERFORM pg_current_xact_id(); COMMIT; END LOOP; END $$');
$holder = pv_hold($node, 'slow');
sql('BEGIN', 'ALTER TABLE old SET (parvacuum.enabled)', 'ALTER TABLE slow SET (parvacuum.enabled)', 'COMMIT');
sub state_of { return "(SELECT concat_ws(' ', state, reason) FROM parvacuum_queue_items() WHERE relid = '$_[0]'::regclass)"; }
ok(pv_await($node, 'SELECT ' . state_of('slow'), 'running'), 'the only worker is busy') or diag described();
is(sql('SELECT ' . state_of('old')), 'queued', 'the old table waits for the worker');
is(sql(q{SET ROLE pv_owner}, q{SELECT try($$parvacuum_cancel('old')$$)}), 'permission denied to cancel a vacuum that prevents wraparound', 'its owner cannot take it out of the queue');
is(sql('SELECT ' . state_of('old')), 'queued', 'the old table is still queued');
is(sql(q{SELECT parvacuum_cancel('old')}), 't', 'a superuser can take it out of the queue');
is(sql('SELECT ' . state_of('old')), 'waiting canceled', 'the next database scan queues it again');
my $worker = sql(q{SELECT pid FROM parvacuum_queue WHERE state = 'running'});
is(sql("SELECT parvacuum_cancel($worker)"), 't', 'the owner may cancel the vacuum of the other table');
ok(pv_await($node, 'SELECT ' . state_of('slow'), 'waiting canceled'), 'the canceled vacuum ends') or diag described();

pv_reload_with($node, 'parvacuum.scheduler' => 'off');
$holder->quit;

#
# VACUUM commands and autovacuum workers
#
sql('CREATE ROLE pv_signal IN ROLE pg_signal_backend', 'GRANT USAGE ON SCHEMA public TO pv_signal',
	'CREATE TABLE big (id int, pad char(2400)) WITH (parvacuum.enabled)', 'ALTER TABLE big ALTER pad SET STORAGE PLAIN',
	q{INSERT INTO big SELECT i, 'x' FROM generate_series(1, 3000) i}, 'DELETE FROM big WHERE id % 3 = 0', 'ALTER TABLE big OWNER TO pv_owner',
	'CREATE TABLE wide (id int, pad text) WITH (parvacuum.enabled)', 'ALTER TABLE wide ALTER pad SET STORAGE EXTERNAL',
	q{INSERT INTO wide SELECT i, repeat('x', 100000) FROM generate_series(1, 100) i}, 'DELETE FROM wide WHERE id % 3 = 0', 'ALTER TABLE wide OWNER TO pv_owner',
	'CREATE TABLE left_alone (LIKE big INCLUDING STORAGE)', q{INSERT INTO left_alone SELECT i, 'x' FROM generate_series(1, 3000) i}, 'DELETE FROM left_alone');
$holder = pv_hold($node, 'big', sql(q{SELECT reltoastrelid::regclass FROM pg_class WHERE relname = 'wide'}));
sub at { return "SELECT count(*) FROM pg_stat_progress_vacuum WHERE relid = $_[0]"; }
my $big = q{'big'::regclass};
my $refused = 'permission denied to cancel a VACUUM command';
sub cancel_as { return sql("SET ROLE $_[0]", "SELECT try(\$\$parvacuum_cancel('$_[1]')\$\$)"); }

for my $workers (0, 2)
{
	my $what = "VACUUM, $workers workers";
	my $vacuum = pv_start_run($node, "VACUUM (PARALLEL $workers) big", max_parallel_maintenance_workers => 2);
	ok(pv_await($node, at($big), 1), "$what: the vacuum is running");
	is(cancel_as('pv_owner', 'big'), $refused, "$what: the owner of the table may not cancel a vacuum of a superuser");
	is(cancel_as('pv_signal', 'big'), 'permission denied to cancel a vacuum', "$what: a member of pg_signal_backend may not cancel it either");
	is(sql(q{SELECT parvacuum_cancel('wide')}), 'f', "$what: canceling another table finds no vacuum");
	is(sql(at($big)), 1, "$what: the vacuum is still running");
	is(sql(q{SELECT parvacuum_cancel('big')}), 't', "$what: a superuser cancels it");
	ok(!pv_finish($vacuum), "$what: the vacuum fails");
	like($vacuum->{err}, qr/canceling statement due to user request/, "$what: the error is that of pg_cancel_backend()");
	is(sql(q{SELECT parvacuum_cancel('big')}), 'f', "$what: canceling finds no vacuum any more");
}

# A vacuum of the role itself, and one of a role that is not a superuser
sql('CREATE ROLE pv_vacuums LOGIN IN ROLE pv_owner');
for my $role (qw(pv_vacuums pv_signal))
{
	local $ENV{PGUSER} = 'pv_vacuums';
	my $vacuum = pv_start_run($node, 'VACUUM big');
	delete $ENV{PGUSER};
	ok(pv_await($node, at($big), 1), "VACUUM of a role: the vacuum is running");
	is(cancel_as('pv_owner', 'big'), $refused, 'VACUUM of a role: the owner has no right to a session of a member') if $role eq 'pv_signal';
	is(cancel_as($role, 'big'), 'true', "VACUUM of a role: canceled by $role");
	ok(!pv_finish($vacuum), "VACUUM of a role: the vacuum fails");
}

# The vacuum of a TOAST table, by the name of its table
my $vacuum = pv_start_run($node, 'VACUUM wide');
ok(pv_await($node, at(q{(SELECT reltoastrelid FROM pg_class WHERE relname = 'wide')}), 1), 'TOAST: VACUUM processes the TOAST table');
is(sql(q{SELECT parvacuum_cancel('wide')}), 't', 'TOAST: canceled by the name of its table');
ok(!pv_finish($vacuum), 'TOAST: the vacuum fails');

# A vacuum by core is not canceled.  At this rate it takes minutes.
$vacuum = pv_start_run($node, 'VACUUM left_alone', vacuum_cost_delay => 100, vacuum_cost_limit => 1, vacuum_cost_page_hit => 1000);
ok(pv_await($node, at(q{'left_alone'::regclass}), 1), 'VACUUM by core is running');
is(sql(q{SELECT parvacuum_cancel('left_alone')}), 'f', 'VACUUM by core is not found');
is(sql(at(q{'left_alone'::regclass})), 1, 'VACUUM by core goes on');
sql(q{SELECT pg_cancel_backend(pid) FROM pg_stat_progress_vacuum});
pv_finish($vacuum);

# Tables of databases of which one is a copy of the other have the same OID.
{
	$node->safe_psql('postgres', 'CREATE DATABASE pv_model');
	$node->safe_psql('pv_model', q{CREATE EXTENSION parvacuum; CREATE TABLE big (id int, pad char(2400)) WITH (parvacuum.enabled, autovacuum_enabled = off);
		ALTER TABLE big ALTER pad SET STORAGE PLAIN; INSERT INTO big SELECT i, 'x' FROM generate_series(1, 3000) i; DELETE FROM big WHERE id % 3 = 0});
	$node->safe_psql('postgres', 'CREATE DATABASE pv_copy TEMPLATE pv_model');
	my $held = $node->background_psql('pv_copy', on_error_stop => 1);
	$held->query_safe(q{SELECT pg_advisory_lock(28790)});
	my $there = q{SELECT count(*) FROM pg_stat_progress_vacuum WHERE datname = 'pv_copy'};
	my $copy = IPC::Run::start([ 'psql', '-XAtqc', 'VACUUM big', '-d', $node->connstr('pv_copy') ], '<', \undef, '2>', \my $why);
	ok(pv_await($node, $there, 1), 'a copy of the database: the vacuum is running');
	is($node->safe_psql('pv_model', q{SELECT parvacuum_cancel('big')}), 'f', 'a copy of the database: canceling the table of that name finds no vacuum');
	is(sql($there), 1, 'a copy of the database: the vacuum is still running');
	is($node->safe_psql('pv_copy', q{SELECT parvacuum_cancel('big')}), 't', 'a copy of the database: it is canceled there');
	ok(!$copy->finish, 'a copy of the database: the vacuum fails');
	$held->quit;
	$node->safe_psql('postgres', "DROP DATABASE $_") for qw(pv_copy pv_model);
}

# A vacuum that ends in another way leaves no entry.
for my $end (qw(pg_cancel_backend pg_terminate_backend))
{
	$vacuum = pv_start_run($node, 'VACUUM big');
	ok(pv_await($node, at($big), 1), "$end: the vacuum is running");
	sql("SELECT $end(pid) FROM pg_stat_progress_vacuum");
	pv_finish($vacuum);
	is(sql(q{SELECT parvacuum_cancel('big')}), 'f', "$end: canceling finds no vacuum any more");
}

# A session vacuums several tables in turn, while one of them is canceled all the time:
# only statements for that table fail.
sql(map { "ALTER TABLE $_ SET (parvacuum.enabled)" } 'hit', @others[ 0 .. 3 ]);
{
	my @statements = map { ('VACUUM (DISABLE_PAGE_SKIPPING) hit', map({ "VACUUM $_" } @others[ 0 .. 1 ]), 'SELECT 1') } 1 .. 500;
	my @loops = map { start_loop(sql('SELECT current_user'), q{SELECT parvacuum_cancel('hit');}) } 1 .. 2;
	my ($rc, $out, $err) = $node->psql('postgres', join(";\n", @statements) . ';', on_error_stop => 0);
	stop_loop($_) for @loops;
	my @failed = map { $statements[ $_ - 1 ] } $err =~ /^psql:<stdin>:(\d+): ERROR:/mg;
	cmp_ok(scalar(@failed), '>', 0, 'commands in turn: some are canceled: ' . @failed);
	is(join("\n", grep { !/ hit$/ } @failed), '', 'commands in turn: no other commands are canceled') or diag $err;
	my @errors = grep { !/canceling (statement|vacuum of table "hit") due to user request/ } $err =~ /ERROR: (.*)/g;
	is(join("\n", @errors), '', 'commands in turn: no other errors');
}

# Autovacuum, with the rights that core requires for it
my $by_autovacuum = q{SELECT count(*) FROM pg_stat_progress_vacuum p JOIN pg_stat_activity USING (pid) WHERE backend_type = 'autovacuum worker' AND p.relid = 'big'::regclass};
sql('ALTER TABLE big SET (autovacuum_vacuum_threshold = 0, autovacuum_vacuum_scale_factor = 0)',
	'UPDATE big SET id = id WHERE id < 100', 'SELECT pg_stat_force_next_flush()');
pv_reload_with($node, autovacuum => 'on', autovacuum_naptime => 1);
ok(pv_await($node, $by_autovacuum, 1), 'autovacuum is running') or diag pv_processes($node);
my $denied = 'permission denied to cancel an autovacuum';
is(cancel_as('pv_owner', 'big'), $denied, 'autovacuum: the owner of the table may not cancel it');
is(cancel_as('pv_signal', 'big'), 'permission denied to cancel a vacuum', 'autovacuum: a member of pg_signal_backend may not cancel it');
is(sql($by_autovacuum), 1, 'autovacuum: it goes on');
if ($node->pg_version >= 18)
{
	sql('GRANT pg_signal_autovacuum_worker TO pv_signal');
	is(cancel_as('pv_signal', 'big'), 'true', 'autovacuum: a member of pg_signal_autovacuum_worker cancels it');
}
else
{
	is(sql(q{SELECT parvacuum_cancel('big')}), 't', 'autovacuum: a superuser cancels it');
}
my $canceled_task = qr/canceling autovacuum task.*?automatic vacuum of table "postgres\.public\.big"/s;
ok((grep { slurp_file($node->logfile) =~ $canceled_task or (select(undef, undef, undef, 0.1), 0)[1] } 1 .. 100), 'autovacuum: the cancel is logged');
pv_reload_with($node, autovacuum => 'off');

$node->stop;
pv_no_crash($node, 'the server');
done_testing();
