# A table whose XIDs are dangerously old: the failsafe makes the vacuum leave
# out indexes, the second pass and truncation, say so once, and advance
# relfrozenxid.  Another vacuum, when the danger is past, does the rest.

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

# Rows enough for several segments, and no TOAST table, which would warn too.
$node->safe_psql('postgres', q{
	CREATE TABLE old (id int, pad name, more name) WITH (autovacuum_enabled = off);
	INSERT INTO old SELECT i, 'x', 'y' FROM generate_series(1, 60000) i;
	CREATE INDEX ON old (id);
	CREATE INDEX ON old USING hash (id);
	DELETE FROM old WHERE id % 3 = 0 OR id > 50000});

# The failsafe age is never below 1.05 times autovacuum_freeze_max_age, that is
# 210 million.  XIDs are counted modulo 2^32, so a young cluster can have a table
# that is 300 million old.
sub make_old
{
	$node->safe_psql('postgres', q{
		UPDATE pg_class SET relfrozenxid =
			((pg_current_xact_id()::text::bigint - 300000000) & 4294967295)::text::xid
		WHERE relname = 'old'});
	return;
}

for my $workers (0, 2)
{
	make_old();

	my ($rc, $out, $err) = $node->psql('postgres', qq{
		SET vacuum_failsafe_age = 0;
		SET vacuum_cost_delay = 1;
		SELECT tuples_removed > 0, dead_items > 0, index_rounds, index_ms, reap_ms, cleanup_ms, pages_removed,
			index_scan_bypassed, workers_launched
		FROM parvacuum_run('old', workers => $workers)});
	is($rc, 0, 'the run succeeds');
	is($out, $workers == 0 ? 't|t|0|0|0|0|0|t|0' : 'f|t|0|0|0|0|0|t|0',
		'no indexes, no second pass, no truncation, and no workers in an emergency');
	my @warnings = $err =~ /WARNING:.*as a failsafe/g;
	is(scalar(@warnings), 1, 'one warning');
	cmp_ok($node->safe_psql('postgres', "SELECT age(relfrozenxid) FROM pg_class WHERE relname = 'old'"),
		'<', 1000, 'relfrozenxid has advanced');
	is(pv_findings($node, 'old'), '', 'the table is whole');
}

# When the danger is past
is( $node->safe_psql('postgres',
		"SELECT dead_items > 0, index_rounds, pages_removed > 0, index_scan_bypassed FROM parvacuum_run('old', workers => 2, freeze => true)"),
	't|1|t|f', 'the next run does all of it');
is(pv_findings($node, 'old'), '', 'the table is whole');

pv_no_crash($node, 'the server');
$node->stop;
done_testing();
