# What parvacuum's TAP tests share: a server with the settings of the tests and the
# oracle, trials of the oracle, vacuums that run in the background and are observed in
# their phases, and a check of the server's log.
package PvTest;

use strict;
use warnings FATAL => 'all';

use Exporter 'import';
use File::Basename;
use IPC::Run;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;

our @EXPORT = qw(pv_bare_node pv_node pv_sql pv_setup pv_trial pv_findings pv_start_run pv_finish
  pv_await pv_processes pv_no_crash pv_differences pv_start_pgbench pv_catch_up pv_new_log pv_log_seen pv_session pv_hold pv_await_held %pv_place $pv_held pv_kept_files pv_is_like_stock pv_reload_with pv_await_ready pv_repeat_until pv_lengthen %pv_money);

my $test_dir = dirname(__FILE__) . '/..';
my $await_sql = qq{
	CREATE OR REPLACE FUNCTION await(query text, answer text) RETURNS bool LANGUAGE plpgsql AS \$\$
	DECLARE
		a text;
		until timestamptz = clock_timestamp() + '$PostgreSQL::Test::Utils::timeout_default s';
	BEGIN
		WHILE clock_timestamp() < until LOOP
			PERFORM pg_stat_clear_snapshot();
			EXECUTE query INTO a;
			IF a = answer THEN
				RETURN true;
			END IF;
			PERFORM pg_sleep(0.01);
		END LOOP;
		RETURN false;
	END \$\$;
};

# The servers of this test.
my @nodes;

# For scripts/coverage: a server that is stopped at once does not write its counts.
if ($ENV{PV_COVERAGE})
{
	no warnings 'redefine';
	my $teardown = \&PostgreSQL::Test::Cluster::teardown_node;
	*PostgreSQL::Test::Cluster::teardown_node = sub {
		my ($self) = @_;
		$self->stop('fast', fail_ok => 1);
		return $teardown->(@_);
	};
}

# scripts/check ends a test that hangs by SIGTERM.  Say what all sessions are waiting for.
sub say_what_hangs
{
	$SIG{TERM} = 'IGNORE';
	for my $node (@nodes)
	{
		my $out = '';
		my @psql = ('psql', '-XAtq', '-d', $node->connstr('postgres'), '-c', q{
			SELECT concat_ws(' ', pid, backend_type, state, wait_event, now() - query_start, query) FROM pg_stat_activity
			WHERE pid <> pg_backend_pid() AND (datname IS NOT NULL OR backend_type LIKE 'parvacuum%')});
		eval { IPC::Run::run(\@psql, '>', \$out, '2>&1', IPC::Run::timeout(20)); };
		diag 'it hangs; still running in ' . $node->name . ":\n$out";
	}
	die "the time limit is over\n";
}

# A server that is initialized, with core's settings; of another version with install_path.
sub pv_bare_node
{
	my ($name, %params) = @_;
	my $node = PostgreSQL::Test::Cluster->new($name, $params{install_path} ? (install_path => $params{install_path}) : ());

	# PG 18 has checksums by default; the oracle writes pages without them.  The template,
	# which PG 17 and later copy, has none.
	if ($node->pg_version >= 18 && ($params{extra} || !$ENV{INITDB_TEMPLATE}) && !grep { $_ eq '-k' } @{ $params{extra} || [] })
	{
		$params{extra} = [ @{ $params{extra} || [] }, '--no-data-checksums' ];
	}
	push @nodes, $node;
	$SIG{TERM} = \&say_what_hangs;

	# Before PostgreSQL 17 init does not know the template.
	no warnings 'redefine';
	my $run = \&PostgreSQL::Test::Utils::system_or_bail;
	local *PostgreSQL::Test::Utils::system_or_bail = sub {
		my ($program, undef, $dir) = @_;
		return $run->($program eq 'initdb' ? ('cp', '-RPp', $ENV{INITDB_TEMPLATE}, $dir) : @_);
	} if $ENV{INITDB_TEMPLATE} && $node->pg_version < 17 && !$params{extra} && !$params{install_path};
	$node->init(%params);
	return $node;
}

# A server that is initialized and configured, not started.
sub pv_node
{
	my ($name, %params) = @_;
	my $node = pv_bare_node($name, %params);
	$node->append_conf('postgresql.conf', slurp_file("$test_dir/parvacuum.conf"));

	# the last setting wins: the socket must be where the test expects it
	$node->append_conf('postgresql.conf', "log_min_messages = warning\n");
	return $node;
}

# Wait until a standby has replayed all WAL of its primary.  The message is one more record,
# which is flushed: if the record before it has filled a page, the end of the WAL is behind a
# page header that is not written before the next record.
sub pv_catch_up
{
	my ($primary, $standby) = @_;
	my $end = $primary->lsn('insert');
	$primary->safe_psql('postgres', q{SELECT pg_logical_emit_message(true, 'catch up', '')});
	$primary->wait_for_catchup($standby, 'replay', $end);
	return;
}

# Sessions that stay open, by the name of their server
my %open;

# Execute statements and return their output, as safe_psql does in the database postgres.  A
# new psql and a new backend for each question would cost a test more than its answers, so a
# session is used again.  It is left as a new one would be, and what it has counted is sent
# to the statistics.  Settings of the role or the database are those of the first call.
sub pv_sql
{
	my ($node, @statements) = @_;
	my $name = $node->name;
	my $out;

	# The session would note each statement.
	no warnings 'redefine';
	local *PostgreSQL::Test::BackgroundPsql::note = sub { };

	if ($open{$name} && !eval { $open{$name}->query_safe(q{DO 'BEGIN END'}); 1 })
	{
		delete $open{$name};
	}
	if (!$open{$name})
	{
		local $ENV{PGOPTIONS} = '-c client_min_messages=error';
		$open{$name} = $node->background_psql('postgres', timeout => 10 * $PostgreSQL::Test::Utils::timeout_default);
		$open{$name}->set_query_timer_restart;
	}
	if (!eval { $out = $open{$name}->query_safe(join("\n;\n", @statements, "\\o\nDO 'BEGIN PERFORM pg_stat_force_next_flush(); END'", 'DISCARD ALL')); 1 })
	{
		my $why = delete($open{$name})->{stderr} || $@;
		die "error running SQL: $why\nwhile running: @statements\n";
	}
	return $out;
}

# A server does not wait for these sessions when it stops, and says nothing of them.
for my $method (qw(stop restart kill9))
{
	no strict 'refs';
	no warnings 'redefine';
	my $core = \&{"PostgreSQL::Test::Cluster::$method"};
	*{"PostgreSQL::Test::Cluster::$method"} = sub {
		my $session = delete $open{ $_[0]->name };
		eval { $session->quit } if $session;
		goto &$core;
	};
}

# The time that a session has to end does not include how long it was idle before.
{
	no warnings 'redefine';
	my $core = \&PostgreSQL::Test::BackgroundPsql::quit;
	*PostgreSQL::Test::BackgroundPsql::quit = sub { $_[0]->{timeout}->start; goto &$core; };
}

# A session beside the test, which may last longer than one of its statements may.
sub pv_session
{
	my ($node) = @_;
	my $session = $node->background_psql('postgres', on_error_stop => 1);
	$session->set_query_timer_restart;
	return $session;
}

# Where parvacuum.wait_at holds all participants of a vacuum, when they begin with a phase.
# With "leader" before it only the leader is held, and the workers do the work.
our %pv_place = ('scanning heap' => 'scan', 'vacuuming indexes' => 'index', 'vacuuming heap' => 'heap', 'cleaning up indexes' => 'cleanup');

# Hold each vacuum of these tables at the place that parvacuum.wait_at names for it, until the
# session that is returned ends or releases its advisory locks.
sub pv_hold
{
	my ($node, @tables) = @_;
	my $session = pv_session($node);
	$session->query_safe("SELECT pg_advisory_lock(28790, '$_'::regclass::oid::int)") for @tables;
	return $session;
}

# Is any process held there?
our $pv_held = q{SELECT count(*) > 0 FROM pg_locks WHERE locktype = 'advisory' AND classid = 28790 AND NOT granted};

# Wait until this many processes are held there.  One test.
sub pv_await_held
{
	my ($node, $n, $what) = @_;
	ok(pv_await($node, q{SELECT count(*) FROM pg_locks WHERE locktype = 'advisory' AND classid = 28790 AND NOT granted}, $n), "$what: $n processes are held")
	  or diag pv_processes($node);
	return;
}

# The lines of the log since the last call, and how much of the log these calls have seen,
# in bytes
my %log_seen;

sub pv_new_log
{
	my ($node) = @_;
	my $new = slurp_file($node->logfile, pv_log_seen($node));
	$log_seen{ $node->logfile } += length $new;
	return $new;
}

sub pv_log_seen { return $log_seen{ $_[0]->logfile } //= 0; }

# Change settings of the server, and wait until sessions have them.  Other processes have
# them soon, too.
sub pv_reload_with
{
	my ($node, %settings) = @_;
	pv_sql($node, map({ "ALTER SYSTEM SET $_ = '$settings{$_}'" } sort keys %settings), 'SELECT pg_reload_conf()');
	my $in_effect = join ' AND ',
	  map { "'$settings{$_}' IN (current_setting('$_'), (SELECT setting FROM pg_settings WHERE name = '$_'))" } sort keys %settings;

	for (1 .. 10 * $PostgreSQL::Test::Utils::timeout_default)
	{
		select undef, undef, undef, 0.1;
		return if pv_sql($node, "SELECT $in_effect") eq 't';
	}
	die "the settings are not in effect\n";
}

# Wait until a server can be asked again: after a crash, of which the log tells behind this
# place, it restarts.  Returns false if it does not come back.
sub pv_await_ready
{
	my ($node, $from) = @_;

	# If it read its query from a pipe, it could end before that was written.
	my @psql = ('psql', '-XAtq', '-d', $node->connstr('postgres'), '-c', 'SELECT 1');

	for (1 .. 600)
	{
		my $pid_file = $node->data_dir . '/postmaster.pid';
		my ($pid) = -e $pid_file ? split(/\n/, slurp_file($pid_file)) : 0;
		return 0 if !$pid || !kill 0, $pid;
		my $log = slurp_file($node->logfile, $from);
		my $ready = $log !~ /(?:PANIC:|TRAP:|terminated by signal)(?!.*ready to accept connections)/s;
		return 1 if $ready && IPC::Run::run(\@psql, '<', \undef, '>', \my $out, '2>', \my $err);
		select undef, undef, undef, 0.05;
	}
	return 0;
}

# Both extensions and the oracle, in the database postgres.
sub pv_setup
{
	my ($node) = @_;
	$node->safe_psql('postgres',
		'CREATE EXTENSION IF NOT EXISTS parvacuum; ' . slurp_file("$test_dir/oracle.sql") . $await_sql);
	return;
}

# One trial of the oracle.  The arguments are those of oracle.trial, as SQL text.  Returns
# the faults, and the error if there was one; empty if there is no fault.
sub pv_trial
{
	my ($node, $arguments) = @_;
	my $timed_out = 0;
	my ($rc, $out, $err) = $node->psql('postgres',
		    "SET client_min_messages = error; TRUNCATE oracle.finding, oracle.run;\n"
		  . "\\o /dev/null\nSELECT oracle.trial($arguments) \\gexec\n\\o\n"
		  . 'SELECT * FROM oracle.finding',
		on_error_stop => 0,
		timeout => $PostgreSQL::Test::Utils::timeout_default,
		timed_out => \$timed_out);
	$err .= 'it hangs: ' . pv_processes($node) if $timed_out;
	return join "\n", grep { $_ ne '' } $out, $err;
}

# Lengthen a fork of a relation, which is a path in the data directory, to so many blocks of
# zeroes.  They take no room.  The server is stopped.
sub pv_lengthen
{
	my ($node, $path, $blocks) = @_;
	my $segment = 131072;    # 1 GB

	for my $i (0 .. int(($blocks - 1) / $segment))
	{
		my $file = $node->data_dir . "/$path" . ($i ? ".$i" : '');
		my $here = $blocks - $i * $segment;

		append_to_file($file, '');
		truncate($file, ($here < $segment ? $here : $segment) * 8192) or die "$file: $!";
	}
	return;
}

# The differences between ours and stock, without those that depend on the number of
# vacuums, and without those that the caller names.
sub pv_differences
{
	my ($node, @but) = @_;
	my $but = join ', ', map { "'$_'" } qw(vacuum_count n_live_tup n_dead_tup), 'index statistics', 'free space map', @but;
	return $node->safe_psql('postgres', qq{
		SELECT * FROM oracle.compare('stock', 'ours', true, false) WHERE what NOT IN ($but)
		UNION ALL SELECT * FROM oracle.check_table('ours')});
}

# Vacuum the table stock, and compare its twin, which has been vacuumed.  Two tests.
sub pv_is_like_stock
{
	my ($node, $vacuum, $what) = @_;
	pv_sql($node, $vacuum);
	is(pv_differences($node, 'reltuples'), '', "$what: the table is like one that stock has vacuumed");
	my ($stock, $ours) = split /\|/, pv_sql($node, q{SELECT (SELECT reltuples FROM pg_class WHERE oid = 'stock'::regclass), reltuples FROM pg_class WHERE oid = 'ours'::regclass});
	cmp_ok(abs($stock - $ours), '<=', $stock / 100, "$what: it has about as many tuples: $ours instead of $stock");
	return;
}

# The number of files of dead items that are kept, in all tablespaces
sub pv_kept_files
{
	my ($node) = @_;
	return pv_sql($node, q{SELECT count(*) FROM pg_tablespace t, pg_ls_tmpdir(t.oid) WHERE spcname <> 'pg_global' AND name LIKE '%parvacuum%'});
}

sub pv_findings
{
	my ($node, $table) = @_;
	return pv_sql($node, "SELECT * FROM oracle.check_table('$table')");
}

# Start a statement in a session of its own, with settings, and return at once.
sub pv_start_run
{
	my ($node, $sql, %settings) = @_;
	my %run = (out => '', err => '', tag => 'run_' . int(rand(1e9)));
	my $options = join ' ', map { "-c $_=$settings{$_}" } sort keys %settings;

	local $ENV{PGOPTIONS} = $options;
	local $ENV{PGAPPNAME} = $run{tag};
	$run{timer} = IPC::Run::timeout($PostgreSQL::Test::Utils::timeout_default);
	$run{handle} = IPC::Run::start(
		[ 'psql', '-XAtq', '-v', 'ON_ERROR_STOP=1', '-d', $node->connstr('postgres'), '-c', $sql ],
		'<', \undef, '>', \$run{out}, '2>', \$run{err}, $run{timer});
	return \%run;
}

# Wait for the end of the statement.  Returns whether it succeeded.
sub pv_finish
{
	my ($run) = @_;
	$run->{timer}->start;    # how long the test did other things does not matter
	my $good = $run->{handle}->finish;
	chomp $run->{out};
	return $good;
}

# Wait until a query returns this answer, as text.  Returns whether it did.  The server
# itself repeats the query, so that short moments are not missed.
sub pv_await
{
	my ($node, $query, $answer) = @_;
	return pv_sql($node, "SELECT await(\$\$$query\$\$, '$answer')") eq 't';
}

# Transactions on the tables account and ledger that do not change the sum over both:
# amounts move from account to ledger and back.
our %pv_money = (
	transfer => [ 40, q{
\set id random(1, 40000)
\set amount random(1, 50)
WITH poorer AS (UPDATE account SET balance = balance - :amount, k = (k + 1) % 1000 WHERE id = :id RETURNING id)
INSERT INTO ledger SELECT id, :amount, repeat('p', 200) FROM poorer;
} ],
	settle => [ 2, q{
\set id random(1, 40000)
BEGIN;
WITH gone AS (DELETE FROM ledger WHERE id BETWEEN :id AND :id + 300 RETURNING amount)
UPDATE account SET balance = balance + (SELECT coalesce(sum(amount), 0) FROM gone), note = 'settled' WHERE id = 1;
COMMIT;
} ]);

# Execute statements in turn, repeatedly, until this time.  Returns their number, and a
# reference to a list of those that failed.
sub pv_repeat_until
{
	my ($node, $end, @sql) = @_;
	my @failed;
	my $n = 0;
	while (time < $end && @failed <= 3)
	{
		my $sql = $sql[ $n++ % @sql ];
		my ($rc, $stdout, $stderr) = $node->psql('postgres', "SET client_min_messages = error; $sql",
			timeout => $PostgreSQL::Test::Utils::timeout_default);
		push @failed, "$sql: $stderr" if $rc != 0;
	}
	return ($n, \@failed);
}

# Start pgbench with scripts, each a weight and a text, for this many seconds.  After the
# caller has finished its handle, "out" and "err" have the output.
sub pv_start_pgbench
{
	my ($node, $seconds, $clients, %scripts) = @_;
	my %bench = (out => '', err => '');
	my $dir = PostgreSQL::Test::Utils::tempdir;
	my @files;

	for my $name (sort keys %scripts)
	{
		my ($weight, $text) = @{ $scripts{$name} };
		append_to_file("$dir/$name.sql", $text);
		push @files, '-f', "$dir/$name.sql\@$weight";
	}
	$bench{handle} = IPC::Run::start(
		[ 'pgbench', '-n', '-c', $clients, '-j', 2, '-T', $seconds, '--max-tries=100', @files, $node->connstr('postgres') ],
		'<', \undef, '>', \$bench{out}, '2>', \$bench{err});
	return \%bench;
}

# All processes of parvacuum, for a message
sub pv_processes
{
	my ($node) = @_;
	return $node->safe_psql('postgres', q{
		SELECT string_agg(format('%s %s %s %s', pid, backend_type, state, wait_event), ', ')
		FROM pg_stat_activity
		WHERE backend_type LIKE 'parvacuum%' OR backend_type = 'parallel worker'});
}

# One test: no process of the server has crashed.
sub pv_no_crash
{
	my ($node, $what) = @_;
	my @bad = grep { /PANIC:|TRAP:|terminated by signal|server process .* was terminated/ }
	  split /\n/, slurp_file($node->logfile);
	is(scalar(@bad), 0, "no crash in the log of $what") or diag join "\n", @bad[ 0 .. ($#bad > 9 ? 9 : $#bad) ];
	return;
}

1;
