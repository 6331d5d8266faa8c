"""`local`: each greenlet has separate attributes during its lifetime."""

from __future__ import annotations

import copy
import gc
import threading
import time
import weakref
from typing import Any

import greenlet
import pytest

import oneloop
from oneloop import green
from oneloop.green.bridge import run_green
from oneloop.green.event import Event
from oneloop.green.local import local


class Value:
    """Supports weak references."""


class Initialized(local):
    calls = 0
    default = "of the class"

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        type(self).calls += 1
        self.arguments = (args, kwargs)

    @property
    def doubled(self) -> tuple[Any, ...]:
        args: tuple[Any, ...] = self.arguments[0] * 2
        return args

    @doubled.setter
    def doubled(self, value: object) -> None:
        self.set_to = value


class Slotted(local):
    __slots__ = ("shared",)

    shared: int


class Falling(local):
    def __getattr__(self, name: str) -> str:
        return f"no {name}"


def test_each_greenlet_has_its_own() -> None:
    data = local()
    data.number = 1

    def other() -> tuple[bool, dict[str, Any]]:
        had = hasattr(data, "number")
        data.number = 2
        green.sleep(0)
        return had, dict(data.__dict__)

    ones = [green.spawn(other) for _ in range(2)]
    assert [one.get() for one in ones] == [(False, {"number": 2})] * 2
    assert data.number == 1
    assert vars(data) == {"number": 1}


def test_raw_greenlets_and_threads_have_their_own() -> None:
    data = local()
    data.number = 1
    seen: list[bool] = []

    def other() -> None:
        seen.append(hasattr(data, "number"))
        data.number = 2

    greenlet.greenlet(other).switch()
    thread = threading.Thread(target=other)
    thread.start()
    thread.join()
    assert seen == [False, False]
    assert data.number == 1


def test_green_threads_with_a_copied_context_have_their_own() -> None:
    data = local()

    async def main() -> bool:
        data.number = 1
        return await run_green(hasattr, data, "number")

    assert oneloop.run(main()) is False


def test_init_is_called_once_per_greenlet_with_the_arguments() -> None:
    Initialized.calls = 0
    data = Initialized(1, two=2)
    assert Initialized.calls == 1
    del data.arguments

    def other() -> Any:
        return data.arguments, data.arguments, data.doubled

    arguments = ((1,), {"two": 2})
    assert green.spawn(other).get() == (arguments, arguments, (1, 1))
    assert Initialized.calls == 2
    assert not hasattr(data, "arguments")


def test_an_init_that_raises_is_called_again() -> None:
    class Failing(local):
        is_failing = False

        def __init__(self) -> None:
            if Failing.is_failing:
                raise ValueError("init")
            self.number = 1

    data = Failing()
    Failing.is_failing = True

    def other() -> int:
        for _ in range(2):
            with pytest.raises(ValueError, match="init"):
                data.number  # noqa: B018
        Failing.is_failing = False
        return data.number

    assert green.spawn(other).get() == 1


def test_arguments_need_an_init() -> None:
    with pytest.raises(TypeError, match="Initialization arguments are not supported"):
        local(1)


def test_class_attributes_properties_and_slots() -> None:
    data = Initialized()
    assert data.default == "of the class"
    data.default = "mine"
    assert green.spawn(lambda: data.default).get() == "of the class"
    data.doubled = 5
    assert data.set_to == 5
    vars(data)["doubled"] = "hidden by the property"
    assert data.doubled == ()
    with pytest.raises(AttributeError, match="no deleter"):
        del data.doubled
    slotted = Slotted()
    slotted.shared = 1
    assert green.spawn(lambda: slotted.shared).get() == 1
    assert vars(slotted) == {}
    del slotted.shared
    assert not hasattr(slotted, "shared")
    assert Falling().other == "no other"


def test_errors_name_the_attribute() -> None:
    data = local()
    with pytest.raises(AttributeError, match="'local' object has no attribute 'x'"):
        data.x  # noqa: B018
    with pytest.raises(AttributeError, match="'local' object has no attribute 'x'"):
        del data.x
    with pytest.raises(AttributeError, match="'local' object attribute '__dict__' is read-only"):
        data.__dict__ = {}
    with pytest.raises(AttributeError, match="'local' object attribute '__dict__' is read-only"):
        del data.__dict__


def test_values_go_when_the_green_thread_has_ended() -> None:
    data = local()

    def use() -> weakref.ref[Value]:
        data.value = Value()
        return weakref.ref(data.value)

    one = green.spawn(use)
    one.join()
    assert one.get()() is None


def test_values_of_what_was_killed_go_too() -> None:
    data = local()
    references: list[weakref.ref[Value]] = []

    def use() -> None:
        data.value = Value()
        references.append(weakref.ref(data.value))
        Event().wait(1000)

    one = green.spawn(use)
    green.sleep(0)
    assert references[0]() is not None
    one.kill()
    assert references[0]() is None


def test_values_of_raw_greenlets_and_threads_go_with_them() -> None:
    data = local()
    references: list[weakref.ref[Value]] = []

    def use() -> None:
        data.value = Value()
        references.append(weakref.ref(data.value))

    raw = greenlet.greenlet(use)
    raw.switch()
    del raw
    thread = threading.Thread(target=use)
    thread.start()
    thread.join()
    del thread
    # A dead thread's greenlet is freed by the next `getcurrent()` after the thread has fully ended, which is after
    # `join`.
    for _ in range(1000):
        greenlet.getcurrent()
        gc.collect()
        if references[1]() is None:
            break
        time.sleep(0.001)
    assert [reference() for reference in references] == [None, None]


def test_values_go_with_the_object() -> None:
    data = local()
    data.value = Value()
    reference = weakref.ref(data.value)
    del data
    assert reference() is None
    assert local().__dict__ == {}


def test_it_may_be_weakly_referenced_and_collected() -> None:
    data = local()
    reference = weakref.ref(data)
    assert reference() is data
    del data
    assert reference() is None


def test_a_value_may_refer_to_its_green_thread() -> None:
    # For a raw greenlet, the garbage collector would not find this cycle (greenlet 3.5).
    data = local()

    def use() -> None:
        data.greenlet = greenlet.getcurrent()

    one = green.spawn(use)
    one.join()
    reference = weakref.ref(one)
    del one
    green.sleep(0)
    gc.collect()
    assert reference() is None


def test_copy_has_the_attributes_of_this_greenlet() -> None:
    data = Initialized(1)
    data.number = 2
    del data.arguments
    copied = copy.copy(data)
    copied.other = 3
    assert type(copied) is Initialized
    assert vars(copied) == {"number": 2, "other": 3}
    assert vars(data) == {"number": 2}
    assert green.spawn(lambda: vars(copied)).get() == {"arguments": ((1,), {})}


def test_many_threads_at_once() -> None:
    data = local()

    def use(number: int) -> None:
        for step in range(300):
            data.number = (number, step)
            assert data.number == (number, step)
        done.append(number)

    done: list[int] = []
    threads = [threading.Thread(target=use, args=(n,)) for n in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(done) == [0, 1, 2, 3]


def test_what_refers_to_itself_by_its_attributes_is_collected() -> None:
    class Holder:
        def __init__(self) -> None:
            self.data = local()
            self.data.holder = self

    def use(data: local) -> None:
        data.own = [data]
        green.sleep(3600)

    holder = Holder()
    other = green.spawn(use, holder.data)
    green.sleep(0)
    gone = weakref.ref(holder.data)
    other.kill()
    del holder, other
    gc.collect()
    assert gone() is None


def test_its_own_link_is_not_counted() -> None:
    def work() -> None:
        own: Any = green.getcurrent()
        local().value = 1
        linked.append(own.has_links())
        own.rawlink(linked.append)
        linked.append(own.has_links())

    linked: list[object] = []
    green.spawn(work)
    # Not `join`, which links the waiting green thread.
    while len(linked) < 2:
        green.sleep(0)
    assert linked[:2] == [False, True]
