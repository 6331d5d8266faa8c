"""The keyword arguments that the methods of clients have in common, for type checkers."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypedDict

if TYPE_CHECKING:
    from oneloop.http.client.settings import Timeout

__all__ = ["Sent"]


class Sent(TypedDict, total=False):
    """Those of `request`, whose docstring says what they mean."""

    content: Any
    data: Any
    files: Any
    json: Any
    params: Any
    headers: Any
    cookies: Any
    auth: Any
    follow_redirects: bool
    timeout: float | tuple[float | None, float | None, float | None, float | None] | Timeout | None
    extensions: dict[str, Any] | None
