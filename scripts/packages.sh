# shellcheck shell=bash
# Find a server to build for, and install missing packages on Debian.  Sourced after
# lib.sh.  A given PG_CONFIG is used without a search.

PGMAJOR=15      # installed where there is no server

# Set PG_CONFIG to a server that an extension can be built for.
find_server() {
    local candidate
    if [[ -n ${PG_CONFIG:-} ]]; then
        PG_CONFIG=$(command -v "$PG_CONFIG") || die "PG_CONFIG: no such program"
        complete_server "$PG_CONFIG" || die "$PG_CONFIG: its server or its development files are missing"
        return 0
    fi
    for candidate in $(dpkg -L postgresql-server-dev-$PGMAJOR 2>/dev/null | grep '/bin/pg_config$') \
        $(command -v pg_config); do
        if complete_server "$candidate" &&
            [[ $("$candidate" --version) == "PostgreSQL $PGMAJOR."* ]]; then
            PG_CONFIG=$candidate
            return 0
        fi
    done
    return 1
}

# PGXS alone is not enough: Debian has it in the package of the client.
complete_server() {
    [[ -x $("$1" --bindir)/postgres && -e $("$1" --pgxs) &&
        -e $("$1" --includedir-server)/postgres.h ]]
}

missing_compiler() {
    command -v gcc >/dev/null && [[ -e /usr/include/stdio.h ]] || echo gcc libc6-dev
    command -v make >/dev/null || echo make
}

# Needed by PostgreSQL's own TAP tests, whose configure checks for it; and for test/mutants.
missing_to_test() {
    command -v prove >/dev/null || echo perl
    perl -MIPC::Run -e 1 2>/dev/null || echo libipc-run-perl
    command -v patch >/dev/null || echo patch
}

# Needed by the tests of monitoring/ and scripts/report.
missing_to_monitor() {
    command -v prometheus >/dev/null || echo prometheus
    command -v prometheus-postgres-exporter >/dev/null || echo prometheus-postgres-exporter
    command -v pgbadger >/dev/null || echo pgbadger
    command -v chromium-headless-shell >/dev/null || command -v chromium >/dev/null || echo chromium-headless-shell
}

# Needed by scripts/models.
missing_to_model() {
    command -v spin >/dev/null || echo spin
}

# Needed by scripts/check_packaging and scripts/check_archive.
missing_to_check_packaging() {
    command -v git >/dev/null || echo git
    command -v unzip >/dev/null || echo unzip
    command -v rpmbuild >/dev/null || echo rpm
    command -v rpmlint >/dev/null || echo rpmlint
    command -v pgxn >/dev/null || echo pgxnclient
}

# Needed by scripts/analyze.
missing_to_analyze() {
    command -v clang-tidy >/dev/null || command -v clang-tidy-14 >/dev/null || echo clang-tidy
}

# Needed by scripts/package.  The tools that build the package are installed only in a system
# that it makes.
missing_to_package() {
    command -v mmdebstrap >/dev/null || echo mmdebstrap
    command -v git >/dev/null || echo git
    command -v ip >/dev/null || echo iproute2
}

# Needed by scripts/cross.
missing_to_cross() {
    command -v mmdebstrap >/dev/null || echo mmdebstrap
    command -v qemu-aarch64 >/dev/null || echo qemu-user
    command -v aarch64-linux-gnu-gcc >/dev/null || echo gcc-aarch64-linux-gnu
    [[ -e /usr/aarch64-linux-gnu/include/stdio.h ]] || echo libc6-dev-arm64-cross
}

# The packages for what is missing. $1 is demo or check.
missing_packages() {
    missing_compiler
    if ! (find_server); then
        dpkg -s postgresql-$PGMAJOR >/dev/null 2>&1 || echo postgresql-$PGMAJOR
        dpkg -s postgresql-server-dev-$PGMAJOR >/dev/null 2>&1 || echo postgresql-server-dev-$PGMAJOR
    fi
    if [[ $1 == check ]]; then
        missing_to_test
        command -v pg_prove >/dev/null || echo libtap-parser-sourcehandler-pgtap-perl
        find_pgtap >/dev/null || echo postgresql-$PGMAJOR-pgtap
    fi
}

# The folder of the files of pgTAP, which is SQL only, so any server can use them.
find_pgtap() {
    if [[ -n ${PG_CONFIG:-} && -e $("$PG_CONFIG" --sharedir)/extension/pgtap.control ]]; then
        echo "$("$PG_CONFIG" --sharedir)/extension"
    else
        dirname "$(dpkg -L postgresql-$PGMAJOR-pgtap 2>/dev/null | grep '/pgtap.control$')" | grep /
    fi
}

may_be_root() {
    ((EUID == 0)) || sudo -n true 2>/dev/null || { [[ -t 0 ]] && command -v sudo >/dev/null; }
}

may_install() {
    command -v apt-get >/dev/null && [[ $(. /etc/os-release && echo "$ID") == debian ]] && may_be_root
}

# A package that is missing may require newer packages of a server that is installed.  They
# are upgraded only if no such server is running: an upgrade restarts it.  Where may_upgrade is
# "no", as in the demo, they are not upgraded at all.  The simulation shows the old version of
# what is upgraded in brackets.
keep_servers() {
    local upgraded
    upgraded=$("$@" --simulate | sed -n 's/^Inst \(postgresql[^ ]*\) \[.*/\1/p' | xargs)
    [[ -n $upgraded ]] || return 0
    [[ ${may_upgrade:-yes} != no ]] || die "That would upgrade the server that is installed: $upgraded
Upgrade it first, or name another server: PG_CONFIG=..."
    ! pg_lsclusters --no-header 2>/dev/null | grep -q online || die "That would upgrade packages of a running server: $upgraded
Upgrade them first, or name another server: PG_CONFIG=..."
    say "No server is running, so these are upgraded: $upgraded"
}

# PostgreSQL's package would create a cluster and start it on the standard port, and
# others would start their services.  A drop-in file and a policy prevent that during the
# installation.  Parts of the tests that run at once install one after the other.
install_packages() (
    local dropin=/etc/postgresql-common/createcluster.d/parvacuum.conf policy=/usr/sbin/policy-rc.d rc=0
    local apt=(env DEBIAN_FRONTEND=noninteractive apt-get -q -o Dpkg::Use-Pty=0)
    local install=(-y --no-install-recommends --no-upgrade install "$@")
    exec 9</var/lib/dpkg
    flock 9
    say "Installing: $*"
    as_root mkdir -p "${dropin%/*}"
    echo "create_main_cluster = false" | as_root tee "$dropin" >/dev/null
    if [[ -e $policy ]]; then
        policy=
    else
        printf '#!/bin/sh\nexit 101\n' | as_root tee "$policy" >/dev/null
        as_root chmod 755 "$policy"
    fi
    { as_root "${apt[@]}" update && keep_servers "${apt[@]}" "${install[@]}" && as_root "${apt[@]}" "${install[@]}"; } </dev/null >>"${log:-/dev/stdout}" || rc=$?
    as_root rm -f "$dropin" ${policy:+"$policy"}
    as_root rmdir -p --ignore-fail-on-non-empty "${dropin%/*}"
    ((rc == 0)) || die "could not install these packages"
)

# Install the packages that a command prints; if that is not possible, name them and
# stop.
have_packages() {
    local missing
    read -r -a missing <<<"$("$@" | xargs)"
    ((${#missing[@]} > 0)) || return 0
    may_install || die "Missing packages, to be installed as root:
    apt-get install --no-install-recommends ${missing[*]}"
    install_packages "${missing[@]}"
}

# Install all that demo or check needs.
need_for() {
    have_packages missing_packages "$1"
    find_server || die "There is still no PostgreSQL $PGMAJOR to build for; name its pg_config: make $1 PG_CONFIG=..."
    export PG_CONFIG
    bindir=$("$PG_CONFIG" --bindir) pkglibdir=$("$PG_CONFIG" --pkglibdir) sharedir=$("$PG_CONFIG" --sharedir)
    [[ -w $pkglibdir && -w $sharedir/extension ]] || may_be_root ||
        die "root or sudo is needed to install the extension into $pkglibdir"
}
