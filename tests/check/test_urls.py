"""What is taken for a URL, and what is said of the rest."""

from __future__ import annotations

import re

import pytest

from oneloop.check.urls import URL_CHARACTERS, shown, url_of


@pytest.mark.parametrize(
    "url",
    [
        "https://example.com",
        "http://example.com:8080/a?b=c#d",
        "http://localhost/",
        "HTTPS://EXAMPLE.com/",
        "http://[::1]:80/",
        "http://user:secret@example.com/",
        "http://bücher.example/ä?ö",
        "http://127.1/",
        "http://0x7f.1/",
        "http://example.com:65535",
        "http://example.com:/",
        "http://example.com./",
        "http://a_b.example/",
        "https://example.com?x",
        "https://example.com#x",
        "https://" + "a" * (URL_CHARACTERS - 8),
        "HTTPS://" + "a" * (URL_CHARACTERS - 8),
    ],
)
def test_a_url_stays_as_it_is(url: str) -> None:
    assert url_of(url) == url
    assert url_of(url, "http") == url


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("", "no URL"),
        ("example.com", "no scheme: write https://example.com, or use --scheme"),
        ("localhost:8080/x", "no scheme: write https://localhost:8080/x, or use --scheme"),
        ("//example.com/x", "no scheme: write https://example.com/x, or use --scheme"),
        ("/path", "no host"),
        ("./path", "no host"),
        ("?query", "no host"),
        ("mailto:me@example.com", "scheme 'mailto'"),
        ("javascript:alert(1)", "scheme 'javascript'"),
        ("javascript:1", "scheme 'javascript'"),
        ("tel:123", "scheme 'tel'"),
        ("ftp://example.com", "scheme 'ftp'"),
        ("file:///etc/passwd", "scheme 'file'"),
        ("http:example.com", "no // after http:"),
        ("http:/example.com", "no // after http:"),
        ("http://", "no host"),
        ("http:///path", "no host"),
        ("http://:80/", "no host"),
        ("http://user@/", "no host"),
        ("http://example.com:0/", "port"),
        ("http://example.com:65536/", "port"),
        ("http://example.com:x/", "port"),
        ("http://example.com:８０/", "port"),
        ("http://exa mple.com/", "whitespace in the URL, at character 11"),
        ("http://example.com/a b", "write %20"),
        ("http://example.com/\u00a0b", "whitespace"),
        ("http://example.com/\x00", "control character 0x00"),
        ("http://example.com/a\rb", "whitespace"),
        ("http://example.com/\x1b[2J", "control character 0x1b"),
        ("http://example.com/\udcff", "not UTF-8: byte 0xff at character 20"),
        ("http://example.com/\ud800", "surrogate"),
        ("http://example.com\\@evil.example/", "the host contains"),
        ("http://[::1/", "IPv6"),
        ("https://" + "a" * (URL_CHARACTERS - 7), "a URL may have at most"),
    ],
)
def test_what_is_no_url_says_why(text: str, reason: str) -> None:
    with pytest.raises(ValueError, match=re.escape(reason)) as raised:
        url_of(text)
    assert str(raised.value).isprintable()
    assert len(str(raised.value)) < 400


@pytest.mark.parametrize(
    ("text", "url"),
    [
        ("example.com", "http://example.com"),
        ("localhost:8080/x", "http://localhost:8080/x"),
        ("//example.com", "http://example.com"),
        ("\ufeffexample.com", "http://example.com"),
    ],
)
def test_a_scheme_is_put_in_front_where_it_is_given(text: str, url: str) -> None:
    assert url_of(text, "http") == url


@pytest.mark.parametrize("text", ["mailto:me", "javascript:alert(1)", "/path", "../path", "ftp://x", "a b", ""])
def test_a_given_scheme_makes_no_url_of_what_is_none(text: str) -> None:
    with pytest.raises(ValueError, match=r"\w"):
        url_of(text, "https")


def test_what_is_shown_is_short_and_cannot_steer_a_terminal() -> None:
    assert shown("a" * 1000) == "a" * 199 + "…"
    assert shown("a\x1b[2Jb\x00\udcff") == "a\\x1b[2Jb\\x00\\udcff"
