#!/usr/bin/env bash
# debian-suite.sh, to be sourced. `suite_of VERSION` prints the Debian suite that has CPython VERSION, or nothing.
# `use_suite SUITE ARCHITECTURE DIR` sets `options`, with which apt-get uses packages of that suite and architecture in
# a separate package database under DIR; `apt` is its folder. The system's database is not changed. The mirror is the
# one that the system already uses.

suite_of() {
    case $1 in
        3.11) echo bookworm ;;
        3.13) echo trixie ;;
        3.14 | 3.15) echo "${ONELOOP_DEBIAN_SUITE:-forky}" ;;
    esac
}

use_suite() {
    local suite=$1 architecture=$2 mirror keys=/usr/share/keyrings/debian-archive-keyring.gpg
    mirror=$(
        { sed -n 's/^URIs: *\([^ ]*\).*/\1/p' /etc/apt/sources.list.d/*.sources
          sed -n 's/^deb  *\(\[[^]]*\] *\)\{0,1\}\([^ ]*\).*/\2/p' /etc/apt/sources.list /etc/apt/sources.list.d/*.list
        } 2>/dev/null | head -1 || true
    )
    if [ -z "$mirror" ]; then
        echo "this system names no Debian mirror" >&2
        return 3
    fi
    apt=$3/.apt-$suite-$architecture
    mkdir -p "$apt/lists/partial" "$apt/cache/archives/partial"
    : >"$apt/status"
    printf '%s [signed-by=%s] %s %s main\n' deb "$keys" "$mirror" "$suite" deb-src "$keys" "$mirror" "$suite" >"$apt/sources.list"
    options=(
        -o "Dir::Etc::sourcelist=$apt/sources.list" -o Dir::Etc::sourceparts=/dev/null
        -o "Dir::State=$apt" -o "Dir::State::lists=$apt/lists" -o "Dir::State::status=$apt/status"
        -o "Dir::Cache=$apt/cache" -o APT::Install-Recommends=false -o APT::Sandbox::User=
        -o "APT::Architecture=$architecture" -o "APT::Architectures=$architecture"
    )
    apt-get "${options[@]}" update -q >/dev/null
}
