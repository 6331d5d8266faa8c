"""`Options`: the checked options of `serve`, `run` and the command `oneloop serve`.

Names and meanings are uvicorn's where uvicorn has the option. `given.Given` has the same names as keyword arguments.
"""

from __future__ import annotations

import os
import re
from collections.abc import Collection, Iterable
from dataclasses import dataclass, fields
from pathlib import Path
from typing import TYPE_CHECKING

from oneloop import cgroup
from oneloop.http.proxies import Trust

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from types import UnionType

    from oneloop.http.given import AccessFormat, Headers, HttpVersions, Interface, Lifespan, LogConfig

__all__ = ["OptionError", "Options"]

LOG_LEVELS = ("critical", "error", "warning", "info", "debug", "trace")
CHOICES: dict[str, tuple[str, ...]] = {
    "interface": ("auto", "asgi3", "asgi2", "wsgi"),
    "lifespan": ("auto", "on", "off"),
    "http": ("auto", "1", "2", "h2c"),
    "access_log_format": ("text", "json"),
    "log_level": LOG_LEVELS,
}
# RFC 9110, section 5.6.2: a token.
_NAME = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+")
# Section 5.5: control characters, other than a tab, are not valid in values.
_FORBIDDEN = re.compile(r"[\x00-\x08\x0a-\x1f\x7f]")
# The server itself sets the headers that determine where a response ends.
_FRAMING = ("connection", "content-length", "keep-alive", "trailer", "transfer-encoding", "upgrade")
_AT_LEAST = {
    "backlog": 1,
    "uds_mode": 0,
    "workers": 1,
    "threads": 1,
    "limit_concurrency": 1,
    "limit_max_requests": 1,
    "limit_max_requests_jitter": 0,
    "limit_memory": 1,
    "redirect_https": 1,
    "max_line_size": 16,
    "max_header_size": 64,
    "max_headers": 1,
    "max_body_size": 0,
    "http2_streams": 1,
    "http2_stream_window": 65_535,
    "http2_connection_window": 65_535,
    "http2_frame_size": 16_384,
    "ws_max_size": 1,
    "timeout_keep_alive": 0,
    "timeout_header": 0,
    "timeout_body": 0,
    "timeout_send": 0,
    "timeout_graceful_shutdown": 0,
    "timeout_worker_healthcheck": 0,
    "ws_ping_interval": 0,
    "ws_ping_timeout": 0,
    "reload_delay": 0,
}
MOST_HEADERS = 256
_LARGEST = 1 << 62
_AT_MOST = {
    "backlog": (1 << 31) - 1,
    "fd": (1 << 31) - 1,
    "workers": 1024,
    "threads": 1 << 16,
    "redirect_https": 65535,
    "limit_concurrency": _LARGEST,
    "max_line_size": _LARGEST,
    "max_header_size": _LARGEST,
    "max_headers": MOST_HEADERS,
    "max_body_size": _LARGEST,
    "http2_streams": 1 << 30,
    "http2_stream_window": (1 << 31) - 1,
    "http2_connection_window": (1 << 31) - 1,
    "http2_frame_size": (1 << 24) - 1,
    "ws_max_size": _LARGEST,
    "uds_mode": 0o7777,
}


_KINDS: dict[str, tuple[tuple[type, ...], str]] = {
    "int": ((int,), "a whole number"),
    "float": ((int, float), "a number"),
    "str": ((str,), "a text"),
    "bool": ((bool, int), "True or False"),
    "str | os.PathLike[str]": ((str, os.PathLike), "a path"),
}
"""For each field type: the accepted classes, and their description for error messages."""


class OptionError(ValueError):
    """An option is wrong, or cannot be combined with another one; the message says what to do."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Options:
    """The options of a server. Sizes are in bytes, times in seconds. The reference describes each option."""

    host: str = "127.0.0.1"
    port: int = 8000
    uds: str | None = None
    uds_mode: int | None = None
    fd: int | None = None
    backlog: int = 2048
    reuse_port: bool = False
    workers: int | None = None
    reload: bool = False
    reload_dirs: Sequence[str] = ()
    reload_includes: Sequence[str] = ()
    reload_excludes: Sequence[str] = ()
    reload_delay: float = 0.25
    interface: Interface = "auto"
    factory: bool = False
    app_dir: str = ""
    env_file: str | os.PathLike[str] | None = None
    lifespan: Lifespan = "auto"
    http: HttpVersions = "auto"
    root_path: str = ""
    headers: Headers = ()
    server_header: bool = True
    date_header: bool = True
    proxy_headers: bool = True
    forwarded_allow_ips: str | Sequence[str] | None = None
    proxy_protocol: bool = False
    proxy_allow_ips: str | Sequence[str] = "*"
    static: Sequence[tuple[str, str]] = ()
    compress: bool = False
    redirect_https: int | None = None
    health: str | None = None
    metrics: str | None = None
    threads: int = 8
    green: bool = False
    log_config: LogConfig | None = None
    log_level: str | None = None
    access_log: bool = True
    access_log_format: AccessFormat = "text"
    use_colors: bool | None = None
    limit_concurrency: int | None = None
    limit_max_requests: int | None = None
    limit_max_requests_jitter: int = 0
    limit_memory: int | None = None
    max_line_size: int = 8 * 1024
    max_header_size: int = 64 * 1024
    max_headers: int = 100
    max_body_size: int | None = None
    http2_streams: int = 100
    http2_stream_window: int = 256 * 1024
    http2_connection_window: int = 1024 * 1024
    http2_frame_size: int = 16 * 1024
    timeout_header: float = 10.0
    timeout_body: float = 60.0
    timeout_send: float = 60.0
    timeout_keep_alive: float = 5.0
    timeout_graceful_shutdown: float | None = None
    timeout_worker_healthcheck: float = 30.0
    ws_max_size: int = 16 * 1024 * 1024
    ws_ping_interval: float | None = 20.0
    ws_ping_timeout: float | None = 20.0
    ws_per_message_deflate: bool = True
    ssl_certfile: str | os.PathLike[str] | None = None
    ssl_keyfile: str | os.PathLike[str] | None = None
    ssl_keyfile_password: str | None = None
    # ssl.PROTOCOL_TLS_SERVER and ssl.CERT_NONE as numbers, so that a parent process does not import ssl.
    ssl_version: int = 17
    ssl_cert_reqs: int = 0
    ssl_ca_certs: str | os.PathLike[str] | None = None
    ssl_ciphers: str | None = None

    def __post_init__(self) -> None:
        """Check every option.

        Raises:
            OptionError: an option is wrong, or two options cannot be combined.
        """
        self._check_kinds()
        self._check_numbers()
        self._check_listening()
        self._check_texts()
        self._check_files()
        self._check_processes()
        self._resolve_paths()
        # Called to check the addresses.
        self.trust()
        self.proxies()

    def _check_kinds(self) -> None:
        for one in fields(self):
            value = getattr(self, one.name)
            kinds, said = _KINDS.get(str(one.type).removesuffix(" | None"), ((object,), ""))
            is_none = value is None and str(one.type).endswith("None")
            # In Python a bool is an int, but as a number it is probably a mistake.
            if not (is_none or isinstance(value, kinds)) or (isinstance(value, bool) and bool not in (*kinds, object)):
                raise OptionError(f"{flag(one.name)} must be {said}, not {value!r}")
        self._check_pairs("headers", "(name, value)", str)
        self._check_pairs("static", "(URL, directory)", str | os.PathLike)
        for name in ("reload_dirs", "reload_includes", "reload_excludes"):
            given = getattr(self, name)
            if isinstance(given, str | os.PathLike):
                # As in uvicorn, one text is a list of it. Otherwise its characters would be the list.
                object.__setattr__(self, name, (given,))
            elif not isinstance(given, Collection) or not all(isinstance(one, str | os.PathLike) for one in given):
                raise OptionError(f"{name} must be a text or a list of texts, not {given!r}")

    def _check_pairs(self, name: str, shape: str, kind: type[object] | UnionType) -> None:
        """Check pairs of a text and a value of a kind."""
        given = getattr(self, name)
        for pair in given if isinstance(given, Iterable) else [given]:
            if not isinstance(pair, tuple | list) or len(pair) != 2:
                raise OptionError(f"{name} must be pairs of {shape}, not {pair!r}")
            if not (isinstance(pair[0], str) and isinstance(pair[1], kind)):
                raise OptionError(f"{name} must be pairs of texts, not {pair!r}")

    def _check_numbers(self) -> None:
        for name, least in _AT_LEAST.items():
            value = getattr(self, name)
            if value is not None and not value >= least:
                raise OptionError(f"{flag(name)} must be at least {least}, not {value}")
        for name, most in _AT_MOST.items():
            value = getattr(self, name)
            if value is not None and value > most:
                raise OptionError(f"{flag(name)} must be at most {most}, not {value}")
        if not 0 <= self.port <= 65535:
            raise OptionError(f"--port must be a number from 0 to 65535, not {self.port}")
        for name, known in CHOICES.items():
            value = getattr(self, name)
            if value is not None and value not in known:
                raise OptionError(f"{flag(name)} must be one of {', '.join(known)}, not {value!r}")
        if self.ssl_cert_reqs not in (0, 1, 2):
            raise OptionError(
                f"--ssl-cert-reqs must be 0 (none), 1 (optional) or 2 (required), not {self.ssl_cert_reqs}"
            )

    def _check_listening(self) -> None:
        if self.uds == "":
            raise OptionError("--uds must be the path of a unix socket, and is empty")
        if self.uds is not None and self.fd is not None:
            raise OptionError("--uds and --fd both select the socket: use only one of them")
        if self.reuse_port and (self.uds is not None or self.fd is not None):
            raise OptionError("--reuse-port needs --host and --port: it cannot be combined with --uds or --fd")
        if self.fd is not None and self.fd < 0:
            raise OptionError(f"--fd must be the number of an open descriptor, not {self.fd}")

    def _check_texts(self) -> None:
        for name, value in self.headers:
            if not _NAME.fullmatch(name) or _FORBIDDEN.search(value) or not _is_latin(value):
                given = f"{name}:{value}"
                raise OptionError(
                    f"--header must be Name:Value, with a name of letters, digits and hyphens, not {given!r}"
                )
            if name.lower() in _FRAMING:
                raise OptionError(f"--header {name}: the server sets this header itself, so leave it out")
        if self.root_path and not self.root_path.startswith("/"):
            raise OptionError(f"--root-path must begin with a slash, not {self.root_path!r}")
        for name in ("metrics", "health"):
            path = getattr(self, name)
            if path is None:
                continue
            if not path.startswith("/"):
                raise OptionError(f"--{name} must be a path that begins with a slash, not {path!r}")
            self._check_under_root_path(name, path, is_under=path.startswith(self.root_path + "/"))
        if self.health is not None and self.health == self.metrics:
            raise OptionError(f"--health and --metrics cannot both be {self.health}")
        self._check_folders()

    def _check_under_root_path(self, name: str, path: str, *, is_under: bool) -> None:
        """Check a path that is compared with the root path and the request's path together, as clients see them."""
        root = self.root_path
        if root.endswith("/"):
            raise OptionError(f"--{name} needs a --root-path without a slash at its end, not {root!r}")
        if not is_under:
            raise OptionError(
                f"--{name} {path} is never found under --root-path {root}: write the path that clients see,"
                f" {root}{path}"
            )

    def _check_folders(self) -> None:
        for url, folder in self.static:
            if not url.startswith("/"):
                raise OptionError(f"--static must be URL=DIR, where URL begins with a slash, not {url!r}")
            # The root path can also lead into the directory.
            prefix, root = url.rstrip("/") + "/", self.root_path + "/"
            self._check_under_root_path("static", url, is_under=prefix.startswith(root) or root.startswith(prefix))
            if not Path(folder).is_dir():
                raise OptionError(f"--static {url}={folder}: there is no such directory")

    def _check_files(self) -> None:
        for name in ("ssl_certfile", "ssl_keyfile", "ssl_ca_certs", "env_file", "log_config"):
            path = getattr(self, name)
            if isinstance(path, str | os.PathLike) and not Path(path).is_file():
                raise OptionError(f"{flag(name)} {os.fspath(path)}: there is no such file")
        if self.ssl_certfile is not None and self.redirect_https is not None:
            raise OptionError(
                "--redirect-https is for requests without TLS, and with --ssl-certfile there are none: run a second"
                " server on port 80 with --redirect-https and without --ssl-certfile"
            )
        if self.ssl_certfile is None:
            for name in ("ssl_keyfile", "ssl_keyfile_password", "ssl_ca_certs", "ssl_ciphers"):
                if getattr(self, name) is not None:
                    raise OptionError(f"{flag(name)} needs --ssl-certfile, the file with the server's certificate")
        if self.ssl_cert_reqs and self.ssl_ca_certs is None:
            raise OptionError(
                "--ssl-cert-reqs needs --ssl-ca-certs, the file with the authorities of the clients' certificates"
            )

    def _resolve_paths(self) -> None:
        """Make the paths absolute that are used after the import: an application can change the current directory."""
        made: dict[str, object] = {
            name: os.path.abspath(value)  # noqa: PTH100 - must not resolve links
            for name in ("ssl_certfile", "ssl_keyfile", "ssl_ca_certs")
            if (value := getattr(self, name)) is not None
        }
        if self.static:
            made["static"] = [(url, os.path.abspath(folder)) for url, folder in self.static]  # noqa: PTH100
        for name, value in made.items():
            object.__setattr__(self, name, value)

    def _check_processes(self) -> None:
        if self.limit_max_requests_jitter and self.limit_max_requests is None:
            raise OptionError("--limit-max-requests-jitter needs --limit-max-requests")
        if not self.proxy_protocol and self.proxy_allow_ips != "*":
            raise OptionError("--proxy-allow-ips needs --proxy-protocol")
        if not self.reload and (self.reload_dirs or self.reload_includes or self.reload_excludes):
            raise OptionError("--reload-dir, --reload-include and --reload-exclude need --reload")
        for folder in self.reload_dirs:
            if not Path(folder).is_dir():
                raise OptionError(f"--reload-dir {folder}: there is no such directory")
        if self.workers is None and not self.reload:
            self._worker_count()

    def _worker_count(self) -> int:
        if self.workers is not None:
            return self.workers
        text = os.environ.get("WEB_CONCURRENCY", "1")
        if text == "auto":
            return min(cgroup.usable_cpus(), _AT_MOST["workers"])
        if not text.isdecimal() or not 1 <= int(text) <= _AT_MOST["workers"]:
            raise OptionError(
                "the environment variable WEB_CONCURRENCY must be auto or a number of workers from 1"
                f" to {_AT_MOST['workers']}, not {text!r}"
            )
        return int(text)

    @property
    def worker_count(self) -> int:
        """The number of serving processes: `workers`, else the environment variable WEB_CONCURRENCY, else 1."""
        return 1 if self.reload else self._worker_count()

    @property
    def has_parent(self) -> bool:
        """True if a parent process owns the sockets: with several workers, or if workers can be replaced."""
        recycles = self.limit_max_requests is not None or self.limit_memory is not None
        return self.reload or self.worker_count > 1 or recycles

    def trust(self) -> Trust | None:
        """Return the trusted proxies, or None if proxy headers are ignored."""
        if not self.proxy_headers:
            return None
        allowed = self.forwarded_allow_ips
        if allowed is None:
            allowed = os.environ.get("FORWARDED_ALLOW_IPS", "127.0.0.1,::1")
        return _trust("forwarded_allow_ips", allowed)

    def proxies(self) -> Trust:
        """Return the peers whose PROXY headers are taken."""
        return _trust("proxy_allow_ips", self.proxy_allow_ips)

    @classmethod
    def from_given(cls, given: Mapping[str, object]) -> Options:
        """Create options from keyword arguments.

        Raises:
            TypeError: there is no such option.
            OptionError: an option is wrong.
        """
        known = {field.name for field in fields(cls)}
        for name in given:
            if name not in known:
                raise TypeError(f"there is no option {name!r}: see the fields of oneloop.http.Options")
        return cls(**given)  # type: ignore[arg-type] # Given has checked the types


def flag(name: str) -> str:
    """Return the name of an option on the command line."""
    # Options that can be repeated have the singular there.
    is_repeated = name in ("headers", "reload_dirs", "reload_includes", "reload_excludes")
    return "--" + (name[:-1] if is_repeated else name).replace("_", "-")


def _is_latin(text: str) -> bool:
    try:
        text.encode("latin-1")
    except UnicodeEncodeError:
        return False
    return True


def _trust(name: str, allowed: str | Sequence[str]) -> Trust:
    try:
        return Trust(allowed)
    except ValueError as error:
        raise OptionError(f"{flag(name)}: {error}") from error
