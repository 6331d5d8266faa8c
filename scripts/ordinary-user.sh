#!/usr/bin/env bash
# ordinary-user.sh PREPARATION COMMAND: runs two lines of shell in a clone of this checkout, where a newcomer may be worst
# off: as the user `nobody`, in a path with a space, with 1,024 descriptors, a umask of 077 and no terminal; COMMAND with a
# home folder that is read-only, too, with no network, and with IPv6 off. Needs root, to become that user; otherwise prints
# why it does nothing.
#
# Home folders such as /root are closed to other users, and the tools may be there. In a mount namespace of its own the
# commands see only the tools in it: pyenv's interpreters and the Rust toolchain.
set -euo pipefail

: "${2:?usage: scripts/ordinary-user.sh PREPARATION COMMAND}"
root=$(cd "$(dirname "$0")/.." && pwd)
if [ "$(id -u)" != 0 ]; then
    echo "LEFT OUT: only root can become another user, and the checks run as an ordinary user already"
    exit 0
fi
if ! unshare --mount --net true 2>/dev/null || ! command -v setpriv >/dev/null || ! command -v ip >/dev/null; then
    echo "LEFT OUT: namespaces (unshare --mount --net), setpriv or ip are not available here"
    exit 0
fi

place=$(mktemp -d "${TMPDIR:-/tmp}/ordinary user.XXXX")
trap 'rm -rf "$place"' EXIT
chmod 755 "$place"
mkdir "$place/home" "$place/cargo"
git clone -q "$root" "$place/one loop"
# Changes that are not committed yet are tried, too.
git -C "$root" diff HEAD --binary | git -C "$place/one loop" apply --allow-empty
chown -R nobody:nogroup "$place"

export HOME_OF_ROOT=$HOME PLACE=$place
export RUSTUP_HOME=${RUSTUP_HOME:-$HOME/.rustup} PYENV_ROOT=${PYENV_ROOT:-$HOME/.pyenv}
# Not exec: the trap removes the folder.
unshare --mount --propagation private bash -c '
    set -euo pipefail
    stage=$PLACE/tools
    mkdir "$stage"
    mount -t tmpfs -o mode=755 tmpfs "$stage"
    for name in .pyenv .rustup .cargo/bin; do
        [ -d "$HOME_OF_ROOT/$name" ] || continue
        mkdir -p "$stage/$name"
        mount --bind "$HOME_OF_ROOT/$name" "$stage/$name"
    done
    mount --rbind "$stage" "$HOME_OF_ROOT"
    cd "$PLACE/one loop"
    ulimit -n 1024
    umask 077
    export HOME="$PLACE/home" CARGO_HOME="$PLACE/cargo" TMPDIR=/tmp
    as_nobody=(setpriv --reuid nobody --regid nogroup --clear-groups --inh-caps=-all --bounding-set=-all bash -c)
    "${as_nobody[@]}" "$1" </dev/null
    mount --bind "$HOME" "$HOME"
    mount -o remount,bind,ro "$HOME"
    no_ipv6="sysctl -qw net.ipv6.conf.all.disable_ipv6=1 net.ipv6.conf.default.disable_ipv6=1"
    # An address beside the loopback: without any, getaddrinfo(AI_ADDRCONFIG) finds not even localhost. Tests take
    # 192.0.2.1 for an address that no machine has.
    up="ip link set lo up; ip addr add 198.51.100.7/32 dev lo"
    exec unshare --net sh -c "$no_ipv6; $up; exec \"\$@\"" sh "${as_nobody[@]}" "$2" </dev/null
' ordinary-user "$@"
