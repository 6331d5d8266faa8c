"""Trusted proxies, and the client that they speak for; compared with uvicorn's own code."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from oneloop.http.proxies import Client, Trust, client_of

NOBODY = Client(None, None, None)


@pytest.mark.parametrize(
    ("allowed", "trusted", "others"),
    [
        ("127.0.0.1,::1", ["127.0.0.1", "::1", "0:0:0:0:0:0:0:1"], ["127.0.0.2", "", "unix", "x"]),
        ("10.0.0.0/8, 2001:db8::/32", ["10.1.2.3", "2001:db8::5"], ["11.0.0.1", "2001:db9::5"]),
        ("*", ["1.2.3.4", "", "anything"], []),
        (["127.0.0.1", "/run/proxy.sock"], ["127.0.0.1", "/run/proxy.sock"], ["/run/other.sock"]),
        ("unix", ["", "unix"], ["127.0.0.1"]),
        ("10.0.0.1", ["10.0.0.1", "::ffff:10.0.0.1"], ["::ffff:10.0.0.2"]),
        ("", [], ["127.0.0.1", ""]),
        # The default, which needs no `ipaddress`.
        (
            "127.0.0.1,::1",
            ["127.0.0.1", "::1", "0:0:0:0:0:0:0:1", "::FFFF:127.0.0.1", "::ffff:7f00:1"],
            [
                "",
                "unix",
                "::1%lo",
                "127.0.0.1%lo",
                "127.0.0.01",
                "127.1",
                "::2",
                "name",
                "é",
                "a\0",
                "::ffff:127.0.0.2",
            ],
        ),
    ],
)
def test_trust(allowed: Any, trusted: list[str], others: list[str]) -> None:
    trust = Trust(allowed)
    assert all(trust(host) for host in trusted)
    assert not any(trust(host) for host in others)
    # From memory.
    assert all(trust(host) for host in trusted)


@pytest.mark.parametrize(
    ("values", "expected"),
    [
        ([], NOBODY),
        ([b"1.2.3.4"], Client("1.2.3.4", 0, None)),
        ([b"6.6.6.6, 1.2.3.4"], Client("1.2.3.4", 0, None)),
        ([b"6.6.6.6, 1.2.3.4, 10.0.0.2"], Client("1.2.3.4", 0, None)),
        ([b"6.6.6.6", b"1.2.3.4", b"10.0.0.2"], Client("1.2.3.4", 0, None)),
        ([b"10.0.0.3, 10.0.0.2"], Client("10.0.0.3", 0, None)),
        ([b"1.2.3.4:5678"], Client("1.2.3.4", 5678, None)),
        ([b"[2001:db8::1]:5678"], Client("2001:db8::1", 5678, None)),
        ([b"[2001:db8::1]"], Client("2001:db8::1", 0, None)),
        ([b"2001:db8::1"], Client("2001:db8::1", 0, None)),
        ([b"1.2.3.4:99999"], Client("1.2.3.4", 0, None)),
        ([b" "], NOBODY),
        ([b"1.2.3.4,"], NOBODY),
    ],
)
def test_the_rightmost_address_that_is_no_proxys_counts(values: list[bytes], expected: Client) -> None:
    assert client_of("10.0.0.1", values, [], Trust("10.0.0.0/8")) == expected


def test_headers_of_others_mean_nothing() -> None:
    assert client_of("11.0.0.1", [b"1.2.3.4"], [b"https"], Trust("10.0.0.0/8")) == NOBODY


def test_whoever_trusts_everybody_takes_the_first() -> None:
    assert client_of("11.0.0.1", [b"1.2.3.4, 5.6.7.8"], [], Trust("*")) == Client("1.2.3.4", 0, None)


@pytest.mark.parametrize(
    ("values", "scheme"),
    [([b"https"], "https"), ([b" http "], "http"), ([b"gopher"], None), ([b"https", b"http"], "http"), ([], None)],
)
def test_schemes(values: list[bytes], scheme: str | None) -> None:
    assert client_of("10.0.0.1", [], values, Trust("10.0.0.1")).scheme == scheme


HOSTS = st.sampled_from(["10.0.0.1", "10.9.9.9", "1.2.3.4", "[::1]:9", "::1", "x:1", "", "1.2.3.4:5", "[x", "y"])


@given(hosts=st.lists(HOSTS, min_size=1, max_size=5))
def test_the_client_is_uvicorns(hosts: list[str]) -> None:
    theirs = pytest.importorskip("uvicorn.middleware.proxy_headers")
    allowed = "10.0.0.0/8, ::1"
    text = ", ".join(hosts)
    host, port = theirs._TrustedHosts(allowed).get_trusted_client_address(text)
    found = client_of("10.0.0.1", [text.encode()], [], Trust(allowed))
    assert (found.host or "", found.port or 0) == (host, port if host else 0)


def test_a_scheme_that_is_none_takes_the_place_of_the_one_before() -> None:
    assert client_of("127.0.0.1", [], [b"https", b"gopher"], Trust("127.0.0.1")).scheme is None


@pytest.mark.parametrize(
    ("said", "host", "port"),
    [(b"1.2.3.4:65535", "1.2.3.4", 65535), (b"1.2.3.4:65536", "1.2.3.4", 0), (b"[::1]x:5", "[::1]x:5", 0)],
)
def test_ports(said: bytes, host: str, port: int) -> None:
    assert client_of("127.0.0.1", [said], [], Trust("127.0.0.1")) == Client(host, port, None)


def test_what_is_remembered_of_hosts_has_a_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("oneloop.http.proxies.KEPT", 10)
    trust = Trust("127.0.0.1")
    for number in range(25):
        assert not trust(f"10.0.0.{number}")
    assert not trust("x" * 300)
    assert len(trust._responses) <= 10
    assert not any(len(host) > 253 for host in trust._responses)
