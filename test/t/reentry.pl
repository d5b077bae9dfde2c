# Functions of an ordinary table owner that run inside a vacuum or an ANALYZE try to
# start another one: in a session, in its parallel workers, under autovacuum and under
# the scheduler.  Each attempt is refused, the server stays up, and the process goes on.

use strict;
use warnings FATAL => 'all';

use FindBin;
use lib $FindBin::RealBin;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use PvTest;
use Test::More;

my $node = pv_node('reentry');
$node->append_conf('postgresql.conf', q{
autovacuum_naptime = 1s
autovacuum_vacuum_cost_delay = 1ms
autovacuum_vacuum_cost_limit = 1000
vacuum_cost_delay = 1ms
vacuum_cost_limit = 1000
parvacuum.scheduler_workers = 1
log_error_verbosity = default
});
$node->start;
pv_setup($node);

sub sql { return pv_sql($node, @_); }
sub sql_of_owner { return $node->psql('postgres', join(";\n", @_), extra_params => [ '-U', 'owner' ], on_error_stop => 1); }

# The attempts.  On some servers functions of indexes run with a safe search path.
my @attempts = (
	'ANALYZE m.other', 'VACUUM m.other', 'VACUUM (ANALYZE) m.other',
	q{SELECT count(*) FROM public.parvacuum_run('m.other')},
	q{SELECT count(*) FROM public.parvacuum_sweep('m.other_i')},
	q{CALL public.parvacuum('m.other')},
	q{CALL public.parvacuum_sweep_index('m.other_i')},
	q{SELECT public.parvacuum_enqueue('m.other')},
	q{SELECT public.parvacuum_cancel('m.other')});

# The places of the owner's functions: tables, and the command that comes to execute them
my %places = (
	expression => [ 'CREATE INDEX ON m.expression (m.f(i))', 'ANALYZE' ],
	predicate => [ 'CREATE INDEX ON m.predicate (i) WHERE m.f(i) > 0', 'ANALYZE' ],
	statistics => [ 'CREATE STATISTICS m.s ON (m.f(i)) FROM m.statistics', 'ANALYZE' ],
	brin => [ 'CREATE INDEX ON m.brin USING brin (m.f(i)) WITH (pages_per_range = 1)', 'VACUUM' ],
	brin_predicate => [ 'CREATE INDEX ON m.brin_predicate USING brin (i) WITH (pages_per_range = 1) WHERE m.f(i) > 0', 'VACUUM' ]);
my @places = sort keys %places;

sub define
{
	my ($volatility, $body) = @_;
	return "CREATE OR REPLACE FUNCTION m.f(i int) RETURNS int LANGUAGE plpgsql $volatility AS \$f\$
DECLARE
	attempt text;
BEGIN
	IF i % 500 = 1 THEN
		$body
	END IF;
	RETURN i;
END \$f\$";
}
my $harmless = define('IMMUTABLE', 'NULL;');

# One function that does not catch the error, and one that makes all attempts and goes on
sub attempt { return define('VOLATILE', "EXECUTE \$a\$$_[0]\$a\$; RAISE WARNING 'entered: $_[0]';" =~ s/(?<=entered: )(.*)(?=';$)/$1 =~ s{'}{''}gr/er); }
my $all_attempts = define('VOLATILE',
	'FOREACH attempt IN ARRAY ARRAY[' . join(', ', map { "\$a\$$_\$a\$" } @attempts) . q{] LOOP
			BEGIN
				EXECUTE attempt;
				RAISE WARNING 'entered: %', attempt;
			EXCEPTION WHEN OTHERS THEN
				RAISE WARNING 'refused: %: %', attempt, SQLERRM;
			END;
		END LOOP;});

# Rows and pages that neither a BRIN index nor the statistics have yet, and then the
# function
my $n = 0;
sub prepare
{
	my ($function, @tables) = @_;
	my ($rc, $out, $err) = sql_of_owner($harmless, map({ "INSERT INTO m.$_ SELECT i, 'x' FROM generate_series(1, 1000) i" } @tables), $function);
	is($rc, 0, "$_[1]: prepared") or diag $err;
	return;
}

# Two tests: all attempts were made there, and each was refused.
sub all_refused
{
	my ($text, $what) = @_;
	unlike($text, qr/entered: /, "$what: no attempt succeeded");
	my @missing = grep { my $a = quotemeta; $text !~ /refused: $a: .*(cannot be executed from|cannot execute|within security-restricted|cannot run inside)/ } @attempts;
	is(join('; ', @missing), '', "$what: each attempt was made and refused") or diag substr $text, 0, 3000;
	return;
}

sql('CREATE ROLE owner LOGIN', 'CREATE SCHEMA m AUTHORIZATION owner');
my ($rc, $out, $err) = sql_of_owner($harmless,
	'CREATE TABLE m.other AS SELECT i FROM generate_series(1, 1000) i', 'CREATE INDEX other_i ON m.other (i)',
	map { ("CREATE TABLE m.$_ (i int, pad char(400)) WITH (parvacuum.enabled, autovacuum_enabled = off)", $places{$_}[0]) } @places);
is($rc, 0, 'the tables') or diag $err;

#
# A session without workers: its own VACUUM and ANALYZE
#
for my $place (@places)
{
	my $command = $places{$place}[1];
	for my $statement ($command eq 'VACUUM' ? ('VACUUM', 'VACUUM (ANALYZE)') : ('ANALYZE', 'VACUUM (ANALYZE)'))
	{
		prepare("ALTER TABLE m.$place SET (parvacuum.workers = 0); $all_attempts", $place);
		($rc, $out, $err) = sql_of_owner("$statement m.$place", "VACUUM (ANALYZE) m.other", 'SELECT count(*) FROM m.other');
		is("$rc $out", '0 1000', "$statement of $place: it succeeds, and so does the next command");
		all_refused($err, "$statement of $place");
	}
	for my $attempt (@attempts)
	{
		prepare(attempt($attempt), $place);
		($rc, $out, $err) = sql_of_owner("$command m.$place");
		isnt($rc, 0, "$command of $place: fails by $attempt");
		like($err, qr/ERROR:  .*(cannot be executed from VACUUM or ANALYZE|within security-restricted operation|cannot be executed from a function)/, 'the error has the reason');
	}
}

# With cost-based delay: the outer vacuum sleeps for its own cost.
prepare($all_attempts, 'brin');
($rc, $out, $err) = sql_of_owner('SET vacuum_cost_delay = 1; SET vacuum_cost_limit = 1', 'VACUUM m.brin', 'SET vacuum_cost_delay = 0', 'VACUUM m.brin');
is($rc, 0, 'with cost-based delay');
all_refused($err, 'with cost-based delay');

#
# Parallel workers: subtransactions are not allowed there, so each error ends the vacuum.
#
sql_of_owner(map({ "CREATE INDEX ON m.brin USING brin (m.f(i + $_)) WITH (pages_per_range = 1)" } 1 .. 3), 'ALTER TABLE m.brin SET (parvacuum.workers = 2)');
for my $attempt (@attempts)
{
	prepare(attempt($attempt), 'brin');
	($rc, $out, $err) = sql_of_owner('VACUUM m.brin');
	isnt($rc, 0, "VACUUM with workers fails by $attempt");
	like($err, qr/ERROR:  .*(cannot be executed from VACUUM or ANALYZE|within security-restricted operation|during a parallel operation)/, 'the error has the reason');
}
prepare($harmless, 'brin');
($rc, $out, $err) = sql_of_owner('VACUUM m.brin');
is("$rc $err", '0 ', 'a vacuum without the function succeeds');

#
# parvacuum_run(), in a process of its own
#
for my $place (@places)
{
	prepare("ALTER TABLE m.$place SET (parvacuum.workers = 0); $all_attempts", $place);
	pv_new_log($node);
	($rc, $out, $err) = sql_of_owner("SELECT count(*) FROM parvacuum_run('m.$place', workers => 0, \"analyze\" => true)");
	is("$rc $out", '0 1', "parvacuum_run() of $place succeeds");
	all_refused($err, "parvacuum_run() of $place");
}

#
# Sweeps and similar functions inside commands of core that run as the owner
#
# (an immutable function cannot CALL)
for my $attempt (grep { /parvacuum/ && !/CALL/ } @attempts)
{
	($rc, $out, $err) = sql_of_owner(attempt($attempt) =~ s/VOLATILE/IMMUTABLE/r, 'CREATE INDEX ON m.expression (m.f(i + 1))');
	isnt($rc, 0, "CREATE INDEX fails by $attempt");
	like($err, qr/ERROR:  cannot execute .* within security-restricted operation/, 'the error has the reason');
}

#
# Autovacuum
#
sql('CREATE TABLE witness (i int) WITH (parvacuum.enabled, autovacuum_vacuum_threshold = 0, autovacuum_vacuum_scale_factor = 0, autovacuum_analyze_threshold = 0, autovacuum_analyze_scale_factor = 0)', 'INSERT INTO witness VALUES (0)');
my $low = 'autovacuum_enabled = on, autovacuum_vacuum_insert_threshold = 10, autovacuum_vacuum_insert_scale_factor = 0, autovacuum_analyze_threshold = 10, autovacuum_analyze_scale_factor = 0';
my $done = q{SELECT sum(autovacuum_count + vacuum_count) || ' ' || sum(autoanalyze_count + analyze_count) FROM pg_stat_all_tables WHERE relid = '%s'::regclass};

# Both were completed once more.
sub gains { return map { "(SELECT $_ FROM pg_stat_all_tables WHERE relid = '$_[0]'::regclass)" } 'autovacuum_count + vacuum_count', 'autoanalyze_count + analyze_count'; }
sub until_done
{
	my ($table, $what, $act) = @_;
	my @gains = gains($table);
	my @before = map { sql("SELECT $_") } @gains;
	$act->();
	ok(pv_await($node, "SELECT $gains[0] > $before[0] AND $gains[1] > $before[1]", 'true'), $what);
	return;
}

for my $way (qw(autovacuum parvacuum.scheduler))
{
	my $begun;
	# a table that failed before must not wait
	my $forget = sub {
		unlike(slurp_file($node->logfile, $begun), qr/exited with exit code/, "$way: no process ended") if $begun;
		$node->restart;
		$begun = -s $node->logfile;
	};
	$forget->();
	for my $place (@places)
	{
		prepare("ALTER TABLE m.$place SET (parvacuum.workers = 0); $all_attempts", $place);
		pv_new_log($node);
		until_done("m.$place", "$way: $place is vacuumed and analyzed", sub { sql("ALTER TABLE m.$place SET ($low)"); pv_reload_with($node, $way => 'on'); });
		all_refused(pv_new_log($node), "$way: $place");
		sql("ALTER TABLE m.$place SET (autovacuum_enabled = off)");
		until_done('witness', "$way: so is the next table", sub { sql('UPDATE witness SET i = i + 1'); });
	}

	# An error that is not caught ends the work on that table only.
	for my $attempt (@attempts)
	{
		my @both = ('expression', 'brin');
		$forget->();
		prepare(attempt($attempt), @both);
		pv_new_log($node);
		sql(map { "ALTER TABLE m.$_ SET ($low)" } @both);
		for my $place (@both)
		{
			ok($node->wait_for_log(qr/ERROR: .*(cannot be executed from VACUUM or ANALYZE|within security-restricted operation|cannot be executed from a function)(?s:.{0,2000}?)\bm\.$place\b/, pv_log_seen($node)), "$way: $place fails by $attempt");
		}
		sql(map { "ALTER TABLE m.$_ SET (autovacuum_enabled = off)" } @both);
		until_done('witness', "$way: the next table is vacuumed all the same", sub { sql('UPDATE witness SET i = i + 1'); });
	}
	$forget->();
	pv_reload_with($node, $way => 'off');
}

pv_no_crash($node, 'the server');
sql($harmless);
is(pv_findings($node, "m.$_"), '', "$_ is whole") for @places;
$node->stop;
done_testing();
