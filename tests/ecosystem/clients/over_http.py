"""HTTP clients: requests, urllib3, urllib.request and http.client.

Arguments: the ports for HTTP and for HTTPS, and the file of the certificate that the latter shows.
"""

from __future__ import annotations

import contextlib
import http.client
import http.server
import ssl
import sys
import threading
import urllib.request
from collections.abc import Iterator

import requests
import urllib3
from requests.adapters import HTTPAdapter

from tests.ecosystem.clients.parts import at_once, part, raises, run

PORT, TLS_PORT, CERTIFICATE = int(sys.argv[1]), int(sys.argv[2]), sys.argv[3]
PLAIN, SECURE = f"http://localhost:{PORT}", f"https://localhost:{TLS_PORT}"
MANY = 50
# A limit that is far away: what it is for happens at once, or the test has failed.
FAR_S = 30


@part
def requests_each_with_its_connection() -> None:
    for base in (PLAIN, SECURE):
        answers = at_once(MANY, lambda _, base=base: requests.get(f"{base}/together/{MANY}", verify=CERTIFICATE))  # type: ignore[misc]
        assert [answer.text for answer in answers] == ["all"] * MANY


@part
def one_session_of_requests() -> None:
    with requests.Session() as session:
        # A bundle that the environment names would come before `verify`.
        session.trust_env = False
        session.verify = CERTIFICATE
        for prefix in ("http://", "https://"):
            session.mount(prefix, HTTPAdapter(pool_maxsize=MANY, pool_block=True))
        for base in (PLAIN, SECURE) * 2:
            answers = at_once(MANY, lambda _, base=base: session.get(f"{base}/together/{MANY}"))  # type: ignore[misc]
            assert [answer.text for answer in answers] == ["all"] * MANY


@part
def more_threads_than_connections() -> None:
    with urllib3.PoolManager(maxsize=5, block=True, ca_certs=CERTIFICATE) as pools:
        for base in (PLAIN, SECURE):
            answers = at_once(MANY, lambda _, base=base: pools.request("GET", f"{base}/together/5"))  # type: ignore[misc]
            assert [answer.data for answer in answers] == [b"all"] * MANY
            # Urllib3 makes another connection only for one that was dropped.
            assert pools.connection_from_url(base).num_connections == 5  # type: ignore[attr-defined]


@part
def the_standard_library() -> None:
    context = ssl.create_default_context(cafile=CERTIFICATE)

    def by_url(number: int) -> bytes:
        base = SECURE if number % 2 else PLAIN
        with urllib.request.urlopen(f"{base}/together/{MANY}", context=context) as answer:
            return bytes(answer.read())

    def by_connection(number: int) -> bytes:
        connection: http.client.HTTPConnection
        if number % 2:
            connection = http.client.HTTPSConnection("localhost", TLS_PORT, context=context)
        else:
            connection = http.client.HTTPConnection("localhost", PORT)
        with contextlib.closing(connection):
            connection.request("GET", f"/together/{MANY // 2}")
            return connection.getresponse().read()

    assert at_once(MANY // 2, by_connection) == [b"all"] * (MANY // 2)
    assert at_once(MANY, by_url) == [b"all"] * MANY


@part
def bodies_both_ways() -> None:
    data = bytes(range(256)) * 4000

    def pieces() -> Iterator[bytes]:
        for start in range(0, len(data), 100_000):
            yield data[start : start + 100_000]

    def one(number: int) -> None:
        base = SECURE if number % 2 else PLAIN
        answer = requests.post(f"{base}/echo", data=pieces() if number % 3 else data, verify=CERTIFICATE, stream=True)
        with answer:
            assert b"".join(answer.iter_content(10_000)) == data

    at_once(20, one)


@part
def timeouts() -> None:
    quick = (FAR_S, 0.05)
    pools = urllib3.PoolManager(retries=False)

    def one(number: int) -> None:
        match number % 4:
            case 0:
                raises(requests.ReadTimeout, lambda: requests.get(f"{PLAIN}/never", timeout=quick))
            case 1:
                raises(requests.ReadTimeout, lambda: requests.get(f"{SECURE}/never", timeout=quick, verify=CERTIFICATE))
            case 2:
                timeout = urllib3.Timeout(connect=FAR_S, read=0.05)
                raises(
                    urllib3.exceptions.ReadTimeoutError,
                    lambda: pools.request("GET", f"{PLAIN}/never", timeout=timeout),
                )
            case _:
                with contextlib.closing(http.client.HTTPConnection("localhost", PORT, timeout=0.5)) as connection:
                    connection.request("GET", "/never")
                    raises(TimeoutError, connection.getresponse)

    with pools:
        at_once(20, one)


@part
def a_pool_that_has_none_left() -> None:
    with urllib3.HTTPConnectionPool("localhost", PORT, maxsize=1, block=True) as pool:
        held = pool.request("GET", "/echo", preload_content=False)
        waiting = threading.Thread(target=pool.request, args=("GET", "/"))
        waiting.start()
        at_once(
            10, lambda _: raises(urllib3.exceptions.EmptyPoolError, lambda: pool.request("GET", "/", pool_timeout=0.02))
        )
        held.drain_conn()
        held.release_conn()
        waiting.join()
        assert pool.num_connections == 1


@part
def a_server_that_goes_away() -> None:
    """In the middle of a body, and before it has answered."""

    def one(number: int) -> None:
        base = SECURE if number % 2 else PLAIN
        broken = (requests.exceptions.ChunkedEncodingError, requests.exceptions.ConnectionError)
        raises(broken, lambda: requests.get(f"{base}/half/{MANY}", verify=CERTIFICATE))

    at_once(MANY, one)
    at_once(20, lambda _: raises(requests.exceptions.ConnectionError, lambda: requests.get(f"{PLAIN}/gone")))
    with urllib3.PoolManager(retries=False) as pools:
        at_once(20, lambda _: raises(urllib3.exceptions.ProtocolError, lambda: pools.request("GET", f"{PLAIN}/gone")))


@part
def retries_that_sleep() -> None:
    retry = urllib3.Retry(5, status_forcelist=[503], backoff_factor=0.02)
    with urllib3.PoolManager(retries=retry, maxsize=20) as pools:
        answers = at_once(20, lambda number: pools.request("GET", f"{PLAIN}/third/{number}"))
        assert [answer.status for answer in answers] == [200] * 20


@part
def a_server_of_the_program() -> None:
    """Server and clients in one process."""
    together = threading.Barrier(MANY)

    class Handler(http.server.BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            together.wait()
            self.send_response(200)
            self.send_header("Content-Length", "3")
            self.end_headers()
            self.wfile.write(b"all")

        def log_message(self, *_: object) -> None:
            """Nothing."""

    class Server(http.server.ThreadingHTTPServer):
        request_queue_size = 2 * MANY

    with Server(("127.0.0.1", 0), Handler) as server:
        serving = threading.Thread(target=server.serve_forever)
        serving.start()
        url = f"http://127.0.0.1:{server.server_port}/"
        answers = at_once(MANY, lambda _: requests.get(url))
        assert [answer.text for answer in answers] == ["all"] * MANY
        server.shutdown()
        serving.join()


if __name__ == "__main__":
    run()
