"""How one process ends: requests under way are finished, in time, unless it is asked again."""

from __future__ import annotations

import signal
import socket
import textwrap
from pathlib import Path

import pytest
from test.test_asyncio.utils import ONLYCERT, ONLYKEY

import oneloop
from oneloop import signals
from oneloop.http.process import ignore_signals
from tests.certificates import client_context
from tests.http.service import Service, read_all


def test_what_is_under_way_is_finished(tmp_path: Path) -> None:
    with Service(tmp_path) as service:
        waiting = service.held("/wait")
        service.send(signal.SIGTERM)
        service.log.wait_for("Shutting down")
        (tmp_path / "go").touch()
        response = read_all(waiting)
        assert response.startswith(b"HTTP/1.1 200 OK\r\n")
        assert response.endswith(str(service.process.pid).encode())
        assert service.wait() == 0
    assert service.out.text.endswith("lifespan ended\n")


def test_idle_connections_are_closed(tmp_path: Path) -> None:
    with Service(tmp_path) as service:
        with socket.create_connection(("127.0.0.1", service.port), 10) as idle:
            idle.sendall(b"GET / HTTP/1.1\r\nHost: x\r\n\r\n")
            assert idle.recv(4096).startswith(b"HTTP/1.1 200")
            assert service.end() == 0
            assert idle.recv(4096) == b""


def test_a_second_signal_ends_at_once(tmp_path: Path) -> None:
    with Service(tmp_path) as service:
        waiting = service.held("/forever")
        service.send(signal.SIGINT)
        service.log.wait_for("Shutting down")
        assert service.end(signal.SIGINT) == 0
        assert b"200 OK" not in read_all(waiting)
    assert "cancelling 1 request(s)" in service.log.text


@pytest.mark.parametrize("arguments", [(), ("--workers", "2")], ids=["alone", "workers"])
@pytest.mark.parametrize("first", [signal.SIGTERM, signal.SIGINT])
def test_sigterm_again_has_no_effect(tmp_path: Path, arguments: tuple[str, ...], first: signal.Signals) -> None:
    """Supervisors send it more than once; only SIGINT again is a person that cannot wait."""
    with Service(tmp_path, *arguments) as service:
        waiting = service.held("/wait")
        service.send(first)
        service.log.wait_for("Shutting down|exiting")
        for _ in range(3):
            service.send(signal.SIGTERM)
            service.log.read_more(0.1)
        (tmp_path / "go").touch()
        assert read_all(waiting).startswith(b"HTTP/1.1 200 OK\r\n")
        assert service.wait() == 0
    assert "immediately" not in service.log.text


@pytest.mark.parametrize("arguments", [(), ("--workers", "2")], ids=["alone", "workers"])
def test_sigint_after_sigterm_ends_at_once(tmp_path: Path, arguments: tuple[str, ...]) -> None:
    with Service(tmp_path, *arguments) as service:
        waiting = service.held("/forever")
        service.send(signal.SIGTERM)
        service.log.wait_for("Shutting down|exiting")
        assert service.end(signal.SIGINT) == 0
        assert b"200 OK" not in read_all(waiting)


def test_sigterm_again_has_no_effect_on_serve(tmp_path: Path) -> None:
    program = """
    import asyncio
    import oneloop, oneloop.http

    oneloop.run(oneloop.http.serve("apps:app", port=0, on_ready=lambda _: print("ready (Press", flush=True)))
    """
    (tmp_path / "program.py").write_text(textwrap.dedent(program))
    with Service(tmp_path, command=("program.py",), port=None, is_ready=False) as service:
        service.port = int(service.log.wait_for(r"oneloop running on \S+:(\d+)").group(1))
        waiting = service.held("/wait")
        for _ in range(3):
            service.send(signal.SIGTERM)
            service.log.read_more(0.1)
        (tmp_path / "go").touch()
        assert read_all(waiting).startswith(b"HTTP/1.1 200 OK\r\n")
        assert service.wait() == 0


def test_the_time_is_limited(tmp_path: Path) -> None:
    with Service(tmp_path, "--timeout-graceful-shutdown", "0.2") as service:
        waiting = service.held("/forever")
        assert service.end() == 0
        # Not a word less than the access log says.
        assert read_all(waiting).startswith(b"HTTP/1.1 500 Internal Server Error\r\n")
    assert "Cancel 1 running task(s), timeout graceful shutdown exceeded" in service.log.text
    assert service.out.text.endswith("lifespan ended\n")


BLOCKED = {
    "asgi": """
        import asyncio, threading

        async def app(scope, receive, send):
            assert scope["type"] == "http"
            open("waiting", "w").close()
            await asyncio.to_thread(threading.Event().wait)
    """,
    "wsgi": """
        import threading

        def app(environ, start_response):
            open("waiting", "w").close()
            threading.Event().wait()
    """,
}


@pytest.mark.parametrize("source", BLOCKED.values(), ids=BLOCKED)
def test_a_thread_that_never_ends_does_not_hold_up_the_end(tmp_path: Path, source: str) -> None:
    with Service(tmp_path, "--timeout-graceful-shutdown", "0.2", source=source) as service:
        waiting = service.held("/")
        assert service.end() == 0
        read_all(waiting)


@pytest.mark.time_limit(180)
def test_connections_that_wait_to_be_accepted_are_served(tmp_path: Path) -> None:
    source = """
        import os, time

        async def app(scope, receive, send):
            if scope["type"] == "lifespan":
                raise RuntimeError
            if scope["path"] == "/block":
                # Nobody accepts meanwhile.
                open("waiting", "w").close()
                while not os.path.exists("go"):
                    time.sleep(0.01)
            await send({"type": "http.response.start", "status": 200, "headers": []})
            await send({"type": "http.response.body", "body": b"served"})
    """
    with Service(tmp_path, source=source) as service:
        first = service.held("/block")
        others = [service.ask_later("/") for _ in range(20)]
        service.send(signal.SIGTERM)
        (tmp_path / "go").touch()
        for sock in (first, *others):
            assert b"served" in read_all(sock)
        assert service.wait() == 0


def test_sighup_without_workers_leaves_it_running(tmp_path: Path) -> None:
    with Service(tmp_path) as service:
        service.send(signal.SIGHUP)
        assert service.get("/") == str(service.process.pid)
        assert service.end() == 0


@pytest.mark.parametrize("workers", ["1", "2"])
@pytest.mark.parametrize("step", ["startup", "shutdown"])
def test_a_lifespan_that_never_ends_does_not_hold_up_a_second_signal(tmp_path: Path, step: str, workers: str) -> None:
    source = """
    import asyncio

    async def app(scope, receive, send):
        try:
            for step in ("startup", "shutdown"):
                await receive()
                if step == STEP:
                    print("waits", flush=True)
                    await asyncio.Event().wait()
                await send({"type": f"lifespan.{step}.complete"})
        finally:
            print("cleaned up", flush=True)

    STEP = "%s"
    """
    with Service(tmp_path, "--workers", workers, source=source % step, is_ready=step == "shutdown") as service:
        if step == "startup":
            service.out.wait_for("waits")
        service.send(signal.SIGINT)
        service.log.wait_for("Shutting down|Received SIGINT, exiting")
        if step == "shutdown":
            service.out.wait_for("waits")
        assert service.end(signal.SIGINT) == 0
    assert f"the application's {step} was cancelled" in service.log.text
    assert "cleaned up" in service.out.text


def test_sigint_again_ends_while_a_thread_of_the_application_runs(tmp_path: Path) -> None:
    """The loop's end waits for it, for minutes or for ever."""
    source = """
    import asyncio, time

    async def app(scope, receive, send):
        asyncio.get_running_loop().run_in_executor(None, time.sleep, 1000)
        await send({"type": "http.response.start", "status": 200})
        await send({"type": "http.response.body"})
    """
    with Service(tmp_path, "--lifespan", "off", source=source) as service:
        assert service.get("/") == ""
        service.send(signal.SIGINT)
        service.log.wait_for("Finished server process")
        assert service.end(signal.SIGINT) == 0


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_signals_that_come_again_do_not_change_the_status(tmp_path: Path, number: signal.Signals) -> None:
    with Service(tmp_path) as service:
        service.send(signal.SIGINT)
        service.log.wait_for("Finished server process")
        while service.process.poll() is None:
            service.send(number)
        assert service.wait() == 0
    assert "Traceback" not in service.log.text


def test_no_signal_has_its_default_action_before_it_is_ignored(monkeypatch: pytest.MonkeyPatch) -> None:
    """Another thread would get it at that moment, even if it is blocked in this one."""
    set_handler = signal.signal
    given: list[object] = []

    def note(number: int, handler: signal.Handlers) -> object:
        given.append(handler)
        return set_handler(number, handler)

    before = signal.getsignal(signal.SIGUSR1)
    loop = oneloop.new_event_loop()
    try:
        loop.add_signal_handler(signal.SIGUSR1, given.clear)
        monkeypatch.setattr(signals, "_set_handler", note)
        ignore_signals(loop, [signal.SIGUSR1])
        loop.close()
        assert given == [signal.SIG_IGN]
        assert signal.getsignal(signal.SIGUSR1) is signal.SIG_IGN
    finally:
        loop.close()
        set_handler(signal.SIGUSR1, before)


@pytest.mark.parametrize("handler", ["SIG_DFL", "SIG_IGN"])
def test_a_program_has_its_signals_again(tmp_path: Path, handler: str) -> None:
    """nohup(1) starts a program with SIGHUP ignored, and a shell's `&` with SIGINT ignored."""
    program = f"""
    import signal
    import oneloop.http

    for number in (signal.SIGINT, signal.SIGHUP):
        signal.signal(number, signal.{handler})
    before = [signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)]
    oneloop.http.run("apps:app", port=0)
    assert before == [signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)]
    """
    (tmp_path / "program.py").write_text(textwrap.dedent(program))
    with Service(tmp_path, command=("program.py",), port=None) as service:
        assert service.end() == 0, service.log.text


@pytest.mark.parametrize("tls", [(), ("--ssl-ciphers", "ECDHE+AESGCM"), ("--ssl-version", "17")])
@pytest.mark.parametrize(("kind", "said"), [("asgi", "200 OK (incomplete: 5 bytes sent)"), ("wsgi", "500 Internal")])
def test_what_is_cut_at_the_end_is_in_the_log(tmp_path: Path, tls: tuple[str, ...], kind: str, said: str) -> None:
    """The last lines are written, also those of connections that the end itself has cut."""
    source = BLOCKED["wsgi"]
    if kind == "asgi":
        source = """
            import asyncio

            async def app(scope, receive, send):
                assert scope["type"] == "http"
                await send({"type": "http.response.start", "status": 200, "headers": []})
                await send({"type": "http.response.body", "body": b"first", "more_body": True})
                open("waiting", "w").close()
                await asyncio.Event().wait()
        """
    secured = ("--ssl-certfile", ONLYCERT, "--ssl-keyfile", ONLYKEY, *tls) if tls else ()
    with Service(tmp_path, "--timeout-graceful-shutdown", "0.2", *secured, source=source) as service:
        sock = socket.create_connection(("127.0.0.1", service.port), 30)
        client = client_context().wrap_socket(sock) if tls else sock
        with client:
            client.sendall(b"GET / HTTP/1.1\r\nHost: x\r\n\r\n")
            service.wait_for_file("waiting")
            assert service.end() == 0
    assert service.out.text.count(' - "GET / HTTP/1.1" ') == 1
    assert f' - "GET / HTTP/1.1" {said}' in service.out.text
    assert "Traceback" not in service.log.text
