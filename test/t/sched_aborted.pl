# While an old snapshot holds back the horizon, rows of aborted transactions are removed,
# and rows that the snapshot may see cause no useless vacuums.

use strict;
use warnings FATAL => 'all';

use FindBin;
use lib $FindBin::RealBin;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use PvTest;
use Test::More;

my $node = pv_node('scheduler_aborted');
$node->append_conf('postgresql.conf', q{
autovacuum_naptime = 1s
autovacuum_vacuum_cost_delay = 0
parvacuum.scheduler = on
});
$node->start;
pv_setup($node);

sub sql { return pv_sql($node, @_); }
sub described { return join "\n", sql('SELECT * FROM parvacuum_queue LIMIT 50'), sql('SELECT * FROM pg_stat_user_tables'), pv_processes($node); }

sub until_answer
{
	my ($query, $answer, $what) = @_;
	ok(pv_await($node, $query, $answer), $what) or die "$what: ", described();
	return;
}
my $of_t = q{FROM pg_stat_user_tables WHERE relname = 't'};
my $item = q{SELECT (SELECT concat_ws(' ', state, reason) FROM parvacuum_queue WHERE relid = 't'::regclass)};

sql('CREATE TABLE t (id int) WITH (parvacuum.enabled, autovacuum_vacuum_threshold = 1000, autovacuum_vacuum_scale_factor = 0,
	autovacuum_vacuum_insert_threshold = -1, autovacuum_analyze_threshold = 1000000000)', 'INSERT INTO t SELECT generate_series(1, 10000)', 'VACUUM t');
my $reader = $node->background_psql('postgres');
$reader->query_safe('BEGIN ISOLATION LEVEL REPEATABLE READ; SELECT count(*) FROM t');
sql('DELETE FROM t WHERE id <= 2000');
until_answer($item, 'waiting horizon', 'deleted: the rows are not removable yet, and the table waits');
is(sql("SELECT vacuum_count $of_t"), 2, 'deleted: vacuumed once');

# Twice as many, and more than the threshold
sql('BEGIN', 'INSERT INTO t SELECT generate_series(1, 5000)', 'ROLLBACK');
until_answer("SELECT vacuum_count $of_t", 3, 'aborted: the table is vacuumed again');
until_answer("SELECT n_dead_tup $of_t", 2000, 'aborted: rows of the aborted transaction are removed');
until_answer($item, 'waiting horizon', 'aborted: the table waits for the other rows');

# Its age is a reason to vacuum it again, once.  Multixacts have a horizon of their own.
sql(q{UPDATE pg_class SET relfrozenxid = ((txid_current() - 190000000) & 4294967295)::text::xid WHERE relname = 't'});
until_answer("SELECT vacuum_count $of_t", 4, 'old: the table is vacuumed again');
until_answer($item, 'waiting horizon', 'old: the table waits for the other rows');
sql(q{UPDATE pg_class SET relminmxid = ((SELECT next_multixact_id::text::bigint - 380000000 FROM pg_control_checkpoint()) & 4294967295)::text::xid WHERE relname = 't'});
until_answer("SELECT vacuum_count $of_t", 5, 'old multixacts: the table is vacuumed again');
$reader->query_safe('COMMIT');
$reader->quit;
until_answer("SELECT n_dead_tup $of_t", 0, 'all rows are removed when the snapshot is released');
is(pv_findings($node, 't'), '', 'the table is whole');

#
# No table of this database has opted in, until one does.
#
sql('CREATE DATABASE later');
$node->safe_psql('later', 'CREATE TABLE t AS SELECT i FROM generate_series(1, 1000) i');
$node->safe_psql('later', 'DELETE FROM t WHERE i <= 600');
my $scans = sql('SELECT database_scans FROM parvacuum_scheduler_stats()');
until_answer("SELECT database_scans > $scans + 3 FROM parvacuum_scheduler_stats()", 'true', 'database scans go on');
is($node->safe_psql('later', q{SELECT vacuum_count FROM pg_stat_user_tables}), 0, 'not opted in: the table is not vacuumed');
$node->safe_psql('later', 'ALTER TABLE t SET (parvacuum.enabled)');
ok($node->poll_query_until('later', q{SELECT vacuum_count > 0 FROM pg_stat_user_tables}), 'opted in: the table is vacuumed');

$node->stop;
pv_no_crash($node, 'the server');
done_testing();
