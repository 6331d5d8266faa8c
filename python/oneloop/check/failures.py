"""`Failure`: an error of a request with its error class, in plain words."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from oneloop.check.result import ErrorClass

__all__ = ["TEXT_LIMIT", "Failure", "words_of"]

TEXT_LIMIT = 300
"""Error texts are shortened to this length."""


class Failure(Exception):  # noqa: N818 - its kind says which error it is
    """A request failed.

    Args:
        kind: the error class.
        text: what happened.
        is_final: a retry would have the same result.
    """

    def __init__(self, kind: ErrorClass, text: str, *, is_final: bool = False) -> None:
        super().__init__(kind, text)
        self.kind = kind
        self.text = text
        self.is_final = is_final

    def __str__(self) -> str:
        return self.text


def words_of(error: BaseException) -> str:
    """Return the text of an exception: for errors of the system their usual words, such as "connection refused"."""
    if type(error).__module__ != "ssl" and isinstance(error, OSError) and error.errno is not None and error.errno > 0:
        words = os.strerror(error.errno)
        return words[:1].lower() + words[1:]
    return " ".join(str(error).split())[:TEXT_LIMIT] or type(error).__name__
