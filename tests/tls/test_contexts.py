"""Contexts as programs make them: names, protocols, sessions, client certificates, key logs, subclasses."""

from __future__ import annotations

import asyncio
import ssl
from pathlib import Path
from typing import Any

import pytest

from tests.protocols import Recorder
from tests.tls.authority import HOST, Authority
from tests.tls.endpoint import Endpoint, facing, settled
from tests.transport.conftest import socket_pair

SIDES = pytest.mark.parametrize("server_side", [True, False], ids=["server", "client"])


async def pair(
    loop: asyncio.AbstractEventLoop, server: ssl.SSLContext, client: ssl.SSLContext, host: str = HOST
) -> tuple[Any, Recorder, Any, Recorder]:
    """The client's transport and protocol and the server's; the test aborts them."""
    ours, theirs = socket_pair("tcp")
    accepting = loop.create_task(loop.connect_accepted_socket(Recorder, ours, ssl=server))
    transport, protocol = await loop.create_connection(Recorder, sock=theirs, ssl=client, server_hostname=host)
    accepted, server_protocol = await accepting
    return transport, protocol, accepted, server_protocol


async def exchanged(made: tuple[Any, Recorder, Any, Recorder]) -> None:
    """Data both ways, then the end of both."""
    transport, protocol, accepted, server_protocol = made
    transport.write(b"there")
    assert await server_protocol.wait_received(5) == b"there"
    accepted.write(b"back")
    assert await protocol.wait_received(4) == b"back"
    transport.close()
    await protocol.wait_lost()
    await server_protocol.wait_lost()
    await settled()


async def test_a_callback_that_swaps_the_context(
    loop: asyncio.AbstractEventLoop, authority: Authority, version: str
) -> None:
    """By the name that the client asks for; each gets the certificate of its name."""
    asked: list[str | None] = []
    server = authority.server_context(version)
    other = authority.server_context(version, file=authority.other_server)

    def choose(secure: ssl.SSLObject, name: str | None, context: ssl.SSLContext) -> None:
        asked.append(name)
        assert context is server
        if name == "other.example":
            secure.context = other

    server.sni_callback = choose  # type: ignore[assignment]
    for name in (HOST, "other.example"):
        made = await pair(loop, server, authority.client_context(version), name)
        names = made[0].get_extra_info("peercert")["subjectAltName"]
        assert ("DNS", name) in names
        assert made[2].get_extra_info("ssl_object").context is (server if name == HOST else other)
        # asyncio shows the context that the program gave.
        assert made[2].get_extra_info("sslcontext") is server
        await exchanged(made)
    assert asked == [HOST, "other.example"]


async def test_a_callback_that_raises(
    loop: asyncio.AbstractEventLoop, authority: Authority, monkeypatch: pytest.MonkeyPatch
) -> None:
    """`ssl` reports it as unraisable, and the handshake fails."""
    seen: list[Any] = []
    monkeypatch.setattr("sys.unraisablehook", lambda report: seen.append(report.exc_type))
    server = authority.server_context()

    def choose(*_: Any) -> None:
        raise ValueError("in a callback")

    server.sni_callback = choose  # type: ignore[assignment]
    ours, theirs = socket_pair("tcp")
    with theirs:
        shaking = loop.create_task(Endpoint(theirs, authority.client_context()).shake_hands())
        with pytest.raises(ssl.SSLError, match="callback failed"):
            await loop.connect_accepted_socket(Recorder, ours, ssl=server)
        await asyncio.wait([shaking])
        assert isinstance(shaking.exception(), OSError)
        await settled()
    assert seen == [ValueError]


@SIDES
async def test_protocols_are_negotiated(
    loop: asyncio.AbstractEventLoop, authority: Authority, version: str, server_side: bool
) -> None:
    server, client = authority.server_context(version), authority.client_context(version)
    server.set_alpn_protocols(["h2", "http/1.1"])
    client.set_alpn_protocols(["spdy", "http/1.1", "h2"])
    made = await pair(loop, server, client)
    for transport in (made[0], made[2]):
        assert transport.get_extra_info("ssl_object").selected_alpn_protocol() == "h2"
    await exchanged(made)


class Resuming(ssl.SSLContext):
    """A client's context that asks for the session of its last connection; asyncio's API has no argument for it."""

    last: ssl.SSLObject | None = None

    def wrap_bio(self, *args: Any, **options: Any) -> ssl.SSLObject:  # type: ignore[override]
        if self.last is not None:
            options["session"] = self.last.session
        self.last = super().wrap_bio(*args, **options)
        return self.last


async def test_sessions_are_resumed(loop: asyncio.AbstractEventLoop, authority: Authority, version: str) -> None:
    """By a ticket, which TLS 1.3 sends after the handshake: the client has it as soon as it has read anything."""
    server = authority.server_context(version)
    client = authority.client_context(version, kind=Resuming)
    for was_there in (False, True, True):
        made = await pair(loop, server, client)
        assert made[0].get_extra_info("ssl_object").session_reused is was_there
        assert made[2].get_extra_info("ssl_object").session_reused is was_there
        assert made[0].get_extra_info("peercert")
        await exchanged(made)
    assert server.session_stats()["hits"] == 2


async def test_no_tickets(loop: asyncio.AbstractEventLoop, authority: Authority) -> None:
    server = authority.server_context("1.3")
    server.num_tickets = 0
    client = authority.client_context("1.3", kind=Resuming)
    for _ in range(2):
        made = await pair(loop, server, client)
        assert made[0].get_extra_info("ssl_object").session_reused is False
        await exchanged(made)


async def test_certificates_of_clients(loop: asyncio.AbstractEventLoop, authority: Authority, version: str) -> None:
    for mode in (ssl.CERT_REQUIRED, ssl.CERT_OPTIONAL):
        for has_one in (True, False):
            if mode == ssl.CERT_REQUIRED and not has_one:
                continue
            server, client = authority.server_context(version), authority.client_context(version)
            server.verify_mode = mode
            server.load_verify_locations(authority.authority)
            if has_one:
                client.load_cert_chain(authority.client)
            made = await pair(loop, server, client)
            certificate = made[2].get_extra_info("peercert")
            if has_one:
                assert ("email", "client@example.org") in certificate["subjectAltName"]
                assert ((("commonName", "a client"),)) in [part[-1:] for part in certificate["subject"]]
            else:
                assert not certificate
            await exchanged(made)


async def test_a_certificate_asked_for_later(loop: asyncio.AbstractEventLoop, authority: Authority) -> None:
    """TLS 1.3 may ask after the handshake; the client's answer comes between its data."""
    server, client = authority.server_context("1.3"), authority.client_context("1.3")
    server.load_verify_locations(authority.authority)
    server.verify_mode = ssl.CERT_REQUIRED
    server.post_handshake_auth = client.post_handshake_auth = True
    client.load_cert_chain(authority.client)
    made = await pair(loop, server, client)
    secure = made[2].get_extra_info("ssl_object")
    assert not secure.getpeercert()
    secure._sslobj.verify_client_post_handshake()
    made[2].write(b"with the question")
    assert await made[1].wait_received(17) == b"with the question"
    made[0].write(b"with the answer")
    assert await made[3].wait_received(15) == b"with the answer"
    assert ("email", "client@example.org") in secure.getpeercert()["subjectAltName"]
    for transport in (made[0], made[2]):
        transport.abort()
    await settled()


@SIDES
async def test_keys_are_logged(
    loop: asyncio.AbstractEventLoop, authority: Authority, version: str, server_side: bool, tmp_path: Path
) -> None:
    server, client = authority.server_context(version), authority.client_context(version)
    (server if server_side else client).keylog_filename = str(tmp_path / "keys")
    await exchanged(await pair(loop, server, client))
    text = (tmp_path / "keys").read_text()
    labels = {line.split()[0] for line in text.splitlines() if not line.startswith("#")}
    if version == "1.2":
        assert labels == {"CLIENT_RANDOM"}
    else:
        assert {"CLIENT_HANDSHAKE_TRAFFIC_SECRET", "SERVER_TRAFFIC_SECRET_0"} <= labels


class Counting(ssl.SSLObject):
    """Counts the calls of its methods, and changes what is written."""

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)

    @property
    def calls(self) -> set[str]:
        found: set[str] = self.__dict__.setdefault("_calls", set())
        return found

    def do_handshake(self) -> None:
        self.calls.add("do_handshake")
        super().do_handshake()

    def read(self, len: int = 1024, buffer: Any = None) -> Any:  # noqa: A002 - its name in `ssl`
        self.calls.add("read")
        return super().read(len, buffer) if buffer is not None else super().read(len)

    def write(self, data: Any) -> int:
        self.calls.add("write")
        return super().write(bytes(data).upper())

    def unwrap(self) -> None:  # type: ignore[override]
        self.calls.add("unwrap")
        super().unwrap()

    def getpeercert(self, binary_form: bool = False) -> Any:
        return {"subject": ()}

    def cipher(self) -> Any:
        return ("none", "TLSv0", 0)


@SIDES
async def test_a_class_of_ssl_objects_of_its_own(
    loop: asyncio.AbstractEventLoop, authority: Authority, version: str, server_side: bool
) -> None:
    """`SSLContext.sslobject_class` is documented: what its methods do is done."""
    context = authority.server_context(version) if server_side else authority.client_context(version)
    context.sslobject_class = Counting
    async with facing(authority, server_side=server_side, version=version, ssl=context) as made:
        transport, protocol, endpoint = made
        secure = transport.get_extra_info("ssl_object")
        assert type(secure) is Counting
        transport.write(b"shouted")
        transport.writelines([b" in", b" pieces"])
        assert await endpoint.receive(17) == b"SHOUTED IN PIECES"
        await endpoint.send(b"heard")
        assert await protocol.wait_received(5) == b"heard"
        await endpoint.say_goodbye()
        await protocol.wait_lost()
        assert secure.calls == {"do_handshake", "read", "write", "unwrap"}
        assert transport.get_extra_info("peercert") == {"subject": ()}
        assert transport.get_extra_info("cipher") == ("none", "TLSv0", 0)


class Standing:
    """Stands for an `ssl.SSLObject` without being one: a wrapper of all its calls."""

    def __init__(self, secure: ssl.SSLObject) -> None:
        self.secure = secure
        self.names: list[str] = []

    def __getattr__(self, name: str) -> Any:
        self.names.append(name)
        return getattr(self.secure, name)


class Wrapping(ssl.SSLContext):
    """Wraps what it makes."""

    def wrap_bio(self, *args: Any, **options: Any) -> Any:
        return Standing(super().wrap_bio(*args, **options))


@SIDES
async def test_a_context_that_wraps_its_objects(
    loop: asyncio.AbstractEventLoop, authority: Authority, version: str, server_side: bool
) -> None:
    make = authority.server_context if server_side else authority.client_context
    context = make(version, kind=Wrapping)
    async with facing(authority, server_side=server_side, version=version, ssl=context) as made:
        transport, protocol, endpoint = made
        await endpoint.send(b"there")
        assert await protocol.wait_received(5) == b"there"
        transport.write(b"back")
        assert await endpoint.receive(4) == b"back"
        await endpoint.say_goodbye()
        assert await protocol.wait_lost() is None
        standing = transport.get_extra_info("ssl_object")
        assert isinstance(standing, Standing)
        assert {"do_handshake", "read", "write", "unwrap"} <= set(standing.names)


class Refusing(ssl.SSLContext):
    def wrap_bio(self, *args: Any, **options: Any) -> Any:
        raise ValueError("no objects from here")


async def test_a_context_that_makes_nothing(loop: asyncio.AbstractEventLoop, authority: Authority) -> None:
    ours, theirs = socket_pair("tcp")
    with ours, theirs:
        with pytest.raises(ValueError, match="no objects from here"):
            await loop.create_connection(
                Recorder, sock=ours, ssl=authority.client_context(kind=Refusing), server_hostname=HOST
            )
        with pytest.raises(ValueError, match="no objects from here"):
            await loop.connect_accepted_socket(Recorder, theirs, ssl=authority.server_context(kind=Refusing))


async def test_a_context_that_is_none(loop: asyncio.AbstractEventLoop) -> None:
    for wrong in (object(), "yes", 5):
        # Python 3.15 closes a socket that it makes no transport of.
        ours, theirs = socket_pair("tcp")
        with ours, theirs, pytest.raises((TypeError, AttributeError)):
            await loop.create_connection(Recorder, sock=ours, ssl=wrong, server_hostname=HOST)  # type: ignore[arg-type]
    ours, theirs = socket_pair("tcp")
    with ours, theirs:
        with pytest.raises(
            TypeError, match=r"ssl argument cannot be a bool|ssl argument must be an SSLContext or None"
        ):
            await loop.create_server(Recorder, "127.0.0.1", 0, ssl=True)  # type: ignore[arg-type]
        with pytest.raises(ValueError, match="You must set server_hostname when using ssl without a host"):
            await loop.create_connection(Recorder, sock=ours, ssl=True)
        with pytest.raises(ValueError, match="server_hostname is only meaningful with ssl"):
            await loop.create_connection(Recorder, sock=ours, server_hostname=HOST)


async def test_truststore(
    loop: asyncio.AbstractEventLoop, authority: Authority, version: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its context is a subclass of another `SSLContext` than the one of `ssl`, and checks by the system's store."""
    truststore = pytest.importorskip("truststore", reason="truststore is not installed")
    server = authority.server_context(version)
    for trusted in (authority.authority, authority.other_authority):
        monkeypatch.setenv("SSL_CERT_FILE", str(trusted))
        context = truststore.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        if trusted == authority.authority:
            await exchanged(await pair(loop, server, context))
            continue
        ours, theirs = socket_pair("tcp")
        with theirs:
            endpoint = Endpoint(theirs, server, server_side=True)
            shaking = loop.create_task(endpoint.shake_hands())
            with pytest.raises(ssl.SSLCertVerificationError, match="unable to get local issuer certificate"):
                await loop.create_connection(Recorder, sock=ours, ssl=context, server_hostname=HOST)
            await asyncio.wait([shaking])
            assert isinstance(shaking.exception(), OSError) or version == "1.3"
            await settled()


async def test_ssl_is_true(
    loop: asyncio.AbstractEventLoop, authority: Authority, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The default context: it knows the system's authorities, and checks the name."""
    monkeypatch.setenv("SSL_CERT_FILE", str(authority.authority))
    server = await loop.create_server(Recorder, "127.0.0.1", 0, ssl=authority.server_context())
    address = server.sockets[0].getsockname()
    transport, protocol = await loop.create_connection(Recorder, *address, ssl=True)
    assert transport.get_extra_info("sslcontext").check_hostname
    assert transport.get_extra_info("peercert")
    transport.close()
    await protocol.wait_lost()
    with pytest.raises(ssl.SSLCertVerificationError, match="Hostname mismatch"):
        await loop.create_connection(Recorder, *address, ssl=True, server_hostname="wrong.example")
    server.close()
    await server.wait_closed()
    await settled()
