"""Checks of a finished wheel: what it needs of the system, where its segments are, that nothing is missing."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

from release import archive, licences
from release.build import Target
from release.elf import loaded_segments
from release.stage import environment

LIMIT_BYTES = 4_000_000


def check(wheel: Path, target: Target) -> None:
    """Raise ValueError with all that is wrong with a wheel."""
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
                wrong.append(f"{name}: file offsets are not addresses: {segments}")
            if b".debug_info" in files[name]:
                wrong.append(f"{name} has debug symbols")
    if wheel.stat().st_size > LIMIT_BYTES:
        wrong.append(f"larger than {LIMIT_BYTES} bytes")
    if "manylinux" in target.tag:
        wrong += _manylinux(wheel, target)
    if wrong:
        raise ValueError(f"{wheel.name}: {'; '.join(wrong)}")


def _manylinux(wheel: Path, target: Target) -> list[str]:
    """What auditwheel has against the wheel's tag."""
    shown = subprocess.run(
        ["auditwheel", "show", str(wheel)], env=environment(), check=True, capture_output=True, text=True, timeout=300
    ).stdout
    found = re.search(r'platform tag:\s+"(\w+)"', shown)
    wanted = f"{target.tag}_{target.name.partition('-')[0]}"
    if found is None or found.group(1) not in (wanted, wanted.replace("_2_17", "_2_5")):
        return [f"auditwheel does not confirm {wanted}: {shown.strip()}"]
    return []
