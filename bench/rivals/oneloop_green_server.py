"""oneloop's green threads serving as gevent's do: blocking-looking code, patched."""

# mypy: disable-error-code="import-untyped,import-not-found"
# Oneloop.green may not exist yet.
from __future__ import annotations

from oneloop.green import monkey

monkey.patch_all()

from bench.rivals import threads_server  # noqa: E402

if __name__ == "__main__":
    threads_server.main()
