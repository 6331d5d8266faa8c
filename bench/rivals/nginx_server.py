"""nginx with one process. It serves the files in the folder `--path`, which also contains its own files.

With `--program cached` it keeps files open, and sends without TCP_CORK; with `cached-cork`, with it. It then serves an
old file for up to a minute after the file was replaced, which oneloop and the plain settings do not.
"""

from __future__ import annotations

import os
from pathlib import Path

from bench.rivals import endpoint

#: One process without workers, so that it ends with the benchmarks.
CONFIG = """
daemon off;
master_process off;
worker_processes 1;
pid {folder}/nginx.pid;
error_log {folder}/error.log crit;
events {{ worker_connections 20000; }}
http {{
    access_log off;
    sendfile on;
    {files}
    keepalive_timeout {keep_alive_s};
    keepalive_requests 1000000000;
    default_type text/plain;
    client_body_temp_path {folder}/body;
    proxy_temp_path {folder}/proxy;
    fastcgi_temp_path {folder}/fastcgi;
    uwsgi_temp_path {folder}/uwsgi;
    scgi_temp_path {folder}/scgi;
    server {{
        listen 127.0.0.1:{port} backlog={backlog};
        root {folder};
    }}
}}
"""
_CACHE = "open_file_cache max=1000 inactive=60s; open_file_cache_valid 60s;"
PROGRAMS = {
    "usual": "tcp_nopush on;",
    "cached": f"tcp_nopush off; {_CACHE}",
    "cached-cork": f"tcp_nopush on; {_CACHE}",
}


def main() -> None:
    where = endpoint.parse()
    program = endpoint.find_nginx()
    if program is None:
        raise SystemExit("nginx is not installed")
    port = endpoint.free_port()
    config = Path(where.path) / "nginx.conf"
    text = CONFIG.format(
        folder=where.path,
        port=port,
        keep_alive_s=endpoint.KEEP_ALIVE_S,
        backlog=endpoint.BACKLOG,
        files=PROGRAMS[where.program],
    )
    config.write_text(text)
    endpoint.announce_when_served(port)
    os.execv(program, [program, "-p", where.path, "-c", str(config), "-e", f"{where.path}/error.log"])


if __name__ == "__main__":
    main()
