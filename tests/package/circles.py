"""Circles in a graph of uses."""

from __future__ import annotations

__all__ = ["circles"]


def circles(uses: dict[str, set[str]]) -> list[frozenset[str]]:
    """Return the largest sets of files of which each one uses each other one, directly or not."""
    reached = {file: _reached(uses, file) for file in uses}
    found = {
        frozenset({file} | {other for other in reached[file] if file in reached[other]})
        for file in uses
        if file in reached[file]
    }
    return sorted(found, key=sorted)


def _reached(uses: dict[str, set[str]], start: str) -> set[str]:
    reached: set[str] = set()
    waiting = list(uses[start])
    while waiting:
        file = waiting.pop()
        if file not in reached:
            reached.add(file)
            waiting += uses[file]
    return reached
