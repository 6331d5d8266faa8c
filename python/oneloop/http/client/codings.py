"""Content codings: gzip, deflate, br and zstd, decoded piece by piece (RFC 9110 section 8.4).

gzip and deflate are the standard library's; br needs the package `brotli`, zstd Python 3.14 or `zstandard`.
"""

from __future__ import annotations

import zlib
from collections.abc import Callable, Iterator, Sequence
from functools import cache
from importlib import import_module
from typing import Any

from oneloop.http.client.errors import DecodingError

__all__ = ["Decoder", "accepted", "decoder_for"]


PIECE_BYTES = 256 * 1024
"""The most that is decoded in one go, so that a few bytes cannot become gigabytes before anybody counts them."""
_SLICE_BYTES = 1024
"""What a decoder without such a limit gets at a time."""
_BROTLI_SLICE_BYTES = 8
"""The same for brotli, where fourteen bytes can be 16 MiB (RFC 7932 section 9.2)."""
_INPUT_BYTES = 16 * 1024
"""What any decoder gets at a time. zlib copies the rest of its input behind each piece, and behind each member."""
MOST_CODINGS = 5
_MEMBER = b"\x1f\x8b"


class _Zlib:
    """What gzip and deflate have in common."""

    name: str

    def __init__(self, decoder: Any) -> None:
        self._decoder = decoder
        self._has_begun = False

    def _decompress(self, data: bytes) -> Iterator[bytes]:
        piece = data
        while data or len(piece) == PIECE_BYTES:
            self._has_begun = True
            piece = self._decoder.decompress(data, PIECE_BYTES)
            if piece:
                yield piece
            data = self._decoder.unconsumed_tail

    def finish(self) -> Iterator[bytes]:
        if self._has_begun and not self._decoder.eof:
            raise DecodingError(f"the {self.name} data ends too early")
        return iter(())


class _Gzip(_Zlib):
    """Several members may follow each other (RFC 1952 section 2.2). What else comes behind them is no part of it."""

    name = "gzip"

    def __init__(self) -> None:
        super().__init__(zlib.decompressobj(zlib.MAX_WBITS | 16))
        # The first byte of what may be another member; and whether what comes is none.
        self._behind = b""
        self._is_behind = False

    def decode(self, data: bytes) -> Iterator[bytes]:
        while data:
            if self._decoder.eof:
                if self._is_behind:
                    return
                data, self._behind = self._behind + data, b""
                if len(data) < len(_MEMBER) and _MEMBER.startswith(data):
                    self._behind = data
                    return
                self._is_behind = not data.startswith(_MEMBER)
                if self._is_behind:
                    return
                self._decoder = zlib.decompressobj(zlib.MAX_WBITS | 16)
            yield from self._decompress(data)
            data = self._decoder.unused_data


class _Deflate(_Zlib):
    """RFC 9110 means zlib; some servers send raw deflate."""

    name = "deflate"

    def __init__(self) -> None:
        super().__init__(zlib.decompressobj())

    def decode(self, data: bytes) -> Iterator[bytes]:
        if not self._has_begun and data and not _is_zlib(data):
            self._decoder = zlib.decompressobj(-zlib.MAX_WBITS)
        if not self._decoder.eof:
            yield from self._decompress(data)


def _is_zlib(data: bytes) -> bool:
    """Whether the data begins as RFC 1950 section 2.2 says."""
    has_method = data[0] & 0x0F == 8 and data[0] >> 4 <= 7
    return has_method and (len(data) < 2 or (data[0] << 8 | data[1]) % 31 == 0)


class _Brotli:
    def __init__(self, module: Any) -> None:
        self._decoder = module.Decompressor()
        self._decompress = getattr(self._decoder, "decompress", None) or self._decoder.process
        # Since brotli 1.2.
        self._is_limited = hasattr(self._decoder, "can_accept_more_data")
        self._has_begun = False

    def decode(self, data: bytes) -> Iterator[bytes]:
        self._has_begun = self._has_begun or bool(data)
        if not self._is_limited:
            yield from filter(None, map(self._decompress, _slices(data, _BROTLI_SLICE_BYTES)))
            return
        piece: bytes = self._decompress(data, output_buffer_limit=PIECE_BYTES) if data else b""
        while piece or not self._decoder.can_accept_more_data():
            yield piece
            piece = self._decompress(b"", output_buffer_limit=PIECE_BYTES)

    def finish(self) -> Iterator[bytes]:
        is_finished = getattr(self._decoder, "is_finished", None)
        if self._has_begun and is_finished is not None and not is_finished():
            raise DecodingError("the brotli data ends too early")
        return iter(())


class _Zstd:
    """Several frames may follow each other."""

    def __init__(self, make: Callable[[], Any]) -> None:
        self._make = make
        self._decoder = make()
        self._has_begun = False

    def decode(self, data: bytes) -> Iterator[bytes]:
        self._has_begun = self._has_begun or bool(data)
        while data:
            if self._decoder.eof:
                self._decoder = self._make()
            if hasattr(self._decoder, "needs_input"):
                yield from self._limited(data)
                data = self._decoder.unused_data if self._decoder.eof else b""
            else:
                yield self._decoder.decompress(data[:_SLICE_BYTES])
                rest = data[_SLICE_BYTES:]
                data = (self._decoder.unused_data if self._decoder.eof else b"") + rest

    def _limited(self, data: bytes) -> Iterator[bytes]:
        """That of the standard library."""
        yield self._decoder.decompress(data, PIECE_BYTES)
        while not self._decoder.eof and not self._decoder.needs_input:
            yield self._decoder.decompress(b"", PIECE_BYTES)

    def finish(self) -> Iterator[bytes]:
        if self._has_begun and not self._decoder.eof:
            raise DecodingError("the zstd data ends too early")
        return iter(())


def _slices(data: bytes, size: int) -> Iterator[bytes]:
    return (data[at : at + size] for at in range(0, len(data), size))


def _module(*names: str) -> Any:
    for name in names:
        try:
            return import_module(name)
        except ImportError:
            continue
    return None


@cache
def _makers() -> dict[str, Callable[[], Any]]:
    makers: dict[str, Callable[[], Any]] = {"gzip": _Gzip, "deflate": _Deflate}
    brotli = _module("brotli", "brotlicffi")
    if brotli is not None:
        makers["br"] = lambda: _Brotli(brotli)
    zstd = _module("compression.zstd")
    if zstd is not None:
        makers["zstd"] = lambda: _Zstd(zstd.ZstdDecompressor)
    else:
        zstandard = _module("zstandard")
        if zstandard is not None:
            makers["zstd"] = lambda: _Zstd(lambda: zstandard.ZstdDecompressor().decompressobj())
    return makers


@cache
def accepted() -> str:
    """Return the value of Accept-Encoding: what can be decoded here."""
    return ", ".join(_makers())


class Decoder:
    """Decodes a body through all its codings.

    Args:
        chain: the decoders, that of the last coding first.
    """

    def __init__(self, chain: list[Any]) -> None:
        self._chain = chain

    def pieces(self, data: bytes, *, is_last: bool = False) -> Iterator[bytes]:
        """Return what the next part of the body means, in pieces of a limited size; with `is_last`, also its end.

        Raises:
            DecodingError: the data is not what the coding says, or ends too early.
        """
        try:
            yield from _through(self._chain, data, is_last)
        except DecodingError:
            raise
        except Exception as error:
            raise DecodingError(str(error)) from error

    def whole(self, body: bytes) -> bytes:
        """Return what a whole body means; see `pieces`."""
        return b"".join(self.pieces(body, is_last=True))


def _through(chain: Sequence[Any], data: bytes, is_last: bool) -> Iterator[bytes]:
    if not chain:
        if data:
            yield data
        return
    decoder, rest = chain[0], chain[1:]
    for part in _slices(data, _INPUT_BYTES):
        for piece in decoder.decode(part):
            yield from _through(rest, piece, False)
    if is_last:
        for piece in decoder.finish():
            yield from _through(rest, piece, False)
        yield from _through(rest, b"", True)


def decoder_for(codings: list[str]) -> Decoder | None:
    """Return a decoder for the codings of a body, in the order in which they were applied; None: there are none.

    Codings that are unknown are left to the caller.

    Raises:
        DecodingError: there are more than anybody needs.
    """
    makers = _makers()
    if len(codings) > MOST_CODINGS:
        raise DecodingError(f"the body has {len(codings)} content codings")
    chain = [makers[name]() for coding in codings if (name := coding.strip().lower()) in makers]
    return Decoder(chain[::-1]) if chain else None
