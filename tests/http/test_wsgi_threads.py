"""When requests get a thread, and what a view that waits holds up."""

from __future__ import annotations

import contextlib

import pytest

from tests.http.wsgi_fixtures import server
from tests.http.wsgi_peers import Served, head, read_all, served, taken_apart

__all__ = ["server"]


def test_views_that_wait_do_not_hold_up_others(server: Served) -> None:
    with contextlib.ExitStack() as stack:
        socks = []
        for number in range(7):
            sock = stack.enter_context(server.connect())
            sock.sendall(head(f"/block?view-{number}", "Connection: close"))
            socks.append(sock)
        for number in range(7):
            server.wait(f"view-{number} blocks")
        assert server.get("/hello").body == b"hello"
        for number, sock in enumerate(socks):
            server.get(f"/tell?view-{number}%20goes")
            (response,) = taken_apart(read_all(sock))
            assert response.body == b"hello"


def test_a_burst_behind_a_view_that_waits(server: Served) -> None:
    """Requests of one burst: the first one waits, the others are answered."""
    with contextlib.ExitStack() as stack:
        socks = [stack.enter_context(server.connect()) for _ in range(20)]
        socks[0].sendall(head("/block?burst", "Connection: close"))
        for sock in socks[1:]:
            sock.sendall(head("/hello", "Connection: close"))
        for sock in socks[1:]:
            (response,) = taken_apart(read_all(sock))
            assert response.body == b"hello"
        server.get("/tell?burst%20goes")
        (response,) = taken_apart(read_all(socks[0]))
        assert response.body == b"hello"


def test_silent_connections_get_no_thread(server: Served) -> None:
    with contextlib.ExitStack() as stack:
        for number in range(200):
            sock = stack.enter_context(server.connect())
            top = head("/echo", "Content-Length: 1000", method="POST")
            sock.sendall([b"", b"GET / HT", top[:-2], top + b"x" * 999][number % 4])
        for _ in range(20):
            assert server.get("/hello").body == b"hello"
        counters = server.get("/counters").json()
        assert counters["requests"] >= 51
    assert server.get("/hello").body == b"hello"


def test_threads_start_on_demand() -> None:
    with served("threads", threads=3) as running:
        for _ in range(20):
            assert running.get("/hello").body == b"hello"
        assert running.get("/counters").json()["threads"] == 1
        with contextlib.ExitStack() as stack:
            socks = [stack.enter_context(running.connect()) for _ in range(5)]
            for sock in socks[:2]:
                sock.sendall(head("/block?three", "Connection: close"))
            running.wait("three blocks")
            assert running.get("/counters").json()["threads"] in (2, 3)
            for sock in socks[2:]:
                sock.sendall(head("/compute", "Connection: close"))
            running.get("/tell?three%20goes")
            for sock in socks:
                (response,) = taken_apart(read_all(sock))
                assert response.body == b"hello"
        assert running.get("/counters").json()["threads"] <= 3
        assert running.get("/counters").json()["requests"] == 1


def test_more_requests_than_threads_wait() -> None:
    with served("threads", threads=1) as running, contextlib.ExitStack() as stack:
        socks = [stack.enter_context(running.connect()) for _ in range(10)]
        for sock in socks:
            sock.sendall(head("/compute", "Connection: close"))
        for sock in socks:
            (response,) = taken_apart(read_all(sock))
            assert response.body == b"hello"
        assert running.get("/counters").json()["threads"] == 1


def test_an_end_with_requests_under_way() -> None:
    """A server that is aborted ends its green threads, and waits for others no longer than it says."""
    with served("green") as running, running.connect() as sock:
        sock.sendall(head("/block?aborted"))
        running.wait("aborted blocks")


def test_limits_of_options() -> None:
    with pytest.raises(AssertionError, match="threads must be at least 1"), served("threads", threads=0):
        pass
