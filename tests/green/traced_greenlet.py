"""`python -m tests.green.traced_greenlet`: ends with signal 11 on CPython 3.15.0 with greenlet 3.5.6, without oneloop.

An exception is thrown into a greenlet that was started before `sys.settrace`. tests/gevent_suite excuses a test for it.
"""

from __future__ import annotations

import sys
from typing import Any

from greenlet import GreenletExit, getcurrent, greenlet

_main = getcurrent()


def _wait() -> None:
    try:
        _main.switch()
    finally:
        pass


def _trace(_frame: Any, _event: str, _argument: Any) -> Any:
    return _trace


def main() -> None:
    one = greenlet(_wait)
    one.switch()
    sys.settrace(_trace)
    ended = one.throw()
    sys.settrace(None)
    assert isinstance(ended, GreenletExit)


if __name__ == "__main__":
    main()
