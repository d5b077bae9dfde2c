# Checks after a table has been locked, because it may have changed meanwhile: by the
# scheduler, and by a sweep.

use strict;
use warnings FATAL => 'all';

use FindBin;
use lib $FindBin::RealBin;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use PvTest;
use Test::More;

my $node = pv_node('checks');
$node->append_conf('postgresql.conf', q{
autovacuum_naptime = 1s
autovacuum_vacuum_cost_delay = 0
parvacuum.wait_at = scan
deadlock_timeout = 100ms
parvacuum.scheduler = on
parvacuum.scheduler_workers = 1
});
$node->start;
pv_setup($node);

sub sql { return pv_sql($node, @_); }
sub vacuum_sql { return "SELECT vacuum_count + autovacuum_count FROM pg_stat_all_tables WHERE relid = '$_[0]'::regclass"; }
sub item { return "SELECT coalesce((SELECT concat_ws(' ', state, reason) FROM parvacuum_queue_items() WHERE relid = $_[0]), 'none')"; }
sub until_vacuumed
{
	my ($table, $count, $what) = @_;
	ok(pv_await($node, 'SELECT (' . vacuum_sql($table) . ") >= $count", 'true'), $what)
	  or die join "\n", $what, sql('SELECT * FROM parvacuum_queue'), pv_processes($node);
	return;
}

my $quiet = 'parvacuum.enabled, autovacuum_enabled = off';
sql("CREATE TABLE witness (i int) WITH ($quiet)", 'INSERT INTO witness VALUES (1)');
my $witnessed = 0;
sub next_one
{
	my ($what) = @_;
	sql("SELECT parvacuum_enqueue('witness')");
	until_vacuumed('witness', ++$witnessed, "$what: the next table is vacuumed");
	is(sql('SELECT errors FROM parvacuum_scheduler_stats()'), 0, "$what: no error is counted");
	return;
}

#
# Before 16, a table can become a view.
#
SKIP:
{
	skip 'tables stay tables', 4 if $node->pg_version >= 16;

	sql("CREATE TABLE viewed (i int, t text) WITH ($quiet)");
	my $oid = sql("SELECT 'viewed'::regclass::oid");
	my $session = $node->background_psql('postgres');
	$session->query_safe('BEGIN; LOCK TABLE viewed IN ACCESS EXCLUSIVE MODE');
	sql("SELECT parvacuum_enqueue('viewed')");
	ok(pv_await($node, item($oid), 'waiting lock'), 'a table that was requested waits') or diag sql('SELECT * FROM parvacuum_queue_items()');
	$session->query_safe('CREATE RULE "_RETURN" AS ON SELECT TO viewed DO INSTEAD SELECT 1 AS i, \'x\'::text AS t; COMMIT');
	$session->quit;
	ok(pv_await($node, item($oid), 'none'), 'a table that has become a view has no entry any more');
	next_one('a view');
}

#
# A requested table that is dropped
#
sql("CREATE TABLE dropped (i int) WITH ($quiet)");
my $gone = sql("SELECT 'dropped'::regclass::oid");
my $session = $node->background_psql('postgres');
$session->query_safe('BEGIN; LOCK TABLE dropped IN ACCESS EXCLUSIVE MODE');
sql("SELECT parvacuum_enqueue('dropped')");
ok(pv_await($node, item($gone), 'waiting lock'), 'another one waits');
$session->query_safe('DROP TABLE dropped; COMMIT');
ok(pv_await($node, item($gone), 'none'), 'a table that was dropped has no entry any more');
next_one('a dropped table');

#
# A vacuum of a table that has come into danger since it was queued does not give way to
# a lock.
#
sub make_table
{
	my ($table, $options) = @_;
	sql("CREATE TABLE $table (id int, pad char(2400)) WITH ($options)", "ALTER TABLE $table ALTER pad SET STORAGE PLAIN",
		"INSERT INTO $table SELECT i, 'x' FROM generate_series(1, 300) i");
	sql("VACUUM $table");
	sql("UPDATE $table SET id = id WHERE id % 3 = 1", 'CHECKPOINT');
	return;
}
make_table('busy', $quiet);
make_table('danger', "$quiet, autovacuum_freeze_max_age = 1000000, autovacuum_freeze_min_age = 0");
sql(q{DO $$ BEGIN FOR i IN 1 .. 100100 LOOP PERFORM txid_current(); COMMIT; END LOOP; END $$});
pv_reload_with($node, autovacuum_naptime => 1000);	# no scan in between
my ($busy, $danger) = map { pv_hold($node, $_) } qw(busy danger);
sql("SELECT parvacuum_enqueue('busy')");
ok(pv_await($node, item("'busy'::regclass"), 'running'), 'the only worker is busy');
sql("SELECT parvacuum_enqueue('danger')", 'ALTER TABLE danger SET (autovacuum_freeze_max_age = 100000)');
$busy->quit;
ok(pv_await($node, item("'danger'::regclass"), 'running'), 'the worker vacuums the other table then');
my $waiter = pv_start_run($node, 'ALTER TABLE danger ADD COLUMN n int');
ok(pv_await($node, q{SELECT count(*) FROM pg_locks WHERE relation = 'danger'::regclass AND NOT granted}, 1), 'a session waits for the lock of the table');
sql('SELECT pg_sleep(1.5)');	# more than deadlock_timeout
$danger->quit;
ok(pv_finish($waiter), 'the session gets the lock after the vacuum');
unlike(slurp_file($node->logfile), qr/canceling/, 'the vacuum was not canceled');
is(sql("SELECT age(relfrozenxid) < 50000 FROM pg_class WHERE oid = 'danger'::regclass"), 't', 'the table is young again');
pv_reload_with($node, autovacuum_naptime => 1);
next_one('a table in danger');

#
# An access method with a vacuum of its own gets true or false for truncate.
#
SKIP:
{
	my ($rc) = $node->psql('postgres', 'CREATE EXTENSION parvacuum_test');
	skip 'parvacuum_test is not installed', 8 if $rc != 0;

	sql('CREATE ACCESS METHOD foreign_heap TYPE TABLE HANDLER parvacuum_test_tableam',
		"CREATE TABLE theirs (i int) USING foreign_heap WITH ($quiet)",
		"CREATE TABLE theirs_not (i int) USING foreign_heap WITH ($quiet, vacuum_truncate = off)");
	my %expected = (theirs => 'enabled', theirs_not => 'disabled');
	for my $table (sort keys %expected)
	{
		my $said = qr/vacuum of "$table": index_cleanup auto, truncate $expected{$table}/;
		for my $statement ("VACUUM $table", "SELECT FROM parvacuum_run('$table')")
		{
			my ($rc, $out, $err) = $node->psql('postgres', $statement);
			like($err, $said, "$statement: truncate is $expected{$table}");
		}
		my $offset = -s $node->logfile;
		sql("SELECT parvacuum_enqueue('$table')");
		ok($node->wait_for_log($said, $offset), "$table, by the scheduler: the same");
	}

	# The engine may leave out a small truncation, unless it is asked for.
	sql("CREATE TABLE ours (i int, pad char(2400)) WITH ($quiet)", 'ALTER TABLE ours ALTER pad SET STORAGE PLAIN',
		"INSERT INTO ours SELECT i, 'x' FROM generate_series(1, 15) i", 'DELETE FROM ours WHERE i > 3');
	is(sql("SELECT pages_removed FROM parvacuum_run('ours') WHERE relid = 'ours'::regclass"), 0, 'parvacuum_run(): few pages are not truncated');
	is(sql(q{SELECT pages_removed FROM parvacuum_run('ours', "truncate" => true) WHERE relid = 'ours'::regclass}), 4, 'parvacuum_run() with truncate: few pages are truncated');
	sql('DROP TABLE theirs, theirs_not');
}

#
# A sweep checks again when it has its locks.
#
sql('CREATE ROLE old_owner LOGIN', 'CREATE ROLE new_owner', 'CREATE TABLE sold (i int)', 'CREATE INDEX sold_i ON sold (i)',
	'CREATE INDEX sold_j ON sold (i)', 'ALTER TABLE sold OWNER TO old_owner');
for my $call ("SELECT * FROM parvacuum_sweep('sold_i')", "CALL parvacuum_sweep_index('sold_i')", "SELECT * FROM parvacuum_sweep('sold_j')")
{
	my $change = $call =~ /sold_j/ ? 'DROP INDEX sold_j' : 'ALTER TABLE sold OWNER TO new_owner';
	my $said = $call =~ /sold_j/ ? qr/ERROR:.*could not open relation with OID|ERROR:.*relation with OID \d+ does not exist/ : qr/ERROR:  permission denied to vacuum table "sold"/;

	sql('ALTER TABLE sold OWNER TO old_owner');
	$session->query_safe('BEGIN; LOCK TABLE sold IN ACCESS EXCLUSIVE MODE');
	my $sweep = pv_start_run($node, $call, role => 'old_owner');
	ok(pv_await($node, q{SELECT count(*) FROM pg_locks WHERE relation = 'sold'::regclass AND NOT granted}, 1), "$call: it waits for the lock");
	$session->query_safe("$change; COMMIT");
	ok(!pv_finish($sweep), "$change: the sweep fails");
	like($sweep->{err}, $said, 'the error has the reason');
}

# So does the procedure, where a right was granted and is revoked between its commit and
# the sweep.  It waits for the lock of the table there.
sql('ALTER TABLE sold OWNER TO new_owner');
my @rights = ([ 'GRANT new_owner TO old_owner', 'REVOKE new_owner FROM old_owner' ]);
push @rights, [ 'GRANT MAINTAIN ON sold TO old_owner', 'REVOKE MAINTAIN ON sold FROM old_owner' ] if $node->pg_version >= 17;
for my $right (@rights)
{
	my ($grant, $revoke) = @$right;
	for my $revoked (0, 1)
	{
		sql($grant);
		$session->query_safe('BEGIN; LOCK TABLE sold IN ACCESS EXCLUSIVE MODE');
		my $call = pv_start_run($node, "CALL parvacuum_sweep_index('sold_i')", role => 'old_owner');
		ok(pv_await($node, q{SELECT count(*) FROM pg_locks WHERE relation = 'sold'::regclass AND NOT granted}, 1), "$grant: a procedure waits");
		$session->query_safe($revoke) if $revoked;
		$session->query_safe('COMMIT');
		is(pv_finish($call) ? 'done' : 'refused', $revoked ? 'refused' : 'done', $revoked ? "$revoke: it is refused" : "$grant: the procedure ends");
		like($call->{err}, $revoked ? qr/ERROR:  permission denied to vacuum table "sold"/ : qr/NOTICE:  swept index "sold_i"/, 'the error has the reason');
	}
}
$session->quit;

pv_no_crash($node, 'the server');
$node->stop;
done_testing();
