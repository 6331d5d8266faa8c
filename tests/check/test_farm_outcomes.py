"""Each server of the farm comes to the status or the class of error that it must come to."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Sequence
from typing import Any

import pytest

from tests.check.cases import ANSWERED, INVALID, NEVER, Case, to
from tests.check.checked import checked, outcomes
from tests.check.farm.process import Farm

pytest.importorskip("pycares")

pytestmark = [pytest.mark.usefixtures("loop"), pytest.mark.allows_open_fds("c-ares closes its own a moment later")]
METHODS = pytest.mark.parametrize("method", ["GET", "HEAD"])


def urls_of(farm: Farm, cases: Sequence[Case]) -> list[str]:
    return [farm.url(filled(farm, case.path), case.listener, case.host) for case in cases]


def filled(farm: Farm, path: str) -> str:
    """The path with the ports of the listeners that it names; the braces are quoted there."""
    for name, port in farm.ports.items():
        path = path.replace(f"%7B{name}%7D", str(port))
    return path


def assert_outcomes(found: dict[str, str], urls: list[str], wanted: list[str]) -> None:
    wrong = {url: (found[url], want) for url, want in zip(urls, wanted, strict=True) if found[url] != want}
    assert not wrong, "\n".join(f"{url}: is {is_}, must be {must}" for url, (is_, must) in wrong.items())


@METHODS
@pytest.mark.time_limit(180)
async def test_what_ends_by_itself(method: str, farm: Farm) -> None:
    urls = urls_of(farm, ANSWERED)
    found = await outcomes(urls, method=method, timeout_s=60, dns_servers=(farm.dns,))
    assert_outcomes(found, urls, [case.outcome(method) for case in ANSWERED])


@METHODS
async def test_what_never_ends(method: str, farm: Farm) -> None:
    urls = urls_of(farm, NEVER)
    found = await outcomes(urls, method=method, timeout_s=4, dns_servers=(farm.dns,))
    assert_outcomes(found, urls, [case.outcome(method) for case in NEVER])


@pytest.mark.parametrize("method", ["GET"])
async def test_what_is_no_url(method: str, farm: Farm) -> None:
    found = await outcomes(INVALID, method=method, timeout_s=60, dns_servers=(farm.dns,))
    assert_outcomes(found, INVALID, ["invalid_url"] * len(INVALID))
    assert farm.connections() == 0


@METHODS
async def test_redirects_that_are_not_followed(method: str, farm: Farm) -> None:
    urls = [farm.url(path) for path in ("/redirect/3?status=301", "/redirect/loop?status=307", to("file:///a"))]
    found = await outcomes(urls, method=method, follow=False)
    assert_outcomes(found, urls, ["301", "307", "302"])


async def test_hops_are_told(farm: Farm) -> None:
    url = farm.url("/redirect/2?status=301")
    (result,) = await checked([url])
    assert [(hop.status, hop.url) for hop in result.redirects] == [
        (301, url),
        (301, farm.url("/redirect/1?status=301")),
    ]
    assert result.final_url == farm.url("/redirect/0?status=301")


@pytest.mark.parametrize(("most", "outcome"), [(0, "too_many_redirects"), (2, "too_many_redirects"), (3, "200")])
async def test_the_most_redirects(most: int, outcome: str, farm: Farm) -> None:
    (result,) = await checked([farm.url("/redirect/3")], max_redirects=most)
    assert result.outcome == outcome
    assert farm.seen()["requests"]["http"] == min(most, 3) + 1


async def test_a_body_is_read_up_to_its_limit(farm: Farm) -> None:
    urls = [
        farm.url(path) for path in ("/bytes/1000", "/bytes/1001", "/endless/body", "/endless/chunks", "/chunks/good")
    ]
    results = await checked(urls, body_limit_bytes=1000)
    assert [result.body_bytes for result in results] == [1000, 1000, 1000, 1000, 3]
    assert [result.outcome for result in results] == ["200"] * 5


async def test_a_gzip_bomb_is_not_unpacked(farm: Farm) -> None:
    (result,) = await checked([farm.url("/gzip/500")], body_limit_bytes=1 << 30, timeout_s=100)
    assert result.outcome == "200"
    assert result.body_bytes < 10 << 20


async def test_insecure_accepts_every_certificate(farm: Farm) -> None:
    names = ("tls", "self_signed", "expired", "wrong_name", "unknown_authority", "cut_handshake")
    urls = [farm.url("/status/200", name) for name in names]
    found = await outcomes(urls, insecure=True)
    assert_outcomes(found, urls, ["200"] * 5 + ["tls"])


async def test_a_port_without_tls(farm: Farm) -> None:
    urls = [farm.url("/").replace("http:", "https:")]
    assert await outcomes(urls) == {urls[0]: "tls"}


@pytest.mark.parametrize("late_s", [0, 0.03], ids=["at once", "late"])
async def test_times_of_the_phases(late_s: float, farm: Farm, monkeypatch: pytest.MonkeyPatch) -> None:
    loop = asyncio.get_running_loop()
    create_connection = type(loop).create_connection

    async def held_up(*args: Any, **options: Any) -> Any:
        made = await create_connection(*args, **options)
        # The request is on its way, and its answer may come while the opening has not gone on.
        time.sleep(late_s)
        return made

    monkeypatch.setattr(type(loop), "create_connection", held_up)
    (first,) = await checked([farm.url("/latency/50", "tls", "h1.farm.test")], dns_servers=(farm.dns,))
    assert first.dns_s is not None
    assert first.connect_s is not None
    assert first.tls_s is not None
    assert first.first_byte_s is not None
    assert first.first_byte_s >= 0.05
    assert first.dns_s + first.connect_s + first.tls_s + first.first_byte_s <= first.total_s
    assert first.certificate_end is not None


@pytest.mark.parametrize(
    ("limit", "listener", "path", "host", "said"),
    [
        ("dns_timeout_s", "http", "/", "silent.test", "resolving"),
        ("connect_timeout_s", "full", "/", "127.0.0.1", "connecting"),
        ("tls_timeout_s", "silent", "/", "127.0.0.1", "TLS"),
        ("first_byte_timeout_s", "http", "/slow/first", "127.0.0.1", "response"),
        ("first_byte_timeout_s", "http", "/slow/headers", "127.0.0.1", "response"),
    ],
)
async def test_the_limit_of_a_phase(limit: str, listener: str, path: str, host: str, said: str, farm: Farm) -> None:
    url = farm.url(path, listener, host)
    if limit == "tls_timeout_s":
        url = url.replace("http:", "https:")
    (result,) = await checked([url], dns_servers=(farm.dns,), timeout_s=None, **{limit: 0.2})
    assert (result.outcome, said in result.error_text) == ("timeout", True), result
