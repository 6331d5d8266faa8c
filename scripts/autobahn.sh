#!/usr/bin/env bash
# autobahn.sh: installs the Autobahn test suite for WebSocket in .build/autobahn, with a program `wstest` that runs it.
# It needs Python 2.7. Without it, this script prints a message, and tests/ecosystem/test_autobahn.py is skipped.
set -euo pipefail

root=$(cd "$(dirname "$0")/.." && pwd)
target=$root/.build/autobahn
requirements=$root/requirements/autobahn.txt

find_python() {
    local candidate
    for candidate in "$(command -v python2.7)" "${PYENV_ROOT:-$HOME/.pyenv}"/versions/2.7.*/bin/python2.7; do
        if "$candidate" -m pip --version >/dev/null 2>&1; then
            echo "$candidate"
            return
        fi
    done
    return 1
}

if ! python=$(find_python); then
    rm -f "$target/wstest"
    echo "SKIPPED, because there is no Python 2.7 with pip: tests/ecosystem/test_autobahn.py"
    exit 0
fi
wanted="$python $(cksum <"$requirements")"
[ -x "$target/wstest" ] && [ "$(cat "$target/installed" 2>/dev/null)" = "$wanted" ] && exit 0

rm -rf "$target"
mkdir -p "$target"
echo "installing the Autobahn test suite"
if ! "$python" -m pip install -q --no-input --no-deps --target "$target/site" -r "$requirements" \
    >"$target/log" 2>&1 </dev/null; then
    tail -5 "$target/log" >&2
    echo "SKIPPED, because pip failed, see $target/log: tests/ecosystem/test_autobahn.py"
    exit 0
fi
# addsitedir, unlike PYTHONPATH, reads the .pth files. Without them the package `zope` cannot be imported.
cat >"$target/wstest" <<END
#!$python
import os, site
site.addsitedir(os.path.join(os.path.dirname(os.path.abspath(__file__)), "site"))
from autobahntestsuite.wstest import run
run()
END
chmod +x "$target/wstest"
echo "$wanted" >"$target/installed"
