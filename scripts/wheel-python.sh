#!/usr/bin/env bash
# wheel-python.sh TARGET VERSION: prints the command that runs CPython VERSION for TARGET (x86_64-gnu, aarch64-gnu,
# x86_64-musl, aarch64-musl), one word per line. For another processor it uses QEMU's user mode emulation (the Debian
# package qemu-user-static, which is installed if it is missing and the user is root). Interpreters are kept in
# .pythons/ in the checkout. If there is none, prints a reason to stderr and exits with status 3.
set -euo pipefail

target=${1:?usage: scripts/wheel-python.sh TARGET VERSION}
version=${2:?usage: scripts/wheel-python.sh TARGET VERSION}
root=$(cd "$(dirname "$0")/.." && pwd)
. "$root/scripts/debian-suite.sh"
machine=${target%-*}
pythons=$root/.pythons

if [ "$target" = "$(uname -m)-gnu" ]; then
    exec "$root/scripts/python.sh" "$version"
fi
suite=$(suite_of "$version")
if [ -z "$suite" ]; then
    echo "no Debian suite has CPython $version" >&2
    exit 3
fi
if [ "$machine" != "$(uname -m)" ]; then
    emulator=qemu-$machine-static
    if ! command -v "$emulator" >/dev/null && [ "$(id -u)" = 0 ]; then
        apt-get update -q >/dev/null && apt-get install -y -q --no-install-recommends qemu-user-static >/dev/null
    fi
    command -v "$emulator" || { echo "$emulator is missing and only root can install it" >&2 && exit 3; }
fi
case $target in
    *-musl)
        "$root/scripts/musl-python.sh" "$version" "$suite" "$machine" "$pythons" >&2
        echo "$pythons/$version-$machine-musl/bin/python$version"
        ;;
    aarch64-gnu)
        [ -e "$pythons/$version-arm64/.complete" ] ||
            "$root/scripts/unpack-debian-python.sh" "$version" "$suite" "$pythons" arm64 >&2
        echo "$pythons/$version-arm64/usr/bin/python$version"
        ;;
    *) echo "no interpreter for $target on $(uname -m)" >&2 && exit 3 ;;
esac
