"""`Response`: status, fields and body of a response."""

from __future__ import annotations

import codecs
import datetime
import json as jsonlib
import re
from collections.abc import AsyncIterator, Callable, Iterator
from functools import cached_property
from http import HTTPStatus
from typing import TYPE_CHECKING, Any, Self

from oneloop._native import parse_response_head
from oneloop.http.client.codings import Decoder, decoder_for
from oneloop.http.client.cookies import Cookies
from oneloop.http.client.errors import (
    DecodingError,
    HTTPStatusError,
    RequestError,
    ResponseNotRead,
    ResponseTooLarge,
    StreamClosed,
    StreamConsumed,
)
from oneloop.http.client.headers import Headers, HeaderTypes
from oneloop.http.client.iterating import iterated, run_without_waiting
from oneloop.http.client.parts import Cutter, Lines
from oneloop.http.client.past import Past
from oneloop.http.client.protocols import HTTP2
from oneloop.http.client.requests import Request

if TYPE_CHECKING:
    from oneloop.http.client.callers import Caller
    from oneloop.http.client.settings import Timeout
    from oneloop.http.client.urls import URL

__all__ = ["Response"]

_HAS_CODING = 2
_VERSIONS = ("HTTP/1.0", "HTTP/1.1", "HTTP/2")
_LINK = re.compile(r'<([^<>]*)>((?:;\s*[^=;,\s]+\s*(?:=\s*(?:"[^"]*"|[^;,\s]*))?\s*)*)')
_PARAMETER = re.compile(r';\s*([^=;,\s]+)\s*(?:=\s*(?:"([^"]*)"|([^;,\s]*)))?')
_REDIRECTS = frozenset({301, 302, 303, 307, 308})


class Response:
    """A response.

    Clients make them. By hand, for tests: `Response(200, json={...})`.

    Args:
        status_code: three digits.
        headers: its fields.
        content: its body.
        text: its body, as text.
        html: its body, as HTML.
        json: its body, as what `json.dumps` can encode.
        request: what it responds to.
        history: the redirects that led to it.
        default_encoding: the charset of a body without one, or a function that is called with the body and returns it.
    """

    # Defaults of what most responses never set: a response is made for each request, so it sets as little as it can.
    _exchange: Any = None
    _caller: Caller | None = None
    _decoder: Decoder | None = None
    # Decoded, and not taken.
    _pieces: Iterator[bytes] = iter(())
    _is_decoded = False
    _limit_bytes: int | None = None
    _received_bytes = 0
    _content: bytes | None = None
    # The request, or the arguments of `Request.of_head`, which makes it when it is asked for.
    _request: Request | tuple[str, URL | str, bytes, Timeout, bytes | None] | None = None
    next_request: Request | None = None
    is_closed = True
    is_stream_consumed = True
    default_encoding: str | Callable[[bytes], str | None] = "utf-8"

    def __init__(
        self,
        status_code: int,
        *,
        headers: HeaderTypes = None,
        content: bytes | str | None = None,
        text: str | None = None,
        html: str | None = None,
        json: Any = None,
        request: Request | None = None,
        history: list[Response] | None = None,
        default_encoding: str | Callable[[bytes], str | None] = "utf-8",
    ) -> None:
        self.status_code = status_code
        self._request = request
        self.default_encoding = default_encoding
        if history is not None:
            self.history = list(history)
        fields = Headers(headers)
        if json is not None:
            content = jsonlib.dumps(json, ensure_ascii=False, separators=(",", ":")).encode()
            fields.setdefault("Content-Type", "application/json")
        elif text is not None:
            content = text.encode()
            fields.setdefault("Content-Type", "text/plain; charset=utf-8")
        elif html is not None:
            content = html.encode()
            fields.setdefault("Content-Type", "text/html; charset=utf-8")
        body = content.encode() if isinstance(content, str) else content or b""
        fields.setdefault("Content-Length", str(len(body)))
        self.headers = fields
        decoder = decoder_for(fields.get_list("content-encoding", split_commas=True))
        self._content = body if decoder is None else decoder.whole(body)

    @classmethod
    def of_exchange(
        cls,
        exchange: Any,
        request: Request | tuple[str, URL | str, bytes, Timeout, bytes | None],
        caller: Caller,
        content: bytes | None = None,
    ) -> Response:
        """Return the response of an exchange whose head, or whole response, has arrived.

        Args:
            exchange: the exchange.
            request: the request, or the arguments of `Request.of_head`.
            caller: how the body is waited for.
            content: the body, if it is there.
        """
        response = cls.__new__(cls)
        response.status_code = exchange.status
        response._exchange = exchange
        response._request = request
        response._caller = caller
        if content is None:
            response.is_closed = response.is_stream_consumed = False
        else:
            response._content = content
        return response

    @cached_property
    def history(self) -> list[Response]:
        """The redirects that led to it, the first one first."""
        return []

    # -- the head --------------------------------------------------------------------------------

    @cached_property
    def _parsed(self) -> Any:
        return parse_response_head(self._exchange.response_head)

    @cached_property
    def headers(self) -> Headers:
        """The fields."""
        return Headers.of_raw(self._parsed[2])

    @property
    def reason_phrase(self) -> str:
        """The text after the status."""
        if self._exchange is not None and self._parsed[1] != HTTP2:
            return str(self._parsed[0], "ascii", "ignore")
        try:
            return HTTPStatus(self.status_code).phrase
        except ValueError:
            return ""

    @property
    def http_version(self) -> str:
        """What the server speaks: "HTTP/2", "HTTP/1.1" or "HTTP/1.0"."""
        return "HTTP/1.1" if self._exchange is None else _VERSIONS[self._parsed[1]]

    @property
    def request(self) -> Request:
        """What it responds to.

        Raises:
            RuntimeError: it was made by hand, without a request.
        """
        request = self._request
        if request is None:
            raise RuntimeError("The request instance has not been set on this response.")
        if not isinstance(request, Request):
            request = self._request = Request.of_head(*request)
        return request

    @request.setter
    def request(self, request: Request) -> None:
        self._request = request

    @property
    def url(self) -> URL:
        """The URL of the request."""
        return self.request.url

    @property
    def elapsed(self) -> datetime.timedelta:
        """The time from sending the request to closing the response.

        Raises:
            RuntimeError: it is not closed yet.
        """
        if self._exchange is None or not self.is_closed:
            raise RuntimeError("'.elapsed' may only be accessed after the response has been read or closed.")
        return datetime.timedelta(seconds=self._exchange.elapsed_s)

    @cached_property
    def cookies(self) -> Cookies:
        """The cookies that it sets."""
        cookies = Cookies()
        if "set-cookie" in self.headers:
            cookies.extract_cookies(self)
        return cookies

    @property
    def is_informational(self) -> bool:
        """1xx."""
        return 100 <= self.status_code < 200

    @property
    def is_success(self) -> bool:
        """2xx."""
        return 200 <= self.status_code < 300

    @property
    def is_redirect(self) -> bool:
        """3xx."""
        return 300 <= self.status_code < 400

    @property
    def is_client_error(self) -> bool:
        """4xx."""
        return 400 <= self.status_code < 500

    @property
    def is_server_error(self) -> bool:
        """5xx."""
        return 500 <= self.status_code < 600

    @property
    def is_error(self) -> bool:
        """4xx and 5xx."""
        return 400 <= self.status_code < 600

    @property
    def has_redirect_location(self) -> bool:
        """It says where to go."""
        return self.status_code in _REDIRECTS and "location" in self.headers

    def raise_for_status(self) -> Response:
        """Return the response itself if its status is 2xx.

        Raises:
            HTTPStatusError: it is not.
        """
        request = self.request
        if self.is_success:
            return self
        if self.has_redirect_location:
            text = f"Redirect response '{self.status_code} {self.reason_phrase}' for url '{self.url}'\n"
            text += f"Redirect location: '{self.headers['location']}'\n"
        else:
            kind = {1: "Informational response", 3: "Redirect response", 4: "Client error", 5: "Server error"}.get(
                self.status_code // 100, "Invalid status code"
            )
            text = f"{kind} '{self.status_code} {self.reason_phrase}' for url '{self.url}'\n"
        text += (
            f"For more information check: https://developer.mozilla.org/en-US/docs/Web/HTTP/Status/{self.status_code}"
        )
        raise HTTPStatusError(text, request=request, response=self)

    # -- the body --------------------------------------------------------------------------------

    @property
    def content(self) -> bytes:
        """The body, decoded.

        Raises:
            ResponseNotRead: it is a stream, and was not read.
        """
        if self._content is None:
            raise ResponseNotRead
        return self._content

    @cached_property
    def encoding(self) -> str | None:
        """The charset of the body: that of Content-Type, else the client's `default_encoding`."""
        charset = self.charset_encoding
        if charset is not None:
            try:
                # `hex` is no charset, and `idna` cannot replace what it does not know.
                codecs.lookup(charset)
                b"\xff".decode(charset, "replace")
            except (LookupError, ValueError):
                charset = None
        if charset is None:
            default = self.default_encoding
            if isinstance(default, str):
                charset = default
            elif self._content is not None:
                charset = default(self._content)
        return charset or "utf-8"

    @property
    def links(self) -> dict[str | None, dict[str, str]]:
        """The Link fields (RFC 8288): for each relation, or URL without one, its parameters and `url`."""
        found = {}
        for field in self.headers.get_list("link"):
            for link in _LINK.finditer(field):
                named = {match[1].lower(): match[2] or match[3] or "" for match in _PARAMETER.finditer(link[2])}
                named["url"] = link[1].strip()
                found[named.get("rel") or named["url"]] = named
        return found

    @property
    def charset_encoding(self) -> str | None:
        """The charset that Content-Type says."""
        found = re.search(r';\s*charset\s*=\s*"?([^\s";]+)', self.headers.get("content-type", ""), re.IGNORECASE)
        return found[1] if found else None

    @property
    def text(self) -> str:
        """The body as text; bytes that the charset does not have become U+FFFD."""
        content = self.content
        return content.decode(self.encoding or "utf-8", "replace") if content else ""

    def json(self, **options: Any) -> Any:
        """Return the body parsed as JSON; `options` are those of `json.loads`."""
        return jsonlib.loads(self.content, **options)

    @property
    def num_bytes_downloaded(self) -> int:
        """How many bytes of the body, as it was sent, have arrived."""
        if self._received_bytes == 0 and self._content is not None and self._decoder is None:
            return len(self._content)
        return self._received_bytes

    async def _next_raw(self) -> bytes:
        if self.is_closed:
            # By the program, between two parts.
            raise StreamClosed
        try:
            piece: bytes = await self._exchange.piece()
        except RequestError as error:
            self._name_request(error)
            raise
        self._received_bytes += len(piece)
        if not piece:
            self.is_closed = True
        return piece

    def _name_request(self, error: RequestError) -> None:
        """Say whose response could not be read."""
        if error._request is None and self._request is not None:
            error._request = self.request

    def _begin_stream(self) -> None:
        if self.is_stream_consumed:
            raise StreamConsumed
        if self.is_closed:
            raise StreamClosed
        self.is_stream_consumed = True

    def _decode(self, body: bytes) -> None:
        """Decode a body that is there whole."""
        self._start_decoding()
        if self._decoder is not None:
            self._received_bytes = len(body)
            try:
                self._content = self._decoder.whole(body)
            except DecodingError as error:
                error.request = self.request
                raise

    def _start_decoding(self) -> None:
        if self._exchange.has & _HAS_CODING:
            self._decoder = decoder_for(self.headers.get_list("content-encoding", split_commas=True))

    def _check_size(self, length: int) -> None:
        if self._limit_bytes is not None and length > self._limit_bytes:
            raise ResponseTooLarge(
                f"the body is longer than {self._limit_bytes} bytes (max_response_bytes)", request=self.request
            )

    async def _read(self) -> bytes:
        """Read the rest of the body, and keep it."""
        if self._content is not None:
            return self._content
        self._begin_stream()
        self._start_decoding()
        if self._limit_bytes is None and self._decoder is None:
            # One wait for the whole body.
            try:
                await self._exchange.whole()
            except RequestError as error:
                self._name_request(error)
                raise
            content: bytes = self._exchange.take()
            self._content = content
            self._received_bytes = len(content)
            self.is_closed = True
            return content
        pieces = []
        length = 0
        async for piece in self._decoded():
            pieces.append(piece)
            length += len(piece)
            self._check_size(length)
        self._content = b"".join(pieces)
        return self._content

    async def _decoded(self) -> AsyncIterator[bytes]:
        while True:
            piece = await self._next_decoded()
            if piece is None:
                return
            if piece:
                yield piece

    async def _next_decoded(self) -> bytes | None:
        """Return the next part of the body, decoded; None at the end."""
        decoder = self._decoder
        if decoder is None:
            return await self._next_raw() or None
        try:
            while True:
                for piece in self._pieces:
                    return piece
                if self._is_decoded:
                    return None
                data = await self._next_raw()
                self._is_decoded = not data
                self._pieces = decoder.pieces(data, is_last=not data)
        except DecodingError as error:
            error.request = self.request
            self._close()
            raise

    def _close(self) -> None:
        if self.is_closed:
            return
        # Native, and not by the caller: a signal handler may raise where a function of Python begins.
        is_ending = self._exchange is not None and self._exchange.close()
        self.is_closed = True
        if is_ending and self._caller is not None:
            self._caller.let_end()

    # For coroutines

    async def aread(self) -> bytes:
        """Read the whole body and return it, decoded.

        Raises:
            StreamConsumed: it was streamed already.
            StreamClosed: the response was closed before.
            DecodingError: it is not what its Content-Encoding says.
            ResponseTooLarge: it is longer than the client allows.
            TransportError: it did not arrive whole.
        """
        try:
            return await self._read()
        except StreamConsumed:
            # Another one reads it.
            raise
        except BaseException:
            self._close()
            raise

    async def aiter_raw(self, chunk_size: int | None = None) -> AsyncIterator[bytes]:
        """Iterate over the body as it is sent, in parts of `chunk_size` bytes, or as they arrive."""
        self._begin_stream()
        cutter = Cutter(chunk_size)
        try:
            while piece := await self._next_raw():
                for part in cutter.add(piece):
                    yield part
            for part in cutter.rest():
                yield part
        finally:
            self._close()

    async def aiter_bytes(self, chunk_size: int | None = None) -> AsyncIterator[bytes]:
        """Iterate over the decoded body."""
        cutter = Cutter(chunk_size)
        if self._content is not None:
            for part in [*cutter.add(self._content), *cutter.rest()]:
                yield part
            return
        self._begin_stream()
        self._start_decoding()
        try:
            async for piece in self._decoded():
                for part in cutter.add(piece):
                    yield part
            for part in cutter.rest():
                yield part
        finally:
            self._close()

    async def aiter_text(self, chunk_size: int | None = None) -> AsyncIterator[str]:
        """Iterate over the body as text."""
        decoder = codecs.getincrementaldecoder(self.encoding or "utf-8")("replace")
        cutter = Cutter(chunk_size, "")
        async for piece in self.aiter_bytes():
            for part in cutter.add(decoder.decode(piece)):
                yield part
        for part in [*cutter.add(decoder.decode(b"", True)), *cutter.rest()]:
            yield part

    async def aiter_lines(self) -> AsyncIterator[str]:
        """Iterate over the lines of the body, without their ends."""
        lines = Lines()
        async for text in self.aiter_text():
            for line in lines.add(text):
                yield line
        for line in lines.rest():
            yield line

    async def aclose(self) -> None:
        """Close the response. If its body is not complete, its connection is closed."""
        self._close()

    # For green threads and plain code

    def _run(self, steps: Any) -> Any:
        if self._caller is None or not self._caller.is_synchronous:
            steps.close()
            raise RuntimeError("Attempted to call a sync method on a response of an AsyncClient: use its `a…` form.")
        return self._caller.run(steps)

    def read(self) -> bytes:
        """Read the whole body and return it; see `aread`."""
        if self._content is not None:
            return self._content
        content: bytes = self._run(self.aread())
        return content

    def iter_raw(self, chunk_size: int | None = None) -> Iterator[bytes]:
        """Iterate over the body as it is sent; see `aiter_raw`."""
        return self._iterate(self.aiter_raw(chunk_size))

    def iter_bytes(self, chunk_size: int | None = None) -> Iterator[bytes]:
        """Iterate over the decoded body."""
        return self._iterate(self.aiter_bytes(chunk_size))

    def iter_text(self, chunk_size: int | None = None) -> Iterator[str]:
        """Iterate over the body as text."""
        return self._iterate(self.aiter_text(chunk_size))

    def iter_lines(self) -> Iterator[str]:
        """Iterate over the lines of the body, without their ends."""
        return self._iterate(self.aiter_lines())

    def _iterate(self, pieces: AsyncIterator[Any]) -> Iterator[Any]:
        # A body that is there is not waited for.
        run: Callable[[Any], Any] = run_without_waiting
        if self._content is None:
            if self._caller is None or not self._caller.is_synchronous:
                raise RuntimeError(
                    "Attempted to call a sync iterator on a response of an AsyncClient: use its `a…` form."
                )
            run = self._caller.run
        yield from iterated(pieces, run)

    def close(self) -> None:
        """Close the response; see `aclose`."""
        self._close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._close()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        self._close()

    def __getstate__(self) -> dict[str, Any]:
        """The response without its connection: a copy has the body if that was read, or is closed."""
        state = dict(self.__dict__)
        for name in ("_caller", "_decoder", "_pieces", "_parsed", "cookies"):
            state.pop(name, None)
        state["_request"] = None if self._request is None else self.request
        if self._exchange is not None:
            state.update(_exchange=Past(self._exchange), is_closed=True)
        return state

    def __repr__(self) -> str:
        return f"<Response [{self.status_code} {self.reason_phrase}]>"
