"""Moves the debug symbols of a wheel to a separate file.

The wheel gets the stripped library. A zip file gets the full library as `_native….so.debug`. Debuggers find it by this
name (`.gnu_debuglink`) in the folder of the stripped library. py-spy reads only the library itself: for py-spy, the
full library must replace the stripped one (docs/how-to/install.md).
"""

from __future__ import annotations

import os
import subprocess
from pathlib import Path
from tempfile import TemporaryDirectory

from release import archive
from release.elf import with_equal_offsets


def objcopy(*arguments: str) -> None:
    """Run the Rust toolchain's objcopy, which supports all processors. rustc uses it to strip libraries.

    Raises:
        FileNotFoundError: the toolchain does not have it.
    """
    root = subprocess.run(["rustc", "--print", "sysroot"], check=True, capture_output=True, text=True).stdout.strip()
    found = sorted(Path(root).glob("lib/rustlib/*/bin/rust-objcopy"))
    if not found:
        raise FileNotFoundError(f"this Rust toolchain has no rust-objcopy below {root}/lib/rustlib")
    # objcopy needs the compiler's LLVM library.
    environment = {**os.environ, "LD_LIBRARY_PATH": f"{root}/lib"}
    subprocess.run([str(found[0]), *arguments], env=environment, check=True, timeout=600)


def split(wheel: Path, out: Path, debug_out: Path) -> Path:
    """Write the wheel without debug symbols, and the zip file with them.

    Args:
        wheel: the wheel with debug symbols.
        out: the folder for the stripped wheel.
        debug_out: the folder for the zip file.

    Returns:
        The stripped wheel.
    """
    files = archive.read(wheel)
    dist_info = next(name.split("/")[0] for name in files if name.endswith(".dist-info/METADATA"))
    debug: dict[str, bytes] = {}
    for name in [name for name in files if name.endswith(".so")]:
        files[name], debug[f"{name}.debug"] = split_library(with_equal_offsets(files[name]), Path(name).name)
    archive.write(out / wheel.name, files, dist_info)
    archive.write_zip(debug_out / f"{wheel.stem}.debug.zip", debug)
    return out / wheel.name


def split_library(library: bytes, name: str) -> tuple[bytes, bytes]:
    """Return the library without debug symbols, and the library with them."""
    with TemporaryDirectory() as made:
        folder = Path(made)
        whole, stripped = folder / f"{name}.debug", folder / name
        whole.write_bytes(library)
        objcopy("--strip-all", f"--add-gnu-debuglink={whole}", str(whole), str(stripped))
        return with_equal_offsets(stripped.read_bytes()), library
