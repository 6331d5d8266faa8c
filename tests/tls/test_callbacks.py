"""Calls of the transport from within the protocol's callbacks: both loops tell both ends the same."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import pytest

from tests.loops import FACTORIES
from tests.protocols import Recorder
from tests.tls.authority import Authority
from tests.tls.buffers import ViewRecorder
from tests.tls.endpoint import connected, happens, settled

CALLBACKS = ("connection_made", "data_received", "eof_received", "connection_lost")


def close(transport: Any) -> None:
    transport.close()


def abort(transport: Any) -> None:
    transport.abort()


def close_twice(transport: Any) -> None:
    transport.close()
    transport.close()


def write(transport: Any) -> None:
    transport.write(b"from inside")


def write_and_close(transport: Any) -> None:
    transport.write(b"from inside")
    transport.close()


def write_and_abort(transport: Any) -> None:
    transport.write(b"from inside")
    transport.abort()


def write_much(transport: Any) -> None:
    transport.writelines([b"m" * 100_000] * 20)


def pause_and_resume(transport: Any) -> None:
    transport.pause_reading()
    transport.resume_reading()


def pause_for_a_turn(transport: Any) -> None:
    transport.pause_reading()
    asyncio.get_running_loop().call_soon(transport.resume_reading)


def set_protocol(transport: Any) -> None:
    transport.set_protocol(transport.get_protocol())


def fail(_transport: Any) -> None:
    raise ValueError("from inside")


ACTIONS = [
    close,
    abort,
    close_twice,
    write,
    write_and_close,
    write_and_abort,
    write_much,
    pause_and_resume,
    pause_for_a_turn,
    set_protocol,
    fail,
]


class Acting(Recorder):
    """Does something to its transport in one of its callbacks, once."""

    moment = ""
    action: Callable[[Any], None]

    def _note(self, call: str) -> None:
        super()._note(call)
        if call == self.moment and self.calls.count(call) == 1:
            self.action(self.transport)


class ActingView(Acting, ViewRecorder):
    pass


def told(protocol: Recorder) -> tuple[list[str], bytes, str | None]:
    """What a protocol was told; how its data was cut is not the point."""
    calls = [call for call in protocol.calls if not call.endswith("_writing")]
    calls = [call for index, call in enumerate(calls) if call != "data_received" or calls[index - 1] != call]
    return calls, bytes(protocol.received), type(protocol.error).__name__ if protocol.error else None


def run(
    name: str, authority: Authority, version: str, kind: type[Acting], moment: str, action: Any, rest_s: float
) -> Any:
    """The scenario on one loop: data there, an answer, the end. What both ends and the loop's handler were told."""
    loop = FACTORIES[name]()
    reports: list[Any] = []
    loop.set_exception_handler(
        lambda _loop, context: reports.append((context["message"], type(context.get("exception")).__name__))
    )

    def factory() -> Acting:
        made = kind()
        made.moment, made.action = moment, action
        return made

    async def scenario() -> Any:
        made = Recorder(), factory()
        failed = None
        try:
            async with connected(authority, lambda: made[0], lambda: made[1], version=version) as (transport, *_):
                transport.write(b"data " * 5000)
                await settled()
                await asyncio.sleep(rest_s)
                transport.write(b"more")
                await settled()
                await asyncio.sleep(rest_s)
                transport.close()
                await happens(lambda: all("connection_lost" in protocol.calls for protocol in made))
        except (OSError, ValueError) as exc:
            failed = type(exc).__name__
        return [told(protocol) for protocol in made], reports, failed

    try:
        return loop.run_until_complete(scenario())
    finally:
        loop.run_until_complete(settled())
        loop.close()


@pytest.mark.parametrize("kind", [Acting, ActingView])
@pytest.mark.parametrize("moment", CALLBACKS)
@pytest.mark.parametrize("action", ACTIONS)
def test_both_loops_tell_the_same(
    authority: Authority, version: str, kind: type[Acting], moment: str, action: Callable[[Any], None]
) -> None:
    # On a busy machine what one end has sent may come late, to either loop.
    for rest_s in (0, 0.1, 1):
        stock = run("asyncio", authority, version, kind, moment, action, rest_s)
        ours = run("oneloop", authority, version, kind, moment, action, rest_s)
        if ours == stock:
            break
    assert ours == stock
    (ends, _, _) = ours
    for calls, _, _ in ends:
        assert calls == [] or calls[-1] == "connection_lost"
        assert calls.count("connection_made") == calls.count("connection_lost")
