"""psycopg2, a driver in C, made green by psycogreen. Argument: the port of PostgreSQL."""

from __future__ import annotations

import sys
from typing import Any

import psycopg2
from psycogreen.gevent import patch_psycopg

from tests.ecosystem.clients.parts import at_once, part, raises, run

PORT = int(sys.argv[1])
MANY = 20
patch_psycopg()


def connect(options: str = "") -> Any:
    connection = psycopg2.connect(
        host="127.0.0.1", port=PORT, user="tester", dbname="postgres", options=options, sslmode="disable"
    )
    connection.autocommit = True
    return connection


def ask(connection: Any, query: str, *values: object) -> list[Any]:
    with connection.cursor() as cursor:
        cursor.execute(query, values)
        return list(cursor.fetchall())


@part
def queries_at_once() -> None:
    """Each waits for all the others' locks: the server holds them only if all are asked for at once."""

    def one(number: int) -> list[Any]:
        connection = connect("-c statement_timeout=100000")
        ask(connection, "SELECT pg_advisory_lock(%s)", number)
        count = "SELECT count(*) FROM pg_locks WHERE locktype = 'advisory'"
        while ask(connection, count) != [(MANY,)]:
            ask(connection, "SELECT pg_sleep(0.005)")
        connections.append(connection)
        return ask(connection, "SELECT %s", number)

    connections: list[Any] = []
    assert at_once(MANY, one) == [[(number,)] for number in range(MANY)]
    for connection in connections:
        connection.close()


@part
def large_results_and_errors() -> None:
    def one(_: int) -> None:
        connection = connect("-c statement_timeout=500")
        raises(psycopg2.errors.QueryCanceled, lambda: ask(connection, "SELECT pg_sleep(30)"))
        ask(connection, "SELECT set_config('statement_timeout', '100s', false)")
        rows = ask(connection, "SELECT n, repeat('x', 100) FROM generate_series(1, 3000) AS n")
        assert [row[0] for row in rows] == list(range(1, 3001))
        connection.close()

    at_once(MANY, one)


if __name__ == "__main__":
    run()
