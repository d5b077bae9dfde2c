# What the tests of the scheduler share: the server, what its queue and its statistics
# say of a table, waiting for them, and vacuums that are held.
package PvScheduler;

use strict;
use warnings FATAL => 'all';

use Exporter 'import';
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use PvTest;
use Test::More;
use Time::HiRes qw(sleep time);

our @EXPORT = qw($node $in $calm $low $running $active sched_start sql reload_with naptime set_speed speed
  oid_of vacuum_sql vacuums stat_of item queue until_vacuumed until_item until_answer
  make_bell two_scans make_tables make_dead hold release forget_holder start_held until_held worker_of
  create_keyed make_keyed make_keyed_dead keep_busy go_on
  units_per_second is_near log_length times_logged);

our $node;

# Options of tables: the scheduler vacuums them; it never analyzes them; it vacuums them
# when they have ten dead rows.
our $in = 'parvacuum.enabled';
our $calm = 'autovacuum_analyze_threshold = 1000000';
our $low = 'autovacuum_vacuum_threshold = 10, autovacuum_vacuum_scale_factor = 0';

# Entries of the queue that are being vacuumed, and those that are or will be.
our $running = q{SELECT count(*) FROM parvacuum_queue_items() WHERE state = 'running'};
our $active = q{SELECT count(*) FROM parvacuum_queue_items() WHERE state <> 'waiting'};

# Start a server with the settings of a text.  The scheduler is off, unless the text says
# otherwise.
sub sched_start
{
	my ($name, $conf, %params) = @_;
	$node = pv_node($name, %params);
	$node->append_conf('postgresql.conf', qq{
autovacuum_naptime = 1s
autovacuum_vacuum_cost_delay = 0
autovacuum_vacuum_threshold = 50
autovacuum_vacuum_scale_factor = 0.2
autovacuum_vacuum_insert_threshold = 1000
autovacuum_vacuum_insert_scale_factor = 0.2
autovacuum_analyze_threshold = 50
autovacuum_analyze_scale_factor = 0.1
deadlock_timeout = 100ms
parvacuum.wait_at = scan
parvacuum.scheduler_workers = 3
} . ($conf // ''));
	$node->start;
	pv_setup($node);
	return;
}

sub sql { return pv_sql($node, @_); }

sub reload_with { return pv_reload_with($node, @_); }

sub naptime { return reload_with(autovacuum_naptime => $_[0]); }

# Set the cost units per second of all workers together.  The launcher may not be there to
# apply them.
sub set_speed { return reload_with('parvacuum.scheduler_max_cost' => $_[0]); }

# The same, and wait until the launcher has passed them on.  One test.
sub speed
{
	my ($rate) = @_;
	set_speed($rate);
	ok(pv_await($node, 'SELECT max_cost FROM parvacuum_scheduler_stats()', $rate), "scheduler_max_cost = $rate is in effect");
	return;
}

# The OID of a table, or with "toast of" of its TOAST table, as SQL.
sub oid_of { return $_[0] =~ /^toast of (\w+)/ ? "(SELECT reltoastrelid FROM pg_class WHERE oid = '$1'::regclass)" : "'$_[0]'::regclass"; }

# The number of vacuums of a table so far, whichever process ran them.
sub vacuum_sql { return '(SELECT vacuum_count + autovacuum_count FROM pg_stat_all_tables WHERE relid = ' . oid_of($_[0]) . ')'; }
sub vacuums { return sql('SELECT ' . vacuum_sql($_[0])); }
sub stat_of { return sql("SELECT $_[0] FROM parvacuum_scheduler_stats()"); }

# The entry of a table in the queue, and all that is known of the scheduler.
sub item { return "(SELECT concat_ws(' ', state, reason) FROM parvacuum_queue_items() WHERE relid = " . oid_of($_[0]) . ')'; }
sub queue { return join "\n", sql('SELECT * FROM parvacuum_queue LIMIT 20'), sql('SELECT * FROM parvacuum_scheduler_stats()'), pv_processes($node); }

# One test: a query comes to have this answer.  If not, nothing that follows makes sense.
sub until_answer
{
	my ($query, $answer, $what) = @_;
	ok(pv_await($node, $query, $answer), $what) or die "$what: ", queue();
	return;
}

sub until_vacuumed
{
	my ($table, $count, $what) = @_;
	return until_answer('SELECT ' . vacuum_sql($table) . " >= $count", 'true', $what);
}

sub until_item
{
	my ($table, $state, $what) = @_;
	return until_answer('SELECT ' . item($table), $state, $what);
}

# Wait until a database scan that began after now has ended: a table that needs a vacuum
# at this time has been vacuumed, and the queue is empty.  A table that needs a vacuum after
# any change shows when a scan has come.
my $bell = 0;

sub make_bell
{
	sql('CREATE TABLE bell (i int) WITH (parvacuum.enabled, autovacuum_vacuum_threshold = 0, autovacuum_vacuum_scale_factor = 0, autovacuum_analyze_threshold = 1000000000)',
		'INSERT INTO bell VALUES (0)');
	return;
}

sub two_scans
{
	for (1 .. 2)
	{
		$bell++;
		sql('UPDATE bell SET i = i + 1');
		pv_await($node, 'SELECT ' . vacuum_sql('bell') . " >= $bell", 'true') or diag 'no database scan: ', queue();
		pv_await($node, $active, 0) or diag 'the queue does not become empty: ', queue();
	}
	return;
}

# Tables of this many pages, three rows on each.  They are vacuumed when the session
# that has filled them has ended, and has reported all that it did.
sub make_tables
{
	my ($pages, @tables) = @_;
	sql(map { ("CREATE TABLE $_ (id int, pad char(2400))", "ALTER TABLE $_ ALTER pad SET STORAGE PLAIN",
			"INSERT INTO $_ SELECT i, 'x' FROM generate_series(1, 3 * $pages) i",
			"ALTER TABLE $_ SET ($in, $calm, autovacuum_vacuum_insert_threshold = -1)") } @tables);
	sql(map { "VACUUM $_" } @tables);
	return;
}

# Dead rows in clean pages of these tables.
my $dead = 0;

sub make_dead
{
	my (@tables) = @_;
	$dead = ($dead + 1) % 3;
	return sql(map({ ("ALTER TABLE $_ SET (autovacuum_enabled = off)", "UPDATE $_ SET id = id WHERE id % 3 = $dead") } @tables),
		'CHECKPOINT', map { "ALTER TABLE $_ SET (autovacuum_enabled = on)" } @tables);
}

# The worker that vacuums a table.
sub worker_of { return sql("SELECT pid FROM parvacuum_queue WHERE relid = '$_[0]'::regclass AND state = 'running'"); }

# From now on vacuums of these tables are held before they read a page; a vacuum holds its
# table, its worker and its place, and gives way like any other.  The session that does it
# is the same all the time.
my $holder;

sub hold
{
	$holder //= pv_hold($node);
	$holder->query_safe("SELECT pg_advisory_lock(28790, '$_'::regclass::oid::int)") for @_;
	return;
}

# Let them go on: these, or all.
sub release
{
	my (@tables) = @_;
	$holder->query_safe(@tables ? join '; ', map { "SELECT pg_advisory_unlock(28790, '$_'::regclass::oid::int)" } @tables : 'SELECT pg_advisory_unlock_all()');
	return;
}

# The server is stopped, or has crashed.
sub forget_holder { $holder->quit if $holder; undef $holder; return; }

# Start a vacuum that is held.  One test.
sub start_held
{
	my ($table, $what) = @_;
	hold($table);
	make_dead($table);
	until_held($table, $what);
	return;
}

sub until_held { return until_answer("SELECT count(*) > 0 FROM pg_locks WHERE locktype = 'advisory' AND objid = '$_[0]'::regclass AND NOT granted", 'true', "$_[1]: a vacuum is held"); }

# Tables of 100 pages and a primary key, which need a vacuum when they have ten dead rows

sub create_keyed
{
	my $options = "$in, $low, autovacuum_vacuum_insert_threshold = -1, $calm";
	return map { ("CREATE TABLE $_ (id int PRIMARY KEY, pad char(2400)) WITH ($options)", "ALTER TABLE $_ ALTER pad SET STORAGE PLAIN",
			"INSERT INTO $_ SELECT i, 'x' FROM generate_series(1, 300) i") } @_;
}

sub make_keyed { sql(create_keyed(@_)); sql(map { "VACUUM $_" } @_); return; }

sub make_keyed_dead
{
	return sql(map({ ("ALTER TABLE $_ SET (autovacuum_enabled = off)", "UPDATE $_ SET pad = 'y' WHERE id % 3 = 1") } @_),
		'CHECKPOINT', 'BEGIN', map({ "ALTER TABLE $_ SET (autovacuum_enabled = on)" } @_), 'COMMIT');
}

# Keep the only worker busy with the table "busy", and let it and two others go on.  One
# test each.
sub keep_busy
{
	reload_with('parvacuum.scheduler_workers' => 1);
	hold('busy');
	make_keyed_dead('busy');
	sql(q{SELECT parvacuum_enqueue('busy', urgent => true)});
	until_item('busy', 'running', "$_[0]: the only worker is busy");
	return;
}

sub go_on
{
	release();
	until_answer($active, 0, "$_[0]: the queue is empty");
	reload_with('parvacuum.scheduler_workers' => 3);
	return;
}

# The cost units that are used per second, measured for some seconds.
sub units_per_second
{
	my ($seconds) = @_;
	my $from = stat_of('cost_units');
	my $begun = time;
	sleep $seconds;
	my $to = stat_of('cost_units');
	return ($to - $from) / (time - $begun);
}

# Whether that is near the limit.  Two tests.  What else the machine does can take the time
# of one measurement, so there are up to four.
sub is_near
{
	my ($seconds, $should, $what, $least) = @_;
	my ($low, $high) = (($least // 0.88) * $should, 1.12 * $should);
	my $is;
	for (1 .. 4)
	{
		$is = units_per_second($seconds);
		note sprintf '%s: %.0f units a second of %d', $what, $is, $should;
		last if $is > $low && $is < $high;
	}
	cmp_ok($is, '>', $low, "$what: the limit is used");
	cmp_ok($is, '<', $high, "$what: the limit is kept");
	return;
}

# The length of the log, and how often a pattern is in it from some position on.
sub log_length { return length slurp_file($node->logfile); }

sub times_logged
{
	my ($pattern, $from) = @_;
	my $n = () = substr(slurp_file($node->logfile), $from // 0) =~ /$pattern/g;
	return $n;
}

1;
