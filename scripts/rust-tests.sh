#!/usr/bin/env bash
# rust-tests.sh VERSION [CARGO-ARGUMENTS...]: runs the Rust tests of all crates, even if some fail; with arguments
# (-p PACKAGE ... -- FILTER), as cargo prints them for a target that has failed, only these. --no-run compiles them, and
# the native programs of the benchmark, which tests start.
set -uo pipefail

version=${1:?usage: scripts/rust-tests.sh VERSION [CARGO-ARGUMENTS...]}
shift
root=$(cd "$(dirname "$0")/.." && pwd)
cd "$root"
python=$root/.venvs/$version/bin/python
status=0

plain() { cargo test --locked --quiet --no-fail-fast "$@" || status=1; }

# The extension's tests have an interpreter of their own.
native() {
    PYO3_PYTHON=$python CARGO_TARGET_DIR=$root/target/lint \
        LD_LIBRARY_PATH=$("$python" -c 'import sysconfig; print(sysconfig.get_config_var("LIBDIR"))') \
        cargo test --locked --quiet --no-fail-fast "$@" || status=1
}

bench() { cargo test --locked --quiet --no-fail-fast --release --manifest-path bench/native/Cargo.toml "$@" || status=1; }

case "$*" in
"" | --no-run)
    plain "$@" -p oneloop-engine -p oneloop-http1 -p oneloop-http2 -p oneloop-websocket
    native "$@" -p oneloop-native --lib
    bench "$@"
    [ $# = 0 ] || cargo build --locked --quiet --release --manifest-path bench/native/Cargo.toml || status=1
    ;;
"-p oneloop-native "*) native "$@" ;;
"-p "*) plain "$@" ;;
*) bench "$@" ;; # of a workspace with one package cargo does not name it
esac
exit $status
