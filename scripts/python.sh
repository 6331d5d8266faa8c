#!/usr/bin/env bash
# python.sh VERSION: prints the path of a CPython VERSION (3.11 ... 3.15) that has headers, venv and the test package.
# Searches PATH and then pyenv; otherwise unpacks the packages of the Debian suite that has this version to .pythons/ in
# the checkout. Nothing is installed system-wide. If there is none, prints a reason to stderr and exits with status 3.
set -euo pipefail

version=${1:?usage: scripts/python.sh VERSION}
root=$(cd "$(dirname "$0")/.." && pwd)

is_complete() {
    "$1" - "$version" <<'PY' >/dev/null 2>&1
import importlib.util, os, sys, sysconfig
complete = (
    "%d.%d" % sys.version_info[:2] == sys.argv[1]
    and sys.implementation.name == "cpython"
    and os.path.exists(os.path.join(sysconfig.get_path("include"), "Python.h"))
    and importlib.util.find_spec("ensurepip")
    and importlib.util.find_spec("test.test_asyncio")
)
sys.exit(0 if complete else 1)
PY
}

resolve() { "$1" -c 'import os, sys; print(os.path.realpath(sys.executable))'; }

# 1. PATH (every entry: the first may be a system Python without headers, or a shim of another version).
while IFS= read -r candidate; do
    if is_complete "$candidate"; then
        resolve "$candidate"
        exit 0
    fi
done < <(type -ap "python$version" 2>/dev/null | awk '!seen[$0]++')

# 2. pyenv, newest patch release first.
while IFS= read -r candidate; do
    if is_complete "$candidate"; then
        resolve "$candidate"
        exit 0
    fi
done < <(ls -d "${PYENV_ROOT:-$HOME/.pyenv}/versions/$version".*/bin/python 2>/dev/null | sort -rV)

# 3. Debian's packages of the suite that has this version.
. "$root/scripts/debian-suite.sh"
suite=$(suite_of "$version")
unpacked=$root/.pythons/$version/usr/bin/python$version
if [ -e "$root/.pythons/$version/.complete" ] && is_complete "$unpacked"; then
    echo "$unpacked"
    exit 0
fi
if [ -z "$suite" ] || ! command -v apt-get >/dev/null || ! command -v dpkg-deb >/dev/null; then
    echo "no CPython $version with headers and test package found on PATH or in pyenv, and no Debian suite has it" >&2
    exit 3
fi
if "$root/scripts/unpack-debian-python.sh" "$version" "$suite" "$root/.pythons" >&2 && is_complete "$unpacked"; then
    echo "$unpacked"
    exit 0
fi
echo "could not unpack CPython $version from Debian $suite" >&2
exit 3
