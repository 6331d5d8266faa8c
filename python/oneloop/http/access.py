"""`AccessLog`: one line for each response, as text (uvicorn's format) or as JSON.

It runs for every request, so lines are collected and written once per iteration of the loop, without blocking it
(`LineWriter`). They bypass `logging`, unless a logging configuration is given. All text from clients is escaped, so
that a request cannot forge a line or a field.
"""

from __future__ import annotations

import logging
import time
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

from oneloop.http.line_writer import LineWriter
from oneloop.http.logs import _STATUS_COLORS, is_colored, painted, status_text

if TYPE_CHECKING:
    import asyncio
    from collections.abc import Callable, Iterable

__all__ = ["AccessLog"]

Client: TypeAlias = "tuple[str, int | None] | str | None"
Headers: TypeAlias = "Iterable[tuple[bytes, bytes]]"

access = logging.getLogger("oneloop.access")


class AccessLog:
    """The access log. Called at the end of each response; `close` writes the remaining lines.

    Args:
        loop: the loop that runs the server.
        form: "text" or "json" lines.
        fd: the descriptor to write to; the caller keeps it open.
        use_colors: use colors in text lines; None: only if `fd` is a terminal.
        through_logging: log each line with the logger `oneloop.access` instead of writing to `fd`.
    """

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        *,
        form: Literal["text", "json"] = "text",
        fd: int = 1,
        use_colors: bool | None = None,
        through_logging: bool = False,
    ) -> None:
        self._loop = loop
        self._writer = None if through_logging else LineWriter(loop, fd)
        self._lines: list[str] = []
        self._statuses: dict[int, str] = {}
        self._is_colored = is_colored(use_colors, fd)
        self._second = 0
        self._time = ""
        written: dict[tuple[str, bool], Callable[..., None]] = {
            ("text", False): self._text,
            ("text", True): self._record,
            ("json", False): self._json,
            ("json", True): self._json_record,
        }
        self._write = written[form, through_logging]
        if form == "json":
            from json.encoder import encode_basestring_ascii

            self._quote = encode_basestring_ascii

    def __call__(
        self,
        client: Client,
        method: str,
        target: bytes,
        http_version: str,
        status: int,
        body_bytes: int,
        duration_s: float,
        request_headers: Headers,
        is_complete: bool = True,
    ) -> None:
        """Log a response.

        Args:
            client: the address of the client.
            method: the request's method; like `target` and `http_version` empty if its first line cannot be read.
            target: the request's target.
            http_version: the request's version.
            status: the response's status; 499 if the client was gone before it began.
            body_bytes: the length of the body that was sent.
            duration_s: the time from the end of the request's head to the end of the response.
            request_headers: the request's headers.
            is_complete: False if the response was cut: the client has left, or the application has failed.
        """
        self._write(client, method, target, http_version, status, body_bytes, duration_s, request_headers, is_complete)

    def flush(self) -> None:
        """Write the collected lines. Those that the descriptor does not take now are kept (`LineWriter`)."""
        if self._lines and self._writer is not None:
            # First of all: a failure must not keep the next lines.
            lines, self._lines = self._lines, []
            self._writer.write("".join(lines).encode("ascii", "backslashreplace"))

    def close(self) -> None:
        """Write all lines, as far as the descriptor takes them soon. Nothing may be logged after that."""
        self.flush()
        if self._writer is not None:
            self._writer.close()

    def _add(self, line: str) -> None:
        if not self._lines:
            self._loop.call_soon(self.flush)
        self._lines.append(line)

    def _text(
        self,
        client: Client,
        method: str,
        target: bytes,
        version: str,
        status: int,
        body_bytes: int,
        _duration_s: float,
        _headers: Headers,
        is_complete: bool,
    ) -> None:
        said = self._statuses.get(status)
        if said is None:
            said = status_text(status)
            if self._is_colored:
                said = painted(said, _STATUS_COLORS.get(status // 100, 0))
            self._statuses[status] = said
        if not is_complete:
            said += _cut(body_bytes)
        line = f"{method} {_shown(target)} HTTP/{version}" if method else "-"
        if self._is_colored:
            self._add(f'{painted("INFO", 32)}:     {_address(client)} - "{painted(line, 1)}" {said}\n')
        else:
            self._add(f'INFO:     {_address(client)} - "{line}" {said}\n')

    def _json(self, *response: Any) -> None:
        self._add(self._object(*response) + "\n")

    def _json_record(self, *response: Any) -> None:
        access.info("%s", self._object(*response))

    def _object(
        self,
        client: Client,
        method: str,
        target: bytes,
        version: str,
        status: int,
        body_bytes: int,
        duration_s: float,
        headers: Headers,
        is_complete: bool,
    ) -> str:
        quote = self._quote
        agent = "null"
        for name, value in headers:
            if name == b"user-agent":
                agent = quote(value.decode("latin-1"))
                break
        now_s = int(time.time())
        if now_s != self._second:
            self._second = now_s
            self._time = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(now_s))
        # Numbers need no quoting in JSON; every text is quoted by json's own function.
        return (
            f'{{"time": "{self._time}", "client": {quote(_address(client))}, "method": {quote(method)}, '
            f'"target": {quote(target.decode("latin-1"))}, "http_version": {quote(version)}, "status": {status}, '
            f'"body_bytes": {body_bytes}, "duration_s": {duration_s:.6f}, "user_agent": {agent}, '
            f'"complete": {"true" if is_complete else "false"}}}'
        )

    def _record(self, *response: Any) -> None:
        client, method, target, version, status, body_bytes, _duration_s, _headers, is_complete = response
        # uvicorn's arguments, which formatters read.
        request = (method, _shown(target), version) if method else ("-", "-", "-")
        if is_complete:
            access.info('%s - "%s %s HTTP/%s" %d', _address(client), *request, status)
        else:
            cut = _cut(body_bytes)
            access.info('%s - "%s %s HTTP/%s" %d' + cut, _address(client), *request, status, extra={"cut": cut})


def _cut(body_bytes: int) -> str:
    return f" (incomplete: {body_bytes} bytes sent)"


def _address(client: Client) -> str:
    if type(client) is tuple:
        host, port = client
        text = host if port is None else f"{host}:{port}"
    else:
        text = client if isinstance(client, str) else ""
    # The text comes from a proxy's header, or is the path of a socket.
    is_plain = text.isprintable() and text.isascii() and '"' not in text
    return text if is_plain else _escaped(text)


def _shown(target: bytes) -> str:
    """Return a request's target with all characters escaped that could end the line or the quotes."""
    text = target.decode("latin-1")
    if text.isascii() and text.isprintable() and '"' not in text and "\\" not in text:
        return text
    return _escaped(text)


def _escaped(text: str) -> str:
    return "".join(c if " " <= c <= "~" and c not in '"\\' else f"\\x{ord(c):02x}" for c in text)
