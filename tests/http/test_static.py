"""Static files: what a folder answers, and that nothing outside of it ever is."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from oneloop.http.static import Static, StaticAnswer


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    public = tmp_path / "public"
    (public / "deep").mkdir(parents=True)
    (tmp_path / "secret.txt").write_text("secret")
    (tmp_path / "public-too").mkdir()
    (tmp_path / "public-too" / "x.txt").write_text("secret")
    (public / "page.html").write_text("<p>hello</p>")
    (public / "data.bin").write_bytes(bytes(range(256)))
    (public / "empty.txt").touch()
    (public / "deep" / "index.html").write_text("index")
    (public / ".hidden").write_text("secret")
    (public / "out.txt").symlink_to(tmp_path / "secret.txt")
    (public / "in.txt").symlink_to(public / "page.html")
    (public / "app.js").write_text("long " * 100)
    (public / "app.js.gz").write_bytes(b"gzipped")
    (public / "app.js.br").write_bytes(b"brotli")
    return public


class Asked:
    """An answer, with its body read and its file closed."""

    def __init__(self, found: StaticAnswer) -> None:
        self.status = found.status
        self.headers = dict(found.headers)
        self.body = found.body
        if found.file is not None:
            self.body = os.pread(found.file.fd, found.file.length, found.file.start)
            assert len(self.body) == int(self.headers["content-length"])
            found.file.close()


def ask(static: Static, path: str, method: str = "GET", **headers: str) -> Asked:
    found = static.answer(method, path, {name.replace("_", "-"): text for name, text in headers.items()})
    assert found is not None
    return Asked(found)


@pytest.fixture
def static(folder: Path) -> Static:
    return Static("/s", str(folder))


def test_a_file(static: Static) -> None:
    found = ask(static, "/s/page.html")
    assert (found.status, found.body) == (200, b"<p>hello</p>")
    assert found.headers["content-type"] == "text/html; charset=utf-8"
    assert found.headers["x-content-type-options"] == "nosniff"
    assert found.headers["accept-ranges"] == "bytes"
    assert ask(static, "/s/empty.txt").headers["content-length"] == "0"
    assert ask(static, "/s/data.bin").headers["content-type"] == "application/octet-stream"
    assert ask(static, "/s/in.txt").body == b"<p>hello</p>"


def test_head_has_the_fields_of_get(static: Static) -> None:
    get, head = ask(static, "/s/page.html"), ask(static, "/s/page.html", "HEAD")
    assert (head.status, head.headers, head.body) == (200, get.headers, b"")


def test_other_methods_are_not_allowed(static: Static) -> None:
    found = ask(static, "/s/page.html", "POST")
    assert (found.status, found.headers["allow"]) == (405, "GET, HEAD")


def test_other_paths_are_the_applications(static: Static, folder: Path) -> None:
    assert static.answer("GET", "/static", {}) is None
    assert static.answer("GET", "/", {}) is None
    over_all = Static("/", str(folder))
    assert over_all.answer("GET", "/nothing", {}) is None
    assert over_all.answer("POST", "/page.html", {}) is None
    assert ask(over_all, "/page.html").status == 200


@pytest.mark.parametrize(
    "names",
    [
        "nothing", ".hidden", "out.txt", "../secret.txt", "deep/../../secret.txt", "..", "deep/..", "/etc/passwd",
        "page.html/", "page.html/x", "a\0b", "//etc/passwd", "../public-too/x.txt", "x" * 5000,
    ],
)  # fmt: skip
def test_what_is_not_there_for_clients(static: Static, names: str) -> None:
    assert ask(static, "/s/" + names).status == 404


def test_directories(static: Static) -> None:
    assert ask(static, "/s/deep/").body == b"index"
    found = ask(static, "/s/deep")
    assert (found.status, found.headers["location"]) == (308, "/s/deep/")
    assert ask(static, "/s").headers["location"] == "/s/"
    assert ask(static, "/s/").status == 404


@pytest.mark.parametrize(
    ("asked", "status", "body", "content_range"),
    [
        ("bytes=0-3", 206, bytes(range(4)), "bytes 0-3/256"),
        ("bytes=250-", 206, bytes(range(250, 256)), "bytes 250-255/256"),
        ("bytes=-2", 206, bytes([254, 255]), "bytes 254-255/256"),
        ("bytes=-999", 206, bytes(range(256)), "bytes 0-255/256"),
        ("bytes=0-", 206, bytes(range(256)), "bytes 0-255/256"),
        ("bytes=10-9999", 206, bytes(range(10, 256)), "bytes 10-255/256"),
        ("bytes=256-", 416, b"", "bytes */256"),
        ("bytes=-0", 416, b"", "bytes */256"),
        ("bytes=5-2", 200, bytes(range(256)), None),
        ("bytes=0-1,3-4", 200, bytes(range(256)), None),
        ("lines=1-2", 200, bytes(range(256)), None),
        ("bytes=-", 200, bytes(range(256)), None),
        ("bytes=a-b", 200, bytes(range(256)), None),
        ("bytes=" + "9" * 30 + "-", 200, bytes(range(256)), None),
    ],
)
def test_ranges(static: Static, asked: str, status: int, body: bytes, content_range: str | None) -> None:
    found = ask(static, "/s/data.bin", range=asked)
    assert (found.status, found.body, found.headers.get("content-range")) == (status, body, content_range)


def test_conditions(static: Static) -> None:
    first = ask(static, "/s/data.bin").headers
    etag, modified = first["etag"], first["last-modified"]
    for headers in (
        {"if_none_match": etag},
        {"if_none_match": f'"x", W/{etag}'},
        {"if_none_match": "*"},
        {"if_modified_since": modified},
    ):
        found = ask(static, "/s/data.bin", **headers)
        assert (found.status, found.headers["etag"], found.body) == (304, etag, b"")
    # The tag counts where both are given.
    assert ask(static, "/s/data.bin", if_none_match='"x"', if_modified_since=modified).status == 200
    assert ask(static, "/s/data.bin", if_modified_since="yesterday").status == 200
    assert ask(static, "/s/data.bin", range="bytes=0-1", if_range=etag).status == 206
    assert ask(static, "/s/data.bin", range="bytes=0-1", if_range='"x"').status == 200


@pytest.mark.parametrize(
    ("accepted", "coding", "body"),
    [
        ("gzip, br", "br", b"brotli"),
        ("gzip", "gzip", b"gzipped"),
        ("br;q=0, gzip;q=0.5", "gzip", b"gzipped"),
        ("GZIP", "gzip", b"gzipped"),
        ("identity", None, b"long " * 100),
        ("", None, b"long " * 100),
    ],
)
def test_precompressed(static: Static, accepted: str, coding: str | None, body: bytes) -> None:
    found = ask(static, "/s/app.js", accept_encoding=accepted)
    assert (found.headers.get("content-encoding"), found.body) == (coding, body)
    assert found.headers["vary"] == "accept-encoding"
    assert found.headers["content-type"] == "text/javascript; charset=utf-8"
    plain = ask(static, "/s/app.js").headers["etag"]
    assert (found.headers["etag"] == plain) == (coding is None)


def test_a_compressed_file_that_is_older_is_left_out(static: Static, folder: Path) -> None:
    for suffix in (".gz", ".br"):
        os.utime(folder / f"app.js{suffix}", (0, 0))
    found = ask(static, "/s/app.js", accept_encoding="gzip, br")
    assert "content-encoding" not in found.headers


def test_a_fifo_is_not_waited_for(static: Static, folder: Path) -> None:
    os.mkfifo(folder / "pipe")
    assert ask(static, "/s/pipe").status == 404


PARTS = st.sampled_from(
    ["..", ".", "", "deep", "secret.txt", "public-too", "x.txt", "out.txt", "etc", "passwd", "\0", "%2e"]
)


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(parts=st.lists(PARTS, max_size=6))
def test_no_path_leads_out(static: Static, parts: list[str]) -> None:
    found = ask(static, "/s/" + "/".join(parts))
    assert b"secret" not in found.body


def test_a_file_in_memory_is_what_the_file_is(static: Static, folder: Path) -> None:
    page = folder / "page.html"
    os.utime(page, (1, 1))
    first = ask(static, "/s/page.html")
    assert ask(static, "/s/page.html").body is first.body
    assert ask(static, "/s/page.html", if_none_match=first.headers["etag"]).status == 304
    page.write_text("changed")
    assert ask(static, "/s/page.html").body == b"changed"
    os.utime(page, (2, 2))
    assert ask(static, "/s/page.html").body == b"changed"
    page.unlink()
    assert ask(static, "/s/page.html").status == 404
    page.symlink_to(folder.parent / "secret.txt")
    assert ask(static, "/s/page.html").status == 404


def test_a_file_that_was_just_written_is_not_kept(static: Static, folder: Path) -> None:
    assert ask(static, "/s/page.html").body is not ask(static, "/s/page.html").body
