"""A locustfile: 1,000 users, half of them requests', half of them gevent's own client; all get three answers."""

from __future__ import annotations

import itertools
from typing import Any

import gevent
from locust import FastHttpUser, HttpUser, constant, events, task

USERS = 1000
ANSWERS = 3
numbers = itertools.count()
served: set[int] = set()


class Asking:
    """What both kinds of users do."""

    wait_time = constant(0.01)
    client: Any
    environment: Any

    def on_start(self) -> None:
        self.number = next(numbers)
        self.answers = 0

    @task
    def ask(self) -> None:
        with self.client.get(f"/hello?{self.number}", name="/hello", catch_response=True) as answer:
            if (answer.status_code, answer.text) != (200, "hello"):
                answer.failure(f"{answer.status_code} {answer.text!r}")
        self.answers += 1
        if self.answers == ANSWERS:
            served.add(self.number)
            if len(served) == USERS:
                gevent.spawn(self.environment.runner.quit)


class Requests(Asking, HttpUser):  # type: ignore[misc] # locust is not typed everywhere
    tasks = [Asking.ask]  # noqa: RUF012 - locust's interface


class Fast(Asking, FastHttpUser):  # type: ignore[misc]
    tasks = [Asking.ask]  # noqa: RUF012


@events.quitting.add_listener  # type: ignore[untyped-decorator, unused-ignore]
def tell(environment: Any, **_: object) -> None:
    total = environment.stats.total
    print(f"{gevent.__name__}: {len(served)} users, {total.num_failures} failures", flush=True)
