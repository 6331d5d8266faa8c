"""`oneloop serve` as a command: what it says, and its exit status."""

from __future__ import annotations

import signal
import socket
from pathlib import Path

import pytest

from tests.http.service import APPS, Service, read_all
from tests.ipv6 import NEEDS_IPV6


def test_it_serves_and_ends_with_status_0(tmp_path: Path) -> None:
    with Service(tmp_path) as service:
        assert service.get("/") == str(service.process.pid)
        assert service.end() == 0
    assert "Application startup complete." in service.log.text
    assert "Finished server process" in service.log.text
    assert service.out.text.endswith("lifespan ended\n")
    assert 'GET / HTTP/1.1" 200 OK' in service.out.text


def test_ctrl_c_ends_it_with_status_0(tmp_path: Path) -> None:
    with Service(tmp_path) as service:
        assert service.end(signal.SIGINT) == 0


def test_wsgi_is_found_out(tmp_path: Path) -> None:
    with Service(tmp_path, app="apps:wsgi") as service:
        assert service.get("/").startswith("wsgi ")
        assert service.end() == 0
    assert "lifespan" not in service.log.text


@pytest.mark.parametrize(
    ("arguments", "app", "status", "text"),
    [
        ((), "apps", 3, "'apps' is not the name of an application: write package.module:app"),
        ((), "nowhere:app", 3, "there is no module 'nowhere': run the command in the directory that contains it"),
        ((), "apps:nothing", 3, "the module 'apps' has no attribute 'nothing'"),
        ((), "apps:failing", 3, "the database is away"),
        (("--lifespan", "on"), "apps:raising", 3, "RuntimeError: not for lifespan"),
        (("--factory",), "apps:failing", 3, "the factory apps:failing failed"),
        (("--host", "192.0.2.1"), "apps:app", 3, "cannot listen on 192.0.2.1 port 0: Cannot assign requested address"),
        (("--host", "no.such.host.invalid"), "apps:app", 3, "cannot resolve the host 'no.such.host.invalid'"),
        (("--fd", "77"), "apps:app", 3, "--fd 77 is not an open socket: Bad file descriptor"),
        (("--workers", "2"), "apps:failing", 3, "the database is away"),
        (("--workers", "2"), "nowhere:app", 3, "failed to start: it ended with status 3. Stopping the parent process."),
        (("--workers", "none"), "apps:app", 2, "argument --workers: 'none' is neither auto nor a number"),
        (("--ssl-keyfile", "x"), "apps:app", 2, "--ssl-keyfile x: there is no such file"),
        (("--ssl-certfile", "apps.py"), "apps:app", 3, "Cannot start the server: "),
        (("--log-config", "apps.py"), "apps:app", 2, "--log-config: "),
        (("--env-file", "apps.py"), "apps:app", 2, "--env-file apps.py: line 2 is not KEY=VALUE"),
    ],
)
def test_what_cannot_start_says_why(
    tmp_path: Path, arguments: tuple[str, ...], app: str, status: int, text: str
) -> None:
    with Service(tmp_path, *arguments, app=app, is_ready=False) as service:
        assert service.wait() == status, service.log.text
    assert text in service.log.text


def test_without_an_application_it_says_what_is_missing(tmp_path: Path) -> None:
    with Service(tmp_path, app="--reload", is_ready=False) as service:
        assert service.wait() == 2
    assert "no application given. Write oneloop serve package.module:app" in service.log.text


def test_an_application_without_lifespan_is_served(tmp_path: Path) -> None:
    with Service(tmp_path, app="apps:raising") as service:
        assert "ASGI 'lifespan' protocol appears unsupported." in service.log.text
        assert service.ask("GET", "/")[0] == 500
        assert service.end() == 0


def test_uvicorns_options_without_meaning_are_left_out_with_a_word(tmp_path: Path) -> None:
    with Service(tmp_path, "--loop", "uvloop", "--ws", "wsproto", "--ws-max-queue", "8") as service:
        assert service.end() == 0
    assert "these options of uvicorn have no effect here: --loop, --ws, --ws-max-queue\n" in service.log.text


def test_a_second_server_on_the_port_fails(tmp_path: Path) -> None:
    with Service(tmp_path) as service:
        for arguments in ((), ("--reuse-port",), ("--reuse-port", "--workers", "2")):
            with Service(tmp_path, *arguments, port=service.port, is_ready=False) as second:
                assert second.wait() == 3
            assert f"port {service.port}: another program already listens there" in second.log.text
        assert service.end() == 0


def test_a_second_server_beside_one_with_reuse_port_fails(tmp_path: Path) -> None:
    with Service(tmp_path, "--reuse-port", "--workers", "2") as service:
        with Service(tmp_path, "--reuse-port", "--workers", "2", port=service.port, is_ready=False) as second:
            assert second.wait() == 3
        assert "another program already listens there" in second.log.text
        assert service.get()
        assert service.end() == 0


def test_the_environment_file_and_the_factory(tmp_path: Path) -> None:
    (tmp_path / "settings.env").write_text("export GREETING='good day'\n")
    with Service(tmp_path, "--env-file", "settings.env", "--factory", app="apps:make") as service:
        assert service.get("/env") == "good day"
        assert service.end() == 0


def test_a_factory_without_its_option_is_told_of(tmp_path: Path) -> None:
    with Service(tmp_path, app="apps:make") as service:
        assert service.get("/")
        assert service.end() == 0
    assert "add --factory" in service.log.text


def test_the_folder_of_the_application(tmp_path: Path) -> None:
    (tmp_path / "src").mkdir()
    (tmp_path / "src" / "elsewhere.py").write_text(APPS)
    with Service(tmp_path, "--app-dir", "src", app="elsewhere:app") as service:
        assert service.get("/")
        assert service.end() == 0


def test_header_fields(tmp_path: Path) -> None:
    with Service(tmp_path, "--header", "X-One: 1", "--header", "X-Two:2", "--no-date-header") as service:
        _, headers, _ = service.ask("GET", "/")
        assert (headers["x-one"], headers["x-two"], headers["server"]) == ("1", "2", "oneloop")
        assert "date" not in headers
        assert service.end() == 0


def test_a_date_of_the_command_line_is_the_only_one(tmp_path: Path) -> None:
    with Service(tmp_path, "--header", "Date: long ago") as service:
        with service.ask_later("/") as sock:
            head = sock.recv(65536)
        assert head.lower().count(b"\r\ndate:") == 1
        assert b"long ago" in head
        assert service.end() == 0


@pytest.mark.parametrize("host", ["x" * 300, "\udcff"])
def test_a_host_that_is_no_name_is_told(tmp_path: Path, host: str) -> None:
    with Service(tmp_path, "--host", host, is_ready=False) as service:
        assert service.wait() == 3
    assert "cannot resolve the host" in service.log.text
    assert "Traceback" not in service.log.text


def test_without_the_server_field_and_the_access_log(tmp_path: Path) -> None:
    with Service(tmp_path, "--no-server-header", "--no-access-log") as service:
        assert "server" not in service.ask("GET", "/")[1]
        assert service.end() == 0
    assert "GET" not in service.out.text


def test_proxy_headers(tmp_path: Path) -> None:
    with Service(tmp_path) as service:
        asked = {"X_Forwarded_For": "1.2.3.4", "X_Forwarded_Proto": "https"}
        assert service.get("/client", **asked) == "('1.2.3.4', 0) https"
        assert service.end() == 0
    with Service(tmp_path, "--forwarded-allow-ips", "10.0.0.1") as service:
        assert service.get("/client", **asked).startswith("('127.0.0.1', ")
        assert service.end() == 0
    with Service(tmp_path, "--no-proxy-headers") as service:
        assert service.get("/client", **asked).endswith(" http")
        assert service.end() == 0


def test_static_files_in_front_of_both_interfaces(tmp_path: Path) -> None:
    (tmp_path / "public").mkdir()
    (tmp_path / "public" / "big.bin").write_bytes(bytes(range(256)) * 4096)
    for app in ("apps:app", "apps:wsgi"):
        with Service(tmp_path, "--static", "/static=public", app=app) as service:
            status, headers, body = service.ask("GET", "/static/big.bin")
            assert (status, len(body), headers["content-type"]) == (200, 1 << 20, "application/octet-stream")
            status, _, body = service.ask("GET", "/static/big.bin", Range="bytes=1000000-")
            assert (status, body) == (206, (bytes(range(256)) * 4096)[1000000:])
            status, headers, body = service.ask("HEAD", "/static/big.bin")
            assert (status, headers["content-length"], body) == (200, str(1 << 20), b"")
            assert service.ask("GET", "/static/../apps.py")[0] == 404
            assert service.get("/other")
            assert service.end() == 0


def test_json_lines(tmp_path: Path) -> None:
    with Service(tmp_path, "--access-log-format", "json") as service:
        service.get("/a?b=1")
        found = service.out.wait_for(r'"target": "(.*?)", .* "status": 200, "body_bytes": (\d+), "duration_s"')
        assert found.group(1) == "/a?b=1"
        assert int(found.group(2)) == len(str(service.process.pid))
        assert service.end() == 0


def test_a_logging_configuration_gets_records(tmp_path: Path) -> None:
    (tmp_path / "log.json").write_text(
        """{"version": 1, "disable_existing_loggers": false,
        "formatters": {"plain": {"format": "%(name)s|%(message)s"}},
        "handlers": {"out": {"class": "logging.StreamHandler", "formatter": "plain", "stream": "ext://sys.stderr"}},
        "loggers": {"uvicorn.error": {"handlers": ["out"], "level": "INFO"},
                    "uvicorn.access": {"handlers": ["out"], "level": "INFO"}}}"""
    )
    with Service(tmp_path, "--log-config", "log.json") as service:
        service.get("/x")
        service.log.wait_for(r'oneloop\.access\|127\.0\.0\.1:\d+ - "GET /x HTTP/1\.1" 200\n')
        assert service.end() == 0
    assert "oneloop.error|Application startup complete." in service.log.text


def test_log_levels(tmp_path: Path) -> None:
    with Service(tmp_path, "--log-level", "error", app="apps:failing", is_ready=False) as service:
        assert service.wait() == 3
    assert "INFO" not in service.log.text
    assert "the database is away" in service.log.text


@NEEDS_IPV6
def test_ipv6(tmp_path: Path) -> None:
    with Service(tmp_path, "--host", "::1") as service:
        assert service.shown.startswith("http://[::1]:")
        with socket.create_connection(("::1", service.port), 10) as sock:
            sock.sendall(b"GET / HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n")
            assert read_all(sock).startswith(b"HTTP/1.1 200")
        assert service.end() == 0


WAITING = """
    import os, threading

    event = threading.Event()

    def app(environ, start_response):
        if environ["PATH_INFO"] == "/set":
            event.set()
        else:
            open("waiting", "w").close()
            event.wait()
        start_response("200 OK", [("Content-Type", "text/plain")])
        # Of the kernel's: what `threading` says is patched.
        return [str(int(open("/proc/thread-self/stat").read().split()[0]) == os.getpid()).encode()]
"""


@pytest.mark.parametrize(("options", "is_main"), [(("--green",), "True"), (("--threads", "2"), "False")])
def test_wsgi_requests_that_wait_let_others_go_on(tmp_path: Path, options: tuple[str, ...], is_main: str) -> None:
    if options == ("--green",):
        pytest.importorskip("greenlet")
    with Service(tmp_path, *options, source=WAITING) as service:
        waiting = service.held("/")
        assert service.get("/set") == is_main
        assert is_main.encode() in waiting.recv(4096)
        waiting.close()
        assert service.end() == 0
