"""The settings of `--static` for the native server: URLs, directories and content types.

The native server sends them (`crates/native/src/http/application/static_files`). Nothing here runs per request.
"""

from __future__ import annotations

import functools
import os
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

__all__ = ["content_types", "settings"]

# Types that the standard library's table does not have in all supported Python versions.
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
    """Return the value of the native server's option `static`.

    Args:
        folders: pairs of a URL prefix and a directory.
        reserved: URL paths that are never served from a file.
    """
    # Resolve relative paths now, because the application can change the current directory.
    made = [(url, os.path.abspath(folder)) for url, folder in folders]  # noqa: PTH100 - must not resolve links
    return made, content_types() if made else {}, list(reserved)


@functools.cache
def content_types() -> Mapping[str, str]:
    """Return content types by lower-case suffix without the dot, from the standard library's table (not /etc's)."""
    import mimetypes

    table = mimetypes.MimeTypes()
    for suffix, kind in _FURTHER.items():
        table.add_type(kind, suffix)
    types = {suffix.lower(): _with_charset(kind) for suffix, kind in table.types_map[True].items()}
    # A file such as x.tar.gz is served as a gzip archive, not as a tar file with a content coding.
    for suffix, coding in table.encodings_map.items():
        types[suffix.lower()] = _of_coding(coding)
    for suffix, meant in table.suffix_map.items():
        types[suffix.lower()] = _of_coding(table.encodings_map.get(os.path.splitext(meant)[1], ""))  # noqa: PTH122
    return {suffix.removeprefix("."): kind for suffix, kind in types.items()}


def _of_coding(coding: str) -> str:
    return "application/gzip" if coding == "gzip" else "application/octet-stream"


def _with_charset(kind: str) -> str:
    return f"{kind}; charset=utf-8" if kind.startswith("text/") or kind in _TEXTS else kind
