"""Builds the wheel `py3-none-any`, which pip installs if no native wheel fits. Its `oneloop.run` is `asyncio.run`.

Its code is in `release/elsewhere`. Its metadata is that of the source distribution, because installers may assume that
all wheels of a release have the same metadata.
"""

from __future__ import annotations

import pkgutil
import re
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path

from release import archive
from release.project import ROOT

SOURCES = Path(__file__).parent / "elsewhere" / "oneloop"


def native_names(package: Path = ROOT / "python" / "oneloop") -> list[str]:
    """Return the public names and modules that only the native package has."""
    # The module is loaded under another name, because oneloop itself may be imported already.
    spec = spec_from_file_location("oneloop_native_names", package / "__init__.py")
    if spec is None or spec.loader is None:
        raise FileNotFoundError(package / "__init__.py")
    module = module_from_spec(spec)
    spec.loader.exec_module(module)
    modules = {found.name for found in pkgutil.iter_modules([str(package)]) if not found.name.startswith("_")}
    return sorted((set(module.__all__) | modules) - {"run", "__version__"})


def source(version: str, names: list[str]) -> str:
    """Return the package's `__init__.py` with the version and the names.

    Args:
        version: the version.
        names: the names that only the native package has.

    Raises:
        ValueError: the template does not have the lines to replace.
    """
    text = (SOURCES / "__init__.py").read_text(encoding="utf-8")
    for pattern, line in (
        (r'^__version__ = "0"$', f'__version__ = "{version}"'),
        (r"^_NATIVE_NAMES: .*$", f"_NATIVE_NAMES: frozenset[str] = frozenset({names!r})"),
    ):
        text, count = re.subn(pattern, line, text, flags=re.MULTILINE)
        if count != 1:
            raise ValueError(f"{SOURCES / '__init__.py'} does not have one line that matches {pattern}")
    return text


def build(metadata: bytes, licences: dict[str, bytes], version: str, out: Path) -> Path:
    """Write the wheel.

    Args:
        metadata: core metadata, as in PKG-INFO of the source distribution.
        licences: the licence files by name.
        version: the version.
        out: the folder for the wheel.

    Returns:
        The wheel.
    """
    dist_info = f"oneloop-{version}.dist-info"
    wheel = out / f"oneloop-{version}-py3-none-any.whl"
    files = {
        "oneloop/__init__.py": source(version, native_names()).encode(),
        "oneloop/__main__.py": (SOURCES / "__main__.py").read_bytes(),
        "oneloop/py.typed": b"",
        f"{dist_info}/METADATA": metadata,
        f"{dist_info}/WHEEL": b"Wheel-Version: 1.0\nGenerator: oneloop\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
        f"{dist_info}/entry_points.txt": b"[console_scripts]\noneloop = oneloop.__main__:main\n",
    }
    for name, text in licences.items():
        files[f"{dist_info}/licenses/{name}"] = text
    archive.write(wheel, files, dist_info)
    return wheel
