"""`oneloop serve`: reads uvicorn's command line, and what it lacks, and serves the application."""

from __future__ import annotations

import argparse
import atexit
import os
import signal
import sys
from typing import TYPE_CHECKING, Any, NoReturn

from oneloop.cli.values import header, size
from oneloop.http.options import CHOICES, OptionError, Options
from oneloop.http.service import run_with

if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = ["main", "parser"]

_DESCRIPTION = """\
Serve an ASGI or WSGI application. Options have uvicorn's names and meanings, where it has them; times are in seconds,
sizes in bytes. All of them are in docs/reference/serve.md."""

# uvicorn's, without effect here: whether each takes a value.
LEFT_OUT = {
    "--loop": True,
    "--http": True,
    "--ws": True,
    "--ws-max-queue": True,
    "--h11-max-incomplete-event-size": True,
    "--http2": False,
    "--reset-contextvars": False,
}
_WORDS = {"1": True, "true": True, "t": True, "yes": True, "y": True, "on": True}
_WORDS.update({"0": False, "false": False, "f": False, "no": False, "n": False, "off": False})


def _truth(text: str) -> bool:
    try:
        return _WORDS[text.lower()]
    except KeyError:
        raise argparse.ArgumentTypeError(f"{text!r} is neither true nor false") from None


def _octal(text: str) -> int:
    try:
        return int(text, 8)
    except ValueError:
        raise argparse.ArgumentTypeError(f"{text!r} is not a mode, such as 660") from None


def _folder(text: str) -> tuple[str, str]:
    url, equals, folder = text.partition("=")
    if not equals or not url or not folder:
        raise argparse.ArgumentTypeError(f"{text!r} is not URL=DIR, such as /static=public")
    return url, folder


def _level(text: str) -> str:
    return text.lower()


# Group: flag, type (None: a switch), metavar or help. Where the field's name differs, `_FIELDS` has it.
_TABLE: dict[str, list[tuple[str, Callable[[str], Any] | None, str, str]]] = {
    "where it listens": [
        ("--host", str, "TEXT", "address or name to listen on"),
        ("--port", int, "NUMBER", "port; 0 takes a free one"),
        ("--uds", str, "PATH", "unix socket to listen on"),
        ("--uds-mode", _octal, "OCTAL", "its permissions [that of an earlier socket there, else 666]"),
        ("--fd", int, "NUMBER", "descriptor of a socket to listen on"),
        ("--backlog", int, "NUMBER", "connections that wait to be accepted"),
        ("--reuse-port", None, "", "a socket for each worker (SO_REUSEPORT), not one for all"),
        ("--proxy-protocol", None, "", "connections begin with the PROXY protocol, version 1 or 2"),
    ],
    "the application": [
        ("--interface", str, "", "what the application is"),
        ("--factory", None, "", "the application is what the function that is named returns"),
        ("--app-dir", str, "DIR", "folder to import from [the current one]"),
        ("--env-file", str, "PATH", "file with KEY=VALUE lines for the environment"),
        ("--lifespan", str, "", "whether the application is told of start and end"),
        ("--root-path", str, "PATH", "path under which clients see the application"),
        ("--threads", int, "NUMBER", "threads for WSGI requests"),
        ("--green", None, "", "patch the standard library: WSGI requests run in green threads"),
    ],
    "processes": [
        ("--workers", int, "NUMBER", "processes that serve [$WEB_CONCURRENCY, else 1]"),
        ("--limit-max-requests", int, "NUMBER", "replace a worker after so many requests"),
        ("--limit-max-requests-jitter", int, "NUMBER", "add up to so many, at random"),
        ("--limit-memory", size, "BYTES", "replace a worker that uses more memory"),
        ("--timeout-graceful-shutdown", float, "SECONDS", "how long requests may take to end [no limit]"),
        (
            "--timeout-worker-healthcheck",
            float,
            "SECONDS",
            "replace a worker whose loop is stuck so long. 0: never",
        ),
        ("--reload", None, "", "start again when files change"),
        ("--reload-dir", str, "DIR", "folder to watch [the current one]; may be repeated"),
        ("--reload-include", str, "GLOB", "names to watch beside *.py; may be repeated"),
        ("--reload-exclude", str, "GLOB", "names not to watch; may be repeated"),
        ("--reload-delay", float, "SECONDS", "how long changes are gathered"),
    ],
    "logs": [
        ("--log-level", _level, "", "what is logged"),
        ("--log-config", str, "PATH", "configuration of logging: .json, .yaml, or INI"),
        ("--access-log", bool, "", "one line for each response"),
        ("--access-log-format", str, "", "what these lines are"),
        ("--use-colors", bool, "", "colors in logs [on a terminal]"),
        ("--metrics", str, "PATH", "path that answers with metrics for Prometheus"),
    ],
    "what is answered": [
        ("--header", header, "NAME:VALUE", "field of every response; may be repeated"),
        ("--server-header", bool, "", "the field Server"),
        ("--date-header", bool, "", "the field Date"),
        ("--static", _folder, "URL=DIR", "serve a folder's files; may be repeated"),
        ("--proxy-headers", bool, "", "take X-Forwarded-For and -Proto from trusted proxies"),
        ("--forwarded-allow-ips", str, "LIST", "which these are [$FORWARDED_ALLOW_IPS, else 127.0.0.1,::1]"),
    ],
    "limits": [
        ("--limit-concurrency", int, "NUMBER", "connections or requests at once; above, 503"),
        ("--max-line-size", size, "BYTES", "of the request line; above, 414"),
        ("--max-header-size", size, "BYTES", "of all headers; above, 431"),
        ("--max-headers", int, "NUMBER", "of headers; above, 431"),
        ("--max-body-size", size, "BYTES", "of a request's body; above, 413 [no limit]"),
        ("--timeout-header", float, "SECONDS", "for a request's head; then 408. 0: no limit"),
        ("--timeout-body", float, "SECONDS", "without progress of a body; then 408. 0: no limit"),
        ("--timeout-keep-alive", float, "SECONDS", "for the next request on a connection"),
    ],
    "WebSocket": [
        ("--ws-max-size", size, "BYTES", "of a message"),
        ("--ws-ping-interval", float, "SECONDS", "between pings; 0: none"),
        ("--ws-ping-timeout", float, "SECONDS", "for their answers; 0: no limit"),
        ("--ws-per-message-deflate", _truth, "BOOLEAN", "compression"),
    ],
    "TLS": [
        ("--ssl-certfile", str, "PATH", "certificate, and its issuers' (PEM)"),
        ("--ssl-keyfile", str, "PATH", "its key, if it is not in the same file"),
        ("--ssl-keyfile-password", str, "TEXT", "the key's password"),
        ("--ssl-ca-certs", str, "PATH", "authorities of clients' certificates"),
        ("--ssl-cert-reqs", int, "NUMBER", "clients' certificates: 0 none, 1 optional, 2 required"),
        ("--ssl-version", int, "NUMBER", "protocol of the module ssl; others than 17 need OpenSSL"),
        ("--ssl-ciphers", str, "LIST", "ciphers, for OpenSSL"),
    ],
}
_FIELDS = {
    "--header": "headers",
    "--reload-dir": "reload_dirs",
    "--reload-include": "reload_includes",
    "--reload-exclude": "reload_excludes",
}
_REPEATED = (*_FIELDS, "--static")


class _Parser(argparse.ArgumentParser):
    """Says where the help is, instead of the long usage."""

    def error(self, message: str) -> NoReturn:
        """End with status 2."""
        print(f"oneloop serve: {message}", file=sys.stderr)
        print("Try 'oneloop serve --help'.", file=sys.stderr)
        raise SystemExit(2)


def parser() -> argparse.ArgumentParser:
    """Make the parser; what is not given stays out of its result."""
    made = _Parser(
        prog="oneloop serve",
        description=_DESCRIPTION,
        usage="oneloop serve [OPTION]... package.module:app",
        allow_abbrev=False,
        argument_default=argparse.SUPPRESS,
    )
    made.add_argument("app", metavar="package.module:app", help="the application: its module and its name in it")
    defaults = Options.__dataclass_fields__
    for title, rows in _TABLE.items():
        group = made.add_argument_group(title)
        for flag, kind, metavar, text in rows:
            name = _FIELDS.get(flag, flag[2:].replace("-", "_"))
            default = defaults[name].default
            # Switches are off, and None and lists are what the text says.
            if "[" not in text and not isinstance(default, bool | tuple) and default not in (None, ""):
                text += f" [{default}]"
            settings: dict[str, Any] = {"dest": name, "help": text.replace("%", "%%")}
            if kind is None:
                settings["action"] = "store_true"
            elif kind is bool:
                settings["action"] = argparse.BooleanOptionalAction
            else:
                settings["type"] = kind
                settings["action"] = "append" if flag in _REPEATED else "store"
                if name in CHOICES:
                    settings["choices"] = CHOICES[name]
                else:
                    settings["metavar"] = metavar
            group.add_argument(flag, **settings)
        if title == "processes":
            text = "let oneloop top watch each process, through a Unix socket"
            group.add_argument("--stats-socket", nargs="?", metavar="PATH", help=text)
    for flag, has_value in LEFT_OUT.items():
        settings = {"dest": "left_out", "help": argparse.SUPPRESS, "action": "append" if has_value else "append_const"}
        if has_value:
            settings["type"] = lambda _, flag=flag: flag
        else:
            settings["const"] = flag
        made.add_argument(flag, **settings)
    return made


def main(arguments: list[str]) -> NoReturn:
    """Serve what the command line says.

    Raises:
        SystemExit: with 0 after SIGINT or SIGTERM, 2 for a wrong command line, 3 if the start fails.
    """
    reader = parser()
    # Without a value it must not take the application for one.
    given: Any = vars(reader.parse_args([f"{word}=1" if word == "--stats-socket" else word for word in arguments]))
    app = given.pop("app")
    if "stats_socket" in given:
        # Each process with a loop opens its own.
        os.environ["ONELOOP_STATS_SOCKET"] = given.pop("stats_socket")
    left_out = given.pop("left_out", [])
    try:
        if left_out:
            print(
                f"oneloop serve: these options of uvicorn have no effect here: {', '.join(left_out)}", file=sys.stderr
            )
        status = run_with(app, given)
    except OptionError as error:
        reader.error(str(error))
    except KeyboardInterrupt:
        # Before it has served.
        status = 0
    # What else comes does not change how it has ended; threads of the application's may hold up the end for ever.
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    signal.signal(signal.SIGINT, lambda *_: os._exit(status))
    atexit.register(signal.signal, signal.SIGINT, signal.SIG_IGN)
    raise SystemExit(status)
