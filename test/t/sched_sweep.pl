# The scheduler's sweeps: which tables it sweeps and when, what they keep from growing, what
# is seen of a sweep, and what the owner of a table gets out of it.

use strict;
use warnings FATAL => 'all';

use FindBin;
use lib $FindBin::RealBin;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use PvScheduler;
use PvTest;
use Test::More;

sched_start('sweep', "log_autovacuum_min_duration = 0\nfull_page_writes = off\n");
make_bell();

# No table here is vacuumed or analyzed, unless a case asks for that.
my $never = "$calm, autovacuum_vacuum_threshold = 1000000, autovacuum_vacuum_insert_threshold = -1";
my $sweep = "$in, $never, parvacuum.sweep";

# Tables with a second B-tree that updates change.  Each row is as likely as any other to
# get any value, so dead entries are spread over all of its pages.
sub make
{
	my ($name, $options, $rows) = @_;
	return ("CREATE TABLE $name (id int PRIMARY KEY, k int) WITH ($options)",
		"INSERT INTO $name SELECT i, hashint4(i) FROM generate_series(1, $rows) i",
		"CREATE INDEX ${name}_k ON $name (k)", "VACUUM ANALYZE $name");
}

# Replace every n-th row.
sub replace
{
	my ($every, $round, @tables) = @_;
	return sql(map { "UPDATE $_ SET k = hashint4(id + $round * 1000000) WHERE id % $every = $round % $every" } @tables);
}

sub sweeps { return sql("SELECT coalesce(max(sweeps), 0) FROM parvacuum_stats WHERE relation = '$_[0]'::regclass"); }

sub until_swept
{
	my ($table, $times, $what) = @_;
	return until_answer("SELECT coalesce(max(sweeps), 0) >= $times FROM parvacuum_stats WHERE relation = '$table'::regclass", 'true', $what);
}

#
# Which tables are swept.  Each case is a table of 1000 rows, its options, a statement,
# and what was done to it: sweeps, vacuums and analyzes.  The threshold is 100.
#
my $update = 'UPDATE %s SET k = k + 1 WHERE id <= ';
my @cases = (
	[ enough => $sweep, "${update}101", '1|0|0' ],
	[ less => $sweep, "${update}100", '0|0|0' ],
	[ deleted => $sweep, 'DELETE FROM %s WHERE id <= 101', '1|0|0' ],
	[ inserted => $sweep, 'INSERT INTO %s SELECT i FROM generate_series(1001, 2000) i', '0|0|0' ],
	[ hot => "$sweep, fillfactor = 50", 'ALTER TABLE %1$s DROP COLUMN k; ALTER TABLE %1$s ADD k int; UPDATE %1$s SET k = 1 WHERE id %% 2 = 0', '0|0|0' ],
	[ own_limits => "$sweep, autovacuum_vacuum_cost_delay = 1", "${update}101", '1|0|0' ],
	[ off => "$sweep = off", "${update}300", '0|0|0' ],
	[ unset => "$in, $never", "${update}300", '0|0|0' ],
	[ out => "$in = off, $never, parvacuum.sweep", "${update}300", '0|0|0' ],
	[ disabled => "$sweep, autovacuum_enabled = off", "${update}300", '0|0|0' ],
	[ vacuum_due => "$in, $calm, parvacuum.sweep", "${update}300", '0|1|0' ],
	[ analyze_due => "$in, autovacuum_vacuum_threshold = 1000000, parvacuum.sweep", "${update}300", '1|0|1' ],
	[ all_due => "$in, autovacuum_vacuum_threshold = 1000000, autovacuum_analyze_threshold = 0, autovacuum_analyze_scale_factor = 0, parvacuum.sweep", "${update}300", '1|0|1' ],
	[ never_counted => $sweep, "UPDATE pg_class SET reltuples = -1 WHERE relname = '%1\$s'; ${update}300", '0|0|0' ],
	[ closed => "$sweep, parvacuum.window = 'never'", "${update}300", '0|0|0' ]);

sql(map { make($_->[0], $_->[1], 1000) } @cases);
sql('CREATE TABLE no_btree (id int, k int) WITH (' . $sweep . ')', 'INSERT INTO no_btree SELECT i, i FROM generate_series(1, 1000) i',
	'CREATE INDEX ON no_btree USING hash (k)', 'ANALYZE no_btree', 'UPDATE no_btree SET k = k + 1');

# A session has reported all that it did when it ends.
sql(sprintf $_->[2], $_->[0]) for @cases;
my $done = q{SELECT (SELECT coalesce(max(sweeps), 0) FROM parvacuum_stats WHERE relid = '%1$s'::regclass),
	vacuum_count - 1, analyze_count - 1 FROM pg_stat_all_tables WHERE relid = '%1$s'::regclass};
reload_with('parvacuum.scheduler' => 'on');
until_swept('enough', 1, 'a table is swept');
two_scans();
is(sql(sprintf $done, $_->[0]), $_->[3], "what is due: $_->[0]") for @cases;
is(sql(q{SELECT last_sweep <= last_analyze FROM parvacuum_stats JOIN pg_stat_all_tables USING (relid) WHERE relid = 'analyze_due'::regclass}), 't', 'a sweep comes before ANALYZE, as a vacuum does');
is(sql('SELECT ' . item('closed')), 'waiting window', 'a closed window: the table waits');
is(sql(q{SELECT action, score, sweep_score > 2 FROM parvacuum_queue WHERE relation = 'closed'::regclass}), 'sweep|0|t', 'what the queue shows');
is(stat_of('sweeps'), 6, 'sweeps are counted');
is(sql(q{SELECT indexes FROM parvacuum_history WHERE relation = 'no_btree'::regclass}), 0, 'an index that is no B-tree is left alone');

# What is seen of it
is(sql(q{SELECT started_by, action, outcome, indexes, by_engine, pages_scanned IS NULL, wraparound, userid IS NULL, elapsed_ms > 0, wal_bytes > 0
	FROM parvacuum_history WHERE relation = 'enough'::regclass AND action = 'sweep'}), 'scheduler|sweep|done|2|t|t|f|t|t|t', 'a row in the history');
is(sql(q{SELECT string_agg(indexrelname || ' ' || entries_removed || ' ' || coalesce(pages_deleted, -1), ', ' ORDER BY indexrelname)
	FROM parvacuum_index_history JOIN parvacuum_history USING (run) WHERE parvacuum_history.relation = 'enough'::regclass AND action = 'sweep'}),
	'enough_k 101 -1, enough_pkey 101 -1', 'and one for each index');
is(sql(q{SELECT runs, sweeps, last_sweep > last_run FROM parvacuum_stats WHERE relation = 'enough'::regclass}), '1|1|t', 'the totals of the table');
is(sql(q{SELECT runs, sweeps, entries_removed FROM parvacuum_index_stats WHERE index_relation = 'enough_k'::regclass}), '0|1|101', 'the totals of an index');
is(times_logged(qr/LOG: .*automatic sweep of table "postgres\.public\.enough"\n\tindex "enough_pkey": pages: \d+ changed, \d+ visited, \d+ in total; entries: 101 removed\n\tindex "enough_k": .* 101 removed\n(?:\t.*\n)*\tsystem usage: .*elapsed/),
	1, 'the log');

#
# Swept indexes do not grow; a twin's do.  At the same time: the next sweep is due when as
# many entries have died again, or half as many if the B-trees have grown.
#
sql(map { make($_->[0], $_->[1], 20000) } [ splits => $sweep ], [ swept => $sweep ], [ twin => "$in, $never" ]);
my $sizes = q{SELECT pg_relation_size('swept_k'), pg_relation_size('twin_k')};
my ($before) = split /\|/, sql($sizes);
replace(10, 1, 'enough');
for my $round (1 .. 3)
{
	# the size of the B-trees is known; they have grown; they are swept at half the threshold
	replace($round < 3 ? 10 : 25, $round, 'splits');
	replace(16, $round, 'swept', 'twin');
	until_swept('swept', $round, "round $round: a table is swept");
	until_swept('splits', $round, "round $round: another one");
	sql('INSERT INTO splits SELECT i, i FROM generate_series(20001, 25000) i', 'ANALYZE splits') if $round == 1;
}
replace(25, 4, 'splits');
replace(16, 4, 'swept', 'twin');
until_swept('swept', 4, 'round 4: a table is swept');
until_answer($active, 0, 'and all that was due');
is(sweeps('splits'), 3, 'B-trees that have not grown again: the whole threshold');
is(sweeps('enough'), 1, 'fewer entries have died since: no sweep');

my ($swept, $twin) = split /\|/, sql($sizes);
note "from $before to $swept bytes, and $twin without sweeps";
cmp_ok($swept, '<', 1.2 * $before, 'the index of a swept table does not grow');
cmp_ok($twin, '>', 1.6 * $before, 'the same index of a table that is not swept does');
is(sql(q{SELECT count(*) FROM oracle.check_table('swept')}), 0, 'and nothing is wrong with it');

#
# A table has cost limits of its own, but the next one keeps to those of the scheduler.
#
sql(make('after', $sweep, 20000), 'ALTER TABLE own_limits SET (autovacuum_vacuum_cost_delay = 0)');
reload_with('parvacuum.scheduler' => 'off', 'parvacuum.scheduler_workers' => 1);
replace(2, 1, 'own_limits');
replace(8, 1, 'after');
sql('CHECKPOINT');
set_speed(2000);
reload_with('parvacuum.scheduler' => 'on');
until_swept('after', 1, 'a table behind one that has no limits is swept');
is(sweeps('own_limits'), 2, 'the other was swept');
is(sql(q{SELECT elapsed_ms > 400 FROM parvacuum_history WHERE relation = 'after'::regclass AND action = 'sweep'}), 't', 'the limit of the scheduler holds for it');
speed(0);
reload_with('parvacuum.scheduler_workers' => 3);

#
# The setting holds for tables that say nothing.  A reset of the statistics does no harm.
#
is(sweeps('unset'), 0, 'the setting is off by default');
replace(2, 2, 'enough');
reload_with('parvacuum.sweep' => 'on');
until_swept('unset', 1, 'the setting is on: a table that says nothing');
is(sweeps('off'), 0, 'but not one that says no');
until_swept('enough', 2, 'more have died since: a sweep');
sql(q{SELECT pg_stat_reset_single_table_counters('enough'::regclass)});
replace(5, 3, 'enough');
until_swept('enough', 3, 'after a reset of the statistics');
reload_with('parvacuum.engine' => 'off');
replace(3, 3, 'unset');
two_scans();
is(sweeps('unset'), 1, 'the engine is off: no sweep');
reload_with('parvacuum.engine' => 'on', 'parvacuum.sweep' => 'off');

#
# A sweep gives way to a session that waits for the table.  At this speed it takes many
# seconds.
#
my $last = q{SELECT action, outcome, coalesce(sqlstate, '') FROM parvacuum_history WHERE relation = '%s'::regclass ORDER BY run DESC LIMIT 1};
speed(500);
replace(4, 5, 'swept');
until_answer(q{SELECT count(*) FROM pg_stat_activity WHERE backend_type = 'parvacuum scheduler worker' AND query = 'autovacuum: SWEEP public.swept (parvacuum)'}, 1, 'a slow sweep');
is(sql(q{SELECT state, action, pid > 0 FROM parvacuum_queue WHERE relation = 'swept'::regclass}), 'running|sweep|t', 'it is in the queue');
sql(q{SET lock_timeout = '2min'}, 'ALTER TABLE swept ALTER k SET STATISTICS 10');
is(sql(sprintf $last, 'swept'), 'sweep|canceled|57014', 'it gives way to ALTER TABLE');
is(times_logged(qr/ERROR: .*canceling statement due to user request\n.*CONTEXT: .*parvacuum's scheduled sweep of table "postgres\.public\.swept"/), 1, 'the log says so');
is(sweeps('swept'), 4, 'it does not count');
speed(0);
until_swept('swept', 5, 'it is done later');

#
# It gives way to a vacuum of its table as well.  The vacuum is not of the age, as that would
# take an age, but all needs of a vacuum are treated alike.
#
sql('ALTER TABLE swept SET (autovacuum_vacuum_threshold = 6000, autovacuum_vacuum_scale_factor = 0)', 'VACUUM ANALYZE swept');
speed(500);
replace(4, 6, 'swept');
until_answer(q{SELECT count(*) FROM pg_stat_activity WHERE backend_type = 'parvacuum scheduler worker' AND query = 'autovacuum: SWEEP public.swept (parvacuum)'}, 1, 'a slow sweep');
replace(2, 7, 'swept');
until_answer(sprintf(q{SELECT count(*) > 0 FROM parvacuum_history WHERE relation = 'swept'::regclass AND outcome = 'canceled' AND error LIKE 'canceling sweep of table "%%swept" because it needs a vacuum'}),
	'true', 'a sweep ends when its table needs a vacuum');
# That is no failure, after which the table would be left alone for a naptime.  The scheduler
# scans the database when it is switched on.
naptime('10min');
speed(0);
reload_with('parvacuum.scheduler' => 'off');
until_answer(q{SELECT count(*) FROM pg_stat_activity WHERE backend_type = 'parvacuum scheduler worker'}, 0, 'the scheduler is off');
reload_with('parvacuum.scheduler' => 'on');
until_answer(q{SELECT count(*) > 0 FROM parvacuum_history WHERE relation = 'swept'::regclass AND action = 'vacuum' AND started_by = 'scheduler' AND outcome = 'done'}, 'true', 'which it gets');
naptime('1s');

#
# An index that is locked is left out, and keeps no worker waiting.
#
sql(make('locked', "$sweep = off", 1000));
sql('DELETE FROM locked WHERE id <= 101');
my $ddl = $node->background_psql('postgres', on_error_stop => 1);
$ddl->query_safe('BEGIN; ALTER INDEX locked_pkey SET TABLESPACE pg_default');
sql('ALTER TABLE locked SET (parvacuum.sweep = on)');
until_swept('locked', 1, 'an index is locked');
is(sql(q{SELECT string_agg(indexrelname || ' ' || entries_removed, ', ') FROM parvacuum_index_history JOIN parvacuum_history USING (run)
	WHERE parvacuum_history.relation = 'locked'::regclass AND action = 'sweep'}), 'locked_k 101', 'the others are swept');
$ddl->quit;

#
# The owner of a table: his functions are not called, and see nobody else's rights if they
# are.  Others do not see his tables.
#
sql('CREATE ROLE mallory', 'CREATE ROLE other', 'CREATE SCHEMA mallory AUTHORIZATION mallory', 'SET ROLE mallory',
	'CREATE TABLE mallory.calls (who name, rights name)', 'GRANT ALL ON mallory.calls TO public', 'GRANT USAGE ON SCHEMA mallory TO public',
	q{CREATE FUNCTION mallory.f(i int) RETURNS int LANGUAGE plpgsql IMMUTABLE AS
		$$BEGIN INSERT INTO mallory.calls VALUES (current_user, session_user); ALTER ROLE mallory SUPERUSER; RETURN i; EXCEPTION WHEN OTHERS THEN RETURN i; END$$},
	"CREATE TABLE mallory.t (id int PRIMARY KEY, k int) WITH ($sweep)", 'INSERT INTO mallory.t SELECT i, i FROM generate_series(1, 1000) i',
	'CREATE INDEX t_f ON mallory.t ((mallory.f(k))) WHERE mallory.f(k) > 0', 'ANALYZE mallory.t', 'TRUNCATE mallory.calls',
	'BEGIN', 'UPDATE mallory.t SET k = k + 1 WHERE id <= 200', 'TRUNCATE mallory.calls', 'COMMIT');
until_swept('mallory.t', 1, 'a table with a hostile owner');
is(sql('SELECT count(*) FROM mallory.calls'), 0, 'his function is not called');
is(sql(q{SELECT rolsuper FROM pg_roles WHERE rolname = 'mallory'}), 'f', 'he is no superuser');
is(sql(q{SELECT string_agg(indexrelname || ' ' || entries_removed, ', ' ORDER BY indexrelname) FROM parvacuum_index_history WHERE relation = 'mallory.t'::regclass}),
	't_f 200, t_pkey 200', 'his indexes are swept');
is(sql('SET ROLE mallory', q{SELECT count(*) FILTER (WHERE relation = 'mallory.t'::regclass), count(DISTINCT relation) FROM parvacuum_history}), '1|1', 'he sees what was done to his table');
is(sql('SET ROLE other', 'SELECT count(*) FROM parvacuum_history'), 0, 'another role sees none of it');

#
# An error is in the history.  The table waits, and the sweep is tried again.  The first
# leaf page does not say where its special space really begins.
#
sql(make('broken', $sweep, 1000), 'CHECKPOINT');
my $file = $node->data_dir . '/' . sql(q{SELECT pg_relation_filepath('broken_k')});
$node->stop;
open my $fh, '+<:raw', $file or die;
seek $fh, 8192 + 16, 0;
print $fh pack('S', 8192 - 8);
close $fh;
$node->start;
sql('DELETE FROM broken WHERE id <= 200');
until_answer(q{SELECT count(*) > 0 FROM parvacuum_history WHERE relation = 'broken'::regclass AND action = 'sweep'}, 'true', 'the sweep ends');
is(sql(sprintf $last, 'broken'), 'sweep|error|XX002', 'an error');
ok(sql('SELECT ' . item('broken')) =~ /^(waiting error|queued|running)$/, 'the table waits');
cmp_ok(times_logged(qr/CONTEXT: .*parvacuum's scheduled sweep of table "postgres\.public\.broken"/), '>', 0, 'the log names the table');
sql('REINDEX INDEX broken_k');
until_swept('broken', 1, 'it is tried again');

done_testing();
