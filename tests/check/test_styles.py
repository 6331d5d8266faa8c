"""What the other styles do with options and failures: `get`, which all of them call, against the farm."""

from __future__ import annotations

from concurrent.futures import Executor, Future
from typing import Any

import pytest

pytest.importorskip("requests")

from oneloop.check import OptionError, Options, Result, Target, styles
from oneloop.check.styles import check_in_style, get
from tests.check.cases import to
from tests.check.farm.process import Farm


@pytest.fixture(autouse=True)
def _its_authorities(farm: Farm, monkeypatch: pytest.MonkeyPatch) -> None:
    """`requests` has its own."""
    monkeypatch.setenv("REQUESTS_CA_BUNDLE", str(farm.authority))


def got(url: str, **options: Any) -> Result:
    return get(Target(1, url), Options(**{"timeout_s": 20.0, **options}))


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


@pytest.mark.filterwarnings("ignore:Unverified HTTPS request")
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


def test_options_that_requests_does_not_have() -> None:
    for options in (Options(), Options(retries=0), Options(per_host=200)):
        assert list(check_in_style([], options, "threads")) == []
    for options in (Options(rate=1), Options(retries=2), Options(family=4), Options(block_private=True)):
        with pytest.raises(OptionError, match="is supported only by --style coroutines, not by --style threads"):
            check_in_style([], options, "threads")


def test_green_threads_need_a_patched_process() -> None:
    with pytest.raises(OptionError, match="patch_all"):
        check_in_style([], Options(), "green")


class Pool(Executor):
    """Does what it is given when `wait` asks for it, one after the other."""

    def __init__(self) -> None:
        self.calls: dict[Future[Result], Target] = {}
        self.is_cancelled = False

    def submit(self, fn: object, /, *args: Any, **kwargs: object) -> Future[Any]:
        future: Future[Result] = Future()
        self.calls[future] = args[0]
        return future

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
    found = styles._in_pool(urls, Options(concurrency=2), pool)
    assert [next(found).number for _ in range(10)] == list(range(1, 11))
    # One is done and one is taken at a time.
    assert len(pool.calls) == 9 + 2 * 2
    assert not pool.is_cancelled
    found.close()  # type: ignore[attr-defined]
    assert pool.is_cancelled
