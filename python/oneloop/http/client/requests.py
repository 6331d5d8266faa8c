"""`Request`: what is sent, before it is known on which connection."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from oneloop.http.client.bodies import Stream, encode_body
from oneloop.http.client.errors import RequestNotRead
from oneloop.http.client.headers import Headers, HeaderTypes
from oneloop.http.client.urls import URL, to_url

if TYPE_CHECKING:
    from oneloop.http.client.settings import Timeout

__all__ = ["Request"]

BODILESS = frozenset({"GET", "HEAD", "OPTIONS", "DELETE", "TRACE", "CONNECT"})
"""Methods for which an empty body is not announced (RFC 9110 section 8.6)."""


def _boundary_of(content_type: str) -> bytes | None:
    """The boundary that the program has chosen."""
    for parameter in content_type.split(";")[1:]:
        name, _, value = parameter.strip().partition("=")
        if name.strip().lower() == "boundary" and value:
            return value.strip().strip('"').encode()
    return None


class Request:
    """A request.

    Args:
        method: such as "GET".
        url: an absolute URL.
        params: the query, in place of the URL's own; empty: none.
        headers: the fields; Host and those that describe the body are added unless they are here.
        cookies: names and values for a Cookie field.
        content: the body: bytes, text, a file, an iterable or asynchronous iterable of bytes.
        data: the body: a form.
        files: the body: a multipart form.
        json: the body: anything that `json.dumps` can encode.
        extensions: `timeout`, `sni_hostname`, `target`.
    """

    def __init__(
        self,
        method: str,
        url: URL | str,
        *,
        params: Any = None,
        headers: HeaderTypes = None,
        cookies: Any = None,
        content: Any = None,
        data: Any = None,
        files: Any = None,
        json: Any = None,
        stream: Stream | None = None,
        extensions: dict[str, Any] | None = None,
    ) -> None:
        self.method = method.upper()
        self.url = to_url(url) if params is None else URL(url, params=params)
        self.headers = Headers(headers)
        self.extensions: dict[str, Any] = {} if extensions is None else dict(extensions)
        if stream is not None:
            self._body: bytes | Stream = stream
        else:
            boundary = _boundary_of(self.headers.get("content-type", "")) if files else None
            fields, self._body = encode_body(content, data, files, json, boundary)
            self._add_fields(fields)
        if cookies:
            from oneloop.http.client.cookies import Cookies

            Cookies(cookies).set_cookie_header(self)

    @classmethod
    def of_head(
        cls, method: str, url: URL | str, head: bytes, timeout: Timeout, content: bytes | None = None
    ) -> Request:
        """Return a request that was sent with this head and this body."""
        lines = head.split(b"\r\n")[1:-2]
        fields = [tuple(line.split(b": ", 1)) for line in lines]
        return cls(method, url, headers=fields, content=content, extensions={"timeout": timeout})

    def _add_fields(self, fields: dict[str, str]) -> None:
        for name, value in fields.items():
            # The caller has said how the body ends.
            if name == "Transfer-Encoding" and "content-length" in self.headers:
                continue
            if name == "Content-Length" and "transfer-encoding" in self.headers:
                continue
            if name not in self.headers:
                self.headers[name] = value
        if "host" not in self.headers and self.url.is_absolute_url:
            self.headers = Headers([("Host", self.url.netloc), *self.headers.raw])
        is_announced = "content-length" in self.headers or "transfer-encoding" in self.headers
        if not is_announced and self.method not in BODILESS:
            self.headers["Content-Length"] = "0"

    @property
    def content(self) -> bytes:
        """The body.

        Raises:
            RequestNotRead: it is a stream, and `read()` was not called.
        """
        if isinstance(self._body, Stream):
            raise RequestNotRead
        return self._body

    @property
    def stream(self) -> bytes | Stream:
        """The body as it will be sent."""
        return self._body

    def read(self) -> bytes:
        """Read a body from an iterable whole, and return it.

        Raises:
            RuntimeError: it is an asynchronous iterable.
        """
        if isinstance(self._body, Stream):
            read = self._body.reader(in_coroutine=False)
            pieces = []
            while piece := read():
                pieces.append(piece)
            self._body = b"".join(pieces)  # type: ignore[arg-type]
        return self._body

    async def aread(self) -> bytes:
        """Read a body from an iterable or asynchronous iterable whole, and return it."""
        if isinstance(self._body, Stream):
            if not self._body.is_async:
                return self.read()
            read = self._body.reader(in_coroutine=True)
            pieces = []
            while piece := await read():  # type: ignore[misc]
                pieces.append(piece)
            self._body = b"".join(pieces)
        return self._body

    def __repr__(self) -> str:
        return f"<Request({self.method!r}, {str(self.url)!r})>"
