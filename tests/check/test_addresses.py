"""Which addresses are public: the ends of each network, and addresses within addresses."""

from __future__ import annotations

from ipaddress import ip_address

import pytest

from oneloop.addresses import address_of, is_public

# The first and last address of each network, and those outside that are next to them.
EDGES_4 = [
    ("0.0.0.0", "0.255.255.255", "", "1.0.0.0"),
    ("10.0.0.0", "10.255.255.255", "9.255.255.255", "11.0.0.0"),
    ("100.64.0.0", "100.127.255.255", "100.63.255.255", "100.128.0.0"),
    ("100.100.100.200", "100.100.100.200", "", ""),
    ("127.0.0.0", "127.255.255.255", "126.255.255.255", "128.0.0.0"),
    ("168.63.129.16", "168.63.129.16", "168.63.129.15", "168.63.129.17"),
    ("169.254.0.0", "169.254.255.255", "169.253.255.255", "169.255.0.0"),
    ("172.16.0.0", "172.31.255.255", "172.15.255.255", "172.32.0.0"),
    ("192.0.0.0", "192.0.0.255", "191.255.255.255", "192.0.1.0"),
    ("192.0.2.0", "192.0.2.255", "192.0.1.255", "192.0.3.0"),
    ("192.88.99.0", "192.88.99.255", "192.88.98.255", "192.88.100.0"),
    ("192.168.0.0", "192.168.255.255", "192.167.255.255", "192.169.0.0"),
    ("198.18.0.0", "198.19.255.255", "198.17.255.255", "198.20.0.0"),
    ("198.51.100.0", "198.51.100.255", "198.51.99.255", "198.51.101.0"),
    ("203.0.113.0", "203.0.113.255", "203.0.112.255", "203.0.114.0"),
    ("224.0.0.0", "239.255.255.255", "223.255.255.255", ""),
    ("240.0.0.0", "255.255.255.255", "", ""),
]
ONES = ":ffff" * 6
EDGES_6 = [
    ("::", f"1fff:ffff{ONES}", "", "2000::"),
    ("2001::", f"2001:1ff{ONES}", f"2000:ffff{ONES}", "2001:200::"),
    ("2001:db8::", f"2001:db8{ONES}", f"2001:db7{ONES}", "2001:db9::"),
    ("2002::", f"2002:ffff{ONES}", f"2001:ffff{ONES}", "2003::"),
    ("3fff::", f"3fff:fff{ONES}", f"3ffe:ffff{ONES}", "3fff:1000::"),
    ("4000::", f"ffff:ffff{ONES}", f"3fff:ffff{ONES}", ""),
]


@pytest.mark.parametrize(("first", "last", "before", "behind"), [*EDGES_4, *EDGES_6])
def test_the_ends_of_networks(first: str, last: str, before: str, behind: str) -> None:
    assert not is_public(ip_address(first))
    assert not is_public(ip_address(last))
    assert not before or is_public(ip_address(before))
    assert not behind or is_public(ip_address(behind))


@pytest.mark.parametrize("around", ["::ffff:{}", "64:ff9b::{}"])
def test_an_address_within_an_address_decides(around: str) -> None:
    assert is_public(ip_address(around.format("8.8.8.8")))
    for private in ("10.0.0.1", "127.0.0.1", "169.254.169.254", "168.63.129.16"):
        assert not is_public(ip_address(around.format(private)))


@pytest.mark.parametrize(
    ("host", "address"),
    [
        ("127.0.0.1", "127.0.0.1"),
        ("::1", "::1"),
        ("fe80::1%lo", "fe80::1"),
        ("10.0.0.1%lo", "10.0.0.1"),
        ("0x7f.1", "127.0.0.1"),
        ("2130706433", "127.0.0.1"),
        ("0177.0.0.1", "127.0.0.1"),
        ("example.com", None),
        ("1.example.com", None),
        ("x7f.1", None),
        ("１２７.0.0.1", None),
        ("1\ud800", None),
        ("", None),
    ],
)
def test_a_host_that_is_an_address(host: str, address: str | None) -> None:
    found = address_of(host)
    assert (None if found is None else str(found)) == address
