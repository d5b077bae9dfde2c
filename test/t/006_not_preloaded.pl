# A server without the library preloaded is not harmed, and is told what to do;
# nor is one where it no longer is, or where no background worker is to be had.

use strict;
use warnings FATAL => 'all';

use FindBin;
use lib $FindBin::RealBin;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use PvTest;
use Test::More;

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

# What CREATE EXTENSION and the functions say to have, as quoted in postgresql.conf.
my @calls = (
	"SELECT * FROM parvacuum_run('t')", "CALL parvacuum('t')", 'SELECT * FROM parvacuum_queue', 'SELECT parvacuum_scheduler_stats()',
	"SELECT parvacuum_enqueue('t')", "SELECT parvacuum_cancel('t')", 'SELECT parvacuum_cancel(pg_backend_pid())',
	"SELECT parvacuum_sweep('t_i')", "CALL parvacuum_sweep_index('t_i')");
sub hints_are
{
	my ($list) = @_;
	my $line = "shared_preload_libraries = '$list'";
	my ($rc, $out, $err) = $node->psql('postgres', 'DROP EXTENSION IF EXISTS parvacuum; CREATE EXTENSION parvacuum');
	is($rc, 0, "$list: CREATE EXTENSION without the library");
	like($err, qr/^(psql:[^ ]* )?WARNING:  parvacuum is not preloaded$/m, "$list: it warns");
	like($err, qr/^HINT:.* \Q$line\E$/m, "$list: with the line for postgresql.conf");
	like(error_of($_), qr/^HINT:.* \Q$line\E$/m, "$list: so does $_") for @calls;

	# what the line says is what it takes
	$node->append_conf('postgresql.conf', "$line\n");
	$node->restart;
	is($node->safe_psql('postgres', q{SELECT vacuumed FROM (SELECT count(*) > 0 AS vacuumed FROM parvacuum_run('t')) x}), 't', "$list: with the line it works");
	($rc, $out, $err) = $node->psql('postgres', 'DROP EXTENSION parvacuum; CREATE EXTENSION parvacuum');
	is($err, '', "$list: and nothing is said");
	return;
}

# -- never preloaded

$node->safe_psql('postgres', 'CREATE TABLE t AS SELECT i FROM generate_series(1, 10000) i; CREATE INDEX t_i ON t (i); CREATE ROLE clerk');
for my $case ([ '', 'parvacuum' ], [ 'auto_explain', 'auto_explain, parvacuum' ], [ q{ "auto_explain",pg_stat_statements}, q{ "auto_explain",pg_stat_statements, parvacuum} ],
	[ q{auto_explain, "$libdir/pg_stat_statements" }, q{auto_explain, "$libdir/pg_stat_statements" , parvacuum} ])
{
	my ($present, $hint) = @$case;
	$node->append_conf('postgresql.conf', "shared_preload_libraries = '$present'\n");
	$node->restart;
	hints_are($hint);
}

# The list is for those who may see it.
$node->append_conf('postgresql.conf', "shared_preload_libraries = 'auto_explain'\n");
$node->restart;
my $unseen = error_of('SET ROLE clerk; SELECT parvacuum_scheduler_stats()');
like($unseen, qr/HINT:  Add parvacuum to the end of shared_preload_libraries in postgresql\.conf/, 'who may not see the list is told where it is');
unlike($unseen, qr/auto_explain/, 'and not what is in it');
like(error_of('GRANT pg_read_all_settings TO clerk; SET ROLE clerk; SELECT parvacuum_scheduler_stats()'), qr/'auto_explain, parvacuum'/, 'but who may is');

# parvacuum_reset_options() needs no library.
is($node->safe_psql('postgres', 'SELECT parvacuum_reset_options()'), 0, 'no options to reset');
$node->append_conf('postgresql.conf', "shared_preload_libraries = 'parvacuum'\n");
$node->restart;
$node->safe_psql('postgres', 'ALTER TABLE t SET (parvacuum.workers = 1)');
$node->append_conf('postgresql.conf', "shared_preload_libraries = ''\n");
$node->restart;
is($node->safe_psql('postgres', 'SELECT parvacuum_reset_options()'), 1, 'options are reset without the library');
is($node->safe_psql('postgres', 'SELECT count(*) FROM pg_seclabel'), 0, 'and no label is left');

$node->safe_psql('postgres', 'DROP EXTENSION parvacuum; DROP TABLE t; CREATE EXTENSION parvacuum; CREATE TABLE t AS SELECT i FROM generate_series(1, 10000) i; DELETE FROM t WHERE i % 2 = 0');
for my $call (
	"SELECT * FROM parvacuum_run('t')", "CALL parvacuum('t')", 'SELECT * FROM parvacuum_queue', 'SELECT parvacuum_scheduler_stats()',
	"SELECT parvacuum_enqueue('t')", "SELECT parvacuum_cancel('t')", 'SELECT parvacuum_cancel(pg_backend_pid())')
{
	my $err = error_of($call);
	like($err, qr/HINT:.*shared_preload_libraries = 'parvacuum'/, 'the hint has the line for postgresql.conf');
}
is($node->safe_psql('postgres', "LOAD 'parvacuum'; SELECT count(*) FROM t"), '5000', 'LOAD in a session does no harm');
$node->safe_psql('postgres', "LOAD 'parvacuum'; VACUUM t");
is($node->safe_psql('postgres', "SELECT relallvisible > 0 FROM pg_class WHERE relname = 't'"),
	't', 'and stock VACUUM works in that session');

# -- preloaded, used, and taken away again

$node->append_conf('postgresql.conf', "shared_preload_libraries = 'parvacuum'\n");
$node->restart;
is( $node->safe_psql('postgres',
		"DELETE FROM t WHERE i % 3 = 0; SELECT tuples_removed FROM parvacuum_run('t', workers => 1)"),
	$node->safe_psql('postgres', 'SELECT count(*) FROM generate_series(1, 10000, 2) i WHERE i % 3 = 0'),
	'preloaded, it vacuums');

$node->append_conf('postgresql.conf', "shared_preload_libraries = ''\n");
$node->restart;
$node->safe_psql('postgres', 'DELETE FROM t WHERE i % 5 = 0; VACUUM (FREEZE) t');
is($node->safe_psql('postgres', 'SELECT count(*) FROM t'),
	$node->safe_psql('postgres', 'SELECT count(*) FROM generate_series(1, 10000, 2) i WHERE i % 3 <> 0 AND i % 5 <> 0'),
	'without the library, stock VACUUM goes on with the same table');
like(error_of("SELECT * FROM parvacuum_run('t')"), qr/shared_preload_libraries/, 'and the function says what is missing');

# -- no background worker to be had

$node->append_conf('postgresql.conf', "shared_preload_libraries = 'parvacuum'\nmax_worker_processes = 0\n");
$node->restart;
like(error_of("SELECT * FROM parvacuum_run('t')"), qr/HINT:.*max_worker_processes/, 'no slot: the hint names the setting');

# Three: core's logical replication launcher and our own have one each, and the
# third is enough for the background leader, whose workers are then not to be had.
$node->append_conf('postgresql.conf', "max_worker_processes = 3\n");
$node->restart;
is( $node->safe_psql('postgres',
		"DELETE FROM t WHERE i % 7 = 0; SELECT workers_planned, workers_launched, tuples_removed > 0 FROM parvacuum_run('t', workers => 2)"),
	'2|0|t', 'one slot to be had: the run does without workers');

$node->stop;
done_testing();
