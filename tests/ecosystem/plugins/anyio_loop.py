"""A pytest plugin that makes anyio's test suite run on the loop named by ONELOOP_TEST_LOOP."""

from __future__ import annotations

import os

if os.environ["ONELOOP_TEST_LOOP"] == "oneloop":
    import oneloop

    oneloop.install()
