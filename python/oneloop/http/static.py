"""The folders of `--static` for the native server: their URLs and paths, and the content types of their files.

The answers themselves are native (`crates/native/src/http/static_files.rs`): nothing here runs for a request.
"""

from __future__ import annotations

import functools
import mimetypes
import os
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

__all__ = ["content_types", "settings"]

# What the standard library's table lacks in some of the versions that are supported.
_FURTHER = {
    ".avif": "image/avif",
    ".js": "text/javascript",
    ".md": "text/markdown",
    ".mjs": "text/javascript",
    ".wasm": "application/wasm",
    ".webmanifest": "application/manifest+json",
    ".webp": "image/webp",
    ".woff": "font/woff",
    ".woff2": "font/woff2",
}
_TEXTS = ("application/json", "application/xml", "image/svg+xml")


def settings(
    folders: Sequence[tuple[str, str]], reserved: Sequence[str]
) -> tuple[list[tuple[str, str]], Mapping[str, str], list[str]]:
    """Make the option `static` of the native server.

    Args:
        folders: URLs, and the folders that they stand for.
        reserved: paths that are no file's, whatever folder they lie in.
    """
    # Relative paths are those of now, should the application change its folder.
    made = [(url, os.path.abspath(folder)) for url, folder in folders]  # noqa: PTH100 - links stay what they are
    return made, content_types(), list(reserved)


@functools.cache
def content_types() -> Mapping[str, str]:
    """Content types by suffixes in lower case, without the dot: the standard library's own table, not the system's."""
    table = mimetypes.MimeTypes()
    for suffix, kind in _FURTHER.items():
        table.add_type(kind, suffix)
    types = {suffix.lower(): _with_charset(kind) for suffix, kind in table.types_map[True].items()}
    # An archive such as x.tar.gz is what it is: no coding of the transfer.
    for suffix, coding in table.encodings_map.items():
        types[suffix.lower()] = _of_coding(coding)
    for suffix, meant in table.suffix_map.items():
        types[suffix.lower()] = _of_coding(table.encodings_map.get(os.path.splitext(meant)[1], ""))  # noqa: PTH122
    return {suffix.removeprefix("."): kind for suffix, kind in types.items()}


def _of_coding(coding: str) -> str:
    return "application/gzip" if coding == "gzip" else "application/octet-stream"


def _with_charset(kind: str) -> str:
    return f"{kind}; charset=utf-8" if kind.startswith("text/") or kind in _TEXTS else kind
