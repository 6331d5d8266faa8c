"""`Headers`: the header fields of a request, for programs that use a handler's `headers`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterator

__all__ = ["Headers"]


class Headers:
    """Header fields in their original order and case. Names are looked up without regard to case."""

    __slots__ = ("_fields", "_lower")

    def __init__(self, fields: list[tuple[str, str]]) -> None:
        self._fields = fields
        self._lower: dict[str, str] | None = None

    def _by_name(self) -> dict[str, str]:
        if self._lower is None:
            lower: dict[str, str] = {}
            for name, value in self._fields:
                lower.setdefault(name.lower(), value)
            self._lower = lower
        return self._lower

    def get(self, name: str, default: Any = None) -> Any:
        """The first value of a name."""
        return self._by_name().get(name.lower(), default)

    getheader = get

    def get_all(self, name: str, default: Any = None) -> Any:
        """A list of all values of a name; `default` if there are none."""
        return [value for key, value in self._fields if key.lower() == name.lower()] or default

    def __getitem__(self, name: str) -> Any:
        """The first value of a name; None if there is none, as in `email.message`."""
        return self.get(name)

    def __contains__(self, name: object) -> bool:
        return isinstance(name, str) and name.lower() in self._by_name()

    def __iter__(self) -> Iterator[str]:
        return iter(self.keys())

    def __len__(self) -> int:
        return len(self._fields)

    def keys(self) -> list[str]:
        """The names in order."""
        return [name for name, _ in self._fields]

    def values(self) -> list[str]:
        """The values in order."""
        return [value for _, value in self._fields]

    def items(self) -> list[tuple[str, str]]:
        """Names and values in order."""
        return list(self._fields)

    @property
    def headers(self) -> list[str]:
        """The fields as lines."""
        return [f"{name}: {value}\r\n" for name, value in self._fields]

    @property
    def typeheader(self) -> Any:
        """The content type, or None."""
        return self.get("content-type")

    def __repr__(self) -> str:
        # Values may be secret.
        return f"<{type(self).__name__} of {len(self._fields)} fields>"
