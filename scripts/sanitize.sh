#!/usr/bin/env bash
# sanitize.sh address|thread VERSION [PYTEST-ARGS...]: runs the engine's tests under AddressSanitizer or
# ThreadSanitizer, and with "address" also tests of the extension, with the sanitizer's runtime preloaded into Python.
# Works with the stable compiler, whose sanitizers are the same as those of the nightly compiler (RUSTC_BOOTSTRAP). The
# standard library is not instrumented; that would need -Zbuild-std and the rust-src component. nghttp2's C code is, too.
# Leaks are reported for the tests in Rust; not for the extension, because CPython keeps much memory until it exits: there,
# tests/stress and the tests named "leaks" count objects.
set -euo pipefail

kind=${1:?usage: scripts/sanitize.sh address|thread VERSION [PYTEST-ARGS...]}
version=${2:?usage: scripts/sanitize.sh address|thread VERSION [PYTEST-ARGS...]}
shift 2
root=$(cd "$(dirname "$0")/.." && pwd)
cd "$root"
python=$root/.venvs/$version/bin/python
machine=$(uname -m)-unknown-linux-gnu
runtime=$(rustc --print target-libdir --target "$machine")/librustc-stable_rt.${kind:0:1}san.a
folder=$root/.build/sanitize-$kind
if [ ! -e "$runtime" ]; then
    echo "SKIPPED: this compiler has no ${kind:0:1}san runtime ($runtime)"
    exit 0
fi

# A sanitizer keeps freed memory for a while: tests do not judge resident memory then.
export RUSTC_BOOTSTRAP=1 CARGO_TARGET_DIR=$folder ONELOOP_SANITIZED=1
export RUSTFLAGS="-Zsanitizer=$kind -Cunsafe-allow-abi-mismatch=sanitizer -Cdebuginfo=line-tables-only"
# With --target, build scripts and macros are not instrumented.
cargo=(--locked --quiet --target "$machine")
if [ "$kind" = thread ]; then
    # The test harness uses a channel of the standard library, which is not instrumented. With one test at a time it
    # uses none.
    export TSAN_OPTIONS="suppressions=$root/scripts/tsan.txt halt_on_error=1"
    RUST_TEST_THREADS=1 cargo test "${cargo[@]}" -p oneloop-engine --lib --tests
    exit 0
fi
export CFLAGS="-fsanitize=address -g1"
# The engine leaks on purpose what the kernel may still write to (S1).
ASAN_OPTIONS=detect_leaks=0:detect_stack_use_after_return=1:strict_string_checks=1 cargo test "${cargo[@]}" -p oneloop-engine --lib --tests
ASAN_OPTIONS=detect_leaks=1:detect_stack_use_after_return=1:strict_string_checks=1 \
    cargo test "${cargo[@]}" -p oneloop-http1 -p oneloop-http2 -p oneloop-websocket --lib

PYO3_PYTHON=$python cargo build "${cargo[@]}" -p oneloop-native --features pyo3/extension-module
# The extension uses the runtime of the process that loads it. Python is built without one, so the runtime is preloaded.
shared=$folder/preloaded.so  # a name that the runtime does not take for another runtime
if [ ! -e "$shared" ] || [ "$runtime" -nt "$shared" ]; then
    # As a shared library. The object file that initializes it before everything else is for programs only.
    objects=$(mktemp -d)
    (cd "$objects" && ar x "$runtime" && rm -f ./*preinit* && "${CC:-cc}" -shared -o "$shared" ./*.o -lpthread -ldl -lm -lrt)
    rm -rf "$objects"
fi
# A copy of the package, so that the extension in the checkout is not replaced.
rm -rf "$folder/python"
cp -r python "$folder/python"
rm -f "$folder"/python/oneloop/_native*.so
cp "$folder/$machine/debug/lib_native.so" \
    "$folder/python/oneloop/_native$("$python" -c 'import sysconfig; print(sysconfig.get_config_var("EXT_SUFFIX"))')"
tests=("$@")
if [ ${#tests[@]} -eq 0 ]; then
    tests=(tests/loop tests/transport tests/file tests/aio tests/property tests/tls tests/green tests/http
        -k "not interpreter_exit and not system_calls")
fi
# PYTHONMALLOC: each object is a separate allocation, so that a use after free is detected.
exec env -u RUSTFLAGS LD_PRELOAD="$shared" PYTHONPATH="$folder/python" PYTHONMALLOC=malloc \
    ASAN_OPTIONS=detect_leaks=0:abort_on_error=1:allocator_may_return_null=1:handle_segv=1 \
    ONELOOP_TEST_LIMIT_S=180 ONELOOP_TEST_ENGINES=ring "$python" -m pytest -q -x "${tests[@]}"
