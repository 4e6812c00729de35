"""Files that only their owner may read, written so that a crash leaves the old state or the new one.

A file that is made in a folder which its group may read can be read by that group, too.
"""

from __future__ import annotations

import hashlib
import os
import secrets
from contextlib import suppress
from pathlib import Path

_CHUNK_BYTES = 1 << 20
_GROUP_READS = 0o040


def private_folder(path: Path) -> None:
    """Creates the folder (mode 0700) and its parents where they are missing. Raises OSError."""
    if not path.is_dir():
        path.parent.mkdir(parents=True, exist_ok=True)
        path.mkdir(mode=0o700, exist_ok=True)


def share_folder(path: Path) -> None:
    """Lets the group read the folder, what lies in it, and what will be made in it. Raises OSError."""
    if path.stat().st_mode & _GROUP_READS:
        return
    for file in path.iterdir():
        if file.is_file():
            file.chmod(0o600 | _GROUP_READS)
    path.chmod(0o750)


def open_private(path: Path, flags: int) -> int:
    """A descriptor of a file that, when created, has mode 0600, or 0640 in a folder of the group. Raises OSError."""
    shared = path.parent.stat().st_mode & _GROUP_READS
    descriptor = os.open(path, flags | getattr(os, "O_BINARY", 0) | getattr(os, "O_CLOEXEC", 0), 0o600 | shared)
    if shared and flags & os.O_CREAT:  # whatever the process's mask is
        with suppress(OSError):  # the file is another user's, who has seen to it
            path.chmod(0o600 | shared)
    return descriptor


def write_private(path: Path, data: bytes) -> None:
    """Writes a whole file durably under its final name, or not at all. Raises OSError."""
    partial = path.with_name(f".{path.name}.{secrets.token_hex(4)}.partial")
    descriptor = open_private(partial, os.O_WRONLY | os.O_CREAT | os.O_EXCL)
    try:
        with os.fdopen(descriptor, "wb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        partial.replace(path)
    except OSError:
        partial.unlink(missing_ok=True)
        raise
    sync_folder(path.parent)


def sync_folder(path: Path) -> None:
    """Makes creations, renames and deletions in the folder durable. Raises OSError."""
    if os.name == "nt":  # a directory cannot be opened there
        return
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def try_lock(descriptor: int) -> bool:
    """Takes the file's exclusive lock unless another holder has it. The lock goes with the descriptor or the process.

    Where the system has no such locks the answer is False: each process then keeps to files that it created.
    """
    try:
        import fcntl
    except ImportError:
        return False
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        return False
    return True


def lock(descriptor: int) -> None:
    """Waits for the file's exclusive lock. Where the system has no such locks it returns at once. Raises OSError."""
    try:
        import fcntl
    except ImportError:
        return
    fcntl.flock(descriptor, fcntl.LOCK_EX)


def sha256(path: Path) -> str:
    """Hexadecimal digest of a file's content. Raises OSError."""
    digest = hashlib.sha256()
    with path.open("rb") as file:
        while chunk := file.read(_CHUNK_BYTES):
            digest.update(chunk)
    return digest.hexdigest()
