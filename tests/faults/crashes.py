"""What a disk may have after a crash: ALICE (Pillai and others, OSDI 2014).

The record of a disk is cut after each operation. Of what no fsync has confirmed until then, any part may be on the
disk: each write of data, wholly or its first half, each change of names. A change of names happens at once.
"""

from __future__ import annotations

import itertools
import random
from collections.abc import Iterator
from dataclasses import dataclass

from tests.faults.disk import ROOT, Mark, Names, Operation, Sync, Write

MOST_TOGETHER = 8
"""Of so many unconfirmed operations all subsets are tried; of more of them the extreme ones, and some at random."""
AT_RANDOM = 100


@dataclass(frozen=True)
class State:
    """A disk after a crash."""

    files: dict[str, bytes]
    """By name; those of subdirectories as `folder/name`."""
    marks: frozenset[str]
    """What the program had heard before the crash."""
    lost: tuple[Operation, ...]

    def __str__(self) -> str:
        shown = {name: f"{len(data)} bytes of {data[:8]!r}" for name, data in self.files.items()}
        return f"{shown} after {sorted(self.marks)}, without {[str(each)[:80] for each in self.lost]}"


def _is_confirmed(operation: Operation, later: list[Operation]) -> bool:
    synced = {each.node for each in later if isinstance(each, Sync)}
    if isinstance(operation, Write):
        return operation.node in synced
    if isinstance(operation, Names):
        return synced.issuperset(folder for folder, _, _ in operation.changes)
    return True


def _subsets(count: int) -> Iterator[frozenset[int]]:
    """Which of so many operations are there."""
    everything = range(count)
    if count <= MOST_TOGETHER:
        for size in range(count + 1):
            yield from map(frozenset, itertools.combinations(everything, size))
        return
    for number in everything:
        yield frozenset({number})
        yield frozenset(everything) - {number}
        yield frozenset(range(number))
        yield frozenset(range(number, count))
    yield frozenset(everything)
    chance = random.Random(count)
    for _ in range(AT_RANDOM):
        yield frozenset(number for number in everything if chance.random() < 0.5)


def _write(content: bytearray, operation: Write) -> None:
    offset, data = operation.offset, operation.data
    if data is None:
        del content[offset:]
    content.extend(bytes(max(0, offset - len(content))))
    if data is not None:
        content[offset : offset + len(data)] = data


def _apply(operations: list[Operation]) -> dict[str, bytes]:
    data: dict[int, bytearray] = {}
    names: dict[int, dict[str, int]] = {ROOT: {}}
    for each in operations:
        if isinstance(each, Write):
            _write(data.setdefault(each.node, bytearray()), each)
        elif isinstance(each, Names):
            for folder, name, node in each.changes:
                if node is None:
                    names.setdefault(folder, {}).pop(name, None)
                else:
                    names.setdefault(folder, {})[name] = node
    return _by_path(data, names)


def _by_path(data: dict[int, bytearray], names: dict[int, dict[str, int]]) -> dict[str, bytes]:
    found: dict[str, bytes] = {}
    waiting = [("", ROOT)]
    while waiting:
        path, folder = waiting.pop()
        for name, node in names[folder].items():
            if node in names:
                waiting.append((f"{path}{name}/", node))
            else:
                found[path + name] = bytes(data.get(node, b""))
    return found


def states(record: list[Operation]) -> Iterator[State]:
    """All states that a crash can leave."""
    for end in range(len(record) + 1):
        done = record[:end]
        marks = frozenset(each.name for each in done if isinstance(each, Mark))
        open_ones = [at for at, each in enumerate(done) if not _is_confirmed(each, done[at + 1 :])]
        for there in _subsets(len(open_ones)):
            kept = {open_ones[number] for number in there}
            lost = tuple(done[at] for at in open_ones if at not in kept)
            whole = [each for at, each in enumerate(done) if at not in open_ones or at in kept]
            yield State(_apply(whole), marks, lost)
            torn = max(kept, default=None)
            last = None if torn is None else done[torn]
            if isinstance(last, Write) and last.data:
                half = Write(last.node, last.offset, last.data[: len(last.data) // 2])
                yield State(_apply([half if each is last else each for each in whole]), marks, (*lost, half))
