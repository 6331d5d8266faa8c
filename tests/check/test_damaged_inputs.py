"""Inputs that are damaged at random: whatever it is, it is entries, and the same ones however its bytes come."""

from __future__ import annotations

import asyncio
import gzip
import random
from collections.abc import AsyncIterator

import pytest

from oneloop.check.inputs import Form, Source, read
from oneloop.check.result import BadLine, Target

URL = "http://somewhere.example/list"

SEEDS: dict[Form, bytes] = {
    "text": b"\xef\xbb\xbf# x\nhttp://a.example/\r\n\nb.example # c\nhttp://c.example/#d\nhttp://[::1]:80/\xc3\xa4\n",
    "csv": b'\xef\xbb\xbfname,url\r\n"a\nb",http://a.example/\r\n"c","http://b.example/?""x"""\r\n\r\nd;e,f\n',
    "jsonl": b'{"url": "http://a.example/", "x": [1, null]}\n"http://b.example/"\n\n{"url": "c.example"}\r\n[]\n',
    "sitemap": b'<?xml version="1.0"?>\n<urlset xmlns="urn:x">\n<url><loc>http://a.example/?a&amp;b</loc></url>\n'
    b"<!-- x --><url>\n<loc> http://b.example/ </loc><i:i xmlns:i='urn:i'><i:loc>c</i:loc></i:i></url></urlset>",
}
PARTS = [
    b"\n",
    b"\r",
    b'"',
    b",",
    b"#",
    b"\0",
    b"\xff",
    b"\xef\xbb\xbf",
    b"<",
    b">",
    b"&",
    b"{",
    b"]",
    b"http://",
    b":",
    b"\x1f\x8b",
]


def damaged(content: bytes, randomness: random.Random) -> bytes:
    changed = bytearray(content)
    for _ in range(randomness.randrange(5)):
        place = randomness.randrange(len(changed) + 1)
        end = place + randomness.choice([0, 0, 1, 3, 20])
        changed[place:end] = randomness.choice([*PARTS, bytes(changed[place : place + 30]), b""])
    return bytes(changed)


async def entries(content: bytes, form: Form, size: int) -> list[Target | BadLine] | str:
    async def fetch(url: str) -> AsyncIterator[bytes]:
        if url != URL:
            raise OSError
        for start in range(0, len(content), size):
            yield content[start : start + size]
            if size < 10:
                yield b""

    try:
        return [entry async for entry in read(Source(URL, form), fetch=fetch)]
    except ValueError as error:
        # CSV whose header has no such column.
        assert form == "csv"
        return str(error)


@pytest.mark.parametrize("packed", [False, True])
@pytest.mark.parametrize("form", list(SEEDS))
def test_damage_gives_entries_and_the_pieces_do_not_matter(form: Form, packed: bool) -> None:
    randomness = random.Random(13)

    async def look() -> None:
        for _ in range(250):
            content = damaged(SEEDS[form], randomness)
            if packed:
                content = damaged(gzip.compress(content, mtime=0), randomness)
            whole = await entries(content, form, 1 << 20)
            for size in (1, randomness.randrange(2, 40)):
                assert await entries(content, form, size) == whole, content
            numbers = [(place, one) for place, one in enumerate(whole, 1) if isinstance(one, Target)]
            assert all(place == one.number for place, one in numbers)

    asyncio.run(look())
