"""tcp: echo through a protocol (or what comes next to it) on TCP; 1, 10, 100 KiB; 1 to 1000 connections."""

from __future__ import annotations

from bench.catalogue import Serve
from bench.model import Case
from bench.suites.echo import echo_cases
from bench.suites.options import SERVER_RIVALS, Options


def cases(options: Options) -> list[Case]:
    sizes = options.pick_sizes(1024, 10_240, 102_400)
    connections = options.pick_connections(1, 10, 100, 1000)
    return echo_cases("tcp", options, SERVER_RIVALS, Serve("protocol"), sizes, connections)
