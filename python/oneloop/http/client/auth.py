"""Authentication: Basic, Digest, netrc, functions, and flows of several requests."""

from __future__ import annotations

import hashlib
import netrc
import os
import re
import time
from base64 import b64encode
from collections.abc import AsyncGenerator, Callable, Generator
from typing import TYPE_CHECKING, Any
from urllib.request import parse_http_list

from oneloop.http.client.errors import ProtocolError

if TYPE_CHECKING:
    from oneloop.http.client.requests import Request
    from oneloop.http.client.responses import Response

__all__ = ["Auth", "BasicAuth", "DigestAuth", "FunctionAuth", "NetRCAuth", "stepped", "to_auth"]


class Auth:
    """Base class: override `auth_flow`, which yields requests and gets their responses.

    A flow that waits for something else overrides `sync_auth_flow` or `async_auth_flow`.
    """

    requires_request_body = False
    requires_response_body = False

    def auth_flow(self, request: Request) -> Generator[Request, Response, None]:
        """Yield the request, once or more often."""
        yield request

    def sync_auth_flow(self, request: Request) -> Generator[Request, Response, None]:
        """What a `Client` runs. Override it if the flow has to wait for something in blocking code."""
        yield from self.auth_flow(request)

    def async_auth_flow(self, request: Request) -> AsyncGenerator[Request, Response]:
        """What an `AsyncClient` runs: an asynchronous generator. Override it if the flow has to await something."""
        return stepped(self.auth_flow(request))


async def stepped(flow: Generator[Request, Response, None]) -> AsyncGenerator[Request, Response]:
    """Return a generator as an asynchronous one, which waits for nothing itself."""
    try:
        following = next(flow)
        while True:
            following = flow.send((yield following))
    except StopIteration:
        return
    finally:
        flow.close()


class FunctionAuth(Auth):
    """Calls a function with the request, which returns the one to send.

    Args:
        func: the function.
    """

    def __init__(self, func: Callable[[Request], Request]) -> None:
        self._func = func

    def auth_flow(self, request: Request) -> Generator[Request, Response, None]:
        yield self._func(request)


class BasicAuth(Auth):
    """HTTP Basic (RFC 7617).

    Args:
        username: the user.
        password: the password.
    """

    def __init__(self, username: str | bytes, password: str | bytes) -> None:
        user, secret = (part.encode() if isinstance(part, str) else part for part in (username, password))
        self._header = "Basic " + b64encode(user + b":" + secret).decode("ascii")

    def auth_flow(self, request: Request) -> Generator[Request, Response, None]:
        request.headers["Authorization"] = self._header
        yield request


class NetRCAuth(Auth):
    """User and password from a netrc file.

    Args:
        file: None: `~/.netrc`.
    """

    def __init__(self, file: str | None = None) -> None:
        self._netrc = netrc.netrc(file)

    def auth_flow(self, request: Request) -> Generator[Request, Response, None]:
        found = self._netrc.authenticators(request.url.host)
        if found is not None and found[2]:
            yield from BasicAuth(found[0], found[2]).auth_flow(request)
        else:
            yield request


_HASHES = {
    "MD5": "md5",
    "MD5-SESS": "md5",
    "SHA": "sha1",
    "SHA-SESS": "sha1",
    "SHA-256": "sha256",
    "SHA-256-SESS": "sha256",
    "SHA-512": "sha512",
    "SHA-512-SESS": "sha512",
}


class DigestAuth(Auth):
    """HTTP Digest (RFC 7616), with the quality of protection "auth".

    Args:
        username: the user.
        password: the password.
    """

    def __init__(self, username: str | bytes, password: str | bytes) -> None:
        self._user, self._password = (part.encode() if isinstance(part, str) else part for part in (username, password))
        self._challenge: dict[str, str] | None = None
        self._count = 1

    def auth_flow(self, request: Request) -> Generator[Request, Response, None]:
        if self._challenge is not None:
            request.headers["Authorization"] = self._credentials(request, self._challenge)  # type: ignore[assignment]
        response = yield request
        if response.status_code != 401:
            return
        for field in response.headers.get_list("www-authenticate"):
            scheme, _, rest = field.partition(" ")
            if scheme.lower() == "digest":
                self._challenge = _challenge_of(rest, request)
                self._count = 1
                break
        else:
            return
        request.headers["Authorization"] = self._credentials(request, self._challenge)  # type: ignore[assignment]
        if response.cookies:
            _add_cookies(request, response)
        yield request

    def _credentials(self, request: Request, challenge: dict[str, str]) -> bytes:
        algorithm = challenge.get("algorithm", "MD5")
        name = _HASHES.get(algorithm.upper())
        if name is None:
            raise ProtocolError(f"the server wants an unknown digest algorithm: {algorithm!r}", request=request)

        def digest(data: bytes) -> bytes:
            return hashlib.new(name, data, usedforsecurity=False).hexdigest().encode()

        realm, nonce = challenge["realm"].encode(), challenge["nonce"].encode()
        target = request.url.raw_path
        first = digest(b":".join((self._user, realm, self._password)))
        second = digest(request.method.encode() + b":" + target)
        count = b"%08x" % self._count
        self._count += 1
        own_nonce = (
            hashlib.sha1(
                str(self._count).encode() + nonce + time.ctime().encode() + os.urandom(8), usedforsecurity=False
            )
            .hexdigest()[:16]
            .encode()
        )
        if algorithm.lower().endswith("-sess"):
            first = digest(b":".join((first, nonce, own_nonce)))
        offered = [item.strip().lower() for item in challenge.get("qop", "").split(",") if item.strip()]
        if offered and "auth" not in offered:
            raise ProtocolError(
                f"the server wants an unknown quality of protection: {challenge['qop']!r}", request=request
            )
        parts = (first, nonce, count, own_nonce, b"auth", second) if offered else (first, nonce, second)
        fields: list[tuple[str, bytes, bool]] = [
            ("username", self._user, True),
            ("realm", realm, True),
            ("nonce", nonce, True),
            ("uri", target, True),
            ("response", digest(b":".join(parts)), True),
            ("algorithm", algorithm.encode(), False),
        ]
        if "opaque" in challenge:
            fields.append(("opaque", challenge["opaque"].encode(), True))
        if offered:
            fields += [("qop", b"auth", False), ("nc", count, False), ("cnonce", own_nonce, True)]
        # Bytes: a name in UTF-8 must not be encoded again.
        shown = [b'%b="%b"' % (name.encode(), _quoted(value)) if quotes else b"%b=%b" % (name.encode(), value)
                 for name, value, quotes in fields]  # fmt: skip
        return b"Digest " + b", ".join(shown)


def _quoted(value: bytes) -> bytes:
    return value.replace(b"\\", b"\\\\").replace(b'"', b'\\"')


def _add_cookies(request: Request, response: Response) -> None:
    """Send the response's cookies too; the newer of two with one name."""
    before = request.headers.pop("cookie", None)
    response.cookies.set_cookie_header(request)
    fresh = request.headers.get("cookie")
    names = {_cookie_name(one) for one in (fresh or "").split(";")}
    kept = [one.strip() for one in (before or "").split(";") if _cookie_name(one) not in names]
    both = [one for one in (*kept, fresh) if one]
    if both:
        request.headers["Cookie"] = "; ".join(both)


def _cookie_name(pair: str) -> str:
    return pair.partition("=")[0].strip()


def _challenge_of(text: str, request: Request) -> dict[str, str]:
    found = {}
    for item in parse_http_list(text):
        name, _, value = item.strip().partition("=")
        found[name.strip().lower()] = (
            re.sub(r"\\(.)", r"\1", value.strip()[1:-1]) if value.strip()[:1] == '"' else value
        )
    if "realm" not in found or "nonce" not in found:
        raise ProtocolError("Malformed Digest WWW-Authenticate header", request=request)
    return found


def to_auth(auth: Any) -> Auth | None:
    """Return the flow for an argument `auth`: a pair of user and password, a function, or an Auth.

    Raises:
        TypeError: it is none of those.
    """
    if auth is None or isinstance(auth, Auth):
        return auth
    if isinstance(auth, tuple):
        return BasicAuth(*auth)
    if callable(auth):
        return FunctionAuth(auth)  # pyright: ignore[reportArgumentType]
    raise TypeError(f'Invalid "auth" argument: {auth!r}')
