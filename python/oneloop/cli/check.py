"""`oneloop check`: reads the command line and checks the URLs of a list."""

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
Request each URL of a list, count the responses, and print one JSON object: {"200": 31}. A URL without a status is
counted under its error: dns, connect, tls, timeout, too_many_redirects, blocked, protocol, invalid_url, retry_after."""
_EPILOG = """\
Exit status: 0; 1 if a result occurred that --fail-on names; 2 if the command line is wrong or the run failed; 130 after
Ctrl-C; 143 after SIGTERM. All details: oneloop docs reference/check"""


def _auth(text: str) -> tuple[str, str]:
    user, colon, password = text.partition(":")
    if not colon:
        raise argparse.ArgumentTypeError("there is no colon: write USER:PASSWORD")
    return user, password


def _seconds(text: str) -> float | None:
    """Parse a timeout. 0 means no limit, which is None."""
    try:
        return float(text) or None
    except ValueError:
        raise argparse.ArgumentTypeError(f"{text!r} is not a number of seconds") from None


def _column(text: str) -> str | int:
    return int(text) if text.isdecimal() else text


def _names(text: str) -> tuple[str, ...]:
    return tuple(name.strip() for name in text.split(",") if name.strip())


# Group: flag, field of `Options`, type (None: a switch), metavar, help. The defaults are those of `Options`.
_TABLE: dict[str, list[tuple[str, str, Callable[[str], Any] | None, str, str]]] = {
    "limits": [
        ("--concurrency", "concurrency", int, "NUMBER", "URLs in progress at the same time"),
        ("--per-host", "per_host", int, "NUMBER", "URLs in progress at the same time with the same host"),
        ("--per-host-delay", "per_host_delay_s", float, "SECONDS", "minimum time between two requests to one host"),
        ("--rate", "rate", float, "NUMBER", "maximum number of requests started per second [no limit]"),
        ("--retries", "retries", int, "NUMBER", "retries after dns, connect, timeout, protocol, 429, 502, 503, 504"),
        ("--retry-delay", "retry_delay_s", float, "SECONDS", "pause before the first retry; doubles with each retry"),
        ("--retry-after", "retry_after_s", float, "SECONDS", "obey Retry-After by waiting, up to this time"),
        ("--timeout", "timeout_s", _seconds, "SECONDS", "timeout for one attempt with its redirects; 0: no limit"),
        ("--timeout-dns", "dns_timeout_s", _seconds, "SECONDS", "timeout for resolving the name"),
        ("--timeout-connect", "connect_timeout_s", _seconds, "SECONDS", "timeout for the TCP connection"),
        ("--timeout-tls", "tls_timeout_s", _seconds, "SECONDS", "timeout for the TLS handshake"),
        ("--timeout-first-byte", "first_byte_timeout_s", _seconds, "SECONDS", "timeout for the response's head"),
        ("--body-limit", "body_limit_bytes", size, "BYTES", "read at most this much of a body"),
    ],
    "requests": [
        ("--method", "method", str, "METHOD", "GET or HEAD; a refused HEAD is repeated as GET"),
        ("--max-redirects", "max_redirects", int, "NUMBER", "more redirects are the error too_many_redirects"),
        ("--header", "headers", header, "NAME:VALUE", "header field for every request; can be repeated"),
        ("--user-agent", "user_agent", str, "TEXT", "the header field User-Agent"),
        ("--auth", "auth", _auth, "USER:PASSWORD", "HTTP basic authentication, not sent to hosts of redirects"),
        ("--insecure", "insecure", None, "", "accept every certificate"),
        ("--proxy", "proxy", str, "URL", "an HTTP proxy"),
        ("--dns-servers", "dns_servers", _names, "LIST", "addresses of name servers [the system's]"),
    ],
}


class _Parser(argparse.ArgumentParser):
    """A parser whose error messages refer to the help, instead of printing the long usage."""

    def error(self, message: str) -> NoReturn:
        """Print the error and exit with status 2."""
        _tell(f"{message}\nTry 'oneloop check --help'.")
        raise SystemExit(2)


def parser() -> argparse.ArgumentParser:
    """Return the parser. Options that are not given are not in its result."""
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
    made.add_argument("location", metavar="FILE", help="a file with URLs, - for standard input, or a sitemap's URL")
    given.add_argument(
        "--input", dest="form", choices=("text", "csv", "jsonl", "sitemap"), help="form of the input [from its name]"
    )
    given.add_argument("--column", type=_column, help="the CSV column, by name or number, or the JSON field [url]")
    given.add_argument("--scheme", choices=("http", "https"), help="for URLs without a scheme [bad lines]")
    written = made.add_argument_group("output")
    written.add_argument("--jsonl", metavar="FILE", help="write each result as a line of JSON")
    written.add_argument("--csv", metavar="FILE", help="write each result as a CSV row")
    written.add_argument("--html", metavar="FILE", help="write a page with counts, latencies, slowest hosts, failures")
    written.add_argument("--journal", metavar="FILE", help="record finished URLs, to continue the run after a crash")
    written.add_argument("--fail-on", metavar="LIST", help="exit with 1 if one of these occurred: 5xx,404,dns,error,…")
    written.add_argument("--progress", action=argparse.BooleanOptionalAction, help="progress bar [on a terminal]")
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
            family.add_argument("--ipv4", dest="family", action="store_const", const=4, help="use only IPv4")
            family.add_argument("--ipv6", dest="family", action="store_const", const=6, help="use only IPv6")
            group.add_argument(
                "--block-private",
                action=argparse.BooleanOptionalAction,
                help="connect only to public addresses [yes for JSON lines and sitemaps]",
            )
    spread = made.add_argument_group("where it runs")
    spread.add_argument("--processes", type=int, metavar="NUMBER", help="number of processes on this machine")
    spread.add_argument("--dask", metavar="ADDRESS", help="a Dask scheduler, or local:4 to start a local cluster")
    spread.add_argument("--style", choices=STYLES, help="for comparison: the same job in another style [coroutines]")
    return made


def _open_standard_files() -> None:
    """Open /dev/null for standard streams that are closed, so that no file of this command gets their descriptor.

    Standard output is opened for reading, so that writing the counts is an error. Output to stderr is discarded.
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
    """Run `oneloop check`.

    Args:
        arguments: the command line after `oneloop check`.

    Raises:
        SystemExit: always, with the status that the help describes.
    """
    _open_standard_files()
    try:
        if "--style=green" in arguments or ("--style" in arguments and "green" in arguments):
            # Files and names are looked up in green threads too. This must happen before the other imports.
            from oneloop.green import monkey

            monkey.patch_all()
        # The parser comes first, because --help has to work without the HTTP client.
        reader = parser()
        given: Any = vars(reader.parse_args(arguments))
        from oneloop.check import check as _  # noqa: F401
        from oneloop.check.command import Task, run
        from oneloop.check.journal import JournalError
        from oneloop.check.spread import WorkerLostError
    except ImportError as error:
        _tell(str(error))
        raise SystemExit(2) from None
    except KeyboardInterrupt:
        # The imports take some tenths of a second.
        _tell("interrupted before the first request")
        raise SystemExit(130) from None

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
    """Print the reason to stderr. If stderr cannot be written, the exit status stays the same."""
    with contextlib.suppress(OSError):
        print(f"oneloop check: {text}", file=sys.stderr, flush=True)


def _drop_output() -> None:
    """Discard output that cannot be written. The interpreter would try again at exit, and change the status to 120."""
    try:
        sys.stdout.flush()
    except OSError:
        nowhere = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nowhere, sys.stdout.fileno())
        os.close(nowhere)


def _with_flags(text: str) -> str:
    """Change an error message of `Options` for the command line: flags instead of field names, 0 instead of None."""
    for rows in _TABLE.values():
        for flag, name, kind, *_ in rows:
            if text.startswith(f"{name} "):
                none = ", or 0 for no limit" if kind is _seconds else ", or leave it out"
                return flag + text.removeprefix(name).replace(", or None for no limit", none)
    return text
