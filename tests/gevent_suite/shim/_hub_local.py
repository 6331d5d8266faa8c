"""What gevent's test helpers need of its private `_hub_local`."""

from __future__ import annotations

from oneloop.green.hub import get_hub_class, get_hub_if_exists

__all__ = ["get_hub_class", "get_hub_if_exists"]
