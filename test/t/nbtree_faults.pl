# A participant in a B-tree is canceled or terminated at each place where it can wait.
# Nothing may remain of it, and the next vacuum succeeds.  Then more vacuums of B-trees than
# the server has places for.

use strict;
use warnings FATAL => 'all';

use FindBin;
use lib $FindBin::RealBin;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use PvNbtree;
use PvTest;
use Test::More;

nbtree_start('nbtree_faults');

#
# A process is ended at each place.  The table has three B-trees, so that all three
# participants wait there.
#
new_table('t', 3000, 180, 0.3, 'pad', 'pad, id');
my $turn = 0;
my %process = (leader => 'parvacuum background leader', worker => 'parallel worker');
sub segments { return scalar(my @files = glob $node->data_dir . '/pg_dynshmem/*'); }

for my $place (qw(range finish deletion))
{
	for my $case ([ 2, 'worker' ], [ 2, 'leader' ], [ 0, 'leader' ])
	{
		my ($workers, $who) = @$case;
		for my $how (qw(cancel terminate))
		{
			my $what = "$place, $workers workers, $how $who";
			$turn++;
			sql("DELETE FROM t WHERE k % 97 = $turn");
			my $segments = segments();
			close_gate();
			my $run = start_vacuum('t', $workers, $place);
			all_stand($workers + 1, 0, "$what: all participants wait");
			is(sql("SELECT count(pg_${how}_backend(pid)) FROM (
				SELECT pid FROM pg_stat_activity WHERE backend_type = '$process{$who}' AND wait_event = 'advisory' LIMIT 1) x"), 1, "$what: the process exists");
			ok(!pv_finish($run), "$what: the vacuum fails");
			like($run->{err}, qr/canceling statement due to user request|terminating|connection to client lost/, "$what: the error has the reason");
			ok(pv_await($node, q{
				SELECT count(*) FROM (
					SELECT FROM pg_stat_activity WHERE backend_type IN ('parvacuum background leader', 'parallel worker')
					UNION ALL SELECT FROM pg_locks l JOIN pg_class c ON c.oid = l.relation WHERE relname LIKE 't\_%' OR relname = 't'
					UNION ALL SELECT FROM pg_stat_progress_vacuum) x}, 0), "$what: no process, lock or progress entry remains")
			  or diag pv_processes($node);
			is(segments(), $segments, "$what: no shared memory remains");
			open_gate();
			is(pv_findings($node, 't'), '', "$what: the table is whole");

			# In turn, core and the engine are the first to register all B-trees again.
			my @next = ('VACUUM (INDEX_CLEANUP on, PARALLEL 0) t', "SELECT FROM parvacuum_run('t', workers => 2, index_cleanup => 'on')");
			for my $next ($turn % 2 ? @next : reverse @next)
			{
				my ($rc, $out, $err) = $node->psql('postgres', "DELETE FROM t WHERE id = (SELECT min(id) FROM t); $next");
				is($rc . $err, '0', "$what: " . substr($next, 0, 6) . ' succeeds');
			}
		}
	}
}
is(pv_findings($node, 't'), '', 'the table is whole at the end');

unlike(slurp_file($node->logfile), qr/found deleted block|in an inconsistent state/, 'the log has no complaint of core');
pv_no_crash($node, 'the server');

nbtree_stop();

#
# The server has as many places for B-trees being vacuumed as it may have processes.  Several
# vacuums of more B-trees than that do not take all places.
#
$node = pv_node('places');
$node->append_conf('postgresql.conf', "max_connections = 26\nmax_worker_processes = 2\nmax_wal_senders = 0\nautovacuum_max_workers = 1\n"
	. ($node->pg_version >= 18 ? "autovacuum_worker_slots = 1\n" : ''));
$node->start;
pv_setup($node);
my @tables = map { "t$_" } 1 .. 14;
sql(map { ("CREATE TABLE $_ (a int) WITH (autovacuum_enabled = off, parvacuum.enabled)", "INSERT INTO $_ SELECT generate_series(1, 13000)",
	("CREATE INDEX ON $_ (a)") x 4, "DELETE FROM $_ WHERE a % 3 = 0") } @tables);
@gate = ($node->background_psql('postgres'));
close_gate();
my $start = sub { pv_start_run($node, "VACUUM (PARALLEL 0, INDEX_CLEANUP on) $_[0]", 'parvacuum.wait_at' => 'nbtree\ range') };
my @runs = map { $start->($_) } @tables;
ok(pv_await($node, "SELECT (SELECT sum(vacuum_count) FROM pg_stat_user_tables) + (SELECT count(*) $at_gate 'ShareLock')", scalar @tables),
	'places: all vacuums have ended or wait at the gate') or diag pv_processes($node);
my $waiting = sql("SELECT count(*) $at_gate 'ShareLock'");
cmp_ok($waiting, '>=', 3, "places: several vacuums have places: $waiting");
open_gate();
ok(pv_finish($runs[$_]), "places: $tables[$_] is vacuumed") or diag $runs[$_]->{err} for 0 .. $#runs;
is(pv_findings($node, $_), '', "places: $_ is whole") for @tables[ 0, -1 ];
ok(pv_finish($start->('t1')), 'places: another vacuum succeeds');
$_->quit for @gate;
pv_no_crash($node, 'the server of few places');
$node->stop;
done_testing();
