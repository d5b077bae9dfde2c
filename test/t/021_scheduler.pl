# The scheduler: which tables it vacuums and analyzes, when, in which order and at
# which speed, and to whom it gives way.

use strict;
use warnings FATAL => 'all';

use FindBin;
use lib $FindBin::RealBin;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use PvTest;
use Test::More;
use Time::HiRes qw(sleep time);

my $node = pv_node('scheduler');
$node->append_conf('postgresql.conf', q{
autovacuum_naptime = 1s
autovacuum_vacuum_cost_delay = 0
autovacuum_vacuum_threshold = 50
autovacuum_vacuum_scale_factor = 0.2
autovacuum_vacuum_insert_threshold = 1000
autovacuum_vacuum_insert_scale_factor = 0.2
autovacuum_analyze_threshold = 50
autovacuum_analyze_scale_factor = 0.1
deadlock_timeout = 100ms
parvacuum.scheduler_workers = 3
});
$node->start;
pv_setup($node);

sub sql { return $node->safe_psql('postgres', join ";\n", @_); }

sub reload_with { return pv_reload_with($node, @_); }

# Vacuums and analyzes of a relation so far, by whomever.
my $counts = q{(SELECT vacuum_count + autovacuum_count FROM pg_stat_all_tables WHERE relid = %s),
	(SELECT analyze_count + autoanalyze_count FROM pg_stat_all_tables WHERE relid = %s)};
sub oid_of { return $_[0] =~ /^toast of (\w+)/ ? "(SELECT reltoastrelid FROM pg_class WHERE oid = '$1'::regclass)" : "'$_[0]'::regclass"; }
sub vacuum_sql { return '(SELECT vacuum_count + autovacuum_count FROM pg_stat_all_tables WHERE relid = ' . oid_of($_[0]) . ')'; }
sub vacuums { return sql('SELECT ' . vacuum_sql($_[0])); }

sub until_vacuumed
{
	my ($table, $count, $what) = @_;
	ok(pv_await($node, 'SELECT ' . vacuum_sql($table) . " >= $count", 'true'), $what) or die join "\n", queue();
	return;
}

# What the queue has of a table, and all that it has.
sub item { return "(SELECT concat_ws(' ', state, reason) FROM parvacuum_queue_items() WHERE relid = " . oid_of($_[0]) . ')'; }
sub until_item
{
	my ($table, $state, $what) = @_;
	ok(pv_await($node, 'SELECT ' . item($table), $state), $what) or die join "\n", queue();
	return;
}
sub queue { return sql('SELECT * FROM parvacuum_queue'), sql('SELECT * FROM parvacuum_scheduler_stats()'), pv_processes($node); }
sub stat_of { return sql("SELECT $_[0] FROM parvacuum_scheduler_stats()"); }

# Wait until a pass over the database that began after now is over: a table that
# needs a vacuum from now on has been vacuumed, and nothing is left in the queue.
my $running = q{SELECT count(*) FROM parvacuum_queue_items() WHERE state = 'running'};
my $active = q{SELECT count(*) FROM parvacuum_queue_items() WHERE state <> 'waiting'};
my $bell = 0;
sub round_of
{
	for (1 .. 2)
	{
		$bell++;
		sql('UPDATE bell SET i = i + 1');
		pv_await($node, 'SELECT ' . vacuum_sql('bell') . " >= $bell", 'true') or diag 'no pass: ', queue();
		pv_await($node, $active, 0) or diag 'no end of the pass: ', queue();
	}
	return;
}

# Slower or faster: cost units for all scheduler workers together, once the launcher has told them.
sub speed
{
	my ($rate) = @_;
	reload_with('parvacuum.scheduler_max_cost' => $rate);
	ok(pv_await($node, 'SELECT max_cost FROM parvacuum_scheduler_stats()', $rate), "speed: $rate");
	return;
}

my $in = 'parvacuum.enabled';
my $calm = 'autovacuum_analyze_threshold = 1000000';

# A page that gets dirty costs more than 20 units, so at this speed 500 pages take five seconds.
my $slowly = 2000;

# Tables of so many pages, three rows on each.  They are vacuumed when the session
# that has filled them has ended, and all that it did is known.
sub make_tables
{
	my ($pages, @tables) = @_;
	sql(map { ("CREATE TABLE $_ (id int, pad char(2400))", "ALTER TABLE $_ ALTER pad SET STORAGE PLAIN",
			"INSERT INTO $_ SELECT i, 'x' FROM generate_series(1, 3 * $pages) i",
			"ALTER TABLE $_ SET ($in, $calm, autovacuum_vacuum_insert_threshold = -1)") } @tables);
	sql(map { "VACUUM $_" } @tables);
	return;
}

# Dead rows in clean pages, in each of a table.
my $dead = 0;
sub make_dead
{
	my (@tables) = @_;
	$dead = ($dead + 1) % 3;
	return sql(map({ ("ALTER TABLE $_ SET (autovacuum_enabled = off)", "UPDATE $_ SET id = id WHERE id % 3 = $dead") } @tables),
		'CHECKPOINT', map { "ALTER TABLE $_ SET (autovacuum_enabled = on)" } @tables);
}
sub worker_of { return sql("SELECT pid FROM parvacuum_queue WHERE relid = '$_[0]'::regclass AND state = 'running'"); }

sub start_slow
{
	my ($table, $what) = @_;
	speed($slowly);
	make_dead($table);
	until_item($table, 'running', "$what: a slow vacuum");
	ok(pv_await($node, "SELECT heap_blks_scanned > 0 FROM pg_stat_progress_vacuum WHERE relid = '$table'::regclass", 'true'), "$what: in the midst");
	return;
}

my ($count, $pid, $begun);

sql('CREATE TABLE bell (i int) WITH (parvacuum.enabled, autovacuum_vacuum_threshold = 0, autovacuum_vacuum_scale_factor = 0, autovacuum_analyze_threshold = 1000000000)',
	'INSERT INTO bell VALUES (0)');
is(stat_of('passes'), 0, 'the scheduler is off by default');

#
# What needs something, and what that is.  Each table has 1000 rows, just
# vacuumed; then comes a statement, and what is expected are vacuums and analyzes.
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

# TOAST tables, of a thousand chunks
my $low = 'autovacuum_vacuum_threshold = 10, autovacuum_vacuum_scale_factor = 0';
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

# and a materialized view
sql('CREATE TABLE base AS SELECT i, i AS k FROM generate_series(1, 1000) i',
	'CREATE MATERIALIZED VIEW seen AS SELECT * FROM base', 'CREATE UNIQUE INDEX ON seen (i)',
	"ALTER MATERIALIZED VIEW seen SET ($in)");

# When a session ends, it has reported all that it did.
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

# beside all that, rows of a catalog, and of one that is shared
sql(map { ("CREATE TABLE wide AS SELECT " . join(', ', map { "1 AS c$_" } 1 .. 400), 'DROP TABLE wide') } 1 .. 3);
sql('CREATE ROLE noted', map { "COMMENT ON ROLE noted IS 'note $_'" } 1 .. 300);
my $catalogs = q{SELECT coalesce(sum(vacuum_count + autovacuum_count), 0) FROM pg_stat_sys_tables WHERE schemaname = 'pg_catalog'};
my $of_catalogs = sql($catalogs);
my $of_shared = q{SELECT sum(vacuum_count + autovacuum_count) FROM pg_stat_all_tables WHERE relid IN (SELECT oid FROM pg_class WHERE relisshared)};
my $shared = sql($of_shared);

reload_with('parvacuum.scheduler' => 'on');
round_of();
sql(map({ sprintf $_->[2], $_->[0] } @cases), map({ "DELETE FROM $_ WHERE id % 3 = 0" } sort keys %fat),
	'UPDATE base SET k = 7 WHERE i <= 300', 'REFRESH MATERIALIZED VIEW CONCURRENTLY seen');
round_of();
is(gain($_->[0]), $_->[3], "$_->[0]: vacuums and analyzes") for @cases;
is(join('|', map { (split /\|/, gain($_))[0] } $_, "toast of $_"), $fat{$_}[1], "$_: vacuums of it and of its TOAST table") for sort keys %fat;
is(gain('seen'), '1|1', 'a materialized view');
is(sql($catalogs), $of_catalogs, 'no catalog without the setting');
is(sql('SELECT count(*) FROM parvacuum_queue'), 0, 'nothing is left');
is(stat_of('errors'), 0, 'and nothing failed');

# what was deleted is gone, what was not is there
is(sql('SELECT n_dead_tup, n_live_tup FROM pg_stat_user_tables WHERE relname = \'dead\''), '0|749', 'the statistics know it');
is(pv_findings($node, $_), '', "$_ is whole") for qw(dead inserted part fat_inherits fat_only seen);
unlike(slurp_file($node->logfile), qr/PostgreSQL's own VACUUM/, 'by the engine');

#
# A whole database, catalogs included
#
$node->safe_psql('postgres', 'CREATE DATABASE whole');
$node->safe_psql('postgres', 'ALTER DATABASE whole SET parvacuum.enabled = on');
$node->safe_psql('whole', join ";\n", 'CREATE TABLE t AS SELECT i FROM generate_series(1, 1000) i', 'CREATE TABLE no (i int) WITH (parvacuum.enabled = off)',
	'INSERT INTO no SELECT i FROM t', 'DELETE FROM no', 'DELETE FROM t WHERE i <= 600',
	map { ("CREATE TABLE wide AS SELECT " . join(', ', map { "1 AS c$_" } 1 .. 400), 'DROP TABLE wide') } 1 .. 5);
sub of_whole { return "SELECT vacuum_count + autovacuum_count FROM pg_stat_all_tables WHERE relid = '$_[0]'::regclass"; }
ok($node->poll_query_until('whole', 'SELECT (' . of_whole($_) . ') > 0'), "a database of its own: $_") for qw(t pg_attribute);
is($node->safe_psql('whole', of_whole('no')), 0, 'but not what opted out');
is($node->safe_psql('whole', $of_shared), $shared, 'nor what is shared');
$node->safe_psql('postgres', 'DROP DATABASE whole');

#
# The same as stock makes of a twin
#
for my $kind (qw(updates toast multixacts tail))
{
	sql("SET client_min_messages = warning;\n\\o /dev/null\nSELECT * FROM oracle.make_twins('$kind', 4000, ARRAY['btree', 'gin', 'hash'], 400) \\gexec\n\\o\n");
	my $before = vacuums('ours');
	sql('VACUUM stock');
	sql("ALTER TABLE ours SET ($in, $low, toast.autovacuum_vacuum_threshold = 10, toast.autovacuum_vacuum_scale_factor = 0)",
		'ALTER TABLE ours RESET (autovacuum_enabled, toast.autovacuum_enabled)');
	until_vacuumed('ours', $before + 1, "$kind: it is vacuumed");
	round_of();
	is(pv_differences($node, 'relfrozenxid', 'relminmxid'), '', "$kind: as stock does it");
	sql('DROP TABLE stock, ours');
}

#
# Ages: by the table's options, for tables that are not to be vacuumed otherwise,
# too.  100000 transactions is the least that such an option can say.
#
my %is_young = (old => 'age(relfrozenxid) < 50000', old_multi => 'age(relfrozenxid) < 50000 AND mxid_age(relminmxid) < 5000');
sql(map { ("CREATE TABLE $_->[0] (id int)", "INSERT INTO $_->[0] SELECT i FROM generate_series(1, 1000) i",
		"ALTER TABLE $_->[0] SET ($in, autovacuum_enabled = off, autovacuum_freeze_min_age = 0, autovacuum_multixact_freeze_min_age = 0, $_->[1])") }
	[ old => 'autovacuum_freeze_max_age = 100000' ], [ old_multi => 'autovacuum_multixact_freeze_max_age = 10000' ], [ young => 'autovacuum_freeze_max_age = 1000000' ]);
round_of();
is(vacuums($_), 0, "$_: not yet") for qw(old old_multi young);
my $reader = $node->background_psql('postgres');
$reader->query_safe('BEGIN ISOLATION LEVEL REPEATABLE READ; SELECT count(*) FROM bell');
my $xids = sql('SELECT txid_current()');
sql(q{DO $$ BEGIN FOR i IN 1 .. 90100 LOOP PERFORM txid_current(); COMMIT; END LOOP; END $$});
cmp_ok(sql('SELECT txid_current()') - $xids, '>', 90000, '90000 transactions');

# once in vain, since somebody may still see what was then; not before that changes again
until_item('old', 'waiting horizon', 'old: vacuumed for its age, in vain');
my $by_horizon = stat_of('skipped_horizon');
ok(pv_await($node, "SELECT skipped_horizon >= $by_horizon + 3 FROM parvacuum_scheduler_stats()", 'true'), 'old: pass by pass it waits');
is(vacuums('old'), 1, 'old: it was once');
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
	is(sql("SELECT $is_young{$table} FROM pg_class WHERE oid = '$table'::regclass"), 't', "$table: and young again");
}
round_of();
is(vacuums($_), { old => 2, old_multi => 1, young => 0 }->{$_}, "$_: once, at nine tenths of its age") for qw(old old_multi young);
sql('DROP TABLE old, old_multi, young, shared');

#
# Beside core's autovacuum
#
my @many = map { "many_$_" } 1 .. 60;
sql(map { ("CREATE TABLE $_ (id int)", "INSERT INTO $_ SELECT i FROM generate_series(1, 1000) i", "ALTER TABLE $_ SET ($in, $calm)") } @many);
sql(map { "VACUUM $_" } @many);
reload_with(autovacuum => 'on');
my $of_many = q{SELECT %s FROM pg_stat_user_tables WHERE relname LIKE 'many%%'};
for my $round (1 .. 3)
{
	sql(map { "DELETE FROM $_ WHERE id % 3 = $round - 1" } @many);
	ok(pv_await($node, sprintf($of_many, sprintf 'bool_and(vacuum_count + autovacuum_count > %d)', $round), 'true'), "beside autovacuum: all are vacuumed");
}
round_of();
note 'of these by autovacuum: ', sql(sprintf $of_many, 'sum(autovacuum_count)');

# core looks at the statistics, and then takes the lock: a vacuum may just have ended between
my $vacuums_of_many = sql(sprintf $of_many, 'sum(vacuum_count + autovacuum_count)');
cmp_ok($vacuums_of_many, '>=', 4 * @many, 'all of them');
cmp_ok($vacuums_of_many, '<=', 4 * @many + 2, 'and none twice, but for what core has begun with');
reload_with(autovacuum => 'off');
$node->poll_query_until('postgres', q{SELECT count(*) = 0 FROM pg_stat_activity WHERE backend_type LIKE 'autovacuum%'});

#
# The window
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
until_vacuumed($_, 2, "$_: it runs") for qw(w_now w_urgent);
until_item($_, 'waiting window', "$_: it waits") for qw(w_never w_later w_asked);
round_of();
is(vacuums($_), 1, "$_: for longer") for qw(w_never w_later w_asked);
cmp_ok(stat_of('skipped_window'), '>=', $skipped + 3, 'and that is counted');
is(sql(q{SELECT until IS NULL, state FROM parvacuum_queue WHERE relid = 'w_never'::regclass}), 't|waiting', 'never: until nobody knows when');
is(sql(q{SELECT to_char(until AT TIME ZONE 'UTC', 'HH24:MI'), reason FROM parvacuum_queue WHERE "table" = 'w_later'::regclass}),
	substr($later, 0, 5) . '|window', 'later: until then');
sql(q{SELECT parvacuum_enqueue('w_asked')});
until_vacuumed('w_asked', 2, 'who asks for it does not wait');
sql(q{ALTER TABLE w_never SET (parvacuum."window" = '')});
until_vacuumed('w_never', 2, 'a window that opens');
sql(q{UPDATE pg_class SET relfrozenxid = ((txid_current() - 190000000) & 4294967295)::text::xid WHERE relname = 'w_later'});
until_vacuumed('w_later', 2, 'wraparound does not wait');

sql(q{ALTER DATABASE postgres SET parvacuum."window" = 'never'}, map { "DELETE FROM $_ WHERE id <= 300" } qw(w_database w_open_database));
until_vacuumed('w_open_database', 2, "with a window of its own the database's does not count");
until_item('w_database', 'waiting window', "the database's window");
sql('ALTER DATABASE postgres RESET parvacuum."window"');
until_vacuumed('w_database', 2, 'until it opens');
sql('DROP TABLE ' . join ', ', @windows, qw(w_database w_open_database));

#
# Dead rows that somebody can still see
#
sql('CREATE TABLE seen_by (id int)', 'INSERT INTO seen_by SELECT i FROM generate_series(1, 1000) i', "ALTER TABLE seen_by SET ($in, $calm)");
sql('CREATE TABLE seen_hot (id int)', 'INSERT INTO seen_hot SELECT i FROM generate_series(1, 1000) i',
	"ALTER TABLE seen_hot SET ($in, autovacuum_analyze_threshold = 5, autovacuum_analyze_scale_factor = 0)");
sql('VACUUM seen_by', 'VACUUM ANALYZE seen_hot');
$reader = $node->background_psql('postgres');
$reader->query_safe('BEGIN ISOLATION LEVEL REPEATABLE READ; SELECT count(*) FROM seen_by');
$by_horizon = stat_of('skipped_horizon');
sql('DELETE FROM seen_by WHERE id <= 500');
until_item('seen_by', 'waiting horizon', 'what is still seen waits');
ok(pv_await($node, "SELECT skipped_horizon >= $by_horizon + 3 FROM parvacuum_scheduler_stats()", 'true'), 'pass by pass, counted');
is(vacuums('seen_by'), 2, 'vacuumed once');
is(sql('SELECT n_dead_tup FROM pg_stat_user_tables WHERE relname = \'seen_by\''), 500, 'in vain');
for my $times (1 .. 3)
{
	sql('DELETE FROM seen_hot WHERE id <= 500 + 10 * ' . $times);
	ok(pv_await($node, q{SELECT analyze_count FROM pg_stat_user_tables WHERE relname = 'seen_hot'}, 1 + $times), "what is changed meanwhile is analyzed, $times");
	until_item('seen_hot', 'waiting horizon', "and waits, $times");
}
is(vacuums('seen_hot'), 2, 'vacuumed once');
$reader->query_safe('COMMIT');
$reader->quit;
for my $table (qw(seen_by seen_hot))
{
	until_vacuumed($table, 3, "$table: and when nobody sees it any more");
	is(sql("SELECT n_dead_tup FROM pg_stat_user_tables WHERE relname = '$table'"), 0, "$table: not in vain");
}
sql('DROP TABLE seen_by, seen_hot');

#

#
# Who gives way
#
make_tables(500, qw(gives not_for_age stops));
start_slow('gives', 'a lock');
my $locker = $node->background_psql('postgres');
$begun = time;
$locker->query_safe(q{SET lock_timeout = '3s'; BEGIN; LOCK TABLE gives IN ACCESS EXCLUSIVE MODE});
cmp_ok(time - $begun, '<', 2, 'a lock: is had soon after deadlock_timeout');
like(slurp_file($node->logfile), qr/canceling statement due to user request\n.*CONTEXT:  (?:.*\n)?.*parvacuum's scheduled vacuum of table "public\.gives"/, 'a lock: the log says what was cancelled');
until_item('gives', 'waiting lock', 'a lock: it waits for whoever has it');
my $locked = stat_of('skipped_lock');
ok(pv_await($node, "SELECT skipped_lock > $locked FROM parvacuum_scheduler_stats()", 'true'), 'a lock: which is counted');
is(vacuums('gives'), 1, 'a lock: not vacuumed yet');
$locker->query_safe('COMMIT');
speed(0);
until_vacuumed('gives', 2, 'a lock: a later pass does it');
is(pv_findings($node, 'gives'), '', 'a lock: and the table is whole');

# a statement that needs a lock, from end to end
start_slow('not_for_age', 'wraparound');
is(($node->psql('postgres', q{SET lock_timeout = '3s'; ALTER TABLE not_for_age SET (fillfactor = 90, autovacuum_freeze_max_age = 150000000)}))[0], 0, 'ALTER TABLE gets through');
sql(q{UPDATE pg_class SET relfrozenxid = ((txid_current() - 190000000) & 4294967295)::text::xid WHERE relname = 'not_for_age'});
ok(pv_await($node, q{SELECT wraparound FROM parvacuum_queue_items() WHERE relid = 'not_for_age'::regclass AND state = 'running'}, 'true'), 'wraparound: it runs');
$pid = worker_of('not_for_age');
like(($node->psql('postgres', q{SET lock_timeout = '500ms'; ALTER TABLE not_for_age SET (fillfactor = 100)}))[2], qr/lock timeout/, 'wraparound: others wait');
is(worker_of('not_for_age'), $pid, 'wraparound: and it goes on');
like(sql("SELECT query FROM pg_stat_activity WHERE pid = $pid"), qr/VACUUM public\.not_for_age \(to prevent wraparound\)/, 'wraparound: pg_stat_activity says what for');
speed(0);
until_vacuumed('not_for_age', 2, 'wraparound: to its end');

# which is not waited for either, by the only scheduler worker
reload_with('parvacuum.scheduler_workers' => 1);
$locker->query_safe('BEGIN; LOCK TABLE not_for_age IN SHARE UPDATE EXCLUSIVE MODE');
sql(q{UPDATE pg_class SET relfrozenxid = ((txid_current() - 190000000) & 4294967295)::text::xid WHERE relname = 'not_for_age'});
until_item('not_for_age', 'waiting lock', 'wraparound: a locked table');
make_dead('gives');
until_vacuumed('gives', 3, 'wraparound: nobody waits with it');
like(slurp_file($node->logfile), qr/LOG: .*parvacuum's scheduler skipped table "not_for_age"/, 'wraparound: the log says that it was locked');
$locker->query_safe('COMMIT');
$locker->quit;
until_vacuumed('not_for_age', 3, 'wraparound: and then it is vacuumed');
reload_with('parvacuum.scheduler_workers' => 3);

#
# VACUUM and ANALYZE are two transactions.  Others do not ignore the snapshot of ANALYZE, and it gives
# way to a session that waits for its lock, also if the table is small or was vacuumed for its age.
#
sub create_function { return 'CREATE OR REPLACE FUNCTION waits(i int) RETURNS int LANGUAGE plpgsql IMMUTABLE AS $$BEGIN ' . $_[0] . ' RETURN i; END$$'; }
my %of_size = (at_once => 10, for_age => 10, one_by_one => 5000);
sql(create_function(''), 'CREATE TABLE removed (i int)');
sql(map { ("CREATE TABLE $_ (id int, pad char(500))", "ALTER TABLE $_ ALTER pad SET STORAGE PLAIN", "INSERT INTO $_ SELECT i, 'x' FROM generate_series(1, $of_size{$_}) i",
		"CREATE INDEX ${_}_idx ON $_ (waits(id))", "VACUUM ANALYZE $_") } sort keys %of_size);
sql(create_function('PERFORM pg_advisory_xact_lock_shared(1);'));
my $holder = $node->background_psql('postgres');
$holder->query_safe('SELECT pg_advisory_lock(1)');
for my $table (sort keys %of_size)
{
	my $statistics = "SELECT reltuples, (SELECT analyze_count FROM pg_stat_user_tables WHERE relid = '$table'::regclass) FROM pg_class WHERE oid = '$table'::regclass";
	my $left = $of_size{$table} / 5;

	sql("ALTER TABLE $table SET ($in, autovacuum_vacuum_threshold = 5, autovacuum_vacuum_scale_factor = 0, autovacuum_analyze_threshold = 5, autovacuum_analyze_scale_factor = 0)",
		'BEGIN', "DELETE FROM $table WHERE id % 5 > 0",
		q{UPDATE pg_class SET relfrozenxid = ((txid_current() - 190000000) & 4294967295)::text::xid WHERE relname = '} . ($table eq 'for_age' ? $table : '') . q{'},
		'SELECT pg_stat_force_next_flush()', 'COMMIT');
	ok(pv_await($node, q{SELECT count(*) FROM pg_locks WHERE locktype = 'advisory' AND NOT granted}, 1), "$table: ANALYZE is in the midst");
	$pid = worker_of($table);
	is(sql("SELECT count(*) FROM pg_locks WHERE pid = $pid AND relation = '${table}_idx'::regclass AND mode = 'RowExclusiveLock'"), 0,
		"$table: the transaction of the vacuum is over");
	is(sql($statistics), "$left|1", "$table: the vacuum is done");
	sql('INSERT INTO removed VALUES (1)', 'DELETE FROM removed');
	sql('VACUUM removed');
	is(sql(q{SELECT pg_relation_size('removed') > 0}), 't', "$table: what its snapshot sees is not removed");
	is(($node->psql('postgres', "BEGIN; SET LOCAL lock_timeout = '5s'; LOCK TABLE $table; COMMIT"))[0], 0, "$table: whoever wants the lock has it");
	is(sql($statistics), "$left|1", "$table: the vacuum stays done");
	sql("ALTER TABLE $table SET (autovacuum_enabled = off)");
	ok(pv_await($node, q{SELECT count(*) FROM pg_locks WHERE locktype = 'advisory' AND NOT granted}, 0), "$table: nobody waits any more");
	sql('VACUUM removed');
	is(sql(q{SELECT pg_relation_size('removed')}), 0, "$table: and then it is removed");
}
$holder->query_safe('SELECT pg_advisory_unlock(1)');
$holder->quit;
sql(map { "ALTER TABLE $_ SET (autovacuum_enabled = on)" } sort keys %of_size);
for my $table (sort keys %of_size)
{
	ok(pv_await($node, "SELECT analyze_count FROM pg_stat_user_tables WHERE relid = '$table'::regclass", 2), "$table: a later pass analyzes it");
	is(pv_findings($node, $table), '', "$table: is whole");
}
sql('DROP TABLE removed, ' . join(', ', sort keys %of_size));

#
# parvacuum_cancel() and parvacuum_enqueue()
#
sub naptime { return reload_with(autovacuum_naptime => $_[0]); }

start_slow('stops', 'cancel');
naptime(3600);
is(sql(q{SELECT parvacuum_cancel('stops'::regclass)}), 't', 'cancel: a table');
until_item('stops', 'waiting canceled', 'cancel: it waits');
is(sql(q{SELECT parvacuum_cancel('stops'::regclass)}), 'f', 'cancel: there is nothing to cancel any more');
my $stale = $node->background_psql('postgres');
$stale->query_safe('BEGIN; SELECT count(*) FROM pg_stat_activity');
sql(q{SELECT parvacuum_enqueue('stops')});
until_item('stops', 'running', 'enqueue: it is vacuumed again at once');
is($stale->query_safe('SELECT parvacuum_cancel(' . worker_of('stops') . ')'), 't', 'cancel: a process, newer than what the transaction knows');
$stale->quit;
until_item('stops', 'waiting canceled', 'cancel: it waits again');
is(stat_of('errors'), 0, 'cancel: that is no error');

# asked for while it runs, it is done once more
speed(0);
$count = vacuums('stops');
sql(q{SELECT parvacuum_enqueue('stops', 5)});
until_vacuumed('stops', $count + 1, 'enqueue: it is done');
speed($slowly / 10);
make_dead('stops');
sql(q{SELECT parvacuum_enqueue('stops', 5)});
until_item('stops', 'running', 'enqueue: running');
sql(q{SELECT parvacuum_enqueue('stops', 7)});
is(sql(q{SELECT priority, state FROM parvacuum_queue WHERE relid = 'stops'::regclass}), '7|running', 'enqueue: it stays running');
speed(0);
until_vacuumed('stops', $count + 3, 'enqueue: and is vacuumed twice');

# with its TOAST table, all partitions, and what is not to be vacuumed otherwise
$count = vacuums('toast of fat_off');
my $of_part = vacuums('part');
my $of_part_no = vacuums('part_no');
sql(q{SELECT parvacuum_enqueue('fat_off'), parvacuum_enqueue('parted', 3), parvacuum_enqueue('out'), parvacuum_enqueue('seen')});
until_vacuumed('toast of fat_off', $count + 1, 'enqueue: a TOAST table');
until_vacuumed('part', $of_part + 1, 'enqueue: a partition');
until_vacuumed('part_no', $of_part_no + 1, 'enqueue: another');
until_vacuumed('out', 2, 'enqueue: a table that did not opt in, by core');
cmp_ok(sql(q{SELECT pg_relation_size('out')}), '>', 0, 'enqueue: as its options say');
is(sql(q{CREATE TEMP TABLE child () INHERITS (out)}, q{SELECT coalesce(max(result) FILTER (WHERE relid = 'child'::regclass), 'no row') FROM parvacuum_enqueue('out')}, q{SELECT count(*) FROM parvacuum_queue WHERE relid = 'child'::regclass}), ($node->pg_version >= 18 ? 'temporary' : 'no row') . "\n0",
	'enqueue: not what only its session can vacuum');
until_vacuumed('out', 3, 'enqueue: its parent is');
reload_with('parvacuum.engine' => 'off');
sql(q{SELECT parvacuum_enqueue('dead')});
until_vacuumed('dead', 3, 'enqueue: the engine is off');
reload_with('parvacuum.engine' => 'on');

# queued behind another
reload_with('parvacuum.scheduler_workers' => 1);
speed($slowly / 10);
make_dead('gives');
sql(q{SELECT parvacuum_enqueue('gives', 20)});
until_item('gives', 'running', 'cancel: the only scheduler worker is busy');
sql(q{SELECT parvacuum_enqueue('stops', 10)});
until_item('stops', 'queued', 'cancel: another is queued');
is(sql(q{SELECT parvacuum_cancel('stops'::regclass)}), 't', 'cancel: it can be taken out');
until_item('stops', 'waiting canceled', 'cancel: and waits');
speed(0);

# A shorter naptime holds from now on.
ok(pv_await($node, $active, 0), 'the queue is empty');
my $passes = stat_of('passes');
naptime(1);
ok(pv_await($node, "SELECT passes > $passes FROM parvacuum_scheduler_stats()", 'true'), 'a shorter naptime holds at once');
round_of();

#
# What changes while tables are queued, and no scan sees it
#
my @changes = map { "changes_$_" } 1 .. 3;
make_tables(200, @changes);
speed($slowly / 5);
reload_with('parvacuum.scheduler' => 'off');
make_dead(@changes);
reload_with('parvacuum.scheduler' => 'on', autovacuum_naptime => 3600);
ok(pv_await($node, $running, 1), 'changes: one is in work');
ok(pv_await($node, $active, 3), 'changes: two are queued');
my ($out, $shut) = split /\n/, sql(q{SELECT "table" FROM parvacuum_queue WHERE state = 'queued'});
sql("ALTER TABLE $out SET ($in = off)", qq{ALTER TABLE $shut SET (parvacuum."window" = 'never')});
speed(0);
ok(pv_await($node, $active, 0), 'changes: nothing is left');
is(join('|', map { vacuums($_) } $out, $shut), '1|1', 'changes: neither who opted out is vacuumed, nor who got a window');
is(sql('SELECT ' . item($out)), '', 'changes: the one is forgotten');
is(sql('SELECT ' . item($shut)), 'waiting window', 'changes: the other waits');
naptime(1);
sql('DROP TABLE ' . join ', ', @changes);

#
# Reloads, while tables are queued
#
my @queued = map { "queued_$_" } 1 .. 8;
make_tables(200, @queued);
speed($slowly / 5);
make_dead(@queued);
ok(pv_await($node, $running, 1), 'one scheduler worker');
reload_with('parvacuum.scheduler_workers' => 4);
ok(pv_await($node, $running, 4), 'scheduler_workers = 4: four');
reload_with('parvacuum.scheduler_workers' => 2);
speed($slowly * 4);
ok(pv_await($node, $running, 2), 'scheduler_workers = 2: two, when they have done their tables');
reload_with('parvacuum.scheduler' => 'off');
speed(0);
ok(pv_await($node, q{SELECT count(*) FROM pg_stat_activity WHERE backend_type = 'parvacuum scheduler worker'}, 0), 'off: all leave, after the tables at hand');
my $of_queued = q{SELECT %s FROM pg_stat_user_tables WHERE relname LIKE 'queued%%'};
cmp_ok(sql(sprintf $of_queued, 'sum(vacuum_count)'), '<', 2 * @queued, 'off: not after all');
like(($node->psql('postgres', q{SELECT parvacuum_enqueue('bell')}))[2], qr/the scheduler is not running/, 'off: nothing can be enqueued');
reload_with('parvacuum.scheduler' => 'on');
ok(pv_await($node, sprintf($of_queued, 'min(vacuum_count)'), 2), 'on again: the rest is done');
round_of();
is(sql(sprintf $of_queued, 'sum(vacuum_count)'), 2 * @queued, 'on again: each once');
sql('DROP TABLE ' . join ', ', @queued);

#
# Speed
#
sub units_per_second
{
	my ($seconds) = @_;
	my $from = stat_of('cost_units');
	my $begun = time;
	sleep $seconds;
	my $to = stat_of('cost_units');
	return ($to - $from) / (time - $begun);
}

sub is_near
{
	my ($is, $should, $what, $least) = @_;
	note sprintf '%s: %.0f units a second of %d', $what, $is, $should;
	cmp_ok($is, '>', ($least // 0.88) * $should, "$what: what is allowed is used");
	cmp_ok($is, '<', 1.12 * $should, "$what: and not more");
	return;
}

# Small tables, none of which is worth a sleep, each vacuumed and analyzed.
my @tiny = map { "tiny_$_" } 1 .. 200;
reload_with('parvacuum.scheduler' => 'off');
sql(map { ("CREATE TABLE $_ (a int) WITH ($in)", "INSERT INTO $_ SELECT generate_series(1, 100)", "DELETE FROM $_ WHERE a > 10") } @tiny);
speed(10000);
{
	my $from = stat_of('cost_units');
	my $begun = time;
	reload_with('parvacuum.scheduler' => 'on');
	ok(pv_await($node, q{SELECT count(*) FROM pg_stat_user_tables WHERE relname LIKE 'tiny%' AND vacuum_count > 0 AND analyze_count > 0}, scalar @tiny),
		'small tables: all are done');
	my $speed = (stat_of('cost_units') - $from) / (time - $begun);
	note sprintf 'small tables: %.0f units a second of 10000', $speed;
	cmp_ok($speed, '<', 11000, 'small tables: not more than is allowed');
}
speed(0);
sql('DROP TABLE ' . join ', ', @tiny);

# A limit of the table's own says nothing where there is no delay.
make_tables(200, 'own_limit');
sql('ALTER TABLE own_limit SET (autovacuum_vacuum_cost_limit = 1000)');
start_slow('own_limit', 'a limit without a delay');
is_near(units_per_second(1.2), $slowly, 'a limit without a delay', 0.7);
speed(0);
ok(pv_await($node, $active, 0), 'a limit without a delay: the table is done');
sql('DROP TABLE own_limit');

my @payers = map { "payer_$_" } 1 .. 8;
make_tables(400, @payers);
reload_with('parvacuum.scheduler_max_cost' => -1, autovacuum_vacuum_cost_limit => 20, autovacuum_vacuum_cost_delay => 2);
is(stat_of('max_cost'), 10000, 'the speed of autovacuum');
reload_with('parvacuum.scheduler_workers' => 1);
make_dead(@payers);
for my $workers (1, 4)
{
	reload_with('parvacuum.scheduler_workers' => $workers);
	ok(pv_await($node, $running, $workers), "$workers at work");
	is_near(units_per_second(3), 10000, "$workers at work");
}
reload_with(autovacuum_vacuum_cost_delay => 4);
is_near(units_per_second(1.5), 5000, 'a longer delay, reloaded');

# At a rate at which a page takes longer than a scheduler worker sleeps at a time; then what is owed
# is waited for at the new rate.
speed(20);
my $slow = units_per_second(6);
note sprintf 'a very low rate: %.0f units a second of 20', $slow;
cmp_ok($slow, '<', 90, 'a very low rate is kept to');
speed(10000);
is_near(units_per_second(3), 10000, 'a higher one is had within a second', 0.4);
speed(0);
is(stat_of('max_cost'), 0, 'no limit');
ok(pv_await($node, $active, 0), 'no limit: and all are done');
sql('DROP TABLE ' . join ', ', @payers);

#
# A hot table beside large ones, of more than 64 MB, that take minutes, and 200
# others
#
my @large = qw(large_a large_b);
my @others = map { "other_$_" } 1 .. 200;
make_tables(8400, @large);
sql(map { ("CREATE TABLE $_ (id int) WITH ($in, $calm)", "INSERT INTO $_ SELECT i FROM generate_series(1, 600) i") } @others);
sql('CREATE TABLE hot (id int, k int) WITH (fillfactor = 50)', 'INSERT INTO hot SELECT i, 0 FROM generate_series(1, 1000) i', "ALTER TABLE hot SET ($in, $calm)");
sql(map { "VACUUM $_" } @others, 'hot');
my $of_others = q{SELECT count(*) FROM pg_stat_user_tables WHERE relname LIKE 'other%' AND vacuum_count = };
my $n = 1;

for my $workers (1, 2)
{
	my $what = "$workers at work, on a large table";
	speed(6000);
	reload_with('parvacuum.scheduler_workers' => $workers);
	$count = vacuums('hot');
	make_dead(@large);
	ok(pv_await($node, q{SELECT string_agg(concat_ws(' ', state, reason, size_class), ', ' ORDER BY state DESC)
		FROM parvacuum_queue_items() WHERE relid IN ('large_a'::regclass, 'large_b'::regclass)}, 'running large, queued large tables large'), "$what: one of them") or diag queue();
	$pid = sql(q{SELECT pid FROM parvacuum_queue WHERE state = 'running' AND size_class = 'large'});
	sql(q{SELECT parvacuum_enqueue('large_b', 500)});
	make_dead(@others);
	ok(pv_await($node, q{SELECT count(*) > 100 FROM parvacuum_queue WHERE state = 'queued'}, 'true'), "$what: others are queued");

	# The hot table waits for the next look and the table that is in work then;
	# that it is not last shows how many of the others are left.
	$begun = time;
	sql('UPDATE hot SET k = k + 1');
	until_vacuumed('hot', $count + 1, "$what: the hot table is vacuumed");
	my $waited = time - $begun;
	my $done = sql("$of_others 1 + $workers");
	note sprintf '%s: the hot table waited %.1f s, %d of the others came before', $what, $waited, $done;
	cmp_ok($waited, '<', 5, "$what: soon");
	cmp_ok($done, '<', @others, "$what: before the last of the others");
	ok(pv_await($node, "$of_others 1 + $workers", scalar @others), "$what: and the others are");
	is(sql(q{SELECT pid FROM parvacuum_queue WHERE state = 'running' AND size_class = 'large'}), $pid, "$what: while that goes on");

	# faster, and the large table's vacuum learns of it
	if ($workers == 2)
	{
		# what the others have used may still have to be waited for
		is_near(units_per_second(4), 6000, "$what: slow", 0.7);
		speed(60000);
		is_near(units_per_second(4), 60000, "$what: ten times as fast", 0.7);
	}
	speed(0);
	ok(pv_await($node, $active, 0), "$what: and all are done");
}
is(pv_findings($node, $_), '', "$_ is whole") for qw(large_a hot other_1);

# Fewer workers than large tables in work: there still is one for small tables.
speed(6000);
reload_with('parvacuum.scheduler_workers' => 3);
make_dead(@large);
my $on_large = q{SELECT string_agg(pid::text, ' ' ORDER BY relid) FROM parvacuum_queue WHERE state = 'running' AND size_class = 'large'};
ok(pv_await($node, "SELECT count(*) FROM parvacuum_queue WHERE state = 'running' AND size_class = 'large'", 2), 'fewer workers: two are on large tables');
my @pids = sql($on_large);
for my $workers (1, 2)
{
	reload_with('parvacuum.scheduler_workers' => $workers);
	for (1 .. 2)
	{
		$count = vacuums('hot');
		sql('UPDATE hot SET k = k + 1');
		until_vacuumed('hot', $count + 1, "fewer workers, $workers: the hot table is vacuumed");
	}
}
is_deeply([ sql($on_large) ], \@pids, 'fewer workers: while both go on');
reload_with('parvacuum.scheduler_workers' => 2);
speed(0);
ok(pv_await($node, $active, 0), 'fewer workers: and all are done');

#
# What limits users' statements does not limit it: the vacuum takes five seconds.
#
my @limits = ('statement_timeout', $node->pg_version >= 17 ? 'transaction_timeout' : ());
make_tables(500, 'limited');
sql(map { "ALTER DATABASE postgres SET $_ = '1s'" } @limits);
{
	local $ENV{PGOPTIONS} = join ' ', map { "-c $_=0" } @limits;
	reload_with('parvacuum.scheduler' => 'off');
	reload_with('parvacuum.scheduler' => 'on');
	$count = vacuums('limited');
	start_slow('limited', 'limits');
	until_vacuumed('limited', $count + 1, 'limits: the vacuum ends');
	is(stat_of('errors'), 0, 'limits: without an error');
	sql(map { "ALTER DATABASE postgres RESET $_" } @limits);
}

#
# A rate that no setting of a cost limit can say; workers are started all the same.
#
reload_with('parvacuum.scheduler' => 'off', vacuum_cost_limit => 300, vacuum_cost_delay => 1);
reload_with('parvacuum.scheduler' => 'on', 'log_autovacuum_min_duration' => 0);
speed(2000000);
$count = vacuums('limited');
my $from = -s $node->logfile;
make_dead('limited');
until_vacuumed('limited', $count + 1, 'a high rate: the vacuum ends');
is(stat_of('errors'), 0, 'a high rate: without an error');
ok($node->wait_for_log(qr/vacuum of table "postgres\.public\.limited"/, $from), 'a high rate: it is logged');
unlike(slurp_file($node->logfile, $from), qr/outside the valid range/, 'a high rate: workers are content');

#
# On a slow disk waiting for it would be most of the time: of 100 tables nearly none is
# flushed for itself.
#
my $flushes = $node->pg_version >= 18 ? q{SELECT sum(fsyncs) FROM pg_stat_io WHERE object = 'wal'} : 'SELECT wal_sync FROM pg_stat_wal';
my $gone = q{SELECT count(*) FROM pg_stat_activity WHERE backend_type = 'parvacuum scheduler worker'};
my @unflushed = map { "unflushed_$_" } 1 .. 100;
reload_with('parvacuum.scheduler' => 'off', fsync => 'on');
sql(map { ("CREATE TABLE $_ WITH ($in) AS SELECT i FROM generate_series(1, 100) i", "DELETE FROM $_ WHERE i > 10") } @unflushed);
my $flushed = sql('CHECKPOINT', $flushes);
reload_with('parvacuum.scheduler' => 'on', 'parvacuum.scheduler_workers' => 1);
ok(pv_await($node, q{SELECT count(*) FROM pg_stat_user_tables WHERE relname LIKE 'unflushed%' AND vacuum_count > 0 AND analyze_count > 0}, scalar @unflushed), 'flushes: 100 tables');
reload_with('parvacuum.scheduler' => 'off');
ok(pv_await($node, $gone, 0), 'flushes: and what the scheduler worker has done is known');
cmp_ok(sql($flushes) - $flushed, '<', @unflushed / 2, 'flushes: fewer than tables');
reload_with('parvacuum.scheduler' => 'on', fsync => 'off');
sql('DROP TABLE ' . join ', ', @unflushed);

# But what the WAL writer has still to flush keeps no table from being all-visible: here eight
# are loaded by transactions that share a place in the commit log with the ANALYZEs.
my @fresh = map { "fresh_$_" } 1 .. 8;
reload_with('parvacuum.scheduler' => 'off', fsync => 'on', wal_writer_delay => 10000);
sql(map { "CREATE TABLE $_ (i int) WITH ($in)" } @fresh);
sql('DO $$ BEGIN WHILE txid_current() % 32 < 31 LOOP COMMIT; END LOOP; END $$', map { "INSERT INTO $_ SELECT generate_series(1, 1500)" } @fresh);
reload_with('parvacuum.scheduler' => 'on');
ok(pv_await($node, q{SELECT count(*) FROM pg_stat_user_tables WHERE relname LIKE 'fresh%' AND vacuum_count > 0 AND analyze_count > 0}, scalar @fresh), 'fresh tables: all are done');
is(sql(q{SELECT count(*) FROM pg_class WHERE relname LIKE 'fresh%' AND relallvisible = relpages}), scalar @fresh, 'fresh tables: and all-visible');
reload_with(fsync => 'off', wal_writer_delay => 200);
sql('DROP TABLE ' . join ', ', @fresh);

#
# New entries of a GIN index are put in their place, though there is nothing to vacuum.
#
sql('CREATE TABLE entries (a int[])', 'CREATE INDEX entries_gin ON entries USING gin (a)', 'CREATE INDEX entries_btree ON entries (a)');
sql('INSERT INTO entries SELECT ARRAY[i, i + 1] FROM generate_series(1, 500) i');
my $pending = q{SELECT n_pending_pages FROM gin_metapage_info(get_raw_page('entries_gin', 0))};
cmp_ok(sql($pending), '>', 0, 'a GIN index: entries are pending');
sql("ALTER TABLE entries SET ($in, autovacuum_vacuum_insert_threshold = -1)");
ok(pv_await($node, $pending, 0), 'a GIN index: and are not any more');
is(sql(q{SELECT vacuum_count, analyze_count FROM pg_stat_user_tables WHERE relname = 'entries'}), '0|1', 'a GIN index: by an ANALYZE');
is(pv_findings($node, 'entries'), '', 'a GIN index: and is whole');

#
# Nothing is counted: then only ages say what needs a vacuum.
#
sql("CREATE TABLE uncounted WITH ($in) AS SELECT i FROM generate_series(1, 1000) i", 'ALTER TABLE uncounted SET (autovacuum_enabled = off)');
sql('DELETE FROM uncounted');
$from = -s $node->logfile;
reload_with(track_counts => 'off');
ok($node->wait_for_log(qr/WARNING: .*parvacuum's scheduler vacuums tables only for their age/, $from), 'nothing is counted: the log says what that means');
sql('ALTER TABLE uncounted SET (autovacuum_enabled = on)');
my $until = stat_of('passes + 3');
my $so_far = stat_of('vacuums');
ok(pv_await($node, "SELECT passes >= $until FROM parvacuum_scheduler_stats()", 'true'), 'nothing is counted: passes go on');
is(stat_of('vacuums'), $so_far, 'nothing is counted: nothing is vacuumed by old counts');
reload_with(track_counts => 'on');
until_vacuumed('uncounted', 1, 'it is counted again, and what was then counts');
is(() = slurp_file($node->logfile, $from) =~ /only for their age/g, 1, 'nothing is counted: said once');

#
# Core's engine gets no workers from it, whom no limit would hold.
#
sql('CREATE TABLE stocks (a int, b int) WITH (autovacuum_enabled = off)', 'INSERT INTO stocks SELECT i, i FROM generate_series(1, 20000) i',
	'CREATE INDEX ON stocks (a)', 'CREATE INDEX ON stocks (b)', 'DELETE FROM stocks WHERE a % 2 = 0');
reload_with(log_min_messages => 'debug2');
$from = -s $node->logfile;
sql(q{SELECT parvacuum_enqueue('stocks', 10)});
until_vacuumed('stocks', 1, 'core\'s engine: the table is vacuumed');
reload_with(log_min_messages => 'warning');
unlike(slurp_file($node->logfile, $from), qr/launched \d+ parallel vacuum workers? for index vacuuming/, 'core\'s engine: by one process');

$node->stop;
pv_no_crash($node, 'the server');
done_testing();
