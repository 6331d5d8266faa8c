"""A process that serves `wsgi_apps`, or another application: `wsgi_server.py green|threads OPTIONS`.

Options are those of the native server, in JSON; `app` is a module and a name. It prints its port, and ends with its
stdin.
"""

from __future__ import annotations

import asyncio
import importlib
import json
import sys
from typing import Any


async def serve(options: dict[str, Any]) -> None:
    from oneloop import _native
    from tests.http import wsgi_apps

    loop = asyncio.get_running_loop()
    module, name = options.pop("app", "tests.http.wsgi_apps:app").split(":")
    loaded = importlib.import_module(module)
    path = options.pop("uds", None)
    native: Any = _native
    http = native.HttpServer(loop, getattr(loaded, name), interface="wsgi", **options)
    if loaded is wsgi_apps:
        wsgi_apps.server = http
    if path is not None:
        server: Any = await loop.create_unix_server(http, path)
        print("0", flush=True)
    else:
        server = await loop.create_server(http, "127.0.0.1", 0, backlog=1024)
        print(server.sockets[0].getsockname()[1], flush=True)
    ended = loop.create_future()
    loop.add_reader(0, ended.cancel)
    await asyncio.wait([ended])
    loop.remove_reader(0)
    server.close()
    http.shut_down()
    http.abort()
    for thread in http.end_threads():
        await asyncio.to_thread(thread.join, 10)


def main() -> None:
    mode, given = sys.argv[1:]
    options: dict[str, Any] = {"green": mode == "green", **json.loads(given)}
    if mode == "green":
        from oneloop.green import monkey

        monkey.patch_all()
    from oneloop.loop import Loop

    with asyncio.Runner(loop_factory=Loop) as runner:
        runner.run(serve(options))


if __name__ == "__main__":
    main()
