# A vacuum is canceled or terminated in each of its phases, by each of its processes,
# and its configuration is reloaded.  Afterwards the table is whole, nothing remains of
# the vacuum, and the next one has the result of stock VACUUM.

use strict;
use warnings FATAL => 'all';

use FindBin;
use lib $FindBin::RealBin;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use PvTest;
use Test::More;

my $node = pv_node('cancel');
$node->start;
pv_setup($node);

# Leader and workers are held when they begin with a phase.
pv_sql($node,
	"\\o /dev/null\nSELECT * FROM oracle.make_twins('none', 6000, ARRAY['btree', 'gin', 'hash'], 400) \\gexec\n");
my $holder = pv_hold($node, 'ours');
my $run = "SELECT workers_launched FROM parvacuum_run('ours', workers => 2, index_cleanup => 'on'";

my $born = pv_sql($node, 'SELECT pg_postmaster_start_time()');

my %process = (
	caller => 'application_name = \'TAG\' AND backend_type = \'client backend\'',
	leader => 'backend_type = \'parvacuum background leader\'',
	worker => 'backend_type = \'parallel worker\'');
my $ended = q{canceling statement due to user request|terminating|connection to client lost|server closed the connection};
my $round = 0;

# New dead rows in both twins, the same ones in each.  They are only deleted, because a
# new row could reuse the space of a row that was vacuumed in only one of the twins.
sub new_dead_rows
{
	$round++;
	pv_sql($node, "DELETE FROM $_ WHERE id % 97 = $round") for qw(stock ours);
	return;
}

# Start a run that is held in a phase.  Two tests.
sub run_until
{
	my ($phase, $what) = @_;
	new_dead_rows();
	my $started = pv_start_run($node, "$run) WHERE relid = 'ours'::regclass", 'parvacuum.wait_at' => $pv_place{$phase});
	pv_await_held($node, 3, $what);
	is(pv_sql($node, q{SELECT phase FROM pg_stat_progress_vacuum}), $phase, "$what: the run shows the phase");
	is(pv_sql($node, q{SELECT (SELECT count(*) FROM pg_index WHERE indrelid = 'ours'::regclass) - indexes_total
		FROM pg_stat_progress_vacuum}), 0, "$what: the run shows the number of indexes") if $phase =~ /indexes/ && $node->pg_version >= 17;
	return $started;
}

# No process may still run or hold a lock on the table.
sub all_is_quiet
{
	my ($what) = @_;
	ok(pv_await($node, q{
		SELECT count(*) FROM (
			SELECT FROM pg_stat_activity WHERE backend_type = 'parvacuum background leader' OR backend_type = 'parallel worker'
			UNION ALL SELECT FROM pg_locks WHERE relation = 'ours'::regclass
			UNION ALL SELECT FROM pg_stat_progress_vacuum) x}, 0), "$what: no process or lock remains")
	  or diag pv_processes($node);
	return;
}

for my $phase ('scanning heap', 'vacuuming indexes', 'vacuuming heap', 'cleaning up indexes')
{
	for my $who (sort keys %process)
	{
		for my $how (qw(cancel terminate))
		{
			my $what = "$phase, $how $who";
			my $started = run_until($phase, $what);
			my $where = $process{$who} =~ s{TAG}{$started->{tag}}r;
			is(pv_sql($node, "SELECT count(pg_${how}_backend(pid)) FROM (SELECT pid FROM pg_stat_activity WHERE $where LIMIT 1) x"),
				1, "$what: the process exists");

			ok(!pv_finish($started), "$what: the run fails");
			like($started->{err}, qr/$ended/, "$what: the error has the reason");
			all_is_quiet($what);
			is(pv_findings($node, 'ours'), '', "$what: the table is whole");
		}
	}

	# The configuration of the server changes during the run.
	my $started = run_until($phase, "$phase, reload");
	$node->append_conf('postgresql.conf', "work_mem = '" . (4000 + $round) . "kB'\n");
	$node->reload;
	$holder->query_safe('SELECT pg_advisory_unlock_all()');
	ok(pv_finish($started), "$phase, reload: the run goes on") or diag $started->{err};
	is($started->{out}, 2, "$phase, reload: the run has its workers");
	is(pv_sql($node, 'SHOW work_mem'), 4000 + $round . 'kB', "$phase, reload: the new settings are in effect");
	all_is_quiet("$phase, reload");
	is(pv_findings($node, 'ours'), '', "$phase, reload: the table is whole");
	$holder = pv_hold($node, 'ours');
}

# One more run completes all that was interrupted, with the result of stock VACUUM.
new_dead_rows();
pv_sql($node, 'VACUUM (INDEX_CLEANUP on, DISABLE_PAGE_SKIPPING) stock');
is(pv_sql($node, "$run, disable_page_skipping => true) WHERE relid = 'ours'::regclass"), 2, 'a run at the end succeeds');
is(pv_differences($node), '', 'the table equals the twin that stock VACUUM has vacuumed');

# Workers that were terminated must have returned their slots: in the pool of background
# workers and in parvacuum.max_workers.
is(pv_sql($node, "SELECT workers_launched FROM parvacuum_run('ours', workers => 8) WHERE relid = 'ours'::regclass"),
	8, 'all workers are available at the end');
is(pv_sql($node, 'SELECT pg_postmaster_start_time()'), $born, 'the server was not restarted');
pv_no_crash($node, 'the server');

$node->stop;
done_testing();
