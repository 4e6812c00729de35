"""What a table was filled with, beside the answers: one small JSON file a table, named by a hash of the table's name.

Whole files replace each other: processes that fill different tables never meet, and of one table the last to fill it counts.
"""

from __future__ import annotations

import hashlib
import json
from pathlib import Path
from typing import Any

from quail_engine.answers import files

_VERSION = 1


class TableRecords:
    """The records of one store. Methods raise OSError."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def read(self, table: str) -> dict[str, Any] | None:
        """None where the table has no record, or one of another version."""
        try:
            content = json.loads(self._path(table).read_bytes())
        except (FileNotFoundError, ValueError, RecursionError):
            return None
        return content if isinstance(content, dict) and content.get("version") == _VERSION else None

    def write(self, table: str, record: dict[str, Any]) -> None:
        """The folder exists: `Folder.create` makes it, with the modes of its neighbours."""
        content = {"version": _VERSION, "table": table, **record}
        files.write_private(self._path(table), json.dumps(content, indent=1).encode())

    def _path(self, table: str) -> Path:
        return self._folder / f"{hashlib.sha256(table.encode()).hexdigest()}.json"
