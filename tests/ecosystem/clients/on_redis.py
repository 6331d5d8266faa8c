"""redis-py on redis-servers that the program starts itself. Arguments: the server, a certificate and its key."""

from __future__ import annotations

import contextlib
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import redis
from redis.backoff import NoBackoff
from redis.retry import Retry

from tests.ecosystem.clients.parts import at_once, part, raises, run
from tests.ports import free_port

PROGRAM, CERTIFICATE, KEY = sys.argv[1:4]
MANY = 50
make_pool: Any = redis.BlockingConnectionPool
ONCE: Any = {"retry": Retry(NoBackoff(), 0)}


@contextlib.contextmanager
def serving(*more: str) -> Iterator[tuple[str, subprocess.Popen[bytes]]]:
    """The path of its socket, and its process."""
    with tempfile.TemporaryDirectory() as folder:
        path = f"{folder}/socket"
        command = [PROGRAM, "--port", "0", "--save", "", "--dir", folder, "--unixsocket", path, *more]
        process = subprocess.Popen(command, stdout=subprocess.DEVNULL)
        try:
            with redis.Redis(unix_socket_path=path, **ONCE) as probe:
                while True:
                    try:
                        probe.ping()
                        break
                    except redis.ConnectionError:
                        assert process.poll() is None
                        time.sleep(0.01)
            yield path, process
        finally:
            process.kill()
            process.wait()


def push_when_blocked(client: Any, count: int, key: str = "queue") -> None:
    """Items for all, when all of them wait for one."""
    while client.info("clients")["blocked_clients"] < count:
        time.sleep(0.005)
    client.rpush(key, *range(count))


def pop_at_once(client: Any, control: Any, count: int = MANY) -> None:
    pushing = threading.Thread(target=push_when_blocked, args=(control, count))
    pushing.start()
    popped = at_once(count, lambda _: client.blpop(["queue"], timeout=60))
    pushing.join()
    assert sorted(int(value) for _, value in popped) == list(range(count))


@part
def one_client_in_many_threads() -> None:
    with serving() as (path, _), redis.Redis(unix_socket_path=path) as client:
        for _ in range(2):
            pop_at_once(client, client)


@part
def over_tls() -> None:
    port = free_port()
    secure = ["--tls-port", str(port), "--tls-cert-file", CERTIFICATE, "--tls-key-file", KEY]
    with serving(*secure, "--tls-auth-clients", "no") as (path, _):
        with (
            redis.Redis("localhost", port, ssl=True, ssl_ca_certs=CERTIFICATE) as client,
            redis.Redis(unix_socket_path=path) as control,
        ):
            # Each connection loads the system's certificates, which takes long.
            pop_at_once(client, control, 10)


@part
def more_threads_than_connections() -> None:
    with serving() as (path, _):
        pool = make_pool(connection_class=redis.UnixDomainSocketConnection, path=path, max_connections=5, timeout=60)
        with redis.Redis(connection_pool=pool) as client:
            at_once(MANY, lambda _: [client.incr("counter") for _ in range(20)])
            assert client.get("counter") == b"1000"
            assert client.info("clients")["connected_clients"] <= 6
        pool.disconnect()


@part
def a_pool_that_has_none_left() -> None:
    with serving() as (path, _), redis.Redis(unix_socket_path=path) as control:
        pool = make_pool(connection_class=redis.UnixDomainSocketConnection, path=path, max_connections=1, timeout=0.05)
        with redis.Redis(connection_pool=pool) as client:
            popping = threading.Thread(target=client.blpop, args=(["queue"], 30))
            popping.start()
            while control.info("clients")["blocked_clients"] < 1:
                time.sleep(0.005)
            at_once(10, lambda _: raises(redis.ConnectionError, lambda: client.get("key")))
            control.rpush("queue", 1)
            popping.join()


@part
def timeouts() -> None:
    with serving() as (path, _):
        with redis.Redis(unix_socket_path=path, socket_timeout=2, **ONCE) as client:
            at_once(20, lambda _: raises(redis.TimeoutError, lambda: client.blpop(["never"], 30)))
            assert at_once(20, lambda _: client.ping()) == [True] * 20


@part
def subscriptions() -> None:
    with serving() as (path, _), redis.Redis(unix_socket_path=path) as client:
        heard: list[bytes] = []
        ready = threading.Barrier(11)

        def listen(_: int) -> None:
            with client.pubsub() as subscription:
                subscription.subscribe("channel")
                for message in subscription.listen():
                    if message["type"] == "subscribe":
                        ready.wait()
                    else:
                        heard.append(message["data"])
                        return

        publishing = threading.Thread(target=lambda: (ready.wait(), client.publish("channel", "hello")))
        publishing.start()
        at_once(10, listen)
        publishing.join()
        assert heard == [b"hello"] * 10

        told = threading.Event()
        with client.pubsub() as subscription:
            subscription.subscribe(other=lambda _: told.set())
            listener = subscription.run_in_thread(sleep_time=0.01)
            client.publish("other", "hello")
            told.wait()
            listener.stop()
            listener.join()


@part
def locks_and_pipelines() -> None:
    with serving() as (path, _), redis.Redis(unix_socket_path=path) as client:
        inside: list[int] = []

        def one(number: int) -> None:
            with client.lock("lock", sleep=0.002):
                inside.append(number)
                assert len(inside) == 1
                with client.pipeline() as pipeline:
                    pipeline.incr("a")
                    pipeline.incr("b")
                    pipeline.execute()
                inside.clear()

        at_once(20, one)
        assert client.mget("a", "b") == [b"20", b"20"]


@part
def a_server_that_goes_away() -> None:
    with serving() as (path, process), redis.Redis(unix_socket_path=path, **ONCE) as client:

        def end_it() -> None:
            while client.info("clients")["blocked_clients"] < MANY:
                time.sleep(0.005)
            process.kill()

        ending = threading.Thread(target=end_it)
        ending.start()
        at_once(MANY, lambda _: raises(redis.ConnectionError, lambda: client.blpop(["never"], 30)))
        ending.join()
        assert process.wait() == -9
        assert Path(path).exists()
        at_once(5, lambda _: raises(redis.ConnectionError, client.ping))


if __name__ == "__main__":
    run()
