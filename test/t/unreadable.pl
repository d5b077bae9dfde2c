# The catalogs with the options of tables are locked or damaged: no vacuum waits or fails
# because of that, above all none that prevents wraparound, nor does the scheduler.  A
# database scan reads them once.

use strict;
use warnings FATAL => 'all';

use FindBin;
use lib $FindBin::RealBin;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use PvTest;
use Test::More;

my $node = pv_node('unreadable');
$node->append_conf('postgresql.conf', q{
autovacuum_naptime = 1s
autovacuum_vacuum_cost_delay = 0
parvacuum.scheduler_workers = 1
log_autovacuum_min_duration = 0
log_error_verbosity = default
});
$node->start;
pv_setup($node);

sub sql { return pv_sql($node, @_); }
my $warning = qr/WARNING:  could not read the parvacuum options of tables\n/;
sub count_warnings { my $n = () = $_[0] =~ /$warning/g; return $n; }

# Vacuums of tables in one session.  Returns the engines and the number of warnings.
sub vacuum
{
	my @statements = @_;
	my ($rc, $out, $err) = $node->psql('postgres', join(";\n", q{SET lock_timeout = '60s'}, @statements));
	return "$rc " . ($err =~ /engine: parvacuum/ ? 'engine' : 'core') . ' ' . count_warnings($err);
}

sql('CREATE TABLE ours (i int, t text) WITH (parvacuum.enabled, autovacuum_enabled = off)',
	'CREATE TABLE plain (i int, t text) WITH (autovacuum_enabled = off)',
	'CREATE TABLE parted (i int) PARTITION BY LIST (i) WITH (parvacuum.enabled)',
	'CREATE TABLE part PARTITION OF parted FOR VALUES IN (1)',
	map { "INSERT INTO $_ SELECT i, 'x' FROM generate_series(1, 1000) i" } qw(ours plain));
sql('INSERT INTO part VALUES (1)');
is(vacuum('VACUUM (VERBOSE) ours'), '0 engine 0', 'before: the engine vacuums the table');
is(vacuum('VACUUM (VERBOSE) part'), '0 engine 0', 'before: the engine vacuums the partition');
is(vacuum('VACUUM (VERBOSE) plain'), '0 core 0', 'before: core vacuums the other table');

#
# Locked
#
my $session = $node->background_psql('postgres');
my %locks = (
	'LOCK TABLE pg_seclabel IN ACCESS EXCLUSIVE MODE' => [ 1, 1, 1 ],
	'REINDEX INDEX pg_seclabel_object_index' => [ 1, 1, 1 ],
	'LOCK TABLE pg_depend IN ACCESS EXCLUSIVE MODE' => [ 0, 1, 0 ],
	'LOCK TABLE pg_inherits IN ACCESS EXCLUSIVE MODE' => [ 0, 0, 1 ]);
for my $lock (sort keys %locks)
{
	my ($table, $toast, $part) = @{ $locks{$lock} };
	$session->query_safe("BEGIN; $lock");
	is(vacuum('VACUUM (VERBOSE, PROCESS_TOAST false) ours'), $table ? '0 core 1' : '0 engine 0', "$lock: VACUUM does not wait");
	is(vacuum('VACUUM ours', 'VACUUM plain'), $toast ? '0 core 1' : '0 core 0', "$lock: at most one warning in a session");
	is(vacuum('VACUUM (VERBOSE) part'), $part ? '0 core 1' : '0 engine 0', "$lock: VACUUM of a partition does not wait");
	is(vacuum('SET parvacuum.enabled = on', 'VACUUM (VERBOSE, PROCESS_TOAST false) plain'), $table ? '0 engine 1' : '0 engine 0', "$lock: the setting applies");
	my ($rc, $out, $err) = $node->psql('postgres', q{SET lock_timeout = '60s'; SELECT count(*) FROM parvacuum_run('plain') WHERE relid = 'plain'::regclass});
	is($rc, 0, "$lock: parvacuum_run() does not wait");
	$session->query_safe('COMMIT');
	is(vacuum('VACUUM (VERBOSE) ours'), '0 engine 0', "$lock, released: the engine vacuums the table");
}

# Canceling works there, too.
$session->query_safe('BEGIN; LOCK TABLE pg_seclabel IN ACCESS EXCLUSIVE MODE');
pv_reload_with($node, 'parvacuum.engine' => 'off');
is(vacuum('VACUUM (VERBOSE) ours', 'SET client_min_messages = debug1', 'VACUUM ours', 'VACUUM plain'), '0 core 0', 'engine off: the options are not read');
pv_reload_with($node, 'parvacuum.engine' => 'on');

# Vacuums to prevent wraparound
sql('CREATE TABLE aged (i int) WITH (autovacuum_freeze_max_age = 100000, autovacuum_freeze_min_age = 0, autovacuum_enabled = off)',
	'INSERT INTO aged VALUES (1)');
sql(q{DO $$ BEGIN FOR i IN 1 .. 100100 LOOP PERFORM txid_current(); COMMIT; END LOOP; END $$});
pv_reload_with($node, autovacuum => 'on');
ok(pv_await($node, q{SELECT age(relfrozenxid) < 50000 FROM pg_class WHERE oid = 'aged'::regclass}, 'true'), 'autovacuum to prevent wraparound does not wait');
pv_reload_with($node, autovacuum => 'off');
like(slurp_file($node->logfile), qr/automatic (aggressive )?vacuum to prevent wraparound of table "postgres\.public\.aged"/, 'the log has its report');

# The scheduler
pv_reload_with($node, 'parvacuum.scheduler' => 'on');
my $scans = sql('SELECT database_scans FROM parvacuum_scheduler_stats()');
ok(pv_await($node, "SELECT database_scans >= $scans + 2 FROM parvacuum_scheduler_stats()", 'true'), 'database scans go on');
sql("SELECT parvacuum_enqueue('plain')");
ok(pv_await($node, 'SELECT vacuums > 0 FROM parvacuum_scheduler_stats()', 'true'), 'the scheduler vacuums an enqueued table');
is(sql('SELECT errors FROM parvacuum_scheduler_stats()'), 0, 'the scheduler has no error');
sql('ALTER TABLE aged RESET (autovacuum_freeze_max_age)');
$session->query_safe('COMMIT');
sql('ALTER TABLE ours SET (autovacuum_enabled = on, autovacuum_vacuum_threshold = 10, autovacuum_vacuum_scale_factor = 0)', 'DELETE FROM ours WHERE i <= 300');
ok(pv_await($node, q{SELECT n_dead_tup = 0 AND vacuum_count + autovacuum_count > 0 FROM pg_stat_user_tables WHERE relid = 'ours'::regclass}, 'true'), 'after the release, a table that opted in is vacuumed');

# A scan reads all options at once, however many ancestors a partition has.
my ($levels, $leaves) = (20, 60);
sql('CREATE TABLE deep0 (i int) PARTITION BY LIST (i) WITH (parvacuum.workers = 0)',
	(map { 'CREATE TABLE deep' . $_ . ' PARTITION OF deep' . ($_ - 1) . ' FOR VALUES IN (' . join(', ', 1 .. $leaves) . ") PARTITION BY LIST (i) WITH (parvacuum.workers = $_)" } 1 .. $levels),
	(map { "CREATE TABLE leaf$_ PARTITION OF deep$levels FOR VALUES IN ($_)" } 1 .. $leaves));
sub scan_some
{
	$scans = sql('SELECT database_scans FROM parvacuum_scheduler_stats()');
	ok(pv_await($node, "SELECT database_scans >= $scans + 3 FROM parvacuum_scheduler_stats()", 'true'), 'database scans go on');
	return sql(q{SELECT sum(idx_scan) FROM pg_stat_sys_tables WHERE relname IN ('pg_seclabel', 'pg_inherits')});
}
my $lookups = -scan_some();
$lookups += scan_some();
cmp_ok($lookups, '<', $leaves, 'scans do not look up the ancestors of each partition');
sql('ALTER TABLE deep0 SET (parvacuum.enabled)', q{ALTER TABLE deep5 SET (parvacuum."window" = 'never')},
	'INSERT INTO deep0 SELECT i FROM generate_series(1, 2) i, generate_series(1, 1000)', 'ALTER TABLE leaf2 SET (parvacuum."window" = \'\')');
ok(pv_await($node, q{SELECT reason FROM parvacuum_queue WHERE relid = 'leaf1'::regclass}, 'window'), 'a partition has the options of two ancestors');
ok(pv_await($node, q{SELECT analyze_count + autoanalyze_count > 0 FROM pg_stat_user_tables WHERE relid = 'leaf2'::regclass}, 'true'), 'and its own before them');
sql('DROP TABLE deep0');
pv_reload_with($node, 'parvacuum.scheduler' => 'off');
$session->quit;

#
# Damaged: the index, then the catalog itself
#
my $index = sql("CHECKPOINT", "SELECT pg_relation_filepath('pg_seclabel_object_index')");
my $heap = sql("SELECT pg_relation_filepath('pg_seclabel')");
sub damage
{
	my ($file, $what) = @_;
	my $path = $node->data_dir . "/$file";
	$node->stop;
	my $size = -s $path;
	open my $out, '>', $path or die "$path: $!";
	print $out pack('C*', map { $_ * 7 % 251 + 1 } 1 .. 8192) x ($size / 8192) if $what eq 'garbage';
	close $out;
	$node->start;
	return;
}
for my $case ([ $index, 'empty' ], [ $index, 'garbage' ], [ $heap, 'garbage' ])
{
	my ($file, $what) = @$case;
	my $name = ($file eq $index ? 'the index' : 'pg_seclabel') . ": $what";
	damage(@$case);
	isnt(($node->psql('postgres', q{SET enable_seqscan = off; SELECT label FROM pg_seclabel WHERE objoid = 'ours'::regclass AND classoid = 'pg_class'::regclass AND objsubid = 0 AND provider = 'parvacuum'}))[0], 0, "$name: the catalog cannot be read");
	is(vacuum('VACUUM (VERBOSE) ours'), '0 core 1', "$name: VACUUM does not fail");
	is(vacuum('VACUUM ours', 'VACUUM plain', 'VACUUM ours'), '0 core 1', "$name: one warning in a session");
	is(vacuum('SET parvacuum.enabled = on', 'VACUUM (VERBOSE) ours'), '0 engine 1', "$name: the setting applies");
	pv_reload_with($node, 'parvacuum.engine' => 'off');
	is(vacuum('VACUUM (VERBOSE) ours', 'VACUUM plain'), '0 core 0', "$name: the options are not read while the engine is off");
	pv_reload_with($node, 'parvacuum.engine' => 'on');
}

my $log_length = -s $node->logfile;
sql('ALTER TABLE aged SET (autovacuum_freeze_max_age = 100000)',
	q{DO $$ BEGIN FOR i IN 1 .. 100100 LOOP PERFORM txid_current(); COMMIT; END LOOP; END $$});
pv_reload_with($node, autovacuum => 'on');
ok(pv_await($node, q{SELECT age(relfrozenxid) < 50000 FROM pg_class WHERE oid = 'aged'::regclass}, 'true'), 'damaged: autovacuum to prevent wraparound does not fail');
pv_reload_with($node, autovacuum => 'off', 'parvacuum.scheduler' => 'on');
sql('UPDATE plain SET i = i');
sql("SELECT parvacuum_enqueue('plain')");
ok(pv_await($node, q{SELECT n_dead_tup = 0 FROM pg_stat_user_tables WHERE relid = 'plain'::regclass}, 'true'), 'damaged: database scans go on');
like(substr(slurp_file($node->logfile), $log_length), $warning, 'damaged: the scheduler has logged a warning');
is(sql('SELECT errors FROM parvacuum_scheduler_stats()'), 0, 'damaged: the scheduler has no error');

pv_no_crash($node, 'the server');
$node->stop;
done_testing();
