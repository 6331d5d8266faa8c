"""Resolvers, compared with the system's functions, and with the test's own name server."""

from __future__ import annotations

import importlib.util
import socket as stock
import struct
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from oneloop import green
from oneloop.green import socket
from oneloop.green.hub import get_hub, has_hub
from oneloop.green.resolver import AbstractResolver, resolver_class, resolver_here
from oneloop.green.resolver.blocking import Resolver as BlockingResolver
from oneloop.green.resolver.hosts import HostsFile
from oneloop.green.resolver.lookup import LookupResolver
from oneloop.green.resolver.thread import Resolver as ThreadResolver


def outcome(function: Callable[[], Any]) -> Any:
    try:
        return function()
    except Exception as error:
        return type(error), getattr(error, "errno", None)


QUESTIONS = [
    lambda module: module.getaddrinfo("127.0.0.1", 80),
    lambda module: module.getaddrinfo("::1", "http", type=stock.SOCK_STREAM),
    lambda module: module.getaddrinfo("localhost", 80, stock.AF_INET, stock.SOCK_STREAM, 0, stock.AI_CANONNAME),
    lambda module: module.getaddrinfo(None, 80, flags=stock.AI_PASSIVE),
    lambda module: module.getaddrinfo("localhost", 80, flags=stock.AI_NUMERICHOST),
    lambda module: module.getaddrinfo("localhost", "no such service"),
    lambda module: module.getaddrinfo("127.0.0.1", 80, stock.AF_INET6),
    lambda module: module.getaddrinfo("localhost", 80, 99),
    lambda module: module.getaddrinfo(7, 80),
    lambda module: module.gethostbyname("localhost"),
    lambda module: module.gethostbyname("127.0.0.1"),
    lambda module: module.gethostbyname_ex("localhost"),
    lambda module: module.gethostbyname(7),
    lambda module: module.gethostbyaddr("127.0.0.1")[2],
    lambda module: module.getnameinfo(("127.0.0.1", 80), stock.NI_NUMERICHOST | stock.NI_NUMERICSERV),
    lambda module: module.getnameinfo(("127.0.0.1", 80), stock.NI_NUMERICHOST),
    lambda module: module.getnameinfo(("127.0.0.1", 80), 0),
    lambda module: module.getnameinfo((), 0),
    lambda module: module.getnameinfo("127.0.0.1", 0),
    lambda module: module.getnameinfo(("localhost", "http"), 0),
]


class HostsResolver(LookupResolver):
    """Knows only the names in the hosts file."""

    def __init__(self, hub: Any = None) -> None:
        self.hosts = HostsFile()

    def addresses(self, name: str, family: int) -> tuple[str, list[str]]:
        found = self.hosts.addresses(name, family)
        if not found:
            raise stock.gaierror(stock.EAI_NONAME, "unknown")
        return name, found

    def names(self, address: str) -> list[str]:
        return self.hosts.names(address)


@pytest.mark.parametrize("ask", QUESTIONS)
@pytest.mark.parametrize("kind", [ThreadResolver, BlockingResolver, HostsResolver])
def test_answers_are_the_systems(kind: Any, ask: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(green.hub.Hub, "resolver_class", kind)
    get_hub()
    expected = outcome(lambda: ask(stock))
    if kind is HostsResolver and isinstance(expected, list):
        # The file may list an entry twice; the system's function leaves out duplicates.
        assert set(outcome(lambda: ask(socket))) == set(expected)
    else:
        assert outcome(lambda: ask(socket)) == expected
    assert type(get_hub().resolver) is kind


def test_others_go_on_meanwhile() -> None:
    get_hub()
    other = green.spawn(lambda: "ran")
    assert socket.getaddrinfo("localhost", 80)
    assert other.value == "ran"
    assert "ThreadPool" in repr(get_hub().resolver)


def test_what_is_not_found_is_the_callers_alone(capsys: pytest.CaptureFixture[str]) -> None:
    """The hub reports exceptions in its pool's threads, but a failed lookup is only raised in the caller."""
    get_hub()
    for ask in (
        lambda: socket.getaddrinfo("localhost", "no such service"),
        lambda: socket.gethostbyname("no-such-name.invalid"),
        lambda: socket.getaddrinfo("x" * 70 + ".example", 80),
    ):
        with pytest.raises((stock.gaierror, UnicodeError)):
            ask()
    assert capsys.readouterr().err == ""


def test_a_thread_without_a_hub_needs_none() -> None:
    assert not has_hub()
    assert socket.gethostbyname("localhost") == stock.gethostbyname("localhost")
    assert type(resolver_here()) is AbstractResolver
    assert not has_hub()


def test_which_one(monkeypatch: pytest.MonkeyPatch) -> None:
    assert resolver_class() is ThreadResolver
    assert resolver_class("no_such_module.Resolver, block") is BlockingResolver
    monkeypatch.setenv("GEVENT_RESOLVER", "block")
    assert type(resolver_here()) is BlockingResolver
    for wrong in ("unheard_of", "oneloop.green.Unknown"):
        with pytest.raises(ImportError, match="cannot import resolver"):
            resolver_class(wrong)


def test_a_hosts_file(tmp_path: Path) -> None:
    path = tmp_path / "hosts"
    hosts = HostsFile(str(path))
    assert hosts.addresses("one", 0) == []
    path.write_text("# comment\n127.0.0.1 One uno # more\n\n::1 one\n")
    assert hosts.addresses("one", 0) == ["127.0.0.1", "::1"]
    assert hosts.addresses("ONE", stock.AF_INET6) == ["::1"]
    assert hosts.names("127.0.0.1") == ["One", "uno"]
    path.write_text("10.0.0.1 other")
    assert (hosts.addresses("one", 0), hosts.names("10.0.0.1")) == ([], ["other"])


def test_names_of_addresses() -> None:
    class Nameless(HostsResolver):
        def names(self, address: str) -> list[str]:
            return ["host.example"] if address == "127.0.0.2" else []

    resolver = Nameless()
    assert resolver.getnameinfo(("127.0.0.2", 80), stock.NI_NOFQDN | stock.NI_NUMERICSERV) == ("host", "80")
    assert resolver.getnameinfo(("127.0.0.3", 80), stock.NI_NUMERICSERV) == ("127.0.0.3", "80")
    with pytest.raises(stock.gaierror):
        resolver.getnameinfo(("127.0.0.3", 80), stock.NI_NAMEREQD)
    with pytest.raises(stock.herror):
        resolver.gethostbyaddr("127.0.0.3")
    assert resolver.getaddrinfo(b"localhost", 80) == resolver.getaddrinfo("localhost", 80)
    with pytest.raises(stock.gaierror):
        resolver.getaddrinfo("b\xfccher.example", 80)


# -- resolvers of other packages, where they are installed ------------------------------------------------


def answer(query: bytes) -> bytes:
    """The name server's answer: `a.example` has the address 10.1.2.3 and vice versa; nothing else exists."""
    end = query.index(b"\0", 12) + 5
    question = query[12:end]
    labels = question[:-4].lower()
    kind = struct.unpack("!H", question[-4:-2])[0]
    data = b""
    if labels == b"\1a\7example\0" and kind == 1:
        data = bytes((10, 1, 2, 3))
    elif labels == b"\0013\0012\0011\00210\7in-addr\4arpa\0" and kind == 12:
        data = b"\1a\7example\0"
    is_known = data or labels == b"\1a\7example\0"
    header = query[:2] + struct.pack("!HHHHH", 0x8180 if is_known else 0x8183, 1, bool(data), 0, 0)
    record = b"\xc0\x0c" + struct.pack("!HHIH", kind, 1, 60, len(data)) + data
    return header + question + (record if data else b"")


def serve_names(sock: Any) -> None:
    while True:
        query, address = sock.recvfrom(1000)
        if b"silent" not in query:
            sock.sendto(answer(query), address)


def check(package: str) -> None:
    """Test the resolver of a package with the name server above."""
    with socket.socket(stock.AF_INET, stock.SOCK_DGRAM) as sock:
        sock.bind(("127.0.0.1", 0))
        serving = green.spawn(serve_names, sock)
        check_with(package, sock.getsockname()[1])
        serving.kill()


def check_with(package: str, port: int) -> None:
    if package == "dns":
        resolver = resolver_class("dnspython")()
        resolver.resolver.nameservers = ["127.0.0.1"]
        resolver.resolver.port = port
        resolver.resolver.lifetime = 0.2
    else:
        resolver = resolver_class("ares")(servers=["127.0.0.1"], udp_port=port, timeout=0.2, tries=1)
    assert resolver.getaddrinfo("a.example", 80, 0, stock.SOCK_STREAM) == [
        (stock.AF_INET, stock.SOCK_STREAM, stock.IPPROTO_TCP, "", ("10.1.2.3", 80))
    ]
    assert resolver.gethostbyname("a.example") == "10.1.2.3"
    assert resolver.gethostbyname_ex("a.example") == ("a.example", [], ["10.1.2.3"])
    assert resolver.gethostbyaddr("10.1.2.3") == ("a.example", [], ["10.1.2.3"])
    assert resolver.getnameinfo(("10.1.2.3", 80), stock.NI_NUMERICSERV) == ("a.example", "80")
    assert resolver.gethostbyname("localhost") == "127.0.0.1"
    for name, number in (("b.example", stock.EAI_NONAME), ("silent.example", stock.EAI_AGAIN)):
        with pytest.raises(stock.gaierror) as error:
            resolver.getaddrinfo(name, 80)
        assert error.value.errno == number
    with pytest.raises(stock.herror):
        resolver.gethostbyaddr("10.1.2.4")
    asking = green.spawn(resolver.gethostbyname, "silent.example")
    green.sleep(0)
    asking.kill()
    resolver.close()


@pytest.mark.parametrize("package", ["dns", "pycares"])
def test_resolvers_of_other_packages(package: str) -> None:
    """In a new process, because pycares keeps a thread."""
    if importlib.util.find_spec(package) is None:
        pytest.skip(f"{package} is not installed")
    program = f"from tests.green.test_resolver import check; check({package!r})"
    subprocess.run([sys.executable, "-c", program], check=True, cwd=Path(__file__).parents[2])
