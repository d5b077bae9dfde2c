# max_worker_processes and its use: runs and their places in each way in which a run can
# end, the scheduler without a process, and the messages about that.

use strict;
use warnings FATAL => 'all';

use FindBin;
use lib $FindBin::RealBin;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use PvTest;
use Test::More;

my $node = pv_node('processes');
my $made = 0;

sub sql { return pv_sql($node, @_); }
sub restart_with
{
	my (%settings) = @_;
	$node->append_conf('postgresql.conf', join '', map { "$_ = $settings{$_}\n" } sort keys %settings);
	if ($made++) { $node->restart; }
	else { $node->start; pv_setup($node); }
	return;
}

# The error of a run of a role; empty if it succeeds
sub failure_of
{
	my ($role, $table) = @_;
	my ($rc, $out, $err) = $node->psql('postgres', "SET SESSION AUTHORIZATION $role;\n\\set VERBOSITY verbose\nSELECT parvacuum_run('$table')");
	return join ' ', $err =~ /^(?:.*ERROR|DETAIL|HINT): +(.*)/mg;
}
sub refused { return sql('SELECT runs_refused FROM parvacuum_scheduler_stats()'); }

# A table that is locked, so that a run of it waits as long as the test needs
my $lock;
sub lock_table
{
	$lock = $node->background_psql('postgres');
	$lock->query_safe('BEGIN; LOCK TABLE held IN SHARE MODE');
	return;
}
my $waiting = q{SELECT count(*) FROM pg_stat_activity WHERE backend_type = 'parvacuum background leader' AND wait_event_type = 'Lock'};
my $leaders = q{SELECT count(*) FROM pg_stat_activity WHERE backend_type = 'parvacuum background leader'};
sub start_as
{
	my ($role) = @_;
	local $ENV{PGUSER} = $role;
	return pv_start_run($node, q{SELECT 1 FROM parvacuum_run('held')});
}
sub log_has
{
	my ($what, $from) = @_;
	my @lines = grep { /$what/ } split /\n/, substr(slurp_file($node->logfile), $from);
	return scalar @lines;
}

#
# Warnings at the start and after a reload
#
my $too_low = qr/WARNING:  .*"max_worker_processes" is too low for parvacuum's settings/;
restart_with(max_worker_processes => 9, max_parallel_workers => 2, 'parvacuum.max_runs' => 2, 'parvacuum.scheduler_workers' => 3);
my $begun;
ok(pv_await($node, "SELECT count(*) FROM pg_stat_activity WHERE backend_type = 'parvacuum launcher'", 1), 'the launcher is there');
sub reload_and_look
{
	my ($what, $number, $times, %settings) = @_;
	my $from = -s $node->logfile;
	pv_reload_with($node, %settings);
	# The launcher publishes its state after it has warned.
	my $cost = 1000 + int(rand(1e6));
	pv_reload_with($node, 'parvacuum.scheduler_max_cost' => $cost);
	ok(pv_await($node, 'SELECT max_cost FROM parvacuum_scheduler_stats()', $cost), "$what: the launcher has reloaded");
	# It has warned when it waits for the next reload.
	$cost++;
	pv_reload_with($node, 'parvacuum.scheduler_max_cost' => $cost);
	ok(pv_await($node, 'SELECT max_cost FROM parvacuum_scheduler_stats()', $cost), "$what: the launcher has reloaded again");
	is(log_has($too_low, $from), $times, "$what: warned $times times");
	is(log_has("DETAIL:  It is 9, and should be $number at least", $from), $times, "$what: the warning has the number $number") if $times;
	return;
}
is(log_has($too_low, 0), 0, 'no warning at the start');
reload_and_look('the scheduler fits', 0, 0, 'parvacuum.scheduler' => 'on');
reload_and_look('one more run does not', 10, 1, 'parvacuum.max_runs' => 3);
reload_and_look('the same again is not said', 0, 0, 'vacuum_cost_limit' => 300);
reload_and_look('more runs are', 12, 1, 'parvacuum.max_runs' => 5);
reload_and_look('without the scheduler', 0, 0, 'parvacuum.scheduler' => 'off');

#
# Places
#
sql('CREATE ROLE one LOGIN', 'CREATE ROLE two LOGIN', 'CREATE ROLE owners', 'GRANT owners TO one, two',
	'CREATE TABLE held AS SELECT 1 AS i', 'ALTER TABLE held OWNER TO owners', 'CREATE TABLE free AS SELECT 1 AS i', 'ALTER TABLE free OWNER TO owners',
	'GRANT USAGE ON SCHEMA public TO PUBLIC', 'ALTER TABLE held SET (autovacuum_enabled = off)');
pv_reload_with($node, 'parvacuum.max_runs' => 3);
my $superuser = sql('SELECT session_user');

my $share = qr/^53400: too many runs of parvacuum to vacuum table "public.free" The last of 3 places is reserved for roles other than "one"\. Wait .*"parvacuum.max_runs"/;
my $all = qr/^53400: too many runs of parvacuum to vacuum table "public.free" "parvacuum.max_runs" allows 3 at a time in all databases together\. Wait .*"parvacuum.max_runs"/;
lock_table();
my @runs = (start_as('one'), start_as('one'));
ok(pv_await($node, $waiting, 2), 'one role has two of three places');
like(failure_of('one', 'free'), $share, 'the role does not get the last place');
is(failure_of('two', 'free'), '', 'another role gets it, more than once');
is(failure_of('two', 'free'), '', 'the other role gives it back');
is(failure_of($superuser, 'free'), '', 'a superuser gets it');
push @runs, start_as('two');
ok(pv_await($node, $waiting, 3), 'all places are taken');
my $before = refused();
like(failure_of($_, 'free'), $all, "no place is left: $_") for 'one', 'two', $superuser;
is(refused(), $before + 3, 'failed starts are counted');
$lock->query_safe('COMMIT');
ok(pv_finish($_), 'a run ends') or diag $_->{err} for @runs;
is(failure_of('one', 'free'), '', 'its place is free');

pv_reload_with($node, 'parvacuum.max_runs' => 1);
is(failure_of('one', 'free'), '', 'with one place, each role may have it') for 1 .. 3;
pv_reload_with($node, 'parvacuum.max_runs' => 0);
like(failure_of($_, 'free'), qr/^53400: .* allows 0 at a time in all databases together\. Use VACUUM, or increase "parvacuum.max_runs"/, "no runs are allowed: $_")
  for 'one', $superuser;

#
# A run gives back its place in each way in which it can end, and not before the
# background leader has exited.
#
pv_reload_with($node, 'parvacuum.max_runs' => 1);
my $of_caller = q{SELECT pid FROM pg_stat_activity WHERE query ~ 'parvacuum_run' AND backend_type = 'client backend' AND pid <> pg_backend_pid()};
my $of_leader = q{SELECT pid FROM pg_stat_activity WHERE backend_type = 'parvacuum background leader'};
my %ends = (
	'the caller is canceled' => "SELECT pg_cancel_backend(pid) FROM ($of_caller) x",
	'the caller is terminated' => "SELECT pg_terminate_backend(pid) FROM ($of_caller) x",
	'the background leader is canceled' => "SELECT pg_cancel_backend(pid) FROM ($of_leader) x",
	'the background leader is terminated' => "SELECT pg_terminate_backend(pid) FROM ($of_leader) x",
	'both are terminated' => "SELECT pg_terminate_backend(pid) FROM ($of_leader UNION ALL $of_caller) x");
for my $what (sort keys %ends)
{
	lock_table();
	my $run = start_as('one');
	ok(pv_await($node, $waiting, 1), "$what: a run waits");
	like(failure_of('two', 'free'), qr/allows 1 at a time/, "$what: the place is taken");
	sql($ends{$what});
	ok(!pv_finish($run), "$what: the run fails");
	$lock->query_safe('COMMIT');
	ok(pv_await($node, $leaders, 0), "$what: the background leader has exited");
	is(failure_of('two', 'free'), '', "$what: the place is free");
}

# While the background leader exits, during a vacuum, and without a segment
sql('CREATE TABLE busy (i int) WITH (autovacuum_enabled = off)', 'INSERT INTO busy SELECT generate_series(1, 200000)', 'DELETE FROM busy WHERE i % 3 = 0');
for my $n (1 .. 5)
{
	my $run = pv_start_run($node, "SELECT 1 FROM parvacuum_run('busy', disable_page_skipping => true)", vacuum_cost_delay => '100ms', vacuum_cost_limit => 1);
	ok(pv_await($node, q{SELECT count(*) FROM pg_stat_progress_vacuum WHERE phase = 'scanning heap'}, 1), "during a vacuum, $n");
	sql("SELECT pg_terminate_backend(pid) FROM ($of_caller) x");
	ok(!pv_finish($run), "the run is terminated, $n");
	# A session is removed from pg_stat_activity before its exit is complete.
	ok($node->poll_query_until('postgres', q{SELECT count(*) FROM parvacuum_run('free')}, 1), "its place is free, $n");
}
is(sql(join "\n", map { "SELECT count(*) FROM parvacuum_run('free');" } 1 .. 5), join("\n", (1) x 5), 'a run directly after another one');

#
# No process for a run or for the scheduler: counted and reported
#
$begun = -s $node->logfile;
restart_with(max_worker_processes => 2, autovacuum_naptime => '1s', max_parallel_workers => 2);
pv_reload_with($node, 'parvacuum.scheduler' => 'on', 'parvacuum.max_runs' => 4);
sql('CREATE TABLE needy (i int) WITH (parvacuum.enabled)', 'INSERT INTO needy SELECT generate_series(1, 10000)', 'DELETE FROM needy');
ok(pv_await($node, 'SELECT no_process > 1 FROM parvacuum_scheduler_stats()', 'true'), 'the scheduler has no process');
$before = refused();
like(failure_of('one', 'free'), qr/^53000: could not start a process to vacuum table "public.free" .*max_worker_processes/, 'a run has no process');
is(refused(), $before + 1, 'failed starts are counted');
is(log_has(q{parvacuum's scheduler could not start a process}, $begun), 1, 'the scheduler logs it once');
ok(log_has($too_low, $begun) > 0, 'the hint names the setting');
is(sql('SELECT vacuums FROM parvacuum_scheduler_stats()'), 0, 'nothing is vacuumed by the scheduler');
pv_reload_with($node, 'autovacuum' => 'on');
ok(pv_await($node, q{SELECT autovacuum_count > 0 FROM pg_stat_all_tables WHERE relid = 'needy'::regclass}, 'true'), q{core's autovacuum does it});

# No process for the launcher either
$begun = -s $node->logfile;
restart_with(max_worker_processes => 1);
is(log_has('LOG:  .*too many background workers', $begun), 1, 'no launcher: logged by the postmaster');
is(sql(q{SELECT count(*) FROM parvacuum_check() WHERE evidence ~ '^max_worker_processes is 1, at least 11 are asked for'}), 1, 'no launcher: the necessary number is reported');
restart_with(max_worker_processes => 11);
$begun = -s $node->logfile;
ok(pv_await($node, 'SELECT database_scans > 1 FROM parvacuum_scheduler_stats()', 'true'), 'the scheduler works with that number');
is(log_has($too_low, $begun), 0, 'no warning with that number');
is(sql('SELECT no_process FROM parvacuum_scheduler_stats()'), 0, 'no failed start with that number');

pv_no_crash($node, 'the server');
$node->stop;
done_testing();
