"""Programs that measure themselves: each rival's does its work, and repeats it for at least the duration."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest

from bench.model import Case, RivalMissingError, Settings
from bench.rivals import files_program
from bench.rivals.file_readers import READERS, Reader
from bench.suites import answers, files, scale
from bench.suites.options import Options

OPTIONS = Options(core=True)
CASES = {
    "spawn": scale.cases(OPTIONS)[0],
    "resolve": scale.cases(OPTIONS)[-1],
    "answers": answers.cases(OPTIONS)[0],
    "cached": files.cases(OPTIONS)[1],
}
RIVALS = [(name, rival) for name, case in CASES.items() for rival in case.rivals]


@pytest.mark.parametrize(("name", "rival"), RIVALS)
def test_a_program_repeats_its_work(name: str, rival: str, short: Settings) -> None:
    case: Case = CASES[name]
    try:
        figures = case.measure(rival, short).metrics
    except RivalMissingError as error:
        pytest.skip(str(error))
    assert figures[case.metric] > 0
    if name != "answers":
        assert figures["ops"] * figures["ns_per_op"] >= short.duration_s * 1e9


SIZE = 1 << 20
WORKS: dict[str, Callable[[Reader, str], Awaitable[dict[str, float]]]] = {
    "sequential": lambda reader, path: files_program.sequential(reader, path, 0.01),
    "lines": lambda reader, path: files_program.lines(reader, path, 0.01),
    "copy": lambda reader, path: files_program.copying(reader, path, 0.01),
    "cold": lambda reader, path: files_program.blocks(reader, path, 64, 0.01, direct=False),
    "at once": lambda reader, path: files_program.at_once(reader, [path] * 3, 2, 0.01),
    "experiment": lambda reader, path: files_program.experiment(reader, [path], 3),
}
#: What a batch is, if it always is the same.
BATCHES = {"sequential": 1, "lines": SIZE // 64, "copy": 1, "cold": 64, "at once": 6}


@pytest.mark.parametrize("work", WORKS)
@pytest.mark.parametrize("rival", ["open", "oneloop"])
def test_the_works_with_files(rival: str, work: str, tmp_path: Path) -> None:
    oneloop = pytest.importorskip("oneloop")
    path = tmp_path / "file"
    path.write_bytes((b"." * 63 + b"\n") * (SIZE // 64))

    async def main() -> dict[str, float]:
        return await WORKS[work](READERS[rival](), str(path))

    figures = asyncio.run(main()) if rival == "open" else oneloop.run(main())
    assert figures["cpu_ns_per_op"] >= 0
    if work in BATCHES:
        assert figures["ops"] * figures["ns_per_op"] >= 0.01e9
        assert figures["ops"] % BATCHES[work] == 0
    assert [one.name for one in tmp_path.iterdir()] == ["file"]
