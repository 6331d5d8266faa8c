"""Starting processes and resolving names with gevent, measured in the program."""

# mypy: disable-error-code="import-untyped,import-not-found"
# Gevent has no stubs.
from __future__ import annotations

import gevent
import gevent.socket
import gevent.subprocess

from bench.rivals import spawn_options
from bench.rivals.repeating import repeated_blocking
from bench.rivals.report_line import hand_over


def work(host: str, count: int) -> int:
    for _ in range(count):
        if host:
            gevent.socket.getaddrinfo(host, 80)
        elif gevent.subprocess.Popen(["/bin/true"]).wait() != 0:
            raise SystemExit("/bin/true failed")
    return count


if __name__ == "__main__":
    asked = spawn_options.parser().parse_args()
    ballast = spawn_options.ballast(asked.parent_mib)
    work(asked.host, 2)
    hand_over(repeated_blocking(lambda: work(asked.host, asked.count), asked.seconds, gevent.sleep))
