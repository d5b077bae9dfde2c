# What a table owner without any other right can try against the processes that vacuum
# for all: expressions with forbidden statements, labels, priorities, cancels, names,
# locks, and tables that change their kind.  The server stays up, no code runs with more
# rights than his, and the tables of others are vacuumed.

use strict;
use warnings FATAL => 'all';

use FindBin;
use lib $FindBin::RealBin;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use PvTest;
use Test::More;

my $node = pv_node('hostile_owner');
$node->append_conf('postgresql.conf', q{
autovacuum_naptime = 1s
autovacuum_max_workers = 2
autovacuum_vacuum_cost_delay = 0
autovacuum_vacuum_threshold = 50
autovacuum_vacuum_scale_factor = 0
autovacuum_vacuum_insert_threshold = -1
autovacuum_analyze_threshold = 50
autovacuum_analyze_scale_factor = 0
log_autovacuum_min_duration = 0
deadlock_timeout = 100ms
parvacuum.scheduler_workers = 2
});
$node->start;
pv_setup($node);

sub sql { return pv_sql($node, @_); }

# A statement of the hostile owner; returns its output and its errors.
sub hostile
{
	my ($rc, $out, $err) = $node->psql('postgres', join(";\n", 'SET SESSION AUTHORIZATION mallory', @_), on_error_stop => 1);
	return "$out$err";
}

sql('CREATE ROLE mallory', 'CREATE ROLE victim', 'CREATE SCHEMA mallory AUTHORIZATION mallory', 'CREATE SCHEMA victim AUTHORIZATION victim',
	'CREATE TABLE seen (who text, session text)', 'GRANT INSERT ON seen TO mallory',
	'GRANT USAGE ON SCHEMA victim TO mallory', 'SET ROLE victim',
	'CREATE TABLE victim.plain (id int) WITH (parvacuum.enabled, autovacuum_analyze_threshold = 1000000)', 'INSERT INTO victim.plain SELECT i FROM generate_series(1, 1000) i');

# The number of vacuums of a table so far
sub count_of { return "SELECT vacuum_count + autovacuum_count FROM pg_stat_all_tables WHERE relid = '$_[0]'::regclass"; }

# The scheduler still vacuums the tables of others.  victim.plain is never analyzed, because an
# ANALYZE that took its sample before the update would set the number of dead rows to 0.
sub others_are_served
{
	my ($what) = @_;
	my $before = sql(count_of('victim.plain'));
	sql('UPDATE victim.plain SET id = id WHERE id <= 100');
	my $good = pv_await($node, 'SELECT (' . count_of('victim.plain') . ") > $before", 'true');
	ok($good, "$what: the tables of others are vacuumed") or diag sql('SELECT * FROM parvacuum_queue'), pv_processes($node);
	return $good;
}

#
# Expressions.  For each statement there is a table, whose indexes and statistics call a
# function that is replaced afterwards: by one that executes the statement, and by one
# that executes it and catches the error.
#
my @deeds = (
	q{PERFORM pg_advisory_lock_shared(4242, 'mallory.%1$s'::regclass::oid::int)}, 'ANALYZE mallory.other', 'ANALYZE mallory.%1$s', 'ANALYZE', 'VACUUM mallory.other', 'VACUUM ANALYZE mallory.%1$s',
	q{PERFORM parvacuum_run('mallory.other')}, q{CALL parvacuum('mallory.other')},
	q{PERFORM parvacuum_sweep('mallory.other_i')}, q{PERFORM parvacuum_sweep('mallory.%1$s_btree')}, q{CALL parvacuum_sweep_index('mallory.other_i')},
	q{PERFORM parvacuum_enqueue('mallory.%1$s')}, q{PERFORM parvacuum_cancel('mallory.%1$s')}, 'PERFORM parvacuum_cancel(pg_backend_pid())',
	'PERFORM pg_cancel_backend(pg_backend_pid())', 'PERFORM pg_terminate_backend(pg_backend_pid())',
	'ALTER TABLE mallory.%1$s SET (parvacuum.enabled = off)', 'DROP TABLE mallory.%1$s', 'DROP INDEX mallory.%1$s_brin', 'TRUNCATE mallory.%1$s',
	q{PERFORM lo_from_bytea(0, 'abc')}, q{PERFORM lo_create(0)}, 'NOTIFY mallory',
	$node->pg_version >= 18 ? q{PERFORM pg_restore_relation_stats('schemaname', 'mallory', 'relname', 'other', 'reltuples', 4242::real)} : (),
	'INSERT INTO mallory.diary SELECT 1', q{PERFORM nextval('mallory.counter')}, 'CREATE TABLE mallory.made_by_%1$s (id int)',
	'REINDEX TABLE mallory.%1$s', 'REINDEX TABLE mallory.other', 'CLUSTER mallory.other USING other_i', 'CREATE INDEX ON mallory.%1$s (id)', 'LOCK TABLE victim.plain', 'PERFORM * FROM mallory.other WHERE id < 10 FOR UPDATE', 'SET ROLE postgres', 'RESET SESSION AUTHORIZATION',
	q{PERFORM set_config('parvacuum.wait_at', 'scan', false)}, q{PERFORM set_config('vacuum_cost_delay', '100', false)},
	q{PERFORM set_config('search_path', 'mallory', false)},
	q{RAISE EXCEPTION 'stop' USING ERRCODE = 'query_canceled'}, q{RAISE EXCEPTION 'stop' USING ERRCODE = 'admin_shutdown'},
	'PERFORM mallory.deeper()', 'COMMIT', 'PERFORM 1 / 0');

my $out = hostile('CREATE TABLE mallory.diary (id int)', 'CREATE SEQUENCE mallory.counter', 'CREATE TABLE mallory.other (id int)', 'CREATE INDEX other_i ON mallory.other (id)', 'INSERT INTO mallory.other SELECT i FROM generate_series(1, 1000) i',
	'CREATE FUNCTION mallory.deeper() RETURNS int LANGUAGE plpgsql AS $$ BEGIN RETURN mallory.deeper(); END $$');
unlike($out, qr/ERROR/, 'the hostile owner has a table');

# The tables of one way, each with rows to remove and pages that BRIN has not summarized.
# The function logs from time to time that it runs, and as which role, and that the process has
# locks that functions of another table have left.
my %tables;
sub make_tables
{
	my ($way) = @_;
	my @sql;
	%tables = ();
	for my $i (0 .. 2 * @deeds - 1)
	{
		my $table = "${way}_$i";
		my $deed = $deeds[ $i / 2 ] =~ s/%1\$s/$table/gr;
		my $body = $i % 2 ? "BEGIN $deed; EXCEPTION WHEN OTHERS THEN NULL; END;" : "$deed;";
		$tables{$table} = $deed;
		push @sql, "CREATE FUNCTION mallory.f_$table(i int) RETURNS int IMMUTABLE LANGUAGE plpgsql AS \$\$ BEGIN RETURN i; END \$\$",
		  "CREATE TABLE mallory.$table (id int, pad text) WITH (parvacuum.enabled, parvacuum.workers = 1, autovacuum_enabled = off)",
		  "INSERT INTO mallory.$table SELECT i, repeat('x', 400) FROM generate_series(1, 600) i",
		  "CREATE INDEX ${table}_btree ON mallory.$table (mallory.f_$table(id))", "CREATE INDEX ON mallory.$table (id) WHERE mallory.f_$table(id) > 10",
		  "CREATE INDEX ${table}_brin ON mallory.$table USING brin (mallory.f_$table(id)) WITH (pages_per_range = 1)",
		  "CREATE STATISTICS mallory.${table}_stat ON mallory.f_$table(id), (id + 1) FROM mallory.$table",
		  "DELETE FROM mallory.$table WHERE id % 10 = 3", "INSERT INTO mallory.$table SELECT 10 * i + 3, repeat('x', 400) FROM generate_series(1, 60) i",
		  "CREATE OR REPLACE FUNCTION mallory.f_$table(i int) RETURNS int LANGUAGE plpgsql AS \$\$ BEGIN IF i % 200 = 3 THEN RAISE LOG '% by % as %', '$table', session_user, current_user;
		    IF EXISTS (SELECT FROM pg_locks WHERE pid = pg_backend_pid() AND classid = 4242 AND objid <> 'mallory.$table'::regclass) THEN RAISE LOG 'left by another table than $table'; END IF;
		    $body END IF; RETURN i; END \$\$";
	}
	my $out = hostile(@sql);
	unlike($out, qr/ERROR/, "$way: the tables are there") or diag $out;
	return;
}

# The ways in which the tables come to be vacuumed and analyzed
my %ways = (
	session => sub { $node->psql('postgres', "VACUUM (ANALYZE, PARALLEL 2) mallory.$_[0]") },
	run => sub { $node->psql('postgres', qq{SET SESSION AUTHORIZATION mallory; SELECT count(*) FROM parvacuum_run('mallory.$_[0]', workers => 1, "analyze" => true) WHERE relid = 'mallory.$_[0]'::regclass}) },
	scheduler => undef,
	autovacuum => undef);

sub try_deeds
{
	my ($way) = @_;
	make_tables($way);
	my $from = -s $node->logfile;
	my @names = sort keys %tables;
	if ($ways{$way})
	{
		$ways{$way}->($_) for @names;
	}
	else
	{
		hostile(map { "ALTER TABLE mallory.$_ SET (autovacuum_enabled = on)" } @names);
		$node->wait_for_log(qr/LOG: .*$_ by /, $from) for @names;
	}
	my $log = substr slurp_file($node->logfile), $from;
	my @not = grep { $log !~ /LOG: .*$_ by / } @names;
	is(scalar(@not), 0, "$way: each statement was tried") or diag map { "$_: $tables{$_}\n" } @not;
	my @others = grep { !/ as mallory$/ } $log =~ /LOG: .*(${way}_\d+ by .*)/g;
	is(scalar(@others), 0, "$way: no function ran with more rights than the owner's") or diag join "\n", @others;
	unlike($log, qr/LOG: .*left by another table/, "$way: no table finds locks of another") if $way eq 'scheduler';
	is($node->psql('postgres', 'SELECT 1'), 0, "$way: the server is running") or BAIL_OUT('the server is gone');
	hostile(map { "DROP TABLE IF EXISTS mallory.$_" } @names);
	return;
}

try_deeds($_) for qw(session run);
pv_reload_with($node, 'parvacuum.scheduler' => 'on');
others_are_served('before');
try_deeds('scheduler');
others_are_served('after statements under the scheduler');
pv_reload_with($node, 'parvacuum.scheduler' => 'off', 'autovacuum' => 'on');
try_deeds('autovacuum');
pv_reload_with($node, 'parvacuum.scheduler' => 'on', 'autovacuum' => 'off');

hostile('CREATE TABLE mallory.self (id int) WITH (parvacuum.enabled)', 'INSERT INTO mallory.self SELECT i FROM generate_series(1, 1000) i');

#
# Constants: core calls an immutable function with constant arguments when it reads the
# expressions of an index, before anything is evaluated.
#
hostile('CREATE FUNCTION mallory.constant(i int) RETURNS int IMMUTABLE LANGUAGE plpgsql AS $$ BEGIN RAISE LOG \'constant by % as %\', session_user, current_user; RETURN i; END $$',
	map({ ("CREATE TABLE mallory.constant_$_ (id int)", "INSERT INTO mallory.constant_$_ SELECT i FROM generate_series(1, 1000) i",
		(map { "CREATE INDEX ON mallory.$_" } "constant_$_ USING brin ((id + mallory.constant(1))) WITH (pages_per_range = 1)", "constant_$_ USING brin (id) WHERE id > mallory.constant(1)",
			"constant_$_ ((id + mallory.constant(1)))", "constant_$_ USING gin ((ARRAY[id, mallory.constant(1)]))"), "DELETE FROM mallory.constant_$_ WHERE id <= 500") } qw(core ours)),
	'ALTER TABLE mallory.constant_ours SET (parvacuum.enabled)');
{
	my $from = -s $node->logfile;
	sql("SELECT count(*) FROM parvacuum_plan('mallory.$_')", "SELECT count(*) FROM parvacuum_sweep('mallory.${_}_expr_idx1')", "SELECT parvacuum_enqueue('mallory.$_')") for qw(constant_core constant_ours);
	sql('SELECT count(*) FROM parvacuum_check()');
	ok(pv_await($node, q{SELECT count(*) FROM pg_stat_all_tables WHERE relname ~ '^constant_' AND schemaname = 'mallory' AND vacuum_count > 0 AND analyze_count > 0}, 2), 'constants: both tables are vacuumed') or diag sql('SELECT * FROM parvacuum_queue');
	$ways{$_}->('constant_ours') for qw(session run);
	my $log = substr slurp_file($node->logfile), $from;
	like($log, qr/LOG: .*constant by /, 'constants: the function is called');
	is(join("\n", grep { !/ as mallory$/ } $log =~ /LOG: .*(constant by .*)/g), '', 'constants: always as the owner');
}

#
# Labels: invalid options are refused, and do no harm.
#
my %labels = (
	'a value of another kind' => "'what?'", 'twice' => "'enabled=true, enabled=false'", 'too many workers' => "'workers=99999999999999999999'",
	'no value' => "'workers='", 'a long text' => "repeat('x', 1000000)", 'a long window' => q{'window="' || repeat('00:00-01:00, ', 10000) || '02:00-03:00"'},
	'an open quote' => q{'window="22:00-06:00'}, 'formats' => "'%s%n%d=%s'", 'another engine' => "'enabled=true, engine=off'");
for my $name (sort keys %labels)
{
	like(hostile("DO \$\$ BEGIN EXECUTE format('SECURITY LABEL FOR parvacuum ON TABLE mallory.self IS %L', $labels{$name}); END \$\$"),
		qr/ERROR/, "labels: $name");
}
like(hostile("SECURITY LABEL FOR parvacuum ON TABLE victim.plain IS 'enabled=false'"), qr/ERROR:  must be owner/, 'labels: not on a table of others');
like(hostile("SECURITY LABEL FOR parvacuum ON ROLE mallory IS 'enabled=true'"), qr/ERROR/, 'labels: not on a role');
like(hostile('ALTER TABLE victim.plain SET (parvacuum.enabled = off)'), qr/ERROR:  .*must be owner/, 'options: not of a table of others');
others_are_served('labels');

#
# Names of tables and indexes that could confuse formats and logs
#
my @names = ('%s%n%d', q{a"b'c}, "two\nlines", '$1 \\\\', 'x' x 63, "\x{c3}\x{a9}" x 31);
for my $name (@names)
{
	(my $quoted = $name) =~ s/"/""/g;
	hostile(qq{CREATE TABLE mallory."$quoted" (id int) WITH (parvacuum.enabled)}, qq{CREATE INDEX ON mallory."$quoted" (abs(id))},
		qq{INSERT INTO mallory."$quoted" SELECT i FROM generate_series(1, 1000) i}, qq{DELETE FROM mallory."$quoted" WHERE id <= 500});
}
ok(pv_await($node, q{SELECT count(*) FROM pg_stat_all_tables WHERE schemaname = 'mallory' AND vacuum_count > 0 AND relname NOT IN ('self', 'other', 'constant_core', 'constant_ours')}, scalar @names),
	'names: all tables are vacuumed') or diag sql('SELECT * FROM parvacuum_queue');
others_are_served('names');

#
# Tables that change while they wait or are being vacuumed
#
for my $round (1 .. 10)
{
	hostile('CREATE TABLE mallory.shifty (id int) WITH (parvacuum.enabled)', 'INSERT INTO mallory.shifty SELECT i FROM generate_series(1, 1000) i',
		'DELETE FROM mallory.shifty', q{SELECT parvacuum_enqueue('mallory.shifty')},
		('DROP TABLE mallory.shifty', 'TRUNCATE mallory.shifty', 'ALTER TABLE mallory.shifty RENAME TO shifted',
			'CREATE RULE "_RETURN" AS ON SELECT TO mallory.shifty DO INSTEAD SELECT 1 AS id', 'ALTER TABLE mallory.shifty SET UNLOGGED')[ $round % 5 ]);
	hostile("DROP $_ mallory.shifty") for qw(TABLE VIEW);
	hostile('DROP TABLE mallory.shifted');
}
others_are_served('tables that change');

#
# Requests: refused for tables of others; a flood of them keeps no other table waiting.
#
like(hostile("SELECT parvacuum_$_('victim.plain')"), qr/ERROR:  permission denied/, "requests: no $_ of a table of others") for qw(enqueue cancel run);
like(hostile(q{SELECT parvacuum_enqueue('mallory.self', urgent => true)}), qr/ERROR:  permission denied/, 'requests: none that is urgent');
hostile('CREATE TABLE mallory.parts (id int) PARTITION BY RANGE (id)',
	q{DO $$ BEGIN FOR i IN 1 .. 500 LOOP EXECUTE format('CREATE TABLE mallory.part_%s PARTITION OF mallory.parts FOR VALUES FROM (%s) TO (%s) WITH (autovacuum_vacuum_threshold = 0)', i, i, i + 1); END LOOP; END $$});
my $flood = pv_start_run($node, q{DO $$ BEGIN FOR i IN 1 .. 300 LOOP
	BEGIN PERFORM parvacuum_enqueue('mallory.parts'); EXCEPTION WHEN insufficient_resources THEN NULL; END; COMMIT; END LOOP; END $$}, role => 'mallory');
others_are_served("requests $_") for 1 .. 3;
ok(pv_finish($flood), 'requests: a flood of them') or diag $flood->{err};

#
# Locks and cancels: an owner who keeps his own tables from being vacuumed does not
# affect other tables.
#
my $locker = pv_start_run($node, q{SET SESSION AUTHORIZATION mallory; BEGIN; LOCK TABLE mallory.self, mallory.parts; SELECT pg_sleep(5)});
others_are_served("locks $_") for 1 .. 2;
my $canceller = pv_start_run($node, q{DO $$ BEGIN FOR i IN 1 .. 3000 LOOP PERFORM parvacuum_cancel('mallory.self'); COMMIT; END LOOP; END $$}, role => 'mallory');
others_are_served("cancels $_") for 1 .. 2;
ok(pv_finish($_), 'locks and cancels: repeated to the end') or diag $_->{err} for $locker, $canceller;

#
# Processes that cannot go on, as many as there are.  First locked indexes of tables that
# are not locked themselves;
#
my $at_tables = q{SELECT count(*) FROM pg_stat_activity WHERE backend_type = 'parvacuum scheduler worker' AND query ~ 'mallory\.stuck'};
hostile(map { ("CREATE TABLE mallory.stuck_$_ (id int) WITH (parvacuum.enabled, autovacuum_enabled = off)", "INSERT INTO mallory.stuck_$_ SELECT i FROM generate_series(1, 1000) i",
			"CREATE INDEX stuck_i_$_ ON mallory.stuck_$_ (id)", "DELETE FROM mallory.stuck_$_ WHERE id <= 500") } 1, 2);
my $owner = $node->background_psql('postgres');
$owner->query_safe('SET SESSION AUTHORIZATION mallory; BEGIN');
$owner->query_safe("ALTER INDEX mallory.stuck_i_$_ SET TABLESPACE pg_default") for 1, 2;
hostile("ALTER TABLE mallory.stuck_$_ SET (autovacuum_enabled = on)") for 1, 2;
ok(pv_await($node, q{SELECT count(*) FROM pg_locks WHERE NOT granted AND relation::regclass::text ~ 'stuck_i_'}, 2), 'indexes: both processes wait');
others_are_served('indexes that are locked');
$owner->query_safe('ROLLBACK');
$owner->quit;
ok(pv_await($node, q{SELECT count(*) FROM pg_stat_all_tables WHERE relname ~ '^stuck_[12]$' AND vacuum_count > 0}, 2), 'indexes: later these tables are vacuumed');

# functions that sleep and ignore a cancel;
hostile(q{CREATE FUNCTION mallory.stuck(i int) RETURNS int IMMUTABLE LANGUAGE plpgsql AS 'BEGIN RETURN i; END'},
	map({ ("CREATE INDEX ON mallory.stuck_$_ (mallory.stuck(id))", "VACUUM ANALYZE mallory.stuck_$_", "INSERT INTO mallory.stuck_$_ SELECT i FROM generate_series(1, 1000) i") } 1, 2),
	q{CREATE OR REPLACE FUNCTION mallory.stuck(i int) RETURNS int IMMUTABLE LANGUAGE plpgsql AS $$
		BEGIN LOOP BEGIN PERFORM pg_sleep(1000); EXCEPTION WHEN query_canceled THEN NULL; END; END LOOP; END $$});
ok(pv_await($node, "$at_tables AND wait_event = 'PgSleep'", 2), 'functions: both processes sleep');
is(sql("SELECT parvacuum_cancel('mallory.stuck_$_')"), 't', "functions: table $_ is canceled") for 1, 2;
hostile('CREATE OR REPLACE FUNCTION mallory.stuck(i int) RETURNS int IMMUTABLE LANGUAGE sql AS $$SELECT i$$');
others_are_served('functions that ignore a cancel');
ok($node->wait_for_log(qr/parvacuum scheduler worker FATAL:  .*terminating /), 'functions: the processes are ended');

# functions of large tables, in ANALYZE and in the cleanup of a BRIN index: they hold no place for
# large tables.  Their end is the deadline of the table, also if they ignore the cancel.
sub make_large
{
	my ($role, $table, @rest) = @_;
	return ("SET ROLE $role", "CREATE TABLE $table (id int, pad char(2400)) WITH (parvacuum.enabled, autovacuum_enabled = off)", "ALTER TABLE $table ALTER pad SET STORAGE PLAIN",
		"INSERT INTO $table SELECT i, 'x' FROM generate_series(1, 25500) i", @rest, 'RESET ROLE');
}
my $stays = q{CREATE OR REPLACE FUNCTION mallory.stays(i int) RETURNS int IMMUTABLE LANGUAGE plpgsql AS $$BEGIN RETURN i; END$$};
my $add = 'INSERT INTO mallory.large_brin SELECT i, repeat(\'x\', 2400) FROM generate_series(1, 300) i';
sql('SET ROLE mallory', $stays, 'RESET ROLE', make_large('mallory', 'mallory.large_i', 'CREATE INDEX ON mallory.large_i (mallory.stays(id))'), make_large('victim', 'victim.large'),
	make_large('mallory', 'mallory.large_brin', 'CREATE INDEX ON mallory.large_brin USING brin (mallory.stays(id)) WITH (pages_per_range = 1)', $add),
	'SET ROLE mallory', map({ ("CREATE TABLE mallory.$_ (id int) WITH (parvacuum.enabled, autovacuum_enabled = off)", "CREATE INDEX ON mallory.$_ (mallory.stays(id))",
			"INSERT INTO mallory.$_ SELECT i FROM generate_series(1, 1000) i") } qw(forged later)), 'RESET ROLE',
	'SET ROLE victim', 'DELETE FROM victim.large WHERE id % 2 = 0', 'RESET ROLE', q{UPDATE pg_class SET relpages = 1000000 WHERE oid = 'mallory.forged'::regclass}, 'SET ROLE mallory',
	$stays =~ s/BEGIN/BEGIN PERFORM pg_sleep(1000);/r);
my $stay = q{SELECT string_agg(substring(query, 'mallory\.\w+'), ', ' ORDER BY substring(query, 'mallory\.\w+')) FROM pg_stat_activity WHERE backend_type = 'parvacuum scheduler worker' AND wait_event = 'PgSleep'};
pv_reload_with($node, 'parvacuum.scheduler_workers' => 4);
hostile('ALTER TABLE mallory.large_i RESET (autovacuum_enabled)');
ok(pv_await($node, $stay, 'mallory.large_i'), 'large tables: a function stays in ANALYZE') or diag sql('SELECT * FROM parvacuum_queue'), pv_processes($node);
hostile('ALTER TABLE mallory.large_brin SET (autovacuum_enabled = on, autovacuum_vacuum_threshold = 1, autovacuum_vacuum_insert_threshold = 1)');
ok(pv_await($node, $stay, 'mallory.large_brin, mallory.large_i'), 'large tables: another one stays in the cleanup of an index') or diag sql('SELECT * FROM parvacuum_queue'), pv_processes($node);
is(sql(q{SELECT count(*) FROM pg_stat_progress_vacuum WHERE relid = 'mallory.large_brin'::regclass}), 1, 'large tables: that is within its vacuum');
sql('SET ROLE victim', 'ALTER TABLE victim.large RESET (autovacuum_enabled)');
ok(pv_await($node, q{SELECT count(*) FROM pg_stat_all_tables WHERE relid = 'victim.large'::regclass AND vacuum_count > 0}, 1), 'large tables: one of others is vacuumed meanwhile') or diag sql('SELECT * FROM parvacuum_queue'), pv_processes($node);
is(sql($stay), 'mallory.large_brin, mallory.large_i', 'large tables: both functions still stay');
hostile('ALTER TABLE mallory.forged RESET (autovacuum_enabled)');
ok(pv_await($node, q{SELECT size_class FROM parvacuum_queue WHERE relid = 'mallory.forged'::regclass AND state = 'running'}, 'small'), 'large tables: the file says how large a table is, not pg_class') or diag sql('SELECT * FROM parvacuum_queue'), pv_processes($node);
# The longest time counts that the settings have given, so those that sleep are ended.
my $end_all = q{SELECT pg_terminate_backend(pid, 60000) FROM pg_stat_activity WHERE backend_type = 'parvacuum scheduler worker'};
my $end = -s $node->logfile;
# The launcher looks at them once a second.
sleep 3;
pv_reload_with($node, 'parvacuum.longest_at_table' => '1s');
hostile('ALTER TABLE mallory.later RESET (autovacuum_enabled)');
ok($node->wait_for_log(qr/mallory\.later", which took too long/, $end), 'large tables: a shorter limit is that of later ones');
unlike(slurp_file($node->logfile, $end), qr/mallory\.(?:large_i|large_brin|forged)", which took too long/, 'large tables: a shorter limit is not that of the tables at hand');
sql($end_all);
$end = -s $node->logfile;
ok($node->wait_for_log(qr/ERROR:  .*canceling .*(?:\n.*){1,5}parvacuum's scheduled (?:vacuum|analyze) of table "postgres\.mallory\.\w+", which took too long/, $end), 'large tables: a function that stays is canceled');
# the same in core's code, which vacuums a table that has not opted in
hostile('ALTER TABLE mallory.large_brin RESET (parvacuum.enabled)');
sql($end_all);
$end = -s $node->logfile;
sql(q{SELECT parvacuum_enqueue('mallory.large_brin')});
ok($node->wait_for_log(qr/parvacuum's scheduled vacuum of table "postgres\.mallory\.large_brin", which took too long/, $end), "large tables: so is one in the cleanup of an index by core's code") or diag sql('SELECT * FROM parvacuum_queue'), pv_processes($node);
hostile('ALTER TABLE mallory.large_brin SET (parvacuum.enabled)');
hostile($stays =~ s/BEGIN/BEGIN LOOP BEGIN PERFORM pg_sleep(1000); EXCEPTION WHEN query_canceled THEN NULL; END; END LOOP;/r);
$end = -s $node->logfile;
ok($node->wait_for_log(qr/parvacuum scheduler worker FATAL:  .*terminating /, $end), 'large tables: one that ignores that is ended with its process');
hostile($stays);
pv_reload_with($node, 'parvacuum.longest_at_table' => '10min');
sql($end_all);
ok(pv_await($node, q{SELECT count(*) FROM pg_stat_all_tables WHERE relid IN ('mallory.large_i'::regclass, 'mallory.large_brin'::regclass, 'mallory.forged'::regclass) AND analyze_count > 0}, 3), 'large tables: all are analyzed when the functions let them') or diag sql('SELECT * FROM parvacuum_queue');
sql("DROP TABLE $_") for qw(mallory.large_i mallory.large_brin mallory.forged mallory.later victim.large);
pv_reload_with($node, 'parvacuum.scheduler_workers' => 2);

# a function that takes all locks of the server before it stays: neither the launcher nor a
# new session can do anything until it is ended
sql('SET ROLE mallory', 'CREATE TABLE mallory.locks (id int) WITH (parvacuum.enabled, autovacuum_enabled = off)', q{CREATE FUNCTION mallory.locks(i int) RETURNS int IMMUTABLE LANGUAGE plpgsql AS 'BEGIN RETURN i; END'},
	'CREATE INDEX ON mallory.locks (mallory.locks(id))', 'INSERT INTO mallory.locks SELECT i FROM generate_series(1, 1000) i',
	q{CREATE OR REPLACE FUNCTION mallory.locks(i int) RETURNS int IMMUTABLE LANGUAGE plpgsql AS $$
		BEGIN
			BEGIN FOR n IN 1 .. 10000000 LOOP PERFORM pg_advisory_lock(n); END LOOP; EXCEPTION WHEN OTHERS THEN NULL; END;
			LOOP BEGIN PERFORM pg_sleep(1000); EXCEPTION WHEN query_canceled THEN NULL; END; END LOOP;
		END $$}, 'RESET ROLE');
# long enough to take them beside other work
pv_reload_with($node, 'parvacuum.longest_at_table' => '8s');
$end = -s $node->logfile;
hostile('ALTER TABLE mallory.locks RESET (autovacuum_enabled)');
ok($node->wait_for_log(qr/out of shared memory/, $end), 'locks: a function takes all');
ok($node->wait_for_log(qr/parvacuum scheduler worker FATAL:  .*terminating /, $end), 'locks: its process is ended');
my $tries = 0;
while (hostile('DROP FUNCTION mallory.locks CASCADE') =~ /out of shared memory/ && $tries++ < 100) { sleep 1; }
pv_reload_with($node, 'parvacuum.longest_at_table' => '10min');
others_are_served('functions that take all locks');

# rows of pg_database
sql("CREATE DATABASE mallory_$_ OWNER mallory") for 1 .. 4;
$node->safe_psql("mallory_$_", 'SET SESSION AUTHORIZATION mallory; CREATE SCHEMA mallory; CREATE TABLE mallory.t (id int) WITH (parvacuum.enabled); INSERT INTO mallory.t SELECT generate_series(1, 1000)') for 1 .. 4;
$owner = $node->background_psql('postgres');
$owner->query_safe('SET SESSION AUTHORIZATION mallory; BEGIN');
$owner->query_safe("ALTER DATABASE mallory_$_ CONNECTION LIMIT 50") for 1 .. 4;
$node->safe_psql("mallory_$_", 'DELETE FROM mallory.t WHERE id <= 500') for 1 .. 4;
ok(pv_await($node, q{SELECT count(*) > 0 FROM pg_stat_activity WHERE backend_type = 'parvacuum scheduler worker' AND query = 'autovacuum: updating pg_database (parvacuum)' AND wait_event_type = 'Lock'}, 'true'),
	'databases: the end of a database scan waits');
others_are_served('databases that are locked');
ok($node->poll_query_until("mallory_$_", q{SELECT vacuum_count > 0 FROM pg_stat_all_tables WHERE relid = 'mallory.t'::regclass}), "databases that are locked: the table in database $_ is vacuumed")
  for 1 .. 4;
$owner->query_safe('ROLLBACK');
$owner->quit;

# settings of a database
sql("ALTER DATABASE mallory_1 SET $_") for q{role = 'mallory'}, 'default_transaction_read_only = on';
$node->safe_psql('mallory_1', 'SET default_transaction_read_only = off; SET ROLE postgres; CREATE TABLE of_others (id int) WITH (parvacuum.enabled); INSERT INTO of_others SELECT generate_series(1, 1000)');
ok($node->poll_query_until('mallory_1', q{SELECT analyze_count > 0 FROM pg_stat_all_tables WHERE relid = 'of_others'::regclass}), 'settings: a table of others in his database is analyzed');

pv_no_crash($node, 'the server');
$node->stop;
done_testing();
