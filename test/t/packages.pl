# Packages that make demo and make check install: no package that is named is upgraded, and
# no server that is running.  apt-get is replaced, and nothing is installed here.

use strict;
use warnings FATAL => 'all';

use FindBin;
use PostgreSQL::Test::Utils;
use Test::More;

plan skip_all => 'there is no /var/lib/dpkg' if !-d '/var/lib/dpkg';

# An apt-get that logs its arguments, and whose simulation prints this
my $dir = PostgreSQL::Test::Utils::tempdir;
append_to_file("$dir/apt-get", qq{#!/bin/sh\necho "\$*" >>$dir/log\ncase "\$*" in *--simulate*) cat $dir/simulation ;; esac\n});
append_to_file("$dir/pg_lsclusters", qq{#!/bin/sh\ncat $dir/clusters\n});
chmod 0755, "$dir/apt-get", "$dir/pg_lsclusters";
append_to_file("$dir/clusters", "15 main 5432 down postgres\n");

# Returns whether the packages were installed, what was printed, and the calls of apt-get.
sub install
{
	my ($simulation, @packages) = @_;
	unlink "$dir/log", "$dir/simulation";
	append_to_file("$dir/simulation", $simulation);
	append_to_file("$dir/log", '');
	my $out = `PATH=$dir:\$PATH bash -c '
		say() { echo "\$*"; }; die() { echo "\$*"; exit 1; }; as_root() { case \$1 in env) "\$@" ;; tee) cat >/dev/null ;; esac; }
		. $FindBin::RealBin/../../scripts/packages.sh; install_packages @packages' 2>&1`;
	return ($? == 0, $out, slurp_file("$dir/log"));
}

my ($good, $out, $log) = install("Inst make (4.3 Debian [amd64])\nInst libpq-dev [15.1] (15.2 Debian)\n", 'make', 'perl');
ok($good, 'what is missing is installed') or diag $out;
like($log, qr/update\n.*--simulate\n.*--no-upgrade install make perl\n$/, 'without an upgrade of the packages named');

my $newer = "Inst postgresql-15 [15.1-0] (15.2-0 Debian [amd64])\nInst postgresql-server-dev-15 (15.2 Debian)\n";
($good, $out, $log) = install($newer, 'postgresql-server-dev-15');
ok($good, 'a package that requires a newer server is installed if none is running') or diag $out;
like($out, qr/these are upgraded: postgresql-15\n/, 'it is said that the server is upgraded');

{
	local $ENV{may_upgrade} = 'no';
	($good, $out, $log) = install($newer, 'postgresql-server-dev-15');
	ok(!$good, 'the demo does not upgrade it');
	like($out, qr/would upgrade the server that is installed: postgresql-15\n/, 'the server is named');
	unlike($log =~ s/.*--simulate\n//r, qr/install/, 'and nothing is installed');
}

append_to_file("$dir/clusters", "15 other 5433 online postgres\n");
($good, $out, $log) = install($newer, 'postgresql-server-dev-15');
ok(!$good, 'but not if one is');
like($out, qr/would upgrade packages of a running server: postgresql-15\n/, 'the server is named');
unlike($log =~ s/.*--simulate\n//r, qr/install/, 'and nothing is installed');

done_testing();
