# The server's clock is set back: tables that were queued before keep their place in the order.

use strict;
use warnings FATAL => 'all';

use FindBin;
use lib $FindBin::RealBin;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use PvScheduler;
use PvTest;
use Test::More;

# A library with which the clock is an hour behind as long as there is a file
my $dir = PostgreSQL::Test::Utils::tempdir_short;
append_to_file("$dir/clock.c", q{
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdlib.h>
#include <sys/time.h>
#include <unistd.h>

int
gettimeofday(struct timeval *restrict tv, void *restrict tz)
{
	static int	(*real) (struct timeval *, void *);
	int			result;

	if (!real)
		*(void **) &real = dlsym(RTLD_NEXT, "gettimeofday");
	result = real(tv, tz);
	if (access(getenv("PV_CLOCK"), F_OK) == 0)
		tv->tv_sec -= 3600;
	return result;
}
});
plan skip_all => 'the library that sets the clock is for Linux' if $^O ne 'linux';
my $out = `cc -Wall -shared -fPIC -o $dir/clock.so $dir/clock.c -ldl 2>&1`;
plan skip_all => "the library that sets the clock cannot be built: $out" if $? != 0;
{
	local $ENV{LD_PRELOAD} = "$dir/clock.so";
	local $ENV{PV_CLOCK} = "$dir/back";
	sched_start('scheduler_clock', 'parvacuum.scheduler = on');
}

make_keyed(qw(busy earlier later));
keep_busy('clock');
sql(q{SELECT parvacuum_enqueue('earlier')});
my $before = sql('SELECT now()');
append_to_file("$dir/back", '');
is(sql("SELECT now() < '$before'"), 't', 'clock: it is set back');
sql(q{SELECT parvacuum_enqueue('later')});
is(sql(q{SELECT string_agg(relation::text, ' ' ORDER BY relation) FROM parvacuum_queue WHERE relation IN ('earlier'::regclass, 'later'::regclass) AND state = 'queued' AND since BETWEEN now() - interval '10 min' AND now()}), 'earlier later',
	'clock: both have been queued a moment ago, by the clock as it is now');
go_on('clock');
is(sql(q{SELECT string_agg(relname, ' ' ORDER BY last_vacuum) FROM pg_stat_user_tables WHERE relname IN ('earlier', 'later')}), 'earlier later', 'clock: the table that was queued first is vacuumed first');

$node->stop;
pv_no_crash($node, 'the server');
done_testing();
