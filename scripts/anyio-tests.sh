#!/usr/bin/env bash
# anyio-tests.sh VERSION: unpacks the source of the anyio release in .venvs/VERSION, with its tests, to .build/anyio.
set -euo pipefail

version=${1:?usage: scripts/anyio-tests.sh VERSION}
root=$(cd "$(dirname "$0")/.." && pwd)
wanted=$(sed -n 's/^anyio==//p' "$root/requirements/ecosystem.txt")
target=$root/.build/anyio/anyio-$wanted
[ -d "$target/tests" ] && exit 0

mkdir -p "$root/.build/anyio"
echo "fetching the test suite of anyio $wanted"
"$root/.venvs/$version/bin/python" -m pip download -q --disable-pip-version-check --no-input \
    --no-binary anyio --no-deps "anyio==$wanted" -d "$root/.build/anyio"
tar -xzf "$root/.build/anyio/anyio-$wanted.tar.gz" -C "$root/.build/anyio"
