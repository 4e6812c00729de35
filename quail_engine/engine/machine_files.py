"""What was found out about this machine, kept in the user's cache: a JSON file for each thing that it depends on.

Nothing is lost with it: what is missing, damaged or of another version is found out again.
"""

from __future__ import annotations

import hashlib
import json
import os
import secrets
from collections.abc import Mapping, Sequence
from contextlib import suppress
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

from quail_engine.settings import user_cache


def path_of(about: Sequence[object]) -> Path:
    """`about`: all that it depends on, as JSON."""
    return user_cache() / "machine" / f"{hashlib.sha256(json.dumps(about).encode()).hexdigest()[:32]}.json"


def recall(path: Path) -> Mapping[str, Any]:
    """Empty where nothing usable is kept."""
    try:
        kept = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError):
        return {}
    return kept if isinstance(kept, dict) else {}


def remember(path: Path, name: str, value: object) -> None:
    """Keeps a value beside those of other names; does nothing where the cache cannot be written."""
    kept = {**recall(path), name: value}
    with suppress(OSError):
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        unfinished = path.with_name(f"{path.name}.{secrets.token_hex(4)}")
        with os.fdopen(os.open(unfinished, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w", encoding="utf-8") as file:
            file.write(json.dumps(kept))
        unfinished.replace(path)


def version_of(distribution: str) -> str:
    """Empty where it is not installed."""
    try:
        return version(distribution)
    except PackageNotFoundError:
        return ""
