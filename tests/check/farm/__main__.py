"""`python -m tests.check.farm`: starts all servers of the farm and its resolver, and serves until stdin ends.

The ready line on stdout is JSON: the ports by name.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import resource
import sys
from pathlib import Path

from tests.check.farm import listeners
from tests.check.farm.connection import Control, Serving
from tests.check.farm.counts import Counts
from tests.check.farm.proxy import Proxy
from tests.check.stub_dns import ADDRESSES, StubResolver


async def serve(options: argparse.Namespace) -> None:
    counts = Counts()
    hosts = options.hosts.split(",")
    dead = listeners.Dead()
    resolver = StubResolver()
    ports = {
        "http": await listeners.listen(Serving("http", counts), hosts),
        "other": await listeners.listen(Serving("other", counts), hosts[:1]),
        "proxy": await listeners.listen(Proxy("proxy", counts), ["127.0.0.1"]),
        "silent": await listeners.listen(listeners.keep_silent, ["127.0.0.1"]),
        "cut_handshake": await listeners.listen(listeners.cut_handshake, ["127.0.0.1"]),
        "closed": dead.closed(),
        "full": await dead.full(),
        "control": await listeners.listen(Control("control", counts), ["127.0.0.1"]),
        "dns": await resolver.listen("127.0.0.1"),
    }
    ports["dns_control"] = await listeners.listen(resolver.control, ["127.0.0.1"])
    if options.certificates:
        ports |= await listeners.listen_tls(lambda name: Serving(name, counts), hosts, options.certificates)
    print(json.dumps(ports), flush=True)
    ended = asyncio.Event()
    # Nobody writes to stdin: it is readable when its other end has gone.
    asyncio.get_running_loop().add_reader(0, ended.set)
    await ended.wait()


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--hosts", default=",".join(ADDRESSES), help="addresses that the HTTP servers listen on")
    parser.add_argument("--certificates", type=Path, help="the folder with the certificates of the TLS ports")
    options = parser.parse_args()
    most = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))
    asyncio.run(serve(options))
    # Connections that still drip are no reason to wait.
    sys.stdout.flush()
    os._exit(0)


if __name__ == "__main__":
    main()
