# scripts/report: the page, drawn by Debian's Chromium.

use strict;
use warnings FATAL => 'all';

use Compress::Zlib;
use FindBin;
use IPC::Run;
use JSON::PP;
use lib $FindBin::RealBin;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use PvMonitoring;
use PvTest;
use Test::More;

my ($chromium) = grep { has_command($_) } qw(chromium-headless-shell chromium);
plan skip_all => 'because chromium is not installed' unless $chromium;

my $script = "$FindBin::RealBin/../../scripts/report";
my $tmp = PostgreSQL::Test::Utils::tempdir;
my ($node, $session) = monitored_node('report');

sub report
{
	my ($file, @options) = @_;
	my ($out, $err) = ('', '');
	my $good = IPC::Run::run([ $script, '-h', $node->host, '-p', $node->port, @options ], '>', \$out, '2>', \$err);
	open my $to, '>:raw', "$tmp/$file" or die $!;
	print $to $out;
	close $to;
	return ($good, $out, $err);
}

# Run the browser on a page.
sub browse
{
	my ($file, @options) = @_;
	my ($out, $err) = ('', '');
	IPC::Run::run([ $chromium, '--headless', '--no-sandbox', '--disable-gpu', "--user-data-dir=$tmp/browser", '--window-size=1200,3600',
			'--virtual-time-budget=5000', '--host-resolver-rules=MAP * ~NOTFOUND', @options, "file://$tmp/$file" ],
		'>', \$out, '2>', \$err, IPC::Run::timeout(60));
	utf8::decode($out);
	return $out;
}

# The number of different lines of a picture, and their bytes.  Lines of one color are
# equal as they are stored.
sub picture
{
	my ($file) = @_;
	open my $in, '<:raw', "$tmp/$file" or return (0, '');
	my $png = do { local $/; <$in> };
	my ($width, $height, $data, $at) = (unpack('N2', substr $png, 16, 8), '', 8);
	while ($at < length $png)
	{
		my ($length, $kind) = unpack 'Na4', substr $png, $at, 8;
		$data .= substr $png, $at + 8, $length if $kind eq 'IDAT';
		$at += $length + 12;
	}
	my $bytes = uncompress($data);
	my %lines = map { $_ => 1 } unpack '(a' . (length($bytes) / $height) . ')*', $bytes;
	return (scalar(keys %lines), $bytes);
}

my @charts = ('Vacuums that are running', 'Timeline of vacuums', 'Time by phase', 'Holders of the horizon by age', 'Dead rows kept by table',
	'Queue by score', 'Age of tables', 'Sizes of indexes');

# What a reader with a keyboard does, and what he comes to, put into the title
my $probe = q{
<script>
'use strict';
const press = (key) => document.activeElement.dispatchEvent(new KeyboardEvent('keydown', { key, bubbles: true, cancelable: true }));
const facts = { width: innerWidth, charts: {}, stops: [], errors: [], background: getComputedStyle(document.body).backgroundColor };
for (const place of document.querySelectorAll('.chart')) {
	const marks = [...place.querySelectorAll('.mark')];
	const stops = marks.filter((m) => m.tabIndex === 0);
	const labels = marks.filter((m) => m.getAttribute('aria-label') && m.querySelector('title').textContent);
	stops[0].focus();
	const first = document.activeElement === marks[0];
	const described = place.nextElementSibling.textContent === marks[0].getAttribute('aria-label');
	press('ArrowRight');
	const second = document.activeElement === marks[Math.min(1, marks.length - 1)];
	press('End');
	const last = document.activeElement === marks[marks.length - 1];
	const after = marks.filter((m) => m.tabIndex === 0).length;
	press('Home');
	facts.charts[place.getAttribute('aria-label')] = [marks.length, labels.length, stops.length, after, first, described, second, last, document.activeElement === marks[0]].map(String).join(' ');
}
for (const node of document.querySelectorAll('a[href], select, summary, [tabindex="0"]')) {
	if (node.tabIndex > 0) facts.errors.push('tabindex above 0');
	const box = node.closest('section');
	facts.stops.push((box ? box.id : '') + ' ' + (node.closest('.chart') ? 'mark' : node.localName));
}
if (document.documentElement.scrollWidth > innerWidth) facts.errors.push('wider than the window');
for (const text of document.querySelectorAll('svg text')) {
	const box = text.getBoundingClientRect();
	if (box.right > innerWidth || box.left < 0) facts.errors.push('text outside: ' + text.textContent);
}
facts.left = [...document.querySelectorAll('p.soft')].map((p) => p.textContent).join(' ');
facts.cut = [...document.querySelectorAll('svg text')].map((t) => t.textContent).filter((t) => t.includes('…'));
facts.advice = [...document.querySelectorAll('#advice li')].map((li) => li.textContent);
if (/undefined|NaN|\[object/.test(document.body.innerText)) facts.errors.push('a value is missing');
facts.names = [...document.querySelectorAll('td')].map((td) => td.textContent).filter((t) => t.includes('<' + '/script>')).length;
document.body.append(Object.assign(document.createElement('pre'), { id: 'facts', textContent: JSON.stringify(facts) }));
</script>
};

sub facts
{
	my ($file, @options) = @_;
	my $dom = browse($file, '--dump-dom', @options);
	my ($json) = $dom =~ m{<pre id="facts">(.*?)</pre>}s;
	return {} unless defined $json;
	$json =~ s/&lt;/</g;
	$json =~ s/&gt;/>/g;
	$json =~ s/&amp;/&/g;
	return JSON::PP->new->decode($json);
}

my ($good, $html, $err) = report('report.html', '-U', $role, '-d', 'postgres');
ok($good, 'a member of pg_monitor gets a report') or diag $err;
is($err, '', 'without a warning');
unlike($html, qr{(?:src|href)="?https?:|url\(http|\@import}, 'it has no address of a network');
is(() = $html =~ m{</script>}g, 2, 'no name ends an element of it');
(my $probed = $html) =~ s{</body>}{$probe</body>};
open my $to, '>:raw', "$tmp/probed.html" or die $!;
print $to $probed;
close $to;

my $facts = facts('probed.html');
is_deeply([ sort keys %{ $facts->{charts} } ], [ sort @charts ], 'all charts are there');
for my $chart (@charts)
{
	my ($marks, @keyboard) = split / /, $facts->{charts}{$chart} // '0';
	cmp_ok($marks, '>', 0, "$chart: it has marks");
	is("@keyboard", "$marks 1 1 true true true true true", "$chart: each mark has a description, and is reached with the keyboard");
}
is_deeply($facts->{errors}, [], 'nothing is outside of the window');
like(join("\n", @{ $facts->{advice} }), qr/^\w+ .*max_worker_processes/m, 'the advice of parvacuum_check() is there');
my $order = join ' ', map { /^(\S+) mark$/ ? $1 : () } @{ $facts->{stops} };
is($order, 'running runs phases horizon kept queue wraparound indexes', 'the Tab key goes through the charts from top to bottom');
cmp_ok($facts->{names}, '>', 0, 'a name may have any characters');
like($facts->{left}, qr/Not shown: .*rows of the history about other databases/, 'it says what it leaves out');
like($facts->{left}, qr/Left out: \d+ of [\d,]+ tables, which are younger\./, 'and how many tables');
my $narrow = facts('probed.html', '--window-size=500,4000');
is("$narrow->{width} @{ $narrow->{errors} }", '500 ', 'nor on a narrow screen');
cmp_ok(scalar @{ $narrow->{cut} }, '>', 0, 'there long names are cut');
is(scalar(grep { /…$/ } @{ $narrow->{cut} }), 0, 'in the middle');

# Members of pg_monitor, and the extension in a schema of its own, or in one of others
$node->safe_psql('postgres', "CREATE DATABASE $_") for qw(own_schema of_others);
$node->safe_psql('own_schema', 'CREATE SCHEMA "Its own"; CREATE EXTENSION parvacuum SCHEMA "Its own"; CREATE TABLE t () WITH (parvacuum.enabled); VACUUM t');
$node->safe_psql('of_others', 'CREATE SCHEMA others; CREATE TABLE others.t (); CREATE EXTENSION parvacuum SCHEMA others');
{
	my ($made, $page, $errors) = report('schema.html', '-U', $role, '-d', 'own_schema');
	ok($made && $errors eq '', 'the extension in a schema of its own: there is a report') or diag $errors;
	like($page, qr/"relname":"t"/, 'the extension in a schema of its own: with its vacuums');
	($made, $page, $errors) = report('schema.html', '-U', $role, '-d', 'of_others');
	ok(!$made, 'the extension in a schema with other objects: it is not opened');
	like($errors, qr/permission denied for the schema of parvacuum\n.*HINT:  Use GRANT USAGE ON SCHEMA others TO pg_monitor, in the database "of_others"\./, 'and the hint has what is missing');
	$node->safe_psql('of_others', 'GRANT USAGE ON SCHEMA others TO pg_monitor');
	($made, $page, $errors) = report('schema.html', '-U', $role, '-d', 'of_others');
	ok($made, 'with that there is a report') or diag $errors;
}

# Settings of the owner of the database
for my $setting ('standard_conforming_strings = off', 'extra_float_digits = -15', q{DateStyle = 'German'}, q{IntervalStyle = 'sql_standard'}, q{client_encoding = 'LATIN1'})
{
	my ($rc) = $node->psql('postgres', "ALTER DATABASE postgres SET $setting");
	next if $rc != 0;    # PG 19 has no other conforming strings
	my ($made, $page, $errors) = report('settings.html', '-U', $role, '-d', 'postgres');
	ok($made && $errors eq '', "$setting: there is a report") or diag $errors;
	is(() = $page =~ m{</script>}g, 2, "$setting: no name ends an element of it");
	my ($json) = $page =~ m{<script type="application/json" id="data">\n(.*?)\n</script>}s;
	my ($run) = grep { $_->{elapsed_ms} } @{ decode_json($json)->{runs} };
	like($run->{elapsed_ms}, qr/^\d+\.\d\d/, "$setting: numbers are exact");
	$node->safe_psql('postgres', 'ALTER DATABASE postgres RESET ' . $setting =~ s/ .*//r);
}

# Light and dark

browse('report.html', "--screenshot=$tmp/light.png");
browse('report.html', "--screenshot=$tmp/dark.png", '--blink-settings=preferredColorScheme=0');
my ($light_lines, $light) = picture('light.png');
my ($dark_lines, $dark) = picture('dark.png');
cmp_ok($light_lines, '>', 500, 'the page is not blank');
cmp_ok($dark_lines, '>', 500, 'nor is it in dark mode');
my $dark_facts = facts('probed.html', '--blink-settings=preferredColorScheme=0');
is($facts->{background}, 'rgb(255, 255, 255)', 'it is light');
is($dark_facts->{background}, 'rgb(20, 23, 28)', 'it is dark in dark mode');
isnt(substr($light, 0, 100000), substr($dark, 0, 100000), 'both look different');

# Other databases and roles

$node->safe_psql('postgres', 'CREATE ROLE owner LOGIN; CREATE DATABASE without; GRANT USAGE ON SCHEMA parvacuum TO owner; CREATE TABLE own (id int); ALTER TABLE own OWNER TO owner');
($good, $html, $err) = report('owner.html', '-U', 'owner', '-d', 'postgres');
ok($good, 'the owner of a table gets a report as well') or diag $err;
unlike($html, qr/"relname":"orders","start_ms"/, 'without the vacuums of others');
my $page = browse('owner.html', '--dump-dom');
like($page, qr/>Nothing is to be changed about the tables of this role\. It does not see what concerns the server\.</, 'and without advice on the server');
like($page, qr/>The history has no vacuum that was completed\.</, 'it says that there are no vacuums, not that they kept nothing');
($good, $html, $err) = report('none.html', '-d', 'without');
ok(!$good, 'there is no report on a database without the extension');
like($err, qr/parvacuum is not installed in the database "without"/, 'and a message says so');
is($html, '', 'and no page');

if ($ENV{PV_KEEP_PICTURES})
{
	system 'cp', (map { "$tmp/$_" } qw(light.png dark.png report.html)), $ENV{PV_KEEP_PICTURES};
}
for my $name (sort keys %$session)
{
	$session->{$name}{handle}->kill_kill(grace => 5);
}
$node->stop('fast');
pv_no_crash($node, 'the server');
done_testing;
