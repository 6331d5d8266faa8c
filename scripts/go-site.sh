#!/usr/bin/env bash
# go-site.sh: compiles tests/ecosystem/sites/site.go into .build/go-site, if there is a Go compiler and the file has
# changed. Without one it prints which tests are skipped.
set -euo pipefail

root=$(cd "$(dirname "$0")/.." && pwd)
source=$root/tests/ecosystem/sites/site.go
folder=$root/.build/go-site

if ! command -v go >/dev/null; then
    echo "SKIPPED, because there is no go here: tests/ecosystem/test_client_servers.py needs it for Go's net/http"
    exit 0
fi
if [ ! -x "$folder/site" ] || [ "$source" -nt "$folder/site" ]; then
    echo "compiling ${source#"$root"/}"
    mkdir -p "$folder"
    # The benchmark's cache: most of it is the standard library, which both need.
    export GOCACHE=$root/bench/native/target/go-cache GO111MODULE=off CGO_ENABLED=0
    (cd "$folder" && go build -o site "$source")
fi
