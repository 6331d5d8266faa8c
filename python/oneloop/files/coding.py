"""Text from bytes and bytes from text: how a file does it, and without holding up the loop where that is much."""

from __future__ import annotations

import codecs
import io
import locale
from functools import lru_cache
from typing import TYPE_CHECKING, NamedTuple

from oneloop import _native

if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = ["CLEAN", "Style", "decoded", "decoder_of", "encoder_of", "ended", "pieces_of", "style_of"]

# What a decoder's `getstate` gives when it keeps nothing back.
CLEAN = (b"", 0)

PIECE = 64 * 1024
"""Bytes, or characters, that are decoded or encoded at once: some 0.3 ms."""

# Encoded without a state, so that str.encode() does it; what is missing here goes through an incremental encoder.
STATELESS = frozenset({"utf-8", "ascii", "iso8859-1", "utf-16-le", "utf-16-be", "utf-32-le", "utf-32-be", "cp1252"})

# Where ASCII characters are bytes, and other bytes are no ASCII characters.
ASCII_BASED = frozenset({"utf-8", "ascii", "iso8859-1", "cp1252"})


class Style(NamedTuple):
    """How a text file turns bytes into text."""

    encoding: str
    errors: str
    newline: str | None
    is_stateless: bool
    is_ascii_based: bool
    # UTF-8, and nothing else that the program would have to be asked about.
    is_utf8: bool


def style_of(encoding: str | None, errors: str | None, newline: str | None) -> Style:
    """Check these arguments of `open()`, and look up what they mean.

    Raises:
        TypeError, ValueError, LookupError: as `open()` raises them.
    """
    if encoding == "locale":
        # It may be another one the next time.
        encoding = locale.getencoding()
    if not (type(encoding) is str and (errors is None or type(errors) is str)):
        return _style_of.__wrapped__(encoding, errors, newline)
    return _style_of(encoding, errors, newline)


@lru_cache(maxsize=64)
def _style_of(encoding: str | None, errors: str | None, newline: str | None) -> Style:
    # io's own class knows best what it takes.
    wrapper = io.TextIOWrapper(io.BytesIO(), encoding, errors, newline)
    codec = codecs.lookup(wrapper.encoding)
    handling = wrapper.errors or "strict"
    is_utf8 = codec.name == "utf-8" and handling == "strict"
    return Style(wrapper.encoding, handling, newline, codec.name in STATELESS, codec.name in ASCII_BASED, is_utf8)


def decoder_of(style: Style) -> codecs.IncrementalDecoder:
    """A new decoder, which also does with line ends what the style says."""
    decoder: codecs.IncrementalDecoder = codecs.getincrementaldecoder(style.encoding)(style.errors)
    if not style.newline:
        # It has a decoder's methods.
        decoder = io.IncrementalNewlineDecoder(decoder, translate=style.newline is None)  # type: ignore[assignment]
    return decoder


def encoder_of(style: Style) -> Callable[[str], bytes]:
    """What encodes one piece after the other."""
    if style.is_stateless:
        return lambda text: text.encode(style.encoding, style.errors)
    return codecs.getincrementalencoder(style.encoding)(style.errors).encode


def ended(text: str, style: Style) -> str:
    """The text with the line ends that it is written with."""
    newline = style.newline
    return text.replace("\n", newline) if newline and newline != "\n" and "\n" in text else text


async def decoded(files: _native.Files, data: bytes, decoder: codecs.IncrementalDecoder, style: Style) -> str:
    """Decode the last of a text; what is long in UTF-8 on a thread, without the GIL, all else in pieces.

    Raises:
        UnicodeDecodeError: as `decoder.decode(data, True)`.
    """
    if len(data) <= PIECE:
        return decoder.decode(data, True)
    state = decoder.getstate()
    if style.is_utf8 and state == CLEAN:
        found = await files.call(_native.decode_utf8, data, style.newline is None)
        # Where it is wrong, the decoder says.
        if found is not None:
            text, ends = found
            if not style.newline:
                # For `newlines`.
                for end in ends:
                    decoder.decode(end, True)
            return text
    pieces = []
    for start in range(0, len(data), PIECE):
        piece = data[start : start + PIECE]
        try:
            pieces.append(decoder.decode(piece, start + PIECE >= len(data)))
        except UnicodeError as error:
            decoder.setstate(state)
            if not (style.is_utf8 and isinstance(error, UnicodeDecodeError)):
                # Where such an error begins and ends may depend on what comes before and behind.
                return decoder.decode(data, True)
            # It is to tell of the whole, at whose beginning stands what the decoder had kept before, as at the piece's.
            before = bytes(state[0])
            shift = len(before) + start - (len(error.object) - len(piece))
            whole = before + data
            raise UnicodeDecodeError(
                error.encoding, whole, error.start + shift, error.end + shift, error.reason
            ) from None
        if files.is_spent():
            await files.later()
    return await files.call(_native.join_text, pieces)


async def pieces_of(files: _native.Files, text: str, encode: Callable[[str], bytes]) -> list[bytes]:
    """Encode a text, all of it before anything is written: what is long in pieces, with ticks between them.

    Raises:
        UnicodeEncodeError: as `encode(text)`.
    """
    if len(text) <= PIECE:
        return [encode(text)]
    pieces = []
    for start in range(0, len(text), PIECE):
        piece = text[start : start + PIECE]
        try:
            pieces.append(encode(piece))
        except UnicodeEncodeError as error:
            if error.object != piece:
                # Its line ends were translated: the error is to tell of the whole as it was then.
                encode(text)
            raise UnicodeEncodeError(
                error.encoding, text, error.start + start, error.end + start, error.reason
            ) from None
        if files.is_spent():
            await files.later()
    return pieces
