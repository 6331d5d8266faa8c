"""PyMySQL on MariaDB. Arguments: the port, and the certificate that the server shows."""

from __future__ import annotations

import sys
import threading
import time
from typing import Any

import pymysql
from pymysql.cursors import SSCursor

from tests.ecosystem.clients.parts import at_once, part, raises, run

PORT, CERTIFICATE = int(sys.argv[1]), sys.argv[2]
SECURE = {"ssl_disabled": False, "ssl_ca": CERTIFICATE}
MANY = 50
TOGETHER = """
CREATE OR REPLACE PROCEDURE together(few INT) BEGIN
    DECLARE have INT DEFAULT 0;
    UPDATE arrivals SET number = number + 1;
    WHILE have < few DO
        DO SLEEP(0.005);
        SELECT number INTO have FROM arrivals;
    END WHILE;
    SELECT 'all';
END
"""


def connect(**more: Any) -> Any:
    more = {"database": "green", "autocommit": True, "ssl_disabled": True, **more}
    return pymysql.connect(host="localhost", port=PORT, user="root", **more)


def ask(connection: Any, query: str, *values: object) -> Any:
    with connection.cursor() as cursor:
        cursor.execute(query, values)
        return cursor.fetchall()


def prepare() -> None:
    with connect(database=None) as connection:
        ask(connection, "CREATE DATABASE IF NOT EXISTS green")
        ask(connection, "USE green")
        ask(connection, "CREATE OR REPLACE TABLE arrivals (number INT) ENGINE=MEMORY")
        ask(connection, "INSERT INTO arrivals VALUES (0)")
        ask(connection, TOGETHER)


@part
def queries_at_once() -> None:
    for more in ({}, SECURE):
        prepare()

        def one(_: int, more: dict[str, Any] = more) -> object:
            with connect(**more) as connection:
                assert bool(ask(connection, "SHOW STATUS LIKE 'ssl_cipher'")[0][1]) == bool(more)
                return ask(connection, "CALL together(%s)", MANY)

        assert at_once(MANY, one) == [(("all",),)] * MANY


@part
def the_server_sleeps() -> None:
    """All sleep at once: the server lists them."""
    connections = at_once(MANY, lambda _: connect())
    control = connect()
    seen = 0

    def watch() -> None:
        nonlocal seen
        query = "SELECT COUNT(*) FROM information_schema.processlist WHERE state = 'User sleep'"
        while seen < MANY:
            ((now,),) = ask(control, query)
            seen = max(seen, now)
        for connection in connections:
            ask(control, "KILL QUERY %s", connection.thread_id())

    watching = threading.Thread(target=watch)
    watching.start()
    interrupted = pymysql.err.OperationalError
    at_once(MANY, lambda number: raises(interrupted, lambda: ask(connections[number], "SELECT SLEEP(30)")))
    watching.join()
    for connection in (*connections, control):
        connection.close()


@part
def large_results() -> None:
    def one(_: int) -> None:
        with connect(**SECURE, cursorclass=SSCursor) as connection, connection.cursor() as cursor:
            cursor.execute("SELECT seq, REPEAT('x', 100) FROM seq_1_to_3000")
            assert [row[0] for row in cursor] == list(range(1, 3001))
            cursor.execute("SELECT REPEAT('y', 1000000)")
            assert len(cursor.fetchone()[0]) == 1_000_000

    at_once(10, one)


@part
def transactions_wait_for_each_other() -> None:
    prepare()
    with connect() as connection:
        ask(connection, "ALTER TABLE arrivals ENGINE=InnoDB")

    def one(_: int) -> None:
        with connect(autocommit=False) as connection:
            for _ in range(5):
                connection.begin()
                ((number,),) = ask(connection, "SELECT number FROM arrivals FOR UPDATE")
                time.sleep(0.001)
                ask(connection, "UPDATE arrivals SET number = %s", number + 1)
                connection.commit()

    at_once(20, one)
    with connect() as connection:
        assert ask(connection, "SELECT number FROM arrivals") == ((100,),)


@part
def timeouts() -> None:
    def one(_: int) -> None:
        connection = connect()
        # Whole seconds are the least that it takes as an argument.
        connection._read_timeout = 0.05
        error = raises(pymysql.err.OperationalError, lambda: ask(connection, "SELECT SLEEP(30)"))
        assert "timed out" in str(error), error

    at_once(20, one)


@part
def a_server_that_goes_away() -> None:
    connections = at_once(20, lambda _: connect())
    with connect() as control:

        def end_them() -> None:
            query = (
                "SELECT COUNT(*) FROM information_schema.processlist WHERE state = 'User sleep' AND info LIKE '%%77%%'"
            )
            while ask(control, query) != ((20,),):
                time.sleep(0.005)
            for connection in connections:
                ask(control, "KILL %s", connection.thread_id())

        ending = threading.Thread(target=end_them)
        ending.start()
        lost = pymysql.err.OperationalError
        at_once(20, lambda number: raises(lost, lambda: ask(connections[number], "SELECT SLEEP(77)")))
        ending.join()


if __name__ == "__main__":
    run()
