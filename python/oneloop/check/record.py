"""Converts a Result to JSON values and back, for the journal and the outputs."""

from __future__ import annotations

from dataclasses import fields
from typing import Any

from oneloop.check.result import ERRORS, Hop, Result

__all__ = ["FIELDS", "record_of", "result_of", "row_of"]

FIELDS = (
    "url",
    "final_url",
    "status",
    "error",
    "error_text",
    "redirects",
    "dns_s",
    "connect_s",
    "tls_s",
    "first_byte_s",
    "total_s",
    "body_bytes",
    "certificate_end",
    "attempts",
    "number",
)
"""The fields of a Result in the outputs, in this order."""

_DEFAULTS = {field.name: field.default for field in fields(Result)}
_OPTIONAL_TEXT = {"certificate_end"}
_TEXT = {"url", "error_text", "final_url"}
_OPTIONAL_TIME = {"dns_s", "connect_s", "tls_s", "first_byte_s"}
_COUNT = {"number", "attempts", "body_bytes"}


def row_of(result: Result) -> dict[str, Any]:
    """Return the values of FIELDS by name, with times rounded to the microsecond."""
    return {
        "url": result.url,
        "final_url": result.final_url,
        "status": result.status,
        "error": result.error,
        "error_text": result.error_text,
        "redirects": [{"status": hop.status, "url": hop.url} for hop in result.redirects],
        "dns_s": _rounded(result.dns_s),
        "connect_s": _rounded(result.connect_s),
        "tls_s": _rounded(result.tls_s),
        "first_byte_s": _rounded(result.first_byte_s),
        "total_s": _rounded(result.total_s),
        "body_bytes": result.body_bytes,
        "certificate_end": result.certificate_end,
        "attempts": result.attempts,
        "number": result.number,
    }


def _rounded(seconds: float | None) -> float | None:
    return None if seconds is None else round(seconds, 6)


def record_of(result: Result) -> dict[str, Any]:
    """Return a Result as a dict of JSON values. Fields that have their default value are left out."""
    record: dict[str, Any] = {}
    for name, default in _DEFAULTS.items():
        value = getattr(result, name)
        if value != default:
            record[name] = value
    if result.redirects:
        record["redirects"] = [[hop.status, hop.url] for hop in result.redirects]
    return record


def result_of(record: object) -> Result:
    """Make the Result from what `record_of` returned.

    Args:
        record: a decoded JSON value.

    Returns:
        The result.

    Raises:
        ValueError: the record is not a Result; the message says what is wrong.
    """
    if not isinstance(record, dict):
        raise ValueError("not an object")
    for name, value in record.items():
        if name not in _DEFAULTS:
            raise ValueError(f"unknown field {name!r}")
        if not _fits(name, value):
            raise ValueError(f"{name} cannot be {value!r}")
    if "number" not in record or "url" not in record:
        raise ValueError("number or url is missing")
    if "redirects" in record:
        record = {**record, "redirects": tuple(Hop(status, url) for status, url in record["redirects"])}
    fields: dict[str, Any] = record
    return Result(**fields)


def _fits(name: str, value: object) -> bool:
    if name in _COUNT:
        return _is_count(value)
    if name in _TEXT:
        return isinstance(value, str)
    if name in _OPTIONAL_TIME:
        return value is None or _is_time(value)
    if name in _OPTIONAL_TEXT:
        return value is None or isinstance(value, str)
    if name == "total_s":
        return _is_time(value)
    if name == "status":
        return value is None or _is_count(value)
    if name == "error":
        return value is None or value in ERRORS
    return name == "redirects" and isinstance(value, list) and all(map(_is_hop, value))


def _is_count(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value >= 0


def _is_time(value: object) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool)


def _is_hop(value: object) -> bool:
    return isinstance(value, list) and len(value) == 2 and _is_count(value[0]) and isinstance(value[1], str)
