#!/usr/bin/env bash
# h2spec.sh: builds h2spec, the conformance tests of HTTP/2, in .build/h2spec if there is a Go compiler. Without one it
# prints which tests are skipped.
set -euo pipefail

# The newest version that Go's modules have.
version=v2.2.1
folder=$(cd "$(dirname "$0")/.." && pwd)/.build/h2spec

if ! command -v go >/dev/null; then
    echo "SKIPPED, because there is no go here: tests/http/test_h2spec.py needs it for h2spec"
    exit 0
fi
[ -x "$folder/h2spec" ] && [ "$(cat "$folder/version")" = "$version" ] && exit 0
echo "compiling h2spec $version"
mkdir -p "$folder"
GOBIN=$folder CGO_ENABLED=0 go install "github.com/summerwind/h2spec/cmd/h2spec@$version+incompatible"
echo "$version" >"$folder/version"
