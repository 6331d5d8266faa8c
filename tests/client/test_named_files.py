"""Files that the program names in `verify=` and `cert=`: what is wrong with them is an error of the constructor."""

from __future__ import annotations

import ssl
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from test.test_asyncio.utils import ONLYCERT, ONLYKEY

from oneloop import tls
from oneloop.http import AsyncClient, AsyncHttpxTransport, Client, HttpxTransport
from oneloop.http.client import profile, trust
from tests.client.conftest import MakeCaller
from tests.client.servers import RawServer, noting, secured

DAMAGED = __file__
WRONG: list[tuple[dict[str, Any], type[Exception]]] = [
    ({"verify": "missing.pem"}, FileNotFoundError),
    ({"verify": DAMAGED}, ssl.SSLError),
    ({"cert": "missing.pem"}, FileNotFoundError),
    ({"cert": DAMAGED}, ssl.SSLError),
    ({"cert": (ONLYCERT, "missing.pem")}, FileNotFoundError),
    ({"cert": (ONLYCERT, DAMAGED)}, ssl.SSLError),
    ({"cert": (ONLYCERT, "missing.pem", "password")}, FileNotFoundError),
    ({"verify": False, "cert": DAMAGED}, ssl.SSLError),
    ({"verify": ssl.create_default_context(), "cert": DAMAGED}, ssl.SSLError),
]


@pytest.mark.parametrize("http2", [False, True])
@pytest.mark.parametrize("make", [Client, AsyncClient, HttpxTransport, AsyncHttpxTransport])
@pytest.mark.parametrize(("arguments", "error"), [*WRONG, ({"verify": Path("missing.pem")}, FileNotFoundError)])
def test_wrong_files(arguments: dict[str, Any], error: type[Exception], make: Callable[..., Any], http2: bool) -> None:
    with pytest.raises(error) as caught:
        make(http2=http2, **arguments)
    assert caught.type is error


@pytest.mark.filterwarnings("ignore:`(verify|cert)=:DeprecationWarning")
@pytest.mark.parametrize(("arguments", "error"), WRONG)
def test_httpx_raises_the_same(arguments: dict[str, Any], error: type[Exception]) -> None:
    httpx = pytest.importorskip("httpx")
    with pytest.raises(error) as caught:
        httpx.Client(**arguments)
    assert caught.type is error


def test_the_files_are_read_once(monkeypatch: pytest.MonkeyPatch, make_caller: MakeCaller) -> None:
    """The context of the constructor is that of the connections."""
    made: list[Any] = []

    def note(*arguments: Any) -> Any:
        made.append(trust.context_for(*arguments))
        return made[-1]

    monkeypatch.setattr(profile, "context_for", note)
    with RawServer(noting([])) as plain, secured(noting([])) as server:
        for http2 in (False, True):
            caller = make_caller(verify=False, cert=(ONLYCERT, ONLYKEY), http2=http2)
            for url in (server.url, plain.url, server.url):
                assert caller.get(url, headers={"Connection": "close"}).text == "ok"
            assert len(made) == 1 + http2
        # Without a file, it is made when it is needed.
        make_caller().get(plain.url)
    assert len(made) == 2


def test_a_certificate_beside_a_context_of_oneloop() -> None:
    """It cannot be added, and is not left out without a word."""
    with pytest.raises(TypeError, match="cert= cannot be added"):
        Client(verify=tls.client_context(), cert=ONLYCERT)


def test_none_is_the_default() -> None:
    """As in httpx."""
    assert trust.context_for(None, None).verify_mode is ssl.CERT_REQUIRED
