"""The cases of `test_rules`: what is sent, and what is to become of it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

HOST = b"Host: a\r\n"
CHUNKED = b"POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n"


@dataclass(frozen=True)
class Accepted:
    name: str
    section: str
    sent: bytes
    body: bytes = b""
    status: int = 200
    closes: bool = False
    method: str = "GET"
    scope: Mapping[str, Any] = field(default_factory=dict)
    fields: tuple[tuple[bytes, bytes], ...] = ()
    # The connection goes on or ends without a word about it.
    says_nothing: bool = False


@dataclass(frozen=True)
class Refused:
    name: str
    section: str
    sent: bytes
    statuses: tuple[int, ...] = (400,)
    # The error is in the body: the application has been called already.
    is_body: bool = False
    # What is sent has no end of a head: the client's end is what it has.
    is_cut: bool = False
    method: str = "GET"
    options: Mapping[str, Any] = field(default_factory=dict)


def get(*fields: bytes, line: bytes = b"GET / HTTP/1.1", host: bytes = HOST) -> bytes:
    return line + b"\r\n" + host + b"".join(field + b"\r\n" for field in fields) + b"\r\n"


def post(body: bytes, *fields: bytes, line: bytes = b"POST / HTTP/1.1") -> bytes:
    return get(*fields, line=line) + body


def target(text: bytes, method: bytes = b"GET") -> bytes:
    return get(line=method + b" " + text + b" HTTP/1.1")


def _accepted() -> list[Accepted]:
    def path(path: str, query: bytes = b"", raw: bytes | None = None) -> dict[str, Any]:
        return {"path": path, "query_string": query, "raw_path": path.encode() if raw is None else raw}

    te = b"Transfer-Encoding: chunked"
    inner = get(line=b"GET /inner HTTP/1.1")
    inner_length = b"Content-Length: %d" % len(inner)
    return [
        Accepted("plain", "9112 2", get(), scope=path("/")),
        Accepted("empty-lines-before", "9112 2.2", b"\r\n\r\n" + get()),
        Accepted("lower-case-name", "9110 5.1", get(host=b"host: a\r\n")),
        Accepted("no-space-after-colon", "9112 5.1", get(b"X:y"), fields=((b"x", b"y"),)),
        Accepted("white-space-around-value", "9112 5.1", get(b"X: \t y \t "), fields=((b"x", b"y"),)),
        Accepted("tab-within-value", "9110 5.5", get(b"X: a\tb"), fields=((b"x", b"a\tb"),)),
        Accepted("empty-value", "9110 5.5", get(b"X:"), fields=((b"x", b""),)),
        Accepted("obs-text", "9110 5.5", get(b"X: \xe4\xff"), fields=((b"x", b"\xe4\xff"),)),
        Accepted(
            "token-characters", "9110 5.6.2", get(b"!#$%&'*+-.^_`|~09: y"), fields=((b"!#$%&'*+-.^_`|~09", b"y"),)
        ),
        Accepted("query", "9112 3.2.1", target(b"/a?b=c?d"), scope=path("/a", b"b=c?d")),
        Accepted("percent", "9110 4.2.3", target(b"/%7Ea%20b"), scope=path("/~a b", raw=b"/%7Ea%20b")),
        Accepted("percent-crlf", "9112 2.2", target(b"/a%0d%0aX:y"), scope=path("/a\r\nX:y", raw=b"/a%0d%0aX:y")),
        Accepted("percent-nul", "9110 4.2.3", target(b"/a%00"), scope=path("/a\0", raw=b"/a%00")),
        Accepted("percent-overlong", "3629 3", target(b"/%c0%af"), scope=path("/\ufffd\ufffd", raw=b"/%c0%af")),
        Accepted("backslash", "9112 3", target(b"/a\\b"), scope=path("/a\\b")),
        Accepted("line-of-8000-bytes", "9112 3", target(b"/" + b"a" * 7980), scope=path("/" + "a" * 7980)),
        Accepted("dots-are-the-applications", "9112 3.2", target(b"/a/../b"), scope=path("/a/../b")),
        Accepted("absolute-form", "9112 3.2.2", target(b"http://a/b?c"), scope=path("/b", b"c")),
        Accepted("absolute-form-https", "9112 3.2.2", target(b"HTTPS://A/b"), scope=path("/b")),
        Accepted("absolute-form-without-path", "9112 3.2.2", target(b"http://a"), scope=path("/")),
        Accepted("asterisk", "9112 3.2.4", target(b"*", b"OPTIONS"), scope=path("*")),
        Accepted("unknown-method", "9110 9.1", target(b"/", b"BREW"), scope={"method": "BREW"}),
        Accepted("method-is-case-sensitive", "9110 9.1", target(b"/", b"get"), scope={"method": "get"}),
        Accepted("head", "9110 9.3.2", target(b"/", b"HEAD"), method="HEAD"),
        Accepted("trace-is-the-applications", "9110 9.3.8", target(b"/", b"TRACE")),
        *(
            Accepted(
                f"{method.lower()}-with-body",
                "9110 9.3",
                post(b"abc", b"Content-Length: 3", line=method.encode() + b" / HTTP/1.1"),
                b"abc",
                method=method,
            )
            for method in ("HEAD", "OPTIONS", "TRACE", "DELETE")
        ),
        *(
            Accepted(
                f"{method.lower()}-with-a-request-as-body",
                "9112 6.3",
                post(inner, inner_length, line=method.encode() + b" / HTTP/1.1"),
                inner,
                method=method,
            )
            for method in ("GET", "HEAD", "OPTIONS", "POST")
        ),
        Accepted("host-with-port", "9110 7.2", get(host=b"Host: a.b-c:80\r\n")),
        Accepted("v6-host", "9110 7.2", get(host=b"Host: [::1]:80\r\n"), fields=((b"host", b"[::1]:80"),)),
        Accepted(
            "v6-host-with-zone", "6874 1", get(host=b"Host: [fe80::1%25a]\r\n"), fields=((b"host", b"[fe80::1%25a]"),)
        ),
        Accepted("empty-host", "9112 3.2", get(host=b"Host:\r\n"), fields=((b"host", b""),)),
        Accepted(
            "empty-host-http10",
            "9112 3.2",
            get(line=b"GET / HTTP/1.0", host=b"Host:\r\n"),
            fields=((b"host", b""),),
            closes=True,
        ),
        Accepted("absolute-other-host", "9112 3.2.2", target(b"http://b:80/"), fields=((b"host", b"b:80"),)),
        Accepted("get-with-body", "9110 9.3.1", post(b"abc", b"Content-Length: 3", line=b"GET / HTTP/1.1"), b"abc"),
        Accepted("body", "9112 6.2", post(b"abc", b"Content-Length: 3"), b"abc"),
        Accepted("body-of-zero", "9112 6.2", post(b"", b"Content-Length: 0")),
        Accepted("length-with-zeros", "9110 8.6", post(b"abc", b"Content-Length: 0003"), b"abc"),
        Accepted("length-is-never-octal", "9110 8.6", post(b"0123456789", b"Content-Length: 010"), b"0123456789"),
        Accepted("length-of-zeros", "9110 8.6", post(b"", b"Content-Length: 00")),
        Accepted("length-with-white-space", "9110 5.5", post(b"abc", b"Content-Length: \t3 \t"), b"abc"),
        Accepted(
            "length-with-underscore", "9110 5.1", post(b"abc", b"Content-Length: 3", b"Content_Length: 9"), b"abc"
        ),
        Accepted(
            "coding-with-underscore",
            "9110 5.1",
            post(b"abc", b"Content-Length: 3", b"Transfer_Encoding: chunked"),
            b"abc",
        ),
        Accepted("post-without-framing", "9112 6.3", post(b"")),
        Accepted("chunked", "9112 7.1", CHUNKED + b"3\r\nabc\r\n0\r\n\r\n", b"abc"),
        Accepted("chunked-case", "9112 7", post(b"1\r\na\r\n0\r\n\r\n", b"Transfer-Encoding: Chunked"), b"a"),
        Accepted("coding-of-name-case", "9110 5.1", post(b"1\r\na\r\n0\r\n\r\n", b"TRANSFER-ENCODING: chunked"), b"a"),
        Accepted(
            "coding-with-white-space", "9110 5.5", post(b"1\r\na\r\n0\r\n\r\n", b"Transfer-Encoding:\tchunked "), b"a"
        ),
        Accepted(
            "chunks",
            "9112 7.1",
            CHUNKED + b"1\r\na\r\n00a\r\n0123456789\r\nA\r\n0123456789\r\n0\r\n\r\n",
            b"a01234567890123456789",
        ),
        Accepted("no-chunks", "9112 7.1", CHUNKED + b"0\r\n\r\n"),
        Accepted("last-chunk-of-zeros", "9112 7.1", CHUNKED + b"000\r\n\r\n"),
        Accepted("extension", "9112 7.1.1", CHUNKED + b"1;a=b\r\nx\r\n0;c\r\n\r\n", b"x"),
        Accepted("extension-quoted", "9112 7.1.1", CHUNKED + b'1;a="\\";b"\r\nx\r\n0\r\n\r\n', b"x"),
        Accepted("extension-spaces", "9112 7.1.1", CHUNKED + b"1 ; a = b\r\nx\r\n0\r\n\r\n", b"x"),
        Accepted("trailers", "9112 7.1.2", CHUNKED + b"1\r\nx\r\n0\r\nX-Sum: 1\r\nY: 2\r\n\r\n", b"x"),
        Accepted(
            "trailers-are-no-fields",
            "9110 6.5.1",
            CHUNKED + b"1\r\nx\r\n0\r\nAuthorization: x\r\nContent-Type: a/b\r\n\r\n",
            b"x",
            scope={"headers": [(b"host", b"a"), (b"transfer-encoding", b"chunked")]},
        ),
        Accepted("close", "9112 9.6", get(b"Connection: close"), closes=True),
        Accepted("close-case", "9110 7.6.1", get(b"Connection: CLOSE"), closes=True),
        Accepted("close-in-list", "9110 7.6.1", get(b"Connection: x,\t Close ,"), closes=True),
        Accepted("close-in-second-field", "9110 7.6.1", get(b"Connection: x", b"Connection: close"), closes=True),
        Accepted("close-wins", "9112 9.3", get(b"Connection: keep-alive, close"), closes=True),
        Accepted("not-quite-close", "9110 7.6.1", get(b"Connection: closed")),
        Accepted("keep-alive", "9112 9.3", get(b"Connection: keep-alive")),
        Accepted("http10", "9112 9.3", get(line=b"GET / HTTP/1.0"), closes=True, scope={"http_version": "1.0"}),
        Accepted("http10-without-host", "9112 3.2", get(line=b"GET / HTTP/1.0", host=b""), closes=True),
        Accepted("http10-keep-alive", "9112 9.3", get(b"Connection: Keep-Alive", line=b"GET / HTTP/1.0")),
        Accepted(
            "http10-body", "9112 6.3", post(b"abc", b"Content-Length: 3", line=b"POST / HTTP/1.0"), b"abc", closes=True
        ),
        Accepted(
            "http10-upgrade-ignored",
            "9110 7.8",
            get(b"Connection: upgrade", b"Upgrade: websocket", line=b"GET / HTTP/1.0"),
            closes=True,
        ),
        Accepted(
            "h2c-ignored",
            "9110 7.8",
            get(b"Connection: upgrade, http2-settings", b"Upgrade: h2c", b"HTTP2-Settings: AAMAAABkAAQAoAAAAAIAAAAA"),
        ),
        Accepted(
            "h2c-keeps-body",
            "9110 7.8",
            post(b"abc", b"Connection: upgrade", b"Upgrade: h2c", b"Content-Length: 3"),
            b"abc",
        ),
        Accepted(
            "h2c-keeps-chunks",
            "9110 7.8",
            post(b"3\r\nabc\r\n0\r\n\r\n", b"Connection: upgrade", b"Upgrade: h2c", te),
            b"abc",
        ),
        Accepted(
            "websocket-by-post-is-a-post",
            "9110 7.8",
            post(b"abc", b"Connection: upgrade", b"Upgrade: websocket", b"Content-Length: 3"),
            b"abc",
        ),
        Accepted("upgrade-without-connection", "9110 7.8", get(b"Upgrade: websocket")),
        Accepted("upgrade-unknown", "9110 7.8", get(b"Connection: upgrade", b"Upgrade: made-up/1.0")),
        Accepted("expect-without-body", "9110 10.1.1", get(b"Expect: 100-continue")),
        Accepted(
            "expect-http10",
            "9110 10.1.1",
            post(b"abc", b"Expect: 100-continue", b"Content-Length: 3", line=b"POST / HTTP/1.0"),
            b"abc",
            closes=True,
        ),
        Accepted("many-fields", "9110 5.4", get(*(b"x%d: y" % number for number in range(99)))),
        Accepted("fields-kept-apart", "9110 5.3", get(b"X: a", b"Y: b"), fields=((b"x", b"a"), (b"y", b"b"))),
        Accepted("cookie-without-sense", "6265 5.2", get(b"Cookie: ===;;;"), fields=((b"cookie", b"===;;;"),)),
        Accepted("te", "9110 10.1.4", get(b"TE: trailers, gzip;q=0.5")),
    ]


def _lines() -> list[Refused]:
    return [
        Refused("http09", "9112 3", b"GET /\r\n", is_cut=True),
        Refused("http09-with-fields", "9112 3", get(line=b"GET /")),
        Refused("version-1.2", "9112 2.3", get(line=b"GET / HTTP/1.2"), (505,)),
        Refused("version-2.0", "9112 2.3", get(line=b"GET / HTTP/2.0"), (505,)),
        Refused("version-9.9", "9112 2.3", get(line=b"GET / HTTP/9.9"), (505,)),
        Refused("version-lower-case", "9112 2.3", get(line=b"GET / http/1.1")),
        Refused("version-no-dot", "9112 2.3", get(line=b"GET / HTTP/11")),
        Refused("version-no-minor", "9112 2.3", get(line=b"GET / HTTP/1")),
        Refused("version-zeros", "9112 2.3", get(line=b"GET / HTTP/01.01")),
        Refused("version-empty", "9112 2.3", get(line=b"GET / ")),
        Refused("version-digits", "9112 2.3", get(line=b"GET / HTTP/1.10")),
        Refused("version-name", "9112 2.3", get(line=b"GET / ICE/1.1")),
        Refused("version-space", "9112 2.3", get(line=b"GET / HTTP/ 1.1")),
        Refused("tls-hello", "9112 3", b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" + bytes(40), is_cut=True),
        Refused("two-spaces", "9112 3", get(line=b"GET  / HTTP/1.1")),
        Refused("two-spaces-before-version", "9112 3", get(line=b"GET /  HTTP/1.1")),
        Refused("tab-for-space", "9112 3", get(line=b"GET\t/\tHTTP/1.1")),
        Refused("space-at-end", "9112 3", get(line=b"GET / HTTP/1.1 ")),
        Refused("spaces-alone", "9112 3", b"   \r\n\r\n"),
        Refused("text-before-method", "9112 3", get(line=b"Some textGET / HTTP/1.1")),
        Refused("space-before-method", "9112 3", get(line=b" GET / HTTP/1.1")),
        Refused("space-in-target", "9112 3.2", get(line=b"GET /a b HTTP/1.1")),
        Refused("no-target", "9112 3", get(line=b"GET HTTP/1.1")),
        Refused("method-characters", "9110 9.1", get(line=b"G(T / HTTP/1.1")),
        Refused("method-nul", "9110 9.1", get(line=b"G\0T / HTTP/1.1")),
        Refused("method-long", "9112 3", get(line=b"A" * 100 + b" / HTTP/1.1")),
        Refused("method-endless", "9112 3", get(line=b"A" * 100_000 + b" / HTTP/1.1"), (414,)),
        Refused("target-nul", "9112 3.2", target(b"/\0")),
        Refused("target-control", "9112 3.2", target(b"/\x01")),
        Refused("target-delete", "9112 3.2", target(b"/\x7f")),
        Refused("target-not-ascii", "9112 3.2", target(b"/\xc3\xa4")),
        Refused("target-overlong", "3629 3", target(b"/\xc0\xaf")),
        Refused("target-fragment", "9112 3.2", target(b"/a#b")),
        Refused("target-relative", "9112 3.2", target(b"a/b")),
        Refused("target-other-scheme", "9112 3.2.2", target(b"ftp://a/")),
        Refused("target-asterisk-get", "9112 3.2.4", target(b"*")),
        Refused("target-authority-get", "9112 3.2.3", target(b"a:80")),
        Refused("target-userinfo", "9110 4.2.4", target(b"http://u@a/")),
        Refused("target-empty-host", "9110 4.2.1", target(b"http:///a")),
        Refused("connect-path", "9112 3.2.3", target(b"/", b"CONNECT")),
        Refused("connect", "9110 9.3.6", get(line=b"CONNECT a:80 HTTP/1.1", host=b"Host: a:80\r\n"), (501,)),
        Refused("connect-empty-port", "9112 3.2.3", target(b"a:", b"CONNECT")),
        Refused("connect-no-port", "9112 3.2.3", target(b"a", b"CONNECT")),
        Refused("line-long", "9112 3", target(b"/" + b"a" * 9000), (414,)),
        Refused("line-endless", "9112 3", b"GET /" + b"a" * 9000, (414,), is_cut=True),
        Refused("line-limit", "9112 3", target(b"/" + b"a" * 90), (414,), options={"max_line_bytes": 100}),
        Refused("bare-lf", "9112 2.2", b"GET / HTTP/1.1\nHost: a\n\n"),
        Refused("bare-lf-of-line", "9112 2.2", b"GET / HTTP/1.1\nHost: a\r\n\r\n"),
        Refused("bare-lf-of-field", "9112 2.2", b"GET / HTTP/1.1\r\nHost: a\nX: y\r\n\r\n"),
        Refused("bare-lf-of-end", "9112 2.2", b"GET / HTTP/1.1\r\nHost: a\r\n\n"),
        Refused("bare-lf-before", "9112 2.2", b"\n" + get()),
        Refused("bare-cr-of-line", "9112 2.2", b"GET / HTTP/1.1\rHost: a\r\n\r\n"),
        Refused("bare-cr-in-value", "9112 2.2", get(b"X: a\rb")),
        Refused("bare-cr-before-field", "9112 2.2", get(b"\rX: a")),
        Refused("bare-crs", "9112 2.2", b"GET / HTTP/1.1\rHost: a\r\r", is_cut=True),
        Refused("double-cr", "9112 2.2", b"GET / HTTP/1.1\r\r\nHost: a\r\n\r\n"),
    ]


def _fields() -> list[Refused]:
    return [
        Refused("space-before-colon", "9112 5.1", get(b"X : y")),
        Refused("tab-before-colon", "9112 5.1", get(b"X\t: y")),
        Refused("host-space-before-colon", "9112 5.1", get(host=b"Host : a\r\n")),
        Refused("length-space-before-colon", "9112 5.1", post(b"abc", b"Content-Length : 3")),
        Refused("obs-fold", "9112 5.2", get(b"X: a", b" b")),
        Refused("obs-fold-tab", "9112 5.2", get(b"X: a", b"\tb")),
        Refused("fold-of-first", "9112 2.2", b"GET / HTTP/1.1\r\n Host: a\r\n\r\n"),
        Refused("spaces-before-first", "9112 2.2", b"GET / HTTP/1.1\r\n \r\nHost: a\r\n\r\n"),
        Refused("fold-of-framing", "9112 5.2", post(b"", b"Transfer-Encoding:", b" chunked")),
        Refused("empty-line-of-spaces", "9112 5.2", get(b" ")),
        Refused("no-colon", "9112 5", get(b"X")),
        Refused("no-name", "9112 5", get(b": y")),
        Refused("name-nul", "9110 5.1", get(b"X\0: y")),
        Refused("name-control", "9110 5.1", get(b"X\x01: y")),
        Refused("name-not-ascii", "9110 5.1", get(b"X\xe4: y")),
        Refused("name-quoted", "9110 5.1", get(b'"X": y')),
        Refused("name-brackets", "9110 5.1", get(b"X[]: y")),
        Refused("name-tab", "9110 5.1", get(b"Content\tLength: 3")),
        Refused("name-long", "9110 5.4", get(b"A" * 100_000 + b": y"), (431,)),
        Refused("value-nul", "9110 5.5", get(b"X: a\0b")),
        Refused("value-control", "9110 5.5", get(b"X: a\x01b")),
        Refused("value-delete", "9110 5.5", get(b"X: a\x7fb")),
        Refused("value-vertical-tab", "9110 5.5", get(b"X: a\x0bb")),
        Refused("no-host", "9112 3.2", get(host=b"")),
        Refused("two-hosts", "9112 3.2", get(b"Host: b")),
        Refused("two-equal-hosts", "9112 3.2", get(b"Host: a")),
        Refused("port-without-host", "9110 7.2", get(host=b"Host: :80\r\n")),
        Refused("absolute-without-host", "9112 3.2", get(line=b"GET http://a/ HTTP/1.1", host=b"")),
        Refused("absolute-and-two-hosts", "9112 3.2", get(b"Host: b", line=b"GET http://a/ HTTP/1.1")),
        Refused("host-space", "9110 7.2", get(host=b"Host: a b\r\n")),
        Refused("host-userinfo", "9110 7.2", get(host=b"Host: u@a\r\n")),
        Refused("host-path", "9110 7.2", get(host=b"Host: a/b\r\n")),
        Refused("host-port", "9110 7.2", get(host=b"Host: a:b\r\n")),
        Refused("host-port-large", "9110 7.2", get(host=b"Host: a:99999\r\n")),
        Refused("host-list", "9110 7.2", get(host=b"Host: a, b\r\n")),
        Refused("host-url", "9110 7.2", get(host=b"Host: http://a\r\n")),
        Refused("host-v6", "9110 7.2", get(host=b"Host: ::1\r\n")),
        Refused("fields-many", "9110 5.4", get(*(b"x%d: y" % number for number in range(100))), (431,)),
        Refused("head-long", "9110 5.4", get(b"X: " + b"a" * 70000), (431,)),
        Refused("head-endless", "9110 5.4", get(b"X: " + b"a" * 70000)[:-4], (431,), is_cut=True),
        Refused("head-limit", "9110 5.4", get(b"X: " + b"a" * 200), (431,), options={"max_header_bytes": 200}),
        Refused("fields-limit", "9110 5.4", get(b"X: y", b"Y: z"), (431,), options={"max_headers": 2}),
        Refused("expectation", "9110 10.1.1", post(b"abc", b"Expect: more", b"Content-Length: 3"), (417,)),
        Refused("expectation-without-body", "9110 10.1.1", get(b"Expect: 200-ok"), (417,)),
    ]


def _framing() -> list[Refused]:
    te, length = b"Transfer-Encoding: chunked", b"Content-Length: 3"
    chunks = b"3\r\nabc\r\n0\r\n\r\n"
    lengths = {
        "plus": b"+3", "minus": b"-3", "minus-zero": b"-0", "list": b"3, 3", "list-other": b"3, 4",
        "list-of-three": b"3, 3, 3", "hex": b"0x3", "octal": b"0o3", "text": b"abc", "empty": b"", "space": b"3 3",
        "dot": b"3.0", "underscore": b"1_0", "overflow": b"18446744073709551619", "huge": b"9" * 40,
        "vertical-tab": b"\x0b3", "unicode": "\u0663".encode(), "quoted": b'"3"',
    }  # fmt: skip
    codings = {
        "identity": (400, 501), "gzip": (400, 501), "x": (400, 501), "chunked, chunked": (400,),
        "chunked, identity": (400,), "gzip, chunked": (501,), "xchunked": (400, 501), "chunkedx": (400, 501),
        "chunked;a=b": (400,), "\x0bchunked": (400,), '"chunked"': (400, 501), "chunk": (400, 501), "": (400,),
        "\x0cchunked": (400,), "chunked, gzip": (400,), "chunked,": (400,), ", chunked": (400,), "chunked\x00": (400,),
    }  # fmt: skip
    return [
        *(Refused(f"length-{name}", "9110 8.6", post(b"abc", b"Content-Length: " + value))
          for name, value in lengths.items()),
        Refused("length-twice", "9112 6.3", post(b"abc", length, length)),
        Refused("length-twice-other", "9112 6.3", post(b"abc", length, b"Content-Length: 4")),
        Refused("length-and-chunked", "9112 6.1", post(chunks, length, te)),
        Refused("chunked-and-length", "9112 6.1", post(chunks, te, length)),
        Refused("chunked-and-bad-length", "9112 6.1", post(chunks, te, b"Content-Length: x")),
        Refused("chunked-twice", "9112 6.1", post(chunks, te, te)),
        Refused("chunked-and-identity", "9112 6.1", post(chunks, te, b"Transfer-Encoding: identity"), (400, 501)),
        Refused("identity-and-chunked", "9112 6.1", post(chunks, b"Transfer-Encoding: identity", te), (400, 501)),
        Refused("chunked-http10", "9112 6.1", post(chunks, te, line=b"POST / HTTP/1.0")),
        Refused("chunked-space-before-colon", "9112 5.1", post(chunks, b"Transfer-Encoding : chunked")),
        *(Refused(f"coding-{coding!r}", "9112 6.1", post(chunks, b"Transfer-Encoding: " + coding.encode()), statuses)
          for coding, statuses in codings.items()),
        Refused("body-limit", "9110 15.5.14", post(b"abc", length), (413,), options={"max_body_bytes": 2}),
        Refused("chunks-limit", "9110 15.5.14", CHUNKED + chunks, (413,), is_body=True, options={"max_body_bytes": 2}),
        Refused("expect-too-much", "9110 10.1.1", post(b"", length, b"Expect: 100-continue"), (413,),
                options={"max_body_bytes": 2}),
    ]  # fmt: skip


def _chunks() -> list[Refused]:
    bad = {
        "no-size": b"\r\nabc\r\n0\r\n\r\n",
        "size-text": b"x\r\nabc\r\n0\r\n\r\n",
        "size-0x": b"0x3\r\nabc\r\n0\r\n\r\n",
        "size-plus": b"+3\r\nabc\r\n0\r\n\r\n",
        "size-minus": b"-3\r\nabc\r\n0\r\n\r\n",
        "size-underscore": b"1_0\r\n" + b"a" * 16 + b"\r\n0\r\n\r\n",
        "size-space-before": b" 3\r\nabc\r\n0\r\n\r\n",
        "size-space-behind": b"3 \r\nabc\r\n0\r\n\r\n",
        "size-tab-behind": b"3\t\r\nabc\r\n0\r\n\r\n",
        "size-overflow": b"10000000000000003\r\nabc\r\n0\r\n\r\n",
        "size-huge": b"f" * 40 + b"\r\nabc",
        "size-comma": b"3,\r\nabc\r\n0\r\n\r\n",
        "line-lf": b"3\nabc\r\n0\r\n\r\n",
        "line-cr": b"3\rabc\r\n0\r\n\r\n",
        "line-double-cr": b"3\r\r\nabc\r\n0\r\n\r\n",
        "data-long": b"3\r\nabcd\r\n0\r\n\r\n",
        "data-short": b"4\r\nabc\r\n0\r\n\r\n",
        "data-lf": b"3\r\nabc\n0\r\n\r\n",
        "data-cr": b"3\r\nabc\r0\r\n\r\n",
        "data-no-end": b"3\r\nabc0\r\n\r\n",
        "data-spilled": b"3\r\nabcXX0\r\n\r\n",
        "extension-lf": b"3;a\nabc\r\n0\r\n\r\n",
        "extension-cr": b"3;a\rb\r\nabc\r\n0\r\n\r\n",
        "extension-nul": b"3;a=\0\r\nabc\r\n0\r\n\r\n",
        "extension-empty": b"3;\r\nabc\r\n0\r\n\r\n",
        "extension-characters": b"3;a[=b\r\nabc\r\n0\r\n\r\n",
        "extension-open-quote": b'3;a="b\r\nabc\r\n0\r\n\r\n',
        "extension-long": b"3;" + b"a" * 5000 + b"\r\nabc\r\n0\r\n\r\n",
        "last-lf": b"3\r\nabc\r\n0\n\r\n",
        "last-lf-lf": b"3\r\nabc\r\n0\r\n\n",
        "trailer-space": b"0\r\nX : y\r\n\r\n",
        "trailer-fold": b"0\r\nX: y\r\n z\r\n\r\n",
        "trailer-no-colon": b"0\r\nX\r\n\r\n",
        "trailer-lf": b"0\r\nX: y\n\r\n",
        "trailer-nul": b"0\r\nX: \0\r\n\r\n",
        "trailer-length": b"0\r\nContent-Length: 3\r\n\r\n",
        "trailer-coding": b"0\r\nTransfer-Encoding: chunked\r\n\r\n",
        "trailer-host": b"0\r\nHost: b\r\n\r\n",
    }
    return [
        *(Refused(f"chunk-{name}", "9112 7.1", CHUNKED + body, is_body=True) for name, body in bad.items()),
        Refused(
            "trailers-long", "9112 7.1.2", CHUNKED + b"0\r\nX: " + b"a" * 70000 + b"\r\n\r\n", (431,), is_body=True
        ),
        Refused("trailers-many", "9112 7.1.2", CHUNKED + b"0\r\n" + b"X: y\r\n" * 200 + b"\r\n", (431,), is_body=True),
    ]


ACCEPTED = _accepted()
REFUSED = [*_lines(), *_fields(), *_framing(), *_chunks()]
