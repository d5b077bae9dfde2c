# What holds back the horizon: each kind of holder is made for real.  parvacuum_blockers
# shows it, a vacuum keeps dead rows because of it, and the statement in the column
# "release" makes it let go.

use strict;
use warnings FATAL => 'all';

use FindBin;
use lib $FindBin::RealBin;
use IPC::Run;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use PvTest;
use Test::More;

my $node = pv_node('blockers', allows_streaming => 1, extra => [ '--encoding=UTF8', '--locale=C' ]);
$node->append_conf('postgresql.conf', q{
wal_level = logical
max_wal_senders = 5
max_replication_slots = 5
});
$node->start;
pv_setup($node);
sql(q{
CREATE DATABASE other;
CREATE TABLE t (id int);
CREATE TABLE decoded (id int) WITH (user_catalog_table = true);
CREATE PUBLICATION p;
ALTER TABLE t SET (parvacuum.enabled);
ALTER TABLE decoded SET (parvacuum.enabled);
CREATE ROLE stranger LOGIN;
CREATE ROLE watcher IN ROLE pg_read_all_stats;
CREATE TABLE theirs (id int) WITH (parvacuum.enabled);
ALTER TABLE theirs OWNER TO stranger;
});

# Functions whose arguments would suit better than those of core do, if "release" named
# them without a schema
my $trap = q{RETURNS bool LANGUAGE plpgsql AS $$BEGIN RAISE EXCEPTION 'trapped'; END$$};
sql("CREATE FUNCTION $_ $trap") for 'pg_drop_replication_slot(text)', 'pg_terminate_backend(int, int)';

sub sql { return pv_sql($node, @_); }

# The number of dead rows that a vacuum keeps, of one that was deleted just now
sub kept
{
	my ($table) = @_;
	sql("INSERT INTO $table VALUES (1)", "DELETE FROM $table");
	return sql("SELECT tuples_recently_dead > 0 FROM parvacuum_run('$table')") eq 't' ? 1 : 0;
}

# The same by the history, for the last vacuum of a table
sub last_kept
{
	my ($table) = @_;
	return sql("SELECT tuples_recently_dead FROM parvacuum_history WHERE relname = '$table' ORDER BY run DESC LIMIT 1");
}

# The line of VACUUM (VERBOSE) of a role about what holds back the horizon
sub line
{
	my ($table, $role) = @_;
	sql("INSERT INTO $table VALUES (1)", "DELETE FROM $table");
	my ($rc, $out, $err) = $node->psql('postgres', ($role ? "SET ROLE $role; " : '') . "VACUUM (VERBOSE) $table");
	return $err =~ /^removable cutoff held back by: (.*)$/m ? $1 : '';
}

# Columns of the rows that hold back a table
sub rows
{
	my ($columns, $table, $condition) = @_;
	return sql("SELECT $columns FROM parvacuum_blockers('$table') WHERE " . ($condition // 'true'));
}

sub released
{
	my ($what, $condition) = @_;
	my $release = sql("SELECT release FROM parvacuum_blockers WHERE $condition");
	sql($release =~ /pg_terminate_backend.*; / ? split(/; /, $release) : $release);
	ok(pv_await($node, "SELECT count(*) FROM parvacuum_blockers WHERE $condition", '0'), "$what: \"release\" makes it let go") or diag $release;
	return;
}

sub awaited
{
	my ($what, $condition) = @_;
	ok(pv_await($node, "SELECT count(*) FROM parvacuum_blockers WHERE $condition", '1'), "$what: there is one row")
	  or diag sql('SELECT * FROM parvacuum_blockers');
	return;
}

is(sql('SELECT count(*) FROM parvacuum_blockers'), 0, 'nothing holds back the horizon; the calling session is not shown');
is(kept('t'), 0, 'a vacuum keeps nothing');
is(line('t'), '', 'its report names nothing');
my $time = qr/\d{4}-\d\d-\d\d [\d:.]+\S*/;
my $me = sql('SELECT session_user');

# A session that executes a statement, and one of another database
{
	my $run = pv_start_run($node, 'SELECT pg_sleep(600)');
	awaited('a session', "kind = 'session'");
	is(rows(q{name, usename = session_user, datname, holds, state, query, xmin_age >= 0, since < now(), duration > '0', release = format('SELECT pg_catalog.pg_cancel_backend(%s)', pid)}, 't'),
		"$run->{tag}|t|postgres|one database|active|SELECT pg_sleep(600)|t|t|t|t", 'a session: its row');
	is(kept('t'), 1, 'a session: dead rows are kept');
	like(line('t'), qr/^session, PID \d+, application "$run->{tag}", role "$me", since $time$/, 'a session: the report names it');
	released('a session', "kind = 'session'");
	pv_finish($run);
	is(kept('t'), 0, 'a session: afterwards they are not');

	my $other = $node->background_psql('other');
	$other->query_safe('BEGIN; SELECT pg_current_xact_id()');
	awaited('another database', "datname = 'other'");
	is(rows('count(*)', 't'), 0, 'another database: it holds back no table of this one');
	is(rows('kind, holds', 'pg_database'), 'idle in transaction|one database', 'another database: it holds back shared catalogs');
	is(rows('count(*)', 'pg_class'), 0, 'another database: it does not hold back catalogs of this one');
	sql('INSERT INTO t VALUES (1)', 'DELETE FROM t');
	my ($rc, $out, $err) = $node->psql('postgres', 'VACUUM (VERBOSE) t');
	like($err, qr/ 0 are dead but not yet removable/, 'another database: dead rows are not kept');
	$other->query_safe('SELECT pg_current_xact_id()');
	my $here = $node->background_psql('postgres');
	$here->query_safe('BEGIN ISOLATION LEVEL REPEATABLE READ; SELECT 1');
	is(kept('t'), 1, 'another database: they are if there is a snapshot in this one, which is as old');
	is(line('t') =~ /, PID (\d+),/ && $1, sql("SELECT pid FROM parvacuum_blockers WHERE datname = 'other'"), 'another database: the report names the cause, not the snapshot');
	is(rows("string_agg(datname || ' ' || (xmin = (SELECT xmin FROM parvacuum_blockers WHERE datname = 'other')), ', ' ORDER BY datname)", 't'), 'other true, postgres true',
		'another database: so does the function, beside the snapshot');
	$here->query_safe('ROLLBACK');
	is(rows('count(*)', 't'), 0, 'another database: but not without a snapshot in this one');
	$here->quit;
	$other->query_safe('COMMIT');
	$other->quit;
}

# Two snapshots, of which the second one is newer
{
	my @holders;
	for my $n (0, 1)
	{
		$holders[$n] = $node->background_psql('postgres');
		$holders[$n]->query_safe('BEGIN ISOLATION LEVEL REPEATABLE READ; SELECT 1');
		sql('SELECT pg_current_xact_id()') for 1 .. 3;
	}
	is(rows('count(DISTINCT xmin::text)', 't'), 2, 'two snapshots: one is newer');
	is(line('t') =~ /, PID (\d+),/ && $1, sql('SELECT pid FROM parvacuum_blockers ORDER BY xmin_age DESC LIMIT 1'), 'two snapshots: the report names the older one');
	$_->quit for @holders;
}

# Idle in transaction.  A later session has a snapshot that is just as old.
{
	my $idle = $node->background_psql('postgres');
	my $xid = $idle->query_safe('BEGIN; SELECT pg_current_xact_id()');
	my $later = $node->background_psql('postgres');
	$later->query_safe('BEGIN ISOLATION LEVEL REPEATABLE READ; SELECT 1');
	sql('SELECT pg_current_xact_id()') for 1 .. 3;
	awaited('idle in transaction', "kind = 'idle in transaction' AND query LIKE '%current_xact%'");
	is(rows('count(*), min(xmin::text), max(xmin::text), min(xmin_age) > 2', 't'), "2|$xid|$xid|t", 'idle in transaction: both sessions hold back as much');
	is(rows('count(*), min(kind)', $_), '2|idle in transaction', "idle in transaction: they hold back $_") for qw(pg_class pg_database decoded);
	is(kept('t'), 1, 'idle in transaction: dead rows are kept');
	like(line('t'), qr/^idle in transaction, PID \d+, application "[^"]+", role "$me", since $time$/, 'idle in transaction: the report names it');
	is(line('t') =~ /, PID (\d+),/ && $1, sql("SELECT pid FROM parvacuum_blockers WHERE query LIKE '%current_xact%'"), 'idle in transaction: the report names the cause, not the snapshot');
	is(rows('tuples_kept', 't', "query LIKE '%current_xact%'"), last_kept('t'), 'idle in transaction: the rows that the last vacuum kept');
	is(rows('tuples_kept', 't', "query NOT LIKE '%current_xact%'"), 0, 'idle in transaction: they are not counted twice');
	like(line('theirs', 'stranger'), qr/^session, PID \d+$/, 'idle in transaction: the report for another role has only the PID');
	like(line('theirs'), qr/^idle in transaction, PID \d+, application "[^"]+", role "/, 'idle in transaction: the rights are those of the user, not of the owner');
	sql('GRANT stranger TO watcher');
	like(sql('ALTER TABLE theirs OWNER TO watcher') . line('theirs', 'watcher'), qr/^idle in transaction, PID \d+, application "[^"]+", role "/, 'idle in transaction: members of pg_read_all_stats see all');
	$later->query_safe('ROLLBACK');
	$later->quit;

	# Another role sees the process, and not what it is or does.
	is($node->safe_psql('postgres', q{SELECT kind, pid > 0, num_nulls(name, usename, since, duration, tuples_kept, state, query, release), datname FROM parvacuum_blockers}, extra_params => [ '-U', 'stranger' ]),
		'session|t|8|postgres', 'idle in transaction: what another role sees');
	$idle->query_safe('COMMIT; BEGIN; SELECT pg_current_xact_id()');
	is(rows('tuples_kept', 't'), 0, 'idle in transaction: what was kept because of an earlier transaction of the session is not counted');
	released('idle in transaction', "kind = 'idle in transaction'");
	eval { $idle->quit };
}

# Other states: a transaction that has failed but is kept by a savepoint, a session that does
# not say what it does, and a call of a function by the protocol for that
{
	my $failed = $node->background_psql('postgres', on_error_stop => 0);
	$failed->query('BEGIN; SELECT pg_current_xact_id(); SAVEPOINT s; SELECT 1 / 0');
	awaited('a failed transaction', "state = 'idle in transaction (aborted)'");
	is(rows('kind, holds', 't'), 'idle in transaction|one database', 'a failed transaction: its row');
	released('a failed transaction', "state = 'idle in transaction (aborted)'");
	eval { $failed->quit };

	local $ENV{PGOPTIONS} = '-c track_activities=off';
	my $silent = $node->background_psql('postgres');
	delete $ENV{PGOPTIONS};
	$silent->query_safe('BEGIN; SELECT pg_current_xact_id()');
	awaited('a silent session', "kind = 'session'");
	is(rows('state, query', 't'), '|', 'a silent session: its state is not known');
	released('a silent session', "kind = 'session'");
	eval { $silent->quit };

	my $object = sql('SELECT lo_create(0)');
	my $first = $node->background_psql('postgres');
	$first->query_safe("BEGIN; SELECT lo_unlink($object)");
	my $second = pv_start_run($node, "\\lo_unlink $object");
	awaited('a fastpath call', "state = 'fastpath function call'");
	like(rows('release', 't', "state = 'fastpath function call'"), qr/pg_cancel_backend/, 'a fastpath call: it can be canceled');
	released('a fastpath call', "state = 'fastpath function call'");
	pv_finish($second);
	$first->query_safe('ROLLBACK');
	$first->quit;
	is(sql('SELECT count(*) FROM parvacuum_blockers'), 0, 'other states: nothing is left');
}

# A prepared transaction, whose name is not simple
{
	my $gid = q{it's "x"\\ } . "\n" . q{; DROP TABLE t};
	my $quoted = $gid =~ s/'/''/gr =~ s/\\/\\\\/gr;
	sql('BEGIN', 'INSERT INTO t VALUES (2)', "PREPARE TRANSACTION E'$quoted'");
	awaited('prepared transaction', "kind = 'prepared transaction'");
	is(rows("name = E'$quoted', pid, usename = session_user, datname, holds, since < now(), state", 't'), 't||t|postgres|one database|t|', 'prepared transaction: its row');
	is(kept('t'), 1, 'prepared transaction: dead rows are kept');
	my $last = last_kept('t');
	is(rows('tuples_kept', 't'), $last, 'prepared transaction: the rows that the last vacuum kept');
	sql('ALTER TABLE theirs OWNER TO stranger');
	kept('theirs');
	is(rows('tuples_kept', 't'), $last + last_kept('theirs'), 'prepared transaction: the sum over all tables');
	is($node->safe_psql('postgres', 'SELECT tuples_kept FROM parvacuum_blockers', extra_params => [ '-U', 'stranger' ]), last_kept('theirs'), 'prepared transaction: the owner of a table sees the rows of that one');
	like(line('t'), qr/^prepared transaction "it's "x"\\ \?; DROP TABLE t", role "$me", since $time$/, 'prepared transaction: the report names it in one line');
	released('prepared transaction', "kind = 'prepared transaction'");
	is(kept('t'), 0, 'prepared transaction: afterwards they are not');
}

# A prepared transaction of a database with another encoding, whose name cannot be
# converted
{
	sql(q{CREATE DATABASE latin ENCODING 'LATIN1' LC_COLLATE 'C' LC_CTYPE 'C' TEMPLATE template0});
	my $gid = q{E'it''s \\\\\xe4\xf8'};
	$node->safe_psql('latin', "SET client_encoding = 'LATIN1'; BEGIN; SELECT pg_current_xact_id(); PREPARE TRANSACTION $gid");
	awaited('another encoding', "kind = 'prepared transaction'");
	is(sql(q{SELECT name, datname, release FROM parvacuum_blockers}), "it's \\??|latin|", 'another encoding: its row');
	sql('CREATE TABLE latin (id int) WITH (parvacuum.enabled)', q{INSERT INTO latin VALUES (1)});
	my $here = $node->background_psql('postgres');
	$here->query_safe('BEGIN ISOLATION LEVEL REPEATABLE READ; SELECT 1');
	like(line('latin'), qr/^prepared transaction "it's \\\?\?", role/, 'another encoding: the report names it');
	$here->quit;
	$node->safe_psql('latin', "SET client_encoding = 'LATIN1'; ROLLBACK PREPARED $gid");
}

# A prepared transaction of Citus, whose other parts may have been committed, and names that are
# like that of one
{
	my %release = map { $_ => "/* others may have committed their parts: ask the transaction manager first */ ROLLBACK PREPARED '$_'" } 'citus_0_4711_17_0x', 'citus_0_4711_17_', 'my_citus_0_4711_17_0';
	$release{citus_0_4711_17_0} = "/* other nodes may have committed it: better call recover_prepared_transactions() of Citus on the node that began it */ ROLLBACK PREPARED 'citus_0_4711_17_0'";
	$release{pg_gid_16400_740} = "/* of a subscription, which cannot go on if the publisher commits it: better end it there */ ROLLBACK PREPARED 'pg_gid_16400_740'";
	for my $gid (sort keys %release)
	{
		sql('BEGIN', 'SELECT pg_current_xact_id()', "PREPARE TRANSACTION '$gid'");
		is(sql(q{SELECT release FROM parvacuum_blockers WHERE kind = 'prepared transaction'}), $release{$gid}, "$gid: what releases it");
		sql($release{$gid});
	}
	is(sql(q{SELECT count(*) FROM parvacuum_blockers WHERE kind = 'prepared transaction'}), 0, 'and does so');
}

# A vacuum does not hold back anything, CREATE INDEX CONCURRENTLY does.
{
	sql('CREATE TABLE busy AS SELECT generate_series(1, 100) AS id', 'CREATE FUNCTION slow(int) RETURNS int LANGUAGE plpgsql IMMUTABLE AS $$BEGIN PERFORM pg_sleep(0.1); RETURN $1; END$$',
		'DELETE FROM busy WHERE id = 7');
	my $vacuum = pv_start_run($node, 'VACUUM (DISABLE_PAGE_SKIPPING) busy', vacuum_cost_delay => '100ms', vacuum_cost_limit => 1);
	my $vacuums = "SELECT count(*) FROM pg_stat_activity WHERE query LIKE 'VACUUM%busy' AND state = 'active' AND backend_xmin IS NOT NULL";
	SKIP:
	{
		skip 'the vacuum was too fast', 1 unless pv_await($node, $vacuums, '1');
		is(rows('count(*)', 't', "query LIKE 'VACUUM%'"), 0, 'a vacuum: it does not hold back');
	}
	pv_finish($vacuum);

	my $create = pv_start_run($node, 'CREATE INDEX CONCURRENTLY ON busy (slow(id))');
	awaited('CREATE INDEX CONCURRENTLY', "query LIKE 'CREATE INDEX%'");
	is(kept('t'), 1, 'CREATE INDEX CONCURRENTLY: dead rows are kept');
	released('CREATE INDEX CONCURRENTLY', "query LIKE 'CREATE INDEX%'");
	pv_finish($create);
}

# A base backup holds WAL, but neither a snapshot nor a transaction.
my $dir = PostgreSQL::Test::Utils::tempdir;
{
	my ($out, $err) = ('', '');
	my $backup = IPC::Run::start(
		[ 'pg_basebackup', '-d', $node->connstr('postgres'), '-D', "$dir/backup", '-X', 'fetch', '-c', 'fast', '--max-rate=32k', '--no-sync' ],
		'>', \$out, '2>', \$err);
	ok(pv_await($node, q{SELECT count(*) FROM pg_stat_progress_basebackup WHERE phase = 'streaming database files'}, '1'), 'base backup: it is running');
	is(sql('SELECT count(*) FROM parvacuum_blockers'), 0, 'base backup: it has no row');
	is(kept('t'), 0, 'base backup: dead rows are not kept');
	$backup->kill_kill;
	my $session = $node->background_psql('postgres');
	$session->query_safe("SELECT pg_backup_start('label', true)");
	is(sql('SELECT count(*) FROM parvacuum_blockers'), 0, 'base backup by hand: it has no row');
	is(kept('t'), 0, 'base backup by hand: dead rows are not kept');
	$session->quit;
	ok(pv_await($node, 'SELECT count(*) FROM pg_stat_replication', '0'), 'base backup: it has ended');
}

# A standby that sends feedback: without a slot, and with one
{
	$node->backup('copy');
	my $standby = PostgreSQL::Test::Cluster->new('blockers_standby');
	$standby->init_from_backup($node, 'copy', has_streaming => 1);
	$standby->append_conf('postgresql.conf', "hot_standby_feedback = on\nwal_receiver_status_interval = 1s\nwal_retrieve_retry_interval = 100ms\n");
	$standby->start;
	my $held = "kind = '%s' AND xmin_age > 0";
	for my $kind ('standby feedback', 'slot xmin')
	{
		if ($kind eq 'slot xmin')
		{
			sql(q{SELECT pg_create_physical_replication_slot('of_standby')});
			$standby->append_conf('postgresql.conf', "primary_slot_name = 'of_standby'\n");
			$standby->reload;
		}
		awaited($kind, "kind = '$kind'");
		my $reader = $standby->background_psql('postgres');
		$reader->query_safe('BEGIN ISOLATION LEVEL REPEATABLE READ; SELECT 1');
		is(pv_sql($standby, 'SELECT kind, holds FROM parvacuum_blockers'), 'idle in transaction|all databases', "$kind: the view shows on the standby who is to blame");
		sql('INSERT INTO t VALUES (3)', 'DELETE FROM t') for 1 .. 3;
		awaited($kind, sprintf $held, $kind);
		is(rows('holds, datname, pid > 0, name, release', 't'),
			'all databases||t|' . ($kind eq 'slot xmin' ? 'of_standby' : $standby->name) . '|/* on the standby: its queries may then be canceled, its logical slots are lost, and slots no longer synchronized; reload it afterwards */ ALTER SYSTEM SET hot_standby_feedback = off', "$kind: its row");
		is(rows('count(*)', $_), 1, "$kind: it holds back $_") for qw(pg_class pg_database);
		is(kept('t'), 1, "$kind: dead rows are kept");
		like(line('t'), $kind eq 'slot xmin' ? qr/^slot xmin "of_standby", PID \d+, active$/ : qr/^standby feedback, PID \d+, application "blockers_standby", role "$me"$/, "$kind: the report names it");
		$reader->query_safe('COMMIT');
		$reader->quit;
		ok(pv_await($node, sprintf("SELECT count(*) FROM parvacuum_blockers WHERE $held", $kind), '0'), "$kind: it lets go");

		# The standby knows the transactions of the primary, of all databases.
		my $cause = $node->background_psql('other');
		$cause->query_safe('BEGIN; SELECT pg_current_xact_id()');
		sql('INSERT INTO t VALUES (3)', 'DELETE FROM t') for 1 .. 3;
		awaited($kind, sprintf $held, $kind);
		is(line('t') =~ /, PID (\d+),/ && $1, sql("SELECT pid FROM parvacuum_blockers WHERE datname = 'other'"), "$kind: a transaction that the standby only sees is to blame");
		$cause->quit;
		ok(pv_await($node, sprintf("SELECT count(*) FROM parvacuum_blockers WHERE $held", $kind), '0'), "$kind: it lets go when that one ends");
		next if $kind eq 'slot xmin';

		# A walsender without a slot that ends leaves its xmin behind in its PGPROC.
		$reader = $standby->background_psql('postgres');
		$reader->query_safe('BEGIN ISOLATION LEVEL REPEATABLE READ; SELECT 1');
		sql('INSERT INTO t VALUES (3)', 'DELETE FROM t') for 1 .. 3;
		awaited($kind, sprintf $held, $kind);
		$standby->stop('immediate');
		eval { $reader->quit };
		ok(pv_await($node, 'SELECT count(*) FROM pg_stat_replication', '0'), "$kind: it has ended");
		is(sql('SELECT count(*) FROM parvacuum_blockers'), 0, "$kind: it leaves no row behind");
		my $idle = $node->background_psql('postgres');
		$idle->query_safe('BEGIN; SELECT pg_current_xact_id()');
		like(line('t'), qr/^idle in transaction, /, "$kind: it is not named when it has ended");
		$idle->quit;
		$standby->start;
	}

	# A slot that follows one of the primary
	if ($node->pg_version >= 17)
	{
		sql(q{SELECT pg_create_logical_replication_slot('followed', 'pgoutput', false, false, true)});
		$standby->append_conf('postgresql.conf', sprintf "primary_conninfo = '%s dbname=postgres'\n", $node->connstr =~ s/'/''/gr);
		$standby->reload;
		for (1 .. 10 * $PostgreSQL::Test::Utils::timeout_default)
		{
			sql('SELECT pg_log_standby_snapshot()', q{SELECT pg_replication_slot_advance('followed', pg_current_wal_lsn())});
			$node->wait_for_replay_catchup($standby);
			$standby->psql('postgres', 'SELECT pg_sync_replication_slots()');
			last if pv_sql($standby, q{SELECT count(*) FROM pg_replication_slots WHERE slot_name = 'followed' AND NOT temporary}) eq '1';
			select undef, undef, undef, 0.1;
		}
		is(pv_sql($standby, q{SELECT kind, holds, release FROM parvacuum_blockers WHERE name = 'followed'}),
			q{slot catalog_xmin|catalogs|/* on the primary, which the slot follows */ /* whoever reads from the slot cannot go on afterwards */ SELECT pg_catalog.pg_drop_replication_slot('followed')},
			'a slot that follows one of the primary: its row on the standby');
		released('a slot that is followed', "name = 'followed'");
	}

	# A slot holds on when its standby is gone.
	my $reader = $standby->background_psql('postgres');
	$reader->query_safe('BEGIN ISOLATION LEVEL REPEATABLE READ; SELECT 1');
	sql('INSERT INTO t VALUES (3)', 'DELETE FROM t') for 1 .. 3;
	awaited('slot xmin', sprintf $held, 'slot xmin');
	$reader->quit;
	$standby->stop('immediate');
	awaited('inactive slot', "kind = 'slot xmin' AND state = 'inactive'");
	is(rows('pid, release', 't'), q{|/* its standby may have to be set up anew afterwards */ SELECT pg_catalog.pg_drop_replication_slot('of_standby')}, 'inactive slot: its row');
	released('inactive slot', "kind = 'slot xmin'");
	is(sql('SELECT count(*) FROM parvacuum_blockers'), 0, 'the standby leaves nothing behind');
	is(kept('t'), 0, 'without the standby dead rows are not kept');
}

# A logical slot, and a process that decodes for it
{
	sql(q{SELECT pg_create_logical_replication_slot('decoder', 'pgoutput')});
	awaited('logical slot', "kind = 'slot catalog_xmin'");
	is(rows('count(*)', 't'), 0, 'logical slot: it holds back no table');
	is(rows('kind, holds, state, pid, name, datname', $_), 'slot catalog_xmin|catalogs|inactive||decoder|postgres', "logical slot: it holds back $_") for qw(pg_class pg_database decoded);
	is(kept('t'), 0, 'logical slot: dead rows are not kept');
	is(kept('decoded'), 1, 'logical slot: those of a table like a catalog are');
	is(rows('tuples_kept', 'decoded'), last_kept('decoded'), 'logical slot: the rows that the last vacuum kept');
	like(line('decoded'), qr/^slot catalog_xmin "decoder", inactive/, 'logical slot: the report names it');
	is($node->safe_psql('other', q{SELECT kind FROM parvacuum_blockers('pg_class')}), 'slot catalog_xmin', 'logical slot: it holds back catalogs of another database')
	  if $node->safe_psql('other', 'CREATE EXTENSION parvacuum') eq '';

	my ($out, $err) = ('', '');
	my $decoder = IPC::Run::start(
		[ 'pg_recvlogical', '-d', $node->connstr('postgres'), '--slot=decoder', '--start', '-f', '-', '-o', 'proto_version=1', '-o', 'publication_names=p' ],
		'>', \$out, '2>', \$err);
	awaited('logical decoding', "kind = 'slot catalog_xmin' AND state = 'active'");
	is(rows('count(*)', 't'), 0, 'logical decoding: the process itself holds back nothing');
	is(kept('t'), 0, 'logical decoding: dead rows are not kept');
	is(rows('pid = (SELECT active_pid FROM pg_replication_slots), release', 'pg_class'),
		't|' . sql(q{SELECT format('/* whoever reads from the slot cannot go on afterwards */ SELECT pg_catalog.pg_terminate_backend(%s, 5000); SELECT pg_catalog.pg_drop_replication_slot(''decoder'')', active_pid) FROM pg_replication_slots}), 'logical decoding: its row');
	$decoder->kill_kill;
	ok(pv_await($node, "SELECT state FROM parvacuum_blockers WHERE name = 'decoder'", 'inactive'), 'logical decoding: it has ended');
	released('logical slot', "kind = 'slot catalog_xmin'");
	is(kept('decoded'), 0, 'logical slot: afterwards nothing is kept');

	my $session = $node->background_psql('postgres');
	$session->query_safe(q{SELECT pg_create_logical_replication_slot('passing', 'pgoutput', true)});
	my $backend = $session->query_safe('SELECT pg_backend_pid()');
	is(rows('kind, state, release', 'decoded'), "slot catalog_xmin|active|/* whoever reads from the slot cannot go on afterwards */ SELECT pg_catalog.pg_terminate_backend($backend)", 'temporary slot: its row');
	released('temporary slot', "name = 'passing'");
	eval { $session->quit };
}

# A slot that has been invalidated
{
	sql(q{SELECT pg_create_logical_replication_slot('lost', 'pgoutput')});
	awaited('a slot', "name = 'lost'");
	pv_reload_with($node, max_slot_wal_keep_size => '1MB');
	sql("SELECT pg_logical_emit_message(true, '', 'x')", 'SELECT pg_switch_wal()') for 1 .. 3;
	sql('CHECKPOINT');
	is(sql(q{SELECT wal_status FROM pg_replication_slots WHERE slot_name = 'lost'}), 'lost', 'a slot has been invalidated');
	is(sql('SELECT count(*) FROM parvacuum_blockers'), 0, 'a slot that has been invalidated holds back nothing');
	sql(q{SELECT pg_catalog.pg_drop_replication_slot('lost')});
	pv_reload_with($node, max_slot_wal_keep_size => -1);
}

# The log of autovacuum, and a holder that has ended when the vacuum does
{
	sql('CREATE TABLE log (id int) WITH (parvacuum.enabled, autovacuum_enabled = off)', 'INSERT INTO log SELECT generate_series(1, 1000)');
	my $idle = $node->background_psql('postgres');
	$idle->query_safe('BEGIN; SELECT pg_current_xact_id()');
	sql('DELETE FROM log WHERE id % 2 = 0', 'ALTER TABLE log SET (autovacuum_enabled, autovacuum_vacuum_threshold = 1, autovacuum_vacuum_scale_factor = 0, log_autovacuum_min_duration = 0)');
	pv_reload_with($node, autovacuum_naptime => '1s', autovacuum => 'on');
	my $log = '';
	for (1 .. 10 * $PostgreSQL::Test::Utils::timeout_default)
	{
		last if slurp_file($node->logfile) =~ /automatic vacuum of table "postgres\.public\.log".*?^\tremovable cutoff held back by: ([^\n]*)/ms && ($log = $1);
		select undef, undef, undef, 0.1;
	}
	like($log, qr/^idle in transaction, PID \d+, application "[^"]+", role "$me", since $time$/, 'autovacuum: its log names the holder');
	ok(pv_await($node, "SELECT count(*) > 0 FROM parvacuum_history WHERE relname = 'log' AND started_by = 'autovacuum' AND tuples_recently_dead = 500 AND blocker_kind = 'idle in transaction' AND blocker = '$log'", 'true'),
		'autovacuum: the history names the holder, too');
	pv_reload_with($node, autovacuum => 'off');

	my $vacuum = pv_start_run($node, 'VACUUM (VERBOSE, DISABLE_PAGE_SKIPPING) log', vacuum_cost_delay => '100ms', vacuum_cost_limit => 1);
	pv_await($node, "SELECT count(*) FROM pg_stat_progress_vacuum WHERE phase = 'scanning heap'", '1');
	$idle->query_safe('COMMIT');
	pv_finish($vacuum);
	like($vacuum->{err}, qr/^removable cutoff held back by: session, .*, whose transaction has ended$/m, 'a transaction that has ended');
	$idle->quit;
}

# A vacuum that is canceled after it has found dead rows that it must keep
{
	sql('CREATE TABLE fails (id int PRIMARY KEY) WITH (parvacuum.enabled)', 'INSERT INTO fails SELECT generate_series(1, 50000)', 'DELETE FROM fails WHERE id <= 20000');
	my $idle = $node->background_psql('postgres');
	$idle->query_safe('BEGIN; SELECT pg_current_xact_id()');
	sql('DELETE FROM fails WHERE id > 49900');
	my $gate = $node->background_psql('postgres');
	$gate->query_safe('SELECT pg_advisory_lock(28790)');
	my $vacuum = pv_start_run($node, 'VACUUM (INDEX_CLEANUP on) fails', 'parvacuum.wait_at' => 'nbtree\ range');
	ok(pv_await($node, q{SELECT count(*) > 0 FROM parvacuum_progress WHERE phase = 'vacuuming indexes' AND wait_event = 'advisory'}, 'true'), 'canceled: the heap has been scanned');
	sql("SELECT pg_cancel_backend(pid) FROM pg_stat_activity WHERE application_name = '$vacuum->{tag}'");
	pv_finish($vacuum);
	like(sql(q{SELECT outcome, tuples_removed, tuples_recently_dead, blocker_kind, blocker FROM parvacuum_history WHERE relname = 'fails'}),
		qr/^canceled\|20000\|100\|idle in transaction\|idle in transaction, PID /, 'canceled: the history names the holder');
	$idle->query_safe('ROLLBACK');
	$_->quit for $gate, $idle;
}

# A role whose name comes from a database with another encoding: no text in this one, and
# nothing that a client could be sent.  It ends within the bytes of a character.
{
	sql("CREATE DATABASE $_ TEMPLATE template0 ENCODING '$_' LC_COLLATE 'C' LC_CTYPE 'C'") for qw(utf8 latin1);
	$node->safe_psql('latin1', qq{SET client_encoding = utf8; CREATE ROLE "abcd\xc3\xa4" LOGIN});
	$node->safe_psql('utf8', 'CREATE EXTENSION parvacuum; CREATE TABLE t (id int) WITH (parvacuum.enabled)');
	my $idle = $node->background_psql('utf8', extra_params => [ '-U', "abcd\xe4" ]);
	$idle->query_safe('BEGIN ISOLATION LEVEL REPEATABLE READ; SELECT 1');
	$node->safe_psql('utf8', 'INSERT INTO t VALUES (1); DELETE FROM t');
	local $ENV{PGCLIENTENCODING} = 'LATIN1';
	my ($rc, $out, $err) = $node->psql('utf8', 'VACUUM (VERBOSE) t');
	like($err, qr/^removable cutoff held back by: .*, role "abcd\?"/m, 'a role of another encoding: VERBOSE names it as far as possible');
	is($rc, 0, 'a role of another encoding: the vacuum does not fail') or diag $err;
	like($node->safe_psql('utf8', q{SELECT blocker FROM parvacuum_history WHERE relation = 't'::regclass}), qr/role "abcd\?"/, 'a role of another encoding: the history');
	$idle->quit;
}

# What is not a table, and tables that nobody else sees
{
	my ($rc, $out, $err) = $node->psql('postgres', q{CREATE VIEW v AS SELECT 1; SELECT * FROM parvacuum_blockers('v')});
	like($err, qr/"v" is not a table or materialized view/, 'a view: an error');
	($rc, $out, $err) = $node->psql('postgres', q{SELECT * FROM parvacuum_blockers(1::regclass)});
	like($err, qr/table with OID 1 does not exist/, 'a table that is gone: an error');
	my $idle = $node->background_psql('postgres');
	$idle->query_safe('BEGIN; SELECT pg_current_xact_id()');
	is(sql('CREATE TEMP TABLE mine (i int)', q{SELECT count(*) FROM parvacuum_blockers('mine')}), 0, 'a temporary table: others do not see it');
	is(sql(q{CREATE TABLE part (i int) PARTITION BY LIST (i)}, q{SELECT count(*) FROM parvacuum_blockers('part')}), 1, 'a partitioned table: like its partitions');
	$idle->quit;
}

# Without totals
{
	pv_no_crash($node, 'the server');
	$node->append_conf('postgresql.conf', 'parvacuum.stats_size = 0');
	$node->restart;
	my $idle = $node->background_psql('postgres');
	$idle->query_safe('BEGIN; SELECT pg_current_xact_id()');
	kept('t');
	is(sql('SELECT kind, tuples_kept IS NULL FROM parvacuum_blockers'), 'idle in transaction|t', 'without totals it is not known what was kept');
	$idle->quit;
}

pv_no_crash($node, 'the server');
$node->stop;
done_testing();
