# Recovery and standbys: what a vacuum has logged, a crashed server and a standby must
# replay to the same pages, and readers on the standby must see the rows that they saw.

use strict;
use warnings FATAL => 'all';

use FindBin;
use lib $FindBin::RealBin;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use PvPages;
use PvTest;
use Test::More;

# With checksums, setting a hint bit logs an image of the page, so that the next record
# needs none.
my $primary = pages_node('primary', "wal_consistency_checking = 'all'\nwal_keep_size = '2GB'\n", allows_streaming => 1, extra => ['-k']);
$primary->backup('base');
my $standby = PostgreSQL::Test::Cluster->new('standby');
$standby->init_from_backup($primary, 'base', has_streaming => 1);
$standby->append_conf('postgresql.conf', "max_standby_streaming_delay = -1\nhot_standby_feedback = off\nwal_retrieve_retry_interval = 100ms\n");
$standby->start;

# Only a vacuumed table is not changed by reading it.
my $digest = q{SELECT pages.digest('ours')};
sub standby_is_same
{
	my ($what) = @_;
	pv_catch_up($primary, $standby);
	is(pv_sql($standby, $digest), pv_sql($primary, $digest), "$what: the table is the same on the standby");
	# The check functions of pg_visibility fail an assertion of core in recovery, from 17 on.
	# The digest has the bits of the map.
	is(pv_sql($standby, q{SELECT * FROM verify_heapam('ours', check_toast => true)}), '', "$what: the table is whole on the standby");
	return;
}

my $n = 500;
for my $crash (0 .. 3)
{
	connect_all();
	for (1 .. 5)
	{
		trial($seed + $n++, 0) or last;
		standby_is_same('trial ' . ($seed + $n - 1));
	}
	disconnect_all();
	last if $crash == 3;
	pv_sql($primary, q{SELECT pg_logical_emit_message(true, 'pages', 'x')});
	my $before = pv_sql($primary, $digest);
	$primary->stop('immediate');
	$primary->start;
	is(pv_sql($primary, $digest), $before, "crash $crash: after recovery the table is the same");
	is(pv_findings($primary, 'ours'), '', "crash $crash: the table is whole");
}

# Tests: the WAL of a vacuum on the primary is not replayed on the standby before a reader
# there has ended; else the reader would lose rows or see rows that were inserted later.
sub read_beside
{
	my ($what, $change, %set) = @_;
	my $count = 'SELECT count(*), sum(id), sum(v) FROM ours';
	my $reader = $standby->background_psql('postgres', on_error_stop => 1);

	pv_catch_up($primary, $standby);
	my $before = $reader->query_safe("BEGIN ISOLATION LEVEL REPEATABLE READ; $count");
	$change->();
	my $after = pv_sql($primary, $count);
	pv_sql($primary, join '', (map { "SET $_ = $set{$_};" } sort keys %set), q{SELECT parvacuum_run('ours', workers => 2)});
	isnt($after, $before, "$what: the rows have changed on the primary");
	my $lsn = pv_sql($primary, q{SELECT pg_logical_emit_message(true, 'pages', 'x'); SELECT pg_current_wal_lsn()}) =~ s/.*\n//r;
	my $waits = q{SELECT count(*) FROM pg_stat_activity WHERE backend_type = 'startup' AND wait_event = 'RecoveryConflictSnapshot'};
	ok($standby->poll_query_until('postgres', "SELECT ($waits) = 1 OR pg_last_wal_replay_lsn() >= '$lsn'"), "$what: replay goes on or waits");
	is(pv_sql($standby, $waits), 1, "$what: replay waits for the reader");
	is($reader->query_safe($count), $before, "$what: the reader sees the same rows as before");
	$reader->query_safe('COMMIT');
	$reader->quit;
	standby_is_same($what);
	is(pv_sql($standby, $count), $after, "$what: afterwards the standby has the rows of the primary");
	return;
}

fixed(2000, 50);
read_beside('chains', sub { run(transaction('COMMIT', 'UPDATE $T SET v = v + 1 WHERE id % 3 = 0')) for 1 .. 2 });
fixed(2000, 50);
read_beside('chains that end', sub {
	run(transaction('COMMIT', 'UPDATE $T SET v = v + 1 WHERE id % 3 = 0'));
	run(transaction('COMMIT', 'DELETE FROM $T WHERE id % 3 = 0'));
});
fixed(2000, 50);
read_beside('chains by multixacts', sub {
	run(transaction('COMMIT', 'SELECT count(*) FROM (SELECT FROM $T WHERE id % 3 = 0 FOR KEY SHARE) x', 'SAVEPOINT s',
		'UPDATE $T SET v = v + 1 WHERE id % 3 = 0', 'RELEASE s'))
});
fixed(2000, 50);
read_beside('dead rows', sub { run(transaction('COMMIT', 'DELETE FROM $T WHERE id % 3 = 0')) });

# Rows are dead before the reader begins, and rows that are frozen are inserted after that.
# They are so few that no page is full, because a full page would be pruned when it is read.
# Hint bits are set before the checkpoint, because setting one would log the image of the
# page, and freezing would need none any more.
my $young = 'INSERT INTO $T SELECT i, 0 FROM generate_series(2001, 2060) i';
old_and_young();
run(transaction('COMMIT', 'DELETE FROM $T WHERE id % 10 = 0'));
read_beside('frozen for an image', sub { run(transaction('COMMIT', $young)); run(both('SELECT count(*) FROM $T')); run('CHECKPOINT') });
like(frozen_pages('ours'), $version < 16 ? qr/^0 of/ : qr/^(\d+) of \1$/, 'frozen for an image: from 16 on all pages are frozen');
old_and_young();
read_beside('frozen with others', sub { run(transaction('COMMIT', $young)); run(both('SELECT count(*) FROM $T')); run('CHECKPOINT') },
	vacuum_freeze_min_age => 30);
is(pv_sql($node, $of_ages =~ s/\$T/ours/gr), 't t t', 'frozen with others: all rows are frozen');

# The visibility map is removed.  The pages are marked as all-visible still, so only the map
# has to be changed.
fixed(2000, 50);
run('VACUUM (FREEZE) ours');
for my $workers (0, 2)
{
	run(q{SELECT pg_truncate_visibility_map('ours'); CHECKPOINT});
	pv_sql($primary, "SELECT parvacuum_run('ours', workers => $workers)");
	like(frozen_pages('ours'), qr/^(\d+) of \1$/, "$workers workers: the map is complete again");
	is(pv_findings($primary, 'ours'), '', "$workers workers: the table is whole with the new map");
	standby_is_same("$workers workers: the new map");
}

pv_no_crash($_, $_->name) for $primary, $standby;
unlike(slurp_file($standby->logfile), qr/inconsistent page/, 'each page was replayed with the same result');
$standby->stop;
$primary->stop;
done_testing();
