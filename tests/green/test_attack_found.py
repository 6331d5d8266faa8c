"""Regression tests for defects that an attack on the complete package has found."""

from __future__ import annotations

import array
import gc
import os
import socket as stock
import threading
import time
import weakref
from typing import Any

import pytest

import oneloop
from oneloop import green
from oneloop.green import Timeout, socket
from oneloop.green.event import Event
from oneloop.green.exceptions import LoopExit
from oneloop.green.queue import Queue


def pair() -> tuple[socket.socket, stock.socket]:
    """A green stream socket that was read until it was empty, and its peer."""
    with stock.create_server(("127.0.0.1", 0)) as listener:
        peer = stock.create_connection(listener.getsockname())
        ours = listener.accept()[0]
    return emptied(socket.socket(fileno=ours.detach()), peer)


def emptied(ours: socket.socket, peer: stock.socket) -> tuple[socket.socket, stock.socket]:
    receiving = green.spawn(ours.recv, 100)
    green.sleep(0.001)
    peer.send(b".")
    assert receiving.get() == b"."
    return ours, peer


def test_a_short_read_that_descriptors_have_ended() -> None:
    one, peer = stock.socketpair()
    ours, _ = emptied(socket.socket(fileno=one.detach()), peer)
    with ours, peer, open(os.devnull, "rb") as file:
        for text in (b"one", b"two"):
            peer.sendmsg([text], [(stock.SOL_SOCKET, stock.SCM_RIGHTS, array.array("i", [file.fileno()]))])
        green.sleep(0.01)
        with Timeout(5):
            assert (ours.recv(100), ours.recv(100)) == (b"one", b"two")


def test_a_short_timeout_where_there_is_data() -> None:
    ours, peer = pair()
    with ours, peer:
        peer.send(b"data")
        ours.settimeout(1e-7)
        assert ours.recv(10) == b"data"


def test_receiving_nothing() -> None:
    ours, peer = pair()
    with ours, peer, Timeout(5):
        assert ours.recv(0) == b""


def test_what_is_there_is_received_in_a_coroutine() -> None:
    ours, peer = pair()

    async def main() -> bytes:
        return ours.recv(10)

    with ours, peer:
        peer.send(b"data")
        assert oneloop.run(main()) == b"data"


def test_two_objects_of_one_descriptor_wait() -> None:
    ours, peer = pair()
    with ours, peer, socket.socket(fileno=os.dup(ours.fileno())) as dup:
        same = socket.socket(fileno=ours.fileno())
        receiving = []
        for sock in (ours, same, dup):
            receiving.append(green.spawn(sock.recv, 1))
            green.sleep(0.001)
        peer.send(b"abc")
        with Timeout(5):
            assert sorted(one.get() for one in receiving) == [b"a", b"b", b"c"]
        same.detach()


def test_a_deadlock_after_a_wait_that_was_cancelled() -> None:
    sleeping = green.spawn(green.sleep, 1000)
    green.sleep(0)
    sleeping.kill()
    with pytest.raises(LoopExit):
        Event().wait()


def test_a_deadlock_beside_strange_objects() -> None:
    class Gone:
        pass

    class Lazy:
        asked = 0

        @property  # type: ignore[misc]
        def __class__(self) -> Any:
            Lazy.asked += 1
            return Lazy

    class Unspeakable(green.Greenlet):
        def __repr__(self) -> str:
            raise ValueError("no")

    gone = Gone()
    kept: list[Any] = [weakref.proxy(gone), Lazy()]
    del gone
    waiting = Unspeakable.spawn(Event().wait)
    green.sleep(0)
    with pytest.raises(LoopExit):
        Event().wait()
    waiting.kill()
    assert (len(kept), Lazy.asked) == (2, 0)


@pytest.mark.parametrize("seconds", [None, 0.001])
def test_an_ended_green_thread_is_freed_at_once(seconds: float | None) -> None:
    gc.disable()
    try:
        ended = green.spawn(int) if seconds is None else green.spawn_later(seconds, int)
        known = weakref.ref(ended)
        ended.join()
        del ended
        green.sleep(0)
        assert known() is None
    finally:
        gc.enable()


def test_an_end_in_another_thread_in_the_moment_of_join() -> None:
    class Slow(green.Greenlet):
        def ready(self) -> bool:
            was = super().ready()
            if threading.current_thread() is not owner and not was:
                go_on.set()
                owner.join()
            return was

    made: list[Slow] = []
    started, go_on = threading.Event(), threading.Event()

    def own() -> None:
        made.append(Slow.spawn(int))
        started.set()
        go_on.wait()
        green.sleep(0.001)
        green.get_hub().destroy()

    for timeout in (None, 1000):
        made.clear()
        started.clear()
        go_on.clear()
        owner = threading.Thread(target=own)
        owner.start()
        started.wait()
        with Timeout(5):
            made[0].join(timeout)


def test_a_subclass_that_is_made_in_its_own_way() -> None:
    class Made(green.Greenlet):
        function: Any

        def __new__(cls, function: Any, *args: Any) -> Any:
            made = super().__new__(cls)
            made.function = function
            return made

    assert Made.spawn(int).function is int


def test_a_green_thread_that_was_never_initialised_is_told() -> None:
    class Raw(green.Greenlet):
        def __init__(self) -> None:
            pass

    assert "Raw" in repr(Raw())


def test_keyword_arguments_of_any_name() -> None:
    def told(**kwargs: Any) -> Any:
        return kwargs

    names = {"self": 1, "cls": 2, "class_": 3, "greenlet": 4}
    assert green.spawn(told, **names).get() == names
    assert green.spawn_later(0, told, **names).get() == names


def test_many_that_wait_for_one() -> None:
    """Each waiter removes its link in a time that does not grow with the number of other waiters."""
    times = []
    for count in (1000, 8000):
        event, sleeping = Event(), green.spawn(green.sleep, 1000)
        began = time.process_time()
        green.joinall([green.spawn(green.wait, [event, sleeping], 0.001) for _ in range(count)])
        times.append(time.process_time() - began)
        assert (len(event._links), sleeping._life.links) == (0, [])
        sleeping.kill()
    assert times[1] < 32 * times[0]


def test_a_queue_beside_a_timer_that_is_over() -> None:
    assert Queue[int](items=[1]).get(timeout=1000) == 1
    late = green.spawn(Queue[int]().get, timeout=1000)
    green.sleep(0)
    late.kill()
    with pytest.raises(LoopExit):
        Queue[int]().get()
