"""What a sitemap says (sitemaps.org), read as its bytes come; knows no files and fetches nothing.

Document types are refused, and with them entities: neither billions of laughs nor files of this machine. All else is
bounded too: depth, the length of a tag or comment, the text of a `loc`. Only `loc` right below `url` or `sitemap`
counts, whatever the namespace: images and videos have their own.
"""

from __future__ import annotations

from xml.parsers import expat

from oneloop.check.urls import URL_CHARACTERS, shown

__all__ = ["Sitemap", "SitemapError"]

_DEPTH = 32
_TOKEN_BYTES = 1024 * 1024
_ENTRIES = {"urlset": "url", "sitemapindex": "sitemap"}
_PIECE_BYTES = 64 * 1024


class SitemapError(Exception):
    """It is no sitemap, or one that may not be read; `line` says where."""

    def __init__(self, line: int, reason: str) -> None:
        super().__init__(reason)
        self.line = line


class Sitemap:
    """Takes bytes, gives the addresses in them. `is_index`: they are other sitemaps'. None until it is known."""

    def __init__(self) -> None:
        self.is_index: bool | None = None
        self._open: list[str] = []  # the elements around
        self._entry = ""
        self._text: list[str] | None = None  # of the `loc` that is read
        self._text_characters = 0
        self._line = 0  # where it begins
        self._found: list[tuple[int, str]] = []
        self._fed_bytes = 0
        parser = self._parser = expat.ParserCreate()
        parser.buffer_text = True
        parser.StartElementHandler = self._start
        parser.EndElementHandler = self._end
        parser.CharacterDataHandler = self._characters
        parser.StartDoctypeDeclHandler = self._refuse
        parser.EntityDeclHandler = self._refuse

    @property
    def line(self) -> int:
        """Which line is read."""
        return self._parser.CurrentLineNumber

    def feed(self, block: bytes) -> list[tuple[int, str]]:
        """The addresses that have ended, each with the line on which it begins.

        Raises:
            SitemapError: it cannot be read further. What was found before it is in `found()`.
        """
        for start in range(0, len(block), _PIECE_BYTES):
            piece = block[start : start + _PIECE_BYTES]
            self._parse(piece, is_last=False)
            self._fed_bytes += len(piece)
            if self._fed_bytes - self._parser.CurrentByteIndex > _TOKEN_BYTES:
                raise SitemapError(self.line, f"a tag or comment of more than {_TOKEN_BYTES} bytes")
        return self.found()

    def end(self) -> list[tuple[int, str]]:
        """What is left when there are no more bytes; raises as `feed`."""
        self._parse(b"", is_last=True)
        return self.found()

    def flush(self) -> None:
        """Look at all that has come, if there is to be no more; raises as `feed`.

        Expat puts off a look at an unfinished tag until there is much more of it (from 2.6 on).
        """
        if hasattr(self._parser, "SetReparseDeferralEnabled"):
            self._parser.SetReparseDeferralEnabled(False)
        self._parse(b"", is_last=False)

    def found(self) -> list[tuple[int, str]]:
        """The addresses since the last call."""
        found, self._found = self._found, []
        return found

    def _parse(self, piece: bytes, *, is_last: bool) -> None:
        try:
            self._parser.Parse(piece, is_last)
        except expat.ExpatError as error:
            raise SitemapError(error.lineno, f"no XML: {expat.ErrorString(error.code)}") from error
        except (LookupError, ValueError) as error:
            raise SitemapError(self.line, f"an encoding that is not known: {shown(str(error))}") from error

    def _start(self, name: str, attributes: dict[str, str]) -> None:
        name = name.rpartition(":")[2]
        depth = len(self._open)
        if depth == 0:
            if name not in _ENTRIES:
                raise SitemapError(self.line, f"no sitemap: <{shown(name)}> in place of <urlset> or <sitemapindex>")
            self._entry = _ENTRIES[name]
            self.is_index = name == "sitemapindex"
        elif depth == _DEPTH:
            raise SitemapError(self.line, f"elements within elements, more than {_DEPTH} deep")
        elif depth == 2 and name == "loc" and self._open[1] == self._entry:
            self._text = []
            self._text_characters = 0
            self._line = self.line
        self._open.append(name)

    def _end(self, name: str) -> None:
        self._open.pop()
        if self._text is not None and len(self._open) == 2:
            self._found.append((self._line, "".join(self._text).strip()))
            self._text = None

    def _characters(self, text: str) -> None:
        if self._text is None or len(self._open) != 3:
            return
        # One character too much is kept, and makes it too long for a URL.
        if self._text_characters <= URL_CHARACTERS:
            self._text.append(text)
        self._text_characters += len(text)

    def _refuse(self, *_: object) -> None:
        raise SitemapError(self.line, "a document type: entities are not read")
