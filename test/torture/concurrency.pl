# Back-to-back vacuums with up to three workers, asked for in each way there is, beside every
# other thing that changes a table: loads, DDL, CLUSTER, indexes that are made and rebuilt
# concurrently, partitions that come and go, tables that are emptied, dropped and made anew.
# Invariants are checked all the time by statements, and each round ends with the oracle.
#
# Loads and DDL may be the victims of a deadlock.  A vacuum may not, unless its own statement
# holds a snapshot or lock that another one waits for: that of parvacuum_run() does, and
# ANALYZE.

use strict;
use warnings FATAL => 'all';

use FindBin;
use lib $FindBin::RealBin, "$FindBin::RealBin/../t";
use IPC::Run;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use PvTest;
use PvTorture;
use Test::More;
use Time::HiRes qw(sleep time);

# So many that the B-trees of the accounts have more than the 32 pages from which on the engine
# vacuums them itself, with several processes.
my $rows = 12000;
my $jobs = 400;

my $node = pv_node('torture_concurrency');
$node->append_conf('postgresql.conf', q{
wal_level = logical
max_replication_slots = 4
max_wal_senders = 0
deadlock_timeout = 100ms
gin_pending_list_limit = 64kB
autovacuum_naptime = 1s
autovacuum_vacuum_threshold = 100
autovacuum_vacuum_scale_factor = 0
autovacuum_vacuum_cost_delay = 1ms
parvacuum.autovacuum_workers = 2
parvacuum.enabled = on
log_min_messages = error
log_statement = none
});
$node->start;
pv_setup($node);
my $version = $node->pg_version->major;
my $dir = PostgreSQL::Test::Utils::tempdir;
my $csv = "$dir/bulk";

sub sql { return pv_sql($node, @_); }

#
# Tables
#
sql(qq{CREATE TABLE account (id int PRIMARY KEY WITH (fillfactor = 50), k int, balance bigint, note text, tags int[], at point) WITH (fillfactor = 80)},
	qq{INSERT INTO account SELECT i, i % 1000, 1000, repeat('n', 60), ARRAY[i % 10, i], point(i % 100, i) FROM generate_series(1, $rows) i},
	q{CREATE INDEX account_k ON account (k) WITH (fillfactor = 50)},
	q{CREATE INDEX ON account USING hash (k)},
	q{CREATE INDEX ON account USING gin (tags)},
	q{CREATE INDEX ON account USING gist (at)},
	q{CREATE INDEX ON account USING brin (id)},
	q{CREATE TABLE ledger (id int, amount bigint, pad text)},
	q{CREATE INDEX ON ledger (id)},

	# each group of four has at least one that is on
	q{CREATE TABLE duty (grp int, n int, on_duty bool, PRIMARY KEY (grp, n))},
	q{INSERT INTO duty SELECT g, n, true FROM generate_series(1, 100) g, generate_series(1, 4) n},

	# each job is in one of both tables
	q{CREATE TABLE todo (job int PRIMARY KEY, pad text)},
	q{CREATE TABLE done (job int PRIMARY KEY, pad text)},
	qq{INSERT INTO todo SELECT i, repeat('j', 300) FROM generate_series(1, $jobs) i},
	q{CREATE TABLE part (id int, v int) PARTITION BY RANGE (id)},
	(map { ("CREATE TABLE part_$_ PARTITION OF part FOR VALUES FROM (${_}000) TO (${_}999)",
		"INSERT INTO part SELECT i, 100 FROM generate_series(${_}000, ${_}499) i") } 1 .. 4),
	q{CREATE INDEX ON part (id)},
	q{CREATE INDEX ON part (v)},
	q{CREATE TABLE fat (id int PRIMARY KEY, big text, digest text)},
	q{ALTER TABLE fat ALTER big SET STORAGE EXTERNAL},
	q{INSERT INTO fat SELECT i, repeat(i::text || '.', 1500), md5(repeat(i::text || '.', 1500)) FROM generate_series(1, 200) i},
	q{CREATE TABLE bulk (id int PRIMARY KEY, v int)},
	"COPY (SELECT i, i FROM generate_series(1, 2000) i) TO '$csv'",
	"COPY bulk FROM '$csv'",
	q{CREATE TABLE phoenix (id int PRIMARY KEY, v int)},
	q{INSERT INTO phoenix SELECT i, 0 FROM generate_series(1, 500) i},
	q{CREATE PUBLICATION pub FOR TABLE account, fat});
my @tables = qw(account ledger duty todo done part_1 part_2 part_3 part_4 fat bulk phoenix);
my %indexes_of = (account => 1, ledger => 1, part_1 => 1, part_2 => 1, todo => 1, phoenix => 1);

#
# Invariants: each statement fails if it is not so.
#
sql(q{CREATE FUNCTION must(good bool, what text) RETURNS void LANGUAGE plpgsql AS $$ BEGIN
		IF good IS NOT TRUE THEN RAISE EXCEPTION 'not so: %', what; END IF; END $$},

	# The rows by a sequential scan and by the index, for the snapshot of a transaction
	q{CREATE FUNCTION same_by_index(tab text, predicate text, columns text DEFAULT 't') RETURNS void LANGUAGE plpgsql AS $$
	DECLARE
		query text := format('SELECT count(*) || '' rows, '' || coalesce(sum(hashtextextended((%s)::text, 0)), 0) FROM %s t WHERE %s', columns, tab, predicate);
		by_scan text;
		by_index text;
	BEGIN
		PERFORM set_config('enable_seqscan', 'on', true), set_config('enable_indexscan', 'off', true),
			set_config('enable_bitmapscan', 'off', true), set_config('enable_indexonlyscan', 'off', true);
		EXECUTE query INTO by_scan;
		PERFORM set_config('enable_seqscan', 'off', true), set_config('enable_indexscan', 'on', true),
			set_config('enable_bitmapscan', 'on', true), set_config('enable_indexonlyscan', 'on', true);
		EXECUTE query INTO by_index;
		PERFORM must(by_scan = by_index, format('%s where %s: by scan %s, by index %s', tab, predicate, by_scan, by_index));
	END $$},

	# Two scans of one snapshot see the same rows.
	q{CREATE FUNCTION digest(tab text) RETURNS text LANGUAGE plpgsql AS $$
	DECLARE
		d text;
	BEGIN
		EXECUTE format('SELECT count(*) || '' rows, '' || coalesce(sum(hashtextextended(t::text, 0)), 0) FROM %s t', tab) INTO d;
		RETURN d;
	END $$});

sql(q{CREATE FUNCTION check_btrees() RETURNS void LANGUAGE plpgsql AS $$
	DECLARE
		i oid;
	BEGIN
		FOR i IN SELECT indexrelid FROM pg_index JOIN pg_class ON pg_class.oid = indexrelid JOIN pg_am ON pg_am.oid = relam
			WHERE indrelid IN ('account'::regclass, 'ledger'::regclass) AND amname = 'btree' AND indisvalid
		LOOP
			BEGIN
				PERFORM bt_index_check(i, true);
			EXCEPTION WHEN others THEN
				-- an index that is rebuilt or dropped meanwhile
				IF SQLERRM !~ '^could not open relation with OID|^cannot check index' THEN
					RAISE;
				END IF;
			END;
		END LOOP;
	END $$});
my $total = $rows * 1000;
my $money = "SELECT must(count(*) = $rows AND sum(balance) + (SELECT coalesce(sum(amount), 0) FROM ledger) = $total,
	format('the sum of %s accounts', count(*))) FROM account";
my $all_parts = join ' UNION ALL ', map { "SELECT id, v FROM part_$_" } 1 .. 4;

# ALTER TABLE that rewrites a table leaves it empty for older snapshots, so a snapshot that
# is kept is taken when the table is locked.
sub one_snapshot { return "BEGIN ISOLATION LEVEL REPEATABLE READ;\nLOCK TABLE $_[0] IN ACCESS SHARE MODE;\n$_[1];\nCOMMIT;\n"; }
my %checks = (
	money => [ 6, "$money;\n" ],
	once => [ 3, "SELECT must(count(*) = count(DISTINCT id), 'no account twice') FROM account;\n" ],
	by_k => [ 4, "\\set k random(0, 999)\n" . one_snapshot('account', "SELECT same_by_index('account', 'k BETWEEN :k AND :k + 20')") ],
	by_id => [ 3, "\\set id random(1, $rows)\n" . one_snapshot('account', "SELECT same_by_index('account', 'id BETWEEN :id AND :id + 500', 'id')") ],
	by_tag => [ 3, "\\set tag random(0, 9)\n" . one_snapshot('account', "SELECT same_by_index('account', 'tags @> ARRAY[:tag]')") ],
	by_place => [ 2, "\\set x random(0, 80)\n" . one_snapshot('account', "SELECT same_by_index('account', 'at <@ box ''((:x,0),(90,$rows))''')") ],
	by_ledger => [ 2, "\\set id random(1, $rows)\n" . one_snapshot('ledger', "SELECT same_by_index('ledger', 'id BETWEEN :id AND :id + 300')") ],
	kept => [ 3, "BEGIN ISOLATION LEVEL REPEATABLE READ;\nLOCK TABLE account, ledger IN ACCESS SHARE MODE;\n"
		. "SELECT digest('account') AS account, digest('ledger') AS ledger \\gset\nSELECT pg_sleep(0.05);\n"
		. "SELECT must(digest('account') = ':account' AND digest('ledger') = ':ledger', 'the rows of a snapshot remain');\nCOMMIT;\n" ],
	duty => [ 3, q{SELECT must(count(*) = 100 AND bool_and(covered), 'one is on duty in each group') FROM (SELECT bool_or(on_duty) AS covered FROM duty GROUP BY grp) g;} . "\n" ],
	jobs => [ 3, "SELECT must(count(*) = $jobs AND count(DISTINCT job) = $jobs, format('%s jobs, %s different', count(*), count(DISTINCT job))) FROM (SELECT job FROM todo UNION ALL SELECT job FROM done) j;\n" ],
	parts => [ 3, "SELECT must(count(*) = 2000 AND sum(v) = 200000, format('%s rows in parts, sum %s', count(*), sum(v))) FROM ($all_parts) p;\n" ],
	part => [ 2, "SELECT must(count(*) IN (1500, 2000) AND count(*) = count(DISTINCT id), format('%s rows in part', count(*))) FROM part;\n" ],
	fat => [ 2, "SELECT must(bool_and(md5(big) = digest), 'long values are those that were stored') FROM fat;\n" ],
	bulk => [ 2, "SELECT must(count(*) IN (0, 2000), format('bulk has %s rows', count(*))) FROM bulk;\n" ],
	phoenix => [ 2, "SELECT must(count(*) = 500, format('phoenix has %s rows', count(*))) FROM phoenix;\n" ],
	heap => [ 2, "\\set t random(1, 3)\nSELECT must(count(*) = 0, string_agg(format('block %s offset %s: %s', blkno, offnum, msg), '; ')) "
		. "FROM verify_heapam(CASE :t WHEN 1 THEN 'account' WHEN 2 THEN 'ledger' ELSE 'fat' END, check_toast => true);\n" ],
	btree => [ 2, "SELECT check_btrees();\n" ]);

#
# Loads
#
my %loads = (
	(map { ($_ => [ $pv_money{$_}[0], $pv_money{$_}[1] =~ s/40000/$rows/gr ]) } keys %pv_money),
	replace => [ 10, "\\set id random(2, $rows)\n" . q{BEGIN;
WITH gone AS (DELETE FROM account WHERE id = :id RETURNING *)
INSERT INTO account (id, k, balance, note, tags, at) SELECT id, k, balance, note, ARRAY[id % 10, id], point(id % 100, id) FROM gone;
COMMIT;
} ],
	hot => [ 20, "\\set id random(1, $rows)\nUPDATE account SET note = 'hot ' || :id WHERE id BETWEEN :id AND :id + 3;\n" ],
	undone => [ 4, "\\set id random(1, $rows)\n" . q{BEGIN;
INSERT INTO ledger SELECT i, 1000000, repeat('u', 200) FROM generate_series(1, 20) i;
SAVEPOINT a;
UPDATE account SET k = k + 1, tags = tags || 7 WHERE id BETWEEN :id AND :id + 5;
ROLLBACK TO a;
UPDATE account SET note = 'undone' WHERE id BETWEEN :id AND :id + 5;
ROLLBACK;
} ],
	savepoints => [ 6, "\\set id random(1, $rows)\n" . q{BEGIN;
UPDATE account SET note = 'one' WHERE id = :id;
SAVEPOINT a;
UPDATE account SET note = 'two', k = 0 WHERE id = :id;
DELETE FROM account WHERE id = :id;
ROLLBACK TO a;
SAVEPOINT b;
UPDATE account SET note = 'three' WHERE id = :id;
RELEASE b;
COMMIT;
} ],
	# many sessions lock the same few rows: multixacts
	share => [ 12, "\\set id random(1, 30)\n" . q{BEGIN;
SELECT FROM account WHERE id = :id FOR SHARE;
SELECT FROM account WHERE id = :id + 40 FOR KEY SHARE;
SAVEPOINT s;
UPDATE account SET note = 'shared' WHERE id = :id + 80;
COMMIT;
} ],
	key_share => [ 10, "\\set id random(40, 110)\n" . q{BEGIN;
SELECT FROM account WHERE id = :id FOR KEY SHARE;
SAVEPOINT s;
UPDATE account SET note = 'locked' WHERE id = :id;
ROLLBACK TO s;
SELECT FROM account WHERE id = :id FOR NO KEY UPDATE;
COMMIT;
} ],
	duty => [ 10, "\\set g random(1, 100)\n\\set n random(1, 4)\n" . q{BEGIN ISOLATION LEVEL SERIALIZABLE;
UPDATE duty SET on_duty = NOT on_duty OR (SELECT count(*) FROM duty d WHERE d.grp = :g AND d.on_duty) < 2 WHERE grp = :g AND n = :n;
COMMIT;
} ],
	cursor => [ 4, "\\set id random(1, " . int($rows / 2) . ")\n" . q{BEGIN;
DECLARE c CURSOR FOR SELECT * FROM account;
MOVE :id IN c;
FETCH 1 FROM c;
SELECT pg_sleep(0.03);
FETCH 20 FROM c;
COMMIT;
} ],
	prepared => [ 3, "\\set id random(1, $rows)\n\\set what random(1, 2)\n" . q{BEGIN;
UPDATE account SET note = 'prepared' WHERE id = :id;
UPDATE part_1 SET v = v WHERE id = 1000 + :id % 500;
PREPARE TRANSACTION 'p:client_id';
SELECT pg_sleep(0.02);
\if :what = 1
COMMIT PREPARED 'p:client_id';
\else
ROLLBACK PREPARED 'p:client_id';
\endif
} ],
	work => [ 10, q{BEGIN;
WITH job AS (DELETE FROM todo WHERE job IN (SELECT job FROM todo ORDER BY job LIMIT 3 FOR UPDATE SKIP LOCKED) RETURNING *) INSERT INTO done SELECT * FROM job;
COMMIT;
} ],
	again => [ 8, q{WITH job AS (DELETE FROM done WHERE job IN (SELECT job FROM done LIMIT 3 FOR UPDATE SKIP LOCKED) RETURNING *) INSERT INTO todo SELECT * FROM job;
} ],
	parts => [ 10, "\\set a random(1, 4)\n\\set b random(1, 4)\n\\set i random(0, 499)\n\\set j random(0, 499)\n" . q{BEGIN;
UPDATE part_:a SET v = v - 1 WHERE id = :a * 1000 + :i;
UPDATE part_:b SET v = v + 1 WHERE id = :b * 1000 + :j;
COMMIT;
} ],
	part => [ 3, "\\set id random(1000, 4499)\nUPDATE part SET v = v WHERE id = :id;\n" ],
	fat => [ 6, "\\set id random(1, 200)\n\\set n random(100, 3000)\n"
		. "UPDATE fat SET big = repeat('f:n', :n), digest = md5(repeat('f:n', :n)) WHERE id = :id;\n" ],
	fat_undone => [ 2, "\\set id random(1, 200)\nBEGIN;\nUPDATE fat SET big = repeat('gone', 2000) WHERE id BETWEEN :id AND :id + 5;\nROLLBACK;\n" ],
	bulk => [ 2, "\\set id random(1, 2000)\nUPDATE bulk SET v = v + 1 WHERE id BETWEEN :id AND :id + 20;\n" ],
	phoenix => [ 4, "\\set id random(1, 500)\nUPDATE phoenix SET v = v + 1 WHERE id BETWEEN :id AND :id + 5;\n" ]);

#
# Statements of other streams.  Each is executed by a psql of its own, and may use \gexec.
#
my @vacuums = (
	"SELECT FROM parvacuum_run('account', workers => 2)",
	"SELECT FROM parvacuum_run('account', workers => 3, index_cleanup => 'on')",
	"SELECT FROM parvacuum_run('account', workers => 3, freeze => true)",
	"SELECT FROM parvacuum_run('account', workers => 0)",
	"SET parvacuum.store_limit = 1; SELECT FROM parvacuum_run('account', workers => 2, index_cleanup => 'on')",
	"CALL parvacuum('account', workers => 2, disable_page_skipping => true)",
	"CALL parvacuum('account', workers => 3, index_cleanup => 'on')",
	"CALL parvacuum('ledger', workers => 3, index_cleanup => 'on', truncate => true)",
	"SELECT FROM parvacuum_run('ledger', workers => 1, index_cleanup => 'off')",
	"SELECT FROM parvacuum_run('fat', workers => 2, index_cleanup => 'on')",
	"SELECT FROM parvacuum_run('part', workers => 2, index_cleanup => 'on')",
	"CALL parvacuum('part_3', workers => 1, freeze => true)",
	"CALL parvacuum('phoenix', workers => 1)",
	"CALL parvacuum('bulk', workers => 2, index_cleanup => 'on')",
	"VACUUM (PARALLEL 2) account",
	"VACUUM (PARALLEL 3, INDEX_CLEANUP on) account, ledger",
	"VACUUM (FREEZE) duty, todo, done",
	"VACUUM (INDEX_CLEANUP on) todo, done, duty",
	"VACUUM (INDEX_CLEANUP on, PARALLEL 1) part, fat, phoenix",
	"VACUUM (SKIP_LOCKED) account, phoenix, bulk",
	"VACUUM (ANALYZE) account",
	"SET vacuum_freeze_min_age = 0; SET vacuum_multixact_freeze_min_age = 0; VACUUM account",
	"SELECT parvacuum_sweep('account_k')",
	"CALL parvacuum_sweep_index('account_k')",
	"CALL parvacuum_sweep_index('ledger_id_idx')",
	"SELECT FROM parvacuum_plan('account')",
	"VACUUM");
my @changes = (
	"ALTER TABLE account ADD COLUMN IF NOT EXISTS more int DEFAULT 7",
	"ALTER TABLE account DROP COLUMN IF EXISTS more",
	"ALTER TABLE account ALTER k TYPE bigint",
	"ALTER TABLE account ALTER k TYPE int",
	"ALTER TABLE ledger ALTER amount TYPE numeric",
	"ALTER TABLE ledger ALTER amount TYPE bigint",
	"ALTER TABLE account SET (parvacuum.workers = 1)",
	"ALTER TABLE account RESET (parvacuum.workers)",
	"ALTER TABLE duty SET (user_catalog_table = true)",
	"ALTER TABLE duty RESET (user_catalog_table)",
	"CREATE INDEX CONCURRENTLY IF NOT EXISTS another ON account (balance)",
	"DROP INDEX CONCURRENTLY IF EXISTS another",
	"CREATE INDEX IF NOT EXISTS another ON account (note)",
	"REINDEX TABLE CONCURRENTLY account",
	"REINDEX INDEX CONCURRENTLY account_k",
	"REINDEX TABLE CONCURRENTLY fat",
	"REINDEX TABLE ledger",
	"CLUSTER account USING account_pkey",
	"VACUUM FULL ledger",
	"VACUUM FULL fat",
	"CLUSTER todo USING todo_pkey",
	"BEGIN; TRUNCATE bulk; COPY bulk FROM '$csv'; COMMIT",
	"BEGIN; TRUNCATE bulk; COPY bulk FROM '$csv'; ROLLBACK",
	"TRUNCATE bulk",
	"BEGIN; DROP TABLE phoenix; CREATE TABLE phoenix (id int PRIMARY KEY, v int); INSERT INTO phoenix SELECT i, 0 FROM generate_series(1, 500) i; CREATE INDEX ON phoenix (v); COMMIT",
	q{SELECT CASE (SELECT inhdetachpending FROM pg_inherits WHERE inhrelid = 'part_4'::regclass)
		WHEN true THEN 'ALTER TABLE part DETACH PARTITION part_4 FINALIZE'
		WHEN false THEN 'ALTER TABLE part DETACH PARTITION part_4 CONCURRENTLY'
		ELSE 'ALTER TABLE part ATTACH PARTITION part_4 FOR VALUES FROM (4000) TO (4999)' END \gexec},
	q{SELECT CASE (SELECT inhdetachpending FROM pg_inherits WHERE inhrelid = 'part_4'::regclass)
		WHEN true THEN 'ALTER TABLE part DETACH PARTITION part_4 FINALIZE'
		WHEN false THEN 'ALTER TABLE part DETACH PARTITION part_4'
		ELSE 'ALTER TABLE part ATTACH PARTITION part_4 FOR VALUES FROM (4000) TO (4999)' END \gexec},
	"BEGIN; LOCK TABLE account IN ACCESS EXCLUSIVE MODE; COMMIT",
	"ANALYZE account",
	q{SELECT count(c) FROM pg_replication_slots, LATERAL pg_logical_slot_get_binary_changes(slot_name, NULL, 3000, 'proto_version', '1', 'publication_names', 'pub') c WHERE NOT active});
if ($version >= 19)
{
	push @changes, "REPACK account", "REPACK (CONCURRENTLY) account", "REPACK (CONCURRENTLY) fat", "REPACK todo USING INDEX todo_pkey";
}

# What a statement may fail with.  "Vacuum" is one that holds nothing while it waits.
my $deadlock = qr/deadlock detected/;

# A process that only waits for a table can be the victim where those before and behind it in
# the queue deadlock.
my $victim_in_queue = qr/deadlock detected.*?Process (\d+) waits for ShareUpdateExclusiveLock on (relation \d+) .*Process \d+ waits for \w+ on \g2 of database \d+; blocked by process \g1\./s;
my $canceled = qr/canceling statement due to user request|canceling autovacuum|terminating|ended without a result|was canceled/;
my $gone = qr/relation "(?:phoenix|account_k|ledger_id_idx)" does not exist|could not open relation with OID|relation with OID \d+ no longer exists|index "\w+" (?:was|has been) (?:dropped|replaced)|is not an index|being built or dropped/;
sub allowed
{
	my ($sql, $kind, $cancels, $error) = @_;
	if ($kind eq 'vacuum')
	{
		return 'canceled' if $cancels && $error =~ $canceled;
		return 'gone' if $error =~ $gone && $sql =~ /phoenix|sweep/;
		return 'deadlock' if $error =~ $deadlock && $sql =~ /SELECT|ANALYZE/ || $error =~ $victim_in_queue;
		return;
	}
	return 'deadlock' if $error =~ $deadlock;

	# REPACK (CONCURRENTLY) waits for the tables of vacuums that hold snapshots.
	return;
}

# A generator of random numbers for each stream, so that each makes the same statements
# whichever stream is faster
sub new_stream
{
	my ($kind, $number, $from) = @_;
	my $state = int rand 2**31;
	return { kind => $kind, app => "$kind$number", from => $from, n => 0, file => "$dir/$kind$number.sql", random => sub {
			$state = ($state * 1103515245 + 12345) % 2**31;
			return ($state >> 8) % $_[0];
	} };
}

sub start_next
{
	my ($stream) = @_;
	my $from = $stream->{from};
	my $sql = $from->[ $stream->{random}->(scalar @$from) ];
	$stream->{sql} = $sql;
	open my $file, '>', $stream->{file} or die;
	print $file "SET client_min_messages = error;\n", join(";\n", split /; /, $sql), $sql =~ /\\gexec/ ? "\n" : ";\n";
	close $file or die;
	$stream->{out} = $stream->{err} = '';
	local $ENV{PGAPPNAME} = $stream->{app};
	$stream->{handle} = IPC::Run::start([ 'psql', '-XAtq', '-v', 'ON_ERROR_STOP=1', '-d', $node->connstr('postgres'), '-f', $stream->{file} ],
		'<', \undef, '>', \$stream->{out}, '2>', \$stream->{err});
	return;
}

my (%figure, @faults, $round, %ended);

# The stream's statement has ended.
sub note_end
{
	my ($stream, $cancels) = @_;
	$stream->{handle}->finish;
	$stream->{n}++;
	$figure{ $stream->{kind} }++;
	my $error = $stream->{err};
	if ($error eq '')
	{
		$ended{good}++;
		return;
	}
	my $why = allowed($stream->{sql}, $stream->{kind}, $cancels, $error);
	$ended{ $why // 'bad' }++;
	push @faults, "statement $stream->{n} of $stream->{app}: $stream->{sql}: $error" unless $why;
	return;
}

# Cancel a process of a vacuum that is running.
sub cancel_one
{
	my ($random) = @_;
	my $n = $random->(4);
	my $which = ("application_name LIKE 'vacuum%' AND backend_type = 'client backend'",
		"backend_type = 'parvacuum background leader'",
		"backend_type = 'parallel worker' AND leader_pid IN (SELECT pid FROM pg_stat_progress_vacuum)",
		"backend_type IN ('autovacuum worker', 'parvacuum scheduler worker')")[$n];
	$figure{cancel} += sql("SELECT count(pg_cancel_backend(pid)) FROM (SELECT pid FROM pg_stat_activity WHERE state = 'active' AND $which LIMIT 1) p");
	return;
}

sub weighed
{
	my (%scripts) = @_;
	return map { ($_ => [ 1 + int(rand(2 * $scripts{$_}[0])), $scripts{$_}[1] ]) } sort keys %scripts;
}

sub transactions
{
	my ($bench, $what) = @_;
	$bench->{handle}->finish;
	push @faults, "$what: $bench->{err}" if $bench->{err} =~ /error|abort|not so/i;
	my ($n) = $bench->{out} =~ /actually processed: (\d+)/;
	return $n // 0;
}

# Everything together for some seconds
sub loads
{
	my ($seconds, $cancels) = @_;
	my $end = time + $seconds;
	my @streams = ((map { new_stream('vacuum', $_, \@vacuums) } 1 .. 3), map { new_stream('change', $_, \@changes) } 1 .. 1 + int rand 2);
	my $random = new_stream('cancel', 0, [])->{random};
	my $load = pv_start_pgbench($node, int($seconds + 0.5), 5, weighed(%loads));
	my $check = pv_start_pgbench($node, int($seconds + 0.5), 2, weighed(%checks));
	start_next($_) for @streams;
	my $next_cancel = time + 0.5;
	while (@streams)
	{
		for my $stream (@streams)
		{
			# It may end in between, which pump_nb() takes for an error.
			eval { $stream->{handle}->pump_nb if $stream->{handle}->pumpable; };
			next if $stream->{handle}->pumpable;
			note_end($stream, $cancels);
			delete $stream->{handle};
			start_next($stream) if time < $end && !@faults;
		}
		@streams = grep { $_->{handle} } @streams;
		if ($cancels && time > $next_cancel)
		{
			cancel_one($random);
			$next_cancel = time + 0.1 + $random->(5) / 10;
		}
		sleep 0.01;
	}
	$figure{load} += transactions($load, 'loads');
	$figure{check} += transactions($check, 'invariants');
	return;
}

# What remains when all is quiet: the tables, each with what the oracle finds
sub verdict
{
	my ($when) = @_;
	my ($rc, $out, $err) = $node->psql('postgres', join("\n", map { $_->[1] =~ s/:(?:k|id|tag|x|t)\b/1/gr } grep { $_->[1] !~ /gset/ } @checks{ sort keys %checks }),
		timeout => $PostgreSQL::Test::Utils::timeout_default);
	push @faults, "$when: $err" if $err =~ /ERROR/;
	for my $table (@tables)
	{
		my $thorough = $indexes_of{$table} ? 'true' : 'false';
		my $found = sql("SELECT * FROM oracle.check_table('$table', $thorough)");
		push @faults, "$when: $found" if $found ne '';
	}
	$figure{oracle}++;
	return;
}

my $end = time + pv_seconds(1, 5);
my $length = $ENV{PV_SECONDS} ? 15 : 5;
while (!@faults && ($round // 0) == 0 || !@faults && time < $end)
{
	$round++;
	srand $seed * 1000 + $round;
	my ($autovacuum, $scheduler, $cancels, $slot, $delay) = (chance(0.4), chance(0.4), chance(0.5), chance(0.4), one_of(0, 0, '1ms'));
	my $what = "round $round: autovacuum " . ($autovacuum ? 'on' : 'off') . ', scheduler ' . ($scheduler ? 'on' : 'off')
	  . ($cancels ? ', cancels' : '') . ($slot ? ', slot' : '') . ", vacuum_cost_delay $delay";
	note $what;
	pv_reload_with($node, autovacuum => $autovacuum ? 'on' : 'off', 'parvacuum.scheduler' => $scheduler ? 'on' : 'off', vacuum_cost_delay => $delay);
	sql(q{SELECT pg_create_logical_replication_slot('slot', 'pgoutput')}) if $slot;
	loads($length, $cancels);
	pv_reload_with($node, autovacuum => 'off', 'parvacuum.scheduler' => 'off', vacuum_cost_delay => 0);
	sql(q{SELECT pg_drop_replication_slot('slot')}) if $slot;
	push @faults, 'processes remain: ' . pv_processes($node)
	  unless pv_await($node, q{SELECT count(*) FROM pg_stat_activity WHERE backend_type IN ('autovacuum worker', 'parallel worker', 'parvacuum background leader', 'parvacuum scheduler worker')}, 0);
	verdict('after the loads') unless @faults;

	# The transactions of the loads are over: all that is dead can go.
	for my $table (@faults ? () : @tables)
	{
		my ($rc, $out, $err) = $node->psql('postgres', "SELECT FROM parvacuum_run('$table', workers => 2, index_cleanup => 'on', disable_page_skipping => true)");
		push @faults, "last vacuum of $table: $err" if $rc != 0;
	}
	verdict('after the last vacuum') unless @faults;
	if (!ok(!@faults, $what))
	{
		diag "seed $seed, $what";
		diag $_ for @faults[ 0 .. ($#faults > 9 ? 9 : $#faults) ];
	}
}
note 'statements of streams: ' . join ', ', map { "$_ $ended{$_}" } sort keys %ended;
cmp_ok($figure{vacuum}, '>', 3 * $round, 'vacuums ran');
cmp_ok($figure{load}, '>', 20 * $round, 'transactions ran');
cmp_ok($figure{check}, '>', 3 * $round, 'invariants were checked');
pv_figure($round, 'rounds of loads beside vacuums, each with the oracle at the end');
pv_figure($figure{vacuum}, 'vacuums and sweeps beside loads');
pv_figure($figure{load}, 'transactions beside vacuums');
pv_figure($figure{change}, 'statements of DDL beside vacuums');
pv_figure($figure{cancel} // 0, 'vacuums canceled');
pv_figure($figure{check}, 'invariants checked beside vacuums');

pv_no_crash($node, 'the server');
$node->stop;
done_testing();
