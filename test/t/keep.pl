# A vacuum is interrupted in an index scan or in the second heap pass.  The next one goes on
# with the dead items that were kept, and repeats nothing that is done.  A vacuum by stock,
# another file of the table and others drop them.  The result is that of stock VACUUM.

use strict;
use warnings FATAL => 'all';

use FindBin;
use lib $FindBin::RealBin;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use PvTest;
use Test::More;

my $node = pv_node('keep');
$node->append_conf('postgresql.conf', "log_min_messages = log\n");
$node->start;
pv_setup($node);

sub sql { return pv_sql($node, @_) }

# Tables of six segments, with an index of each kind.  The largest B-tree is vacuumed by all
# participants together, the others by one.
sql("\\o /dev/null\nSELECT * FROM oracle.make_twins('none', 16000, ARRAY['btree', 'gin', 'hash', 'gist', 'brin', 'spgist'], 400) \\gexec\n");
my @indexes = split /\n/, sql(q{SELECT indexrelid::regclass FROM pg_index WHERE indrelid = 'ours'::regclass ORDER BY 1});
my $nindexes = @indexes;
my $holder = pv_hold($node, 'ours');
my $round = 0;

sub new_dead_rows
{
	$round++;
	sql("DELETE FROM $_ WHERE id % 83 = $round") for qw(stock ours);
	return;
}

sub kept
{
	return sql(q{SELECT count(*), coalesce(sum(items), 0), coalesce(sum(indexes_done), 0), coalesce(sum(pages_begun), 0) FROM parvacuum_kept});
}

# A run that is held at a place, by all processes that come there.
sub start_run
{
	my ($place, $workers, $what) = @_;
	my $run = pv_start_run($node, "SELECT items_taken_over, indexes_taken_over, items_kept FROM parvacuum_run('ours', workers => $workers, index_cleanup => 'on')"
		  . " WHERE relid = 'ours'::regclass", 'parvacuum.wait_at' => $place =~ s/ /\\ /r);
	ok(pv_await($node, $pv_held, 'true'), "$what: it is held");
	return $run;
}

sub interrupt
{
	my ($run, $how, $what) = @_;
	sql("SELECT pg_${how}_backend(pid) FROM pg_stat_activity WHERE backend_type = 'parvacuum background leader'");
	ok(!pv_finish($run), "$what: the run fails");
	ok(pv_await($node, q{SELECT count(*) FROM pg_locks WHERE relation = 'ours'::regclass}, 0), "$what: it has released its locks");
	return;
}

# The run that follows.
sub finish
{
	my ($workers) = @_;
	return sql("SELECT items_taken_over, indexes_taken_over, items_kept FROM parvacuum_run('ours', workers => $workers, index_cleanup => 'on') WHERE relid = 'ours'::regclass");
}

sub whole { return pv_is_like_stock($node, 'VACUUM (INDEX_CLEANUP ON) stock', $_[0]) }

finish(0);
whole('at first');
is(kept(), '0|0|0|0', 'nothing is kept of a vacuum that was not interrupted');
is(pv_kept_files($node), 0, 'there is no file');

for my $workers (0, 2)
{
	for my $how (qw(cancel terminate))
	{
		# in each index: those that come before it are done
		for my $index (@indexes)
		{
			my $what = "$how at $index, $workers workers";
			new_dead_rows();
			my $dead = sql(q{SELECT count(*) FROM generate_series(1, 16000) id WHERE id % 83 = } . $round);
			my $run = start_run($index, $workers, $what);
			is(pv_kept_files($node), 1, "$what: there is a file");
			interrupt($run, $how, $what);
			my (undef, $items, $done) = split /\|/, kept();
			is($items, $dead, "$what: the dead items are kept");
			cmp_ok($done, '<', $nindexes, "$what: at least this index is not done");
			is(finish($workers), "$items|$done|0", "$what: the next run goes on");
			is(kept(), '0|0|0|0', "$what: then nothing is kept");
			is(pv_kept_files($node), 0, "$what: and there is no file");
			whole($what);
		}

		# in the second heap pass, at the third segment
		my $what = "$how in the second heap pass, $workers workers";
		new_dead_rows();
		my $run = start_run('segment 2', $workers, $what);
		interrupt($run, $how, $what);
		my (undef, $items, $done, $begun) = split /\|/, kept();
		is($done, $nindexes, "$what: all indexes are done");
		cmp_ok($begun, '>=', 384, "$what: the segment has been begun");
		my ($taken, $indexes) = split /\|/, finish($workers);
		is($indexes, $nindexes, "$what: no index is vacuumed again");
		cmp_ok($taken, '<', $items, "$what: what was begun is not taken over");
		whole($what);
	}
}

# Of ten indexes, a vacuum that is canceled in one of them repeats no more than that one, and
# next to no page of the table.
sub pages_read
{
	my ($table) = @_;
	return split /\|/, sql("SELECT heap_blks_read + heap_blks_hit, idx_blks_read + idx_blks_hit FROM pg_statio_user_tables WHERE relid = '$table'::regclass");
}

sub pages_for
{
	my ($table, $vacuum) = @_;
	sql("CREATE TABLE $table (id int) WITH (autovacuum_enabled = off)", "INSERT INTO $table SELECT i FROM generate_series(1, 100000) i",
		(map { "CREATE INDEX ${table}_$_ ON $table (id)" } 0 .. 9), "DELETE FROM $table WHERE id % 5 = 0");
	my ($heap, $index) = pages_read($table);
	$vacuum->("SELECT indexes_taken_over FROM parvacuum_run('$table', workers => 0, index_cleanup => 'on') WHERE relid = '$table'::regclass");
	my ($heap_now, $index_now) = pages_read($table);
	return ($heap_now - $heap, $index_now - $index);
}

my ($heap, $index) = pages_for('straight', sub { sql($_[0]) });
my ($heap_twice, $index_twice) = pages_for('broken', sub {
	my ($statement) = @_;
	my $gate = pv_hold($node, 'broken');
	my $run = pv_start_run($node, $statement, 'parvacuum.wait_at' => 'broken_8');
	ok(pv_await($node, $pv_held, 'true'), 'ten indexes: it is held');
	my $done = sql('SELECT indexes_done FROM parvacuum_kept');
	cmp_ok($done, '>=', 5, 'ten indexes: most are done');
	sql(q{SELECT parvacuum_cancel('broken'::regclass)});
	ok(!pv_finish($run), 'ten indexes: it is canceled');
	$gate->quit;
	is(sql($statement), $done, 'ten indexes: the next run goes on');
});
note "pages of the table: $heap, $heap_twice with a break; of the indexes: $index, $index_twice";
cmp_ok($heap_twice, '<=', 1.05 * $heap, 'ten indexes: next to no page of the table is read again');
cmp_ok($index_twice, '<=', 1.1 * $index, 'ten indexes: no more than one index is read again');

$holder->quit;
pv_no_crash($node, 'the server');

# A process is killed in each phase, and the server restarts.
$node->append_conf('postgresql.conf', "restart_after_crash = on\n");
$node->reload;
for my $case ([ 0, 'on' ], [ 2, 'off' ])
{
	my ($workers, $remove) = @$case;
	pv_reload_with($node, remove_temp_files_after_crash => $remove);
	for my $place ('scan', $indexes[0], 'segment 2', 'cleanup')
	{
		my $what = "kill at $place, $workers workers, files are removed: $remove";
		new_dead_rows();
		my $gate = pv_hold($node, 'ours');
		my $run = start_run($place, $workers, $what);
		my $pid = sql(q{SELECT pid FROM pg_stat_activity WHERE backend_type = 'parvacuum background leader'});
		kill 'KILL', $pid;
		ok(!pv_finish($run), "$what: the run fails");
		$gate->quit;
		ok(pv_await_ready($node, pv_log_seen($node)), "$what: the server restarts");
		is(kept(), '0|0|0|0', "$what: nothing is kept");
		is(pv_kept_files($node), 0, "$what: there is no file") if $remove eq 'on';
		is(finish($workers), '0|0|0', "$what: nothing is taken over");
		is(pv_findings($node, 'ours'), '', "$what: the table is whole");
		is(sql('SELECT count(*), sum(id) FROM ours'), sql('SELECT count(*), sum(id) FROM stock'), "$what: it has the same rows");
	}
}
$node->stop;
done_testing();
