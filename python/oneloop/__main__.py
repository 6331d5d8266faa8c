"""`python -m oneloop`: the same as the command `oneloop`."""

from __future__ import annotations

from oneloop.cli import main

if __name__ == "__main__":
    main()
