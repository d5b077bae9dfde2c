# Standbys of a server under load that vacuums all the time.  Each round takes a base backup
# in the middle of a vacuum and makes a standby of it, which checks each page that it
# replays (wal_consistency_checking) while it is read.  At the end all pages of both are the
# same.  Then the standby is promoted in the middle of another vacuum, and the old primary
# is rewound to follow it.  In some rounds tables with random histories are vacuumed beside
# their twins: no conflict horizon may be newer than stock's.

use strict;
use warnings FATAL => 'all';

use FindBin;
use lib $FindBin::RealBin, "$FindBin::RealBin/../t";
use File::Copy qw(copy);
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use PvLoad;
use PvPages qw(pages_node connect_all disconnect_all trial $node);
use PvTest;
use PvTorture;
use Test::More;
use Time::HiRes qw(time);

my $load_seconds = $ENV{PV_SECONDS} ? 8 : 3;
my %done = map { $_ => 0 } qw(rounds records pages vacuums transactions reads trials backups promotions rewound);
my $checksums = chance(0.5);
my $names = 0;

my $primary = pages_node('node_0', qq{
wal_consistency_checking = 'all'
wal_compression = on
wal_keep_size = '3GB'
max_standby_streaming_delay = -1
wal_retrieve_retry_interval = 100ms
lock_timeout = '2min'
autovacuum_naptime = 1s
autovacuum_vacuum_threshold = 50
autovacuum_vacuum_scale_factor = 0.01
autovacuum_vacuum_cost_delay = 0
max_connections = 60
}, allows_streaming => 1, extra => $checksums ? ['-k'] : ['--no-sync']);
pv_sql($primary, 'CREATE EXTENSION pg_walinspect') if !pv_sql($primary, q{SELECT count(*) FROM pg_extension WHERE extname = 'pg_walinspect'});
pv_sql($primary, 'CREATE EXTENSION parvacuum_test');
load_create($primary);

# A standby from a base backup that is taken while a vacuum runs
sub make_standby
{
	my $run = load_slowly($primary, one_of(qw(account doc)));
	my $phase = one_of('scanning heap', 'vacuuming indexes', 'vacuuming heap');
	my $name = 'node_' . ++$names;

	$done{backups}++ if load_until_phase($primary, $run, $phase);
	$primary->backup($name);
	my $standby = PostgreSQL::Test::Cluster->new($name);
	$standby->init_from_backup($primary, $name, has_streaming => 1);
	system('rm', '-rf', $primary->backup_dir . "/$name");
	return ($standby, $run);
}

sub ends_well
{
	my ($run, $what) = @_;
	ok(pv_finish($run), "$what: the vacuum has succeeded") or diag $run->{err};
	return;
}

# The output of pgbench on the primary.  All its transactions must have succeeded.
sub load_ends
{
	my ($bench, $what) = @_;
	$bench->{handle}->finish;
	my ($n) = $bench->{out} =~ /actually processed: (\d+)/;
	$done{transactions} += $n // 0;
	unlike($bench->{err}, qr/ERROR|aborted/, "$what: no transaction has failed");
	return;
}

# That of the readers.  Those that were in the way of the replay may have been canceled.
sub readers_end
{
	my ($bench, $what) = @_;
	$bench->{handle}->finish;
	my ($n) = $bench->{out} =~ /actually processed: (\d+)/;
	$done{reads} += $n // 0;
	my @errors = grep { /ERROR|FATAL/ && !/due to conflict with recovery/ } split /\n/, $bench->{err};
	is(join("\n", @errors), '', "$what: readers on the standby see the same rows all the time");
	return;
}

# Load, vacuums and readers for some seconds
sub under_load
{
	my ($standby, $what) = @_;
	my $autovacuum = chance(0.4);
	my $option = join '; ', map { "ALTER TABLE $_ SET (autovacuum_enabled = " . ($autovacuum ? 'on' : 'off') . ')' } @tables;
	my @statements = map { vacuum_statement() } 1 .. 300;

	pv_sql($primary, $option);
	pv_reload_with($primary, autovacuum => 'on') if $autovacuum;
	my $bench = pv_start_pgbench($primary, $load_seconds, 4, %load_scripts);
	my $readers = pv_start_pgbench($standby, $load_seconds, 2, %load_readers);
	my ($n, $failed) = pv_repeat_until($primary, time + $load_seconds, @statements);
	is_deeply($failed, [], "$what: no vacuum has failed");
	$done{vacuums} += $n;
	load_ends($bench, $what);
	readers_end($readers, $what);
	if ($autovacuum)
	{
		pv_sql($primary, 'ALTER SYSTEM SET autovacuum = off; SELECT pg_reload_conf()');
		$primary->poll_query_until('postgres', q{SELECT count(*) = 0 FROM pg_stat_activity WHERE backend_type LIKE 'autovacuum%'});
	}
	return;
}

# Both servers are the same, and the tables are whole.
sub is_same
{
	my ($standby, $what) = @_;
	my ($differences, $n) = pages_differ($primary, $standby);
	is($differences, '', "$what: all pages of the standby are those of the primary");
	$done{pages} += $n;
	load_sums($standby, "$what, on the standby");
	is(pv_sql($standby, q{
		SELECT c, v.* FROM unnest(ARRAY['account', 'ledger', 'doc']::regclass[]) c, verify_heapam(c, check_toast => true) v}), '', "$what: the heaps are whole on the standby");
	pv_sql($standby, q{SELECT bt_index_check(indexrelid, true) FROM pg_index JOIN pg_class c ON c.oid = indexrelid
		WHERE c.relam = 403 AND indrelid IN ('account'::regclass, 'ledger'::regclass, 'doc'::regclass)});
	return;
}

# The records of pages that the standby has replayed since then; each has an image that was
# compared with the result
sub count_records
{
	my ($standby, $since) = @_;
	my $n = pv_sql($standby, qq{SELECT sum(count) FROM pg_get_wal_stats('$since', pg_last_wal_replay_lsn())
		WHERE "resource_manager/record_type" IN ('Heap', 'Heap2', 'Btree', 'Hash', 'Gin', 'Gist', 'SPGist', 'BRIN', 'Generic')});
	$done{records} += $n || 0;
	return;
}

# Promote the standby in the middle of a vacuum; the old primary goes on for a while.
sub promote_in_vacuum
{
	my ($standby, $what) = @_;
	my $bench = pv_start_pgbench($primary, 2, 3, %load_scripts);
	my $run = load_slowly($primary, one_of(qw(account doc)));
	my $phase = one_of('scanning heap', 'scanning heap', 'vacuuming indexes', 'vacuuming heap');
	my $running = load_until_phase($primary, $run, $phase);

	$standby->promote;
	$done{promotions}++ if $running;
	load_sums($standby, "$what, promoted");
	load_whole($standby, "$what, promoted");
	is($standby->psql('postgres', join '; ', map { "SELECT parvacuum_run('$_', workers => 2, index_cleanup => 'on')" } @tables), 0, "$what, promoted: it can vacuum");
	load_sums($standby, "$what, vacuumed after the promotion");
	load_whole($standby, "$what, vacuumed after the promotion");
	load_ends($bench, "$what, the old primary");
	ends_well($run, "$what, the old primary");
	return;
}

# Make the old primary a standby of the new one.
sub rewind
{
	my ($old, $new, $what) = @_;
	my $conf = $old->data_dir . '/postgresql.conf';
	my $kept = PostgreSQL::Test::Utils::tempdir . '/postgresql.conf';

	$old->stop(one_of('fast', 'immediate'));
	pv_sql($new, 'CHECKPOINT');
	copy($conf, $kept) or die "cannot copy $conf: $!";
	my ($out, $err) = run_command([ $old->config_data('--bindir') . '/pg_rewind', '--no-sync', '-D', $old->data_dir, '--source-server', $new->connstr('postgres') ]);
	ok($? == 0, "$what: pg_rewind has succeeded") or diag $out, $err;
	return 0 if $? != 0;
	copy($kept, $conf) or die "cannot copy $kept: $!";
	$old->enable_streaming($new);
	$old->start;
	$done{rewound}++;
	return 1;
}

sub round
{
	my ($n) = @_;
	srand($seed + $n);
	my $what = 'round by seed ' . ($seed + $n);
	my $feedback = chance(0.3);
	my $load = pv_start_pgbench($primary, $load_seconds / 2, 4, %load_scripts);
	my ($standby, $run) = make_standby();

	$standby->append_conf('postgresql.conf', 'hot_standby_feedback = ' . ($feedback ? 'on' : 'off') . "\nmax_standby_streaming_delay = " . one_of(-1, 0, '200ms') . "\n");
	my ($since) = slurp_file($standby->data_dir . '/backup_label') =~ m{^START WAL LOCATION: (\S+)};
	$standby->start;
	load_ends($load, $what);
	ends_well($run, $what);
	under_load($standby, $what);

	# Feedback moves the horizon at any time, also between the vacuums of twins.
	if (!$feedback)
	{
		$node = $primary;
		connect_all();
		for (1 .. ($ENV{PV_SECONDS} ? 4 : 2)) { trial(1000 * ($seed + $n) + $_, 0) and $done{trials}++; }
		disconnect_all();
		srand($seed + $n + 0.5);
	}
	load_whole($primary, $what);
	is_same($standby, $what);
	count_records($standby, $since);

	promote_in_vacuum($standby, $what);
	my $old = $primary;
	$primary = $standby;
	is_same($old, "$what, rewound") if rewind($old, $primary, $what);
	for ($old, $primary)
	{
		pv_no_crash($_, "$what, " . $_->name);
		unlike(slurp_file($_->logfile), qr/inconsistent page/, "$what: each page was replayed with the same result");
	}
	$old->teardown_node;
	$old->clean_node;

	# Checksums are switched while the server is stopped.
	if (chance(0.3))
	{
		$checksums = !$checksums;
		$primary->stop;
		command_ok([ $primary->config_data('--bindir') . '/pg_checksums', $checksums ? '--enable' : '--disable', '--no-sync', '-D', $primary->data_dir ], "$what: checksums are switched");
		$primary->start;
	}
	$done{rounds}++;
	return Test::More->builder->is_passing;
}

my $end = time + pv_seconds(1, 0);
my $n = 0;
do { round($n++) } while (time < $end && Test::More->builder->is_passing);

pv_figure($done{rounds}, 'rounds of base backup, standby, promotion and rewinding under load');
pv_figure($done{records}, 'records replayed with a comparison of the page');
pv_figure($done{pages}, 'pages compared between primary and standby');
pv_figure($done{backups}, 'base backups begun in mid-vacuum');
pv_figure($done{promotions}, 'promotions in mid-vacuum');
pv_figure($done{rewound}, 'old primaries rewound');
pv_figure($done{vacuums}, 'vacuums and sweeps replayed');
pv_figure($done{transactions}, 'transactions beside them');
pv_figure($done{reads}, 'transactions of readers on standbys');
pv_figure($done{trials}, 'twins with horizons that are not newer');
$primary->stop;
done_testing();
