# The history of vacuums and the totals: they survive a restart and a crash, a file that
# cannot be used does not keep the server from starting, and the sizes can be changed.

use strict;
use warnings FATAL => 'all';

use FindBin;
use POSIX ();
use lib $FindBin::RealBin;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use PvTest;
use Test::More;

my $node = pv_node('history');
$node->append_conf('postgresql.conf', "restart_after_crash = on\nautovacuum_naptime = 1s\nautovacuum_vacuum_threshold = 10\nautovacuum_vacuum_scale_factor = 0\n");
$node->start;
pv_setup($node);

my $file = $node->data_dir . '/pg_stat/parvacuum.stat';
my $records = q{SELECT run, relname, outcome, start_time, end_time, tuples_removed, wal_bytes, pid FROM parvacuum_history ORDER BY run;
	SELECT * FROM parvacuum_index_history ORDER BY run, indexrelid;
	SELECT * FROM parvacuum_stats ORDER BY relid; SELECT * FROM parvacuum_index_stats ORDER BY indexrelid;
	SELECT runs, dealloc, stats_reset, history_reset FROM parvacuum_stats_info};

# The first vacuums since the start are written at once.
sub await_written
{
	return ok(pv_await($node, 'SELECT last_written IS NOT NULL FROM parvacuum_stats_info', 'true'), "$_[0]: the file is written");
}

sub write_file
{
	my ($text) = @_;
	open my $out, '>:raw', $file or die;
	print $out $text;
	close $out;
	return;
}

sub vacuum
{
	my ($n) = @_;
	pv_sql($node, 'UPDATE t SET b = b + 1; VACUUM t') for 1 .. $n;
	return;
}

sub count_runs { return pv_sql($node, q{SELECT count(*) FROM parvacuum_history WHERE relation = 't'::regclass}); }

pv_sql($node, q{
	CREATE TABLE t (a int PRIMARY KEY, b int) WITH (parvacuum.enabled, autovacuum_enabled = off);
	CREATE INDEX t_b ON t (b);
	INSERT INTO t SELECT i, i FROM generate_series(1, 1000) i});
vacuum(3);
is(count_runs(), 3, 'three vacuums');

# A clean restart
my $before = pv_sql($node, $records);
$node->restart;
is(pv_sql($node, $records), $before, 'a restart: all records are the same');
vacuum(1);
is(count_runs(), 4, 'a restart: the history goes on');
is(pv_sql($node, q{SELECT runs FROM parvacuum_stats WHERE relation = 't'::regclass}), 4, 'a restart: the totals go on');
is(pv_sql($node, 'SELECT count(DISTINCT run) = max(run) FROM parvacuum_history'), 't', 'a restart: the numbers go on');

# A crash
await_written('a crash');
$node->stop('immediate');
$node->start;
is(count_runs(), 4, 'a crash: the history is there');

# A crash of a process, after which the postmaster initializes shared memory
vacuum(1);
await_written('a crash of a process');
vacuum(2);
my $victim = pv_start_run($node, 'SELECT pg_sleep(600)');
pv_await($node, qq{SELECT count(*) FROM pg_stat_activity WHERE application_name = '$victim->{tag}' AND state = 'active'}, 1);
kill 'KILL', pv_sql($node, "SELECT pid FROM pg_stat_activity WHERE application_name = '$victim->{tag}'");
pv_finish($victim);
pv_await_ready($node, pv_log_seen($node));
cmp_ok(count_runs(), '>=', 5, 'a crash of a process: what was written is there');
cmp_ok(count_runs(), '<=', 7, 'a crash of a process: at most the last vacuums are lost');
vacuum(1);
is(pv_sql($node, 'SELECT count(DISTINCT run) = max(run) FROM parvacuum_history'), 't', 'a crash of a process: the numbers go on');

# A file that cannot be written
$node->restart;
mkdir "$file.tmp" or die;
my $from = -s $node->logfile;
vacuum(1);
$node->wait_for_log(qr/LOG: .*could not write file "pg_stat\/parvacuum.stat.tmp": Is a directory/, $from);
is(pv_sql($node, 'SELECT last_written FROM parvacuum_stats_info'), '', 'a file that cannot be written');
rmdir "$file.tmp" or die;

# Files that another one or a crash has left where the new one is written
for my $case ('a file', 'a pipe')
{
	$node->stop;
	$case eq 'a pipe' ? POSIX::mkfifo("$file.tmp", 0600) : append_to_file("$file.tmp", 'x');
	chmod 0, "$file.tmp" or die;
	$node->start;
	vacuum(1);
	await_written("$case in its way");
}

# Files that cannot be read
my $count = count_runs();
$node->stop;
my $good = slurp_file($file);
my %bad = (
	'it is cut off' => [ substr($good, 0, length($good) - 1000), qr/It is too short or too long/ ],
	'it is cut off in its header' => [ substr($good, 0, 50), qr/It is too short/ ],
	'it is empty' => [ '', qr/It is too short/ ],
	'another version' => [ substr($good, 0, 4) . pack('L', 99) . substr($good, 8), qr/Another version of parvacuum or PostgreSQL has written it/ ],
	'another major version' => [ substr($good, 0, 8) . pack('L', 14) . substr($good, 12), qr/Another version of parvacuum or PostgreSQL has written it/ ],
	'another byte order' => [ scalar reverse(substr($good, 0, 4)) . substr($good, 4), qr/It is not a history of parvacuum/ ],
	'something else' => [ 'x' x 5000, qr/It is not a history of parvacuum/ ],
	'one byte is wrong' => [ substr($good, 0, 2000) . chr(255 ^ ord substr($good, 2000, 1)) . substr($good, 2001), qr/Its checksum is wrong/ ]);

for my $case (sort keys %bad)
{
	my ($text, $reason) = @{ $bad{$case} };
	write_file($text);
	$from = -s $node->logfile;
	$node->start;
	my $log = substr(slurp_file($node->logfile), $from);
	like($log, qr/WARNING: .*could not use parvacuum's history in file "pg_stat\/parvacuum.stat"\n.*DETAIL:  $reason\.  The history begins anew\.\n.*HINT:  The file is kept as "pg_stat\/parvacuum.stat.bad"/, "$case: a warning");
	is(count_runs(), 0, "$case: the history begins anew");
	is(slurp_file("$file.bad"), $text, "$case: the file is kept");
	ok(!-e $file, "$case: under another name");
	$node->stop('immediate');
}

# Files that cannot even be read.  They are kept, or if they cannot be, what stands in the way is.
my $nowhere = sub { mkdir "$file.bad"; open my $in, '>', "$file.bad/x" or die; close $in; };
my %odd = (
	'no right to read it' => [ sub { write_file($good); chmod 0, $file }, qr/It could not be opened: Permission denied\./, 'kept as "pg_stat/parvacuum.stat.bad"', sub { (stat "$file.bad")[2] & 0777 } ],
	'a directory' => [ sub { mkdir $file }, qr/It is not a regular file\./, 'kept as "pg_stat/parvacuum.stat.bad"', sub { !-d "$file.bad" } ],
	'a link to itself' => [ sub { symlink 'parvacuum.stat', $file }, qr/It could not be found: Too many levels of symbolic links\./, 'kept as "pg_stat/parvacuum.stat.bad"', sub { !-l "$file.bad" } ],
	'it is too large' => [ sub { write_file(''); truncate $file, 1 + 2**30 }, qr/It is too large\./, 'kept as "pg_stat/parvacuum.stat.bad"', sub { -s "$file.bad" != 1 + 2**30 } ],
	'a pipe' => [ sub { POSIX::mkfifo($file, 0600) }, qr/It is not a regular file\./, 'kept as "pg_stat/parvacuum.stat.bad"', sub { !-p "$file.bad" } ],
	'it cannot be renamed' => [ sub { write_file('x' x 5000); $nowhere->() }, qr/It is not a history of parvacuum\./, 'could not be renamed to "pg_stat/parvacuum.stat.bad"', sub { !-f "$file.bad/x" } ]);

for my $case (sort keys %odd)
{
	my ($make, $reason, $hint, $lost) = @{ $odd{$case} };
	$_->() for sub { unlink $file; rmdir $file }, sub { unlink "$file.bad", "$file.bad/x"; rmdir "$file.bad" }, $make;
	$from = -s $node->logfile;
	$node->start;
	like(substr(slurp_file($node->logfile), $from), qr/WARNING: .*could not use parvacuum's history in file "pg_stat\/parvacuum.stat"\n.*DETAIL:  $reason  The history begins anew\.\n.*HINT:  .*\Q$hint\E/, "$case: a warning");
	vacuum(1);
	await_written($case);
	ok(!$lost->(), "$case: it is kept");
	$node->restart;
	is(count_runs(), 1, "$case: the new history survives a restart");
	$node->stop('immediate');
	ok(!$lost->(), "$case: it is still kept");
	ok(!-e "$file.tmp", "$case: no other file remains");
}

# A directory that comes in the way while the server is running
{
	unlink $file;
	$node->start;
	mkdir $file or die;
	$from = -s $node->logfile;
	vacuum(1);
	$node->wait_for_log(qr/LOG: .*could not open file "pg_stat\/parvacuum.stat": Is a directory/, $from);
	is(pv_sql($node, 'SELECT last_written FROM parvacuum_stats_info'), '', 'a directory in the way: nothing is written');
	ok(!-e "$file.tmp", 'a directory in the way: no other file remains');
	$node->stop('immediate');
	rmdir $file or die;
}

unlink "$file.bad/x";
rmdir "$file.bad";

# Other sizes
write_file($good);
$node->start;
is(count_runs(), $count, 'the former file');
vacuum(1);
$node->append_conf('postgresql.conf', "parvacuum.history_size = 4\nparvacuum.stats_size = 1\n");
$node->restart;
is(pv_sql($node, q{SELECT count(*), max(run) - min(run) FROM parvacuum_history}), '4|3', 'a smaller history: the newest');
is(pv_sql($node, q{SELECT count(*), max(run) - min(run) FROM parvacuum_index_history}), '8|3', 'a smaller history: their indexes');
is(pv_sql($node, q{SELECT relation, runs FROM parvacuum_stats}), 't|' . ($count + 1), 'fewer totals: that of the last table');
pv_sql($node, 'CREATE TABLE t2 (a int) WITH (parvacuum.enabled); VACUUM t2');
is(pv_sql($node, q{SELECT relation, runs FROM parvacuum_stats}), 't2|1', 'fewer totals: another table takes the place');
is(pv_sql($node, q{SELECT dealloc FROM parvacuum_stats_info}), 1, 'fewer totals: that is counted');
my $totals = q{SELECT runs_since_reset, tuples_removed, pages_scanned, elapsed_ms, wal_bytes FROM parvacuum_stats_info};
my $sums = pv_sql($node, $totals);
like($sums, qr/^@{[$count + 2]}\|/, 'fewer totals: those of all tables are complete');
$node->restart;
is(pv_sql($node, $totals), $sums, 'fewer totals: those of all tables survive a restart');
$node->append_conf('postgresql.conf', "parvacuum.history_size = 0\n");
$node->restart;
vacuum(1);
is(pv_sql($node, q{SELECT (SELECT count(*) FROM parvacuum_history), (SELECT count(*) FROM parvacuum_index_history), runs FROM parvacuum_stats}), '0|0|1', 'no history, but totals');
$node->append_conf('postgresql.conf', "parvacuum.history_size = 100\nparvacuum.stats_size = 0\n");
$node->restart;
vacuum(1);
is(pv_sql($node, q{SELECT (SELECT count(*) FROM parvacuum_history), (SELECT count(*) FROM parvacuum_stats), (SELECT count(*) FROM parvacuum_index_stats)}), '1|0|0', 'a history, but no totals');
$node->append_conf('postgresql.conf', "parvacuum.history_size = 0\n");
$node->restart;
vacuum(1);
is(pv_sql($node, q{SELECT (SELECT count(*) FROM parvacuum_history), (SELECT count(*) FROM parvacuum_stats), runs, stats_reset FROM parvacuum_stats_info}), '0|0|0|', 'neither');
is(pv_sql($node, q{SELECT parvacuum_history_reset(), parvacuum_stats_reset()}), '|', 'neither: nothing to reset');
is(pv_sql($node, q{SELECT count(*) FROM pg_shmem_allocations WHERE name = 'parvacuum history'}), 0, 'neither: no memory');
is(pv_sql($node, q{SELECT count(*) FROM parvacuum_plan('t')}), 1, 'neither: a plan');
is(pv_sql($node, q{SELECT (SELECT count(*) FROM parvacuum_index_history), (SELECT count(*) FROM parvacuum_index_stats), (SELECT count(*) FROM parvacuum_sweep('t_b'))}), '0|0|1', 'neither: a sweep, and no rows of indexes');
{
	my $idle = $node->background_psql('postgres');
	$idle->query_safe('BEGIN; SELECT pg_current_xact_id()');
	pv_sql($node, 'DELETE FROM t WHERE a = 1');
	my ($rc, $out, $err) = $node->psql('postgres', 'VACUUM (VERBOSE, DISABLE_PAGE_SKIPPING) t');
	like($err, qr/^removable cutoff held back by: idle in transaction/m, 'neither: the report of a vacuum');
	$idle->quit;
	($rc, $out, $err) = $node->psql('postgres', q{SET statement_timeout = '100ms'; SET vacuum_cost_delay = 100; SET vacuum_cost_limit = 1; VACUUM (DISABLE_PAGE_SKIPPING) t});
	like($err, qr/canceling statement due to statement timeout/, 'neither: a vacuum that fails');
}
$node->append_conf('postgresql.conf', "parvacuum.history_size = 1000\nparvacuum.stats_size = 5000\n");
$node->restart;
is(count_runs(), 1, 'the history is what it was');

# Who asked for a vacuum
pv_reload_with($node, autovacuum => 'on');
pv_sql($node, 'CREATE TABLE a (a int) WITH (parvacuum.enabled); INSERT INTO a SELECT generate_series(1, 1000); DELETE FROM a');
ok(pv_await($node, q{SELECT started_by || (usename IS NULL) FROM parvacuum_history WHERE relation = 'a'::regclass LIMIT 1}, 'autovacuumtrue'), 'autovacuum');
pv_reload_with($node, autovacuum => 'off', 'parvacuum.scheduler' => 'on');
pv_sql($node, 'CREATE TABLE s (a int) WITH (parvacuum.enabled); INSERT INTO s SELECT generate_series(1, 1000); DELETE FROM s');
ok(pv_await($node, q{SELECT started_by || (usename IS NULL) FROM parvacuum_history WHERE relation = 's'::regclass LIMIT 1}, 'schedulertrue'), 'the scheduler');
pv_reload_with($node, 'parvacuum.engine' => 'off');
pv_sql($node, 'INSERT INTO s SELECT generate_series(1, 1000); DELETE FROM s');
ok(pv_await($node, q{SELECT started_by || by_engine FROM parvacuum_history WHERE relation = 's'::regclass ORDER BY run DESC LIMIT 1}, 'schedulerfalse'), 'the scheduler, with core\'s code');

# A planned stop
pv_reload_with($node, 'parvacuum.scheduler' => 'off', 'parvacuum.engine' => 'on');
{
	my $holder = $node->background_psql('postgres');
	$holder->query_safe('SELECT pg_advisory_lock(28790), parvacuum_history_reset()');
	my @stopped = map { pv_start_run($node, $_, 'parvacuum.wait_at' => 'leader\ scan') } 'VACUUM (PARALLEL 0) t', q{SELECT relid FROM parvacuum_run('s')};
	pv_await($node, q{SELECT count(*) FROM pg_locks WHERE locktype = 'advisory' AND NOT granted}, 2);
	$node->restart;
	pv_finish($_) for @stopped;
	$holder->{run}->kill_kill;
	is(pv_sql($node, q{SELECT string_agg(concat_ws(' ', relname, started_by, outcome), ', ' ORDER BY relname) FROM parvacuum_history}),
		's function terminated, t command terminated', 'a planned stop: vacuums and runs were terminated');
}

$node->stop;
my @panic = grep { /PANIC:|TRAP:/ } split /\n/, slurp_file($node->logfile);
is(scalar(@panic), 0, 'no other crash') or diag join "\n", @panic;
done_testing();
