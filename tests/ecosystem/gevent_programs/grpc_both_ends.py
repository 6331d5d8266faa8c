"""grpcio's server and channel in one process, with its support for gevent."""

from __future__ import annotations

from gevent import monkey

monkey.patch_all()

from collections.abc import Iterator  # noqa: E402
from concurrent import futures  # noqa: E402
from typing import Any  # noqa: E402

import gevent  # noqa: E402
import grpc  # noqa: E402
import grpc.experimental.gevent  # noqa: E402

MANY = 50
# Each call that waits takes a thread of this pool.
gevent.get_hub().threadpool.maxsize = 2 * MANY
grpc.experimental.gevent.init_gevent()


class Handlers(grpc.GenericRpcHandler):  # type: ignore[misc, unused-ignore]
    def service(self, details: Any) -> Any:
        return {
            "/echo": grpc.unary_unary_rpc_method_handler(lambda request, _: request),
            "/repeat": grpc.unary_stream_rpc_method_handler(lambda request, _: iter([request] * 3)),
            "/double": grpc.stream_stream_rpc_method_handler(double),
        }[details.method]


def double(requests: Iterator[bytes], _: object) -> Iterator[bytes]:
    for request in requests:
        gevent.sleep(0.001)
        yield request * 2


server = grpc.server(futures.ThreadPoolExecutor(MANY))
server.add_generic_rpc_handlers((Handlers(),))
port = server.add_insecure_port("127.0.0.1:0")
server.start()
with grpc.insecure_channel(f"127.0.0.1:{port}") as channel:
    echo = channel.unary_unary("/echo")
    calls = [gevent.spawn(echo, str(number).encode(), timeout=20) for number in range(MANY)]
    assert [int(call.get()) for call in calls] == list(range(MANY))
    assert echo.future(b"later", timeout=20).result() == b"later"
    assert list(channel.unary_stream("/repeat")(b"r", timeout=20)) == [b"r"] * 3
    assert list(channel.stream_stream("/double")(iter([b"1", b"2"]), timeout=20)) == [b"11", b"22"]
server.stop(None).wait()
print(gevent.__name__)
