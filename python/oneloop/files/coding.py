"""Encoding and decoding of text files. Long texts are processed in pieces or on a thread, to not block the loop."""

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

# The result of a decoder's `getstate` when it keeps no bytes back.
CLEAN = (b"", 0)

PIECE = 64 * 1024
"""Bytes or characters that are decoded or encoded in one call: about 0.3 ms."""

# Encodings without state: str.encode() is used. All others need an incremental encoder.
STATELESS = frozenset({"utf-8", "ascii", "iso8859-1", "utf-16-le", "utf-16-be", "utf-32-le", "utf-32-be", "cp1252"})

# Encodings in which each ASCII character is the byte of the same value, and all other bytes are not ASCII characters.
ASCII_BASED = frozenset({"utf-8", "ascii", "iso8859-1", "cp1252"})


class Style(NamedTuple):
    """How a text file encodes and decodes."""

    encoding: str
    errors: str
    newline: str | None
    is_stateless: bool
    is_ascii_based: bool
    # UTF-8 with errors="strict", for which the native decoder is used.
    is_utf8: bool


def style_of(encoding: str | None, errors: str | None, newline: str | None) -> Style:
    """Check these arguments of `open()` and look up the codec.

    Raises:
        TypeError, ValueError, LookupError: as `open()` raises them.
    """
    if encoding == "locale":
        # The locale can change, so resolve the name before the cache.
        encoding = locale.getencoding()
    if not (type(encoding) is str and (errors is None or type(errors) is str)):
        return _style_of.__wrapped__(encoding, errors, newline)
    return _style_of(encoding, errors, newline)


@lru_cache(maxsize=64)
def _style_of(encoding: str | None, errors: str | None, newline: str | None) -> Style:
    # Let io's class check the arguments, so that the errors are the same.
    wrapper = io.TextIOWrapper(io.BytesIO(), encoding, errors, newline)
    codec = codecs.lookup(wrapper.encoding)
    handling = wrapper.errors or "strict"
    is_utf8 = codec.name == "utf-8" and handling == "strict"
    return Style(wrapper.encoding, handling, newline, codec.name in STATELESS, codec.name in ASCII_BASED, is_utf8)


def decoder_of(style: Style) -> codecs.IncrementalDecoder:
    """Return a new decoder that also translates line ends if the style needs it."""
    decoder: codecs.IncrementalDecoder = codecs.getincrementaldecoder(style.encoding)(style.errors)
    if not style.newline:
        # It has the same methods, but is not a subclass.
        decoder = io.IncrementalNewlineDecoder(decoder, translate=style.newline is None)  # type: ignore[assignment]
    return decoder


def encoder_of(style: Style) -> Callable[[str], bytes]:
    """Return a function that encodes consecutive pieces of a text."""
    if style.is_stateless:
        return lambda text: text.encode(style.encoding, style.errors)
    return codecs.getincrementalencoder(style.encoding)(style.errors).encode


def ended(text: str, style: Style) -> str:
    """Return the text with its line ends translated for writing."""
    newline = style.newline
    return text.replace("\n", newline) if newline and newline != "\n" and "\n" in text else text


async def decoded(files: _native.Files, data: bytes, decoder: codecs.IncrementalDecoder, style: Style) -> str:
    """Decode the last part of a text. Long UTF-8 is decoded on a thread without the GIL, other text in pieces.

    Raises:
        UnicodeDecodeError: as `decoder.decode(data, True)`.
    """
    if len(data) <= PIECE:
        return decoder.decode(data, True)
    state = decoder.getstate()
    if style.is_utf8 and state == CLEAN:
        found = await files.call(_native.decode_utf8, data, style.newline is None)
        # If it is not valid UTF-8, the decoder below raises the error with its position.
        if found is not None:
            text, ends = found
            if not style.newline:
                # Let the decoder see the line ends, for the file's `newlines` attribute.
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
                # The position of such an error can depend on the surrounding text: decode everything in one call.
                return decoder.decode(data, True)
            # The error must refer to all of the data, including the bytes that the decoder had kept before it.
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
    """Encode a whole text before anything is written. A long text is encoded in pieces, with loop ticks between them.

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
                # The encoder translated the text, so the error has other positions: encode everything in one call.
                encode(text)
            raise UnicodeEncodeError(
                error.encoding, text, error.start + start, error.end + start, error.reason
            ) from None
        if files.is_spent():
            await files.later()
    return pieces
