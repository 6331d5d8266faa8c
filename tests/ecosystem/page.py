"""An ASGI application with a page that uses fetch, EventSource and WebSocket, and writes what came of it into its DOM.

The page's load event waits for an image, and the image for the page's word that all three are done: a browser that is
told to print the DOM after loading prints the outcome.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, MutableMapping
from typing import Any

Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]

PAGE = b"""<!doctype html><title>page</title><img src="/done.gif"><pre id="outcome"></pre><script>
async function fetched() {
  const got = await (await fetch("/json?a=%20b")).json();
  const sent = await (await fetch("/echo", {method: "POST", body: "x".repeat(300000)})).text();
  const reader = (await fetch("/stream")).body.getReader();
  let streamed = 0;
  for (;;) { const part = await reader.read(); if (part.done) break; streamed += part.value.length; }
  const many = await Promise.all([...Array(50).keys()].map(async n => +(await (await fetch("/number/" + n)).text())));
  const gone = (await fetch("/none")).status;
  return [got.query, sent.length, streamed, many.reduce((a, b) => a + b), gone].join(" ");
}
function events() {
  return new Promise((resolve, reject) => {
    const source = new EventSource("/events"), seen = [];
    source.onmessage = event => {
      seen.push(event.data);
      if (seen.length == 4) { source.close(); resolve(seen.join(" ")); }
    };
  });
}
function socket() {
  return new Promise((resolve, reject) => {
    const socket = new WebSocket(location.origin.replace("http", "ws") + "/socket", ["echo"]), seen = [];
    socket.binaryType = "arraybuffer";
    socket.onopen = () => { socket.send("\\u00e4".repeat(100000)); socket.send(new Uint8Array([0, 255, 7])); };
    socket.onmessage = event => {
      seen.push(event.data.length || new Uint8Array(event.data).join("-"));
      if (seen.length == 2) socket.close(4000, "enough");
    };
    socket.onerror = () => reject("refused");
    socket.onclose = event => {
      const extension = socket.extensions.split(";")[0];
      resolve([socket.protocol, extension, ...seen, event.code, event.wasClean].join(" "));
    };
  });
}
const all = {fetched, events, socket};
const lines = Object.keys(all).map(async name => name + ": " + await all[name]().catch(String));
Promise.all(lines).then(async lines => {
  document.getElementById("outcome").textContent = "[" + lines.join("|") + "]";
  await fetch("/done", {method: "POST"});
});
</script>"""

GIF = b"GIF89a\x01\0\x01\0\x80\0\0\0\0\0\xff\xff\xff!\xf9\x04\x01\0\0\0\0,\0\0\0\0\x01\0\x01\0\0\x02\x02D\x01\0;"
done = asyncio.Event()


async def answer(send: Send, body: bytes, kind: bytes = b"text/plain", status: int = 200) -> None:
    headers = [(b"content-type", kind), (b"content-length", b"%d" % len(body))]
    await send({"type": "http.response.start", "status": status, "headers": headers})
    await send({"type": "http.response.body", "body": body})


async def parts(send: Send, kind: bytes, *bodies: bytes) -> None:
    await send({"type": "http.response.start", "status": 200, "headers": [(b"content-type", kind)]})
    for body in bodies:
        await send({"type": "http.response.body", "body": body, "more_body": True})
    await send({"type": "http.response.body"})


async def events(scope: Message, send: Send) -> None:
    """Two events a connection: the browser comes back, and says which one was the last."""
    last = int(dict(scope["headers"]).get(b"last-event-id", b"0"))
    lines = [b"id: %d\ndata: event %d\n\n" % (number, number) for number in (last + 1, last + 2)]
    await parts(send, b"text/event-stream", b"retry: 10\n\n", *lines)


async def body_of(receive: Receive) -> bytes:
    body = bytearray()
    while True:
        message = await receive()
        body += message.get("body", b"")
        if not message.get("more_body"):
            return bytes(body)


async def socket(receive: Receive, send: Send) -> None:
    await receive()
    await send({"type": "websocket.accept", "subprotocol": "echo"})
    while (message := await receive())["type"] == "websocket.receive":
        await send({**message, "type": "websocket.send"})


async def got(scope: Message, send: Send) -> None:
    path = scope["path"]
    if path == "/":
        await answer(send, PAGE, b"text/html")
    elif path == "/json":
        await answer(send, b'{"query": "%s"}' % scope["query_string"], b"application/json")
    elif path == "/stream":
        await parts(send, b"application/octet-stream", *[b"y" * 10_000] * 50)
    elif path == "/events":
        await events(scope, send)
    elif path.startswith("/number/"):
        await answer(send, path[8:].encode())
    elif path == "/done.gif":
        await done.wait()
        await answer(send, GIF, b"image/gif")
    else:
        await answer(send, b"", status=404)


async def app(scope: Message, receive: Receive, send: Send) -> None:
    if scope["type"] == "lifespan":
        raise NotImplementedError
    if scope["type"] == "websocket":
        await socket(receive, send)
    elif scope["method"] == "POST":
        if scope["path"] == "/done":
            done.set()
        await answer(send, await body_of(receive))
    else:
        await got(scope, send)
