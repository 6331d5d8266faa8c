#!/usr/bin/env bash
# build.sh VERSION: builds the extension for .venvs/VERSION in release mode and installs the package there, editable.
# Each version has its own target folder, so that builds do not invalidate each other. Does nothing if
# neither the crates nor the package's list of files changed since the last build.
set -euo pipefail

version=${1:?usage: scripts/build.sh VERSION}
root=$(cd "$(dirname "$0")/.." && pwd)
cd "$root"
venv=$root/.venvs/$version
stamp=$venv/.built
module=$(ls python/oneloop/_native.cpython-"${version/./}"-*.so 2>/dev/null | head -1 || true)

if [ -e "$stamp" ] && [ -n "$module" ] &&
    [ -z "$(find Cargo.toml Cargo.lock pyproject.toml crates requirements/dev.txt -newer "$stamp" -type f | head -1)" ]; then
    exit 0
fi
echo "building the extension for Python $version"
started=$(mktemp)
trap 'rm -f "$started"' EXIT
VIRTUAL_ENV=$venv PATH=$venv/bin:$PATH PYO3_PYTHON=$venv/bin/python CARGO_TARGET_DIR=$root/target/py$version \
    "$venv/bin/maturin" develop --release --locked --quiet
# The time stamp is that of the start: a file that changed during the build is built the next time.
touch -r "$started" "$stamp"
