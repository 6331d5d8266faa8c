"""The command `oneloop` on systems without a native wheel: it prints a message."""

from __future__ import annotations

import sys

from . import _reason


def main() -> int:
    """Print why the command does not work here."""
    print(f"oneloop: the command does not exist on this system. {_reason()}", file=sys.stderr)
    return 1


if __name__ == "__main__":
    sys.exit(main())
