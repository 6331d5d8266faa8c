"""A network namespace of its own, in which every address of IPv4 and IPv6 leads to this machine.

So a program can be watched that connects to public, private and metadata addresses, and nothing leaves the machine.
Needs unshare (util-linux) and ip (iproute2), and a kernel that lets users make namespaces.
"""

from __future__ import annotations

import functools
import shutil
import subprocess
from collections.abc import Sequence

_SETUP = """
ip link set lo up && ip route add local 0.0.0.0/0 dev lo && ip -6 route add local ::/0 dev lo && exec "$@"
"""


def inside(command: Sequence[str]) -> list[str]:
    """The command that runs a command there."""
    return ["unshare", "--map-root-user", "--net", "sh", "-c", _SETUP, "sh", *command]


@functools.cache
def missing() -> str:
    """Why there can be none here; empty if there can."""
    for program, package in (("unshare", "util-linux"), ("ip", "iproute2")):
        if shutil.which(program) is None:
            return f"needs {program} (Debian package {package})"
    done = subprocess.run(inside(["true"]), capture_output=True, text=True, timeout=20, check=False)
    return f"the kernel makes no network namespace: {done.stderr.strip()}" if done.returncode else ""
