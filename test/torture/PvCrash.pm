# Servers that crash: which processes a server has, how one of them or all are killed, and
# what must not remain of them.  All of it is read from /proc, so that it is quick and needs
# no answer of the server.
package PvCrash;

use strict;
use warnings FATAL => 'all';

use Cwd qw(realpath);
use Exporter 'import';
use POSIX ();
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use PvTorture;
use Test::More;
use Time::HiRes qw(sleep time);

our @EXPORT = qw($postmaster children launch has_ended is_ready until_ready until_down until_gone within crash spawn spawn_psql reap kill_processes remains old_segments forget_old $patience);

# No step takes that many seconds, unless something hangs.
our $patience = $PostgreSQL::Test::Utils::timeout_default;

# Segments of shared memory of lives of the server that have ended, and their processes
my (%segments, %processes);

our $postmaster;

sub read_small
{
	my ($path) = @_;
	open my $in, '<', $path or return '';
	local $/;
	my $text = <$in>;
	return $text // '';
}

# The title of a process without the name of the server; empty if there is no such process.
sub title
{
	my ($pid) = @_;
	return read_small("/proc/$pid/cmdline") =~ /^postgres: (?:\w+: )?([^\0]*)/ ? $1 : '';
}

# The processes of a server by what the kernel says: the process ID and the title of each
# that has one.  A process that was just forked has none.
sub child_pids { return split ' ', read_small("/proc/$postmaster/task/$postmaster/children"); }
sub children { return map { my $title = title($_); $title eq '' ? () : [ $_, $title ] } child_pids(); }

# All processes that work in the directory of a server, its postmaster and those that have
# lost it included
sub all_of
{
	my ($node) = @_;
	my $dir = realpath($node->data_dir);
	return grep { (readlink("/proc/$_/cwd") // '') eq $dir } map { m{(\d+)$} } glob '/proc/[0-9]*';
}

# Is the process there, and no zombie?
sub exists_process { return defined readlink "/proc/$_[0]/cwd"; }

# Wait until something is true, for this many seconds.  Returns whether it is.
sub within
{
	my ($seconds, $what, $pause) = @_;
	my $end = time + $seconds;
	while (1)
	{
		my $answer = $what->();
		return $answer if $answer;
		return 0 if time > $end;
		sleep($pause // 0.005);
	}
}

#
# Processes of the test
#

# Start a command whose output goes to a file.  Returns its process ID.
sub spawn
{
	my ($out, @command) = @_;
	my $pid = fork // die "cannot fork: $!";
	return $pid if $pid;
	open STDIN, '<', '/dev/null';
	open STDOUT, '>', $out;
	open STDERR, '>', "$out.err";
	exec @command or POSIX::_exit(127);
}

sub spawn_psql
{
	my ($node, $role, $name, $text, @more) = @_;
	my $file = PostgreSQL::Test::Utils::tempdir() . "/$name";
	open my $script, '>', "$file.sql" or die "cannot write $file.sql: $!";
	print $script $text;
	close $script;
	return { name => $name, out => "$file.out",
		pid => spawn("$file.out", 'psql', '-XAtq', @more, '-d', $node->connstr('postgres') . " user=$role", '-f', "$file.sql") };
}

# Wait for the end of a process of the test.  Returns its status, or nothing if it hangs;
# then it is ended.
sub reap
{
	my ($process) = @_;
	my $status;
	return $status if within($patience, sub { my $r = waitpid $process->{pid}, POSIX::WNOHANG(); $status = $? if $r; return $r; });
	kill 'KILL', $process->{pid};
	waitpid $process->{pid}, 0;
	return;
}

#
# The life of a server
#

# Start the server without waiting for it, as a child of the test: so it is no zombie when
# it has ended, which its successor would take for a running server.  Returns the process ID
# of its postmaster.
sub launch
{
	my ($node) = @_;
	my $pid = fork // die "cannot fork: $!";
	if (!$pid)
	{
		delete $ENV{PGAPPNAME};
		POSIX::setsid();
		open STDIN, '<', '/dev/null';
		open STDOUT, '>>', $node->logfile;
		open STDERR, '>&', \*STDOUT;
		exec 'postgres', '-D', $node->data_dir, '--cluster-name=' . $node->name or POSIX::_exit(127);
	}
	$node->{_pid} = $postmaster = $pid;
	return $pid;
}

# Has the postmaster ended?
sub has_ended { return waitpid($postmaster, POSIX::WNOHANG()) != 0; }

# Is a server ready, by its own file?
sub is_ready
{
	my ($node) = @_;
	my @line = split /\n/, read_small($node->data_dir . '/postmaster.pid');
	return @line > 7 && $line[0] == $postmaster && $line[7] =~ /ready/;
}

# Wait until the server accepts connections.  Returns whether it does.
sub until_ready
{
	my ($node) = @_;
	my $ready = 0;
	within($patience, sub {
		return 1 if has_ended();
		$ready = is_ready($node) && system("psql -XAtq -d '" . $node->connstr('postgres') . "' -c SELECT >/dev/null 2>&1") == 0;
		return $ready;
	}, 0.01);
	return $ready;
}

# Wait until no process of the server is left.  Returns whether there is none.
sub until_down
{
	my ($node) = @_;
	my $down = within($patience, sub { return has_ended() && !all_of($node); });
	diag 'still there: ' . join ', ', map { "$_ " . title($_) } all_of($node) if !$down;
	$node->{_pid} = undef if $down;
	return $down;
}

# Wait until these processes are gone.
sub until_gone
{
	my (@pids) = @_;
	return within($patience, sub { return !grep { exists_process($_) } @pids; });
}

# The segments of POSIX shared memory that these processes have mapped.  Other servers use
# the same directory, so only these can be told from theirs.
sub segments_of
{
	my %found;
	for my $pid (@_)
	{
		$found{$_} = 1 for read_small("/proc/$pid/maps") =~ m{(/dev/shm/PostgreSQL\.\d+)}g;
	}
	return keys %found;
}

# Stop a process and wait until it stands still.  Returns false if it has ended.
sub halt
{
	my ($pid) = @_;
	kill 'STOP', $pid;
	my $state;
	within($patience, sub { $state = read_small("/proc/$pid/stat") =~ /\) ([A-Z]) / ? $1 : 'X'; return $state =~ /[TZX]/; }, 0.0002);
	return $state eq 'T';
}

# Kill processes of a server.  All of them stand still meanwhile, so that what they have
# mapped is known, and so that the victim is still what it was when it was chosen.
#
#	how		'one' and the process ID and title of the victim
#			'all': all at once; 'postmaster': only the postmaster
#			'quit': what pg_ctl stop -m immediate does
#			'none': nobody
#
# Returns whether it was done.
sub crash
{
	my ($how, $victim) = @_;

	# A process that has been sent SIGSTOP may still be running on another CPU: it may fork, or
	# end by itself before it is killed.
	halt($postmaster);
	my @pids = child_pids();
	kill 'STOP', @pids;

	my $found = $how ne 'one' || (grep { $_ == $victim->[0] } @pids) && halt($victim->[0]);
	if ($found)
	{
		%segments = (%segments, map { $_ => 1 } segments_of($postmaster, @pids));
		%processes = (%processes, map { $_ => 1 } @pids, $how eq 'one' ? () : $postmaster);
		kill 'KILL', $how eq 'one' ? $victim->[0] : $how eq 'all' ? ($postmaster, @pids) : $how eq 'postmaster' ? $postmaster : ();
		kill 'QUIT', $postmaster if $how eq 'quit';
	}
	kill 'CONT', @pids, $postmaster;
	return $found;
}

# Was nothing written to the segment yet?  If a process is killed between the creation of a
# segment and its entry in the list of all segments (dsm_create() of core), nobody removes it.
sub is_unwritten
{
	my ($path) = @_;
	my $text = slurp_file($path);
	return $text !~ /[^\0]/ && unlink $path;
}

# What remains of what has crashed: segments of shared memory, processes, and temporary
# files.  The server has recovered, or has stopped.  Returns it as text.
sub remains
{
	my ($node) = @_;
	my $dir = $node->data_dir;
	my @left;
	push @left, 'processes: ' . join ' ', map { "$_ " . title($_) } grep { exists_process($_) } keys %processes if grep { exists_process($_) } keys %processes;
	my @segments = grep { -e && !is_unwritten($_) } keys %segments;
	push @left, "segments: @segments" if @segments;
	my @files = (glob("$dir/base/pgsql_tmp/*"), glob("$dir/base/*/t[0-9]*_*"), glob("$dir/pg_stat/*.bad"));
	push @left, "files: @files" if @files;
	return join '; ', @left;
}

# The number of segments that had to go
sub old_segments { return scalar keys %segments; }

# All is gone; process IDs may be used again.
sub forget_old { %segments = %processes = (); return; }

1;
