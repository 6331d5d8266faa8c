"""`oneloop top`: finds the stats sockets of running programs, requests snapshots repeatedly and shows them."""

from __future__ import annotations

import argparse
import json
import os
import stat
import sys
from typing import Any, NoReturn, Self

from oneloop import stats_socket
from oneloop.cli import asking, screen
from oneloop.cli.asking import Question, SilentError, TopError
from oneloop.cli.keys import Keys

__all__ = ["main", "parser"]

PATIENCE_S = 1.0
"""How long a table waits for the answers of all processes. A process without an answer gets a row that says so."""

_EPILOG = """\
A program can be watched if it was started with oneloop run --stats-socket, oneloop serve --stats-socket, or with the
environment variable ONELOOP_STATS_SOCKET=1, or if it has called oneloop.stats_socket.open(). Without PROCESS, oneloop
top shows the only program there is, with all its workers, or lists the programs."""

_HINT = "Start the program with: oneloop run --stats-socket script.py (or set ONELOOP_STATS_SOCKET=1)."


def parser() -> argparse.ArgumentParser:
    """Return the parser."""
    made = argparse.ArgumentParser(
        prog="oneloop top",
        description="Watch the event loops of running programs: ticks, lag, callbacks, connections, bytes.",
        epilog=_EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    made.add_argument(
        "process",
        nargs="?",
        metavar="PROCESS",
        help="a process id (also that of the parent of worker processes), or the path of a stats socket",
    )
    made.add_argument("--once", action="store_true", help="print one table as text and exit")
    made.add_argument("--json", action="store_true", help="print one snapshot of each process as JSON and exit")
    made.add_argument("--interval", type=float, default=1.0, metavar="SECONDS", help="time between updates [1.0]")
    return made


def main(arguments: list[str]) -> NoReturn:
    """Run `oneloop top`.

    Args:
        arguments: the command line after `oneloop top`.

    Raises:
        SystemExit: always: with 0; 1 if there is no such program or it ends; 2 if the command line is wrong.
    """
    reader = parser()
    options = reader.parse_args(arguments)
    if not options.interval > 0:
        reader.error(f"--interval must be greater than 0: {options.interval}")
    status = 0
    try:
        with Asker(asking.LIMIT_S) as asker:
            paths = _find(options.process, asker)
            if options.json:
                _print_json(asker.answers(paths))
            elif options.once:
                print(screen.text(asker.answers(paths), None), flush=True)
            else:
                asker.patience_s = PATIENCE_S
                _watch(paths, options.process, options.interval, asker)
    except TopError as error:
        print(f"oneloop top: {error}", file=sys.stderr)
        status = 1
    except BrokenPipeError:
        # The reader of stdout has closed it.
        _drop_output()
    except OSError as error:
        print(f"oneloop top: {error.filename or 'standard output'}: {error.strerror}", file=sys.stderr)
        _drop_output()
        status = 1
    except KeyboardInterrupt:
        print()
    raise SystemExit(status)


def _drop_output() -> None:
    """Discard output that cannot be written. Otherwise Python would print an error when it flushes stdout at exit."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), 1)


def _print_json(answers: list[dict[str, Any]]) -> None:
    for answer in answers:
        if "silent_s" not in answer:
            print(json.dumps(answer), flush=True)
    silent = [answer for answer in answers if "silent_s" in answer]
    if silent:
        raise SilentError(
            "\n".join(f"{screen.command(one)} (process {one['pid']}): {screen.silence(one)}" for one in silent)
        )


# -- which ---------------------------------------------------------------------------------------


def _find(process: str | None, asker: Asker) -> list[str]:
    """The paths of the sockets that the argument PROCESS selects."""
    if process is not None and not process.isdecimal():
        _check_path(process)
        return [process]
    pid = None if process is None else int(process)
    owner = os.geteuid() if pid is None else _owner(pid)
    folder = stats_socket.folder(owner)
    there = _living(folder, owner, asker)
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


def _check_path(path: str) -> None:
    shown = screen.printable(path)
    try:
        if not stat.S_ISSOCK(os.stat(path).st_mode):
            raise TopError(f"{shown} is not a socket. PROCESS is a process id, or the path of a stats socket")
    except (FileNotFoundError, NotADirectoryError):
        raise TopError(f"there is no socket {shown}. Is the program still running?") from None
    except OSError as error:
        raise TopError(f"{shown}: {error.strerror}") from None


def _owner(pid: int) -> int:
    try:
        owner = os.stat(f"/proc/{pid}").st_uid
    except FileNotFoundError:
        raise TopError(f"there is no process {pid}") from None
    if owner != os.geteuid() and os.geteuid() != 0:
        raise TopError(f"process {pid} belongs to another user; only its owner may watch it")
    return owner


def _living(folder: str, owner: int, asker: Asker) -> dict[str, dict[str, Any]]:
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
    paths = []
    # If root reads another user's folder, that user could replace the socket by another file before it is removed.
    removes = found.st_uid == os.geteuid()
    for name in names:
        path = os.path.join(folder, name)
        if ".sock" not in name or name.endswith(".new"):
            continue
        try:
            if asker.waits_for(path) or stats_socket.is_in_use(path, removes=removes):
                paths.append(path)
        except OSError as error:
            print(f"oneloop top: {screen.printable(path)}: {error.strerror}", file=sys.stderr)
    answers = {}
    for path, answer in asker.look(paths).items():
        if isinstance(answer, TopError):
            print(f"oneloop top: {answer}", file=sys.stderr)
        else:
            answers[path] = answer
    return answers


# -- asking --------------------------------------------------------------------------------------


class Asker:
    """Asks processes for snapshots. The question of a process that does not answer stays open until it does.

    Args:
        patience_s: how long to wait for the answers.
    """

    def __init__(self, patience_s: float) -> None:
        self.patience_s = patience_s
        self._open: dict[str, Question] = {}

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        for question in self._open.values():
            question.close()

    def waits_for(self, path: str) -> bool:
        """Return whether a question to this socket is open."""
        return path in self._open

    def look(self, paths: list[str]) -> dict[str, dict[str, Any] | TopError]:
        """Return, for each path, a snapshot, or what is known of a process that does not answer, or an error."""
        found: dict[str, dict[str, Any] | TopError] = {}
        for path in paths:
            try:
                if path not in self._open:
                    self._open[path] = Question(path)
            except TopError as error:
                found[path] = error
        asked = [question for path, question in self._open.items() if path in paths]
        for question, answer in asking.wait(asked, self.patience_s).items():
            found[question.path] = answer
            del self._open[question.path]
        return {path: found[path] if path in found else self._open[path].silence() for path in paths}

    def answers(self, paths: list[str]) -> list[dict[str, Any]]:
        """Return the answers of the processes that still run.

        Raises:
            TopError: no process does.
        """
        looked = self.look(paths).values()
        answers = [answer for answer in looked if not isinstance(answer, TopError)]
        errors = [answer for answer in looked if isinstance(answer, TopError)]
        if not answers and errors:
            raise errors[0]
        return answers


def _watch(paths: list[str], process: str | None, interval_s: float, asker: Asker) -> None:
    before: list[dict[str, Any]] | None = None
    with Keys() as keys, screen.Screen() as shown:
        while True:
            answers = asker.answers(paths)
            shown.show(answers, before)
            before = answers
            if keys.wait(interval_s) == "q":
                return
            if process is not None and process.isdecimal():
                # The process id may be that of a parent, whose workers are replaced from time to time.
                paths = _find(process, asker)
