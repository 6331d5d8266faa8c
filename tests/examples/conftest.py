"""Starts the programs of examples/ as their READMEs say, on free ports and in an empty folder."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from tests.docs.examples import ROOT
from tests.ecosystem.conftest import accepts, postgres, postgres_directory, redis_port, running
from tests.ports import free_port

__all__ = ["Serve", "postgres", "postgres_directory", "redis_port"]

Serve = Callable[..., str]


@pytest.fixture(scope="session")
def database(request: pytest.FixtureRequest) -> dict[str, Any]:
    """The arguments for a connection to PostgreSQL, which needs the packages of the example that uses it."""
    for name in ("fastapi", "asyncpg"):
        pytest.importorskip(name, reason=f"needs the package {name}")
    found: dict[str, Any] = request.getfixturevalue("postgres")
    return found


@pytest.fixture
def served(tmp_path: Path) -> Iterator[Serve]:
    """`served(name, **environment)` starts an example with `oneloop serve` and returns its address."""
    with ExitStack() as stack:

        def start(name: str, **environment: str) -> str:
            port = free_port()
            command = [sys.executable, "-m", "oneloop", "serve", "--app-dir", str(ROOT / "examples" / name)]
            command += ["--port", str(port), "app:app"]
            paths = [os.path.abspath(path) for path in os.environ.get("PYTHONPATH", "").split(os.pathsep) if path]
            variables = {**os.environ, "PYTHONPATH": os.pathsep.join(paths), **environment}
            log = tmp_path / f"{name}.log"
            stack.enter_context(
                running(command, log, lambda: accepts(("127.0.0.1", port)), env=variables, cwd=tmp_path)
            )
            return f"http://127.0.0.1:{port}"

        yield start
