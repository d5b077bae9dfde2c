# The roles of parallel workers: a role that may signal their leader may signal them, and
# DROP DATABASE ... WITH (FORCE) works as with core's autovacuum.

use strict;
use warnings FATAL => 'all';

use FindBin;
use lib $FindBin::RealBin;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use PvTest;
use Test::More;

my $node = pv_node('identity');

# A page costs 1000 units at least, so a table of 1000 pages takes a quarter of an hour.
$node->append_conf('postgresql.conf', q{
autovacuum_naptime = 1s
autovacuum_vacuum_cost_limit = 100
autovacuum_vacuum_cost_delay = 100ms
vacuum_cost_page_hit = 1000
parvacuum.scheduler_workers = 2
parvacuum.autovacuum_workers = 2
});
$node->start;
pv_setup($node);

sub sql { return pv_sql($node, @_); }

# The error of a statement of a role, empty if there is none
sub error_of
{
	my ($role, @statements) = @_;
	my ($rc, $out, $err) = $node->psql('postgres', join(";\n", "SET SESSION AUTHORIZATION $role", @statements), timeout => $PostgreSQL::Test::Utils::timeout_default);
	return $err =~ /ERROR:\s+(.*)/ ? $1 : '';
}

sql('CREATE ROLE pv_owner LOGIN', 'CREATE ROLE pv_signal LOGIN IN ROLE pg_signal_backend', 'CREATE ROLE pv_other LOGIN');

my $who = q{SELECT string_agg(DISTINCT format('%s as %s', backend_type, coalesce(usename, '-')), ', ' ORDER BY format('%s as %s', backend_type, coalesce(usename, '-')))
	FROM pg_stat_activity WHERE datname = 'visited'};
my $superuser = sql('SELECT rolname FROM pg_roles WHERE oid = 10');

# A database of a role, with a table that takes long
sub make_database
{
	my ($owner, $options) = @_;
	sql("CREATE DATABASE visited OWNER $owner");
	$node->safe_psql('visited', join ";\n", 'CREATE EXTENSION parvacuum',
		"CREATE TABLE t (id int PRIMARY KEY, pad char(2400)) WITH ($options, autovacuum_vacuum_threshold = 10, autovacuum_vacuum_scale_factor = 0, autovacuum_enabled = off)",
		'ALTER TABLE t ALTER pad SET STORAGE PLAIN', q{INSERT INTO t SELECT i, 'x' FROM generate_series(1, 3000) i}, 'CREATE INDEX ON t (id)',
		'DELETE FROM t WHERE id % 3 = 0', 'ALTER TABLE t SET (autovacuum_enabled = on)');
	return;
}

#
# DROP DATABASE by its owner, who is not a superuser, while it is vacuumed.  Core allows a
# member of pg_signal_backend to terminate processes that act for no role, and no other
# roles.
#
my %refused = (pv_signal => '', pv_owner => $node->pg_version >= 16 ? 'permission denied to terminate process' :
	  'must be a member of the role whose process is being terminated or member of pg_signal_backend');
my @cases = (
	[ 'stock autovacuum', { autovacuum => 'on', 'parvacuum.scheduler' => 'off' }, 'parvacuum.enabled = off', 'autovacuum worker as -' ],
	[ 'autovacuum with our workers', { autovacuum => 'on', 'parvacuum.scheduler' => 'off' }, 'parvacuum.enabled', 'autovacuum worker as -, parallel worker as -' ],
	# at this speed the scheduler must not begin with catalogs
	[ 'the scheduler', { autovacuum => 'off', 'parvacuum.scheduler' => 'on', autovacuum_vacuum_threshold => 1000000, autovacuum_vacuum_insert_threshold => -1, autovacuum_analyze_threshold => 1000000 }, 'parvacuum.enabled',
		"parallel worker as $superuser, parvacuum scheduler worker as $superuser" ]);
for my $case (@cases)
{
	my ($what, $settings, $options, $processes) = @$case;
	pv_reload_with($node, %$settings);
	for my $owner ('pv_signal', 'pv_owner')
	{
		make_database($owner, $options);
		ok(pv_await($node, $who, $processes), "$what, $owner: $processes") or diag sql($who);
		my @pids = split /\n/, sql(q{SELECT pid FROM pg_stat_activity WHERE datname = 'visited'});
		like(error_of('pv_owner', "SELECT pg_cancel_backend($_)"), qr/superuser|SUPERUSER|permission denied/, "$what, $owner: the owner cannot cancel a process that acts for no role") for @pids;
		is(error_of($owner, 'DROP DATABASE visited WITH (FORCE)'), $refused{$owner}, "$what, $owner: DROP DATABASE WITH (FORCE)");
		is(error_of($owner, 'DROP DATABASE IF EXISTS visited'), '', "$what, $owner: DROP DATABASE");
	}
}
pv_reload_with($node, autovacuum => 'off', 'parvacuum.scheduler' => 'off');

#
# The workers of a role's own run
#
sql('CREATE TABLE run (id int PRIMARY KEY, pad char(2400))', 'ALTER TABLE run ALTER pad SET STORAGE PLAIN',
	q{INSERT INTO run SELECT i, 'x' FROM generate_series(1, 3000) i}, 'CREATE INDEX ON run (id)', 'DELETE FROM run WHERE id % 3 = 0', 'ALTER TABLE run OWNER TO pv_owner');
my $workers = q{FROM pg_stat_activity WHERE backend_type = 'parallel worker'};
my %told = (pg_cancel_backend => qr/canceling statement due to user request/, pg_terminate_backend => qr/terminating connection due to administrator command|terminating background worker/);
for my $function (sort keys %told)
{
	local $ENV{PGUSER} = 'pv_owner';
	my $run = pv_start_run($node, q{SELECT parvacuum_run('run', workers => 2)}, vacuum_cost_delay => 100, vacuum_cost_limit => 100);
	delete local $ENV{PGUSER};
	ok(pv_await($node, "SELECT string_agg(DISTINCT usename, ', ') $workers HAVING count(*) = 2", 'pv_owner'), "$function: workers of the run show its caller") or diag pv_processes($node);
	my $pid = sql("SELECT min(pid) $workers");
	isnt(error_of('pv_other', "SELECT $function($pid)"), '', "$function: another role cannot signal a worker");
	is(sql("SELECT count(*) $workers"), 2, "$function: both workers are still there");
	is(error_of('pv_owner', "SELECT $function($pid)"), '', "$function: the caller can signal a worker");
	ok(!pv_finish($run), "$function: that ends the run");
	like($run->{err}, $told{$function}, "$function: the caller gets the error");
	ok(pv_await($node, "SELECT count(*) $workers", 0), "$function: no worker remains");
}

#
# Roles that may cancel a run: its caller, and others by the rules of
# pg_cancel_backend(), whichever role owns the table
#
my $denied = 'permission denied to cancel a run of parvacuum';
my $no_right = 'permission denied to cancel a vacuum';
my %cancels = (
	pv_owner => [ [ 'pv_other', $no_right, $denied ], [ 'pv_owner', '', '' ], [ 'pv_signal', '', '' ], [ $superuser, '', '' ] ],
	$superuser => [ [ 'pv_other', $no_right, $denied ], [ 'pv_owner', $denied, $denied ], [ 'pv_signal', $no_right, $denied ], [ $superuser, '', '' ] ]);
my $at_it = q{FROM pg_stat_progress_vacuum p JOIN pg_stat_activity a USING (pid) WHERE backend_type = 'parvacuum background leader' AND p.relid = 'run'::regclass};
for my $caller (sort keys %cancels)
{
	my $run;
	for my $cancel (@{ $cancels{$caller} })
	{
		my ($role, @expected) = @$cancel;
		for my $by ('table', 'process')
		{
			my $expected = $by eq 'table' ? $expected[0] : $expected[1];
			if (!$run)
			{
				local $ENV{PGUSER} = $caller;
				$run = pv_start_run($node, q{SELECT parvacuum_run('run', workers => 0)}, vacuum_cost_delay => 100, vacuum_cost_limit => 100);
			}
			ok(pv_await($node, "SELECT count(*) $at_it", 1), "a run of $caller") or diag pv_processes($node);
			my $what = $by eq 'table' ? q{'run'} : sql("SELECT pid $at_it");
			is(error_of($role, "SELECT parvacuum_cancel($what)"), $expected, "a run of $caller, canceled by $role by its $by");
			next if $expected ne '';
			ok(!pv_finish($run), 'the run ends');
			like($run->{err}, qr/canceling statement due to user request/, 'the caller gets the error');
			undef $run;
		}
	}
}
# A run that waits for the table, and a run of a partitioned table that processes a
# partition
sql('CREATE TABLE parent (LIKE run) PARTITION BY RANGE (id)', 'CREATE TABLE part PARTITION OF parent FOR VALUES FROM (0) TO (10000)',
	'ALTER TABLE part ALTER pad SET STORAGE PLAIN', q{INSERT INTO parent SELECT i, 'x' FROM generate_series(1, 3000) i}, map { "ALTER TABLE $_ OWNER TO pv_owner" } qw(parent part));
my $lock = $node->background_psql('postgres');
$lock->query_safe('BEGIN; LOCK TABLE run');
my %state_of = (run => q{FROM pg_stat_activity WHERE backend_type = 'parvacuum background leader' AND wait_event_type = 'Lock'},
	parent => q{FROM pg_stat_progress_vacuum WHERE relid = 'part'::regclass});
for my $table (sort keys %state_of)
{
	local $ENV{PGUSER} = 'pv_owner';
	my $run = pv_start_run($node, "SELECT parvacuum_run('$table', workers => 0)", vacuum_cost_delay => 100, vacuum_cost_limit => 100);
	delete local $ENV{PGUSER};
	ok(pv_await($node, "SELECT count(*) $state_of{$table}", 1), "a run of $table") or diag pv_processes($node);
	is(sql("SET SESSION AUTHORIZATION pv_owner; SELECT parvacuum_cancel('$table')"), 't', 'the run is found by that table');
	ok(!pv_finish($run), 'the run ends');
	like($run->{err}, qr/canceling statement due to user request/, 'the caller gets the error');
}
$lock->query_safe('COMMIT');
$lock->quit;
is(error_of('pv_signal', q{SELECT parvacuum_cancel('run')}), $no_right, 'a member of pg_signal_backend cannot cancel a table of the scheduler');
is(error_of('pv_owner', q{SELECT parvacuum_cancel('run')}), '', 'the owner may call it, even if there is no vacuum');
is(pv_findings($node, 'run'), '', 'the table is whole');

$node->stop;
pv_no_crash($node, 'the server');
done_testing();
