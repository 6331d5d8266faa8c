"""Measures a tree of processes: CPU time in nanoseconds, memory, threads, context switches.

Uses only Linux's /proc and the processes' CPU clocks; starts no processes. The total CPU time is read with
clock_gettime on each process's clock (man 3 clock_getcpuclockid), which includes threads that have
ended and has nanosecond resolution. The kernel divides it into user and system time by sampling every 10 ms,
so the division is coarse, but the sum is not.
"""

from __future__ import annotations

import contextlib
import os
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

PAGE_BYTES = os.sysconf("SC_PAGE_SIZE")
TICK_NS = 1_000_000_000 // os.sysconf("SC_CLK_TCK")
# man 2 clock_getres, "Dynamic clocks": a process's clock number is its id, inverted and shifted; 2 is CPUCLOCK_SCHED.
_CPUCLOCK_SCHED = 2
#: A tree rests if it uses less CPU time than this in this period.
REST_S = 0.005
RESTING_NS = 100_000
REST_PATIENCE_S = 0.1


@dataclass(frozen=True)
class Usage:
    """A process tree at one moment. Counters are totals since each process started."""

    cpu_ns: int
    user_ticks: int
    system_ticks: int
    rss_bytes: int
    vss_bytes: int
    threads: int
    voluntary_switches: int
    involuntary_switches: int
    processes: int
    by_process: Mapping[int, tuple[int, int]] = field(default_factory=dict)
    """CPU time and voluntary switches of each living process, the root first."""

    @property
    def switches(self) -> int:
        """Context switches of both kinds."""
        return self.voluntary_switches + self.involuntary_switches


def process_tree(root: int) -> list[int]:
    """The process and all its living descendants, root first."""
    found = [root]
    for pid in found:
        for task in _tasks(pid):
            try:
                text = Path(f"/proc/{pid}/task/{task}/children").read_text()
            except OSError:
                continue
            found.extend(int(child) for child in text.split())
    return found


def _tasks(pid: int) -> list[str]:
    try:
        return os.listdir(f"/proc/{pid}/task")
    except OSError:
        return []


def process_cpu_ns(pid: int) -> int:
    """CPU time of all threads of one process, including ended ones. Raises OSError if the process has ended."""
    return time.clock_gettime_ns((~pid << 3) | _CPUCLOCK_SCHED)


def _switches(pid: int) -> tuple[int, int]:
    voluntary = involuntary = 0
    for task in _tasks(pid):
        try:
            text = Path(f"/proc/{pid}/task/{task}/status").read_text()
        except OSError:
            continue
        for line in text.splitlines():
            if line.startswith("voluntary_ctxt_switches"):
                voluntary += int(line.split()[1])
            elif line.startswith("nonvoluntary_ctxt_switches"):
                involuntary += int(line.split()[1])
    return voluntary, involuntary


def read_usage(root: int) -> Usage:
    """The sums for the tree under root. Raises ProcessLookupError if root has ended."""
    cpu = user = system = rss = vss = threads = voluntary = involuntary = count = 0
    by_process = {}
    for pid in process_tree(root):
        try:
            fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
            own_ns = process_cpu_ns(pid)
        except OSError as error:
            if pid == root:
                raise ProcessLookupError(f"process {root} has ended") from error
            continue
        cpu += own_ns
        # Numbered as in man 5 proc_pid_stat, minus the three fields before the closing parenthesis.
        utime, stime, cutime, cstime = (int(text) for text in fields[11:15])
        # For children that have ended and were waited for, only ticks are known.
        cpu += (cutime + cstime) * TICK_NS
        user += utime + cutime
        system += stime + cstime
        threads += int(fields[17])
        vss += int(fields[20])
        rss += int(fields[21]) * PAGE_BYTES
        more = _switches(pid)
        by_process[pid] = own_ns, more[0]
        voluntary += more[0]
        involuntary += more[1]
        count += 1
    return Usage(cpu, user, system, rss, vss, threads, voluntary, involuntary, count, by_process)


def worker_metrics(before: Usage, after: Usage, messages: int) -> dict[str, float]:
    """How the work of a window is divided between a parent, which is the root, and its workers.

    A worker that starts or ends within the window counts as one that did nothing.
    """
    spent = {
        pid: (ns - before.by_process[pid][0], switches - before.by_process[pid][1])
        for pid, (ns, switches) in after.by_process.items()
        if pid in before.by_process
    }
    parent, *workers = spent.values()
    total_ns = sum(ns for ns, _ in workers) or 1
    return {
        "parent_cpu_ns": parent[0] / messages,
        "busiest_share": max((ns for ns, _ in workers), default=0) / total_ns,
        "idlest_share": min((ns for ns, _ in workers), default=0) / total_ns,
        "wakeups": sum(switches for _, switches in workers) / messages,
    }


def tree_cpu_ns(root: int) -> int:
    """CPU time of the tree's living processes; 0 if root has ended."""
    total = 0
    for pid in process_tree(root):
        with contextlib.suppress(OSError):
            total += process_cpu_ns(pid)
    return total


def wants_cpu(root: int) -> bool:
    """Whether a thread of the tree runs or waits for a CPU. On a busy machine a thread that waits uses no CPU time."""
    for pid in process_tree(root):
        for task in _tasks(pid):
            with contextlib.suppress(OSError):
                if Path(f"/proc/{pid}/task/{task}/stat").read_text().rpartition(")")[2].split()[0] == "R":
                    return True
    return False


def usage_at_rest(root: int, rest_s: float = REST_S, patience_s: float = REST_PATIENCE_S) -> Usage:
    """The usage as soon as the tree rests: it has used almost no CPU time for `rest_s`.

    A tree that never rests, because of a timer or a thread of its runtime, is read after `patience_s`. Raises
    ProcessLookupError if root has ended.
    """
    deadline = time.monotonic() + patience_s
    used_ns = tree_cpu_ns(root)
    while time.monotonic() < deadline:
        time.sleep(rest_s)
        now_ns = tree_cpu_ns(root)
        is_quiet = now_ns - used_ns < RESTING_NS * max(1.0, rest_s / REST_S / 4)
        if is_quiet and not wants_cpu(root):
            break
        used_ns = now_ns
    return read_usage(root)


def private_bytes(root: int) -> int:
    """Private memory of the tree (USS): the memory that would be freed if it ended."""
    total = 0
    for pid in process_tree(root):
        try:
            lines = Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines()
        except OSError:
            continue
        total += sum(int(line.split()[1]) * 1024 for line in lines if line.startswith("Private_"))
    return total


def server_metrics(before: Usage, after: Usage, messages: int) -> dict[str, float]:
    """The cost per message in a window, and the tree's size at its end."""
    cpu_ns = (after.cpu_ns - before.cpu_ns) / messages
    user = after.user_ticks - before.user_ticks
    system = after.system_ticks - before.system_ticks
    user_share = user / (user + system) if user + system else 0.5
    return {
        "server_cpu_ns": cpu_ns,
        "server_user_ns": cpu_ns * user_share,
        "server_system_ns": cpu_ns * (1 - user_share),
        "rss_bytes": after.rss_bytes,
        "vss_bytes": after.vss_bytes,
        "threads": after.threads,
        "processes": after.processes,
        "switches": (after.switches - before.switches) / messages,
    }
