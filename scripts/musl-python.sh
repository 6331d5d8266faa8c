#!/usr/bin/env bash
# musl-python.sh VERSION SUITE MACHINE DIR: builds CPython VERSION for musl in DIR/VERSION-MACHINE-musl, from the
# sources in Debian SUITE and with Debian's musl. MACHINE is x86_64 or aarch64. Debian has no such interpreter.
# Compiling it takes two minutes. It has no modules that need other libraries (ssl, zlib, ctypes...), and is used only
# to test wheels.
set -euo pipefail

version=${1:?usage: scripts/musl-python.sh VERSION SUITE MACHINE DIR}
suite=$2 machine=$3
root=$(cd "$(dirname "$0")/.." && pwd)
mkdir -p "$4"
dir=$(cd "$4" && pwd)
target=$dir/$version-$machine-musl
[ ! -e "$target/.complete" ] || exit 0
if [ "$version" = 3.11 ]; then
    echo "CPython 3.11, cross-compiled, takes musl for glibc in the names of extension modules" >&2
    exit 3
fi
case $machine in
    x86_64) architecture=amd64 package=gcc compiler=gcc ;;
    # Without this option, gcc's functions for atomic operations call glibc to detect the processor's features.
    aarch64)
        architecture=arm64 package=gcc-aarch64-linux-gnu
        compiler="aarch64-linux-gnu-gcc -mno-outline-atomics"
        ;;
    *) echo "no musl for $machine here" >&2 && exit 3 ;;
esac
if ! command -v "${compiler%% *}" >/dev/null; then
    [ "$(id -u)" = 0 ] || { echo "$package is missing and only root can install it" >&2 && exit 3; }
    apt-get update -q >/dev/null
    DEBIAN_FRONTEND=noninteractive apt-get install -y -q --no-install-recommends "$package" >/dev/null
fi

. "$root/scripts/debian-suite.sh"
rm -rf "$target" && mkdir -p "$target/source" "$target/sysroot"
# The build needs an interpreter of the same patch release, and this system might have none.
host=$(dpkg --print-architecture)
[ -e "$dir/$version-$host/.complete" ] || "$root/scripts/unpack-debian-python.sh" "$version" "$suite" "$dir" "$host"
build_python=$dir/$version-$host/usr/bin/python$version
use_suite "$suite" "$architecture" "$dir"
cd "$target/source"
apt-get "${options[@]}" download -q musl musl-dev >/dev/null
for package in ./*.deb; do
    dpkg-deb -x "$package" "$target/sysroot"
done
if ! apt-get "${options[@]}" source --download-only -q "python$version" >/dev/null; then
    echo "the sources of python$version cannot be downloaded from Debian $suite" >&2
    exit 3
fi
tar -xf python*.orig.tar.xz --strip-components=1

# A compiler with the headers and libraries of musl instead of glibc. The loader is the unpacked C library itself.
# --print-multiarch prints nothing: gcc would print its own triplet, which configure compares with musl's.
libc=$(find "$target/sysroot" -name libc.so -type f)
sed "s#/usr/#$target/sysroot/usr/#g; s#-dynamic-linker [^ ]*#-dynamic-linker $libc#" \
    "$target/sysroot/usr/lib/$machine-linux-musl/musl-gcc.specs" >"$target/gcc.specs"
cat >"$target/cc" <<END
#!/bin/sh
[ "\$1" != --print-multiarch ] || exit 0
exec $compiler "\$@" -specs $target/gcc.specs
END
chmod +x "$target/cc"

export ac_cv_file__dev_ptmx=yes ac_cv_file__dev_ptc=no ac_cv_buggy_getaddrinfo=no
configure=(
    CC="$target/cc" --build="$(uname -m)-linux-gnu" --host="$machine-linux-musl" --prefix="$target"
    --with-build-python="$build_python" --with-ensurepip=no --disable-test-modules
    PKG_CONFIG=false OPT="-O1 -DNDEBUG"  # the libraries of this system need glibc
)
if ! { ./configure "${configure[@]}" && make -j2 && make install; } >"$target/log" 2>&1 </dev/null; then
    tail -5 "$target/log" >&2
    exit 3
fi
cd "$dir"
rm -rf "$target/source"
touch "$target/.complete"
