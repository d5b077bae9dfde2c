# A vacuum of a table that opted in is done by the engine, whichever command asks for it:
# VACUUM in its forms, vacuumdb.  Workers and buffers are those of the command, the table
# or the settings.

use strict;
use warnings FATAL => 'all';

use FindBin;
use lib $FindBin::RealBin;
use IPC::Run;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use PvTest;
use Test::More;

my $node = pv_node('commands');
$node->start;
pv_setup($node);

pv_sql($node, q{
	CREATE EXTENSION pg_buffercache;
	CREATE TABLE t (id int, pad text) WITH (autovacuum_enabled = off, parvacuum.enabled);
	INSERT INTO t SELECT i, repeat('x', 1000) FROM generate_series(1, 20000) i;
	CREATE INDEX ON t (id);
	CREATE TABLE plain (id int) WITH (autovacuum_enabled = off);
	INSERT INTO plain SELECT generate_series(1, 1000);
	CREATE TABLE p (id int) PARTITION BY RANGE (id) WITH (parvacuum.enabled);
	CREATE TABLE p1 PARTITION OF p FOR VALUES FROM (0) TO (500);
	CREATE TABLE p2 PARTITION OF p FOR VALUES FROM (500) TO (1001) WITH (parvacuum.enabled = false);
	INSERT INTO p SELECT generate_series(1, 1000);
	CREATE MATERIALIZED VIEW m WITH (parvacuum.enabled) AS SELECT * FROM plain;
});

# What VERBOSE reports of each table: the engine, and the number of planned workers
sub told
{
	my ($text) = @_;
	my %who;
	for (split /^(?:psql:\S+ )?(?:vacuumdb: )?INFO:  /m, $text)
	{
		next unless /^finished vacuuming "postgres\.public\.(\w+)"/;
		my $table = $1;
		$who{$table} = /^engine: parvacuum, (\d+) parallel workers launched \(planned: (\d+)\)/m ? $2 : 'core';
	}
	return join ' ', map { "$_:$who{$_}" } sort keys %who;
}

my $round = 0;

# Dead rows first, on every page
sub vacuum
{
	my ($command, %settings) = @_;
	local $ENV{PGOPTIONS} = join ' ', map { "-c $_=$settings{$_}" } sort keys %settings;
	$round++;
	pv_sql($node, "DELETE FROM t WHERE id % 100 = $round");
	my ($rc, $out, $err) = $node->psql('postgres', $command);
	is($rc, 0, "$command succeeds") or diag $err;
	return wantarray ? (told($err), $err) : told($err);
}

sub alter { return pv_sql($node, "ALTER TABLE t $_[0]"); }

# -- the number of workers: that of the caller, of the table, or by the size of the table

like(vacuum('VACUUM (VERBOSE) t'), qr/^t:[1-8]$/, 'no number is given: by the size of the table');
is(vacuum('VACUUM (VERBOSE) t', 'parvacuum.min_parallel_pages' => 1000000), 't:0', 'no workers for a small table');
is(vacuum('VACUUM (VERBOSE, PARALLEL 3) t', 'parvacuum.min_parallel_pages' => 1000000), 't:3', 'PARALLEL 3');
is(vacuum('VACUUM (VERBOSE, PARALLEL 0) t'), 't:0', 'PARALLEL 0');
alter('SET (parvacuum.workers = 2)');
is(vacuum('VACUUM (VERBOSE) t'), 't:2', 'the table has workers = 2');
is(vacuum('VACUUM (VERBOSE) t', 'parvacuum.min_parallel_pages' => 1000000), 't:0', 'workers = 2: no workers for a small table');
is(vacuum('VACUUM (VERBOSE, PARALLEL 3) t'), 't:3', 'PARALLEL overrides the table');
is(vacuum('VACUUM (VERBOSE, PARALLEL 0) t'), 't:0', 'PARALLEL 0 overrides the table');
my ($who, $text) = vacuum('VACUUM (VERBOSE, PARALLEL 9) t');
is($who, 't:8', 'max_parallel_maintenance_workers is the limit');
like($text, qr/NOTICE:  number of parallel workers for vacuum of "t" is reduced from 9 to 8/, 'max_parallel_maintenance_workers: the lower number is reported');
is(vacuum('VACUUM (VERBOSE, PARALLEL 2) t', max_parallel_maintenance_workers => 0), 't:0', 'max_parallel_maintenance_workers = 0');
alter('SET (parvacuum.workers = 100)');
($who, $text) = vacuum('VACUUM (VERBOSE) t');
is($who, 't:8', 'max_parallel_maintenance_workers limits the option of the table');
unlike($text, qr/NOTICE/, 'the option of the table is limited without a message');
alter('SET (parvacuum.workers = 0)');
is(vacuum('VACUUM (VERBOSE) t'), 't:0', 'the table has workers = 0');
is(pv_sql($node, "SELECT workers_planned FROM parvacuum_run('t') WHERE relid = 't'::regclass"), 0, 'parvacuum_run() uses the option of the table');
is(pv_sql($node, "SELECT workers_planned FROM parvacuum_run('t', workers => 2) WHERE relid = 't'::regclass"), 2, 'parvacuum_run() with a number of workers overrides the table');
alter('SET (parvacuum.workers = 1)');

# -- all forms of the command

is(vacuum('VACUUM (VERBOSE, ANALYZE, FREEZE) t'), 't:1', 'ANALYZE and FREEZE');
($who, $text) = vacuum('VACUUM (VERBOSE, INDEX_CLEANUP off) t');
like($text, qr/^index scan bypassed: /m, 'INDEX_CLEANUP off');
($who, $text) = vacuum('VACUUM (VERBOSE, FULL) t');
unlike($text, qr/engine: parvacuum/, 'FULL is done by core');
like(vacuum('VACUUM (VERBOSE) p'), qr/^p1:\d p2:core$/, 'partitions by their options, and their parent\'s');
like(vacuum('VACUUM (VERBOSE) m'), qr/^m:\d$/, 'a materialized view');
like(vacuum('VACUUM (VERBOSE) t, plain'), qr/^plain:core t:1$/, 'one of two tables opted in');
like(vacuum('VACUUM (VERBOSE)'), qr/m:\d p1:\d p2:core plain:core .*t:1/, 'the whole database');
like(vacuum('VACUUM (VERBOSE) plain', 'parvacuum.enabled' => 'on'), qr/^plain:\d$/, 'a session with the setting');
like(vacuum('VACUUM (VERBOSE) p', 'parvacuum.enabled' => 'on'), qr/ p2:core$/, 'a session with the setting, and a table that opted out');

for my $options ([ '-t', 't' ], [ '-t', 't', '-P', 2 ], ['-z'], [ '-j', 2, '-t', 't', '-t', 'plain' ])
{
	my ($out, $err) = ('', '');
	IPC::Run::run([ 'vacuumdb', '--verbose', @$options, '-d', $node->connstr('postgres') ], '<', \undef, '>', \$out, '2>', \$err);
	my $workers = grep({ $_ eq '-P' } @$options) ? 2 : 1;
	like(told($err), qr/\bt:$workers\b/, "vacuumdb @$options");
	unlike(told($err), qr/plain:\d/, "vacuumdb @$options: no other tables");
}

# -- the ring of buffers: the part of the table that remains in shared buffers

sub cached_after_vacuum
{
	my ($option, $setting, $vacuum) = @_;
	alter($option);
	$round++;
	pv_sql($node, "DELETE FROM t WHERE id % 100 = $round; CHECKPOINT");
	$node->restart;
	pv_sql($node, ($setting // '') . ';' . ($vacuum // 'VACUUM (DISABLE_PAGE_SKIPPING) t'));
	return pv_sql($node, q{SELECT count(*) FROM pg_buffercache WHERE relfilenode = pg_relation_filenode('t') AND relforknumber = 0});
}

alter('SET (parvacuum.workers = 0)');
my $pages = pv_sql($node, q{SELECT pg_relation_size('t') / current_setting('block_size')::int});
cmp_ok($pages, '>', 2000, 'the table is larger than the ring');
my $default = cached_after_vacuum('RESET (parvacuum.buffer_usage_limit)');
cmp_ok($default, '>', 1900, "by default 16 MB: $default of $pages");
cmp_ok($default, '<', 2150, 'by default 16 MB: the limit is kept');
my $set = cached_after_vacuum('RESET (parvacuum.buffer_usage_limit)', q{SET parvacuum.buffer_usage_limit = '256kB'});
cmp_ok($set, '<=', 64, "the setting: $set");
is(cached_after_vacuum('RESET (parvacuum.buffer_usage_limit)', 'SET parvacuum.buffer_usage_limit = 0'), $pages, 'the setting 0: the whole table');
my $small = cached_after_vacuum('SET (parvacuum.buffer_usage_limit = 128)');
cmp_ok($small, '<=', 64, "128 kB: $small");
my $some = cached_after_vacuum(q{SET (parvacuum.buffer_usage_limit = '4MB')}, 'SET parvacuum.buffer_usage_limit = 0');
cmp_ok($some, '>', 450, "4 MB, whatever the setting: $some");
cmp_ok($some, '<', 570, '4 MB: the limit is kept');
my $many = cached_after_vacuum(q{SET (parvacuum.buffer_usage_limit = '1GB')});
cmp_ok($many, '>', 1500, "1 GB: $many");
is(cached_after_vacuum('SET (parvacuum.buffer_usage_limit = 0)'), $pages, '0: the whole table');
my $run = q{SELECT parvacuum_run('t', workers => 0, disable_page_skipping => true)};
my $by_run = cached_after_vacuum('RESET (parvacuum.buffer_usage_limit)', '', $run);
cmp_ok($by_run, '<', 2150, "parvacuum_run(): as much as VACUUM: $by_run");
$by_run = cached_after_vacuum(q{SET (parvacuum.buffer_usage_limit = '256kB')}, '', $run);
cmp_ok($by_run, '<=', 64, "parvacuum_run(), 256 kB: $by_run");
is(pv_findings($node, 't'), '', 'the table is whole');

# What the owner of a database sets for it only lowers what vacuums use for which no session
# waits.  Each page has dead rows.  What is truncated is no longer cached.
alter('SET (vacuum_truncate = off)');
$node->append_conf('postgresql.conf', "autovacuum_vacuum_cost_delay = 0\n");
for my $case ([ '256kB', 0, 64, 'less' ], [ '1GB', 1900, 2150, 'more' ], [ '0', 1900, 2150, 'no limit' ])
{
	my ($value, $least, $most, $what) = @$case;
	pv_sql($node, "ALTER DATABASE postgres SET parvacuum.buffer_usage_limit = '$value'");
	my $vacuums = pv_sql($node, q{SELECT count(*) FROM parvacuum_history WHERE relation = 't'::regclass AND started_by = 'scheduler'});
	my $cached = cached_after_vacuum('RESET (parvacuum.buffer_usage_limit); UPDATE t SET id = id', '', q{ALTER SYSTEM SET parvacuum.scheduler = on; SELECT pg_reload_conf(); SELECT pg_sleep(0.2); SELECT parvacuum_enqueue('t');
		DO $$ BEGIN FOR i IN 1 .. 600 LOOP EXIT WHEN (SELECT count(*) FROM parvacuum_history WHERE relation = 't'::regclass AND started_by = 'scheduler') > } . $vacuums . q{; PERFORM pg_sleep(0.1); END LOOP; END $$});
	cmp_ok($cached, '<=', $most, "the database has $what: $cached");
	cmp_ok($cached, '>=', $least, "the database has $what: the scheduler keeps to its limit");
	pv_reload_with($node, 'parvacuum.scheduler' => 'off');
}
pv_sql($node, 'ALTER DATABASE postgres RESET parvacuum.buffer_usage_limit; SELECT pg_reload_conf()');

# A function of the same name that another role created before the extension is not used
# by any view.
pv_sql($node, 'CREATE DATABASE planted');
my ($rc, $out, $err) = $node->psql('planted', q{
	CREATE FUNCTION parvacuum_table_options(oid, OUT buffer_usage_limit int, OUT buffer_usage_limit_from text, OUT enabled bool,
		OUT enabled_from text, OUT vacuum_window text, OUT vacuum_window_from text, OUT workers int, OUT workers_from text, OUT declined text)
		LANGUAGE sql RETURN (NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL);
	CREATE EXTENSION parvacuum;
	DROP FUNCTION parvacuum_table_options(oid);
	SELECT count(*) FROM parvacuum_tables}, on_error_stop => 1);
is("$rc $err", '0 ', 'a function of another role is not called');

pv_no_crash($node, 'the server');
$node->stop;
done_testing();
