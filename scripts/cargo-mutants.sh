#!/usr/bin/env bash
# cargo-mutants.sh [ARGS...]: runs the engine's tests on every mutation of the engine that cargo-mutants makes
# (https://mutants.rs). The tool is built once, in a pinned version, in .build/tools; nothing is installed elsewhere.
set -euo pipefail

version=27.1.0
root=$(cd "$(dirname "$0")/.." && pwd)
tools=$root/.build/tools
cd "$root"

if [ "$("$tools/bin/cargo-mutants" --version 2>/dev/null || true)" != "cargo-mutants $version" ]; then
    echo "building cargo-mutants $version"
    CARGO_TARGET_DIR=$root/.build/cargo-mutants cargo install --quiet --locked --root "$tools" --version "=$version" cargo-mutants
    rm -rf "$root/.build/cargo-mutants"
fi
mkdir -p .build/mutants
# In a copy of the sources. A run that takes several times as long as the tests without a mutant is killed.
exec env PATH="$tools/bin:$PATH" cargo mutants --package oneloop-engine --output .build/mutants --no-shuffle \
    --timeout-multiplier 4 --minimum-test-timeout 20 "$@"
