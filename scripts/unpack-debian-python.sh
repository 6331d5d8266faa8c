#!/usr/bin/env bash
# unpack-debian-python.sh VERSION SUITE DIR [ARCHITECTURE]: unpacks CPython VERSION with headers, venv and test package from
# Debian SUITE, with the C library that it was built for, to DIR/VERSION, or to DIR/VERSION-ARCHITECTURE if one is given.
# Uses a separate package database; the system's is not changed, except that patchelf is installed if it is missing (as
# root). Uses the mirror that the system already uses.
set -euo pipefail

version=$1 suite=$2 architecture=${4:-$(dpkg --print-architecture)}
mkdir -p "$3"
dir=$(cd "$3" && pwd)
root=$dir/$version${4:+-$4}

if ! command -v patchelf >/dev/null; then
    if [ "$(id -u)" != 0 ]; then
        echo "patchelf is missing, and only root can install it" >&2
        exit 3
    fi
    apt-get update -q >/dev/null
    DEBIAN_FRONTEND=noninteractive apt-get install -y -q patchelf >/dev/null
fi

. "$(dirname "$0")/debian-suite.sh"
use_suite "$suite" "$architecture" "$dir"

rm -rf "$root" "$apt/cache/archives"
mkdir -p "$root" "$apt/cache/archives/partial"
apt-get "${options[@]}" install -y -q --download-only \
    "python$version-venv" "python$version-dev" "libpython$version-testsuite" >/dev/null
for package in "$apt"/cache/archives/*.deb; do
    dpkg-deb -x "$package" "$root"
done

# The interpreter must find its C library, and ensurepip its wheels, inside the tree.
triplet=$(basename "$(dirname "$(find "$root/usr/lib" "$root/lib" -name libc.so.6 2>/dev/null | head -1)")")
loader=$(find "$root" -name 'ld-linux*.so.*' -type f | head -1)
patchelf --set-interpreter "$loader" --force-rpath \
    --set-rpath "$root/usr/lib/$triplet:$root/lib/$triplet" "$root/usr/bin/python$version"
grep -rl --include='*.py' /usr/share/python-wheels "$root/usr/lib/python$version" |
    xargs -r sed -i "s#/usr/share/python-wheels#$root/usr/share/python-wheels#"
rm -rf "$apt/cache"
touch "$root/.complete"
