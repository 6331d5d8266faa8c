"""The package's public names: complete, typed, each defined in one place."""

from __future__ import annotations

import importlib
import inspect
import pkgutil
import tomllib
from importlib.util import find_spec
from pathlib import Path

import pytest

import oneloop
from docs.site.pages import MODULES, is_foreign
from oneloop import _native
from tests.package.needs import NEEDS, can_import


@pytest.mark.parametrize("module", MODULES)
def test_all_names_exist_and_are_documented(module: str) -> None:
    if module in NEEDS:
        pytest.importorskip(NEEDS[module])
    public = importlib.import_module(module)
    if module == "oneloop.check":
        pytest.importorskip("pycares")
    assert len(set(public.__all__)) == len(public.__all__)
    for name in public.__all__:
        if name == "RequestsAdapter" and find_spec("requests") is None:
            continue
        value = getattr(public, name)
        if not is_foreign(module, value) and (inspect.isclass(value) or inspect.isroutine(value)):
            assert inspect.getdoc(value), f"{module}.{name} has no docstring"


def test_every_module_has_a_head_comment() -> None:
    for found in pkgutil.walk_packages(oneloop.__path__, "oneloop."):
        if found.name.endswith(("._native", ".__main__")) or not can_import(found.name):
            continue
        assert importlib.import_module(found.name).__doc__, f"{found.name} has no docstring"


def test_each_name_belongs_to_one_public_module() -> None:
    owners: dict[int, str] = {}
    for module in ("oneloop", "oneloop.compat"):
        public = importlib.import_module(module)
        for name in public.__all__:
            value = getattr(public, name)
            if not isinstance(value, str):
                assert owners.setdefault(id(value), module) == module, name


def test_native_classes_that_say_they_are_public_are() -> None:
    for name, value in vars(_native).items():
        if inspect.isclass(value) and value.__module__ == "oneloop":
            assert getattr(oneloop, name) is value
            assert name in oneloop.__all__


BASES = (
    "LoopCore",
    "HubCore",
    "LineCore",
    "EventCore",
    "SemaphoreCore",
    "RLockCore",
    "QueueCore",
    "LockCore",
    "ReentrantCore",
    "AioRequest",
    "FastFile",
    "FileHandle",
    "HttpParser",
    "HttpRequestParser",
    "HttpResponseParser",
)
"""Those have their other halves in Python; requests have a common base; httptools' parsers may have subclasses."""


def test_native_classes_cannot_be_subclassed_but_for_these() -> None:
    for name, value in vars(_native).items():
        if inspect.isclass(value) and name not in BASES:
            with pytest.raises(TypeError, match="not an acceptable base type"):
                type("Sub", (value,), {})


def test_dir_lists_what_is_not_loaded_yet() -> None:
    assert set(oneloop.__all__) <= set(dir(oneloop))
    assert {"files", "green", "testing", "stats_socket"} <= set(dir(oneloop))
    assert not {"sys", "TYPE_CHECKING"} & set(dir(oneloop))


def test_unknown_name_is_an_attribute_error() -> None:
    with pytest.raises(AttributeError, match="no attribute 'nothing'"):
        _ = oneloop.nothing  # type: ignore[attr-defined]


def test_version_is_that_of_the_crates() -> None:
    with (Path(__file__).resolve().parents[2] / "Cargo.toml").open("rb") as file:
        manifest = tomllib.load(file)
    assert oneloop.__version__ == manifest["workspace"]["package"]["version"]


def test_package_is_typed() -> None:
    folder = Path(oneloop.__path__[0])
    assert (folder / "py.typed").exists()
    assert (folder / "_native.pyi").exists()
