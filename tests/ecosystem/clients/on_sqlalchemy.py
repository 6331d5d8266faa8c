"""SQLAlchemy with PyMySQL and psycopg: its pools, more threads than connections.

Arguments: the servers' ports, 0 for one that is not there.
"""

from __future__ import annotations

import asyncio
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager

from sqlalchemy import Engine, String, create_engine, func, select, text
from sqlalchemy.exc import DBAPIError
from sqlalchemy.exc import TimeoutError as PoolTimeoutError
from sqlalchemy.ext.asyncio import create_async_engine
from sqlalchemy.orm import DeclarativeBase, Mapped, Session, mapped_column, scoped_session, sessionmaker

from tests.ecosystem.clients.parts import at_once, part, raises, run

MARIADB, POSTGRES = int(sys.argv[1]), int(sys.argv[2])
URLS = {}
if MARIADB:
    URLS[f"mysql+pymysql://root@localhost:{MARIADB}/mysql?ssl_disabled=true"] = (
        "SELECT SLEEP(0.02)",
        "KILL CONNECTION_ID()",
    )
if POSTGRES:
    URLS[f"postgresql+psycopg://tester@localhost:{POSTGRES}/postgres"] = (
        "SELECT pg_sleep(0.02)",
        "SELECT pg_terminate_backend(pg_backend_pid())",
    )
MANY = 40


class Base(DeclarativeBase):
    pass


class Item(Base):
    __tablename__ = "green_items"
    number: Mapped[int] = mapped_column(primary_key=True, autoincrement=False)
    name: Mapped[str] = mapped_column(String(50))


@contextmanager
def engine(url: str, size: int = 5, timeout_s: float = 30) -> Iterator[Engine]:
    made = create_engine(url, pool_size=size, max_overflow=0, pool_timeout=timeout_s)
    try:
        yield made
    finally:
        made.dispose()


@part
def more_threads_than_connections() -> None:
    for url in URLS:
        with engine(url) as made:
            # All five are in use at once, again and again.
            five = threading.Barrier(5)

            def one(_: int, made: Engine = made, five: threading.Barrier = five) -> int:
                with made.connect() as connection:
                    five.wait()
                    return int(connection.execute(text("SELECT 6 * 7")).scalar_one())

            assert at_once(MANY, one) == [42] * MANY
            assert made.pool.checkedin() == 5  # type: ignore[attr-defined]


@part
def queries_at_once() -> None:
    for url, (sleep, _) in URLS.items():
        with engine(url, MANY) as made:
            asked = 0

            def one(_: int, made: Engine = made, sleep: str = sleep) -> None:
                nonlocal asked
                asked += 1
                with made.connect() as connection:
                    while asked < MANY:
                        connection.execute(text(sleep))

            at_once(MANY, one)


@part
def sessions() -> None:
    for url in URLS:
        with engine(url) as made:
            Base.metadata.drop_all(made)
            Base.metadata.create_all(made)
            with Session(made) as session:
                session.add(Item(number=-1, name="first"))
                session.commit()
            # One session for each thread.
            session_of_thread = scoped_session(sessionmaker(made))

            def one(number: int, registry: scoped_session[Session] = session_of_thread) -> Session:
                session = registry()
                session.add(Item(number=number, name=f"item {number}"))
                session.commit()
                assert session.get(Item, number) is registry.get(Item, number)
                registry.remove()
                return session

            assert len(set(at_once(MANY, one))) == MANY
            with Session(made) as session:
                assert session.scalar(select(func.count()).select_from(Item)) == MANY + 1
            Base.metadata.drop_all(made)


@part
def a_pool_that_has_none_left() -> None:
    for url in URLS:
        with engine(url, 1, 0.05) as made, made.connect():
            at_once(10, lambda _, made=made: raises(PoolTimeoutError, made.connect))  # type: ignore[misc]


@part
def a_server_that_goes_away() -> None:
    for url, (_, end) in URLS.items():
        with engine(url, 10) as made:

            def lose(_: int, made: Engine = made, end: str = end) -> None:
                with made.connect() as connection:
                    assert raises(DBAPIError, lambda: connection.execute(text(end))).connection_invalidated

            at_once(20, lose)
            with made.connect() as connection:
                assert connection.execute(text("SELECT 1")).scalar_one() == 1


@part
def its_engine_for_asyncio() -> None:
    """It has greenlets of its own, which run what looks blocking; here beside green threads."""
    for url in URLS:
        if "psycopg" not in url:
            continue

        async def ask(url: str = url) -> int:
            made = create_async_engine(url)
            async with made.connect() as connection:
                result = int((await connection.execute(text("SELECT 6 * 7"))).scalar_one())
            await made.dispose()
            return result

        assert at_once(10, lambda _, ask=ask: asyncio.run(ask())) == [42] * 10  # type: ignore[misc]


if __name__ == "__main__":
    run()
