"""`AccessLog`: one line for each response, as text (uvicorn's format) or as JSON.

It runs for every request, so lines are collected and written with one write per iteration of the loop. They bypass
`logging`, unless a logging configuration is given. All text from clients is escaped, so that a request cannot forge a
line or a field.
"""

from __future__ import annotations

import json
import logging
import os
import time
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

from oneloop.http.logs import _STATUS_COLORS, is_colored, painted, status_text

if TYPE_CHECKING:
    import asyncio
    from collections.abc import Callable, Iterable

__all__ = ["AccessLog"]

Client: TypeAlias = "tuple[str, int | None] | str | None"
Headers: TypeAlias = "Iterable[tuple[bytes, bytes]]"

access = logging.getLogger("oneloop.access")
_quote = json.encoder.encode_basestring_ascii
_statuses: dict[int, str] = {}


class AccessLog:
    """The access log. Called at the end of each response; `flush` writes the remaining lines.

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
        self._fd = fd
        self._lines: list[str] = []
        self._is_colored = is_colored(use_colors, fd)
        self._second = 0
        self._time = ""
        self._is_broken = False
        written: dict[tuple[str, bool], Callable[..., None]] = {
            ("text", False): self._text,
            ("text", True): self._record,
            ("json", False): self._json,
            ("json", True): self._json_record,
        }
        self._write = written[form, through_logging]

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
    ) -> None:
        """Log a response."""
        self._write(client, method, target, http_version, status, body_bytes, duration_s, request_headers)

    def flush(self) -> None:
        """Write the collected lines."""
        if not self._lines:
            return
        data = "".join(self._lines).encode("ascii", "backslashreplace")
        self._lines.clear()
        try:
            while data:
                data = data[os.write(self._fd, data) :]
        except OSError as error:
            # The server continues without an access log. Log the error once.
            if not self._is_broken:
                self._is_broken = True
                logging.getLogger("oneloop.error").warning("The access log cannot be written: %s", error)

    def _add(self, line: str) -> None:
        if not self._lines:
            self._loop.call_soon(self.flush)
        self._lines.append(line)

    def _text(
        self, client: Client, method: str, target: bytes, version: str, status: int, _b: int, _d: float, _h: Headers
    ) -> None:
        said = _statuses.get(status)
        if said is None:
            said = status_text(status)
            if self._is_colored:
                said = painted(said, _STATUS_COLORS.get(status // 100, 0))
            _statuses[status] = said
        line = f"{method} {_shown(target)} HTTP/{version}"
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
    ) -> str:
        agent = "null"
        for name, value in headers:
            if name == b"user-agent":
                agent = _quote(value.decode("latin-1"))
                break
        now_s = int(time.time())
        if now_s != self._second:
            self._second = now_s
            self._time = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(now_s))
        # Numbers need no quoting in JSON; every text is quoted by json's own function.
        return (
            f'{{"time": "{self._time}", "client": {_quote(_address(client))}, "method": {_quote(method)}, '
            f'"target": {_quote(target.decode("latin-1"))}, "http_version": {_quote(version)}, "status": {status}, '
            f'"body_bytes": {body_bytes}, "duration_s": {duration_s:.6f}, "user_agent": {agent}}}'
        )

    def _record(
        self, client: Client, method: str, target: bytes, version: str, status: int, _b: int, _d: float, _h: Headers
    ) -> None:
        access.info('%s - "%s %s HTTP/%s" %d', _address(client), method, _shown(target), version, status)


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
