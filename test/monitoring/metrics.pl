# The metrics of monitoring/: Debian's prometheus-postgres-exporter and prometheus take
# them from a real server, and each panel of the dashboard for Grafana gets data from
# that Prometheus.  The queries for pgwatch are run as they are.

use strict;
use warnings FATAL => 'all';

use CPAN::Meta::YAML;
use FindBin;
use HTTP::Tiny;
use IPC::Run;
use JSON::PP;
use lib $FindBin::RealBin;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use PvMonitoring;
use PvTest;
use Test::More;

for my $command (qw(prometheus-postgres-exporter prometheus))
{
	plan skip_all => "because $command is not installed" unless has_command($command);
}

my $dir = "$FindBin::RealBin/../../monitoring";
my $http = HTTP::Tiny->new(timeout => 20);
my ($node, $session) = monitored_node('metrics');
my $tmp = PostgreSQL::Test::Utils::tempdir;
my %process;

sub yaml
{
	my ($file) = @_;
	return CPAN::Meta::YAML->read_string(slurp_file("$dir/$file"))->[0];
}

sub start
{
	my ($name, @command) = @_;
	$process{$name} = IPC::Run::start(\@command, '<', \undef, '>', "$tmp/$name.log", '2>&1');
	return;
}

sub stop_all
{
	for my $name (keys %process)
	{
		$process{$name}->kill_kill(grace => 5);
	}
	%process = ();
	return;
}

END
{
	my $rc = $?;
	stop_all();
	$? = $rc;
}

# Ask Prometheus.  Returns the list of results.
my $prometheus_port = free_port();
sub ask
{
	my ($query) = @_;
	my $answer = $http->get("http://127.0.0.1:$prometheus_port/api/v1/query?" . $http->www_form_urlencode({ query => $query }));
	return [] unless $answer->{content} =~ /^\{/;
	my $json = decode_json($answer->{content});
	die "$query: $json->{error}" if $json->{status} ne 'success';
	return $json->{data}{result};
}

# An operator that would suit the numbers better than those of core, if a query left the
# choice to the search_path
$node->safe_psql('postgres', q{
CREATE FUNCTION parvacuum.trap(double precision, int) RETURNS double precision LANGUAGE plpgsql AS $$BEGIN RAISE EXCEPTION 'trapped'; END$$;
CREATE OPERATOR parvacuum./ (LEFTARG = double precision, RIGHTARG = int, FUNCTION = parvacuum.trap)});

# The exporter

my $exporter_port = free_port();
{
	local $ENV{DATA_SOURCE_NAME} = sprintf 'host=%s port=%d user=%s dbname=postgres sslmode=disable', $node->host, $node->port, $role;
	start('exporter', 'prometheus-postgres-exporter', "--web.listen-address=127.0.0.1:$exporter_port",
		"--extend.query-path=$dir/postgres_exporter.yml", '--disable-default-metrics', '--disable-settings-metrics',
		'--no-collector.database', '--no-collector.bgwriter', '--auto-discover-databases', '--include-databases=postgres,second');
}
append_to_file("$tmp/prometheus.yml", <<CONF);
global:
  scrape_interval: 1s
scrape_configs:
  - job_name: postgresql
    static_configs:
      - targets: ['127.0.0.1:$exporter_port']
CONF
start('prometheus', 'prometheus', "--config.file=$tmp/prometheus.yml", "--storage.tsdb.path=$tmp/prometheus",
	"--web.listen-address=127.0.0.1:$prometheus_port");

my $queries = yaml('postgres_exporter.yml');
my (@metrics, %labels);
for my $name (sort keys %$queries)
{
	for my $column (@{ $queries->{$name}{metrics} })
	{
		my ($key) = keys %$column;
		if ($column->{$key}{usage} eq 'LABEL')
		{
			$labels{$key} = 1;
		}
		else
		{
			push @metrics, "${name}_$key";
		}
	}
}
my $page;
wait_for(sub { ($page = $http->get("http://127.0.0.1:$exporter_port/metrics")->{content}) =~ /^parvacuum_/m });
is_deeply([ grep { $page !~ /^\Q$_\E\{/m } @metrics ], [], 'the exporter shows each metric') or diag slurp_file("$tmp/exporter.log");
like($page, qr/^pg_exporter_last_scrape_error 0$/m, 'without an error') or diag slurp_file("$tmp/exporter.log");
is_deeply([ grep { !/^(datname|schemaname|relname|indexrelname|kind|phase|severity|state)$/ } sort keys %labels ], [], 'the labels are names, kinds, phases, states and severities');

my @lines = grep { /^parvacuum_table_runs_total/ } split /\n/, $page;
is(scalar(grep { /datname="postgres"/ && /relname="orders"/ } @lines), 1, 'a table is there once');
is(scalar(grep { /datname="second"/ && /relname="orders"/ } @lines), 1, 'and once in another database');
is(scalar(grep { /^parvacuum_scheduler_vacuums_total/ } split /\n/, $page), 1, 'what belongs to the server is there once');
my ($kept) = $page =~ /^parvacuum_kept_dead_rows\{datname="postgres".*relname="orders".*\} (\S+)$/m;
cmp_ok($kept, '>', 1000, 'rows are shown that a prepared transaction keeps');
my ($age) = $page =~ /^parvacuum_horizon_xid_age\{kind="prepared transaction".*\} (\S+)$/m;
cmp_ok($age, '>', 0, 'and the age of that transaction');

# Values, where a query could be right by its form only
sub value
{
	my ($metric, $relname) = @_;
	return $node->safe_psql('postgres', "SELECT " . ($metric =~ s/.*\.//r) . " FROM ($queries->{$metric =~ s/\..*//r}{query}) q WHERE relname = '$relname'", extra_params => [ '-U', $role ]);
}
is(value('parvacuum_last_run.seconds', 'orders'), $node->safe_psql('postgres', q{SELECT elapsed_ms / 1000::double precision FROM parvacuum_history WHERE relname = 'orders' AND action = 'vacuum' AND outcome = 'done' ORDER BY run DESC LIMIT 1}),
	'the last vacuum of a table is the last one in the history');
ok(wait_for(sub { (value('parvacuum_running.eta_seconds', 'orders') || -1) > 0 }), 'a vacuum will end in the future');
my $old = value('parvacuum_wraparound.xid_age', 'orders');
$node->safe_psql('postgres', q{UPDATE pg_class SET relfrozenxid = ((pg_current_xact_id()::text::bigint - 1000000) & 4294967295)::text::xid WHERE oid = (SELECT reltoastrelid FROM pg_class WHERE oid = 'orders'::regclass)});
cmp_ok(value('parvacuum_wraparound.xid_age', 'orders') - $old, '>', 900000, 'a table is as old as its TOAST table');

# The dashboard

my $dashboard = decode_json(slurp_file("$dir/grafana/parvacuum.json"));
my %known = map { $_ => 1 } @metrics;
my @panels = grep { $_->{type} ne 'row' } @{ $dashboard->{panels} };
my (%ids, @unknown, @twice);
for my $panel (@{ $dashboard->{panels} })
{
	push @twice, $panel->{title} if $ids{ $panel->{id} }++;
	push @unknown, grep { !$known{$_} } map { $_->{expr} =~ /(parvacuum_\w+)/g } @{ $panel->{targets} };
}
is_deeply(\@unknown, [], 'the dashboard uses metrics that exist');
is_deeply(\@twice, [], 'its panels have different numbers');
wait_for(sub { my $n = ask('count_over_time(parvacuum_recorded_runs_total[1m])'); @$n && $n->[0]{value}[1] >= 3 });
for my $panel (@panels)
{
	for my $target (@{ $panel->{targets} })
	{
		my %value = (__rate_interval => '30s', __range => '1m', datname => '.*', instance => '.*');
		my $query = $target->{expr} =~ s/\$(\w+)/$value{$1} \/\/ die "unknown variable $1"/gre;
		ok(wait_for(sub { scalar @{ ask($query) } }), "panel \"$panel->{title}\", $target->{refId}") or diag $query;
	}
}
for my $variable (grep { $_->{type} eq 'query' } @{ $dashboard->{templating}{list} })
{
	my ($metric, $label) = $variable->{definition} =~ /^label_values\((\w+).*, (\w+)\)$/;
	ok(scalar(grep { $_->{metric}{$label} } @{ ask($metric) }), "variable \"$variable->{name}\"");
}
my @odd = grep { ($_->{metric}{relname} // '') eq $odd_name } @{ ask('parvacuum_table_runs_total') };
is(scalar(@odd), 2, 'a name may have any characters');

# pgwatch

my $pgwatch = yaml('pgwatch/parvacuum.yaml');
is_deeply([ sort keys %{ $pgwatch->{metrics} } ], [ sort keys %$queries ], 'pgwatch has the same metrics');
is_deeply([ sort keys %{ $pgwatch->{presets}{parvacuum}{metrics} } ], [ sort keys %$queries ], 'all are in the preset');
for my $name (sort keys %{ $pgwatch->{metrics} })
{
	my $metric = $pgwatch->{metrics}{$name};
	my $columns = $node->safe_psql('postgres', "SET search_path = parvacuum; CREATE TEMP VIEW v AS $metric->{sqls}{15}; SELECT string_agg(attname, ' ' ORDER BY attnum) FROM pg_attribute WHERE attrelid = 'pg_temp.v'::regclass");
	my $wanted = join ' ', 'epoch_ns', map { my ($key) = keys %$_; $_->{$key}{usage} eq 'LABEL' ? "tag_$key" : $key } @{ $queries->{$name}{metrics} };
	is($columns, $wanted, "$name of pgwatch has the columns of the exporter");

	# Its query is the same, but for the time in front.
	my $query = $metric->{sqls}{15} =~ s{/\* pgwatch_generated \*/.*? AS epoch_ns,}{}sr =~ s/\btag_//gr =~ s/\.(\w+) AS \1\b/.$1/gr =~ s/GROUP BY (\d)/'GROUP BY ' . ($1 - 1)/er;
	is(join(' ', split ' ', $query), join(' ', split ' ', $queries->{$name}{query}), "$name of pgwatch has the query of the exporter");
	my $rows = $node->safe_psql('postgres', "SELECT count(*) FROM ($metric->{sqls}{15}) q WHERE epoch_ns > 1e18", extra_params => [ '-U', $role ]);
	cmp_ok($rows, '>', 0, "$name of pgwatch has rows");
}

# Very many tables
$node->safe_psql('second', q{DO $$BEGIN FOR i IN 1 .. 250 LOOP EXECUTE format('CREATE TABLE many_%s (id int PRIMARY KEY) WITH (parvacuum.enabled)', i); END LOOP; END$$});
$node->safe_psql('second', 'VACUUM');
for my $name (sort keys %$queries)
{
	my $rows = $node->safe_psql('second', "SELECT count(*) FROM ($queries->{$name}{query}) q", extra_params => [ '-U', $role ]);
	cmp_ok($rows, '<=', $name eq 'parvacuum_last_run_phase' ? 1000 : 200, "$name has a limit");
}
is($node->safe_psql('second', "SELECT count(*) FROM ($queries->{parvacuum_wraparound}{query}) q"), 200, 'which is reached');

stop_all();
for my $name (sort keys %$session)
{
	$session->{$name}{handle}->kill_kill(grace => 5);
}
$node->stop('fast');
pv_no_crash($node, 'the server');
done_testing;
