# Vacuums of a table are interrupted up to ten times, at places and in ways made up at
# random, with deletes and DDL between, before one is completed.  The table then equals its
# twin, which stock has vacuumed once.

use strict;
use warnings FATAL => 'all';

use FindBin;
use lib $FindBin::RealBin, "$FindBin::RealBin/../t";
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use PvTest;
use PvTorture;
use Test::More;
use Time::HiRes qw(time usleep);

my $node = pv_node('interrupted');
$node->append_conf('postgresql.conf', "deadlock_timeout = 50ms\nparvacuum.yield_interval = 1s\n");
$node->start;
pv_setup($node);
my $space = PostgreSQL::Test::Utils::tempdir;
pv_sql($node, "CREATE TABLESPACE elsewhere LOCATION '$space'");

my %done = map { $_ => 0 } qw(rounds interrupted taken_over indexes slices yields ddl);
my @kinds = qw(btree duplicates changing partial expression hash gist spgist gin brin);
my $rows;

sub sql { return pv_sql($node, @_) }
sub on_both { my ($statement) = @_; return sql(map { $statement =~ s/TWIN/$_/gr } qw(stock ours)) }

sub indexes { return split /\n/, sql(q{SELECT indexrelid::regclass FROM pg_index WHERE indrelid = 'ours'::regclass}) }

# The same change of both twins.  A new row could use the space of a row that only one of
# them has lost, so rows are only deleted.  A table never loses its last index, and one without
# indexes gets none.  From 17 on a page from which the last row is removed keeps a line pointer
# if the table has indexes then, and none otherwise.
sub change
{
	my $from = 1 + int rand $rows;
	return on_both("DELETE FROM TWIN WHERE id % 53 = " . int rand 53) if chance(0.5);
	return on_both("DELETE FROM TWIN WHERE id BETWEEN $from AND " . ($from + $rows / 20)) if chance(0.3);
	my @indexes = indexes();
	my $index = @indexes ? one_of(@indexes) =~ s/^ours//r : undef;
	$done{ddl}++;
	my $statement = one_of('REINDEX TABLE TWIN', 'REINDEX TABLE CONCURRENTLY TWIN', 'ALTER TABLE TWIN ALTER v SET STATISTICS 7',
		defined $index ? ('CREATE INDEX ON TWIN (v, id)', "REINDEX INDEX TWIN$index", "ALTER INDEX TWIN$index SET TABLESPACE elsewhere", "ALTER INDEX TWIN$index SET TABLESPACE pg_default",
			"BEGIN; ALTER INDEX TWIN$index SET TABLESPACE elsewhere; ROLLBACK") : (),
		@indexes > 1 ? "DROP INDEX TWIN$index" : ());
	return on_both($statement);
}

# A run that is interrupted, or ends early, or is completed before that
sub interrupt
{
	my $workers = int rand 3;
	my $place = one_of('scan', 'index', 'heap', 'cleanup', 'segment 0', 'segment 2', 'leader index', 'nbtree range', indexes());
	my $limit = chance(0.3) ? q{, time_limit => '} . int(5 + rand 60) . q{ms'} : '';
	my $holder = chance(0.8) ? pv_hold($node, 'ours') : undef;
	my $run = pv_start_run($node, "SELECT items_taken_over, indexes_taken_over, ended_early FROM parvacuum_run('ours', workers => $workers, index_cleanup => 'on', freeze => true$limit) WHERE relid = 'ours'::regclass",
		'parvacuum.wait_at' => $place =~ s/ /\\ /gr, maintenance_work_mem => one_of('1MB', '64MB'));
	my $until = time + 1;
	usleep(5_000) while $holder && time < $until && sql($pv_held) ne 't' && $run->{handle}->pump_nb;
	usleep(rand 50_000) unless $holder;
	if ($limit eq '')
	{
		my $who = one_of(q{backend_type = 'parvacuum background leader'}, q{backend_type = 'parallel worker'});
		my $how = one_of('cancel', 'terminate', 'cancel', 'lock');
		if ($how eq 'lock')
		{
			$holder->quit if $holder;
			undef $holder;
			sql('BEGIN; LOCK TABLE ours; COMMIT');
			$done{yields}++;
			usleep(rand 100_000);
			$how = 'cancel';
		}
		sql("SELECT pg_${how}_backend(pid) FROM pg_stat_activity WHERE $who");
	}
	else
	{
		usleep(1000 * rand 80);
		$done{slices}++;
	}
	$holder->quit if $holder;
	pv_finish($run);
	$done{interrupted}++ if $run->{err} ne '';
	count_taken($run->{out});
	return $run->{err};
}

sub count_taken
{
	my ($items, $indexes) = split /\|/, $_[0];
	$done{taken_over} += $items || 0;
	$done{indexes} += $indexes || 0;
	return;
}

my $end = time + pv_seconds(1, 8);
while (time < $end)
{
	my $what = "round $seed." . ++$done{rounds};
	$rows = one_of(2000, 6000, 16000);
	my $list = join ', ', map { "'$_'" } grep { chance(0.4) } @kinds;
	my $persistence = chance(0.2) ? 'UNLOGGED' : '';
	sql("\\o /dev/null\nSELECT * FROM oracle.make_twins('none', $rows, ARRAY[$list]::text[], " . one_of(20, 200, 400) . ", NULL, '$persistence') \\gexec\n");
	on_both('DELETE FROM TWIN WHERE id % 7 = 1');
	my @errors;
	for (1 .. 1 + int rand 10)
	{
		push @errors, interrupt();
		change() if chance(0.4);
	}
	@errors = grep { $_ ne '' && !/canceling statement|terminating|server closed the connection|connection to (?:client|server)/ } @errors;
	is("@errors", '', "$what: no other error");
	my $last = pv_start_run($node, q{SELECT items_taken_over, indexes_taken_over FROM parvacuum_run('ours', workers => 2, index_cleanup => 'on', freeze => true) WHERE relid = 'ours'::regclass});
	ok(pv_finish($last), "$what: the last run is completed") or diag $last->{err};
	count_taken($last->{out});
	sql('VACUUM (INDEX_CLEANUP ON, FREEZE) stock');
	is(sql('SELECT count(*) FROM parvacuum_kept'), 0, "$what: nothing is kept in the end");
	is(pv_differences($node, 'reltuples', 'relfrozenxid', 'relminmxid'), '', "$what: the table equals its twin") or last;
	is(sql(q{SELECT age(relfrozenxid) <= (SELECT age(relfrozenxid) FROM pg_class WHERE oid = 'stock'::regclass) + 200 FROM pg_class WHERE oid = 'ours'::regclass}), 't', "$what: relfrozenxid has advanced");
	sql('DROP TABLE stock, ours');
}
is(pv_kept_files($node), 0, 'no file is left');
pv_figure($done{rounds}, 'tables, each like its twin in the end');
pv_figure($done{interrupted}, 'vacuums canceled or terminated');
pv_figure($done{taken_over}, 'dead items taken over');
pv_figure($done{indexes}, 'indexes that were done already');
pv_figure($done{slices}, 'vacuums with a limit of time');
pv_figure($done{yields}, 'sessions that waited for the table');
pv_figure($done{ddl}, 'changes of the tables in between');
pv_no_crash($node, 'the server');
$node->stop;
done_testing();
