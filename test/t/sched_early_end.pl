# The scheduler's vacuums that end early: one that prevents wraparound lets another session
# have its table and goes on, and one whose window closes goes on when it opens again.

use strict;
use warnings FATAL => 'all';

use FindBin;
use lib $FindBin::RealBin;
use PostgreSQL::Test::Utils;
use PvScheduler;
use PvTest;
use Test::More;

sched_start('scheduler_early', "deadlock_timeout = 200ms\n");
make_bell();

sub kept { return sql(q{SELECT count(*) FROM parvacuum_kept}) }

# A table of 1500 pages, which takes longer than the test, at this speed
make_tables(1500, 'old');
sql('CREATE INDEX ON old (id)', 'DELETE FROM old WHERE id % 10 = 0', 'CHECKPOINT');
set_speed(3000);
reload_with('parvacuum.scheduler' => 'on');
sql(q{ALTER TABLE old SET (autovacuum_freeze_max_age = 150000000)},
	q{UPDATE pg_class SET relfrozenxid = ((txid_current() - 190000000) & 4294967295)::text::xid WHERE relname = 'old'});
until_answer(q{SELECT coalesce(sum(heap_blks_scanned), 0) > 200 FROM parvacuum_progress WHERE relid = 'old'::regclass}, 'true', 'wraparound: the vacuum is at work');
my $took = sql('CREATE TEMP TABLE t AS SELECT clock_timestamp() AS t', 'ALTER TABLE old ALTER pad SET STATISTICS 10', 'SELECT extract(epoch FROM clock_timestamp() - t) FROM t');
note "wraparound: another session has the table after $took s";
until_answer(q{SELECT count(*) > 0 FROM parvacuum_history WHERE relname = 'old' AND ended_early}, 'true', 'wraparound: the history says that the vacuum has ended early');
is(vacuums('old'), 1, 'wraparound: it is not complete');
until_answer(q{SELECT coalesce(sum(heap_blks_scanned), 0) > 0 FROM parvacuum_progress WHERE relid = 'old'::regclass}, 'true', 'wraparound: it goes on');
set_speed(0);
until_vacuumed('old', 2, 'wraparound: it is completed');
is(kept(), 0, 'wraparound: nothing is kept any more');
is(sql(q{SELECT age(relfrozenxid) < 1000 FROM pg_class WHERE relname = 'old'}), 't', 'wraparound: relfrozenxid has advanced');
is(pv_findings($node, 'old'), '', 'wraparound: the table is whole');
cmp_ok(sql(q{SELECT sum(pages_scanned) FROM parvacuum_history WHERE relname = 'old' AND started_by = 'scheduler'}), '<', 1700, 'wraparound: no more than a part of it was scanned twice');

# The window closes at the next minute.  The vacuum that began before is not complete then.
reload_with('parvacuum.scheduler' => 'off');
make_tables(1500, 'nightly');
sql('CREATE INDEX ON nightly (id)', 'DELETE FROM nightly WHERE id % 3 = 0', 'CHECKPOINT');
set_speed(500);
my ($from, $to) = split /\|/, sql(q{SELECT to_char(t, 'HH24:MI'), to_char(t + '1 min', 'HH24:MI') FROM (SELECT CASE WHEN extract(second FROM now()) > 50 THEN now() + '1 min' ELSE now() END t) x});
sql("ALTER TABLE nightly SET (parvacuum.window = '$from-$to')");
reload_with('parvacuum.scheduler' => 'on');
until_answer(q{SELECT coalesce(sum(heap_blks_scanned), 0) > 0 FROM parvacuum_progress WHERE relid = 'nightly'::regclass}, 'true', 'window: the vacuum begins');
until_answer(q{SELECT count(*) > 0 FROM parvacuum_history WHERE relname = 'nightly' AND ended_early}, 'true', 'window: it ends early');
is(kept(), 1, 'window: what it has found is kept');
until_item('nightly', 'waiting window', 'window: the table waits for the next one');
is(vacuums('nightly'), 1, 'window: the vacuum is not complete');
set_speed(0);
sql('ALTER TABLE nightly RESET (parvacuum.window)');
until_vacuumed('nightly', 2, 'window: it is completed');
is(kept(), 0, 'window: nothing is kept any more');
is(pv_findings($node, 'nightly'), '', 'window: the table is whole');

pv_no_crash($node, 'the server');
done_testing();
