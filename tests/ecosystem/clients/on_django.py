"""Django's models on PostgreSQL in many threads, and its check for what blocks in a coroutine. Argument: the port."""

from __future__ import annotations

import asyncio
import sys
import threading
from typing import Any

import django
from asgiref.sync import sync_to_async
from django.conf import settings
from django.core.exceptions import SynchronousOnlyOperation
from django.core.servers.basehttp import ThreadedWSGIServer, WSGIRequestHandler
from django.http import HttpResponse
from django.urls import path

from tests.ecosystem.clients.parts import at_once, part, raises, run

PORT = int(sys.argv[1])
MANY = 40

settings.configure(
    SECRET_KEY="of the test",
    ALLOWED_HOSTS=["*"],
    USE_TZ=True,
    ROOT_URLCONF=__name__,
    DATABASES={
        "default": {
            "ENGINE": "django.db.backends.postgresql",
            "HOST": "localhost",
            "PORT": PORT,
            "USER": "tester",
            "NAME": "postgres",
        }
    },
)
django.setup()

from django.core.handlers.wsgi import WSGIHandler  # noqa: E402 - after the settings
from django.db import connection, models, transaction  # noqa: E402


class Counter(models.Model):
    number = models.IntegerField(default=0)

    class Meta:  # noqa: D106 - Django's
        app_label = "green"


def together(request: Any) -> HttpResponse:
    with connection.cursor() as cursor:
        cursor.execute("SELECT 6 * 7")
        (answer,) = cursor.fetchone()
    all_here.wait()
    return HttpResponse(str(answer))


urlpatterns = [path("together", together)]
all_here = threading.Barrier(MANY)


def make_table() -> None:
    with connection.schema_editor() as editor:
        if Counter._meta.db_table in connection.introspection.table_names():
            editor.delete_model(Counter)
        editor.create_model(Counter)


def close_connection() -> None:
    """That of the calling thread."""
    connection.close()


def close_after(function: Any) -> Any:
    """What a thread does with its connection."""
    try:
        return function()
    finally:
        connection.close()


@part
def every_thread_has_its_connection() -> None:
    make_table()
    counter = Counter.objects.create()

    def add() -> int:
        with transaction.atomic():
            locked = Counter.objects.select_for_update().get(pk=counter.pk)
            locked.number += 1
            locked.save()
        with connection.cursor() as cursor:
            cursor.execute("SELECT pg_backend_pid()")
            pid = int(cursor.fetchone()[0])
        all_here.wait()
        return pid

    assert len(set(at_once(MANY, lambda _: close_after(add)))) == MANY
    counter.refresh_from_db()
    assert counter.number == MANY
    connection.close()


@part
def blocking_is_allowed_where_no_loop_runs() -> None:
    """In a thread, while another one runs a loop; not in that one's coroutines."""
    make_table()
    begun, go_on = threading.Event(), threading.Event()

    async def coroutine() -> int:
        raises(SynchronousOnlyOperation, Counter.objects.count)
        begun.set()
        count = int(await Counter.objects.acount())
        while not go_on.is_set():
            await asyncio.sleep(0.001)
        await sync_to_async(close_connection)()
        return count

    counts: list[int] = []
    running = threading.Thread(target=lambda: counts.append(asyncio.run(coroutine())))
    running.start()
    begun.wait()
    assert at_once(5, lambda _: close_after(Counter.objects.count)) == [0] * 5
    go_on.set()
    running.join()
    assert counts == [0]
    connection.close()


@part
def its_asynchronous_queries_in_many_threads() -> None:
    make_table()

    async def coroutine(number: int) -> int:
        made = await Counter.objects.acreate(number=number)
        got = await Counter.objects.aget(pk=made.pk)
        await sync_to_async(close_connection)()
        return int(got.number)

    assert at_once(10, lambda number: asyncio.run(coroutine(number))) == list(range(10))
    connection.close()


@part
def its_own_server() -> None:
    """The one of `runserver`."""
    import requests

    class Handler(WSGIRequestHandler):  # type: ignore[misc]
        def log_message(self, *_: object) -> None:
            """Nothing."""

    class Server(ThreadedWSGIServer):  # type: ignore[misc]
        request_queue_size = 2 * MANY
        daemon_threads = False

    with Server(("127.0.0.1", 0), Handler) as server:
        server.set_app(WSGIHandler())
        serving = threading.Thread(target=server.serve_forever)
        serving.start()
        url = f"http://127.0.0.1:{server.server_port}/together"
        assert [answer.text for answer in at_once(MANY, lambda _: requests.get(url))] == ["42"] * MANY
        server.shutdown()
        serving.join()


if __name__ == "__main__":
    run()
