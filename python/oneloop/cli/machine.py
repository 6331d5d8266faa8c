"""What `oneloop doctor` finds out about the machine: kernel, file engine, limits, Python, TLS, stats sockets."""

from __future__ import annotations

import os
import platform
import resource
import stat
import sys
import sysconfig
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import oneloop
from oneloop import _native, cgroup, stats_socket
from oneloop.http.options import Options

if TYPE_CHECKING:
    from collections.abc import Iterator

__all__ = ["Finding", "findings"]

PROC = Path("/proc")
RING_SINCE = (5, 12)
"""The first kernel whose io_uring has all that the file engine needs."""
_FEW_DESCRIPTORS = 4096
_FILES = "oneloop docs choose-a-file-engine"


class Finding(NamedTuple):
    """One line of the report."""

    section: str
    name: str
    value: str
    status: str = "ok"
    """`ok`; `advice`: it works, and can work better; `problem`: something of oneloop does not work."""
    advice: str = ""
    """What to do. Also with `ok`: what is worth knowing."""


def findings() -> Iterator[Finding]:
    """Yield what is found about the machine."""
    yield from _python()
    yield _kernel()
    yield _file_engine()
    yield from _limits()
    yield from _tls()
    yield _stats_sockets()


def _python() -> Iterator[Finding]:
    build = (sysconfig.get_config_var("Py_DEBUG") and "debug build") or "release build"
    slow = "A debug build of Python is several times slower." if "debug" in build else ""
    yield Finding("Python", "oneloop", oneloop.__version__)
    yield Finding(
        "Python",
        platform.python_implementation(),
        f"{platform.python_version()}, {build}, {platform.libc_ver()[0] or 'musl'} on {platform.machine()}",
        "advice" if slow else "ok",
        slow,
    )
    yield Finding("Python", "interpreter", sys.executable or "unknown")


def _kernel() -> Finding:
    release = platform.release()
    if _version(release) >= RING_SINCE:
        return Finding("kernel", "Linux", release)
    needed = ".".join(map(str, RING_SINCE))
    return Finding("kernel", "Linux", release, "advice", f"From {needed} on, files use io_uring. Timers need 5.11 for"
                   " a precision better than a millisecond.")  # fmt: skip


def _version(release: str) -> tuple[int, int]:
    numbers = [int(part) for part in release.replace("-", ".").split(".")[:2] if part.isdecimal()]
    return (numbers[0], numbers[1]) if len(numbers) == 2 else (0, 0)


def _file_engine() -> Finding:
    loop = oneloop.new_event_loop()
    try:
        info = loop.run_until_complete(_engine())
    except (OSError, ValueError) as error:
        # ONELOOP_FILES names an engine that is forbidden here, or none.
        return Finding("kernel", "file engine", f"none: {error}", "problem", f"Unset ONELOOP_FILES. See {_FILES}.")
    finally:
        loop.close()
    if info.engine == "ring":
        return Finding("kernel", "file engine", "ring (io_uring)")
    if "ring" not in info.refused:
        return Finding("kernel", "file engine", f"{info.engine}, because ONELOOP_FILES names it")
    reasons = "; ".join(f"{name}: {reason}" for name, reason in info.refused.items())
    who = _who_forbids(info.refused["ring"])
    return Finding("kernel", "file engine", f"{info.engine} ({reasons})", "advice", f"{who} See {_FILES}.")


async def _engine() -> oneloop.files.EngineInfo:
    return oneloop.files.engine_info()


def _who_forbids(reason: str) -> str:
    """Say who forbids io_uring, and what to do about it."""
    disabled = _read(PROC / "sys/kernel/io_uring_disabled")
    if disabled == "2":
        return "The sysctl kernel.io_uring_disabled is 2. An administrator can set it to 0."
    if disabled == "1" and os.geteuid() != 0:
        group = _read(PROC / "sys/kernel/io_uring_group")
        return (
            "The sysctl kernel.io_uring_disabled is 1: io_uring is only for members of the group"
            f" kernel.io_uring_group ({group}). An administrator can add this user to it, or set the first one to 0."
        )
    if _version(platform.release()) < RING_SINCE:
        return f"This kernel is older than {'.'.join(map(str, RING_SINCE))}."
    if _has_filter():
        return (
            "A seccomp filter forbids io_uring: the default of Docker, containerd and Podman. To allow it, see"
            " oneloop docs io-uring-in-docker."
        )
    if "not implemented" in reason:
        return "This kernel was built without io_uring (CONFIG_IO_URING)."
    return "A security module may forbid io_uring: ask the administrator."


def _has_filter() -> bool:
    """Whether a seccomp filter holds for this process: proc_pid_status(5)."""
    return "\nSeccomp:\t2" in _read(PROC / "self/status")


def _limits() -> Iterator[Finding]:
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    value = f"{_number(soft)}, up to {_number(hard)}"
    if soft != resource.RLIM_INFINITY and soft < _FEW_DESCRIPTORS:
        advice = (
            "Each connection needs one. Write `ulimit -n 65536` in a shell, or LimitNOFILE=65536 in a systemd unit."
        )
        yield Finding("limits", "open files", value, "advice", advice)
    else:
        yield Finding("limits", "open files", value)
    yield _backlog()
    cpus, limit = len(os.sched_getaffinity(0)), cgroup.cpu_limit()
    count = cgroup.usable_cpus()
    value = f"{cpus}" if limit is None else f"{cpus}, and the control group allows the time of {limit:g}"
    yield Finding("limits", "CPUs", value, "ok", f"oneloop serve --workers auto starts {count}.")
    memory = cgroup.memory_limit()
    if memory is None:
        yield Finding("limits", "memory", "no limit of a control group")
    else:
        share = (memory * 8 // 10 // count) >> 20
        advice = f"With {count} workers, oneloop serve --limit-memory {share}m replaces one before the kernel kills it."
        yield Finding("limits", "memory", f"{memory >> 20} MiB for the control group", "ok", advice)


def _backlog() -> Finding:
    text = _read(PROC / "sys/net/core/somaxconn")
    wanted = Options().backlog
    if text.isdecimal() and int(text) < wanted:
        advice = f"oneloop serve asks for {wanted}. An administrator can raise the sysctl net.core.somaxconn."
        return Finding("limits", "somaxconn", text, "advice", advice)
    return Finding("limits", "somaxconn", text or "unknown")


def _number(limit: int) -> str:
    return "no limit" if limit == resource.RLIM_INFINITY else str(limit)


def _tls() -> Iterator[Finding]:
    try:
        import ssl
    except ImportError:
        advice = "This Python was built without OpenSSL: https, wss and TLS contexts do not work. Install another one."
        yield Finding("TLS", "module ssl", "missing", "problem", advice)
        return
    yield Finding("TLS", "OpenSSL", ssl.OPENSSL_VERSION)
    has_rustls = hasattr(_native, "TlsContext")
    yield Finding("TLS", "rustls", "built in" if has_rustls else "missing", "ok" if has_rustls else "problem")
    paths = ssl.get_default_verify_paths()
    places = [place for place in (paths.cafile, paths.capath) if place]
    if any(Path(place).is_file() or _has_files(place) for place in places):
        yield Finding("TLS", "authorities", ", ".join(places))
    else:
        advice = (
            "Certificates of servers cannot be checked: install the package ca-certificates of the system, or set"
            " SSL_CERT_FILE, for example to the file that `python -m certifi` names."
        )
        yield Finding("TLS", "authorities", f"none in {paths.openssl_cafile}", "problem", advice)


def _has_files(place: str) -> bool:
    try:
        return any(Path(place).iterdir())
    except OSError:
        return False


def _stats_sockets() -> Finding:
    """Whether the folder for stats sockets can be used. It is not created."""
    folder = Path(stats_socket.folder())
    try:
        found = folder.lstat()
    except FileNotFoundError:
        is_usable = os.access(folder.parent, os.W_OK | os.X_OK)
        if is_usable:
            return Finding("stats sockets", "folder", f"{folder}, which does not exist yet")
        advice = (
            f"{folder.parent} cannot be written. Set XDG_RUNTIME_DIR or TMPDIR, or name a path: --stats-socket=PATH."
        )
        return Finding("stats sockets", "folder", str(folder), "problem", advice)
    except OSError as error:
        return Finding("stats sockets", "folder", str(folder), "problem", f"{error.strerror}. Name a path:"
                       " --stats-socket=PATH.")  # fmt: skip
    if stat.S_ISDIR(found.st_mode) and found.st_uid == os.geteuid() and not found.st_mode & 0o077:
        return Finding("stats sockets", "folder", str(folder))
    advice = "It is not a directory of this user with mode 700. Remove it, or name a path: --stats-socket=PATH."
    return Finding("stats sockets", "folder", str(folder), "problem", advice)


def _read(path: Path) -> str:
    """The content of a file of the kernel; nothing if this kernel does not have it or it may not be read."""
    try:
        return path.read_text(encoding="utf-8", errors="replace").strip()
    except OSError:
        return ""
