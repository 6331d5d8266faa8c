"""What the other styles do with options and failures: `Blocking`, which all of them call, against the farm."""

from __future__ import annotations

from concurrent.futures import Executor, Future
from typing import Any

import pytest

pytest.importorskip("pycares")

from oneloop.check import OptionError, Options, Result, Target, styles
from oneloop.check.blocking import Blocking
from oneloop.check.styles import check_in_style
from tests.check.cases import to
from tests.check.farm.process import Farm


def got(url: str, **options: Any) -> Result:
    blocking = Blocking(Options(**{"timeout_s": 20.0, **options}))
    try:
        return blocking.fetch(Target(1, url))
    finally:
        blocking.close()


@pytest.mark.parametrize(
    ("listener", "path", "outcome"),
    [
        ("http", "/status/404", "404"),
        ("http", "/redirect/11", "too_many_redirects"),
        ("http", "/redirect/10", "200"),
        ("http", "/close/first", "protocol"),
        ("http", "/chunks/cut", "protocol"),
        ("http", to("file:///etc/passwd"), "invalid_url"),
        ("tls", "/", "200"),
        ("expired", "/", "tls"),
        ("closed", "/", "connect"),
    ],
)
def test_outcomes(listener: str, path: str, outcome: str, farm: Farm) -> None:
    found = got(farm.url(path, listener))
    assert found.outcome == outcome
    assert bool(found.error_text) == (found.error is not None)


def test_outcomes_elsewhere(farm: Farm) -> None:
    assert got(farm.url("/slow/first"), timeout_s=0.1).outcome == "timeout"
    assert got("http://nothing.invalid/").outcome == "dns"
    assert got("http://[/").outcome == "invalid_url"
    assert got(farm.url("/", "expired"), insecure=True).outcome == "200"


def test_redirects(farm: Farm) -> None:
    url = farm.url(to(farm.url("/status/204")))
    found = got(url)
    assert (found.outcome, found.final_url) == ("204", farm.url("/status/204"))
    assert [hop.url for hop in found.redirects] == [url]
    assert got(url, follow=False).outcome == str(found.redirects[0].status)
    assert got(farm.url("/redirect/3"), max_redirects=2).outcome == "too_many_redirects"
    assert got(farm.url("/redirect/3"), max_redirects=3).outcome == "200"


def test_what_is_sent(farm: Farm) -> None:
    got(farm.url("/echo/a"), headers=(("X-One", "1"),), user_agent="me/1.0", auth=("user", "a:b"), method="HEAD")
    seen = farm.seen()
    assert list(seen["targets"]) == ["HEAD /echo/a"]
    ((sent,),) = seen["headers"].values()
    assert (sent["x-one"], sent["user-agent"], sent["authorization"]) == ("1", "me/1.0", "Basic dXNlcjphOmI=")


def test_options_of_coroutines_only() -> None:
    for options in (Options(), Options(retries=0), Options(per_host=200)):
        assert list(check_in_style([], options, "threads")) == []
    for options in (Options(rate=1), Options(retries=2), Options(family=4), Options(dns_servers=("127.0.0.1",))):
        with pytest.raises(OptionError, match="is supported only by --style coroutines, not by --style threads"):
            check_in_style([], options, "threads")


def test_private_addresses(farm: Farm) -> None:
    assert got(farm.url("/"), block_private=True).outcome == "blocked"
    for host in ("0x7f.1", "2130706433"):
        assert got(f"http://{host}/", block_private=True).outcome == "blocked"
        assert got(f"http://{host}/").outcome == "invalid_url"


def test_no_url_sees_the_cookies_of_another(farm: Farm) -> None:
    blocking = Blocking(Options(timeout_s=60.0))
    try:
        for number in range(2):
            assert blocking.fetch(Target(number, farm.url("/echo/cookie"))).outcome == "200"
    finally:
        blocking.close()
    sent = [fields for kept in farm.seen()["headers"].values() for fields in kept]
    assert ["cookie" in fields for fields in sent] == [False, False]


class Pool(Executor):
    """Does what it is given when `wait` asks for it, one after the other."""

    def __init__(self) -> None:
        self.calls: dict[Future[Result], Target] = {}
        self.is_cancelled = False

    def submit(self, fn: object, /, *args: Any, **kwargs: object) -> Future[Any]:
        future: Future[Result] = Future()
        self.calls[future] = args[0]
        return future

    def never(self, target: Target) -> Result:
        raise AssertionError("`wait` makes the results")

    def wait(self, futures: set[Future[Result]], return_when: str) -> tuple[set[Future[Result]], set[Future[Result]]]:
        first = min(futures, key=lambda future: self.calls[future].number)
        first.set_result(Result(self.calls[first].number, self.calls[first].url, status=200))
        return {first}, futures - {first}

    def shutdown(self, wait: bool = True, *, cancel_futures: bool = False) -> None:
        self.is_cancelled |= cancel_futures


def test_a_pool_is_given_no_more_than_it_needs_and_ends_with_its_consumer(monkeypatch: pytest.MonkeyPatch) -> None:
    pool = Pool()
    monkeypatch.setattr(styles, "wait", pool.wait)
    urls = (Target(number, "http://a/") for number in range(1, 101))
    found = styles._in_pool(urls, Options(concurrency=2), pool, pool.never)
    assert [next(found).number for _ in range(10)] == list(range(1, 11))
    # One is done and one is taken at a time.
    assert len(pool.calls) == 9 + 2 * 2
    assert not pool.is_cancelled
    found.close()  # type: ignore[attr-defined]
    assert pool.is_cancelled


def test_credentials_stay_with_their_host(farm: Farm) -> None:
    for target in (farm.url("/echo/same"), farm.url("/echo/other", "other")):
        got(farm.url(to(target)), auth=("user", "secret"))
    got(farm.url("/echo/own").replace("://", "://a:b@"), auth=("user", "secret"))
    sent = {key.partition("/echo/")[2]: heads[0].get("authorization") for key, heads in farm.seen()["headers"].items()}
    assert {name: value for name, value in sent.items() if name in ("same", "other", "own")} == {
        "same": "Basic dXNlcjpzZWNyZXQ=", "other": None, "own": "Basic YTpi",
    }  # fmt: skip
