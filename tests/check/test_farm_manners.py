"""How `check()` treats servers: Retry-After, limits per host, credentials, proxies, name servers; what the farm saw."""

from __future__ import annotations

import base64
import itertools

import pytest

from tests.check.cases import to
from tests.check.checked import checked, outcomes
from tests.check.farm.process import Farm
from tests.descriptors import at_most

pytest.importorskip("pycares")
pytestmark = [
    pytest.mark.usefixtures("loop"),
    pytest.mark.allows_open_fds("c-ares closes its own a moment later"),
]
_numbers = itertools.count()


def busy(status: int, **query: object) -> str:
    """A path that is busy the first time, for a key that no other test has."""
    text = "&".join(f"{name}={value}" for name, value in query.items())
    return f"/busy/{status}/key{next(_numbers)}?{text}"


# -- Retry-After -------------------------------------------------------------------------------------


@pytest.mark.parametrize("status", [429, 503])
@pytest.mark.parametrize("after", ["1", "date:2"])
async def test_retry_after_is_waited_for(status: int, after: str, farm: Farm) -> None:
    (result,) = await checked([farm.url(busy(status, after=after))], retries=1, retry_delay_s=0.01)
    assert (result.outcome, result.attempts) == ("200", 2)


@pytest.mark.parametrize("status", [429, 503])
async def test_a_long_retry_after_leaves_the_status(status: int, farm: Farm) -> None:
    path = busy(status, after=3600)
    (result,) = await checked([farm.url(path)], retries=3, retry_delay_s=0.01, retry_after_s=10)
    assert (result.outcome, result.attempts) == (str(status), 1)
    assert farm.seen()["targets"] == {f"GET {path}": 1}


@pytest.mark.parametrize("after", ["soon", "-1", "1.5", "", "99999999999999999999", "Mon, 99 Foo 2026 00:00:00 GMT"])
async def test_a_retry_after_that_is_none(after: str, farm: Farm) -> None:
    """It is as if it were not there, or too long."""
    (result,) = await checked([farm.url(busy(503, after=after.replace(" ", "+")))], retry_delay_s=0.01, retries=1)
    assert result.outcome in ("200", "503")


async def test_a_host_that_asks_for_peace_gets_it(farm: Farm) -> None:
    """Others are served meanwhile, and none of its own."""
    first = farm.url(busy(429, after=1))
    others = [farm.url(f"/echo/{number}", "other") for number in range(20)]
    own = [farm.url(f"/echo/{number}") for number in range(5)]
    results = await checked([first, *own, *others], retries=1, retry_delay_s=0.01, per_host=1)
    assert {result.outcome for result in results} == {"200"}
    assert results[0].attempts == 2


@pytest.mark.parametrize("retries", [0, 1, 3])
async def test_so_many_attempts(retries: int, farm: Farm) -> None:
    path = busy(503, times=1000)
    (result,) = await checked([farm.url(path)], retries=retries, retry_delay_s=0.01)
    assert (result.outcome, result.attempts) == ("503", retries + 1)
    assert farm.seen()["targets"] == {f"GET {path}": retries + 1}


@pytest.mark.parametrize("path", ["/status/404", "/status/500", "/redirect/loop"])
async def test_what_is_not_tried_again(path: str, farm: Farm) -> None:
    (result,) = await checked([farm.url(path)], retries=3, retry_delay_s=0.01, max_redirects=0)
    assert result.attempts == 1


async def test_names_that_do_not_exist_are_not_asked_for_again(farm: Farm) -> None:
    urls = [farm.url("/", host=f"{name}.test") for name in ("nx", "empty", "servfail")]
    results = await checked(urls, dns_servers=(farm.dns,), retries=2, retry_delay_s=0.01)
    assert [(result.outcome, result.attempts) for result in results] == [("dns", 1), ("dns", 1), ("dns", 3)]


# -- Limits ------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("per_host", "concurrency"), [(1, 50), (3, 50), (50, 4)])
async def test_at_once(per_host: int, concurrency: int, farm: Farm) -> None:
    urls = [farm.url("/latency/5", host=f"h{number % 4}.farm.test") for number in range(80)]
    found = await outcomes(urls[:4], dns_servers=(farm.dns,), per_host=per_host, concurrency=concurrency)
    results = await checked(urls, dns_servers=(farm.dns,), per_host=per_host, concurrency=concurrency)
    assert set(found.values()) == {"200"} == {result.outcome for result in results}
    seen = farm.seen()
    assert seen["at_once"] <= concurrency
    assert max(host["at_once"] for host in seen["hosts"].values()) <= per_host
    assert len(seen["hosts"]) == 4


async def test_connections_are_kept(farm: Farm) -> None:
    await checked([farm.url(f"/echo/{number}") for number in range(200)], per_host=5)
    assert farm.seen()["connections"] == {"http": 5}


@pytest.mark.time_limit(400)
async def test_twenty_thousand_hosts(farm: Farm) -> None:
    """Each has a name of its own; the stub resolver knows 100,000 and more."""
    count = 20_000
    urls = [farm.url("/status/200", host=f"h{number}.farm.test") for number in range(count)]
    from oneloop.check import check

    # It keeps as many connections as it may have descriptors. The farm, which may have no more, has its listeners, too.
    with at_most(512):
        results = check(urls, dns_servers=(farm.dns,), timeout_s=100, concurrency=100)
        found = [result.outcome async for result in results]
    assert found == ["200"] * count
    assert len(farm.seen()["hosts"]) == count
    assert len(farm.questions()) == count


# -- What is sent ------------------------------------------------------------------------------------


async def test_credentials_stay_with_their_host(farm: Farm) -> None:
    same, other = farm.url("/echo/same"), farm.url("/echo/other", "other")
    by_name = farm.url("/echo/name", host="h5.farm.test")
    urls = [farm.url(to(url)) for url in (same, other, by_name)]
    results = await checked(urls, auth=("user", "secret"), dns_servers=(farm.dns,))
    assert {result.outcome for result in results} == {"200"}
    sent = {key.partition("/")[2]: heads[0].get("authorization") for key, heads in farm.seen()["headers"].items()}
    basic = "Basic " + base64.b64encode(b"user:secret").decode()
    assert sent == {"echo/same": basic, "echo/other": None, "echo/name": None}


async def test_basic_authentication(farm: Farm) -> None:
    assert await outcomes([farm.url("/auth")], auth=("user", "secret")) == {farm.url("/auth"): "200"}
    assert await outcomes([farm.url("/auth")], auth=("user", "wrong")) == {farm.url("/auth"): "401"}
    url = farm.url("/auth").replace("//", "//user:secret@")
    assert await outcomes([url]) == {url: "200"}
    assert await outcomes([url], auth=("user", "wrong")) == {url: "200"}


async def test_headers(farm: Farm) -> None:
    await checked([farm.url("/echo/a")], headers=(("X-One", "1"), ("Accept", "text/html")), user_agent="me/1.0")
    ((sent,),) = farm.seen()["headers"].values()
    assert sent["x-one"] == "1"
    assert sent["accept"] == "text/html"
    assert sent["user-agent"] == "me/1.0"
    assert sent["host"] == f"127.0.0.1:{farm.ports['http']}"


async def test_own_cookies_and_authorization_headers_stay_with_their_host(farm: Farm) -> None:
    urls = [farm.url(to(farm.url("/echo/a", "other")))]
    await checked(urls, headers=(("Authorization", "Bearer secret"), ("Cookie", "session=secret")))
    ((sent,),) = farm.seen()["headers"].values()
    assert "secret" not in str(sent)


# -- Proxies -----------------------------------------------------------------------------------------


async def test_through_a_proxy(farm: Farm) -> None:
    urls = [
        farm.url("/status/404"),
        farm.url("/status/200", host="h1.farm.test"),
        farm.url("/status/203", "tls"),
        farm.url("/", "expired"),
        farm.url("/", "closed"),
    ]
    results = await checked(urls, proxy=farm.url("", "proxy"))
    # The proxy answers for a server that it does not reach.
    assert [result.outcome for result in results] == ["404", "200", "203", "tls", "502"]
    seen = farm.seen()
    assert seen["connections"]["proxy"] >= 5
    assert farm.questions() == {}
    assert f"CONNECT 127.0.0.1:{farm.ports['tls']}" in seen["targets"]


@pytest.mark.parametrize(("listener", "outcome"), [("closed", "connect"), ("silent", "timeout")])
async def test_a_proxy_that_is_none(listener: str, outcome: str, farm: Farm) -> None:
    for url in (farm.url("/"), farm.url("/", "tls")):
        (result,) = await checked([url], proxy=farm.url("", listener), timeout_s=1.0 if listener == "silent" else 60)
        assert result.outcome == outcome


# -- Name servers ------------------------------------------------------------------------------------


async def test_a_name_is_asked_for_once(farm: Farm) -> None:
    urls = [farm.url(f"/echo/{number}", host="h7.farm.test") for number in range(50)]
    await checked(urls, dns_servers=(farm.dns,), concurrency=50)
    # For both kinds of addresses.
    assert farm.questions() == {"h7.farm.test": 2}


async def test_a_name_whose_time_is_over_is_asked_for_again(farm: Farm) -> None:
    urls = [farm.url(f"/latency/400?{number}", host="ttl1.test") for number in range(8)]
    # The server ends each connection of its own accord: each needs an address.
    await checked(urls, dns_servers=(farm.dns,), concurrency=1, headers=(("Connection", "close"),))
    assert 4 <= farm.questions()["ttl1.test"] <= 8


@pytest.mark.parametrize("family", [4, 6])
async def test_a_family(family: int, farm: Farm) -> None:
    url = farm.url("/", host="h1.farm.test")
    found = await outcomes([url], dns_servers=(farm.dns,), family=family)
    assert found == {url: "200" if family == 4 else "dns"}
    assert farm.questions() == {"h1.farm.test": 1}
