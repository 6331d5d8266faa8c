"""Measures a tree of processes: CPU time in nanoseconds, memory, threads, context switches.

Uses only Linux's /proc and the processes' CPU clocks; starts no processes. The total CPU time is read with
clock_gettime on each process's clock (man 3 clock_getcpuclockid), which includes threads that have
ended and has nanosecond resolution. The kernel divides it into user and system time by sampling every 10 ms,
so the division is coarse, but the sum is not.
"""

from __future__ import annotations

import os
import time
from dataclasses import dataclass
from pathlib import Path

PAGE_BYTES = os.sysconf("SC_PAGE_SIZE")
TICK_NS = 1_000_000_000 // os.sysconf("SC_CLK_TCK")
# man 2 clock_getres, "Dynamic clocks": a process's clock number is its id, inverted and shifted; 2 is CPUCLOCK_SCHED.
_CPUCLOCK_SCHED = 2


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
    for pid in process_tree(root):
        try:
            fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
            cpu += process_cpu_ns(pid)
        except OSError as error:
            if pid == root:
                raise ProcessLookupError(f"process {root} has ended") from error
            continue
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
        voluntary += more[0]
        involuntary += more[1]
        count += 1
    return Usage(cpu, user, system, rss, vss, threads, voluntary, involuntary, count)


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
