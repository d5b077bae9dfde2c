# Rates, which are measured while no other file of this kind runs.  A reload that sets the
# cost delay of sessions to 0 does not release the scheduler from its rate: on 15 that
# setting is also the variable by which the scheduler's sleep is arranged.  The processes of
# an autovacuum share a budget, and with other autovacuum workers.

use strict;
use warnings FATAL => 'all';

use FindBin;
use lib $FindBin::RealBin;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use PvTest;
use Test::More;
use Time::HiRes qw(sleep time);

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

sql(q{
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
sql('SELECT pg_sleep(0.5)');
for my $delay ('0', '1ms', '0')
{
	my $before = sql($scanned);
	pv_reload_with($node, vacuum_cost_delay => $delay);
	sql('SELECT pg_sleep(1.5)');
	cmp_ok((sql($scanned) || 3000) - $before, '<', 100, "vacuum_cost_delay = $delay: at the same rate");
}

pv_no_crash($node, 'the server');
$node->stop('immediate');

#
# Autovacuum
#
$node = pv_node('autovacuum_rate');
$node->append_conf('postgresql.conf', q{
autovacuum = on
autovacuum_naptime = 1s
vacuum_cost_page_hit = 100
vacuum_cost_page_miss = 100
vacuum_cost_page_dirty = 0
});
$node->start;
pv_setup($node);
sub at { return "FROM pg_stat_progress_vacuum JOIN pg_stat_activity USING (pid) WHERE relid = '$_[0]'::regclass AND backend_type = 'autovacuum worker'"; }

# The speed: a table of many pages, and another one for core to vacuum at the same time
sub sql { return pv_sql($node, @_); }
sql('CREATE TABLE big (id int, pad text) WITH (autovacuum_enabled = off, parvacuum.enabled)',
	'CREATE TABLE other (id int, pad text) WITH (autovacuum_enabled = off)',
	map { ("ALTER TABLE $_ SET (autovacuum_vacuum_threshold = 50, autovacuum_vacuum_scale_factor = 0, autovacuum_analyze_threshold = 1000000000)", "INSERT INTO $_ SELECT i, repeat('x', 1900) FROM generate_series(1, 40000) i",
			"DELETE FROM $_ WHERE id % 5 = 0") } qw(big other));

# The speed of the vacuum of "big" is between these, in pages a second.  What else the
# machine does can lower it for a while, and the measurement that follows is then too high.
sub speed_is
{
	my ($least, $most, $what) = @_;
	my $passed = 'SELECT heap_blks_scanned ' . at('big');
	my ($rate, $good);
	for (1 .. 4)
	{
		my $from = sql($passed);
		my $begun = time;
		sleep 2;
		$rate = (sql($passed) - $from) / (time - $begun);
		note "$rate pages a second";
		$good = $rate > $least && $rate < $most and last;
	}
	ok($good, "$what: $rate pages a second");
	return $rate;
}

pv_reload_with($node, autovacuum_vacuum_cost_delay => '10ms', autovacuum_vacuum_cost_limit => 500);
sql('ALTER TABLE big SET (autovacuum_enabled = on)');
pv_await($node, 'SELECT count(*) ' . at('big') . ' AND heap_blks_scanned > 0', 1);

# 500 units each 10 ms are 250 pages a second, whichever process reads them.  With each
# heap page comes a page of the visibility map or of the free space map.
my $alone = speed_is(150, 350, 'three processes keep one budget and use it');

sql('ALTER TABLE other SET (autovacuum_enabled = on)');
pv_await($node, 'SELECT count(*) ' . at('other'), 1);
speed_is(60, 190, 'another autovacuum worker gets its share');
sql('ALTER TABLE other SET (autovacuum_enabled = off)', q{SELECT pg_cancel_backend(pid) FROM pg_stat_progress_vacuum WHERE relid = 'other'::regclass});
pv_await($node, 'SELECT count(*) ' . at('other'), 0);
speed_is(0.75 * $alone, 350, 'the other autovacuum worker returns its share');

pv_reload_with($node, 'parvacuum.autovacuum_cost_limit_scale' => 1);
speed_is(450, 1100, 'at scale 1 each process has a budget of its own');
pv_reload_with($node, 'parvacuum.autovacuum_cost_limit_scale' => 0, autovacuum_vacuum_cost_delay => 0);
ok(pv_await($node, 'SELECT count(*) ' . at('big'), 0), 'the vacuum is completed');

pv_no_crash($node, 'the server');
$node->stop('immediate');
done_testing();
