"""`Given`: the keyword arguments of `serve` and `run`, for type checkers.

Not imported at run time: creating the class takes longer than the whole of `options`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal, TypeAlias, TypedDict

if TYPE_CHECKING:
    import os
    from collections.abc import Sequence

__all__ = ["Given"]

Interface: TypeAlias = Literal["auto", "asgi3", "asgi2", "wsgi"]
Lifespan: TypeAlias = Literal["auto", "on", "off"]
HttpVersions: TypeAlias = Literal["auto", "1", "2", "h2c"]
AccessFormat: TypeAlias = Literal["text", "json"]
Headers: TypeAlias = "Sequence[tuple[str, str]]"
LogConfig: TypeAlias = "str | os.PathLike[str] | dict[str, object]"


class Given(TypedDict, total=False):
    """The keyword arguments of `serve` and `run`: the fields of `Options`."""

    host: str
    port: int
    uds: str | None
    uds_mode: int | None
    fd: int | None
    backlog: int
    reuse_port: bool
    workers: int | None
    reload: bool
    reload_dirs: Sequence[str]
    reload_includes: Sequence[str]
    reload_excludes: Sequence[str]
    reload_delay: float
    interface: Interface
    factory: bool
    app_dir: str
    env_file: str | os.PathLike[str] | None
    lifespan: Lifespan
    http: HttpVersions
    root_path: str
    headers: Headers
    server_header: bool
    date_header: bool
    proxy_headers: bool
    forwarded_allow_ips: str | Sequence[str] | None
    proxy_protocol: bool
    proxy_allow_ips: str | Sequence[str]
    static: Sequence[tuple[str, str]]
    compress: bool
    redirect_https: int | None
    health: str | None
    metrics: str | None
    threads: int
    green: bool
    log_config: LogConfig | None
    log_level: str | None
    access_log: bool
    access_log_format: AccessFormat
    use_colors: bool | None
    limit_concurrency: int | None
    limit_max_requests: int | None
    limit_max_requests_jitter: int
    limit_memory: int | None
    max_line_size: int
    max_header_size: int
    max_headers: int
    max_body_size: int | None
    http2_streams: int
    http2_stream_window: int
    http2_connection_window: int
    http2_frame_size: int
    timeout_header: float
    timeout_body: float
    timeout_send: float
    timeout_keep_alive: float
    timeout_graceful_shutdown: float | None
    timeout_worker_healthcheck: float
    ws_max_size: int
    ws_ping_interval: float | None
    ws_ping_timeout: float | None
    ws_per_message_deflate: bool
    ssl_certfile: str | os.PathLike[str] | None
    ssl_keyfile: str | os.PathLike[str] | None
    ssl_keyfile_password: str | None
    ssl_version: int
    ssl_cert_reqs: int
    ssl_ca_certs: str | os.PathLike[str] | None
    ssl_ciphers: str | None
