# shellcheck shell=bash
# The common part of scripts/demo, scripts/check and test/servers, which source it.
#
# PostgreSQL refuses to run as root.  If root calls a script, as_user runs everything that
# needs a server as another user; as_root is only for the installation.  All work is done
# on a copy of the source, in a folder that is removed when the script ends: the clone
# may be readable by its owner only, and is not changed.

set -euo pipefail

source_dir=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd -P)
work=           # the folder of our own
jobs=()         # process groups of what is running now

# The caller's connection settings and language must not take effect.
for v in "${!PG@}"; do
    [[ $v == PG_CONFIG ]] || unset "$v"
done
unset v MAKEFLAGS MAKELEVEL MFLAGS
export LC_ALL=C PSQLRC=/dev/null

# For servers built with sanitizers: memory that a process has not freed at its end is
# not a leak, and core measures its stack by the addresses of variables.
export ASAN_OPTIONS=detect_leaks=0:detect_stack_use_after_return=0:abort_on_error=1
export UBSAN_OPTIONS=print_stacktrace=1

say() { printf '%s\n' "$@"; }
die() { printf '%s\n' "$*" >&2; exit 1; }

as_root() {
    if ((EUID == 0)); then "$@"; else sudo "$@"; fi
}

# setpriv is replaced by the command, so that signals reach it.
as_user() {
    if ((EUID == 0)); then
        setpriv --reuid="$run_user" --regid="$(id -g "$run_user")" --clear-groups -- \
            env HOME="$work" USER="$run_user" LOGNAME="$run_user" "$@"
    else
        "$@"
    fi
}

# Start a command in the background, in a process group of its own, so that cleanup can
# end all that the command has started.  The last element of jobs is its group.
start_job() {
    set -m
    "$@" </dev/null &
    jobs+=($!)
    set +m
}

# Run a command as a job, so that the script reacts to a signal at once.
run_job() {
    local rc=0
    start_job "$@"
    wait "${jobs[-1]}" || rc=$?
    unset 'jobs[-1]'
    return $rc
}

stop_servers() {
    local pidfile mode=${1:-immediate}
    while read -r pidfile; do
        as_user "$bindir/pg_ctl" -D "$(dirname "$pidfile")" -m "$mode" -s stop || true
    done < <(find "$work" -name postmaster.pid 2>/dev/null)
}

cleanup() {
    trap - EXIT
    trap '' INT TERM HUP
    local job
    for job in "${jobs[@]}"; do kill -- -"$job" 2>/dev/null || true; done
    [[ -z ${poller:-} ]] || kill -- -"$poller" 2>/dev/null || true
    if [[ -n $work ]]; then
        stop_servers >/dev/null 2>&1
        [[ -z ${PV_IN_MEMORY:-} ]] || umount -l "$work"
        rm -rf "$work"
    fi
}

clean_up_at_end() {
    trap cleanup EXIT
    trap 'exit 130' INT
    trap 'exit 143' TERM
    trap 'exit 129' HUP
}

# The work folder, with a copy of the source that as_user can read and write.
make_workdir() {
    run_user=$(id -un)
    if ((EUID == 0)); then
        run_user=nobody
        if id postgres >/dev/null 2>&1; then run_user=postgres; fi
    fi
    local base=${TMPDIR:-/tmp}
    # a socket's path may have 107 bytes
    if ((${#base} > 40)) || ! as_user test -w "$base"; then base=/tmp; fi
    clean_up_at_end
    work=$(mktemp -d "$base/parvacuum.XXXXXX")
    [[ -z ${PV_IN_MEMORY:-} ]] || mount -t tmpfs -o mode=755,size=100% tmpfs "$work"
    mkdir "$work/source" "$work/socket"
    tar -C "$source_dir" --exclude=.git --exclude='*.o' --exclude='*.bc' --exclude='*.so' \
        --exclude=./results --exclude=./tmp_check -cf - . | tar -C "$work/source" -xof -
    ((EUID != 0)) || chown -R "$run_user" "$work"
    cd "$work"
}

# Build with the flags of the server and those in cflags, and install the library.
cflags=${PV_COVERAGE:+-O0 --coverage}
build_and_install() {
    local dir=${1:-.} log=$work/build_${1:+test}.log
    local make=(make -s -C "$work/source/$dir" PG_CONFIG="$PG_CONFIG" with_llvm=no PG_CFLAGS="$cflags")
    if ! { run_job as_user "${make[@]}" -j"$(nproc)" all &&
           install_as_needed "${make[@]}" install; } >"$log" 2>&1; then
        cat "$log" >&2
        die "could not build and install ${dir/#./parvacuum}"
    fi
    grep -E 'warning:' "$log" || true
}

install_as_needed() {
    if [[ -w $pkglibdir && -w $sharedir/extension ]]; then "$@"; else as_root "$@"; fi
}

# Initialize a cluster in $work/NAME.
init_cluster() {
    local name=$1 sums=()
    shift
    # PG 18 has checksums by default; the oracle writes pages without them
    [[ $("$bindir/initdb" --help) != *--no-data-checksums* ]] || sums=(--no-data-checksums)
    as_user "$bindir/initdb" -D "$work/$name" -A trust -N "${sums[@]}" "$@" \
        >"$work/$name.initdb" 2>&1 || { cat "$work/$name.initdb" >&2; die "initdb failed"; }
}

# Initialize and start a cluster in $work/NAME with the settings of a file, on a port of
# its own if there are several.
start_server() {
    local name=$1 conf=$2 port=${3:-54321} data=$work/$1
    init_cluster "$name" -U postgres -E UTF8 --no-locale
    { cat "$conf"; echo "unix_socket_directories = '$work/socket'"; } |
        as_user tee -a "$data/postgresql.conf" >/dev/null
    as_user "$bindir/pg_ctl" -D "$data" -l "$work/$name.log" -s -w -o "-p $port" start ||
        { tail -20 "$work/$name.log" >&2; die "the server did not start"; }
    export PGHOST=$work/socket PGPORT=$port PGUSER=postgres PGDATABASE=postgres
}

psql() { as_user "$bindir/psql" -XqAt -v ON_ERROR_STOP=1 "$@"; }

# shellcheck source=scripts/packages.sh
. "$source_dir/scripts/packages.sh"
