"""How a program that times itself hands over its figures: one line, then it waits to be seen and let go."""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping, Sequence


def hand_over(figures: Mapping[str, float], notes: Sequence[str] = ()) -> None:
    """Prints the figures and waits for a word, so that memory and threads can be read meanwhile."""
    print(json.dumps({**figures, "notes": list(notes)}), flush=True)
    sys.stdin.readline()
