# shellcheck shell=bash
# Functions that the benchmarks share.  Each script sources this file.  Each
# contender works on a fresh copy of one data directory, so that all contenders
# start from the same state.
. "$(dirname "${BASH_SOURCE[0]}")/../scripts/lib.sh"

stop_server() { as_user "$bindir/pg_ctl" -D "$1" -s -m "$2" -w stop; }

# Make a fresh copy of data directory $1, with the name $2 (default "copy").
copy_data() {
    rm -rf "$work/${2:-copy}"
    as_user cp -a "$work/$1" "$work/${2:-copy}"
}

start_on() { as_user env "${disk[@]}" "$bindir/pg_ctl" -D "$work/$1" -l "$work/$1.log" -s -w -o "-p 54321" start; }

# If FLUSH_US is set, each flush of WAL takes at least that many microseconds in
# the servers that start_on starts.  On a fast disk, the waits for flushes may be
# too short to show in a result.
disk=()
slow_flushes() {
    [[ -n ${FLUSH_US:-} ]] || return 0
    gcc -O2 -shared -fPIC -o "$work/slow_flush.so" "$source_dir/bench/slow_flush.c" -ldl
    chmod a+rx "$work/slow_flush.so"
    disk=("FLUSH_US=$FLUSH_US" "LD_PRELOAD=$work/slow_flush.so")
    say "Each flush takes $FLUSH_US us at least."
}

# Start a server on a fresh copy of data directory $1.  Load into shared buffers
# all relations whose names begin with $2 (default "test").
on_copy() {
    copy_data "$1"
    start_on copy
    psql -c "SELECT sum(pg_prewarm(oid)) FROM pg_class WHERE relname LIKE '${2:-test}%'" >/dev/null
}

# An awk function: the median of column c over the n[key] lines in v[key, c, i].
# shellcheck disable=SC2034
median='
    function median(key, c,   i, j, k, t, a) {
        k = n[key]
        for (i = 1; i <= k; i++) a[i] = v[key, c, i]
        for (i = 2; i <= k; i++) for (j = i; j > 1 && a[j] < a[j-1]; j--) { t = a[j]; a[j] = a[j-1]; a[j-1] = t }
        return k % 2 ? a[(k + 1) / 2] : (a[k / 2] + a[k / 2 + 1]) / 2
    }'

# SQL that creates the function watch().  It waits for a vacuum to start, and
# returns the milliseconds that pg_stat_progress_vacuum shows it in each phase.
# shellcheck disable=SC2034
watch_function=$(cat <<'SQL'
CREATE FUNCTION watch(OUT scan float8, OUT index float8, OUT heap_vacuum float8, OUT cleanup float8) LANGUAGE plpgsql AS $$
DECLARE
    now_in text;
    was_in text;
    since timestamptz := clock_timestamp();
    gone float8;
BEGIN
    scan := 0; index := 0; heap_vacuum := 0; cleanup := 0;
    LOOP
        PERFORM pg_stat_clear_snapshot();
        now_in := (SELECT phase FROM pg_stat_progress_vacuum);
        gone := 1000 * extract(epoch FROM clock_timestamp() - since);
        since := clock_timestamp();
        IF was_in = 'scanning heap' THEN scan := scan + gone;
        ELSIF was_in = 'vacuuming indexes' THEN index := index + gone;
        ELSIF was_in = 'vacuuming heap' THEN heap_vacuum := heap_vacuum + gone;
        ELSIF was_in = 'cleaning up indexes' THEN cleanup := cleanup + gone;
        END IF;
        EXIT WHEN was_in IS NOT NULL AND now_in IS NULL;
        was_in := now_in;
        PERFORM pg_sleep(0.0005);
    END LOOP;
END $$;
SQL
)

# Make the table "test" of workload $1 (W1, W2, W2b or mass) with $2 rows, or a
# third of them for W2b.  The table is left in the state before its vacuum.
test_table() {
    local load=$1 n=$2
    if [[ $load == W2b ]]; then
        ((n /= 3))
        psql -c 'CREATE TABLE test (a int, b int, c text) WITH (autovacuum_enabled = off)' \
            -c "INSERT INTO test SELECT i, hashint4(i), 'text ' || i FROM generate_series(1, $n) i" \
            -c 'CREATE INDEX ON test (a)' -c 'CREATE INDEX ON test (b)'
    else
        psql -c 'CREATE UNLOGGED TABLE test (a int) WITH (autovacuum_enabled = off)' \
            -c "INSERT INTO test SELECT generate_series(1, $n)"
        [[ $load == W1 ]] || psql -c 'CREATE INDEX ON test (a)'
    fi
    if [[ $load == mass ]]; then
        psql -c "DELETE FROM test WHERE a BETWEEN $n / 20 AND $n / 20 * 19"
    else
        psql -c 'DELETE FROM test WHERE a % 5 = 0'
    fi
}

# Make the data directory of workload $1.  All runs use copies of it.  It has the
# table of test_table with $2 rows, and the objects that the SQL in $3 makes.
build() {
    start_server "$1" "$work/bench.conf"
    psql -c 'CREATE EXTENSION parvacuum' -c 'CREATE EXTENSION pg_prewarm'
    test_table "$1" "$2"
    psql <<<"${3-}"
    psql -c CHECKPOINT
    stop_server "$work/$1" fast
}

# Settings for vacuums of one large table that is in shared buffers.
vacuum_settings() {
    cat <<CONF
listen_addresses = ''
shared_preload_libraries = 'parvacuum'
shared_buffers = 3GB
maintenance_work_mem = 256MB
max_parallel_maintenance_workers = 4
autovacuum = off
fsync = off
max_wal_size = 8GB
checkpoint_timeout = 1h
CONF
}

# Run the SQL on standard input.  The SQL can use the psql variable "since": an
# expression for the milliseconds since psql's variable "t" was set, by the
# server's clock.
timed() {
    { echo 'SELECT clock_timestamp() AS t \gset'
      echo "\\set since '1000 * extract(epoch FROM clock_timestamp() - :''t'')'"
      cat; } | psql -F ' '
}

# Measure the machine's two-process ratio with a parallel count(*) of the same
# table.  Append lines "load count<workers> ms 0 0 0" to the results.
calibrate() {
    local workers
    on_copy "$1"
    psql -c 'SELECT count(*) FROM test' >/dev/null      # sets hint bits
    for workers in 0 1 0 1 0 1; do
        timed <<SQL >>"$work/results"
SET max_parallel_workers_per_gather = $workers;
SET parallel_setup_cost = 0;
SET parallel_tuple_cost = 0;
SELECT clock_timestamp() AS t \gset
SELECT count(*) AS n FROM test \gset
SELECT '$1 count$workers', :since, 0, 0, 0;
SQL
    done
    stop_server "$work/copy" immediate
}

# Drop the operating system's cache.  sync comes first, since dirty pages cannot
# be dropped.
drop_caches() {
    sync
    echo 3 >/proc/sys/vm/drop_caches
}

# Start a server on a fresh copy of data directory $1.  The table $3 is in shared
# buffers if the state $2 is "shared", in the operating system's cache if it is
# "os", and in neither if it is "cold".  A vacuum of the table "tiny" loads the
# catalogs that any vacuum reads.
in_state() {
    local data=$1 state=$2 table=$3 settings=$4
    copy_data "$data"
    sync
    start_on copy
    case $state in
        shared) psql -c "SELECT pg_prewarm('$table')" >/dev/null ;;
        cold) drop_caches ;;
    esac
    psql -c "$settings" -c 'VACUUM tiny'
}

# SQL that makes the extensions and the table "tiny", which in_state needs, and
# the table "sequential" of W3.
sequential_table() {
    cat <<'SQL'
CREATE EXTENSION parvacuum;
CREATE EXTENSION pg_prewarm;
CREATE TABLE tiny (a int) WITH (autovacuum_enabled = off);
CREATE TABLE sequential (a int) WITH (autovacuum_enabled = off, fillfactor = 25);
INSERT INTO sequential SELECT i % 3 FROM generate_series(1, 200000) i;
UPDATE sequential SET a = 5 WHERE a = 1;
SQL
}

# Settings for vacuums of small tables.  fsync is on.
small_settings() {
    cat <<CONF
listen_addresses = ''
shared_preload_libraries = 'parvacuum'
shared_buffers = 128MB
autovacuum = off
checkpoint_timeout = 1h
CONF
}

pgbench() {
    if ! run_job as_user "$bindir/pgbench" "$@" >"$work/pgbench.out" 2>&1; then
        cat "$work/pgbench.out" >&2
        die "pgbench failed"
    fi
}
