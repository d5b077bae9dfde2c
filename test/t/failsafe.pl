# A table whose XIDs are dangerously old: the failsafe makes the vacuum leave out
# indexes, the second heap pass and truncation, report that, and advance relfrozenxid, as
# stock VACUUM does.  The next vacuum, when the danger is over, does the rest.

use strict;
use warnings FATAL => 'all';

use FindBin;
use lib $FindBin::RealBin;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use PvTest;
use Test::More;

my $node = pv_node('failsafe');
$node->start;
pv_setup($node);

# The failsafe age is never below 1.05 times autovacuum_freeze_max_age, which is 210
# million.  XIDs are compared modulo 2^32, so a young cluster can have a table that is
# older.
sub make_old
{
	my ($age) = @_;
	pv_sql($node, qq{
		UPDATE pg_class SET relfrozenxid = ((pg_current_xact_id()::text::bigint - $age) & 4294967295)::text::xid
		WHERE relname IN ('stock', 'ours')});
	return;
}

# Subtransactions that write consume transaction IDs fastest.
sub use_up
{
	my ($n) = @_;
	pv_sql($node, "CREATE TABLE IF NOT EXISTS burnt (i int); DO \$\$ BEGIN FOR i IN 1 .. $n LOOP
		BEGIN INSERT INTO burnt VALUES (1); EXCEPTION WHEN others THEN NULL; END; END LOOP; END \$\$");
	return;
}

my $items = q{SELECT count(*) FILTER (WHERE lp_flags = 3) > 0, count(*) FILTER (WHERE lp_flags = 1)
	FROM generate_series(0, oracle.nblocks('ours') - 1) b, heap_page_items(get_raw_page('ours', 'main', b))};

# middle: the danger arises while the vacuum is running.
sub failsafe
{
	my ($workers, $middle) = @_;
	my $what = "$workers workers" . ($middle ? ', in the middle' : '');

	pv_sql($node, "\\o /dev/null\nSELECT * FROM oracle.make_twins('tail', 12000, ARRAY['btree', 'gin', 'hash'], 300) \\gexec\n");
	make_old($middle ? 209_999_000 : 300_000_000);
	my $pages = pv_sql($node, q{SELECT oracle.nblocks('ours')});

	my $gate = pv_session($node);
	$gate->query_safe('SELECT pg_advisory_lock(28790)');
	my $run = pv_start_run($node, "SELECT dead_items > 0, index_scans, index_vacuum_ms, heap_vacuum_ms, pages_removed, index_scan_bypassed, relfrozenxid_advanced
		FROM parvacuum_run('ours', workers => $workers, index_cleanup => 'on', truncate => true) WHERE relid = 'ours'::regclass",
		vacuum_failsafe_age => 0, vacuum_cost_delay => '1ms', vacuum_cost_page_hit => 20, 'parvacuum.wait_at' => $middle ? 'scan' : '');
	if ($middle)
	{
		ok(pv_await($node, q{SELECT count(*) FROM pg_locks WHERE locktype = 'advisory' AND NOT granted}, $workers + 1), "$what: the heap is scanned");
		use_up(5_000);
	}
	$gate->quit;
	ok(pv_finish($run), "$what: the run succeeds") or diag $run->{err};
	is($run->{out}, 't|0|0|0|0|t|t', "$what: no index scan, no second heap pass, no truncation, but frozen pages");
	like($run->{err}, qr/WARNING:.*"postgres.public.ours" as a failsafe/, "$what: the failsafe is reported");
	cmp_ok(pv_sql($node, q{SELECT age(relfrozenxid) FROM pg_class WHERE relname = 'ours'}),
		'<', 20_000, "$what: relfrozenxid has advanced");
	is(pv_sql($node, q{SELECT oracle.nblocks('ours')}), $pages, "$what: the table is not truncated");
	is(pv_sql($node, $items), 't|4115', "$what: dead line pointers remain");

	# Transactions that began during the run are older for it.
	pv_sql($node, 'SET vacuum_failsafe_age = 0; VACUUM stock');
	is(pv_differences($node, $middle ? 'relfrozenxid' : ()), '', "$what: the table equals its twin");

	# When the danger is over, the next vacuum does the rest.
	pv_sql($node, 'VACUUM (TRUNCATE) stock');
	is(pv_sql($node, "SELECT dead_items > 0, index_scans, pages_removed > 0, index_scan_bypassed
		FROM parvacuum_run('ours', workers => $workers, truncate => true) WHERE relid = 'ours'::regclass"), 't|1|t|f', "$what: the next vacuum does all phases");
	is(pv_sql($node, $items), 'f|4115', "$what: no dead line pointer remains");
	is(pv_differences($node, $middle ? 'relfrozenxid' : ()), '', "$what: the table equals its twin again");
	return;
}

failsafe(0);
failsafe(3);
failsafe(2, 1);

#
# Without indexes no dead line pointer keeps the pages at the end from being cut off.
#
pv_sql($node, q{
	DROP TABLE IF EXISTS stock, ours;
	CREATE TABLE ours (id int) WITH (autovacuum_enabled = off);
	INSERT INTO ours SELECT generate_series(1, 20000);
	DELETE FROM ours WHERE id > 1000});
for my $case ([ 0, 0 ], [ 2, 0 ], [ 2, 1 ])
{
	my ($workers, $safe) = @$case;
	make_old(300_000_000) unless $safe;
	is(pv_sql($node, "SET vacuum_failsafe_age = 0; SET client_min_messages = error;
		SELECT pages_removed > 0 FROM parvacuum_run('ours', workers => $workers, truncate => true) WHERE relid = 'ours'::regclass"),
		$safe ? 't' : 'f', "$workers workers, no index: the table is " . ($safe ? 'truncated when the danger is over' : 'not truncated'));
}

#
# The failsafe begins during the heap scan: pages read from then on use any buffers, not
# those of the ring.  All participants begin to scan before that.
pv_sql($node, q{
	CREATE EXTENSION pg_buffercache;
	DROP TABLE IF EXISTS stock, ours;
	CREATE TABLE ours (id int, pad text) WITH (autovacuum_enabled = off);
	ALTER TABLE ours ALTER pad SET STORAGE PLAIN;
	INSERT INTO ours SELECT i, repeat('x', 5000) FROM generate_series(1, 8192) i});
for my $workers (0, 2)
{
	my $what = "$workers workers, in the midst of the scan";
	$node->restart;
	make_old(209_999_900);
	my $gate = $node->background_psql('postgres', on_error_stop => 1);
	$gate->query_safe('SELECT pg_advisory_lock(28790)');
	my $run = pv_start_run($node, "SELECT pages_scanned, relfrozenxid_advanced FROM parvacuum_run('ours', workers => $workers, disable_page_skipping => true) WHERE relid = 'ours'::regclass",
		vacuum_failsafe_age => 0, 'parvacuum.wait_at' => 'scan', 'parvacuum.buffer_usage_limit' => '256kB');
	ok(pv_await($node, q{SELECT count(*) FROM pg_locks WHERE locktype = 'advisory' AND NOT granted}, $workers + 1), "$what: all participants scan");
	use_up(300);
	$gate->query_safe('SELECT pg_advisory_unlock(28790)');
	ok(pv_finish($run), "$what: the run succeeds") or diag $run->{err};
	is($run->{out}, '8192|t', "$what: each page is scanned");
	like($run->{err}, qr/WARNING:.*"postgres.public.ours" as a failsafe/, "$what: the failsafe is reported");

	# Each participant may have read 1024 blocks before, and some blocks ahead.
	cmp_ok(pv_sql($node, q{SELECT count(*) FROM pg_buffercache WHERE relfilenode = pg_relation_filenode('ours') AND relforknumber = 0}),
		'>', 4096, "$what: the ring of buffers is not used any more");
	is(pv_findings($node, 'ours'), '', "$what: the table is whole");
	$gate->quit;
}

#
# The failsafe begins while participants are in a B-tree.  Some of its entries remain, so no
# dead item may be set unused.
#
pv_sql($node, q{
	DROP TABLE ours;
	CREATE TABLE ours (id int, pad text) WITH (autovacuum_enabled = off);
	INSERT INTO ours SELECT i, repeat('x', 20) FROM generate_series(1, 30000) i;
	CREATE INDEX ON ours (id);
	DELETE FROM ours WHERE id % 3 = 0});
for my $workers (0, 2)
{
	my $what = "$workers workers, in the midst of the index scan";
	$node->restart;
	make_old(209_999_900);
	my $gate = $node->background_psql('postgres', on_error_stop => 1);
	$gate->query_safe('SELECT pg_advisory_lock(28790)');
	my $run = pv_start_run($node, "SELECT dead_items, heap_vacuum_ms, index_scan_bypassed FROM parvacuum_run('ours', workers => $workers, index_cleanup => 'on') WHERE relid = 'ours'::regclass",
		vacuum_failsafe_age => 0, 'parvacuum.wait_at' => 'nbtree\ range');
	ok(pv_await($node, q{SELECT count(*) > 0 FROM pg_locks WHERE locktype = 'advisory' AND NOT granted}, 'true'), "$what: participants are in the index");
	use_up(300);
	$gate->query_safe('SELECT pg_advisory_unlock(28790)');
	ok(pv_finish($run), "$what: the run succeeds") or diag $run->{err};
	is($run->{out}, '10000|0|t', "$what: there is no second heap pass");
	like($run->{err}, qr/WARNING:.*"postgres.public.ours" as a failsafe/, "$what: the failsafe is reported");
	is(pv_findings($node, 'ours'), '', "$what: the table is whole");
	$gate->quit;
}

# Old multixacts are as dangerous.  Their failsafe age is never below 420 million here.
pv_sql($node, q{
	UPDATE pg_class SET relminmxid = ((SELECT next_multixact_id::text::bigint FROM pg_control_checkpoint()) - 500000000 & 4294967295)::text::xid WHERE relname = 'ours'});
{
	my ($rc, $out, $err) = $node->psql('postgres', q{SET vacuum_multixact_failsafe_age = 0; SELECT index_scan_bypassed FROM parvacuum_run('ours', workers => 0, index_cleanup => 'on') WHERE relid = 'ours'::regclass});
	is("$rc $out", '0 t', 'multixacts: the indexes are left out');
	like($err, qr/WARNING:.*"postgres.public.ours" as a failsafe/, 'multixacts: the failsafe is reported');
	is(pv_sql($node, q{SELECT mxid_age(relminmxid) < 1000 FROM pg_class WHERE relname = 'ours'}), 't', 'multixacts: relminmxid has advanced');
}

#
# The failsafe ends with the vacuum: the same process sleeps again in the vacuum of another
# table.
#
pv_sql($node, q{
	CREATE TABLE calm (id int, pad text) WITH (autovacuum_enabled = off, parvacuum.enabled);
	INSERT INTO calm SELECT i, repeat('x', 5000) FROM generate_series(1, 2000) i;
	ALTER TABLE ours SET (parvacuum.enabled)});
make_old(300_000_000);
my ($rc, $out, $err) = $node->psql('postgres', q{
	SET vacuum_failsafe_age = 0;
	VACUUM (PARALLEL 0) ours;
	RESET vacuum_failsafe_age;
	SET vacuum_cost_delay = '20ms';
	SET vacuum_cost_limit = 100;
	SET vacuum_cost_page_hit = 100;
	SET vacuum_cost_page_miss = 100;
	SET vacuum_cost_page_dirty = 100;
	SELECT clock_timestamp() AS begun \gset
	VACUUM (PARALLEL 0) calm;
	SELECT clock_timestamp() - :'begun' > '1s'});
like($err, qr/WARNING:.*"postgres.public.ours" as a failsafe/, 'a session: the failsafe is on');
unlike($err, qr/"postgres.public.calm" as a failsafe/, 'a session: it is off in the next vacuum');
is($out, 't', 'a session: that vacuum sleeps');

pv_no_crash($node, 'the server');
$node->stop;
done_testing();
