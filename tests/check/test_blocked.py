"""`block_private`: no connection to an address that is not public, however it is written or come by.

The tests run in a namespace in which every address leads to the farm: what is not blocked would be answered with 200.
"""

from __future__ import annotations

import json
import sys
from typing import Any
from urllib.parse import quote

import pytest

from tests import programs
from tests.check import namespace
from tests.check.stub_dns import PUBLIC

pytest.importorskip("pycares")
pytestmark = pytest.mark.skipif(bool(namespace.missing()), reason=namespace.missing())

ADDRESSES = [
    # Loopback, this network, private, shared (CGNAT), link-local.
    "127.0.0.1", "127.255.255.254", "0.0.0.0", "0.1.2.3", "10.0.0.1", "10.255.255.255", "172.16.0.1",
    "172.31.255.255", "192.168.0.1", "192.168.255.255", "100.64.0.1", "100.127.255.254", "169.254.0.1",
    # Clouds' metadata.
    "169.254.169.254", "169.254.170.2", "100.100.100.200", "168.63.129.16", "192.0.0.192",
    # Protocol assignments, documentation, 6to4 relays, benchmarks, multicast, reserved.
    "192.0.0.1", "192.0.2.1", "198.51.100.1", "203.0.113.1", "192.88.99.1", "198.18.0.1", "198.19.255.255",
    "224.0.0.1", "239.255.255.255", "240.0.0.1", "255.255.255.255",
]  # fmt: skip

ADDRESSES_6 = [
    "::1", "::", "fe80::1", "febf::1", "fec0::1", "fc00::1", "fd00:ec2::254", "fdff::1", "ff02::1", "ff0e::1",
    "2001:db8::1", "3fff::1", "100::1", "2001::1", "5f00::1",
    # An IPv4 address within: mapped, compatible, translated, 6to4, NAT64 (well-known and local), Teredo, ISATAP.
    "::ffff:127.0.0.1", "::ffff:10.0.0.1", "::ffff:a9fe:a9fe", "0:0:0:0:0:ffff:7f00:1", "::127.0.0.1",
    "::169.254.169.254", "::ffff:0:127.0.0.1", "2002:7f00:1::", "2002:a9fe:a9fe::1", "64:ff9b::7f00:1",
    "64:ff9b::a9fe:a9fe", "64:ff9b:1::7f00:1", "2001:0:7f00:1::", "2001:0:4136:e378:8000:63bf:80ff:fffe",
    "fe80::5efe:7f00:1",
]  # fmt: skip

FORMS = [
    # Decimal, hexadecimal, octal, short, mixed.
    "2130706433", "0x7f000001", "0x7F000001", "017700000001", "0177.0.0.1", "0x7f.1", "0x7f.0x0.0x0.0x1", "127.1",
    "127.0.1", "0", "0x0", "00", "127.0.0.01", "0127.0.0.1", "012.0.0.1", "0xa9fea9fe", "2852039166", "0xa.1",
    "169.254.43518", "0251.0376.0251.0376", "127.0.0.1.", "0000127.0.0.1", "0x000000007f.1",
    # Other digits and dots, which Unicode's compatibility forms turn into these.
    "１２７.0.0.1", "①②⑦.⓪.⓪.①",
    "127。0。0。1", "１２７．０．０．１", "０x7f.1", "₁₂₇.0.0.1", "𝟏𝟐𝟕.0.0.1", "１69.254.169.254",
]  # fmt: skip

NAMES = [
    "localhost", "LOCALHOST", "foo.localhost", "private.test", "metadata.test", "loopback.test", "v6mapped.test",
    "loopback6.test", "a-10-0-0-1.ip.test", "a-100-64-0-1.ip.test", "a-0-0-0-0.ip.test",
    f"x-{0xFE80 << 112 | 1:032x}.ip.test", f"x-{0x64FF9B << 96 | 0x7F000001:032x}.ip.test", "h1.farm.test",
    "ｌoopback.test", "loopback.test.",
]  # fmt: skip

HOSTS = [*ADDRESSES, *(f"[{address}]" for address in ADDRESSES_6), *FORMS, *NAMES]
URLS = [
    *(f"http://{host}:{{http}}/status/200" for host in HOSTS),
    "http://user:secret@127.0.0.1:{http}/",
    "http://93.184.215.14@127.0.0.1:{http}/",
    "http://93.184.215.14:80@127.0.0.1:{http}/",
    "https://127.0.0.1:{http}/",
    "HTTP://127.0.0.1:{http}/",
    "http://[::ffff:127.0.0.1%25lo]:{http}/",
    "http://[fe80::1%25lo]:{http}/",
]


def run(urls: list[str], **options: Any) -> dict[str, Any]:
    """What became of the URLs, and which addresses were connected to."""
    done = programs.run_command(
        *namespace.inside([sys.executable, "-X", "faulthandler", "-m", "tests.check.blocked_program"]),
        typed=json.dumps({"urls": urls, "options": options}),
    )
    assert done.returncode == 0, done.stderr
    found: dict[str, Any] = json.loads(done.stdout)
    return found


def through(url: str) -> str:
    """A URL of a public server that redirects there."""
    return f"http://public.test:{{http}}/redirect/to/{quote(url, safe='{}')}"


def assert_blocked(urls: list[str], found: dict[str, Any]) -> None:
    wrong = {
        url: (outcome, text)
        for url, outcome, text in zip(urls, found["outcomes"], found["texts"], strict=True)
        if outcome != "blocked"
    }
    assert not wrong, "\n".join(f"{url}: {how}" for url, how in wrong.items())


@pytest.mark.time_limit(180)
def test_forms_of_addresses_and_names() -> None:
    found = run(URLS, block_private=True)
    assert found["addresses"] == {}
    assert_blocked(URLS, found)


@pytest.mark.time_limit(180)
def test_redirects_to_them() -> None:
    urls = [through(url) for url in URLS]
    found = run(urls, block_private=True)
    assert set(found["addresses"]) == {PUBLIC}
    assert_blocked(urls, found)


def test_at_the_third_hop() -> None:
    urls = [through(through(through(f"http://{host}:{{http}}/"))) for host in ("127.0.0.1", "metadata.test", "[::1]")]
    found = run(urls, block_private=True)
    assert set(found["addresses"]) == {PUBLIC}
    assert_blocked(urls, found)


def test_public_ones_are_answered() -> None:
    urls = [
        *(
            f"http://{host}:{{http}}/status/200"
            for host in (PUBLIC, "public.test", "PUBLIC.TEST", "1.1.1.1", "9.9.9.9")
        ),
        *(f"http://[{host}]:{{http}}/status/200" for host in ("2606:4700::1111", "::ffff:8.8.8.8")),
        through("http://8.8.8.8:{http}/"),
    ]
    found = run(urls, block_private=True)
    assert found["outcomes"] == ["200"] * len(urls), found["texts"]


def test_the_farm_would_have_been_reached() -> None:
    """Without the option: the tests above do not pass for want of a way."""
    urls = [f"http://{host}:{{http}}/status/200" for host in ("10.0.0.1", "169.254.169.254", "[::1]", "metadata.test")]
    found = run(urls)
    assert found["outcomes"] == ["200"] * len(urls), found["texts"]
    assert {"10.0.0.1", "169.254.169.254", "::1"} <= set(found["addresses"])


def test_a_name_that_changes_its_address() -> None:
    """What is looked at is what is connected to: the name server's next answer does not matter."""
    urls = ["http://rebind.test:{http}/status/200"] * 40
    found = run(urls, block_private=True, concurrency=1)
    assert set(found["addresses"]) == {PUBLIC}
    assert set(found["outcomes"]) <= {"200", "blocked"}


def test_a_name_with_a_public_and_a_private_address() -> None:
    found = run(["http://mixed.test:{http}/status/200"], block_private=True)
    assert set(found["addresses"]) <= {PUBLIC}
    assert found["outcomes"][0] in ("200", "blocked")
