"""`HostsFile`: the names and addresses of /etc/hosts (hosts(5))."""

from __future__ import annotations

import socket as _stock
from pathlib import Path

__all__ = ["HostsFile"]


class HostsFile:
    """Reads the file again when it has changed. A missing file counts as empty."""

    def __init__(self, path: str = "/etc/hosts") -> None:
        self._path = Path(path)
        self._version: tuple[int, int] | None = None
        self._addresses: dict[str, list[str]] = {}
        self._names: dict[str, list[str]] = {}

    def addresses(self, name: str, family: int) -> list[str]:
        """The addresses of a name, for one address family or for both (0)."""
        self._read()
        wants = {_stock.AF_INET: ".", _stock.AF_INET6: ":"}.get(_stock.AddressFamily(family), "")
        return [one for one in self._addresses.get(name.lower(), []) if wants in one]

    def names(self, address: str) -> list[str]:
        """The names of an address."""
        self._read()
        return list(self._names.get(address, []))

    def _read(self) -> None:
        try:
            status = self._path.stat()
            version = (status.st_mtime_ns, status.st_size)
            if version == self._version:
                return
            text = self._path.read_text(encoding="utf-8", errors="replace")
        except OSError:
            version, text = (0, 0), ""
        self._version = version
        self._addresses, self._names = {}, {}
        for line in text.splitlines():
            address, *names = line.partition("#")[0].split() or [""]
            for name in names:
                self._addresses.setdefault(name.lower(), []).append(address)
                self._names.setdefault(address, []).append(name)
