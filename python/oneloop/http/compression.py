"""The settings of `--compress` for the native server: the codings that can be made here, and their encoders.

The native server decides which responses are compressed (`crates/native/src/http/exchange/compression.rs`). It calls an
encoder with each part of a body and whether more follows. Each part is flushed, so that the client can read it at once.
"""

from __future__ import annotations

import zlib
from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = ["encoders", "settings"]

LEAST_BYTES = 1024
"""A body that fits into one packet arrives no earlier if it is shorter."""
MOST_BYTES = 4 << 20
"""The loop waits for the encoder. What is longer belongs into a file that is compressed once."""

# Levels for responses that are compressed while the client waits.
_GZIP_LEVEL = 5
_BROTLI_QUALITY = 4
_ZSTD_LEVEL = 3


def settings() -> tuple[list[tuple[str, Callable[[], Any]]], int, int]:
    """Return the value of the native server's option `compress`."""
    return encoders(), LEAST_BYTES, MOST_BYTES


def encoders() -> list[tuple[str, Callable[[], Any]]]:
    """Return the codings that this interpreter can make and their encoders, the quickest first.

    gzip is the standard library's; zstd needs Python 3.14 or the package `zstandard`, br the package `brotli`.
    """
    found = [("zstd", _zstd()), ("br", _brotli()), ("gzip", _gzip)]
    return [(name, make) for name, make in found if make is not None]


def _gzip() -> Callable[[bytes, bool], bytes]:
    packer = zlib.compressobj(_GZIP_LEVEL, zlib.DEFLATED, zlib.MAX_WBITS | 16)
    compress, flush = packer.compress, packer.flush

    def encode(data: bytes, more: bool) -> bytes:
        return compress(data) + flush(zlib.Z_SYNC_FLUSH if more else zlib.Z_FINISH)

    return encode


def _brotli() -> Callable[[], Callable[[bytes, bool], bytes]] | None:
    module = _module("brotli")
    if module is None:
        return None

    def make() -> Callable[[bytes, bool], bytes]:
        packer = module.Compressor(quality=_BROTLI_QUALITY)
        # brotlicffi has the other name.
        compress = getattr(packer, "process", None) or packer.compress

        def encode(data: bytes, more: bool) -> bytes:
            packed: bytes = compress(data) + (packer.flush() if more else packer.finish())
            return packed

        return encode

    return make


def _zstd() -> Callable[[], Callable[[bytes, bool], bytes]] | None:
    return _zstd_of_python() or _zstandard()


def _zstd_of_python() -> Callable[[], Callable[[bytes, bool], bytes]] | None:
    module = _module("compression.zstd")
    if module is None:
        return None

    def make() -> Callable[[bytes, bool], bytes]:
        packer = module.ZstdCompressor(level=_ZSTD_LEVEL)

        def encode(data: bytes, more: bool) -> bytes:
            packed: bytes = packer.compress(data, packer.FLUSH_BLOCK if more else packer.FLUSH_FRAME)
            return packed

        return encode

    return make


def _zstandard() -> Callable[[], Callable[[bytes, bool], bytes]] | None:
    module = _module("zstandard")
    if module is None:
        return None

    def make() -> Callable[[bytes, bool], bytes]:
        packer = module.ZstdCompressor(level=_ZSTD_LEVEL).compressobj()

        def encode(data: bytes, more: bool) -> bytes:
            mode = module.COMPRESSOBJ_FLUSH_BLOCK if more else module.COMPRESSOBJ_FLUSH_FINISH
            packed: bytes = packer.compress(data) + packer.flush(mode)
            return packed

        return encode

    return make


def _module(name: str) -> Any:
    try:
        return import_module(name)
    except ImportError:
        return None
