#!/usr/bin/env bash
# system-packages.sh: installs the missing Debian packages whose programs the tests start (PostgreSQL, MariaDB,
# redis-server, zsh, fish, strace, testssl.sh, slowhttptest, chromium, wrk, h2load, curl, ip, systemd-analyze, nginx, Node, Go,
# proxies) or load (libfuse3).
# Without root or apt-get it prints which tests are skipped and why. These tests name the missing component.
set -euo pipefail

root=$(cd "$(dirname "$0")/.." && pwd)
missing=()
tests=()

need() { # need PROGRAM PACKAGE WHAT-USES-IT
    if ! PATH=$PATH:/usr/sbin:/usr/local/sbin command -v "$1" >/dev/null; then
        missing+=("$2")
        tests+=("$3")
    fi
}

need redis-server redis-server "tests/ecosystem/test_redis.py, tests/docs (the recipe for Celery)"
need mariadbd mariadb-server-core "tests/ecosystem/test_green_clients.py"
need rabbitmqctl rabbitmq-server "tests/ecosystem/test_green_clients.py"
need mosquitto mosquitto "tests/ecosystem/test_green_clients.py"
need sshd openssh-server "tests/ecosystem/test_green_clients.py"
need strace strace "tests/loop/test_system_calls.py"
need testssl testssl.sh "tests/ecosystem/test_testssl.py"
need slowhttptest slowhttptest "tests/ecosystem/test_slowhttptest.py"
need chromium chromium "tests/ecosystem/test_browser.py"
need wrk wrk "tests/ecosystem/test_load.py"
need h2load nghttp2-client "tests/ecosystem/test_load.py"
need curl curl "tests/check/test_against_curl.py"
need ip iproute2 "tests/check/test_blocked.py"
need systemd-analyze systemd "tests/docs (the recipe for systemd)"
need zsh zsh "tests/cli/test_completion.py"
need fish fish "tests/cli/test_completion.py"
need openssl openssl "tests/ecosystem (certificates)"
need nginx nginx-light "tests/ecosystem/test_client_servers.py"
need node nodejs "tests/ecosystem/test_client_servers.py"
need go golang-go "tests/ecosystem/test_client_servers.py"
need tinyproxy tinyproxy-bin "tests/ecosystem/test_client_proxies.py"
need squid squid "tests/ecosystem/test_client_proxies.py"
need microsocks microsocks "tests/ecosystem/test_client_proxies.py"
# The tests load the library. The name of its package differs between releases (libfuse3-3, libfuse3-4).
need fusermount3 fuse3 "tests/file/test_slow_filesystem.py"
if ! ls /usr/lib/postgresql/*/bin/initdb >/dev/null 2>&1 && ! command -v initdb >/dev/null; then
    missing+=(postgresql)
    tests+=("tests/ecosystem/test_postgres.py")
fi

[ ${#missing[@]} -gt 0 ] || exit 0
if ! command -v apt-get >/dev/null; then
    reason="there is no apt-get here"
elif [ "$(id -u)" != 0 ]; then
    reason="only root can install packages"
else
    echo "installing ${missing[*]}"
    # Services must not start, and no cluster must be created: the tests create their own.
    policy=/usr/sbin/policy-rc.d
    made_policy=
    if [ ! -e $policy ]; then
        printf '#!/bin/sh\nexit 101\n' >$policy
        chmod +x $policy
        made_policy=yes
    fi
    log=$root/.build/system-packages.log
    mkdir -p "$root/.build"
    status=0
    { apt-get update -q && DEBIAN_FRONTEND=noninteractive apt-get install -y -q --no-install-recommends "${missing[@]}"; } \
        >"$log" 2>&1 </dev/null || status=$?
    [ -z "$made_policy" ] || rm -f $policy
    if [ $status = 0 ]; then
        exit 0
    fi
    tail -5 "$log" >&2
    reason="apt-get failed with status $status, see $log"
fi
echo "SKIPPED, because $reason:"
for i in "${!missing[@]}"; do
    echo "  ${tests[$i]} needs ${missing[$i]}"
done
