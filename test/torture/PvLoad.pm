# What the files of test/torture share that replay WAL or copy clusters: tables with each
# kind of index, transactions on them, vacuums of every kind, what must be true of the rows
# at any moment, and a comparison of all pages of two servers.
package PvLoad;

use strict;
use warnings FATAL => 'all';

use Exporter 'import';
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use PvTest;
use PvTorture;
use Test::More;
use Time::HiRes qw(usleep);

our @EXPORT = qw(@tables load_create %load_scripts %load_readers vacuum_statement
  $sums load_sums load_whole load_slowly load_until_phase pages_differ);

our @tables = qw(account ledger doc);
my $accounts = 12000;

# The sum over account and ledger never changes: see pv_money.  Nor does the number of rows
# of doc, which have their length in another column.
our $sums = q{SELECT (SELECT count(*) || ' accounts, ' || sum(balance) + (SELECT sum(amount) FROM ledger) FROM account),
	(SELECT count(*) || ' documents, ' || count(*) FILTER (WHERE length(body) <> size) || ' wrong' FROM doc)};
my $expected = "$accounts accounts, ${\($accounts * 1000)}|400 documents, 0 wrong";

sub load_create
{
	my ($node, $db) = @_;
	$node->safe_psql($db // 'postgres', qq{
		CREATE TABLE account (id int PRIMARY KEY, k int, balance bigint, note text, tags int[], at point)
			WITH (fillfactor = 80, parvacuum.enabled, parvacuum.workers = 2, autovacuum_enabled = off);
		CREATE TABLE ledger (id int, amount bigint, pad text) WITH (parvacuum.enabled, autovacuum_enabled = off);
		CREATE TABLE doc (id int PRIMARY KEY, body text, size int) WITH (parvacuum.enabled, autovacuum_enabled = off);
		ALTER TABLE doc ALTER body SET STORAGE EXTERNAL;
		INSERT INTO account SELECT i, i % 1000, 1000, repeat('n', 60), ARRAY[i % 10, i], point(i % 100, i) FROM generate_series(1, $accounts) i;
		INSERT INTO ledger SELECT i, 0, repeat('p', 200) FROM generate_series(1, 200) i;
		INSERT INTO doc SELECT i, repeat('d', i * 20), i * 20 FROM generate_series(1, 400) i;
		CREATE INDEX account_k ON account (k);
		CREATE INDEX account_single ON account (k) WITH (deduplicate_items = off);
		CREATE INDEX ON account USING hash (k);
		CREATE INDEX ON account USING gin (tags);
		CREATE INDEX ON account USING gist (at);
		CREATE INDEX ON account USING spgist (at);
		CREATE INDEX ON account USING brin (id);
		CREATE INDEX ledger_id ON ledger (id);
	});
	return;
}

# Transactions, with a rest after each, because all of their WAL has images of pages.
my $rest = "\\sleep 4 ms\n";
our %load_scripts = (
	(map { $_ => [ $pv_money{$_}[0], ($pv_money{$_}[1] =~ s/40000/$accounts/gr) . $rest ] } keys %pv_money),
	replace => [ 10, qq{
\\set id random(2, $accounts)
BEGIN;
WITH gone AS (DELETE FROM account WHERE id = :id RETURNING *)
INSERT INTO account SELECT id, (k + 7) % 1000, balance, note, tags, point(id % 100, id + 1) FROM gone;
COMMIT;
$rest} ],
	undone => [ 3, qq{
\\set id random(1, $accounts)
BEGIN;
INSERT INTO ledger SELECT i, 1000000, repeat('u', 200) FROM generate_series(1, 20) i;
UPDATE account SET note = 'undone' WHERE id BETWEEN :id AND :id + 20;
ROLLBACK;
$rest} ],
	locks => [ 10, qq{
\\set id random(1, $accounts)
BEGIN;
SELECT FROM account WHERE id = :id FOR KEY SHARE;
SAVEPOINT s;
SELECT FROM account WHERE id = :id FOR UPDATE;
UPDATE account SET note = repeat('l', 50) WHERE id = :id;
COMMIT;
$rest} ],
	shared => [ 10, qq{
\\set id random(1, 50)
BEGIN;
SELECT FROM account WHERE id BETWEEN :id AND :id + 5 ORDER BY id FOR KEY SHARE;
UPDATE account SET note = 'shared' WHERE id = :id + 3;
COMMIT;
$rest} ],
	doc => [ 6, qq{
\\set id random(1, 400)
\\set size random(0, 9000)
UPDATE doc SET body = repeat('e', :size), size = :size WHERE id = :id;
$rest} ]);

# Readers, who check that their snapshot stays as it was, and that an index finds the rows
# that a sequential scan finds.  They divide by zero if not.
our %load_readers = (
	recount => [ 2, qq{
BEGIN ISOLATION LEVEL REPEATABLE READ;
SELECT $accounts * 1000 AS total, 1 / (sum(balance) + (SELECT sum(amount) FROM ledger) = $accounts * 1000)::int AS good,
	sum(hashtextextended(account::text, 0)) AS digest FROM account \\gset
SELECT pg_sleep(random() * 0.2);
SET LOCAL enable_seqscan = off;
SELECT 1 / (sum(hashtextextended(account::text, 0)) = :digest AND count(*) = $accounts)::int FROM account WHERE id > 0;
SELECT 1 / (count(*) = 0)::int FROM doc WHERE length(body) <> size AND id > 0;
COMMIT;
} ],
	index => [ 2, qq{
\\set k random(0, 999)
BEGIN ISOLATION LEVEL REPEATABLE READ;
SELECT count(*) AS n FROM account WHERE k = :k \\gset
SELECT pg_sleep(random() * 0.1);
SET LOCAL enable_seqscan = off;
SET LOCAL enable_bitmapscan = off;
SELECT 1 / (count(*) = :n)::int FROM account WHERE k = :k;
SELECT 1 / (count(*) = $accounts)::int FROM (SELECT id FROM account WHERE id > 0) x;
COMMIT;
} ]);

sub load_sums
{
	my ($node, $what, $db) = @_;
	return is($node->safe_psql($db // 'postgres', $sums), $expected, "$what: no row is lost, and no deleted row is visible");
}

# The oracle on all tables.  Others must not change them meanwhile.
sub load_whole
{
	my ($node, $what, $db) = @_;
	return is($node->safe_psql($db // 'postgres', join ' UNION ALL ', map { "SELECT * FROM oracle.check_table('$_')" } @tables), '', "$what: all tables are whole");
}

# A vacuum or a sweep, made up at random
sub vacuum_statement
{
	my $table = one_of(@tables, 'account');
	my $truncate = one_of('true', 'false');
	my $cleanup = one_of(qw(auto auto on off));
	my @set = map { "SET $_; " } grep { chance(0.3) }
	  'vacuum_freeze_min_age = ' . int rand 1000, 'vacuum_freeze_table_age = 0', 'vacuum_multixact_freeze_min_age = 0', 'parvacuum.store_limit = 1',
	  'max_parallel_workers = ' . int rand 3;
	my @arguments = map { ", $_" } (chance(0.3) ? 'freeze => true' : ()), (chance(0.3) ? 'disable_page_skipping => true' : ());
	my $arguments = "'$table', workers => " . int(rand 4) . ", truncate => $truncate, index_cleanup => '$cleanup'@arguments";
	my $options = join ', ', 'PARALLEL ' . int rand 4, "TRUNCATE $truncate, INDEX_CLEANUP $cleanup", grep { chance(0.3) } qw(FREEZE DISABLE_PAGE_SKIPPING ANALYZE);
	return one_of(
		"@set SELECT parvacuum_run($arguments)",
		"@set SELECT parvacuum_run($arguments)",
		"@set CALL parvacuum($arguments)",
		"@set VACUUM ($options) $table",
		"@set VACUUM ($options) $table",
		'SELECT parvacuum_sweep(\'' . one_of(qw(account_k account_single account_pkey ledger_id)) . '\')');
}

# Make rows of a table dead, and begin a vacuum of it that takes some seconds.  The update
# waits for no row, so that there is no deadlock.
sub load_slowly
{
	my ($node, $table) = @_;
	my $set = $table eq 'doc' ? 'body = body || $$x$$, size = size + 1' : 'k = (k + 1) % 1000';
	my $some = $table eq 'doc' ? 'true' : 'id % 4 = ' . int rand 4;
	pv_sql($node, "UPDATE $table SET $set WHERE id IN (SELECT id FROM $table WHERE $some FOR UPDATE SKIP LOCKED)");
	return pv_start_run($node, "SELECT parvacuum_run('$table', workers => " . int(rand 3) . q{, index_cleanup => 'on', freeze => } . one_of('true', 'false') . ')',
		vacuum_cost_delay => 20, vacuum_cost_limit => 40);
}

# Wait until it is in this phase.  Returns whether it is still running.
sub load_until_phase
{
	my ($node, $run, $phase) = @_;
	my $running = "EXISTS (SELECT FROM pg_stat_activity WHERE application_name = '$run->{tag}' AND backend_type = 'client backend')";
	pv_await($node, "SELECT ($running)::int", 1);
	pv_await($node, "SELECT (EXISTS (SELECT FROM pg_stat_progress_vacuum WHERE phase = '$phase') OR NOT $running)::int", 1);
	return pv_sql($node, "SELECT $running AND EXISTS (SELECT FROM pg_stat_progress_vacuum)") eq 't';
}

my $digests = q{SELECT c.oid, c.oid::regclass, p.n, p.hash
	FROM pg_class c, LATERAL (SELECT count(*) AS n, bit_xor(hash) AS hash FROM parvacuum_test_pages(c.oid)) p
	WHERE c.relkind IN ('r', 'm', 't', 'i') AND c.relpersistence = 'p' AND c.reltablespace IN (0, 1664)};

# Wait until a standby has replayed all WAL of its primary.  Dies at once if the replay has
# failed.
sub load_catch_up
{
	my ($primary, $standby) = @_;
	my $lsn = $primary->lsn('insert');
	pv_sql($primary, q{SELECT pg_logical_emit_message(true, 'load', 'x')});
	for my $try (1 .. 10 * $PostgreSQL::Test::Utils::timeout_default)
	{
		my ($rc, $out) = $standby->psql('postgres', "SELECT pg_last_wal_replay_lsn() >= '$lsn'");
		return if ($out // '') eq 't';
		my ($bad) = slurp_file($standby->logfile) =~ /(inconsistent page.*|PANIC: .*|TRAP: .*)/;
		diag 'the replay on ' . $standby->name . " has failed: $bad" if $bad;
		die "a standby has failed\n" if $bad;
		usleep(100_000);
	}
	die $standby->name . " has not replayed $lsn\n";
}

# Compare all pages of a primary and its standby, without what core's masks hide.  Reading
# catalogs can prune their pages, so what differs is compared again.  Returns the
# differences, and the number of pages.
sub pages_differ
{
	my ($primary, $standby) = @_;
	my ($all, $differences, $pages) = (1, '', 0);
	my $only = '';

	for my $try (1 .. 4)
	{
		my %of = map { /^(\d+)\|(.*)$/ ? ($1 => $2) : () } split /\n/, pv_sql($primary, "$digests $only");
		load_catch_up($primary, $standby);
		my %there = map { /^(\d+)\|(.*)$/ ? ($1 => $2) : () } split /\n/, pv_sql($standby, "$digests $only");
		if ($try == 1)
		{
			$pages += (split /\|/, $_)[1] for values %of;
		}
		my %seen = (%of, %there);
		my @bad = grep { ($of{$_} // 'none') ne ($there{$_} // 'none') } sort { $a <=> $b } keys %seen;
		return ('', $pages) if !@bad;
		$differences = join "\n", map { 'primary ' . ($of{$_} // 'none') . ', standby ' . ($there{$_} // 'none') } @bad;
		$only = 'AND c.oid IN (' . join(', ', @bad) . ')';
	}

	# which page of the first relation
	my ($oid) = $only =~ /(\d+)/;
	my $hashes = "SELECT fork, block, hash FROM parvacuum_test_pages($oid)";
	my %of = map { $_ => 1 } split /\n/, pv_sql($primary, $hashes);
	my %there = map { $_ => 1 } split /\n/, pv_sql($standby, $hashes);
	my @primary = grep { !$there{$_} } sort keys %of;
	my @standby = grep { !$of{$_} } sort keys %there;
	return ("$differences\nfork|block|hash: on the primary @primary[0 .. ($#primary > 4 ? 4 : $#primary)], on the standby @standby[0 .. ($#standby > 4 ? 4 : $#standby)]", $pages);
}

1;
