# The speed of the scheduler: the cost limit holds for all workers together, for small and
# large tables, and follows reloads.

use strict;
use warnings FATAL => 'all';

use FindBin;
use lib $FindBin::RealBin;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use PvScheduler;
use PvTest;
use Test::More;
use Time::HiRes qw(sleep time);

sched_start('scheduler_speed');
make_bell();

reload_with('parvacuum.scheduler' => 'on');

my ($count, $from);

#
# Small tables, each of which costs less than the smallest delay
#
my @tiny = map { "tiny_$_" } 1 .. 200;
reload_with('parvacuum.scheduler' => 'off');
sql(map { ("CREATE TABLE $_ (a int) WITH ($in)", "INSERT INTO $_ SELECT generate_series(1, 100)", "DELETE FROM $_ WHERE a > 10") } @tiny);
speed(10000);
{
	my $used = stat_of('cost_units');
	my $begun = time;
	reload_with('parvacuum.scheduler' => 'on');
	ok(pv_await($node, q{SELECT count(*) FROM pg_stat_user_tables WHERE relname LIKE 'tiny%' AND vacuum_count > 0 AND analyze_count > 0}, scalar @tiny),
		'small tables: all are vacuumed and analyzed');
	my $speed = (stat_of('cost_units') - $used) / (time - $begun);
	note sprintf 'small tables: %.0f units a second of 10000', $speed;
	cmp_ok($speed, '<', 11000, 'small tables: the limit is kept');
}
speed(0);
sql('DROP TABLE ' . join ', ', @tiny);

# autovacuum_vacuum_cost_limit of a table has no effect where there is no delay.
make_tables(800, 'own_limit');
sql('ALTER TABLE own_limit SET (autovacuum_vacuum_cost_limit = 1000)');
speed(2000);
make_dead('own_limit');
until_item('own_limit', 'running', 'a limit without a delay: a vacuum has started');
is_near(1.2, 2000, 'a limit without a delay', 0.7);
speed(0);
ok(pv_await($node, $active, 0), 'a limit without a delay: the table is vacuumed');

# A delay of 0 has: the table is vacuumed at once while others would take an hour.
sql('ALTER TABLE own_limit SET (autovacuum_vacuum_cost_delay = 0)');
speed(1);
make_dead('own_limit');
until_vacuumed('own_limit', 3, 'a delay of 0: the table is vacuumed at once');
speed(0);
sql('DROP TABLE own_limit');

#
# The speed of autovacuum, for one worker and for several.  The tables cost more than all
# that is measured here.
#
my @payers = map { "payer_$_" } 1 .. 10;
make_tables(1200, @payers);
reload_with('parvacuum.scheduler_max_cost' => -1, autovacuum_vacuum_cost_limit => 20, autovacuum_vacuum_cost_delay => 2);
is(stat_of('max_cost'), 10000, 'scheduler_max_cost = -1: the speed of autovacuum');
reload_with(autovacuum_vacuum_cost_delay => 0, vacuum_cost_delay => 10);
until_answer('SELECT max_cost FROM parvacuum_scheduler_stats()', 0, 'scheduler_max_cost = -1: autovacuum has no delay, unlike sessions');
reload_with(autovacuum_vacuum_cost_delay => 2, vacuum_cost_delay => 0);
until_answer('SELECT max_cost FROM parvacuum_scheduler_stats()', 10000, 'scheduler_max_cost = -1: the speed of autovacuum again');
reload_with('parvacuum.scheduler_workers' => 1);
make_dead(@payers);
for my $workers (1, 4)
{
	reload_with('parvacuum.scheduler_workers' => $workers);
	ok(pv_await($node, $running, $workers), "$workers workers at work");
	is_near(3, 10000, "$workers workers at work");
}
reload_with(autovacuum_vacuum_cost_delay => 4);
is_near(1.5, 5000, 'a longer delay after a reload');

# At this rate a page costs more than a worker sleeps at a time.  After a change the rest
# is slept off at the new rate.
speed(20);
my $slow = units_per_second(6);
note sprintf 'a very low rate: %.0f units a second of 20', $slow;
cmp_ok($slow, '<', 90, 'a very low rate is kept');
speed(10000);
cmp_ok(units_per_second(3), '>', 4000, 'a higher rate takes effect within a second');
cmp_ok(sql($running), '>', 0, 'tables remain to be vacuumed');
speed(0);
is(stat_of('max_cost'), 0, 'no limit');
ok(pv_await($node, $active, 0), 'no limit: all tables are vacuumed');
sql('DROP TABLE ' . join ', ', @payers);

#
# The limits for statements of users do not apply: the vacuum takes longer.
#
my @limits = ('statement_timeout', $node->pg_version >= 17 ? 'transaction_timeout' : ());
make_tables(500, 'limited');
sql(map { "ALTER DATABASE postgres SET $_ = '1s'" } @limits);
{
	local $ENV{PGOPTIONS} = join ' ', map { "-c $_=0" } @limits;
	reload_with('parvacuum.scheduler' => 'off');
	reload_with('parvacuum.scheduler' => 'on');
	$count = vacuums('limited');
	start_held('limited', 'limits');
	sleep 1.5;
	release();
	until_vacuumed('limited', $count + 1, 'limits: the vacuum is completed');
	is(stat_of('errors'), 0, 'limits: no error is counted');
	sql(map { "ALTER DATABASE postgres RESET $_" } @limits);
}

#
# A rate above the range of vacuum_cost_limit; parallel workers are started all the same.
#
reload_with('parvacuum.scheduler' => 'off', vacuum_cost_limit => 300, vacuum_cost_delay => 1);
reload_with('parvacuum.scheduler' => 'on', 'log_autovacuum_min_duration' => 0);
speed(2000000);
$count = vacuums('limited');
$from = -s $node->logfile;
make_dead('limited');
until_vacuumed('limited', $count + 1, 'a high rate: the vacuum is completed');
is(stat_of('errors'), 0, 'a high rate: no error is counted');
ok($node->wait_for_log(qr/vacuum of table "postgres\.public\.limited"/, $from), 'a high rate: the vacuum is logged');
unlike(slurp_file($node->logfile, $from), qr/outside the valid range/, 'a high rate: parallel workers accept their settings');

#
# What parallel workers use is charged as well.
#
sql('ALTER TABLE limited SET (parvacuum.workers = 2)');
reload_with('parvacuum.min_parallel_pages' => 0, 'parvacuum.autovacuum_workers' => 2);
speed(20000);
$count = vacuums('limited');
my $units = stat_of('cost_units');
make_dead('limited');
until_vacuumed('limited', $count + 1, 'parallel workers: the vacuum is completed');
until_answer($active, 0, 'parallel workers: the scheduler is done');
my ($launched, $cost) = split /\|/, sql(q{SELECT workers_launched, buffers_hit * current_setting('vacuum_cost_page_hit')::int + buffers_read * current_setting('vacuum_cost_page_miss')::int
	+ buffers_dirtied * current_setting('vacuum_cost_page_dirty')::int FROM parvacuum_history WHERE relname = 'limited' ORDER BY run DESC LIMIT 1});
is($launched, 2, 'parallel workers: the vacuum has had two');
cmp_ok(stat_of('cost_units') - $units, '>', 0.8 * $cost, 'parallel workers: what they have used is charged');

$node->stop;
pv_no_crash($node, 'the server');
done_testing();
