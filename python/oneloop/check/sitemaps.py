"""Parses sitemaps (sitemaps.org) incrementally. Does not read files or request anything.

Document types are refused, and with them entities: they could expand to huge texts ("billion laughs") or include files
of this machine. The depth, the length of a tag or comment and the text of a `loc` are limited too. Only a `loc`
directly inside `url` or `sitemap` counts, in any namespace; images and videos have other `loc` elements.
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
    """The content is not a sitemap, is damaged, or exceeds a limit. `line` is the number of the line."""

    def __init__(self, line: int, reason: str) -> None:
        super().__init__(reason)
        self.line = line


class Sitemap:
    """An incremental parser of one sitemap.

    `is_index` is True if the addresses are those of other sitemaps, and None until the first element was read.
    """

    def __init__(self) -> None:
        self.is_index: bool | None = None
        self._open: list[str] = []  # the elements around the current position
        self._entry = ""
        self._text: list[str] | None = None  # of the current `loc`
        self._text_characters = 0
        self._line = 0  # of the beginning of the current `loc`
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
        """The number of the current line."""
        return self._parser.CurrentLineNumber

    def feed(self, block: bytes) -> list[tuple[int, str]]:
        """Parse a block.

        Args:
            block: the next bytes.

        Returns:
            The complete addresses, each with the number of the line on which it begins.

        Raises:
            SitemapError: the content cannot be read further. `found()` returns the addresses before the error.
        """
        for start in range(0, len(block), _PIECE_BYTES):
            piece = block[start : start + _PIECE_BYTES]
            self._parse(piece, is_last=False)
            self._fed_bytes += len(piece)
            if self._fed_bytes - self._parser.CurrentByteIndex > _TOKEN_BYTES:
                raise SitemapError(self.line, f"a tag or comment of more than {_TOKEN_BYTES} bytes")
        return self.found()

    def end(self) -> list[tuple[int, str]]:
        """Declare the end of the content. Returns the remaining addresses, and raises as `feed` does."""
        self._parse(b"", is_last=True)
        return self.found()

    def flush(self) -> None:
        """Parse all bytes so far, before the content ends with an error. Raises as `feed` does.

        From version 2.6 on, Expat does not parse an unfinished tag again until much more of it has arrived.
        """
        if hasattr(self._parser, "SetReparseDeferralEnabled"):
            self._parser.SetReparseDeferralEnabled(False)
        self._parse(b"", is_last=False)

    def found(self) -> list[tuple[int, str]]:
        """Return the addresses that were found since the last call."""
        found, self._found = self._found, []
        return found

    def _parse(self, piece: bytes, *, is_last: bool) -> None:
        try:
            self._parser.Parse(piece, is_last)
        except expat.ExpatError as error:
            raise SitemapError(error.lineno, f"not valid XML: {expat.ErrorString(error.code)}") from error
        except (LookupError, ValueError) as error:
            raise SitemapError(self.line, f"unknown encoding: {shown(str(error))}") from error

    def _start(self, name: str, attributes: dict[str, str]) -> None:
        name = name.rpartition(":")[2]
        depth = len(self._open)
        if depth == 0:
            if name not in _ENTRIES:
                raise SitemapError(
                    self.line, f"not a sitemap: the first element is <{shown(name)}>, not <urlset> or <sitemapindex>"
                )
            self._entry = _ENTRIES[name]
            self.is_index = name == "sitemapindex"
        elif depth == _DEPTH:
            raise SitemapError(self.line, f"elements are nested more than {_DEPTH} deep")
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
        # Slightly more than the longest URL is kept, so that a longer text is refused as too long.
        if self._text_characters <= URL_CHARACTERS:
            self._text.append(text)
        self._text_characters += len(text)

    def _refuse(self, *_: object) -> None:
        raise SitemapError(self.line, "the sitemap has a document type (DOCTYPE), which is refused: remove it")
