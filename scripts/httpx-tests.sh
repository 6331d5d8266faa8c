#!/usr/bin/env bash
# httpx-tests.sh VERSION: unpacks the sources of the releases of httpcore and httpx in .venvs/VERSION, with their tests, to
# .build/httpx. The releases of httpcore2 and httpx2 have no tests.
set -euo pipefail

version=${1:?usage: scripts/httpx-tests.sh VERSION}
root=$(cd "$(dirname "$0")/.." && pwd)
folder=$root/.build/httpx
for package in httpcore httpx; do
    wanted=$(sed -n "s/^$package==//p" "$root/requirements/ecosystem.txt")
    [ -d "$folder/$package-$wanted/tests" ] && continue
    mkdir -p "$folder"
    echo "fetching the tests of $package $wanted"
    "$root/.venvs/$version/bin/python" -m pip download -q --disable-pip-version-check --no-input \
        --no-binary "$package" --no-deps "$package==$wanted" -d "$folder"
    tar -xzf "$folder/$package-$wanted.tar.gz" -C "$folder"
done
