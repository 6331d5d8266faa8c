#!/usr/bin/env bash
# ordinary-user.sh COMMAND...: runs a command as the user `nobody`, in a clone of this checkout whose path has a space,
# with 1,024 descriptors: what a newcomer has. Needs root, to become that user; otherwise prints why it does nothing.
#
# Home folders such as /root are closed to other users, and the tools may be there. In a mount namespace of its own the
# command sees only the tools in it: pyenv's interpreters and the Rust toolchain.
set -euo pipefail

root=$(cd "$(dirname "$0")/.." && pwd)
if [ "$(id -u)" != 0 ]; then
    echo "LEFT OUT: only root can become another user, and the checks run as an ordinary user already"
    exit 0
fi
if ! unshare --mount true 2>/dev/null || ! command -v setpriv >/dev/null; then
    echo "LEFT OUT: a mount namespace (unshare --mount) or setpriv is not available here"
    exit 0
fi

place=$(mktemp -d "${TMPDIR:-/tmp}/ordinary user.XXXX")
trap 'rm -rf "$place"' EXIT
chmod 755 "$place"
mkdir "$place/home"
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
    export HOME="$PLACE/home" CARGO_HOME="$PLACE/home/.cargo" TMPDIR=/tmp
    exec setpriv --reuid nobody --regid nogroup --clear-groups --inh-caps=-all --bounding-set=-all "$@"
' ordinary-user "$@"
