# An owner tries to have the scheduler work for his tables only: thresholds of 0, the
# highest priority that he may use, a low freeze_max_age, large tables.  A table past nine
# tenths of its age comes first nevertheless.

use strict;
use warnings FATAL => 'all';

use FindBin;
use lib $FindBin::RealBin;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use PvTest;
use Test::More;

my $node = pv_node('scheduler_fair');
$node->append_conf('postgresql.conf', q{
autovacuum_naptime = 1s
autovacuum_vacuum_cost_delay = 0
autovacuum_freeze_max_age = 100000
vacuum_freeze_min_age = 0
parvacuum.scheduler_workers = 1
parvacuum.wait_at = scan
});
$node->start;
pv_setup($node);

sub sql { return $node->safe_psql('postgres', join ";\n", @_); }

sub reload_with { return pv_reload_with($node, @_); }
sub vacuum_sql { return "(SELECT vacuum_count + autovacuum_count FROM pg_stat_all_tables WHERE relid = '$_[0]'::regclass)"; }
sub described { return join "\n", sql('SELECT * FROM parvacuum_queue LIMIT 50'), sql('SELECT * FROM parvacuum_scheduler_stats()'), pv_processes($node); }

sub until_answer
{
	my ($query, $answer, $what) = @_;
	ok(pv_await($node, $query, $answer), $what) or die "$what: ", described();
	return;
}

sub burn
{
	my ($transactions) = @_;
	sql("DO \$\$ BEGIN FOR i IN 1 .. $transactions LOOP PERFORM txid_current(); COMMIT; END LOOP; END \$\$");
	return;
}

# A table of many pages, three rows on each
my $never = 'autovacuum_vacuum_threshold = 1000000000, autovacuum_vacuum_insert_threshold = -1, autovacuum_analyze_threshold = 1000000000';

sub create
{
	my ($pages, $options, @tables) = @_;
	return map { ("CREATE TABLE $_ (id int, pad char(2400)) WITH (parvacuum.enabled, $options)", "ALTER TABLE $_ ALTER pad SET STORAGE PLAIN",
			"INSERT INTO $_ SELECT i, 'x' FROM generate_series(1, 3 * $pages) i") } @tables;
}

# The owner's tables, and two that are not changed
my @hot = map { "hot_$_" } 1 .. 15;
my $hostile = 'autovacuum_vacuum_threshold = 0, autovacuum_vacuum_scale_factor = 0, autovacuum_freeze_max_age = 100000, '
  . 'autovacuum_vacuum_insert_threshold = -1, autovacuum_analyze_threshold = 1000000000';
sql('CREATE ROLE hostile LOGIN', 'CREATE SCHEMA his AUTHORIZATION hostile', 'GRANT CREATE ON SCHEMA public TO hostile');
sql('SET ROLE hostile', create(30, $hostile, @hot), create(8400, $hostile, 'hot_large'));
sql(create(30, $never, 'old'), create(8400, $never, 'old_large'));
sql(map { "VACUUM FREEZE $_" } @hot, qw(hot_large old old_large));

#
# While his tables fill the queue
#
reload_with('parvacuum.scheduler_max_cost' => 2000);
reload_with('parvacuum.scheduler' => 'on');
my $bench;
{
	local $ENV{PGUSER} = 'hostile';
	$bench = pv_start_pgbench($node, 600, 1, annoy => [ 1, join "\n", '\set i random(1, 15)', 'UPDATE hot_:i SET id = id WHERE id <= 45;', 'SELECT parvacuum_enqueue(\'hot_:i\', 100);', '\sleep 10 ms', '' ]);
}
my $hot_queued = q{SELECT count(*) >= 10 FROM parvacuum_queue WHERE state = 'queued' AND relation::text LIKE 'hot%' AND score > 20};
until_answer($hot_queued, 'true', 'his tables are queued, with high scores');
is(sql('SELECT ' . vacuum_sql('old')), 1, 'the table that becomes old was vacuumed once, by the test');
burn(90100);
until_answer('SELECT ' . vacuum_sql('old') . ' >= 2', 'true', 'past nine tenths of its age, the table is vacuumed');
until_answer('SELECT ' . vacuum_sql('old_large') . ' >= 1', 'true', 'large tables are vacuumed, too');
until_answer($hot_queued, 'true', 'his tables are queued all the time');
is(sql(q{SELECT age(relfrozenxid) < 50000 FROM pg_class WHERE relname = 'old'}), 't', 'the table is young again');
$bench->{handle}->kill_kill;

#
# While his large table has the only worker for large tables
#
my $active = q{SELECT count(*) FROM parvacuum_queue_items() WHERE state <> 'waiting'};
reload_with('parvacuum.scheduler_max_cost' => 0);
until_answer($active, 0, 'the queue becomes empty');
sql(map { "VACUUM FREEZE $_" } @hot, qw(hot_large old old_large));
until_answer($active, 0, 'no table needs a vacuum any more');
my $holder = pv_hold($node, 'hot_large');
sql('SET ROLE hostile', 'UPDATE hot_large SET id = id WHERE id % 15 = 0');
my $on_large = q{SELECT string_agg(relation::text, ' ' ORDER BY relation::text) FROM parvacuum_queue WHERE state = 'running' AND size_class = 'large'};
until_answer($on_large, 'hot_large', 'his large table is being vacuumed');
my $count = sql('SELECT ' . vacuum_sql('old_large'));
burn(90100);
until_answer('SELECT ' . vacuum_sql('old_large') . " > $count", 'true', 'a large table past nine tenths of its age does not wait for it');
is(sql($on_large), 'hot_large', 'the vacuum of his table goes on');
$count = sql('SELECT ' . vacuum_sql('old'));
sql(q{SELECT parvacuum_enqueue('old')});
until_answer('SELECT ' . vacuum_sql('old') . " > $count", 'true', 'a worker for small tables is left');
is(sql($on_large), 'hot_large', 'the vacuum of his table still goes on');
$holder->quit;
until_answer($active, 0, 'the queue becomes empty at the end');
is(pv_findings($node, $_), '', "$_ is whole") for qw(hot_1 hot_large old old_large);

$node->stop;
pv_no_crash($node, 'the server');
done_testing();
