"""TLS contexts from the certificates that come with CPython's own test package."""

from __future__ import annotations

import ssl

from test.test_asyncio import utils as cpython

# The name that CPython's test certificate is made out to.
HOST = "localhost"


def server_context() -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(cpython.ONLYCERT, cpython.ONLYKEY)
    return context


def client_context() -> ssl.SSLContext:
    """Trusts everybody: the tests are about transport, not about trust."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    return context


def verifying_context() -> ssl.SSLContext:
    """Trusts CPython's test certificate alone, and checks the name."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.load_verify_locations(cpython.ONLYCERT)
    return context
