"""Reads and writes wheels as sets of files. Writes the list of hashes (RECORD)."""

from __future__ import annotations

import base64
import csv
import hashlib
import io
import zipfile
from pathlib import Path

# A fixed date, the earliest that a zip file can store, so that the same content gives the same file.
_DATE = (1980, 1, 1, 0, 0, 0)


def read(wheel: Path) -> dict[str, bytes]:
    """Return the files of a wheel by name, without RECORD."""
    with zipfile.ZipFile(wheel) as archive:
        return {name: archive.read(name) for name in archive.namelist() if not name.endswith(("/", "/RECORD"))}


def write(wheel: Path, files: dict[str, bytes], dist_info: str) -> None:
    """Write a wheel.

    Args:
        wheel: the path. Its name contains the tags.
        files: the content by name, without RECORD.
        dist_info: the name of the folder that contains the metadata.
    """
    record = f"{dist_info}/RECORD"
    # The specification recommends to put the metadata at the end.
    names = sorted(files, key=lambda name: (name.startswith(dist_info), name))
    rows = io.StringIO()
    table = csv.writer(rows, lineterminator="\n")
    for name in names:
        digest = base64.urlsafe_b64encode(hashlib.sha256(files[name]).digest()).rstrip(b"=").decode()
        table.writerow((name, f"sha256={digest}", len(files[name])))
    table.writerow((record, "", ""))
    write_zip(wheel, {**{name: files[name] for name in names}, record: rows.getvalue().encode()})


def write_zip(path: Path, files: dict[str, bytes]) -> None:
    """Write a zip file with these files, in this order."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED, compresslevel=9) as archive:
        for name, content in files.items():
            entry = zipfile.ZipInfo(name, _DATE)
            entry.compress_type = zipfile.ZIP_DEFLATED
            is_program = name.endswith((".so", ".so.debug"))
            entry.external_attr = (0o100755 if is_program else 0o100644) << 16
            archive.writestr(entry, content)
