"""What gevent's test helpers need of its private `_config`."""

from __future__ import annotations

from typing import Any

__all__ = ["Loop", "validate_bool"]


class Loop:
    """The setting of the loop."""

    def get_options(self) -> dict[str, Any]:
        """Return the loops by name. Tests of gevent's first one run on ours."""
        from oneloop.green import core

        missing = ImportError("not a loop of oneloop")
        return {"libev-cext": core.loop, "libev-cffi": missing, "libuv-cffi": missing}


def validate_bool(value: str | bool) -> bool:
    """Return the meaning of the text of an environment variable."""
    return str(value).lower() in {"1", "true", "on", "yes"}
