# What the scheduler's way of vacuuming tables must not cost or lose: flushes of WAL,
# all-visible pages, pending GIN entries, statistics that are off, limits of workers.

use strict;
use warnings FATAL => 'all';

use FindBin;
use lib $FindBin::RealBin;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use PvScheduler;
use PvTest;
use Test::More;

sched_start('scheduler_tables');
make_bell();

reload_with('parvacuum.scheduler' => 'on');
my $from;

#
# On a slow disk, most of the time would be spent waiting for it.  Of 100 small tables
# hardly any causes a flush of its own.
#
my $flushes = $node->pg_version >= 18 ? q{SELECT sum(fsyncs) FROM pg_stat_io WHERE object = 'wal'} : 'SELECT wal_sync FROM pg_stat_wal';
my $gone = q{SELECT count(*) FROM pg_stat_activity WHERE backend_type = 'parvacuum scheduler worker'};
my @unflushed = map { "unflushed_$_" } 1 .. 100;
reload_with('parvacuum.scheduler' => 'off', fsync => 'on');
sql(map { ("CREATE TABLE $_ WITH ($in) AS SELECT i FROM generate_series(1, 100) i", "DELETE FROM $_ WHERE i > 10") } @unflushed);
my $flushed = sql('CHECKPOINT', $flushes);
reload_with('parvacuum.scheduler' => 'on', 'parvacuum.scheduler_workers' => 1);
ok(pv_await($node, q{SELECT count(*) FROM pg_stat_user_tables WHERE relname LIKE 'unflushed%' AND vacuum_count > 0 AND analyze_count > 0}, scalar @unflushed), 'flushes: 100 tables are vacuumed and analyzed');
reload_with('parvacuum.scheduler' => 'off');
ok(pv_await($node, $gone, 0), 'flushes: the worker has ended, and reported its statistics');
cmp_ok(sql($flushes) - $flushed, '<', @unflushed / 2, 'flushes: far fewer than tables');
reload_with('parvacuum.scheduler' => 'on', fsync => 'off');
sql('DROP TABLE ' . join ', ', @unflushed);

# WAL that is not flushed yet does not keep a table from becoming all-visible.  Here the
# transactions that load eight tables share a group of the commit log with the ANALYZEs.
my @fresh = map { "fresh_$_" } 1 .. 8;
reload_with('parvacuum.scheduler' => 'off', fsync => 'on', wal_writer_delay => 10000);
sql(map { "CREATE TABLE $_ (i int) WITH ($in)" } @fresh);
sql('DO $$ BEGIN WHILE txid_current() % 32 < 31 LOOP COMMIT; END LOOP; END $$', map { "INSERT INTO $_ SELECT generate_series(1, 1500)" } @fresh);
reload_with('parvacuum.scheduler' => 'on');
ok(pv_await($node, q{SELECT count(*) FROM pg_stat_user_tables WHERE relname LIKE 'fresh%' AND vacuum_count > 0 AND analyze_count > 0}, scalar @fresh), 'fresh tables: all are vacuumed and analyzed');
is(sql(q{SELECT count(*) FROM pg_class WHERE relname LIKE 'fresh%' AND relallvisible = relpages}), scalar @fresh, 'fresh tables: all pages are all-visible');
reload_with(fsync => 'off', wal_writer_delay => 200);
sql('DROP TABLE ' . join ', ', @fresh);

#
# Temporary tables of other sessions are left alone.
#
my $owner = pv_session($node);
$owner->query_safe("CREATE TEMP TABLE passing WITH ($in) AS SELECT i FROM generate_series(1, 1000) i; DELETE FROM passing; SELECT pg_stat_force_next_flush()");
ok(pv_await($node, q{SELECT n_dead_tup FROM pg_stat_user_tables WHERE relname = 'passing'}, 1000), 'a temporary table: it has dead rows');
my $scans = stat_of('database_scans + 3');
ok(pv_await($node, "SELECT database_scans >= $scans FROM parvacuum_scheduler_stats()", 'true'), 'a temporary table: the database was scanned');
is(sql(q{SELECT count(*) FROM parvacuum_queue WHERE relid = (SELECT oid FROM pg_class WHERE relname = 'passing')}), 0, 'a temporary table: it is not queued');
is(sql(q{SELECT vacuum_count + analyze_count FROM pg_stat_all_tables WHERE relname = 'passing'}), 0, 'a temporary table: nothing was done');
$owner->quit;

#
# Pending entries of a GIN index are inserted even if there is nothing to vacuum.
#
sql('CREATE TABLE entries (a int[])', 'CREATE INDEX entries_gin ON entries USING gin (a)', 'CREATE INDEX entries_btree ON entries (a)');
sql('INSERT INTO entries SELECT ARRAY[i, i + 1] FROM generate_series(1, 500) i');
my $pending = q{SELECT n_pending_pages FROM gin_metapage_info(get_raw_page('entries_gin', 0))};
cmp_ok(sql($pending), '>', 0, 'a GIN index: entries are pending');
sql("ALTER TABLE entries SET ($in, autovacuum_vacuum_insert_threshold = -1)");
ok(pv_await($node, $pending, 0), 'a GIN index: no entries are pending any more');
is(sql(q{SELECT vacuum_count, analyze_count FROM pg_stat_user_tables WHERE relname = 'entries'}), '0|1', 'a GIN index: an ANALYZE inserted them');
is(pv_findings($node, 'entries'), '', 'a GIN index: the table is whole');

#
# With track_counts off, only the ages of tables cause vacuums.
#
sql("CREATE TABLE uncounted WITH ($in) AS SELECT i FROM generate_series(1, 1000) i", 'ALTER TABLE uncounted SET (autovacuum_enabled = off)');
sql('DELETE FROM uncounted');
$from = -s $node->logfile;
reload_with(track_counts => 'off');
sql('ALTER TABLE uncounted SET (autovacuum_enabled = on)');
my $until = stat_of('database_scans + 3');
my $so_far = stat_of('vacuums');
ok(pv_await($node, "SELECT database_scans >= $until FROM parvacuum_scheduler_stats()", 'true'), 'track_counts off: database scans go on');
is(stat_of('vacuums'), $so_far, 'track_counts off: no table is vacuumed by old counts');
reload_with(track_counts => 'on');
until_vacuumed('uncounted', 1, 'track_counts on again: the counts from before apply');

#
# The engine of core gets no parallel workers from the scheduler, because the scheduler's
# cost limit would not apply to them.
#
sql('CREATE TABLE stocks (a int, b int) WITH (autovacuum_enabled = off)', 'INSERT INTO stocks SELECT i, i FROM generate_series(1, 20000) i',
	'CREATE INDEX ON stocks (a)', 'CREATE INDEX ON stocks (b)', 'DELETE FROM stocks WHERE a % 2 = 0');
reload_with(log_min_messages => 'debug2');
$from = -s $node->logfile;
sql(q{SELECT parvacuum_enqueue('stocks')});
until_vacuumed('stocks', 1, 'engine of core: the table is vacuumed');
reload_with(log_min_messages => 'warning');
unlike(slurp_file($node->logfile, $from), qr/launched \d+ parallel vacuum workers? for index vacuuming/, 'engine of core: without parallel workers');

#
# vacuum_index_cleanup of a table.  Few dead rows are no reason to scan the indexes.
#
sql(map { ("CREATE TABLE cleanup_$_ (i int PRIMARY KEY) WITH (autovacuum_enabled = off, parvacuum.enabled, vacuum_index_cleanup = $_)", "INSERT INTO cleanup_$_ SELECT generate_series(1, 50000)", "DELETE FROM cleanup_$_ WHERE i = 1") } qw(auto on off));
sql(map { "SELECT parvacuum_enqueue('cleanup_$_')" } qw(auto on off));
for my $case ([ auto => 0 ], [ on => 1 ], [ off => 0 ])
{
	until_vacuumed("cleanup_$case->[0]", 1, "vacuum_index_cleanup = $case->[0]: the table is vacuumed");
	ok(pv_await($node, "SELECT index_scans FROM parvacuum_history WHERE relname = 'cleanup_$case->[0]' AND started_by = 'scheduler'", $case->[1]), "vacuum_index_cleanup = $case->[0]: $case->[1] index scans");
}

#
# What the owner of a database sets for it does not change how a worker works there.  A function
# of an index logs what it finds.
#
my %of_database = (statement_timeout => '1h', idle_in_transaction_session_timeout => '1h', default_transaction_isolation => 'serializable', default_transaction_read_only => 'on',
	stats_fetch_consistency => 'snapshot', synchronous_commit => 'on', maintenance_work_mem => '77MB', $node->pg_version >= 17 ? (transaction_timeout => '1h') : ());
my $names = join ', ', sort keys %of_database;
reload_with('parvacuum.scheduler' => 'off', autovacuum_work_mem => '55MB');
sql('CREATE DATABASE own');
$node->safe_psql('own', join ";\n", 'CREATE FUNCTION logs(i int) RETURNS int LANGUAGE plpgsql IMMUTABLE AS $$BEGIN RETURN i; END$$',
	"CREATE TABLE t WITH ($in) AS SELECT generate_series(1, 100) AS i", 'CREATE INDEX ON t (logs(i))',
	q{CREATE OR REPLACE FUNCTION logs(i int) RETURNS int LANGUAGE plpgsql IMMUTABLE AS $$BEGIN
		IF i = 1 THEN
			RAISE LOG 'found: %', (SELECT string_agg(name || ' ' || setting, ', ' ORDER BY name) FROM pg_settings WHERE name = ANY (string_to_array('} . $names . q{', ', ')));
		END IF;
		RETURN i; END$$});
sql(map { "ALTER DATABASE own SET $_ = '$of_database{$_}'" } sort keys %of_database);
# As another role a worker could not analyze the table.
sql('CREATE ROLE nobody', 'ALTER DATABASE own SET session_authorization = nobody', 'ALTER DATABASE own SET role = nobody');
$from = -s $node->logfile;
reload_with('parvacuum.scheduler' => 'on');
$node->wait_for_log(qr/parvacuum scheduler worker LOG: .*found: /, $from);
my ($found) = slurp_file($node->logfile, $from) =~ /parvacuum scheduler worker LOG: .*found: (.*)/;
is($found, 'default_transaction_isolation read committed, default_transaction_read_only off, idle_in_transaction_session_timeout 0, maintenance_work_mem 56320, statement_timeout 0, stats_fetch_consistency none, synchronous_commit off'
	  . ($node->pg_version >= 17 ? ', transaction_timeout 0' : ''), 'settings of a database do not hold for the scheduler');

$node->stop;
pv_no_crash($node, 'the server');
done_testing();
