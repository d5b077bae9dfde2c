# pg_upgrade from each older major version whose server is there, with the library preloaded
# in both.  The options of tables are kept.  In the new server, tables that our engine has
# vacuumed in the old one are whole, with multixacts and dead rows; our engine vacuums them,
# and they are whole again.
#
# Servers of other versions are those that test/servers has built.  A copy of each gets the
# library.  Without PV_SECONDS it upgrades once, from the oldest version.

use strict;
use warnings FATAL => 'all';

use FindBin;
use lib $FindBin::RealBin, "$FindBin::RealBin/../t";
use File::Basename qw(dirname);
use File::Find;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use PvLoad;
use PvTest;
use PvTorture;
use Test::More;
use Time::HiRes qw(time);

my ($bindir) = map { chomp; $_ } qx($ENV{PG_CONFIG} --bindir);
my ($major) = qx($ENV{PG_CONFIG} --version) =~ /(\d+)/;

# The older major versions, each with the home of its server, one with assertions if there
# is one.  A server that is finished has a stamp.
sub older_servers
{
	my %home;
	my %seen;
	for my $cache (grep { defined && !$seen{$_}++ } $ENV{PV_SERVERS}, dirname(dirname($bindir)), '/var/cache/parvacuum-servers')
	{
		for my $of (15 .. $major - 1)
		{
			for my $home ("$cache/$of-assert", "$cache/$of")
			{
				$home{$of} //= $home if -e "$home/stamp" && -x "$home/bin/pg_upgrade";
			}
		}
	}
	return %home;
}

my %home = older_servers();
plan skip_all => $major == 15 ? 'there is no older version' : 'test/servers has built no server of an older version' if !%home;
my @majors = sort { $a <=> $b } keys %home;
@majors = $majors[0] if !$ENV{PV_SECONDS};
my %done = map { $_ => 0 } qw(upgrades tables);
my %pairs;
my $dir = PostgreSQL::Test::Utils::tempdir;

# A copy of a server, with our library
my %ready;
sub ready_server
{
	my ($of) = @_;
	my $copy = "$dir/server_$of";
	return $ready{$of} if $ready{$of};
	my $source = "$dir/source_$of";
	mkdir $source;
	my $log = "$PostgreSQL::Test::Utils::log_path/build_$of.log";
	my $make = "make -s -j2 -C '$source' PG_CONFIG='$copy/bin/pg_config' with_llvm=no COPT='-O0 -g0' install";
	system("{ cp -R '$home{$of}' '$copy' && tar -C '$FindBin::RealBin/../..' --exclude='*.o' --exclude='*.bc' --exclude='*.so' --exclude=./tmp_check --exclude=./.git -cf - . | tar -C '$source' -xf - && $make; } >'$log' 2>&1") == 0
	  or die "the library could not be built for $of:\n" . slurp_file($log);
	return $ready{$of} = $copy;
}

# Labels, and the options in effect
my $options = q{
	SELECT l.objoid::regclass::text, l.label FROM pg_seclabel l WHERE l.provider = 'parvacuum' AND l.classoid = 'pg_class'::regclass
	UNION ALL
	SELECT relation::text, concat_ws(' ', enabled, enabled_from, workers, workers_from, buffer_usage_limit, buffer_usage_limit_from, vacuum_window, vacuum_window_from)
	FROM parvacuum_tables WHERE relation::text !~ '^(information_schema|oracle)' ORDER BY 1, 2};
my $parts = q{SELECT count(*), sum(hashtextextended(p::text, 0)) FROM part p};

# The old cluster: after transactions and vacuums, with dead rows that no vacuum has seen
sub old_cluster
{
	my ($n, $of, $checksums) = @_;
	my $old = pv_node("old_$n", install_path => ready_server($of), extra => [ $checksums ? '-k' : '--no-sync' ]);
	$old->start;
	pv_setup($old);
	load_create($old);
	my $workers = 1 + int rand 5;
	$old->safe_psql('postgres', qq{
		CREATE TABLE part (id int, v int, pad text) PARTITION BY RANGE (id);
		CREATE TABLE part_1 PARTITION OF part FOR VALUES FROM (0) TO (2000);
		CREATE TABLE part_2 PARTITION OF part FOR VALUES FROM (2000) TO (4000) WITH (fillfactor = 70);
		CREATE INDEX ON part (id);
		CREATE TABLE "it's ""odd""" (i int) WITH (parvacuum.enabled, parvacuum.window = 'Mon-Fri 22:00-06:00, Sat-Sun 00:00-24:00 Europe/Berlin');
		ALTER TABLE part SET (parvacuum.enabled, parvacuum.workers = $workers);
		ALTER TABLE part_2 SET (parvacuum.workers = 0, parvacuum.buffer_usage_limit = '1MB');
		INSERT INTO part SELECT i, 0, repeat('x', 50) FROM generate_series(0, 3999) i;
		UPDATE part SET v = v + 1 WHERE id % 7 = 0;
		DELETE FROM part WHERE id % 11 = 0});
	my $bench = pv_start_pgbench($old, 2, 3, %load_scripts);
	my ($vacuums, $failed) = pv_repeat_until($old, time + 1, map { vacuum_statement() } 1 .. 50);
	is_deeply($failed, [], "from $of: no vacuum has failed in the old cluster");
	$bench->{handle}->finish;
	$old->safe_psql('postgres', 'DELETE FROM part WHERE id % 13 = 0; VACUUM (FREEZE) account') if chance(0.5);
	load_whole($old, "from $of, the old cluster");
	return $old;
}

# The logs that pg_upgrade leaves when it fails
sub upgrade_logs
{
	my ($new) = @_;
	my $text = '';
	my $output = $new->data_dir . '/pg_upgrade_output.d';
	find(sub { $text .= slurp_file($_) if /\.log$/ }, $output) if -d $output;
	return substr $text, -3000;
}

sub upgrade
{
	my ($n, $of) = @_;
	srand($seed + $n);
	my $checksums = chance(0.5);
	my @mode = one_of(['--link'], [], $major >= 18 ? ['--swap'] : ['--link'])->@*;
	my $what = "upgrade by seed ${\($seed + $n)}, from $of to $major @mode" . ($checksums ? ' with checksums' : '');
	my $old = old_cluster($n, $of, $checksums);
	my $before = join "\n", map { $old->safe_psql('postgres', $_) } $options, $parts;
	$old->stop;
	my $new = pv_node("new_$n", extra => [ $checksums ? '-k' : '--no-sync' ]);

	chdir $dir or BAIL_OUT("cannot go to $dir: $!");
	my ($out, $err) = run_command([ 'pg_upgrade', '--no-sync', @mode, '-d', $old->data_dir, '-D', $new->data_dir,
		'-b', $old->config_data('--bindir'), '-B', $new->config_data('--bindir'), '-s', $new->host, '-p', $old->port, '-P', $new->port ]);
	ok($? == 0, $what) or diag $out, $err, upgrade_logs($new);
	return if $? != 0;

	$new->start;
	is(join("\n", map { $new->safe_psql('postgres', $_) } $options, $parts), $before, "$what: options and rows are kept");
	# the oracle of the new version
	$new->safe_psql('postgres', q{SELECT format('ALTER EXTENSION %I UPDATE', extname) FROM pg_extension \gexec});
	pv_setup($new);
	load_sums($new, $what);
	load_whole($new, $what);
	for my $table (@tables, 'part_1')
	{
		my ($rc, $stdout, $stderr) = $new->psql('postgres', 'VACUUM (VERBOSE, INDEX_CLEANUP on' . one_of('', ', FREEZE', ', DISABLE_PAGE_SKIPPING') . ") $table");
		like($stderr, qr/engine: parvacuum/, "$what: the engine vacuums $table") or diag $stderr;
		$done{tables}++;
	}
	load_sums($new, "$what, vacuumed");
	load_whole($new, "$what, vacuumed");
	is($new->safe_psql('postgres', "$parts; SELECT * FROM oracle.check_table('part')"), (split /\n/, $before)[-1], "$what: partitions are the same");

	# go on as before
	my $bench = pv_start_pgbench($new, 1, 3, %load_scripts);
	my ($vacuums, $failed) = pv_repeat_until($new, time + 1, map { vacuum_statement() } 1 .. 50);
	is_deeply($failed, [], "$what: later vacuums do not fail");
	$bench->{handle}->finish;
	load_sums($new, "$what, later");
	load_whole($new, "$what, later");
	$new->stop;
	if ($checksums)
	{
		command_ok([ $new->config_data('--bindir') . '/pg_checksums', '--check', '-D', $new->data_dir ], "$what: all checksums are right");
	}
	pv_no_crash($_, "$what, " . $_->name) for $old, $new;
	$_->clean_node for $old, $new;
	$done{upgrades}++;
	$pairs{"$of to $major"}++;
	return;
}

my $end = time + pv_seconds(1, 0);
my $n = 0;
do { upgrade($n, $majors[ $n % @majors ]); $n++; }
  while ((time < $end || $n < @majors) && Test::More->builder->is_passing);

note "$pairs{$_} from $_" for sort keys %pairs;
pv_figure($done{upgrades}, 'clusters upgraded from ' . join(', ', map { s/ to.*//r } sort keys %pairs) . " to $major");
pv_figure($done{tables}, 'tables vacuumed by parvacuum after an upgrade');
done_testing();
