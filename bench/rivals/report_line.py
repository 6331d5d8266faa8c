"""How a program that measures itself reports its figures: it prints one line and waits for an answer."""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping, Sequence


def hand_over(figures: Mapping[str, float], notes: Sequence[str] = ()) -> None:
    """Prints the figures and waits for a line, so that memory and threads can be measured before it ends."""
    print(json.dumps({**figures, "notes": list(notes)}), flush=True)
    sys.stdin.readline()
