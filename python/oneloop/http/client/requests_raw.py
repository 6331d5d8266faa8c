"""`PendingRaw`: the `raw` of a response of requests, which becomes urllib3's response when somebody looks at it.

Most programs read `content` or `json()` alone, of a response that has arrived whole. What urllib3's response would keep
of it for each request is then made for nobody.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from urllib3 import HTTPHeaderDict, HTTPResponse

from oneloop.http.client import errors

if TYPE_CHECKING:
    from collections.abc import Iterator

    from oneloop.http.client.callers import Caller

__all__ = ["PendingRaw", "raw_response"]

_HAS_CODING = 2
# Older releases of urllib3 have no such argument.
_NAMES_VERSION = "version_string" in HTTPResponse.__init__.__code__.co_varnames


def raw_response(
    exchange: Any,
    caller: Caller,
    head: tuple[bytes, int, list[tuple[bytes, bytes]]],
    method: str | None,
    url: str | None,
    original: Any = None,
    taken: bytes = b"",
    response: HTTPResponse | None = None,
) -> HTTPResponse:
    """Return urllib3's response of an exchange.

    Args:
        exchange: the exchange, whose head has arrived.
        caller: how the body is waited for.
        head: the parsed head.
        method: of the request.
        url: of the request.
        original: what `http.cookiejar` reads the cookies from.
        taken: the beginning of the body, which was taken from the exchange already.
        response: the object that becomes the response; None: a new one.
    """
    reason, version, fields = head
    named: Any = {"version_string": ("HTTP/1.0", "HTTP/1.1", "HTTP/2")[version]} if _NAMES_VERSION else {}
    headers = HTTPHeaderDict()
    for name, value in fields:
        headers.add(name.decode("latin-1"), value.decode("latin-1"))
    made = HTTPResponse.__new__(HTTPResponse) if response is None else response
    HTTPResponse.__init__(
        made,
        body=_Body(exchange, caller, taken),  # type: ignore[arg-type]
        headers=headers,
        status=exchange.status,
        version=(10, 11, 20)[version],
        **named,
        reason=reason.decode("latin-1"),
        preload_content=False,
        decode_content=False,
        original_response=original,
        request_method=method,
        request_url=url,
    )
    return made


class PendingRaw(HTTPResponse):
    """urllib3's response before somebody looks at it. The arguments are the first ones of `raw_response`."""

    # Nothing that would keep an object from changing its class.
    __slots__ = ()
    # requests asks for this of each response. One with cookies is no pending one.
    _original_response = None

    def __init__(self, *arguments: Any) -> None:
        # Attributes that are set make it urllib3's response.
        vars(self)["_pending"] = arguments

    def _become(self) -> HTTPResponse:
        """Be urllib3's response from now on, in the state that reading has brought it to."""
        state: dict[str, Any] = vars(self)
        exchange, caller, head, method, url = state.pop("_pending")
        taken, steps, how = state.pop("_taken", b""), state.pop("_steps", 0), state.pop("_how", ())
        object.__setattr__(self, "__class__", HTTPResponse)
        raw_response(exchange, caller, head, method, url, taken=taken, response=self)
        if steps:
            pieces = HTTPResponse.stream(self, *how)
            for _ in range(steps):
                next(pieces, None)
        return self

    def __getattr__(self, name: str) -> Any:
        """Called for what is not there yet."""
        if "_pending" not in self.__dict__:
            raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")
        return getattr(self._become(), name)

    def __setattr__(self, name: str, value: Any) -> None:
        setattr(self._become(), name, value)

    def __delattr__(self, name: str) -> None:
        delattr(self._become(), name)

    def stream(self, amt: int | None = 2**16, decode_content: bool | None = None) -> Iterator[bytes]:  # type: ignore[override]
        """Return the body in parts; see urllib3. One part is read without urllib3, if that is all."""
        state: dict[str, Any] = vars(self)
        exchange = state["_pending"][0] if "_pending" in state else None
        if exchange is None or "_how" in state or not exchange.is_done or exchange.has & _HAS_CODING:
            yield from self._whole_way(amt, decode_content)
            return
        data = state["_taken"] = exchange.take()
        if amt is not None and len(data) > amt:
            yield from self._whole_way(amt, decode_content)
            return
        state["_how"] = (amt, decode_content)
        state["_steps"] = 1
        if data:
            yield data
            # Unless somebody has looked at it meanwhile.
            if "_steps" in state:
                state["_steps"] = 2

    def _whole_way(self, amt: int | None, decode_content: bool | None) -> Iterator[bytes]:
        if "_pending" in self.__dict__:
            self._become()
        return HTTPResponse.stream(self, amt, decode_content)

    def __del__(self) -> None:
        pending = self.__dict__.get("_pending")
        if pending is not None:
            pending[0].close()


class _Body:
    """The body as a file, which urllib3 reads and decodes.

    urllib3 passes a chunked body on as it comes, and reads another one until it has as much as was asked for. So it
    gets chunks here, too: what arrives at once is one (`fp`, `readline`, `_safe_read`).
    """

    def __init__(self, exchange: Any, caller: Caller, taken: bytes) -> None:
        self._exchange = exchange
        self._caller = caller
        # What was taken of the body, and how much of that was read.
        self._left = taken
        self._at = 0
        self.closed = False
        self._has_ended = False
        self._is_told = False

    def read(self, size: int | None = None) -> bytes:
        if size is None or size < 0:
            pieces = [self._left[self._at :]]
            while piece := self._next():
                pieces.append(piece)
            self._left, self._at = b"", 0
            return b"".join(pieces)
        if self._at == len(self._left):
            self._left, self._at = self._next(), 0
        data = self._left[self._at : self._at + size]
        self._at += len(data)
        return data

    def read1(self, size: int | None = None) -> bytes:
        """Return what is there, or the next part that comes."""
        if self._at == len(self._left):
            self._left, self._at = self._next(), 0
        return self.read(len(self._left) - self._at if size is None or size < 0 else size)

    @property
    def fp(self) -> _Body | None:
        """Where the chunks come from; None after their end was read."""
        return None if self._is_told else self

    def readline(self, _limit: int = -1) -> bytes:
        """Return the line before a chunk; b"" behind the last one, and if the program has closed the response."""
        if self._at == len(self._left):
            had_ended = self._has_ended
            self._left, self._at = self._next(), 0
            if not self._left and (had_ended or not self._has_ended):
                self._is_told = True
                return b""
        return b"%x\r\n" % (len(self._left) - self._at)

    def _safe_read(self, size: int) -> bytes:
        """Return a part of a chunk, or its end."""
        if self._at == len(self._left):
            return b"\r\n"
        return self.read(size)

    def _next(self) -> bytes:
        if self.closed:
            return b""
        try:
            piece: bytes = self._caller.run(self._exchange.piece())
        except errors.TimeoutException as error:
            self.close()
            raise TimeoutError(str(error)) from error
        except errors.TransportError as error:
            self.close()
            raise ConnectionError(str(error)) from error
        if not piece:
            self._has_ended = True
            # urllib3 asks for its end so.
            self.close()
        return piece

    def close(self) -> None:
        # Native, and not by the caller: a signal handler may raise where a function of Python begins.
        is_ending = self._exchange.close()
        self.closed = True
        if is_ending:
            self._caller.let_end()
