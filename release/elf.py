"""Moves the loaded segments of a shared library to file offsets that equal their addresses.

libunwind, which `py-spy --native` uses to read frames, assumes that they are equal. lld packs segments unless it gets
the option `-z separate-loadable-segments`, which `zig cc` does not accept; therefore the finished library is changed.
Only 64-bit little-endian ELF (elf(5)) is supported. The addresses in memory do not change.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass

PT_LOAD = 1
SHF_ALLOC = 2
SHT_NOBITS = 8

_PROGRAM_HEADER = struct.Struct(
    "<IIQQQQQQ"
)  # type, flags, offset, address, physical, size in file, in memory, alignment
_SECTION_HEADER = struct.Struct("<IIQQQQIIQQ")  # name, type, flags, address, offset, size, link, info, alignment, entry


@dataclass(frozen=True)
class Tables:
    """The offsets and lengths of the tables in an ELF file."""

    programs: int
    program_count: int
    sections: int
    section_count: int

    @classmethod
    def of(cls, data: bytes) -> Tables:
        """Read the file header.

        Raises:
            ValueError: it is not a 64-bit little-endian ELF file.
        """
        if data[:6] != b"\x7fELF\x02\x01":
            raise ValueError("not an ELF file, or not a 64-bit little-endian one")
        programs, sections = struct.unpack_from("<QQ", data, 32)
        _, program_count, _, section_count = struct.unpack_from("<HHHH", data, 54)
        return cls(programs, program_count, sections, section_count)


def loaded_segments(data: bytes) -> list[tuple[int, int, int]]:
    """Return offset, address and size in the file of each loaded segment."""
    tables = Tables.of(data)
    found = []
    for n in range(tables.program_count):
        kind, _, offset, address, _, size, _, _ = _PROGRAM_HEADER.unpack_from(
            data, tables.programs + n * _PROGRAM_HEADER.size
        )
        if kind == PT_LOAD:
            found.append((offset, address, size))
    return found


def section_names(data: bytes) -> list[str]:
    """Return the names of the sections."""
    tables = Tables.of(data)
    (names,) = struct.unpack_from("<H", data, 62)
    _, _, _, _, strings, _, *_ = _SECTION_HEADER.unpack_from(data, tables.sections + names * _SECTION_HEADER.size)
    found = []
    for n in range(tables.section_count):
        (name,) = struct.unpack_from("<I", data, tables.sections + n * _SECTION_HEADER.size)
        found.append(data[strings + name : data.index(b"\0", strings + name)].decode())
    return found


def with_equal_offsets(data: bytes) -> bytes:
    """Move each loaded segment to the file offset that equals its address.

    Args:
        data: a shared library, linked for address 0.

    Returns:
        The new library: the content as in memory, then the sections that are not loaded, then the section headers.
    """
    tables = Tables.of(data)
    segments = loaded_segments(data)
    if all(offset == address for offset, address, _ in segments):
        return data
    image = bytearray(max(address + size for _, address, size in segments))
    for offset, address, size in segments:
        image[address : address + size] = data[offset : offset + size]
    _move_program_headers(image, tables)
    headers = [
        list(_SECTION_HEADER.unpack_from(data, tables.sections + n * _SECTION_HEADER.size))
        for n in range(tables.section_count)
    ]
    for header in headers:
        _, kind, flags, address, offset, size, _, _, alignment, _ = header
        if flags & SHF_ALLOC:
            header[4] = address
        elif kind not in (0, SHT_NOBITS):
            _pad(image, alignment)
            header[4] = len(image)
            image += data[offset : offset + size]
    _pad(image, 8)
    struct.pack_into("<Q", image, 40, len(image))
    for header in headers:
        image += _SECTION_HEADER.pack(*header)
    return bytes(image)


def _move_program_headers(image: bytearray, tables: Tables) -> None:
    for n in range(tables.program_count):
        place = tables.programs + n * _PROGRAM_HEADER.size
        header = list(_PROGRAM_HEADER.unpack_from(image, place))
        if header[3] or header[0] == PT_LOAD:
            header[2] = header[3]
            _PROGRAM_HEADER.pack_into(image, place, *header)


def _pad(image: bytearray, alignment: int) -> None:
    image += bytes(-len(image) % max(alignment, 1))
