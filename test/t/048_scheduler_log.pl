# Messages that the scheduler does not log, because autovacuum does not either.

use strict;
use warnings FATAL => 'all';

use FindBin;
use lib $FindBin::RealBin;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use PvTest;
use Test::More;

my $node = pv_node('scheduler_log');
$node->append_conf('postgresql.conf', "autovacuum_naptime = 1s\nautovacuum_analyze_threshold = 10\nautovacuum_analyze_scale_factor = 0\n");
$node->start;
pv_setup($node);

# A statistics object that cannot be computed, because one of its columns has no
# statistics
$node->safe_psql('postgres', q{
	CREATE TABLE t (a int, b int) WITH (parvacuum.enabled);
	ALTER TABLE t ALTER a SET STATISTICS 0;
	CREATE STATISTICS t_stat (dependencies) ON a, b FROM t;
	INSERT INTO t SELECT i, i FROM generate_series(1, 1000) i});
my ($rc, $out, $err) = $node->psql('postgres', 'ANALYZE t');
like($err, qr/WARNING: .*statistics object "public.t_stat" could not be computed/, 'a session gets the warning');

my $from = -s $node->logfile;
pv_reload_with($node, 'parvacuum.scheduler' => 'on');
for my $scan (1 .. 2)
{
	$node->safe_psql('postgres', 'UPDATE t SET b = b + 1');
	ok(pv_await($node, "SELECT analyze_count FROM pg_stat_all_tables WHERE relid = 't'::regclass", 1 + $scan), "$scan: the scheduler analyzes the table");
}
unlike(substr(slurp_file($node->logfile), $from), qr/could not be computed/, 'the warning is not logged');

pv_no_crash($node, 'the server');
$node->stop;
done_testing();
