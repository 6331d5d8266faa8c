"""client: HTTP clients; the CPU time of the client's process, with its threads and children, for each request.

Both sides: send a request to the floor's server on the other CPU, read the answer, and check its status and the length
of its body; during the warm-up every byte of it. The server checks every byte of a request's body and counts the
requests, which must be as many as the client's answers. Each library is used in its usual way, with its defaults but
for limits of connections and timeouts that the row would reach, and sessions of TLS, which wreq must be told to keep.
`MockTransport` is httpx without a network: the rows of httpx have the difference, measured one after the other.
Kept: the client with its connections, except in the rows with a connection for each request, which the server closes;
there, with TLS, the sessions that the library keeps (the column `resumed`). What a library keeps of a URL that it has
seen; only in the row with a URL for each request there is nothing to keep. A response is kept until it is checked.
Thrown away: each response after its check; streamed bodies piece by piece.
Window: a closed loop of fixed length in which each of the requests at once is followed by the next, until the last
answer and 30 ms for what a client has put off; in the row of 10,000, these requests from the first to the last answer.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from bench.catalogue import FLOOR, SUBJECT
from bench.client_runs import measured
from bench.clients import COROUTINES, FACADE, GO, GREEN, OF_COROUTINES, PLAIN, Load, client_start, mock_start
from bench.model import Case, Sample, Settings
from bench.suites.options import Options, size_text

KIB, MIB = 1024, 1024 * 1024
AIOHTTP = "aiohttp on uvloop"
PYREQWEST = "pyreqwest on uvloop"
NATIVE_RIVALS = (PYREQWEST, "wreq on uvloop", "rqx on uvloop", "pycurl on uvloop")
FIRST = (SUBJECT, AIOHTTP, PYREQWEST, GO)
#: In most rows of the record: without those that need ten times as much as the best. The row of 20 at once has them.
CORE = (FLOOR, *FIRST, *NATIVE_RIVALS[1:])
EVERYONE = (
    FLOOR,
    *FIRST,
    f"aiohttp on {SUBJECT}",
    *NATIVE_RIVALS[1:],
    "httpx on uvloop",
    "httpx2 on uvloop",
    "niquests on uvloop",
)
PLAIN_EVERYONE = (
    FLOOR, SUBJECT, OF_COROUTINES, "requests", "urllib3", "niquests", "httpx", "httpx2", "pycurl", "pyreqwest", "wreq",
    "rqx", GO,
)  # fmt: skip
GREEN_EVERYONE = (FLOOR, SUBJECT, OF_COROUTINES, "urllib3 on gevent", "requests on gevent", GO)
STREAMED = (FLOOR, *FIRST, f"aiohttp on {SUBJECT}", *NATIVE_RIVALS[1:], "httpx on uvloop", "httpx2 on uvloop")
#: Less than this share of a row's number is for trials and tests.
WHOLE_SCALE = 0.25


@dataclass(frozen=True)
class Row:
    """The common part of several cases.

    Args:
        rivals: all; core: those of the record.
        package: the row measures this package above its MockTransport, or, for requests, as a whole.
    """

    style: str
    rivals: Sequence[str]
    core: Sequence[str]
    baseline: str
    beside: Sequence[str]
    target: str = ""
    package: str = ""
    metric: str = "cpu_ns_per_op"
    also: Sequence[str] = ()
    unit: str = "CPU per request"

    def case(self, options: Options, name: str, load: Load) -> Case:
        has_mock = self.metric == "above_mock_ns"

        def measure(rival: str, settings: Settings) -> Sample:
            given = load
            if load.burst and settings.scale < WHOLE_SCALE:
                given = replace(load, at_once=settings.scaled(load.at_once))

            return measured(
                lambda: client_start(rival, self.style, given, self.package),
                given,
                settings,
                (lambda: mock_start(rival, self.style, self.package)) if has_mock else None,
            )

        return Case(
            suite="client",
            name=name,
            params={"style": self.style, "size": load.size, "at_once": load.at_once, "upload": load.upload},
            metric=self.metric,
            unit=self.unit,
            rivals=options.pick_rivals(self.core if options.core else self.rivals),
            measure=measure,
            remark=f"oneloop's target: {self.target}" if self.target else "",
            baseline=self.baseline,
            beside=self.beside,
            also=self.also,
        )


ANSWERS = Row(
    COROUTINES,
    EVERYONE,
    CORE,
    PYREQWEST,
    (AIOHTTP, GO),
    "at most go, 0.6 x pyreqwest, 0.2 x aiohttp on uvloop",
)
ALL_ANSWERS = replace(ANSWERS, core=EVERYONE)
IN_GREEN = Row(
    GREEN, GREEN_EVERYONE, GREEN_EVERYONE, "urllib3 on gevent", (OF_COROUTINES, GO), "at most 1.2 x coroutines"
)
IN_PLAIN = Row(
    PLAIN,
    PLAIN_EVERYONE,
    PLAIN_EVERYONE,
    "requests",
    (OF_COROUTINES, "pycurl", "pyreqwest"),
    "at most 1.2 x coroutines",
)
OTHERS = Row(COROUTINES, EVERYONE, CORE, PYREQWEST, (AIOHTTP, GO), "at most go")
FRESH = replace(OTHERS, target="")
PIECES = replace(OTHERS, rivals=STREAMED)
CLOSING = replace(OTHERS, unit="CPU per connection with its request")
MANY = Row(
    COROUTINES,
    (FLOOR, *FIRST, f"aiohttp on {SUBJECT}", *NATIVE_RIVALS[1:], "httpx2 on uvloop"),
    CORE,
    AIOHTTP,
    (GO,),
    "10 KiB each, the slowest below 1.2 s",
    metric="rss_bytes_per_item",
    also=("slowest_ns", "cpu_ns_per_op"),
    unit="most memory (RSS) per request",
)


def _package(name: str, style: str) -> Row:
    """The rows of httpx or httpx2: as it is, and on oneloop's core in two ways."""
    as_it_is = (f"{name} on uvloop", f"{name} on asyncio") if style == COROUTINES else (name,)
    ways = (SUBJECT, FACADE)
    return Row(
        style,
        (*ways, *as_it_is),
        (*ways, as_it_is[0]),
        as_it_is[0],
        (),
        "at most 40 µs",
        package=name,
        metric="above_mock_ns",
        also=("cpu_ns_per_op",),
        unit="CPU per request above MockTransport",
    )


REQUESTS = Row(
    PLAIN, (SUBJECT, "requests"), (SUBJECT, "requests"), "requests", (), "at most 0.5 x requests", "requests"
)


def _kept(options: Options) -> list[Case]:
    """Answers of a chosen size on kept connections."""
    found = []
    for size in options.pick_sizes(KIB):
        text = size_text(size)
        for count in options.pick_connections(1, 20, 200, quick=20, core=(1, 20, 200)):
            row = ALL_ANSWERS if count == 20 else ANSWERS
            found.append(row.case(options, f"{text}, {count} at once", Load(size, count)))
    return found


def _others(options: Options) -> list[Case]:
    one_kib = Load(KIB, 20)
    alone = Load(KIB, 1)
    over_tls = Load(KIB, 1, closes=True, tls=True)
    return [
        FRESH.case(options, "1 KiB, 20 at once, each with a URL of its own", replace(one_kib, fresh=True)),
        IN_GREEN.case(options, "1 KiB, 20 at once, green threads", one_kib),
        IN_PLAIN.case(options, "1 KiB, 1 at once, plain code", alone),
        OTHERS.case(options, "POST of 100 KiB, 20 at once", Load(KIB, 20, upload=100 * KIB)),
        OTHERS.case(options, "10 MiB, read whole", Load(10 * MIB, 1)),
        PIECES.case(options, "10 MiB, streamed", Load(10 * MIB, 1, mode="streamed")),
        CLOSING.case(options, "a connection for each request, 20 at once", replace(one_kib, closes=True)),
        CLOSING.case(options, "a connection with TLS for each request, 1 at once", over_tls),
        _package("httpx", COROUTINES).case(options, "httpx, 20 at once", one_kib),
        _package("httpx2", COROUTINES).case(options, "httpx2, 20 at once", one_kib),
        REQUESTS.case(options, "requests", alone),
        MANY.case(options, "10,000 at once, answered after 1 s", Load(KIB, 10_000, delay_ms=1000, burst=True)),
    ]


def _more(options: Options) -> list[Case]:
    """Rows that the record leaves out."""
    return [
        CLOSING.case(
            options,
            "a connection with TLS for each request, 20 at once",
            Load(KIB, 20, closes=True, tls=True),
        ),
        *(_package(name, PLAIN).case(options, f"{name}, plain code", Load(KIB, 1)) for name in ("httpx", "httpx2")),
    ]


def cases(options: Options) -> list[Case]:
    found = _kept(options)
    if options.quick:
        return found
    return [*found, *_others(options), *([] if options.core else _more(options))]
