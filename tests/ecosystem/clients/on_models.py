"""The SDKs of model providers against a stand-in of their services: `python on_models.py PORT` prints what they got."""

from __future__ import annotations

import asyncio
import sys
from typing import Any

import anthropic  # type: ignore[import-not-found]
import openai  # type: ignore[import-not-found]

PORT = int(sys.argv[1])
BASE = f"http://127.0.0.1:{PORT}"
MESSAGES: Any = [{"role": "user", "content": "Say it."}]


def of_openai(kind: type[Any], **settings: Any) -> Any:
    return kind(base_url=f"{BASE}/v1", api_key="key", max_retries=2, **settings)


def of_anthropic(kind: type[Any], **settings: Any) -> Any:
    return kind(base_url=BASE, api_key="key", max_retries=2, **settings)


def name_of(error: BaseException) -> str:
    return f"{type(error).__name__} {getattr(error, 'status_code', '')}"


async def coroutines() -> None:
    async with of_openai(openai.AsyncOpenAI) as client:
        answer = await client.chat.completions.create(model="m", messages=MESSAGES)
        print("openai", answer.choices[0].message.content)
        stream = await client.chat.completions.create(model="m", messages=MESSAGES, stream=True)
        print("openai streamed", [chunk.choices[0].delta.content async for chunk in stream])
        answers = await asyncio.gather(
            *[client.chat.completions.create(model=f"m{n}", messages=MESSAGES) for n in range(50)]
        )
        print("openai many", [answer.model for answer in answers])
        answer = await client.chat.completions.create(model="busy at first", messages=MESSAGES)
        print("openai retried", answer.choices[0].message.content)
        try:
            await client.chat.completions.create(model="unknown", messages=MESSAGES)
        except openai.NotFoundError as error:
            print(name_of(error))
        async with client.chat.completions.with_streaming_response.create(model="m", messages=MESSAGES) as response:
            print("openai raw", response.status_code, [line async for line in response.iter_lines()])
    async with of_openai(openai.AsyncOpenAI, timeout=0.2) as client:
        try:
            await client.with_options(max_retries=0).chat.completions.create(model="slow", messages=MESSAGES)
        except openai.APITimeoutError as error:
            print(name_of(error))
    async with of_anthropic(anthropic.AsyncAnthropic) as client:
        message = await client.messages.create(model="m", max_tokens=5, messages=MESSAGES)
        print("anthropic", message.content[0].text)
        async with client.messages.stream(model="m", max_tokens=5, messages=MESSAGES) as stream:
            print("anthropic streamed", [text async for text in stream.text_stream])
        try:
            await client.messages.create(model="unknown", max_tokens=5, messages=MESSAGES)
        except anthropic.NotFoundError as error:
            print(name_of(error))


def plain() -> None:
    with of_openai(openai.OpenAI) as client:
        answer = client.chat.completions.create(model="m", messages=MESSAGES)
        print("openai", answer.choices[0].message.content)
        stream = client.chat.completions.create(model="m", messages=MESSAGES, stream=True)
        print("openai streamed", [chunk.choices[0].delta.content for chunk in stream])
    with openai.OpenAI(base_url="http://127.0.0.1:1/v1", api_key="key", max_retries=0) as client:
        try:
            client.chat.completions.create(model="m", messages=MESSAGES)
        except openai.APIConnectionError as error:
            print(name_of(error), type(error.__cause__).__name__)
    with of_anthropic(anthropic.Anthropic) as client:
        message = client.messages.create(model="m", max_tokens=5, messages=MESSAGES)
        print("anthropic", message.content[0].text)
        with client.messages.stream(model="m", max_tokens=5, messages=MESSAGES) as stream:
            print("anthropic streamed", list(stream.text_stream))


if __name__ == "__main__":
    asyncio.run(coroutines())
    plain()
