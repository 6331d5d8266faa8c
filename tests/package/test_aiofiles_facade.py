"""`oneloop.compat.aiofiles`: aiofiles' names on oneloop's files, used as its documentation uses them."""

from __future__ import annotations

import asyncio
import importlib
import inspect
import io
import os
import sys
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from textwrap import dedent
from typing import Any
from unittest import mock

import pytest

import oneloop
from oneloop.compat import aiofiles
from oneloop.compat.aiofiles import base, ospath, tempfile, threadpool
from oneloop.compat.aiofiles import os as aios
from oneloop.compat.aiofiles.threadpool import binary, text
from tests import programs
from tests.conftest import Reported, close_audited

# What dir() shows of each module of aiofiles 25.1.0, without underscores and without what it imports.
NAMES = {
    "": "open stderr stderr_bytes stdin stdin_bytes stdout stdout_bytes tempfile threadpool base",
    "base": "AiofilesContextManager AsyncBase AsyncIndirectBase wrap",
    "os": "access getcwd link listdir makedirs mkdir path readlink remove removedirs rename renames replace rmdir "
    "scandir sendfile stat statvfs symlink unlink wrap",
    "ospath": "abspath exists getatime getctime getmtime getsize isdir isfile islink ismount samefile "
    "sameopenfile wrap",
    "tempfile": "AiofilesContextManager AiofilesContextManagerTempDir AsyncBufferedIOBase AsyncBufferedReader "
    "AsyncFileIO AsyncSpooledTemporaryFile AsyncTemporaryDirectory AsyncTextIOWrapper NamedTemporaryFile "
    "SpooledTemporaryFile TemporaryDirectory TemporaryFile temptypes wrap",
    "tempfile.temptypes": "AsyncBase AsyncSpooledTemporaryFile AsyncTemporaryDirectory",
    "threadpool": "AiofilesContextManager AsyncBufferedIOBase AsyncBufferedReader AsyncFileIO "
    "AsyncIndirectBufferedIOBase AsyncTextIOWrapper AsyncTextIndirectIOWrapper binary open stderr stderr_bytes stdin "
    "stdin_bytes stdout stdout_bytes sync_open text utils wrap",
    "threadpool.binary": "AsyncBase AsyncBufferedIOBase AsyncBufferedReader AsyncFileIO AsyncIndirectBase "
    "AsyncIndirectBufferedIOBase AsyncIndirectBufferedReader AsyncIndirectFileIO",
    "threadpool.text": "AsyncBase AsyncIndirectBase AsyncTextIOWrapper AsyncTextIndirectIOWrapper",
    "threadpool.utils": "cond_delegate_to_executor delegate_to_executor proxy_method_directly proxy_property_directly",
}
BINARY = (
    "close closed detach fileno flush isatty mode name raw read read1 readable readinto readline readlines seek "
    "seekable tell truncate writable write writelines"
)
METHODS = {
    "binary.AsyncBufferedIOBase": BINARY,
    "binary.AsyncBufferedReader": BINARY + " peek",
    "binary.AsyncFileIO": "close closed fileno flush isatty mode name read readable readall readinto readline "
    "readlines seek seekable tell truncate writable write writelines",
    "text.AsyncTextIOWrapper": "buffer close closed detach encoding errors fileno flush isatty line_buffering mode "
    "name newlines read readable readline readlines seek seekable tell truncate writable write writelines",
}


@pytest.fixture
def loop(audit: None, reported: Reported) -> Iterator[asyncio.AbstractEventLoop]:
    made = oneloop.new_event_loop()
    made.set_exception_handler(reported)
    yield made
    close_audited(made)


@pytest.mark.parametrize("module", NAMES)
def test_facade_has_aiofiles_public_names(module: str) -> None:
    found = importlib.import_module(f"oneloop.compat.aiofiles.{module}".rstrip("."))
    assert [name for name in NAMES[module].split() if not hasattr(found, name)] == []
    assert set(getattr(found, "__all__", ())) <= set(dir(found))


@pytest.mark.parametrize("name", METHODS)
def test_files_have_all_methods(name: str) -> None:
    module, kind = name.split(".")
    for prefix in ("", "Indirect"):
        called = kind.replace("Async", f"Async{prefix}") if module == "binary" else kind
        found = getattr(getattr(threadpool, module), called)
        assert [method for method in METHODS[name].split() if not hasattr(found, method)] == []


def test_against_the_package_itself() -> None:
    if importlib.util.find_spec("aiofiles") is None:
        pytest.skip("aiofiles is not installed")
    for module in NAMES:
        real = importlib.import_module(f"aiofiles.{module}".rstrip("."))
        facade = importlib.import_module(f"oneloop.compat.aiofiles.{module}".rstrip("."))
        for name in getattr(real, "__all__", NAMES[module].split()):
            assert hasattr(facade, name), f"{module}.{name}"
            function = getattr(real, name)
            if inspect.isfunction(function) and not hasattr(function, "__wrapped__"):
                ours = inspect.signature(getattr(facade, name)).parameters
                assert list(ours)[: len(ours)] == list(inspect.signature(function).parameters) or name == "wrap"


# -- as its documentation uses it --------------------------------------------------------------------


async def test_open(tmp_path: Path) -> None:
    path = tmp_path / "filename"
    async with aiofiles.open(path, mode="w", encoding="utf-8") as file:
        assert await file.write("line 1\nline 2\n") == 14
    async with aiofiles.open(path) as file:
        assert await file.read() == "line 1\nline 2\n"
    async with aiofiles.open(path) as file:
        assert [line async for line in file] == ["line 1\n", "line 2\n"]
    file = await aiofiles.open(path, mode="rb")
    try:
        assert await file.readlines() == [b"line 1\n", b"line 2\n"]
        assert (file.closed, file.mode, file.name) == (False, "rb", str(path))
        assert await file.seekable()
        assert file.readable()
        assert file.fileno() > 2
    finally:
        await file.close()
    assert file.closed
    with pytest.raises(ValueError, match="closed"):
        await file.read()


@pytest.mark.parametrize(
    ("mode", "buffering", "kind"),
    [
        ("r", -1, text.AsyncTextIOWrapper),
        ("w+", -1, text.AsyncTextIOWrapper),
        ("rb", -1, binary.AsyncBufferedReader),
        ("wb", -1, binary.AsyncBufferedIOBase),
        ("rb+", -1, binary.AsyncBufferedReader),
        ("rb", 0, binary.AsyncFileIO),
    ],
)
async def test_kinds_of_files(tmp_path: Path, mode: str, buffering: int, kind: type) -> None:
    path = tmp_path / "file"
    path.touch()
    async with aiofiles.open(path, mode, buffering) as file:
        assert type(file) is kind
        assert " wrapping " in repr(file)


async def test_missing_file_raises_as_open(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError) as caught:
        await aiofiles.open(tmp_path / "missing")
    assert caught.value.filename == str(tmp_path / "missing")


@pytest.mark.parametrize("mode", ["rb", "rb+", "r", "w"])
async def test_detach(tmp_path: Path, mode: str) -> None:
    path = tmp_path / "file"
    path.write_bytes(b"0123456789")
    manager = aiofiles.open(path, mode)
    file = await manager
    if mode != "w":
        await file.read(2)
    else:
        await file.write("written")
    with file.detach() as inner:
        kinds = {"rb": io.FileIO, "rb+": io.FileIO, "r": io.BufferedReader, "w": io.BufferedWriter}
        assert type(inner) is kinds[mode]
        if "b" in mode:
            assert inner.read() == b"23456789"
    if mode == "w":
        assert path.read_bytes() == b"written"
    with pytest.raises(ValueError, match="detached"):
        await file.read()
    with pytest.raises(ValueError, match="detached"):
        await manager.__aexit__(None, None, None)


async def test_os_functions(tmp_path: Path) -> None:
    await aios.makedirs(tmp_path / "a/b", exist_ok=True)
    (tmp_path / "a/file").write_text("x")
    assert sorted(await aios.listdir(tmp_path / "a")) == ["b", "file"]
    assert (await aios.stat(tmp_path / "a/file")).st_size == 1
    await aios.rename(tmp_path / "a/file", tmp_path / "a/renamed")
    await aios.symlink("renamed", tmp_path / "a/link")
    assert await aios.readlink(tmp_path / "a/link") == "renamed"
    with await aios.scandir(tmp_path / "a") as entries:
        assert {entry.name for entry in entries} == {"b", "renamed", "link"}
    assert await aios.path.isfile(tmp_path / "a/renamed")
    assert await ospath.getsize(tmp_path / "a/renamed") == 1
    assert await ospath.abspath("x") == os.path.abspath("x")
    assert await aios.getcwd() == os.getcwd()
    assert (await aios.statvfs(tmp_path)).f_bsize > 0
    await aios.remove(tmp_path / "a/renamed")
    with pytest.raises(FileNotFoundError, match="renamed"):
        await aios.unlink(tmp_path / "a/renamed")
    assert aios.stat.__name__ == "stat"


async def test_sendfile(tmp_path: Path) -> None:
    (tmp_path / "in").write_bytes(b"content")
    with open(tmp_path / "in") as source, open(tmp_path / "out", "wb") as target:
        assert await aios.sendfile(target.fileno(), source.fileno(), 0, 100) == 7
    assert (tmp_path / "out").read_bytes() == b"content"


async def test_wrap_takes_loop_and_executor() -> None:
    def where(value: int) -> tuple[int, int]:
        return threading.get_ident(), value

    with ThreadPoolExecutor(1) as executor:
        mine = executor.submit(threading.get_ident).result()
        assert await base.wrap(where)(3, executor=executor) == (mine, 3)
        assert await aios.path.exists("/", executor=executor)
    assert (await base.wrap(where)(value=4, loop=asyncio.get_running_loop()))[1] == 4


async def test_temporary_files(tmp_path: Path) -> None:
    async with tempfile.TemporaryFile("wb+") as file:
        await file.write(b"Hello, World!")
        await file.seek(0)
        assert await file.read() == b"Hello, World!"
    async with tempfile.NamedTemporaryFile("wb+", dir=tmp_path) as file:
        await file.write(b"Line1\n Line2")
        await file.seek(0)
        assert [line async for line in file] == [b"Line1\n", b" Line2"]
        assert os.listdir(tmp_path) == [os.path.basename(file.name)]
    assert os.listdir(tmp_path) == []
    async with tempfile.SpooledTemporaryFile(max_size=8, mode="w+") as file:
        await file.write("1234")
        assert not file._file._rolled
        await file.write("56789")
        assert file._file._rolled
        await file.seek(0)
        assert await file.read() == "123456789"
    async with tempfile.TemporaryDirectory(dir=tmp_path) as folder:
        assert os.path.isdir(folder)
    assert os.listdir(tmp_path) == []


async def test_standard_streams(capsys: pytest.CaptureFixture[str]) -> None:
    out: Any = aiofiles.stdout
    err: Any = aiofiles.stderr_bytes
    await out.write("out")
    await err.write(b"err")
    await err.flush()
    shown = capsys.readouterr()
    assert (shown.out, shown.err) == ("out", "err")
    assert out.encoding


async def test_mocking_as_documented() -> None:
    kind = mock.MagicMock
    threadpool.wrap.register(kind)(binary.AsyncBufferedIOBase)
    file = mock.MagicMock(read=lambda *args, **kwargs: "file chunk")
    with mock.patch("oneloop.compat.aiofiles.threadpool.sync_open", return_value=file) as opened:
        async with aiofiles.open("filename", "r") as reader:
            assert await reader.read() == "file chunk"
    assert opened.call_args.args == ("filename",)


def test_facade_works_on_stock_asyncio(tmp_path: Path) -> None:
    async def main() -> Any:
        async with aiofiles.open(tmp_path / "file", "w") as file:
            await file.write("text")
        assert await aios.path.exists(tmp_path / "file")
        async with aiofiles.open(tmp_path / "file") as file:
            return await file.read()

    with asyncio.Runner(loop_factory=asyncio.SelectorEventLoop) as runner:
        assert runner.run(main()) == "text"


def test_installed_facade_is_what_import_finds(tmp_path: Path) -> None:
    program = tmp_path / "app.py"
    program.write_text(
        dedent(
            """
            import asyncio
            import aiofiles
            import aiofiles.os
            import aiofiles.ospath
            from aiofiles import tempfile
            from aiofiles.base import wrap
            from aiofiles.tempfile.temptypes import AsyncTemporaryDirectory
            from aiofiles.threadpool.binary import AsyncBufferedReader
            from aiofiles.threadpool.text import AsyncTextIOWrapper
            from aiofiles.threadpool.utils import delegate_to_executor

            async def main():
                async with aiofiles.open(__file__) as file:
                    assert isinstance(file, AsyncTextIOWrapper)
                    print(aiofiles.__name__, len(await file.read()) > 100, await aiofiles.os.path.isfile(__file__))

            asyncio.run(main())
            """
        )
    )
    done = programs.run_command(sys.executable, "-m", "oneloop", "run", "--replace", "aiofiles", str(program))
    assert (done.stdout, done.stderr) == ("oneloop.compat.aiofiles True True\n", "")
