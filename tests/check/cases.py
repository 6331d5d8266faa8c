"""What each server of the farm must come to: paths and outcomes, for GET and for HEAD."""

from __future__ import annotations

from dataclasses import dataclass
from urllib.parse import quote

FINAL = (200, 201, 202, 203, 204, 205, 206, 226, 299, 300, 304, 305, 306)
FAILED = (*range(400, 419), *range(421, 427), 428, 429, 431, 444, 451, 499, *range(500, 509), 510, 511, 520, 599)
REDIRECTS = (301, 302, 303, 307, 308)


@dataclass(frozen=True)
class Case:
    """A path of the farm's plain server, or of another listener, and the outcomes."""

    path: str
    get: str
    head: str = ""
    """Empty: as for GET."""
    listener: str = "http"
    host: str = "127.0.0.1"

    def outcome(self, method: str) -> str:
        return self.head or self.get if method == "HEAD" else self.get


def to(url: str) -> str:
    """The path that redirects to a URL."""
    return "/redirect/to/" + quote(url, safe="")


STATUSES = [
    *(Case(f"/status/{status}", str(status)) for status in FINAL + FAILED + REDIRECTS if status not in (405, 501)),
    # A HEAD that is not allowed, or not implemented, is repeated as a GET: these refuse that as well.
    Case("/status/405", "405"),
    Case("/status/501", "501"),
]

GOOD = [
    Case("/", "200"),
    Case("/latency/30", "200"),
    Case("/chunks/good", "200"),
    *(Case(f"/bytes/{count}", "200") for count in (0, 1, 1000, 65_535, 65_536, 1_000_000)),
    Case("/echo/h?a=%20b&c=d", "200"),
    Case("/echo/%C3%A4%2F..%2F", "200"),
    Case("/auth", "401"),
    Case("/gzip/2", "200"),
    # Cut off at the limit, which is no error.
    Case("/endless/body", "200"),
    Case("/endless/chunks", "200"),
    Case("/gzip/2000", "200"),
    Case("/bytes/3000000", "200"),
    Case("/head/405", "200"),
    Case("/head/501", "200"),
    Case("/head/404", "200", "404"),
    Case("/head/503", "200", "503"),
    # A server that cannot do it well is asked by GET.
    Case("/head/close", "200"),
    Case("/head/body", "200"),
]

CUT = [
    *(Case(f"/{how}/first", "protocol") for how in ("close", "reset")),
    *(Case(f"/{how}/head", "protocol") for how in ("close", "reset")),
    *(Case(f"/{how}/body", "protocol", "200") for how in ("close", "reset")),
    Case("/short/0", "protocol", "200"),
    Case("/short/100000", "protocol", "200"),
    Case("/chunks/cut", "protocol", "200"),
    Case("/chunks/size", "protocol", "200"),
    Case("/chunks/broken", "protocol", "200"),
]

GARBAGE = [
    *(Case(f"/garbage/{kind}", "protocol") for kind in ("bytes", "text", "version", "status", "header", "length")),
    Case("/garbage/twolengths", "protocol"),
    *(Case(f"/endless/{kind}", "protocol") for kind in ("headers", "header", "interim")),
]

REDIRECTED = [
    *(Case(f"/redirect/{count}?status={status}", "200") for count in (1, 10) for status in REDIRECTS),
    Case("/redirect/11", "too_many_redirects"),
    Case("/redirect/100", "too_many_redirects"),
    Case("/redirect/loop", "too_many_redirects"),
    *(Case(f"/redirect/none?status={status}", str(status)) for status in REDIRECTS),
    Case(to("/status/404"), "404"),
    Case(to("../../status/500"), "500"),
    Case(to("//127.0.0.1:{http}/status/204"), "204"),
    Case(to("http://127.0.0.1:{other}/status/410"), "410"),
    Case(to("http://h7.farm.test:{http}/status/200"), "200"),
    Case(to("https://127.0.0.1:{tls}/status/203"), "203"),
    Case(to("http://127.0.0.1:{closed}/"), "connect"),
    Case(to("http://nx.test:{http}/"), "dns"),
    Case(to("https://127.0.0.1:{expired}/"), "tls"),
    Case(to("/garbage/text"), "protocol"),
    *(
        Case(to(url), "invalid_url")
        for url in (
            "file:///etc/passwd",
            "javascript:alert(1)",
            "ftp://127.0.0.1/",
            "data:text/plain,a",
            "mailto:a@b.example",
            "gopher://127.0.0.1:70/",
            "ws://127.0.0.1/",
            "http://",
            "http:///path",
            "http://[",
            "http://[::1",
            "http://127.0.0.1:99999/",
            "http://127.0.0.1:port/",
        )
    ),
]

TLS = [
    Case("/status/200", "200", listener="tls"),
    Case("/status/404", "404", listener="tls", host="localhost"),
    Case("/bytes/1000000", "200", listener="tls", host="h1.farm.test"),
    *(Case("/", "tls", listener=name) for name in ("self_signed", "expired", "wrong_name", "unknown_authority")),
    Case("/", "tls", listener="tls", host="other.test"),
    Case("/", "tls", listener="cut_handshake"),
]

PLACES = [
    Case("/status/200", "200", host="h1.farm.test"),
    Case("/status/204", "204", host="h99999.farm.test"),
    Case("/status/200", "200", host="H1.FARM.TEST"),
    Case("/status/200", "200", host="h2.farm.test."),
    Case("/status/200", "200", host="cname.test"),
    Case("/status/200", "200", host="truncated.test"),
    Case("/status/200", "200", host="ttl0.test"),
    *(Case("/", "dns", host=name) for name in ("nx.test", "servfail.test", "refused.test", "empty.test")),
    Case("/", "dns", host="cnameloop.test"),
    # No names that could ever be asked for.
    *(Case("/", "dns", host=name) for name in (".test", "a..test", "a" * 64 + ".test", ".".join(["a" * 60] * 6))),
    Case("/", "connect", listener="closed"),
    Case("/", "connect", listener="closed", host="h3.farm.test"),
]

ANSWERED = [*STATUSES, *GOOD, *CUT, *GARBAGE, *REDIRECTED, *TLS, *PLACES]

NEVER = [
    Case("/slow/first", "timeout"),
    Case("/slow/head", "timeout"),
    Case("/slow/headers", "timeout"),
    Case("/slow/body", "timeout", "200"),
    Case("/latency/60000", "timeout"),
    Case(to("/slow/first"), "timeout"),
    Case("/", "timeout", listener="silent"),
    Case("/", "timeout", listener="full"),
    Case("/", "timeout", host="silent.test"),
]
"""To be checked with a short limit."""

INVALID = [
    "",
    "/",
    "nonsense",
    "127.0.0.1",
    "http:",
    "http://",
    "http:///a",
    "http:///",
    "http://?a",
    "http://:80/",
    "http://[",
    "http://[::1",
    "http://[::g]/",
    "http://127.0.0.1:0x50/",
    "http://127.0.0.1:65536/",
    "http://127.0.0.1:-1/",
    "http://a b.test/",
    "http://a%20b.test/",
    "http://\0/",
    "http://xn--/",
    "ftp://127.0.0.1/",
    "file:///etc/passwd",
    "javascript:alert(1)",
    "mailto:a@b.example",
    "ws://127.0.0.1/",
    "unix:///run/socket",
    "http+unix://%2Frun%2Fsocket/",
    "//127.0.0.1/",
    "https//127.0.0.1/",
]
