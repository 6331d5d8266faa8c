"""The site on uvicorn: PORT, and `h11` or `httptools`."""

from __future__ import annotations

import sys

import uvicorn

from tests.ecosystem.sites.app import app

if __name__ == "__main__":
    uvicorn.run(
        app,
        port=int(sys.argv[1]),
        http=sys.argv[2],
        loop="asyncio",
        lifespan="off",
        log_level="error",
        # Any number works.
        timeout_keep_alive=float(sys.argv[3]),  # type: ignore[arg-type]
    )
