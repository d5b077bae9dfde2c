# A reload that sets the cost delay of sessions to 0 does not release the scheduler from
# its rate: on 15 that setting is also the variable by which the scheduler's sleep is
# arranged.

use strict;
use warnings FATAL => 'all';

use FindBin;
use lib $FindBin::RealBin;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use PvTest;
use Test::More;

my $node = pv_node('reload_rate');

# A page that is dirty already costs about two units: some hundreds of them are vacuumed
# in a second.
$node->append_conf('postgresql.conf', q{
autovacuum_naptime = 1s
parvacuum.autovacuum_workers = 0
parvacuum.scheduler_max_cost = 400
});
$node->start;
pv_setup($node);

$node->safe_psql('postgres', q{
	CREATE TABLE t (id int, pad char(2400)) WITH (parvacuum.enabled, autovacuum_vacuum_threshold = 10, autovacuum_vacuum_scale_factor = 0);
	ALTER TABLE t ALTER pad SET STORAGE PLAIN;
	INSERT INTO t SELECT i, 'x' FROM generate_series(1, 9000) i;
	CHECKPOINT;
	DELETE FROM t WHERE id % 3 = 0});
pv_reload_with($node, 'parvacuum.scheduler' => 'on');

my $scanned = q{SELECT heap_blks_scanned FROM pg_stat_progress_vacuum WHERE relid = 't'::regclass};
ok(pv_await($node, "SELECT ($scanned) > 0", 'true'), 'the table is being vacuumed');

# From here on a page takes two seconds.
pv_reload_with($node, map { ("vacuum_cost_page_$_" => 800) } qw(hit miss dirty));
$node->safe_psql('postgres', 'SELECT pg_sleep(0.5)');
for my $delay ('0', '1ms', '0')
{
	my $before = $node->safe_psql('postgres', $scanned);
	pv_reload_with($node, vacuum_cost_delay => $delay);
	$node->safe_psql('postgres', 'SELECT pg_sleep(1.5)');
	cmp_ok(($node->safe_psql('postgres', $scanned) || 3000) - $before, '<', 100, "vacuum_cost_delay = $delay: at the same rate");
}

pv_no_crash($node, 'the server');
$node->stop('immediate');
done_testing();
