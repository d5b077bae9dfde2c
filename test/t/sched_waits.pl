# Tables that the scheduler leaves for later: those that core's autovacuum vacuums at the
# same time, those whose window is closed, and those whose dead rows cannot be removed yet.

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

sched_start('scheduler_waits', "wal_level = logical\nmax_wal_senders = 1\nmax_replication_slots = 1\n");
make_bell();

reload_with('parvacuum.scheduler' => 'on');
my ($reader, $by_horizon, $first);

#
# Beside core's autovacuum: each table is vacuumed once
#
my @many = map { "many_$_" } 1 .. 60;
sql(map { ("CREATE TABLE $_ (id int)", "INSERT INTO $_ SELECT i FROM generate_series(1, 1000) i", "ALTER TABLE $_ SET ($in, $calm)") } @many);
sql(map { "VACUUM $_" } @many);
reload_with(autovacuum => 'on');
my $of_many = q{SELECT %s FROM pg_stat_user_tables WHERE relname LIKE 'many%%'};
for my $round (1 .. 3)
{
	sql(map { "DELETE FROM $_ WHERE id % 3 = $round - 1" } @many);
	ok(pv_await($node, sprintf($of_many, sprintf 'bool_and(vacuum_count + autovacuum_count > %d)', $round), 'true'), "beside autovacuum: all tables are vacuumed, $round");
}
two_scans();
note 'vacuums of these tables by autovacuum: ', sql(sprintf $of_many, 'sum(autovacuum_count)');

# core's autovacuum reads the statistics before it takes the lock.  A vacuum may have ended
# in between, for few of the tables.
my $vacuums_of_many = sql(sprintf $of_many, 'sum(vacuum_count + autovacuum_count)');
cmp_ok($vacuums_of_many, '>=', 4 * @many, 'beside autovacuum: no table was left out');
cmp_ok($vacuums_of_many, '<=', 4.2 * @many, 'beside autovacuum: no table was vacuumed twice, except by a race in core');
reload_with(autovacuum => 'off');
$node->poll_query_until('postgres', q{SELECT count(*) = 0 FROM pg_stat_activity WHERE backend_type LIKE 'autovacuum%'});

#
# Windows
#
my @utc = gmtime(time + 7200);
my $later = sprintf '%02d:%02d-%02d:%02d UTC', $utc[2], $utc[1], ($utc[2] + 1) % 24, $utc[1];
sql(map { ("CREATE TABLE w_$_ (id int)", "INSERT INTO w_$_ SELECT i FROM generate_series(1, 1000) i", "ALTER TABLE w_$_ SET ($in, $calm)") }
	qw(never later now urgent asked database open_database));
sql(q{ALTER TABLE w_never SET (parvacuum."window" = 'never')}, qq{ALTER TABLE w_later SET (parvacuum."window" = '$later')},
	map { qq{ALTER TABLE w_$_ SET (parvacuum."window" = 'Sun-Sat 00:00-24:00')} } qw(now open_database));
sql(map { qq{ALTER TABLE w_$_ SET (parvacuum."window" = 'never')} } qw(urgent asked));
sql(q{ALTER DATABASE postgres SET parvacuum.urgent_score = 6});
my @windows = qw(w_never w_later w_now w_urgent w_asked);
sql(map { "VACUUM $_" } @windows, qw(w_database w_open_database));
my $skipped = stat_of('skipped_window');
sql(map { "DELETE FROM $_ WHERE id <= " . ($_ eq 'w_urgent' ? 1000 : 300) } @windows);
until_vacuumed($_, 2, "$_: it is vacuumed") for qw(w_now w_urgent);
until_item($_, 'waiting window', "$_: it waits for its window") for qw(w_never w_later w_asked);
two_scans();
is(vacuums($_), 1, "$_: it is not vacuumed in the next database scans") for qw(w_never w_later w_asked);
cmp_ok(stat_of('skipped_window'), '>=', $skipped + 3, 'tables that wait for their window are counted');
is(sql(q{SELECT until IS NULL, state FROM parvacuum_queue WHERE relid = 'w_never'::regclass}), 't|waiting', 'w_never: the queue shows no end of the wait');
is(sql(q{SELECT to_char(until AT TIME ZONE 'UTC', 'HH24:MI'), reason FROM parvacuum_queue WHERE relation = 'w_later'::regclass}),
	substr($later, 0, 5) . '|window', 'w_later: the queue shows when the window opens');
sql(q{SELECT parvacuum_enqueue('w_asked')});
until_vacuumed('w_asked', 2, 'a vacuum by parvacuum_enqueue() does not wait for the window');
sql(q{ALTER TABLE w_never SET (parvacuum."window" = '')});
until_vacuumed('w_never', 2, 'w_never: vacuumed when its window is removed');
sql(q{UPDATE pg_class SET relfrozenxid = ((txid_current() - 190000000) & 4294967295)::text::xid WHERE relname = 'w_later'});
until_vacuumed('w_later', 2, 'w_later: a vacuum against wraparound does not wait');
sql('ALTER TABLE w_later SET (autovacuum_freeze_max_age = 2000000000)', q{UPDATE pg_class SET relfrozenxid = ((txid_current() - 190000000) & 4294967295)::text::xid WHERE relname = 'w_later'});
until_vacuumed('w_later', 3, 'w_later: nor can the table allow a greater age than the setting');

sql(q{ALTER DATABASE postgres SET parvacuum."window" = 'never'}, map { "DELETE FROM $_ WHERE id <= 300" } qw(w_database w_open_database));
until_vacuumed('w_open_database', 2, 'a window of the table overrides that of the database');
until_item('w_database', 'waiting window', "the window of the database applies to other tables");
sql('ALTER DATABASE postgres RESET parvacuum."window"');
until_vacuumed('w_database', 2, 'w_database: vacuumed when the window is removed');
sql('DROP TABLE ' . join ', ', @windows, qw(w_database w_open_database));

#
# Dead rows that are not removable yet
#
sql('CREATE TABLE seen_by (id int)', 'INSERT INTO seen_by SELECT i FROM generate_series(1, 1000) i', "ALTER TABLE seen_by SET ($in, $calm)");
sql('CREATE TABLE seen_hot (id int)', 'INSERT INTO seen_hot SELECT i FROM generate_series(1, 1000) i',
	"ALTER TABLE seen_hot SET ($in, autovacuum_analyze_threshold = 5, autovacuum_analyze_scale_factor = 0)");
sql('VACUUM seen_by', 'VACUUM ANALYZE seen_hot');
# Two more, one with rows that ask for a vacuum, and one with indexes that have something to do
sql(map { "CREATE TABLE $_ AS SELECT i AS id, ARRAY[i] AS a, repeat('x', 500) AS pad FROM generate_series(1, 1000) i" } qw(seen_inserts seen_index));
sql('CREATE INDEX seen_gin ON seen_index USING gin (a) WITH (fastupdate = on)', 'CREATE INDEX seen_brin ON seen_index USING brin (id) WITH (pages_per_range = 2)',
	"ALTER TABLE seen_inserts SET ($in, $calm, autovacuum_vacuum_insert_threshold = 100, autovacuum_vacuum_insert_scale_factor = 0)",
	"ALTER TABLE seen_index SET ($in, $calm, autovacuum_vacuum_insert_threshold = -1)", 'VACUUM seen_inserts', 'VACUUM seen_index');

# The horizon of catalogs, which this slot holds back, is not that of tables.
sql(q{SELECT pg_create_logical_replication_slot('old', 'pgoutput')}, 'SELECT txid_current()');
$reader = $node->background_psql('postgres');
$reader->query_safe('BEGIN ISOLATION LEVEL REPEATABLE READ; SELECT count(*) FROM seen_by');
$by_horizon = stat_of('skipped_horizon');
sql(map { "DELETE FROM $_ WHERE id <= 500" } qw(seen_by seen_inserts seen_index));
until_item('seen_by', 'waiting horizon', 'seen_by: it waits for the horizon');
ok(pv_await($node, "SELECT skipped_horizon >= $by_horizon + 3 FROM parvacuum_scheduler_stats()", 'true'), 'seen_by: each database scan skips it, and counts that');
is(vacuums('seen_by'), 2, 'seen_by: it was vacuumed once');
is(sql('SELECT n_dead_tup FROM pg_stat_user_tables WHERE relname = \'seen_by\''), 500, 'seen_by: the dead rows were not removable');
for my $times (1 .. 3)
{
	sql('DELETE FROM seen_hot WHERE id <= 500 + 10 * ' . $times);
	ok(pv_await($node, q{SELECT analyze_count FROM pg_stat_user_tables WHERE relname = 'seen_hot'}, 1 + $times), "seen_hot: its changes are analyzed, $times");
	until_item('seen_hot', 'waiting horizon', "seen_hot: it waits for the horizon, $times");
	my $since = '';
	$since = sql(q{SELECT since, action, done FROM parvacuum_queue WHERE relation = 'seen_hot'::regclass AND state = 'waiting'}) while $since eq '';
	$first //= $since =~ s/\|(.*)//r;
	is($since, $times == 1 ? "$first|vacuum|vacuum and analyze" : "$first|vacuum|analyze", "seen_hot: the queue shows since when it waits, for what, and what was done, $times");
}
is(vacuums('seen_hot'), 2, 'seen_hot: it was vacuumed once');

# Rows that were inserted, pending lists and ranges without a summary do not wait, and only
# they do not.
until_item($_, 'waiting horizon', "$_: it waits for the horizon") for qw(seen_inserts seen_index);
sql(map { "INSERT INTO $_ SELECT i, ARRAY[i], repeat('x', 500) FROM generate_series(1001, 1400) i" } qw(seen_inserts seen_index));
until_vacuumed($_, 3, "$_: rows are inserted, and it is vacuumed") for qw(seen_inserts seen_index);
until_item($_, 'waiting horizon', "$_: it waits for the horizon again") for qw(seen_inserts seen_index);
is(sql(q{SELECT n_pending_pages FROM gin_metapage_info(get_raw_page('seen_gin', 0))}), 0, 'seen_index: no entries are pending');
is(sql(q{SELECT count(*) FROM generate_series(0, pg_relation_size('seen_index') / 8192 - 2, 2) b WHERE NOT EXISTS (SELECT FROM brin_page_items(get_raw_page('seen_brin', 2), 'seen_brin') WHERE blknum = b)}), 0, 'seen_index: each range has its summary');
my $scanned = stat_of('database_scans + 2');
ok(pv_await($node, "SELECT database_scans >= $scanned FROM parvacuum_scheduler_stats()", 'true'), 'seen_inserts: the database is scanned');
is(vacuums($_), 3, "$_: it is not vacuumed again") for qw(seen_inserts seen_index);
$reader->query_safe('COMMIT');
$reader->quit;
for my $table (qw(seen_by seen_hot))
{
	until_vacuumed($table, 3, "$table: vacuumed again when no snapshot needs the rows");
	is(sql("SELECT n_dead_tup FROM pg_stat_user_tables WHERE relname = '$table'"), 0, "$table: the dead rows are removed");
}
sql('DROP TABLE seen_by, seen_hot, seen_inserts, seen_index', q{SELECT pg_drop_replication_slot('old')});

#

$node->stop;
pv_no_crash($node, 'the server');
done_testing();
