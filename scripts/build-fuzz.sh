#!/usr/bin/env bash
# build-fuzz.sh: builds the programs of tests/fuzz into .build/fuzz/bin: libFuzzer with AddressSanitizer and overflow
# checks, nghttp2's C code with AddressSanitizer too. Works with the stable compiler (RUSTC_BOOTSTRAP), as
# scripts/sanitize.sh does, and needs a C++ compiler for libFuzzer.
set -euo pipefail

root=$(cd "$(dirname "$0")/.." && pwd)
cd "$root/tests/fuzz"
machine=$(uname -m)-unknown-linux-gnu
folder=$root/.build/fuzz
coverage="-Cpasses=sancov-module -Cllvm-args=-sanitizer-coverage-level=4 -Cllvm-args=-sanitizer-coverage-trace-compares"
coverage+=" -Cllvm-args=-sanitizer-coverage-inline-8bit-counters -Cllvm-args=-sanitizer-coverage-pc-table"
export RUSTC_BOOTSTRAP=1 CARGO_TARGET_DIR=$folder/target
export RUSTFLAGS="-Zsanitizer=address -Cunsafe-allow-abi-mismatch=sanitizer -Ccodegen-units=4 --cfg fuzzing $coverage"
export CFLAGS="-fsanitize=address -g1"
cargo build --release --locked --quiet --target "$machine"
mkdir -p "$folder/bin"
for name in src/*.rs; do
    name=$(basename "$name" .rs)
    [ "$name" = bodies ] || cp -f "$folder/target/$machine/release/$name" "$folder/bin/$name"
done
