#!/usr/bin/env bash
# httptools-tests.sh VERSION: unpacks the source of the httptools release in .venvs/VERSION, with its tests, to
# .build/httptools.
set -euo pipefail

version=${1:?usage: scripts/httptools-tests.sh VERSION}
root=$(cd "$(dirname "$0")/.." && pwd)
wanted=$(sed -n 's/^httptools==//p' "$root/requirements/ecosystem.txt")
target=$root/.build/httptools/httptools-$wanted
[ -d "$target/tests" ] && exit 0

mkdir -p "$root/.build/httptools"
echo "fetching the tests of httptools $wanted"
"$root/.venvs/$version/bin/python" -m pip download -q --disable-pip-version-check --no-input \
    --no-binary httptools --no-deps "httptools==$wanted" -d "$root/.build/httptools"
tar -xzf "$root/.build/httptools/httptools-$wanted.tar.gz" -C "$root/.build/httptools"
