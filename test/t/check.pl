# parvacuum_check(): a server where nothing is wrong has no row.  Each row that can be
# provoked is, and goes when its cause does.  Sizes and ages that would take long to make
# are written into pg_class.

use strict;
use warnings FATAL => 'all';

use FindBin;
use lib $FindBin::RealBin;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use PvTest;
use Test::More;

my $node = pv_node('check', allows_streaming => 1);
$node->append_conf('postgresql.conf', q{
maintenance_work_mem = 1MB
parvacuum.scheduler = off
autovacuum = on
autovacuum_naptime = 1h
autovacuum_freeze_max_age = 100000
wal_level = logical
max_replication_slots = 5
max_wal_senders = 5
});
$node->start;
pv_setup($node);

sub sql { return pv_sql($node, @_); }

my $settings = '';

# The rows about something, with these columns
sub rows
{
	my ($columns, $name) = @_;
	return sql($settings || 'SELECT', "SELECT $columns FROM parvacuum_check() WHERE name = '$name' ORDER BY subject");
}

sub none { my ($name, $what) = @_; is(rows('severity, subject, evidence', $name), '', $what); return; }

is(sql('SELECT * FROM parvacuum_check()'), '', 'nothing is wrong: there is no row');

# -- the server

sub setting
{
	my ($name, $value, $row, @expected) = @_;
	my $default = sql("SHOW $name");
	pv_reload_with($node, $name => $value);
	is(rows('severity, subject, relid, setting', $row), join('|', @expected), "$name = $value");
	like(rows('evidence', $row), qr/\d|off/, "$name = $value: there is evidence");
	pv_reload_with($node, $name => $default);
	none($row, "$name as it was");
	return;
}

setting('autovacuum', 'off', 'autovacuum', 'critical', 'server', '', 'autovacuum');
setting('track_counts', 'off', 'autovacuum', 'critical', 'server', '', 'track_counts');
setting('parvacuum.sweep', 'on', 'no_effect', 'advice', 'server', '', 'parvacuum.scheduler');
setting('parvacuum.engine', 'off', 'engine', 'warning', 'server', '', 'parvacuum.engine');
setting('parvacuum.max_runs', '200', 'worker_processes', 'advice', 'server', '', 'max_worker_processes');
setting('parvacuum.buffer_usage_limit', '256kB', 'ring', 'advice', 'server', '', 'parvacuum.buffer_usage_limit');

$settings = q{SET maintenance_work_mem = '2000GB'};
is(rows('severity, setting', 'shared_memory'), 'warning|maintenance_work_mem', 'memory for which /dev/shm is too small');
like(rows('evidence', 'shared_memory'), qr/^\/dev\/shm has \d+ MB, \d+ MB free; .* is 2048000 MB$/, 'with the sizes');
$settings = '';

pv_reload_with($node, autovacuum => 'off', 'parvacuum.scheduler' => 'on');
is(rows('severity', 'autovacuum'), 'warning', 'the scheduler, and tables that have not opted in');
pv_reload_with($node, 'parvacuum.enabled' => 'on');
sql('CREATE TABLE served (a text)', 'CREATE TABLE unserved (a int)', 'ALTER TABLE unserved SET (parvacuum.enabled = false)');
is(rows('severity, subject, setting, advice', 'autovacuum'), 'warning|public.unserved|parvacuum.enabled|ALTER TABLE public.unserved SET (parvacuum.enabled), or set autovacuum to on.', 'the scheduler, and a table that has opted out');
sql('DROP TABLE served, unserved');
pv_reload_with($node, autovacuum => 'on', 'parvacuum.scheduler' => 'off', 'parvacuum.enabled' => 'off');

# -- the horizon

my $use_xids = 'DO $$ BEGIN FOR i IN 1 .. 26000 LOOP PERFORM pg_current_xact_id(); COMMIT; END LOOP; END $$';
{
	my $idle = $node->background_psql('postgres');
	$idle->query_safe('BEGIN; SELECT pg_current_xact_id()');
	none('horizon', 'a young transaction');
	sql($use_xids);
	is(rows('severity, setting', 'horizon'), 'advice|idle_in_transaction_session_timeout', 'an old transaction');
	like(rows('evidence', 'horizon'), qr/^idle in transaction, .*; 26\d\d\d transactions old$/, 'who it is');
	sql($use_xids);
	is(rows('severity', 'horizon'), 'warning', 'a very old transaction');
	my @others = map { $node->background_psql('postgres') } 1 .. 3;
	$_->query_safe('BEGIN ISOLATION LEVEL REPEATABLE READ; SELECT 1') for @others;
	is(sql('SELECT count(*) FROM parvacuum_blockers'), 4, 'the snapshots of others are as old');
	is(sql(q{SELECT count(*) FROM parvacuum_check() WHERE name = 'horizon'}), 1, 'there is one row about all of them');
	$_->query_safe('COMMIT') for @others;
	$_->quit for @others;
	$idle->query_safe('COMMIT');
	$idle->quit;
	none('horizon', 'when it has ended');

	# Slots: one that is inactive, and that of a process that sends what it decodes
	sql(q{SELECT pg_create_physical_replication_slot('of_nobody')}, q{SELECT pg_create_logical_replication_slot('decoder', 'pgoutput')});
	sql($use_xids);
	is(rows('severity, setting, evidence', 'horizon') =~ s/( since .*)?; 26\d\d\d .*//r, 'advice||slot catalog_xmin "decoder", inactive', 'an old logical slot');
	like(rows('reason', 'horizon'), qr/^Dead rows of system catalogs cannot be removed/, 'it holds back catalogs only');
	sql(q{SELECT pg_drop_replication_slot(slot_name) FROM pg_replication_slots});
	none('horizon', 'when it is dropped');
}

# A standby whose query is old: by its own process, and by its slot
{
	$node->backup('copy');
	my $standby = PostgreSQL::Test::Cluster->new('check_standby');
	$standby->init_from_backup($node, 'copy', has_streaming => 1);
	$standby->append_conf('postgresql.conf', "hot_standby_feedback = on\nwal_receiver_status_interval = 1s\n");
	$standby->start;
	my %row = ('standby feedback' => qr/^standby feedback, /, 'slot xmin' => qr/^slot xmin "of_standby", PID \d+, active; /);
	for my $kind ('standby feedback', 'slot xmin')
	{
		if ($kind eq 'slot xmin')
		{
			sql(q{SELECT pg_create_physical_replication_slot('of_standby')});
			$standby->append_conf('postgresql.conf', "primary_slot_name = 'of_standby'\n");
			$standby->restart;
		}
		my $reader = $standby->background_psql('postgres');
		$reader->query_safe('BEGIN ISOLATION LEVEL REPEATABLE READ; SELECT 1');
		sql($use_xids);
		ok(pv_await($node, "SELECT count(*) FROM parvacuum_blockers WHERE kind = '$kind' AND xmin_age > 25000", '1'), "$kind: it is old");
		is(rows('severity, setting', 'horizon'), 'advice|hot_standby_feedback', "$kind: the setting");
		like(rows('evidence', 'horizon'), $row{$kind}, "$kind: who it is");
		sql('CREATE TABLE IF NOT EXISTS of_primary ()', q{UPDATE pg_class SET relpages = 1000000000 WHERE relname = 'of_primary'});
		is(rows('subject', 'cost_limits'), 'public.of_primary', "$kind: the primary has a row about a table");
		ok(pv_await($standby, q{SELECT relpages FROM pg_class WHERE relname = 'of_primary'}, 1000000000), "$kind: and the standby has the table");
		is(pv_sql($standby, q{SELECT string_agg(DISTINCT subject, ' ') FROM parvacuum_check()}), 'server', "$kind: nothing can be done there about tables");
		sql('DROP TABLE of_primary');
		is(pv_sql($standby, q{SELECT count(*) FROM parvacuum_check() WHERE name IN ('autovacuum', 'scheduler_process')}), 0, "$kind: a standby needs no automatic vacuums");
		$reader->quit;
		ok(pv_await($node, 'SELECT count(*) FROM parvacuum_blockers WHERE xmin_age > 25000', '0'), "$kind: the standby lets go");
		none('horizon', "$kind: nothing is held");
	}

	# without feedback it is nobody's concern
	pv_reload_with($standby, hot_standby_feedback => 'off');
	my $reader = $standby->background_psql('postgres');
	$reader->query_safe('BEGIN ISOLATION LEVEL REPEATABLE READ; SELECT 1');
	sql($use_xids);
	ok(pv_await($standby, 'SELECT count(*) FROM parvacuum_blockers WHERE xmin_age > 25000', '1'), 'a standby without feedback: an old query');
	is(pv_sql($standby, q{SELECT holds FROM parvacuum_blockers}), 'nothing on the primary', 'it holds back nothing');
	is(pv_sql($standby, q{SELECT count(*) FROM parvacuum_check() WHERE name = 'horizon'}), 0, 'and there is no row about it');
	$reader->quit;
	$standby->stop('fast');
	none('horizon', 'a slot whose standby has let go');
	sql(q{SELECT pg_drop_replication_slot('of_standby')}) if pv_await($node, q{SELECT active FROM pg_replication_slots}, 'false');
}
if ($node->pg_version < 16)
{
	setting('vacuum_defer_cleanup_age', '1000', 'horizon', 'advice', 'server', '', 'vacuum_defer_cleanup_age');
}

# -- tables

sql('CREATE TABLE t (id int PRIMARY KEY)', 'INSERT INTO t SELECT generate_series(1, 1000)', 'ANALYZE t',
	'CREATE ROLE owner LOGIN', 'CREATE TABLE "Its\'s" (id int)', 'ALTER TABLE "Its\'s" OWNER TO owner', 'CREATE DATABASE other');

# Writes into pg_class or pg_database for a moment.
sub with
{
	my ($catalog, $key, $change, $check) = @_;
	my ($column) = $change =~ /^(\w+)/;
	my $name = $catalog eq 'pg_class' ? 'relname' : 'datname';
	my $before = sql("SELECT $column FROM $catalog WHERE $name = '$key'");
	sql("UPDATE $catalog SET $change WHERE $name = '$key'");
	$check->();
	sql("UPDATE $catalog SET $column = '$before' WHERE $name = '$key'");
	return;
}
sub xid_of_age { return "((pg_current_xact_id()::text::bigint - $_[0]) & 4294967295)::text::xid"; }

ok(pv_await($node, 'SELECT bool_and(xids_per_second > 0 AND xids_left BETWEEN 2140000000 AND 2144483647 - xid_age AND wraparound_at > now()) FROM parvacuum_wraparound()', 'true'), 'when each database will run out of transaction IDs');
with('pg_class', 't', 'relfrozenxid = ' . xid_of_age(600_000_000), sub {
	is(rows('severity, subject, relid::regclass, relation, setting', 'wraparound'), 'warning|public.t|t|t|autovacuum_freeze_max_age', 'a table that is old');
	like(rows('evidence', 'wraparound'), qr/^relfrozenxid is 6\d{8} transactions old, autovacuum_freeze_max_age is 100000, the failsafe begins at 1600000000; at \d+\.\d transactions per second, as in the last \d\.\d hours, they run out about \d{4}-.* \(an estimate\)$/, 'how old, and when there will be no more');
});
with('pg_class', 't', 'relfrozenxid = ' . xid_of_age(1_700_000_000), sub { is(rows('severity', 'wraparound'), 'critical', 'a table that is very old'); });

# As for the engine, the failsafe begins when tables should long have been vacuumed for their age, even if it is set to begin before.
my $begins = q{SELECT substring(evidence, 'the failsafe begins at [0-9]+') FROM parvacuum_check() WHERE subject = };
with('pg_class', 't', 'relfrozenxid = ' . xid_of_age(600_000_000), sub { is(sql('SET vacuum_failsafe_age = 0', "$begins 'public.t'"), 'the failsafe begins at 105000', 'a failsafe age that is too low'); });
with('pg_database', 'other', 'datfrozenxid = ' . xid_of_age(600_000_000), sub { is(sql('SET vacuum_failsafe_age = 0', "$begins 'database other'"), 'the failsafe begins at 105000', 'and for another database'); });
with('pg_class', 't', q{relminmxid = ((SELECT next_multixact_id::text::bigint - 1800000000 FROM pg_control_checkpoint()) & 4294967295)::text::xid}, sub {
	is(rows('severity, setting', 'wraparound'), 'critical|autovacuum_multixact_freeze_max_age', 'a table with old multixacts');
});
with('pg_database', 'other', 'datfrozenxid = ' . xid_of_age(600_000_000), sub { is(rows('severity, subject, relid', 'wraparound'), 'warning|database other|', 'another database that is old'); });
none('wraparound', 'when it is young again');
with('pg_database', 'other', q{datminmxid = ((SELECT next_multixact_id::text::bigint - 1800000000 FROM pg_control_checkpoint()) & 4294967295)::text::xid}, sub {
	is(rows('severity, subject, setting', 'wraparound'), 'critical|database other|autovacuum_multixact_freeze_max_age', 'another database with old multixacts');
});

# A temporary table of another session, which nobody else can vacuum
{
	my $session = $node->background_psql('postgres');
	$session->query_safe('CREATE TEMP TABLE passing (id int PRIMARY KEY)');
	with('pg_class', 'passing', 'relfrozenxid = ' . xid_of_age(600_000_000), sub {
		like(rows('severity, subject, advice', 'wraparound'), qr/^warning\|(pg_temp_\d+\.passing)\|Only its session can vacuum this temporary table: end that session, or DROP TABLE \1\.$/, 'a temporary table that is old');
	});
	with('pg_class', 'passing', 'relpages = 1000000000', sub { none('cost_limits', 'nothing else is said about it'); });
	$session->quit;
}

# It waits for no lock of a table.
{
	my $lock = pv_start_run($node, 'BEGIN; LOCK TABLE t IN ACCESS EXCLUSIVE MODE; SELECT pg_sleep(600)');
	ok(pv_await($node, q{SELECT count(*) FROM pg_locks WHERE relation = 't'::regclass AND mode = 'AccessExclusiveLock' AND granted}, '1'), 'a table is locked');
	is(sql(q{SET lock_timeout = '1ms'}, 'SELECT count(*) FROM parvacuum_check()'), 0, 'it is checked all the same');
	sql(q{SELECT pg_cancel_backend(pid) FROM pg_stat_activity WHERE query LIKE 'BEGIN; LOCK%'});
	pv_finish($lock);
}

sql('DELETE FROM t WHERE id <= 600');
ok(pv_await($node, q{SELECT n_dead_tup FROM pg_stat_user_tables WHERE relname = 't'}, '600'), 'dead rows');
none('not_vacuumed', 'a table that may not have had its turn, with a naptime of an hour');
pv_reload_with($node, autovacuum => 'off', autovacuum_naptime => '1s');
none('not_vacuumed', 'a table of which it is not known that it has existed for some naptimes');
$node->restart;
ok(pv_await($node, q{SELECT count(*) FROM parvacuum_check() WHERE name = 'not_vacuumed'}, '1'), 'a table that is not vacuumed');
is(sql('SET stats_fetch_consistency = none', q{SELECT count(*) FROM parvacuum_check() WHERE name = 'not_vacuumed'}), 1, 'whatever way the statistics are read');
is(rows('severity, subject, setting, evidence', 'not_vacuumed'), 'warning|public.t|autovacuum|600 dead rows, due from 250 on; no vacuum known', 'its dead rows');
{
	my $holder = pv_hold($node, 't');
	my $long = pv_start_run($node, 'VACUUM (PARALLEL 0) t', 'parvacuum.enabled' => 'on', 'parvacuum.wait_at' => 'scan');
	ok(pv_await($node, $pv_held, 'true'), 'a vacuum begins');
	none('not_vacuumed', 'a table that is being vacuumed');
	sql(q{SELECT pg_cancel_backend(pid) FROM pg_stat_progress_vacuum});
	pv_finish($long);
	$holder->quit;
}
sql('ALTER TABLE t SET (autovacuum_enabled = off)');
is(rows('severity, setting', 'not_vacuumed'), 'warning|autovacuum_enabled', 'a table without autovacuum');
pv_reload_with($node, autovacuum => 'on', autovacuum_naptime => '1h');
sql('ALTER TABLE t RESET (autovacuum_enabled)', 'VACUUM t');
ok(pv_await($node, q{SELECT count(*) FROM parvacuum_check() WHERE name = 'not_vacuumed'}, '0'), 'after its vacuum');
sql('DELETE FROM t WHERE id <= 900');
ok(pv_await($node, q{SELECT n_dead_tup FROM pg_stat_user_tables WHERE relname = 't'}, '300'), 'its rows die again');
none('not_vacuumed', 'it was vacuumed a moment ago');
sql('VACUUM ANALYZE t');

with('pg_class', 't', 'reltuples = 1e9', sub {
	with('pg_class', 't', 'relpages = 10000000', sub {
		is(rows('severity, subject, setting', 'maintenance_memory'), 'advice|public.t|maintenance_work_mem', 'a table with more dead rows than fit into the memory');
		my ($stock) = rows('evidence', 'maintenance_memory') =~ /^[12]000000[05]0 dead rows when a vacuum is due take (\d+) MB, the limit is 1 MB: \d+ index scans$/;
		sql('ALTER TABLE t SET (parvacuum.enabled)');
		my ($ours) = rows('evidence', 'maintenance_memory') =~ / take (\d+) MB/;
		cmp_ok($ours, $node->pg_version >= 17 ? '==' : '<', $stock, 'the engine needs less than core before 17');
		sql('ALTER TABLE t RESET (parvacuum.enabled)');
	});
});
none('maintenance_memory', 'a table whose dead rows fit');
sql('CREATE TABLE bare (id int)');
with('pg_class', 'bare', 'reltuples = 1e9', sub {
	with('pg_class', 'bare', 'relpages = 10000000', sub { none('maintenance_memory', 'a table without indexes needs no memory for dead rows'); });
});
sql('DROP TABLE bare');

with('pg_class', 't', 'relpages = 1000000000', sub {
	my $memory = rows('subject', 'maintenance_memory');
	is($memory, '', 'a large table with few rows');
	is(rows('severity, subject, setting', 'cost_limits'), 'advice|public.t|autovacuum_vacuum_cost_limit', 'a large table');
	like(rows('evidence', 'cost_limits'), qr/^1000000000 pages at 22 cost units each, 100000 cost units per second: 2\.5 days$/, 'how long it takes');
	sql('ALTER TABLE t SET (autovacuum_vacuum_cost_limit = 50)');
	is(rows('severity', 'cost_limits'), 'warning', 'a limit of the table');
	sql('ALTER TABLE t SET (autovacuum_vacuum_cost_delay = 0)');
	none('cost_limits', 'no limit');

	# The scheduler has a budget of its own, which tables with limits of their own do not use.
	sql('ALTER TABLE t SET (parvacuum.enabled)');
	pv_reload_with($node, 'parvacuum.scheduler' => 'on', 'parvacuum.scheduler_max_cost' => 50000);
	none('cost_limits', 'no limit of the table, within the budget of the scheduler');
	sql('ALTER TABLE t SET (autovacuum_vacuum_cost_delay = 2)');
	is(rows('severity, setting', 'cost_limits'), 'warning|autovacuum_vacuum_cost_limit', 'a limit of the table, within that budget');
	sql('ALTER TABLE t RESET (autovacuum_vacuum_cost_limit, autovacuum_vacuum_cost_delay)');
	is(rows('severity, setting', 'cost_limits'), 'advice|parvacuum.scheduler_max_cost', 'the budget of the scheduler');
	like(rows('evidence', 'cost_limits'), qr/, 50000 cost units per second: 5\.1 days$/, 'how long it takes then');
	pv_reload_with($node, 'parvacuum.scheduler_max_cost' => 0);
	none('cost_limits', 'the scheduler has no limit');
	pv_reload_with($node, 'parvacuum.scheduler' => 'off', 'parvacuum.scheduler_max_cost' => -1);
	sql('ALTER TABLE t RESET (parvacuum.enabled)');
});

with('pg_class', 't_pkey', 'relpages = 2000', sub {
	is(rows('severity, subject, relation, setting', 'grown_index'), 'advice|public.t_pkey|t_pkey|', 'an index that has grown');
	like(rows('evidence', 'grown_index'), qr/^2000 pages, about \d for \d+ entries \(an estimate, from the statistics\)$/, 'how much');
	like(rows('advice', 'grown_index'), qr/^REINDEX INDEX CONCURRENTLY public\.t_pkey;/, 'what to do');
	with('pg_class', 't_pkey', 'reltuples = 500000', sub { none('grown_index', 'an index that has as many entries as that'); });
});
sql('VACUUM ANALYZE pg_am');
with('pg_class', 'pg_am_oid_index', 'relpages = 2000', sub {
	with('pg_class', 'pg_am_oid_index', 'reltuples = 10', sub {
		like(rows('advice', 'grown_index'), qr/^REINDEX INDEX pg_catalog\.pg_am_oid_index, which locks/, 'a catalog cannot be reindexed concurrently');
	});
});
sql('CREATE TABLE excl (id int, EXCLUDE USING btree (id WITH =))', 'INSERT INTO excl SELECT generate_series(1, 100)', 'ANALYZE excl');
with('pg_class', 'excl_id_excl', 'relpages = 2000', sub {
	like(rows('advice', 'grown_index'), qr/^REINDEX INDEX public\.excl_id_excl, which locks/, 'neither can an index of an exclusion constraint');
});
sql('DROP TABLE excl');

# Columns whose width only the statistics know, also those of an expression
sql('CREATE TABLE texts (a text, b text)', q{INSERT INTO texts SELECT repeat('x', 1 + i % 10), i FROM generate_series(1, 1000) i}, 'CREATE INDEX texts_i ON texts (a, (b || a))');
with('pg_class', 'texts_i', 'relpages = 2000', sub {
	with('pg_class', 'texts_i', 'reltuples = 1000', sub {
		none('grown_index', 'an index of columns without statistics');
		sql('ANALYZE texts');
		sql(q{UPDATE pg_class SET relpages = 2000 WHERE relname = 'texts_i'});
		like(rows('evidence', 'grown_index'), qr/^2000 pages, about \d+ for 1000 entries \(an estimate, from the statistics\)$/, 'an index of columns with statistics');
	});
});
sql('DROP TABLE texts');

# Free space, as the last vacuum has left it, in tables and in indexes of any type
{
	sql('CREATE TABLE space (id int, pad char(600), words int[], place point)', 'INSERT INTO space SELECT i, i, ARRAY[i], point(i, i) FROM generate_series(1, 20000) i',
		'CREATE INDEX space_hash ON space USING hash (id)', 'CREATE INDEX space_gin ON space USING gin (words) WITH (fastupdate = off)', 'CREATE INDEX space_gist ON space USING gist (place)',
		'CREATE TABLE half (LIKE space) WITH (fillfactor = 40)', 'INSERT INTO half SELECT * FROM space', 'VACUUM half', 'VACUUM ANALYZE space');
	none('free_space', 'a table without free space, and one that has it because of its fillfactor');
	my $whole = sql(q{SELECT relpages FROM pg_class WHERE relname = 'space'});
	sql('DELETE FROM space WHERE id % 4 > 0 AND id < 19900', 'VACUUM space');
	is(rows('severity, subject, relation, setting', 'free_space'), 'advice|public.space|space|', 'a table that is mostly free');
	my ($percent) = rows('evidence', 'free_space') =~ /^$whole pages, about (\d+) % of them free \(an estimate, from the free space map\)$/;
	cmp_ok(abs($percent - 75), '<', 10, 'how much of it is free');
	my $locker = $node->background_psql('postgres');
	$locker->query_safe('BEGIN; LOCK TABLE space');
	none('free_space', 'a table that is locked is left out, and nobody waits for it');
	$locker->query_safe('COMMIT');
	$locker->quit;
	for my $type (qw(hash gist))
	{
		with('pg_class', "space_$type", 'relpages = 9000', sub { is(rows('subject, evidence', 'grown_index') =~ s/about \d+/about N/r, "public.space_$type|9000 pages, about N for 5075 entries (an estimate, from the statistics)", "a grown index: $type"); });
	}
	sql('DROP TABLE half', 'CREATE TABLE many (words int[])', 'INSERT INTO many SELECT ARRAY(SELECT 60 * i + j FROM generate_series(1, 60) j) FROM generate_series(1, 10000) i',
		'CREATE INDEX many_gin ON many USING gin (words) WITH (fastupdate = off)', 'VACUUM many');
	none('grown_index', 'a GIN index without free pages');
	sql('DROP TABLE many, space');
}

# More rows than there was room for at first
sql('DO $$ BEGIN FOR i IN 1 .. 70 LOOP EXECUTE format(\'CREATE TABLE many_%s (id int)\', i); END LOOP; END $$', q{UPDATE pg_class SET relpages = 1000000000 WHERE relname LIKE 'many\_%'});
is(sql(q{SELECT count(DISTINCT subject) FROM parvacuum_check() WHERE name = 'cost_limits'}), 70, 'many rows');
sql('DO $$ BEGIN FOR i IN 1 .. 70 LOOP EXECUTE format(\'DROP TABLE many_%s\', i); END LOOP; END $$');

# A TOAST table follows its table, unless it has storage parameters of its own.
{
	sql('CREATE TABLE big (id int, b text) WITH (autovacuum_enabled = off)', 'ALTER TABLE big ALTER b SET STORAGE EXTERNAL',
		q{INSERT INTO big SELECT i, repeat('x', 3000) FROM generate_series(1, 400) i}, 'DELETE FROM big WHERE id > 20');
	my $toast = sql(q{SELECT reltoastrelid::regclass FROM pg_class WHERE relname = 'big'});
	my $row = "SELECT advice FROM parvacuum_check() WHERE name = 'not_vacuumed' AND subject = '$toast'";
	pv_await($node, "SELECT n_dead_tup > 0 FROM pg_stat_all_tables WHERE relid = '$toast'::regclass", 'true');
	pv_reload_with($node, autovacuum => 'off', autovacuum_naptime => '1s');
	$node->restart;
	ok(pv_await($node, $row, 'ALTER TABLE public.big RESET (autovacuum_enabled), or VACUUM it regularly.'), 'a TOAST table without autovacuum, because of its table') or diag sql($row);
	sql('ALTER TABLE big RESET (autovacuum_enabled)', 'ALTER TABLE big SET (toast.autovacuum_enabled = off)');
	is(sql($row), 'ALTER TABLE public.big RESET (toast.autovacuum_enabled), or VACUUM it regularly.', 'and because of its own storage parameter');
	sql('DROP TABLE big');
}

pv_reload_with($node, autovacuum => 'on', autovacuum_naptime => '1h');

# Vacuums that fail, one after the other
{
	sql(q{CREATE FUNCTION may_fail(i int) RETURNS int IMMUTABLE LANGUAGE plpgsql AS $$ BEGIN IF current_setting('pv.fail', true) = 'on' THEN RAISE 'does not work'; END IF; RETURN i; END $$},
		'CREATE TABLE failing (a int) WITH (parvacuum.enabled)', 'CREATE INDEX ON failing (a)', 'INSERT INTO failing SELECT generate_series(1, 10000)',
		'CREATE INDEX failing_brin ON failing USING brin (may_fail(a)) WITH (pages_per_range = 2)', 'INSERT INTO failing SELECT generate_series(1, 10000)');
	sql('DELETE FROM failing WHERE a = 1');
	my $fail = sub { return ($node->psql('postgres', q{SET pv.fail = on; VACUUM (PARALLEL 0) failing}))[0]; };
	isnt($fail->(), 0, 'a vacuum fails') for 1 .. 2;
	none('failing', 'two vacuums that failed');
	isnt($fail->(), 0, 'another one fails');
	is(rows('severity, subject', 'failing'), 'warning|public.failing', 'three vacuums that failed');
	like(rows('evidence', 'failing'), qr/^3 vacuums in a row were not completed, the last one failed at 2.*: does not work$/, 'with the error');
	is(sql(q{SELECT count(*), sum(runs) FROM parvacuum_history WHERE relname = 'failing'}), '2|3', 'those that have done nothing are one row of the history, though there are dead items');
	with('pg_class', 'failing', 'relfrozenxid = ' . xid_of_age(110_000), sub { is(rows('severity', 'failing'), 'critical', 'of a table that must be frozen'); });
	is(sql('SET ROLE owner', q{SELECT count(*) FROM parvacuum_check() WHERE name = 'failing'}), 0, 'not for others');
	sql('VACUUM failing');
	none('failing', 'after a vacuum that was completed');
	$fail->() for 1 .. 2;
	none('failing', 'others that failed count anew');
	sql('DELETE FROM failing WHERE a = 2');
	isnt(($node->psql('postgres', q{SET vacuum_cost_delay = 100; SET vacuum_cost_limit = 1; SET statement_timeout = '100ms'; VACUUM (DISABLE_PAGE_SKIPPING) failing}))[0], 0, 'a vacuum has no time') for 1 .. 3;
	like(rows('evidence, advice', 'canceled'), qr/due to statement timeout\|No session waited for the table: .* statement_timeout/, 'vacuums that have no time');
	sql('TRUNCATE failing');
	ok(pv_await($node, q{SELECT count(*) FROM parvacuum_check() WHERE name = 'canceled'}, 0), 'a table that needs no vacuum any more');
	sql('DROP TABLE failing');
}

# The scheduler beside another vacuum of the table, and at an ANALYZE that fails
{
	sql('CREATE TABLE busy (a int) WITH (parvacuum.enabled)', 'INSERT INTO busy SELECT generate_series(1, 1000)', 'ANALYZE busy', 'DELETE FROM busy',
		'CREATE TABLE unknown (a int) WITH (parvacuum.enabled, autovacuum_analyze_threshold = 1)', 'INSERT INTO unknown SELECT generate_series(1, 100)', 'CREATE INDEX ON unknown (may_fail(a))',
		q{CREATE OR REPLACE FUNCTION may_fail(i int) RETURNS int IMMUTABLE LANGUAGE plpgsql AS $$ BEGIN RAISE 'does not work'; END $$});
	my $holder = pv_hold($node, 'busy');
	my $long = pv_start_run($node, 'VACUUM (PARALLEL 0) busy', 'parvacuum.wait_at' => 'scan');
	ok(pv_await($node, $pv_held, 'true'), 'a table is being vacuumed');
	pv_reload_with($node, autovacuum => 'off', autovacuum_naptime => '1s', 'parvacuum.scheduler' => 'on');
	ok(pv_await($node, 'SELECT skipped_lock > 3 FROM parvacuum_scheduler_stats()', 'true'), 'the scheduler would vacuum it too');
	none('skipped', 'a table that is being vacuumed is not one that is always locked');
	is(sql(q{SELECT count(*) FROM parvacuum_history WHERE relname = 'busy'}), 0, 'the history does not have it as skipped');
	ok(pv_await($node, q{SELECT evidence FROM parvacuum_check() WHERE name = 'failing' AND subject = 'public.unknown'}, '3 in a row were not completed'), 'ANALYZE of a table fails');
	$holder->quit;
	ok(pv_finish($long), 'the other vacuum ends') or diag $long->{err};
	pv_reload_with($node, autovacuum => 'on', autovacuum_naptime => '1h', 'parvacuum.scheduler' => 'off');
	sql('DROP TABLE busy, unknown');
}

# Options that have no effect
sql('ALTER TABLE t SET (parvacuum.workers = 2)');
is(rows('severity, subject, setting, evidence', 'no_effect'), 'advice|public.t|parvacuum.enabled|parvacuum.workers is set, parvacuum.enabled is off', 'an option of a table that did not opt in');
like(rows('reason', 'no_effect'), qr/only runs by parvacuum's functions follow/, 'which runs follow');
sql(q{ALTER TABLE t SET (parvacuum.enabled, parvacuum.window = 'never')});
is(rows('severity, subject, setting, evidence', 'no_effect'), 'advice|public.t|parvacuum.scheduler|parvacuum.window is set, parvacuum.scheduler is off', 'a window without the scheduler');
pv_reload_with($node, 'parvacuum.scheduler' => 'on');
none('no_effect', 'a window with the scheduler');
pv_reload_with($node, 'parvacuum.scheduler' => 'off');
sql('ALTER TABLE t RESET (parvacuum.enabled, parvacuum.workers, parvacuum.window)');
none('no_effect', 'a table without options');

# -- rights

with('pg_class', 't', 'relpages = 1000000000', sub {
	with('pg_class', "Its''s", 'relpages = 1000000000', sub {
		pv_reload_with($node, 'parvacuum.engine' => 'off');
		my $all = 'SELECT string_agg(subject, $$ $$ ORDER BY subject) FROM parvacuum_check()';
		is(sql($all), q{public."Its's" public.t server}, 'a superuser sees all');
		is(sql('SET ROLE owner', $all), q{public."Its's"}, 'the owner of a table sees that table only');
		is(sql('GRANT pg_read_all_stats TO owner', 'SET ROLE owner', $all), q{public."Its's" public.t server}, 'a member of pg_read_all_stats sees all');
		is(sql('SELECT array_agg(severity ORDER BY n)::text FROM (SELECT severity, row_number() OVER () AS n FROM parvacuum_check()) x'), '{warning,advice,advice}', 'the most severe first');
		pv_reload_with($node, 'parvacuum.engine' => 'on');
	});
});

# -- after a restart

sub restart_with
{
	my ($conf) = @_;
	$node->append_conf('postgresql.conf', $conf);
	$node->restart;
	return;
}
sql('ALTER SYSTEM RESET ALL');
restart_with("max_worker_processes = 0\nparvacuum.scheduler = on\n");
is(rows('severity, setting', 'scheduler_process'), 'critical|max_worker_processes', 'the scheduler without a process');
like(rows('evidence', 'worker_processes'), qr/max_worker_processes is 0, at least \d+ are asked for/, 'and why');
restart_with("max_worker_processes = 32\n");
ok(pv_await($node, q{SELECT count(*) FROM parvacuum_check() WHERE name IN ('scheduler_process', 'worker_processes')}, '0'), 'the scheduler with its process');
restart_with("shared_preload_libraries = 'pg_stat_statements'\nparvacuum.scheduler = off\n");
is(rows('severity, setting, evidence', 'preload'), q{critical|shared_preload_libraries|shared_preload_libraries = 'pg_stat_statements'}, 'the library is not preloaded');
is(sql('SELECT count(*) FROM parvacuum_check()'), 1, 'and nothing else is wrong');
pv_reload_with($node, autovacuum => 'off');
is(rows('severity, setting', 'autovacuum'), 'critical|autovacuum', 'nor does autovacuum vacuum');

pv_no_crash($node, 'the server');
$node->stop;
done_testing();
