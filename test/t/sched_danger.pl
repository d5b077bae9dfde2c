# A table in danger of wraparound whose vacuum fails comes first once.  It does not come
# first again if its function raises the error of a lock, nor after its options were reset
# and set.

use strict;
use warnings FATAL => 'all';

use FindBin;
use lib $FindBin::RealBin;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use PvScheduler;
use PvTest;
use Test::More;

sched_start('sched_danger', q{
autovacuum_analyze_threshold = 1000000
log_autovacuum_min_duration = 0
parvacuum.scheduler = on
parvacuum.scheduler_workers = 1
});

# Statements after which a table is that old and has opted in
sub is_old
{
	my ($table, $age) = @_;
	return ("UPDATE pg_class SET relfrozenxid = ((pg_current_xact_id()::text::bigint - $age) & 4294967295)::text::xid WHERE oid = '$table'::regclass", "ALTER TABLE $table SET ($in)");
}

my $begun = log_length();
my $failed = qr/ERROR:  55P03: old/;

sql('CREATE ROLE mallory', 'CREATE SCHEMA mallory AUTHORIZATION mallory', 'SET ROLE mallory',
	q{CREATE FUNCTION mallory.old(i int) RETURNS int IMMUTABLE LANGUAGE plpgsql AS 'BEGIN RETURN i; END'}, 'CREATE TABLE mallory.old (id int)',
	'INSERT INTO mallory.old SELECT i FROM generate_series(1, 1000) i', 'CREATE INDEX ON mallory.old USING brin (mallory.old(id)) WITH (pages_per_range = 1)', 'INSERT INTO mallory.old SELECT i FROM generate_series(1, 1000) i',
	q{CREATE OR REPLACE FUNCTION mallory.old(i int) RETURNS int IMMUTABLE LANGUAGE plpgsql AS $$ BEGIN RAISE EXCEPTION 'old' USING ERRCODE = 'lock_not_available'; END $$});
sql("CREATE TABLE busy (id int) WITH ($in, autovacuum_enabled = off)", 'INSERT INTO busy VALUES (1)');
sql('BEGIN', is_old('mallory.old', 900000000), 'COMMIT');
ok($node->wait_for_log($failed, $begun), 'the vacuum of a table has failed');

for my $how ('as an entry that is known', 'as a new entry')
{
	if ($how =~ /new/)
	{
		sql('SET ROLE mallory', "ALTER TABLE mallory.old RESET ($in)");
		until_answer(q{SELECT count(*) FROM parvacuum_queue WHERE relid = 'mallory.old'::regclass}, 0, 'the table has no entry any more');
	}
	# The only worker is held elsewhere until the pause of the table is over.
	hold('busy');
	sql("SELECT parvacuum_enqueue('busy')");
	until_held('busy', $how);
	sleep 2**(times_logged($failed, $begun) - 1) + 1;
	my $from = log_length();
	sql('DROP TABLE IF EXISTS younger', 'CREATE TABLE younger AS SELECT i FROM generate_series(1, 1000) i');
	sql('BEGIN', is_old('younger', 800000000), is_old('mallory.old', 900000000), 'COMMIT');
	release();
	my $done = qr/automatic [^\n]*vacuum [^\n]*\.younger/;
	ok($node->wait_for_log($done, $from), "$how: a younger table of others is vacuumed");
	unlike(substr(slurp_file($node->logfile), $from) =~ s/$done.*//sr, $failed, "$how: the one that fails was not before it");
	ok($node->wait_for_log($failed, $from), "$how: it is after it");
}

pv_no_crash($node, 'the server');
$node->stop;
done_testing();
