"""Checks a finished wheel: the symbols that it needs, the offsets of its segments, its size, and missing files."""

from __future__ import annotations

import io
import re
import subprocess
from pathlib import Path
from typing import Any

from elftools.elf.elffile import ELFFile

from release import archive, licences
from release.build import Target
from release.elf import loaded_segments, section_names
from release.stage import environment

LIMIT_BYTES = 4_000_000


def check(wheel: Path, target: Target) -> None:
    """Check a wheel.

    Args:
        wheel: the path.
        target: what it was built for.

    Raises:
        ValueError: the wheel is wrong; the message lists all errors.
    """
    files = archive.read(wheel)
    names = set(files)
    dist_info = next(name.split("/")[0] for name in names if name.endswith(".dist-info/METADATA"))
    wrong = [
        f"no {name}"
        for name in ("oneloop/py.typed", "oneloop/_native.pyi", f"{dist_info}/licenses/{licences.NAME}")
        if name not in names
    ]
    for name in names:
        if name.endswith(".so"):
            segments = loaded_segments(files[name])
            if any(offset != address for offset, address, _ in segments):
                wrong.append(f"{name}: file offsets differ from addresses: {segments}")
            wrong += [f"{name} needs {symbol}" for symbol in _too_new(files[name], target)]
            sections = section_names(files[name])
            if ".gnu_debuglink" not in sections or {".debug_info", ".symtab"} & set(sections):
                wrong.append(f"{name} has debug symbols, or no .gnu_debuglink: {sections}")
    if wheel.stat().st_size > LIMIT_BYTES:
        wrong.append(f"larger than {LIMIT_BYTES} bytes")
    if "manylinux" in target.tag:
        wrong += _manylinux(wheel, target)
    if wrong:
        raise ValueError(f"{wheel.name}: {'; '.join(wrong)}")


SINCE_MUSL_1_2 = {"preadv2", "pwritev2", "pthread_getname_np", "qsort_r", "renameat2", "statx", "_Fork"}
"""Functions that were added to musl after 1.2.0."""


def _too_new(library: bytes, target: Target) -> list[str]:
    """Functions that are missing in the oldest C library. auditwheel detects only symbols with a version.

    With glibc, the linker gives each symbol of that library a version, so a symbol without a version is not in it. Weak
    symbols are allowed to be missing.
    """
    # pyelftools declares the class of all sections alone.
    elf: Any = ELFFile(io.BytesIO(library))
    versions = elf.get_section_by_name(".gnu.version")
    found = []
    for n, symbol in enumerate(elf.get_section_by_name(".dynsym").iter_symbols()):
        if symbol["st_shndx"] != "SHN_UNDEF" or symbol["st_info"]["bind"] != "STB_GLOBAL":
            continue
        if re.match(r"_?Py", symbol.name):
            continue
        is_known = symbol.name not in SINCE_MUSL_1_2
        if "manylinux" in target.tag:
            is_known = versions is not None and isinstance(versions.get_symbol(n)["ndx"], int)
        if not is_known:
            found.append(symbol.name)
    return found


def _manylinux(wheel: Path, target: Target) -> list[str]:
    """The objections of auditwheel to the wheel's platform tag."""
    shown = subprocess.run(
        ["auditwheel", "show", str(wheel)], env=environment(), check=True, capture_output=True, text=True, timeout=300
    ).stdout
    found = re.search(r'platform tag:\s+"(\w+)"', shown)
    wanted = f"{target.tag}_{target.name.partition('-')[0]}"
    if found is None or found.group(1) not in (wanted, wanted.replace("_2_17", "_2_5")):
        return [f"auditwheel does not confirm {wanted}: {shown.strip()}"]
    return []
