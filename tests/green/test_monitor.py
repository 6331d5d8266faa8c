"""The monitor: an OS thread that names the code that blocks the loop."""

from __future__ import annotations

import gc
import os
import re
import threading
import time
import weakref
from collections.abc import Iterator
from typing import Any

import pytest

import oneloop
from oneloop import green
from oneloop.green import events
from oneloop.green.hub import Hub, end_own_hub, get_hub
from oneloop.green.monitor import PeriodicMonitoringThread
from oneloop.green.settings import Config, config


class Told:
    """Records the events, and can block until there is one."""

    def __init__(self) -> None:
        self.events: list[Any] = []
        self._came = threading.Semaphore(0)

    def __call__(self, event: Any) -> None:
        self.events.append(event)
        self._came.release()

    def block(self) -> None:
        """Block the whole thread, as a C library would, until the monitor has sent an event."""
        assert self._came.acquire(timeout=60)


@pytest.fixture
def told(monkeypatch: pytest.MonkeyPatch) -> Iterator[Told]:
    monkeypatch.setattr(config, "max_blocking_time", 0.02)
    subscriber = Told()
    events.subscribers.append(subscriber)
    yield subscriber
    events.subscribers.remove(subscriber)


@pytest.fixture
def monitor(told: Told) -> PeriodicMonitoringThread:
    made = get_hub().start_periodic_monitoring_thread()
    (started,) = told.events
    assert isinstance(started, events.PeriodicMonitorThreadStartedEvent)
    assert started.monitor is made
    told.__init__()  # type: ignore[misc]
    return get_hub().start_periodic_monitoring_thread()


def blocked(told: Told) -> events.EventLoopBlocked:
    event: events.EventLoopBlocked = told.events[0]
    assert events.IEventLoopBlocked.providedBy(event)
    assert event.blocking_time >= 0.02
    assert event.hub is get_hub()
    return event


def test_a_green_thread_that_blocks(
    told: Told, monitor: PeriodicMonitoringThread, capsys: pytest.CaptureFixture[str]
) -> None:
    def calls_a_driver() -> None:
        told.block()

    greenlet = green.spawn(calls_a_driver)
    greenlet.join()
    event = blocked(told)
    assert event.greenlet is greenlet
    assert re.search(r"is blocked for \d+\.\d+ s, in [\w.]+\(\), .*threading\.py:\d+$", event.info[0])
    assert any("in calls_a_driver" in line for line in event.info)
    assert "in calls_a_driver" in capsys.readouterr().err


def test_the_main_greenlet_that_blocks(told: Told, monitor: PeriodicMonitoringThread) -> None:
    green.sleep(0.001)
    told.block()
    assert blocked(told).greenlet is get_hub().main


def test_a_callback_that_blocks(told: Told, monitor: PeriodicMonitoringThread) -> None:
    get_hub().run_callback(told.block)
    green.sleep(0.001)
    event = blocked(told)
    assert event.greenlet is get_hub().greenlet
    assert any("in block" in line for line in event.info)


def test_a_coroutine_that_blocks(told: Told) -> None:
    async def main() -> None:
        get_hub().start_periodic_monitoring_thread()
        told.block()
        told.block()

    oneloop.run(main())
    _, event = told.events[:2]
    assert isinstance(event, events.EventLoopBlocked)
    assert any("in main" in line for line in event.info)


def test_what_goes_on_is_told_again(told: Told, monitor: PeriodicMonitoringThread) -> None:
    green.sleep(0.001)
    for _ in range(3):
        told.block()
    times = [event.blocking_time for event in told.events[:3]]
    assert times[1] >= 2 * times[0]
    assert times[2] >= 2 * times[1]


def test_a_loop_that_sleeps_is_not_blocked(told: Told, monitor: PeriodicMonitoringThread) -> None:
    looked: list[Hub] = []
    monitor.add_monitoring_function(looked.append, 0.005)
    green.sleep(0.1)
    while not looked:
        green.sleep(0.001)
    assert [event for event in told.events if event.greenlet is not get_hub().main] == []
    assert set(looked) == {get_hub()}


def test_a_block_that_is_known(told: Told, monitor: PeriodicMonitoringThread) -> None:
    looks = threading.Semaphore(0)
    monitor.add_monitoring_function(lambda hub: looks.release(), 0.005)
    green.sleep(0.001)
    told.block()
    monitor.ignore_current_greenlet_blocking()
    # One more event may be on its way.
    for _ in range(3):
        looks.acquire(timeout=60)
    seen = len(told.events)
    for _ in range(20):
        looks.acquire(timeout=60)
    assert len(told.events) == seen
    monitor.monitor_current_greenlet_blocking()
    told.block()


def test_without_reports(
    told: Told,
    monitor: PeriodicMonitoringThread,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setattr(config, "print_blocking_reports", False)
    green.sleep(0.001)
    told.block()
    assert capsys.readouterr().err == ""


def test_functions_of_the_programs(
    told: Told, monitor: PeriodicMonitoringThread, capsys: pytest.CaptureFixture[str]
) -> None:
    called = threading.Semaphore(0)

    calls: list[Hub] = []

    def broken(hub: Hub) -> None:
        calls.append(hub)
        called.release()
        if len(calls) == 1:
            raise LookupError("in a function of the monitor's")

    monitor.add_monitoring_function(broken, 0.005)
    assert broken in monitor.monitoring_functions()
    for _ in range(2):
        assert called.acquire(timeout=60)
    monitor.kill()
    assert "in a function of the monitor's" in capsys.readouterr().err
    with pytest.raises(TypeError, match="must be callable"):
        monitor.add_monitoring_function(None, 1)  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="more than 0 seconds"):
        monitor.add_monitoring_function(broken, 0)


def test_it_ends_with_the_loop(monitor: PeriodicMonitoringThread) -> None:
    hub = get_hub()
    assert hub.start_periodic_monitoring_thread() is monitor
    assert hub.periodic_monitoring_thread is monitor
    end_own_hub()
    assert hub.periodic_monitoring_thread is None
    monitor.kill()
    assert "ended" in repr(monitor)


def test_it_keeps_nothing() -> None:
    hub = get_hub()
    monitor = weakref.ref(hub.start_periodic_monitoring_thread())
    reference = weakref.ref(hub)
    end_own_hub()
    del hub
    gc.collect()
    assert reference() is None
    while monitor() is not None:
        time.sleep(0.001)
        gc.collect()


@pytest.mark.filterwarnings("ignore:.*multi-threaded:DeprecationWarning")
def test_it_is_not_the_childs(monitor: PeriodicMonitoringThread) -> None:
    pid = os.fork()
    if pid == 0:
        green.sleep(0.001)
        os._exit(0 if get_hub().periodic_monitoring_thread is None else 1)
    assert os.waitpid(pid, 0) == (pid, 0)


def test_hubs_may_start_it_by_themselves(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(config, "monitor_thread", True)
    end_own_hub()
    assert get_hub().periodic_monitoring_thread is not None


# -- memory ------------------------------------------------------------------------------------------


def test_memory(told: Told, monitor: PeriodicMonitoringThread, monkeypatch: pytest.MonkeyPatch) -> None:
    hub = get_hub()
    assert monitor.monitor_memory_usage(hub) == -1
    monkeypatch.setattr(config, "max_memory_usage", "1kb")
    event = monitor.monitor_memory_usage(hub)
    assert isinstance(event, events.MemoryUsageThresholdExceeded)
    assert event.mem_usage > event.max_allowed == 1024
    assert "used=" in repr(event)
    # The high memory usage has been reported already.
    assert isinstance(monitor.monitor_memory_usage(hub), int)
    monkeypatch.setattr(config, "max_memory_usage", "1000gb")
    assert isinstance(monitor.monitor_memory_usage(hub), int)
    exceeded, under = told.events
    assert (exceeded, under.max_memory_usage >= event.mem_usage) == (event, True)
    assert isinstance(under, events.IMemoryUsageUnderThreshold)


def test_memory_is_looked_at_by_itself(told: Told, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(config, "max_memory_usage", 1)
    monkeypatch.setattr(config, "memory_monitor_period", 0.005)
    monitor = get_hub().start_periodic_monitoring_thread()
    monitor.install_monitor_memory_usage()
    assert len(monitor.monitoring_functions()) == 2
    told.block()
    told.block()
    assert any(isinstance(event, events.MemoryUsageThresholdExceeded) for event in told.events)


# -- settings ----------------------------------------------------------------------------------------


def test_settings_come_from_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GEVENT_MAX_BLOCKING_TIME", "2.5")
    monkeypatch.setenv("GEVENT_MONITOR_THREAD_ENABLE", "true")
    monkeypatch.setenv("GEVENT_MONITOR_MEMORY_MAX", "100MB")
    monkeypatch.setenv("GEVENT_THREADPOOL_IDLE_TASK_TIMEOUT", "-1")
    monkeypatch.setenv("GEVENT_FORMAT_CONTEXT", "pprint.saferepr")
    made = Config()
    assert (made.max_blocking_time, made.monitor_thread, made.max_memory_usage) == (2.5, True, 100 << 20)
    assert made.threadpool_idle_task_timeout is None
    assert made.format_context({"a": 1}) == "{'a': 1}"
    assert made.print_blocking_reports is True
    made.monitor_thread = "off"
    assert made.monitor_thread is False
    assert {*dir(made)} == {*made.settings}
    assert made.settings["monitor_thread"].environment_key == "GEVENT_MONITOR_THREAD_ENABLE"


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("max_blocking_time", 0),
        ("max_blocking_time", "soon"),
        ("monitor_thread", "perhaps"),
        ("max_memory_usage", "-1"),
        ("format_context", "repr"),
        ("memory_monitor_period", None),
    ],
)
def test_what_a_setting_cannot_be(name: str, value: Any) -> None:
    with pytest.raises((TypeError, ValueError), match=f"{name} .*cannot be"):
        setattr(Config(), name, value)


def test_settings_that_are_not_there() -> None:
    with pytest.raises(AttributeError, match="no setting 'libev_backend'"):
        green.config.libev_backend = "select"  # type: ignore[attr-defined]
    with pytest.raises(AttributeError):
        green.config.libev_backend  # type: ignore[attr-defined]  # noqa: B018


def test_how_long_threads_of_the_pool_stay(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(config, "threadpool_idle_task_timeout", 0.001)
    pool = get_hub().threadpool
    pool.apply(int)
    while pool.size:
        green.sleep(0.001)


# -- events ------------------------------------------------------------------------------------------


def test_events_of_patching() -> None:
    told: list[Any] = []
    events.subscribers.append(told.append)
    try:
        will = events.GeventWillPatchAllEvent({"socket": True, "time": False}, {"more": 1})
        assert (will.will_patch_module("socket"), will.will_patch_module("time")) == (True, False)
        did = events.GeventDidPatchModuleEvent("socket", 1, 2)
        items = ["a", "b"]
        module = events.GeventWillPatchModuleEvent("socket", 1, 2, items)
        module.target_item_names.remove("a")
        assert items == ["b"]
        for event in (will, did, module):
            events.notify(event)
        assert told == [will, did, module]
        assert (did.source, did.target, did.module_name) == (1, 2, "socket")
        assert "source=1 target=2" in repr(did)
        assert will.patch_all_kwargs == {"more": 1}
        assert events.IGeventWillPatchAllEvent.providedBy(will)
        assert not events.IGeventDidPatchAllEvent.providedBy(will)
        for kind in (events.GeventDidPatchAllEvent, events.GeventDidPatchBuiltinModulesEvent):
            assert isinstance(kind({}, {}), events.IGeventDidPatchEvent)
    finally:
        events.subscribers.remove(told.append)
    assert issubclass(events.DoNotPatch, BaseException)


def test_what_a_subscriber_raises() -> None:
    def refuses(event: object) -> None:
        raise events.DoNotPatch

    events.subscribers.append(refuses)
    try:
        with pytest.raises(events.DoNotPatch):
            events.notify(object())
    finally:
        events.subscribers.remove(refuses)
