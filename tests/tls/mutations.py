"""Mutations of what a TLS peer sends: bits, records, lengths, order. Knows the headers of records, and no loops."""

from __future__ import annotations

import random
from collections.abc import Callable

HEADER = 5


def records_of(flight: bytes) -> list[bytes]:
    """The records of a flight, the last one perhaps not whole."""
    found = []
    while flight:
        size = HEADER + int.from_bytes(flight[3:HEADER])
        found.append(flight[:size])
        flight = flight[size:]
    return found


def flip_bits(flight: bytes, chance: random.Random) -> bytes:
    changed = bytearray(flight)
    for _ in range(chance.choice([1, 1, 1, 2, 8])):
        changed[chance.randrange(len(changed))] ^= 1 << chance.randrange(8)
    return bytes(changed)


def set_bytes(flight: bytes, chance: random.Random) -> bytes:
    """To the values at which counts and lengths end."""
    changed = bytearray(flight)
    for _ in range(chance.choice([1, 2])):
        changed[chance.randrange(len(changed))] = chance.choice([0, 1, 0x7F, 0x80, 0xFE, 0xFF])
    return bytes(changed)


def truncate(flight: bytes, chance: random.Random) -> bytes:
    return flight[: chance.randrange(len(flight))]


def cut_out(flight: bytes, chance: random.Random) -> bytes:
    start = chance.randrange(len(flight))
    return flight[:start] + flight[start + chance.choice([1, 2, 16, 200]) :]


def insert_noise(flight: bytes, chance: random.Random) -> bytes:
    start = chance.randrange(len(flight) + 1)
    return flight[:start] + chance.randbytes(chance.choice([1, 2, 16, 300])) + flight[start:]


def noise(flight: bytes, chance: random.Random) -> bytes:
    return chance.randbytes(chance.choice([1, 5, len(flight), 20_000]))


def noise_in_a_record(_flight: bytes, chance: random.Random) -> bytes:
    """A header as it should be, and anything behind it."""
    size = chance.choice([0, 1, 2, 100, 16_384, 16_640, 65_535])
    head = bytes([chance.choice([20, 21, 22, 23, 24]), 3, chance.randrange(5)]) + size.to_bytes(2)
    return head + chance.randbytes(size)


def on_records(change: Callable[[list[bytes], random.Random], None]) -> Callable[[bytes, random.Random], bytes]:
    def mutate(flight: bytes, chance: random.Random) -> bytes:
        records = records_of(flight)
        change(records, chance)
        return b"".join(records)

    mutate.__name__ = change.__name__
    return mutate


@on_records
def duplicate_record(records: list[bytes], chance: random.Random) -> None:
    index = chance.randrange(len(records))
    records[index:index] = [records[index]] * chance.choice([1, 1, 5])


@on_records
def reorder_records(records: list[bytes], chance: random.Random) -> None:
    if len(records) == 1:
        records.append(records[0][::-1])
    chance.shuffle(records)


@on_records
def drop_record(records: list[bytes], chance: random.Random) -> None:
    del records[chance.randrange(len(records))]


@on_records
def change_header(records: list[bytes], chance: random.Random) -> None:
    index = chance.randrange(len(records))
    changed = bytearray(records[index])
    changed[chance.randrange(min(HEADER, len(changed)))] = chance.randrange(256)
    records[index] = bytes(changed)


@on_records
def split_record(records: list[bytes], chance: random.Random) -> None:
    """Into two records; of a handshake that is no fault before keys are in use."""
    index = chance.randrange(len(records))
    head, body = records[index][:3], records[index][HEADER:]
    cut = chance.randrange(len(body) + 1)
    records[index : index + 1] = [head + len(part).to_bytes(2) + part for part in (body[:cut], body[cut:])]


@on_records
def add_records(records: list[bytes], chance: random.Random) -> None:
    """Alerts, empty records, changes of cipher where none belong."""
    extra = chance.choice(
        [
            b"\x15\x03\x03\0\x02\x01\0",
            b"\x15\x03\x03\0\x02\x02\x28",
            b"\x15\x03\x03\0\x02\x01\x5a",
            b"\x16\x03\x03\0\0",
            b"\x17\x03\x03\0\0",
            b"\x14\x03\x03\0\x01\x01",
            b"\x18\x03\x03\0\x03\x01\x40\0",
        ]
    )
    records[chance.randrange(len(records) + 1) : 0] = [extra] * chance.choice([1, 1, 40])


MUTATIONS = [
    flip_bits,
    flip_bits,
    set_bytes,
    truncate,
    cut_out,
    insert_noise,
    noise,
    noise_in_a_record,
    duplicate_record,
    reorder_records,
    drop_record,
    change_header,
    split_record,
    add_records,
]
