# A queue that is too small for the tables that need a vacuum, and workers that are
# terminated at random.

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

sched_start('scheduler_queue', q{
autovacuum_freeze_max_age = 100000
vacuum_freeze_min_age = 0
parvacuum.scheduler = on
});

my $from;
make_keyed('busy');

#
# The queue is full.
#
my @many = map { "many_$_" } 1 .. 30;
my $of_many = q{SELECT min(vacuum_count) FROM pg_stat_user_tables WHERE relname LIKE 'many%'};
make_keyed(@many);
reload_with('parvacuum.queue_limit' => 4);
$from = log_length();
make_keyed_dead(@many);
until_answer($of_many, 2, 'queue full: all tables are vacuumed');
until_answer($active, 0, 'queue full: the queue is empty');
cmp_ok(stat_of('queue_full'), '>', 0, 'queue full: counted');
is(times_logged(q{parvacuum's queue is full}, $from), 1, 'queue full: logged once');
hold(@many);
like(($node->psql('postgres', q{SELECT parvacuum_enqueue(('many_' || i)::regclass) FROM generate_series(1, 30) i}))[2], qr/the scheduler's queue is full/, 'queue full: parvacuum_enqueue() fails');
release();
until_answer($active, 0, 'queue full: the tables that were enqueued are vacuumed');

# The queue is full of tables that wait for the horizon.
my $reader = $node->background_psql('postgres');
$reader->query_safe('BEGIN ISOLATION LEVEL REPEATABLE READ; SELECT count(*) FROM busy');
my $of_full = stat_of('queue_full');
make_keyed_dead(@many);
until_answer("SELECT queue_full > $of_full FROM parvacuum_scheduler_stats()", 'true', 'queue full of waiting tables: counted');
my $scans = stat_of('database_scans');
sleep 2;
cmp_ok(stat_of('database_scans') - $scans, '<', 30, 'queue full of waiting tables: database scans do not follow each other without a pause');
$reader->query_safe('COMMIT');
$reader->quit;
until_answer(q{SELECT sum(n_dead_tup) FROM pg_stat_user_tables WHERE relname LIKE 'many%'}, 0, 'queue full of waiting tables: all are vacuumed when the horizon has advanced');
reload_with('parvacuum.queue_limit' => 32768);

#
# Workers are terminated at random, a hundred times.
#
set_speed(3000);
my $load = pv_start_pgbench($node, 600, 2, map { ("update_$_" => [ 1, "\\set id random(1, 300)\nUPDATE $_ SET pad = random()::text WHERE id = :id;\n\\sleep 1 ms\n" ]) } @many);

# One after the other, because a session that waits would hold back the horizon.
my $ended = 0;
my $end = time + 120;
while ($ended < 100 && time < $end)
{
	$ended += sql(q{SELECT count(pg_terminate_backend(pid)) FROM (SELECT pid FROM pg_stat_activity
		WHERE backend_type IN ('parvacuum scheduler worker', 'parallel worker') ORDER BY random() LIMIT 2) x});
	sleep rand 0.02;
}
$load->{handle}->signal('TERM');
$load->{handle}->finish;
unlike($load->{err}, qr/error|abort/i, 'terminated at random: no transaction failed') or diag $load->{err};
cmp_ok($ended, '>=', 100, 'terminated at random: a hundred times');
set_speed(0);
make_keyed_dead(@many);
until_answer(q{SELECT sum(n_dead_tup) FROM pg_stat_user_tables WHERE relname LIKE 'many%'}, 0, 'terminated at random: all tables are vacuumed afterwards');
is(pv_findings($node, $_), '', "terminated at random: $_ is whole") for @many[ 0 .. 4 ];
until_answer($active, 0, 'terminated at random: the queue is empty');

$node->stop;
pv_no_crash($node, 'the server');
done_testing();
