"""Content codings: cut anywhere, cut off, several in one, and bombs."""

from __future__ import annotations

import gzip
import random
import sys
import tracemalloc
import zlib
from collections.abc import Callable
from importlib import import_module
from types import SimpleNamespace
from typing import Any

import pytest

from oneloop.http import DecodingError
from oneloop.http.client.codings import MOST_CODINGS, PIECE_BYTES, Decoder, _Brotli, _Gzip, decoder_for

TEXT = b"".join(b"%d words and more words\n" % number for number in range(2000))


def _brotli(data: bytes) -> bytes:
    return import_module("brotli").compress(data, quality=5)  # type: ignore[no-any-return]


def _zstd(data: bytes) -> bytes:
    name = "compression.zstd" if sys.version_info >= (3, 14) else "zstandard"
    return import_module(name).compress(data)  # type: ignore[no-any-return]


CODERS: dict[str, Callable[[bytes], bytes]] = {
    "gzip": gzip.compress,
    "deflate": zlib.compress,
    "deflate, raw": lambda data: zlib.compress(data, wbits=-15),
    "br": _brotli,
    "zstd": _zstd,
}


def decoder_of(name: str) -> Decoder:
    decoder = decoder_for([name.removesuffix(", raw")])
    if decoder is None:
        pytest.skip(f"needs a package for {name}")
    return decoder


@pytest.mark.parametrize("name", CODERS)
@pytest.mark.parametrize("size", [1, 2, 7, 1000, 1 << 20])
def test_cut_anywhere(name: str, size: int) -> None:
    decoder = decoder_of(name)
    data = CODERS[name](TEXT)
    parts = [data[at : at + size] for at in range(0, len(data), size)]
    assert (
        b"".join(b"".join(decoder.pieces(part)) for part in parts) + b"".join(decoder.pieces(b"", is_last=True)) == TEXT
    )


@pytest.mark.parametrize("name", CODERS)
def test_what_is_cut_off_is_an_error(name: str) -> None:
    decoder_of(name)
    data = CODERS[name](TEXT)
    for end in {1, 2, len(data) // 2, len(data) - 1}:
        with pytest.raises(DecodingError):
            decoder_of(name).whole(data[:end])


@pytest.mark.parametrize("name", CODERS)
def test_nothing_at_all_is_nothing(name: str) -> None:
    assert decoder_of(name).whole(b"") == b""


@pytest.mark.parametrize("name", CODERS)
def test_random_bytes(name: str) -> None:
    """DecodingError, or whatever the bytes mean: no other exception."""
    decoder_of(name)
    chance = random.Random(name)
    data = CODERS[name](TEXT)
    for _ in range(300):
        changed = bytearray(data[: chance.randrange(len(data))] if chance.random() < 0.5 else chance.randbytes(50))
        if changed:
            changed[chance.randrange(len(changed))] ^= chance.randrange(256)
        try:
            decoder_of(name).whole(bytes(changed))
        except DecodingError:
            continue


def test_several_members() -> None:
    data = gzip.compress(b"one ") + gzip.compress(b"") + gzip.compress(b"two")
    for size in (1, 2, 3, 1000):
        decoder = decoder_of("gzip")
        parts = [data[at : at + size] for at in range(0, len(data), size)]
        assert b"".join(b"".join(decoder.pieces(part)) for part in parts) == b"one two"
        assert b"".join(decoder.pieces(b"", is_last=True)) == b""
    with pytest.raises(DecodingError):
        decoder_of("gzip").whole(data[:-1])


@pytest.mark.parametrize("coding", CODERS)
def test_a_decoder_gets_a_little_at_a_time(coding: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Decoders copy what they have not used behind each piece and each member: for a long body, a time that squares."""
    decoder = decoder_of(coding)
    (link,) = decoder._chain
    decode, lengths = link.decode, []

    def noting(data: bytes) -> Any:
        lengths.append(len(data))
        return decode(data)

    monkeypatch.setattr(link, "decode", noting)
    text = random.Random(0).randbytes(200_000)
    assert decoder.whole(CODERS[coding](text)) == text
    assert max(lengths) <= 16 * 1024


@pytest.mark.parametrize("behind", [b"\0", bytes(1000), b"garbage", b"\x1f", b"\x1fx"])
def test_what_stands_behind_the_last_member(behind: bytes) -> None:
    """As browsers and curl: it is no part of the body."""
    data = gzip.compress(TEXT) + behind
    assert decoder_of("gzip").whole(data) == TEXT
    decoder = decoder_of("gzip")
    assert b"".join(b"".join(decoder.pieces(data[at : at + 1])) for at in range(len(data))) == TEXT


def test_what_stands_behind_the_last_member_is_not_kept() -> None:
    decoder = _Gzip()
    assert b"".join(decoder.decode(gzip.compress(TEXT) + b"garbage")) == TEXT
    for _ in range(3):
        assert list(decoder.decode(bytes(1000))) == []
    # Not even if it looks like another one later.
    assert list(decoder.decode(gzip.compress(TEXT))) == []
    assert decoder._behind == b""


def test_several_codings() -> None:
    decoder = decoder_for(["deflate", "gzip"])
    assert decoder is not None
    assert decoder.whole(gzip.compress(zlib.compress(TEXT))) == TEXT
    cut = decoder_for(["deflate", "gzip"])
    assert cut is not None
    with pytest.raises(DecodingError):
        cut.whole(gzip.compress(zlib.compress(TEXT)[:-3]))


@pytest.mark.parametrize("name", CODERS)
def test_a_bomb_is_decoded_in_pieces(name: str) -> None:
    decoder = decoder_of(name)
    bomb = CODERS[name](bytes(1 << 28))
    tracemalloc.start()
    try:
        count = 0
        for piece in decoder.pieces(bomb):
            count += len(piece)
            assert len(piece) <= max(PIECE_BYTES, 1 << 25)
            if count > 1 << 26:
                break
        assert tracemalloc.get_traced_memory()[1] < 1 << 27
    finally:
        tracemalloc.stop()
    assert count > 1 << 26


def test_two_bombs_in_each_other() -> None:
    decoder = decoder_for(["gzip", "gzip"])
    assert decoder is not None
    bomb = gzip.compress(gzip.compress(bytes(1 << 28)))
    sizes = [len(piece) for piece in decoder.pieces(bomb)]
    assert sum(sizes) == 1 << 28
    assert max(sizes) <= PIECE_BYTES


@pytest.mark.parametrize("codings", [["gzip"], ["deflate"] * MOST_CODINGS, ["gzip", "unknown"] * 2])
def test_as_many_codings_as_allowed(codings: list[str]) -> None:
    assert decoder_for(codings) is not None
    with pytest.raises(DecodingError, match="content codings"):
        decoder_for(codings + ["gzip"] * (MOST_CODINGS + 1 - len(codings)))


@pytest.mark.parametrize("length", [0, 1, PIECE_BYTES - 1, PIECE_BYTES, PIECE_BYTES + 1, 3 * PIECE_BYTES])
@pytest.mark.parametrize("coding", ["gzip", "deflate"])
def test_lengths_at_the_limit_of_a_piece(coding: str, length: int) -> None:
    """What the decoder still holds when its input is used up belongs to the body."""
    plain = bytes(length)
    decoder = decoder_for([coding])
    assert decoder is not None
    pieces = [*decoder.pieces(gzip.compress(plain) if coding == "gzip" else zlib.compress(plain), is_last=True)]
    assert b"".join(pieces) == plain
    assert max(map(len, pieces), default=0) <= PIECE_BYTES


@pytest.mark.parametrize("coding", ["gzip", "zstd"])
def test_short_ones_behind_each_other(coding: str) -> None:
    """Several members or frames that come together."""
    decoder = decoder_for([coding])
    if decoder is None:
        pytest.skip(f"no package for {coding} is installed")
    body = b"".join(CODERS[coding](text) for text in (b"one ", b"two ", b"three"))
    assert decoder.whole(body) == b"one two three"


def test_brotli_without_a_limit_gets_a_few_bytes_at_a_time() -> None:
    """That before 1.2: a block of 16 MiB takes about fourteen bytes."""

    class Decompressor:
        def process(self, data: bytes) -> bytes:
            assert len(data) <= 8
            return data

    decoder = Decoder([_Brotli(SimpleNamespace(Decompressor=Decompressor))])
    assert decoder.whole(TEXT) == TEXT
