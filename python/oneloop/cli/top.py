"""`oneloop top`: finds the stats sockets of running programs, requests snapshots repeatedly and shows them."""

from __future__ import annotations

import argparse
import errno
import json
import os
import socket
import stat
import sys
import time
from typing import Any, NoReturn

from oneloop import stats_socket
from oneloop.cli import screen

__all__ = ["main"]

FORMAT = 1
LIMIT_S = 5.0
"""The timeout for an answer. A process takes longer only if an extension module holds the GIL."""
_ANSWER_MAX_BYTES = 64 << 20

_EPILOG = """\
A program can be watched if it was started with oneloop run --stats-socket, oneloop serve --stats-socket, or with the
environment variable ONELOOP_STATS_SOCKET=1, or if it has called oneloop.stats_socket.open(). Without PROCESS, oneloop
top shows the only program there is, with all its workers, or lists the programs."""

_HINT = "Start the program with: oneloop run --stats-socket script.py (or set ONELOOP_STATS_SOCKET=1)."


class TopError(Exception):
    """There is nothing to show. The message says why, and what to do."""


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="oneloop top",
        description="Watch the event loops of running programs: ticks, lag, callbacks, connections, bytes.",
        epilog=_EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument(
        "process",
        nargs="?",
        metavar="PROCESS",
        help="a process id (also that of the parent of worker processes), or the path of a stats socket",
    )
    parser.add_argument("--once", action="store_true", help="print one table as text and exit")
    parser.add_argument("--json", action="store_true", help="print one snapshot of each process as JSON and exit")
    parser.add_argument("--interval", type=float, default=1.0, metavar="SECONDS", help="time between updates [1.0]")
    return parser


def main(arguments: list[str]) -> NoReturn:
    """Run `oneloop top`.

    Args:
        arguments: the command line after `oneloop top`.

    Raises:
        SystemExit: always: with 0; 1 if there is no such program or it ends; 2 if the command line is wrong.
    """
    parser = _parser()
    options = parser.parse_args(arguments)
    if not options.interval > 0:
        parser.error(f"--interval must be greater than 0: {options.interval}")
    try:
        paths = _find(options.process)
        if options.json:
            for answer in _answers(paths):
                print(json.dumps(answer), flush=True)
        elif options.once:
            print(screen.text(_answers(paths), None), flush=True)
        else:
            _watch(paths, options.process, options.interval)
    except TopError as error:
        print(f"oneloop top: {error}", file=sys.stderr)
        raise SystemExit(1) from None
    except BrokenPipeError:
        # The reader of stdout has closed it. Without this, Python would print an error when it flushes stdout at exit.
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
    except KeyboardInterrupt:
        print()
    raise SystemExit(0)


# -- which ---------------------------------------------------------------------------------------


def _find(process: str | None) -> list[str]:
    """The paths of the sockets that the argument PROCESS selects."""
    if process is not None and not process.isdecimal():
        if not os.path.exists(process):
            raise TopError(f"there is no socket {process}. Is the program still running?")
        return [process]
    pid = None if process is None else int(process)
    owner = os.geteuid() if pid is None else _owner(pid)
    folder = stats_socket.folder(owner)
    there = _living(folder, owner)
    if pid is not None:
        paths = [path for path, answer in there.items() if pid in (answer["pid"], answer["parent"])]
        if not paths:
            raise TopError(f"process {pid} has no stats socket in {folder}. {_HINT}")
        return paths
    if not there:
        raise TopError(f"no program has a stats socket in {folder}. {_HINT}")
    parents = {answer["parent"] for answer in there.values()}
    if len(parents) == 1 and len({tuple(answer["argv"]) for answer in there.values()}) == 1:
        # One process, or the workers of one program.
        return list(there)
    lines = [f"  {answer['pid']:>8}  {screen.command(answer)}" for answer in there.values()]
    if len(parents) == 1:
        lines.append(f"  {parents.pop():>8}  the parent of all of these, which shows them together")
    raise TopError("\n".join(["there are several programs; choose one with: oneloop top PID", *lines]))


def _owner(pid: int) -> int:
    try:
        owner = os.stat(f"/proc/{pid}").st_uid
    except FileNotFoundError:
        raise TopError(f"there is no process {pid}") from None
    if owner != os.geteuid() and os.geteuid() != 0:
        raise TopError(f"process {pid} belongs to another user; only its owner may watch it")
    return owner


def _living(folder: str, owner: int) -> dict[str, dict[str, Any]]:
    """The sockets in a user's folder and their snapshots. Our own sockets of processes that have ended are removed."""
    try:
        found = os.lstat(folder)
        if not stat.S_ISDIR(found.st_mode) or found.st_uid not in (owner, os.geteuid()):
            # The temporary directory is everybody's.
            raise TopError(f"{folder} belongs to another user or is not a directory, so its sockets are not trusted")
        names = sorted(os.listdir(folder))
    except FileNotFoundError:
        return {}
    except PermissionError:
        raise TopError(f"{folder} belongs to another user; only its owner may watch the programs in it") from None
    answers = {}
    # If root reads another user's folder, that user could replace the socket by another file before it is removed.
    removes = found.st_uid == os.geteuid()
    for name in names:
        path = os.path.join(folder, name)
        if ".sock" not in name or name.endswith(".new"):
            continue
        try:
            if stats_socket.is_in_use(path, removes=removes):
                answers[path] = ask(path)
        except TopError as error:
            print(f"oneloop top: {error}", file=sys.stderr)
        except OSError as error:
            print(f"oneloop top: {screen.printable(path)}: {error.strerror}", file=sys.stderr)
    return answers


# -- asking --------------------------------------------------------------------------------------


def ask(path: str) -> dict[str, Any]:
    """Request a snapshot from the process that listens at a path.

    Args:
        path: the stats socket.

    Returns:
        The snapshot.

    Raises:
        TopError: no process listens there, it does not answer, or the answer is not a snapshot.
    """
    shown = screen.printable(path)
    try:
        received = _received(path)
    except TimeoutError:
        raise TopError(f"{shown} does not answer: an extension module may hold the GIL for a long time") from None
    except (ConnectionRefusedError, FileNotFoundError):
        raise TopError(f"the program at {shown} has ended") from None
    except PermissionError:
        raise TopError(f"{shown} belongs to another user; only its owner may watch the program") from None
    except OSError as error:
        raise TopError(f"{shown}: {error.strerror}") from None
    if not received:
        raise TopError(f"{shown} does not answer: the program belongs to another user, or it is ending")
    try:
        answer: dict[str, Any] = json.loads(received)
        version = answer["format"]
    except (ValueError, TypeError, KeyError):
        raise TopError(f"{shown} is not a stats socket of oneloop") from None
    if version != FORMAT:
        raise TopError(
            f"{shown} answers in format {version!r}, but this oneloop top reads only format {FORMAT}."
            " Use the program's version of oneloop"
        )
    return answer


def _received(path: str) -> bytearray:
    received = bytearray()
    until_s = time.monotonic() + LIMIT_S
    with socket.socket(socket.AF_UNIX) as sock:
        sock.settimeout(LIMIT_S)
        sock.connect(path)
        while chunk := sock.recv(65536):
            received += chunk
            if len(received) > _ANSWER_MAX_BYTES:
                raise OSError(errno.EMSGSIZE, "the answer is too long")
            left_s = until_s - time.monotonic()
            if left_s <= 0:
                raise TimeoutError
            sock.settimeout(left_s)
    return received


def _answers(paths: list[str]) -> list[dict[str, Any]]:
    """The snapshots of the processes that still run. Raises TopError if none does."""
    answers, errors = [], []
    for path in paths:
        try:
            answers.append(ask(path))
        except TopError as error:
            errors.append(error)
    if not answers:
        raise errors[0]
    return answers


def _watch(paths: list[str], process: str | None, interval_s: float) -> None:
    before: list[dict[str, Any]] | None = None
    with screen.Screen() as shown:
        while True:
            answers = _answers(paths)
            shown.show(answers, before)
            before = answers
            time.sleep(interval_s)
            if process is not None and process.isdecimal():
                # The process id may be that of a parent, whose workers are replaced from time to time.
                paths = _find(process)
