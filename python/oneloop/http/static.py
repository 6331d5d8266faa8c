"""`Static`: files of a folder as HTTP answers: ranges, ETags, conditions, precompressed files.

RFC 9110: sections 8.8 (validators), 13 (conditions), 14 (ranges). Hidden names (`.git`) are not there for clients, nor
is anything outside of the folder. A file is opened first and looked at afterwards, so that nobody can exchange it.
"""

from __future__ import annotations

import errno
import mimetypes
import os
import re
import stat
import time
from dataclasses import dataclass, field
from email.utils import formatdate, parsedate_to_datetime
from typing import TYPE_CHECKING
from urllib.parse import quote

if TYPE_CHECKING:
    from collections.abc import Mapping

__all__ = ["Static", "StaticAnswer", "StaticFile"]

# What goes first is preferred where a client takes several.
_CODINGS = (("br", ".br"), ("zstd", ".zst"), ("gzip", ".gz"))
_RANGE = re.compile(r"bytes=(\d{0,18})-(\d{0,18})", re.ASCII)
_CONDITIONS = frozenset(("range", "if-range", "if-none-match", "if-modified-since"))
LARGEST_KEPT_BYTES = 64 * 1024
MOST_KEPT_BYTES = 32 * 1024 * 1024
MOST_KEPT = 4096
KEPT_S = 1.0
RESTED_S = 1.0
_TYPES = mimetypes.MimeTypes()
_TYPES.add_type("text/javascript", ".js")
_TYPES.add_type("text/javascript", ".mjs")
_TYPES.add_type("application/wasm", ".wasm")
_TYPES.add_type("font/woff2", ".woff2")
_TYPES.add_type("image/avif", ".avif")
_TYPES.add_type("image/webp", ".webp")
_TYPES.add_type("application/manifest+json", ".webmanifest")
_TEXTS = ("application/json", "application/xml", "image/svg+xml")


@dataclass(slots=True)
class StaticFile:
    """The part of an open file that is the body; whoever sends it closes it."""

    fd: int
    start: int
    length: int

    def close(self) -> None:
        """Close the descriptor."""
        fd, self.fd = self.fd, -1
        if fd >= 0:
            os.close(fd)


@dataclass(slots=True)
class StaticAnswer:
    """A status, fields, and the body of a GET: a file, or the content of a small one."""

    status: int
    headers: list[tuple[str, str]] = field(default_factory=list)
    file: StaticFile | None = None
    body: bytes = b""


@dataclass(slots=True)
class _Kept:
    """A small file in memory: what is answered, while the file at `path` is the same."""

    path: str
    identity: tuple[int, int, int, int]
    answer: StaticAnswer
    until_s: float


class Static:
    """The files of a folder below a URL.

    Args:
        url: the path that the folder has for clients. Where it is `/`, files that are not there are the application's.
        folder: where they are. Symbolic links may lead to files in it, and to nothing else.
    """

    def __init__(self, url: str, folder: str) -> None:
        self._prefix = url.rstrip("/") + "/"
        self._folder = os.path.realpath(folder)
        self._kept: dict[tuple[str, str], _Kept] = {}
        self._kept_bytes = 0

    def covers(self, path: str) -> bool:
        """Whether a path lies below the URL."""
        return path.startswith(self._prefix) or path + "/" == self._prefix

    def answer(self, method: str, path: str, headers: Mapping[str, str]) -> StaticAnswer | None:
        """Answer a request; None if it is not for this folder.

        Args:
            method: of the request.
            path: its decoded path, without the query.
            headers: by their names in lower case.
        """
        accepted = headers.get("accept-encoding", "")
        if method == "GET":
            kept = self._recall(path, accepted, headers)
            if kept is not None:
                return kept
        if not path.startswith(self._prefix):
            return _redirect(path) if self.covers(path) else None
        missing = None if self._prefix == "/" else _plain(404)
        names = path[len(self._prefix) :]
        if not _is_allowed(names):
            return missing
        if method not in ("GET", "HEAD"):
            return None if self._prefix == "/" else _plain(405, ("allow", "GET, HEAD"))
        opened = self._open(names or "index.html")
        if opened is not None and stat.S_ISDIR(opened[1].st_mode):
            os.close(opened[0])
            if not path.endswith("/"):
                return _redirect(path)
            names = names + "index.html"
            opened = self._open(names)
        # A file's name does not end with a slash.
        if opened is None or not stat.S_ISREG(opened[1].st_mode) or names.endswith("/"):
            if opened is not None:
                os.close(opened[0])
            return missing
        found = self._of_file(names or "index.html", *opened, method=method, headers=headers)
        return self._keep(path, accepted, found)

    def _recall(self, path: str, accepted: str, headers: Mapping[str, str]) -> StaticAnswer | None:
        """A small file that is still what it was; conditions and ranges are not looked at here."""
        kept = self._kept.get((path, accepted))
        if kept is None or not _CONDITIONS.isdisjoint(headers):
            return None
        try:
            is_same = _identity(os.stat(kept.path)) == kept.identity  # noqa: PTH116
        except OSError:
            is_same = False
        # A compressed neighbour may have come.
        if is_same and time.monotonic() < kept.until_s:
            return kept.answer
        self._kept_bytes -= len(kept.answer.body)
        del self._kept[path, accepted]
        return None

    def _keep(self, path: str, accepted: str, found: StaticAnswer) -> StaticAnswer:
        """Read a small file, and keep it."""
        file = found.file
        if found.status != 200 or file is None or file.length > LARGEST_KEPT_BYTES:
            return found
        try:
            before = os.fstat(file.fd)
            body = os.pread(file.fd, file.length, 0)
            real = os.readlink(f"/proc/self/fd/{file.fd}")  # noqa: PTH115 - a descriptor
        finally:
            file.close()
        if len(body) != file.length:
            raise OSError("a static file was cut while it was read")
        answer = StaticAnswer(200, found.headers, None, body)
        # One that was written a moment ago may be written again within the same tick of its file system's clock.
        if time.time() - before.st_mtime > RESTED_S:
            if self._kept_bytes + len(body) > MOST_KEPT_BYTES or len(self._kept) >= MOST_KEPT:
                self._kept.clear()
                self._kept_bytes = 0
            self._kept[path, accepted] = _Kept(real, _identity(before), answer, time.monotonic() + KEPT_S)
            self._kept_bytes += len(body)
        return answer

    def _open(self, names: str) -> tuple[int, os.stat_result] | None:
        """Open what is there, if it is in the folder."""
        try:
            # Not blocking: a FIFO's other end need not be there.
            fd = os.open(os.path.join(self._folder, names), os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)  # noqa: PTH118
        except (OSError, ValueError) as error:
            if getattr(error, "errno", 0) in (errno.EMFILE, errno.ENFILE, errno.ENOMEM):
                raise
            return None
        real = os.readlink(f"/proc/self/fd/{fd}")  # noqa: PTH115 - a descriptor
        if real != self._folder and not real.startswith(self._folder.rstrip("/") + "/"):
            os.close(fd)
            return None
        return fd, os.fstat(fd)

    def _of_file(
        self, names: str, fd: int, found: os.stat_result, *, method: str, headers: Mapping[str, str]
    ) -> StaticAnswer:
        kind, coding = _type_of(names)
        fields: list[tuple[str, str]] = []
        encoded = None if coding else self._precompressed(names, headers.get("accept-encoding", ""), found, fields)
        if encoded is not None:
            os.close(fd)
            coding, fd, found = encoded
        etag = f'"{found.st_mtime_ns:x}-{found.st_size:x}{"-" + coding if coding else ""}"'
        modified = formatdate(found.st_mtime, usegmt=True)
        fields += [("etag", etag), ("last-modified", modified), ("accept-ranges", "bytes")]
        if _is_unchanged(headers, etag, found.st_mtime):
            os.close(fd)
            return StaticAnswer(304, fields)
        fields += [("content-type", kind), ("x-content-type-options", "nosniff")]
        if coding:
            fields.append(("content-encoding", coding))
        part = _part_of(headers, etag, modified, found.st_size) if method == "GET" else (0, found.st_size, 200)
        if part is None:
            os.close(fd)
            return _plain(416, ("content-range", f"bytes */{found.st_size}"))
        start, length, status = part
        if status == 206:
            fields.append(("content-range", f"bytes {start}-{start + length - 1}/{found.st_size}"))
        fields.append(("content-length", str(length)))
        if method == "HEAD" or not length:
            os.close(fd)
            return StaticAnswer(status, fields)
        return StaticAnswer(status, fields, StaticFile(fd, start, length))

    def _precompressed(
        self, names: str, accepted: str, plain: os.stat_result, fields: list[tuple[str, str]]
    ) -> tuple[str, int, os.stat_result] | None:
        """The file's compressed neighbour that the client prefers; one that is older than the file is out of date."""
        chosen = None
        is_varying = False
        for coding, suffix in _CODINGS:
            opened = self._open(names + suffix)
            if opened is None:
                continue
            fd, found = opened
            is_usable = stat.S_ISREG(found.st_mode) and found.st_mtime >= plain.st_mtime
            is_varying = is_varying or is_usable
            if is_usable and chosen is None and _is_accepted(coding, accepted):
                chosen = (coding, fd, found)
            else:
                os.close(fd)
        if is_varying:
            fields.append(("vary", "accept-encoding"))
        return chosen


def _identity(found: os.stat_result) -> tuple[int, int, int, int]:
    return found.st_dev, found.st_ino, found.st_size, found.st_mtime_ns


def _is_allowed(names: str) -> bool:
    """No name may be hidden, lead upwards, or be something that no file's name is."""
    if "\0" in names or "//" in names or names.startswith("/"):
        return False
    return not any(name.startswith(".") and name != ".well-known" for name in names.split("/"))


def _type_of(names: str) -> tuple[str, str | None]:
    kind, coding = _TYPES.guess_type(names)
    if coding is not None:
        # An archive such as x.tar.gz is what it is: no coding of the transfer.
        return "application/gzip" if coding == "gzip" else "application/octet-stream", None
    if kind is None:
        return "application/octet-stream", None
    if kind.startswith("text/") or kind in _TEXTS:
        return f"{kind}; charset=utf-8", None
    return kind, None


def _is_accepted(coding: str, accepted: str) -> bool:
    """Whether Accept-Encoding names the coding, with a quality above zero."""
    for item in accepted.split(","):
        name, _, parameters = item.partition(";")
        if name.strip().lower() == coding:
            quality = parameters.replace(" ", "").lower()
            return not re.fullmatch(r"q=0(\.0{0,3})?", quality)
    return False


def _is_unchanged(headers: Mapping[str, str], etag: str, modified_s: float) -> bool:
    tags = headers.get("if-none-match")
    if tags is not None:
        return tags.strip() == "*" or any(tag.strip().removeprefix("W/") == etag for tag in tags.split(","))
    since = headers.get("if-modified-since")
    if since is None:
        return False
    try:
        return int(modified_s) <= parsedate_to_datetime(since).timestamp()
    except (ValueError, OverflowError):
        # RFC 9110, section 13.1.3: a date that is none is left out.
        return False


def _part_of(headers: Mapping[str, str], etag: str, modified: str, size: int) -> tuple[int, int, int] | None:
    """Where the body begins, its length, and the status; None if there is no such part."""
    asked = headers.get("range")
    condition = headers.get("if-range")
    if asked is None or (condition is not None and condition not in (etag, modified)):
        return 0, size, 200
    found = _RANGE.fullmatch(asked.strip().replace(" ", ""))
    # Several ranges, or other units: RFC 9110, section 14.2 lets a server leave them out.
    if found is None or found.group() == "bytes=-":
        return 0, size, 200
    first, last = found.groups()
    if not first:
        length = min(int(last), size)
        return (size - length, length, 206) if length else None
    if last and int(last) < int(first):
        return 0, size, 200
    if int(first) >= size:
        return None
    end = min(int(last), size - 1) if last else size - 1
    return int(first), end - int(first) + 1, 206


def _plain(status: int, *fields: tuple[str, str]) -> StaticAnswer:
    return StaticAnswer(status, [*fields, ("content-length", "0")])


def _redirect(path: str) -> StaticAnswer:
    # A path that begins with two slashes would name another host.
    location = quote("/" + path.lstrip("/") + "/")
    return StaticAnswer(308, [("location", location), ("content-length", "0")])
