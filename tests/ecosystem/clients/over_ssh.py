"""paramiko on sshd: commands, their input, files. Arguments: the port, the file of the user's key, a folder."""

from __future__ import annotations

import getpass
import io
import sys
import threading

import paramiko

from tests.ecosystem.clients.parts import at_once, part, raises, run

PORT, KEY, FOLDER = int(sys.argv[1]), *sys.argv[2:4]
MANY = 10
LIMIT_S = 60


def connect() -> paramiko.SSHClient:
    client = paramiko.SSHClient()
    client.set_missing_host_key_policy(paramiko.AutoAddPolicy())
    client.connect(
        "127.0.0.1",
        PORT,
        getpass.getuser(),
        key_filename=KEY,
        allow_agent=False,
        look_for_keys=False,
        timeout=LIMIT_S,
        banner_timeout=LIMIT_S,
    )
    return client


@part
def connections_at_once() -> None:
    """Each command waits for its input, which comes when all of them run."""
    running = threading.Barrier(MANY)

    def one(number: int) -> bytes:
        with connect() as client:
            stdin, stdout, stderr = client.exec_command("echo begun; cat; echo error >&2; exit 3", timeout=LIMIT_S)
            assert stdout.readline() == "begun\n"
            running.wait(LIMIT_S)
            stdin.write(f"input {number}" * 10_000)
            stdin.channel.shutdown_write()
            data = stdout.read()
            assert (errors := stderr.read()) == b"error\n", errors
            assert stdout.channel.recv_exit_status() == 3
            return bytes(data)

    assert at_once(MANY, one) == [f"input {number}".encode() * 10_000 for number in range(MANY)]


@part
def channels_of_one_connection() -> None:
    with connect() as client:

        def one(number: int) -> bytes:
            return bytes(client.exec_command(f"echo {number}", timeout=LIMIT_S)[1].read())

        assert at_once(MANY, one) == [f"{number}\n".encode() for number in range(MANY)]
        # The time of `exec_command` would also be that of opening the channel.
        stdout = client.exec_command("sleep 30", timeout=LIMIT_S)[1]
        stdout.channel.settimeout(0.05)
        raises(TimeoutError, stdout.read)


@part
def files() -> None:
    with connect() as client, client.open_sftp() as sftp:
        for number in range(3):
            data = bytes([number]) * 300_000
            sftp.putfo(io.BytesIO(data), f"{FOLDER}/{number}", confirm=True)
            back = io.BytesIO()
            sftp.getfo(f"{FOLDER}/{number}", back)
            assert back.getvalue() == data
        assert sorted(sftp.listdir(FOLDER)) == ["0", "1", "2"]


if __name__ == "__main__":
    run()
