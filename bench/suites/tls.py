"""tls: the echo through each rival's TLS; the generator and the floor speak rustls, the rivals mostly OpenSSL."""

from __future__ import annotations

from bench.catalogue import Serve
from bench.model import Case
from bench.suites.echo import echo_cases
from bench.suites.options import SERVER_RIVALS, Options


def cases(options: Options) -> list[Case]:
    sizes = options.pick_sizes(1024, 10_240, 102_400, core=(1024, 102_400))
    connections = options.pick_connections(1, 10, 100, 1000)
    serve = Serve("protocol", tls="yes")
    remark = "TLS 1.3; the floor is rustls on epoll"
    rivals = [name for name in SERVER_RIVALS if name != "floor-uring"]
    return echo_cases("tls", options, rivals, serve, sizes, connections, remark=remark)
