# parvacuum: VACUUM in parallel
#
#	make demo			see it work on five million rows
#	make check			run every test
#	make check-all			run them on servers of every major version
#
# These two install what is missing (on Debian), build, install, and use a
# server of their own.  The other targets are those of every extension:
#
#	make; make install; make installcheck		PG_CONFIG=... chooses the server
#
# installcheck wants a running server with test/parvacuum.conf included.

EXTENSION = parvacuum
EXTVERSION = $(shell sed -n "s/^default_version *= *'\(.*\)'/\1/p" parvacuum.control)

MODULE_big = parvacuum
OBJS = \
	src/parvacuum.o \
	src/pv_account.o \
	src/pv_cancel.o \
	src/pv_command.o \
	src/pv_compat.o \
	src/pv_container.o \
	src/pv_cost.o \
	src/pv_deadtids.o \
	src/pv_dispense.o \
	src/pv_dsm.o \
	src/pv_eager.o \
	src/pv_enqueue.o \
	src/pv_guard.o \
	src/pv_guc.o \
	src/pv_hook.o \
	src/pv_index.o \
	src/pv_launcher.o \
	src/pv_map.o \
	src/pv_monitor.o \
	src/pv_nbtree.o \
	src/pv_need.o \
	src/pv_options.o \
	src/pv_order.o \
	src/pv_page.o \
	src/pv_participant.o \
	src/pv_policy.o \
	src/pv_pool.o \
	src/pv_process.o \
	src/pv_prune.o \
	src/pv_queue.o \
	src/pv_reader.o \
	src/pv_reap.o \
	src/pv_reload.o \
	src/pv_report.o \
	src/pv_runner.o \
	src/pv_runs.o \
	src/pv_scan.o \
	src/pv_sched.o \
	src/pv_shmem.o \
	src/pv_space.o \
	src/pv_sweep.o \
	src/pv_truncate.o \
	src/pv_vacuum.o \
	src/pv_wait.o \
	src/pv_window.o \
	src/pv_worker.o

DATA = $(wildcard parvacuum--*.sql)
PGFILEDESC = "parvacuum - VACUUM in parallel"

# The server's headers are not ours to mend, and callbacks have the parameters that
# their callers give, so that -Wextra may be used.
PG_CPPFLAGS = -I$(srcdir)/src -isystem $(shell $(PG_CONFIG) --includedir-server 2>/dev/null)
override PG_CFLAGS += -Wno-unused-parameter -Wno-unknown-warning-option -Wno-ignored-optimization-argument

REGRESS = \
	run \
	errors \
	oracle \
	engine_heap \
	engine_index \
	engine_rounds \
	engine_options \
	engine_horizon \
	engine_skipping

ISOLATION = \
	cleanup_lock \
	lock_conflict \
	options \
	snapshot \
	sweep \
	truncate_backoff
ISOLATION_OPTS = --inputdir=test

TAP_TESTS = 1
PROVE_TESTS = test/t/*.pl

EXTRA_CLEAN = parvacuum-*.zip

PG_CONFIG ?= pg_config

.PHONY: demo check check-all check-style dist

ifneq ($(filter demo check check-all check-style,$(MAKECMDGOALS)),)

# These must work before there is a server to build for.
demo check:
	@scripts/$@

# SERVERS="15 17:regress,isolation" says which, and with what parts
check-all:
	@scripts/check-all $(SERVERS)

check-style:
	@scripts/check_style

else

PGXS := $(shell $(PG_CONFIG) --pgxs 2>/dev/null)
ifneq ($(wildcard $(PGXS)),)
include $(PGXS)
else
all install installcheck uninstall clean:
	@echo '$(PG_CONFIG) leads to no PostgreSQL server to build for.' >&2
	@echo 'Install its development package or say make PG_CONFIG=/path/to/pg_config.' >&2
	@exit 1
endif

endif

dist:
	git archive --format zip --prefix=parvacuum-$(EXTVERSION)/ -o parvacuum-$(EXTVERSION).zip HEAD
