"""Builds the native programs once; settings for measurements of a tenth of a second."""

from __future__ import annotations

import contextlib
import importlib
import shutil
import subprocess
import warnings
from pathlib import Path

import pytest

from bench.model import Settings
from bench.process import NATIVE, ROOT

HERE = Path(__file__).parent
BUILD_LIMIT_S = 600

# With trio, a rival, installed, Hypothesis warns while it is imported, which its pytest plugin does at the very end,
# where a warning counts as an error of the session.
with warnings.catch_warnings(), contextlib.suppress(ImportError):
    warnings.simplefilter("ignore")
    importlib.import_module("hypothesis")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """The first of these tests may have to build the native programs."""
    for item in items:
        if item.path.is_relative_to(HERE):
            item.add_marker(pytest.mark.time_limit(BUILD_LIMIT_S + 30))


@pytest.fixture(scope="session", autouse=True)
def _native_programs() -> None:
    """Cargo decides what is stale; a failure to build is a failure."""
    if shutil.which("cargo") is None and all((NATIVE / name).exists() for name in ("loadgen", "floor", "leash")):
        return
    manifest = ROOT / "bench" / "native" / "Cargo.toml"
    argv = ["cargo", "build", "--release", "--locked", "--quiet", "--manifest-path", str(manifest)]
    subprocess.run(argv, check=True, timeout=BUILD_LIMIT_S)


@pytest.fixture
def short() -> Settings:
    """Windows that are long enough to count messages and too short to time them."""
    return Settings(duration_s=0.1, warmup_s=0.02, rounds=2, scale=0.01)


@pytest.fixture
def results_folder(tmp_path: Path) -> Path:
    """Where a test may write reports."""
    return tmp_path
