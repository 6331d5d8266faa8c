"""URLs, parameters and credentials in parts."""

from __future__ import annotations

import hashlib
import re
from typing import Any

import pytest

from oneloop.http import (
    URL,
    DigestAuth,
    Headers,
    QueryParams,
    Timeout,
)
from tests.client.conftest import MakeCaller
from tests.client.servers import Peer, RawServer, echo


@pytest.mark.parametrize(
    ("url", "changes"),
    [
        ("http://u:p@a.com:8/x?y#z", {"raw_path": b"/r%20p?q=1"}),
        ("http://a.com/x?y", {"raw_path": b"/r"}),
        ("http://a.com/x?y", {"netloc": b"b.com:9"}),
        ("http://a.com/x", {"userinfo": b"u%40:p%3A"}),
        ("http://u:p@a.com/x", {"userinfo": b""}),
        ("http://a.com/x", {"userinfo": b"u:p", "netloc": b"b.org", "raw_path": b"/y?z"}),
        ("http://a.com/?x=1", {"params": {}}),
        ("http://a.com/?x=1", {"params": {"y": 2}}),
        ("/x?y=1", {"raw_path": b"/z?w"}),
    ],
)
def test_urls_with_other_parts(url: str, changes: dict[str, Any]) -> None:
    httpx = pytest.importorskip("httpx")
    assert str(URL(url).copy_with(**changes)) == str(httpx.URL(url).copy_with(**changes))


PARAMETERS: dict[str, tuple[Any, ...]] = {
    "copy_set_param": ("a", "2"),
    "copy_add_param": ("c", "2"),
    "copy_remove_param": ("a",),
    "copy_merge_params": ({"a": "2", "c": "3"},),
}


@pytest.mark.parametrize("method", PARAMETERS)
@pytest.mark.parametrize("url", ["http://a.com/x?a=1&b=1", "http://a.com/x", "http://a.com/x?b=1#f"])
def test_copies_with_other_parameters(url: str, method: str) -> None:
    httpx = pytest.importorskip("httpx")
    made, expected = (getattr(kind(url), method)(*PARAMETERS[method]) for kind in (URL, httpx.URL))
    assert str(made) == str(expected)


@pytest.mark.parametrize("changes", [{"b": "9"}, {"a": ["7", "8"]}, {"c": "1", "a": "2"}, {"new": "1"}, {}])
def test_changed_parameters_keep_their_places(changes: dict[str, Any]) -> None:
    query = "a=1&a=3&b=2&c=4"
    httpx = pytest.importorskip("httpx")
    assert str(QueryParams(query).merge(changes)) == str(httpx.QueryParams(query).merge(changes))
    assert str(QueryParams("a=1&b=2&c=3").set("b", 9)) == str(httpx.QueryParams("a=1&b=2&c=3").set("b", 9))
    assert str(QueryParams("a=1&b=2&a=3").set("a", 9)) == "a=9&b=2"
    assert str(URL("http://h/?a=1").copy_remove_param("a")) == "http://h/"


def test_an_address_as_netloc() -> None:
    # httpx cannot.
    assert str(URL("http://a.com:8/x?y").copy_with(netloc=b"[::1]")) == "http://[::1]/x?y"


def test_a_base_url_with_a_query(make_caller: MakeCaller) -> None:
    with RawServer(echo) as server:
        caller = make_caller(base_url=server.url + "/api?key=1#part")
        assert caller.get("x?y=2").text == "/api/x?y=2"


@pytest.mark.parametrize(("user", "realm"), [("ü", "r"), ('a"b\\', 'a "realm"')])
def test_digest_names_as_they_are(make_caller: MakeCaller, user: str, realm: str) -> None:
    shown: list[bytes] = []
    quoted = realm.replace('"', '\\"')

    def serve(peer: Peer) -> None:
        while head := peer.head():
            found = re.search(rb"(?im)^authorization: (.*)\r?$", head + b"\r\n")
            if found is None:
                peer.answer(b"", "401 X", f'WWW-Authenticate: Digest realm="{quoted}", nonce="n"')
            else:
                shown.append(found[1])
                peer.answer(b"ok")

    with RawServer(serve) as server:
        assert make_caller(auth=DigestAuth(user, "secret")).get(server.url + "/x").text == "ok"
    escaped = user.replace("\\", "\\\\").replace('"', '\\"')
    first = hashlib.md5(f"{user}:{realm}:secret".encode()).hexdigest()
    second = hashlib.md5(b"GET:/x").hexdigest()
    response = hashlib.md5(f"{first}:n:{second}".encode()).hexdigest()
    assert f'username="{escaped}", realm="{quoted}"'.encode() in shown[0]
    assert f'response="{response}"'.encode() in shown[0]


def test_a_timeout_from_another_one() -> None:
    first = Timeout(3.0, connect=1.0)
    changed = Timeout(first, read=7.0, total=9.0)
    assert (changed.connect, changed.read, changed.write, changed.pool, changed.total) == (1.0, 7.0, 3.0, 3.0, 9.0)
    assert Timeout(changed) == changed


def test_secrets_are_not_shown() -> None:
    url = URL("http://user:secret@host/secret?a=secret@")
    assert repr(url) == "URL('http://user:[secure]@host/secret?a=secret@')"
    assert str(url) == "http://user:secret@host/secret?a=secret@"
    headers = Headers({"Authorization": "secret", "Proxy-Authorization": "secret", "Accept": "a"})
    assert repr(headers) == "Headers({'authorization': '[secure]', 'proxy-authorization': '[secure]', 'accept': 'a'})"
    assert headers["authorization"] == "secret"
