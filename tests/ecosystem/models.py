"""An ASGI application that stands in for the services of model providers: always the same words, whole or streamed."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable
from typing import Any

Message = dict[str, Any]
WORDS = ["Hello", ", ", "wörld", "!"]
_busy: set[str] = set()


def chat(model: str, **choice: Any) -> Message:
    kind = "chat.completion.chunk" if "delta" in choice else "chat.completion"
    return {
        "id": "1", "object": kind, "created": 1, "model": model,
        "choices": [{"index": 0, "finish_reason": None if "delta" in choice else "stop", **choice}],
    }  # fmt: skip


def message(model: str, content: list[Message]) -> Message:
    return {
        "id": "1", "type": "message", "role": "assistant", "model": model, "content": content,
        "stop_reason": "end_turn", "stop_sequence": None, "usage": {"input_tokens": 1, "output_tokens": 4},
    }  # fmt: skip


def events(path: str, model: str) -> list[str]:
    if path.endswith("/chat/completions"):
        parts = [json.dumps(chat(model, delta={"role": "assistant", "content": word})) for word in WORDS]
        return [f"data: {part}\n\n" for part in [*parts, "[DONE]"]]
    made: list[Message] = [
        {"type": "message_start", "message": message(model, [])},
        {"type": "content_block_start", "index": 0, "content_block": {"type": "text", "text": ""}},
        {"type": "ping"},
        *({"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta", "text": word}} for word in WORDS),
        {"type": "content_block_stop", "index": 0},
        {"type": "message_delta", "delta": {"stop_reason": "end_turn"}, "usage": {"output_tokens": 4}},
        {"type": "message_stop"},
    ]
    return [f"event: {event['type']}\r\ndata: {json.dumps(event)}\r\n\r\n" for event in made]


async def app(
    scope: Message, receive: Callable[[], Awaitable[Message]], send: Callable[[Message], Awaitable[None]]
) -> None:
    if scope["type"] == "lifespan":
        while True:
            kind = (await receive())["type"]
            await send({"type": kind + ".complete"})
            if kind == "lifespan.shutdown":
                return
    body = b""
    while (part := await receive())["type"] == "http.request":
        body += part["body"]
        if not part["more_body"]:
            break
    asked = json.loads(body)
    status = await status_of(asked["model"])
    kind = b"text/event-stream" if asked.get("stream") else b"application/json"
    fields = [(b"content-type", kind), *([(b"retry-after-ms", b"1")] if status == 503 else [])]
    await send({"type": "http.response.start", "status": status, "headers": fields})
    for piece in pieces(scope["path"], asked, status):
        await send({"type": "http.response.body", "body": piece, "more_body": True})
        await asyncio.sleep(0)
    await send({"type": "http.response.body", "body": b""})


async def status_of(model: str) -> int:
    if model == "slow":
        await asyncio.sleep(1)
    if model == "busy at first" and model not in _busy:
        _busy.add(model)
        return 503
    return 404 if model == "unknown" else 200


def pieces(path: str, asked: Message, status: int) -> list[bytes]:
    """The parts of the body: events are cut in two, so that characters are cut too."""
    if status != 200:
        return [json.dumps({"type": "error", "error": {"type": "not_found_error", "message": "no"}}).encode()]
    if asked.get("stream"):
        raw = [event.encode() for event in events(path, asked["model"])]
        return [piece for event in raw for piece in (event[: len(event) // 2], event[len(event) // 2 :])]
    text = "".join(WORDS)
    if path.endswith("/chat/completions"):
        return [json.dumps(chat(asked["model"], message={"role": "assistant", "content": text})).encode()]
    return [json.dumps(message(asked["model"], [{"type": "text", "text": text}])).encode()]
