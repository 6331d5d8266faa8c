#!/usr/bin/env bash
# build-faults.sh VERSION: builds the extension with the feature `faults` into .build/faults/python, beside links to the
# package's Python files. Used as PYTHONPATH, it replaces the installed package. Never part of a wheel.
set -euo pipefail

version=${1:?usage: scripts/build-faults.sh VERSION}
root=$(cd "$(dirname "$0")/.." && pwd)
cd "$root"
python=$root/.venvs/$version/bin/python
folder=$root/.build/faults
package=$folder/python/oneloop
suffix=$("$python" -c 'import sysconfig; print(sysconfig.get_config_var("EXT_SUFFIX"))')

# What is measured here is what fails, not how fast.
CARGO_PROFILE_RELEASE_LTO=off CARGO_PROFILE_RELEASE_CODEGEN_UNITS=16 CARGO_PROFILE_RELEASE_OPT_LEVEL=1 \
    PYO3_PYTHON=$python CARGO_TARGET_DIR=$folder/target \
    cargo build --release --locked --quiet -p oneloop-native --features faults,pyo3/extension-module
mkdir -p "$package"
find "$package" -maxdepth 1 -type l -delete
find "$root/python/oneloop" -mindepth 1 -maxdepth 1 ! -name '_native*.so' ! -name __pycache__ -exec ln -s -t "$package" {} +
cp "$folder/target/release/lib_native.so" "$package/_native$suffix.new"
mv "$package/_native$suffix.new" "$package/_native$suffix"
