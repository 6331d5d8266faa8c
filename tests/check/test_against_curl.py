"""A thousand cases drawn from the farm: the counts of `check()` are those of curl, whose exit statuses are classes."""

from __future__ import annotations

import os
import random
import shutil
import subprocess
from collections import Counter
from pathlib import Path

import pytest

from tests.check.cases import ANSWERED, Case
from tests.check.checked import outcomes
from tests.check.farm.process import Farm
from tests.check.test_farm_outcomes import urls_of

pytest.importorskip("pycares")
CURL = shutil.which("curl")
pytestmark = [
    pytest.mark.skipif(CURL is None, reason="needs curl (Debian package curl)"),
    pytest.mark.usefixtures("loop"),
    pytest.mark.allows_open_fds("c-ares closes its own a moment later"),
]

COUNT = 1000
SEED = int(os.environ.get("ONELOOP_CURL_SEED", "1"))
MAX_TIME_S = 60
BODY_LIMIT_BYTES = 1 << 40

# From man 1 curl, "Exit codes".
CLASSES = {
    1: "protocol", 3: "invalid_url", 6: "dns", 7: "connect", 8: "protocol", 18: "protocol", 27: "protocol",
    28: "timeout", 35: "tls", 47: "too_many_redirects", 52: "protocol", 56: "protocol", 60: "tls", 92: "protocol",
}  # fmt: skip

# Where curl is of another mind, or does not do what is asked here. It takes half a head for an answer when the stream
# ends, and a Content-Length that comes twice. Its exit status for a redirect to another scheme is that of a protocol
# error. It ends no body at a limit, and repeats no HEAD as a GET.
OTHERWISE = ("/close/head", "/garbage/twolengths", "/redirect/to/", "/endless/", "/gzip/", "/head/")


def agreed(case: Case) -> bool:
    """Whether curl is a judge of the case. It cannot be told to ask the farm's resolver."""
    return case.host in ("127.0.0.1", "localhost") and not case.path.startswith(OTHERWISE)


def outcome_of(line: str) -> str:
    """What one line of curl's says."""
    status, code = line.split()
    return CLASSES.get(int(code), f"exit status {code}") if int(code) else str(int(status))


def curl(urls: list[str], method: str, authority: Path | None, folder: Path) -> Counter[str]:
    """Curl's counts; ten of them run at a time, each with a part of the URLs."""
    options = [
        "--silent",
        "--max-time",
        str(MAX_TIME_S),
        "--location",
        "--max-redirs",
        "10",
        "--cacert",
        str(authority),
    ]
    options += ["--noproxy", "*", "--write-out", "%{http_code} %{exitcode}\n"]
    options += ["--head"] if method == "HEAD" else []
    running = []
    for number in range(10):
        config = folder / f"{method}{number}.txt"
        config.write_text("".join(f'url = "{url}"\noutput = "/dev/null"\n' for url in urls[number::10]))
        assert CURL is not None
        command = [CURL, *options, "--config", str(config)]
        running.append(subprocess.Popen(command, stdout=subprocess.PIPE, text=True))
    counts: Counter[str] = Counter()
    for process in running:
        out, _ = process.communicate(timeout=2 * MAX_TIME_S)
        counts.update(outcome_of(line) for line in out.splitlines())
    return counts


@pytest.mark.time_limit(200)
@pytest.mark.parametrize("method", ["GET", "HEAD"])
async def test_counts_are_those_of_curl(method: str, farm: Farm, tmp_path: Path) -> None:
    drawn = random.Random(f"{SEED} {method}").choices([case for case in ANSWERED if agreed(case)], k=COUNT)
    # Each URL stands once in the list: a fragment is the client's alone.
    urls = [f"{url}#{number}" for number, url in enumerate(urls_of(farm, drawn))]
    # This blocks the loop, which has nothing to do yet.
    theirs = curl(urls, method, farm.authority, tmp_path)
    ours = Counter(
        (await outcomes(urls, method=method, timeout_s=MAX_TIME_S, body_limit_bytes=BODY_LIMIT_BYTES)).values()
    )
    assert sum(theirs.values()) == COUNT
    assert ours == theirs
    assert len(ours) > 30
