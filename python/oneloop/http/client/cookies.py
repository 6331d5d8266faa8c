"""`Cookies`: a mapping on the standard library's cookie jar."""

from __future__ import annotations

import email.message
import urllib.request
from collections.abc import Iterator, MutableMapping
from http.cookiejar import Cookie, CookieJar
from typing import TYPE_CHECKING, Any

from oneloop.http.client.errors import CookieConflict

if TYPE_CHECKING:
    from oneloop.http.client.requests import Request
    from oneloop.http.client.responses import Response

__all__ = ["Cookies"]


class Cookies(MutableMapping[str, str]):
    """Cookies of a client or a response.

    Args:
        cookies: a mapping, pairs, a Cookies or a `CookieJar`, which is used itself.
    """

    def __init__(self, cookies: Any = None) -> None:
        self.jar = CookieJar()
        if isinstance(cookies, CookieJar):
            self.jar = cookies
        elif isinstance(cookies, Cookies):
            for cookie in cookies.jar:
                self.jar.set_cookie(cookie)
        elif cookies is not None:
            for name, value in cookies.items() if hasattr(cookies, "items") else cookies:
                self.set(name, value)

    @property
    def is_empty(self) -> bool:
        """There are none. Quicker than asking the jar, whose domains are all empty then."""
        return not self.jar._cookies  # type: ignore[attr-defined]

    def extract_cookies(self, response: Response) -> None:
        """Keep the cookies of a response."""
        self.jar.extract_cookies(_Answer(response), _Asked(response.request))  # type: ignore[arg-type]

    def set_cookie_header(self, request: Request) -> None:
        """Add a Cookie field to a request, if there are cookies for its URL."""
        self.jar.add_cookie_header(_Asked(request))

    def set(self, name: str, value: str, domain: str = "", path: str = "/") -> None:
        """Set a cookie; without a domain it goes everywhere."""
        self.jar.set_cookie(
            Cookie(
                version=0, name=name, value=value, port=None, port_specified=False, domain=domain,
                domain_specified=bool(domain), domain_initial_dot=domain.startswith("."), path=path,
                path_specified=bool(path), secure=False, expires=None, discard=True, comment=None, comment_url=None,
                rest={"HttpOnly": ""}, rfc2109=False,
            )
        )  # fmt: skip

    def get(  # type: ignore[override]
        self, name: str, default: str | None = None, domain: str | None = None, path: str | None = None
    ) -> str | None:
        """Return the value of a cookie.

        Raises:
            CookieConflict: several cookies fit.
        """
        values = [
            cookie.value
            for cookie in self.jar
            if cookie.name == name and domain in (None, cookie.domain) and path in (None, cookie.path)
        ]
        if len(values) > 1:
            raise CookieConflict(f"Multiple cookies exist with name={name}")
        return values[0] if values else default

    def delete(self, name: str, domain: str | None = None, path: str | None = None) -> None:
        """Remove the cookies that fit."""
        for cookie in list(self.jar):
            if cookie.name == name and domain in (None, cookie.domain) and path in (None, cookie.path):
                self.jar.clear(cookie.domain, cookie.path, cookie.name)

    def clear(self, domain: str | None = None, path: str | None = None) -> None:
        """Remove all cookies, or those of a domain, or of a path in it."""
        arguments = [part for part in (domain, path) if part is not None]
        self.jar.clear(*arguments)

    def update(self, cookies: Any = None, **_: Any) -> None:  # type: ignore[override]
        """Add cookies, and replace those with the same name, domain and path."""
        for cookie in Cookies(cookies).jar:
            self.jar.set_cookie(cookie)

    def __getitem__(self, name: str) -> str:
        value = self.get(name)
        if value is None:
            raise KeyError(name)
        return value

    def __setitem__(self, name: str, value: str) -> None:
        self.set(name, value)

    def __delitem__(self, name: str) -> None:
        self.delete(name)

    def __iter__(self) -> Iterator[str]:
        return (cookie.name for cookie in self.jar)

    def __len__(self) -> int:
        return len(self.jar)

    def __bool__(self) -> bool:
        return not self.is_empty and any(True for _ in self.jar)

    def __repr__(self) -> str:
        shown = ", ".join(f"<Cookie {c.name}={c.value} for {c.domain} />" for c in self.jar)
        return f"<Cookies[{shown}]>"


class _Asked(urllib.request.Request):
    """A request as the jar wants to see it."""

    def __init__(self, request: Request) -> None:
        super().__init__(url=str(request.url), headers=dict(request.headers), method=request.method)
        self._request = request

    def add_unredirected_header(self, key: str, val: str) -> None:
        super().add_unredirected_header(key, val)
        self._request.headers[key] = val


class _Answer:
    """A response as the jar wants to see it."""

    def __init__(self, response: Response) -> None:
        self._headers = response.headers.multi_items()

    def info(self) -> email.message.Message:
        message = email.message.Message()
        for name, value in self._headers:
            # Not as an item, which would replace an earlier one.
            message.add_header(name, value)
        return message
