# What the scheduler vacuums and analyzes: tables, partitions, TOAST tables, materialized
# views and whole databases, by thresholds and by ages, with the result of stock VACUUM.

use strict;
use warnings FATAL => 'all';

use FindBin;
use lib $FindBin::RealBin;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use PvScheduler;
use PvTest;
use Test::More;

sched_start('scheduler');
make_bell();

# Vacuums and analyzes of a relation so far, whichever process ran them
my $counts = q{(SELECT vacuum_count + autovacuum_count FROM pg_stat_all_tables WHERE relid = %s),
	(SELECT analyze_count + autoanalyze_count FROM pg_stat_all_tables WHERE relid = %s)};
is(stat_of('database_scans'), 0, 'the scheduler is off by default');

#
# Which tables need a vacuum or an ANALYZE.  Each case is a table of 1000 rows that has
# just been vacuumed, its options, a statement, and the expected number of vacuums and
# analyzes.
#
my @cases = (
	[ dead => "$in, $calm", 'DELETE FROM %s WHERE id <= 251', '1|0' ],
	[ dead_less => "$in, $calm", 'DELETE FROM %s WHERE id <= 250', '0|0' ],
	[ dead_own => "$in, $calm, autovacuum_vacuum_threshold = 10, autovacuum_vacuum_scale_factor = 0", 'DELETE FROM %s WHERE id <= 11', '1|0' ],
	[ dead_own_less => "$in, $calm, autovacuum_vacuum_scale_factor = 0.5", 'DELETE FROM %s WHERE id <= 550', '0|0' ],
	[ dead_both => $in, 'DELETE FROM %s WHERE id <= 300', '1|1' ],
	[ aborted => "$in, $calm", 'BEGIN; INSERT INTO %1$s SELECT * FROM %1$s; ROLLBACK', '1|0' ],
	[ inserted => "$in, $calm", 'INSERT INTO %s SELECT i FROM generate_series(1, 1201) i', '1|0' ],
	[ inserted_less => "$in, $calm", 'INSERT INTO %s SELECT i FROM generate_series(1, 1200) i', '0|0' ],
	[ inserted_never => "$in, $calm, autovacuum_vacuum_insert_threshold = -1", 'INSERT INTO %s SELECT i FROM generate_series(1, 20000) i', '0|0' ],
	[ inserted_own => "$in, $calm, autovacuum_vacuum_insert_threshold = 10, autovacuum_vacuum_insert_scale_factor = 0", 'INSERT INTO %s SELECT i FROM generate_series(1, 11) i', '1|0' ],
	[ changed => $in, 'UPDATE %s SET k = 1 WHERE id <= 151', '0|1' ],
	[ changed_less => $in, 'UPDATE %s SET k = 1 WHERE id <= 150', '0|0' ],
	[ changed_own => "$in, autovacuum_analyze_threshold = 5, autovacuum_analyze_scale_factor = 0", 'UPDATE %s SET k = 1 WHERE id <= 6', '0|1' ],
	[ disabled => "$in, autovacuum_enabled = off", 'DELETE FROM %s', '0|0' ],
	[ out => 'vacuum_truncate = off', 'DELETE FROM %s', '0|0' ],
	[ no => "$in = off", 'DELETE FROM %s', '0|0' ],
	[ logged_not => $in, 'DELETE FROM %s WHERE id <= 300', '1|1', 'UNLOGGED' ],
	[ part => undef, 'DELETE FROM %s WHERE id <= 300', '1|1', 'PARTITION' ],
	[ part_no => "$in = off", 'DELETE FROM %s WHERE id <= 300', '0|0', 'PARTITION' ]);

sql("CREATE TABLE parted (id int, k int, name text) PARTITION BY LIST (name) WITH ($in)",
	map {
		my ($name, $options, $statement, $expected, $kind) = @$_;
		(($kind // '') eq 'PARTITION' ? "CREATE TABLE $name PARTITION OF parted FOR VALUES IN ('$name')"
			: 'CREATE ' . ($kind // '') . " TABLE $name (id int, k int, name text)",
			"INSERT INTO $name SELECT i, 0, '$name' FROM generate_series(1, 1000) i",
			$options ? "ALTER TABLE $name SET ($options)" : ())
	} @cases);

# TOAST tables of a thousand chunks.  The options are those of the table and of its TOAST
# table.
my $toast_low = 'toast.autovacuum_vacuum_threshold = 10, toast.autovacuum_vacuum_scale_factor = 0';
my %fat = (
	fat_inherits => [ "$low, $calm", '1|1' ],
	fat_own => [ "$toast_low, $calm", '0|1' ],
	fat_own_more => [ "$low, $calm, toast.autovacuum_vacuum_threshold = 100000", '1|0' ],
	fat_off => [ 'autovacuum_enabled = off', '0|0' ],
	fat_toast_off => [ "$low, $calm, toast.autovacuum_enabled = off", '1|0' ],
	fat_only => [ "autovacuum_enabled = off, $toast_low, toast.autovacuum_enabled = on", '0|1' ]);
sql(map { ("CREATE TABLE $_ (id int, pad text)", "ALTER TABLE $_ ALTER pad SET STORAGE EXTERNAL",
		"INSERT INTO $_ SELECT i, repeat('x', 9000) FROM generate_series(1, 200) i",
		"ALTER TABLE $_ SET ($in, $fat{$_}[0])") } sort keys %fat);

# A materialized view
sql('CREATE TABLE base AS SELECT i, i AS k FROM generate_series(1, 1000) i',
	'CREATE MATERIALIZED VIEW seen AS SELECT * FROM base', 'CREATE UNIQUE INDEX ON seen (i)',
	"ALTER MATERIALIZED VIEW seen SET ($in)");

# A session has reported all that it did when it ends.
my @all = (map({ $_->[0] } @cases), sort(keys %fat), 'seen');
sql(map { "VACUUM ANALYZE $_" } @all);

my %before = map { $_ => sql(sprintf "SELECT $counts", (oid_of($_)) x 2) } @all, map { "toast of $_" } keys %fat;
sub gain
{
	my ($table) = @_;
	my @then = split /\|/, $before{$table};
	my @now = split /\|/, sql(sprintf "SELECT $counts", (oid_of($table)) x 2);
	return join '|', map { $now[$_] - $then[$_] } 0 .. 1;
}

# Dead rows in a catalog, and in a shared catalog
sub use_catalogs
{
	sql(map { ("CREATE TABLE wide AS SELECT " . join(', ', map { "1 AS c$_" } 1 .. 400), 'DROP TABLE wide') } 1 .. 3);
	sql(map({ ("CREATE ROLE noted_$_", "COMMENT ON ROLE noted_$_ IS 'a note'") } 1 .. 100), map { "DROP ROLE noted_$_" } 1 .. 100);
	return;
}
use_catalogs();
my @catalogs = qw(pg_attribute pg_shdescription);
my %of_catalog = map { $_ => vacuums($_) } @catalogs;

reload_with('parvacuum.scheduler' => 'on');
two_scans();
sql(map({ sprintf $_->[2], $_->[0] } @cases), map({ "DELETE FROM $_ WHERE id % " . ($_ eq 'fat_inherits' ? 10 : 3) . ' = 0' } sort keys %fat),
	'UPDATE base SET k = 7 WHERE i <= 300', 'REFRESH MATERIALIZED VIEW CONCURRENTLY seen');
two_scans();
is(gain($_->[0]), $_->[3], "$_->[0]: vacuums and analyzes") for @cases;
is(join('|', map { (split /\|/, gain($_))[0] } $_, "toast of $_"), $fat{$_}[1], "$_: vacuums of it and of its TOAST table") for sort keys %fat;
is(gain('seen'), '1|1', 'a materialized view: vacuums and analyzes');
cmp_ok(vacuums($_), '>', $of_catalog{$_}, "$_: vacuumed, since autovacuum is off") for @catalogs;
is(sql(q{SELECT sum(n_dead_tup) < 100 FROM pg_stat_all_tables WHERE relname IN ('pg_attribute', 'pg_shdescription')}), 't', 'catalogs: the dead rows are removed');
is(sql('SELECT count(*) FROM parvacuum_queue'), 0, 'the queue is empty');
is(stat_of('errors'), 0, 'no vacuum failed');

# Deleted rows are removed, and no others.
is(sql('SELECT n_dead_tup, n_live_tup FROM pg_stat_user_tables WHERE relname = \'dead\''), '0|749', 'the statistics have the new numbers of rows');
is(pv_findings($node, $_), '', "$_ is whole") for qw(dead inserted part fat_inherits fat_only seen);
unlike(slurp_file($node->logfile), qr/PostgreSQL's own VACUUM/, 'the tables were vacuumed by the engine');

#
# Autovacuum vacuums catalogs if it is on, also where all tables have opted in.
#
reload_with(autovacuum => 'on', 'parvacuum.enabled' => 'on');
my $by_scheduler = q{SELECT sum(vacuum_count) FROM pg_stat_all_tables WHERE relname IN ('pg_attribute', 'pg_shdescription')};
two_scans();
my $before_catalogs = sql($by_scheduler);
use_catalogs();
until_answer(q{SELECT count(*) FROM pg_stat_all_tables WHERE relname IN ('pg_attribute', 'pg_shdescription') AND autovacuum_count > 0}, 2, 'catalogs: autovacuum vacuums them');
is(sql($by_scheduler), $before_catalogs, 'catalogs: the scheduler does not');
reload_with(autovacuum => 'off', 'parvacuum.enabled' => 'off');

#
# A database with the setting on: all of its tables
#
sql('CREATE DATABASE whole');
sql('ALTER DATABASE whole SET parvacuum.enabled = on');
$node->safe_psql('whole', join ";\n", 'CREATE TABLE t AS SELECT i FROM generate_series(1, 1000) i', 'CREATE TABLE no (i int) WITH (parvacuum.enabled = off)',
	'INSERT INTO no SELECT i FROM t', 'DELETE FROM no', 'DELETE FROM t WHERE i <= 600',
	map { ("CREATE TABLE wide AS SELECT " . join(', ', map { "1 AS c$_" } 1 .. 400), 'DROP TABLE wide') } 1 .. 5);
sub of_whole { return "SELECT vacuum_count + autovacuum_count FROM pg_stat_all_tables WHERE relid = '$_[0]'::regclass"; }
ok($node->poll_query_until('whole', 'SELECT (' . of_whole($_) . ') > 0'), "a database with the setting: $_ is vacuumed") for qw(t pg_attribute);
is($node->safe_psql('whole', of_whole('no')), 0, 'a database with the setting: a table that opted out is not vacuumed');
sql('DROP DATABASE whole');

#
# The result is that of stock VACUUM on a twin.
#
for my $kind (qw(updates toast multixacts tail))
{
	sql("SET client_min_messages = warning;\n\\o /dev/null\nSELECT * FROM oracle.make_twins('$kind', 4000, ARRAY['btree', 'gin', 'hash'], 400) \\gexec\n\\o\n");
	my $before = vacuums('ours');
	sql('VACUUM stock');
	sql("ALTER TABLE ours SET ($in, $low, toast.autovacuum_vacuum_threshold = 10, toast.autovacuum_vacuum_scale_factor = 0)",
		'ALTER TABLE ours RESET (autovacuum_enabled, toast.autovacuum_enabled)');
	until_vacuumed('ours', $before + 1, "$kind: the table is vacuumed");
	two_scans();
	is(pv_differences($node, 'relfrozenxid', 'relminmxid'), '', "$kind: the result is that of stock VACUUM");
	sql('DROP TABLE stock, ours');
}

#
# Ages, by the options of the table, also of tables that are not vacuumed for other
# reasons.  100000 transactions is the smallest value of such an option.
#
my %is_young = (old => 'age(relfrozenxid) < 50000', old_multi => 'mxid_age(relminmxid) < 5000');
sql(map { ("CREATE TABLE $_->[0] (id int)", "INSERT INTO $_->[0] SELECT i FROM generate_series(1, 1000) i",
		"ALTER TABLE $_->[0] SET ($in, autovacuum_enabled = off, $_->[1])") }
	[ old => 'autovacuum_freeze_min_age = 0, autovacuum_multixact_freeze_min_age = 1000000, autovacuum_freeze_max_age = 100000' ],
	[ old_multi => 'autovacuum_freeze_min_age = 1000000, autovacuum_multixact_freeze_min_age = 0, autovacuum_multixact_freeze_max_age = 10000' ],
	[ young => 'autovacuum_freeze_max_age = 1000000' ]);
sql('BEGIN', 'SELECT FROM old_multi WHERE id = 7 FOR KEY SHARE', 'SAVEPOINT s', 'UPDATE old_multi SET id = 7 WHERE id = 7', 'ROLLBACK TO s', 'COMMIT');
is(sql(q{SELECT count(*) FROM old_multi WHERE xmax <> 0}), 1, 'old_multi: it has a multixact');
two_scans();
is(vacuums($_), 0, "$_: not vacuumed before its age") for qw(old old_multi young);
my $reader = $node->background_psql('postgres');
$reader->query_safe('BEGIN ISOLATION LEVEL REPEATABLE READ; SELECT count(*) FROM bell');
my $xids = sql('SELECT txid_current()');
sql(q{DO $$ BEGIN FOR i IN 1 .. 90100 LOOP PERFORM txid_current(); COMMIT; END LOOP; END $$});
cmp_ok(sql('SELECT txid_current()') - $xids, '>', 90000, '90000 transactions have passed');

# The first vacuum cannot advance the table's age, because a snapshot still needs it.  The
# next one waits until that changes.
until_item('old', 'waiting horizon', 'old: vacuumed for its age without success, it waits for the horizon');
my $by_horizon = stat_of('skipped_horizon');
ok(pv_await($node, "SELECT skipped_horizon >= $by_horizon + 3 FROM parvacuum_scheduler_stats()", 'true'), 'old: it waits in each database scan');
is(vacuums('old'), 1, 'old: it was vacuumed once');
$reader->query_safe('COMMIT');
$reader->quit;
sql('CREATE TABLE shared AS SELECT i FROM generate_series(1, 9100) i');
sql(q{DO $$ DECLARE r record; BEGIN
	PERFORM FROM shared FOR KEY SHARE;
	FOR r IN SELECT ctid FROM shared LOOP
		BEGIN
			PERFORM FROM shared WHERE ctid = r.ctid FOR SHARE;
		EXCEPTION WHEN division_by_zero THEN NULL;
		END;
	END LOOP; END $$});
for my $table (qw(old old_multi))
{
	until_vacuumed($table, $table eq 'old' ? 2 : 1, "$table: vacuumed for its age");
	is(sql("SELECT $is_young{$table} FROM pg_class WHERE oid = '$table'::regclass"), 't', "$table: it is young again");
}
two_scans();
is(vacuums($_), { old => 2, old_multi => 1, young => 0 }->{$_}, "$_: vacuumed as often as expected, at nine tenths of its maximal age") for qw(old old_multi young);
sql('DROP TABLE old, old_multi, young, shared');

$node->stop;
pv_no_crash($node, 'the server');
done_testing();
