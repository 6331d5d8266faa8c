"""What h11 or llhttp refuses we refuse, or there is a reason; what we accept they read likewise."""

from __future__ import annotations

import re
from itertools import pairwise

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

pytest.importorskip("h11", reason="needs h11")
pytest.importorskip("httptools", reason="needs httptools")

from tests.http.readers import Reading, read_with_h11, read_with_llhttp, read_with_ours

HEAD = b"POST /a HTTP/1.1\r\nHost: a\r\n"

# Each of them is read in two ways by some pair of servers, or was.
SMUGGLING = [
    HEAD + b"Content-Length: 3\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
    HEAD + b"Transfer-Encoding: chunked\r\nContent-Length: 3\r\n\r\n0\r\n\r\n",
    HEAD + b"Content-Length: 3\r\nContent-Length: 4\r\n\r\nabcd",
    HEAD + b"Content-Length: 3\r\nContent-Length: 3\r\n\r\nabc",
    HEAD + b"Content-Length: 3, 3\r\n\r\nabc",
    HEAD + b"Content-Length: +3\r\n\r\nabc",
    HEAD + b"Content-Length: 0x3\r\n\r\nabc",
    HEAD + b"Content-Length : 3\r\n\r\nabc",
    HEAD + b"Content-Length:\x0b3\r\n\r\nabc",
    HEAD + b"Content-Length: 3\r\n 4\r\n\r\nabcd",
    HEAD + b"Transfer-Encoding : chunked\r\n\r\n0\r\n\r\n",
    HEAD + b"Transfer-Encoding: xchunked\r\n\r\n0\r\n\r\n",
    HEAD + b"Transfer-Encoding:\x0bchunked\r\n\r\n0\r\n\r\n",
    HEAD + b"Transfer-Encoding: chunked\r\nTransfer-Encoding: identity\r\n\r\n0\r\n\r\n",
    HEAD + b"Transfer-Encoding: chunked, chunked\r\n\r\n0\r\n\r\n",
    HEAD + b"Transfer-Encoding: identity, chunked\r\n\r\n0\r\n\r\n",
    HEAD + b"Transfer-Encoding:\r\n chunked\r\n\r\n0\r\n\r\n",
    HEAD + b'Transfer-Encoding: "chunked"\r\n\r\n0\r\n\r\n',
    HEAD + b"Transfer-Encoding: chunked;a=b\r\n\r\n0\r\n\r\n",
    HEAD + b"\x00Transfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
    HEAD + b"X: y\rTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
    HEAD + b"X: y\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
    HEAD + b"X: y\r\n\rTransfer-Encoding: chunked\r\n\r\n",
    HEAD + b"Host: b\r\n\r\n",
    b"GET / HTTP/1.1\nHost: a\n\n",
    b"GET / HTTP/1.1\r\nHost: a\n\r\n",
    b"POST / HTTP/1.0\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
    *[
        HEAD + b"Transfer-Encoding: chunked\r\n\r\n" + body
        for body in [
            b"3\nabc\r\n0\r\n\r\n",
            b"3\r\nabc\n0\r\n\r\n",
            b"3\r\nabcXX0\r\n\r\n",
            b"3\rX\nabc\r\n0\r\n\r\n",
            b"0x3\r\nabc\r\n0\r\n\r\n",
            b"+3\r\nabc\r\n0\r\n\r\n",
            b" 3\r\nabc\r\n0\r\n\r\n",
            b"3 \r\nabc\r\n0\r\n\r\n",
            b"3;\r\nabc\r\n0\r\n\r\n",
            b"3;a\nb\r\nabc\r\n0\r\n\r\n",
            b"3;a\rb\r\nabc\r\n0\r\n\r\n",
            b"3_0\r\nabc\r\n0\r\n\r\n",
            b"fffffffffffffffff3\r\nabc\r\n0\r\n\r\n",
            b"3\r\nabc\r\n0\r\n\n",
            b"3\r\nabc\r\n0\n\r\n",
            b"3\r\nabc\r\n0\r\nContent-Length: 3\r\n\r\n",
            b"3\r\nabc\r\n0\r\nX : y\r\n\r\n",
            b"3\r\nabc\r\n0\r\nX\r\n\r\n",
        ]
    ],
]

GOOD = [
    b"GET /a?b=c HTTP/1.1\r\nHost: a.example:80\r\nUser-Agent: x y\r\nAccept: */*\r\n\r\n",
    b"GET / HTTP/1.0\r\n\r\n",
    HEAD + b"Content-Length: 3\r\n\r\nabc",
    HEAD + b"Transfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n2;d=e\r\nde\r\n0\r\nX: y\r\n\r\n",
    HEAD + b"Transfer-Encoding: Chunked\r\nConnection: close\r\n\r\n0\r\n\r\n",
    HEAD + b"Connection: Upgrade\r\nUpgrade: websocket\r\n\r\n",
    b"OPTIONS * HTTP/1.1\r\nHost: [::1]:80\r\nX-Empty:\r\nX-Tab:\t a\tb \t\r\n\r\n",
    b"GET http://a/b HTTP/1.1\r\nHost: a\r\n\r\n",
    b"\r\n\r\nHEAD / HTTP/1.1\r\nHost: a\r\nX: \xe4\xff\r\n\r\n",
]

# Why we take what another one refuses: what holds for the bytes, and the reason.
BAD_WHITE_SPACE = re.compile(rb"\r\n[0-9A-Fa-f]+[^\r\n]*?([ \t][;=]|[;=][ \t])")
REASONS: dict[str, list[tuple[re.Pattern[bytes], str]]] = {
    "llhttp": [
        (BAD_WHITE_SPACE, "RFC 9112 section 7.1.1: white space around ; and = of a chunk extension is parsed"),
        (
            re.compile(rb"(?i)\r\ntransfer-encoding:[^\r\n]*\t[ \t]*\r\n"),
            "RFC 9110 section 5.6.3: a tab behind a value is optional white space, which llhttp leaves there",
        ),
    ],
    "h11": [
        (BAD_WHITE_SPACE, "RFC 9112 section 7.1.1: white space around ; and = of a chunk extension is parsed"),
    ],
}


def reason_for(who: str, data: bytes) -> str | None:
    """The reason why we accept what `who` refuses; None if there is none."""
    return next((reason for pattern, reason in REASONS[who] if pattern.search(data)), None)


def without_host(reading: Reading) -> object:
    """What was read, but for the Host of a target in absolute form: ours is the target's (RFC 9112 section 3.2.2)."""
    method, target, fields, body = reading.parts()
    if target.startswith((b"/", b"*")):
        return reading.parts()
    return method, target, [(name, value) for name, value in fields if name != b"host"], body


def compare(who: str, data: bytes, theirs: Reading) -> None:
    """Our reading against another parser's."""
    ours = read_with_ours([data])
    if ours.verdict != "complete":
        return
    if theirs.verdict == "complete":
        assert without_host(ours) == without_host(theirs), (who, data)
    elif reason_for(who, data) is None:
        pytest.fail(f"{who} finds this {theirs.verdict} ({theirs.reason}), we accept it: {data!r}")


@pytest.mark.parametrize("data", GOOD)
def test_good_requests_are_read_alike(data: bytes) -> None:
    ours = read_with_ours([data])
    assert ours.verdict == "complete", ours.reason
    assert ours.parts() == read_with_llhttp(data).parts()
    assert ours.parts() == read_with_h11(data).parts()


@pytest.mark.parametrize("data", SMUGGLING)
def test_smuggling_is_refused(data: bytes) -> None:
    assert read_with_ours([data]).verdict == "refused"
    # A byte at a time: the same response.
    assert read_with_ours([data[at : at + 1] for at in range(len(data))]).verdict == "refused"


TELLING = [bytes([byte]) for byte in b'\r\n\0\t :;,="\\/?#%@0159afFxX+-\x0b\x7f\x80\xff'] + [b"\r\n", b"chunked", b"3"]


@st.composite
def mutated(draw: st.DrawFn) -> bytes:
    """A request that something has happened to."""
    data = draw(st.sampled_from(GOOD + SMUGGLING))
    for _ in range(draw(st.integers(0, 3))):
        at = draw(st.integers(0, len(data)))
        removed = draw(st.integers(0, 2))
        data = data[:at] + draw(st.sampled_from([b"", *TELLING])) + data[at + removed :]
    return data


@settings(max_examples=1500, deadline=None, suppress_health_check=list(HealthCheck))
@given(data=mutated())
@example(data=HEAD + b"Transfer-Encoding: chunked\t\r\n\r\n0\r\n\r\n")
@example(data=b"GET http://a/b HTTP/1.1\r\nHost:;a\r\n\r\n")
@example(data=HEAD + b"Transfer-Encoding: chunked\r\n\r\n3 ;a = b\r\nabc\r\n0\r\n\r\n")
def test_mutated_requests(data: bytes) -> None:
    compare("llhttp", data, read_with_llhttp(data))
    compare("h11", data, read_with_h11(data))


@settings(max_examples=500, deadline=None, suppress_health_check=list(HealthCheck))
@given(data=mutated(), cuts=st.lists(st.integers(0, 150), max_size=6))
def test_cuts_never_change_the_reading(data: bytes, cuts: list[int]) -> None:
    edges = [0, *sorted(min(cut, len(data)) for cut in cuts), len(data)]
    pieces = [data[start:end] for start, end in pairwise(edges)]
    whole, cut = read_with_ours([data]), read_with_ours(pieces)
    if cut.verdict != whole.verdict:
        # What a line has wrong may be told when the line ends.
        assert (cut.verdict, whole.verdict) == ("incomplete", "refused"), (cut.reason, whole.reason)
    if whole.verdict == "complete":
        assert cut.parts() == whole.parts()
