"""Direct I/O: aligned buffers, and what the kernel says that files ask of them."""

from __future__ import annotations

import ctypes
import errno
import mmap
import os
from pathlib import Path
from typing import Any

import pytest

from oneloop import _native, files

pytestmark = pytest.mark.usefixtures("engine")


def address(buffer: memoryview) -> int:
    return ctypes.addressof(ctypes.c_char.from_buffer(buffer))


@pytest.mark.parametrize("alignment", [None, 1, 512, 4096, 65536, 2 << 20])
@pytest.mark.parametrize("size", [1, 4096, 10_000])
def test_buffers_are_aligned_writable_zeros(size: int, alignment: int | None) -> None:
    buffer = files.aligned_buffer(size, alignment=alignment)
    assert (len(buffer), buffer.readonly, buffer.format, bytes(buffer)) == (size, False, "B", bytes(size))
    assert address(buffer) % (alignment or mmap.PAGESIZE) == 0
    buffer[-1] = 255
    assert buffer[-1] == 255


def test_wrong_buffers_are_refused() -> None:
    for size in (0, -1):
        with pytest.raises(ValueError, match="size must be positive"):
            files.aligned_buffer(size)
    for alignment in (0, 3, -4096):
        with pytest.raises(ValueError, match="power of two"):
            files.aligned_buffer(1, alignment=alignment)
    with pytest.raises(TypeError):
        files.aligned_buffer("1")  # type: ignore[arg-type]


async def test_alignment_is_the_kernels(path: Path) -> None:
    path.write_bytes(bytes(8192))
    told = await files.direct_alignment(path)
    with open(path) as file:
        kernel = _native.direct_alignment(file.fileno())
        assert await files.direct_alignment(file.fileno()) == told
    if kernel is None:
        assert told == files.DirectAlignment(mmap.PAGESIZE, mmap.PAGESIZE, is_told=False)
    elif kernel[0]:
        assert told == files.DirectAlignment(*kernel, is_told=True)
    else:
        assert told is None


async def test_file_is_read_past_the_page_cache_with_that_alignment(path: Path) -> None:
    content = os.urandom(1 << 16)
    path.write_bytes(content)
    told = await files.direct_alignment(path)
    if told is None:
        pytest.skip("the filesystem has no direct I/O")
    length = max(told.offset, 4096)
    buffer = files.aligned_buffer(length, alignment=told.memory)
    try:
        fd = os.open(path, os.O_RDONLY | os.O_DIRECT)
    except OSError as error:
        if error.errno != errno.EINVAL:
            raise
        pytest.skip("the filesystem has no direct I/O")
    try:
        assert os.preadv(fd, [buffer], length) == length
    finally:
        os.close(fd)
    assert bytes(buffer) == content[length : 2 * length]


async def test_what_has_no_direct_io(tmp_path: Path) -> None:
    reader, writer = os.pipe()
    try:
        told = await files.direct_alignment(reader)
        assert told is None or not told.is_told
    finally:
        os.close(reader)
        os.close(writer)
    with pytest.raises(FileNotFoundError) as caught:
        await files.direct_alignment(tmp_path / "missing")
    assert caught.value.filename == str(tmp_path / "missing")
    with pytest.raises(OSError, match="Bad file descriptor"):
        await files.direct_alignment(12345)


async def opened_direct(path: Path, mode: str) -> Any:
    try:
        return await files.open(path, mode, direct=True)
    except OSError as error:
        if error.errno != errno.EINVAL:
            raise
        pytest.skip("this filesystem has no O_DIRECT")


@pytest.mark.engines_only("its buffers lie where Python puts them")
async def test_a_direct_file_is_read_to_its_end(path: Path) -> None:
    content = os.urandom(10_000)
    path.write_bytes(content)
    async with await opened_direct(path, "rb") as file:
        assert await file.read() == content
        assert await file.read() == b""
        for start in (4096, 8192):
            assert await file.seek(start) == start
            assert await file.read() == content[start:]
            assert await file.pread(8192, start) == content[start : start + 8192]
        buffer = files.aligned_buffer(12_288)
        await file.seek(0)
        assert await file.readinto(buffer) == 10_000
        assert buffer[:10_000] == content
        assert await file.tell() == 10_000


@pytest.mark.engines_only("its buffers lie where Python puts them")
async def test_a_direct_file_is_written(path: Path) -> None:
    content = os.urandom(8192)
    buffer = files.aligned_buffer(8192)
    buffer[:] = content
    async with await opened_direct(path, "w+b") as file:
        assert await file.write(buffer) == 8192
        assert await file.pwrite(buffer[:4096], 8192) == 4096
        assert await file.tell() == 8192
        assert await file.read() == content[:4096]
    assert path.read_bytes() == content + content[:4096]
