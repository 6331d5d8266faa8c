"""gRPC: a client of grpcio makes calls of all four kinds to an ASGI application on `oneloop serve --http h2c`."""

from __future__ import annotations

import queue
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.http.service import Service

grpc: Any = pytest.importorskip("grpc", reason="needs the package grpcio")

pytestmark = [
    pytest.mark.oneloop_only("the server needs oneloop's loop"),
    pytest.mark.time_limit(180),
    pytest.mark.allows_open_fds("grpcio's own threads"),
]

APP = (Path(__file__).parent / "grpc_app.py").read_text()
LIMIT_S = 60.0


@pytest.fixture
def service(tmp_path: Path) -> Iterator[Service]:
    with Service(tmp_path, "--http", "h2c", source=APP) as made:
        yield made


@pytest.fixture
def channel(service: Service) -> Iterator[Any]:
    with grpc.insecure_channel(f"127.0.0.1:{service.port}") as made:
        yield made


def test_unary_calls(channel: Any) -> None:
    call = channel.unary_unary("/test.Service/Unary")
    assert call(b"hello", timeout=LIMIT_S) == b"hello"
    assert call(b"x" * 1_000_000, timeout=LIMIT_S) == b"x" * 1_000_000
    many = [call.future(str(number).encode(), timeout=LIMIT_S) for number in range(100)]
    assert [one.result() for one in many] == [str(number).encode() for number in range(100)]


def test_a_stream_of_answers(channel: Any) -> None:
    call = channel.unary_stream("/test.Service/Down")
    assert list(call(b"1000", timeout=LIMIT_S)) == [str(number).encode() for number in range(1000)]


def test_a_stream_of_requests(channel: Any) -> None:
    call = channel.stream_unary("/test.Service/Up")
    assert call((b"x" * 10_000 for _ in range(200)), timeout=LIMIT_S) == b"2000000"


def test_both_at_once(channel: Any) -> None:
    """Each message is answered before the next one is sent."""
    requests: queue.SimpleQueue[bytes | None] = queue.SimpleQueue()
    answers = channel.stream_stream("/test.Service/Both")(iter(requests.get, None), timeout=LIMIT_S)
    for number in range(50):
        requests.put(f"m{number}".encode())
        assert next(answers) == f"m{number}".encode()[::-1]
    requests.put(None)
    assert list(answers) == []


def test_a_status_that_is_not_ok(channel: Any) -> None:
    with pytest.raises(grpc.RpcError) as raised:
        channel.unary_unary("/test.Service/Fail")(b"", timeout=LIMIT_S)
    assert raised.value.code() is grpc.StatusCode.FAILED_PRECONDITION
    assert raised.value.details() == "of the test"
    with pytest.raises(grpc.RpcError) as raised:
        channel.unary_unary("/test.Service/Other")(b"", timeout=LIMIT_S)
    assert raised.value.code() is grpc.StatusCode.UNIMPLEMENTED


def test_a_deadline(channel: Any, service: Service) -> None:
    # The deadline is to come while the application waits, and not while the connection is opened.
    assert channel.unary_unary("/test.Service/Unary")(b"first", timeout=LIMIT_S) == b"first"
    with pytest.raises(grpc.RpcError) as raised:
        channel.unary_unary("/test.Service/Slow")(b"", timeout=2)
    assert raised.value.code() is grpc.StatusCode.DEADLINE_EXCEEDED
    service.out.wait_for("slow was cancelled")
    assert channel.unary_unary("/test.Service/Unary")(b"alive", timeout=LIMIT_S) == b"alive"


def test_cancellation(channel: Any, service: Service) -> None:
    call = channel.unary_unary("/test.Service/Slow").future(b"", timeout=LIMIT_S)
    service.out.wait_for("slow began")
    assert call.cancel()
    service.out.wait_for("slow was cancelled")
    assert channel.unary_unary("/test.Service/Unary")(b"alive", timeout=LIMIT_S) == b"alive"
