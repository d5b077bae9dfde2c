# scripts/release-check finds what is not right for a release: each thing is made wrong in a
# repository of the test's own.

use strict;
use warnings FATAL => 'all';

use FindBin;
use PostgreSQL::Test::Utils;
use Test::More;

plan skip_all => 'there is no git' if system('git --version >/dev/null 2>&1') != 0;

my $dir = PostgreSQL::Test::Utils::tempdir;
my $repository = "$dir/repository";

sub git
{
	system('git', '-C', $repository, '-c', 'user.name=test', '-c', 'user.email=test', @_) == 0 or die "git @_ failed";
	return;
}

# The source as it would be for a release
mkdir $repository;
system("tar -C $FindBin::RealBin/../.. --exclude=.git --exclude=tmp_check --exclude=log --exclude='*.o' --exclude='*.so' --exclude='*.bc' -cf - . | tar -C $repository -xof -") == 0 or die;
chdir $repository or die;
substitute('META.json', qr/"release_status": "\w+"/, '"release_status": "stable"');
substitute('CHANGELOG.md', qr/^## ([\d.]+) \(.*\)/m, '## $1 (2026-11-28)');
git(qw(init -q));
git(qw(add -A));
git(qw(commit -q -m), 'The release');

sub substitute
{
	my ($file, $from, $to) = @_;
	my $text = slurp_file($file);
	my @found = $text =~ $from or die "$file has no $from";
	$text =~ s/$from/$to =~ s{\$1}{$found[0]}r/e;
	open my $out, '>', $file or die "$file: $!";
	print $out $text;
	close $out;
	return;
}

# Whether the check passes, and its output
sub check
{
	my $out = qx(scripts/release-check @_ 2>&1);
	return ($? == 0, $out);
}

my ($good, $out) = check(qw(version changelog status clean archive));
ok($good, 'a release passes') or diag $out;
is(scalar(() = $out =~ /^ok /mg), 5, 'one line for each thing');
like($out, qr/^5 passed, 0 failed$/m, 'the last line counts them');

# Each fault, the thing that must find it, and what it must say
sub finds
{
	my ($name, $fault, $says) = @_;
	my ($passed, $text) = check($name);

	ok(!$passed, "$name: $fault") or diag $text;
	like($text, qr/^not ok +$name +.*$says/ms, "$name: it is said");
	git(qw(checkout -q -- .));
	git(qw(clean -q -f -d));
	return;
}

substitute('META.json', qr/^  "version": "(\d+)\.\d+/m, '  "version": "$1.99');
finds('version', 'META.json has another version', 'META.json has 1.99');
substitute('parvacuum.control', qr/default_version = '(\d+)/, q{default_version = '9$1});
finds('version', 'the control file has another version', 'parvacuum.control has not');
substitute('parvacuum_cluster.control', qr/default_version = '(\d+)/, q{default_version = '9$1});
finds('version', 'parvacuum_cluster has another version', 'parvacuum_cluster.control has not');
substitute('CHANGELOG.md', qr/^## (\d)/m, '## 9$1');
finds('version', 'CHANGELOG.md has another version', 'CHANGELOG.md begins with 91');
unlink glob 'parvacuum--*.sql' or die;
finds('version', 'the script of the extension is missing', 'no script makes parvacuum');

substitute('CHANGELOG.md', qr/^## ([\d.]+) \(.*\)/m, '## $1 (unreleased)');
finds('changelog', 'the entry has no date', 'without a date');
substitute('CHANGELOG.md', qr/^## ([\d.]+) \(.*\)/m, '## $1 (2026-13-28)');
finds('changelog', 'the date is none', 'is no date');

substitute('META.json', qr/"release_status": "stable"/, '"release_status": "testing"');
finds('status', 'META.json says that it is a test', 'testing');

append_to_file('README.md', "\n");
finds('clean', 'a file is changed', 'README.md');
append_to_file('new', "\n");
finds('clean', 'a file is not tracked', 'new');
my ($tag) = map { "v$_" } slurp_file('META.json') =~ /^  "version": "([\d.]+)"/m;
git(qw(tag), $tag);
ok((check('clean'))[0], 'clean: this commit may have the tag');
git(qw(commit -q --allow-empty -m), 'Another commit');
finds('clean', 'another commit has the tag', 'is another commit');

append_to_file('src/base/clock.c', "\nint badly_named(void)\n{\n}\n");
finds('style', 'a rule is broken', '.*');

substitute('Makefile', qr/^(\tgit archive .*) HEAD$/m, '$1 HEAD src');
git(qw(commit -q -a -m), 'A fault');
finds('archive', 'make dist leaves something out', 'differs');

is(system('scripts/release-check nothing >/dev/null 2>&1') >> 8, 2, 'a name that it does not know is an error');
done_testing();
