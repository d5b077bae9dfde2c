# Crashes: in each round a process of the server is killed, or all are, while clients
# change rows and vacuums of all kinds run.  The moment is a random one, or one of the
# places where a vacuum can be stopped.  After recovery the ledger of the clients and the
# tables must agree, nothing may be left of the old processes, and the next vacuum works.

use strict;
use warnings FATAL => 'all';

use FindBin;
use lib $FindBin::RealBin, "$FindBin::RealBin/../t";
use POSIX ();
use List::Util qw(shuffle sum0);
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use PvCrash;
use PvLedger;
use PvTest;
use PvTorture;
use Test::More;
use Time::HiRes qw(sleep time);

plan skip_all => 'the kernel does not list the children of a process' if !-e "/proc/$$/task/$$/children";

my $clients = 3;
my @places = ('leader scan', 'scan', 'nbtree range', 'nbtree finish', 'nbtree deletion');

my $scheduler = "parvacuum.scheduler = on\nautovacuum_naptime = 1s\n";

# Who is killed: its title, and whether it stops at the places of a vacuum.  Without a
# title the whole server ends.
my %victim = (
	'session that vacuums' => { title => qr/^vac .*VACUUM/, stops => 1 },
	'background leader' => { title => qr/^parvacuum background leader/, stops => 1 },
	'parallel worker' => { title => qr/^parallel worker/, stops => 1 },
	'sweep' => { title => qr/^sweep .*SELECT/ },
	'scheduler worker' => { title => qr/^parvacuum scheduler worker/, stops => 1, needs => $scheduler },
	'launcher of parvacuum' => { title => qr/^parvacuum launcher/, needs => $scheduler },
	'autovacuum worker' => { title => qr/^autovacuum worker/, needs => "autovacuum = on\nautovacuum_naptime = 1s\nautovacuum_vacuum_cost_delay = 2ms\n" },
	'client' => { title => qr/^ledger .*(?:INSERT|UPDATE|DELETE|COMMIT|PREPARE)/ },
	'checkpointer' => { title => qr/^checkpointer/ },
	'WAL writer' => { title => qr/^walwriter/ },
	'startup process' => { recovery => qr/^startup/, how => 'all' },
	'server in recovery' => { recovery => qr/^startup/, how => 'quit' },
	'postmaster' => { how => 'postmaster' },
	'server, by SIGKILL' => { how => 'all', stops => 1 },
	'server, by SIGQUIT' => { how => 'quit', stops => 1 });

# Those that are chosen in turn, in random order; several stand for more places.
my @turns = (keys %victim, 'session that vacuums', 'background leader', ('parallel worker') x 2, 'server, by SIGKILL', 'server, by SIGQUIT', 'scheduler worker');
my @deck;

my $node = pv_node('crashes');
my $conf = $node->data_dir . '/postgresql.conf';
my $base_conf = slurp_file($conf);
my @all_tables = (ledger_tables(), qw(mark account));
my ($life, %killed, $at_place, $pages, $unlogged, $labels);
my $round = 0;

# What a round chooses does not depend on how often it had to wait before.
sub reseed { return srand $seed * 1000000 + $round * 10 + $_[0]; }

#
# Settings of one life of the server
#

# Write settings made up at random, with those that the victim needs.  After a crash the kind
# of shared memory must not change, because the server finds what is left by that.
my $shared_memory = 'posix';

sub configure
{
	my ($needs, $more, $clean) = @_;
	reseed(1);
	$shared_memory = one_of('posix', 'posix', 'mmap') if $clean;
	my $restarts = chance(0.5) ? 'on' : 'off';
	$life = { restarts => $restarts eq 'on', needs => $needs };
	my $minimal = chance(0.25);
	my $text = join "\n", $base_conf, "restart_after_crash = $restarts",
	  'shared_buffers = ' . one_of('4MB', '16MB', '128MB'), 'full_page_writes = ' . ($life->{no_images} ? 'off' : 'on'),
	  'wal_level = ' . ($minimal ? 'minimal' : one_of('replica', 'logical')), ($minimal ? 'max_wal_senders = 0' : ()),
	  "dynamic_shared_memory_type = $shared_memory", 'wal_compression = ' . one_of('on', 'off'),
	  'wal_log_hints = ' . one_of('on', 'off'), 'wal_consistency_checking = ' . (chance(0.2) ? "'all'" : "''"),
	  'log_statement = none', 'checkpoint_flush_after = 0', 'bgwriter_delay = 10ms', 'wal_writer_delay = ' . one_of('10ms', '200ms'), 'vacuum_freeze_min_age = ' . one_of(0, 50, 50000000), $needs, $more, '';
	open my $out, '>', $conf or die "cannot write $conf: $!";
	print $out $text;
	close $out;
	return;
}

sub start
{
	launch($node);
	return until_ready($node);
}

#
# The load
#

my @vacuumed = ('rows_main', 'rows_main', 'rows_tail', 'rows_hot', 'rows_toast', 'mark', 'unlogged_rows');

sub vacuum_script
{
	my ($place) = @_;
	my $text = "\\o /dev/null\n" . ($place ne '' ? "SET parvacuum.wait_at = '$place';\n" : '');
	for (1 .. 60)
	{
		my $table = $place =~ /nbtree/ ? 'rows_main' : one_of(@vacuumed);
		my $workers = $place ne '' ? 2 : int rand 4;
		my $cleanup = $place ne '' ? 'on' : one_of('on', 'on', 'auto', 'off');
		my $freeze = chance(0.3) ? 'true' : 'false';
		my $all = $place ne '' || chance(0.3) ? 'true' : 'false';
		my $arguments = "'$table', workers => $workers, index_cleanup => '$cleanup', freeze => $freeze, disable_page_skipping => $all";
		$text .= 'SET vacuum_cost_delay = ' . one_of(0, 0, 1) . ";\nSET vacuum_cost_limit = " . one_of(50, 200) . ";\nSET parvacuum.store_limit = " . one_of(-1, -1, 0) . ";\n";
		$text .= one_of("SELECT FROM parvacuum_run($arguments);\n", "CALL parvacuum($arguments);\n",
			("VACUUM (PARALLEL $workers, INDEX_CLEANUP $cleanup, FREEZE $freeze, DISABLE_PAGE_SKIPPING $all) $table;\n") x 2,
			$place ne '' ? () : ("SELECT FROM parvacuum_enqueue('$table');\n", 'CHECKPOINT;' . "\n", "ANALYZE $table;\n",
				"SET work_mem = '64kB'; SELECT count(*) FROM (SELECT i FROM generate_series(1, 30000) i ORDER BY -i OFFSET 0) x;\n"));
	}
	return $text;
}

sub enqueue_script { return join '', "\\o /dev/null\n", map { "SELECT parvacuum_enqueue('rows_main'), pg_sleep(0.05);\n" } 1 .. 200; }

sub sweep_script { return join '', "\\o /dev/null\n", map { 'SELECT FROM parvacuum_sweep(\'' . one_of('rows_main_v', 'rows_main_pkey', 'rows_hot_pkey', 'rows_tail_v') . "');\n" } 1 .. 200; }

# Start the clients, vacuums and sweeps.
sub start_load
{
	my ($who, $place) = @_;
	my %load;
	$load{clients} = [ map { spawn_psql($node, 'ledger', "client$_", ledger_script($_, 200), '-v', 'ON_ERROR_STOP=1') } 0 .. $clients - 1 ];
	if ($place ne '')
	{
		# psql shows a row as soon as it has it
		$load{gate} = spawn_psql($node, 'gate', 'gate', "SELECT pg_advisory_lock(28790);\nSELECT pg_sleep(600);\n");
		within($patience, sub { -s $load{gate}{out} || waitpid($load{gate}{pid}, POSIX::WNOHANG()) }) or die 'the gate cannot be closed';
	}
	$load{vacuums} = [ map { spawn_psql($node, 'vac', "vacuum$_", vacuum_script($place)) } 1 .. 2 ];
	push @{ $load{vacuums} }, spawn_psql($node, 'vac', 'enqueue', enqueue_script()) if $who eq 'scheduler worker';
	push @{ $load{vacuums} }, spawn_psql($node, 'sweep', 'sweep', sweep_script());
	return \%load;
}

# Wait for the end of the load.  Returns faults: what hangs, and errors of clients that no
# crash explains.
sub end_load
{
	my ($load) = @_;
	my @faults;
	for my $process (@{ $load->{clients} }, @{ $load->{vacuums} }, $load->{gate} // ())
	{
		my $status = reap($process);
		push @faults, "$process->{name} hangs" if !defined $status;
		my $err = slurp_file("$process->{out}.err");
		$err =~ s/^.*(?:terminating connection|connection to server|server closed the connection|the database system is|WARNING|DETAIL|HINT|NOTICE|probably means|before or while|Is the server running|current transaction|connection was lost).*\n//mg;
		push @faults, "$process->{name}: $err" if $process->{name} =~ /client/ && $err =~ /ERROR|FATAL|PANIC/;
	}
	return @faults;
}

#
# One round
#

# Kill the victim while the load runs.  Returns what was done.
sub kill_under_load
{
	my ($who, $place) = @_;
	my $victim = $victim{$who};
	my ($chosen, $done);

	if ($place ne '')
	{
		my $waits = ($victim->{title} // qr/^(?:vac|parvacuum|parallel worker)/);
		within(4, sub { ($chosen) = grep { $_->[1] =~ $waits && $_->[1] =~ /waiting$/ } children(); return defined $chosen; }, 0.002) or $place = '';
		sleep rand 0.03;
	}
	else
	{
		sleep 0.03 + rand 0.4;
	}
	if (my $how = $victim->{how})
	{
		crash($victim->{recovery} ? one_of('all', 'quit') : $how);
		$done = 1;
	}
	else
	{
		$done = within(8, sub {
			my @all = grep { $_->[1] =~ $victim->{title} } children();
			@all = grep { $_->[1] =~ /waiting$/ } @all if $place ne '';
			@all or return 0;
			sleep rand 0.01 if $place eq '';
			return crash('one', one_of(@all));
		}, 0.002);
	}

	# The victim has not come; so that the load ends, all are killed.
	crash('all') if !$done;
	$killed{ $done ? $who : 'server, by SIGKILL' }++ if !$victim->{recovery};
	$at_place++ if $done && $place ne '';
	return $done ? ($victim->{title} ? 'one' : 'whole') : 'whole';
}

# Start the server and kill it before it has recovered, as often as that succeeds, at most
# twice.  Returns whether the server is running.
sub crash_in_recovery
{
	my ($who) = @_;
	my $victim = $victim{$who};
	for (1 .. 2)
	{
		launch($node);
		my $startup;
		within($patience, sub {
			($startup) = grep { $_->[1] =~ $victim->{recovery} } children();
			return $startup || is_ready($node) || has_ended();
		}, 0.001);
		return until_ready($node) if !$startup;
		sleep rand 0.05;
		my $done = $who eq 'startup process' ? crash('one', $startup) : crash(one_of('all', 'quit', 'postmaster'));
		if (!$done)
		{
			crash('all');
		}
		else
		{
			$killed{$who}++;
		}
		until_down($node) or last;
	}
	return 0;
}

my $check_sql = q{
	SELECT sum(pg_relation_size(c.oid) / 8192) FROM pg_class c WHERE c.relname ~ '^(rows_|mark|account)' OR c.relname ~ '^pg_toast' AND relpages > 0;
	SELECT count(*) >= 0 FROM parvacuum_history;
	SELECT count(*) FROM (SELECT FROM parvacuum_stats) x WHERE false;
	SELECT string_agg(format('%s %s', objoid::regclass, label), '; ' ORDER BY objoid::regclass::text COLLATE "C") FROM pg_seclabel WHERE provider = 'parvacuum';
	SELECT (SELECT count(*) FROM unlogged_rows) || ' ' || (SELECT count(*) FROM unlogged_rows WHERE i > 0);
	SELECT count(*) FROM pg_prepared_xacts};

# What the oracle finds in tables
sub findings { return grep { $_ ne '' } pv_sql($node, join ';', map { "SELECT '$_', * FROM oracle.check_table('$_')" } @_); }

# What is wrong after recovery.  $lossless: the server was stopped cleanly.
sub faults_after
{
	my ($load, $lossless) = @_;
	my @faults = $load ? ledger_settle($node, $lossless, map { $_->{out} } @{ $load->{clients} }) : ();
	push @faults, ledger_findings($node);
	my ($n, $history, $stats, $options, $rows, $prepared) = split /\n/, pv_sql($node, $check_sql);
	$pages += $n;
	(my $expected = $labels) =~ s/(option enabled=true, workers=)\d+/$1 . ledger_workers()/e;
	push @faults, "the options are $options, not $expected" if $options ne $expected;
	push @faults, "the unlogged table has $rows rows" if $rows ne ($lossless ? "$unlogged $unlogged" : '0 0');
	push @faults, findings(@all_tables, 'unlogged_rows');
	my $left = remains($node);
	push @faults, "something is left: $left" if $left ne '';
	forget_old();
	return @faults;
}

# The next vacuum works, of the tables that were vacuumed and of others, and harms nothing.
sub faults_of_vacuum
{
	my @faults;
	reseed(2);
	my $table = one_of(ledger_tables(), 'unlogged_rows');
	my ($rc, $out, $err) = $node->psql('postgres', "SELECT count(*) > 0 FROM parvacuum_run('$table', workers => 2, index_cleanup => 'on', disable_page_skipping => true)",
		timeout => $patience);
	push @faults, "the vacuum of $table fails: $err" if $rc != 0 || $out ne 't';
	push @faults, findings($table);
	push @faults, ledger_findings($node);
	return grep { $_ ne '' } @faults;
}

# Stop the server cleanly and start it with other settings.
sub restart
{
	my ($needs, $more) = @_;
	$unlogged = pv_sql($node, 'INSERT INTO unlogged_rows SELECT i, i FROM generate_series(1, 50) i; SELECT count(*) FROM unlogged_rows');
	crash('none');
	system('pg_ctl', '-s', '-w', '-m', 'fast', '-D', $node->data_dir, 'stop') == 0 or return ('the server does not stop');
	until_down($node);
	my $left = remains($node);
	forget_old();
	if (chance(0.3))
	{
		$life->{checksums} = chance(0.5) ? '--enable' : '--disable';
		system("pg_checksums -N $life->{checksums} -D '" . $node->data_dir . "' >/dev/null 2>&1");
	}
	configure($needs, $more, 1);
	start() or return ('the server does not start');
	return ($left ne '' ? "after a stop something is left: $left" : (), faults_after(undef, 1));
}

sub one_round
{
	$round++;
	reseed(0);
	@deck = shuffle(sort @turns) if !@deck;
	my $who = shift @deck;
	my $victim = $victim{$who};
	my $place = $victim->{stops} && chance(0.6) ? one_of($who eq 'parallel worker' ? grep { !/leader/ } @places : @places) : '';
	my $in_conf = $who eq 'scheduler worker' && $place ne '' ? "parvacuum.wait_at = '$place'\n" : '';

	# Without page images only what tears no pages: SIGQUIT
	my $no_images = $who eq 'server, by SIGQUIT' && chance(0.5) ? "full_page_writes = off\n" : '';
	my @faults;
	if (chance(0.15) || $in_conf ne '' || $no_images ne '' || $life->{special} || ($victim->{needs} && $life->{needs} ne $victim->{needs}))
	{
		@faults = restart($victim->{needs} // one_of('', '', $scheduler), $in_conf . $no_images);
		$life->{special} = $in_conf . $no_images ne '';
	}
	my $what = "round $round, seed $seed: $who, " . ($place ne '' ? "at \"$place\"" : 'at any time') . ($life->{restarts} ? ', the server restarts itself' : '');
	reseed(3);
	my $load = start_load($who, $place);
	my $how = kill_under_load($who, $place);
	reseed(4);
	if ($how eq 'whole' || !$life->{restarts})
	{
		until_down($node) or push @faults, 'processes do not end';
		push @faults, end_load($load);
		if ($how eq 'whole' && !$victim->{recovery} || chance(0.5)) { configure($victim->{needs} // $life->{needs}, ''); }
		$victim->{recovery} && crash_in_recovery($who) || start() or push @faults, 'the server does not start';
	}
	else
	{
		push @faults, end_load($load);
		until_ready($node) or push @faults, 'the server does not restart';
	}
	push @faults, faults_after($load, 0), faults_of_vacuum() if !@faults;
	ok(!@faults, $what) or diag join "\n", @faults;
	return !@faults;
}

$node->append_conf('postgresql.conf', '');
configure('', '');
start() or die 'the server does not start';
pv_setup($node);
pv_sql($node, join ";\n", map({ "CREATE ROLE $_ SUPERUSER LOGIN" } qw(ledger vac sweep gate)), ledger_create($clients),
	'CREATE UNLOGGED TABLE unlogged_rows (i int, j int) WITH (parvacuum.enabled)', 'CREATE INDEX ON unlogged_rows (i)', 'CHECKPOINT');
$labels = pv_sql($node, q{SELECT string_agg(format('%s %s', objoid::regclass, label), '; ' ORDER BY objoid::regclass::text COLLATE "C") FROM pg_seclabel WHERE provider = 'parvacuum'});

my $end = $ENV{PV_SECONDS} ? time + pv_seconds(1, 0) : 0;
while ($end ? time < $end : $round < 5)
{
	one_round() or last;
}

pv_figure(sum0(values %killed), 'crashes recovered from (' . join(', ', map { "$_ $killed{$_}" } sort keys %killed) . ')');
pv_figure($at_place // 0, 'of these at a named place of a vacuum');
pv_figure($ledger_seen{acknowledged}, "acknowledged transactions found, $ledger_seen{doubtful} that were in doubt, $ledger_seen{prepared} prepared ones");
pv_figure($pages // 0, 'pages checked by the oracle after a crash');
# Two assertions of core fail when the postmaster is killed: a leader that waits for its
# workers finds that out in the middle of its abort (pgstat.c), and a WAL writer of PG 19
# (latch.c).
my $known = qr/!IsTransactionOrTransactionBlock\(\)|latch->maybe_sleeping == false/;
my @bad = grep { /PANIC:|TRAP:|inconsistent page/ && !/$known/ } split /\n/, slurp_file($node->logfile);
is(scalar(@bad), 0, 'no crash that was not asked for') or diag join "\n", @bad[ 0 .. ($#bad > 9 ? 9 : $#bad) ];
$node->stop('fast') if $node->{_pid};
is(remains($node), '', 'nothing is left at the end');
done_testing();
