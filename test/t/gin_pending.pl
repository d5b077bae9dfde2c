# Rows are added to the pending list of a GIN index faster than a throttled vacuum
# inserts them into the index.  A vacuum of autovacuum or of the scheduler inserts the
# entries that were there when it began, and ends.  Then, settings by which the owner of a
# database cannot get more than his share.

use strict;
use warnings FATAL => 'all';

use FindBin;
use lib $FindBin::RealBin;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use PvTest;
use Test::More;

my $node = pv_node('pending');
$node->append_conf('postgresql.conf', q{
autovacuum_naptime = 1s
log_autovacuum_min_duration = 0
vacuum_cost_page_hit = 100
vacuum_cost_page_miss = 100
vacuum_cost_page_dirty = 100
autovacuum_vacuum_cost_limit = 1000
autovacuum_vacuum_cost_delay = 5ms
parvacuum.min_parallel_pages = 0
max_parallel_maintenance_workers = 4
});
$node->start;
pv_setup($node);

sub sql { return pv_sql($node, @_); }

# Sessions that insert never empty the list.  Each of two clients adds 800 keys a second,
# and the vacuum can insert some hundreds.
sub make
{
	my ($table) = @_;
	sql("CREATE TABLE $table (id int, a int[]) WITH (autovacuum_enabled = off, autovacuum_vacuum_threshold = 1, autovacuum_vacuum_scale_factor = 0,
			autovacuum_vacuum_insert_threshold = -1, parvacuum.enabled, parvacuum.workers = 2)",
		"INSERT INTO $table SELECT i, ARRAY[i % 100, i] FROM generate_series(1, 3000) i",
		"CREATE INDEX ${table}_a ON $table USING gin (a) WITH (fastupdate = on, gin_pending_list_limit = 1000000)",
		"CREATE INDEX ${table}_b ON $table USING gin (a) WITH (fastupdate = on, gin_pending_list_limit = 1000000)",
		"DELETE FROM $table WHERE id % 3 = 0");
	return;
}

my $seconds = 2 * $PostgreSQL::Test::Utils::timeout_default;

# Later minor releases empty the list in each bulk deletion by themselves, in the way of
# a process that is not an autovacuum worker.  19 does that too, but it can be told that a
# vacuum is automatic.
my %last_without = (15 => 150018, 16 => 160014, 17 => 170011, 18 => 180006);
my $version = sql('SHOW server_version_num');
my $ours = $version <= ($last_without{ int($version / 10000) } // $version);
note 'left out: who empties the list, which this minor release does by itself' if !$ours;

for my $who ($ours ? qw(autovacuum scheduler) : ())
{
	my $table = "by_$who";
	make($table);
	my $bench = pv_start_pgbench($node, $seconds, 2,
		insert => [ 1, "INSERT INTO $table SELECT 0, ARRAY[random() * 1e9, random() * 1e9, random() * 1e9, random() * 1e9]::int[] FROM generate_series(1, 10);
			SELECT pg_sleep(0.05);" ]);
	ok(pv_await($node, "SELECT count(*) > 20 FROM $table WHERE id = 0", 'true'), "$who: rows are added");
	pv_reload_with($node, $who eq 'autovacuum' ? ('autovacuum' => 'on') : ('autovacuum' => 'off', 'parvacuum.scheduler' => 'on'));
	sql("ALTER TABLE $table SET (autovacuum_enabled = on)");
	ok(pv_await($node, "SELECT autovacuum_count + vacuum_count > 0 FROM pg_stat_user_tables WHERE relname = '$table'", 'true'),
		"$who: the vacuum ends") or diag sql('SELECT * FROM pg_stat_progress_vacuum');
	ok($bench->{handle}->pumpable, "$who: rows are still added then");
	sql("ALTER TABLE $table SET (autovacuum_enabled = off)");
	$bench->{handle}->kill_kill(grace => 0);
	like(slurp_file($node->logfile), qr/of table "postgres\.public\.$table": index scans: 1\n/, "$who: it vacuumed the index");
	pv_reload_with($node, 'autovacuum' => 'off', 'parvacuum.scheduler' => 'off');
	ok(pv_await($node, q{SELECT count(*) FROM pg_stat_progress_vacuum}, 0), "$who: no process is left");
	is(pv_findings($node, $table), '', "$who: the table is whole");

	# A VACUUM of a session empties the list, as with stock VACUUM.
	sql("VACUUM (INDEX_CLEANUP on) $table");
	is(sql("SELECT n_pending_pages FROM gin_metapage_info(get_raw_page('${table}_a', 0))"), 0, "$who: VACUUM empties the list");
	sql("DROP TABLE $table");
}

#
# Settings that the owner of a database can change
#

# More memory than the administrator allows
sql(q{CREATE TABLE small (id int PRIMARY KEY) WITH (autovacuum_enabled = off, parvacuum.enabled)},
	'INSERT INTO small SELECT generate_series(1, 2000000)', 'DELETE FROM small WHERE hashint4(id) % 3 = 0');
my $rounds = sql(q{SET parvacuum.store_limit = '1GB'; SET maintenance_work_mem = '1MB'; SELECT index_scans FROM parvacuum_run('small', workers => 0)});
cmp_ok($rounds, '>', 3, 'store_limit cannot raise the limit of the store');

# Workers for very small tables
sub workers_by_autovacuum
{
	my ($table) = @_;
	sql("CREATE TABLE $table (id int) WITH (autovacuum_enabled = off, autovacuum_vacuum_threshold = 1, autovacuum_vacuum_scale_factor = 0, parvacuum.enabled, parvacuum.workers = 2)",
		"INSERT INTO $table SELECT generate_series(1, 3000)", "DELETE FROM $table WHERE id % 2 = 0", "ALTER TABLE $table SET (autovacuum_enabled = on)");
	my $entry = qr/of table "postgres\.public\.$table"[^"]*engine: parvacuum, (\d) parallel workers/;
	for (1 .. 10 * $PostgreSQL::Test::Utils::timeout_default)
	{
		return $1 if slurp_file($node->logfile) =~ $entry;
		select undef, undef, undef, 0.1;
	}
	return 'none came';
}
pv_reload_with($node, 'autovacuum' => 'on');
is(workers_by_autovacuum('by_file'), 2, 'the setting of the administrator is in effect');
pv_reload_with($node, 'parvacuum.min_parallel_pages' => 5000);
sql('ALTER DATABASE postgres SET parvacuum.min_parallel_pages = 0');
is(workers_by_autovacuum('by_database'), 0, "the owner of a database gets no workers for small tables");

pv_no_crash($node, 'the server');
$node->stop;
done_testing();
