"""`Headers`: a mapping of field names to values, in which case does not count and a name can have several values."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, MutableMapping
from typing import Any

__all__ = ["HeaderTypes", "Headers"]

HeaderTypes = Any
"""A Headers, a mapping, or pairs, of str or bytes."""

_SECRET = {"authorization", "proxy-authorization"}


class Headers(MutableMapping[str, str]):
    """Header fields in their order.

    Args:
        headers: a Headers, a mapping, or pairs; names and values str or bytes.
        encoding: of values that are not ASCII. None: UTF-8 if they are, else ISO-8859-1.
    """

    __slots__ = ("_encoding", "_fields", "version")

    def __init__(self, headers: HeaderTypes = None, encoding: str | None = None) -> None:
        # Name as given, name in lower case, value.
        self._fields: list[tuple[bytes, bytes, bytes]] = []
        self._encoding = encoding
        self.version = 0
        """Grows with each change."""
        if headers is None:
            return
        if isinstance(headers, Headers):
            self._fields = list(headers._fields)
            return
        pairs = headers.items() if isinstance(headers, Mapping) else headers
        for name, value in pairs:
            raw = _bytes_of(name, "name", encoding)
            self._fields.append((raw, raw.lower(), _bytes_of(value, "value", encoding)))

    @classmethod
    def of_raw(cls, pairs: Iterable[tuple[bytes, bytes]]) -> Headers:
        """Return the fields of a head."""
        made = cls()
        made._fields = [(name, name.lower(), value) for name, value in pairs]
        return made

    @property
    def raw(self) -> list[tuple[bytes, bytes]]:
        """The fields as they are sent."""
        return [(name, value) for name, _, value in self._fields]

    @property
    def encoding(self) -> str:
        """The encoding of the values: "ascii" if that is enough."""
        if self._encoding is None:
            for encoding in ("ascii", "utf-8"):
                try:
                    for _, _, value in self._fields:
                        value.decode(encoding)
                except UnicodeDecodeError:
                    continue
                return encoding
            return "iso-8859-1"
        return self._encoding

    @encoding.setter
    def encoding(self, encoding: str) -> None:
        self._encoding = encoding

    def multi_items(self) -> list[tuple[str, str]]:
        """Return all fields in their order, names in lower case."""
        encoding = self.encoding
        return [(name.decode("latin-1"), value.decode(encoding)) for _, name, value in self._fields]

    def get_list(self, key: str, split_commas: bool = False) -> list[str]:
        """Return all values of a name; with `split_commas`, the members of lists one by one."""
        wanted = key.lower().encode("latin-1")
        encoding = self.encoding
        values = [value.decode(encoding) for _, name, value in self._fields if name == wanted]
        if not split_commas:
            return values
        return [member.strip() for value in values for member in value.split(",")]

    def first(self, name: bytes) -> bytes | None:
        """Return the first value of a name, which is in lower case."""
        for _, known, value in self._fields:
            if known == name:
                return value
        return None

    def update(self, headers: HeaderTypes = None, **_: Any) -> None:  # type: ignore[override]
        """Replace the fields whose names are in `headers`, and add the others."""
        self.version += 1
        new = Headers(headers)
        names = {name for _, name, _ in new._fields}
        self._fields = [field for field in self._fields if field[1] not in names] + new._fields

    def copy(self) -> Headers:
        """Return a copy."""
        return Headers(self, self._encoding)

    def __getitem__(self, key: str) -> str:
        values = self.get_list(key)
        if not values:
            raise KeyError(key)
        return ", ".join(values)

    def __setitem__(self, key: str, value: str) -> None:
        self.version += 1
        raw = _bytes_of(key, "name", self._encoding)
        field = (raw, raw.lower(), _bytes_of(value, "value", self._encoding))
        places = [at for at, known in enumerate(self._fields) if known[1] == field[1]]
        for at in reversed(places[1:]):
            del self._fields[at]
        if places:
            self._fields[places[0]] = field
        else:
            self._fields.append(field)

    def __delitem__(self, key: str) -> None:
        self.version += 1
        name = key.lower().encode("latin-1")
        kept = [field for field in self._fields if field[1] != name]
        if len(kept) == len(self._fields):
            raise KeyError(key)
        self._fields = kept

    def __contains__(self, key: object) -> bool:
        if not isinstance(key, str):
            return False
        name = key.lower().encode("latin-1", "replace")
        # A loop is quicker than a generator.
        for field in self._fields:  # noqa: SIM110
            if field[1] == name:
                return True
        return False

    def __iter__(self) -> Iterator[str]:
        return iter({name.decode("latin-1"): None for _, name, _ in self._fields})

    def __len__(self) -> int:
        return len({name for _, name, _ in self._fields})

    def __eq__(self, other: object) -> bool:
        try:
            theirs = Headers(other)
        except (TypeError, ValueError):
            return False
        return sorted(field[1:] for field in self._fields) == sorted(field[1:] for field in theirs._fields)

    def __repr__(self) -> str:
        shown = [(name, "[secure]" if name in _SECRET else value) for name, value in self.multi_items()]
        names = [name for name, _ in shown]
        inside = repr(dict(shown)) if len(set(names)) == len(names) else repr(shown)
        return f"Headers({inside})"


def _bytes_of(text: Any, part: str, encoding: str | None) -> bytes:
    if isinstance(text, bytes):
        return text
    if isinstance(text, str):
        return text.encode(encoding or "ascii" if part == "name" else encoding or "utf-8")
    raise TypeError(f"Header {part} must be str or bytes, not {type(text)}")
