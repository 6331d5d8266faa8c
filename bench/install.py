"""`python -m bench.install`: installs what the benchmarks need, in the checkout and the running environment.

Builds bench/native with cargo, installs requirements/bench.txt into the running interpreter's environment, compiles
the Go rivals and muffet if go is installed, and lychee with cargo. As root it also installs Debian's fio, libssl-dev
and nginx if they are missing. What could not be installed is listed at the end. A missing rival is not an error; a
missing native program is.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

from bench.clients import NIQUESTS_FOLDER
from bench.rivals.endpoint import find_nginx

ROOT = Path(__file__).resolve().parent.parent
NATIVE = ROOT / "bench" / "native"
PATIENCE_S = 900
MUFFET = "github.com/raviqqe/muffet/v2@v2.11.0"
LYCHEE = "0.24.2"
POLICY = Path("/usr/sbin/policy-rc.d")
LOG = ROOT / ".build" / "bench-install.log"
"""The output of package managers and compilers."""


def _run(argv: Sequence[str], **env: str) -> str:
    """Runs a command, whose output goes to the log; returns the reason of a failure, or an empty string."""
    print("+", " ".join(argv), end="", flush=True)
    began_s = time.monotonic()
    LOG.parent.mkdir(exist_ok=True)
    reason = ""
    with LOG.open("ab") as log:
        try:
            subprocess.run(
                argv, cwd=ROOT, env={**os.environ, **env}, timeout=PATIENCE_S, check=True,
                stdin=subprocess.DEVNULL, stdout=log, stderr=subprocess.STDOUT,
            )  # fmt: skip
        except (OSError, subprocess.SubprocessError) as error:
            reason = f"{error} (output: {LOG.relative_to(ROOT)})"
    print(f"  {'failed' if reason else 'done'}, {time.monotonic() - began_s:.0f} s", flush=True)
    return reason


def requirement_lines(path: Path) -> list[str]:
    """The pinned requirements of a file, without comments."""
    lines = (line.partition("#")[0].strip() for line in path.read_text().splitlines())
    return [line for line in lines if line]


def install_packages(name: str) -> list[str]:
    """Installs all together, or one by one if that fails; returns what could not be installed."""
    path = ROOT / "requirements" / name
    pip = [sys.executable, "-m", "pip", "install", "--disable-pip-version-check", "--quiet"]
    if not _run([*pip, "-r", str(path)]):
        return []
    return [
        f"{line} (perhaps it does not support Python {sys.version_info.major}.{sys.version_info.minor})"
        for line in requirement_lines(path)
        if _run([*pip, line])
    ]


def install_niquests() -> str:
    """niquests, whose urllib3 has the name of another one, into a folder of its own."""
    pip = [sys.executable, "-m", "pip", "install", "--disable-pip-version-check", "--quiet", "--no-deps", "--upgrade"]
    path = ROOT / "requirements" / "bench-niquests.txt"
    return _run([*pip, "--target", str(NIQUESTS_FOLDER), "-r", str(path)])


def build_native() -> str:
    """Cargo build --release, locked. Returns the reason of a failure, or an empty string."""
    manifest = str(NATIVE / "Cargo.toml")
    return _run(["cargo", "build", "--release", "--locked", "--manifest-path", manifest])


def build_openssl_floor() -> str:
    """Builds the floor that uses the system's OpenSSL; installs the headers if they are missing."""
    reason = install_debian("libssl-dev", found=bool(list(Path("/usr/include").glob("**/openssl/ssl.h"))))
    manifest = str(NATIVE / "Cargo.toml")
    argv = ["cargo", "build", "--release", "--locked", "--manifest-path", manifest]
    # Try to build in any case: the headers may be in a place that only pkg-config knows.
    failed = _run([*argv, "--features", "openssl", "--bin", "floor-openssl"])
    return f"{failed}; libssl-dev: {reason}" if failed and reason else failed


def build_go() -> str:
    """Compiles the Go rivals, a server and a client, beside the native programs."""
    if not shutil.which("go"):
        return "go is not on PATH"
    cache = NATIVE / "target" / "go-cache"
    env = {"GOCACHE": str(cache), "GOFLAGS": "-mod=mod", "GO111MODULE": "off", "CGO_ENABLED": "0"}
    reasons = []
    for name in ("go_server", "go_client"):
        target = NATIVE / "target" / "release" / name
        source = ROOT / "bench" / "rivals" / f"{name}.go"
        reasons.append(_run(["go", "build", "-o", str(target), str(source)], **env))
    return "; ".join(filter(None, reasons))


def build_muffet() -> str:
    """The link checker muffet, a Go module."""
    if not shutil.which("go"):
        return "go is not on PATH"
    target = NATIVE / "target" / "release"
    if (target / "muffet").exists():
        return ""
    env = {"GOBIN": str(target), "GOCACHE": str(NATIVE / "target" / "go-cache"), "CGO_ENABLED": "0"}
    return _run(["go", "install", MUFFET], **env)


def build_lychee() -> str:
    """The link checker lychee, a crate."""
    target = NATIVE / "target" / "lychee"
    found = NATIVE / "target" / "release" / "lychee"
    if found.exists():
        return ""
    argv = ["cargo", "install", "lychee", "--version", LYCHEE, "--locked", "--no-default-features"]
    reason = _run([*argv, "--root", str(target)])
    if not reason:
        shutil.copy(target / "bin" / "lychee", found)
    return reason


def install_debian(package: str, found: bool) -> str:
    """Installs a Debian package that was not found; as root only."""
    if found:
        return ""
    if os.geteuid() != 0 or not shutil.which("apt-get"):
        return f"not installed, and only root can run apt-get install {package}"
    quiet = {"DEBIAN_FRONTEND": "noninteractive"}
    return _run(["apt-get", "update", "-q"], **quiet) or _run(
        ["apt-get", "install", "-y", "-q", "--no-install-recommends", package], **quiet
    )


@contextlib.contextmanager
def services_held() -> Iterator[None]:
    """Prevents the start of services of new packages (man 8 invoke-rc.d)."""
    if POLICY.exists():
        yield
        return
    POLICY.write_text("#!/bin/sh\nexit 101\n")
    POLICY.chmod(0o755)
    try:
        yield
    finally:
        POLICY.unlink()


def install_nginx() -> str:
    """Debian's nginx, only the program: the benchmarks start it with a separate configuration."""
    if find_nginx() or os.geteuid() != 0:
        return install_debian("nginx", found=find_nginx() is not None)
    with services_held():
        return install_debian("nginx", found=False)


def install_rivals() -> list[str]:
    """Installs the rivals of all suites. Returns what is missing, and why."""
    missing = install_packages("bench.txt")
    for name, reason in (
        ("floor-openssl", build_openssl_floor()),
        ("niquests", install_niquests()),
        ("go", build_go()),
        ("muffet", build_muffet()),
        ("lychee", build_lychee()),
        ("node", "" if shutil.which("node") else "there is no node on the path"),
        ("nginx", install_nginx()),
        ("fio", install_debian("fio", found=bool(shutil.which("fio")))),
    ):
        if reason:
            missing.append(f"{name}: {reason}")
    return missing


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m bench.install", description=__doc__)
    parser.add_argument("--demo", action="store_true", help="only what `python -m bench --demo` needs")
    is_demo = parser.parse_args().demo
    missing = install_packages("demo.txt") if is_demo else install_rivals()
    failed = build_native()
    for line in missing:
        print(f"bench: missing: {line}")
    if failed:
        print(f"bench: the native programs could not be built: {failed}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
