# shellcheck shell=bash
# What the benchmarks share; they source it.  A contender works on a fresh copy
# of one data directory, so that all begin with the same.
. "$(dirname "${BASH_SOURCE[0]}")/../scripts/lib.sh"

stop_server() { as_user "$bindir/pg_ctl" -D "$1" -s -m "$2" -w stop; }

# A server on a fresh copy, everything in shared buffers.
on_copy() {
    rm -rf "$work/copy"
    as_user cp -a "$work/$1" "$work/copy"
    as_user "$bindir/pg_ctl" -D "$work/copy" -l "$work/copy.log" -s -w -o "-p 54321" start
    psql -c "SELECT sum(pg_prewarm(oid)) FROM pg_class WHERE relname LIKE 'test%'" >/dev/null
}

# For awk: the median of column c over the n[key] lines that v[key, c, i] holds.
# shellcheck disable=SC2034
median='
    function median(key, c,   i, j, k, t, a) {
        k = n[key]
        for (i = 1; i <= k; i++) a[i] = v[key, c, i]
        for (i = 2; i <= k; i++) for (j = i; j > 1 && a[j] < a[j-1]; j--) { t = a[j]; a[j] = a[j-1]; a[j-1] = t }
        return k % 2 ? a[(k + 1) / 2] : (a[k / 2] + a[k / 2 + 1]) / 2
    }'
