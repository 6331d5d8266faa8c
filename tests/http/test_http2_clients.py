"""The server's HTTP/2, asked by others: curl, nghttp, h2load, httpx, Node and Go, over TLS and without."""

from __future__ import annotations

import asyncio
import json
import os
import re
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
from test.test_asyncio.utils import ONLYCERT, ONLYKEY

from tests.http.service import Service

pytestmark = pytest.mark.time_limit(180)

TLS = ("--ssl-certfile", ONLYCERT, "--ssl-keyfile", ONLYKEY)
BODY = b"0123456789abcdef" * 40_000
APP = """
async def app(scope, receive, send):
    if scope["type"] == "lifespan":
        for _ in range(2):
            await send({"type": (await receive())["type"] + ".complete"})
        return
    parts = []
    while True:
        message = await receive()
        parts.append(message.get("body", b""))
        if not message.get("more_body"):
            break
    headers = [(b"content-type", b"text/plain"), (b"x-version", scope["http_version"].encode())]
    await send({"type": "http.response.start", "status": 200, "headers": headers, "trailers": True})
    await send({"type": "http.response.body", "body": b"".join(parts) or scope["path"].encode()})
    await send({"type": "http.response.trailers", "headers": [(b"x-trailer", b"end")]})
"""

NODE = """
const http2 = require("node:http2");
const client = http2.connect(process.argv[2], {rejectUnauthorized: false});
const ask = (path, body) => new Promise((resolve, reject) => {
  const stream = client.request({":path": path, ":method": body ? "POST" : "GET"});
  let status, trailer; const parts = [];
  stream.on("response", (fields) => { status = fields[":status"]; });
  stream.on("trailers", (fields) => { trailer = fields["x-trailer"]; });
  stream.on("data", (part) => parts.push(part));
  stream.on("end", () => resolve([status, Buffer.concat(parts).toString(), trailer]));
  stream.on("error", reject);
  stream.end(body);
});
(async () => {
  const body = "0123456789abcdef".repeat(40000);
  const many = await Promise.all([...Array(50).keys()].map((n) => ask("/" + n)));
  const [status, echoed] = await ask("/", body);
  console.log(JSON.stringify([many, status, echoed === body]));
  client.close();
})();
"""

GO = """
package main

import (
	"crypto/tls"
	"fmt"
	"io"
	"net/http"
	"os"
	"strings"
	"sync"
)

func main() {
	protocols := new(http.Protocols)
	protocols.SetHTTP2(true)
	protocols.SetUnencryptedHTTP2(true)
	client := &http.Client{Transport: &http.Transport{
		Protocols: protocols, TLSClientConfig: &tls.Config{InsecureSkipVerify: true}}}
	var group sync.WaitGroup
	for number := range 50 {
		group.Add(1)
		go func() {
			defer group.Done()
			response, err := client.Get(fmt.Sprintf("%s/%d", os.Args[1], number))
			if err != nil {
				panic(err)
			}
			body, err := io.ReadAll(response.Body)
			if err != nil || response.ProtoMajor != 2 || string(body) != fmt.Sprintf("/%d", number) {
				panic(fmt.Sprint(err, response.Proto, string(body)))
			}
			if response.Trailer.Get("x-trailer") != "end" {
				panic("no trailer")
			}
		}()
	}
	group.Wait()
	body := strings.Repeat("0123456789abcdef", 40000)
	response, err := client.Post(os.Args[1], "text/plain", strings.NewReader(body))
	if err != nil {
		panic(err)
	}
	echoed, err := io.ReadAll(response.Body)
	fmt.Println(err, string(echoed) == body)
}
"""


def tool(name: str) -> str:
    path = shutil.which(name)
    if path is None:
        pytest.skip(f"needs {name}")
    return path


def run(*words: str | Path, cwd: Path | None = None, env: dict[str, str] | None = None) -> str:
    done = subprocess.run(words, capture_output=True, text=True, timeout=120, check=False, cwd=cwd, env=env)
    assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-2000:]
    return done.stdout


@pytest.fixture(params=["plain", "tls"])
def url(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[str]:
    is_tls = request.param == "tls"
    # Nobody reads its log meanwhile.
    with Service(tmp_path, "--no-access-log", *(TLS if is_tls else ("--http", "h2c")), source=APP) as service:
        yield f"{'https' if is_tls else 'http'}://127.0.0.1:{service.port}"
        assert service.end() == 0


def test_curl(url: str, tmp_path: Path) -> None:
    curl = tool("curl")
    if "HTTP2" not in run(curl, "--version"):
        pytest.skip("needs curl with HTTP2")
    (tmp_path / "body").write_bytes(BODY)
    version = "--http2" if url.startswith("https") else "--http2-prior-knowledge"
    words = (curl, "-sS", "--insecure", version, "-D", str(tmp_path / "head"), "-o", str(tmp_path / "got"))
    run(*words, "--data-binary", f"@{tmp_path / 'body'}", url)
    assert (tmp_path / "got").read_bytes() == BODY
    head = (tmp_path / "head").read_text()
    assert head.startswith("HTTP/2 200")
    assert "x-version: 2" in head
    assert "x-trailer: end" in head
    if not url.startswith("https"):
        # curl 7.88 uses such a connection only once.
        return
    urls = [f"{url}/{number}" for number in range(20)]
    found = run(curl, "-sS", "--insecure", version, "-w", "%{http_version} %{http_code}\\n", *urls)
    assert len(re.findall(r"2 200", found)) == 20


def test_nghttp(url: str, tmp_path: Path) -> None:
    (tmp_path / "body").write_bytes(BODY)
    nghttp = tool("nghttp")
    assert run(nghttp, "--no-verify-peer", f"--data={tmp_path / 'body'}", url).encode() == BODY
    found = run(nghttp, "--no-verify-peer", "--null-out", "--stat", *(f"{url}/{number}" for number in range(20)))
    assert len(re.findall(r" 200 ", found)) == 20


def test_h2load(url: str) -> None:
    found = run(tool("h2load"), "--requests=2000", "--clients=4", "--max-concurrent-streams=20", url)
    assert "2000 succeeded, 0 failed, 0 errored, 0 timeout" in found


def test_node(url: str, tmp_path: Path) -> None:
    (tmp_path / "client.js").write_text(NODE)
    many, status, is_same = json.loads(run(tool("node"), tmp_path / "client.js", url))
    assert many == [[200, f"/{number}", "end"] for number in range(50)]
    assert (status, is_same) == (200, True)


def test_go(url: str, tmp_path: Path) -> None:
    go = tool("go")
    found = re.search(r"go1\.(\d+)", run(go, "version"))
    if found is None or int(found[1]) < 24:
        pytest.skip("needs go 1.24 (http.Protocols)")
    (tmp_path / "main.go").write_text(GO)
    env = {**os.environ, "CGO_ENABLED": "0", "GO111MODULE": "off"}
    assert run(go, "run", "main.go", url, cwd=tmp_path, env=env) == "<nil> true\n"


@pytest.mark.parametrize("options", [("--http", "h2c"), TLS], ids=["plain", "tls"])
def test_httpx(tmp_path: Path, options: tuple[str, ...]) -> None:
    httpx = pytest.importorskip("httpx")

    async def ask(url: str) -> None:
        async with httpx.AsyncClient(http1=options == TLS, http2=True, verify=False, base_url=url) as client:
            responses = await asyncio.gather(*(client.get(f"/{number}") for number in range(50)))
            assert [response.text for response in responses] == [f"/{number}" for number in range(50)]
            assert {response.http_version for response in responses} == {"HTTP/2"}
            echoed = await client.post("/", content=BODY)
            assert (echoed.status_code, echoed.content) == (200, BODY)

    with Service(tmp_path, *options, source=APP) as service:
        scheme = "https" if options == TLS else "http"
        asyncio.run(ask(f"{scheme}://127.0.0.1:{service.port}"))
        assert service.end() == 0
