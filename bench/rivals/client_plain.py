"""HTTP clients in plain code and in green threads: each sends a request and reads the answer, in its usual way.

Kept: the client with its connections; a response until its status and length are checked.
Thrown away: each response.
"""

# mypy: disable-error-code="import-untyped,import-not-found,no-untyped-call,unused-ignore,attr-defined"
# A rival may be missing.
from __future__ import annotations

import io
import time
from collections.abc import Callable
from typing import Any

from bench.rivals.client_work import (
    BYTES_PER_PIECE,
    PATIENCE_S,
    SETTLE_S,
    Ask,
    Work,
    hand_over,
    parse,
    run_plain,
    wait_for_start,
)


def _of_httpx(client: Any) -> Ask:
    """Whatever has httpx's interface."""

    def ask(work: Work) -> None:
        response = client.post(work.url, content=work.body) if work.upload else client.get(work.url)
        work.check(response.status_code, response.content)

    def stream(work: Work) -> None:
        length = 0
        with client.stream("GET", work.url) as response:
            for piece in response.iter_bytes():
                length += len(piece)
        work.check_length(response.status_code, length)

    def choose(work: Work) -> None:
        (stream if work.is_streamed else ask)(work)

    return choose


def _of_requests(session: Any) -> Ask:
    """Whatever has the interface of requests."""

    def ask(work: Work) -> None:
        if work.is_streamed:
            length = 0
            with session.get(work.url, stream=True, timeout=PATIENCE_S) as response:
                for piece in response.iter_content(BYTES_PER_PIECE):
                    length += len(piece)
            work.check_length(response.status_code, length)
            return
        if work.upload:
            response = session.post(work.url, data=work.body, timeout=PATIENCE_S)
        else:
            response = session.get(work.url, timeout=PATIENCE_S)
        work.check(response.status_code, response.content)

    return ask


def oneloop_client(work: Work) -> Ask:
    from oneloop.http import Client, Limits

    limits = Limits(max_connections=None, max_keepalive_connections=None)
    return _of_httpx(Client(limits=limits, verify=work.tls or True))


def httpx(work: Work, name: str = "httpx") -> Ask:
    package: Any = __import__(name)
    limits = package.Limits(max_connections=None, max_keepalive_connections=None)
    return _of_httpx(package.Client(limits=limits))


def httpx2(work: Work) -> Ask:
    return httpx(work, "httpx2")


def mock(work: Work, name: str = "httpx") -> Ask:
    """The package without a network."""
    package: Any = __import__(name)
    body = b"x" * work.size
    return _of_httpx(package.Client(transport=package.MockTransport(lambda _: package.Response(200, content=body))))


def mock2(work: Work) -> Ask:
    return mock(work, "httpx2")


def with_transport(work: Work, name: str = "httpx") -> Ask:
    """The package on oneloop's transport."""
    from oneloop.http import HttpxTransport

    package: Any = __import__(name)
    return _of_httpx(package.Client(transport=HttpxTransport()))


def with_transport2(work: Work) -> Ask:
    return with_transport(work, "httpx2")


def requests(work: Work) -> Ask:
    import requests

    session = requests.Session()
    session.verify = work.tls or True
    return _of_requests(session)


def with_adapter(work: Work) -> Ask:
    """The package requests on oneloop's adapter."""
    import requests

    from oneloop.http import RequestsAdapter

    session = requests.Session()
    session.mount("http://", RequestsAdapter())
    session.mount("https://", RequestsAdapter())
    return _of_requests(session)


def niquests(work: Work) -> Ask:
    import niquests

    # HTTP/2 and HTTP/3 cannot be offered without TLS; this only saves it the question.
    return _of_requests(niquests.Session(disable_http2=True, disable_http3=True))


def urllib3(work: Work) -> Ask:
    import urllib3

    pool = urllib3.PoolManager(maxsize=max(1, work.at_once), ca_certs=work.tls or None)

    def ask(work: Work) -> None:
        if work.is_streamed:
            length = 0
            response = pool.request("GET", work.url, preload_content=False)
            for piece in response.stream(BYTES_PER_PIECE):
                length += len(piece)
            response.release_conn()
            work.check_length(response.status, length)
            return
        body = work.body if work.upload else None
        response = pool.request("POST" if work.upload else "GET", work.url, body=body)
        work.check(response.status, response.data)

    return ask


def pycurl(work: Work) -> Ask:
    import pycurl

    curl = pycurl.Curl()
    if work.tls:
        curl.setopt(pycurl.CAINFO, work.tls)

    def ask(work: Work) -> None:
        curl.setopt(pycurl.URL, work.url)
        if work.is_streamed:
            lengths: list[int] = []
            curl.setopt(pycurl.WRITEFUNCTION, lambda piece: lengths.append(len(piece)))
            curl.perform()
            work.check_length(curl.getinfo(pycurl.RESPONSE_CODE), sum(lengths))
            return
        if work.upload:
            body = work.body
            curl.setopt(pycurl.POST, 1)
            curl.setopt(pycurl.POSTFIELDSIZE_LARGE, len(body))
            curl.setopt(pycurl.POSTFIELDS, body)
            # curl waits for `100 Continue` otherwise.
            curl.setopt(pycurl.HTTPHEADER, ["Expect:"])
        into = io.BytesIO()
        curl.setopt(pycurl.WRITEDATA, into)
        curl.perform()
        work.check(curl.getinfo(pycurl.RESPONSE_CODE), into.getvalue())

    return ask


def pyreqwest(work: Work) -> Ask:
    from pyreqwest.client import SyncClientBuilder

    client = SyncClientBuilder().build()

    def ask(work: Work) -> None:
        request = client.post(work.url).body_bytes(work.body) if work.upload else client.get(work.url)
        response = request.build().send()
        work.check(response.status, memoryview(response.bytes()))

    return ask


def wreq(work: Work) -> Ask:
    from wreq.blocking import Client

    client = Client()

    def ask(work: Work) -> None:
        response = client.post(work.url, body=work.body) if work.upload else client.get(work.url)
        work.check(response.status.as_int(), response.bytes())

    return ask


def rqx(work: Work) -> Ask:
    import rqx

    return _of_httpx(rqx.Client())


PROGRAMS: dict[str, Callable[[Work], Ask]] = {
    "oneloop": oneloop_client,
    "httpx": httpx,
    "httpx2": httpx2,
    "httpx-mock": mock,
    "httpx2-mock": mock2,
    "httpx-transport": with_transport,
    "httpx2-transport": with_transport2,
    "requests": requests,
    "requests-adapter": with_adapter,
    "niquests": niquests,
    "urllib3": urllib3,
    "pycurl": pycurl,
    "pyreqwest": pyreqwest,
    "wreq": wreq,
    "rqx": rqx,
}


def _run_green(work: Work, ask: Ask, run_all: Callable[[Callable[[], int]], int], sleep: Any) -> None:
    """As many green threads as there are requests at once."""

    def worker(end: float, given: Work) -> int:
        count = 0
        while True:
            ask(given)
            count += 1
            if time.monotonic() >= end:
                return count

    if work.warmup:
        end = time.monotonic() + work.warmup
        run_all(lambda: worker(end, work))
    window = wait_for_start(work)
    began_ns = time.monotonic_ns()
    until = time.monotonic() + work.duration
    requests = run_all(lambda: worker(until, window))
    wall_ns = time.monotonic_ns() - began_ns
    sleep(SETTLE_S)
    hand_over(requests, wall_ns)


def on_oneloop(work: Work) -> None:
    """Green threads of oneloop."""
    from oneloop import green

    def run_all(worker: Callable[[], int]) -> int:
        threads = [green.spawn(worker) for _ in range(work.at_once)]
        return sum(thread.get() for thread in threads)

    _run_green(work, PROGRAMS[work.rival](work), run_all, green.sleep)


def on_gevent(work: Work) -> None:
    """Green threads of gevent; the standard library is patched before the client is imported."""
    import gevent

    def run_all(worker: Callable[[], int]) -> int:
        threads = [gevent.spawn(worker) for _ in range(work.at_once)]
        gevent.joinall(threads, raise_error=True)
        return sum(thread.value for thread in threads)

    _run_green(work, PROGRAMS[work.rival](work), run_all, gevent.sleep)


if __name__ == "__main__":
    asked = parse()
    if asked.loop == "gevent":
        on_gevent(asked)
    elif asked.loop == "green":
        on_oneloop(asked)
    else:
        run_plain(asked, PROGRAMS[asked.rival](asked))
