#!/usr/bin/env bash
# unpack-debian-python.sh VERSION SUITE DIR: unpacks CPython VERSION with headers, venv and test package from Debian
# SUITE, with the C library that it was built for, to DIR/VERSION. Uses a separate package database; the system's is not
# changed, except that patchelf is installed if it is missing (as root). Uses the mirror that the system already uses.
set -euo pipefail

version=$1 suite=$2
mkdir -p "$3"
dir=$(cd "$3" && pwd)
root=$dir/$version

if ! command -v patchelf >/dev/null; then
    if [ "$(id -u)" != 0 ]; then
        echo "patchelf is missing, and only root can install it" >&2
        exit 3
    fi
    apt-get update -q >/dev/null
    DEBIAN_FRONTEND=noninteractive apt-get install -y -q patchelf >/dev/null
fi

mirror=$(
    { sed -n 's/^URIs: *\([^ ]*\).*/\1/p' /etc/apt/sources.list.d/*.sources
      sed -n 's/^deb  *\(\[[^]]*\] *\)\{0,1\}\([^ ]*\).*/\2/p' /etc/apt/sources.list /etc/apt/sources.list.d/*.list
    } 2>/dev/null | head -1 || true
)
if [ -z "$mirror" ]; then
    echo "no Debian mirror is configured on this system" >&2
    exit 3
fi

apt=$dir/.apt-$suite
mkdir -p "$apt/lists/partial" "$apt/cache/archives/partial"
: >"$apt/status"
echo "deb [signed-by=/usr/share/keyrings/debian-archive-keyring.gpg] $mirror $suite main" >"$apt/sources.list"
options=(
    -o "Dir::Etc::sourcelist=$apt/sources.list" -o Dir::Etc::sourceparts=/dev/null
    -o "Dir::State=$apt" -o "Dir::State::lists=$apt/lists" -o "Dir::State::status=$apt/status"
    -o "Dir::Cache=$apt/cache" -o APT::Install-Recommends=false -o APT::Sandbox::User=
)
apt-get "${options[@]}" update -q >/dev/null

rm -rf "$root" "$apt/cache/archives"
mkdir -p "$root" "$apt/cache/archives/partial"
apt-get "${options[@]}" install -y -q --download-only \
    "python$version-venv" "python$version-dev" "libpython$version-testsuite" >/dev/null
for package in "$apt"/cache/archives/*.deb; do
    dpkg-deb -x "$package" "$root"
done

# The interpreter must find its C library, and ensurepip its wheels, inside the tree.
triplet=$(basename "$(dirname "$(find "$root/usr/lib" -name 'libc.so.6' | head -1)")")
loader=$(find "$root" -name 'ld-linux*.so.*' -type f | head -1)
patchelf --set-interpreter "$loader" --force-rpath \
    --set-rpath "$root/usr/lib/$triplet:$root/lib/$triplet" "$root/usr/bin/python$version"
grep -rl --include='*.py' /usr/share/python-wheels "$root/usr/lib/python$version" |
    xargs -r sed -i "s#/usr/share/python-wheels#$root/usr/share/python-wheels#"
rm -rf "$apt/cache"
touch "$root/.complete"
