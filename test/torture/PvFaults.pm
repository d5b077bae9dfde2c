# System calls and allocations of a server that fail: the library shim/faults.c, which is
# preloaded into the server, and the file by which it is told what is to fail.
#
# What may come of a fault is an error or a warning, and after a failed write or flush of WAL
# a PANIC of core.  What must not come of it: another crash, a failed assertion, a leak that
# the log reports, a lock that is kept, a table that is not whole.
package PvFaults;

use strict;
use warnings FATAL => 'all';

use Exporter 'import';
use File::Basename;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use PvTest;
use PvTorture;
use Test::More;
use Time::HiRes qw(sleep time);

our @EXPORT = qw(faults_node faults_start faults_sql faults_arm faults_disarm faults_revive faults_new_log faults_idle faults_trace
  $node $begin $end);

our $node;

# A session that is to have the fault sends these before and after
our $begin = q{SELECT pg_read_file('pv_begin', 0, 1, true)};
our $end = q{SELECT pg_read_file('pv_end', 0, 1, true)};

my %kind = (read => 1, write => 2, extend => 4, truncate => 8, sync => 16, open => 32, create => 64, shm => 128, alloc => 256, rename => 512);
my %errno = (EIO => 5, ENOENT => 2, ENOMEM => 12, ENFILE => 23, ENOSPC => 28, part => 0);
my $layout = 'l L l l l l l l Z96 Z160 Z256';
my ($library, $file, $seen_of_trace);

# A server with the library, initialized and configured; not started.  Skips all tests of
# the file where the library cannot be built.
sub faults_node
{
	my ($name, $conf) = @_;
	my $dir = PostgreSQL::Test::Utils::tempdir_short;
	my $config = $ENV{PG_CONFIG} || 'pg_config';
	my $source = dirname(__FILE__) . '/shim/faults.c';
	my $cflags = `$config --cflags`;

	plan skip_all => 'the library that makes calls fail is for Linux' if $^O ne 'linux';
	plan skip_all => 'a server with sanitizers has allocation of its own' if $cflags =~ /sanitize/;
	$library = "$dir/faults.so";
	my $out = `cc -O1 -g -Wall -Wextra -Werror -shared -fPIC -o $library $source -ldl 2>&1`;
	plan skip_all => "the library that makes calls fail cannot be built: $out" if $? != 0;

	$file = "$dir/control";
	append_to_file($file, pack $layout, (0) x 8, '', '', '');
	$node = pv_node($name, allows_streaming => 0);
	$node->append_conf('postgresql.conf', "restart_after_crash = on\nlog_min_messages = warning\n$conf");
	faults_start();
	pv_setup($node);
	faults_new_log();
	return;
}

sub faults_start
{
	local $ENV{LD_PRELOAD} = $library;
	local $ENV{PV_FAULTS} = $file;
	$node->start;
	return;
}

sub faults_sql { return pv_sql($node, @_); }

sub put
{
	my ($offset, $bytes) = @_;
	open(my $handle, '+<:raw', $file) or die "$file: $!";
	seek $handle, $offset, 0;
	print $handle $bytes;
	close $handle or die "$file: $!";
	return;
}

# What is to fail: kinds (a list), error, path (a pattern), skip, times, type (of background
# worker), session (true: what the session that sends $begin does, 'all': what any process
# does from then on; without it at once).
sub faults_arm
{
	my (%fault) = @_;
	my $kinds = 0;
	$kinds |= $kind{$_} for @{ $fault{kinds} };
	my $session = $fault{session} // '';
	$seen_of_trace = -s "$file.trace" // 0;
	put(0, pack $layout, 0, $kinds, $session eq '1' ? -1 : 0, $errno{ $fault{error} }, $fault{skip} // 0, $fault{times} // 1, 0, 0,
		$fault{type} // '', $fault{path} // '', '');
	put(0, pack 'l', $session ? 2 : 1);
	return;
}

# End it.  Returns the number of calls that could have failed, the number of those that did,
# and the first one of them.
sub faults_disarm
{
	put(0, pack 'l', 0);
	my @control = unpack $layout, slurp_file($file);
	return @control[ 6, 7, 10 ];
}

# Where the calls were made that have failed since the fault was armed, and where a process
# has crashed
sub faults_trace { return slurp_file("$file.trace", $seen_of_trace); }

# Wait until the server with the faults can be asked again.  One that could not recover because of
# its fault is started again.
sub faults_revive
{
	return if pv_await_ready($node, pv_log_seen($node));
	$node->{_pid} = undef;
	faults_start();
	return;
}

# What the log says since the last call
sub faults_new_log { return pv_new_log($node); }

# What is still in use although nothing runs, as text; waits for processes that are ending
sub faults_idle
{
	my $left = '';
	for (1 .. 200)
	{
		$left = faults_sql(q{
			SELECT 'lock: ' || concat_ws(' ', locktype, relation::regclass, mode, pid) FROM pg_locks WHERE pid <> pg_backend_pid() AND locktype <> 'virtualxid'
			UNION ALL SELECT 'process: ' || concat_ws(' ', pid, backend_type) FROM pg_stat_activity WHERE backend_type IN ('parallel worker', 'parvacuum background leader')
			UNION ALL SELECT 'progress: ' || p::text FROM pg_stat_progress_vacuum p
			UNION ALL SELECT 'our progress: ' || p::text FROM parvacuum_progress p});
		return '' if $left eq '';
		sleep 0.05;
	}
	return $left;
}

1;
