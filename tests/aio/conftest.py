"""Contexts on both engines, and files: cached ones, and ones opened with O_DIRECT on a real disk."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import pytest

from oneloop import aio

ENGINES: list[Literal["ring", "aio"]] = ["ring", "aio"]
BLOCK = 4096
"""Multiple of every disk's alignment that the tests meet."""


@pytest.fixture(params=ENGINES)
def engine(request: pytest.FixtureRequest) -> Literal["ring", "aio"]:
    name: Literal["ring", "aio"] = request.param
    return name


@pytest.fixture
def context(engine: Literal["ring", "aio"], audit: None) -> Iterator[aio.Context]:
    """A context for 64 requests; nothing may be in flight in it afterwards."""
    with aio.Context(64, engine) as made:
        yield made
        assert made.closed or made.in_flight == 0


@dataclass
class Storage:
    """A file of 16 blocks, each filled with a letter of its own."""

    fd: int
    is_direct: bool

    SIZE = 16 * BLOCK

    @staticmethod
    def content() -> bytes:
        return b"".join(bytes([ord("a") + number]) * BLOCK for number in range(16))


@pytest.fixture(params=["cached", "direct"])
def storage(request: pytest.FixtureRequest, audit: None) -> Iterator[Storage]:
    is_direct = request.param == "direct"
    # Not the folder for temporary files, which may be in memory.
    with tempfile.NamedTemporaryFile(dir="/var/tmp" if is_direct else None) as file:
        file.write(Storage.content())
        file.flush()
        os.fsync(file.fileno())
        try:
            fd = os.open(file.name, os.O_RDWR | (os.O_DIRECT if is_direct else 0))
        except OSError as error:
            pytest.skip(f"no O_DIRECT on this file system: {error}")
    yield Storage(fd, is_direct)
    os.close(fd)


@pytest.fixture
def file(tmp_path: Path, audit: None) -> Iterator[int]:
    """A descriptor of a file with ten digits in it."""
    path = tmp_path / "digits"
    path.write_bytes(b"0123456789")
    fd = os.open(path, os.O_RDWR)
    yield fd
    os.close(fd)


@pytest.fixture
def pipe(audit: None) -> Iterator[tuple[int, int]]:
    ends = os.pipe()
    yield ends
    for fd in ends:
        os.close(fd)
