"""Parsers for option values that several commands use. argparse calls them with the option's text."""

from __future__ import annotations

import argparse

__all__ = ["header", "size"]

_SUFFIXES = {"k": 1 << 10, "m": 1 << 20, "g": 1 << 30}


def header(text: str) -> tuple[str, str]:
    """Parse a header field.

    Args:
        text: the field, as `Name: value`.

    Returns:
        The name and the value.

    Raises:
        argparse.ArgumentTypeError: there is no colon.
    """
    name, colon, value = text.partition(":")
    if not colon:
        raise argparse.ArgumentTypeError(f"{text!r} is not a header field: write Name:Value")
    return name.strip(), value.strip()


def size(text: str) -> int:
    """Parse a number of bytes.

    Args:
        text: the number, optionally with the suffix k, m or g (powers of 1024).

    Returns:
        The number of bytes.

    Raises:
        argparse.ArgumentTypeError: it is not a number.
    """
    digits, factor = (text[:-1], _SUFFIXES[text[-1].lower()]) if text[-1:].lower() in _SUFFIXES else (text, 1)
    if not (digits.isascii() and digits.isdecimal()):
        raise argparse.ArgumentTypeError(f"{text!r} is not a number of bytes, such as 65536, 64k or 1g")
    return int(digits) * factor
