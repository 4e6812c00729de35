"""A converted model folder, opened: what the model is, and its tensors, memory-mapped.

`quail.json` says what the model is and where it came from; `model.safetensors` holds Hugging Face's tensor names, matrices in
bf16, norms and biases in fp32, RoPE in half-split order. Nothing is read from a tensor before it is used.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import MISSING, dataclass, fields
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError, safe_open

from quail_engine.errors import ModelError

ARCHITECTURES = ("llama", "qwen2", "qwen3")
CONVERTER = 1
"""Version of the folder's format that this engine reads."""


@dataclass(frozen=True)
class Config:
    """Shape of a Llama-family decoder."""

    hidden_size: int
    num_layers: int
    num_heads: int
    num_kv_heads: int
    head_dim: int
    intermediate_size: int
    vocab_size: int
    rope_theta: float
    rms_norm_eps: float
    tied_embeddings: bool  # the output matrix is the embedding matrix
    attention_bias: bool  # the Q, K and V projections have biases
    context: int  # tokens that the model was trained on
    qk_norm: bool = False  # an RMS norm of each query and key head before the positions
    rope_factor: float = 0.0  # by which Llama 3 stretches its longest waves; 0 = not at all
    rope_low: float = 0.0  # waves that turn less often than this within `rope_context` are stretched whole
    rope_high: float = 0.0  # waves that turn more often, not at all; between both, in part
    rope_context: int = 0  # tokens that the unstretched model was trained on

    @property
    def group(self) -> int:
        """Query heads that share a key-value head."""
        return self.num_heads // self.num_kv_heads

    @property
    def linear_parameters(self) -> int:
        """Parameters of all matrices that every token is multiplied with."""
        attention = self.hidden_size * self.head_dim * 2 * (self.num_heads + self.num_kv_heads)
        return self.num_layers * (attention + 3 * self.hidden_size * self.intermediate_size)


@dataclass(frozen=True)
class Checkpoint:
    folder: Path
    source_sha256: str
    config: Config
    tensor: Callable[[str], torch.Tensor]  # a memory-mapped tensor by name; raises ModelError when it is absent or misshapen


def open_checkpoint(folder: Path) -> Checkpoint:
    """Opens a converted model folder. Raises ModelError when it is damaged or its architecture is not supported."""
    description = _read_description(folder)
    architecture = description.get("architecture")
    if architecture not in ARCHITECTURES:
        raise ModelError(
            f"The model in {folder} has the architecture {architecture!r}, which the local engine cannot run. "
            f"It runs: {', '.join(ARCHITECTURES)}."
        )
    if description.get("converter") != CONVERTER:
        raise _damaged(
            folder, f"it was written by converter version {description.get('converter')!r}, this is version {CONVERTER}"
        )
    source = description.get("source_sha256")
    if not isinstance(source, str) or not source:
        raise _damaged(folder, "quail.json names no source_sha256")
    config = _config(folder, description.get("config"))
    return Checkpoint(folder, source, config, _tensors(folder, config))


def _read_description(folder: Path) -> Mapping[str, Any]:
    try:
        description = json.loads((folder / "quail.json").read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError) as error:
        raise _damaged(folder, f"quail.json cannot be read ({error})") from error
    if not isinstance(description, dict):
        raise _damaged(folder, "quail.json is not a mapping")
    return description


def _config(folder: Path, values: Any) -> Config:
    names = [field.name for field in fields(Config)]
    given = values if isinstance(values, dict) else {}
    missing = [field.name for field in fields(Config) if field.default is MISSING and field.name not in given]
    if missing:
        raise _damaged(folder, f"the config in quail.json lacks {', '.join(missing)}")
    config = Config(**{name: given[name] for name in names if name in given})
    numbers = [getattr(config, name) for name in names]
    if not all(isinstance(number, (int, float)) and number >= 0 for number in numbers):
        raise _damaged(folder, "the config in quail.json holds a value that is not a number")
    if not config.num_kv_heads or config.num_heads % config.num_kv_heads or config.head_dim % 2:
        raise _damaged(
            folder, f"{config.num_heads} heads of {config.head_dim} do not divide over {config.num_kv_heads} key-value heads"
        )
    return config


def _shapes(config: Config) -> dict[str, tuple[int, ...]]:
    """What the config says of tensors, by the last two words of their names."""
    queries, keys = config.num_heads * config.head_dim, config.num_kv_heads * config.head_dim
    hidden, width = config.hidden_size, config.intermediate_size
    return {
        "embed_tokens.weight": (config.vocab_size, hidden), "lm_head.weight": (config.vocab_size, hidden),
        "norm.weight": (hidden,), "input_layernorm.weight": (hidden,), "post_attention_layernorm.weight": (hidden,),
        "q_proj.weight": (queries, hidden), "k_proj.weight": (keys, hidden), "v_proj.weight": (keys, hidden),
        "q_proj.bias": (queries,), "k_proj.bias": (keys,), "v_proj.bias": (keys,), "o_proj.weight": (hidden, queries),
        "q_norm.weight": (config.head_dim,), "k_norm.weight": (config.head_dim,),
        "gate_proj.weight": (width, hidden), "up_proj.weight": (width, hidden), "down_proj.weight": (hidden, width),
    }  # fmt: skip


def _tensors(folder: Path, config: Config) -> Callable[[str], torch.Tensor]:
    path = folder / "model.safetensors"
    try:
        file: Any = safe_open(path, framework="pt")
    except (OSError, SafetensorError) as error:
        raise _damaged(folder, f"model.safetensors cannot be opened ({error})") from error

    shapes = _shapes(config)

    def tensor(name: str) -> torch.Tensor:
        try:
            found: torch.Tensor = file.get_tensor(name)
        except SafetensorError as error:
            raise _damaged(folder, f"model.safetensors has no tensor {name}") from error
        told = shapes.get(".".join(name.split(".")[-2:]))
        if told is not None and found.shape != told:
            raise _damaged(folder, f"{name} is {list(found.shape)}, and the config in quail.json says {list(told)}")
        return found

    return tensor


def _damaged(folder: Path, why: str) -> ModelError:
    return ModelError(
        f"The model folder {folder} is damaged: {why}. Remove the folder and convert the model again with `quail models pull`."
    )
