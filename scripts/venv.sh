#!/usr/bin/env bash
# venv.sh VERSION GROUP...: creates the virtual environment .venvs/VERSION and installs requirements/GROUP.txt of each
# group. A group is installed again only if its file changes. Prints nothing if there is nothing to do.
set -euo pipefail

version=${1:?usage: scripts/venv.sh VERSION GROUP...}
shift
root=$(cd "$(dirname "$0")/.." && pwd)
venv=$root/.venvs/$version

if ! "$venv/bin/python" -c 'import pip' >/dev/null 2>&1; then
    python=$("$root/scripts/python.sh" "$version")
    echo "creating .venvs/$version with $python"
    rm -rf "$venv"
    "$python" -m venv "$venv"
fi
for group in "$@"; do
    file=$root/requirements/$group.txt
    stamp=$venv/.installed-$group
    if [ ! -e "$stamp" ] || ! cmp -s "$file" "$stamp"; then
        echo "installing requirements/$group.txt into .venvs/$version"
        "$venv/bin/python" -m pip install -q --disable-pip-version-check --no-input -r "$file"
        cp "$file" "$stamp"
    fi
done
