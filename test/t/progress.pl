# Progress of a throttled vacuum: what parvacuum_progress shows of each process, the forecast
# of the end, the lines of VERBOSE, and a server on which nothing is tracked

use strict;
use warnings FATAL => 'all';

use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;
use Time::HiRes qw(sleep time);

use FindBin;
use lib $FindBin::RealBin;
use PvTest;

# Few shared buffers, so that an index scan finds no page that an earlier one has changed.
my $node = pv_node('progress');
$node->append_conf('postgresql.conf', "autovacuum = off\nshared_buffers = 2MB\ncheckpoint_timeout = 1h\nmax_wal_size = 4GB\n");
$node->start;
pv_setup($node);
sub sql { return pv_sql($node, @_); }

sub fill
{
	sql(q{
		DROP TABLE IF EXISTS t;
		CREATE TABLE t (a int, b float8, c text) WITH (parvacuum.enabled);
		INSERT INTO t SELECT g, random(), repeat('x', 80) FROM generate_series(1, 100000) g;
		CREATE INDEX t_a ON t (a);
		CREATE INDEX t_b ON t (b);
		VACUUM (ANALYZE) t;
		DELETE FROM t WHERE a % 3 = 0;
		CHECKPOINT;});
	return;
}

# The same, after a vacuum that took half as long as those that are sampled, so that these know
# how long index scans take.
sub fill_again
{
	fill();
	ok(pv_finish(pv_start_run($node, 'VACUUM (PARALLEL 0) t', vacuum_cost_delay => '50ms', vacuum_cost_limit => 800)), 'a vacuum before');
	sql('DELETE FROM t WHERE a % 3 = 1; CHECKPOINT');
	return;
}

# A vacuum of some seconds: 1500 heap pages and 550 index pages are changed, at 22 cost units
# each.  It is sampled until it ends.
sub sampled_run
{
	my ($statement, %settings) = @_;
	my $run = pv_start_run($node, $statement, vacuum_cost_delay => '50ms', vacuum_cost_limit => 400, %settings);
	my $session = $node->background_psql('postgres');
	my $sample = q{SELECT format('%s|%s|%s|%s|%s|%s|%s|%s|%s|%s', extract(epoch FROM clock_timestamp()), coalesce(participant::text, 'vacuum'), phase,
			heap_blks_scanned, heap_blks_vacuumed, index_blks_visited, delay_ms, index_scans_expected,
			extract(epoch FROM phase_eta), extract(epoch FROM eta)) FROM parvacuum_progress WHERE relation = 't'::regclass};
	my @samples;
	my $end;
	while (!defined $end)
	{
		my $rows = $session->query_safe($sample);
		push @samples, grep { $_ ne '' } split /\n/, $rows;
		$run->{handle}->pump_nb;
		$end = time if @samples && $rows eq '';
		sleep 0.1;
	}
	$session->quit;
	ok(pv_finish($run), "$statement: it succeeds") or diag $run->{err};
	$run->{end} = $end;
	$run->{samples} = [ map { [ split /\|/, $_, -1 ] } @samples ];
	return $run;
}

# The values of one column in the samples of one row
sub values_of { my ($run, $who, $column) = @_; return map { $_->[$column] } grep { $_->[1] eq $who && $_->[$column] ne '' } @{ $run->{samples} }; }

# Do the values never fall, and grow?
sub grows
{
	my @values = @_;
	return 0 if @values < 2 || $values[-1] <= $values[0];
	for my $i (1 .. $#values) { return 0 if $values[$i] < $values[ $i - 1 ]; }
	return 1;
}

# How far the forecasts were off, of those made in the second quarter of the time and later,
# but not in the last second: the median error, as a share of the time that was left.  Other
# work on the machine comes and goes, so the worst one tells nothing; bench/eta has it.
sub usual_error
{
	my ($run) = @_;
	my ($begin, $end) = ($run->{samples}[0][0], $run->{end});
	my ($all, @errors) = (0);
	for my $sample (grep { $_->[1] eq 'vacuum' } @{ $run->{samples} })
	{
		my $left = $end - $sample->[0];
		next if $sample->[0] < $begin + ($end - $begin) / 4 || $left < 1;
		$all++;
		push @errors, abs(($sample->[9] - $sample->[0]) / $left - 1) if $sample->[9] ne '';
	}
	@errors = sort { $a <=> $b } @errors;
	my $median = @errors ? $errors[ $#errors / 2 ] : 1;
	note sprintf 'the vacuum took %.1f s; median error %.0f %%, %d of %d samples with a forecast', $end - $begin, 100 * $median, scalar @errors, $all;
	return @errors < 0.9 * $all ? 'too few forecasts' : $median;
}

sub describe { my ($run) = @_; return map { join(' ', @$_) . "\n" } @{ $run->{samples} }; }

# One process
fill_again();
my $run = sampled_run('VACUUM (VERBOSE, PARALLEL 0) t', 'parvacuum.progress_interval' => '1s');
my $error = usual_error($run);
ok($error ne 'too few forecasts' && $error < 0.25, "one process: the end is forecast from the second quarter on")
  or diag $error, "\n", describe($run);
is(join(' ', sort { $a cmp $b } keys %{ { map { $_->[1] => 1 } @{ $run->{samples} } } }), '0 vacuum', 'one process: it has a row of its own');
ok(grows(values_of($run, 'vacuum', 3)), 'one process: heap_blks_scanned grows') or diag describe($run);
ok(grows(values_of($run, '0', 3)), 'one process: so does its part');
ok(grows(values_of($run, '0', 6)), 'one process: and the time it has slept');
is((values_of($run, 'vacuum', 3))[-1], sql(q{SELECT pg_relation_size('t') / 8192}), 'one process: the last of it is the whole table');
is((values_of($run, 'vacuum', 7))[-1], 1, 'one process: one index scan is expected');
my @lines = grep { /^INFO:  vacuuming "postgres\.public\.t": / } split /\n/, $run->{err};
cmp_ok(scalar(@lines), '>=', 4, 'VERBOSE: a line every second') or diag $run->{err};
ok((grep { /: scanning heap, \d+ % \(\d+ of \d+ blocks\), about \d+ s of this phase and \d+ s in all remain$/ } @lines) > 0, 'VERBOSE: the first heap pass')
  or diag @lines;
ok((grep { /: vacuuming indexes, \d+ % \(\d+ of \d+ blocks, \d of 2 indexes\), about \d+ s of this phase and \d+ s in all remain$/ } @lines) > 0, 'VERBOSE: the indexes')
  or diag @lines;
unlike($run->{err}, qr/CONTEXT/, 'VERBOSE: the lines have no context');

# Two processes, two index scans, in the process of a function.  One index has half of the rows.
fill_again();
sql('CREATE INDEX t_half ON t (a) WHERE a % 2 = 0');
$run = sampled_run(q{SELECT 1 FROM parvacuum_run('t', workers => 1, verbose => true)}, vacuum_cost_limit => 280, 'parvacuum.store_limit' => 130, 'parvacuum.progress_interval' => '1s');
$error = usual_error($run);
ok($error ne 'too few forecasts' && $error < 0.4, "two index scans: the end is forecast from the second quarter on")
  or diag $error, "\n", describe($run);
ok((grep { $_ == 2 } values_of($run, 'vacuum', 7)) > 0, 'two index scans: they are foreseen') or diag describe($run);
for my $who (0, 1)
{
	ok(grows(values_of($run, $who, 3)), "two index scans: participant $who: its heap_blks_scanned grows") or diag describe($run);
	ok(grows(values_of($run, $who, 6)), "two index scans: participant $who: it sleeps");
	ok((grep { $_ > 0 } values_of($run, $who, 5)) > 0, "two index scans: participant $who: it visits pages of indexes");
}
like($run->{err}, qr/^INFO:  vacuuming "postgres\.public\.t": .*, index scan 1 of about 2/m, 'two index scans: VERBOSE of a function shows lines')
  or diag $run->{err};

# A small table under a low cost limit: each block is shown, and each sleep.
sql(q{CREATE TABLE tiny (a int) WITH (parvacuum.enabled, fillfactor = 10); INSERT INTO tiny SELECT generate_series(1, 500); CREATE INDEX tiny_a ON tiny (a); DELETE FROM tiny WHERE a % 2 = 0});
$run = pv_start_run($node, 'VACUUM (PARALLEL 0) tiny', vacuum_cost_delay => '100ms', vacuum_cost_limit => 10);
for my $blocks (qw(heap_blks_scanned heap_blks_vacuumed))
{
	ok(pv_await($node, "SELECT count(*) FROM parvacuum_progress WHERE $blocks BETWEEN 1 AND heap_blks_total - 1 AND heap_blks_total < 32 AND delay_ms > 0", 1), "a small table: $blocks");
}
ok(pv_finish($run), 'a small table: the vacuum succeeds');

# When the workers are gone, the time that they have slept is not.
fill();
sql('DELETE FROM t WHERE a > 90000');
my $lock = $node->background_psql('postgres');
$lock->query_safe('SELECT pg_advisory_lock(28790)');
$run = pv_start_run($node, 'VACUUM (PARALLEL 2) t', vacuum_cost_delay => '10ms', vacuum_cost_limit => 400, 'parvacuum.wait_at' => 'truncate');
ok(pv_await($node, q{SELECT count(*) FROM parvacuum_progress WHERE phase = 'truncating heap' AND wait_event = 'advisory' AND participant IS NULL}, 1), 'truncation: the leader is alone');
is(sql(q{SELECT count(*), max(delay_ms) > 1.8 * min(delay_ms) FROM parvacuum_progress}), '2|t', 'truncation: the time that all have slept');
$lock->quit;
ok(pv_finish($run), 'truncation: the vacuum succeeds');

# Longer times
fill();
sql(q{CREATE TABLE large (a int, c text) WITH (parvacuum.enabled, fillfactor = 10); ALTER TABLE large ALTER c SET STORAGE PLAIN; INSERT INTO large SELECT g, repeat('x', 4000) FROM generate_series(1, 32000) g});
for my $case ([ 't', qr/about \d+ min of this phase/, 'minutes' ], [ 'large', qr/about \d+\.\d h of this phase/, 'hours' ])
{
	my ($table, $line, $what) = @$case;
	$run = pv_start_run($node, "VACUUM (VERBOSE, PARALLEL 0) $table", vacuum_cost_delay => '100ms', vacuum_cost_limit => 1, vacuum_cost_page_hit => 100, vacuum_cost_page_miss => 100, vacuum_cost_page_dirty => 0,
		statement_timeout => '15s', 'parvacuum.progress_interval' => '1s');
	pv_finish($run);
	like($run->{err}, $line, "VERBOSE: $what");
}

# No lines
fill();
$run = pv_start_run($node, 'VACUUM (VERBOSE) t', vacuum_cost_delay => '10ms', vacuum_cost_limit => 260, 'parvacuum.progress_interval' => 0);
ok(pv_finish($run), 'no interval: it succeeds');
unlike($run->{err}, qr/ remain$/m, 'no interval: VERBOSE has no lines about progress');

# At full speed the index scan is not known before it begins, but for the last vacuum of the
# table.  A busy machine may let one vacuum take many times as long as the other.
my $gate = $node->background_psql('postgres');
sub forecast_at_index
{
	$gate->query_safe('SELECT pg_advisory_lock(28790)');
	$run = pv_start_run($node, 'VACUUM (PARALLEL 0, INDEX_CLEANUP on) t', 'parvacuum.wait_at' => 'nbtree\ range');
	my $waits = pv_await($node, q{SELECT count(*) FROM parvacuum_progress WHERE participant IS NOT NULL AND phase = 'vacuuming indexes' AND wait_event = 'advisory'}, 1);
	my $known = sql(q{SELECT count(eta) FROM parvacuum_progress WHERE participant IS NULL});
	$gate->query_safe('SELECT pg_advisory_unlock(28790)');
	ok(pv_finish($run) && $waits, 'full speed: a vacuum that stops before it reads an index');
	return $known;
}
fill();
sql('SELECT parvacuum_history_reset()');
is(forecast_at_index(), 0, 'full speed: nothing is known without a last vacuum');
my $known = 0;
for my $remainder (1, 2, 4, 5)
{
	sql("DELETE FROM t WHERE a % 6 = $remainder");
	$known = forecast_at_index();
	last if $known;
}
is($known, 1, 'full speed: the last vacuum tells');

# Most blocks of each segment are skipped, so that participants have passed blocks after the
# last one that they have read.
fill();
sql('VACUUM t; DELETE FROM t WHERE (ctid::text::point)[0]::int % 128 < 20 AND a % 2 = 0');
$gate->query_safe('SELECT pg_advisory_lock(28790)');
$run = pv_start_run($node, 'VACUUM (PARALLEL 2) t', 'parvacuum.wait_at' => 'nbtree\ range', vacuum_cost_delay => '10ms', vacuum_cost_limit => 400);
ok(pv_await($node, q{SELECT count(*) > 0 FROM parvacuum_progress WHERE phase = 'vacuuming indexes' AND wait_event = 'advisory'}, 'true'), 'skipped blocks: the first heap pass has ended');
is(sql(q{SELECT sum(heap_blks_scanned) FILTER (WHERE participant IS NOT NULL) - sum(heap_blks_total), max(index_scans_expected) FROM parvacuum_progress}), '0|1', 'skipped blocks: all are counted, and one index scan is expected');
$gate->query_safe('SELECT pg_advisory_unlock(28790)');
ok(pv_finish($run), 'skipped blocks: the vacuum succeeds');
$gate->quit;

# A vacuum that is canceled
fill();
$run = pv_start_run($node, 'VACUUM (VERBOSE, PARALLEL 1) t', vacuum_cost_delay => '10ms', vacuum_cost_limit => 50, 'parvacuum.progress_interval' => '1s');
ok(pv_await($node, q{SELECT count(*) FROM parvacuum_progress WHERE heap_blks_scanned > 100 AND phase = 'scanning heap' AND participant IS NULL}, 1), 'a vacuum in its first heap pass');
sql(q{SELECT pg_cancel_backend(pid) FROM parvacuum_progress WHERE participant IS NULL});
pv_finish($run);
like($run->{err}, qr/canceling statement/, 'it is canceled');
is(sql(q{SELECT outcome, pages_scanned > 100, tuples_removed FROM parvacuum_history ORDER BY run DESC LIMIT 1}), 'canceled|t|0',
	'canceled in the first heap pass: the history has the pages that were scanned');

$node->stop;
pv_no_crash($node, 'the server');
done_testing();
