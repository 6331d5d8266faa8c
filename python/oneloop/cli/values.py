"""Values of options that several commands take; argparse calls these functions with an option's text."""

from __future__ import annotations

import argparse

__all__ = ["header", "size"]

_SUFFIXES = {"k": 1 << 10, "m": 1 << 20, "g": 1 << 30}


def header(text: str) -> tuple[str, str]:
    """The name and the value of a header field, written as `Name: value`."""
    name, colon, value = text.partition(":")
    if not colon:
        raise argparse.ArgumentTypeError(f"{text!r} is not Name:Value")
    return name.strip(), value.strip()


def size(text: str) -> int:
    """A number of bytes; 512k, 64m and 2g are short for larger ones."""
    digits, factor = (text[:-1], _SUFFIXES[text[-1].lower()]) if text[-1:].lower() in _SUFFIXES else (text, 1)
    if not (digits.isascii() and digits.isdecimal()):
        raise argparse.ArgumentTypeError(f"{text!r} is not a number of bytes, such as 65536, 64k or 1g")
    return int(digits) * factor
