"""Sitemaps and their indexes, from files and by `fetch`; hostile ones too."""

from __future__ import annotations

import asyncio
import gzip
import os
import tracemalloc
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from oneloop.check import inputs
from oneloop.check.inputs import Source, read
from oneloop.check.result import BadLine, Target

SPACE = 'xmlns="http://www.sitemaps.org/schemas/sitemap/0.9"'
BASE = "http://a.example/maps/"


def urlset(*urls: str) -> bytes:
    inner = "\n".join(f"<url><loc>{url}</loc><lastmod>2026-01-01</lastmod></url>" for url in urls)
    return f'<?xml version="1.0" encoding="UTF-8"?>\n<urlset {SPACE}>\n{inner}\n</urlset>'.encode()


def index(*urls: str) -> bytes:
    inner = "\n".join(f"<sitemap><loc>{url}</loc></sitemap>" for url in urls)
    return f"<sitemapindex {SPACE}>\n{inner}\n</sitemapindex>".encode()


class Site:
    """Pages by URL; notes what was asked for."""

    def __init__(self, pages: dict[str, bytes], size: int = 1 << 20) -> None:
        self.pages = pages
        self.size = size
        self.asked: list[str] = []

    async def fetch(self, url: str) -> AsyncIterator[bytes]:
        self.asked.append(url)
        if url not in self.pages:
            raise OSError(f"no {url}")
        content = self.pages[url]
        for start in range(0, len(content), self.size):
            yield content[start : start + self.size]

    def read(self, location: str = BASE + "index.xml") -> list[Target | BadLine]:
        return collected(Source(location), self)


def collected(source: Source, site: Site | None = None) -> list[Target | BadLine]:
    async def collect() -> list[Target | BadLine]:
        return [entry async for entry in read(source, fetch=site.fetch if site else None)]

    return asyncio.run(collect())


def brief(found: list[Target | BadLine]) -> list[str]:
    return [f"{one.number} {one.url}" if isinstance(one, Target) else f"{one.line}!" for one in found]


def reason_of(content: bytes, size: int = 1 << 20) -> str:
    """Why a sitemap ends early: its last entry."""
    last = Site({BASE: content}, size).read(BASE)[-1]
    assert isinstance(last, BadLine), last
    return last.reason


@pytest.mark.parametrize("size", [1, 3, 10, 1000])
@pytest.mark.parametrize("packed", [False, True])
def test_a_sitemap(size: int, packed: bool) -> None:
    content = urlset(
        "http://a.example/?b&amp;c", "\n http://b.example/&#228; \n", "c.example", "<![CDATA[http://d.example/]]>"
    )
    found = Site({BASE: gzip.compress(content) if packed else content}, size).read(BASE)
    assert brief(found) == ["1 http://a.example/?b&c", "2 http://b.example/ä", "7!", "4 http://d.example/"]


def test_only_the_pages_own_addresses_count() -> None:
    content = f"""<urlset {SPACE} xmlns:image="urn:i" xmlns:s="urn:s"><loc>http://no.example/</loc>
    <s:url><s:loc>http://a.example/</s:loc><image:image><image:loc>http://no.example/</image:loc></image:image>
    <sitemap><loc>http://no.example/</loc></sitemap></s:url><sitemap><loc>http://no.example/</loc></sitemap>
    <url><loc>http://b<x>no</x>.example/</loc></url></urlset>"""
    assert brief(Site({BASE: content.encode()}).read(BASE)) == ["1 http://a.example/", "2 http://b.example/"]


def test_other_encodings() -> None:
    text = f'<?xml version="1.0" encoding="%s"?><urlset {SPACE}><url><loc>http://a.example/ä</loc></url></urlset>'
    for encoding in ("iso-8859-1", "utf-16", "windows-1252", "utf-8-sig"):
        content = (text % encoding.removesuffix("-sig")).encode(encoding)
        assert brief(Site({BASE: content}).read(BASE)) == ["1 http://a.example/ä"], encoding
    # The latter has several bytes for a character, which expat leaves to others.
    for encoding in ("no-such", "shift_jis"):
        assert "encoding" in reason_of((text % encoding).encode())


def test_so_deep_and_no_deeper() -> None:
    def nested(count: int) -> bytes:
        return b"<urlset>" + b"<a>" * count + b"</a>" * count + b"</urlset>"

    assert Site({BASE: nested(31)}).read(BASE) == []
    assert "elements are nested" in reason_of(nested(32))


@pytest.mark.parametrize("size", [1 << 12, 1 << 13, 1 << 30])
def test_an_address_that_is_too_long_is_not_cut(size: int) -> None:
    """Expat gives texts in pieces of some kilobytes."""
    assert "a URL may have at most" in reason_of(urlset("http://a.example/" + "x" * 40_000), size)


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        (b"", "not valid XML"),
        (b"http://a.example/", "not valid XML"),
        (b"<html><body/></html>", "not a sitemap: the first element is <html>"),
        (urlset("http://a.example/")[:-3], "not valid XML"),
        (urlset("http://a.example/\x01"), "not valid XML"),
        (b'<!DOCTYPE x [<!ENTITY a "b">]><urlset/>', "a document type"),
        (b'<!DOCTYPE urlset SYSTEM "file:///etc/passwd"><urlset/>', "a document type"),
        (urlset("&a;"), "not valid XML: undefined entity"),
        (b"<urlset>" + b"<a>" * 100, "elements are nested"),
        (b"<urlset><!--" + b"x" * 3_000_000, "a tag or comment of more than"),
        (b"<urlset><url x='" + b"x" * 3_000_000, "a tag or comment of more than"),
        (gzip.compress(urlset("http://a.example/"))[:-9], "gzip"),
    ],
)
@pytest.mark.parametrize("size", [5000, 1 << 30])
def test_what_is_no_sitemap_is_a_bad_line(content: bytes, reason: str, size: int) -> None:
    assert reason in reason_of(content, size)


@pytest.mark.parametrize("content", [b"<!DOCTYPE html><html></html>", b"<html></html>", b"hello", b""])
def test_a_page_in_place_of_a_sitemap(content: bytes) -> None:
    """A user may take FILE for a URL to check."""
    hint = "(only a sitemap can be given by its URL; write other URLs into a file)"
    assert reason_of(content).endswith(hint)
    member = "http://a.example/page"
    [found] = Site({BASE: index(member), member: content}).read(BASE)
    assert isinstance(found, BadLine)
    assert hint not in found.reason


def test_what_came_before_damage_counts() -> None:
    content = urlset("http://a.example/", "http://b.example/", "&undefined;")
    assert brief(Site({BASE: content}).read(BASE)) == ["1 http://a.example/", "2 http://b.example/", "5!"]


def test_what_came_before_damaged_gzip_data_counts() -> None:
    """Expat puts off looking at what comes byte by byte."""
    content = urlset("http://a.example/", "http://b.example/", "http://c.example/")
    end = content.index(b"</loc>", content.index(b"b.example")) + len(b"</loc>")
    packed = gzip.compress(content, compresslevel=0)
    packed = packed[: packed.index(content[:20]) + end]
    found = Site({BASE: packed}, 1).read(BASE)
    assert brief(found) == ["1 http://a.example/", "2 http://b.example/", "4!"]


def test_an_empty_piece_is_not_the_end() -> None:
    class Slow(Site):
        async def fetch(self, url: str) -> AsyncIterator[bytes]:
            for piece in (b"", b"<urlset><url><loc>http://a.", b"", b"example/</loc></url></urlset>", b""):
                yield piece

    assert brief(Slow({}).read(BASE)) == ["1 http://a.example/"]


def test_laughs_are_few_and_long_texts_short() -> None:
    laughs = b"<!DOCTYPE l [<!ENTITY a 'ha'>" + b"".join(
        b"<!ENTITY %c '%s'>" % (98 + n, b"&%c;" % (97 + n) * 10) for n in range(12)
    )
    long = urlset("http://a.example/" + "x" * 20_000_000)
    tracemalloc.start()
    try:
        assert "document type" in reason_of(laughs + b"]><urlset><url><loc>&m;</loc></url></urlset>")
        assert "a URL may have at most" in reason_of(long, 10_000)
        assert tracemalloc.get_traced_memory()[1] < 5_000_000
    finally:
        tracemalloc.stop()


def test_an_index_is_read_by_fetch_in_order() -> None:
    site = Site(
        {
            BASE + "index.xml": index(
                BASE + "one.xml", "two.xml.gz", "missing.xml", "file:///etc/passwd", "/three.xml"
            ),
            BASE + "one.xml": urlset("http://one.example/"),
            BASE + "two.xml.gz": gzip.compress(index("deep.xml", BASE + "one.xml", BASE + "index.xml")),
            BASE + "deep.xml": urlset("http://deep.example/", "bad"),
            "http://a.example/three.xml": urlset("http://three.example/"),
        }
    )
    found = site.read()
    urls = [one.url for one in found if isinstance(one, Target)]
    assert urls == ["http://one.example/", "http://deep.example/", "http://three.example/"]
    bad = {one.text: one.reason for one in found if isinstance(one, BadLine)}
    assert "not an http or https URL" in bad["file:///etc/passwd"]
    assert bad[BASE + "missing.xml"] == f"cannot be read: no {BASE}missing.xml (in {BASE}index.xml)"
    assert bad["bad"] == f"no scheme: write https://bad, or use --scheme (in {BASE}deep.xml)"
    assert "named a second time" in bad[BASE + "index.xml"]
    assert len(site.asked) == len(set(site.asked)) == 6
    numbers = [one.number for one in found if isinstance(one, Target)]
    assert numbers == [place for place, one in enumerate(found, 1) if isinstance(one, Target)]


def test_indexes_without_end_end() -> None:
    class Endless(Site):
        async def fetch(self, url: str) -> AsyncIterator[bytes]:
            self.asked.append(url)
            yield index(url + "x", url + "y")

    site = Endless({})
    found = site.read(BASE)
    assert len(site.asked) == 2 ** (inputs.DEPTH + 1) - 1
    assert all(isinstance(one, BadLine) and "deep" in one.reason for one in found)


def test_so_many_members_and_no_more(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(inputs, "MEMBERS", 3)
    pages = {BASE + "index.xml": index(*[f"{n}.xml" for n in range(5)])}
    pages |= {f"{BASE}{n}.xml": urlset(f"http://{n}.example/") for n in range(5)}
    assert brief(Site(pages).read()) == ["5!", "2 http://0.example/", "3 http://1.example/", "4 http://2.example/"]
    monkeypatch.setattr(inputs, "SITEMAPS", 2)
    assert brief(Site(pages).read())[1:3] == ["3!", "4!"]


def test_an_index_that_is_a_file_has_its_members_beside_it(tmp_path: Path) -> None:
    (tmp_path / "secret.xml").write_bytes(urlset("http://secret.example/"))
    folder = tmp_path / "maps"
    folder.mkdir()
    names = [
        "http://a.example/x/one.xml",
        "\n  two.xml\n  ",
        "http://a.example/three.xml?a=/b",
        "../secret.xml",
        f"{tmp_path}/secret.xml",
        "gone.xml",
        "x/..",
        "?",
    ]
    (folder / "index.xml").write_bytes(index(*names, "index.xml"))
    (folder / "one.xml").write_bytes(urlset("http://one.example/"))
    (folder / "two.xml").write_bytes(gzip.compress(urlset("http://two.example/")))
    (folder / "three.xml").write_bytes(urlset("http://three.example/"))
    location = str(folder / "index.xml")
    found = collected(Source(location))
    own = ["http://one.example/", "http://two.example/", "http://three.example/"]
    assert [one.url for one in found if isinstance(one, Target)] == own
    assert len(found) == 9
    refused = [
        one.text
        for one in found
        if isinstance(one, BadLine) and "not the name of a file in the directory" in one.reason
    ]
    assert refused == ["x/..", "?"]
    site = Site({"http://a.example/x/one.xml": urlset("http://fetched.example/")})
    found = collected(Source(location), site)
    assert [one.url for one in found if isinstance(one, Target)] == ["http://fetched.example/", "http://two.example/"]


def test_an_index_on_standard_input_has_nothing_beside_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "one.xml").write_bytes(urlset("http://one.example/"))
    (tmp_path / "index.xml").write_bytes(index("one.xml"))
    before = os.dup(0)
    with (tmp_path / "index.xml").open("rb") as given:
        os.dup2(given.fileno(), 0)
    try:
        found = collected(Source("-", "sitemap"))
    finally:
        os.dup2(before, 0)
        os.close(before)
    assert [str(one).partition("reason=")[2] for one in found] == [
        "'not the name of a file in the directory of the index (in -)')"
    ]


def test_a_site_that_fails_raises() -> None:
    with pytest.raises(OSError, match="no http"):
        Site({}).read()


def test_memory_is_flat() -> None:
    async def fetch(url: str) -> AsyncIterator[bytes]:
        yield b"<urlset>"
        for block in range(40):
            yield b"".join(b"<url><loc>http://a.example/%d</loc></url>" % (1000 * block + n) for n in range(1000))
        yield b"</urlset>"

    async def count() -> int:
        return sum([1 async for _ in read(Source(BASE), fetch=fetch)])

    tracemalloc.start()
    try:
        assert asyncio.run(count()) == 40_000
        assert tracemalloc.get_traced_memory()[1] < 3_000_000
    finally:
        tracemalloc.stop()
