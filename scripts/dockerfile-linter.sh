#!/usr/bin/env bash
# dockerfile-linter.sh: installs the linter for the Dockerfile in the documents to .build/dockerfile-utils. Prints nothing
# if there is nothing to do. Without npm it does nothing, and tests/docs skips the test that needs it.
set -euo pipefail

version=0.16.3
root=$(cd "$(dirname "$0")/.." && pwd)
target=$root/.build/dockerfile-utils-$version
[ -d "$target/node_modules/dockerfile-utils" ] && exit 0
command -v npm >/dev/null || exit 0

echo "installing dockerfile-utils $version"
mkdir -p "$target"
npm install --silent --no-audit --no-fund --no-save --prefix "$target" "dockerfile-utils@$version" ||
    echo "dockerfile-utils could not be installed; the test that needs it is skipped"
