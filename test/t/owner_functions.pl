# Functions of a table's owner that an index calls in its cleanup: what they may do in a
# vacuum without workers, they may do in one with workers.

use strict;
use warnings FATAL => 'all';

use FindBin;
use lib $FindBin::RealBin;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use PvTest;
use Test::More;

my $node = pv_node('owner_functions');
$node->append_conf('postgresql.conf', q{
autovacuum_naptime = 1s
autovacuum_vacuum_cost_delay = 0
log_autovacuum_min_duration = 0
parvacuum.min_parallel_pages = 0
max_parallel_maintenance_workers = 2
});
$node->start;
pv_setup($node);
sub sql { return pv_sql($node, @_); }

sql(q{CREATE FUNCTION number_of(t text) RETURNS int IMMUTABLE LANGUAGE plpgsql AS $$ BEGIN
		RETURN t::int; EXCEPTION WHEN invalid_text_representation THEN RETURN -1; END $$},
	'CREATE TABLE t (id int, t text) WITH (parvacuum.enabled, parvacuum.workers = 2, autovacuum_enabled = off)',
	q{INSERT INTO t SELECT i, CASE WHEN i % 7 = 0 THEN 'none' ELSE i::text END FROM generate_series(1, 20000) i},
	'CREATE INDEX t_btree ON t (id)', 'CREATE INDEX t_other ON t (t)',
	'CREATE INDEX t_brin ON t USING brin (number_of(t)) WITH (pages_per_range = 1)',
	'CREATE INDEX t_partial ON t USING brin (id) WITH (pages_per_range = 1) WHERE number_of(t) > 100');

# The number of ranges that are summarized in both indexes
my $summarized = q{SELECT count(*) FROM (SELECT 1 FROM generate_series(0, pg_relation_size('t') / 8192 - 1) block,
	LATERAL (SELECT brin_summarize_range(i, block::bigint) AS n FROM unnest('{t_brin,t_partial}'::regclass[]) i) x WHERE n > 0) y};

my ($rc, $out, $err);
for my $workers (0, 2)
{
	sql('INSERT INTO t SELECT i, i::text FROM generate_series(1, 3000) i', 'DELETE FROM t WHERE id % 10 = 3');
	($rc, $out, $err) = $node->psql('postgres', "VACUUM (VERBOSE, PARALLEL $workers) t");
	is($rc, 0, "VACUUM, $workers workers") or diag $err;
	like($err, $workers ? qr/engine: parvacuum, 2 parallel workers launched/ : qr/engine: parvacuum/, 'the vacuum was done by the engine');
	is(sql($summarized), 0, 'all ranges are summarized');
	is(pv_findings($node, 't'), '', 'the table is whole');
}

sql('INSERT INTO t SELECT i, i::text FROM generate_series(1, 3000) i', 'DELETE FROM t WHERE id % 10 = 4',
	'ALTER TABLE t SET (autovacuum_enabled = on, autovacuum_vacuum_threshold = 10, autovacuum_vacuum_scale_factor = 0)');
pv_reload_with($node, 'autovacuum' => 'on');
ok(pv_await($node, q{SELECT autovacuum_count > 0 FROM pg_stat_all_tables WHERE relid = 't'::regclass}, 'true'), 'autovacuum vacuums the table');
pv_reload_with($node, 'autovacuum' => 'off');
is(sql($summarized), 0, 'all ranges are summarized');
unlike(slurp_file($node->logfile), qr/ERROR:  .*parallel/, 'autovacuum has no error');

# Functions that write or lock rows cause an error with and without workers.
for my $deed ('PERFORM 1 FROM public.t LIMIT 1 FOR UPDATE', 'PERFORM lo_create(0)')
{
	sql("CREATE OR REPLACE FUNCTION number_of(t text) RETURNS int LANGUAGE plpgsql PARALLEL SAFE AS \$\$ BEGIN $deed; RETURN 1; END \$\$");
	for my $workers (0, 2)
	{
		sql(q{SELECT brin_desummarize_range('t_brin', 0)});
		($rc, $out, $err) = $node->psql('postgres', "VACUUM (PARALLEL $workers) t");
		like($err, qr/ERROR:  (?!.*parallel).*(read-only transaction|must not write)/, "$deed, $workers workers: refused");
	}
}

pv_no_crash($node, 'the server');
$node->stop;
done_testing();
