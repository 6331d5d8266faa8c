"""`oneloop serve`: reads a command line that is compatible with uvicorn's, and serves the application."""

from __future__ import annotations

import argparse
import atexit
import os
import signal
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn

from oneloop import cgroup
from oneloop.cli import config
from oneloop.cli.values import header, size
from oneloop.http.options import CHOICES, OptionError, Options
from oneloop.http.service import run_with

if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = ["main", "parser"]

_DESCRIPTION = """\
Serve an ASGI or WSGI application. Options that uvicorn has too have the same names and meanings. Times are in seconds,
sizes in bytes. All details: oneloop docs reference/serve"""

# Options of uvicorn that are accepted but have no effect, and whether each takes a value.
LEFT_OUT = {
    "--loop": True,
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


def _workers(text: str) -> int:
    if text == "auto":
        return cgroup.usable_cpus()
    try:
        return int(text)
    except ValueError:
        raise argparse.ArgumentTypeError(f"{text!r} is neither auto nor a number") from None


def _versions(text: str) -> str:
    """Return the option's value. uvicorn has the names of its parsers here, of which zttp knows HTTP/2 too."""
    return {"h11": "1", "httptools": "1", "zttp": "auto"}.get(text, text)


def _level(text: str) -> str:
    return text.lower()


# Group: flag, type (None: a switch), metavar, help. `_FIELDS` has the field names that differ from the flags.
_TABLE: dict[str, list[tuple[str, Callable[[str], Any] | None, str, str]]] = {
    "where it listens": [
        ("--host", str, "TEXT", "address or name to listen on"),
        ("--port", int, "NUMBER", "port; 0: any free port"),
        ("--uds", str, "PATH", "Unix socket to listen on"),
        ("--uds-mode", _octal, "OCTAL", "permissions of the Unix socket [those of an earlier socket there, else 666]"),
        ("--fd", int, "NUMBER", "descriptor of a socket to listen on"),
        ("--backlog", int, "NUMBER", "connections that wait to be accepted"),
        ("--reuse-port", None, "", "one socket per worker (SO_REUSEPORT) instead of one for all"),
        ("--proxy-protocol", None, "", "connections begin with a PROXY protocol header, version 1 or 2"),
        ("--proxy-allow-ips", str, "LIST", "peers that may send a PROXY header [*]"),
    ],
    "the application": [
        ("--interface", str, "", "kind of the application"),
        ("--http", _versions, "", "versions of HTTP; h2c: HTTP/2 without TLS"),
        ("--factory", None, "", "the name is that of a function that returns the application"),
        ("--app-dir", str, "DIR", "directory to import from [the current one]"),
        ("--env-file", str, "PATH", "file with KEY=VALUE lines for the environment"),
        ("--lifespan", str, "", "whether the application gets ASGI lifespan events"),
        ("--root-path", str, "PATH", "path under which clients see the application"),
        ("--threads", int, "NUMBER", "threads for WSGI requests"),
        ("--green", None, "", "patch the standard library: WSGI requests run in green threads"),
    ],
    "processes": [
        ("--workers", _workers, "NUMBER", "worker processes; auto: one per usable CPU [$WEB_CONCURRENCY, else 1]"),
        ("--limit-max-requests", int, "NUMBER", "replace a worker after this number of requests"),
        ("--limit-max-requests-jitter", int, "NUMBER", "add a random number up to this to --limit-max-requests"),
        ("--limit-memory", size, "BYTES", "replace a worker that uses more memory"),
        ("--timeout-graceful-shutdown", float, "SECONDS", "at shutdown, wait this long for requests [no limit]"),
        (
            "--timeout-worker-healthcheck",
            float,
            "SECONDS",
            "replace a worker whose loop is blocked for this time; 0: never",
        ),
        ("--reload", None, "", "restart when files change"),
        ("--reload-dir", str, "DIR", "directory to watch [the current one]; can be repeated"),
        ("--reload-include", str, "GLOB", "names to watch in addition to *.py; can be repeated"),
        ("--reload-exclude", str, "GLOB", "names not to watch; can be repeated"),
        ("--reload-delay", float, "SECONDS", "how long to wait for further changes"),
    ],
    "logs": [
        ("--log-level", _level, "", "level from which messages are logged"),
        ("--log-config", str, "PATH", "configuration file of logging: .json, .yaml, or INI"),
        ("--access-log", bool, "", "log one line for each response"),
        ("--access-log-format", str, "", "format of these lines"),
        ("--use-colors", bool, "", "colors in logs [on a terminal]"),
        ("--metrics", str, "PATH", "URL path for Prometheus metrics"),
        ("--health", str, "PATH", "URL path for health checks: 200, and 503 while the server ends"),
    ],
    "responses": [
        ("--header", header, "NAME:VALUE", "header field for every response; can be repeated"),
        ("--server-header", bool, "", "send the header field Server"),
        ("--date-header", bool, "", "send the header field Date"),
        ("--static", _folder, "URL=DIR", "serve the files of a directory; can be repeated"),
        ("--compress", None, "", "compress responses for clients that accept it"),
        ("--redirect-https", int, "PORT", "redirect requests without TLS to https, at this port [443]"),
        ("--proxy-headers", bool, "", "use X-Forwarded-For and -Proto of trusted proxies"),
        ("--forwarded-allow-ips", str, "LIST", "trusted proxies [$FORWARDED_ALLOW_IPS, else 127.0.0.1,::1]"),
    ],
    "limits": [
        ("--limit-concurrency", int, "NUMBER", "connections or requests at the same time; above: 503"),
        ("--max-line-size", size, "BYTES", "size of the request line; above: 414"),
        ("--max-header-size", size, "BYTES", "size of all header fields; above: 431"),
        ("--max-headers", int, "NUMBER", "number of header fields; above: 431"),
        ("--max-body-size", size, "BYTES", "size of a request's body; above: 413 [no limit]"),
        ("--http2-streams", int, "NUMBER", "HTTP/2: requests at the same time on a connection"),
        ("--http2-stream-window", size, "BYTES", "HTTP/2: unread bytes of a request's body"),
        ("--http2-connection-window", size, "BYTES", "HTTP/2: unread bytes of all bodies of a connection"),
        ("--http2-frame-size", size, "BYTES", "HTTP/2: size of a frame"),
        ("--timeout-header", float, "SECONDS", "timeout for a request's head, then 408; 0: no limit"),
        ("--timeout-body", float, "SECONDS", "timeout for the next part of a body, then 408; 0: no limit"),
        ("--timeout-send", float, "SECONDS", "how long a client may read nothing of a response; 0: no limit"),
        ("--timeout-keep-alive", float, "SECONDS", "timeout for the next request on a connection"),
    ],
    "WebSocket": [
        ("--ws-max-size", size, "BYTES", "size of a message"),
        ("--ws-ping-interval", float, "SECONDS", "time between pings; 0: no pings"),
        ("--ws-ping-timeout", float, "SECONDS", "timeout for a pong; 0: no limit"),
        ("--ws-per-message-deflate", _truth, "BOOLEAN", "compress messages"),
    ],
    "TLS": [
        ("--ssl-certfile", str, "PATH", "certificate and its chain (PEM)"),
        ("--ssl-keyfile", str, "PATH", "private key, if it is not in the same file"),
        ("--ssl-keyfile-password", str, "TEXT", "password of the private key"),
        ("--ssl-ca-certs", str, "PATH", "authorities for clients' certificates"),
        ("--ssl-cert-reqs", int, "NUMBER", "clients' certificates: 0 none, 1 optional, 2 required"),
        ("--ssl-version", int, "NUMBER", "protocol constant of the module ssl; values other than 17 need OpenSSL"),
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
# Options whose value can be left out, and what it is then. argparse would take the application for their value.
_SHORT = {"--stats-socket": "1", "--redirect-https": "443"}


class _Parser(argparse.ArgumentParser):
    """A parser whose error messages refer to the help, instead of printing the long usage."""

    def error(self, message: str) -> NoReturn:
        """Print the error and exit with status 2."""
        print(f"oneloop serve: {message}", file=sys.stderr)
        print("Try 'oneloop serve --help'.", file=sys.stderr)
        raise SystemExit(2)


def parser() -> argparse.ArgumentParser:
    """Return the parser. Options that are not given are not in its result."""
    made = _Parser(
        prog="oneloop serve",
        description=_DESCRIPTION,
        usage="oneloop serve [OPTION]... package.module:app",
        allow_abbrev=False,
        argument_default=argparse.SUPPRESS,
    )
    made.add_argument(
        "app", nargs="?", metavar="package.module:app", help="the application: its module and its name there"
    )
    made.add_argument(
        "--config", metavar="FILE", help="TOML file with a table [serve] of these options [[tool.oneloop.serve] in"
        " pyproject.toml]; the command line wins"
    )  # fmt: skip
    defaults = Options.__dataclass_fields__
    for title, rows in _TABLE.items():
        group = made.add_argument_group(title)
        for flag, kind, metavar, text in rows:
            name = _FIELDS.get(flag, flag[2:].replace("-", "_"))
            default = defaults[name].default
            # Defaults that are False, None, empty or a list are not shown, or are in the text.
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
                settings["nargs"] = "?" if flag in _SHORT else None
                if name in CHOICES:
                    settings["choices"] = CHOICES[name]
                else:
                    settings["metavar"] = metavar
            group.add_argument(flag, **settings)
        if title == "processes":
            text = "let oneloop top watch each process through a Unix socket"
            group.add_argument("--stats-socket", nargs="?", metavar="PATH", help=text)
    for flag, has_value in LEFT_OUT.items():
        settings = {"dest": "left_out", "help": argparse.SUPPRESS, "action": "append" if has_value else "append_const"}
        if has_value:
            settings["type"] = lambda _, flag=flag: flag
        else:
            settings["const"] = flag
        made.add_argument(flag, **settings)
    return made


def _with_values(arguments: list[str]) -> list[str]:
    """Give options whose value may be left out their value: argparse would take the application for it."""
    found: list[str] = []
    for place, word in enumerate(arguments):
        behind = arguments[place + 1] if place + 1 < len(arguments) else ""
        is_given = word == "--stats-socket" and behind.endswith(".sock")
        found.append(f"{word}={_SHORT[word]}" if word in _SHORT and not is_given else word)
    return found


def _read(reader: argparse.ArgumentParser, arguments: list[str]) -> dict[str, Any]:
    """The options of the command line, and of the file for what the command line does not say."""
    given: dict[str, Any] = vars(reader.parse_args(_with_values(arguments)))
    # A positional argument that may be left out is in the result even so.
    if given.get("app", argparse.SUPPRESS) in (None, argparse.SUPPRESS):
        given.pop("app", None)
    path = given.pop("config", None)
    try:
        is_named = path is not None
        if path is None and Path(config.PROJECT).is_file():
            path = config.PROJECT
        if path is None:
            return given
        table = config.table_of(path, "serve", is_required=is_named)
        app = table.pop("app", None)
        written: dict[str, Any] = vars(reader.parse_args(_with_values(config.words_of(table, reader, path))))
    except config.ConfigError as error:
        reader.error(str(error))
    written.pop("app", None)
    if app is not None:
        written["app"] = app
    return {**written, **given}


def main(arguments: list[str]) -> NoReturn:
    """Run `oneloop serve`.

    Args:
        arguments: the command line after `oneloop serve`.

    Raises:
        SystemExit: always: with 0 after SIGINT or SIGTERM, 2 if the command line is wrong, 3 if the start fails.
    """
    reader = parser()
    given: Any = _read(reader, arguments)
    app = given.pop("app", None)
    if app is None:
        reader.error("no application given. Write oneloop serve package.module:app")
    if "stats_socket" in given:
        # Each process with a loop opens its own socket.
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
        # Interrupted before the server was ready.
        status = 0
    # Further signals must not change the exit status. A second Ctrl-C exits immediately, because threads of the
    # application may delay the exit forever.
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    signal.signal(signal.SIGINT, lambda *_: os._exit(status))
    atexit.register(signal.signal, signal.SIGINT, signal.SIG_IGN)
    raise SystemExit(status)
