#!/usr/bin/env bash
# gevent-tests.sh VERSION: unpacks gevent's wheel, which has its tests, to .build/gevent/RELEASE. It is not installed, and
# its extension modules are not used: one wheel serves all versions of Python.
set -euo pipefail

version=${1:?usage: scripts/gevent-tests.sh VERSION}
root=$(cd "$(dirname "$0")/.." && pwd)
release=$(sed -n "s/^gevent==//p" "$root/requirements/test.txt")
digest=231058bdb60dbf1074b2e74fbb77c0b0f1b045886bf7203b816692c3663726cc
folder=$root/.build/gevent/$release

[ -d "$folder/gevent/tests" ] && exit 0
mkdir -p "$folder"
echo "fetching the tests of gevent $release"
echo "gevent==$release --hash=sha256:$digest" >"$folder/requirement.txt"
"$root/.venvs/$version/bin/python" -m pip download -q --disable-pip-version-check --no-input --no-deps --require-hashes \
    --only-binary :all: --implementation cp --python-version 3.13 --abi cp313 --platform manylinux_2_28_x86_64 \
    -r "$folder/requirement.txt" -d "$folder"
"$root/.venvs/$version/bin/python" -m zipfile -e "$folder"/gevent-*.whl "$folder"
