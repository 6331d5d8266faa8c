"""Creates the cases with a server and a generator, for tcp, unix, tls, udp, streams, sock and others."""

from __future__ import annotations

from collections.abc import Sequence

from bench.catalogue import Serve
from bench.model import Case, Sample, Settings
from bench.served import Load, measure_server
from bench.suites.options import Options, size_text


def echo_case(
    suite: str,
    options: Options,
    rivals: Sequence[str],
    serve: Serve,
    load: Load,
    name: str = "",
    remark: str = "",
) -> Case:
    """One size and one number of connections against every rival."""

    def measure(rival: str, settings: Settings) -> Sample:
        return measure_server(rival, serve, load, settings)

    return Case(
        suite=suite,
        name=name or f"{size_text(load.size)}, {load.connections} connections",
        params={
            "form": serve.form,
            "family": serve.family,
            "tls": int(bool(serve.tls)),
            "size": load.size,
            "connections": load.connections,
            "pipeline": load.pipeline,
        },
        metric="server_cpu_ns",
        unit="CPU per message",
        rivals=options.pick_rivals(rivals),
        measure=measure,
        remark=remark,
    )


def echo_cases(
    suite: str,
    options: Options,
    rivals: Sequence[str],
    serve: Serve,
    sizes: Sequence[int],
    connections: Sequence[int],
    mode: str = "echo",
    remark: str = "",
) -> list[Case]:
    """Every size with every number of connections."""
    return [
        echo_case(suite, options, rivals, serve, Load(mode, size, count), remark=remark)
        for size in sizes
        for count in connections
    ]
