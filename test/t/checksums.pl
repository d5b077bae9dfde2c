# Data checksums that are switched on and off while the server is in use, beside vacuums by
# parvacuum and the scheduler.  The betas of PostgreSQL 19 could do that; 19.0 cannot.  Each
# process of the server has to agree before the state changes; none of ours keeps the
# server waiting, and no page is written with a wrong checksum.

use strict;
use warnings FATAL => 'all';

use FindBin;
use lib $FindBin::RealBin;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use PvScheduler;
use PvTest;
use Test::More;

sched_start('checksums', "shared_buffers = 4MB\nparvacuum.scheduler = on\nparvacuum.scheduler_max_cost = 0\n");
plan skip_all => 'this server cannot switch checksums on in use'
	if sql(q{SELECT count(*) FROM pg_proc WHERE proname = 'pg_enable_data_checksums'}) == 0;

# Larger than the shared buffers, so that pages are written and read again
sub create_table
{
	my ($table, $options) = @_;
	sql("CREATE TABLE $table (id int, v int, pad text) WITH ($in, $low, $calm, autovacuum_vacuum_insert_threshold = -1, $options)",
		"INSERT INTO $table SELECT i, 0, repeat('x', 200) FROM generate_series(1, 20000) i", "CREATE INDEX ON $table (id)", "CREATE INDEX ON $table (v)");
	return;
}
create_table($_, 'autovacuum_enabled = off') for qw(ours slow);
create_table('sched', 'autovacuum_enabled = on');

my $change = join ";\n", map { "UPDATE $_ SET v = v + 1 WHERE id % 10 = (random() * 9)::int" } qw(ours slow sched);
my $round = 0;

for my $to (qw(on off on))
{
	my $what = "checksums $to, round " . ++$round;

	# A vacuum with workers that would take minutes: it sleeps after each page.
	sql($change, 'CHECKPOINT');
	my $vacuum = pv_start_run($node, q{SELECT count(*) FROM parvacuum_run('slow', workers => 2)}, vacuum_cost_delay => '100ms', vacuum_cost_limit => 1);
	until_answer(q{SELECT count(*) > 1 FROM pg_stat_activity WHERE backend_type = 'parallel worker' AND wait_event = 'VacuumDelay'}, 'true', "$what: the workers of a vacuum have begun");
	sql($to eq 'on' ? 'SELECT pg_enable_data_checksums()' : 'SELECT pg_disable_data_checksums()');

	# Other vacuums, by the scheduler and by commands, until the state has changed
	my $n = 0;
	until (sql('SHOW data_checksums') eq $to || $n++ > 200)
	{
		sql($change, 'VACUUM (PARALLEL 2) ours', 'CHECKPOINT');
	}
	is(sql('SHOW data_checksums'), $to, "$what: the state is reached") or diag pv_processes($node);
	is(sql(q{SELECT count(*) FROM pg_stat_progress_vacuum WHERE relid = 'slow'::regclass}), 1, "$what: the vacuum goes on meanwhile");
	sql(q{SELECT parvacuum_cancel('slow')});
	ok(!pv_finish($vacuum), "$what: the vacuum is canceled");

	my $count = vacuums('sched');
	sql($change, 'VACUUM (PARALLEL 2) ours', 'VACUUM (PARALLEL 2) slow', 'CHECKPOINT');
	until_vacuumed('sched', $count + 1, "$what: the scheduler vacuums a table");

	# The oracle reads index and heap one after the other, so no vacuum may be in progress.
	# This waits for the scheduler's, or has it give way.
	sql('ALTER TABLE sched SET (autovacuum_enabled = off)');
	is(pv_findings($node, $_), '', "$what: table $_ is whole") for qw(ours slow sched);
	sql('ALTER TABLE sched SET (autovacuum_enabled = on)');
}

# Nothing is in the buffers: all pages are read with their checksums, by both heap passes.
$node->restart;
is(sql('SHOW data_checksums'), 'on', 'after a restart: checksums are on');
my ($rc, $out, $err) = $node->psql('postgres', "$change;\nVACUUM (VERBOSE, PARALLEL 2, DISABLE_PAGE_SKIPPING) ours");
is($rc, 0, 'after a restart: a vacuum reads all pages') or diag $err;
like($err, qr/engine: parvacuum, 2 parallel workers launched/, 'after a restart: it is done by the engine');
is(sql('SELECT sum(checksum_failures) FROM pg_stat_database'), 0, 'no checksum has failed');
pv_no_crash($node, 'the server');
$node->stop;
command_ok([ 'pg_checksums', '--check', '-D', $node->data_dir ], 'all checksums are right on disk');
done_testing();
