# A cluster whose transaction IDs and multixacts are moved on by pg_resetwal, from one age to
# the next: to 200 million before PostgreSQL stops, into the range in which it warns, to
# where it has stopped, and across 2^31 and 2^32.  At each age all tables are old.  They are
# vacuumed by commands, by autovacuum to prevent wraparound, with and without the failsafe,
# or by the scheduler.  Then no row is gone, our table has the relfrozenxid and relminmxid
# of its twin, and the cluster is out of danger.

use strict;
use warnings FATAL => 'all';

use FindBin;
use lib $FindBin::RealBin, "$FindBin::RealBin/../t";
use List::Util qw(shuffle);
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use PvTest;
use PvTorture;
use Test::More;
use Time::HiRes qw(time);

# A database stops to assign transaction IDs this far from its oldest one.
my $wrap = 2**31 - 1;
my $stop = $wrap - 3_000_000;

my $node = pv_node('torture_age');
my $version = $node->pg_version->major;

# From this age of multixacts on the failsafe begins in all rounds.
my $multi_failsafe_at = 2_100_000_000;

# The server warns before it stops, from here on.
my $warn = $version >= 19 ? 100_000_000 : 40_000_000;

$node->append_conf('postgresql.conf', q{
autovacuum_naptime = 1s
autovacuum_vacuum_cost_delay = 0
parvacuum.enabled = on
parvacuum.autovacuum_workers = 2
parvacuum.scheduler_workers = 1
parvacuum.history_size = 1000
log_statement = none
log_error_verbosity = default
});
$node->start;
pv_setup($node);

sub sql { return pv_sql($node, @_); }
sub quietly { return sql('SET client_min_messages = error', @_); }
sql(q{CREATE TABLE locked AS SELECT 1 AS i});
sql(q{ALTER DATABASE template0 ALLOW_CONNECTIONS true});
my $burns = sql(q{SELECT count(*) FROM pg_available_extensions WHERE name = 'xid_wraparound'});
sql('CREATE EXTENSION xid_wraparound') if $burns;

my %figure = map { $_ => 0 } qw(ages twins failsafe warned vacuums wrapped moved);
my @old = map { "old_$_" } 1 .. 4;

#
# Moving the cluster on
#

# Make a segment of a simple LRU file as long as it can be, with zeros at the end.
sub make_segment
{
	my ($dir, $name) = @_;
	my $path = $node->data_dir . "/$dir/$name";
	open my $file, '>>', $path or die "$path: $!";
	print $file "\0" x (32 * 8192 - -s $path);
	close $file or die;
	return;
}

sub control
{
	my ($out) = run_command([ 'pg_controldata', $node->data_dir ]);
	my ($epoch, $xid) = $out =~ /NextXID: +(\d+):(\d+)/;
	my ($multi) = $out =~ /NextMultiXactId: +(\d+)/;
	my ($offset) = $out =~ /NextMultiOffset: +(\d+)/;
	my ($oldest_multi) = $out =~ /oldestMultiXid: +(\d+)/;
	my ($oldest) = $out =~ /oldestXID: +(\d+)/;
	return (xid => $epoch * 2**32 + $xid, multi => $multi, offset => $offset, oldest => $oldest, oldest_multi => $oldest_multi);
}

sub set_conf
{
	my (%settings) = @_;
	$node->append_conf('postgresql.conf', join '', map { "$_ = '$settings{$_}'\n" } sort keys %settings);
	return;
}

# Transaction IDs and multixacts count modulo 2^32 and leave out the first numbers.
sub normal { my ($n, $first) = @_; $n %= 2**32; return $n < $first ? $first : $n; }

# Stop the server, and start it with these next numbers.
sub move
{
	my ($xid, $multis, $members, %settings) = @_;
	$node->stop('fast');
	my %now = control();
	my $next = normal($xid, 3);
	my $multi = normal($now{multi} + $multis, 1);
	my $offset = $version >= 19 ? $now{offset} + $members : ($now{offset} + $members) % 2**32;
	$offset = 1 if $offset == 0;
	command_ok([ 'pg_resetwal', '-x', $next, '-e', int($xid / 2**32), '-m', "$multi,$now{oldest_multi}", '-O', $offset, $node->data_dir ],
		'the next numbers are set') or diag "$xid $multi $offset";
	make_segment('pg_xact', sprintf '%04X', $next >> 20);
	make_segment('pg_multixact/offsets', sprintf '%04X', $multi >> ($version >= 19 ? 15 : 16));
	make_segment('pg_multixact/members', sprintf $version >= 19 ? '%015X' : '%04X', int($offset / 52352));
	$figure{moved} += $xid - $now{xid};
	set_conf(%settings);
	$node->start;
	return;
}

# Where the cluster is now, by its own count of transactions
sub next_xid { return sql('SELECT pg_snapshot_xmax(pg_current_snapshot())'); }

sub use_up
{
	my ($n) = @_;
	quietly("DO \$\$ BEGIN FOR i IN 1 .. $n LOOP PERFORM pg_current_xact_id(); COMMIT; END LOOP; END \$\$");
	return;
}

#
# Tables
#
my @digests = map { "(SELECT count(*) || ' ' || coalesce(sum(hashtextextended(t::text, 0)), 0) FROM $_ t)" } qw(stock ours), @old;
my $digests = 'SELECT ' . join ', ', @digests;

# Twins with a random history, and tables that are older by their relfrozenxid.  Whatever
# is older than it is: the rows may be younger.
sub make_tables
{
	my $kind = one_of(qw(multixacts updates locked aborted toast fifth multixacts));
	my $indexes = one_of(q{'btree'}, q{'btree', 'gin'}, q{'btree', 'hash'}, q{'btree', 'gist'});
	sql("\\o /dev/null\nSET client_min_messages = error;\nSELECT * FROM oracle.make_twins('$kind', 3000, ARRAY[$indexes], 100) \\gexec\n");
	quietly('ALTER TABLE stock SET (parvacuum.enabled = false)');
	# Autovacuum leaves these alone until they are old, so that they stay as old as they are made.
	for my $table (@old)
	{
		quietly("DROP TABLE IF EXISTS $table",
			"CREATE TABLE $table (id int PRIMARY KEY, pad text) WITH (autovacuum_enabled = false)",
			"INSERT INTO $table SELECT i, repeat('o', 100) FROM generate_series(1, 300) i",
			"DELETE FROM $table WHERE id % 3 = 0");
	}
	return $kind;
}

# Make the old tables older than the others, each by another number.  The numbers differ by so
# much that it does not matter in which order the tables are queued.  Returns their names,
# the oldest first.
sub make_older
{
	my ($room) = @_;
	my @steps = shuffle(1 .. @old);
	my %by = map { $_ => 1 + int($room * (shift(@steps) + rand 0.3) / (@old + 1)) } @old;
	quietly(map { "UPDATE pg_class SET relfrozenxid = ((relfrozenxid::text::bigint - $by{$_} + 4294967296) % 4294967296)::text::xid
		WHERE relname = '$_' AND relfrozenxid::text::bigint > $by{$_} + 3" } @old);
	return split /\n/, quietly(q{SELECT relname FROM pg_class WHERE relname ~ '^old_\d$' ORDER BY age(relfrozenxid) DESC});
}

#
# Tests
#
my $what;
my $good;

sub good_if
{
	my ($ok, $which, @why) = @_;
	return 1 if $ok;
	$good = 0;
	ok(0, "$what: $which");
	diag map { "$_\n" } @why;
	return 0;
}
sub equal { my ($got, $expected, $which) = @_; return good_if($got eq $expected, $which, "got $got", "expected $expected"); }

# The vacuum of all tables has ended.
sub until_young
{
	my $young = q{SELECT count(*) FROM pg_database WHERE age(datfrozenxid) > 1000000 OR mxid_age(datminmxid) > 1000000};
	return good_if(pv_await($node, $young, 0), 'all databases are young again',
		sql('SELECT datname, age(datfrozenxid), mxid_age(datminmxid) FROM pg_database'),
		sql('SELECT oid::regclass, age(relfrozenxid), mxid_age(relminmxid) FROM pg_class WHERE relfrozenxid <> 0 ORDER BY age(relfrozenxid) DESC LIMIT 5'), pv_processes($node));
}

# Compare the twins.  The second argument is how: "equal"; "near" if other transactions ran
# between both vacuums, and so their ages differ by some; else ours may be younger.
sub compare_twins
{
	my ($when, $how) = @_;
	my $some = $how eq 'near' ? 20_000 : 0;
	equal(pv_differences($node, $some ? qw(relfrozenxid relminmxid) : ()), '', "$when: our table equals its twin");
	for my $f ([ 'age', 'relfrozenxid' ], [ 'mxid_age', 'relminmxid' ])
	{
		# by one statement, because others use up transaction IDs
		my ($stock, $ours) = split /\|/, sql(sprintf q{SELECT %1$s(s.%2$s), %1$s(o.%2$s) FROM pg_class s, pg_class o WHERE s.relname = 'stock' AND o.relname = 'ours'}, @$f);
		good_if($how eq 'equal' ? $stock == $ours : $ours <= $stock + $some, "$when: $f->[1] is as old as that of its twin", "stock $stock, ours $ours");
	}
	$figure{twins}++;
	return;
}

sub vacuum_everything
{
	my ($out, $err) = run_command([ 'vacuumdb', '-q', '--all', '--freeze', '-h', $node->host, '-p', $node->port ]);
	return good_if($err !~ /error|must be vacuumed/i, 'vacuumdb succeeds', $err);
}

# Vacuums by commands: the plan says what they do, and both leave the same.
sub by_command
{
	# young rows, which are not frozen, by one transaction on both tables
	quietly('DO $$ BEGIN UPDATE stock SET v = v + 1 WHERE id % 30 = 7; UPDATE ours SET v = v + 1 WHERE id % 30 = 7; END $$');
	use_up(20);
	my $plan = sql(q{SELECT aggressive, new_relfrozenxid, age(oldest_xmin), age(relfrozenxid) FROM parvacuum_plan('ours') WHERE relid = 'ours'::regclass});
	my ($aggressive, $new, $xmin, $before) = split /\|/, $plan;
	good_if($aggressive eq 't' && $before > 1_000_000, 'the plan is aggressive', $plan);
	my $workers = int rand 4;
	my ($rc, $out, $err) = $node->psql('postgres', qq{VACUUM (PARALLEL 0, INDEX_CLEANUP on) stock;
		SELECT relfrozenxid_advanced FROM parvacuum_run('ours', workers => $workers, index_cleanup => 'on') WHERE relid = 'ours'::regclass});
	equal($out, 't', "a run with $workers workers succeeds") or diag $err;
	$figure{vacuums}++;
	compare_twins('after commands', $version < 16 ? 'equal' : 'younger');
	my $after = sql(q{SELECT age(relfrozenxid) FROM pg_class WHERE relname = 'ours'});
	# others may have used transaction IDs since the plan
	my $planned = $new eq '' ? -1 : sql("SELECT age('$new'::xid) - age(relfrozenxid) FROM pg_class WHERE relname = 'ours'");
	good_if($planned >= 0 && $after < 10_000 && $xmin < 10_000, 'the plan had the new relfrozenxid', $plan, $after);
	good_if($after >= 20, 'the young rows are not younger than relfrozenxid', $after) if $version < 16;
	vacuum_everything();
	return until_young();
}

# The server starts autovacuum by itself.
sub by_autovacuum
{
	my ($failsafe) = @_;
	until_young() or return;

	# the databases may be young a moment before the last vacuum is reported
	good_if(pv_await($node, q{SELECT count(*) FROM pg_stat_activity WHERE backend_type = 'autovacuum worker'}, 0), 'autovacuum ends');
	my $log = pv_new_log($node);
	for my $table (qw(stock ours))
	{
		my $is = $log =~ /bypassing nonessential maintenance of table "postgres\.public\.$table" as a failsafe/ ? 1 : 0;
		equal($is, $failsafe ? 1 : 0, "failsafe of $table");
	}
	$figure{failsafe} += $failsafe;
	compare_twins('after autovacuum', 'near');
	equal(sql(q{SELECT count(*) > 0, bool_and(outcome = 'done'), bool_and(wraparound), bool_and(relfrozenxid_advanced), max(age(oldest_xmin)) < 100000
		FROM (SELECT DISTINCT ON (relname) * FROM parvacuum_history WHERE relname IN ('ours', 'old_1', 'old_4') AND started_by = 'autovacuum' AND by_engine
			ORDER BY relname, start_time) first}), 't|t|t|t|t', 'history has these vacuums');
	$figure{vacuums} += sql(q{SELECT count(*) FROM parvacuum_history WHERE started_by = 'autovacuum' AND by_engine});
	return 1;
}

# The scheduler vacuums the oldest first.  Without names their order is not looked at.
sub by_scheduler
{
	my (@oldest_first) = @_;
	pv_reload_with($node, 'parvacuum.scheduler' => 'on');
	my $old = join ', ', map { "'$_'" } @old, 'ours';
	good_if(pv_await($node, "SELECT count(DISTINCT relid) FROM parvacuum_history WHERE started_by = 'scheduler' AND outcome = 'done' AND relname IN ($old)", 5),
		'the scheduler vacuums all tables', sql('TABLE parvacuum_queue'));
	pv_reload_with($node, 'parvacuum.scheduler' => 'off');
	$figure{vacuums} += 5;
	my $order = sql(q{SELECT string_agg(relname, ' ' ORDER BY start_time) FROM (SELECT relname, min(start_time) AS start_time FROM parvacuum_history
		WHERE started_by = 'scheduler' AND relname ~ '^old_\d$' GROUP BY relname) h});
	equal($order, "@oldest_first", 'the oldest come first') if @oldest_first;
	good_if(pv_await($node, q{SELECT count(*) FROM pg_stat_activity WHERE backend_type = 'parvacuum scheduler worker'}, 0), 'the scheduler has ended');
	sql('VACUUM (PARALLEL 0) stock');
	compare_twins('after the scheduler', 'near');
	vacuum_everything();
	return until_young();
}

# Move to an age, and get out of it again.
sub age_round
{
	my ($how, $jump, $target) = @_;
	$good = 1;
	my $kind = make_tables();
	$jump = $target ? $target - next_xid() : $jump;
	my $automatic = $how =~ /autovacuum|failsafe/;
	my @oldest_first = make_older($how eq 'scheduler' ? int($jump / 100) : 1000);
	my $before = quietly($digests);

	# Autovacuum starts by itself beyond these ages, and is not to start for the others.
	my $start_at = $automatic ? int($jump * (0.3 + rand 0.3)) : int($jump * 1.05);
	my $failsafe_at = $how eq 'failsafe' ? int($jump * (0.7 + rand 0.2)) : 2_100_000_000;
	my $multis = $automatic ? one_of(1000, 300_000_000, $stop - 10_000_000) : one_of(1000, 300_000_000, 1_800_000_000);
	my $members = $automatic ? one_of(1000, 3_000_000_000, 2**32 - 3_000_000) : one_of(1000, 1_000_000_000, 2_100_000_000);

	# If core cannot tell how many members there are, all tables are equally in danger.
	($multis, $members) = (0, 0) if $how eq 'scheduler' && chance(0.7);
	$start_at = 2_000_000_000 if $start_at > 2_000_000_000;
	$start_at = 100_000 if $start_at < 100_000;
	my %settings = (autovacuum_freeze_max_age => $start_at, vacuum_failsafe_age => $failsafe_at,
		autovacuum_multixact_freeze_max_age => $automatic ? 200_000_000 : 2_000_000_000,
		vacuum_multixact_failsafe_age => $multi_failsafe_at, 'parvacuum.scheduler' => 'off',
		# a table that autovacuum is at work on waits until later
		autovacuum => $how eq 'scheduler' ? 'off' : 'on');
	my $position = next_xid() + $jump;
	$what = "round $figure{ages}, $how of $kind $jump transactions, $multis multixacts and $members members later, at $position";
	note $what;
	pv_new_log($node);
	quietly(q{SELECT parvacuum_history_reset()});
	move($position, $multis, $members, %settings);

	# Core logs how far it is from stopping.
	my $log = slurp_file($node->logfile, pv_log_seen($node));
	if ($jump > $wrap - $warn + 10_000)
	{
		good_if($log =~ /must be vacuumed within/, 'the server warns', $log);
		$figure{warned}++;
	}
	use_up(600) unless $automatic;
	my $done = $automatic ? by_autovacuum($jump > $failsafe_at || $multis > $multi_failsafe_at) : $how eq 'scheduler' ? by_scheduler($multis ? () : @oldest_first) : by_command();

	# Out of danger: transactions and multixacts are assigned without a warning.
	if ($done)
	{
		my ($rc, $out, $err) = $node->psql('postgres', q{BEGIN; SELECT pg_current_xact_id(); SELECT count(*) FROM (SELECT FROM locked FOR KEY SHARE) s;
			SAVEPOINT a; SELECT count(*) FROM (SELECT FROM locked FOR NO KEY UPDATE) s; ROLLBACK});
		equal($err, '', 'there is no warning any more');
		use_up(600);
		$figure{wrapped}++ if int($position / 2**31) != int(next_xid() / 2**31);
		quietly('SELECT consume_xids(1000000)') if $burns;
		equal(quietly(q{SELECT count(*) FROM parvacuum_check() WHERE name = 'wraparound'}), 0, 'the check finds no danger');
		equal(quietly(q{SELECT count(*) FROM parvacuum_blockers WHERE xmin_age NOT BETWEEN 0 AND 2000000 OR age(xmin) NOT BETWEEN 0 AND 2000000}), 0, 'blockers are young');

		# by_command() compares the rows it updates by itself
		my $after = quietly($digests);
		equal($after, $before, 'all rows are there') if $how ne 'command';
		equal(($after =~ /^([^|]+)\|/)[0], ($after =~ /^[^|]+\|([^|]+)/)[0], 'both twins have the same rows') if $how eq 'command';
		my ($ok) = $node->psql('postgres', 'VACUUM (PARALLEL 0, INDEX_CLEANUP on) stock; VACUUM (PARALLEL 2, INDEX_CLEANUP on) ours');
		equal($ok, 0, 'the next vacuum succeeds');
		compare_twins('after the next vacuum', 'near');
		for my $table (@old)
		{
			equal(pv_findings($node, $table), '', "$table is whole");
		}
	}
	$figure{ages}++;
	ok(1, $what) if $good;
	diag "seed $seed, $what" unless $good;
	return $good;
}

# The first rounds pass through all ages of note; the others are made up.
my $end = time + pv_seconds(1, 8);
my @first = ([ 'command', $stop - 200_000_000 ], [ 'scheduler', 0, 2**31 - 100 ], [ 'failsafe', $stop - 20_000_000 ], [ 'autovacuum', 0, 2**32 - 300 ]);
while (time < $end || @first)
{
	my ($how, $jump, $target) = @{ shift @first // [] };
	srand $seed * 1000 + $figure{ages};
	if (!$how)
	{
		$how = one_of(qw(command scheduler failsafe autovacuum failsafe));
		my ($from, $to) = $how =~ /command|scheduler/ ? (200_000_000, 1_900_000_000) : (300_000_000, $wrap - 2_500_000);
		$jump = chance(0.3) ? $to - int(rand 1_000_000) : $from + int rand($to - $from);

		# the next number at which the sign changes, if it is near enough
		my $now = next_xid();
		my $edge = (int($now / 2**31) + 1) * 2**31;
		$target = $edge - 10 - int rand 500 if $edge - $now > $from + 1000 && $edge - $now < $to && chance(0.8);
	}
	age_round($how, $jump, $target) or last;
}
SKIP:
{
	skip 'transactions are not used up in earnest, because the module xid_wraparound is not there', 1 unless $burns;
	pass('transactions were used up in earnest');
}
pv_figure($figure{ages}, 'ages passed through');
pv_figure(sprintf('%.1f', $figure{moved} / 1e9), 'billions of transaction IDs moved on');
pv_figure($figure{wrapped}, 'times across 2^31 or 2^32');
pv_figure($figure{vacuums}, 'vacuums of old tables');
pv_figure($figure{twins}, 'comparisons of relfrozenxid and relminmxid with those of a twin');
pv_figure($figure{failsafe}, 'ages at which the failsafe began');
pv_figure($figure{warned}, 'ages at which the server warned or had stopped');

pv_no_crash($node, 'the server');
$node->stop;
done_testing();
