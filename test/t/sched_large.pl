# Small tables beside large ones: a table that changes all the time is not kept waiting by
# the vacuums of large ones, as long as there are two workers.

use strict;
use warnings FATAL => 'all';

use FindBin;
use lib $FindBin::RealBin;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use PvScheduler;
use PvTest;
use Test::More;

sched_start('scheduler_large');
make_bell();

reload_with('parvacuum.scheduler' => 'on');
my ($count, $pid);

#
# A hot table beside large ones of more than 64 MB, whose vacuums are held, and beside 200
# other tables.  At this speed these take ten seconds.
#
my @large = qw(large_a large_b);
my @others = map { "other_$_" } 1 .. 200;
make_tables(8400, @large);
sql(map { ("CREATE TABLE $_ (id int) WITH ($in, $calm)", "INSERT INTO $_ SELECT i FROM generate_series(1, 600) i") } @others);
sql('CREATE TABLE hot (id int, k int) WITH (fillfactor = 50)', 'INSERT INTO hot SELECT i, 0 FROM generate_series(1, 1000) i', "ALTER TABLE hot SET ($in, $calm)");
sql(map { "VACUUM $_" } @others, 'hot');
my $of_others = q{SELECT count(*) FROM pg_stat_user_tables WHERE relname LIKE 'other%' AND vacuum_count = };
my $n = 1;

{
	my $workers = 2;
	my $what = "$workers workers, a large table";
	speed(2000);
	reload_with('parvacuum.scheduler_workers' => $workers);
	hold(@large);
	$count = vacuums('hot');
	make_dead(@large);
	ok(pv_await($node, q{SELECT string_agg(concat_ws(' ', state, reason, size_class), ', ' ORDER BY state DESC)
		FROM parvacuum_queue_items() WHERE relid IN ('large_a'::regclass, 'large_b'::regclass)}, 'running large, queued large tables large'), "$what: one of the large tables is being vacuumed") or diag queue();
	$pid = sql(q{SELECT pid FROM parvacuum_queue WHERE state = 'running' AND size_class = 'large'});
	sql(q{SELECT parvacuum_enqueue('large_b', urgent => true)});
	make_dead(@others);
	ok(pv_await($node, q{SELECT count(*) > 100 FROM parvacuum_queue WHERE state = 'queued'}, 'true'), "$what: the other tables are queued");

	# The hot table waits for the next database scan and for the small table that is being
	# vacuumed then.  It is not the last one if some of the others are left.
	sql('UPDATE hot SET k = k + 1');
	until_vacuumed('hot', $count + 1, "$what: the hot table is vacuumed");
	my $done = sql("$of_others 2");
	note "$what: $done of the others were vacuumed before the hot table";
	cmp_ok($done, '<', @others, "$what: the hot table is vacuumed before the last of the others");
	set_speed(0);
	ok(pv_await($node, "$of_others 2", scalar @others), "$what: the others are vacuumed");
	is(sql(q{SELECT pid FROM parvacuum_queue WHERE state = 'running' AND size_class = 'large'}), $pid, "$what: the vacuum of the large table still goes on");

	# At this speed its vacuum takes an hour.  A higher one reaches it.
	speed(1);
	release();
	ok(pv_await($node, "SELECT count(*) FROM pg_stat_activity WHERE pid = $pid AND wait_event = 'VacuumDelay'", 1), "$what: the vacuum of the large table sleeps");
	speed(0);
	ok(pv_await($node, $active, 0), "$what: the queue is empty");
}
is(pv_findings($node, $_), '', "$_ is whole") for qw(large_a hot other_1);

# After scheduler_workers was lowered to the number of large tables that are being vacuumed,
# small ones wait; raised again, they do not.
hold(@large);
reload_with('parvacuum.scheduler_workers' => 3);
make_dead(@large);
ok(pv_await($node, "SELECT count(*) FROM parvacuum_queue WHERE state = 'running' AND size_class = 'large'", 2), 'fewer workers: two large tables are being vacuumed');
reload_with('parvacuum.scheduler_workers' => 2);
$count = vacuums('hot');
sql('UPDATE hot SET k = k + 1');
reload_with('parvacuum.scheduler_workers' => 3);
until_vacuumed('hot', $count + 1, 'more workers: the hot table is vacuumed');
ok(pv_await($node, "SELECT count(*) FROM parvacuum_queue WHERE state = 'running' AND size_class = 'large'", 2), 'fewer workers: both vacuums of large tables still go on');
release();
ok(pv_await($node, $active, 0), 'fewer workers: the queue is empty');

$node->stop;
pv_no_crash($node, 'the server');
done_testing();
