"""`Download`: a response's body as a file that is there whole or not at all, and can be continued."""

from __future__ import annotations

import os
import re
from typing import TYPE_CHECKING, Any

from oneloop import files
from oneloop.http.client.errors import RemoteProtocolError

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from oneloop.http.client.callers import Caller
    from oneloop.http.client.responses import Response

__all__ = ["Download"]

_RANGE = re.compile(r"bytes (\d{1,19})-(\d{1,19})/(\d{1,19}|\*)", re.IGNORECASE | re.ASCII)


class Download:
    """One download.

    The body goes to `path` with `.part` behind it, which replaces `path` when it is whole. With `resume`, a part that
    is there is continued if the server still has the same content (RFC 9110 sections 13.1.5 and 14): what tells that is
    kept in a file with `.part.tag` behind its name.

    Args:
        caller: who waits.
        path: the file.
        resume: continue a part that is there, and leave it there if the download fails.
        progress: is called with the bytes that are there, and the length if the server has said it.
    """

    def __init__(
        self, caller: Caller, path: Any, resume: bool, progress: Callable[[int, int | None], Any] | None
    ) -> None:
        self._result_of = caller.result_of
        self._path = os.fspath(path)
        suffix: Any = b".part" if isinstance(self._path, bytes) else ".part"
        self._part = self._path + suffix
        self._tag_path = self._part + (b".tag" if isinstance(self._path, bytes) else ".tag")
        self._resume = resume
        self._progress = progress

    async def run(self, send: Callable[[dict[str, str]], Awaitable[Response]]) -> Response:
        """Send the request with additional fields, and write the body. `send` returns a streamed response."""
        offset, tag = await self._begun() if self._resume else (0, "")
        fields = {"accept-encoding": "identity"}
        if offset:
            fields |= {"range": f"bytes={offset}-", "if-range": tag}
        response = await send(fields)
        try:
            if response.status_code == 416 and offset:
                # The part is not of what the server has now, or is whole.
                await response.aclose()
                response = await send({"accept-encoding": "identity"})
            if not response.is_success:
                await response.aread()
                response.raise_for_status()
            if response.status_code == 206:
                self._check_range(response, offset)
            else:
                offset = 0
            await self._write(response, offset)
        finally:
            await response.aclose()
        return response

    async def _begun(self) -> tuple[int, str]:
        """What is there of the file, and what tells that the server's content is still the same."""
        try:
            tag = (await self._result_of(files.read_file, self._tag_path)).decode("latin-1")
            return (await self._result_of(files.stat, self._part)).st_size, tag
        except FileNotFoundError:
            return 0, ""

    def _check_range(self, response: Response, offset: int) -> None:
        shown = response.headers.get("content-range", "")
        found = _RANGE.fullmatch(shown)
        # A server may send less than was asked for (RFC 9110 section 14.2): the file would not be whole.
        is_rest = found is not None and found[3] in ("*", str(int(found[2]) + 1))
        if not offset or found is None or int(found[1]) != offset or not is_rest:
            raise RemoteProtocolError(
                f"the server sent the range {shown!r}, not the bytes from {offset} on", request=response.request
            )
        if "content-encoding" in response.headers:
            raise RemoteProtocolError("the server encoded a part of the content", request=response.request)

    async def _write(self, response: Response, offset: int) -> None:
        length = response.headers.get("content-length")
        total = offset + int(length) if length is not None and "content-encoding" not in response.headers else None
        if not offset:
            # That of an earlier part, which is emptied.
            await self._remove(self._tag_path)
        try:
            file = await self._result_of(files.open, self._part, "r+b" if offset else "wb")
            try:
                if self._resume and not offset:
                    await self._keep_tag(response)
                await self._result_of(file.seek, offset)
                async for piece in response.aiter_bytes():
                    await self._result_of(file.write, piece)
                    offset += len(piece)
                    if self._progress is not None:
                        self._progress(offset, total)
            finally:
                await self._result_of(file.close)
        except BaseException:
            if not self._resume:
                await self._remove(self._part)
            raise
        try:
            await self._result_of(files.replace, self._part, self._path)
        except OSError:
            # Such as a folder of this name.
            if not self._resume:
                await self._remove(self._part)
            raise
        if self._resume:
            await self._remove(self._tag_path)

    async def _keep_tag(self, response: Response) -> None:
        """Only a strong validator may go into If-Range."""
        tag = response.headers.get("etag", "")
        if "content-encoding" in response.headers:
            # The part is decoded, and ranges are those of the encoded content.
            return
        if not tag or tag.startswith("W/"):
            tag = response.headers.get("last-modified", "")
        if tag:
            await self._result_of(files.write_file, self._tag_path, tag.encode("latin-1"))

    async def _remove(self, path: Any) -> None:
        try:
            await self._result_of(files.remove, path)
        except FileNotFoundError:
            return
