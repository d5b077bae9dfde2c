# Every command in README.md and docs/ runs as it is written there, but for those that this file
# excuses by name, each with its reason.  operating.pl runs docs/operating.md, and documents.pl of
# test/cluster what needs Citus.

use strict;
use warnings FATAL => 'all';

use FindBin;
use lib $FindBin::RealBin;
use File::Basename;
use PostgreSQL::Test::Utils;
use PvDocuments;
use PvTest;
use Test::More;

# Words of what cannot be run here, and why
my %excuse = (
	'make demo' => 'each of the two is a run of its own: make check runs this test, scripts/release-check the demo',
	'dpkg-buildpackage' => 'scripts/package builds the packages, and installs them in a system of its own',
	'make && sudo make install' => 'scripts/check has just built and installed the library, by the same targets',
	'leader          cutoffs' => 'a picture',
	'INFO:  vacuuming' => 'messages of VACUUM',
	'tuples: 0 removed' => 'messages of VACUUM',
	'parvacuum_horizon_xid_age{' => 'metrics, which monitoring/metrics.pl reads',
	'dead_score    =' => 'formulas',
	'(PARALLEL n)' => 'n is any number');

# A document whose commands another test runs, and another one that another test runs up to a line
my %elsewhere = ('docs/operating.md' => 't/operating', 'docs/clusters.md' => 'cluster/documents');
my %from = ('docs/clusters.md' => '## Foreign partitions');

# What the examples are about
my $tables = q{
	CREATE TABLE orders (id int PRIMARY KEY, customer int, price numeric, note text);
	CREATE INDEX orders_customer_idx ON orders (customer);
	INSERT INTO orders SELECT i, i % 100, i, repeat('x', 50) FROM generate_series(1, 20000) i;
	CREATE TABLE accounts (id int PRIMARY KEY, balance int);
	CREATE VIEW v AS SELECT 1;
	DELETE FROM orders WHERE id % 5 = 0;
};

# For foreign partitions: a table of which a part is in the database archive
my $partitioned = q{
	CREATE TABLE events (i int) PARTITION BY RANGE (i);
	CREATE TABLE events_new PARTITION OF events FOR VALUES FROM (1000) TO (2000);
	INSERT INTO events SELECT i FROM generate_series(1000, 1999) i;
};
my $foreign = q{
	CREATE EXTENSION postgres_fdw;
	CREATE SERVER archive FOREIGN DATA WRAPPER postgres_fdw OPTIONS (host '%s', port '%s', dbname 'archive');
	CREATE USER MAPPING FOR CURRENT_USER SERVER archive;
	CREATE FOREIGN TABLE events_old PARTITION OF events FOR VALUES FROM (0) TO (1000) SERVER archive OPTIONS (table_name 'p1');
};

my $node = pv_node('main');
$node->append_conf('postgresql.conf', "parvacuum.scheduler = on\n");
$node->start;
pv_sql($node, 'CREATE DATABASE d');
pv_sql($node, 'CREATE DATABASE archive');
pv_sql($node, 'CREATE ROLE postgres SUPERUSER') if pv_sql($node, q{SELECT count(*) FROM pg_roles WHERE rolname = 'postgres'}) == 0;
$node->safe_psql('archive', 'CREATE EXTENSION parvacuum; CREATE TABLE p1 AS SELECT i FROM generate_series(1, 999) i');

# A block with settings is appended to the configuration, and the server started with it.
sub apply_settings
{
	my ($block) = @_;
	my %want = pv_settings_of($block);

	$node->append_conf('postgresql.conf', $block->{text});
	$node->restart;
	is(pv_sql($node, "SELECT current_setting('$_', true)"), $want{$_}, "$block->{file}:$block->{line}: $_") for sort keys %want;
	return;
}

sub run_block
{
	my ($block) = @_;

	return if $block->{kind} eq 'output' || pv_excused($block, %excuse);
	# it creates the extensions once more, in a schema
	return pv_run_sql($node, 'other', $block) if $block->{text} =~ /^CREATE SCHEMA vacuum/;
	return pv_run_sql($node, 'shop', $block) if $block->{kind} eq 'sql';
	return apply_settings($block) if $block->{kind} eq 'conf';
	return pv_run_shell('.', $block, PGHOST => $node->host, PGPORT => $node->port) if $block->{kind} eq 'sh';
	fail("$block->{file}:$block->{line}: neither a command nor excused");
	diag $block->{text};
	return;
}

# The commands of a document, in a database of its own, and in the order in which they stand
chdir $pv_source_dir or die "$pv_source_dir: $!";
for my $file ('README.md', sort glob 'docs/*.md')
{
	next if $elsewhere{$file} && !$from{$file};
	my @blocks = pv_blocks($file, $from{$file});
	for my $database (qw(shop other))
	{
		pv_sql($node, "DROP DATABASE IF EXISTS $database WITH (FORCE)");
		pv_sql($node, "CREATE DATABASE $database");
	}
	$node->safe_psql('shop', $tables);
	$node->safe_psql('shop', 'CREATE EXTENSION parvacuum') if !grep { $_->{text} =~ /^CREATE EXTENSION parvacuum;/m } @blocks;
	if ($file eq 'docs/clusters.md')
	{
		$node->safe_psql('shop', 'CREATE EXTENSION parvacuum_cluster');
		$node->safe_psql('other', 'CREATE EXTENSION dblink');
		$node->safe_psql($_, $partitioned . sprintf $foreign, $node->host, $node->port) for qw(shop other);
	}
	run_block($_) for @blocks;
}
is(join(', ', pv_unused_excuses(%excuse)), '', 'each excuse is used');
ok(-e "test/$elsewhere{$_}.pl", "$_ has a test of its own") for sort keys %elsewhere;
pv_no_crash($node, 'the server');
done_testing();
