"""Downloads: whole files or none, and those that are continued."""

from __future__ import annotations

import errno
import os
import re
from collections.abc import AsyncGenerator, Generator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

import oneloop.files
from oneloop.http import Auth, HTTPStatusError, ReadError, RemoteProtocolError, Request, Response
from tests.client.callers import Caller
from tests.client.servers import Peer, RawServer

BODY = os.urandom(700_000)


class Files:
    """Serves BODY, in ranges too; cuts the first `cuts` responses in the middle."""

    def __init__(self, cuts: int = 0, tag: str = '"one"', ranges: bool = True) -> None:
        self.cuts = cuts
        self.tag = tag
        self.ranges = ranges
        self.heads: list[bytes] = []

    def __call__(self, peer: Peer) -> None:
        while head := peer.head():
            self.heads.append(head)
            fields = dict(line.lower().split(b": ", 1) for line in head.split(b"\r\n")[1:])
            offset = 0
            status = "200 OK"
            shown = [f"ETag: {self.tag}"] if self.tag else []
            if self.ranges and b"range" in fields and fields.get(b"if-range", b"").decode() == self.tag:
                offset = int(fields[b"range"].removeprefix(b"bytes=").removesuffix(b"-"))
                if offset >= len(BODY):
                    peer.answer(b"", "416 Range Not Satisfiable")
                    continue
                status = "206 Partial Content"
                shown.append(f"Content-Range: bytes {offset}-{len(BODY) - 1}/{len(BODY)}")
            body = BODY[offset:]
            if self.cuts:
                self.cuts -= 1
                lines = "".join(f"{field}\r\n" for field in shown)
                peer.send(f"HTTP/1.1 {status}\r\n{lines}Content-Length: {len(body)}\r\n\r\n".encode())
                peer.send(body[: len(body) // 2])
                return
            peer.answer(body, status, *shown)


def left(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


def test_a_file(caller: Caller, tmp_path: Path) -> None:
    seen: list[tuple[int, int | None]] = []
    with RawServer(Files()) as server:
        response = caller.download(
            f"{server.url}/f", tmp_path / "f", progress=lambda done, total: seen.append((done, total))
        )
    assert response.status_code == 200
    assert (tmp_path / "f").read_bytes() == BODY
    assert left(tmp_path) == ["f"]
    assert seen[-1] == (len(BODY), len(BODY))


def test_what_is_not_whole_is_not_there(caller: Caller, tmp_path: Path) -> None:
    (tmp_path / "f").write_bytes(b"old")
    with RawServer(Files(cuts=1)) as server, pytest.raises((RemoteProtocolError, ReadError)):
        caller.download(f"{server.url}/f", tmp_path / "f")
    assert (tmp_path / "f").read_bytes() == b"old"
    assert left(tmp_path) == ["f"]


def test_a_part_is_continued(caller: Caller, tmp_path: Path) -> None:
    files = Files(cuts=2)
    with RawServer(files) as server:
        for _ in range(2):
            with pytest.raises((RemoteProtocolError, ReadError)):
                caller.download(f"{server.url}/f", tmp_path / "f", resume=True)
        assert left(tmp_path) == ["f.part", "f.part.tag"]
        size = (tmp_path / "f.part").stat().st_size
        assert size > len(BODY) // 2
        response = caller.download(f"{server.url}/f", tmp_path / "f", resume=True)
    assert response.status_code == 206
    assert b"Range: bytes=%d-\r\n" % size in files.heads[-1].replace(b"range:", b"Range:")
    assert (tmp_path / "f").read_bytes() == BODY
    assert left(tmp_path) == ["f"]


@pytest.mark.parametrize("change", ["another tag", "no ranges", "whole already", "no tag"])
def test_a_part_that_cannot_be_continued(caller: Caller, tmp_path: Path, change: str) -> None:
    files = Files(cuts=1, tag="" if change == "no tag" else '"one"')
    with RawServer(files) as server:
        with pytest.raises((RemoteProtocolError, ReadError)):
            caller.download(f"{server.url}/f", tmp_path / "f", resume=True)
        if change == "another tag":
            files.tag = '"two"'
        if change == "no ranges":
            files.ranges = False
        if change == "whole already":
            (tmp_path / "f.part").write_bytes(BODY)
        caller.download(f"{server.url}/f", tmp_path / "f", resume=True)
    assert (tmp_path / "f").read_bytes() == BODY
    assert left(tmp_path) == ["f"]


def test_a_part_of_another_version_is_left_without_its_tag(
    caller: Caller, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What could not be emptied is not continued as if it were of the new version."""
    (tmp_path / "f.part").write_bytes(b"old" * 1000)
    (tmp_path / "f.part.tag").write_bytes(b'"old"')
    opened = oneloop.files.open
    left = [OSError(errno.EMFILE, "too many")]

    def failing(*arguments: Any, **named: Any) -> Any:
        if left:
            raise left.pop()
        return opened(*arguments, **named)

    monkeypatch.setattr(oneloop.files, "open", failing)
    with RawServer(Files()) as server:
        with pytest.raises(OSError, match="too many"):
            caller.download(f"{server.url}/f", tmp_path / "f", resume=True)
        caller.download(f"{server.url}/f", tmp_path / "f", resume=True)
    assert (tmp_path / "f").read_bytes() == BODY


@pytest.mark.parametrize("shown", ["bytes 9-9/10", f"bytes 4-{'9' * 5000}/*"], ids=["elsewhere", "no number"])
def test_a_wrong_range(caller: Caller, tmp_path: Path, shown: str) -> None:
    (tmp_path / "f.part").write_bytes(b"part")
    (tmp_path / "f.part.tag").write_bytes(b'"one"')

    def serve(peer: Peer) -> None:
        peer.head()
        peer.answer(b"x", "206 Partial Content", f"Content-Range: {shown}")

    with RawServer(serve) as server, pytest.raises(RemoteProtocolError, match=re.escape(shown)):
        caller.download(f"{server.url}/f", tmp_path / "f", resume=True)
    assert (tmp_path / "f.part").read_bytes() == b"part"
    assert not (tmp_path / "f").exists()


@pytest.mark.parametrize("status", ["404 Not Found", "302 Found", "500 Internal Server Error"])
def test_refusals(caller: Caller, tmp_path: Path, status: str) -> None:
    def serve(peer: Peer) -> None:
        peer.head()
        peer.answer(b"why", status)

    with RawServer(serve) as server, pytest.raises(HTTPStatusError) as caught:
        caller.download(f"{server.url}/f", tmp_path / "f")
    response: Any = caught.value.response
    assert response.content == b"why"
    assert left(tmp_path) == []


class _OfOneKind(Auth):
    """What a client without coroutines, or one of coroutines alone, can use."""

    def __init__(self, kind: str) -> None:
        self._kind = kind

    def sync_auth_flow(self, request: Request) -> Generator[Request, Response, None]:
        assert self._kind != "coroutine"
        request.headers["Authorization"] = "known"
        yield request

    async def async_auth_flow(self, request: Request) -> AsyncGenerator[Request, Response]:
        assert self._kind == "coroutine"
        request.headers["Authorization"] = "known"
        yield request


def test_the_flow_of_an_auth_is_that_of_the_client(caller: Caller, tmp_path: Path) -> None:
    def serve(peer: Peer) -> None:
        while head := peer.head():
            peer.answer(b"content", "200 OK" if b"uthorization: known" in head else "401 Unauthorized")

    with RawServer(serve) as server:
        caller.download(server.url, tmp_path / "file", auth=_OfOneKind(caller.kind))
    assert (tmp_path / "file").read_bytes() == b"content"


def test_a_folder_that_is_not_there(caller: Caller, tmp_path: Path) -> None:
    with RawServer(Files()) as server:
        with pytest.raises(FileNotFoundError):
            caller.download(f"{server.url}/f", tmp_path / "no" / "f")
        assert caller.statistics()["open"] == 0


def test_a_weak_tag_is_no_condition_for_a_range(caller: Caller, tmp_path: Path) -> None:
    """RFC 9110 section 13.1.5."""
    files = Files(cuts=1, tag='W/"one"')
    with RawServer(files) as server:
        with pytest.raises((RemoteProtocolError, ReadError)):
            caller.download(f"{server.url}/f", tmp_path / "f", resume=True)
        assert left(tmp_path) == ["f.part"]
        assert caller.download(f"{server.url}/f", tmp_path / "f", resume=True).status_code == 200
    assert b"range" not in files.heads[-1].lower()
    assert (tmp_path / "f").read_bytes() == BODY


def test_a_hook_reads_the_body(caller: Caller, tmp_path: Path) -> None:
    seen: list[bytes] = []

    def hook(response: Response) -> None:
        seen.append(response.read())

    async def ahook(response: Response) -> None:
        seen.append(await response.aread())

    caller.client.event_hooks = {"response": [ahook if caller.kind == "coroutine" else hook]}
    with RawServer(Files()) as server:
        caller.download(f"{server.url}/f", tmp_path / "f")
    assert seen == [BODY]
    assert (tmp_path / "f").read_bytes() == BODY


@pytest.mark.parametrize("kind", ["green", "plain"])
def test_progress_sends_requests(kind: str, tmp_path: Path) -> None:
    caller = Caller(kind)
    seen: list[int] = []
    with closing(caller), RawServer(Files()) as server:
        caller.download(
            f"{server.url}/f",
            tmp_path / "f",
            progress=lambda done, total: seen.append(len(caller.client.get(f"{server.url}/g").content)),
        )
    assert seen
    assert set(seen) == {len(BODY)}
    assert (tmp_path / "f").read_bytes() == BODY
