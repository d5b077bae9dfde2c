# parvacuum: VACUUM in parallel
#
#	make demo			compare with stock VACUUM on four million rows
#	make demo-cluster ROWS=5000000	the same in a cluster of Citus
#	make check			run the tests
#	make stress			run the tests under load for longer
#	make torture MINUTES=60 SEED=1	run random tests for long
#	make check-all			run the tests on every major version
#	make mutants			plant bugs, and see which tests find them
#	make coverage			count the lines that the tests run
#	make valgrind			run some tests under valgrind
#	make analyze			look for faults without running anything
#	make package			build the Debian package, and try it in a system of its own
#	make cross			compile for arm64, and run the unit tests there
#	make release-check		see whether this commit can be released
#
# "demo", "demo-cluster", "check" and "mutants" install missing packages (on Debian), build
# and install the extension, and use servers of their own.  The other targets are those of
# any extension:
#
#	make; make install; make installcheck		PG_CONFIG=... chooses the server
#
# "installcheck" requires a running server whose configuration includes
# test/parvacuum.conf.

EXTENSION = parvacuum parvacuum_cluster

MODULE_big = parvacuum
OBJS = \
	src/base/borrowed.o \
	src/base/clock.o \
	src/base/compat.o \
	src/base/compat_heap.o \
	src/base/guard.o \
	src/base/process.o \
	src/base/reload.o \
	src/base/ring.o \
	src/base/settings.o \
	src/base/shmem.o \
	src/base/wait.o \
	src/base/window.o \
	src/engine/dispense.o \
	src/engine/eager.o \
	src/engine/early_end.o \
	src/engine/finish.o \
	src/engine/freeze.o \
	src/engine/heap_scan.o \
	src/engine/heap_vacuum.o \
	src/engine/hot_chain.o \
	src/engine/index_am.o \
	src/engine/index_order.o \
	src/engine/index_vacuum.o \
	src/engine/index_work.o \
	src/engine/keep.o \
	src/engine/nbtree.o \
	src/engine/nbtree_bitmap.o \
	src/engine/nbtree_delete.o \
	src/engine/nbtree_page.o \
	src/engine/page.o \
	src/engine/phases.o \
	src/engine/plan.o \
	src/engine/pool.o \
	src/engine/progress.o \
	src/engine/prune.o \
	src/engine/reader.o \
	src/engine/report.o \
	src/engine/reserve.o \
	src/engine/sample.o \
	src/engine/sweep.o \
	src/engine/truncate.o \
	src/engine/vacuum.o \
	src/entry/command.o \
	src/entry/dispatch.o \
	src/entry/effective_options.o \
	src/entry/failures.o \
	src/entry/labels.o \
	src/entry/leader.o \
	src/entry/options.o \
	src/entry/relation.o \
	src/entry/rights.o \
	src/entry/run.o \
	src/entry/slot.o \
	src/parvacuum.o \
	src/sched/candidates.o \
	src/sched/entries.o \
	src/sched/launcher.o \
	src/sched/policy.o \
	src/sched/queue.o \
	src/sched/queue_shmem.o \
	src/sched/sweep_table.o \
	src/sched/table.o \
	src/sched/worker.o \
	src/sql/blockers.o \
	src/sql/call.o \
	src/sql/check.o \
	src/sql/check_space.o \
	src/sql/check_tables.o \
	src/sql/cluster.o \
	src/sql/history_views.o \
	src/sql/monitor.o \
	src/sql/plan_function.o \
	src/sql/progress_view.o \
	src/sql/requests.o \
	src/sql/row.o \
	src/sql/run_function.o \
	src/sql/survey.o \
	src/sql/sweep_function.o \
	src/sql/tables.o \
	src/sql/versions.o \
	src/stats/blocker.o \
	src/stats/eta.o \
	src/stats/history.o \
	src/stats/history_run.o \
	src/stats/kept.o \
	src/stats/lru.o \
	src/stats/records.o \
	src/stats/registry.o \
	src/stats/usage.o \
	src/store/container.o \
	src/store/deadtids.o \
	src/store/deadtids_file.o \
	src/store/deadtids_write.o \
	src/store/space.o \
	src/throttle/balance.o \
	src/throttle/clients.o \
	src/throttle/cost.o \
	src/throttle/cost_autovacuum.o \
	src/throttle/cost_scheduler.o \
	src/throttle/pace.o \
	src/throttle/pacer.o \
	src/throttle/wal.o

DATA = $(wildcard parvacuum--*.sql parvacuum_cluster--*.sql)
PGFILEDESC = "parvacuum - VACUUM in parallel"

# The following allows -Wextra.  The server's headers are system headers, so that
# they cause no warnings.  Callbacks have parameters that they do not use.
PG_CPPFLAGS = -I$(srcdir)/src -isystem $(shell $(PG_CONFIG) --includedir-server 2>/dev/null)
override PG_CFLAGS += -Wno-unused-parameter -Wno-unknown-warning-option -Wno-ignored-optimization-argument

REGRESS = \
	run \
	errors \
	oracle \
	engine_heap \
	engine_index \
	engine_index_scans \
	engine_options \
	engine_horizon \
	engine_skipping \
	engine_free_space

ISOLATION = \
	cleanup_lock \
	kept \
	lock_conflict \
	options \
	snapshot \
	sweep \
	truncate_backoff
ISOLATION_OPTS = --inputdir=test

TAP_TESTS = 1
PROVE_TESTS = test/t/*.pl

EXTRA_CLEAN = parvacuum-*.zip

# What is tested under valgrind: every room, and what takes minutes without it left out
VALGRIND_PARTS = regress/run regress/errors regress/oracle regress/engine_skipping isolation \
	units/container units/errors units/window units/order units/plan \
	units/account units/history units/eta pgtap/progress pgtap/history pgtap/results \
	pgtap/options pgtap/sweep_deletes pgtap/plan t/nbtree t/sched_tables t/small_map t/history_file

PG_CONFIG ?= pg_config

.PHONY: demo demo-cluster check stress torture check-all check-style mutants coverage valgrind analyze package cross release-check dist

ifneq ($(filter demo demo-cluster check stress torture check-all check-style mutants coverage valgrind analyze package cross release-check,$(MAKECMDGOALS)),)

# These targets must work without a server to build for.
demo check:
	@scripts/$@

# On the server of PG_CONFIG, if that is given, else on 17-citus of test/servers.
demo-cluster:
	@scripts/demo_cluster

# PV_SECONDS is the length of each loop, PV_SEED the beginning of what is random.
stress:
	@PV_PARTS="t/engine t/stress t/terminate_many t/autovacuum_stress t/sweep_beside_work t/pages t/pages_standby" PV_SECONDS=$${PV_SECONDS:-60} scripts/check

# FILES="crashes owner" chooses files of test/torture.
torture:
	@scripts/torture $(FILES)

# SERVERS="15 17:regress,isolation" chooses the servers and the parts of the tests.
check-all:
	@scripts/check-all $(SERVERS)

check-style:
	@scripts/check_style

# MUTANTS="nbtree_counts store_kind" chooses the bugs, which are files of test/mutants.
mutants:
	@scripts/mutants $(MUTANTS)

coverage:
	@scripts/coverage

# On a server of test/servers for valgrind, it runs what is short enough.
valgrind:
	@PV_PARTS="$${PV_PARTS:-$(VALGRIND_PARTS)}" scripts/check

analyze:
	@PV_PARTS=analyze scripts/check

package:
	@scripts/package $(FOLDER)

cross:
	@scripts/cross

# CHECKS="version documents" chooses what is looked at.
release-check:
	@scripts/release-check $(CHECKS)

else

PGXS := $(shell $(PG_CONFIG) --pgxs 2>/dev/null)
ifneq ($(wildcard $(PGXS)),)
include $(dir $(firstword $(MAKEFILE_LIST)))src/build.mk
include $(PGXS)

# Before PostgreSQL 16 a library exports all its symbols.
ifeq ($(PORTNAME), linux)
SHLIB_LINK += -Wl,--version-script=$(srcdir)/src/exports.map
$(shlib): $(srcdir)/src/exports.map
endif

# What is used beside the server, in a folder of its own: the report, and the files for monitoring
TOOLS = $(DESTDIR)$(datadir)/parvacuum
MONITORING = README.md postgres_exporter.yml grafana/parvacuum.json pgwatch/parvacuum.yaml

.PHONY: install-tools uninstall-tools
install: install-tools
uninstall: uninstall-tools

install-tools:
	$(MKDIR_P) '$(TOOLS)/monitoring/grafana' '$(TOOLS)/monitoring/pgwatch'
	$(INSTALL_SCRIPT) $(srcdir)/scripts/report '$(TOOLS)/'
	$(INSTALL_DATA) $(srcdir)/scripts/report.sql $(srcdir)/scripts/report.html '$(TOOLS)/'
	set -e; for file in $(MONITORING); do $(INSTALL_DATA) $(srcdir)/monitoring/$$file '$(TOOLS)'/monitoring/$$file; done

uninstall-tools:
	rm -rf '$(TOOLS)'
else
all install installcheck uninstall clean:
	@echo '$(PG_CONFIG) does not belong to a PostgreSQL server to build for.' >&2
	@echo 'Install the development package or use make PG_CONFIG=/path/to/pg_config.' >&2
	@exit 1
endif

endif

# The archive for PGXN, which names it by the version in META.json
DIST = parvacuum-$(shell sed -n '/"version"/{s/.*: *"\(.*\)".*/\1/p;q;}' META.json)

dist:
	git archive --format zip --prefix=$(DIST)/ -o $(DIST).zip HEAD
