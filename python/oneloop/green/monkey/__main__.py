"""`python -m oneloop.green.monkey script.py`: runs a patched program."""

from __future__ import annotations

from oneloop.green.monkey import main

if __name__ == "__main__":
    main()
