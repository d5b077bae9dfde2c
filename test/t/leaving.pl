# The engine can be left at any time: by options, settings, DROP EXTENSION or without the
# library.  Stock VACUUM then vacuums the same table, on the server, after a crash, and on
# the standby.

use strict;
use warnings FATAL => 'all';

use FindBin;
use lib $FindBin::RealBin;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use PvTest;
use Test::More;

my $node = pv_node('leaving', allows_streaming => 1);
$node->append_conf('postgresql.conf', "wal_consistency_checking = 'all'\nwal_keep_size = '1GB'\n");
$node->start;
pv_setup($node);

my $with = "shared_preload_libraries = 'parvacuum'\n";
my $without = "shared_preload_libraries = ''\n";
my $options = 'ALTER TABLE ours SET (parvacuum.enabled, parvacuum.workers = 2)';
my $round = 0;

# Run statements with other settings, of the session or of the configuration file.
sub restart_with
{
	my ($conf) = @_;
	$node->append_conf('postgresql.conf', $conf);
	$node->restart;
	return;
}

# Two tables that are equal on each page; ours has options.
sub make_twins
{
	$node->safe_psql('postgres',
		"\\o /dev/null\nSELECT * FROM oracle.make_twins('none', 12000, ARRAY['btree', 'gin', 'hash'], 100) \\gexec\n$options");
	return;
}

# New dead rows in both tables, the same ones
sub new_dead_rows
{
	$round++;
	$node->safe_psql('postgres', "BEGIN; DELETE FROM stock WHERE id % 97 = $round; DELETE FROM ours WHERE id % 97 = $round; COMMIT");
	return;
}

# VACUUM (VERBOSE) in a session with settings.  Returns the engine that has vacuumed the
# table, and the reasons that are reported for that.
sub vacuum_on
{
	my ($where, $db, $table, %settings) = @_;
	my $before = delete $settings{before} // '';
	local $ENV{PGOPTIONS} = join ' ', map { "-c $_=$settings{$_}" } sort keys %settings;
	my ($rc, $out, $err) = $where->psql($db, "$before VACUUM (VERBOSE) $table");
	my @messages = split /^psql:\S+ INFO:  /m, $err;
	my ($report) = grep { /^finished vacuuming "$db\.\w+\.$table": / } @messages;
	my @reasons = map { /^PostgreSQL's own VACUUM vacuums table "$table"\nDETAIL:  (.*)/ ? $1 : () } @messages;
	push @reasons, 'something of its TOAST table' if !@reasons && $err =~ /PostgreSQL's own VACUUM/;

	return $err if $rc != 0 || !$report;
	return join ': ', $report =~ /^engine: parvacuum, /m ? 'engine' : 'core', @reasons;
}

sub vacuum { return vacuum_on($node, 'postgres', @_) }

# The error of a statement.
sub error_of
{
	my ($where, $sql) = @_;
	my ($rc, $out, $err) = $where->psql('postgres', $sql);
	isnt($rc, 0, "$sql fails");
	return $err;
}

# Both twins have just been vacuumed, and must be equal.
sub is_same
{
	my ($what, $where) = @_;
	is(pv_differences($where // $node), '', "$what: the table equals its twin");
	return;
}

my $labels = q{SELECT objoid::regclass, label FROM pg_seclabel WHERE provider = 'parvacuum' ORDER BY 1};
my $ours_label = 'ours|enabled=true, workers=2';

make_twins();
new_dead_rows();
is(vacuum('ours'), 'engine', 'with the option, the engine vacuums the table');
is(vacuum('stock'), 'core', 'without option and setting, core vacuums a table, and reports no reason');
is_same('engine');

#
# The option, the setting, and their limits
#
$node->safe_psql('postgres', 'ALTER TABLE ours SET (parvacuum.enabled = false)');
new_dead_rows();
is(vacuum('ours'), 'core', 'option off: core vacuums the table');
is(vacuum('stock'), 'core', 'option off: core vacuums its twin');
is_same('option off');
is(vacuum('ours', 'parvacuum.enabled' => 'on'), 'core', 'option off and setting on: core vacuums the table');
$node->safe_psql('postgres', 'ALTER TABLE ours RESET (parvacuum.enabled, parvacuum.workers)');
is(vacuum('ours'), 'core', 'options reset: core vacuums the table');
is(vacuum('ours', 'parvacuum.enabled' => 'on'), 'engine', 'setting on: the engine vacuums the table');
$node->safe_psql('postgres', $options);

my %on = ('parvacuum.enabled' => 'on');
is(vacuum($_, %on), 'core: The table is a system catalog.', "setting on: core vacuums $_") for qw(pg_class pg_proc pg_database pg_seclabel);
is(vacuum('passing', %on, before => 'CREATE TEMP TABLE passing AS SELECT 1 AS i;'), 'core: The table is temporary.', 'setting on: core vacuums a temporary table');
is(vacuum('passing', before => 'CREATE TEMP TABLE passing WITH (parvacuum.enabled) AS SELECT 1 AS i;'),
	'core: The table is temporary.', 'option on: core vacuums a temporary table');
is(vacuum($_), 'core', "setting off: no reason is reported for $_") for qw(pg_class pg_seclabel);

#
# parvacuum.engine
#
sub set_engine
{
	my ($value) = @_;
	$node->append_conf('postgresql.conf', "parvacuum.engine = $value\n");
	$node->reload;
	ok($node->poll_query_until('postgres', 'SHOW parvacuum.engine', $value), "parvacuum.engine = $value, by reload");
	return;
}

my $off = 'The setting parvacuum.engine is off.';

set_engine('off');
new_dead_rows();
my ($rc, $out, $err) = $node->psql('postgres', "VACUUM ours; SET client_min_messages = debug1; VACUUM ours");
is($rc, 0, 'engine off: VACUUM');
unlike($err, qr/parvacuum|VACUUM vacuums/, 'engine off: no reason is reported');
is(vacuum('stock'), 'core', 'engine off: its twin');
is_same('engine off');
new_dead_rows();
is(vacuum('ours'), 'core', 'engine off: VACUUM (VERBOSE) is core\'s');
like(($node->psql('postgres', q{SELECT FROM parvacuum_run('pg_am')}))[2], qr/DETAIL:  $off/, 'engine off: parvacuum_run() reports the reason');
is(vacuum('stock'), 'core', 'engine off: its twin again');
is_same('engine off, again');
is($node->safe_psql('postgres', q{SELECT enabled, declined FROM parvacuum_tables WHERE relid = 'ours'::regclass}), "t|$off", 'engine off: parvacuum_tables shows it');
set_engine('on');
new_dead_rows();
is(vacuum('ours'), 'engine', 'engine on: the engine vacuums the table again');
is(vacuum('stock'), 'core', 'engine on: its twin');
is_same('engine on');

#
# DROP EXTENSION
#
$node->safe_psql('postgres', 'CREATE DATABASE other; CREATE TABLE second (i int) WITH (parvacuum.workers = 1)');
$node->safe_psql('other', 'CREATE EXTENSION parvacuum; CREATE TABLE theirs WITH (parvacuum.enabled) AS SELECT i FROM generate_series(1, 1000) i');

my $of_both = "$ours_label\nsecond|workers=1";
is($node->safe_psql('postgres', $labels), $of_both, 'two tables have options');
$node->safe_psql('postgres', 'BEGIN; DROP EXTENSION parvacuum; ROLLBACK');
is($node->safe_psql('postgres', $labels), $of_both, 'DROP EXTENSION rolled back: the options remain');
($rc, $out, $err) = $node->psql('postgres', 'DROP EXTENSION parvacuum');
is($rc, 0, 'DROP EXTENSION');
like($err, qr/NOTICE:  parvacuum options of 2 tables stay$/m, 'DROP EXTENSION: a notice that options remain');
like($err, qr/^HINT:.* parvacuum_reset_options\(\) before DROP EXTENSION, or after another CREATE EXTENSION parvacuum\.$/m, 'DROP EXTENSION: the notice says how to remove them');
is($node->safe_psql('postgres', $labels), $of_both, 'DROP EXTENSION: the options remain');
new_dead_rows();
is(vacuum('ours'), 'engine', 'DROP EXTENSION: the engine still vacuums the table');
is(vacuum('stock'), 'core', 'DROP EXTENSION: core vacuums its twin');
is_same('DROP EXTENSION');
$node->safe_psql('postgres', 'ALTER TABLE second RESET (parvacuum.workers)');
is($node->safe_psql('postgres', $labels), $ours_label, 'DROP EXTENSION: options can be reset');
$node->safe_psql('postgres', 'ALTER TABLE second SET (parvacuum.workers = 1)');
is($node->safe_psql('postgres', $labels), $of_both, 'DROP EXTENSION: options can be set');
$node->safe_psql('postgres', 'CREATE EXTENSION parvacuum');
is($node->safe_psql('postgres', $labels), $of_both, 'CREATE EXTENSION finds them');
is(vacuum('ours'), 'engine', 'CREATE EXTENSION: the table is the engine\'s');
($rc, $out, $err) = $node->psql('other', 'DROP EXTENSION parvacuum; CREATE EXTENSION parvacuum');
like($err, qr/NOTICE:  parvacuum options of 1 table stay$/m, 'DROP EXTENSION in another database: a notice about one table');

#
# parvacuum_reset_options()
#
$node->safe_psql('postgres', 'BEGIN; SELECT parvacuum_reset_options(); ROLLBACK');
is($node->safe_psql('postgres', $labels), $of_both, 'reset, rolled back: the options remain');
my $owner = $node->background_psql('postgres');
$owner->query_safe('BEGIN; ALTER TABLE second SET (parvacuum.workers = 2)');
($rc, $out, $err) = $node->psql('postgres', 'SELECT parvacuum_reset_options()');
like($err, qr/ERROR:  could not remove the parvacuum options of all tables/, 'reset: it does not wait for a transaction that changes options');
is(($node->psql('postgres', q{SET lock_timeout = '30s'; ALTER TABLE ours SET (parvacuum.workers = 2)}))[0], 0, 'reset: others go on changing options');
$owner->query_safe('COMMIT');
is($node->safe_psql('postgres', 'SELECT parvacuum_reset_options()'), 2, 'reset: the number of tables is returned');

# Without the library labels are deleted unannounced.
$node->safe_psql('postgres', "ALTER TABLE $_ SET (parvacuum.workers = 2)") for qw(ours second);
$owner->query_safe(q{BEGIN; DELETE FROM pg_seclabel WHERE objoid = 'ours'::regclass AND provider = 'parvacuum'});
isnt(($node->psql('postgres', q{SET lock_timeout = '1ms'; SELECT parvacuum_reset_options()}))[0], 0, 'reset: it waits no longer than lock_timeout for a row');
$owner->query_safe('ROLLBACK');
$owner->quit;
is($node->safe_psql('postgres', 'SELECT parvacuum_reset_options()'), 2, 'reset: it succeeds after that');
is($node->safe_psql('postgres', $labels), '', 'reset: no options remain in this database');
is($node->safe_psql('other', $labels), 'theirs|enabled=true', 'reset: the options of another database remain');
is($node->safe_psql('postgres', 'SELECT parvacuum_reset_options()'), 0, 'reset again: no table has options');
new_dead_rows();
is(vacuum($_), 'core', "reset: core vacuums $_") for qw(ours stock);
is_same('reset');
is(vacuum_on($node, 'other', 'theirs'), 'engine', 'reset: in another database the engine still vacuums the table');
($rc, $out, $err) = $node->psql('postgres', 'DROP EXTENSION parvacuum');
is($err, '', 'DROP EXTENSION without options: no notice');
$node->safe_psql('postgres', 'CREATE EXTENSION parvacuum');
is(vacuum('ours'), 'core', 'CREATE EXTENSION brings no options back');
$node->safe_psql('postgres', $options);
is(vacuum('ours'), 'engine', 'DROP EXTENSION without options: options can be set again');
is($node->safe_psql('other', 'SELECT parvacuum_reset_options()'), 1, 'reset in the other database');
is($node->safe_psql('other', $labels), '', 'reset in the other database: its options are removed');
is($node->safe_psql('postgres', $labels), $ours_label, 'reset in the other database: the options of this database remain');

#
# A standby, the library not preloaded
#
$node->backup('base');
my $standby = PostgreSQL::Test::Cluster->new('standby');
$standby->init_from_backup($node, 'base', has_streaming => 1);
$standby->append_conf('postgresql.conf', $without);
$standby->start;

sub standby_is_same
{
	my ($what) = @_;
	my $digest = q{
		SELECT l, oracle.rows_digest(l), md5(string_agg(oracle.line_pointers(l, blk), '' ORDER BY blk))
		FROM unnest(ARRAY['ours', 'stock']::regclass[]) l, generate_series(0, oracle.nblocks(l) - 1) blk GROUP BY l};
	my $map = q{SELECT l, pg_visibility_map_summary(l) FROM unnest(ARRAY['ours', 'stock']::regclass[]) l};

	pv_catch_up($node, $standby);
	is($standby->safe_psql('postgres', $_), $node->safe_psql('postgres', $_), "$what: the table is the same on the standby") for $digest, $map, $labels;
	is($standby->safe_psql('postgres', q{
		SELECT * FROM oracle.check_heap('ours');
		SELECT bt_index_check(indexrelid, true)::text FROM pg_index i JOIN pg_class c ON c.oid = indexrelid
		WHERE indrelid = 'ours'::regclass AND relam = (SELECT oid FROM pg_am WHERE amname = 'btree')}) =~ s/\n//gr,
		'', "$what: the table is whole on the standby");
	return;
}

is($standby->safe_psql('postgres', 'SHOW shared_preload_libraries'), '', 'the standby has no library');
make_twins();
new_dead_rows();
is(vacuum('ours'), 'engine', 'standby: a vacuum by the engine');
is(vacuum('stock'), 'core', 'standby: a vacuum of the twin by core');
is_same('standby');
standby_is_same('standby');
is($standby->safe_psql('postgres', $labels), $ours_label, 'standby: it has the options');
$node->safe_psql('postgres', 'ALTER TABLE ours SET (parvacuum.workers = 1); DELETE FROM ours WHERE id % 3 = 0');
is(vacuum('ours', vacuum_freeze_min_age => 0), 'engine', 'standby: another vacuum by the engine');
standby_is_same('standby, another');
is($standby->safe_psql('postgres', $labels), 'ours|enabled=true, workers=1', 'standby: it has the new options');

# preloaded
$standby->append_conf('postgresql.conf', $with);
$standby->restart;
like(error_of($standby, $_), qr/ERROR:  cannot execute [A-Z ]+ in a read-only transaction/, 'preloaded on the standby: options cannot be set')
  for 'ALTER TABLE ours SET (parvacuum.enabled)', 'ALTER TABLE ours RESET (parvacuum.workers)',
  'CREATE TABLE t (i int) WITH (parvacuum.enabled)', q{SECURITY LABEL FOR parvacuum ON TABLE ours IS 'workers=3'}, 'DROP EXTENSION parvacuum';
like(error_of($standby, 'SELECT parvacuum_reset_options()'), qr/ERROR:  cannot execute parvacuum_reset_options\(\) in a read-only transaction/, 'preloaded on the standby: the options are the same');
is($standby->safe_psql('postgres', q{SELECT relation, enabled, enabled_from, workers, workers_from, buffer_usage_limit, buffer_usage_limit_from, declined FROM parvacuum_tables WHERE relid = 'ours'::regclass}),
	'ours|t|table|1|table|16384|default|', 'preloaded on the standby: the options can be read');
$node->safe_psql('postgres', 'DELETE FROM ours WHERE id % 3 = 1');
is(vacuum('ours'), 'engine', 'preloaded on the standby: a vacuum by the engine');
standby_is_same('preloaded on the standby');

# promoted, without it
$standby->append_conf('postgresql.conf', $without);
$standby->restart;
pv_catch_up($node, $standby);
$standby->promote;
$standby->safe_psql('postgres', 'DELETE FROM ours WHERE id % 5 = 0');
is(vacuum_on($standby, 'postgres', 'ours'), 'core', 'promoted: core vacuums the table');
is(pv_findings($standby, 'ours'), '', 'promoted: the table is whole');
unlike(slurp_file($standby->logfile), qr/inconsistent page/, 'each page was replayed with the same result');
pv_no_crash($standby, 'the standby');
$standby->stop;

#
# The library removed
#
make_twins();
$node->safe_psql('postgres', q{
	CREATE TABLE busy (i int) WITH (parvacuum.enabled, autovacuum_vacuum_threshold = 0, autovacuum_vacuum_scale_factor = 0);
	INSERT INTO busy SELECT i FROM generate_series(1, 1000) i});
new_dead_rows();
is(vacuum('ours'), 'engine', 'before the removal: the engine vacuums the table');
is(vacuum('stock'), 'core', 'before the removal: core vacuums its twin');
restart_with("$without\nautovacuum_naptime = 1\nlog_autovacuum_min_duration = 0\n");

new_dead_rows();
is(vacuum($_), 'core', "removed: stock VACUUM of $_") for qw(ours stock);
is_same('removed');
is(pv_findings($node, 'ours'), '', 'removed: the table is whole');

# Autovacuum uses transaction IDs, which the ages of the twins would show.
my $before = -s $node->logfile;
$node->append_conf('postgresql.conf', "autovacuum = on\n");
$node->reload;
$node->safe_psql('postgres', 'DELETE FROM busy WHERE i <= 500');
ok(pv_await($node, q{SELECT count(*) FROM pg_stat_user_tables WHERE relname = 'busy' AND autovacuum_count > 0 AND n_dead_tup = 0}, 1), 'removed: autovacuum vacuums a table');
ok($node->wait_for_log(qr/automatic vacuum of table "postgres\.public\.busy": .*\n.*\n\ttuples: 500 removed/, $before),
	'removed: the log has the report of core');
unlike(substr(slurp_file($node->logfile), $before), qr/parvacuum/, 'removed: the log has nothing of parvacuum');
is(pv_findings($node, 'busy'), '', 'removed: the table that autovacuum has vacuumed is whole');

my $unknown = qr/ERROR:  unrecognized parameter namespace "parvacuum"/;
like(error_of($node, $_), $unknown, 'removed: a function fails with the error of core')
  for 'ALTER TABLE ours SET (parvacuum.enabled)', 'CREATE TABLE t (i int) WITH (parvacuum.enabled)';
like(error_of($node, 'SECURITY LABEL FOR parvacuum ON TABLE ours IS NULL'),
	qr/ERROR:  security label provider "parvacuum" is not loaded/, 'removed: the label provider does not exist');
is($node->safe_psql('postgres', q{SELECT enabled, workers, declined FROM parvacuum_tables WHERE relid = 'ours'::regclass}),
	't|2|The library was not loaded at server start.', 'removed: parvacuum_tables fails with the reason');
$node->safe_psql('postgres', 'DROP TABLE busy');
is($node->safe_psql('postgres', $labels), $ours_label, 'removed: DROP TABLE removes the label');
$node->safe_psql('postgres', q{DELETE FROM pg_seclabel WHERE provider = 'parvacuum'});
is($node->safe_psql('postgres', $labels), '', 'removed: the labels can be deleted');

restart_with("$with\nautovacuum = off\n");
is(vacuum('ours'), 'core', 'library back: without options, core vacuums the table');
$node->safe_psql('postgres', $options);
new_dead_rows();
is(vacuum('ours'), 'engine', 'library back: with options, the engine vacuums the table');
is(vacuum('stock'), 'core', 'library back: core vacuums its twin');
is_same('back');

#
# An immediate shutdown in the middle of a vacuum by the engine, and a start
# without the library
#

# The leader is held when it begins with a phase, while its workers do the work.
my $full = 'VACUUM (INDEX_CLEANUP on, DISABLE_PAGE_SKIPPING)';

for my $phase ('scanning heap', 'vacuuming indexes', 'vacuuming heap', 'cleaning up indexes')
{
	my $what = "crash, $phase";

	new_dead_rows();
	my $holder = pv_hold($node, 'ours');
	my $started = pv_start_run($node, "$full ours", 'parvacuum.wait_at' => "leader\\ $pv_place{$phase}");
	pv_await_held($node, 1, $what);
	ok(pv_await($node, qq{
		SELECT count(*) FROM pg_stat_progress_vacuum JOIN pg_stat_activity a ON a.leader_pid = pg_stat_progress_vacuum.pid
		WHERE relid = 'ours'::regclass AND phase = '$phase'}, 2), "$what: the engine is in the phase, with two workers");
	$node->stop('immediate');
	$holder->quit;
	ok(!pv_finish($started), "$what: the vacuum fails");

	my $before = -s $node->logfile;
	$node->append_conf('postgresql.conf', $without);
	$node->start;
	like(substr(slurp_file($node->logfile), $before), qr/not properly shut down; automatic recovery in progress/, "$what: the server recovers");
	is(pv_findings($node, 'ours'), '', "$what: the table is whole");
	is(vacuum('ours'), 'core', "$what: without the library, core vacuums the table");

	# With FREEZE. Without it, from 16 on, stock VACUUM freezes pages on which it has
	# something to prune.
	$node->safe_psql('postgres', "VACUUM (FREEZE, INDEX_CLEANUP on, DISABLE_PAGE_SKIPPING) $_") for qw(stock ours);
	is_same($what);
	restart_with($with);
}

# The engine vacuums what stock VACUUM has left, as well.
new_dead_rows();
is(vacuum('ours'), 'engine', 'at the end: the engine vacuums the table');
is(vacuum('stock'), 'core', 'at the end: core vacuums its twin');
is_same('at the end');

unlike(slurp_file($node->logfile), qr/inconsistent page/, 'recovery replayed each page with the same result');
pv_no_crash($node, 'the server');
$node->stop;
done_testing();
