# A small /dev/shm, as in a container: the vacuum does more index scans, or has no
# workers and reports that, and leaves nothing behind.  The test runs in a mount namespace
# of its own, and is skipped where that is not possible.

use strict;
use warnings FATAL => 'all';

use FindBin;
use lib $FindBin::RealBin;
use Test::More;

# Before the modules below redirect the output
BEGIN
{
	my @namespace = qw(unshare --user --mount --map-current-user --keep-caps sh -c);
	my $mount = 'mount -t tmpfs -o size=64m tmpfs /dev/shm';

	if (!$ENV{PV_OWN_SHM})
	{
		plan skip_all => 'no mount namespace can be had here'
		  if system(@namespace, "($mount) >/dev/null 2>&1") != 0;
		$ENV{PV_OWN_SHM} = 1;
		exec @namespace, "$mount && exec \"\$@\"", 'sh', $^X, (map { "-I$_" } @INC), $0;
	}
}

use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use PvTest;
use Time::HiRes qw(sleep);

my $node = pv_node('shm');
$node->append_conf('postgresql.conf', "dynamic_shared_memory_type = posix\nshared_buffers = 512MB\n");
$node->start;
pv_setup($node);

sub set_size
{
	my ($size) = @_;
	is(system("mount -o remount,size=$size /dev/shm"), 0, "/dev/shm has $size now");
	return;
}

# Dead rows without a regular pattern need most of the store, and without statistics
# little is reserved for them.
$node->safe_psql('postgres', q{
	CREATE TABLE t (id int) WITH (autovacuum_enabled = off);
	INSERT INTO t SELECT generate_series(1, 4000000);
	CREATE INDEX ON t (id);
});
my $round = 0;

sub vacuum
{
	$round++;
	$node->safe_psql('postgres', "DELETE FROM t WHERE hashint4(id + $round) % 15 = 0");
	$node->safe_psql('postgres', "SELECT pg_stat_reset_single_table_counters('t'::regclass)");
	my ($rc, $out, $err) = $node->psql('postgres', q{SELECT workers_launched, index_scans, tuples_removed, dead_tuple_bytes FROM parvacuum_run('t', workers => 2)});
	is($rc, 0, 'the vacuum succeeds') or diag $err;
	note "workers, rounds, rows, bytes: $out";
	return split(/\|/, $out), $err;
}

sub segments { return scalar(my @files = glob '/dev/shm/*'); }

# The caller does not wait for the exit of its background leader, which may come a moment
# later.
sub is_nothing_left
{
	my ($before) = @_;
	for (1 .. 100)
	{
		last if segments() == $before;
		sleep 0.1;
	}
	is(segments(), $before, 'no shared memory remains');
	return;
}

vacuum();
sleep 1;
my $before = segments();
my ($workers, $rounds, $rows, $bytes, $err) = vacuum();
is("$workers|$rounds", '2|1', 'enough room: one index scan');
cmp_ok($bytes, '>', 300_000, 'enough room: the store has grown');
is_nothing_left($before);

set_size('3500k');
($workers, $rounds, $rows, $bytes, $err) = vacuum();
is($workers, 2, 'little room: the vacuum has workers');
cmp_ok($rounds, '>', 1, 'little room: more index scans');
cmp_ok($bytes, '<', 300_000, 'little room: the store has not grown');
is($err, '', 'little room: no message');
is_nothing_left($before);

set_size('2m');
($workers, $rounds, $rows, $bytes, $err) = vacuum();
is("$workers|$rounds", '0|1', 'hardly any room: no workers');
like($err, qr/WARNING:  not enough shared memory to vacuum table "t" with parallel workers/, 'hardly any room: reported');
like($err, qr{HINT:  Enlarge /dev/shm}, 'hardly any room: with a hint');
is_nothing_left($before);

set_size('64m');
($workers, $rounds) = vacuum();
is("$workers|$rounds", '2|1', 'enough room again: the same as before');
is($node->safe_psql('postgres', q{SELECT bt_index_check('t_id_idx', true); SELECT count(*) FROM verify_heapam('t')}), "\n0", 'the table is whole');

# Without bulk deletion an index needs no shared memory, however large it is.  This one has
# 4 TB, of which a few pages are not sparse.
$node->safe_psql('postgres', q{
	CREATE TABLE s (id int) WITH (autovacuum_enabled = off);
	INSERT INTO s SELECT generate_series(1, 1000);
	CREATE INDEX ON s (id);
});
my $index_path = $node->safe_psql('postgres', q{SELECT pg_relation_filepath('s_id_idx')});
$node->stop;
pv_lengthen($node, $index_path, 4096 * 131072);
$node->start;
my ($rc, $launched, $message) = $node->psql('postgres', q{SELECT workers_launched FROM parvacuum_run('s', workers => 2, index_cleanup => 'off')});
is("$launched$message", '2', 'an index of 4 TB that is not vacuumed takes no memory');
is($node->safe_psql('postgres', q{SELECT pg_relation_size('s_id_idx')}), 4 * 1024**4, 'the index has 4 TB');

# The memory that the store counts is the memory that it has allocated.  Its space is
# accessible through an extension for tests.
SKIP:
{
	my ($rc) = $node->psql('postgres', 'CREATE EXTENSION parvacuum_test');
	skip 'parvacuum_test is not installed', 13 if $rc != 0;

	set_size('512m');
	for my $case ([ 'half', 2, 1 ], [ 'few', 8, 4 ], [ 'half', 40, 2 ])
	{
		my ($shape, $mb, $handles) = @$case;
		my $psql = $node->background_psql('postgres', on_error_stop => 1);
		my $used = sub { my $sum = 0; $sum += -s $_ for glob '/dev/shm/*'; return $sum };
		my $empty = $used->();
		my $fill = "parvacuum_test_fill('$shape', h * 100000, 30000, h, h)";

		$psql->query_safe("SELECT parvacuum_test_create(100000000, $mb * 1048576, true, handles => $handles)");
		my $base = $psql->query_safe('SELECT memory FROM parvacuum_test_figures()');
		my @filled = split /\n/, $psql->query_safe("SELECT $fill FROM generate_series(0, $handles - 1) h");
		my $counted = $psql->query_safe('SELECT memory FROM parvacuum_test_figures()');
		my $allocated = $used->() - $empty + $base;

		note "$shape, $handles handles: $counted counted, $allocated allocated, segments of blocks: @filled";
		cmp_ok(abs($counted - $allocated), '<=', 0.05 * $counted, "$shape, $mb MB: the memory counted is the memory allocated");
		cmp_ok($counted, '<=', $mb * 1048576 + $handles * 8192, "$shape, $mb MB: the limit is kept");
		cmp_ok($counted, '>', $mb * 1048576 * 0.9, "$shape, $mb MB: the limit is used");
		$psql->quit;
		$node->poll_query_until('postgres', q{SELECT count(*) = 1 FROM pg_stat_activity WHERE backend_type = 'client backend'});
		is($used->(), $empty, 'no shared memory remains');
	}
}

# Room in main shared memory that min_dynamic_shared_memory has set aside is as good.
$node->append_conf('postgresql.conf', 'min_dynamic_shared_memory = 4MB');
$node->restart;
set_size('2m');
$before = segments();
($workers, $rounds, $rows, $bytes, $err) = vacuum();
is("$workers|$err", '2|', 'hardly any room in /dev/shm, but in main shared memory: workers');
cmp_ok($bytes, '>', 300_000, 'the store grows there');
is_nothing_left($before);

pv_no_crash($node, 'the server');
$node->stop;
done_testing();
