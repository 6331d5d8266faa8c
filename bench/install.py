"""`python -m bench.install`: gets what the bench needs, inside the checkout and the running environment.

Builds bench/native with cargo, installs requirements/bench.txt into the running interpreter's environment, compiles
the Go rival and muffet where there is a go, lychee with cargo, and, as root only and only when missing, Debian's fio,
libssl-dev and nginx. What cannot be had is named at the end; a rival that is missing is no reason to fail, a native
program that is missing is.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

from bench.rivals.endpoint import find_nginx

ROOT = Path(__file__).resolve().parent.parent
NATIVE = ROOT / "bench" / "native"
PATIENCE_S = 900
MUFFET = "github.com/raviqqe/muffet/v2@v2.11.0"
LYCHEE = "0.24.2"
POLICY = Path("/usr/sbin/policy-rc.d")


def _run(argv: Sequence[str], **env: str) -> str:
    """Runs a command; returns why it failed, or nothing."""
    print("+", " ".join(argv), flush=True)
    try:
        subprocess.run(argv, cwd=ROOT, env={**os.environ, **env}, timeout=PATIENCE_S, check=True)
    except (OSError, subprocess.SubprocessError) as error:
        return str(error)
    return ""


def requirement_lines(path: Path) -> list[str]:
    """The pinned requirements of a file, without comments."""
    lines = (line.partition("#")[0].strip() for line in path.read_text().splitlines())
    return [line for line in lines if line]


def install_packages(name: str) -> list[str]:
    """All at once, and one by one when that fails; returns what could not be had."""
    path = ROOT / "requirements" / name
    pip = [sys.executable, "-m", "pip", "install", "--disable-pip-version-check", "--quiet"]
    if not _run([*pip, "-r", str(path)]):
        return []
    return [
        f"{line} (no build for Python {sys.version_info.major}.{sys.version_info.minor}?)"
        for line in requirement_lines(path)
        if _run([*pip, line])
    ]


def build_native() -> str:
    """Cargo build --release, locked. Returns why it failed, or nothing."""
    manifest = str(NATIVE / "Cargo.toml")
    return _run(["cargo", "build", "--release", "--locked", "--manifest-path", manifest])


def build_openssl_floor() -> str:
    """Builds the floor that uses the system's OpenSSL, getting its headers where they are missing."""
    reason = install_debian("libssl-dev", found=bool(list(Path("/usr/include").glob("**/openssl/ssl.h"))))
    manifest = str(NATIVE / "Cargo.toml")
    argv = ["cargo", "build", "--release", "--locked", "--manifest-path", manifest]
    # Built all the same: the headers may be where only pkg-config finds them.
    failed = _run([*argv, "--features", "openssl", "--bin", "floor-openssl"])
    return f"{failed}; libssl-dev: {reason}" if failed and reason else failed


def build_go() -> str:
    """Compiles the Go rival beside the native programs."""
    if not shutil.which("go"):
        return "there is no go on the path"
    target = NATIVE / "target" / "release" / "go_server"
    source = ROOT / "bench" / "rivals" / "go_server.go"
    cache = NATIVE / "target" / "go-cache"
    env = {"GOCACHE": str(cache), "GOFLAGS": "-mod=mod", "GO111MODULE": "off", "CGO_ENABLED": "0"}
    return _run(["go", "build", "-o", str(target), str(source)], **env)


def build_muffet() -> str:
    """The link checker muffet, a Go module."""
    if not shutil.which("go"):
        return "there is no go on the path"
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
    """A Debian package, where it was not found and as root only."""
    if found:
        return ""
    if os.geteuid() != 0 or not shutil.which("apt-get"):
        return f"not installed, and only root may run apt-get install {package}"
    quiet = {"DEBIAN_FRONTEND": "noninteractive"}
    return _run(["apt-get", "update", "-q"], **quiet) or _run(
        ["apt-get", "install", "-y", "-q", "--no-install-recommends", package], **quiet
    )


@contextlib.contextmanager
def services_held() -> Iterator[None]:
    """Meanwhile no service of a new package starts by itself (man 8 invoke-rc.d)."""
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
    """Debian's, as a program only: the bench starts it with a configuration of its own."""
    if find_nginx() or os.geteuid() != 0:
        return install_debian("nginx", found=find_nginx() is not None)
    with services_held():
        return install_debian("nginx", found=False)


def main() -> int:
    missing = install_packages("bench.txt")
    failed = build_native()
    for name, reason in (
        ("floor-openssl", build_openssl_floor()),
        ("go", build_go()),
        ("muffet", build_muffet()),
        ("lychee", build_lychee()),
        ("node", "" if shutil.which("node") else "there is no node on the path"),
        ("nginx", install_nginx()),
        ("fio", install_debian("fio", found=bool(shutil.which("fio")))),
    ):
        if reason:
            missing.append(f"{name}: {reason}")
    for line in missing:
        print(f"bench: missing: {line}")
    if failed:
        print(f"bench: the native programs could not be built: {failed}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
