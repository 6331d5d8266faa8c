"""Workers: replaced when they die, one by one on SIGHUP, and never at the cost of a request."""

from __future__ import annotations

import os
import re
import signal
import socket
import threading
import time
from contextlib import suppress
from pathlib import Path

import pytest

from tests.http.service import Service, read_all

pytestmark = pytest.mark.time_limit(180)

SHARED = pytest.mark.parametrize("listening", [(), ("--reuse-port",)], ids=["shared", "reuse-port"])


def pids(service: Service, count: int = 2) -> set[str]:
    """The pids of all workers; each connection goes to whichever takes it."""
    found: set[str] = set()
    while len(found) < count:
        found.add(service.get("/"))
    return found


class Clients:
    """Threads that ask all the time, each request on a connection of its own; what fails is kept."""

    def __init__(self, service: Service, count: int = 3) -> None:
        self._service = service
        self._stop = threading.Event()
        self.answered = 0
        self.errors: list[BaseException] = []
        self._threads = [threading.Thread(target=self._ask) for _ in range(count)]
        for thread in self._threads:
            thread.start()

    def _ask(self) -> None:
        while not self._stop.is_set():
            try:
                self._service.get("/")
                self.answered += 1
            except (OSError, AssertionError, Exception) as error:
                self.errors.append(error)
                return

    def stop(self) -> None:
        self._stop.set()
        for thread in self._threads:
            thread.join()
        assert not self.errors, self.errors
        assert self.answered


@SHARED
def test_all_serve_and_end(tmp_path: Path, listening: tuple[str, ...]) -> None:
    with Service(tmp_path, "--workers", "2", *listening) as service:
        found = pids(service)
        assert str(service.process.pid) not in found
        assert service.get("/ppid") == str(service.process.pid)
        assert service.end() == 0
    assert service.log.text.count("Application shutdown complete.") == 2
    assert service.out.text.count("lifespan ended") == 2
    assert "Stopping parent process" in service.log.text


@SHARED
def test_workers_accept_in_turn(tmp_path: Path, listening: tuple[str, ...]) -> None:
    """The kernel tells one of the workers that share a listener, unless each has its own."""
    with Service(tmp_path, "--workers", "2", *listening) as service:
        for pid in pids(service):
            # man 5 proc_pid_fdinfo: the events of each registration; EPOLLEXCLUSIVE is the bit 28.
            found = []
            for path in Path(f"/proc/{pid}/fdinfo").iterdir():
                with suppress(FileNotFoundError):  # that of the connection that has just been answered
                    found.append(path.read_text())
            events = re.findall(r"^tfd: +\d+ events: +([0-9a-f]+)", "".join(found), re.MULTILINE)
            assert sum(int(mask, 16) >> 28 & 1 for mask in events) == (0 if listening else 1)
        assert service.end() == 0


def test_a_worker_without_descriptors_passes_connections_on(tmp_path: Path) -> None:
    """Its last descriptors are in use: whoever is told of a connection, the other worker serves it."""
    with Service(tmp_path, "--workers", "2") as service:
        short = service.get("/use_all_descriptors")
        # Between two connections both workers go to sleep, and the one that is short tries again each second.
        for _ in range(25):
            assert service.get("/") != short
            time.sleep(0.1)
        assert service.end() == 0
    assert "out of system resource" in service.log.text


def test_requests_under_way_are_finished(tmp_path: Path) -> None:
    with Service(tmp_path, "--workers", "2") as service:
        waiting = [service.ask_later("/wait") for _ in range(3)]
        service.wait_for_file("waiting")
        service.send(signal.SIGTERM)
        service.log.wait_for("Received SIGTERM, exiting")
        (tmp_path / "go").touch()
        assert all(read_all(sock).startswith(b"HTTP/1.1 200 OK") for sock in waiting)
        assert service.wait() == 0


def test_a_second_signal_ends_at_once(tmp_path: Path) -> None:
    with Service(tmp_path, "--workers", "2") as service:
        waiting = service.held("/forever")
        service.send(signal.SIGINT)
        service.log.wait_for("Received SIGINT, exiting")
        service.send(signal.SIGINT)
        assert service.wait() == 0
        assert b"200 OK" not in read_all(waiting)
    assert "Received SIGINT, exiting immediately." in service.log.text


@pytest.mark.parametrize(
    ("path", "reason"), [("/die", r"was killed by SIGKILL \(the system may"), ("/exit", "ended with status 7")]
)
def test_what_dies_is_replaced_and_the_reason_told(tmp_path: Path, path: str, reason: str) -> None:
    with Service(tmp_path, "--workers", "2") as service:
        before = pids(service)
        read_all(service.ask_later(path))
        dead = service.log.wait_for(rf"Worker \[(\d+)\] {reason}.*; its successor starts immediately").group(1)
        service.log.wait_for("Application startup complete")
        after = pids(service)
        assert dead in before
        assert dead not in after
        assert len(before & after) == 1
        assert service.end() == 0


@pytest.mark.parametrize("is_stopped", [False, True])
def test_a_worker_whose_loop_is_stuck_is_replaced(tmp_path: Path, is_stopped: bool) -> None:
    with Service(tmp_path, "--workers", "2", "--timeout-worker-healthcheck", "1") as service:
        before = pids(service)
        if is_stopped:
            stuck = min(before)
            os.kill(int(stuck), signal.SIGSTOP)
        else:
            waiting = service.ask_later("/stuck")
        told = service.log.wait_for(r"Worker \[(\d+)\] is stuck: its loop has not run for 1 s").group(1)
        reason = "SIGKILL" if is_stopped else "SIGABRT"
        service.log.wait_for(rf"Worker \[{told}\] was killed by {reason}.*; its successor starts immediately")
        service.log.wait_for("Application startup complete")
        if is_stopped:
            assert told == stuck
        else:
            assert read_all(waiting) == b""
            assert 'apps.py", line' in service.log.text
        assert len(pids(service) & before) == 1
        assert service.end() == 0


def test_a_worker_that_is_stuck_while_it_ends_does_not_hold_up_the_end(tmp_path: Path) -> None:
    with Service(tmp_path, "--workers", "2", "--timeout-worker-healthcheck", "1") as service:
        service.get("/stuck_at_end")
        assert service.end() == 0
    assert "is stuck" in service.log.text


def test_deadlines_may_be_far_away(tmp_path: Path) -> None:
    far = ("--timeout-graceful-shutdown", "inf", "--timeout-worker-healthcheck", "1e300")
    with Service(tmp_path, "--workers", "2", *far) as service:
        waiting = service.held("/wait")
        service.send(signal.SIGTERM)
        service.log.wait_for("Received SIGTERM, exiting")
        (tmp_path / "go").touch()
        assert read_all(waiting).startswith(b"HTTP/1.1 200 OK")
        assert service.wait() == 0


def test_what_dies_again_and_again_is_replaced_later_each_time(tmp_path: Path) -> None:
    with Service(tmp_path, "--workers", "1", "--limit-max-requests", "1000000") as service:
        for delay in ("immediately", "in 0.2 s", "in 0.4 s"):
            read_all(service.ask_later("/die"))
            service.log.wait_for(rf"its successor starts {delay}")
            service.log.wait_for("Application startup complete")
        assert service.get("/")
        assert service.end() == 0


@SHARED
def test_sighup_replaces_all_and_refuses_nobody(tmp_path: Path, listening: tuple[str, ...]) -> None:
    with Service(tmp_path, "--workers", "2", *listening) as service:
        before = pids(service)
        clients = Clients(service)
        service.send(signal.SIGHUP)
        service.log.wait_for("Application shutdown complete", count=2)
        clients.stop()
        assert not before & pids(service)
        assert service.end() == 0


def test_sighup_reads_the_application_and_the_environment_again(tmp_path: Path) -> None:
    (tmp_path / "settings.env").write_text("GREETING=one\n")
    with Service(tmp_path, "--workers", "2", "--env-file", "settings.env") as service:
        assert service.get("/env") == "one"
        (tmp_path / "settings.env").write_text("GREETING=two\n")
        service.send(signal.SIGHUP)
        service.log.wait_for("Application shutdown complete", count=2)
        assert service.get("/env") == "two"
        assert service.end() == 0


def test_sighup_with_a_broken_application_leaves_the_workers(tmp_path: Path) -> None:
    with Service(tmp_path, "--workers", "2", app="apps:later_failing") as service:
        before = pids(service)
        (tmp_path / "broken").touch()
        service.send(signal.SIGHUP)
        service.log.wait_for("The remaining workers are not replaced")
        assert pids(service) == before
        (tmp_path / "broken").unlink()
        service.send(signal.SIGHUP)
        service.log.wait_for("Application shutdown complete", count=2)
        assert not before & pids(service)
        assert service.end() == 0


def test_starts_that_go_on_failing_end_the_whole_with_status_3(tmp_path: Path) -> None:
    with Service(tmp_path, "--workers", "2", app="apps:later_failing") as service:
        (tmp_path / "broken").touch()
        read_all(service.ask_later("/die"))
        assert service.wait() == 3
    assert service.log.text.count("failed to start: it ended with status 3") >= 2
    assert "Stopping the parent process" in service.log.text


def test_more_and_fewer_workers(tmp_path: Path) -> None:
    with Service(tmp_path, "--workers", "1", "--limit-max-requests", "1000000") as service:
        [first] = pids(service, 1)
        service.send(signal.SIGTTOU)
        service.log.wait_for("Received SIGTTOU: it is the last worker")
        service.send(signal.SIGTTIN)
        service.log.wait_for("increasing the number of workers to 2")
        service.log.wait_for("Application startup complete")
        assert first in pids(service)
        service.send(signal.SIGTTOU)
        service.log.wait_for("decreasing the number of workers to 1")
        service.log.wait_for("Application shutdown complete")
        assert {service.get("/") for _ in range(5)} == {first}
        assert service.end() == 0


@SHARED
def test_recycling_loses_no_request(tmp_path: Path, listening: tuple[str, ...]) -> None:
    options = ("--workers", "2", "--limit-max-requests", "20", "--limit-max-requests-jitter", "5")
    with Service(tmp_path, *options, *listening) as service:
        clients = Clients(service)
        service.log.wait_for(r"Replacing worker \[\d+\]: it has served 2\d requests \(--limit-max-requests\)", count=4)
        clients.stop()
        assert service.end() == 0


def test_a_single_process_with_a_limit_is_recycled_too(tmp_path: Path) -> None:
    with Service(tmp_path, "--limit-max-requests", "2") as service:
        first = service.get("/")
        assert service.get("/") == first
        service.log.wait_for("Application shutdown complete")
        assert service.get("/") != first
        assert service.end() == 0


def test_memory_is_limited(tmp_path: Path) -> None:
    with Service(tmp_path, "--limit-memory", "80m") as service:
        first = service.get("/grow")
        service.log.wait_for(r"Replacing worker \[\d+\]: it uses \d+ bytes of memory \(--limit-memory 83886080\)")
        service.log.wait_for("Application shutdown complete")
        assert service.get("/") != first
        assert service.end() == 0


def test_workers_end_with_their_parent(tmp_path: Path) -> None:
    with Service(tmp_path, "--workers", "2") as service:
        pids(service)
        service.process.kill()
        service.log.wait_for(r"The parent process has died", count=2)
        # Their ends of these pipes close.
        service.log.read_to_end()
        assert service.process.wait() == -signal.SIGKILL


def test_a_signal_to_the_whole_group_is_one_signal(tmp_path: Path) -> None:
    with Service(tmp_path, "--workers", "2", start_new_session=True) as service:
        waiting = service.held("/wait")
        os.killpg(service.process.pid, signal.SIGINT)
        service.log.wait_for("Received SIGINT, exiting")
        (tmp_path / "go").touch()
        assert read_all(waiting).startswith(b"HTTP/1.1 200 OK")
        assert service.wait() == 0
    assert "successor" not in service.log.text


def test_the_parent_imports_neither_the_application_nor_the_core(tmp_path: Path) -> None:
    with Service(tmp_path, "--workers", "2") as service:
        maps = Path(f"/proc/{service.process.pid}/maps").read_text(encoding="utf-8")
        assert "_native.cpython" not in maps
        assert service.end() == 0


def test_metrics_are_those_of_all_workers(tmp_path: Path) -> None:
    with Service(tmp_path, "--workers", "2", "--metrics", "/metrics") as service:
        # A response is counted after it has left: each worker's first has been when its second comes.
        pids(service)
        pids(service)
        status, headers, body = service.ask("GET", "/metrics")
        assert (status, headers["content-type"]) == (200, "text/plain; version=0.0.4; charset=utf-8")
        text = body.decode()
        pattern = r'^oneloop_http_requests_total\{worker="\d",status="2xx"\} (\d+)$'
        counts = [int(count) for count in re.findall(pattern, text, re.MULTILINE)]
        assert len(counts) == 2
        assert all(counts)
        assert text.count("process_resident_memory_bytes{") == 2
        assert text.count("oneloop_loop_callbacks_total{") == 2
        assert service.end() == 0


def test_a_connection_during_the_last_moments_is_served_or_refused(tmp_path: Path) -> None:
    with Service(tmp_path, "--workers", "2") as service:
        socks = [socket.create_connection(("127.0.0.1", service.port), 10) for _ in range(10)]
        for sock in socks:
            sock.sendall(b"GET / HTTP/1.1\r\nHost: x\r\n\r\n")
        service.send(signal.SIGTERM)
        for sock in socks:
            assert read_all(sock).startswith(b"HTTP/1.1 200 OK")
        assert service.wait() == 0


def test_a_limit_of_memory_that_is_too_low_is_told(tmp_path: Path) -> None:
    """A new worker needs more from the start, so replacing it does not help; but its growth is still limited."""
    with Service(tmp_path, "--limit-memory", "1m") as service:
        found = re.search(
            r"--limit-memory 1048576 is less than this process needs after its start, (\d+) bytes: it is replaced when",
            service.log.text,
        )
        assert found
        first = service.get("/")
        for _ in range(int(found.group(1)) // (64 << 20) + 2):
            if service.get("/grow") != first:
                break
        service.log.wait_for(r"Replacing worker \[\d+\]: it uses \d+ bytes of memory \(--limit-memory \d+\)")
        service.log.wait_for("Application shutdown complete")
        assert service.get("/") != first
        assert service.end() == 0
        # Its successor says so, too.
        assert service.log.text.count("--limit-memory 1048576 is less than this process needs") == 2
