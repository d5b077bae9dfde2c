# parvacuum in a folder that the server can only read, as in a volume from an image: from 18
# on, extension_control_path and dynamic_library_path are enough to find it.

use strict;
use warnings FATAL => 'all';

use File::Basename;
use FindBin;
use lib $FindBin::RealBin;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use PvTest;
use Test::More;

my $config = $ENV{PG_CONFIG} || 'pg_config';
my ($major) = `$config --version` =~ /(\d+)/;
plan skip_all => 'before 18 a server looks for extensions in one folder only' if $major < 18;

# The output of a command, without the last newline
sub output_of
{
	my ($command) = @_;
	my $out = `$command`;
	die "$command failed" if $? != 0;
	chomp $out;
	return $out;
}

# A server without parvacuum
my $dir = PostgreSQL::Test::Utils::tempdir;
my $private = output_of("PG_CONFIG=$config $FindBin::RealBin/../../scripts/private_server $dir/server");
my @folders = map { output_of("$private $_") } qw(--pkglibdir --sharedir);
is(output_of("find @folders -name 'parvacuum*' ! -name 'parvacuum_test*'"), '', 'the server has no parvacuum of its own');

# The folder, with another version of each extension
my $image = "$dir/extensions/parvacuum";
my ($lib, $share) = ("$image/lib", "$image/share/extension");
system_or_bail('mkdir', '-p', $lib, $share);
system_or_bail('cp', output_of("$config --pkglibdir") . '/parvacuum.so', $lib);
system_or_bail('cp', (map { glob output_of("$config --sharedir") . "/extension/$_" } 'parvacuum.control', 'parvacuum--*.sql', 'parvacuum_cluster*'), $share);
my ($version) = slurp_file("$share/parvacuum.control") =~ /^default_version = '(.*)'/m;
append_to_file("$share/parvacuum--$version--next.sql", q{CREATE FUNCTION next_version() RETURNS void AS 'MODULE_PATHNAME', 'parvacuum_check_library' LANGUAGE C;});
append_to_file("$share/parvacuum_cluster--$version--next.sql", q{CREATE FUNCTION next_cluster(server oid) RETURNS bool AS 'MODULE_PATHNAME', 'parvacuum_cluster_by_postgres' LANGUAGE C STRICT;});
system_or_bail('chmod', '-R', 'a-w', $image);
my $contents = output_of("cd $image && find . -ls");
for my $file ("$lib/parvacuum.so", "$lib/new", "$share/new")
{
	ok(!open(my $out, '>>', $file), substr($file, length($image) + 1) . ' cannot be written');
}

my $node = pv_node('read_only_folder', install_path => dirname(dirname($private)));
ok(!$node->start(fail_ok => 1), 'without the paths the server does not find the library');
$node->append_conf('postgresql.conf', "extension_control_path = '\$system:$image/share'\ndynamic_library_path = '\$libdir:$lib'\nautovacuum_naptime = 1s\n");
$node->start;
pv_setup($node);

sub sql { return pv_sql($node, join ";\n", @_); }

sub version_of { return sql("SELECT extversion FROM pg_extension WHERE extname = '$_[0]'"); }

# Each kind of process finds the library: sessions, the background leader, parallel workers,
# the launcher, scheduler workers.
sql('CREATE EXTENSION parvacuum_cluster');
is(version_of($_), $version, "$_ is created") for qw(parvacuum parvacuum_cluster);
sql('CREATE TABLE t (id int PRIMARY KEY, other int) WITH (parvacuum.enabled, parvacuum.workers = 2, autovacuum_vacuum_threshold = 10)',
	'INSERT INTO t SELECT i, i FROM generate_series(1, 20000) i', 'DELETE FROM t WHERE id % 3 = 0');
is(sql(q{SELECT workers_launched, tuples_removed FROM parvacuum_run('t')}), '2|6666', 'parvacuum_run() vacuums with two workers');
sql('DELETE FROM t WHERE id % 3 = 1');
my ($rc, $out, $err) = $node->psql('postgres', 'VACUUM (VERBOSE) t');
like($err, qr/engine: parvacuum/, 'VACUUM uses the engine');
is(sql('SELECT count(*) FROM parvacuum_cluster_nodes()'), 1, 'a function of parvacuum_cluster');
pv_reload_with($node, 'parvacuum.scheduler' => 'on');
sql('DELETE FROM t WHERE id % 2 = 0');
ok(pv_await($node, q{SELECT count(*) > 0 FROM parvacuum_history WHERE relation = 't'::regclass AND started_by = 'scheduler' AND by_engine}, 'true'), 'the scheduler vacuums with the engine');
pv_reload_with($node, 'parvacuum.scheduler' => 'off');
is(pv_findings($node, 't'), '', 'the table is whole');

# pg_upgrade loads each library by the name that functions have in the catalog.
my $names = sql(q{SELECT DISTINCT probin FROM pg_proc WHERE probin LIKE '%parvacuum%'});
sql("LOAD '$names'");
is($names, 'parvacuum', 'functions have the name of the library that is found by the path');

# Dump and restore
$node->command_ok([ 'pg_dump', '-Fc', '-t', 't', '-e', 'parvacuum*', '-d', $node->connstr('postgres'), '-f', "$dir/dump" ], 'pg_dump');
sql('CREATE DATABASE copy');
$node->command_ok([ 'pg_restore', '-e', '-d', $node->connstr('copy'), "$dir/dump" ], 'pg_restore');
is($node->safe_psql('copy', q{SELECT string_agg(extname, ' ' ORDER BY extname) FROM pg_extension WHERE extname LIKE 'parvacuum%'}), 'parvacuum parvacuum_cluster', 'the extensions are restored');
is($node->safe_psql('copy', q{SELECT workers FROM parvacuum_tables WHERE relation = 't'::regclass}), 2, 'the options are restored');

# Another version, after a restart
$node->restart;
isnt(sql('SELECT count(*) FROM parvacuum_history'), 0, 'the history is kept');
is(sql(q{SELECT path FROM pg_extension_update_paths('parvacuum') WHERE source = '} . $version . q{' AND target = 'next'}), "$version--next", 'the path of the update');
sql("ALTER EXTENSION $_ UPDATE TO 'next'") for qw(parvacuum parvacuum_cluster);
is(version_of($_), 'next', "$_ is updated") for qw(parvacuum parvacuum_cluster);
sql('SELECT next_version()');
is(sql('SELECT next_cluster(0)'), 'f', 'what the update made can be called');
sql('DROP EXTENSION parvacuum_cluster', 'DROP EXTENSION parvacuum');
is(sql(q{SELECT count(*) FROM pg_proc WHERE probin LIKE '%parvacuum%'}), 0, 'both are dropped');

is(output_of("cd $image && find . -ls"), $contents, 'nothing in the folder has changed');
pv_no_crash($node, 'the server');
$node->stop;
system('chmod', '-R', 'u+w', $image);
done_testing();
