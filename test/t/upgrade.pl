# A new minor version: its files come while the server runs, then the server is restarted, the
# extension is updated, and the former library comes back.  test/upgrade makes that version.

use strict;
use warnings FATAL => 'all';

use File::Basename qw(dirname);
use FindBin;
use lib $FindBin::RealBin;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use PvTest;
use Test::More;

my $source = "$FindBin::RealBin/../..";
my $config = $ENV{PG_CONFIG} || 'pg_config';
my $dir = PostgreSQL::Test::Utils::tempdir;
my ($release, $minor) = slurp_file("$source/src/base/settings.h") =~ /PV_VERSION\s+"((\d+\.\d+)\.\d+)"/;
my $next_minor = $minor =~ s/(\d+)$/$1 + 1/er;
my $next_release = "$next_minor.0";

# A copy of the server, with its folders where they are to each other: then it finds those of
# the copy, also if they have little in common, as in Debian.
my %home = map { chomp(my $path = qx('$config' --$_)); ($_ => $path) } qw(bindir sharedir pkglibdir);
my ($common) = join("\n", values %home) =~ m{\A(/(?:.*/)?).*\n\1.*\n\1};
my %copy = map { $_ => "$dir/server/" . substr($home{$_}, length $common) } keys %home;
system("mkdir -p '$copy{$_}' && cp -R '$home{$_}/.' '$copy{$_}'") == 0 or die for sort keys %copy;

# The next version, and what it is made of.  It is compiled without optimization, because
# that is fast; objects of the tree itself are used again.
my ($library, $extensions) = ("$copy{pkglibdir}/parvacuum.so", "$copy{sharedir}/extension");
my $keep = $ENV{PV_COVERAGE} ? "--exclude='*.o'" : '';
mkdir "$dir/next";
system("tar -C '$source' --exclude=.git --exclude=./tmp_check --exclude='*.so' $keep -cf - . | tar -C '$dir/next' -xf -") == 0 or die;
my $log = "$PostgreSQL::Test::Utils::log_path/upgrade_build.log";
system(qq{{ cd '$dir/next' && patch -p1 -F0 -s <test/upgrade/next.patch && sed -i 's/"$release"/"$next_release"/' src/base/settings.h &&
	make -s -j2 PG_CONFIG='$config' with_llvm=no COPT='-O0 -g0' all; } >'$log' 2>&1}) == 0
  or die "the next version could not be built:\n" . slurp_file($log);
my %control = map { $_ => slurp_file("$extensions/$_.control") } qw(parvacuum parvacuum_cluster);
my %script = (parvacuum => slurp_file("$source/test/upgrade/next.sql"));
($script{parvacuum_cluster}) = $script{parvacuum} =~ /\A(.*?DROP FUNCTION.*?\n)/s;    # no change
my %file = (old => "$dir/old.so", next => "$dir/next/parvacuum.so");
system("cp -p '$library' '$file{old}'") == 0 or die;

# Install a version as a package does: a file is never changed, but replaced as a whole.
sub write_file
{
	my ($path, $text) = @_;
	unlink "$path.new";
	append_to_file("$path.new", $text);
	rename "$path.new", $path or die "$path: $!";
	return;
}

sub install
{
	my ($version) = @_;
	system("cp '$file{$version}' '$library.new' && mv '$library.new' '$library'") == 0 or die;
	for my $name (sort keys %control)
	{
		write_file("$extensions/$name.control", $version eq 'old' ? $control{$name} : $control{$name} =~ s/'\Q$minor\E'/'$next_minor'/r);
		my $script = "$extensions/$name--$minor--$next_minor.sql";
		$version eq 'old' ? unlink $script : write_file($script, $script{$name});
	}
	return;
}

my $node = pv_node('upgrade', install_path => dirname($copy{bindir}), extra => ['--no-sync']);
$node->append_conf('postgresql.conf', "autovacuum_naptime = 1s\n");
$node->start;
pv_setup($node);

sub sql { return $node->safe_psql('postgres', $_[0]); }

# The error of a statement
sub error_of
{
	my ($sql, $database) = @_;
	my ($rc, $out, $err) = $node->psql($database || 'postgres', $sql);
	return $rc == 0 ? 'no error' : $err;
}

sub differences { return sql(q{SELECT name, evidence, advice FROM parvacuum_check() WHERE name IN ('library_file', 'extension_version') ORDER BY name, evidence}); }

# Every view, every function without arguments, and those that vacuum: whatever they return, none
# may fail, but those of the next version in an older library.  All columns are read.
sub all_work
{
	my ($what) = @_;
	my @calls = split /\n/, sql(q{
		SELECT format('SELECT count(x::text) FROM %s%s x', o.name, o.call)
		FROM pg_depend d JOIN pg_extension e ON e.oid = d.refobjid AND e.extname = 'parvacuum' JOIN
		    (SELECT 'pg_class'::regclass AS class, oid, relname AS name, '' AS call FROM pg_class WHERE relkind = 'v'
		     UNION ALL SELECT 'pg_proc'::regclass, oid, proname, '()' FROM pg_proc WHERE pronargs = 0 AND proname !~ 'reset|next') o
		ON o.oid = d.objid AND o.class = d.classid WHERE d.refclassid = 'pg_extension'::regclass AND d.deptype = 'e' ORDER BY 1});
	cmp_ok(scalar(@calls), '>=', 18, "$what: all views and functions are tried");
	my @failed = grep { $_ ne '' } map { my $error = error_of($_); $error eq 'no error' ? '' : "$_: $error" } @calls,
	  map { "SELECT count(x::text) FROM $_ x" } q{parvacuum_run('t', workers => 2)}, q{parvacuum_plan('t')}, q{parvacuum_sweep('t_pkey')}, q{parvacuum_table_options('t')}, q{parvacuum_blockers('t')}, q{parvacuum_cancel('t')};
	is(join("\n", @failed), '', "$what: they work");
	is(error_of(q{CALL parvacuum('t'); CALL parvacuum_sweep_index('t_pkey')}), 'no error', "$what: so do the procedures");
	return;
}

# A vacuum with workers by the library, and one by the scheduler, in new processes
sub vacuums_work
{
	my ($what) = @_;
	is(sql(q{UPDATE t SET v = v + 1; SELECT workers_launched, tuples_removed > 0 FROM parvacuum_run('t', workers => 2, index_cleanup => 'on')}), '2|t', "$what: a vacuum has its workers");
	my $n = sql(q{SELECT count(*) FROM parvacuum_history WHERE started_by = 'scheduler'});
	pv_reload_with($node, 'parvacuum.scheduler' => 'on');
	sql(q{UPDATE s SET v = v + 1});
	is(sql(q{SELECT relid, result FROM parvacuum_enqueue('s')}) =~ s/^s\|.*//sr, '', "$what: a request is taken");
	ok(pv_await($node, qq{SELECT count(*) > $n FROM parvacuum_history WHERE started_by = 'scheduler'}, 'true'), "$what: the scheduler vacuums");
	pv_reload_with($node, 'parvacuum.scheduler' => 'off');
	return;
}

# Restart with the library that is installed.  The history is that of another version.
sub restart_with
{
	my ($version, $what) = @_;
	my $from = -s $node->logfile;
	$node->restart;
	is(sql('SHOW parvacuum.version'), $version, "$what: the library is that of $version");
	like(substr(slurp_file($node->logfile), $from), qr/WARNING: .*could not use parvacuum's history.*\n.*DETAIL:  Another version of parvacuum or PostgreSQL has written it\.  The history begins anew\.\n.*HINT:  The file is kept as "pg_stat\/parvacuum.stat.bad"/, "$what: a warning about the history");
	is(sql('SELECT count(*) FROM parvacuum_history'), 0, "$what: it is empty");
	return;
}

my $options = q{SELECT label FROM pg_seclabel ORDER BY 1};

# -- The version that is installed

is(sql('SHOW parvacuum.version'), $release, 'the version of the library');
is(sql(q{CREATE EXTENSION parvacuum_cluster; SELECT DISTINCT extversion FROM pg_extension WHERE extname ~ '^parvacuum'}), $minor, 'the version of the extensions');
is(differences(), '', 'they agree');
sql(q{
	CREATE TABLE t (id int PRIMARY KEY, v int) WITH (parvacuum.enabled, parvacuum.workers = 2, autovacuum_enabled = off);
	CREATE TABLE s (id int PRIMARY KEY, v int) WITH (parvacuum.enabled, autovacuum_vacuum_threshold = 10, autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_cost_delay = 0);
	INSERT INTO t SELECT i, 0 FROM generate_series(1, 10000) i;
	INSERT INTO s SELECT i, 0 FROM generate_series(1, 1000) i;
	CREATE VIEW of_history AS SELECT relname, index_scan_bypassed FROM parvacuum_history;
	CREATE VIEW of_function AS SELECT datname FROM parvacuum_wraparound()});
my $labels = sql($options);
all_work('one version');
SKIP:
{
	skip 'the names are not hidden on other systems', 1 if $^O ne 'linux';
	my @seen = grep { !/^(_PG_init|Pg_magic_func|(pg_finfo_)?parvacuum_\w+)$/ } map { (split)[2] } split /\n/, qx(nm -D --defined-only '$library');
	is("@seen", '', 'the library exports only what the server and SQL call');
}
like(sql(q{SELECT module_name, version FROM pg_get_loaded_modules() WHERE file_name ~ '^parvacuum'}), qr/^parvacuum\|\Q$release\E$/, 'the server knows the version') if $node->pg_version >= 18;

# -- The files of the next one come

my $holder = pv_hold($node, 't');
sql('UPDATE t SET v = v + 1');
my $run = pv_start_run($node, 'VACUUM (PARALLEL 2) t', 'parvacuum.wait_at' => 'scan');
pv_await_held($node, 3, 'new files');
install('next');
like(differences(), qr/^library_file\|"[^"]*" is of .*; parvacuum \Q$release\E is loaded\|Restart the server\.$/, 'new files: parvacuum_check() asks for a restart');
$holder->quit;
ok(pv_finish($run), 'new files: a vacuum in progress ends as usual') or diag $run->{err};
vacuums_work('new files');
$node->reload;
vacuums_work('new files, after a reload');
all_work('new files');
is(sql(q{LOAD 'parvacuum'; SHOW parvacuum.version}), $release, 'new files: LOAD changes nothing');
my $refused = qr/ERROR:  extension "parvacuum\w*" \Q$next_minor\E requires a newer library than the one that is loaded\n.*DETAIL:  The server has loaded parvacuum \Q$release\E\.\n.*HINT:  If the new library is installed, restart the server/s;
like(error_of("ALTER EXTENSION $_ UPDATE"), $refused, "new files: $_ cannot be updated yet") for qw(parvacuum parvacuum_cluster);
sql('CREATE DATABASE other');
like(error_of('CREATE EXTENSION parvacuum', 'other'), $refused, 'new files: nor created');
is(error_of("CREATE EXTENSION parvacuum VERSION '$minor'", 'other'), 'no error', 'new files: but in the former version');

# The files are missing for some time.
my $session = pv_session($node);
my $evidence = q{SELECT evidence FROM parvacuum_check() WHERE name = 'library_file'};
$session->query_safe($evidence);
rename $library, "$library.gone" or die;
like($session->query_safe($evidence), qr/^"[^"]*": No such file or directory; parvacuum \Q$release\E is loaded$/, 'no file: parvacuum_check() says so, in a session that has called it');
$session->quit;
is(error_of('VACUUM (PARALLEL 2) t'), 'no error', 'no file: a vacuum has its workers');
rename "$library.gone", $library or die;

# -- A restart: the library is newer than the extensions

restart_with($next_release, 'an older extension');
is(differences(), join("\n", map { "extension_version|extension $_ is $minor, the library that is loaded is $next_release|ALTER EXTENSION $_ UPDATE" } qw(parvacuum parvacuum_cluster)),
	'an older extension: parvacuum_check() says what to do');
vacuums_work('an older extension');
all_work('an older extension');
is(sql($options), $labels, 'an older extension: the options are the same');
is(sql(q{SELECT index_scan_bypassed FROM of_history WHERE relname = 't' LIMIT 1}), 'f', 'an older extension: the last column is what it was');

# -- The update

like(error_of('ALTER EXTENSION parvacuum UPDATE'), qr/cannot drop function parvacuum_wraparound\(\).*view of_function depends on function/s, 'an update: a view of somebody is in the way of a function that changes, and is named');
is(sql('SELECT extversion FROM pg_extension WHERE extname = \'parvacuum\''), $minor, 'an update: nothing has changed');
is(error_of('DROP VIEW of_function; ALTER EXTENSION parvacuum UPDATE; ALTER EXTENSION parvacuum_cluster UPDATE'), 'no error', 'an update without it');
is(differences(), '', 'an update: all versions agree');
vacuums_work('an update');
all_work('an update');
is(sql(q{SELECT next_figure FROM parvacuum_history WHERE relname = 't' AND action = 'vacuum' ORDER BY run DESC LIMIT 1; SELECT next_figure FROM parvacuum_run('t')}), "0\n0", 'an update: a new column');
is(sql('SELECT parvacuum_next()'), 42, 'an update: a new function');
is(sql(q{SELECT datname, datallowconn FROM parvacuum_wraparound((SELECT oid FROM pg_database WHERE datname = 'template0'))}), 'template0|f', 'an update: a new argument');
is(sql(q{SELECT index_scan_bypassed FROM of_history WHERE relname = 't' LIMIT 1}), 'f', 'an update: the views of others are still there');

# -- The former library comes back, and with it an extension that is newer

install('old');
restart_with($release, 'a newer extension');
is(differences(), join("\n", map { "extension_version|extension $_ is $next_minor, the library that is loaded is $release|Install parvacuum $next_minor or later, and restart the server." } qw(parvacuum parvacuum_cluster)),
	'a newer extension: parvacuum_check() says what to do');
vacuums_work('a newer extension');
all_work('a newer extension');
is(sql(q{SELECT next_figure IS NULL, index_scan_bypassed FROM parvacuum_history WHERE relname = 't' AND action = 'vacuum' ORDER BY run DESC LIMIT 1; SELECT next_figure IS NULL, index_scan_bypassed FROM parvacuum_run('t')}), "t|f\nt|f",
	'a newer extension: the new column is NULL');
like(error_of("SELECT $_"), qr/ERROR:  could not find function "parvacuum_\w*next" in file/, "a newer extension: $_ is not there") for 'parvacuum_next()', 'parvacuum_wraparound()';

# In another major version a column may be anything.
sql(q{UPDATE pg_extension SET extversion = '99.0' WHERE extname = 'parvacuum'});
like(error_of(q{SELECT parvacuum_run('t')}), qr/ERROR:  row with \d+ columns instead of \d+/, 'an extension of another major version: its columns are not filled with NULL');
sql("UPDATE pg_extension SET extversion = '$next_minor' WHERE extname = 'parvacuum'");

# An option that only the next version knows
sql(q{UPDATE pg_seclabel SET label = label || ', zeal=7' WHERE objoid = 't'::regclass});
my ($rc, $out, $err) = $node->psql('postgres', 'VACUUM (VERBOSE) t');
like($err, qr/WARNING:  ignoring the parvacuum options of table "t"\n.*DETAIL:  Its security label cannot be read.*\n.*HINT:  Set the options again with ALTER TABLE\./, 'a newer option: a warning says what to do');
is(error_of('ALTER TABLE t RESET (parvacuum.workers); ALTER TABLE t SET (parvacuum.enabled, parvacuum.workers = 2)'), 'no error', 'a newer option: that works');
is(sql($options), $labels, 'a newer option: the options are as before');

# The extension of the former version again
is(error_of(q{DROP EXTENSION parvacuum CASCADE; CREATE EXTENSION parvacuum}), 'no error', 'the former extension is made anew');
is(differences(), '', 'the former extension: all versions agree');
is(sql($options), $labels, 'the former extension: the options are kept');
all_work('the former extension');

$node->stop;
pv_no_crash($node, 'the server');
done_testing();
