"""The options of the programs that start processes and resolve names."""

from __future__ import annotations

import argparse


def parser() -> argparse.ArgumentParser:
    """The options of all of them."""
    made = argparse.ArgumentParser()
    made.add_argument("--count", type=int, required=True, help="of a batch")
    made.add_argument("--seconds", type=float, default=0.0, help="the batches are repeated for at least this long")
    made.add_argument("--parent-mib", type=int, default=0, help="memory of this process, written to")
    made.add_argument("--host", default="", help="resolve this name instead of starting processes")
    return made


def ballast(mib: int) -> bytearray:
    """Memory that was written to, so that the pages exist: fork has to copy their page table."""
    return bytearray(b"1") * (mib << 20)
