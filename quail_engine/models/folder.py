"""Finds a model on this machine. Never downloads: what is missing is named, with the command that gets it."""

from __future__ import annotations

import difflib
import hashlib
import json
import os
from collections.abc import Mapping
from dataclasses import MISSING, dataclass, fields
from pathlib import Path
from urllib.parse import urlsplit
from urllib.request import url2pathname

from quail_engine.errors import ModelError
from quail_engine.models.architecture import ARCHITECTURES, Config
from quail_engine.models.convert import CONVERTER, convert, is_current
from quail_engine.models.registry import REGISTRY, Artefact
from quail_engine.settings import user_cache

_READ_BYTES = 1 << 20
_FP8 = "@fp8"  # after a model's name: matrices in 8 bits


@dataclass(frozen=True)
class ModelFolder:
    """A converted model: the content of its quail.json, and where it lies."""

    path: Path
    name: str
    source_sha256: str  # of the GGUF file, or of the checkpoint's files; part of every answer's key
    profile: str
    architecture: str  # one of ARCHITECTURES
    config: Config
    files: Mapping[str, str]  # file name → sha256


def cache() -> Path:
    """The user's folder of converted models."""
    return user_cache() / "models"


def precision_of(model: str) -> str:
    """The precision class that a model's name asks for: its answers are kept apart from those of the same weights in others.

    >>> precision_of("qwen3-4b"), precision_of("qwen3-4b@fp8")
    ('full', 'fp8')
    """
    return "fp8" if model.endswith(_FP8) else "full"


def find(model: str, models_path: str | None) -> ModelFolder:
    """The converted folder of a model: a name of the registry, a converted folder, a checkpoint's folder or a GGUF file.

    @fp8 after it is left out, see `precision_of`.

    `models_path` (and the variable QUAIL_MODELS_URL) may be a folder that holds converted models or artefacts; an artefact
    found there, like a GGUF file given itself, is converted into the cache the first time. Raises ModelError for an unknown
    name, missing weights, and files that are damaged or of a kind that the engine cannot run.
    """
    model = model.removesuffix(_FP8)
    path = Path(model).expanduser()
    if (path / "quail.json").is_file():
        return read_folder(path)
    if (path / "config.json").is_file():
        return _converted_checkpoint(path)
    if path.suffix.lower() == ".gguf":
        return converted(path)
    artefact = known(model)
    places = [place for place in artefact_places(models_path) if isinstance(place, Path)]
    for folder in (cache() / model, *(place / model for place in places)):
        if (folder / "quail.json").is_file():
            return read_folder(folder)
    for place in places:
        if (place / artefact.filename).is_file():
            return converted(place / artefact.filename, artefact)
    raise ModelError(
        f"The weights of {model} are not on this machine. Nothing is downloaded while models run; get them once with: "
        f"quail models pull {model} ({artefact.size / 1e6:,.0f} MB, {artefact.licence})."
    )


def known(name: str) -> Artefact:
    """The registry's entry of a name. Raises ModelError for an unknown one, naming the nearest."""
    if name in REGISTRY:
        return REGISTRY[name]
    near = difflib.get_close_matches(name, REGISTRY, 1)
    hint = f" (did you mean {near[0]!r}?)" if near else ""
    raise ModelError(
        f"Unknown model {name!r}{hint}. Known models: {', '.join(REGISTRY)}; "
        "a converted folder, a checkpoint's folder or a GGUF file will do too."
    )


def artefact_places(models_path: str | None) -> list[Path | str]:
    """Where the user keeps artefacts, nearest first: a Path for a folder, a str for an http(s) URL."""
    places: list[Path | str] = []
    for place in (models_path, os.environ.get("QUAIL_MODELS_URL")):
        if not place:
            continue
        if place.startswith(("http://", "https://")):
            places.append(place.rstrip("/"))
        else:
            places.append(Path(url2pathname(urlsplit(place).path) if place.startswith("file://") else place).expanduser())
    return places


def converted(gguf: Path, artefact: Artefact | None = None) -> ModelFolder:
    """The converted folder of a local GGUF file, made now if this is the first time.

    With `artefact` the file must be that artefact. Raises ModelError otherwise, and for files that cannot be converted.
    """
    if not gguf.is_file():
        raise ModelError(f"There is no file {gguf}.")
    sha256 = file_sha256(gguf)
    if artefact and sha256 != artefact.sha256:
        raise ModelError(
            f"{gguf} is not {artefact.name}: its sha256 is {sha256} instead of {artefact.sha256}. It is not loaded."
        )
    artefact = next((entry for entry in REGISTRY.values() if entry.sha256 == sha256), None)
    target = cache() / (artefact.name if artefact else f"gguf-{sha256}")
    if not is_current(target):
        convert(gguf, sha256, target, artefact.name if artefact else gguf.stem)
    return read_folder(target)


def _converted_checkpoint(folder: Path) -> ModelFolder:
    """The converted folder of a published checkpoint, made now if this is the first time."""
    parts = [folder / "config.json", folder / "tokenizer.json", *sorted(folder.glob("*.safetensors"))]
    if absent := [part.name for part in parts if not part.is_file()]:
        raise ModelError(f"{folder} is no whole checkpoint: {absent[0]} is missing.")
    sha256 = hashlib.sha256("".join(f"{part.name} {file_sha256(part)}\n" for part in parts).encode()).hexdigest()
    target = cache() / f"checkpoint-{sha256}"
    if not is_current(target):
        convert(folder, sha256, target, folder.resolve().name)
    return read_folder(target)


def read_folder(path: Path) -> ModelFolder:
    """A converted folder's description. Raises ModelError if it is damaged or of another version of the converter."""
    try:
        content = json.loads((path / "quail.json").read_text(encoding="utf-8"))
        converter = content["converter"]
        named = [field.name for field in fields(Config) if field.default is MISSING or field.name in content["config"]]
        config = Config(**{name: content["config"][name] for name in named})
        folder = ModelFolder(
            path=path,
            name=str(content["name"]),
            source_sha256=str(content["source_sha256"]),
            profile=str(content["profile"]),
            architecture=str(content["architecture"]),
            config=config,
            files=dict(content["files"]),
        )
        _check_description(folder)
    except (OSError, ValueError, KeyError, TypeError, RecursionError) as error:
        raise ModelError(f"{path} is not a converted model: its quail.json cannot be read ({error!r}).") from error
    if converter != CONVERTER or folder.architecture not in ARCHITECTURES:
        raise ModelError(f"{path} was converted by another version: remove it and run: quail models pull {folder.name}.")
    missing = [name for name in folder.files if not (path / name).is_file()]
    if missing:
        raise ModelError(f"{path} is damaged: {missing[0]} is missing. Remove it and run: quail models pull {folder.name}.")
    return folder


def _check_description(folder: ModelFolder) -> None:
    """Raises ValueError for a value of another type, and for a file that would lie outside of the folder."""
    for field in fields(Config):
        value, kinds = getattr(folder.config, field.name), _KINDS[str(field.type)]
        if not isinstance(value, kinds) or isinstance(value, bool) is not (field.type == "bool"):
            raise ValueError(f"{field.name} is {value!r}")
    for name, digest in folder.files.items():
        if not isinstance(name, str) or not isinstance(digest, str) or name != Path(name).name:
            raise ValueError(f"{name!r} is not the name of a file in the folder")


_KINDS: dict[str, type | tuple[type, ...]] = {"int": int, "float": (int, float), "bool": bool}


def check(model: str, models_path: str | None) -> ModelFolder:
    """Hashes a model's files again. Raises ModelError if one of them is no longer what the converter wrote."""
    folder = find(model, models_path)
    for name, expected in folder.files.items():
        found = file_sha256(folder.path / name)
        if found != expected:
            raise ModelError(
                f"{folder.path / name} is damaged: its sha256 is {found} instead of {expected}. "
                f"Remove {folder.path} and run: quail models pull {folder.name}."
            )
    return folder


def file_sha256(path: Path) -> str:
    """sha256 of a file, in hexadecimal."""
    digest = hashlib.sha256()
    with path.open("rb") as file:
        while chunk := file.read(_READ_BYTES):
            digest.update(chunk)
    return digest.hexdigest()
