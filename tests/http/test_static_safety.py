"""`--static` towards strangers: nothing outside of the folder, and no special file.

No slow disk and no slow client holds the loop. A file that changes under way makes no response look complete.
"""

from __future__ import annotations

import asyncio
import contextlib
import errno
import os
import resource
import socket
import tempfile
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests import certificates, programs
from tests.descriptors import at_most
from tests.file.slow_filesystem import SlowFilesystem
from tests.file.test_slow_filesystem import Ticker, check
from tests.http.file_server import Client, serving

CONTENT = bytes(range(256)) * 4
LARGE = CONTENT * 4096
OPEN_FILES = 60


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    folder = tmp_path / "www"
    (folder / "sub").mkdir(parents=True)
    (folder / "data.bin").write_bytes(CONTENT)
    (folder / "large.bin").write_bytes(LARGE)
    (tmp_path / "secret").write_bytes(b"secret")
    (tmp_path / "www2").mkdir()
    (tmp_path / "www2/secret").write_bytes(b"secret")
    return folder


# -- nothing outside of the folder ----------------------------------------------------------------------


@pytest.mark.parametrize(
    "path",
    [
        "/static/../secret",
        "/static/%2e%2e/secret",
        "/static/.%2E/secret",
        "/static/..%2fsecret",
        "/static/%2e%2e%2fsecret",
        "/static/sub/../../secret",
        "/static/sub/%2e%2e/%2e%2e/secret",
        "/static/%2fetc/passwd",
        "/static//etc/passwd",
        "/static/..%5csecret",
        "/static/%c0%ae%c0%ae/secret",
        "/static/%252e%252e/secret",
        "/static/../www2/secret",
        "/static/secret%00.txt",
        "/static/sub/.",
        "/static/./data.bin",
    ],
)
async def test_paths_do_not_lead_out(folder: Path, path: str) -> None:
    for url in ("/static", "/"):
        target = path if url != "/" else path.removeprefix("/static")
        async with serving((url, folder)) as served:
            for _ in range(2):
                response = await served.get(target)
                assert response.status == 404
                assert b"secret" not in response.body


async def test_links_do_not_lead_out(folder: Path, tmp_path: Path) -> None:
    links = {
        "relative-out": "../secret",
        "absolute-out": str(tmp_path / "secret"),
        "folder-out": "..",
        "by-proc": "/proc/self/cwd",
        "loop": "loop",
        "dangling": "none",
        "relative-in": "sub/../data.bin",
        "absolute-in": str(folder / "data.bin"),
    }
    for name, target in links.items():
        (folder / name).symlink_to(target)
    async with serving(("/static", folder)) as served:
        for _ in range(3):
            for name in links:
                response = await served.get(f"/static/{name}")
                expected = (200, CONTENT) if name.endswith("-in") else (404, b"")
                assert (response.status, response.body) == expected, name
            assert (await served.get("/static/folder-out/secret")).status == 404


async def test_a_file_that_becomes_a_link_leads_nowhere(folder: Path, tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to(tmp_path / "secret")
    stopped = threading.Event()

    def exchange() -> None:
        while not stopped.is_set():
            for name in ("link", "file"):
                if name == "file":
                    (tmp_path / "next").write_bytes(CONTENT)
                else:
                    (tmp_path / "next").symlink_to(tmp_path / "secret")
                (tmp_path / "next").rename(folder / "data.bin")

    thread = threading.Thread(target=exchange)
    thread.start()
    try:
        async with serving(("/static", folder)) as served, served.client() as client:
            seen = set()
            for _ in range(300):
                response = await client.get("/static/data.bin")
                seen.add(response.status)
                assert (response.status, response.body) in [(200, CONTENT), (404, b"")]
    finally:
        stopped.set()
        thread.join()


# -- what is no file ------------------------------------------------------------------------------------


async def test_special_files_are_not_there(folder: Path) -> None:
    os.mkfifo(folder / "fifo")
    listener = socket.socket(socket.AF_UNIX)
    with contextlib.closing(listener):
        listener.bind(str(folder / "socket"))
        async with serving(("/static", folder)) as served:
            for _ in range(2):
                for name in ("fifo", "socket"):
                    assert (await served.get(f"/static/{name}")).status == 404
        # A writer would see that somebody had opened it for reading.
        with pytest.raises(OSError, match="No such device or address"):
            os.open(folder / "fifo", os.O_WRONLY | os.O_NONBLOCK)


async def test_a_known_file_that_becomes_a_fifo(folder: Path) -> None:
    async with serving(("/static", folder)) as served, served.client() as client:
        for _ in range(2):
            assert (await client.get("/static/data.bin")).status == 200
            os.unlink(folder / "data.bin")
            os.mkfifo(folder / "data.bin")
            for _ in range(2):
                assert (await client.get("/static/data.bin")).status == 404
            os.unlink(folder / "data.bin")
            (folder / "data.bin").write_bytes(CONTENT)


@pytest.mark.skipif(os.geteuid() != 0, reason="needs root, to become somebody else")
async def test_what_may_not_be_read_is_forbidden() -> None:
    # Not pytest's folder: the other user could not search the path to it.
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        folder.chmod(0o755)
        (folder / "data.bin").write_bytes(CONTENT)
        (folder / "data.bin").chmod(0)
        (folder / "sub").mkdir(mode=0)
        async with serving(("/static", folder)) as served, served.client() as client:
            assert (await client.get("/static/data.bin")).status == 200
            os.seteuid(65534)
            try:
                assert (await client.get("/static/data.bin")).status == 403
                assert (await client.get("/static/sub/x")).status == 403
            finally:
                os.seteuid(0)


# -- the system's limits --------------------------------------------------------------------------------


@pytest.fixture
def few_descriptors() -> Iterator[None]:
    with at_most(OPEN_FILES):
        yield


async def test_no_descriptor_is_left(folder: Path, few_descriptors: None, caplog: pytest.LogCaptureFixture) -> None:
    async with serving(("/static", folder)) as served, served.client() as client:
        assert (await client.get("/static/data.bin")).status == 200
        taken = []
        with contextlib.suppress(OSError):
            while True:
                taken.append(os.open("/dev/null", os.O_RDONLY))
        try:
            assert (await client.get("/static/data.bin")).status == 503
        finally:
            for number in taken:
                os.close(number)
        assert (await client.get("/static/data.bin")).body == CONTENT
    assert "Too many open files" in caplog.text


# -- clients and disks that take their time -------------------------------------------------------------


def memory_bytes() -> int:
    with open("/proc/self/statm") as file:
        return int(file.read().split()[1]) * resource.getpagesize()


async def test_a_client_that_does_not_read_costs_no_memory(folder: Path, engine: str) -> None:
    with (folder / "huge.bin").open("wb") as file:
        file.truncate(1 << 30)
    async with serving(("/static", folder)) as served, contextlib.AsyncExitStack() as stack:
        before = memory_bytes()
        for number in range(10):
            client: Client = await stack.enter_async_context(served.client(limit=1000))
            # Many at once on one connection wait for the first.
            for _ in range(1 if number % 2 else 50):
                client.send("/static/huge.bin" if number % 2 else "/static/large.bin")
            await client.head()
        # Nothing but the responses to others shows that the loop goes on.
        for _ in range(50):
            assert (await served.get("/static/data.bin")).body == CONTENT
        assert memory_bytes() - before < 40 << 20
        # Behind a response that is not read, no request is taken. Short responses may be in the kernel whole.
        assert 5 <= served.http.requests <= 10
        assert served.http.connections >= 10


async def test_a_slow_client_gets_all(folder: Path, engine: str) -> None:
    async with serving(("/static", folder)) as served, served.client(limit=1000) as client:
        client.send("/static/large.bin")
        response = await client.head()
        got = bytearray()
        while len(got) < len(LARGE):
            got += await client.reader.read(7919)
            await asyncio.sleep(0)
        assert got == LARGE
        assert response.headers["content-length"] == str(len(LARGE))
        assert (await client.get("/static/data.bin")).body == CONTENT


async def test_tls(folder: Path) -> None:
    contexts = (certificates.server_context(), certificates.client_context())
    async with serving(("/static", folder), contexts=contexts) as served, served.client() as client:
        for _ in range(2):
            assert (await client.get("/static/data.bin")).body == CONTENT
            assert (await client.get("/static/large.bin")).body == LARGE


async def test_a_slow_disk_holds_nobody(slow_filesystem: SlowFilesystem, engine: str) -> None:
    slow = slow_filesystem.folder
    (slow / "data.bin").write_bytes(LARGE[:300_000])
    (slow / "data.bin.gz").write_bytes(b"gzip")
    async with serving(("/static", slow), ("/", slow)) as served:
        with slow_filesystem.slow() as calls:
            async with Ticker(slow_filesystem), served.client() as client:
                assert (await client.get("/static/data.bin")).body == LARGE[:300_000]
                assert (await client.get("/static/data.bin", accept_encoding="gzip")).body == b"gzip"
                assert (await client.get("/static/none")).status == 404
                # What is not there is the application's, once that is known.
                assert (await client.get("/none")).body == b"app"
        check(calls)


async def test_a_client_leaves_while_its_file_is_looked_for(slow_filesystem: SlowFilesystem) -> None:
    slow = slow_filesystem.folder
    (slow / "data.bin").write_bytes(LARGE[:300_000])
    async with serving(("/static", slow)) as served:
        with slow_filesystem.slow():
            async with Ticker(slow_filesystem):
                for _ in range(3):
                    async with served.client() as client:
                        client.send("/static/data.bin")
                        while not served.http.requests:
                            await asyncio.sleep(0)
                while served.http.requests:
                    await asyncio.sleep(0.001)


async def test_what_is_not_in_the_page_cache_is_read_by_an_engine(folder: Path, engine: str) -> None:
    async with serving(("/static", folder)) as served:
        for name, content in [("data.bin", CONTENT), ("large.bin", LARGE)]:
            assert (await served.get(f"/static/{name}")).body == content
            with (folder / name).open("rb") as file:
                os.fsync(file.fileno())
                os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)
            assert (await served.get(f"/static/{name}")).body == content


FETCH_ALL = """
import asyncio, pathlib, tempfile
from tests.http.file_server import serving

async def main():
    with tempfile.TemporaryDirectory() as name:
        place = pathlib.Path(name)
        folder = place / "www"
        folder.mkdir()
        (place / "secret").write_bytes(b"secret")
        (folder / "file").write_bytes(b"content")
        (folder / "in").symlink_to(folder / "file")
        (folder / "out").symlink_to("../secret")
        async with serving(("/static", folder)) as served:
            answers = [await served.get("/static/" + name) for name in ("file", "in", "out", "none")]
        print([(answer.status, answer.body) for answer in answers])

"""


@pytest.mark.parametrize("error", [errno.ENOSYS, errno.EPERM])
def test_without_openat2_the_rules_are_the_same(error: int) -> None:
    body = f"""
from tests.seccomp import forbid
try:
    forbid("openat2", error={error})
except OSError as exc:
    print("no seccomp:", exc)
    raise SystemExit
{FETCH_ALL}
import oneloop
oneloop.run(main())
"""
    done = programs.run("oneloop", body)
    if "no seccomp" in done.stdout:
        pytest.skip("seccomp filters are not available here")
    assert done.returncode == 0, done.stderr
    found = [(200, b"content"), (200, b"content"), (404, b""), (404, b"")]
    assert done.stdout.strip() == str(found)


# -- files that change while they are sent ---------------------------------------------------------------


async def test_a_file_that_is_cut_breaks_the_connection_off(
    folder: Path, engine: str, caplog: pytest.LogCaptureFixture
) -> None:
    huge = folder / "huge.bin"
    async with serving(("/static", folder)) as served, served.client(limit=1000) as client:
        with huge.open("wb") as file:
            file.truncate(64 << 20)
        client.send("/static/huge.bin")
        response = await client.head()
        assert response.headers["content-length"] == str(64 << 20)
        os.truncate(huge, 1000)
        with contextlib.suppress(ConnectionResetError):
            count = 0
            while piece := await client.reader.read(1 << 20):
                count += len(piece)
            assert count < 64 << 20
        while served.http.requests:
            await asyncio.sleep(0)
    assert "A static file cannot be sent" in caplog.text


async def test_a_file_that_grows_is_sent_as_it_was(folder: Path) -> None:
    async with serving(("/static", folder)) as served, served.client(limit=1000) as client:
        client.send("/static/large.bin")
        response = await client.head()
        with (folder / "large.bin").open("ab") as file:
            file.write(b"more")
        length = int(response.headers["content-length"])
        assert await client.reader.readexactly(length) == LARGE
        assert (await client.get("/static/data.bin")).body == CONTENT


async def test_clients_that_leave_early(folder: Path, engine: str) -> None:
    async with serving(("/static", folder)) as served:
        for _ in range(20):
            async with served.client(limit=1000) as client:
                client.send("/static/large.bin")
                await client.head()
        while served.http.requests:
            await asyncio.sleep(0)
        assert (await served.get("/static/data.bin")).body == CONTENT


async def test_an_abort_ends_what_is_sent(folder: Path) -> None:
    async with serving(("/static", folder)) as served, served.client(limit=1000) as client:
        client.send("/static/large.bin")
        await client.head()
        served.http.abort()
        with contextlib.suppress(ConnectionResetError):
            while await client.reader.read(1 << 20):
                pass
        while served.http.requests:
            await asyncio.sleep(0)


async def test_the_application_behind_a_slow_look_gets_its_body(slow_filesystem: SlowFilesystem) -> None:
    async def echo(scope: Any, receive: Any, send: Any) -> None:
        message = await receive()
        await send({"type": "http.response.start", "status": 200, "headers": [(b"content-length", b"5")]})
        await send({"type": "http.response.body", "body": message["body"]})

    slow = slow_filesystem.folder
    async with serving(("/", slow), app=echo) as served, served.client() as client:
        client.send("/none", "GET", b"hello")
        assert (await client.answer()).body == b"hello"
        client.send("/none", "POST", b"hello")
        assert (await client.answer()).body == b"hello"
