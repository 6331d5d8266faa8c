"""psycopg, in pure Python, on PostgreSQL, and its pool. Arguments: the port, and the server's certificate."""

from __future__ import annotations

import sys
import threading
import time
from typing import Any

import psycopg
import psycopg_pool

from tests.ecosystem.clients.parts import at_once, part, raises, run

PORT, CERTIFICATE = int(sys.argv[1]), sys.argv[2]
MANY = 50
WHERE = f"host=localhost port={PORT} user=tester dbname=postgres"
SECURE = f"{WHERE} sslmode=verify-full sslrootcert={CERTIFICATE}"
PLAIN = f"{WHERE} sslmode=disable"
TOGETHER = """
CREATE OR REPLACE FUNCTION together(few int) RETURNS text LANGUAGE plpgsql AS $$
DECLARE have int;
BEGIN
    PERFORM nextval('arrivals');
    LOOP
        SELECT last_value INTO have FROM arrivals;
        EXIT WHEN have >= few;
        PERFORM pg_sleep(0.005);
    END LOOP;
    RETURN 'all';
END $$
"""


def connect(where: str = PLAIN, **more: Any) -> psycopg.Connection[Any]:
    return psycopg.connect(where, autocommit=True, **more)


def ask(connection: psycopg.Connection[Any], query: str, *values: object) -> list[Any]:
    return connection.execute(query, values).fetchall()  # type: ignore[arg-type]


def prepare() -> None:
    with connect(options="-c client_min_messages=warning") as connection:
        connection.execute("DROP SEQUENCE IF EXISTS arrivals")
        connection.execute("CREATE SEQUENCE arrivals")
        connection.execute(TOGETHER)  # type: ignore[arg-type]


def wait_for_sleepers(control: psycopg.Connection[Any], count: int, mark: int) -> None:
    query = "SELECT count(*) FROM pg_stat_activity WHERE wait_event = 'PgSleep' AND query LIKE %s"
    while ask(control, query, f"%({mark})%") != [(count,)]:
        time.sleep(0.005)


@part
def it_is_the_one_in_python() -> None:
    assert psycopg.pq.__impl__ == "python"


@part
def queries_at_once() -> None:
    for where in (PLAIN, SECURE):
        prepare()

        def one(_: int, where: str = where) -> object:
            with connect(where) as connection:
                assert connection.pgconn.ssl_in_use == (where is SECURE)
                return ask(connection, "SELECT together(%s)", MANY)

        assert at_once(MANY, one) == [[("all",)]] * MANY


@part
def the_server_sleeps() -> None:
    connections = at_once(MANY, lambda _: connect())
    with connect() as control:

        def watch() -> None:
            wait_for_sleepers(control, MANY, 71)
            for connection in connections:
                connection.cancel()

        watching = threading.Thread(target=watch)
        watching.start()
        cancelled = psycopg.errors.QueryCanceled
        at_once(MANY, lambda number: raises(cancelled, lambda: ask(connections[number], "SELECT pg_sleep(71)")))
        watching.join()
    for connection in connections:
        connection.close()


@part
def more_threads_than_connections() -> None:
    prepare()
    with psycopg_pool.ConnectionPool(PLAIN, min_size=2, max_size=5, timeout=60) as pool:

        def one(_: int) -> list[Any]:
            with pool.connection() as connection:
                return ask(connection, "SELECT together(5), pg_backend_pid()")

        answers = at_once(MANY, one)
        assert len({answer[0][1] for answer in answers}) <= 5
        assert [answer[0][0] for answer in answers] == ["all"] * MANY
        taken = [pool.getconn() for _ in range(5)]
        at_once(10, lambda _: raises(psycopg_pool.PoolTimeout, lambda: pool.getconn(timeout=0.02)))
        for connection in taken:
            pool.putconn(connection)


@part
def large_results_and_copies() -> None:
    def one(_: int) -> None:
        with connect(SECURE) as connection, connection.cursor() as cursor:
            cursor.execute("SELECT n, repeat('x', 100) FROM generate_series(1, 3000) AS n")
            assert [row[0] for row in cursor] == list(range(1, 3001))
            cursor.execute("CREATE TEMPORARY TABLE copied (number int, word text)")
            with cursor.copy("COPY copied FROM STDIN") as copy:
                for number in range(1000):
                    copy.write_row((number, "word" * 20))
            with cursor.copy("COPY copied TO STDOUT") as copy:
                assert len(list(copy.rows())) == 1000

    at_once(10, one)


@part
def notifications() -> None:
    ready = threading.Barrier(11)

    def listen(_: int) -> str:
        with connect() as connection:
            connection.execute("LISTEN channel")
            ready.wait()
            return next(connection.notifies(timeout=60)).payload

    def tell() -> None:
        with connect() as connection:
            ready.wait()
            connection.execute("NOTIFY channel, 'hello'")

    telling = threading.Thread(target=tell)
    telling.start()
    assert at_once(10, listen) == ["hello"] * 10
    telling.join()


@part
def timeouts() -> None:
    def one(_: int) -> None:
        with connect(options="-c statement_timeout=500") as connection:
            raises(psycopg.errors.QueryCanceled, lambda: ask(connection, "SELECT pg_sleep(30)"))
            assert list(connection.notifies(timeout=0.02)) == []

    at_once(20, one)


@part
def a_server_that_goes_away() -> None:
    connections = at_once(20, lambda _: connect())
    with connect() as control:

        def end_them() -> None:
            wait_for_sleepers(control, 20, 77)
            ask(
                control, "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE query LIKE 'SELECT pg_sleep(77)'"
            )

        ending = threading.Thread(target=end_them)
        ending.start()
        lost = psycopg.OperationalError
        at_once(20, lambda number: raises(lost, lambda: ask(connections[number], "SELECT pg_sleep(77)")))
        ending.join()
    assert all(connection.closed for connection in connections)


if __name__ == "__main__":
    run()
