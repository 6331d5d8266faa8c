"""OpenTelemetry: the example of docs/how-to/production.md, word for word. Its spans reach a collector."""

from __future__ import annotations

import re
import threading
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from typing import Any, Self

import pytest

from tests.http.service import Service

REASON = "needs the packages opentelemetry-instrumentation-asgi and opentelemetry-exporter-otlp-proto-http"
pytest.importorskip("opentelemetry.instrumentation.asgi", reason=REASON)
pytest.importorskip("opentelemetry.exporter.otlp.proto.http", reason=REASON)

pytestmark = pytest.mark.time_limit(120)

PAGE = (Path(__file__).parents[2] / "docs" / "how-to" / "production.md").read_text()
FOUND = re.search(r"```text\n# traced\.py\n(.*?)```", PAGE, re.DOTALL)
APP = """
from oneloop.http import AsyncClient
from opentelemetry import propagate


async def app(scope, receive, send):
    if scope["type"] == "lifespan":
        for _ in range(2):
            await send({"type": (await receive())["type"] + ".complete"})
        return
    if scope["path"] == "/far":
        headers = {}
        propagate.inject(headers)
        host, port = scope["server"]
        async with AsyncClient() as client:
            await client.get(f"http://{host}:{port}/near", headers=headers)
    await send({"type": "http.response.start", "status": 200, "headers": []})
    await send({"type": "http.response.body", "body": b"traced"})
"""


class Collector:
    """Takes spans in OTLP over HTTP."""

    def __init__(self) -> None:
        from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

        self.spans: list[Any] = []
        spans = self.spans

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                request = ExportTraceServiceRequest.FromString(self.rfile.read(int(self.headers["content-length"])))
                spans.extend(span for one in request.resource_spans for of in one.scope_spans for span in of.spans)
                self.send_response(200)
                self.send_header("content-length", "0")
                self.end_headers()

            def log_message(self, *_: object) -> None:
                pass

        self._server = HTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self._server.server_port}"

    def __enter__(self) -> Self:
        self._thread = threading.Thread(target=self._server.serve_forever, kwargs={"poll_interval": 0.01})
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._server.shutdown()
        self._thread.join()
        self._server.server_close()


def test_the_example_works(tmp_path: Path) -> None:
    assert FOUND is not None
    (tmp_path / "app.py").write_text(APP)
    with Collector() as collector:
        # What an exporter sends where, as its documentation has it.
        environment = {"OTEL_EXPORTER_OTLP_ENDPOINT": collector.url, "OTEL_BSP_SCHEDULE_DELAY": "100"}
        source = FOUND.group(1)
        with Service(tmp_path, source=source, env=environment) as service:
            assert service.get("/far") == "traced"
            # At its end, the exporter sends what it has.
            assert service.end() == 0
    roots = [span for span in collector.spans if span.name in ("GET /far", "GET /near")]
    assert {span.name for span in roots} == {"GET /far", "GET /near"}, [span.name for span in collector.spans]
    # The request of the client belongs to the trace of the one that it was made for.
    assert len({span.trace_id for span in roots}) == 1
