# A vacuum ends early, because its time is over or because another session waits for the
# table, and the next one goes on.  In the end the table is like one that stock has vacuumed.

use strict;
use warnings FATAL => 'all';

use FindBin;
use lib $FindBin::RealBin;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use PvTest;
use Test::More;
use Time::HiRes qw(usleep);

my $node = pv_node('early');
$node->append_conf('postgresql.conf', "deadlock_timeout = 100ms\n");
$node->start;
pv_setup($node);
sub sql { return pv_sql($node, @_) }

my $rows = 16000;
my $round = 0;

sub make_tables
{
	my (@indexes) = @_;
	my $indexes = join ', ', map { "'$_'" } @indexes;
	sql("\\o /dev/null\nSELECT * FROM oracle.make_twins('none', $rows, ARRAY[$indexes]::text[], 400) \\gexec\n");
	sql("DELETE FROM $_ WHERE id % 7 = 3") for qw(stock ours);
	return;
}

sub is_like_stock { return pv_is_like_stock($node, 'VACUUM (INDEX_CLEANUP ON, FREEZE) stock', $_[0]) }

# A run that is held at a place until its time is over.  Then each process does as little as
# it can.  Returns what the run returns; $said has its messages.  One that came too late to the
# place is repeated.
my $said;
sub slice_at
{
	my ($place, $workers, $what) = @_;
	my ($held, $run);
	for my $seconds (0.4, 1, 3, 10)
	{
		my $holder = pv_hold($node, 'ours');
		$run = pv_start_run($node, "SELECT pages_scanned, ended_early, items_taken_over, indexes_taken_over FROM parvacuum_run('ours', workers => $workers, freeze => true, index_cleanup => 'on', time_limit => '$seconds s') WHERE relid = 'ours'::regclass",
			'parvacuum.wait_at' => $place);
		$held = 'f';
		while ($held ne 't' && $run->{handle}->pump_nb)
		{
			$held = sql($pv_held);
			usleep(10_000);
		}
		usleep(1_000_000 * ($seconds + 0.05)) if $held eq 't';
		$holder->quit;
		ok(pv_finish($run), "$what: the run succeeds") or diag $run->{err};
		last if $held eq 't';
	}
	is($held, 't', "$what: it was held");
	$said = $run->{err};
	return split /\|/, $run->{out};
}

sub frozenxid { return sql(q{SELECT relfrozenxid FROM pg_class WHERE oid = 'ours'::regclass}) }

# In the heap scan: a segment for each process
for my $case ([ 0, 'btree', 'gin', 'hash' ], [ 2, 'btree', 'gin', 'hash' ], [ 0 ], [ 2 ])
{
	my ($workers, @indexes) = @$case;
	my $what = scalar(@indexes) . " indexes, $workers workers";
	make_tables(@indexes);
	my $before = frozenxid();
	my ($slices, $early, $scanned, $read) = (0, 't', 0, 0);
	while ($early eq 't' && $slices < 30)
	{
		$slices++;
		(my $pages, $early) = slice_at('scan', $workers, "$what, slice $slices");
		$read += $pages;
		last if $early ne 't';
		my ($upto, $by_itself) = split /\|/, sql('SELECT pages_scanned, ended_early FROM parvacuum_kept');
		cmp_ok($upto, '>=', $scanned, "$what, slice $slices: the heap scan goes on") or last;
		is($by_itself, 't', "$what, slice $slices: it has ended by itself");
		$scanned = $upto;
		is(frozenxid(), $before, "$what, slice $slices: relfrozenxid stays");
		sql('BEGIN; INSERT INTO ours SELECT * FROM ours LIMIT 1; ROLLBACK') if $slices < 3;

		# an XID on a page that was scanned before
		sql("BEGIN; SELECT FROM $_ WHERE id = 1 FOR UPDATE; COMMIT") for $slices == 1 ? qw(stock ours) : ();
	}
	cmp_ok($slices, '>=', 3, "$what: there were $slices slices");
	is($early, 'f', "$what: the last one is complete");
	is(sql('SELECT count(*) FROM parvacuum_kept'), 0, "$what: nothing is kept any more");
	is(pv_findings($node, 'ours'), '', "$what: relfrozenxid is that of all slices");
	is(sql(qq{SELECT age('$before'::xid) > age('} . frozenxid() . q{'::xid)}), 't', "$what: relfrozenxid has advanced");
	my $pages = sql(q{SELECT pg_relation_size('ours') / current_setting('block_size')::int});
	cmp_ok($read, '<=', $pages * ($workers ? 2 : 1) + 10, "$what: $read pages were read of a table of $pages");
	sql('VACUUM (FREEZE) ours');
	is_like_stock($what);
}

# In the indexes and in the second heap pass
for my $workers (0, 2)
{
	my $what = "late, $workers workers";
	make_tables('btree', 'gin', 'hash');
	my $before = frozenxid();
	my (undef, $early) = slice_at('ours_arr_idx', $workers, "$what, in an index");
	is($early, 't', "$what: a slice ends in the indexes");
	my ($items, $done) = split /\|/, sql('SELECT items, indexes_done FROM parvacuum_kept');
	cmp_ok($done, '>', 0, "$what: $done indexes are done");
	(undef, $early, my $taken, my $indexes) = slice_at('heap', $workers, "$what, in the second heap pass");
	is("$early|$taken|$indexes", "t|$items|$done", "$what: the next one goes on, and ends in the second heap pass");
	is(sql('SELECT indexes_done FROM parvacuum_kept'), 3, "$what: all indexes are done");
	is(frozenxid(), $before, "$what: relfrozenxid stays");
	(my $pages, $early, $taken, $indexes) = split /\|/, sql("SELECT pages_scanned, ended_early, items_taken_over, indexes_taken_over FROM parvacuum_run('ours', workers => $workers, freeze => true, index_cleanup => 'on', time_limit => '1 hour') WHERE relid = 'ours'::regclass");
	is("$early|$indexes", 'f|3', "$what: the third one is complete");
	cmp_ok($taken, '<=', $items, "$what: it takes over what is left");
	cmp_ok($pages, '<', 128, "$what: it does not scan the table again");
	is(sql(qq{SELECT age('$before'::xid) > age('} . frozenxid() . q{'::xid)}), 't', "$what: relfrozenxid has advanced");
	sql('VACUUM (FREEZE) ours');
	is_like_stock($what);
}

# What is not a slice of the same vacuum begins anew.
make_tables('btree', 'gin');
sub slice
{
	my ($what) = @_;
	my (undef, $early) = slice_at('scan', 0, $what);
	is($early, 't', "$what: a slice");
	return;
}
slice('another vacuum');
my ($rc, $out, $err) = $node->psql('postgres', q{SELECT FROM parvacuum_run('ours', workers => 0, verbose => true)});
like($err, qr/The heap scan begins with page 0\./, 'another vacuum: with other options the heap scan begins anew');
slice('stock') for 1 .. 2;
sql('SET parvacuum.enabled = off', 'VACUUM ours');
is(sql('SELECT count(*) FROM parvacuum_kept'), 0, 'stock: nothing is kept after VACUUM by stock');
sql('VACUUM (FREEZE, INDEX_CLEANUP ON) ours');
is_like_stock('other vacuums');

# A slice ends even if nothing can be kept.
make_tables('btree');
pv_reload_with($node, 'parvacuum.keep_limit' => '0');
slice('without a limit to keep');
like($said, qr/^WARNING:  vacuum of table "postgres\.public\.ours" ends early and keeps nothing of what it has done\nHINT:/, 'and says so');
pv_reload_with($node, 'parvacuum.keep_limit' => '1GB');
slice('with such a limit');
is($said, '', 'otherwise it says nothing');

# A TOAST table by itself, whose table is not locked, so that nobody's wait for that matters.
sql('CREATE TABLE toasted (t text)', 'ALTER TABLE toasted ALTER t SET STORAGE EXTERNAL', q{INSERT INTO toasted SELECT repeat('x', 10000) FROM generate_series(1, 1000)}, 'DELETE FROM toasted');
($rc, $out, $err) = $node->psql('postgres', sql(q{SELECT format('SELECT tuples_removed > 0 FROM parvacuum_run(%s)', quote_literal(reltoastrelid::regclass)) FROM pg_class WHERE relname = 'toasted'}));
is("$out $err", 't ', 'a TOAST table by itself: no message');

# A table whose turn comes when the time is over is not begun.
sql('CREATE TABLE parts (a int) PARTITION BY LIST (a); CREATE TABLE p1 PARTITION OF parts FOR VALUES IN (1); CREATE TABLE p2 PARTITION OF parts FOR VALUES IN (2)',
	'INSERT INTO parts SELECT 1 + g % 2 FROM generate_series(1, 100000) g');
is(sql(q{SELECT bool_and(ended_early), sum((pages_scanned = 0)::int) FROM parvacuum_run('parts', workers => 0, time_limit => '1us')}), 't|2', 'partitions: none is begun after the end');
for my $limit ('0', '-1 day')
{
	my ($rc, $out, $err) = $node->psql('postgres', "SELECT FROM parvacuum_run('parts', time_limit => '$limit')");
	like($err, qr/time_limit must be greater than zero/, "a time limit of $limit is refused");
}

# Others wait: an ALTER TABLE gets the table, and the run goes on by itself.
sub waits_behind
{
	my ($what, $setup, $run) = @_;
	my $started = $run->();
	ok(pv_await($node, q{SELECT count(*) > 0 FROM pg_stat_progress_vacuum WHERE phase <> 'initializing'}, 'true'), "$what: the vacuum is at work");
	my $took = sql(q{CREATE TEMP TABLE t AS SELECT clock_timestamp() AS t}, $setup, q{SELECT extract(epoch FROM clock_timestamp() - t) FROM t});
	note "$what: another session had the table after $took s";
	return $started;
}

for my $workers (0, 2)
{
	my $what = "a run with $workers workers";
	make_tables('btree', 'gin', 'hash');
	sql('CHECKPOINT');
	my $started = waits_behind($what, 'ALTER TABLE ours ALTER v SET STATISTICS 50', sub {
		return pv_start_run($node, "SELECT ended_early, index_scans + indexes_taken_over FROM parvacuum_run('ours', workers => $workers, freeze => true, index_cleanup => 'on', verbose => true) WHERE relid = 'ours'::regclass",
			vacuum_cost_delay => '10ms', vacuum_cost_limit => $workers ? 20 : 60);
	});
	is(sql(q{SELECT count(*) FROM pg_stat_activity WHERE backend_type = 'parvacuum background leader'}), 1, "$what: it is still there");
	ok(pv_finish($started), "$what: it is complete");
	like($started->{out}, qr/^f\|[1-9]/, "$what: one row says so");
	like($started->{err}, qr/^ended early: another session waits for the table$/m, "$what: so do the messages of the part before");
	sql('VACUUM (FREEZE) ours');
	is_like_stock($what);
	cmp_ok(sql(q{SELECT count(*) FROM parvacuum_history WHERE relname = 'ours' AND ended_early AND start_time > now() - interval '1 minute'}), '>', 0, "$what: the history has the part before")
	  or diag sql(q{SELECT relname, outcome, ended_early, runs, start_time, elapsed_ms FROM parvacuum_history ORDER BY run DESC LIMIT 5});
	like(sql(q{SELECT lock_query FROM parvacuum_history WHERE relname = 'ours' AND ended_early ORDER BY run DESC LIMIT 1}), qr/^ALTER TABLE ours/, "$what: and the session that was let in");
}

# Once in parvacuum.yield_interval is enough: sessions that come again and again do not stop it.
{
	my $what = 'again and again';
	make_tables('btree');
	sql('CHECKPOINT');
	my $started = pv_start_run($node, "SELECT ended_early FROM parvacuum_run('ours', workers => 0, freeze => true, index_cleanup => 'on') WHERE relid = 'ours'::regclass",
		vacuum_cost_delay => '10ms', vacuum_cost_limit => 60);
	ok(pv_await($node, q{SELECT count(*) > 0 FROM pg_stat_progress_vacuum WHERE phase <> 'initializing'}, 'true'), "$what: the vacuum is at work");
	sql('BEGIN; LOCK ours; COMMIT');
	my ($rc, $out, $err);
	($rc, $out, $err) = $node->psql('postgres', q{SET lock_timeout = '1s'; BEGIN; LOCK TABLE ours; COMMIT});
	like($err, qr/lock timeout/, "$what: the second one has to wait");
	ok(pv_finish($started), "$what: the vacuum is complete");
	cmp_ok(sql(q{SELECT count(*) FROM parvacuum_history WHERE relname = 'ours' AND ended_early AND start_time > (SELECT max(start_time) FROM parvacuum_history WHERE relname = 'ours') - interval '20 s'}), '>', 0, "$what: it has let the first one in");
}

pv_no_crash($node, 'the server');
$node->stop;
done_testing();
