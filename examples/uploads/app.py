"""Uploads to disk, their names in PostgreSQL, and a background job. See README.md."""

from __future__ import annotations

import hashlib
import os
import uuid
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import asyncpg
from fastapi import BackgroundTasks, FastAPI, HTTPException, Request

from oneloop import files

FOLDER = Path(os.environ.get("UPLOADS", "uploads"))
TABLE = "CREATE TABLE IF NOT EXISTS uploads (name text PRIMARY KEY, stored text NOT NULL, size bigint, sha256 text)"
UPSERT = """
INSERT INTO uploads VALUES ($1, $2, $3)
ON CONFLICT (name) DO UPDATE SET stored = $2, size = $3, sha256 = NULL
"""


@asynccontextmanager
async def lifespan(app: FastAPI) -> AsyncIterator[None]:
    await files.makedirs(FOLDER, exist_ok=True)
    async with asyncpg.create_pool(os.environ["DATABASE_URL"]) as pool:
        await pool.execute(TABLE)
        app.state.pool = pool
        yield


app = FastAPI(lifespan=lifespan)


@app.put("/files/{name}", status_code=201)
async def upload(name: str, request: Request, background: BackgroundTasks) -> dict[str, Any]:
    stored, size = FOLDER / uuid.uuid4().hex, 0
    try:
        async with files.open(stored, "xb") as file:
            async for piece in request.stream():
                size += await file.write(piece)
    except BaseException:
        # The client went away in the middle: no half file stays.
        await files.unlink(stored)
        raise
    old = await app.state.pool.fetchval("SELECT stored FROM uploads WHERE name = $1", name)
    await app.state.pool.execute(UPSERT, name, stored.name, size)
    if old is not None:
        await files.unlink(FOLDER / old)
    background.add_task(compute_hash, name, stored)
    return {"name": name, "size": size}


async def compute_hash(name: str, stored: Path) -> None:
    """Read the file in pieces. Each piece is hashed at once: that takes less than a millisecond."""
    digest = hashlib.sha256()
    async with files.open(stored, "rb") as file:
        while piece := await file.read(1 << 16):
            digest.update(piece)
    await app.state.pool.execute(
        "UPDATE uploads SET sha256 = $3 WHERE name = $1 AND stored = $2", name, stored.name, digest.hexdigest()
    )


@app.get("/files/{name}")
async def show(name: str) -> dict[str, Any]:
    row = await app.state.pool.fetchrow("SELECT name, size, sha256 FROM uploads WHERE name = $1", name)
    if row is None:
        raise HTTPException(404, f"there is no file {name}")
    return dict(row)
