"""Handshakes that fail, with the error that `ssl` itself gives for these contexts: its class, its text, its reason."""

from __future__ import annotations

import asyncio
import contextlib
import socket
import ssl
from collections.abc import Callable
from typing import Any

import pytest

from tests.conftest import settle
from tests.protocols import Recorder
from tests.tls.authority import HOST, Authority, pinned
from tests.tls.endpoint import Endpoint, facing, happens, settled
from tests.transport.conftest import socket_pair

Contexts = tuple[ssl.SSLContext, ssl.SSLContext]


def wrong_host(authority: Authority) -> Contexts:
    return authority.server_context(file=authority.wrong_host), authority.client_context()


def expired(authority: Authority) -> Contexts:
    return authority.server_context(file=authority.expired), authority.client_context()


def unknown_authority(authority: Authority) -> Contexts:
    return authority.server_context(), authority.client_context(trusted=authority.other_authority)


def no_shared_cipher(authority: Authority) -> Contexts:
    server, client = authority.server_context("1.2"), authority.client_context("1.2")
    server.set_ciphers("ECDHE-ECDSA-AES128-GCM-SHA256")
    client.set_ciphers("ECDHE-ECDSA-AES256-GCM-SHA384")
    return server, client


def no_shared_version(authority: Authority) -> Contexts:
    return authority.server_context("1.2"), authority.client_context("1.3")


def no_certificate_of_the_server(authority: Authority) -> Contexts:
    return pinned(ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER), None), authority.client_context()


def no_certificate_of_the_client(authority: Authority) -> Contexts:
    server = authority.server_context("1.2")
    server.verify_mode = ssl.CERT_REQUIRED
    server.load_verify_locations(authority.authority)
    return server, authority.client_context("1.2")


def client_of_an_unknown_authority(authority: Authority) -> Contexts:
    server, client = no_certificate_of_the_client(authority)
    server = authority.server_context("1.2")
    server.verify_mode = ssl.CERT_REQUIRED
    server.load_verify_locations(authority.other_authority)
    client.load_cert_chain(authority.client)
    return server, client


def callback_that_refuses(authority: Authority) -> Contexts:
    server, client = authority.server_context(), authority.client_context()
    server.sni_callback = lambda *_: ssl.ALERT_DESCRIPTION_UNRECOGNIZED_NAME
    return server, client


CASES = [
    wrong_host,
    expired,
    unknown_authority,
    no_shared_cipher,
    no_shared_version,
    no_certificate_of_the_server,
    no_certificate_of_the_client,
    client_of_an_unknown_authority,
    callback_that_refuses,
]


def reference(server: ssl.SSLContext, client: ssl.SSLContext) -> tuple[BaseException | None, BaseException | None]:
    """What `ssl` raises at the server and at the client, in memory and without a loop."""
    to_server, to_client = ssl.MemoryBIO(), ssl.MemoryBIO()
    sides = [
        server.wrap_bio(to_server, to_client, server_side=True),
        client.wrap_bio(to_client, to_server, server_hostname=HOST),
    ]
    errors: list[BaseException | None] = [None, None]
    for _ in range(10):
        for index in (1, 0):
            if errors[index] is None:
                try:
                    sides[index].do_handshake()
                except ssl.SSLWantReadError:
                    pass
                except ssl.SSLError as exc:
                    errors[index] = exc
    return errors[0], errors[1]


def described(error: BaseException | None) -> Any:
    """What a program can see of an error."""
    if not isinstance(error, ssl.SSLError):
        return error
    verification = (
        (error.verify_code, error.verify_message) if isinstance(error, ssl.SSLCertVerificationError) else None
    )
    return type(error), error.args, error.reason, error.library, verification


def begin(
    loop: asyncio.AbstractEventLoop, server: ssl.SSLContext, client: ssl.SSLContext, server_side: bool
) -> tuple[asyncio.Task[Any], Endpoint]:
    """Begin a handshake of a connection of ours. Return its task and the peer's end."""
    ours, theirs = socket_pair("tcp")
    if server_side:
        accepting = loop.connect_accepted_socket(Recorder, ours, ssl=server)
        return loop.create_task(accepting), Endpoint(theirs, client)
    connecting = loop.create_connection(Recorder, sock=ours, ssl=client, server_hostname=HOST)
    return loop.create_task(connecting), Endpoint(theirs, server, server_side=True)


@pytest.mark.parametrize("server_side", [True, False], ids=["server", "client"])
@pytest.mark.parametrize("case", CASES)
async def test_our_side_gets_the_error_of_ssl(
    loop: asyncio.AbstractEventLoop,
    authority: Authority,
    case: Callable[[Authority], Contexts],
    server_side: bool,
) -> None:
    """The other side sends its alert, as asyncio's would not."""
    server, client = case(authority)
    errors = reference(server, client)
    expected = errors[0] if server_side else errors[1]
    task, endpoint = begin(loop, server, client, server_side)
    shaking = loop.create_task(endpoint.shake_hands())
    await asyncio.wait([task])
    if not await happens(shaking.done):
        shaking.cancel()
        await asyncio.wait([shaking])
    endpoint.sock.close()
    assert expected is not None, "this case does not fail"
    assert described(task.exception()) == described(expected)
    if not shaking.cancelled():
        assert isinstance(shaking.exception(), OSError)
    await settled()


@pytest.mark.oneloop_only("asyncio drops the alert of a handshake that failed: the peer sees a connection that ends")
@pytest.mark.parametrize("server_side", [True, False], ids=["server", "client"])
@pytest.mark.parametrize("case", CASES)
async def test_the_peer_is_told_by_an_alert(
    loop: asyncio.AbstractEventLoop,
    authority: Authority,
    case: Callable[[Authority], Contexts],
    server_side: bool,
) -> None:
    """Whichever side refuses: the peer of ours gets the error that it would get from `ssl`."""
    server, client = case(authority)
    errors = reference(server, client)
    expected = errors[1] if server_side else errors[0]
    task, endpoint = begin(loop, server, client, server_side)
    with endpoint.sock:
        with pytest.raises(ssl.SSLError) as caught:
            await endpoint.shake_hands()
            await endpoint.receive(1)
        assert described(caught.value) == described(expected)
        await asyncio.wait([task])
        assert isinstance(task.exception(), ssl.SSLError)
        await settled()


@pytest.mark.parametrize("server_side", [True, False], ids=["server", "client"])
async def test_an_upgrade_that_fails_ends_the_connection(
    loop: asyncio.AbstractEventLoop, authority: Authority, server_side: bool
) -> None:
    """The protocol, which had the plain connection, is told of its end, once and with the error."""
    ours, theirs = socket_pair("tcp")
    with theirs:
        plain, protocol = await loop.create_connection(Recorder, sock=ours)
        theirs.send(b"no handshake\r\n")
        context = authority.server_context() if server_side else authority.client_context()
        name = None if server_side else HOST
        with pytest.raises(ssl.SSLError) as caught:
            await loop.start_tls(plain, protocol, context, server_side=server_side, server_hostname=name)
        assert await protocol.wait_lost() is caught.value
        assert protocol.calls == ["connection_made", "connection_lost"]
        await settled()


@pytest.mark.parametrize("end", ["close", "abort"])
@pytest.mark.parametrize("turns", [None, 0, 1, 2], ids=["before", "0", "1", "2"])
async def test_an_upgrade_of_a_transport_that_the_program_closes_returns_none(
    loop: asyncio.AbstractEventLoop, authority: Authority, end: str, turns: int | None
) -> None:
    """As in asyncio; aiohttp, for one, makes an error of it."""
    ours, theirs = socket_pair("tcp")
    with theirs:
        plain, protocol = await loop.create_connection(Recorder, sock=ours)
        upgrade = loop.start_tls(plain, protocol, authority.client_context(), server_hostname=HOST)
        if turns is None:
            getattr(plain, end)()
            assert await upgrade is None
        else:
            task = loop.create_task(upgrade)
            await settle(turns + 1)
            getattr(plain, end)()
            assert await task is None
        await settled()
        # An end that began before the upgrade is the plain connection's.
        assert protocol.calls == ["connection_made", *(["connection_lost"] if turns is None else [])]


async def test_the_name_is_in_the_text(loop: asyncio.AbstractEventLoop, authority: Authority) -> None:
    ours, theirs = socket_pair("tcp")
    server, client = wrong_host(authority)
    accepting = loop.create_task(loop.connect_accepted_socket(Recorder, ours, ssl=server))
    with pytest.raises(ssl.SSLCertVerificationError) as caught:
        await loop.create_connection(Recorder, sock=theirs, ssl=client, server_hostname=HOST)
    assert caught.value.verify_code == 62
    assert "certificate is not valid for 'localhost'" in str(caught.value)
    with contextlib.suppress(OSError):
        (await accepting)[0].abort()
    await settled()


async def test_a_server_reports_in_debug_mode_only(
    loop: asyncio.AbstractEventLoop, authority: Authority, reported: Any
) -> None:
    """And serves on: the next client is accepted."""
    server = await loop.create_server(Recorder, "127.0.0.1", 0, ssl=authority.server_context())
    address = server.sockets[0].getsockname()
    distrusting = authority.client_context(trusted=authority.other_authority)
    for debug in (False, True):
        loop.set_debug(debug)
        with socket.socket() as sock:
            sock.setblocking(False)
            await loop.sock_connect(sock, address)
            with pytest.raises(ssl.SSLCertVerificationError):
                await Endpoint(sock, distrusting).shake_hands()
        if debug:
            assert await happens(lambda: bool(reported.contexts))
            context = reported.take_one(ssl.SSLError)
            assert context["message"] == "Error on transport creation for incoming connection"
            assert context["exception"].reason == "TLSV1_ALERT_UNKNOWN_CA"
        else:
            await settled()
            assert not reported.contexts
    loop.set_debug(False)
    transport, protocol = await loop.create_connection(
        Recorder, *address, ssl=authority.client_context(), server_hostname=HOST
    )
    transport.abort()
    await protocol.wait_lost()
    server.close()
    await server.wait_closed()
    await settled()


async def test_a_client_without_certificate_in_tls_1_3(loop: asyncio.AbstractEventLoop, authority: Authority) -> None:
    """The client's handshake is over before the server refuses: the alert is how its connection is lost."""
    context = authority.server_context("1.3")
    context.verify_mode = ssl.CERT_REQUIRED
    context.load_verify_locations(authority.authority)
    ours, theirs = socket_pair("tcp")
    with theirs:
        endpoint = Endpoint(theirs, context, server_side=True)
        shaking = loop.create_task(endpoint.shake_hands())
        _, protocol = await loop.create_connection(
            Recorder, sock=ours, ssl=authority.client_context("1.3"), server_hostname=HOST
        )
        with pytest.raises(ssl.SSLError) as caught:
            await shaking
        assert caught.value.reason == "PEER_DID_NOT_RETURN_A_CERTIFICATE"
        error = await protocol.wait_lost()
        assert isinstance(error, ssl.SSLError)
        assert error.reason == "TLSV13_ALERT_CERTIFICATE_REQUIRED"
        await settled()


async def test_a_server_refuses_a_client_without_certificate(
    loop: asyncio.AbstractEventLoop, authority: Authority
) -> None:
    context = authority.server_context("1.3")
    context.verify_mode = ssl.CERT_REQUIRED
    context.load_verify_locations(authority.authority)
    ours, theirs = socket_pair("tcp")
    with theirs:
        accepting = loop.create_task(loop.connect_accepted_socket(Recorder, ours, ssl=context))
        await Endpoint(theirs, authority.client_context("1.3")).shake_hands()
        with pytest.raises(ssl.SSLError) as caught:
            await accepting
        assert caught.value.reason == "PEER_DID_NOT_RETURN_A_CERTIFICATE"
        await settled()


@pytest.mark.parametrize(
    ("said", "reason"),
    [
        (b"GET / HTTP/1.1\r\nHost: x\r\n\r\n", "HTTP_REQUEST"),
        (b"SSH-2.0-OpenSSH_9.0\r\n" * 3, "WRONG_VERSION_NUMBER"),
        (b"\x16\x03\x01\xff\xff" + b"\0" * 100, None),
        (b"\0" * 1000, None),
    ],
)
async def test_a_client_that_speaks_no_tls(
    loop: asyncio.AbstractEventLoop, authority: Authority, said: bytes, reason: str | None
) -> None:
    context = authority.server_context()
    incoming, outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
    incoming.write(said)
    with pytest.raises(ssl.SSLError) as caught:
        context.wrap_bio(incoming, outgoing, server_side=True).do_handshake()
    assert reason is None or caught.value.reason == reason
    ours, theirs = socket_pair("tcp")
    with theirs:
        theirs.send(said)
        with pytest.raises(ssl.SSLError) as ours_caught:
            await loop.connect_accepted_socket(Recorder, ours, ssl=context)
        assert described(ours_caught.value) == described(caught.value)
        await settled()


async def test_no_protocol_in_common(loop: asyncio.AbstractEventLoop, authority: Authority) -> None:
    """ALPN without a match is no error for `ssl`: nothing is selected."""
    server = authority.server_context()
    server.set_alpn_protocols(["h2"])
    async with facing(authority, ssl=server) as (transport, _, endpoint):
        assert transport.get_extra_info("ssl_object").selected_alpn_protocol() is None
        await endpoint.send(b"x")
    client = authority.client_context()
    client.set_alpn_protocols(["http/1.1"])
    ours, theirs = socket_pair("tcp")
    accepting = loop.create_task(loop.connect_accepted_socket(Recorder, ours, ssl=server))
    transport, _ = await loop.create_connection(Recorder, sock=theirs, ssl=client, server_hostname=HOST)
    accepted, _ = await accepting
    for end in (transport, accepted):
        assert end.get_extra_info("ssl_object").selected_alpn_protocol() is None
        end.abort()
    await settled()


@pytest.mark.parametrize("name", ["ssl_handshake_timeout", "ssl_shutdown_timeout"])
@pytest.mark.parametrize("limit", [0, -1])
async def test_limits_that_are_none(
    loop: asyncio.AbstractEventLoop, authority: Authority, name: str, limit: int
) -> None:
    ours, theirs = socket_pair("tcp")
    with ours, theirs:
        with pytest.raises(ValueError, match=f"{name} should be a positive number, got {limit}"):
            await loop.create_connection(
                Recorder,
                sock=ours,
                ssl=authority.client_context(),
                server_hostname=HOST,
                **{name: limit},  # type: ignore[arg-type]
            )


@pytest.mark.parametrize("server_side", [True, False])
async def test_a_handshake_that_takes_too_long(
    loop: asyncio.AbstractEventLoop, authority: Authority, server_side: bool
) -> None:
    """The peer says nothing, or half a record."""
    for said in (b"", b"\x16\x03\x01\x02\x00\x01"):
        ours, theirs = socket_pair("tcp")
        with theirs:
            theirs.send(said)
            if server_side:
                making: Any = loop.connect_accepted_socket(
                    Recorder, ours, ssl=authority.server_context(), ssl_handshake_timeout=0.02
                )
            else:
                making = loop.create_connection(
                    Recorder,
                    sock=ours,
                    ssl=authority.client_context(),
                    server_hostname=HOST,
                    ssl_handshake_timeout=0.02,
                )
            with pytest.raises(ConnectionAbortedError) as caught:
                await making
            assert str(caught.value) == "SSL handshake is taking longer than 0.02 seconds: aborting the connection"
            await settled()
