"""`oneloop check`: reads the command line, and checks the URLs of a list."""

from __future__ import annotations

import argparse
import contextlib
import os
import sys
from typing import TYPE_CHECKING, Any, NoReturn

from oneloop.cli.values import header, size

if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = ["main", "parser"]

_DESCRIPTION = """\
Request each URL of a list, count the answers, and print one JSON object: {"200": 31}. What has no status is counted by
its error: dns, connect, tls, timeout, too_many_redirects, blocked, protocol, invalid_url, retry_after."""
_EPILOG = """\
Exit status: 0, or 1 if --fail-on says so, 2 for a wrong command line or an input that cannot be read, 130 after Ctrl-C.
Everything is in docs/reference/check.md."""


def _auth(text: str) -> tuple[str, str]:
    user, colon, password = text.partition(":")
    if not colon:
        raise argparse.ArgumentTypeError("write USER:PASSWORD")
    return user, password


def _seconds(text: str) -> float | None:
    """0 is no limit."""
    try:
        return float(text) or None
    except ValueError:
        raise argparse.ArgumentTypeError(f"{text!r} is not a number of seconds") from None


def _column(text: str) -> str | int:
    return int(text) if text.isdecimal() else text


def _names(text: str) -> tuple[str, ...]:
    return tuple(name.strip() for name in text.split(",") if name.strip())


# Group: flag, the name it has beyond here, type (None: a switch), metavar, help. Defaults are those of `Options`.
_TABLE: dict[str, list[tuple[str, str, Callable[[str], Any] | None, str, str]]] = {
    "limits": [
        ("--concurrency", "concurrency", int, "NUMBER", "URLs under way at once"),
        ("--per-host", "per_host", int, "NUMBER", "URLs of one host under way at once"),
        ("--per-host-delay", "per_host_delay_s", float, "SECONDS", "between two requests at one host"),
        ("--rate", "rate", float, "NUMBER", "requests that begin in a second"),
        ("--retries", "retries", int, "NUMBER", "more attempts after dns, connect, timeout, protocol, 429, 502 to 504"),
        ("--retry-delay", "retry_delay_s", float, "SECONDS", "before the first of them; it doubles with each"),
        ("--retry-after", "retry_after_s", float, "SECONDS", "wait for as long as a server asks for, up to this"),
        ("--timeout", "timeout_s", _seconds, "SECONDS", "for one attempt with its redirects; 0: no limit"),
        ("--timeout-dns", "dns_timeout_s", _seconds, "SECONDS", "for the look-up of a name"),
        ("--timeout-connect", "connect_timeout_s", _seconds, "SECONDS", "for a TCP connection"),
        ("--timeout-tls", "tls_timeout_s", _seconds, "SECONDS", "for a TLS handshake"),
        ("--timeout-first-byte", "first_byte_timeout_s", _seconds, "SECONDS", "for the head of an answer"),
        ("--body-limit", "body_limit_bytes", size, "BYTES", "read no more of a body"),
    ],
    "requests": [
        ("--method", "method", str, "METHOD", "GET or HEAD; a HEAD that gets 405 or 501 becomes a GET"),
        ("--max-redirects", "max_redirects", int, "NUMBER", "more are too_many_redirects"),
        ("--header", "headers", header, "NAME:VALUE", "of every request; may be repeated"),
        ("--user-agent", "user_agent", str, "TEXT", "the field User-Agent"),
        ("--auth", "auth", _auth, "USER:PASSWORD", "for the hosts of the list, not for those that they redirect to"),
        ("--insecure", "insecure", None, "", "accept every certificate"),
        ("--proxy", "proxy", str, "URL", "an HTTP proxy"),
        ("--dns-servers", "dns_servers", _names, "LIST", "addresses of name servers [the system's]"),
    ],
}


class _Parser(argparse.ArgumentParser):
    """Says where the help is, instead of the long usage."""

    def error(self, message: str) -> NoReturn:
        """End with status 2."""
        _tell(f"{message}\nTry 'oneloop check --help'.")
        raise SystemExit(2)


def parser() -> argparse.ArgumentParser:
    """Make the parser; what is not given stays out of its result."""
    from oneloop.check.options import Options
    from oneloop.check.styles import STYLES

    made = _Parser(
        prog="oneloop check",
        description=_DESCRIPTION,
        epilog=_EPILOG,
        usage="oneloop check [OPTION]... FILE",
        allow_abbrev=False,
        argument_default=argparse.SUPPRESS,
    )
    given = made.add_argument_group("input")
    made.add_argument("location", metavar="FILE", help="a list of URLs; - is standard input; or a sitemap's URL")
    given.add_argument(
        "--input", dest="form", choices=("text", "csv", "jsonl", "sitemap"), help="its form [by its name]"
    )
    given.add_argument("--column", type=_column, help="the CSV column, by name or number, or the JSON field [url]")
    given.add_argument("--scheme", choices=("http", "https"), help="for URLs without one [they are bad lines]")
    written = made.add_argument_group("output")
    written.add_argument("--jsonl", metavar="FILE", help="write each result as a line of JSON")
    written.add_argument("--csv", metavar="FILE", help="write each result as a row")
    written.add_argument("--html", metavar="FILE", help="write a page: counts, latencies, slowest hosts, failures")
    written.add_argument("--journal", metavar="FILE", help="keep what is done; the same command goes on after a kill")
    written.add_argument("--fail-on", metavar="LIST", help="exit with 1 if one of these came: 5xx,404,dns,error,…")
    written.add_argument("--progress", action=argparse.BooleanOptionalAction, help="a bar on stderr [on a terminal]")
    for title, rows in _TABLE.items():
        group = made.add_argument_group(title)
        for flag, name, kind, metavar, text in rows:
            default = Options.__dataclass_fields__[name].default
            if kind is not None and "[" not in text and not isinstance(default, tuple) and default is not None:
                text += f" [{default}]"
            settings: dict[str, Any] = {"dest": name, "help": text.replace("%", "%%")}
            if kind is None:
                settings["action"] = "store_true"
            else:
                settings.update(type=kind, metavar=metavar, action="append" if flag == "--header" else "store")
            group.add_argument(flag, **settings)
        if title == "requests":
            group.add_argument("--follow", action=argparse.BooleanOptionalAction, help="follow redirects [yes]")
            family = group.add_mutually_exclusive_group()
            family.add_argument("--ipv4", dest="family", action="store_const", const=4, help="only IPv4")
            family.add_argument("--ipv6", dest="family", action="store_const", const=6, help="only IPv6")
            group.add_argument(
                "--block-private",
                action=argparse.BooleanOptionalAction,
                help="connect only to public addresses [for JSON lines and sitemaps, which others have written]",
            )
    spread = made.add_argument_group("where it runs")
    spread.add_argument("--processes", type=int, metavar="NUMBER", help="processes that share the work")
    spread.add_argument("--dask", metavar="ADDRESS", help="a Dask scheduler, or local:4 for a cluster of one's own")
    spread.add_argument("--style", choices=STYLES, help="how it is programmed; the others use requests [coroutines]")
    return made


def _open_standard_files() -> None:
    """Whoever closed them must not find them in a file of ours: the next that is opened gets their number.

    Standard output, if it is closed, cannot be written; what would go to stderr goes nowhere.
    """
    for fd, way in enumerate((os.O_WRONLY, os.O_RDONLY, os.O_WRONLY)):
        try:
            os.fstat(fd)
        except OSError:
            os.open(os.devnull, way)
    if sys.stdout is None:
        sys.stdout = open(1, "w", closefd=False)  # noqa: SIM115
    if sys.stderr is None:
        sys.stderr = open(2, "w", closefd=False)  # noqa: SIM115


def main(arguments: list[str]) -> NoReturn:
    """Check what the command line says.

    Raises:
        SystemExit: with 0, 1, 2 or 130, as the help says.
    """
    _open_standard_files()
    if "--style=green" in arguments or ("--style" in arguments and "green" in arguments):
        # Before anything else is imported.
        from oneloop.green import monkey

        monkey.patch_all()
    try:
        from oneloop.check import check as _  # noqa: F401
        from oneloop.check.command import Task, run
        from oneloop.check.journal import JournalError
        from oneloop.check.spread import WorkerLostError
    except ImportError as error:
        _tell(str(error))
        raise SystemExit(2) from None
    except KeyboardInterrupt:
        # All of this takes some tenths of a second.
        _tell("interrupted before it began")
        raise SystemExit(130) from None

    reader = parser()
    given: Any = vars(reader.parse_args(arguments))
    try:
        raise SystemExit(run(Task.of(given)))
    except ValueError as error:
        reader.error(_with_flags(str(error)))
    except (ImportError, JournalError, WorkerLostError) as error:
        text = str(error)
    except OSError as error:
        text = f"{error.filename}: {error.strerror}" if error.filename else str(error)
        _drop_output()
    _tell(text)
    raise SystemExit(2)


def _tell(text: str) -> None:
    """Say why it ends. The exit status does not depend on whether stderr can be written."""
    with contextlib.suppress(OSError):
        print(f"oneloop check: {text}", file=sys.stderr, flush=True)


def _drop_output() -> None:
    """What standard output does not take: the interpreter would try again at its end, and change the status to 120."""
    try:
        sys.stdout.flush()
    except OSError:
        nowhere = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nowhere, sys.stdout.fileno())
        os.close(nowhere)


def _with_flags(text: str) -> str:
    """An error of `Options` in words of the command line: the flags, and what is no limit."""
    for rows in _TABLE.values():
        for flag, name, kind, *_ in rows:
            if text.startswith(f"{name} "):
                none = ", or 0 for no limit" if kind is _seconds else ", or leave it out"
                return flag + text.removeprefix(name).replace(", or None for no limit", none)
    return text
