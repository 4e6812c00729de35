"""Converts a GGUF file or a published checkpoint, once, into the folder that the engine loads: quail.json, model.safetensors,
tokenizer.json.

Matrices become bfloat16 (the engine's own precision), norms and biases float32; Q and K are put in the half-split order of
RoPE. Tensors are converted in blocks of rows, so memory stays small, and the folder appears whole or not at all.
"""

from __future__ import annotations

import hashlib
import json
import math
import os
import shutil
import tempfile
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, fields
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from quail_engine.errors import ModelError
from quail_engine.models.architecture import Config, Source, read_architecture, tensor_sources
from quail_engine.models.bfloat16 import to_bfloat16
from quail_engine.models.checkpoint import read_config, read_json, scale_block, tensor_shapes
from quail_engine.models.checkpoint_file import CheckpointTensor, read_checkpoint_tensors
from quail_engine.models.gguf_file import GgufFile, Tensor, read_gguf
from quail_engine.prompts.profiles import profile_of, profile_of_markers
from quail_engine.prompts.tokenizer import tokenizer_json

CONVERTER = 1  # raised when the same file converts to other bytes, so that old folders are converted anew
_BLOCK_VALUES = 1 << 23  # values dequantised at a time: 32 MB of float32


Blocks = Iterator[NDArray[Any]]
"""A tensor's values, rows after rows: of a vector float32, of a matrix the bits of bfloat16."""


@dataclass(frozen=True)
class Values:
    """A tensor of the converted model."""

    shape: tuple[int, ...]
    blocks: Callable[[], Blocks]


@dataclass(frozen=True)
class _Original:
    """A model as it was published, read and checked."""

    architecture: str
    config: Config
    profile: str
    tokenizer: str  # the text of a tokenizer.json
    chat_template: str | None
    tensors: Mapping[str, Values]


def convert(source: Path, source_sha256: str, target: Path, name: str) -> None:
    """Converts `source`, a GGUF file or the folder of a checkpoint, into the folder `target`.

    The caller has verified the sha256. A folder that another process puts there meanwhile is as good as ours and stays. Raises
    ModelError for a file that is damaged or of a kind the engine cannot run, and then leaves nothing behind.
    """
    original = _checkpoint(source) if source.is_dir() else _gguf(source)
    target.parent.mkdir(parents=True, exist_ok=True)
    workspace = Path(tempfile.mkdtemp(prefix=".convert-", dir=target.parent))
    try:
        finished = workspace / "model"
        finished.mkdir()
        files = {
            "model.safetensors": _write_safetensors(finished / "model.safetensors", original.tensors),
            "tokenizer.json": _write_text(finished / "tokenizer.json", original.tokenizer),
        }
        if original.chat_template:
            # Never run: kept so that a profile, which is written by hand, can be compared with it.
            files["chat_template.jinja"] = _write_text(finished / "chat_template.jinja", original.chat_template)
        description = {
            "name": name,
            "source_sha256": source_sha256,
            "converter": CONVERTER,
            "profile": original.profile,
            "architecture": original.architecture,
            "config": _described(original.config),
            "files": files,
        }
        _write_text(finished / "quail.json", json.dumps(description, indent=2) + "\n")
        _move(finished, target, workspace)
    except OSError as error:
        raise ModelError(f"The model {name} cannot be written to {target}: {error}.") from error
    finally:
        shutil.rmtree(workspace, ignore_errors=True)


def _described(config: Config) -> dict[str, Any]:
    """What has a default is left out where it has that value: folders of models without it stay as they were."""
    return {field.name: value for field in fields(Config) if (value := getattr(config, field.name)) != field.default}


def _gguf(source: Path) -> _Original:
    gguf = _read(source)
    architecture, config = read_architecture(gguf)
    sources = tensor_sources(gguf, architecture, config)
    template = gguf.metadata.get("tokenizer.chat_template")
    return _Original(
        architecture,
        config,
        tokenizer=tokenizer_json(gguf.metadata),
        profile=profile_of(architecture, gguf.metadata["tokenizer.ggml.pre"]),
        chat_template=template if isinstance(template, str) else None,
        tensors={
            name: Values(source.shape, partial(_blocks, gguf.tensors[source.name], source)) for name, source in sources.items()
        },
    )


def _checkpoint(source: Path) -> _Original:
    values = read_json(source / "config.json")
    if not isinstance(values, dict):
        raise ModelError(f"{source / 'config.json'} is damaged: it is no mapping.")
    architecture, config = read_config(values)
    found, shapes = read_checkpoint_tensors(source, scale_block(values)), tensor_shapes(config)
    if missing := sorted(shapes.keys() - found.keys()):
        raise ModelError(f"The checkpoint is damaged: {missing[0]} and {len(missing) - 1} more tensors are missing.")
    known = {"lm_head.weight", *(name for name in found if name.endswith("rotary_emb.inv_freq"))}
    if surplus := sorted(found.keys() - shapes.keys() - known):
        raise ModelError(
            f"The model has tensors that the engine does not know ({', '.join(surplus[:3])}); it would answer wrongly."
        )
    for name, shape in shapes.items():
        if found[name].shape != shape:
            raise ModelError(f"The checkpoint is damaged: {name} has the shape {found[name].shape} instead of {shape}.")
    tokenizer = read_json(source / "tokenizer.json")
    template = source / "chat_template.jinja"
    return _Original(
        architecture,
        config,
        profile=profile_of_markers(architecture, _markers(source, tokenizer)),
        tokenizer=json.dumps(tokenizer, ensure_ascii=False),
        chat_template=template.read_text(encoding="utf-8") if template.is_file() else None,
        tensors={name: Values(shape, _blocks_of(found[name])) for name, shape in shapes.items()},
    )


def _blocks_of(tensor: CheckpointTensor) -> Callable[[], Blocks]:
    return tensor.bfloat16_blocks if len(tensor.shape) > 1 else tensor.vector_blocks


def _markers(source: Path, tokenizer: Any) -> list[str]:
    """The special tokens of a tokenizer.json. Raises ModelError for a tokenizer that is no byte-level BPE."""
    try:
        if tokenizer["model"]["type"] == "BPE":
            return [str(token["content"]) for token in tokenizer["added_tokens"]]
    except (KeyError, TypeError) as error:
        raise ModelError(f"{source / 'tokenizer.json'} is damaged: {error!r}.") from error
    raise ModelError(f"The tokenizer in {source} is {tokenizer['model']['type']!r}; only byte-level BPE is read.")


def _write_text(path: Path, text: str) -> str:
    """Writes a text file; gives its sha256."""
    path.write_bytes(text.encode())
    return hashlib.sha256(text.encode()).hexdigest()


def _read(source: Path) -> GgufFile:
    try:
        return read_gguf(source)
    except ImportError as error:
        raise ModelError("Converting a model needs the extra `local`: pip install 'dbt-quail[local]'.") from error


def is_current(folder: Path) -> bool:
    """Whether a folder holds a model that this version of the converter wrote."""
    try:
        content = json.loads((folder / "quail.json").read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError):
        return False
    return isinstance(content, dict) and content.get("converter") == CONVERTER


def _move(finished: Path, target: Path, workspace: Path) -> None:
    """Puts a finished folder in its place; an outdated one there goes away with the workspace."""
    try:
        if target.exists() and not is_current(target):
            target.rename(workspace / "outdated")
        finished.rename(target)
    except OSError:
        if not is_current(target):  # else another process was faster, with the same bytes
            raise


def _write_safetensors(path: Path, tensors: Mapping[str, Values]) -> str:
    """Writes the tensors in safetensors' layout; gives the file's sha256."""
    vectors_first = sorted(tensors, key=lambda name: (len(tensors[name].shape), name))  # so float32 data stays aligned
    header: dict[str, object] = {}
    offset = 0
    for name in vectors_first:
        shape = tensors[name].shape
        end = offset + math.prod(shape) * (4 if len(shape) == 1 else 2)
        header[name] = {"dtype": "F32" if len(shape) == 1 else "BF16", "shape": list(shape), "data_offsets": [offset, end]}
        offset = end
    encoded = json.dumps(header, separators=(",", ":")).encode()
    encoded += b" " * (-len(encoded) % 8)
    digest = hashlib.sha256()
    with path.open("wb") as file:
        for chunk in (len(encoded).to_bytes(8, "little"), encoded):
            file.write(chunk)
            digest.update(chunk)
        for name in vectors_first:
            for block in tensors[name].blocks():
                file.write(block.data)
                digest.update(block.data)
        file.flush()
        os.fsync(file.fileno())
    return digest.hexdigest()


def _blocks(tensor: Tensor, source: Source) -> Blocks:
    """A tensor's values in their final type and order, some rows at a time."""
    if len(source.shape) == 1:
        values = _dequantised(tensor, tensor.data).reshape(-1)
        yield values[half_split_order(values.size, source.interleaved_heads)]
        return
    rows, columns = source.shape
    order = half_split_order(rows, source.interleaved_heads)
    step = max(1, _BLOCK_VALUES // columns)
    for start in range(0, rows, step):
        yield to_bfloat16(_dequantised(tensor, tensor.data[order[start : start + step]]))


def _dequantised(tensor: Tensor, stored: NDArray[np.uint8]) -> NDArray[np.float32]:
    from gguf import GGMLQuantizationType
    from gguf.quants import dequantize

    kind = GGMLQuantizationType(tensor.quantisation)
    try:
        with np.errstate(all="ignore"):  # what a damaged file overflows is looked at below
            values = np.ascontiguousarray(dequantize(stored, kind), np.float32)
    except NotImplementedError as error:
        raise ModelError(f"Tensor {tensor.name} is stored as {kind.name}, which cannot be converted.") from error
    if not np.isfinite(values).all():
        raise ModelError(f"Tensor {tensor.name} holds numbers that are not finite: the file is damaged. Fetch it again.")
    return values


def half_split_order(rows: int, interleaved_heads: int) -> NDArray[np.int64]:
    """For each row of the half-split order of RoPE, the stored row. With 0 interleaved heads, the rows as they are.

    Half-split rotates row i of a head with row i + head_dim/2; interleaved storage has the two side by side.
    """
    order = np.arange(rows, dtype=np.int64)
    if not interleaved_heads:
        return order
    halves: NDArray[np.int64] = order.reshape(interleaved_heads, -1, 2).swapaxes(1, 2)
    return halves.reshape(rows)
