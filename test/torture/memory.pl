# An allocation fails in a process that vacuums: in the session, a worker, the background
# leader, the scheduler's launcher or one of its workers, at a place chosen at random.  The
# process ends with an error, or goes on; nothing crashes, nothing is kept, and the next
# vacuum succeeds.

use strict;
use warnings FATAL => 'all';

use FindBin;
use lib $FindBin::RealBin, "$FindBin::RealBin/../t";
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use PvFaults;
use PvTest;
use PvTorture;
use Test::More;
use Time::HiRes qw(sleep time);

faults_node('memory', q{
parvacuum.scheduler = on
autovacuum_naptime = 1s
});
my %count = (map { $_ => 0 } qw(rounds failed errors core));
my %messages;

faults_sql('CREATE TABLE t (id int, k int, a int[], pad text) WITH (autovacuum_enabled = off, fillfactor = 60, parvacuum.enabled)',
	q{INSERT INTO t SELECT i, i % 100, ARRAY[i % 1000, i % 7], repeat('x', 40) FROM generate_series(1, 4000) i},
	map { "CREATE INDEX ON t $_" } '(id)', '(k, id)', 'USING gin (a)', 'USING hash (k)', 'USING brin (id)', '((k % 10)) WHERE k > 5');

# Dead rows for the vacuum, the number of all rows being the same
my $change = q{UPDATE t SET k = k + 1 WHERE id % 5 = 1; WITH gone AS (DELETE FROM t WHERE id % 11 = 3 RETURNING *) INSERT INTO t SELECT * FROM gone};
my $options = 'INDEX_CLEANUP on, FREEZE, DISABLE_PAGE_SKIPPING';

# Who the allocation fails in, and what it does then.  "type" is of a background worker.
my @cases = (
	{ name => 'session', sql => "VACUUM (PARALLEL 0, $options) t" },
	{ name => 'session, many index scans', sql => "SET parvacuum.store_limit = '64kB'; VACUUM (PARALLEL 0, $options) t" },
	{ name => 'leader', sql => "VACUUM (PARALLEL 2, $options) t" },
	{ name => 'leader, VERBOSE', sql => "VACUUM (VERBOSE, PARALLEL 2, $options, ANALYZE) t" },
	{ name => 'sweep', sql => q{SELECT parvacuum_sweep('t_id_idx')} },
	{ name => 'caller', sql => q{SELECT parvacuum_run('t', workers => 1)} },
	{ name => 'caller of the procedure', sql => q{CALL parvacuum('t', workers => 1)} },
	{ name => 'views', sql => join ';', map { "SELECT * FROM $_" } qw(parvacuum_progress parvacuum_history parvacuum_stats parvacuum_tables parvacuum_queue parvacuum_blockers parvacuum_check()) },
	{ name => 'plan', sql => q{SELECT * FROM parvacuum_plan('t')} },
	{ name => 'options', sql => q{ALTER TABLE t SET (parvacuum.workers = 2, fillfactor = 60); ALTER TABLE t RESET (parvacuum.workers)} },
	{ name => 'enqueue and cancel', sql => q{SELECT parvacuum_enqueue('t'); SELECT parvacuum_cancel('t')} },
	{ name => 'worker', type => 'parallel worker', sql => "VACUUM (PARALLEL 2, $options) t" },
	{ name => 'worker, many index scans', type => 'parallel worker', sql => "SET parvacuum.store_limit = '64kB'; VACUUM (PARALLEL 1, $options) t" },
	{ name => 'background leader', type => 'parvacuum background leader', sql => q{SELECT parvacuum_run('t', workers => 1)} },
	{ name => 'worker of a background leader', type => 'parallel worker', sql => q{SELECT parvacuum_run('t', workers => 2)} },
	{ name => 'scheduler worker', type => 'parvacuum scheduler worker', scheduler => 1 },
	{ name => 'worker of a scheduler worker', type => 'parallel worker', scheduler => 1 },
	{ name => 'launcher', type => 'parvacuum launcher', scheduler => 1 });

# What the scheduler does, which needs no session; it succeeds in the end
sub by_scheduler
{
	my ($fault) = @_;
	my $number = q{SELECT vacuum_count + autovacuum_count FROM pg_stat_user_tables WHERE relname = 't'};
	my $before = faults_sql($number);
	faults_sql(q{SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE backend_type = 'parvacuum launcher'})
	  if $fault->{type} =~ /launcher/;
	faults_arm(%$fault);
	my ($rc, $out, $err) = $node->psql('postgres', q{SELECT parvacuum_enqueue('t')});
	return "enqueue: $err" if $rc != 0;
	for (1 .. 300)
	{
		return '' if faults_sql($number) > $before;
		faults_sql(q{SELECT parvacuum_enqueue('t')}) if $_ % 20 == 0;
		sleep 0.1;
	}
	return 'the scheduler does not vacuum: ' . faults_sql('SELECT * FROM parvacuum_queue', 'SELECT * FROM parvacuum_scheduler_stats()');
}

# Allocations after whose failure core itself crashes, without any code of parvacuum: it keeps
# an entry of which only a part has been made.  Found in 15:
#	pgstat_get_entry_ref	the entry for the statistics of a table has no contents; the next
#							report of statistics follows its pointer
my $core_crashes = qr/\(pgstat_get_entry_ref\+/;

# Run a case; with a fault, or to count the allocations without one
sub run_case
{
	my ($case, %fault) = @_;
	%fault = (kinds => ['alloc'], error => 'ENOMEM', type => $case->{type}, %fault);
	return ('', by_scheduler(\%fault)) if $case->{scheduler};
	$fault{session} = $case->{type} ? 'all' : 1;
	faults_arm(%fault);
	my ($rc, $out, $err) = $node->psql('postgres', join(";\n", $begin, $case->{sql}, $end,
		q{SELECT 'lock: ' || concat_ws(' ', locktype, relation::regclass, mode) FROM pg_locks WHERE pid = pg_backend_pid() AND relation IS DISTINCT FROM 'pg_locks'::regclass AND locktype <> 'virtualxid'}),
		on_error_stop => 0, timeout => 120);
	return ($err, join "\n", grep { /^lock:/ } split /\n/, $out // '');
}

my $rows = 'SELECT count(*), count(DISTINCT id) FROM t';
my $expected = faults_sql($rows);
sub one_round
{
	my ($n) = @_;
	my $case = $cases[ $n < @cases ? $n : int rand @cases ];
	faults_sql($change);
	if (!$case->{allocations})
	{
		my ($err, $bad) = run_case($case, times => 0);
		($case->{allocations}) = faults_disarm();
		faults_sql($change);
	}
	my $skip = chance(0.2) ? int rand 10 : int rand $case->{allocations} + 1;

	# if its workers fail to start, the scheduler waits ever longer
	my $times = $case->{scheduler} ? one_of(1, 1, 2) : one_of(1, 1, 1, 2, 10, 100);
	my ($err, $bad) = run_case($case, skip => $skip, times => $times);
	my ($seen, $injected, $call) = faults_disarm();
	faults_revive();

	$count{rounds}++;
	$count{failed} += $injected;
	$count{errors}++ if $err =~ /ERROR|FATAL/;
	my $log = faults_new_log();
	$messages{ s/\d+/N/gr }++ for $log =~ /(?:ERROR|FATAL|WARNING):  (.*)/g;
	my $name = "round $n: $case->{name}, allocation $skip of $case->{allocations}, $times times";
	note "$name: $injected failed", $err =~ /((?:ERROR|FATAL|WARNING):  .*)/ ? ", $1" : '';

	my @bad = grep { /PANIC:|TRAP:|terminated by signal|leak|still referenced|is not owned|stuck/ } split /\n/, $log;
	if (@bad && faults_trace() =~ $core_crashes)
	{
		note join "\n", 'a crash of core itself', @bad;
		@bad = ();
		$count{core}++;
	}
	push @bad, ($bad && !@bad ? $bad : ()), faults_idle() || ();
	if (!@bad)
	{
		my ($rc, $out, $error) = $node->psql('postgres', one_of("VACUUM (PARALLEL 2, $options) t", "SELECT 1 / (workers_launched / 2) FROM parvacuum_run('t', workers => 2) WHERE relid = 't'::regclass"), timeout => 120);
		push @bad, "the next vacuum: $error" if $rc != 0 || $error =~ /WARNING/;
		push @bad, 'rows: ' . faults_sql($rows) if faults_sql($rows) ne $expected;
		push @bad, pv_findings($node, 't') || () if $n % 4 == 0;
	}
	return 1 if !@bad;
	fail($name);
	diag join "\n", "$injected of $seen allocations failed: $call", $err, @bad, faults_trace();
	return 0;
}

# Each of the first allocations in turn where the options of a table are read, among other
# things: of the errors there only few may be passed over.  A lock of which core has entered
# a part only would crash the process when it is taken again.
for my $name ('plan', 'session')
{
	my ($case) = grep { $_->{name} eq $name } @cases;
	my $n = 0;
	for my $skip (1 .. 60)
	{
		run_case($case, skip => $skip);
		my (undef, $injected, $call) = faults_disarm();
		$count{failed} += $injected;
		faults_revive();
		next if faults_new_log() !~ /PANIC:|TRAP:|terminated by signal/ || faults_trace() =~ $core_crashes;
		$n++;
		diag "allocation $skip of $name crashes: $call", faults_trace();
	}
	is($n, 0, "$name: no single allocation that fails crashes the server");
}

my $until = time + pv_seconds(1, 5);
my $n = 0;
while (time < $until)
{
	one_round($n++) or last;
}
ok(1, 'all rounds are done');
note join ', ', map { "$_ $count{$_}" } sort keys %count;
note "$messages{$_} x $_" for sort keys %messages;
pv_figure($count{failed}, 'allocations failed on purpose');
pv_figure($count{core}, 'crashes of core itself because of that');

# Nothing is left of all that is counted: places of workers, of runs, of the queue
is(faults_sql(q{SELECT workers_launched FROM parvacuum_run('t', workers => 8) WHERE relid = 't'::regclass}), 8, 'all workers can be had');
is(pv_findings($node, 't'), '', 'the table is whole');
$node->stop;
done_testing();
