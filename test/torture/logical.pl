# Logical replication of tables that are vacuumed all the time, on the publisher and on the
# subscriber: at the end of each round both have the same rows.  And slots: rows of catalog
# tables that a slot needs stay, and a vacuum that takes them away invalidates the slot of a
# standby, each where a vacuum by core does so.

use strict;
use warnings FATAL => 'all';

use FindBin;
use lib $FindBin::RealBin, "$FindBin::RealBin/../t";
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use PvLoad;
use PvTest;
use PvTorture;
use Test::More;
use Time::HiRes qw(time);

my %done = map { $_ => 0 } qw(rounds vacuums transactions rows slots);
my $publisher = pv_node('publisher', allows_streaming => 'logical');
$publisher->append_conf('postgresql.conf', "max_connections = 40\nwal_keep_size = '1GB'\n");
$publisher->start;
my $subscriber = pv_node('subscriber', allows_streaming => 'logical');
$subscriber->append_conf('postgresql.conf', "max_connections = 40\n");
$subscriber->start;
for ($publisher, $subscriber)
{
	pv_setup($_);
	load_create($_);
	pv_sql($_, 'ALTER TABLE ledger ADD seq bigserial PRIMARY KEY');
}

#
# Slots: twins that are catalogs for logical decoding, and twins that are not
#
for my $catalog ('on', 'off')
{
	for my $name (qw(stock ours))
	{
		pv_sql($publisher, "CREATE TABLE ${name}_$catalog (id int PRIMARY KEY, v int) WITH (autovacuum_enabled = off, user_catalog_table = $catalog);
			INSERT INTO ${name}_$catalog SELECT i, 0 FROM generate_series(1, 2000) i");
	}
	pv_sql($publisher, "ALTER TABLE ours_$catalog SET (parvacuum.enabled)");
}

# How many rows of a table a vacuum has left that are dead, but still needed
sub recently_dead
{
	my ($table) = @_;
	my ($rc, $out, $err) = $publisher->psql('postgres', "VACUUM (VERBOSE, INDEX_CLEANUP on, PARALLEL 2) $table");
	my $engine = $err =~ /engine: parvacuum/ ? 'ours' : 'stock';
	is($engine, $table =~ s/_.*//r, "$table is vacuumed by $engine");
	return $err =~ /(\d+) are dead but not yet removable/ ? $1 : 'none';
}

pv_sql($publisher, q{SELECT pg_create_logical_replication_slot('held', 'pgoutput')});
for my $table (qw(stock_on ours_on stock_off ours_off))
{
	pv_sql($publisher, "UPDATE $table SET v = v + 1 WHERE id % 4 = 0; DELETE FROM $table WHERE id % 10 = 1");
	is(recently_dead($table), $table =~ /on$/ ? 700 : 0, "$table: a slot keeps rows of catalogs only");
}
pv_sql($publisher, q{SELECT pg_drop_replication_slot('held')});
is(recently_dead($_), 0, "$_: without the slot all dead rows are removed") for qw(stock_on ours_on);
is(pv_findings($publisher, $_), '', "$_ is whole") for qw(stock_on ours_on ours_off);

# On 16 and later a standby can have slots of its own.
if ($publisher->pg_version >= 16)
{
	$publisher->backup('base');
	my $standby = PostgreSQL::Test::Cluster->new('standby');
	$standby->init_from_backup($publisher, 'base', has_streaming => 1);
	$standby->append_conf('postgresql.conf', "hot_standby_feedback = off\nwal_retrieve_retry_interval = 100ms\n");
	$standby->start;
	for my $table (qw(stock_off ours_off stock_on ours_on))
	{
		my $slot = "slot_$table";
		pv_catch_up($publisher, $standby);
		my $run = pv_start_run($standby, "SELECT pg_create_logical_replication_slot('$slot', 'pgoutput')");
		my $end = time + 120;
		while (time < $end)
		{
			pv_sql($publisher, 'SELECT pg_log_standby_snapshot()');
			$run->{handle}->pump_nb;
			last if !$run->{handle}->pumpable;
		}
		pv_finish($run) or diag $run->{err};
		pv_sql($publisher, "UPDATE $table SET v = v + 1; UPDATE $table SET v = v + 1 WHERE id % 3 = 0; VACUUM (PARALLEL 2, INDEX_CLEANUP on, TRUNCATE false) $table");
		pv_catch_up($publisher, $standby);
		is(pv_sql($standby, "SELECT conflicting FROM pg_replication_slots WHERE slot_name = '$slot'"), $table =~ /on$/ ? 't' : 'f',
			"$table: its vacuum " . ($table =~ /on$/ ? 'invalidates the slot of a standby' : 'does not invalidate the slot of a standby'));
		pv_sql($standby, "SELECT pg_drop_replication_slot('$slot')");
		$done{slots}++;
	}
	pv_no_crash($standby, 'the standby');
	$standby->stop;
}

#
# Rounds of load
#
pv_sql($subscriber, 'TRUNCATE account, ledger, doc');
pv_sql($publisher, 'CREATE PUBLICATION p FOR TABLE account, ledger, doc');
my $streaming = one_of('on', 'off');
pv_sql($subscriber, "CREATE SUBSCRIPTION s CONNECTION '${\$publisher->connstr} dbname=postgres' PUBLICATION p WITH (streaming = $streaming)");
$subscriber->wait_for_subscription_sync($publisher, 's');

my $rows = join ' UNION ALL ', map { "SELECT '$_', count(*), sum(hashtextextended($_\::text, 0)) FROM $_" } @tables;
my $seconds = $ENV{PV_SECONDS} ? 8 : 2;
my $stop = time + pv_seconds(1, 0);
my $n = 0;
do
{
	my $round = $seed + $n++;
	srand($round);
	my $what = "round by seed $round";
	my $bench = pv_start_pgbench($publisher, $seconds, 4, %load_scripts);
	my $end = time + $seconds;
	while (time < $end)
	{
		for my $node ($publisher, $subscriber)
		{
			my ($vacuums, $failed) = pv_repeat_until($node, time + 0.3, map { vacuum_statement() } 1 .. 10);
			is_deeply($failed, [], "$what: no vacuum has failed, on the " . $node->name);
			$done{vacuums} += $vacuums;
		}
	}
	$bench->{handle}->finish;
	my ($transactions) = $bench->{out} =~ /actually processed: (\d+)/;
	$done{transactions} += $transactions // 0;
	pv_catch_up($publisher, 's');
	my $expected = pv_sql($publisher, $rows);
	is(pv_sql($subscriber, $rows), $expected, "$what: the subscriber has the rows of the publisher");
	$done{rows} += (split /\|/, $_)[1] for split /\n/, $expected;
	for my $node ($publisher, $subscriber)
	{
		load_sums($node, "$what, " . $node->name);
		load_whole($node, "$what, " . $node->name);
	}
	$done{rounds}++;
} while (time < $stop && Test::More->builder->is_passing);

pv_figure($done{rounds}, 'rounds of logical replication of tables that are vacuumed on both sides');
pv_figure($done{vacuums}, 'vacuums and sweeps beside it');
pv_figure($done{transactions}, 'transactions replicated');
pv_figure($done{rows}, 'rows compared between publisher and subscriber');
pv_figure($done{slots}, 'slots of a standby beside a vacuum');
pv_no_crash($_, $_->name) for $publisher, $subscriber;
$subscriber->stop;
$publisher->stop;
done_testing();
