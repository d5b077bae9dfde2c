# What the scheduler logs: what autovacuum logs, and no more.

use strict;
use warnings FATAL => 'all';

use FindBin;
use lib $FindBin::RealBin;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use PvTest;
use Test::More;

my $node = pv_node('scheduler_log');
$node->append_conf('postgresql.conf', "autovacuum_naptime = 1s\nautovacuum_analyze_threshold = 10\nautovacuum_analyze_scale_factor = 0\n");
$node->start;
pv_setup($node);

# A statistics object that cannot be computed, because one of its columns has no
# statistics
pv_sql($node, q{
	CREATE TABLE t (a int, b int) WITH (parvacuum.enabled);
	ALTER TABLE t ALTER a SET STATISTICS 0;
	CREATE STATISTICS t_stat (dependencies) ON a, b FROM t;
	INSERT INTO t SELECT i, i FROM generate_series(1, 1000) i});
my ($rc, $out, $err) = $node->psql('postgres', 'ANALYZE t');
like($err, qr/WARNING: .*statistics object "public.t_stat" could not be computed/, 'a session gets the warning');

my $from = -s $node->logfile;
pv_reload_with($node, 'parvacuum.scheduler' => 'on');
for my $scan (1 .. 2)
{
	pv_sql($node, 'UPDATE t SET b = b + 1');
	ok(pv_await($node, "SELECT analyze_count FROM pg_stat_all_tables WHERE relid = 't'::regclass", 1 + $scan), "$scan: the scheduler analyzes the table");
}
unlike(substr(slurp_file($node->logfile), $from), qr/could not be computed/, 'the warning is not logged');

# VACUUM and ANALYZE, by the engine and by core's code, with database and schema
my $usage = q{I/O timings: read: \d+\.\d+ ms, write: \d+\.\d+ ms\n\tavg read rate: \d+\.\d+ MB/s, avg write rate: \d+\.\d+ MB/s\n\tbuffer usage: \d+ hits, \d+ (?:misses|reads), \d+ dirtied\n}
  . q{\tWAL usage: \d+ records, \d+ full page images, \d+ bytes(?:, \d+ full page image bytes)?(?:, \d+ buffers full)?\n\tsystem usage: CPU: user: .* s, system: .* s, elapsed: .* s\n};
my $logged = sub { return substr(slurp_file($node->logfile), $from) };
my $prepare = sub { return pv_sql($node, 'CREATE SCHEMA IF NOT EXISTS s; ' . join '; ', map { "CREATE TABLE s.$_->[0] (a int PRIMARY KEY) WITH ($_->[1]); INSERT INTO s.$_->[0] SELECT generate_series(1, 1000); DELETE FROM s.$_->[0] WHERE a % 2 = 0" } @_) };

$from = -s $node->logfile;
my @log_settings = ('log_autovacuum_min_duration', $node->pg_version->major >= 19 ? 'log_autoanalyze_min_duration' : ());
pv_reload_with($node, track_io_timing => 'on', map { $_ => 0 } @log_settings);
$prepare->([ 'ours', 'parvacuum.enabled' ], [ 'cores', 'parvacuum.enabled = false' ]);
pv_sql($node, q{SELECT parvacuum_enqueue('s.cores')});
for my $table ('ours', 'cores')
{
	ok(pv_await($node, qq{SELECT count(*) > 0 FROM parvacuum_history WHERE relname = '$table' AND started_by = 'scheduler' AND by_engine = ('$table' = 'ours')}, 'true'), "$table: in the history");
}
$node->wait_for_log(qr/automatic analyze of table "postgres\.s\.ours"/, $from);
like($logged->(), qr/LOG: .*automatic vacuum of table "postgres\.s\.ours": index scans: 1\n/, 'vacuum by the engine');
like($logged->(), qr/LOG: .*automatic analyze of table "postgres\.s\.ours"\n\t$usage/, 'analyze');
like($logged->(), qr/LOG: .*automatic vacuum of table "postgres\.s\.cores": index scans: 1\n\t$usage.*DETAIL:  PostgreSQL's own VACUUM has vacuumed it\.  parvacuum is not enabled for the table\.\n/, 'vacuum by core');

# All tables of a database, catalogs too; the engine is off
$from = -s $node->logfile;
pv_reload_with($node, 'parvacuum.engine' => 'off');
$prepare->([ 'off', 'parvacuum.enabled' ]);
pv_sql($node, q{SELECT parvacuum_enqueue('pg_am'); SELECT parvacuum_enqueue('s.off')});
$node->wait_for_log(qr/automatic vacuum of table "postgres\.s\.off": index scans: 1\n\t$usage.*DETAIL:  PostgreSQL's own VACUUM has vacuumed it\.  The setting parvacuum\.engine is off\.\n/, $from);
$node->wait_for_log(qr/automatic vacuum of table "postgres\.pg_catalog\.pg_am": index scans: 0\n/, $from);
pv_reload_with($node, track_activities => 'off');
$prepare->([ 'unseen', 'parvacuum.enabled' ]);
pv_sql($node, q{SELECT parvacuum_enqueue('s.unseen')});
ok($node->wait_for_log(qr/automatic vacuum of table "postgres\.s\.unseen": index scans: 0\n/, $from), 'without track_activities the index scans of core are not known');
pv_reload_with($node, track_activities => 'on', 'parvacuum.engine' => 'on');

# A table's own parameter.  The log has those that take long enough.
$from = -s $node->logfile;
pv_reload_with($node, map { $_ => -1 } @log_settings);
my $logs = join ', ', map { "$_ = 0" } @log_settings;
my $long = join ', ', map { "$_ = 3600000" } @log_settings;
$prepare->([ 'silent', 'parvacuum.enabled' ], [ 'short', "parvacuum.enabled, $long" ], [ 'its_own', "parvacuum.enabled, $logs" ]);
for my $table ('silent', 'short', 'its_own')
{
	ok(pv_await($node, qq{SELECT analyze_count > 0 AND vacuum_count > 0 FROM pg_stat_all_tables WHERE relid = 's.$table'::regclass}, 'true'), "$table is vacuumed and analyzed");
}
$node->wait_for_log(qr/automatic analyze of table "postgres\.s\.its_own"/, $from);
like($logged->(), qr/automatic vacuum of table "postgres\.s\.its_own"/, 'a parameter of the table');
unlike($logged->(), qr/automatic (?:vacuum|analyze) of table "postgres\.s\.(?:silent|short)"/, 'without it, and with a longer time');

# A table that is locked, by the setting
pv_reload_with($node, map { $_ => 0 } @log_settings);
$prepare->([ 'locked', 'parvacuum.enabled' ]);
my $locker = $node->background_psql('postgres');
$locker->query_safe('BEGIN; LOCK TABLE s.locked');
pv_sql($node, q{SELECT parvacuum_enqueue('s.locked')});
$node->wait_for_log(qr/LOG: .*parvacuum's scheduler skipped table "postgres\.s\.locked"/, $from);
$locker->quit;

# The columns of pg_stat_all_tables that move
is(pv_sql($node, q{SELECT last_vacuum IS NOT NULL, last_analyze IS NOT NULL, vacuum_count > 0, analyze_count > 0, last_autovacuum IS NULL, last_autoanalyze IS NULL, autovacuum_count, autoanalyze_count
	FROM pg_stat_all_tables WHERE relid = 's.ours'::regclass}), 't|t|t|t|t|t|0|0', 'statistics of a table');

# The start of the processes
$from = -s $node->logfile;
$node->append_conf('postgresql.conf', "log_min_messages = debug1\n");
$node->restart;
$node->wait_for_log(qr/DEBUG: .*parvacuum launcher started/, $from);
$node->wait_for_log(qr/DEBUG: .*parvacuum: processing database "postgres"/, $from);

pv_no_crash($node, 'the server');
$node->stop;
done_testing();
