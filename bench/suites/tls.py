"""tls: echo through each rival's TLS, whole connections with their handshake, and the memory of idle connections.

The generator uses rustls and offers one cipher suite and one key exchange, so that all servers do the same work.

Both sides: as in `tcp` and `streams`, with the contexts that each library takes; the same certificate, cipher suite and
key exchange for all. In the handshake rows a message is a whole connection.
Kept: the connections, and each library's session tickets, as many as it sends by default.
Thrown away: each message, as soon as it is written.
Window: the generator's closed loop of fixed length, on a CPU of its own, until the server rests.
"""

from __future__ import annotations

from bench.catalogue import FLOOR, FLOOR_OPENSSL, SUBJECT, SUBJECT_TLS, URING, Serve
from bench.model import Case, Sample, Settings
from bench.served import Load
from bench.suites.echo import echo_case, echo_cases
from bench.suites.idle import measure_idle
from bench.suites.options import ALL_LOOPS, SERVER_RIVALS, Options, size_text

#: The parameters of every connection here, set by bench/native/src/tls.rs and bench/certificates.py.
CIPHER = "TLS_AES_256_GCM_SHA384"
KEY = "ECDSA P-256"
PARAMETERS = f"TLS 1.3, {CIPHER}, X25519, certificate of {KEY}"
FLOORS = "floor: rustls on epoll; floor-openssl: OpenSSL on epoll"
MESSAGES = f"{PARAMETERS}; {FLOORS}"
CONNECTIONS = f"{PARAMETERS}; a message is a whole connection, closed by the client and, with close_notify, by both"


def _with_tls_servers(offered: tuple[str, ...]) -> tuple[str, ...]:
    """Adds the OpenSSL floor after the floor, and oneloop with its own contexts after oneloop."""
    beside = {FLOOR: (FLOOR, FLOOR_OPENSSL), SUBJECT: (SUBJECT, SUBJECT_TLS)}
    return tuple(found for name in offered if name != URING for found in beside.get(name, (name,)))


RIVALS = _with_tls_servers(SERVER_RIVALS)
STREAM_RIVALS = _with_tls_servers((FLOOR, *ALL_LOOPS, "tornado", "trio"))
PROTOCOL = Serve("protocol", tls="yes")
IDLE = Serve("idle", tls="yes")


def cases(options: Options) -> list[Case]:
    return [*_echo(options), *_streams(options), *_handshakes(options), *_idle(options)]


def _echo(options: Options) -> list[Case]:
    sizes = options.pick_sizes(1024, 10_240, 102_400, core=(1024, 102_400))
    connections = options.pick_connections(10, 100)
    return echo_cases("tls", options, RIVALS, PROTOCOL, sizes, connections, remark=MESSAGES)


def _streams(options: Options) -> list[Case]:
    serve = Serve("streams", tls="yes")
    return [
        echo_case(
            "tls",
            options,
            STREAM_RIVALS,
            serve,
            Load(size=size, connections=count),
            name=f"streams, {size_text(size)}, {count} connections",
            remark=MESSAGES,
        )
        for size in options.pick_sizes(1024)
        for count in options.pick_connections(10, 100)
    ]


def _handshakes(options: Options) -> list[Case]:
    """Whole connections. Each server sends its default number of session tickets in both cases."""
    kinds = {
        "handshake": (False, "every handshake is a full one"),
        "resumed handshake": (True, "each connection resumes the session of an earlier one"),
    }
    return [
        echo_case(
            "tls",
            options,
            RIVALS,
            PROTOCOL,
            Load("accept", 64, count, closer="client", resumes=resumes),
            name=f"{kind}, {count} at a time",
            remark=f"{CONNECTIONS}; {words}",
        )
        for kind, (resumes, words) in kinds.items()
        for count in options.pick_connections(10)
    ]


def _idle(options: Options) -> list[Case]:
    def measure(rival: str, settings: Settings) -> Sample:
        return measure_idle(rival, count, settings, serve=IDLE)

    count = 200 if options.quick else 500 if options.core else 2000
    return [
        Case(
            suite="tls",
            name=f"{count:,} idle connections",
            params={"connections": count, "tls": 1},
            metric="bytes_per_item",
            unit="private memory per connection",
            rivals=options.pick_rivals(RIVALS),
            measure=measure,
            remark=f"{PARAMETERS}; each served one message of 64 B before",
        )
    ]
