"""Throw-away servers: RabbitMQ, mosquitto and sshd, on loopback, ended by their process ids."""

from __future__ import annotations

import getpass
import os
import pwd
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

import pytest

from tests.ecosystem.conftest import accepts, running
from tests.ports import free_port

PATH = f"{os.environ.get('PATH', '')}:/usr/sbin:/usr/local/sbin"
RABBITMQ = Path("/usr/lib/rabbitmq/bin/rabbitmq-server")


@contextmanager
def mosquitto(directory: Path) -> Iterator[int]:
    """Its port."""
    program = shutil.which("mosquitto", path=PATH)
    if program is None:
        pytest.skip("needs mosquitto (Debian package mosquitto)")
    port = free_port()
    settings = directory / "mosquitto.conf"
    lines = [f"listener {port} 127.0.0.1", "allow_anonymous true", "persistence false", f"user {getpass.getuser()}"]
    settings.write_text("\n".join(lines) + "\n")
    with running([program, "-c", str(settings)], directory / "log", lambda: accepts(("127.0.0.1", port))):
        yield port


@contextmanager
def rabbitmq(directory: Path) -> Iterator[int]:
    """Its port. epmd, through which Erlang's nodes find each other, is one of our own too."""
    epmd = shutil.which("epmd", path=PATH)
    if epmd is None or not RABBITMQ.exists():
        pytest.skip("needs RabbitMQ (Debian package rabbitmq-server)")
    names, port, nodes = free_port(), free_port(), free_port()
    environment = {
        **os.environ,
        "HOME": str(directory),
        "ERL_EPMD_PORT": str(names),
        "ERL_EPMD_ADDRESS": "127.0.0.1",
        "RABBITMQ_NODENAME": "test@localhost",
        "RABBITMQ_NODE_IP_ADDRESS": "127.0.0.1",
        "RABBITMQ_NODE_PORT": str(port),
        "RABBITMQ_DIST_PORT": str(nodes),
        "RABBITMQ_MNESIA_BASE": str(directory / "data"),
        "RABBITMQ_LOG_BASE": str(directory / "logs"),
        "RABBITMQ_ENABLED_PLUGINS_FILE": str(directory / "plugins"),
        "RABBITMQ_SERVER_ADDITIONAL_ERL_ARGS": "+S 1:1 -kernel inet_dist_use_interface {127,0,0,1}",
    }
    where = ("127.0.0.1", names)
    with (
        running([epmd, "-port", str(names), "-address", "127.0.0.1"], directory / "epmd", lambda: accepts(where)),
        running(
            [str(RABBITMQ)], directory / "log", lambda: accepts(("127.0.0.1", port)), env=environment, cwd=directory
        ),
    ):
        yield port


class SshServer(NamedTuple):
    port: int
    key: Path


@contextmanager
def sshd(directory: Path) -> Iterator[SshServer]:
    """It lets this user in, with a key that is made here."""
    program, keygen = shutil.which("sshd", path=PATH), shutil.which("ssh-keygen", path=PATH)
    if program is None or keygen is None:
        pytest.skip("needs sshd (Debian package openssh-server)")
    shell = Path(pwd.getpwuid(os.getuid()).pw_shell)
    if shell.name in ("nologin", "false"):
        pytest.skip(f"sshd lets no user in whose shell is {shell.name}")
    if os.getuid() == 0:
        # The server's folder for its unprivileged part; the service's unit makes it as well.
        Path("/run/sshd").mkdir(mode=0o755, exist_ok=True)
    for name in ("host", "user"):
        subprocess.run([keygen, "-q", "-t", "ed25519", "-N", "", "-f", str(directory / name)], check=True)
    port = free_port()
    lines = [f"ListenAddress 127.0.0.1:{port}", f"HostKey {directory / 'host'}", f"PidFile {directory / 'pid'}"]
    lines += [f"AuthorizedKeysFile {directory / 'user.pub'}", "StrictModes no", "UsePAM no", "PermitRootLogin yes"]
    # The user's shell reads none of the user's files, which may say anything.
    lines += ["PasswordAuthentication no", "MaxStartups 100", "MaxSessions 100", f"SetEnv HOME={directory}"]
    lines += ["Subsystem sftp internal-sftp"]
    settings = directory / "sshd_config"
    settings.write_text("\n".join(lines) + "\n")
    command = [program, "-D", "-e", "-f", str(settings)]
    with running(command, directory / "log", lambda: accepts(("127.0.0.1", port))):
        yield SshServer(port, directory / "user")
