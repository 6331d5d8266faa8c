#!/usr/bin/env bash
# cargo-mutants.sh [ARGS...]: every mutation of the engine that cargo-mutants (https://mutants.rs) knows, each against the
# engine's own tests. The tool is built once, in a pinned version, under .build/tools; nothing is installed elsewhere.
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
# In a copy of its own; what hangs is killed after a few times the length of the tests without a mutant.
exec env PATH="$tools/bin:$PATH" cargo mutants --package oneloop-engine --output .build/mutants --no-shuffle \
    --timeout-multiplier 4 --minimum-test-timeout 20 "$@"
