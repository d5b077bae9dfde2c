# A server without the preloaded library is not harmed, and its messages say what to do.
# The same holds where the library is not preloaded any more, and where no background
# worker is available.

use strict;
use warnings FATAL => 'all';

use File::Copy;
use FindBin;
use lib $FindBin::RealBin;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use PvTest;
use Test::More;

# A library whose path has a quote
my $odd = PostgreSQL::Test::Utils::tempdir . "/it's";
my $config = $ENV{PG_CONFIG} || 'pg_config';
chomp(my $libraries = `$config --pkglibdir`);
mkdir $odd or die;
copy("$libraries/auto_explain.so", "$odd/explain.so") or die;
my $quoted = $odd =~ s/'/''/gr . '/explain';

my $node = PostgreSQL::Test::Cluster->new('not_preloaded');
$node->init;
$node->append_conf('postgresql.conf', "autovacuum = off\nlisten_addresses = ''\n");
$node->start;

# The error of a statement, with its hint.
sub error_of
{
	my ($sql) = @_;
	my ($rc, $out, $err) = $node->psql('postgres', $sql);
	isnt($rc, 0, "$sql fails");
	return $err;
}

# The line for postgresql.conf that CREATE EXTENSION and the functions ask for.
my @calls = (
	"SELECT * FROM parvacuum_run('t')", "CALL parvacuum('t')", 'SELECT * FROM parvacuum_queue', 'SELECT parvacuum_scheduler_stats()', "SELECT parvacuum_plan('t')",
	"SELECT parvacuum_enqueue('t')", "SELECT parvacuum_cancel('t')", 'SELECT parvacuum_cancel(pg_backend_pid())',
	"SELECT parvacuum_sweep('t_i')", "CALL parvacuum_sweep_index('t_i')");
sub hints_are
{
	my ($list) = @_;
	my $line = "shared_preload_libraries = '$list'";
	my ($rc, $out, $err) = $node->psql('postgres', 'DROP EXTENSION IF EXISTS parvacuum; CREATE EXTENSION parvacuum');
	is($rc, 0, "$list: CREATE EXTENSION without the library");
	like($err, qr/^(psql:[^ ]* )?WARNING:  parvacuum is not preloaded$/m, "$list: CREATE EXTENSION warns");
	like($err, qr/^HINT:.* \Q$line\E$/m, "$list: the warning has the line for postgresql.conf");
	like(error_of($_), qr/^HINT:.* \Q$line\E$/m, "$list: $_ asks for the same line") for @calls;

	# With that line the server works.
	$node->append_conf('postgresql.conf', "$line\n");
	$node->restart;
	is($node->safe_psql('postgres', q{SELECT vacuumed FROM (SELECT count(*) > 0 AS vacuumed FROM parvacuum_run('t')) x}), 't', "$list: a run succeeds with the line");
	($rc, $out, $err) = $node->psql('postgres', 'DROP EXTENSION parvacuum; CREATE EXTENSION parvacuum');
	is($err, '', "$list: no warning with the line");
	return;
}

# -- never preloaded

$node->safe_psql('postgres', 'CREATE TABLE t AS SELECT i FROM generate_series(1, 10000) i; CREATE INDEX t_i ON t (i); CREATE ROLE clerk');
for my $case ([ '', 'parvacuum' ], [ 'auto_explain', 'auto_explain, parvacuum' ], [ q{ "auto_explain",pg_stat_statements}, q{ "auto_explain",pg_stat_statements, parvacuum} ],
	[ q{auto_explain, "$libdir/pg_stat_statements" }, q{auto_explain, "$libdir/pg_stat_statements" , parvacuum} ], [ $quoted, "$quoted, parvacuum" ])
{
	my ($present, $hint) = @$case;
	$node->append_conf('postgresql.conf', "shared_preload_libraries = '$present'\n");
	$node->restart;
	hints_are($hint);
}

# The list is shown only to roles that may see it.
$node->append_conf('postgresql.conf', "shared_preload_libraries = 'auto_explain'\n");
$node->restart;
my $unseen = error_of('SET ROLE clerk; SELECT parvacuum_scheduler_stats()');
like($unseen, qr/HINT:  Add parvacuum to the end of shared_preload_libraries in postgresql\.conf/, 'a role that may not see the list gets the name of the setting');
unlike($unseen, qr/auto_explain/, 'a role that may not see the list does not get its contents');
like(error_of('GRANT pg_read_all_settings TO clerk; SET ROLE clerk; SELECT parvacuum_scheduler_stats()'), qr/'auto_explain, parvacuum'/, 'a role that may see the list gets its contents');

# parvacuum_reset_options() needs no library.
is($node->safe_psql('postgres', 'SELECT parvacuum_reset_options()'), 0, 'parvacuum_reset_options() without options');
$node->append_conf('postgresql.conf', "shared_preload_libraries = 'parvacuum'\n");
$node->restart;
$node->safe_psql('postgres', 'ALTER TABLE t SET (parvacuum.workers = 1)');
$node->append_conf('postgresql.conf', "shared_preload_libraries = ''\n");
$node->restart;
is($node->safe_psql('postgres', 'SELECT parvacuum_reset_options()'), 1, 'options can be reset without the library');
is($node->safe_psql('postgres', 'SELECT count(*) FROM pg_seclabel'), 0, 'no label remains');

$node->safe_psql('postgres', 'DROP EXTENSION parvacuum; DROP TABLE t; CREATE EXTENSION parvacuum; CREATE TABLE t AS SELECT i FROM generate_series(1, 10000) i; DELETE FROM t WHERE i % 2 = 0');
for my $call (
	"SELECT * FROM parvacuum_run('t')", "CALL parvacuum('t')", 'SELECT * FROM parvacuum_queue', 'SELECT parvacuum_scheduler_stats()', "SELECT parvacuum_plan('t')",
	"SELECT parvacuum_enqueue('t')", "SELECT parvacuum_cancel('t')", 'SELECT parvacuum_cancel(pg_backend_pid())')
{
	my $err = error_of($call);
	like($err, qr/HINT:.*shared_preload_libraries = 'parvacuum'/, 'the hint has the line for postgresql.conf');
}
is($node->safe_psql('postgres', "LOAD 'parvacuum'; SELECT count(*) FROM t"), '5000', 'LOAD in a session does no harm');
$node->safe_psql('postgres', "LOAD 'parvacuum'; VACUUM t");
is($node->safe_psql('postgres', "SELECT relallvisible > 0 FROM pg_class WHERE relname = 't'"),
	't', 'stock VACUUM works in a session after LOAD');

# -- preloaded, used, and removed again

$node->append_conf('postgresql.conf', "shared_preload_libraries = 'parvacuum'\n");
$node->restart;
is( $node->safe_psql('postgres',
		"DELETE FROM t WHERE i % 3 = 0; SELECT tuples_removed FROM parvacuum_run('t', workers => 1)"),
	$node->safe_psql('postgres', 'SELECT count(*) FROM generate_series(1, 10000, 2) i WHERE i % 3 = 0'),
	'with the library preloaded, a run succeeds');

$node->append_conf('postgresql.conf', "shared_preload_libraries = ''\n");
$node->restart;
$node->safe_psql('postgres', 'DELETE FROM t WHERE i % 5 = 0; VACUUM (FREEZE) t');
is($node->safe_psql('postgres', 'SELECT count(*) FROM t'),
	$node->safe_psql('postgres', 'SELECT count(*) FROM generate_series(1, 10000, 2) i WHERE i % 3 <> 0 AND i % 5 <> 0'),
	'without the library, stock VACUUM vacuums the same table');
like(error_of("SELECT * FROM parvacuum_run('t')"), qr/shared_preload_libraries/, 'without the library, the function fails with the reason');

# -- no background worker available

$node->append_conf('postgresql.conf', "shared_preload_libraries = 'parvacuum'\nmax_worker_processes = 0\n");
$node->restart;
like(error_of("SELECT * FROM parvacuum_run('t')"), qr/HINT:.*max_worker_processes/, 'no slot: the hint names the setting');

# Three slots: the logical replication launcher and the launcher of the scheduler have
# one each.  The third is for the background leader, which then gets no workers.
$node->append_conf('postgresql.conf', "max_worker_processes = 3\n");
$node->restart;
is( $node->safe_psql('postgres',
		"DELETE FROM t WHERE i % 7 = 0; SELECT workers_planned, workers_launched, tuples_removed > 0 FROM parvacuum_run('t', workers => 2)"),
	'2|0|t', 'one free slot: the run has no workers');
my $runs = join ";\n", (q{SELECT count(*) FROM parvacuum_run('t', workers => 0)}) x 20;
my ($rc, $out, $err) = $node->psql('postgres', "$runs;");
is("$rc $out", join("\n", '0 1', (1) x 19), 'one free slot: a session can have runs one after the other, each in the slot of the last') or diag $err;

$node->stop;
done_testing();
