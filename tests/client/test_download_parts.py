"""Downloads that go on, and what they leave behind."""

from __future__ import annotations

import gzip
import os
from pathlib import Path

import pytest

from oneloop.http import (
    RemoteProtocolError,
)
from tests.client.conftest import MakeCaller
from tests.client.servers import Peer, RawServer, echo


def continued(whole: bytes, first: int, sent: int, *fields: str) -> RawServer:
    """Cuts the first response off after `first` bytes; responses ranges with at most `sent` bytes."""

    def serve(peer: Peer) -> None:
        while head := peer.head():
            _, found, rest = head.lower().partition(b"range: bytes=")
            lines = "".join(f"{field}\r\n" for field in ('ETag: "x"', *fields))
            if not found:
                peer.send(f"HTTP/1.1 200 OK\r\n{lines}Content-Length: {len(whole)}\r\n\r\n".encode() + whole[:first])
                return
            start = int(rest.split(b"-")[0])
            piece = whole[start : start + sent]
            place = f"Content-Range: bytes {start}-{start + len(piece) - 1}/{len(whole)}"
            peer.answer(piece, "206 Partial Content", place, 'ETag: "x"')

    return RawServer(serve)


def test_a_part_of_the_rest_is_no_whole_file(make_caller: MakeCaller, tmp_path: Path) -> None:
    caller = make_caller()
    with continued(b"0123456789", 5, 2) as server:
        for _ in range(2):
            with pytest.raises(RemoteProtocolError):
                caller.download(server.url, tmp_path / "file", resume=True)
    assert not (tmp_path / "file").exists()


def test_a_decoded_part_is_not_continued(make_caller: MakeCaller, tmp_path: Path) -> None:
    caller = make_caller()
    coded = gzip.compress(os.urandom(400))
    with continued(coded, 200, len(coded), "Content-Encoding: gzip") as server:
        for _ in range(2):
            with pytest.raises(RemoteProtocolError):
                caller.download(server.url, tmp_path / "file", resume=True)
    assert not (tmp_path / "file").exists()


def test_a_download_to_a_folder_leaves_nothing(make_caller: MakeCaller, tmp_path: Path) -> None:
    (tmp_path / "folder").mkdir()
    with RawServer(echo) as server:
        with pytest.raises(OSError, match="folder"):
            make_caller().download(server.url, tmp_path / "folder")
    assert [path.name for path in tmp_path.iterdir()] == ["folder"]
