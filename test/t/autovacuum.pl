# Autovacuum leads our workers: which engine vacuums a table, with how many workers,
# under which cost limits, and which processes give way to others.

use strict;
use warnings FATAL => 'all';

use FindBin;
use lib $FindBin::RealBin;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use PvTest;
use Test::More;
use Time::HiRes qw(sleep time);

my $node = pv_node('autovacuum');

# A page costs 100 units, so limits are small numbers of pages.
$node->append_conf('postgresql.conf', q{
autovacuum = on
autovacuum_naptime = 1s
log_autovacuum_min_duration = 0
deadlock_timeout = 100ms
vacuum_cost_page_hit = 100
vacuum_cost_page_miss = 100
vacuum_cost_page_dirty = 0
autovacuum_vacuum_cost_limit = 200
autovacuum_vacuum_cost_delay = 0
});
$node->start;
pv_setup($node);

my $options = 'autovacuum_vacuum_threshold = 50, autovacuum_vacuum_scale_factor = 0, autovacuum_analyze_threshold = 1000000000';
my $round = 0;

sub sql { return pv_sql($node, @_); }

sub reload_with
{
	my (%settings) = @_;
	sql(map({ "ALTER SYSTEM SET $_ = '$settings{$_}'" } sort keys %settings), 'SELECT pg_reload_conf()');
	return;
}

# Make autovacuum run, or not.
sub wake { return sql("ALTER TABLE $_[0] SET (autovacuum_enabled = on)"); }
sub calm { return sql("ALTER TABLE $_[0] SET (autovacuum_enabled = off)"); }

sub new_dead_rows
{
	my (@tables) = @_;
	$round++;
	sql(map { "DELETE FROM $_ WHERE id % 50 = $round" } @tables);
	return;
}

my $progress = q{FROM pg_stat_progress_vacuum p JOIN pg_stat_activity a USING (pid)
	WHERE relid = '%s'::regclass AND backend_type = 'autovacuum worker'};

# Wait until autovacuum vacuums the table, in this phase.
sub until_phase
{
	my ($phase, $what) = @_;
	ok(pv_await($node, 'SELECT count(*) ' . sprintf($progress, 'ours') . " AND phase = '$phase'", 1), "$what: autovacuum has begun");
	return;
}

sub phase_now { return sql('SELECT phase ' . sprintf($progress, 'ours')); }
sub over { return pv_await($node, 'SELECT count(*) ' . sprintf($progress, $_[0] // 'ours'), 0); }

# Autovacuum of a table from its beginning to its end.  Returns its lines of the log.
sub autovacuum_of
{
	my ($table, @statements) = @_;
	calm($table);
	new_dead_rows($table);
	sql(@statements) if @statements;
	pv_new_log($node);
	my $count = sql("SELECT autovacuum_count FROM pg_stat_user_tables WHERE relid = '$table'::regclass");
	wake($table);
	pv_await($node, "SELECT autovacuum_count > $count FROM pg_stat_user_tables WHERE relid = '$table'::regclass", 'true')
	  or diag "no autovacuum of $table";
	calm($table);
	my $log = pv_new_log($node);
	my ($entry) = $log =~ /(automatic [a-z ]*vacuum [a-z ]*of table "postgres\.public\.$table".*?system usage[^\n]*\n(?:\t[^\n]*\n)*)/s;
	return wantarray ? ($entry // '', $log) : $entry // '';
}

# No process may still run.
sub no_workers
{
	my ($what) = @_;
	ok(pv_await($node, q{SELECT count(*) FROM pg_stat_activity WHERE backend_type = 'parallel worker'}, 0), "$what: no worker remains")
	  or diag pv_processes($node);
	return;
}

sql("\\o /dev/null\nSELECT * FROM oracle.make_twins('none', 17000, ARRAY['btree', 'gin', 'hash'], 400) \\gexec\n\\o\n");
calm($_) for qw(stock ours);
sql("ALTER TABLE ours SET ($options)", "ALTER TABLE stock SET ($options)");

#
# Which engine vacuums a table, and with how many workers
#
my ($entry, $log) = autovacuum_of('ours');
isnt($entry, '', 'autovacuum vacuums a table');
unlike($log, qr/engine: parvacuum/, 'core vacuums a table that did not opt in');

$entry = autovacuum_of('ours', 'ALTER TABLE ours SET (parvacuum.enabled)');
like($entry, qr/index scans: 1\n/, 'opted in: the first line of the report is that of core');
like($entry, qr/pages: .*\n.*tuples: .*\n.*removable cutoff: .*\n/, 'opted in: the next lines are those of core');
like($entry, qr/engine: parvacuum, 2 parallel workers launched \(planned: 2\)/, 'opted in: two workers by default');
SKIP:
{
	skip 'the storage parameter autovacuum_parallel_workers came with 19', 3 if $node->pg_version->major < 19;
	like(autovacuum_of('ours', 'ALTER TABLE ours SET (autovacuum_parallel_workers = 1)'),
		qr/engine: parvacuum, 1 parallel workers launched \(planned: 1\)/, 'the storage parameter gives the number of workers');
	like(autovacuum_of('ours', 'ALTER TABLE ours SET (autovacuum_parallel_workers = 0)'),
		qr/engine: parvacuum, 0 parallel workers launched \(planned: 0\)/, 'the storage parameter forbids workers');
	like(autovacuum_of('ours', 'ALTER TABLE ours SET (parvacuum.workers = 2)'),
		qr/engine: parvacuum, 2 parallel workers launched \(planned: 2\)/, 'the option of parvacuum comes before the storage parameter');
	sql('ALTER TABLE ours RESET (autovacuum_parallel_workers, parvacuum.workers)');
}
like($entry, qr/phases: heap scan [\d.]+ ms, index vacuum [\d.]+ ms, second heap pass [\d.]+ ms, index cleanup [\d.]+ ms/, 'opted in: the report has the phases');
like($entry, qr/dead item store: \d+ bytes at most\n/, 'opted in: the report has the store');

like(autovacuum_of('ours', 'ALTER TABLE ours SET (parvacuum.workers = 1)'), qr/1 parallel workers launched \(planned: 1\)/, 'workers = 1');
like(autovacuum_of('ours', 'ALTER TABLE ours SET (parvacuum.workers = 0)'), qr/0 parallel workers launched \(planned: 0\)/, 'workers = 0');
like(autovacuum_of('ours', 'ALTER TABLE ours SET (parvacuum.workers = 7)'), qr/2 parallel workers launched \(planned: 2\)/, 'workers = 7: two workers at most');
reload_with('parvacuum.autovacuum_workers' => 4);
like(autovacuum_of('ours'), qr/4 parallel workers launched \(planned: 4\)/, 'autovacuum_workers = 4: four workers at most');
reload_with('parvacuum.autovacuum_workers' => 0);
like(autovacuum_of('ours'), qr/0 parallel workers launched \(planned: 0\)/, 'autovacuum_workers = 0: no workers');
reload_with('parvacuum.autovacuum_workers' => 2, 'parvacuum.min_parallel_pages' => 100000);
like(autovacuum_of('ours'), qr/0 parallel workers launched \(planned: 0\)/, 'no workers for a small table');
reload_with('parvacuum.min_parallel_pages' => 0);

($entry, $log) = autovacuum_of('ours', 'ALTER TABLE ours RESET (parvacuum.enabled, parvacuum.workers)', 'ALTER DATABASE postgres SET parvacuum.enabled = on');
like($entry, qr/engine: parvacuum/, 'enabled for the database');
($entry, $log) = autovacuum_of('ours', 'ALTER TABLE ours SET (parvacuum.enabled = false)');
unlike($log, qr/engine: parvacuum.*?of table "postgres\.public\.ours"|"postgres\.public\.ours"(?:[^"]*index "[^"]*")*[^"]*engine: parvacuum/s, 'enabled for the database, but not for this table');
sql('ALTER DATABASE postgres RESET parvacuum.enabled', 'ALTER TABLE ours SET (parvacuum.enabled)');

reload_with('parvacuum.engine' => 'off');
($entry, $log) = autovacuum_of('ours');
unlike($log, qr/engine: parvacuum/, 'engine = off: core vacuums the table');
unlike($log, qr/PostgreSQL's own VACUUM has vacuumed/, 'engine = off: no reason is reported');
reload_with('parvacuum.engine' => 'on');

# A TOAST table follows its table.
sql('CREATE TABLE fat (id int, pad text) WITH (autovacuum_enabled = off, toast.autovacuum_enabled = off, parvacuum.enabled)',
	'ALTER TABLE fat ALTER pad SET STORAGE EXTERNAL',
	q{INSERT INTO fat SELECT i, repeat('x', 9000) FROM generate_series(1, 1000) i},
	'DELETE FROM fat WHERE id % 3 = 0');
my $toast = q{pg_stat_all_tables WHERE relid = (SELECT reltoastrelid FROM pg_class WHERE relname = 'fat')};

# One test: autovacuum of the TOAST table after this statement.  Returns the end of its log.
sub autovacuum_of_toast
{
	my ($statement, $what) = @_;
	my $since = -s $node->logfile;
	my $count = sql("SELECT autovacuum_count FROM $toast");
	sql($statement);
	ok(pv_await($node, "SELECT autovacuum_count > $count FROM $toast", 'true'), "$what: autovacuum vacuums it");
	my $entry = qr/of table "postgres\.pg_toast\.pg_toast_\d+"(?:[^"]*index "[^"]*")+([^"]*engine: [^\n"]*\n)/s;
	$node->wait_for_log($entry, $since);
	return substr(slurp_file($node->logfile), $since) =~ $entry ? $1 : '';
}

like(autovacuum_of_toast('ALTER TABLE fat SET (toast.autovacuum_enabled = on, toast.autovacuum_vacuum_threshold = 50, toast.autovacuum_vacuum_scale_factor = 0)', 'a TOAST table without its table'),
	qr/engine: parvacuum, 2 parallel workers launched/, 'a TOAST table is vacuumed by the engine of its table');
SKIP:
{
	skip 'the storage parameter autovacuum_parallel_workers came with 19', 6 if $node->pg_version->major < 19;
	sql('ALTER TABLE fat SET (autovacuum_parallel_workers = 0)');
	like(autovacuum_of_toast('DELETE FROM fat WHERE id % 7 = 0', 'a TOAST table with parameters'),
		qr/engine: parvacuum, 0 parallel workers launched/, 'a TOAST table with parameters has the number of workers of its table: none');
	sql('ALTER TABLE fat SET (autovacuum_parallel_workers = 1)');
	like(autovacuum_of_toast('DELETE FROM fat WHERE id % 11 = 0', 'a TOAST table with parameters'),
		qr/engine: parvacuum, 1 parallel workers launched/, 'a TOAST table with parameters has the number of workers of its table: one');
	sql('DELETE FROM fat WHERE id % 13 = 0',
		'ALTER TABLE fat SET (autovacuum_vacuum_threshold = 50, autovacuum_vacuum_scale_factor = 0, autovacuum_parallel_workers = 0)',
		'ALTER TABLE fat RESET (toast.autovacuum_enabled, toast.autovacuum_vacuum_threshold, toast.autovacuum_vacuum_scale_factor)');
	like(autovacuum_of_toast('ALTER TABLE fat SET (autovacuum_enabled = on)', 'a TOAST table without parameters'),
		qr/engine: parvacuum, 0 parallel workers launched/, 'a TOAST table without parameters has the number of workers of its table');
}
sql('DROP TABLE fat');

# A database to which no session can connect
sql('CREATE DATABASE closed');
$node->safe_psql('closed', qq{
	CREATE TABLE shut (id int) WITH (autovacuum_enabled = off, $options, parvacuum.enabled);
	INSERT INTO shut SELECT i FROM generate_series(1, 20000) i;
	DELETE FROM shut WHERE id % 2 = 0;
	ALTER TABLE shut SET (autovacuum_enabled = on);
});
sql(q{UPDATE pg_database SET datallowconn = false WHERE datname = 'closed'});
my $found = 0;
for (1 .. 100)
{
	last if $found = slurp_file($node->logfile) =~ /of table "closed\.public\.shut"[^"]*engine: parvacuum, 2 parallel workers launched/;
	sleep 0.1;
}
ok($found, 'a database that does not allow connections: with workers');

#
# Which processes give way
#
my @phases = ('scanning heap', 'vacuuming indexes', 'vacuuming heap', 'cleaning up indexes');

# Autovacuum has begun, and all its processes are held in a phase until the holder quits.
# Two tests.
my $holder;
sub start_held
{
	my ($phase, $what, $begin) = @_;
	calm('ours');
	new_dead_rows(qw(stock ours));
	pv_reload_with($node, 'parvacuum.wait_at' => $pv_place{$phase});
	$holder = pv_hold($node, 'ours');
	pv_new_log($node);
	$begin ? $begin->() : wake('ours');
	pv_await_held($node, 3, $what);
	until_phase($phase, $what);
	return;
}

for my $phase (@phases)
{
	my $what = "$phase, a lock";
	start_held($phase, $what);
	my ($rc, $out, $err) = $node->psql('postgres', q{SET lock_timeout = '2min'; BEGIN; LOCK TABLE ours IN ACCESS EXCLUSIVE MODE; COMMIT});
	is($rc, 0, "$what: it gives way") or diag $err;
	calm('ours');
	$holder->quit;
	like(pv_new_log($node), qr/canceling autovacuum task.*\n.*CONTEXT:.*automatic vacuum of table "postgres\.public\.ours"/s, "$what: autovacuum was canceled");
	no_workers($what);
	is(pv_findings($node, 'ours'), '', "$what: the table is whole");
}

start_held('vacuuming heap', 'activity');
is(sql(q{SELECT DISTINCT query FROM pg_stat_activity WHERE backend_type = 'parallel worker'}), 'autovacuum: VACUUM public.ours',
	'pg_stat_activity: workers show their work');
$holder->quit;

# While it waits to truncate, autovacuum holds a lock that a VACUUM needs.
sql(q{CREATE TABLE ends (id int, pad text) WITH (autovacuum_enabled = off, parvacuum.enabled)}, "ALTER TABLE ends SET ($options)",
	q{INSERT INTO ends SELECT i, repeat('x', 1000) FROM generate_series(1, 10000) i}, 'DELETE FROM ends WHERE id > 100');
my $reader = $node->background_psql('postgres');
$reader->query_safe('BEGIN; SELECT count(*) FROM ends');
wake('ends');
ok(pv_await($node, 'SELECT count(*) ' . sprintf($progress, 'ends') . q{ AND phase = 'truncating heap'}, 1), 'truncating heap: autovacuum is in the phase');
is(($node->psql('postgres', q{SET lock_timeout = '2min'; BEGIN; LOCK TABLE ends IN SHARE UPDATE EXCLUSIVE MODE; COMMIT}))[0], 0,
	'truncating heap: another session gets its lock');
calm('ends');
$reader->query_safe('COMMIT');
$reader->quit;
sql('DROP TABLE ends');

# An autovacuum to prevent wraparound does not give way, and does not wait for its start.
sub make_old
{
	return sql(q{UPDATE pg_class SET relfrozenxid = ((pg_current_xact_id()::text::bigint - 210000000) & 4294967295)::text::xid
		WHERE relname = 'ours'});
}
for my $phase ('scanning heap', 'vacuuming indexes')
{
	my $what = "$phase, against wraparound";
	start_held($phase, $what, \&make_old);
	my $pid = sql('SELECT pid ' . sprintf($progress, 'ours'));
	my ($rc, $out, $err) = $node->psql('postgres', q{SET lock_timeout = '500ms'; BEGIN; LOCK TABLE ours IN ACCESS EXCLUSIVE MODE});
	like($err, qr/lock timeout/, "$what: other sessions wait for the lock");
	is(sql('SELECT pid ' . sprintf($progress, 'ours')), $pid, "$what: the vacuum goes on");
	$holder->quit;
	ok(over(), "$what: the vacuum is completed");
	$log = pv_new_log($node);
	unlike($log, qr/canceling autovacuum task/, "$what: the vacuum was not canceled");
	like($log, qr/to prevent wraparound of table "postgres\.public\.ours"[^"]*"[^"]*".*engine: parvacuum, 2 parallel workers/s, "$what: the vacuum had workers");
	cmp_ok(sql(q{SELECT age(relfrozenxid) FROM pg_class WHERE relname = 'ours'}), '<', 100_000, "$what: relfrozenxid has advanced");
	calm('ours');
}

# A worker or the autovacuum worker is terminated: the next autovacuum vacuums the table.
for my $who ('parallel worker', 'autovacuum worker')
{
	my $what = "terminating a $who";
	start_held('vacuuming heap', $what);
	my $which = $who eq 'parallel worker' ? 'true' : q{pid IN (SELECT pid FROM pg_stat_progress_vacuum WHERE relid = 'ours'::regclass)};
	is(sql("SELECT count(pg_terminate_backend(pid)) FROM (SELECT pid FROM pg_stat_activity WHERE backend_type = '$who' AND $which LIMIT 1) x"),
		1, "$what: the process exists");
	calm('ours');
	$holder->quit;
	no_workers($what);
	is(pv_findings($node, 'ours'), '', "$what: the table is whole");
}

#
# Cost limits that change during the vacuum, as the launcher passes them on
#
my $launcher = q{FROM pg_stat_activity WHERE backend_type = 'parvacuum launcher'};
my $pid = sql("SELECT pid $launcher");
sql("SELECT pg_terminate_backend(pid) $launcher");
ok(pv_await($node, "SELECT count(*) $launcher AND pid <> $pid", 1), 'a launcher that was terminated is started again');

for my $phase (@phases)
{
	my $what = "$phase, a reload";
	pv_reload_with($node, autovacuum_vacuum_cost_delay => '1ms');
	start_held($phase, $what);

	# Ten seconds for a page of all processes.  An access method during its cleanup does not
	# check for changes.
	if ($phase ne 'cleaning up indexes')
	{
		pv_reload_with($node, autovacuum_vacuum_cost_delay => '100ms', autovacuum_vacuum_cost_limit => 1);
		$holder->quit;
		ok(pv_await($node, q{SELECT count(*) > 0 FROM pg_stat_activity WHERE wait_event = 'VacuumDelay'}, 'true'), "$what: it sleeps");
		is(phase_now(), $phase, "$what: still in the phase");
	}
	else
	{
		$holder->quit;
	}
	my $begun = time;
	pv_reload_with($node, autovacuum_vacuum_cost_delay => 0, autovacuum_vacuum_cost_limit => 200);
	ok(over(), "$what: the vacuum is completed");
	cmp_ok(time - $begun, '<', 30, "$what: much sooner without limits") if $phase ne 'cleaning up indexes';
	calm('ours');
	like(pv_new_log($node), qr/2 parallel workers launched/, "$what: the vacuum had its workers");
	no_workers($what);
	is(pv_findings($node, 'ours'), '', "$what: the table is whole");
}

# The limits of the table itself are not changed by the configuration.
sql('ALTER TABLE ours SET (autovacuum_vacuum_cost_delay = 100, autovacuum_vacuum_cost_limit = 200)');
start_held('scanning heap', 'own limits');
$holder->quit;
pv_reload_with($node, autovacuum_vacuum_cost_delay => 0);
sleep 2;
is(phase_now(), 'scanning heap', 'own limits: they remain in effect');
calm('ours');
sql('ALTER TABLE ours RESET (autovacuum_vacuum_cost_delay, autovacuum_vacuum_cost_limit)');

is(sql('SELECT current_setting(\'autovacuum\')'), 'on', 'the server is running');

# One more vacuum of each, and they are twins again.
reload_with('parvacuum.autovacuum_workers' => 2);
calm('ours');
sql("DELETE FROM stock WHERE id IN (SELECT id FROM stock EXCEPT SELECT id FROM ours)",
	"DELETE FROM ours WHERE id IN (SELECT id FROM ours EXCEPT SELECT id FROM stock)");
sql('VACUUM (INDEX_CLEANUP on, DISABLE_PAGE_SKIPPING) stock');
sql('VACUUM (INDEX_CLEANUP on, DISABLE_PAGE_SKIPPING) ours');
is(pv_differences($node, 'relfrozenxid'), '', 'the table equals the twin that stock VACUUM has vacuumed');

pv_no_crash($node, 'the server');
$node->stop;
done_testing();
