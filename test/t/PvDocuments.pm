# The commands in README.md and docs/: where they stand, and running them as they are written.
#
# A block of code is either indented by four spaces or fenced.  The first word after a fence says
# what it is, and the second one on which server it is run: "sql standby".  An indented block is
# cut at blank lines, and each part of it tells by its first words what it is.  Statements within
# a paragraph or a table, between backquotes, are commands too if they are complete.
package PvDocuments;

use strict;
use warnings FATAL => 'all';

use Exporter 'import';
use File::Basename;
use IPC::Run;
use PostgreSQL::Test::Utils;
use Test::More;

our @EXPORT = qw(pv_blocks pv_run_sql pv_run_shell pv_settings_of pv_excused pv_unused_excuses $pv_source_dir);
our $pv_source_dir = dirname(__FILE__) . '/../..';

my $statement = qr/(?:ALTER|ANALYZE|CALL|COMMIT|CREATE|DELETE|DROP|INSERT|LOCK|RESET|SECURITY LABEL|SELECT|SET|SHOW|UPDATE|VACUUM|WITH)\b/;
my $program = qr{(?:sudo )?(?:apt|make|pg_\w+|psql|runuser|systemctl|vacuumdb|(?:\./)?[\w./]*scripts/\w+)\s};
my $setting = qr/[\w.]+\s*=\s*(?:'[^']*'|[\w.-]+)\s*(?:#.*)?/;

# What a part of an indented block is: sql, sh, conf, output of psql, or unknown.
sub kind_of
{
	my ($text) = @_;
	my $bare = join "\n", grep { !/^\s*(?:-- |#)/ } split /\n/, $text;

	return 'sql' if $bare =~ /^$statement/;
	return 'sh' if $bare =~ /^$program/;
	return 'conf' if $bare =~ /^(?:$setting\n?)+$/;
	return 'output' if $bare =~ /^\s*--+(?:\+-+)*$/m || $bare =~ /^(?:\w+ +\|(?: .*)?\n?)+$/;
	return 'unknown';
}

# All blocks of a document, each a hash: file, line, kind, server, text.  The lines are those from
# one on, which must be there, and up to another one.
sub pv_blocks
{
	my ($file, $from, $to) = @_;
	my @lines = split /\n/, slurp_file("$pv_source_dir/$file");
	my @blocks;
	my %at = map { $lines[$_] => $_ } reverse 0 .. $#lines;
	for my $line (grep { defined } $from, $to) { die "$file has no line \"$line\"\n" if !defined $at{$line}; }
	my ($i, $in_block) = (0, 0);

	while ($i < @lines)
	{
		my %block = (file => $file, line => $i + 1, server => '', inline => 0, text => '');

		if ($lines[$i] =~ /^( *)```(\w*) *(\w*)/)
		{
			my $indent = $1;
			@block{qw(kind server)} = ($2 || 'unknown', $3);
			$block{text} .= ($lines[$i] =~ s/^$indent//r) . "\n" while ++$i < @lines && $lines[$i] !~ /^ *```$/;
			die "$file:$block{line}: the fence is not closed\n" if $i == @lines;
			push @blocks, \%block;
		}
		elsif ($lines[$i] =~ /^ {4}\s*\S/ && ($in_block || $lines[ $i - 1 ] eq ''))
		{
			$block{text} .= ($lines[ $i++ ] =~ s/^ {4}//r) . "\n" while $i < @lines && $lines[$i] =~ /^ {4}/;
			# an item of a list indents its block further
			my ($more) = $block{text} =~ /^( +)\S/;
			$block{text} =~ s/^$more//mg if defined $more && $block{text} !~ /^(?!$more)/m && kind_of($block{text} =~ s/^$more//mgr) ne 'unknown';
			push @blocks, { %block, kind => kind_of($block{text}) };
			$in_block = 1;
			next;
		}
		elsif ($lines[$i] ne '')
		{
			$in_block = 0;
			die "$file:$block{line}: a statement goes on in the next line\n" if ($lines[$i] =~ s/`[^`]*`//gr) =~ /`$statement [^`]*$/;
			while ($lines[$i] =~ /`($statement [^`]*)`/g)
			{
				my $text = $1;
				# "DROP EXTENSION" and "CALL parvacuum()" are names, "SET (...)" is a part of a statement,
				# and dots stand for what the reader knows
				push @blocks, { %block, kind => 'sql', inline => 1, text => "$text\n" } if $text !~ /\.\.\.|^[^a-z]*$|^(?:RE)?SET \(|^CALL \w+\(\)$/;
			}
		}
		$i++;
	}
	return grep { (!defined $from || $_->{line} > $at{$from}) && (!defined $to || $_->{line} <= $at{$to}) } @blocks;
}

# What cannot be run, by words of it, each with the reason, which is printed.
my %used;

sub pv_excused
{
	my ($block, %excuse) = @_;

	for my $words (sort keys %excuse)
	{
		next if index($block->{text}, $words) < 0;
		note "$block->{file}:$block->{line}: not run: $excuse{$words}" if !$used{$words}++;
		return 1;
	}
	return 0;
}

# Excuses that excuse nothing
sub pv_unused_excuses
{
	my (%excuse) = @_;
	return grep { !$used{$_} } sort keys %excuse;
}

# Run the statements of a block as psql would, in one session.  One test.
sub pv_run_sql
{
	my ($node, $database, $block) = @_;
	my ($rc, $out, $err) = $node->psql($database, $block->{text}, on_error_die => 0, timeout => $PostgreSQL::Test::Utils::timeout_default);

	ok($rc == 0, "$block->{file}:$block->{line}: " . ($block->{text} =~ /^(?!--)(.*)/m)[0]) or diag $block->{text}, $err;
	return $out;
}

# Run the lines of a block by bash, in a folder.  It stops at the first error.  One test.
sub pv_run_shell
{
	my ($folder, $block, %environment) = @_;
	my ($out, $err) = ('', '');
	local %ENV = (%ENV, %environment);
	# a server that is started by it would have the name in its connections to others
	delete $ENV{PGAPPNAME};
	my $good = IPC::Run::run([ 'bash', '-euo', 'pipefail', '-c', "cd '$folder'\n$block->{text}" ], '<', \undef, '>', \$out, '2>', \$err,
		IPC::Run::timeout($PostgreSQL::Test::Utils::timeout_default));

	ok($good, "$block->{file}:$block->{line}: " . ($block->{text} =~ /^(?!#)(.*)/m)[0]) or diag $block->{text}, $out, $err;
	return $out;
}

# The settings of a block for postgresql.conf, as pairs of name and value
sub pv_settings_of
{
	my ($block) = @_;
	return map { /^([\w.]+)\s*=\s*(?:'([^']*)'|([\w.-]+))/ ? ($1, $2 // $3) : () } split /\n/, $block->{text};
}

1;
