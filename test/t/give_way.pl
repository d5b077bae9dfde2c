# Workers whose leader gives up end without a message in the log: where an autovacuum
# gives way to a lock, where a VACUUM or a run is canceled, and where another
# worker has failed.  A worker that is terminated itself, or has an error of its own,
# reports it.

use strict;
use warnings FATAL => 'all';

use FindBin;
use lib $FindBin::RealBin;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use PvTest;
use Test::More;

my $node = pv_node('give_way');
$node->append_conf('postgresql.conf', q{
autovacuum = on
autovacuum_naptime = 1s
deadlock_timeout = 100ms
});
$node->start;
pv_setup($node);

my $round = 0;

sub sql { return pv_sql($node, @_); }

my $workers = q{SELECT count(*) FROM pg_stat_activity WHERE backend_type = 'parallel worker'};

# Tests: all processes have ended, and none of those that must not report anything has
# reported it.
sub ended
{
	my ($what, %said) = @_;
	my $whose = $said{whose} // '';
	ok(pv_await($node, $workers, 0), "$what: no worker is left") or diag pv_processes($node);
	my $log = pv_new_log($node);
	my @fatal = grep { /$whose FATAL:/ } split /\n/, $log;
	my @exits = grep { /background worker "parallel worker" .*exited with/ } split /\n/, $log;
	my @errors = grep { /parallel worker .*ERROR:/ } split /\n/, $log;
	is(scalar @fatal, $said{fatal} // 0, "$what: FATAL in the log") or diag $log;
	is(scalar @exits, $said{exits} // 0, "$what: workers that did not exit well") or diag $log;
	is(scalar @errors, $said{errors} // 0, "$what: errors of workers") or diag $log;
	return $log;
}

sub new_dead_rows
{
	$round++;
	return sql("DELETE FROM ours WHERE id % 50 = $round");
}

sql("\\o /dev/null\nSELECT * FROM oracle.make_twins('none', 17000, ARRAY['btree', 'gin', 'hash'], 400) \\gexec\n\\o\n");
sql(map { "ALTER TABLE $_ SET (autovacuum_enabled = off)" } qw(stock ours));
sql('ALTER TABLE ours SET (parvacuum.enabled, autovacuum_vacuum_threshold = 50, autovacuum_vacuum_scale_factor = 0, autovacuum_analyze_threshold = 1000000000)');
my $progress = q{SELECT count(*) FROM pg_stat_progress_vacuum WHERE relid = 'ours'::regclass AND phase = '%s'};

# At this rate a vacuum takes hours.  Vacuums are held where they begin with a phase.
my %slow = (vacuum_cost_delay => '100ms', vacuum_cost_limit => 1, vacuum_cost_page_hit => 100);
my $holder = pv_hold($node, 'ours');

#
# In each phase
#
for my $phase ('scanning heap', 'vacuuming indexes', 'vacuuming heap', 'cleaning up indexes')
{
	my $what = "$phase, autovacuum";
	pv_reload_with($node, 'parvacuum.wait_at' => $pv_place{$phase});
	new_dead_rows();
	pv_new_log($node);
	sql('ALTER TABLE ours SET (autovacuum_enabled = on)');
	pv_await_held($node, 3, $what);
	is(sql(sprintf($progress, $phase)), 1, "$what: the phase");
	# In one transaction, or another autovacuum could begin between the two.
	is(($node->psql('postgres', q{SET lock_timeout = '2min'; BEGIN; LOCK TABLE ours IN ACCESS EXCLUSIVE MODE; ALTER TABLE ours SET (autovacuum_enabled = off); COMMIT}))[0], 0, "$what: it gives way");
	like(ended($what), qr/ERROR:.*canceling autovacuum task/, "$what: the cancel is logged");

	for my $command ('VACUUM (PARALLEL 2, INDEX_CLEANUP on) ours', q{SELECT FROM parvacuum_run('ours', workers => 2, index_cleanup => 'on')})
	{
		$what = "$phase, $command";
		new_dead_rows();
		pv_new_log($node);
		my $run = pv_start_run($node, $command);
		pv_await_held($node, 3, $what);
		is(sql(sprintf($progress, $phase)), 1, "$what: the phase");
		sql("SELECT pg_cancel_backend(pid) FROM pg_stat_activity WHERE application_name = '$run->{tag}' AND backend_type = 'client backend'");
		ok(!pv_finish($run), "$what: it is canceled");

		# A background leader is terminated by SIGTERM, and reports it.
		ended($what, whose => $command =~ /^VACUUM/ ? '' : 'parallel worker');
	}
}
is(pv_findings($node, 'ours'), '', 'the table is whole');
$holder->quit;

#
# A leader that is terminated itself
#
new_dead_rows();
pv_new_log($node);
my $terminated = pv_start_run($node, 'VACUUM (PARALLEL 2) ours', %slow);
ok(pv_await($node, "$workers AND wait_event = 'VacuumDelay'", 2), 'terminated: the vacuum has its workers');
sql("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name = '$terminated->{tag}' AND backend_type = 'client backend'");
ok(!pv_finish($terminated), 'terminated: the vacuum ends');
ended('terminated', fatal => 1);

#
# Workers that wait for a page to be unpinned: enough pages are pinned for the workers to
# meet some of them.
#
my $reader = $node->background_psql('postgres');
$reader->query_safe('BEGIN');
for my $n (1 .. 7) { $reader->query_safe("DECLARE c$n CURSOR FOR SELECT id FROM ours WHERE ctid >= '(" . ($n * 128 + 5) . ",0)'; FETCH 1 FROM c$n"); }
pv_new_log($node);
my $freeze = pv_start_run($node, 'VACUUM (PARALLEL 2, FREEZE, DISABLE_PAGE_SKIPPING, INDEX_CLEANUP off) ours');
ok(pv_await($node, "$workers AND wait_event IN ('BufferPin', 'BufferCleanup')", 2), 'workers wait for a pin') or diag pv_processes($node);
sql("SELECT pg_cancel_backend(pid) FROM pg_stat_activity WHERE application_name = '$freeze->{tag}' AND backend_type = 'client backend'");
ok(!pv_finish($freeze), 'waiting workers do not keep the leader from giving up');
ended('a pin');
$reader->quit;

#
# What must be reported
#
for my $case ([ terminate => qr/FATAL:  .*terminating .*due to administrator command/, fatal => 1, exits => 1, errors => 0 ],
	[ cancel => qr/ERROR:  .*canceling statement due to user request/, fatal => 0, exits => 1, errors => 1 ])
{
	my ($how, $expected, %said) = @$case;
	my $what = "a worker, $how";
	pv_new_log($node);
	my $run = pv_start_run($node, 'VACUUM (PARALLEL 2, DISABLE_PAGE_SKIPPING) ours', %slow);
	ok(pv_await($node, "$workers AND wait_event = 'VacuumDelay'", 2), "$what: the process exists");
	is(sql("SELECT count(pg_${how}_backend(pid)) FROM (SELECT pid FROM pg_stat_activity WHERE backend_type = 'parallel worker' LIMIT 1) x"), 1, "$what: the signal is sent");
	ok(!pv_finish($run), "$what: the vacuum fails");
	like(ended($what, %said), $expected, "$what: only that process reports the reason");
}

is(sql(q{SELECT workers_launched FROM parvacuum_run('ours', workers => 8) WHERE relid = 'ours'::regclass}), 8, 'all workers are available');
is(pv_findings($node, 'ours'), '', 'the table is whole');
pv_no_crash($node, 'the server');
$node->stop;
done_testing();
