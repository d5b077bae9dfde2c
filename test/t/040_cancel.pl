# parvacuum_cancel(): it hits the table that it names and no other, and nobody keeps
# a vacuum that prevents wraparound from its end who may only vacuum the table.

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
});
$node->start;
pv_setup($node);

sub sql { return $node->safe_psql('postgres', join ";\n", @_); }

# The queue, the counts and who is there, to explain a failure.
sub described { return join "\n", sql('SELECT * FROM parvacuum_queue LIMIT 20'), sql('SELECT * FROM parvacuum_scheduler_stats()'), pv_processes($node); }

my $active = q{SELECT count(*) FROM parvacuum_queue_items() WHERE state <> 'waiting'};
my $canceled = q{SELECT coalesce(string_agg(relid::regclass::text, ' ' ORDER BY relid), '') FROM parvacuum_queue_items() WHERE reason = 'canceled'};

# What is asked of the server over and over, by somebody, until it is stopped.
sub start_loop
{
	my ($role, $script) = @_;
	local $ENV{PGOPTIONS} = "-c client_min_messages=error -c role=$role";
	return pv_start_pgbench($node, $PostgreSQL::Test::Utils::timeout_default, 1, asks => [ 1, $script ]);
}
sub stop_loop
{
	my ($bench) = @_;
	$bench->{handle}->signal('INT');
	$bench->{handle}->finish;
	return;
}

# As one who never errs: refusals are what is tested.
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
# Many tables that are done in no time, one of which is cancelled all the time
#
my @others = map { "quick_$_" } 1 .. 60;
my $sometimes = join ";\n", map { "SELECT parvacuum_enqueue('$_')" . ($_ =~ /[05]$/ ? q{; SELECT parvacuum_enqueue('hit', 2000)} : '') } @others;
sql(map { ("CREATE TABLE $_ (id int PRIMARY KEY) WITH (parvacuum.enabled)", "INSERT INTO $_ SELECT generate_series(1, 100)", "ALTER TABLE $_ OWNER TO pv_owner") } 'hit', @others);

for my $role ('postgres', 'pv_owner')
{
	my $role_name = $role eq 'postgres' ? sql('SELECT current_user') : $role;
	my $before = sql('SELECT vacuums FROM parvacuum_scheduler_stats()');
	my @loops = map { start_loop($role_name, q{SELECT parvacuum_cancel('hit');}) } 1 .. 2;
	my ($wrong, $hit) = ('', 0);
	for my $round (1 .. 40)
	{
		sql($sometimes);
		pv_await($node, $active, 0) or die described();
		my $tables = sql($canceled);
		$hit++ if $tables =~ /\bhit\b/;
		$wrong .= "$round: $tables\n" if $tables !~ /^(hit)?$/;
	}
	stop_loop($_) for @loops;
	cmp_ok($hit, '>', 0, "$role: the table is cancelled");
	is($wrong, '', "$role: no other table is");
	cmp_ok(sql('SELECT vacuums FROM parvacuum_scheduler_stats()') - $before, '>=', 40 * @others, "$role: all others are vacuumed each time");
}
my $log = slurp_file($node->logfile);
my @tables = $log =~ /canceling statement due to user request.*?scheduled vacuum of table "public\.(\w+)"/gs;
cmp_ok(scalar(@tables), '>', 0, 'vacuums in progress were cancelled: ' . @tables);
is(join(' ', grep { $_ ne 'hit' } @tables), '', 'and the log names no other table');
is(sql('SELECT errors FROM parvacuum_scheduler_stats()'), 0, 'nothing of that is an error');

#
# An old table, and its owner, who does not want it to be vacuumed
#
sql('CREATE TABLE old (id int, pad char(2400)) WITH (parvacuum.enabled, autovacuum_freeze_max_age = 100000)',
	'ALTER TABLE old ALTER pad SET STORAGE PLAIN', q{INSERT INTO old SELECT i, 'x' FROM generate_series(1, 300) i}, 'ALTER TABLE old OWNER TO pv_owner');
sql('DO $$ BEGIN FOR i IN 1 .. 95000 LOOP PERFORM pg_current_xact_id(); COMMIT; END LOOP; END $$');
my $age = q{(SELECT age(relfrozenxid) FROM pg_class WHERE relname = 'old')};
cmp_ok(sql("SELECT $age"), '>', 90000, 'the table is old');

pv_reload_with($node, 'parvacuum.scheduler_max_cost' => 1000);
ok(pv_await($node, 'SELECT max_cost FROM parvacuum_scheduler_stats()', 1000), 'its vacuum takes some seconds');
my @loops = map { start_loop('pv_owner', $_) } q{SELECT try($$parvacuum_cancel('old')$$);},
  q{SELECT try($$parvacuum_enqueue('old', 1)$$); SELECT try($$parvacuum_cancel('old')$$);};
pv_reload_with($node, autovacuum_naptime => 1);
my $running = q{(SELECT state FROM parvacuum_queue_items() WHERE relid = 'old'::regclass AND wraparound)};
ok(pv_await($node, "SELECT $running", 'running'), 'it is vacuumed while its owner cancels that') or diag described();
is(sql(q{SET ROLE pv_owner}, q{SELECT try($$parvacuum_cancel('old')$$)}), 'permission denied to cancel the vacuum of table "public.old"', 'which he may not');
ok(pv_await($node, "SELECT $age < 50000", 'true'), 'and the vacuum comes to its end') or diag described();
stop_loop($_) for @loops;
ok(pv_await($node, $active, 0), 'nothing is left to do') or diag described();
is(pv_findings($node, 'old'), '', 'the table is whole');

# queued behind another one, it stays there
pv_reload_with($node, 'parvacuum.scheduler_workers' => 1, 'parvacuum.scheduler_max_cost' => 200);
ok(pv_await($node, 'SELECT max_cost FROM parvacuum_scheduler_stats()', 200), 'slowly now');
sql('ALTER TABLE old SET (parvacuum.enabled = off)', 'CREATE TABLE slow (id int, pad char(2400)) WITH (autovacuum_vacuum_threshold = 1, autovacuum_vacuum_scale_factor = 0)',
	'ALTER TABLE slow ALTER pad SET STORAGE PLAIN', q{INSERT INTO slow SELECT i, 'x' FROM generate_series(1, 3000) i}, 'DELETE FROM slow WHERE id % 3 = 0');
sql('DO $$ BEGIN FOR i IN 1 .. 95000 LOOP PERFORM pg_current_xact_id(); COMMIT; END LOOP; END $$');
sql('BEGIN', 'ALTER TABLE old SET (parvacuum.enabled)', 'ALTER TABLE slow SET (parvacuum.enabled)', 'COMMIT');
sub state_of { return "(SELECT concat_ws(' ', state, reason) FROM parvacuum_queue_items() WHERE relid = '$_[0]'::regclass)"; }
ok(pv_await($node, 'SELECT ' . state_of('slow'), 'running'), 'the only runner is busy') or diag described();
is(sql('SELECT ' . state_of('old')), 'queued', 'and the old table waits for it');
is(sql(q{SET ROLE pv_owner}, q{SELECT try($$parvacuum_cancel('old')$$)}), 'permission denied to cancel the vacuum of table "public.old"', 'its owner cannot take it out of the queue');
is(sql('SELECT ' . state_of('old')), 'queued', 'where it is still');
is(sql(q{SELECT parvacuum_cancel('old')}), 't', 'a superuser can');
is(sql('SELECT ' . state_of('old')), 'waiting canceled', 'until the next pass');
my $runner = sql(q{SELECT pid FROM parvacuum_queue WHERE state = 'running'});
is(sql("SELECT parvacuum_cancel($runner)"), 't', 'nor is there anything against cancelling what the runner does');
ok(pv_await($node, 'SELECT ' . state_of('slow'), 'waiting canceled'), 'which is given up') or diag described();

$node->stop;
pv_no_crash($node, 'the server');
done_testing();
