# Debian's pgbadger reads what autovacuum with parvacuum, and the scheduler, write to the
# log as it reads what autovacuum with core's VACUUM writes: it counts as many vacuums,
# rows, pages and index scans of three tables with the same history.

use strict;
use warnings FATAL => 'all';

use FindBin;
use IPC::Run;
use JSON::PP;
use lib $FindBin::RealBin;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use PvMonitoring;
use PvTest;
use Test::More;

plan skip_all => 'because pgbadger is not installed' unless has_command('pgbadger');

my $prefix = '%t [%p]: user=%u,db=%d,app=%a,client=%h ';
my $node = pv_node('pgbadger');
$node->append_conf('postgresql.conf', qq{
log_line_prefix = '$prefix'
log_error_verbosity = default
log_min_messages = log
log_autovacuum_min_duration = 0
autovacuum_naptime = 1s
autovacuum_vacuum_threshold = 100
autovacuum_vacuum_scale_factor = 0
autovacuum_vacuum_insert_threshold = -1
});
$node->append_conf('postgresql.conf', "log_autoanalyze_min_duration = 0\n") if $node->pg_version->major >= 19;
$node->start;
$node->safe_psql('postgres', 'CREATE EXTENSION parvacuum');
my @tables = qw(core ours scheduled);
$node->safe_psql('postgres', join '', map { qq{
	CREATE TABLE $_ (id int PRIMARY KEY, k int) WITH (autovacuum_enabled = off);
	CREATE INDEX ON $_ (k);
	INSERT INTO $_ SELECT i, i % 100 FROM generate_series(1, 50000) i;
	DELETE FROM $_ WHERE id % 4 = 0 OR id > 45000;
} } @tables);
$node->safe_psql('postgres', 'ALTER TABLE ours SET (parvacuum.enabled); ALTER TABLE scheduled SET (parvacuum.enabled)');

# Enable one table after the other.  Wait for its lines in the log, and for the end of the
# transaction that analyzes it.  The scheduler would skip a table that is still locked, and the
# history would have a row of that.
sub vacuumed
{
	my ($table, %settings) = @_;
	pv_reload_with($node, %settings);
	$node->safe_psql('postgres', "ALTER TABLE $table SET (autovacuum_enabled = on)");
	return wait_for(sub { slurp_file($node->logfile) =~ /automatic (?:aggressive )?vacuum of table "postgres\.public\.$table".*?\n\tsystem usage:.*automatic analyze of table "postgres\.public\.$table"/s })
	  && $node->poll_query_until('postgres', "SELECT NOT EXISTS (SELECT FROM pg_locks WHERE relation = '$table'::regclass)");
}

ok(vacuumed('core', autovacuum => 'on'), "autovacuum by core's code is in the log");
ok(vacuumed('ours', 'parvacuum.scheduler' => 'off'), "autovacuum by parvacuum's engine is in the log");
ok(vacuumed('scheduled', autovacuum => 'off', 'parvacuum.scheduler' => 'on'), 'a vacuum by the scheduler is in the log');
pv_reload_with($node, 'parvacuum.scheduler' => 'off');
my %history = map { split /=/, $_, 2 } split /\n/, $node->safe_psql('postgres', q{
	SELECT relname || '=' || concat_ws(' ', count(*), sum(tuples_removed), sum(pages_removed), sum(index_scans), sum(wal_records), sum(wal_fpi), sum(wal_bytes), sum(buffers_hit), sum(buffers_read), sum(buffers_dirtied))
	FROM parvacuum_history WHERE relname IN ('ours', 'scheduled') AND action = 'vacuum' GROUP BY relname});
$node->stop('fast');

my $tmp = PostgreSQL::Test::Utils::tempdir;
my ($out, $err) = ('', '');
ok(IPC::Run::run([ 'pgbadger', '-q', '-f', 'stderr', '-p', $prefix, '-x', 'json', '-o', "$tmp/out.json", $node->logfile ], '>', \$out, '2>', \$err), 'pgbadger reads the log') or diag $out, $err;
my $report = decode_json(slurp_file("$tmp/out.json"));

# Find a part of the report, wherever pgbadger has put it.
sub part
{
	my ($name, $in) = @_;
	return unless ref $in eq 'HASH';
	return $in->{$name} if exists $in->{$name};
	for my $value (values %$in)
	{
		my $found = part($name, $value);
		return $found if $found;
	}
	return;
}

my $vacuums = part('autovacuum_info', $report)->{postgres}{tables};
my $analyzes = part('autoanalyze_info', $report)->{postgres}{tables};
my %seen = map { $_ => $vacuums->{"postgres.public.$_"} } @tables;
is($seen{core}{tuples}{removed}, 16250, 'it reports the rows that core has removed');
cmp_ok($analyzes->{'postgres.public.core'}{analyzes}, '>', 0, 'and runs of ANALYZE');
for my $table (qw(ours scheduled))
{
	my $it = $seen{$table};
	is_deeply([ @$it{qw(vacuums idxscans tuples pages)} ], [ @{ $seen{core} }{qw(vacuums idxscans tuples pages)} ],
		"$table: vacuums, index scans, rows and pages are those of core");
	is_deeply([ sort keys %$it ], [ sort keys %{ $seen{core} } ], "$table: it has found as much in the lines");
	my @numbers = ($it->{vacuums}, $it->{tuples}{removed}, $it->{pages}{removed}, @$it{qw(idxscans wal_record wal_full_page wal_bytes hits misses dirtied)});
	my @history = split / /, $history{$table};
	if (!$seen{core}{hits})
	{
		# 18 has another word in the line of the buffers, which pgbadger 12 does not know
		$#numbers -= 3;
		$#history -= 3;
	}
	is("@numbers", "@history", "$table: all numbers are those of parvacuum_history");
	is($analyzes->{"postgres.public.$table"}{analyzes}, $analyzes->{'postgres.public.core'}{analyzes}, "$table: as many runs of ANALYZE");
}
pv_no_crash($node, 'the server');
done_testing;
