# Reads, writes, flushes, extensions and truncations of files fail during vacuums, at random
# calls on random files: the disk is full, or it has errors, or shared memory is full.  The
# vacuum ends with an error or goes on, or core's PANIC restarts the server; then the next
# vacuum succeeds, no row is lost, and the table is whole.

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
use Time::HiRes qw(time);

# Few buffers, so that a vacuum reads and writes
faults_node('faults', q{
shared_buffers = 2MB
max_connections = 20
wal_buffers = 128kB
fsync = on
full_page_writes = on
});
my %count = (map { $_ => 0 } qw(rounds faults errors panics));
my $rows;

# A table without maps and with entries in the pending list of GIN, which vacuums create
# and empty: both need space.
sub make_table
{
	my $fillfactor = one_of(20, 60, 100);
	faults_sql('DROP TABLE IF EXISTS t', "CREATE TABLE t (id int, k int, a int[], pad text) WITH (autovacuum_enabled = off, fillfactor = $fillfactor, parvacuum.enabled)",
		'INSERT INTO t SELECT i, i % 100, ARRAY[i % 1000, i % 7], repeat(\'x\', 40) FROM generate_series(1, 6000) i',
		map { "CREATE INDEX ON t $_" } '(id)', '(k, id)', 'USING gin (a)', one_of('USING hash (k)', 'USING gist (box(point(k, id), point(k, id)))', 'USING brin (id)'));
	return;
}

my $from = 6000;
sub change_table
{
	my $n = int rand 2000;
	faults_sql("INSERT INTO t SELECT i, i % 100, ARRAY[i % 1000, i % 7], repeat('y', 40) FROM generate_series($from + 1, $from + $n) i");
	$from += $n;
	my $modulus = 2 + int rand 9;
	faults_sql(one_of("DELETE FROM t WHERE id % $modulus = 1", "UPDATE t SET k = k + 1 WHERE id % $modulus = 1", "DELETE FROM t WHERE id > $from - 2500",
			"UPDATE t SET pad = repeat('z', 60) WHERE id % $modulus = 0", 'DELETE FROM t WHERE ctid > \'(20,0)\''));
	$rows = content();
	return;
}

# Restart the server with other settings of processes and shared memory.  Meanwhile the file
# of the history cannot be written or read: the server stops and starts all the same.
sub restart
{
	my %settings = (
		min_dynamic_shared_memory => one_of('0', '0', '1MB', '16MB'),
		dynamic_shared_memory_type => one_of('posix', 'posix', 'sysv', 'mmap'),
		max_worker_processes => one_of(3, 4, 6, 32, 32),
		max_parallel_maintenance_workers => one_of(0, 1, 8, 8),
		$node->pg_version->major >= 18 ? (io_method => one_of('sync', 'worker')) : ());
	$node->append_conf('postgresql.conf', join '', map { "$_ = $settings{$_}\n" } sort keys %settings);
	my %fault = (kinds => [ one_of(qw(read write create open rename sync)) ], error => one_of(qw(EIO ENOSPC)), path => '*parvacuum.stat*', times => 1000000);
	faults_arm(%fault);
	$node->stop;
	faults_start();
	my ($seen, $injected) = faults_disarm();
	$count{faults} += $injected;
	note join ', ', "restarted: $injected of $seen calls failed, " . show(%fault), map { "$_ = $settings{$_}" } sort keys %settings;
	my @bad = grep { /PANIC:|TRAP:|terminated by signal/ } split /\n/, faults_new_log();
	is(join("\n", @bad), '', 'the server stops and starts without a history') if @bad;
	return;
}

sub content { return faults_sql('SELECT count(*) || \' \' || coalesce(sum(hashtextextended(t::text, 0)), 0) FROM t'); }

# The files whose calls fail: of the table and its indexes, one fork, all, others
sub path_of
{
	my ($what) = @_;
	return '*pg_wal/*' if $what eq 'WAL';
	return '*pg_xact*' if $what eq 'pg_xact';
	return '*pgsql_tmp*' if $what eq 'temporary files';
	return '*pg_stat/parvacuum*' if $what eq 'history';
	return '*PostgreSQL.*' if $what eq 'shared memory';
	my $relation = $what =~ /index/ ? one_of(split /\n/, faults_sql(q{SELECT indexrelid::regclass FROM pg_index WHERE indrelid = 't'::regclass})) : 't';
	my $path = faults_sql("SELECT pg_relation_filepath('$relation')");
	return $what =~ /index/ ? "*$path" : $what eq 'heap' ? "*$path" : $what eq 'map' ? "*${path}_vm" : $what eq 'FSM' ? "*${path}_fsm" : '*base/*';
}

# One fault at random
sub make_fault
{
	my $what = one_of(qw(heap heap index index map FSM all all), 'shared memory', 'shared memory', 'temporary files', 'WAL', chance(0.3) ? 'pg_xact' : ());
	my %fault;
	if ($what eq 'shared memory') { %fault = (kinds => [ one_of([qw(shm extend truncate open create)], ['shm'], ['extend']) ]->[0], error => one_of(qw(ENOSPC ENOMEM ENFILE))); }
	elsif ($what eq 'WAL') { %fault = (kinds => [ one_of(qw(write write sync create)) ], error => one_of(qw(EIO ENOSPC))); }
	elsif ($what eq 'temporary files') { %fault = (kinds => [ one_of(qw(write create extend)) ], error => 'ENOSPC'); }
	elsif (chance(0.3)) { %fault = (kinds => [qw(extend create)], error => 'ENOSPC'); }
	else { %fault = (kinds => [ one_of(qw(read read write write open truncate), chance(0.5) ? 'sync' : ()) ], error => one_of(qw(EIO EIO ENOSPC part))); }
	$fault{error} = 'EIO' if $fault{error} eq 'part' && !grep { /read|write/ } @{ $fault{kinds} };
	$fault{path} = path_of($what);
	$fault{skip} = one_of(0, 0, int rand 3, int rand 10, int rand 60, $what =~ /all|heap|index/ ? int rand 300 : 1);
	$fault{times} = one_of(1, 1, 3, 1000000);
	$fault{times} = 1 if $what =~ /WAL|pg_xact/;
	$fault{session} = 'all';
	return %fault;
}

sub show { my (%fault) = @_; return join ', ', map { "$_ " . (ref $fault{$_} ? join '+', @{ $fault{$_} } : $fault{$_}) } sort keys %fault; }

# A vacuum of each kind, with and without workers
sub make_statement
{
	my $workers = one_of(0, 0, 1, 2, 3);
	my $settings = chance(0.3) ? "SET parvacuum.store_limit = '64kB'; " : '';
	return $settings . one_of("VACUUM (PARALLEL $workers, INDEX_CLEANUP on) t", "VACUUM (PARALLEL $workers, FREEZE, DISABLE_PAGE_SKIPPING) t",
		"VACUUM (PARALLEL $workers, ANALYZE) t", "SELECT * FROM parvacuum_run('t', workers => $workers)", "SELECT * FROM parvacuum_sweep('t_id_idx')");
}

# Core's own, when WAL or the file of a relation cannot be written, flushed or truncated
my $panic = qr/PANIC:  \w+: could not (?:write|fsync|open|create|truncate|sync|access|extend|seek|read)|PANIC:  \w+: (?:cannot|could not)/;

sub one_round
{
	my ($n) = @_;
	restart() if $n % 20 == 7;
	make_table() if $n % 4 == 0;
	change_table();
	faults_sql('CHECKPOINT') if chance(0.3);
	my %fault = make_fault();
	my $statement = make_statement();
	my $checkpoint = chance(grep({ /write|sync/ } @{ $fault{kinds} }) ? 0.8 : 0.3) ? '; CHECKPOINT' : '';

	faults_arm(%fault);
	my ($rc, $out, $err) = $node->psql('postgres', join(";\n", $begin, "$statement$checkpoint", $end), on_error_stop => 0, timeout => 180);
	my ($seen, $injected, $call) = faults_disarm();
	faults_revive();
	my $name = "round $n: " . show(%fault) . "; $statement$checkpoint";
	$count{rounds}++;
	my ($said) = $err =~ /(?:ERROR|FATAL|PANIC|WARNING):  (.*)/;
	note "$name: $injected of $seen calls failed", $said ? ", $said" : '';
	$count{faults} += $injected;
	$count{errors}++ if $err =~ /ERROR|FATAL/;

	my $log = faults_new_log();
	$count{panics}++ if $log =~ /PANIC:/;
	my @bad = grep { /PANIC:/ && !/$panic/ || /TRAP:|terminated by signal (?!6|3|9)|leak|still referenced|is not owned|stuck/ } split /\n/, $log;
	push @bad, "terminated without a PANIC" if $log =~ /terminated by signal 6/ && $log !~ /PANIC:/;
	push @bad, faults_idle() || ();
	my ($again, undef, $error) = $node->psql('postgres', one_of('VACUUM (PARALLEL 2, INDEX_CLEANUP on) t', 'VACUUM (PARALLEL 0) t'), timeout => 180);
	push @bad, "the next vacuum: $error" if $again != 0 || $error =~ /WARNING/;
	push @bad, 'rows: ' . content() . ", were $rows" if content() ne $rows;
	push @bad, pv_findings($node, 't') || ();
	return 1 if !@bad;
	fail($name);
	diag join "\n", "$injected of $seen calls failed: $call", $err, @bad, faults_trace();
	return 0;
}

# Each call on the file of the history fails once.  The first vacuum after a start is written
# at once; what could not be written is written when the server stops.
sub fail_once
{
	my ($kind, $skip) = @_;
	my $removed = q{SELECT coalesce(sum(tuples_removed), 0) FROM parvacuum_history WHERE relname = 'noted'};
	$node->stop;
	faults_start();
	my $before = faults_sql($removed);
	faults_arm(kinds => [$kind], error => 'EIO', path => '*parvacuum.stat*', skip => $skip);
	my $from = -s $node->logfile;
	faults_sql('INSERT INTO noted SELECT generate_series(1, 10)', 'DELETE FROM noted', 'VACUUM (PARALLEL 0) noted');
	ok($node->wait_for_log(qr/LOG: .*could not \w+ file "pg_stat\/parvacuum/, $from), "the history, $kind $skip: the log has the failure");
	my (undef, $injected) = faults_disarm();
	is($injected, 1, "the history, $kind $skip: one call has failed");
	$node->stop;
	faults_start();
	is(faults_sql($removed), $before + 10, "the history, $kind $skip: it is written later");
	faults_new_log();
	return;
}
faults_sql('CREATE TABLE noted (i int) WITH (autovacuum_enabled = off, parvacuum.enabled)');
fail_once(@$_) for [ create => 0 ], [ write => 0 ], [ sync => 0 ], [ rename => 0 ], [ sync => 1 ], [ sync => 2 ];

# The file of dead items cannot be made, written or read.  The vacuum goes on without it.
sub fail_to_keep
{
	my ($kind, $error) = @_;
	my $what = "dead items, $kind, $error";
	faults_sql('CREATE TABLE IF NOT EXISTS kept (id int) WITH (autovacuum_enabled = off)', 'INSERT INTO kept SELECT generate_series(1, 30000)',
		'CREATE INDEX IF NOT EXISTS kept_id ON kept (id)', 'DELETE FROM kept WHERE id % 3 = 0');
	my $rows = faults_sql('SELECT count(*) FROM kept');
	my $gate = pv_hold($node, 'kept');
	my @fault = (kinds => [$kind], error => $error, path => '*pgsql_tmp_parvacuum*', times => 1000000);
	faults_arm(@fault) unless $kind eq 'read';
	my $run = pv_start_run($node, q{SELECT FROM parvacuum_run('kept', index_cleanup => 'on')}, 'parvacuum.wait_at' => 'kept_id');
	ok(pv_await($node, $pv_held, 'true'), "$what: the vacuum goes on");
	is(faults_sql('SELECT count(*) FROM parvacuum_kept'), $kind eq 'read' ? 1 : 0, "$what: whether they are kept");
	faults_sql(q{SELECT parvacuum_cancel('kept'::regclass)});
	ok(!pv_finish($run), "$what: it is canceled");
	$gate->quit;
	faults_arm(@fault) if $kind eq 'read';
	is(faults_sql(q{SELECT items_taken_over, index_scans FROM parvacuum_run('kept', index_cleanup => 'on') WHERE relid = 'kept'::regclass}), '0|1', "$what: the next vacuum begins anew");
	my (undef, $injected) = faults_disarm();
	cmp_ok($injected, '>', 0, "$what: calls have failed");
	like(faults_new_log(), qr/LOG: .*could not (?:read|write) the dead items/, "$what: the log has it");
	is(pv_kept_files($node), 0, "$what: there is no file");
	is(faults_sql('SELECT count(*) FROM kept'), $rows, "$what: no row is lost");
	is(pv_findings($node, 'kept'), '', "$what: the table is whole");
	return;
}
fail_to_keep(@$_) for [ create => 'ENOSPC' ], [ write => 'ENOSPC' ], [ write => 'part' ], [ read => 'EIO' ], [ read => 'part' ];
faults_sql('DROP TABLE kept');

my $until = time + pv_seconds(1, 6);
my $n = 0;
while (time < $until)
{
	one_round($n++) or last;
}
ok(1, 'all rounds are done');
note join ', ', map { "$_ $count{$_}" } sort keys %count;
pv_figure($count{faults}, 'system calls failed on purpose');
pv_figure($count{panics}, 'restarts after a PANIC of core');
$node->stop;
done_testing();
