"""The file of the extension module, as debuggers and profilers find it."""

from __future__ import annotations

import struct
from pathlib import Path

from oneloop import _native

PT_LOAD = 1


def loaded_segments(file: Path) -> list[tuple[int, int]]:
    """The offset and the address of each segment that is loaded (elf(5), 64 bits, little-endian)."""
    data = file.read_bytes()
    assert data[:6] == b"\x7fELF\x02\x01", "an ELF file of 64 bits, little-endian"
    (table,) = struct.unpack_from("<Q", data, 32)
    size, count = struct.unpack_from("<HH", data, 54)
    headers = (struct.unpack_from("<IIQQ", data, table + n * size) for n in range(count))
    return [(offset, address) for kind, _, offset, address in headers if kind == PT_LOAD]


def test_segments_lie_in_the_file_as_in_memory() -> None:
    """libunwind, by which `py-spy dump --native` reads frames, otherwise loses its way in this library."""
    assert _native.__file__ is not None
    segments = loaded_segments(Path(_native.__file__))
    assert segments
    executable_and_read_only = segments[:-2] or segments
    assert [offset for offset, _ in executable_and_read_only] == [address for _, address in executable_and_read_only]
