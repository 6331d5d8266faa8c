"""What atheris calls: `python -m tests.fuzz.python_targets NAME [libFuzzer's arguments]`.

Each target takes any bytes. It raises only if oneloop has made a mistake.
"""

from __future__ import annotations

import sys
import tempfile
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import nullcontext, suppress
from email.parser import BytesParser
from email.policy import HTTP
from pathlib import Path
from typing import Any

if __name__ == "__main__":
    import atheris  # type: ignore[import-untyped]

    _instrumented: Any = atheris.instrument_imports(include=["oneloop"])
else:
    _instrumented = nullcontext()

with _instrumented:
    from oneloop.check import lines as lines_module
    from oneloop.check.journal import Journal, JournalError
    from oneloop.check.result import Result
    from oneloop.check.sitemaps import Sitemap, SitemapError
    from oneloop.check.urls import _looked_at, url_of
    from oneloop.http.client.errors import InvalidURL
    from oneloop.http.client.multipart import Multipart
    from oneloop.http.client.urls import URL
    from tests.fuzz import second_opinions

_FOLDER = tempfile.TemporaryDirectory(prefix="oneloop-fuzz-")


def _finished(coroutine: Coroutine[Any, Any, Any]) -> Any:
    """Run what waits for nothing: without a loop, because that would take most of the time."""
    try:
        coroutine.send(None)
    except StopIteration as end:
        return end.value
    raise AssertionError("it waits")


def _cut(data: bytes) -> tuple[bytes, bytes]:
    at = data[0] * len(data) // 255 if data else 0
    return data[1 : at + 1], data[at + 1 :]


def sitemaps(data: bytes) -> None:
    """The addresses do not depend on the blocks, and only a SitemapError is raised."""

    def read(*blocks: bytes) -> tuple[list[str], bool | None, bool]:
        sitemap, found = Sitemap(), []
        try:
            for block in blocks:
                found += sitemap.feed(block)
            found += sitemap.end()
        except SitemapError:
            return [address for _, address in found + sitemap.found()], sitemap.is_index, False
        return [address for _, address in found], sitemap.is_index, True

    head, tail = _cut(data)
    assert read(head + tail) == read(head, tail)


def journal(data: bytes) -> None:
    """A journal of any content is read, or refused as it is; what is added is read again."""
    path = Path(_FOLDER.name, "journal")
    fingerprint = Journal(path, "source")._header()
    # With the right header, the lines are reached.
    content = fingerprint + data[1:] if data[:1] == b"J" else data
    path.write_bytes(content)
    opened = Journal(path, "source")
    try:
        before = list(opened.open())
    except JournalError:
        with suppress(OSError, ValueError):
            opened.close()
        now = path.read_bytes()
        assert content.startswith(now), "a refused journal has changed"
        assert b"\n" not in content[len(now) :], "a refused journal has lost a line"
        return
    free = next(number for number in range(1, len(before) + 2) if all(one.number != number for one in before))
    assert opened.add(Result(number=free, url="https://a.example/", status=200))
    opened.close()
    again = Journal(path, "source")
    after = list(again.open())
    again.close()
    assert [repr(one) for one in after[:-1]] == [repr(one) for one in before]
    assert after[-1].number == free


def urls_to_check(data: bytes) -> None:
    """The fast path accepts what the slow one does, and what is accepted is accepted again."""
    text = data.decode("utf-8", "surrogateescape")
    try:
        url = url_of(text)
    except ValueError:
        return
    assert url == _looked_at(text.strip().lstrip("\ufeff"), None)
    assert url_of(url) == url


def urls(data: bytes) -> None:
    """A URL is parsed, or InvalidURL is raised; what was parsed is a URL again, with the same parts."""
    text = data.decode("utf-8", "replace")
    base, _, reference = text.partition("\n")
    try:
        url = URL(base)
        joined = url.join(reference)
    except InvalidURL:
        return
    for one in (url, joined):
        if one.scheme not in {"", "http", "https", "ws", "wss"}:
            continue  # never sent
        again = URL(str(one))
        assert str(again) == str(one)
        assert (again.scheme, again.host, again.port, again.raw_path) == (one.scheme, one.host, one.port, one.raw_path)
        if one.is_absolute_url:
            assert not set(one.raw_path) & set(b"\r\n\t "), "it could end a line of a head"


def multipart(data: bytes) -> None:
    """CPython's parser of such bodies finds the parts that were sent, whatever their names are."""
    name, _, rest = data.decode("utf-8", "replace").partition("\n")
    filename, _, content = rest.partition("\n")
    body = Multipart(
        {name or "n": content}, {"file": (filename, content.encode(), "text/plain")}, b"a-boundary-of-fuzz"
    )
    sent = b"".join(body)
    assert body.length() == len(sent)
    if b"a-boundary" in data:
        return
    assert sent.count(b"--a-boundary-of-fuzz") == 3
    head = b"Content-Type: " + body.content_type.encode() + b"\r\n\r\n"
    message = BytesParser(policy=HTTP).parsebytes(head + sent)
    assert len(message.get_payload()) == 2
    for part in sent.split(b"--a-boundary-of-fuzz\r\n")[1:]:
        lines, _, _ = part.partition(b"\r\n\r\n")
        for line in lines.split(b"\r\n"):
            assert line.startswith((b"Content-Disposition: form-data; name=", b"Content-Type: text/plain"))
            assert not {*b"\r\n"} & {*line}, "a name ends a line"
            assert line.count(b'"') in (0, 2, 4), "a name ends its quotes"


def lines(data: bytes) -> None:
    """Lines do not depend on the blocks."""

    async def read(*blocks: bytes) -> list[str]:
        async def given() -> AsyncIterator[bytes]:
            for block in blocks:
                yield block

        found: list[str] = []
        async for page in lines_module.lines_of(given()):
            found += [f"too long: {page.text}"] if isinstance(page, lines_module.TooLong) else page
        return found

    head, tail = _cut(data)
    assert _finished(read(head + tail)) == _finished(read(head, tail))


TARGETS: dict[str, Callable[[bytes], None]] = {
    "sitemaps": sitemaps,
    "journal": journal,
    "urls-to-check": urls_to_check,
    "urls": urls,
    "multipart": multipart,
    "lines": lines,
    "llhttp": second_opinions.llhttp,
    "h11": second_opinions.h11_requests,
    "wsproto": second_opinions.wsproto,
}


def main() -> None:
    target = TARGETS[sys.argv.pop(1)]
    atheris.Setup(sys.argv, target)
    atheris.Fuzz()


if __name__ == "__main__":
    main()
