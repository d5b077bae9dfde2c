# Tables of which a vacuum leaves out a part, where parvacuum_run() and CALL parvacuum() point
# to parvacuum_run_cluster(), and parvacuum_plan() and parvacuum_enqueue() to the nodes: tables of
# Citus, of which only the shell is here, and partitioned tables with foreign partitions.  There is
# no Citus here; a superuser can make its catalog.

use strict;
use warnings FATAL => 'all';

use FindBin;
use lib $FindBin::RealBin;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use PvTest;
use Test::More;

my $node = pv_node('sharded');
$node->start;
pv_setup($node);
pv_sql($node, 'CREATE ROLE pv_owner LOGIN; CREATE ROLE pv_other LOGIN');

# A database with a distributed table, its shard, an ordinary table, and a partitioned table
pv_sql($node, 'CREATE DATABASE citus');
sub sql { return $node->safe_psql('citus', join ";\n", @_); }
sql('CREATE EXTENSION parvacuum', 'GRANT CREATE ON SCHEMA public TO public',
	'CREATE TABLE dist (i int PRIMARY KEY, t text)', 'CREATE TABLE dist_102008 (i int PRIMARY KEY)', 'CREATE TABLE other (i int)',
	'CREATE TABLE split (i int) PARTITION BY LIST (i)', 'CREATE TABLE split_1 PARTITION OF split FOR VALUES IN (1)',
	'CREATE FOREIGN DATA WRAPPER w', 'CREATE SERVER w FOREIGN DATA WRAPPER w', 'CREATE FOREIGN TABLE split_2 PARTITION OF split FOR VALUES IN (2) SERVER w',
	map { "ALTER TABLE $_ OWNER TO pv_owner" } qw(dist split split_1));

# Everything that a statement reports
sub messages
{
	my ($statement, $role) = @_;
	my ($rc, $out, $err) = $node->psql('citus', ($role ? "SET SESSION AUTHORIZATION $role;\n" : '') . $statement);
	$err =~ s/^psql:<stdin>:\d+: //mg;
	return $err;
}

sub run_of { return messages("SELECT parvacuum_run('$_[0]', workers => 0)", $_[1]); }
sub call_of { return messages("CALL parvacuum('$_[0]', workers => 0)", $_[1]); }

# Core warns of each foreign table.
my $skipped = q{WARNING:  skipping "split_2" --- cannot vacuum non-tables or special system tables};
my $foreign = q{NOTICE:  foreign partitions of table "public.split" are left out
DETAIL:  VACUUM skips foreign tables.
HINT:  Call the function on the servers that have them, or use parvacuum_run_cluster() of the extension parvacuum_cluster.};

sub citus_notice
{
	my ($table) = @_;
	return qq{NOTICE:  shards of table "public.$table" are left out
DETAIL:  The table is managed by Citus, and on this server it is an empty shell.
HINT:  Call the function on the servers that have them, or use parvacuum_run_cluster() of the extension parvacuum_cluster.};
}

# How often a message has the words
sub count_of
{
	my ($words, $text) = @_;
	return scalar(() = $text =~ /\Q$words\E/g);
}

#
# Without Citus
#
is(run_of($_), '', "no Citus: $_") for qw(dist dist_102008 other);
is(run_of('split'), "$skipped\n$foreign", 'foreign partitions: parvacuum_run()');
like(call_of('split'), qr/\n\Q$foreign\E$/, 'foreign partitions: CALL parvacuum()');
is(count_of('foreign partitions', call_of('split')), 1, 'foreign partitions: one notice for a call');
like(run_of('split', 'pv_owner'), qr/\n\Q$foreign\E$/, 'foreign partitions: the owner of the table, but not of the partition');
is(run_of('split_1'), '', 'foreign partitions: no notice for another partition');

# A run that is refused has no notice.
for my $error (run_of('split', 'pv_other'), call_of('split', 'pv_other'))
{
	like($error, qr/^ERROR:  permission denied to vacuum table "split"/, 'no right on the table: an error');
	unlike($error, qr/foreign/, 'no right on the table: no notice');
}
is(messages(q{SET client_min_messages = warning; SELECT parvacuum_run('split')}), $skipped, 'a session that wants no notices');

# Children of an ordinary table are no partitions.
sql('CREATE FOREIGN TABLE child () INHERITS (other) SERVER w');
unlike(run_of('other'), qr/NOTICE/, 'a foreign child of an ordinary table');
sql('DROP FOREIGN TABLE child');

# A partition that is being dropped is not waited for, where the vacuum itself does not wait
# either.
my $dropper = $node->background_psql("citus", on_error_stop => 1);
$dropper->query_safe('BEGIN; DROP FOREIGN TABLE split_2');
like(messages(q{SET statement_timeout = '60s'; SELECT parvacuum_run('split', skip_locked => true)}), qr/\n\Q$foreign\E$/, 'a partition that is locked');
$dropper->query_safe('ROLLBACK');
$dropper->quit;

#
# What has the name of the catalog, but is not that of Citus, changes nothing.
#
for my $case (
	[ 'a view', 'CREATE VIEW pg_catalog.pg_dist_partition AS SELECT 1::regclass AS logicalrelid', 'DROP VIEW pg_catalog.pg_dist_partition' ],
	[ 'an index', 'CREATE TABLE pg_catalog.x (logicalrelid regclass); CREATE INDEX pg_dist_partition ON pg_catalog.x (logicalrelid)', 'DROP TABLE pg_catalog.x' ],
	[ 'no column', 'CREATE TABLE pg_catalog.pg_dist_partition ()' ],
	[ 'a column of another type', q{CREATE TABLE pg_catalog.pg_dist_partition (logicalrelid int); INSERT INTO pg_catalog.pg_dist_partition VALUES ('dist'::regclass::oid::int)} ],
	[ 'a column of another name', q{CREATE TABLE pg_catalog.pg_dist_partition (relid regclass); INSERT INTO pg_catalog.pg_dist_partition VALUES ('dist')} ],
	[ 'another place', q{CREATE TABLE pg_catalog.pg_dist_partition (kind "char", logicalrelid regclass); INSERT INTO pg_catalog.pg_dist_partition VALUES ('h', 'dist')} ],
	[ 'a column that was dropped', q{CREATE TABLE pg_catalog.pg_dist_partition (logicalrelid regclass); INSERT INTO pg_catalog.pg_dist_partition VALUES ('dist');
		ALTER TABLE pg_catalog.pg_dist_partition DROP logicalrelid} ],
	[ 'another schema', q{CREATE TABLE public.pg_dist_partition (logicalrelid regclass); INSERT INTO public.pg_dist_partition VALUES ('dist')},
		'DROP TABLE public.pg_dist_partition' ])
{
	my ($what, $create, $drop) = @$case;
	sql('SET allow_system_table_mods = on', $create);
	is(run_of('dist'), '', "$what of the name of the catalog");
	sql('SET allow_system_table_mods = on', $drop || 'DROP TABLE pg_catalog.pg_dist_partition');
}

#
# The catalog of Citus
#
sql('SET allow_system_table_mods = on', 'CREATE TABLE pg_catalog.pg_dist_partition (logicalrelid regclass NOT NULL, partmethod "char" NOT NULL, partkey text)');
is(run_of('dist'), '', 'Citus: a table that it does not have');
sql(q{INSERT INTO pg_dist_partition VALUES ('split_1', 'h'), ('dist', 'h')});
is(run_of('dist'), citus_notice('dist'), 'Citus: parvacuum_run()');
like(call_of('dist'), qr/^NOTICE:  vacuumed table "public\.dist"\n.*\n\Q@{[citus_notice('dist')]}\E$/s, 'Citus: CALL parvacuum()');
is(count_of('shards of table', call_of('dist')), 1, 'Citus: one notice for a call');
is(count_of('shards of table', messages(q{SELECT parvacuum_run(t) FROM (VALUES ('dist'::regclass), ('dist_102008'), ('dist')) t(t)})), 2, 'Citus: a notice for each call');
is(run_of('dist', 'pv_owner'), citus_notice('dist'), 'Citus: the owner of the table, who may not read the catalog');
is(run_of($_), '', "Citus: $_ is not sharded") for qw(dist_102008 other);
for my $error (run_of('dist', 'pv_other'), call_of('dist', 'pv_other'))
{
	like($error, qr/^ERROR:  permission denied to vacuum table "dist"/, 'Citus: no right on the table: an error');
	unlike($error, qr/shards/, 'Citus: no right on the table: no notice');
}

# Of a partitioned table the notice is for the table that was named.
is(run_of('split'), "$skipped\n$foreign", 'a partition of Citus below a table that is not');
sql(q{INSERT INTO pg_dist_partition VALUES ('split', 'h')});
is(run_of('split'), "$skipped\n" . citus_notice('split'), 'Citus and foreign partitions: one notice');
is(run_of('split_1'), citus_notice('split_1'), 'Citus: a partition');

# A row that is deleted no longer counts.
sql(q{DELETE FROM pg_dist_partition WHERE logicalrelid = 'dist'::regclass});
is(run_of('dist'), '', 'Citus: a table that it no longer has');

# The column may also be an oid.
sql('SET allow_system_table_mods = on', 'ALTER TABLE pg_catalog.pg_dist_partition ALTER logicalrelid TYPE oid', q{INSERT INTO pg_dist_partition VALUES ('dist'::regclass, 'n')});
is(run_of('dist'), citus_notice('dist'), 'Citus: the catalog with OIDs');

#
# Plans and requests look as if they were about the whole table as well.
#
sql(q{DELETE FROM pg_dist_partition WHERE logicalrelid = 'split'::regclass});
pv_reload_with($node, 'parvacuum.scheduler' => 'on');
for my $function (qw(parvacuum_plan parvacuum_enqueue))
{
	my $call = "SELECT FROM $function('%s')";
	is(messages(sprintf $call, 'dist'), citus_notice('dist'), "$function(): a table of Citus");
	like(messages(sprintf $call, 'split'), qr/(?:^|\n)\Q$foreign\E$/, "$function(): foreign partitions");
	is(messages(sprintf $call, 'other'), '', "$function(): an ordinary table");
	my $error = messages(sprintf($call, 'dist'), 'pv_other');
	like($error, qr/^ERROR:  permission denied/, "$function(): no right on the table: an error");
	unlike($error, qr/shards/, "$function(): no right on the table: no notice");
}

pv_no_crash($node, 'the server');
$node->stop;
done_testing();
