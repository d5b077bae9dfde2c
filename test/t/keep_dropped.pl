# What happens to dead items that an interrupted vacuum has kept when something else happens
# to the table, its indexes, its database or the server before the next vacuum.

use strict;
use warnings FATAL => 'all';

use FindBin;
use lib $FindBin::RealBin;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use PvTest;
use Test::More;

my $node = pv_node('dropped');
$node->start;
pv_setup($node);
sub sql { return pv_sql($node, @_) }

my $space = PostgreSQL::Test::Utils::tempdir;
sql("CREATE TABLESPACE elsewhere LOCATION '$space'");
sql('CREATE EXTENSION pg_surgery');

# A new table, with indexes of which the B-trees "first" and "second" are vacuumed in this
# order.  Each keeps its dead items when it is canceled in the second one.
my $take = q{SELECT items_taken_over || ' ' || indexes_taken_over FROM parvacuum_run('t', workers => 1, index_cleanup => 'on') WHERE relid = 't'::regclass};

sub make_table
{
	my ($persistence) = @_;
	sql("DROP TABLE IF EXISTS t; CREATE $persistence TABLE t (id int, k int, v int, arr int[]) WITH (autovacuum_enabled = off);
		INSERT INTO t SELECT i, i, 0, ARRAY[i] FROM generate_series(1, 4000) i;
		CREATE INDEX first ON t (id) INCLUDE (arr, k); CREATE INDEX second ON t (k); CREATE INDEX pending ON t USING gin (arr);
		DELETE FROM t WHERE id % 10 = 0");
	return;
}

sub interrupt
{
	my ($what, $where, $ndone, $table) = @_;
	$table //= 't';
	my $holder = pv_hold($node, $table);
	my $run = pv_start_run($node, "SELECT FROM parvacuum_run('$table', workers => 1, index_cleanup => 'on')", 'parvacuum.wait_at' => $where);
	ok(pv_await($node, $pv_held, 'true'), "$what: the run is held");
	ok(pv_await($node, 'SELECT indexes_done FROM parvacuum_kept', $ndone), "$what: the other indexes are done") if defined $ndone;
	sql("SELECT parvacuum_cancel('$table'::regclass)");
	ok(!pv_finish($run), "$what: the run is canceled");
	$holder->quit;
	return;
}

my $rows = 3600;

# The case: what is done, what the run that follows takes over, and what remains of the rows.
sub try_case
{
	my ($what, $statements, $expected, %other) = @_;
	make_table($other{persistence} // '');
	interrupt($what, 'second', 2);
	is(sql('SELECT items, indexes_done, pages_begun FROM parvacuum_kept'), '400|2|0', "$what: the items are kept, and two indexes are done");
	is(pv_kept_files($node), 1, "$what: in a file");
	is(sql(q{SELECT items_kept FROM parvacuum_plan('t') WHERE relid = 't'::regclass}), 400, "$what: the plan has them") if $what eq 'nothing happened';
	ref $statements ? $statements->() : sql($statements);
	is(sql('SELECT count(*) FROM parvacuum_kept'), 0, "$what: nothing is kept when it has begun") if $what =~ /^VACUUM by/;
	is(sql($take), $expected, "$what: the next run takes over $expected");
	is(sql('SELECT count(*) FROM parvacuum_kept'), 0, "$what: then nothing is kept");
	is(pv_kept_files($node), 0, "$what: and there is no file");
	is(sql('SELECT count(*) FROM t'), $other{rows} // $rows, "$what: no row is lost");
	is(pv_findings($node, 't'), '', "$what: the table is whole");
	sql('INSERT INTO t SELECT i, i, 1, ARRAY[i] FROM generate_series(1, 1000) i') unless $other{read_only};
	is(pv_findings($node, 't'), '', "$what: new rows do not have old entries");
	return;
}

try_case('nothing happened', 'SELECT 1', '400 2');
try_case('the table was changed', 'UPDATE t SET v = 1 WHERE id % 7 = 1; DELETE FROM t WHERE id % 7 = 2; INSERT INTO t SELECT i, i, 1, ARRAY[i] FROM generate_series(1, 1000) i', '400 2', rows => 4085);
try_case('VACUUM by stock', 'SET parvacuum.enabled = off; VACUUM t', '0 0');
try_case('VACUUM by the engine, but not of indexes', 'SELECT FROM parvacuum_run(\'t\', index_cleanup => \'off\')', '0 0');
try_case('parvacuum_drop_kept()', 'SELECT parvacuum_drop_kept(\'t\')', '0 0');
sql('CREATE ROLE stranger');
try_case('a role without rights', sub {
	my ($rc, $out, $err) = $node->psql('postgres', q{SET ROLE stranger; SELECT parvacuum_drop_kept('t')});
	like($err, qr/permission denied to vacuum table "t"/, 'it cannot drop what is kept');
	is(sql('SET ROLE stranger', 'SELECT count(*) FROM parvacuum_kept'), 0, 'and does not see it');
}, '400 2');
try_case('TRUNCATE', 'TRUNCATE t', '0 0', rows => 0);
try_case('CLUSTER', 'CLUSTER t USING first', '0 0');
try_case('VACUUM FULL', 'VACUUM FULL t', '0 0');
try_case('SET UNLOGGED', 'ALTER TABLE t SET UNLOGGED', '0 0');
try_case('a column of another type', 'ALTER TABLE t ALTER k TYPE bigint', '0 0');
try_case('a column of a type that is alike', 'ALTER TABLE t ADD w varchar(10); ALTER TABLE t ALTER w TYPE varchar(20)', '400 2');
try_case('a table in another tablespace', 'ALTER TABLE t SET TABLESPACE elsewhere', '0 0');
try_case('REINDEX of an index that is done', 'REINDEX INDEX first', '400 1');
try_case('REINDEX of the one that is not', 'REINDEX INDEX second', '400 2');
try_case('REINDEX CONCURRENTLY', 'REINDEX TABLE CONCURRENTLY t', '400 0');
try_case('CREATE INDEX', 'CREATE INDEX third ON t (v)', '400 2');
try_case('CREATE INDEX CONCURRENTLY', 'CREATE INDEX CONCURRENTLY third ON t (v)', '400 2');
try_case('an index that is done in another tablespace', 'ALTER INDEX first SET TABLESPACE elsewhere', '400 1');
try_case('an index that is not done in another tablespace', 'ALTER INDEX second SET TABLESPACE elsewhere', '400 2');
try_case('the same, rolled back', 'BEGIN; ALTER INDEX first SET TABLESPACE elsewhere; ROLLBACK', '400 2');
try_case('an index is dropped', 'DROP INDEX second', '400 2');
try_case('all indexes are dropped', 'DROP INDEX first, second, pending', '0 0');
try_case('an invalid index', sub {
	my ($rc) = $node->psql('postgres', 'CREATE UNIQUE INDEX CONCURRENTLY bad ON t (v)');
	isnt($rc, 0, 'the index cannot be made');
}, '400 2');
try_case('two-phase commit', sub {
	sql(q{BEGIN; DELETE FROM t WHERE id = 1; PREPARE TRANSACTION 'p'});
	is(sql($take), '400 2', 'a prepared transaction does not matter');
	sql(q{COMMIT PREPARED 'p'});
}, '0 0', rows => 3599);
try_case('prepared REINDEX', sub {
	sql(q{BEGIN; REINDEX INDEX first; PREPARE TRANSACTION 'p'; COMMIT PREPARED 'p'});
}, '400 1');
try_case('pg_surgery', q{SELECT heap_force_kill('t', ARRAY['(0,1)']::tid[])}, '400 2', rows => 3599);
try_case('entries in the pending list', 'ALTER INDEX pending SET (fastupdate = on); INSERT INTO t SELECT i, i, 2, ARRAY[i] FROM generate_series(1, 100) i; DELETE FROM t WHERE v = 2', '400 2');
try_case('an unlogged table', 'SELECT 1', '400 2', persistence => 'UNLOGGED');
try_case('DROP TABLE', sub { sql('DROP TABLE t'); is(pv_kept_files($node), 0, 'the file is gone with the table'); make_table('') }, '0 0');
try_case('the limit is lowered', sub { pv_reload_with($node, 'parvacuum.keep_limit' => '0') }, '400 2');
pv_reload_with($node, 'parvacuum.keep_limit' => '1GB');
try_case('a damaged file', sub {
	my ($file) = glob($node->data_dir . '/base/pgsql_tmp/pgsql_tmp_parvacuum*');
	open(my $handle, '+<', $file) or die "$file: $!";
	seek($handle, 60, 0);
	print $handle "x" x 16;
	close $handle;
}, '0 0');
try_case('a file that is cut off', sub {
	my ($file) = glob($node->data_dir . '/base/pgsql_tmp/pgsql_tmp_parvacuum*');
	truncate($file, (-s $file) - 4) or die "$file: $!";
}, '0 0');
try_case('a restart', sub { $node->restart }, '0 0');
try_case('a crash', sub {
	$node->stop('immediate');
	$node->start;
}, '0 0');

# Nothing is kept: no room, no folder, a small table.
sub try_without
{
	my ($what, $prepare, $undo) = @_;
	make_table('');
	$prepare->() if $prepare;
	interrupt($what, 'second');
	$undo->() if $undo;
	is(sql('SELECT count(*) FROM parvacuum_kept'), 0, "$what: nothing is kept");
	is(pv_kept_files($node), 0, "$what: there is no file");
	is(sql($take), '0 0', "$what: nothing is taken over");
	is(pv_findings($node, 't'), '', "$what: the table is whole");
	return;
}
pv_reload_with($node, 'parvacuum.keep_limit' => '1kB');
try_without('a limit that is too low', sub { sql('INSERT INTO t SELECT i, i, 0, ARRAY[i] FROM generate_series(1, 10000) i; DELETE FROM t WHERE hashint4(id) % 3 = 0') });
like(pv_new_log($node), qr/parvacuum does not keep the dead items/, 'the log says so');
pv_reload_with($node, 'parvacuum.keep_limit' => '0');
try_without('keeping is off');
pv_reload_with($node, 'parvacuum.keep_limit' => '1GB');
my $folder = $node->data_dir . '/base/pgsql_tmp';
try_without('no folder', sub {
	rmdir $folder or die "$folder: $!";
	append_to_file($folder, 'in the way');
}, sub { unlink $folder });
like(pv_new_log($node), qr/could not write the dead items/, 'the log says that, too');

# If there is no room for one more, the owner who has most gives way, with what is oldest.
sub keep_one
{
	my ($owner, $table, $nrows) = @_;
	sql("CREATE UNLOGGED TABLE $table (id int) WITH (autovacuum_enabled = off)", "ALTER TABLE $table OWNER TO $owner",
		"INSERT INTO $table SELECT generate_series(1, $nrows)", "CREATE INDEX ${table}_id ON $table (id)", "DELETE FROM $table WHERE hashint4(id) % 3 = 0");
	interrupt($table, "${table}_id", undef, $table);
	return sql(q{SELECT string_agg(relation::text, ' ' ORDER BY relation::text) FROM parvacuum_kept});
}
sql('CREATE ROLE greedy; CREATE ROLE modest');
sql('SELECT parvacuum_drop_kept(relation) FROM parvacuum_kept');
my ($large, $small) = (100000, 30000);
keep_one('greedy', 'g1', $large);
my $bytes = sql('SELECT bytes FROM parvacuum_kept');
pv_reload_with($node, 'parvacuum.keep_limit' => int($bytes * 3.1 / 1024) . 'kB');
keep_one('greedy', 'g2', $large);
is(keep_one('modest', 'm1', $large), 'g1 g2 m1', 'there is room for three tables');
is(keep_one('modest', 'm2', $small), 'g2 m1 m2', 'then the owner with the most gives way');
is(keep_one('modest', 'm3', $small), 'g2 m1 m2 m3', 'so there is room again');
is(keep_one('modest', 'm4', $large), 'g2 m2 m3 m4', 'who asks for more has the most himself');
is(keep_one('greedy', 'g3', $large), 'g3 m2 m3 m4', 'and so has this one');
sql("SELECT FROM parvacuum_run('$_')") for qw(g3 m2 m3 m4);
is(sql('SELECT count(*) FROM parvacuum_kept'), 0, 'all are finished');
pv_reload_with($node, 'parvacuum.keep_limit' => '1GB');

# Vacuums that get no further give up what they have taken over.
make_table('');
interrupt("first of four", 'second');
interrupt("$_ of four", 'second') for qw(second third);
is(sql($take), '0 0', 'what two vacuums could not finish is not taken over again');
is(pv_findings($node, 't'), '', 'after that the table is whole');

# What is kept of a database is gone with it, and its tablespace can be dropped.
sub keep_in_other
{
	my ($what) = @_;
	sql('CREATE DATABASE other TABLESPACE elsewhere', q{ALTER DATABASE other SET parvacuum.wait_at = 'second'});
	$node->safe_psql('other', 'CREATE EXTENSION parvacuum; CREATE TABLE t (id int); INSERT INTO t SELECT generate_series(1, 10000);
		CREATE INDEX second ON t (id); DELETE FROM t WHERE id % 10 = 0');
	my $holder = $node->background_psql('other', on_error_stop => 1);
	$holder->query_safe(q{SELECT pg_advisory_lock(28790, 't'::regclass::oid::int)});
	my ($rc, $out, $err) = $node->psql('other', q{SET statement_timeout = '2s'; SELECT FROM parvacuum_run('t', index_cleanup => 'on')});
	like($err, qr/statement timeout/, "$what: a run is canceled");
	$holder->quit;
	is(sql(q{SELECT datname, items FROM parvacuum_kept}), 'other|1000', "$what: its items are kept");
	return;
}
sql('DROP TABLE t');
keep_in_other('DROP DATABASE');
sql('DROP DATABASE other');
is(pv_kept_files($node), 0, 'the file is gone with the database');
keep_in_other('DROP TABLESPACE');
sql('ALTER DATABASE other SET TABLESPACE pg_default');
is(pv_kept_files($node), 1, 'the file is where the database was');
sql('DROP TABLESPACE elsewhere');
is(pv_kept_files($node), 0, 'it does not keep the tablespace from being dropped');
is(sql('SELECT count(*) FROM parvacuum_kept'), 0, 'nothing is kept in the end');
pv_no_crash($node, 'the server');
$node->stop;
done_testing();
