# A server in which the views of parvacuum have something to show, and a role that
# monitors it, for the tests of monitoring/ and scripts/report.
package PvMonitoring;

use strict;
use warnings FATAL => 'all';

use Exporter 'import';
use IO::Socket::INET;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use PvTest;
use Test::More;

our @EXPORT = qw(monitored_node has_command free_port wait_for $odd_name $role);

# A name that means something in SQL, HTML, JSON, JavaScript, YAML and in labels of
# Prometheus
our $odd_name = qq(t'"\\</script><!--{}&amp;\n\$x\x{e9}\x{2028}');
our $role = 'monitor';

sub has_command
{
	my ($command) = @_;
	return grep { -x "$_/$command" } split /:/, $ENV{PATH};
}

# A port of TCP on the loopback device that is free now
sub free_port
{
	my $socket = IO::Socket::INET->new(Listen => 1, LocalAddr => '127.0.0.1') or die "no free port: $!";
	return $socket->sockport;
}

# Repeat until the function returns true, for a minute at most, and for some seconds once
# that was in vain.  Returns what it returned last.
my $tries = 300;
sub wait_for
{
	my ($function) = @_;
	for (1 .. $tries)
	{
		my $answer = $function->();
		return $answer if $answer;
		select undef, undef, undef, 0.2;
	}
	$tries = 10;
	return;
}

# The text as an identifier of SQL
sub quoted
{
	my ($name) = @_;
	utf8::encode($name);
	return '"' . $name =~ s/"/""/gr . '"';
}

# A server with two databases, both with the extension in a schema of its own.  Vacuums
# have removed rows, kept rows because of a prepared transaction, and failed; the
# scheduler has vacuumed a table, and waits for another.
#
# Returns the server, and handles of sessions that the caller finishes: one holds a lock
# that the scheduler waits for, and one vacuums slowly.
sub monitored_node
{
	my ($name) = @_;
	my $node = pv_node($name);
	my $odd = quoted($odd_name);

	$node->append_conf('postgresql.conf', q{
autovacuum = on
autovacuum_naptime = 1s
parvacuum.scheduler = on
parvacuum.scheduler_max_cost = 100000
parvacuum.max_runs = 40
});
	$node->start;
	$node->safe_psql('postgres', "CREATE ROLE $role LOGIN; GRANT pg_monitor TO $role; ALTER ROLE $role SET search_path = parvacuum; CREATE DATABASE second");
	for my $database (qw(postgres second))
	{
		$node->safe_psql($database, qq{
			CREATE SCHEMA parvacuum;
			CREATE EXTENSION parvacuum SCHEMA parvacuum;
			GRANT USAGE ON SCHEMA parvacuum TO $role;
			ALTER DATABASE $database SET search_path = public, parvacuum;
		});
		$node->safe_psql($database, qq{
			CREATE TABLE orders (id int PRIMARY KEY, note text);
			CREATE INDEX orders_note ON orders (note);
			CREATE TABLE $odd (id int PRIMARY KEY);
			CREATE TABLE locked (id int PRIMARY KEY);
			ALTER TABLE orders SET (parvacuum.enabled);
			ALTER TABLE $odd SET (parvacuum.enabled);
			ALTER TABLE locked SET (parvacuum.enabled);
			INSERT INTO orders SELECT i, 'order ' || i FROM generate_series(1, 60000) i;
			INSERT INTO $odd SELECT generate_series(1, 20000);
			DELETE FROM orders WHERE id % 3 = 0;
			DELETE FROM $odd WHERE id % 2 = 0});
		$node->safe_psql($database, "VACUUM orders; VACUUM $odd");
	}

	# rows that a prepared transaction keeps
	$node->safe_psql('postgres', "BEGIN; INSERT INTO locked VALUES (0); PREPARE TRANSACTION 'forgotten'");
	$node->safe_psql('postgres', "DELETE FROM orders WHERE id % 5 = 0");
	$node->safe_psql('postgres', "VACUUM orders");

	# a run that is canceled
	$node->psql('postgres', "SET statement_timeout = 50; SET vacuum_cost_delay = 100; SET vacuum_cost_limit = 1; VACUUM $odd");

	my %session;
	$session{lock} = pv_start_run($node, 'BEGIN; LOCK TABLE locked IN SHARE UPDATE EXCLUSIVE MODE; SELECT pg_sleep(300)');
	$session{vacuum} = pv_start_run($node, 'VACUUM orders', vacuum_cost_delay => 100, vacuum_cost_limit => 1);
	ok(pv_await_at($node, q{SELECT count(*) FROM pg_locks WHERE relation = 'locked'::regclass AND mode = 'ShareUpdateExclusiveLock'}, 1), 'a table is locked');
	ok(pv_await_at($node, q{SELECT count(*) > 0 FROM pg_stat_progress_vacuum WHERE relid = 'orders'::regclass AND heap_blks_scanned > 0}, 't'), 'a vacuum is running');
	$node->safe_psql('postgres', q{SELECT parvacuum_enqueue('locked')});
	ok(pv_await_at($node, q{SELECT count(*) FROM parvacuum_queue WHERE relid = 'locked'::regclass AND state = 'waiting'}, 1), 'the scheduler waits for the locked table');
	return ($node, \%session);
}

sub pv_await_at
{
	my ($node, $query, $answer) = @_;
	return wait_for(sub { $node->safe_psql('postgres', $query) eq $answer });
}

1;
