"""The backdoor: consoles of a running program."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from typing import Any, Self

import pytest

from oneloop import green
from oneloop.green import socket
from oneloop.green.backdoor import BackdoorServer
from oneloop.green.event import Event

PROMPT = ">>> "


@pytest.fixture
def server() -> Iterator[BackdoorServer]:
    made = BackdoorServer(("127.0.0.1", 0), locals={"given": "yes", "seen": []}, banner="hello")
    made.start()
    streams = sys.stdin, sys.stdout, sys.stderr
    yield made
    made.stop(timeout=0.001)
    assert (sys.stdin, sys.stdout, sys.stderr) == streams


class Console:
    def __init__(self, server: BackdoorServer) -> None:
        self.sock = socket.create_connection(server.address)
        self.sock.settimeout(20)
        self.banner = self.until(PROMPT)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.sock.close()

    def until(self, end: str) -> str:
        said = b""
        while not said.endswith(end.encode()):
            more = self.sock.recv(1000)
            assert more, said
            said += more
        return said.decode()

    def say(self, line: str, end: str = PROMPT) -> str:
        self.sock.sendall(f"{line}\r\n".encode())
        return self.until(end).removesuffix(end)


def test_a_console(server: BackdoorServer, capsys: pytest.CaptureFixture[str]) -> None:
    with Console(server) as console:
        assert console.banner == f"hello\n{PROMPT}"
        assert console.say("given") == "'yes'\n"
        assert console.say("print(given, 'caf\u00e9')") == "yes caf\u00e9\n"
        assert console.say("import sys; _ = sys.stderr.write('told\\n')") == "told\n"
        assert console.say("builtins.len('abc'), __name__") == "(3, '__console__')\n"
        assert console.say("1/0").endswith("ZeroDivisionError: division by zero\n")
        assert console.say("for x in range(2): print(x)", "... ") == ""
        assert console.say("") == "0\n1\n"
        assert console.say("input('name? ')", "name? ") == ""
        assert console.say("me") == "'me'\n"
        assert console.say("sys.stdout.isatty(), sys.stdout.encoding, sys.stdout.writelines(['a', 'b'])").startswith(
            "ab"
        )
        assert console.say("sys.stdout.flush(); sys.stdin.close()") == ""
    assert capsys.readouterr() == ("", "")


def test_consoles_have_their_own_variables(server: BackdoorServer) -> None:
    with Console(server) as one, Console(server) as other:
        one.say("x = 1; seen.append(x)")
        assert "NameError" in other.say("x")
        assert other.say("seen") == "[1]\n"


def test_what_the_program_prints_is_its_own(server: BackdoorServer, capsys: pytest.CaptureFixture[str]) -> None:
    go_on = Event()
    server.locals["go_on"] = go_on
    with Console(server) as console:
        console.sock.sendall(b"go_on.wait() and None; print('console')\r\n")
        green.sleep(0.01)
        print("program")
        print("error", file=sys.stderr)
        go_on.set()
        assert console.until(PROMPT) == f"console\n{PROMPT}"
    assert capsys.readouterr() == ("program\n", "error\n")


@pytest.mark.parametrize("line", ["quit()", "exit()", "raise SystemExit"])
def test_leaving(server: BackdoorServer, line: str) -> None:
    with Console(server) as console:
        console.sock.sendall(line.encode() + b"\r\n")
        assert console.sock.recv(1000) == b""
    with Console(server) as console:
        assert console.say("given") == "'yes'\n"


def test_control_c_of_telnet(server: BackdoorServer) -> None:
    with Console(server) as console:
        console.sock.sendall(b"\xff\xf4\xff\xfd\x06\r\n")
        assert "SyntaxError" in console.until(PROMPT)


def test_the_default_banner() -> None:
    with BackdoorServer(("127.0.0.1", 0)) as server:
        server.start()
        with Console(server) as console:
            assert console.banner.startswith(f"Python {sys.version}")


def test_stop_ends_the_consoles(server: BackdoorServer) -> None:
    with Console(server) as console:
        server.stop(timeout=0.001)
        assert console.sock.recv(1) == b""


def test_one_who_leaves_while_they_are_talked_to(server: BackdoorServer, capsys: pytest.CaptureFixture[str]) -> None:
    left: Any = Event()
    server.locals["left"] = left
    with Console(server) as console:
        console.sock.sendall(b"left.wait(); print('x' * 10_000_000)\r\n")
        green.sleep(0.01)
    left.set()
    assert server.pool is not None
    server.pool.join()
    assert "Traceback" not in capsys.readouterr().err
