"""A published checkpoint, a folder with config.json, tokenizer.json and safetensors files: what it is, checked."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from quail_engine.errors import ModelError
from quail_engine.models.architecture import ARCHITECTURES, Config

_REFUSED = {
    "num_experts": "a mixture of experts",
    "num_local_experts": "a mixture of experts",
    "mlp_bias": "biases in its MLP",
    "vision_config": "images",
}


def read_json(path: Path) -> Any:
    try:
        return json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError) as error:
        raise ModelError(f"{path} cannot be read: {error}.") from error


def read_config(values: Mapping[str, Any]) -> tuple[str, Config]:
    """The architecture's name and its configuration, of a config.json. Raises ModelError for a decoder that the engine would
    run wrongly."""
    architecture = values.get("model_type")
    _refuse_unknown(architecture, values)
    heads, hidden = _count(values, "num_attention_heads"), _count(values, "hidden_size")
    config = Config(
        hidden_size=hidden,
        num_layers=_count(values, "num_hidden_layers"),
        num_heads=heads,
        num_kv_heads=_count(values, "num_key_value_heads", heads),
        head_dim=_count(values, "head_dim", hidden // heads),
        intermediate_size=_count(values, "intermediate_size"),
        vocab_size=_count(values, "vocab_size"),
        rms_norm_eps=_number(values, "rms_norm_eps"),
        tied_embeddings=values.get("tie_word_embeddings") is True,
        attention_bias=architecture == "qwen2",
        context=_count(values, "max_position_embeddings"),
        qk_norm=architecture == "qwen3",
        **_rope(values),
    )
    if heads % config.num_kv_heads or config.head_dim % 2:
        raise ModelError(f"The model's config is damaged: {heads} heads of {config.head_dim}, {config.num_kv_heads} for keys.")
    return str(architecture), config


def scale_block(values: Mapping[str, Any]) -> tuple[int, int] | None:
    """Rows and columns that share a scale in a checkpoint in 8 bits; None for one that is not quantised. Raises ModelError
    for another quantisation."""
    quantisation = values.get("quantization_config")
    if not quantisation:
        return None
    block = quantisation.get("weight_block_size") if isinstance(quantisation, dict) else None
    method = quantisation.get("quant_method") if isinstance(quantisation, dict) else quantisation
    sizes = [size for size in block if isinstance(size, int) and size > 0] if isinstance(block, list) else []
    if method != "fp8" or len(sizes) != 2:
        raise ModelError(
            f"The checkpoint is quantised by {method!r}; only 'fp8' with block scales is read. Use the original weights."
        )
    return sizes[0], sizes[1]


def tensor_shapes(config: Config) -> dict[str, tuple[int, ...]]:
    """Every tensor of the converted model."""
    hidden, mlp, dim = config.hidden_size, config.intermediate_size, config.head_dim
    query, key = config.num_heads * dim, config.num_kv_heads * dim
    shapes: dict[str, tuple[int, ...]] = {
        "model.embed_tokens.weight": (config.vocab_size, hidden),
        "model.norm.weight": (hidden,),
    }
    if not config.tied_embeddings:
        shapes["lm_head.weight"] = (config.vocab_size, hidden)
    layer: dict[str, tuple[int, ...]] = {
        "input_layernorm.weight": (hidden,),
        "post_attention_layernorm.weight": (hidden,),
        "self_attn.o_proj.weight": (hidden, query),
        "mlp.gate_proj.weight": (mlp, hidden),
        "mlp.up_proj.weight": (mlp, hidden),
        "mlp.down_proj.weight": (hidden, mlp),
    }
    for name, width in (("q", query), ("k", key), ("v", key)):
        layer[f"self_attn.{name}_proj.weight"] = (width, hidden)
        if config.attention_bias:
            layer[f"self_attn.{name}_proj.bias"] = (width,)
    if config.qk_norm:
        layer |= {"self_attn.q_norm.weight": (dim,), "self_attn.k_norm.weight": (dim,)}
    for number in range(config.num_layers):
        shapes |= {f"model.layers.{number}.{name}": shape for name, shape in layer.items()}
    return shapes


def _refuse_unknown(architecture: object, values: Mapping[str, Any]) -> None:
    for key, what in _REFUSED.items():
        if values.get(key):
            raise ModelError(f"The model has {what} ({key}), which the engine does not do.")
    sliding = values.get("use_sliding_window", architecture not in ARCHITECTURES) and values.get("sliding_window")
    if sliding or "sliding_attention" in (values.get("layer_types") or ()):
        raise ModelError("The model attends through sliding windows (sliding_window), which the engine does not do.")
    if architecture not in ARCHITECTURES:
        raise ModelError(f"Models of architecture {architecture!r} cannot be run; known are {', '.join(ARCHITECTURES)}.")
    if architecture != "qwen2" and values.get("attention_bias"):
        raise ModelError(
            f"The {architecture} model has biases in its attention (attention_bias), which the engine does not do."
        )
    if values.get("hidden_act", "silu") != "silu":
        raise ModelError(f"The model needs hidden_act = {values['hidden_act']!r}, which the engine does not do.")


def _rope(values: Mapping[str, Any]) -> dict[str, Any]:
    """The fields of `Config` that say how positions turn."""
    scaling = values.get("rope_parameters") or values.get("rope_scaling") or {}
    if not isinstance(scaling, dict):
        raise ModelError(f"The model's config is damaged: rope_scaling is {scaling!r}.")
    kind = scaling.get("rope_type", scaling.get("type", "default"))
    theta = {"rope_theta": scaling.get("rope_theta", values.get("rope_theta", 10_000.0))}
    found: dict[str, Any] = {"rope_theta": _number(theta, "rope_theta")}
    if kind == "default":
        return found
    if kind != "llama3":
        raise ModelError(f"The model stretches its positions by {kind!r}, which the engine does not do; it does 'llama3'.")
    return found | {
        "rope_factor": _number(scaling, "factor"),
        "rope_low": _number(scaling, "low_freq_factor"),
        "rope_high": _number(scaling, "high_freq_factor"),
        "rope_context": _count(scaling, "original_max_position_embeddings"),
    }


def _count(values: Mapping[str, Any], key: str, default: int | None = None) -> int:
    value = values.get(key)
    value = default if value is None else value
    if not isinstance(value, int) or isinstance(value, bool) or value < 1:
        raise ModelError(f"The model's config is damaged: {key} is {value!r} instead of a positive whole number.")
    return value


def _number(values: Mapping[str, Any], key: str) -> float:
    value = values.get(key)
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not 0 < value < float("inf"):
        raise ModelError(f"The model's config is damaged: {key} is {value!r} instead of a positive number.")
    return float(value)
