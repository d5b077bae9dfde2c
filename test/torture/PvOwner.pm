# Statements of hostile roles, made up at random: owner.pl has them executed.
#
# What parvacuum offers is read from the catalog, so that a new function, view, setting or
# option is tried without a change here.  Statements that cannot be meant well come with
# others that make tables for them.
package PvOwner;

use strict;
use warnings FATAL => 'all';

use Exporter 'import';
use PvTorture;

our @EXPORT = qw(connect_to learn statement administration evil_functions namesakes tables_of large_tables slow_tables @hostile @memberships $guard $evils);

# The hostile roles: an owner of a schema, a role that has nothing, one that sees all
# statistics, and one that may vacuum all tables (from PostgreSQL 17 on).
our @hostile = qw(mallory nothing reader keeper);

# Those whose members some of them are
our @memberships = qw(pg_read_all_stats pg_maintain);

# How many functions of the owner there are that execute statements.
our $evils = 8;

my ($version, @functions, @views, @settings, @options);
my $tables = 10;

# Read what there is to try.  The argument executes SQL and returns its rows as lines.
sub learn
{
	my ($sql, $major) = @_;
	$version = $major;
	my $of_extension = q{FROM pg_depend d JOIN pg_extension e ON e.extname IN ('parvacuum', 'parvacuum_cluster')
		AND d.refclassid = 'pg_extension'::regclass AND d.refobjid = e.oid AND d.deptype = 'e' AND d.classid = };
	@functions = map { my ($name, $kind, $set, $defaults, $names, $types) = split /\|/; { name => $name, kind => $kind, set => $set eq 't', defaults => $defaults,
			names => [ split /,/, $names ], types => [ split /,/, $types // '' ] } }
	  split /\n/, $sql->(qq{SELECT concat_ws('|', quote_ident(nspname) || '.' || quote_ident(proname), prokind, proretset, pronargdefaults,
			(SELECT coalesce(string_agg(quote_ident(n), ',' ORDER BY i), '') FROM unnest(proargnames) WITH ORDINALITY u(n, i) WHERE i <= pronargs),
			(SELECT string_agg(format_type(t, NULL), ',' ORDER BY i) FROM unnest(proargtypes) WITH ORDINALITY u(t, i)))
		$of_extension 'pg_proc'::regclass JOIN pg_proc p ON p.oid = d.objid JOIN pg_namespace n ON n.oid = pronamespace ORDER BY p.oid::regprocedure::text});
	@views = split /\n/, $sql->(qq{SELECT format('%I.%I', nspname, relname) $of_extension 'pg_class'::regclass JOIN pg_class c ON c.oid = d.objid AND relkind = 'v' JOIN pg_namespace n ON n.oid = relnamespace ORDER BY 1});
	@settings = split /\n/, $sql->(q{SELECT format('%s|%s|%s', regexp_replace(name, '[^.]+$', '"\&"'), vartype, (SELECT string_agg(v, '|') FROM unnest(enumvals) v)) FROM pg_settings
		WHERE name LIKE 'parvacuum.%' OR name ~ '^(auto)?vacuum_|^autovacuum|work_mem$|parallel|^track_|^(search_path|client_encoding|row_security|synchronize_seqscans|DateStyle|TimeZone|temp_tablespaces)$'
		ORDER BY name});
	@options = map { /_from$/ ? () : s/^vacuum_(?=window)//r } split /\n/, $sql->(q{SELECT attname FROM pg_attribute
		WHERE attrelid = 'parvacuum_tables'::regclass AND attnum > 0 AND attname || '_from' IN (SELECT attname FROM pg_attribute WHERE attrelid = 'parvacuum_tables'::regclass) ORDER BY attnum});
	return (scalar @functions, scalar @views, scalar @settings, scalar @options);
}

# A condition of plpgsql: the code runs as somebody else than a hostile role.  Operators
# must be qualified, because the owner has others.
our $guard = sprintf q(NOT current_user::pg_catalog.text OPERATOR(pg_catalog.=) ANY ('{%s}'::pg_catalog.text[])), join ',', @hostile, @memberships;
my $canary = qq{IF $guard THEN RAISE LOG 'canary: % is run as % by %', '%s', current_user, session_user; END IF;};
sub with_canary { return $canary =~ s/'%s'/'$_[0]'/r; }

#
# Values
#

my @texts = ('', ' ', 'x', '%s%n%d%1$s', q{a''b"c}, '\\', 'a\nb', '\t', '\b', '\u00e9', "\xc3\xa9", "\xff\xfe", 'true', 'off', '1e400', '-0', 'NaN', '9' x 40, '0x10', '16MB', '1 TB',
	'auto', 'on', 'enabled=true', 'enabled=true, enabled=false', 'workers=4, window="22:00-06:00"', 'window="', 'window=""""', 'enabled = ,', ',,,', '=', 'workers=1024', 'workers=1025',
	'sweep=maybe', 'Mon-Fri 22:00-06:00, Sat 00:00-24:00 Europe/Berlin', 'never', '22:00', 'Xyz 25:00-26:00', '00:00-00:00 Nowhere/None', '00:00-24:00 <+99>-99', '; DROP TABLE mallory.t1; --', '$1', '$$', '{}', '{1,2}', 'NULL');
sub words { return join one_of(', ', ',', ' ', '=', ''), map { chance(0.5) ? one_of(@options) . one_of('=', ' = ', '') . one_of(@texts) : one_of(@texts) } 1 .. 1 + rand 4; }

# A literal.  Long ones are made by the server.
sub text
{
	return sprintf q{repeat('%s', %d)}, one_of('x', 'window="00:00-01:00", ', '(', 'Mon 00:00-01:00, '), one_of(1, 63, 64, 255, 256, 8192, 100000) if chance(0.05);
	return 'E' . "'" . (chance(0.7) ? one_of(@texts) : words()) . "'";
}

sub integer { return one_of('NULL', 0, -1, 1, 2, 3, 7, 100, 1024, 1025, 32767, 65536, 2147483647, '(-2147483648)', int rand 100000); }
sub table { return 'mallory.t' . int rand $tables; }
sub name { return one_of('plain', 'ledger', 'child', q{"a""b'c"}, q{U&"two\000Alines"}, '"%s%n"', "\"\xc3\xa9t\xe9\"", '"' . 'x' x 63 . '"', '"' . 'y' x 64 . '"', "t" . int rand $tables); }

# Relations: mostly of the owner, else those of others, or that cannot be vacuumed.
my @victims = qw(victim.plain victim.plain_i victim.ledger victim.ledger_1 victim.secret victim.counter victim.looks victim.summary);
my @odd = qw(mallory.v mallory.s mallory.m mallory.p mallory.p1 mallory.foreign_table mallory.gone mallory.seen pg_temp.mine pg_class pg_authid pg_database pg_seclabel pg_statistic pg_largeobject
  pg_class_oid_index pg_stat_activity parvacuum_queue parvacuum_tables information_schema.tables);
sub relation
{
	my ($role) = @_;
	my $which = rand;
	return table() if $which < 0.5;
	return table() . one_of('_btree', '_brin', '_partial', '_gin', '_hash', '_pkey') if $which < 0.65;
	return one_of(@odd) if $which < 0.85 || $role eq 'keeper';
	return one_of(@victims);
}

sub relation_oid
{
	my ($role, $type) = @_;
	my $which = rand;
	return q{'} . relation($role) =~ s/'/''/gr . "'::regclass" if $which < 0.75;
	return "(SELECT oid FROM pg_catalog.pg_class WHERE relname = 'pg_toast_' || '" . table() . "'::regclass::oid)" if $which < 0.80;
	return one_of(0, 1, 1249, 1260, 1262, 2619, 4294967295, 16384 + int rand 2000) . '::oid::' . $type if $which < 0.90;
	return "(SELECT c.oid FROM pg_catalog.pg_class c WHERE c.relowner = '$role'::regrole ORDER BY random() LIMIT 1)::$type" if $which < 0.97;
	return "NULL::$type";
}

# A value of a type, for an argument
sub value
{
	my ($type, $role) = @_;
	return 'NULL::' . $type if chance(0.04);
	return relation_oid($role, $type) if $type =~ /^(regclass|oid)$/;
	return one_of('true', 'false', 'NULL') if $type eq 'boolean';
	return one_of('pg_backend_pid()', '(SELECT pid FROM pg_stat_activity ORDER BY random() LIMIT 1)', integer(), integer()) . '::int' if $type eq 'integer' && $role;
	return one_of(q{'NaN'}, q{'Infinity'}, q{'-Infinity'}, '1e308', '1e-308', 0, -1, 1, 50, 100, 101, 4096) . "::$type" if $type eq 'double precision';
	return chance(0.3) ? q{'} . relation($role) =~ s/'/''/gr . q{'} : text() if $type eq 'text';
	return integer() . "::$type" if $type =~ /^(integer|bigint|smallint|numeric|real)$/;
	return text() . "::$type";
}

# The arguments of a function or procedure, in one of the ways to write them
sub arguments
{
	my ($f, $role) = @_;
	my @types = @{ $f->{types} };
	my $least = @types - $f->{defaults};
	return join ', ', map { one_of(integer(), text(), 'ARRAY[1, 2]', relation_oid($role, 'oid'), "'{}'::int[]", "'(1,2)'::point") } 0 .. rand 4 if chance(0.03);
	my $named = @{ $f->{names} } == @types && chance(0.6);
	my @n = $named ? grep({ $_ < $least || chance(0.3) } 0 .. $#types) : 0 .. $least - 1 + int rand(1 + $f->{defaults});
	return join ', ', map { ($named ? "$f->{names}[$_] => " : '') . value($types[$_], $role) } @n;
}

#
# Statements
#

sub option
{
	my $what = chance(0.85) ? 'parvacuum.' . (chance(0.9) ? one_of(@options) : one_of('nonsense', '"Enabled"', '"a b"', '"' . 'z' x 80 . '"')) :
	  one_of('autovacuum_enabled', 'fillfactor', 'autovacuum_vacuum_threshold', 'autovacuum_freeze_max_age', 'toast.autovacuum_enabled', 'toast.parvacuum.enabled', 'vacuum_truncate', 'autovacuum_vacuum_cost_delay');
	my $value = one_of('', ' = true', ' = off', ' = 2', ' = 0', ' = -1', ' = ' . integer(), ' = ' . integer(), ' = ' . q{'} . (one_of(@texts) =~ s/\\/\\\\/gr) . q{'});
	return "$what$value";
}

sub options { return join ', ', map { option() } 0 .. rand 3; }

sub call
{
	my ($role) = @_;
	my $f = one_of(@functions);
	my $args = arguments($f, $role);
	if ($f->{kind} eq 'p')
	{
		return one_of("CALL $f->{name}($args)", "CALL $f->{name}($args)", "DO \$d\$ BEGIN CALL $f->{name}($args); END \$d\$", "BEGIN; CALL $f->{name}($args); ROLLBACK", "SELECT $f->{name}($args)");
	}
	my $call = "$f->{name}($args)";
	return "SELECT * FROM $call" if chance(0.5);
	return one_of("SELECT $call", "SELECT count(*) FROM $call", "DO \$d\$ BEGIN PERFORM $call; END \$d\$", "BEGIN; SELECT $call; ROLLBACK", "SELECT * FROM $call, $call AS b",
		"SELECT ($call).* FROM generate_series(1, 3)", "PREPARE q AS SELECT $call; EXECUTE q; DEALLOCATE q", "BEGIN; DECLARE c SCROLL CURSOR FOR SELECT * FROM $call; FETCH 1 FROM c; FETCH ALL FROM c; MOVE -1 FROM c; COMMIT",
		"COPY (SELECT * FROM $call) TO STDOUT", "EXPLAIN (ANALYZE, VERBOSE) SELECT * FROM $call", "SELECT $f->{name}(" . (@{ $f->{types} } == 1 ? 'oid' : $args) . ') FROM (SELECT oid FROM pg_class ORDER BY random() LIMIT 3) x',
		"SELECT * FROM $call WHERE mallory.evil_1(1) > 0 LIMIT 1", "BEGIN READ ONLY; SAVEPOINT a; SELECT $call; ROLLBACK TO a; SELECT $call; COMMIT");
}

sub view
{
	my $view = one_of(@views);
	return one_of("TABLE $view", "SELECT * FROM $view WHERE mallory.leak($view) IS NOT NULL", "SELECT * FROM $view a, " . one_of(@views) . " b LIMIT 100", "SELECT count(*), max(a::text) FROM $view a",
		"CREATE TEMP VIEW w AS SELECT * FROM $view; TABLE w; DROP VIEW w", "INSERT INTO $view DEFAULT VALUES", "DELETE FROM $view", "LOCK TABLE $view", "COPY (TABLE $view) TO STDOUT",
		"BEGIN ISOLATION LEVEL SERIALIZABLE; TABLE $view; TABLE $view; COMMIT", "GRANT ALL ON $view TO mallory", "DROP VIEW $view", "CREATE OR REPLACE VIEW $view AS SELECT 1 AS a", "EXPLAIN ANALYZE TABLE $view");
}

sub setting
{
	my ($name, $type, @values) = split /\|/, one_of(@settings);
	@values = $type eq 'bool' ? qw(on off 1 maybe) : (integer(), integer(), -1, 0, q{'1MB'}, q{'10ms'}, q{'} . one_of(@texts) . q{'}) if !@values;
	my $value = one_of(@values);
	$value = one_of('E' . q{'} . one_of(@texts) . q{'}, $value) if $type eq 'string';
	$value = one_of('pg_catalog, public', 'mallory, pg_catalog, public', 'mallory', 'pg_temp, mallory', q{''}, q{'"$user"'}) if $name =~ /search_path/;
	return one_of("SET $name = $value", "SET $name = $value", "SET LOCAL $name = $value", "RESET $name", "SHOW $name", "SELECT set_config('" . $name =~ s/"//gr . "', " . text() . ', false)',
		"ALTER ROLE CURRENT_USER SET $name = $value", "ALTER ROLE CURRENT_USER RESET ALL", "ALTER DATABASE postgres SET $name = $value", "ALTER SYSTEM SET $name = $value", "ALTER ROLE ALL SET $name = $value",
		"CREATE OR REPLACE FUNCTION mallory.with_setting() RETURNS int SET $name = $value LANGUAGE sql AS 'SELECT count(*)::int FROM " . one_of(@views) . "'", 'SELECT mallory.with_setting()', 'RESET ALL');
}

sub label
{
	my ($role) = @_;
	my $object = one_of('TABLE ' . table(), 'TABLE ' . relation($role), 'COLUMN ' . table() . '.id', 'VIEW mallory.v', 'SEQUENCE mallory.s', 'MATERIALIZED VIEW mallory.m', 'TABLE victim.plain', 'ROLE mallory', 'SCHEMA mallory', 'DATABASE postgres', 'FUNCTION mallory.evil_1(int)');
	return one_of("SECURITY LABEL FOR parvacuum ON $object IS NULL", "DO \$d\$ BEGIN EXECUTE pg_catalog.format('SECURITY LABEL FOR parvacuum ON $object IS %L', " . text() . '); END $d$',
		"SECURITY LABEL ON $object IS E'" . words() . q{'}, "SECURITY LABEL FOR parvacuum ON $object IS E'" . words() . q{'});
}

sub table_options
{
	my ($role) = @_;
	my $table = chance(0.9) ? table() : relation($role);
	return one_of("ALTER TABLE $table SET (" . options() . ')', "ALTER TABLE $table SET (" . options() . ')', "ALTER TABLE $table RESET (parvacuum." . one_of(@options, 'nonsense') . ')', "ALTER TABLE $table SET (parvacuum.enabled)",
		"ALTER TABLE $table SET (" . options() . '), ADD COLUMN extra int, RESET (' . option() . ')', "ALTER TABLE IF EXISTS $table ADD COLUMN extra int, SET (" . options() . ')', "ALTER TABLE ONLY $table DROP COLUMN extra, SET (" . options() . ')',
		'ALTER MATERIALIZED VIEW mallory.m SET (' . options() . ')', 'ALTER INDEX ' . table() . '_btree SET (' . options() . ')', "ALTER TABLE ALL IN TABLESPACE pg_default SET TABLESPACE pg_default NOWAIT",
		'CREATE TABLE mallory.made (id int) WITH (' . options() . '); DROP TABLE mallory.made', "CREATE TEMP TABLE mine (id int) WITH (" . options() . '); INSERT INTO mine VALUES (1); SELECT * FROM public.parvacuum_run(\'mine\')',
		"CREATE TABLE mallory.made WITH (" . options() . ") AS SELECT * FROM $table LIMIT 10; DROP TABLE mallory.made", "CREATE TABLE mallory.made (LIKE $table INCLUDING ALL) WITH (" . options() . '); DROP TABLE mallory.made');
}

sub rows
{
	my $table = table();
	my $from = int rand 2000;
	return one_of("INSERT INTO $table (id, t) SELECT i, repeat('x', i % 300) FROM generate_series($from, $from + " . int(rand 100) . ') i', "DELETE FROM $table WHERE id BETWEEN $from AND $from + 300",
		"UPDATE $table SET t = t || 'y' WHERE id BETWEEN $from AND $from + 50", "UPDATE $table SET id = id + 1, d = 5 WHERE id BETWEEN $from AND $from + 20", "SELECT count(*) FROM $table WHERE mallory.evil_1(id) < $from", chance(0.2) ? "TRUNCATE $table" : "INSERT INTO $table (id) SELECT generate_series(1, 300)",
		"BEGIN; SAVEPOINT a; INSERT INTO $table (id) VALUES ($from); SAVEPOINT b; DELETE FROM $table WHERE id < $from; ROLLBACK TO a; UPDATE $table SET t = 'z' WHERE id < 30; COMMIT",
		"BEGIN; SELECT * FROM $table WHERE id < 50 FOR UPDATE; PREPARE TRANSACTION 'p" . int(rand 5) . q{'}, "ROLLBACK PREPARED 'p" . int(rand 5) . q{'}, "COPY $table (id, t) TO STDOUT", "INSERT INTO mallory.p VALUES ($from)");
}

sub evil { return 'mallory.evil_' . int(rand $evils) . '(id)'; }

# Tables whose vacuum and analyze call the owner's functions
sub tables_of
{
	my ($n) = @_;
	my $t = "mallory.t$n";
	return ("CREATE TABLE IF NOT EXISTS $t (id int, d mallory.checked DEFAULT 1, g int GENERATED ALWAYS AS (mallory.evil_2(id)) STORED, t text DEFAULT repeat('d', 100), a int[] DEFAULT '{1,2}', r mallory.span DEFAULT '[1,5)') WITH ("
		  . one_of('parvacuum.enabled', 'parvacuum.enabled, parvacuum.workers = 1', 'parvacuum.enabled, parvacuum.sweep', 'parvacuum.enabled = off') . ', autovacuum_vacuum_threshold = ' . int(rand 50) . ', autovacuum_vacuum_scale_factor = 0, autovacuum_analyze_threshold = 10)',
		map({ "CREATE INDEX IF NOT EXISTS $_" } "t${n}_btree ON $t (" . evil() . ')', "t${n}_brin ON $t USING brin (" . evil() . ') WITH (pages_per_range = 1)', "t${n}_partial ON $t (id) WHERE " . evil() . ' > 10',
			"t${n}_gin ON $t USING gin (a) WHERE " . evil() . ' > 0', "t${n}_hash ON $t USING hash (" . evil() . ')', "t${n}_gist ON $t USING gist (r)", "t${n}_pages ON $t USING brin (id) WITH (pages_per_range = 2) WHERE " . evil() . ' > 7'),
		"CREATE STATISTICS IF NOT EXISTS mallory.t${n}_stat ON " . evil() . ", (id + 1), (d::int) FROM $t", "CREATE TRIGGER fire BEFORE INSERT OR UPDATE ON $t FOR EACH ROW WHEN (pg_catalog.random() < 0.01) EXECUTE FUNCTION mallory.fire()",
		"INSERT INTO $t (id) SELECT i FROM generate_series(1, 400) i");
}

sub ddl
{
	my $n = int rand $tables;
	my $t = "mallory.t$n";
	return one_of(tables_of($n)) if chance(0.5);
	return sprintf 'ALTER FUNCTION mallory.evil_%d(int) %s', rand $evils, one_of('IMMUTABLE', 'VOLATILE') if chance(0.1);
	return one_of("DROP TABLE $t", "ALTER TABLE $t RENAME TO " . name(), "ALTER TABLE mallory." . name() . " RENAME TO t$n", "REINDEX TABLE $t", "REINDEX INDEX ${t}_btree", "CLUSTER $t USING t${n}_btree", "ALTER TABLE $t SET UNLOGGED", "ALTER TABLE $t SET LOGGED",
		"ALTER TABLE $t SET SCHEMA pg_temp", "DROP INDEX ${t}_brin", "ALTER INDEX ${t}_brin RENAME TO " . name(), "ALTER TABLE $t ALTER COLUMN t TYPE varchar(500)", "ALTER TABLE $t INHERIT mallory.parent", "ALTER TABLE $t NO INHERIT mallory.parent",
		"CREATE TABLE mallory." . name() . " (id int) WITH (parvacuum.enabled)", "DROP TABLE mallory." . name(), "CREATE OR REPLACE VIEW mallory.v AS SELECT * FROM $t", "REFRESH MATERIALIZED VIEW mallory.m", "ALTER TABLE $t OWNER TO nothing",
		"BEGIN; DROP OWNED BY CURRENT_USER CASCADE; ROLLBACK", "CREATE RULE \"_RETURN\" AS ON SELECT TO $t DO INSTEAD SELECT 1", "ALTER TABLE mallory.p DETACH PARTITION mallory.p1", "ALTER TABLE mallory.p ATTACH PARTITION mallory.p1 FOR VALUES FROM (0) TO (1000)",
		"GRANT ALL ON $t TO PUBLIC", "DROP EXTENSION parvacuum CASCADE", "ALTER EXTENSION parvacuum UPDATE", "BEGIN; CREATE TABLE mallory.made (id int) WITH (parvacuum.enabled); SELECT public.parvacuum_enqueue('mallory.made'); ROLLBACK", "COMMENT ON TABLE $t IS " . q{'x'}, "REASSIGN OWNED BY mallory TO nothing");
}

sub vacuum
{
	my ($role) = @_;
	my $options = join ', ', map { one_of('VERBOSE', 'ANALYZE', 'FREEZE', 'DISABLE_PAGE_SKIPPING', 'PARALLEL 2', 'PARALLEL 0', 'INDEX_CLEANUP on', 'TRUNCATE off', 'SKIP_LOCKED', 'PARALLEL ' . integer()) } 0 .. rand 3;
	my $table = chance(0.7) ? table() : relation($role);
	return one_of("VACUUM $table", "VACUUM ($options) $table", "ANALYZE $table", "ANALYZE ($options) $table", "BEGIN; VACUUM $table; ROLLBACK", "ANALYZE $table (id, r)", "SELECT brin_summarize_new_values('" . table() . "_brin')", "SELECT gin_clean_pending_list('" . table() . "_gin')",
		"SELECT * FROM public.parvacuum_run('" . table() . "', workers => " . one_of(0, 1, 2) . ', "analyze" => true)', "CALL public.parvacuum('" . table() . "')", "SELECT * FROM public.parvacuum_sweep('" . table() . "_btree')", "CALL public.parvacuum_sweep_index('" . table() . "_btree')", "SELECT public.parvacuum_enqueue('" . table() . "')");
}

# What a session can do beside, and what only superusers may
sub session
{
	my $key = int rand 5;
	my $pids = q{FROM pg_catalog.pg_stat_activity WHERE pid <> pg_catalog.pg_backend_pid() AND};
	return one_of("LISTEN a$key", "NOTIFY a$key, 'x'", 'UNLISTEN *', "SELECT pg_advisory_lock($key)", "SELECT pg_try_advisory_xact_lock($key)", 'SELECT pg_advisory_unlock_all()', 'SELECT pg_sleep(0.01)', 'SELECT mallory.deeper(1)', q{SELECT repeat('x', 2000000000)},
		q{SELECT length(repeat('x', 8000000))}, 'SELECT * FROM generate_series(1, 5000)', 'SELECT pg_cancel_backend(pg_backend_pid())', chance(0.1) ? 'SELECT pg_terminate_backend(pg_backend_pid())' : 'SELECT 1', "SELECT pg_cancel_backend(pid) $pids usename = current_user",
		"SELECT pg_terminate_backend(pid) $pids usename = current_user AND backend_type <> 'client backend'", "SELECT pg_cancel_backend(pid) $pids backend_type LIKE 'parvacuum%'", 'DISCARD ALL', "BEGIN; LOCK TABLE " . table() . '; SELECT pg_sleep(0.02); COMMIT', 'BEGIN; SET LOCAL work_mem = 64; SELECT 1/0; ROLLBACK',
		"CREATE TEMP TABLE IF NOT EXISTS mine (id int)", 'INSERT INTO pg_temp.mine SELECT generate_series(1, 100)', 'VACUUM pg_temp.mine', 'DO $d$ BEGIN FOR i IN 1 .. 200 LOOP BEGIN PERFORM 1 / (i % 2); EXCEPTION WHEN division_by_zero THEN NULL; END; END LOOP; END $d$', 'SELECT lo_create(0)');
}

sub escalation
{
	my $pids = q{FROM pg_catalog.pg_stat_activity WHERE};
	return one_of('SET ROLE postgres', 'SET SESSION AUTHORIZATION victim', 'RESET SESSION AUTHORIZATION', 'SET ROLE pg_read_all_stats', 'RESET ROLE', 'ALTER ROLE mallory SUPERUSER', 'ALTER ROLE nothing CREATEROLE', 'GRANT pg_read_all_stats TO nothing', 'CREATE ROLE eve SUPERUSER',
		q{COPY mallory.t1 TO '/tmp/parvacuum_owner'}, q{COPY (SELECT 1) TO PROGRAM 'true'}, q{SELECT pg_read_file('postgresql.conf')}, q{SELECT lo_export(1, '/tmp/parvacuum_owner')}, q{SELECT pg_ls_dir('.')}, 'SELECT pg_reload_conf()', 'UPDATE victim.plain SET id = 0', 'INSERT INTO victim.plain VALUES (-1)',
		'DELETE FROM victim.secret', 'TABLE victim.secret', 'TRUNCATE victim.ledger', 'DROP TABLE victim.plain', 'VACUUM victim.secret', 'ANALYZE victim.secret', 'LOCK TABLE victim.secret', 'ALTER TABLE victim.plain SET (parvacuum.enabled = off)', 'GRANT ALL ON victim.plain TO mallory',
		"SELECT pg_terminate_backend(pid) $pids backend_type LIKE 'parvacuum%' AND backend_type NOT LIKE '%leader%'", "SELECT pg_terminate_backend(pid) $pids usename = 'victim' OR application_name = 'resident'", 'UPDATE pg_database SET datname = datname', 'DELETE FROM pg_seclabel', 'DELETE FROM parvacuum_history',
		"CREATE FUNCTION public.intruder() RETURNS int LANGUAGE sql AS 'SELECT 1'", 'CREATE TRIGGER fire BEFORE UPDATE ON victim.plain FOR EACH ROW EXECUTE FUNCTION mallory.fire()', q{LOAD 'parvacuum'}, q{CREATE FUNCTION mallory.c() RETURNS int LANGUAGE c AS 'parvacuum', 'parvacuum_run'},
		'SELECT public.parvacuum_stats_reset()', 'SELECT public.parvacuum_history_reset()', 'SELECT public.parvacuum_reset_options()', q{SELECT pg_catalog.set_config('session_authorization', 'postgres', false)}, 'CREATE DATABASE eve', 'SELECT pg_switch_wal()', q{SECURITY LABEL FOR parvacuum ON TABLE victim.plain IS 'enabled=false'});
}

# Foreign servers with names that somebody else might use, that lead superusers into the owner's
# database, and tables that have them as nodes
my @server_names = ('local', 'far', 'here', 'localhost:5432', 'parvacuum_cluster_1', 'parvacuum_cluster_q1');
my @connection;
sub connect_to { @connection = @_; return; }

sub servers
{
	my ($host, $port, $superuser) = @connection;
	my @words = map { one_of(@$_) } [ "dbname='postgres'", 'dbname=postgres' ], [ "user='$superuser'", "user=$superuser" ], [ "port='$port'", "port=$port" ], [ "host='$host'", "host=$host" ];
	my $i = int rand 4;
	my $name = '"' . substr(one_of(one_of(@server_names), join ' ', @words[ $i .. 3, 0 .. $i - 1 ]), 0, 63) . '"';
	my $handler = one_of('postgres_fdw_handler', 'dblink_connect', 'dblink_send_query', 'parvacuum_cluster_send', 'parvacuum_cluster_connect', 'parvacuum_cluster_dblink');
	return one_of("CREATE SERVER $name FOREIGN DATA WRAPPER postgres_fdw OPTIONS (host '$host', port '$port', dbname 'trap')", "CREATE USER MAPPING FOR PUBLIC SERVER $name OPTIONS (user '$superuser')", "CREATE USER MAPPING FOR $superuser SERVER $name OPTIONS (user '$superuser')",
		"GRANT USAGE ON FOREIGN SERVER $name TO PUBLIC", "DROP SERVER $name CASCADE", "ALTER SERVER $name RENAME TO far", 'ALTER SERVER far RENAME TO "far away"', "ALTER SERVER far OPTIONS (SET dbname 'trap')", "CREATE USER MAPPING FOR PUBLIC SERVER far OPTIONS (user '$superuser')",
		"CREATE FOREIGN TABLE mallory.p2 PARTITION OF mallory.p DEFAULT SERVER $name", 'DROP FOREIGN TABLE mallory.p2', "ALTER FOREIGN TABLE mallory.c2 OPTIONS (SET table_name '" . one_of(@texts) . "')", 'SELECT count(*) FROM public.parvacuum_run_cluster(\'mallory.' . one_of('p', 'c') . q{')},
		"SET parvacuum_cluster.local_server = $name", "CREATE FUNCTION mallory.$handler(text, text) RETURNS text LANGUAGE plpgsql AS 'BEGIN " . with_canary($handler) =~ s/'/''/gr . " RETURN NULL; END'", "ALTER FUNCTION public.dblink_connect(text, text) OWNER TO mallory");
}

# One statement for the body of a function
sub deed
{
	my ($role) = @_;
	my $deed;
	do { $deed = one_of(\&call, \&vacuum, \&session, \&escalation, \&setting, \&rows, \&ddl, \&label, \&view, \&table_options)->($role) } while $deed =~ /;/ && $deed !~ /^DO/;
	return $deed;
}

# Functions that call each other for each row of their tables would never end.
my $shallow = q{GET DIAGNOSTICS stack = PG_CONTEXT; IF pg_catalog.array_length(pg_catalog.regexp_split_to_array(stack, 'evil_'), 1) OPERATOR(pg_catalog.<) 4 THEN };

# From PostgreSQL 16 on, core's assertions fail when a function rewrites a table, or uses a
# temporary one, in an autovacuum worker: pgstat_tracks_io_op() knows of no such I/O.  So
# there these statements are left to sessions, which have an application_name.
my $unlike_autovacuum = sub {
	return $version >= 16 && $_[0] =~ /ALTER COLUMN|LOGGED|CLUSTER|REFRESH|REINDEX|\bTEMP\b|pg_temp|made| mine|repeat/ ? q{ AND pg_catalog.current_setting('application_name') OPERATOR(pg_catalog.<>) ''} : '';
};

# A function of the owner for expressions of indexes and the like.  For some of its arguments
# it executes statements.
sub evil_function
{
	my ($n) = @_;
	$n = int rand $evils if $n !~ /^\d+$/;
	my $body = '';
	for my $i (1 .. 1 + rand 4)
	{
		my $deed = chance(0.1) ? one_of(q{RAISE EXCEPTION 'stop' USING ERRCODE = 'query_canceled'}, q{RAISE EXCEPTION 'stop' USING ERRCODE = 'admin_shutdown'}, 'PERFORM pg_catalog.pg_sleep(0.02)', 'COMMIT', 'i := mallory.deeper(i)', 'RAISE EXCEPTION SQLSTATE \'XX000\'') : 'EXECUTE $q$' . deed('mallory') . '$q$';
		my $modulus = one_of(53, 97, 211);
		my $result = int rand $modulus;
		$body .= "IF i OPERATOR(pg_catalog.%) $modulus OPERATOR(pg_catalog.=) $result" . $unlike_autovacuum->($deed) . " THEN $shallow" . (chance(0.85) ? "BEGIN $deed; EXCEPTION WHEN " . one_of('OTHERS', 'OTHERS', 'OTHERS OR query_canceled') . " THEN NULL; END; " : "$deed; ") . 'END IF; END IF; ';
	}
	return "CREATE OR REPLACE FUNCTION mallory.evil_$n(i int) RETURNS int " . one_of('IMMUTABLE', 'VOLATILE', 'VOLATILE') . ' PARALLEL ' . one_of('SAFE', 'UNSAFE') . " LANGUAGE plpgsql AS \$e\$ DECLARE stack text; BEGIN " . with_canary("evil_$n") . " $body RETURN i; END \$e\$";
}

# The owner's functions as long as they do nothing
sub evil_functions { return map { "CREATE OR REPLACE FUNCTION mallory.evil_$_(i int) RETURNS int IMMUTABLE LANGUAGE plpgsql AS \$e\$ BEGIN RETURN i; END \$e\$" } 0 .. $evils - 1; }

# Large tables, whose functions take very long where no session waits for them: in ANALYZE and in
# the cleanup of an index
sub large_tables
{
	return ('CREATE FUNCTION mallory.stays(i int) RETURNS int IMMUTABLE LANGUAGE plpgsql AS $e$ BEGIN RETURN i; END $e$', map {
			my $t = "mallory.large_$_";
			("CREATE TABLE $t (id int, t char(2400)) WITH (parvacuum.enabled, autovacuum_vacuum_threshold = 50, autovacuum_vacuum_insert_threshold = 50)", "ALTER TABLE $t ALTER t SET STORAGE PLAIN",
				"INSERT INTO $t SELECT i, 'x' FROM generate_series(1, 25500) i", "CREATE INDEX ON $t (mallory.stays(id))", "CREATE INDEX ON $t USING brin (mallory.stays(id)) WITH (pages_per_range = 1)");
	} 0 .. 2);
}

# Sixty tables each of which takes a worker of the scheduler for more than a second
our $slow = 60;
sub slow_tables
{
	return (q{CREATE FUNCTION mallory.dawdles(i int) RETURNS int IMMUTABLE LANGUAGE plpgsql AS $e$ BEGIN IF i = 1 AND pg_catalog.current_setting('application_name') OPERATOR(pg_catalog.=) '' THEN PERFORM pg_catalog.pg_sleep(1.5); END IF; RETURN i; END $e$},
		map { ("CREATE TABLE mallory.slow_$_ (id int) WITH (parvacuum.enabled, autovacuum_vacuum_threshold = 0, autovacuum_analyze_threshold = 0, autovacuum_analyze_scale_factor = 0)", "INSERT INTO mallory.slow_$_ SELECT generate_series(1, 100)", "CREATE INDEX ON mallory.slow_$_ (mallory.dawdles(id))") } 1 .. $slow);
}

# What that function does from now on; a change to the tables; and sizes that the owner makes up
sub stay
{
	my $large = 'mallory.large_' . int rand 3;
	my $sleep = 'PERFORM pg_catalog.pg_sleep(3600)';
	my $background = q{pg_catalog.current_setting('application_name') OPERATOR(pg_catalog.=) ''};
	my $body = one_of('NULL', $sleep, $sleep, "LOOP BEGIN $sleep; EXCEPTION WHEN query_canceled THEN NULL; END; END LOOP", 'LOOP NULL; END LOOP', q{RAISE EXCEPTION 'stop' USING ERRCODE = 'lock_not_available'},
		q{PERFORM pg_catalog.set_config('exit_on_error', 'on', false); RAISE EXCEPTION 'stop'});
	my @forged = $version >= 18 ? "SELECT pg_restore_relation_stats('schemaname', 'mallory', 'relname', '" . one_of('t1', 't2', 'large_0') . "', 'relpages', " . one_of(0, 1, 1000000) . ", 'reltuples', " . one_of('0', '1', '1e9') . '::real)' : ();
	return one_of("CREATE OR REPLACE FUNCTION mallory.stays(i int) RETURNS int IMMUTABLE LANGUAGE plpgsql AS \$e\$ BEGIN IF $background THEN $body; END IF; RETURN i; END \$e\$",
		"UPDATE $large SET t = 'y' WHERE id % 100 = " . int rand 100, "INSERT INTO $large SELECT i, 'z' FROM generate_series(1, 60) i", @forged);
}

# Functions and operators of the owner that are named as those of core, as one statement
# that makes all of them.
sub namesakes
{
	my $check = with_canary('a namesake');
	return qq{DO \$d\$ DECLARE r record; BEGIN
		FOR r IN SELECT proname, pg_get_function_identity_arguments(p.oid) AS args, format_type(prorettype, NULL) AS type, proretset FROM pg_proc p WHERE pronamespace = 'pg_catalog'::regnamespace AND prokind = 'f'
			AND prorettype <> 'internal'::regtype AND prorettype <> ALL ('{trigger,cstring,event_trigger}'::regtype[]) AND NOT prorettype::regtype::text ~ '^any|^void|record|_handler\$' AND NOT proargtypes::regtype[]::text ~ 'internal|cstring|any'
			AND provariadic = 0 AND pronargs <= 4 AND proname ~ '^(now|format|quote_|upper|lower|length|substr|left|concat|to_char|to_timestamp|date_|age|extract|abs|greatest|pg_get_|has_|pg_relation_size|pg_table_size|pg_total|current_|set_config|obj_|col_|array_|string_|regexp_|split_|round|floor|oid|text|int4|name|mxid|txid|pg_stat_get|pg_has_role|pg_is_|pg_size|pg_backend_pid|repeat|clock_|statement_)'
		LOOP EXECUTE format('CREATE FUNCTION mallory.%I(%s) RETURNS %s %s LANGUAGE plpgsql AS %L', r.proname, r.args, CASE WHEN r.proretset THEN 'SETOF' END, r.type, } . q{$b$BEGIN } . $check . q{ RETURN } . q{$b$ || CASE WHEN r.proretset THEN '' ELSE 'NULL' END || '; END'); END LOOP;
		FOR r IN SELECT oprname, oprleft::regtype AS l, oprright::regtype AS r, oprresult::regtype AS t, row_number() OVER () AS n FROM pg_operator WHERE oprkind = 'b' AND oprleft::regtype::text IN ('integer', 'bigint', 'oid', 'name', 'text', 'boolean', 'double precision', 'numeric', 'timestamp with time zone', 'interval', 'regclass', 'xid')
			AND NOT (oprleft::regtype::text || oprright::regtype::text) ~ 'any|internal' AND oprresult <> 0
		LOOP EXECUTE format('CREATE FUNCTION mallory.o_%s(a %s, b %s) RETURNS %s LANGUAGE plpgsql AS %L', r.n, r.l, r.r, r.t, $b$BEGIN } . $check . q{ RETURN NULL; END$b$);
			EXECUTE format('CREATE OPERATOR mallory.%s (LEFTARG = %s, RIGHTARG = %s, FUNCTION = mallory.o_%s)', r.oprname, r.l, r.r, r.n); END LOOP; END $d$};
}

# The kinds of statements, and how often each is made up
my @kinds = ((\&call) x 30, (\&view) x 8, (\&setting) x 14, (\&label) x 8, (\&table_options) x 12, (\&rows) x 10, (\&ddl) x 4, (\&vacuum) x 3, (\&session) x 9, (\&escalation) x 9, (\&servers) x 6, (\&stay) x 2, \&evil_function);

# One statement of a hostile role, in one line
sub statement
{
	my ($role) = @_;
	return one_of(@kinds)->($role) =~ s/\s*\n\s*/ /gr;
}

# What an administrator does: he vacuums the owner's tables and looks at all views, the
# owner's schema first in his search_path.
sub administration
{
	my $f = one_of(grep { $_->{name} !~ /reset/ } @functions);
	my @types = @{ $f->{types} };
	return one_of('VACUUM ' . table(), 'VACUUM (ANALYZE) ' . table(), 'ANALYZE ' . table(), 'VACUUM (PARALLEL 2, ANALYZE) ' . table(), 'VACUUM (FREEZE) ' . table(), 'REINDEX TABLE ' . table(), "SELECT * FROM public.parvacuum_run('" . table() . "')", 'CALL public.parvacuum(\'' . table() . '\', workers => 1)',
		"TABLE " . one_of(@views), "TABLE " . one_of(@views), 'SELECT count(*) FROM public.parvacuum_run_cluster(\'mallory.c\', workers => 0)', 'SELECT count(*) FROM public.parvacuum_cluster_cap(8)', 'SET search_path = mallory, pg_catalog, public', 'SET search_path = mallory', 'RESET search_path',
		($f->{kind} eq 'p' ? 'CALL ' : 'SELECT * FROM ') . $f->{name} . '(' . join(', ', map { $types[$_] eq 'regclass' || $types[$_] eq 'oid' ? q{'} . table() . "'::pg_catalog.regclass" : $types[$_] eq 'text' ? q{'} . table() . q{'} : 'NULL' } 0 .. @types - $f->{defaults} - 1) . ')');
}

1;
