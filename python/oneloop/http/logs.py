"""The loggers `oneloop.error` and `oneloop.access`: their default configuration, and `--log-config`.

The formatters have the names and fields of uvicorn's, so a configuration for uvicorn needs only other module names. A
configuration that has uvicorn's loggers and none of ours is also used for ours.
"""

from __future__ import annotations

import logging
import os
import sys
import traceback
from copy import copy
from http import HTTPStatus
from pathlib import Path
from typing import TYPE_CHECKING, Any, TextIO

if TYPE_CHECKING:
    from oneloop.http.options import Options

__all__ = ["AccessFormatter", "DefaultFormatter", "LogConfigError", "configure"]

TRACE = 5
_LEVELS = {
    "critical": logging.CRITICAL,
    "error": logging.ERROR,
    "warning": logging.WARNING,
    "info": logging.INFO,
    "debug": logging.DEBUG,
    "trace": TRACE,
}
_LEVEL_COLORS = {TRACE: 34, logging.DEBUG: 36, logging.INFO: 32, logging.WARNING: 33, logging.ERROR: 31}
_LEVEL_COLORS[logging.CRITICAL] = 91
# Only in logs: the client has closed the connection before the response began. nginx has introduced it.
CLIENT_GONE = 499
_STATUS_COLORS = {1: 97, 2: 32, 3: 33, 4: 31, 5: 91}
_LOGGERS = ("oneloop", "oneloop.error", "oneloop.access", "oneloop.asgi")


class LogConfigError(ValueError):
    """The logging configuration cannot be used."""


def configure(options: Options) -> bool:
    """Configure logging according to the options.

    Returns:
        True if access lines have to go through logging, because a configuration is given.

    Raises:
        LogConfigError: the configuration file is wrong.
    """
    logging.addLevelName(TRACE, "TRACE")
    _import_for_tracebacks()
    if options.log_config is None:
        _configure_usual(options)
    else:
        try:
            _configure_from(options.log_config)
        except (OSError, ValueError, TypeError, KeyError, AttributeError, ImportError, RuntimeError) as error:
            raise LogConfigError(f"--log-config: {error}") from error
    if options.log_level is not None:
        for name in ("oneloop.error", "oneloop.access", "oneloop.asgi"):
            logging.getLogger(name).setLevel(_LEVELS[options.log_level])
    return options.log_config is not None


def _import_for_tracebacks() -> None:
    """Let the interpreter import what it needs for a traceback.

    From 3.15 on it does that at the first one, and a server without free descriptors could not report that.
    """
    try:
        raise LogConfigError
    except LogConfigError as error:
        traceback.format_exception(error)


def _configure_usual(options: Options) -> None:
    """Log to stderr, unless the program has added a handler to the logger `oneloop`."""
    logger = logging.getLogger("oneloop")
    if not logger.handlers:
        handler = logging.StreamHandler(sys.stderr)
        handler.setFormatter(DefaultFormatter("%(levelprefix)s %(message)s", use_colors=options.use_colors))
        logger.addHandler(handler)
        logger.propagate = False
    if logger.level == logging.NOTSET:
        logger.setLevel(logging.INFO)
    _configure_asyncio(options)


def _configure_asyncio(options: Options) -> None:
    """Print messages of the loop like ours, with their level, if the program has no handler for them.

    Without any handler, Python prints only the text, whatever `--log-level` says.
    """
    logger = logging.getLogger("asyncio")
    if any(isinstance(handler, _FallbackHandler) for handler in logger.handlers):
        return
    handler = _FallbackHandler(sys.stderr)
    handler.setFormatter(DefaultFormatter("%(levelprefix)s %(message)s", use_colors=options.use_colors))
    if options.log_level is not None:
        handler.setLevel(_LEVELS[options.log_level])
    logger.addHandler(handler)


class _FallbackHandler(logging.StreamHandler[TextIO]):
    """Emits only if the program has added no handler of its own."""

    def filter(self, record: logging.LogRecord) -> bool | logging.LogRecord:
        """Return False if another handler gets the record."""
        others = [*logging.getLogger(record.name).handlers, *logging.getLogger().handlers]
        return super().filter(record) if others == [self] else False


def _configure_from(given: str | os.PathLike[str] | dict[str, object]) -> None:
    if isinstance(given, dict):
        _configure_dict(dict(given))
        return
    path = Path(given)
    if path.suffix == ".json":
        import json

        _configure_dict(json.loads(path.read_text(encoding="utf-8")))
    elif path.suffix in (".yaml", ".yml"):
        try:
            import yaml  # type: ignore[import-untyped,unused-ignore]
        except ImportError as error:
            raise LogConfigError(f"{path}: a YAML file needs the package PyYAML") from error
        _configure_dict(yaml.safe_load(path.read_text(encoding="utf-8")))
    else:
        # Do not disable existing loggers: the application's may have been created before.
        from logging.config import fileConfig

        fileConfig(path, disable_existing_loggers=False)
        _adopt_uvicorns(set(logging.root.manager.loggerDict))


def _configure_dict(config: dict[str, Any]) -> None:
    from logging.config import dictConfig

    dictConfig(config)
    _adopt_uvicorns(set(config.get("loggers", ())))


def _adopt_uvicorns(named: set[str]) -> None:
    """Copy the configuration of uvicorn's loggers to ours, if it does not contain ours."""
    if named & set(_LOGGERS):
        return
    for ours in _LOGGERS:
        theirs = ours.replace("oneloop", "uvicorn")
        if theirs in named:
            source, target = logging.getLogger(theirs), logging.getLogger(ours)
            target.handlers = list(source.handlers)
            target.setLevel(source.level)
            target.propagate = source.propagate


def is_colored(use_colors: bool | None, fd: int) -> bool:
    """Return True if lines to this descriptor have colors."""
    return os.isatty(fd) if use_colors is None else use_colors


def painted(text: str, color: int) -> str:
    """Wrap the text in the escape sequences of a terminal color."""
    return f"\x1b[{color}m{text}\x1b[0m"


class DefaultFormatter(logging.Formatter):
    """Adds the field `levelprefix`: the level's name, padded, and in color on a terminal."""

    def __init__(self, fmt: str | None = None, datefmt: str | None = None, *, use_colors: bool | None = None) -> None:
        super().__init__(fmt=fmt, datefmt=datefmt)
        self.use_colors = is_colored(use_colors, 2)

    def formatMessage(self, record: logging.LogRecord) -> str:  # noqa: N802 - logging's name
        """Format the line of a record."""
        record = copy(record)
        name = record.levelname
        padding = " " * max(8 - len(name), 0)
        if self.use_colors:
            name = painted(name, _LEVEL_COLORS.get(record.levelno, 0))
        record.__dict__["levelprefix"] = f"{name}:{padding}"
        return super().formatMessage(record)


class AccessFormatter(DefaultFormatter):
    """Adds the fields `client_addr`, `request_line` and `status_code` to records of `oneloop.access`."""

    def formatMessage(self, record: logging.LogRecord) -> str:  # noqa: N802 - logging's name
        """Format the line of a record."""
        record = copy(record)
        if isinstance(record.args, tuple) and len(record.args) == 5:
            client, method, target, version, status = record.args
            # The server could not read the request's first line: it is "-".
            line = f"{method} {target} HTTP/{version}" if method != "-" else "-"
            said = status_text(int(str(status)))
            if self.use_colors:
                line, said = painted(line, 1), painted(said, _STATUS_COLORS.get(int(str(status)) // 100, 0))
            # The end of the message, if the response is incomplete.
            said += record.__dict__.get("cut", "")
            record.__dict__.update(client_addr=client, request_line=line, status_code=said)
        return super().formatMessage(record)


def status_text(status: int) -> str:
    """Return a status code with its phrase, if it has one."""
    if status == CLIENT_GONE:
        return f"{status} Client Closed Request"
    try:
        return f"{status} {HTTPStatus(status).phrase}"
    except ValueError:
        return f"{status} "
