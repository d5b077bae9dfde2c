# Conflict horizons: the WAL of our vacuum cancels no query of a standby that the WAL of
# stock VACUUM does not.  Each record has the horizon of the one that stock VACUUM has
# logged for the twin; a reader on a standby survives both vacuums, or none.

use strict;
use warnings FATAL => 'all';

use FindBin;
use lib $FindBin::RealBin;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use PvTest;
use Test::More;

my $primary = pv_node('primary', allows_streaming => 1);
$primary->append_conf('postgresql.conf', "wal_keep_size = '1GB'\nbgwriter_lru_maxpages = 0\n");
$primary->start;
pv_setup($primary);
pv_sql($primary, slurp_file("$FindBin::RealBin/../horizons.sql"));
pv_sql($primary, 'CREATE TABLE mark (name text, xid bigint)');
my $version = $primary->pg_version;

sub both
{
	my ($sql) = @_;
	return $sql unless $sql =~ /\$T/;
	return join '; ', map { $sql =~ s/\$T/$_/gr } qw(stock ours);
}

# Run statements in one transaction.  A name stands for its XID from then on.
sub transaction
{
	my ($name, @sql) = @_;
	pv_sql($primary, join '; ', 'BEGIN', (map { both($_) } @sql),
		$name ? "INSERT INTO mark VALUES ('$name', pg_current_xact_id()::text::bigint)" : (), 'COMMIT');
	return;
}

sub alone { pv_sql($primary, both($_)) for @_; return; }

sub use_up
{
	my ($n) = @_;
	alone("DO \$\$ BEGIN FOR i IN 1 .. $n LOOP PERFORM pg_current_xact_id(); COMMIT; END LOOP; END \$\$");
	return;
}

# Twins with this many rows of the transaction A
sub create
{
	my ($rows, $index) = @_;
	alone('DROP TABLE IF EXISTS stock, ours', 'TRUNCATE mark',
		'CREATE TABLE $T (id int, v int) WITH (autovacuum_enabled = off, fillfactor = 60)',
		$index ? 'CREATE INDEX ON $T (id)' : (),
		'ALTER TABLE ours SET (parvacuum.enabled)');
	transaction('A', "INSERT INTO \$T SELECT i, 0 FROM generate_series(1, $rows) i");

	# Room that later rows do not use: else pages would be pruned when they are read.
	alone('ALTER TABLE $T RESET (fillfactor)');
	return;
}

# Both vacuums.  Returns the kinds of our records of the table, each with the names of the
# transactions whose XIDs are its horizons; "oldest" is the last XID before OldestXmin.
sub vacuum_twins
{
	my ($what, $options, %set) = @_;
	my $next_xid = 'pg_snapshot_xmax(pg_current_snapshot())::text::bigint';
	my $oldest = 'pg_snapshot_xmin(pg_current_snapshot())::text::bigint - 1';

	alone('CHECKPOINT');
	my $out = pv_sql($primary, join "\n", (map { "SET $_ = $set{$_};" } sort keys %set),
		"SELECT pg_current_wal_insert_lsn() AS l1, $next_xid AS next_xid, $oldest AS oldest \\gset",
		"VACUUM (TRUNCATE false, PARALLEL 0$options) stock;",
		"SELECT pg_current_wal_insert_lsn() AS l2, $next_xid = :next_xid AS alike \\gset",
		"VACUUM (TRUNCATE false, PARALLEL 2$options) ours;",
		"SELECT pg_current_wal_insert_lsn() AS l3, pg_logical_emit_message(true, 'horizons', 'x') \\gset",
		"SELECT :'alike';",
		q{SELECT coalesce(string_agg(format('%s %s', kind, name), ', ' ORDER BY kind, name), 'nothing') FROM (
			SELECT DISTINCT kind, CASE horizon WHEN 0 THEN 'none' WHEN :oldest THEN 'oldest'
				ELSE coalesce((SELECT string_agg(m.name, '') FROM mark m WHERE m.xid = horizon), horizon::text) END AS name
			FROM horizons.records('ours', :'l2', :'l3')) x;},
		q{SELECT * FROM horizons.differences(:'l1', :'l2', :'l3', :next_xid, :'alike');});
	my ($alike, $ours, @faults) = split /\n/, $out;
	is($alike, 't', "$what: no XID was used by others");
	is(join("\n", @faults), '', "$what: the horizons are those of the twin's records");
	is(pv_sql($primary, q{SELECT * FROM oracle.check_table('ours')}), '', "$what: the table is whole");
	return $ours;
}

# The records, by version: 15, 16, 17 and 18, from 19 on
sub horizons_are
{
	my ($what, $expected, $options, %set) = @_;
	is(vacuum_twins($what, $options, %set), $expected->[ $version < 16 ? 0 : $version < 17 ? 1 : $version->major < 19 ? 2 : 3 ], "$what: the expected horizons");
	return;
}

#
# Freezing
#
for my $index (0, 1)
{
	my $kind = $index ? 'with an index' : 'without indexes';

	create(3000, $index);
	use_up(40);
	horizons_are("static rows, $kind", [ 'FREEZE_PAGE oldest, VISIBLE A', 'FREEZE_PAGE A, VISIBLE none', 'PRUNE A, VISIBLE none', 'PRUNE A' ], ', FREEZE');

	create(3000, $index);
	alone('VACUUM stock, ours');
	use_up(40);
	horizons_are("static rows that are all-visible, $kind", [ 'FREEZE_PAGE oldest, VISIBLE none', 'FREEZE_PAGE A, VISIBLE none', 'PRUNE A, VISIBLE none', 'PRUNE A' ], ', FREEZE');

	# Old and young rows on each page, some of which must be frozen
	create(3000, $index);
	use_up(40);
	transaction('B', 'INSERT INTO $T SELECT 3000 + i, 0 FROM generate_series(1, 1500) i');
	alone('SELECT count(*) FROM $T');
	use_up(10);
	vacuum_twins("old and young rows, $kind", '', vacuum_freeze_min_age => 30);

	# The same, and rows that are not visible to all: only the old rows can be frozen
	create(3000, $index);
	use_up(40);
	transaction('B', 'INSERT INTO $T SELECT 3000 + i, 0 FROM generate_series(1, 20) i');
	alone('SELECT count(*) FROM $T');
	use_up(10);
	pv_sql($primary, both('BEGIN; INSERT INTO $T VALUES (0, 0)') . q{; PREPARE TRANSACTION 'horizons'});
	use_up(10);
	vacuum_twins("old, young and new rows, $kind", '', vacuum_freeze_min_age => 30);
	alone(q{COMMIT PREPARED 'horizons'});

	# Rows that no vacuum can freeze: locked by an open transaction
	create(3000, $index);
	use_up(10);
	pv_sql($primary, both('BEGIN; SELECT count(*) FROM (SELECT FROM $T WHERE id % 7 = 0 FOR SHARE) x')
		  . q{; PREPARE TRANSACTION 'horizons'});
	use_up(10);
	horizons_are("locked rows, $kind", [ 'FREEZE_PAGE oldest, VISIBLE A', 'FREEZE_PAGE oldest, VISIBLE A', 'PRUNE oldest, VISIBLE A', 'PRUNE A' ],
		', FREEZE');
	alone(q{COMMIT PREPARED 'horizons'});

	# Only the last XID of a row is left to be frozen.
	my %locks = (
		locked => [ 'SELECT count(*) FROM (SELECT FROM $T WHERE id % 3 = 0 FOR UPDATE) x' ],
		'locked twice' => [ 'SELECT count(*) FROM (SELECT FROM $T WHERE id % 3 = 0 FOR KEY SHARE) x', 'SAVEPOINT s',
			'SELECT count(*) FROM (SELECT FROM $T WHERE id % 3 = 0 FOR NO KEY UPDATE) x', 'RELEASE s' ]);
	for my $how (sort keys %locks)
	{
		create(3000, $index);
		alone('VACUUM (FREEZE) stock, ours');
		use_up(10);
		transaction(undef, $locks{$how}->@*);
		use_up(10);
		horizons_are("frozen rows, then $how, $kind", [ 'FREEZE_PAGE oldest, VISIBLE none', 'FREEZE_PAGE none, VISIBLE none', 'PRUNE none, VISIBLE none', 'PRUNE none' ],
			', FREEZE');
	}

	# The new versions are frozen by the same record; on 15 and 16 by one of their own.
	create(3000, $index);
	alone('VACUUM (FREEZE) stock, ours');
	alone('BEGIN; ' . both('UPDATE $T SET v = 1 WHERE id % 3 = 0') . '; ROLLBACK');
	use_up(10);
	horizons_are("frozen rows, then an update that is undone, $kind",
		[ 'FREEZE_PAGE oldest, PRUNE none, VISIBLE none', 'FREEZE_PAGE none, PRUNE none, VISIBLE none', 'PRUNE none, VISIBLE none', 'PRUNE none' ], ', FREEZE');
}

#
# Removing rows
#
for my $index (0, 1)
{
	my $kind = $index ? 'with an index' : 'without indexes';
	my $cleanup = $index ? 'CLEANUP none, ' : '';

	# Rows that were never visible, although they came last
	create(100, $index);
	alone('VACUUM (FREEZE) stock, ours');
	transaction('B', 'DELETE FROM $T WHERE id % 5 = 0');
	transaction('C', 'INSERT INTO $T SELECT i, 0 FROM generate_series(101, 140) i', 'DELETE FROM $T WHERE id > 100');
	use_up(10);
	horizons_are("rows deleted by their inserter, $kind", [ ('PRUNE B, VISIBLE none') x 3, "${cleanup}PRUNE B" ], ', INDEX_CLEANUP on', vacuum_freeze_min_age => 1000000);

	# The rows that stay are newer than the deletion.
	create(100, $index);
	transaction('B', 'DELETE FROM $T WHERE id % 5 = 0');
	transaction('C', 'INSERT INTO $T SELECT i, 0 FROM generate_series(101, 120) i');
	use_up(10);
	vacuum_twins("rows inserted after a deletion, $kind", ', INDEX_CLEANUP on', vacuum_freeze_min_age => 1000000);

	# The same where they are found last, and where there is nothing else
	create(100, $index);
	alone('VACUUM (FREEZE) stock, ours');
	transaction('B', 'INSERT INTO $T SELECT i, 0 FROM generate_series(101, 140) i', 'DELETE FROM $T WHERE id > 100');
	use_up(10);
	horizons_are("nothing but rows deleted by their inserter, $kind", [ ('PRUNE none, VISIBLE none') x 3, "${cleanup}PRUNE none" ], ', INDEX_CLEANUP on');

	# A transaction that deletes its own rows and others
	for my $order (0, 1)
	{
		my @sql = ('DELETE FROM $T WHERE id % 5 = 0', 'INSERT INTO $T SELECT i, 0 FROM generate_series(101, 140) i', 'DELETE FROM $T WHERE id > 100');
		create(100, $index);
		alone('VACUUM (FREEZE) stock, ours');
		transaction('B', $order ? @sql[ 1, 2, 0 ] : @sql);
		use_up(10);
		horizons_are("rows deleted by one transaction, some of them its own, $kind", [ ('PRUNE B, VISIBLE none') x 3, "${cleanup}PRUNE B" ], ', INDEX_CLEANUP on');
	}

	# A subtransaction is another transaction.
	create(100, $index);
	alone('VACUUM (FREEZE) stock, ours');
	transaction('B', 'SELECT pg_current_xact_id()', 'SAVEPOINT s', 'INSERT INTO $T SELECT i, 0 FROM generate_series(101, 140) i', 'RELEASE s',
		'DELETE FROM $T WHERE id > 100');
	use_up(10);
	horizons_are("rows deleted by their inserter's parent, $kind", [ ('PRUNE B, VISIBLE none') x 3, "${cleanup}PRUNE B" ], ', INDEX_CLEANUP on');

	# Chains whose last versions remain; one has only versions of its first inserter.
	create(100, $index);
	transaction($_, 'UPDATE $T SET v = v + 1 WHERE id % 3 = 0') for qw(B C);
	transaction('D', 'INSERT INTO $T VALUES (101, 0)', 'UPDATE $T SET v = 1 WHERE id = 101', 'UPDATE $T SET v = 2 WHERE id = 101');
	use_up(10);
	horizons_are("chains, $kind", [ 'PRUNE C, VISIBLE D', 'FREEZE_PAGE D, PRUNE C, VISIBLE none', 'PRUNE D, VISIBLE none', 'PRUNE D' ], ', INDEX_CLEANUP on', vacuum_freeze_min_age => 1000000);
	create(100, $index);
	transaction($_, 'UPDATE $T SET v = v + 1 WHERE id % 3 = 0') for qw(B C);
	use_up(10);
	vacuum_twins("chains that are frozen, $kind", ', INDEX_CLEANUP on, FREEZE');

	# Dead items that remain: tuples are frozen nevertheless.
	create(100, $index);
	transaction('B', 'DELETE FROM $T WHERE id % 5 = 0');
	use_up(10);
	vacuum_twins("no index vacuum, $kind", ', INDEX_CLEANUP off, FREEZE');
}

#
# A reader on a standby without delay and without feedback
#
$primary->backup('base');
my $standby = PostgreSQL::Test::Cluster->new('standby');
$standby->init_from_backup($primary, 'base', has_streaming => 1);
$standby->append_conf('postgresql.conf', "max_standby_streaming_delay = 0\nhot_standby_feedback = off\nwal_retrieve_retry_interval = 100ms\n");
$standby->start;

# The reader begins after the rows; then changes, if there are any, and the two vacuums.
# Returns whether each vacuum has canceled the reader.
sub cancels
{
	my ($options, $set, @changes) = @_;
	my @canceled;

	create(3000, 0);
	alone('VACUUM (FREEZE) stock, ours') if @changes;
	use_up(40);
	for my $table (qw(stock ours))
	{
		pv_catch_up($primary, $standby);
		my $conflicts = pv_sql($standby, q{SELECT sum(confl_snapshot) FROM pg_stat_database_conflicts});
		my $reader = $standby->background_psql('postgres', on_error_stop => 0);
		my $before = $reader->query("BEGIN ISOLATION LEVEL REPEATABLE READ; SELECT count(*), sum(v) FROM $table");
		use_up(20);
		transaction(undef, map { s/\$T/$table/gr } @changes) if @changes;
		use_up(5);
		alone('CHECKPOINT');
		pv_sql($primary, join '', (map { "SET $_ = $set->{$_};" } sort keys %$set), "VACUUM (TRUNCATE false$options) $table");
		pv_catch_up($primary, $standby);
		$standby->poll_query_until('postgres', qq{SELECT sum(confl_snapshot) > $conflicts FROM pg_stat_database_conflicts})
		  if pv_sql($standby, q{SELECT count(*) FROM pg_stat_activity WHERE state = 'idle in transaction'}) == 0;
		push @canceled, pv_sql($standby, qq{SELECT sum(confl_snapshot) > $conflicts FROM pg_stat_database_conflicts}) eq 't' ? 'canceled' :
		  $reader->query("SELECT count(*), sum(v) FROM $table") eq $before ? 'fine' : 'misled';
		eval { $reader->quit };
	}
	return "@canceled";
}

is(cancels('', { vacuum_freeze_table_age => 0, vacuum_freeze_min_age => 40 }), 'fine fine', 'a reader and an aggressive vacuum of old rows');
is(cancels(', FREEZE', {}), $version < 16 ? 'canceled canceled' : 'fine fine', 'a reader and old rows that are frozen');
is(cancels(', FREEZE', {}, 'SELECT count(*) FROM (SELECT FROM $T WHERE id % 3 = 0 FOR UPDATE) x'),
	$version < 16 ? 'canceled canceled' : 'fine fine', 'a reader and frozen rows that were locked');
is(cancels('', {}, 'INSERT INTO $T SELECT i, 0 FROM generate_series(3001, 3040) i', 'DELETE FROM $T WHERE id > 3000'),
	'fine fine', 'a reader and rows deleted by their inserter');
is(cancels('', {}, 'DELETE FROM $T WHERE id > 3000 - 40'), 'canceled canceled', 'a reader and rows that are removed');

pv_no_crash($_, $_->name) for $primary, $standby;
$standby->stop;
$primary->stop;
done_testing();
