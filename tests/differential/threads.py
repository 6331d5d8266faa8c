"""A second thread: while the loop waits for it inside of a callback, or while the loop sleeps."""

from __future__ import annotations

import queue
import threading
import time

from tests.differential import descriptors, scheduling, streams
from tests.differential.author import Author
from tests.differential.program import Action, Body
from tests.differential.verb import verb
from tests.differential.world import World

# By then the loop sleeps, as a rule; a run in which it does not is one of those that do not repeat.
PAUSE_S = 0.005


@verb
def elsewhere(world: World, body: Body) -> None:
    """Play a body in another thread, and wait for its end here."""
    thread = threading.Thread(target=world.play, args=(body,), daemon=True)
    thread.start()
    thread.join()


class Aside:
    """One thread that plays bodies one after the other, each when the loop has been running for a while."""

    def __init__(self, world: World) -> None:
        self.world = world
        self.bodies: queue.SimpleQueue[Body | None] = queue.SimpleQueue()
        self.thread = threading.Thread(target=self.main, daemon=True)
        self.thread.start()

    def main(self) -> None:
        self.world.local.is_aside = True
        while (body := self.bodies.get()) is not None:
            self.world.is_running.wait()
            time.sleep(PAUSE_S)
            self.world.play(body)
            self.world.threads_busy -= 1

    def end(self) -> None:
        self.bodies.put(None)
        # A thread that still waits for the loop to run.
        self.world.is_running.set()
        self.thread.join()
        self.world.take_side()


@verb
def meanwhile(world: World, body: Body) -> None:
    """Play one action in another thread a little later, while the loop sleeps; `settle` waits for it."""
    aside = world.things.get("aside")
    if aside is None:
        aside = world.things["aside"] = Aside(world)
        world.endings.append(aside.end)
    world.threads_busy += 1
    aside.bodies.put(body)


def draw_elsewhere(author: Author) -> Action:
    return ("elsewhere", author.body(3, least=1))


def draw_meanwhile(author: Author) -> Action:
    """One action whose effect on the loop does not depend on where the loop is just then."""
    draws = [
        scheduling.draw_leaf,
        scheduling.draw_leaf,
        streams.draw_write,
        streams.draw_ending,
        streams.draw_peer_send,
    ]
    return ("meanwhile", [author.choice([*draws, descriptors.draw_taking_reader, descriptors.draw_no_reader])(author)])
