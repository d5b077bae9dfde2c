# The scheduler and databases that are dropped, copied, renamed, locked, invalid or urgent.

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

sched_start('scheduler_databases', q{
autovacuum_freeze_max_age = 100000
vacuum_freeze_min_age = 0
parvacuum.scheduler = on
});

make_keyed(qw(busy t_ended t_truncated t_last));

#
# A database is dropped while one of its tables is queued.
#
sub make_database
{
	my ($name) = @_;
	sql("CREATE DATABASE $name");
	$node->safe_psql($name, join ";\n", 'CREATE EXTENSION parvacuum', create_keyed('t'));
	$node->safe_psql($name, 'VACUUM t');
	$node->safe_psql($name, join ";\n", 'ALTER TABLE t SET (autovacuum_enabled = off)', q{UPDATE t SET pad = 'y'}, 'CHECKPOINT', 'ALTER TABLE t SET (autovacuum_enabled = on)');
	return sql("SELECT oid FROM pg_database WHERE datname = '$name'");
}

keep_busy('a dropped database');
my $oid = make_database('dropped');
$node->safe_psql('dropped', q{SELECT parvacuum_enqueue('t')});
until_answer("SELECT state FROM parvacuum_queue_items() WHERE datid = $oid", 'queued', 'a dropped database: a table is queued');
reload_with(autovacuum_naptime => 4);
sleep 1.2;
my $from = log_length();
sql('DROP DATABASE dropped');
go_on('a dropped database');
until_answer("SELECT count(*) FROM parvacuum_queue_items() WHERE datid = $oid", 0, 'a dropped database: its queue is removed');
cmp_ok(times_logged('FATAL: ', $from), '<', 10, 'a dropped database: workers do not try to connect again and again');
reload_with(autovacuum_naptime => 1);

# Statements that need a database without other sessions, while a worker is there: at this
# budget its vacuum takes an hour.
for my $statement ('DROP DATABASE visited', 'CREATE DATABASE another TEMPLATE visited', 'ALTER DATABASE visited RENAME TO left_alone')
{
	set_speed(1);
	my $oid = make_database('visited');
	until_answer("SELECT state FROM parvacuum_queue_items() WHERE datid = $oid", 'running', "$statement: a worker vacuums a table there");
	is(($node->psql('postgres', $statement))[0], 0, "$statement: succeeds");
	set_speed(0);
	if ($statement =~ /TEMPLATE/)
	{
		is($node->safe_psql('another', 'SELECT count(*) FROM t'), 300, "$statement: the copy is whole");
		sql('DROP DATABASE visited', 'DROP DATABASE another');
	}
	elsif ($statement =~ /RENAME/)
	{
		ok($node->poll_query_until('left_alone', 'SELECT vacuum_count >= 2 FROM pg_stat_user_tables'), "$statement: the table is vacuumed afterwards");
		sql('DROP DATABASE left_alone');
	}
}

# A database to which no session can connect for some time: the worker that waits for it
# does not count against scheduler_workers.
make_database('locked');
reload_with('parvacuum.scheduler_workers' => 1);
my $owner = $node->background_psql('postgres');
$owner->query_safe('BEGIN; ALTER DATABASE locked RENAME TO locked_out');
my $waiting = q{SELECT count(*) FROM pg_locks WHERE classid = 'pg_database'::regclass AND objid <> 0 AND NOT granted};
until_answer($waiting, 1, 'a locked database: the only worker waits for it');
my $count = vacuums('t_last');
make_keyed_dead('t_last');
until_vacuumed('t_last', $count + 1, 'a locked database: tables of other databases are vacuumed');
my $most = 0;
for (1 .. 30)
{
	my $now = sql($waiting);
	$most = $now if $now > $most;
	sleep 0.1;
}
cmp_ok($most, '<=', 1, 'a locked database: no other worker is sent there');
$owner->query_safe('ROLLBACK');
$owner->quit;
ok($node->poll_query_until('locked', 'SELECT vacuum_count >= 2 FROM pg_stat_user_tables'), 'a locked database: its table is vacuumed when the lock is released');
sql('DROP DATABASE locked');
reload_with('parvacuum.scheduler_workers' => 3);

# An urgent request in another database than the one that has the only worker.  The worker
# leaves after ten seconds, when the table at hand is done.
keep_busy('an urgent database');
my @less = qw(t_ended t_last t_truncated);
hold(@less);
sql(map { "SELECT parvacuum_enqueue('$_')" } @less);
$oid = make_database('urgent');
$node->safe_psql('urgent', q{SELECT parvacuum_enqueue('t', urgent => true)});
release('busy');
my $in_urgent = "SELECT FROM parvacuum_queue_items() WHERE datid = $oid AND urgent";
for (1 .. 2)
{
	my $held = q{SELECT relation FROM parvacuum_queue WHERE state = 'running' AND requested};
	until_answer("SELECT NOT EXISTS ($in_urgent) OR EXISTS ($held AND clock_timestamp() - since > '11 s')", 'true', 'an urgent database: the worker has been elsewhere for a while');
	last if sql("SELECT NOT EXISTS ($in_urgent)") eq 't';
	my $table = sql($held);
	release($table);
	until_answer("SELECT count(*) FROM parvacuum_queue WHERE state = 'running' AND relation::text = '$table'", 0, 'an urgent database: the table at hand is done');
}
ok($node->poll_query_until('urgent', 'SELECT vacuum_count >= 2 FROM pg_stat_user_tables'), 'an urgent database: its table is vacuumed');
cmp_ok(sql(q{SELECT count(*) FROM parvacuum_queue WHERE state <> 'waiting' AND requested}), '>', 0, 'an urgent database: before the other tables that are queued');
go_on('an urgent database');
sql('DROP DATABASE urgent');

# A database that an interrupted DROP DATABASE has left invalid, with a queued table
keep_busy('an invalid database');
$oid = make_database('invalid');
$node->safe_psql('invalid', q{SELECT parvacuum_enqueue('t')});
until_answer("SELECT state FROM parvacuum_queue_items() WHERE datid = $oid", 'queued', 'an invalid database: a table is queued');
sql(q{UPDATE pg_database SET datconnlimit = -2 WHERE datname = 'invalid'});
$from = log_length();
go_on('an invalid database');
until_answer("SELECT count(*) FROM parvacuum_queue_items() WHERE datid = $oid", 0, 'an invalid database: its queue is removed');
cmp_ok(times_logged('FATAL: .*invalid', $from), '<', 10, 'an invalid database: workers do not try to connect again and again');
sql('DROP DATABASE invalid');

$node->stop;
pv_no_crash($node, 'the server');
done_testing();
