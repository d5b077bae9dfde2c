# Servers on which the engine cannot work, or not alone: memory that must not be made
# writable, a library built for another server, single-user mode, and another library that
# has taken over the vacuum of heap tables, too.  Each says why, and no table is left without a vacuum.

use strict;
use warnings FATAL => 'all';

use FindBin;
use lib $FindBin::RealBin;
use IPC::Run;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use PvTest;
use Test::More;

my $node = pv_node('server');
$node->append_conf('postgresql.conf', "log_min_messages = debug1\nautovacuum_naptime = 1s\n");
$node->start;
pv_setup($node);

sub sql { return pv_sql($node, @_); }

# What a statement says, and what the server has logged when it started
sub said { my ($rc, $out, $err) = $node->psql('postgres', join ";\n", @_); return $err; }
sub restart_with
{
	my ($conf, %environment) = @_;
	local @ENV{ keys %environment } = values %environment;
	$node->stop;
	my $from = -s $node->logfile;
	$node->append_conf('postgresql.conf', $conf);
	$node->start;
	return slurp_file($node->logfile, $from);
}

sql('CREATE TABLE t (id int PRIMARY KEY) WITH (parvacuum.enabled)', 'CREATE TABLE plain (id int)', 'INSERT INTO t SELECT generate_series(1, 1000)');
sub dead_rows_go
{
	my ($what) = @_;
	sql('INSERT INTO t SELECT max(id) + 1 FROM t', 'DELETE FROM t WHERE id = (SELECT max(id) FROM t)');
	my $err = said('VACUUM (VERBOSE) t');
	like($err, qr/tuples: 1 removed|1 removed|removed 1 dead/, "$what: the dead row goes");
	is(pv_findings($node, 't'), '', "$what: the table is whole");
	return $err;
}
my $ours = qr/engine: parvacuum/;
like(dead_rows_go('as usual'), $ours, 'as usual: the engine vacuums the table');

# -- memory

# A library by which the system refuses to change the protection of a page, and does not
# list the mappings of a process
my $dir = PostgreSQL::Test::Utils::tempdir;
append_to_file("$dir/refuse.c", <<'END');
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

static int is_wanted(const char *what) { const char *wanted = getenv("PV_REFUSE"); return wanted && strstr(wanted, what); }

int
mprotect(void *start, size_t length, int prot)
{
	int (*next) (void *, size_t, int) = (int (*) (void *, size_t, int)) dlsym(RTLD_NEXT, "mprotect");

	if (length <= 65536 && is_wanted(prot & PROT_WRITE ? "write" : "restore"))
	{
		errno = EACCES;
		return -1;
	}
	return next(start, length, prot);
}

FILE *
fopen(const char *path, const char *mode)
{
	FILE *(*next) (const char *, const char *) = (FILE *(*) (const char *, const char *)) dlsym(RTLD_NEXT, "fopen");

	if (strcmp(path, "/proc/self/maps") == 0 && is_wanted("maps"))
	{
		errno = EACCES;
		return NULL;
	}
	return next(path, mode);
}
END

SKIP:
{
	skip 'a server with sanitizers has memory of its own', 1 if `@{[ $ENV{PG_CONFIG} || 'pg_config' ]} --cflags` =~ /sanitize/;
	skip 'the library is for Linux', 1 if $^O ne 'linux';
	my $library = "$dir/refuse.so";
	my $out = `cc -O1 -shared -fPIC -o $library $dir/refuse.c -ldl 2>&1`;
	skip "the library cannot be built: $out", 1 if $? != 0;

	my $log = restart_with('', LD_PRELOAD => $library, PV_REFUSE => 'write');
	my $problem = 'The operating system did not let parvacuum take over the vacuum of heap tables.';
	like($log, qr/WARNING: .*parvacuum could not take over the vacuum of heap tables: Permission denied/, 'refused: the log has a warning');
	my $err = dead_rows_go('refused');
	unlike($err, $ours, 'refused: core vacuums the table');
	like(said(q{SELECT parvacuum_run('t')}), qr/ERROR:  parvacuum_run\(\) is not available on this server\nDETAIL:  \Q$problem\E\nHINT:  The server log has a warning/, 'refused: a run is refused');
	is(sql(q{SELECT severity, subject, reason FROM parvacuum_check() WHERE name = 'engine'}), "critical|server|$problem", 'refused: parvacuum_check() tells');

	$log = restart_with('', LD_PRELOAD => $library, PV_REFUSE => 'restore');
	like($log, qr/could not restore the memory protection of heap's routine: Permission denied/, 'a page that stays writable: the log tells');
	like(dead_rows_go('a page that stays writable'), $ours, 'a page that stays writable: the engine vacuums the table');

	restart_with('', LD_PRELOAD => $library, PV_REFUSE => 'maps');
	like(dead_rows_go('no list of mappings'), $ours, 'no list of mappings: the engine vacuums the table');
}

# -- a library that was built for another server

{
	my $tree = "$dir/tree";
	my $config = $ENV{PG_CONFIG} || 'pg_config';
	mkdir $tree;
	my @files = map { glob "$FindBin::RealBin/../../$_" } qw(Makefile *.control *.sql src .server *.so);
	system('cp', '-a', @files, $tree);
	my $build = sub { my ($how) = @_; return scalar `make -C $tree PG_CONFIG=$config with_llvm=no $how 2>&1`; };
	my $said = $build->('-s all');
	is($?, 0, 'a tree is built') or diag $said;
	my $compiled = sub { return join ' ', sort map { m{ src/(\w+/\w+)\.c} ? $1 : () } split /\n/, $build->('-n all'); };

	is($compiled->(), '', 'a tree that is built: nothing is compiled');
	append_to_file("$tree/src/base/window.h", "\n");
	like($compiled->(), qr/base\/window /, 'a header has changed: what includes it is compiled');
	unlike($compiled->(), qr/store\/container/, 'a header has changed: other sources are not');

	system("sed -i 's/= PG_VERSION;/= \"15beta1\";/' $tree/src/base/compat.c");
	$build->('-s all');
	my $log = restart_with("dynamic_library_path = '$tree:\$libdir'\nparvacuum.scheduler = on\n");
	like($log, qr/WARNING: .*parvacuum does not work with PostgreSQL \S+.*\n.*It was built for PostgreSQL 15beta1\./, 'built for a pre-release: the log has a warning');
	unlike(dead_rows_go('built for a pre-release'), $ours, 'built for a pre-release: core vacuums the table');
	is(sql(q{SELECT count(*) FROM pg_stat_activity WHERE backend_type LIKE 'parvacuum%'}), 0, 'built for a pre-release: it has no process');
	sql("CREATE FUNCTION check_built() RETURNS void LANGUAGE c AS 'parvacuum', 'parvacuum_check_library'");
	like(said('SELECT check_built()'), qr/WARNING:  parvacuum is not preloaded\n.*\nHINT:  Build and install parvacuum for this server/, 'built for a pre-release: the hint says what to do');
	restart_with("dynamic_library_path = '\$libdir'\nparvacuum.scheduler = off\n");
	like(dead_rows_go('built for this server'), $ours, 'built for this server: the engine vacuums the table');

	append_to_file("$dir/pg_config", qq{#!/bin/sh\n'$config' "\$\@"\n[ \$# -gt 0 ] || echo OTHER\n});
	chmod 0755, "$dir/pg_config";
	my $sources = () = slurp_file("$tree/Makefile") =~ /^\tsrc\/\S+\.o/mg;
	$config = "$dir/pg_config";
	is(scalar(split ' ', $compiled->()) + 1, $sources, 'another server: all is compiled again');
}

# -- single-user mode

{
	$node->stop;
	my ($out, $err) = ('', '');
	my @single = ('postgres', '--single', '-D', $node->data_dir, '-c', 'log_min_messages=info', 'postgres');
	my $statements = "DELETE FROM t WHERE id = 1\nVACUUM (VERBOSE) t\nSELECT parvacuum_run('t')\nSELECT parvacuum_sweep('t_pkey')\n";
	IPC::Run::run(\@single, '<', \$statements, '>', \$out, '2>', \$err);
	my $all = $out . $err;
	like($all, qr/PostgreSQL's own VACUUM vacuums table "t".*The server runs in single-user mode\./s, 'single-user mode: core vacuums the table');
	like($all, qr/ERROR: .*parvacuum_run\(\) cannot be executed in single-user mode/, 'single-user mode: a run is refused');
	like($all, qr/ERROR: .*parvacuum_sweep\(\) cannot be executed in single-user mode/, 'single-user mode: a sweep is refused');
	$node->start;
	is(sql('SELECT min(id) FROM t'), 2, 'single-user mode: what it did is there');
	like(dead_rows_go('after single-user mode'), $ours, 'after single-user mode: the engine vacuums the table');
}

# -- other libraries

SKIP:
{
	my ($rc) = $node->psql('postgres', 'CREATE EXTENSION parvacuum_test; DROP EXTENSION parvacuum_test');
	skip 'parvacuum_test is not installed', 1 if $rc != 0;
	my $other = qr/WARNING:  another library vacuums "t"/;

	restart_with("shared_preload_libraries = 'parvacuum_test, parvacuum'\n");
	my $err = dead_rows_go('another library before');
	like($err, $ours, 'another library before: the engine vacuums the table');
	unlike($err, $other, 'another library before: it is not called');
	like(said('VACUUM plain'), qr/another library vacuums "plain"/, 'another library before: it gets the other tables');
	like(said('CREATE TABLE t2 (id int) WITH (parvacuum.enabled)'), qr/another library sees a new relation/, 'another library before: its hook is called');
	is(sql(q{SELECT count(*) FROM pg_seclabel WHERE objoid = 't2'::regclass}), 1, 'another library before: the table has its options');
	is(sql(q{SELECT count(*) FROM parvacuum_check() WHERE name = 'preload_order'}), 0, 'another library before: nothing is wrong');

	restart_with("shared_preload_libraries = 'parvacuum, parvacuum_test'\n");
	$err = dead_rows_go('another library behind');
	like($err, $other, 'another library behind: it comes first');
	like($err, $ours, 'another library behind: it passes the table on to the engine');
	my $row = q{SELECT severity, setting, evidence FROM parvacuum_check() WHERE name = 'preload_order'};
	is(sql($row), q{warning|shared_preload_libraries|shared_preload_libraries = 'parvacuum, parvacuum_test'}, 'another library behind: parvacuum_check() tells');
	is(sql('CREATE ROLE watcher', 'GRANT pg_read_all_stats TO watcher', 'SET ROLE watcher', $row), 'warning|shared_preload_libraries|', 'another library behind: the list is only for roles that may see settings');

	my $from = -s $node->logfile;
	sql('ALTER TABLE t SET (autovacuum_vacuum_threshold = 1, autovacuum_vacuum_scale_factor = 0)', 'DELETE FROM t WHERE id % 10 = 0', q{ALTER SYSTEM SET parvacuum.scheduler = on}, 'SELECT pg_reload_conf()');
	ok(pv_await($node, q{SELECT count(*) > 0 FROM parvacuum_history WHERE relation = 't'::regclass AND started_by = 'scheduler' AND by_engine}, 'true'), 'another library behind: the scheduler vacuums the table with the engine');
	like(slurp_file($node->logfile, $from), qr/another library vacuums "t"/, 'another library behind: the scheduler lets it come first');
	like(slurp_file($node->logfile, $from), qr/^another library sees a message$/m, 'another library behind: it sees what the scheduler logs');
	is(pv_findings($node, 't'), '', 'the table is whole');
}

# -- core's code, in a process that vacuums by itself

{
	restart_with("shared_preload_libraries = 'parvacuum'\nlog_autovacuum_min_duration = 0\nautovacuum = on\n");
	sql('ALTER SYSTEM RESET ALL', 'SELECT pg_reload_conf()');
	my $from = -s $node->logfile;
	sql('CREATE ACCESS METHOD heap2 TYPE TABLE HANDLER heap_tableam_handler', 'CREATE TABLE other (id int) USING heap2 WITH (parvacuum.enabled, autovacuum_vacuum_threshold = 1, autovacuum_vacuum_scale_factor = 0)',
		'INSERT INTO other SELECT generate_series(1, 1000)', 'DELETE FROM other WHERE id % 7 = 0');
	ok($node->wait_for_log(qr/LOG: .*PostgreSQL's own VACUUM has vacuumed table "postgres\.public\.other"\n.*DETAIL:  The table does not use the access method heap\./, $from), 'another access method: autovacuum logs why');

	# Such a vacuum is shown with who started it.
	sql('CREATE TABLE slow (id int PRIMARY KEY, pad text) WITH (autovacuum_enabled = off, autovacuum_vacuum_threshold = 1, autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_cost_delay = 100, autovacuum_vacuum_cost_limit = 1)',
		q{INSERT INTO slow SELECT i, repeat('x', 1000) FROM generate_series(1, 3000) i}, 'DELETE FROM slow WHERE id % 2 = 0');
	my $started_by = q{SELECT started_by FROM parvacuum_progress WHERE relation = 'slow'::regclass AND participant IS NULL};
	my $cancel = q{SELECT pg_terminate_backend(pid) FROM parvacuum_progress WHERE relation = 'slow'::regclass};
	sql('ALTER TABLE slow SET (autovacuum_enabled = on)');
	ok(pv_await($node, $started_by, 'autovacuum'), 'a vacuum by core: started by autovacuum');
	sql('ALTER TABLE slow SET (autovacuum_enabled = off)');
	pv_reload_with($node, autovacuum => 'off', 'parvacuum.scheduler' => 'on');
	sql($cancel);
	sql(q{SELECT parvacuum_enqueue('slow')});
	ok(pv_await($node, $started_by, 'scheduler'), 'a vacuum by core: started by the scheduler');
	sql($cancel);

	# The memory of such a vacuum by the engine
	sql('ALTER TABLE slow SET (parvacuum.enabled)');
	pv_reload_with($node, autovacuum_work_mem => '3MB');
	sql(q{SELECT parvacuum_enqueue('slow')});
	ok(pv_await($node, q{SELECT max_dead_tuple_bytes FROM parvacuum_progress WHERE relation = 'slow'::regclass AND started_by = 'scheduler' AND participant IS NULL}, 3 * 1024 * 1024), 'a vacuum by the engine: autovacuum_work_mem')
	  or diag sql('SELECT * FROM parvacuum_queue'), sql('SELECT * FROM parvacuum_progress'), sql('SHOW autovacuum_work_mem');
	pv_reload_with($node, 'parvacuum.scheduler' => 'off');
	sql($cancel);
}

# -- nothing that could hold back the horizon but processes

restart_with("shared_preload_libraries = 'parvacuum'\nwal_level = minimal\nmax_wal_senders = 0\nmax_replication_slots = 0\n");
my $idle = $node->background_psql('postgres');
$idle->query_safe('BEGIN; SELECT pg_current_xact_id()');
is(sql('SELECT count(*), min(kind) FROM parvacuum_blockers'), '1|idle in transaction', 'a server without replication slots');
$idle->quit;

$node->stop;
pv_no_crash($node, 'the server');
done_testing();
