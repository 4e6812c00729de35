"""What a GGUF file says about its decoder, checked: the configuration, and the name and shape of every tensor."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from quail_engine.errors import ModelError
from quail_engine.models.gguf_file import GgufFile

ARCHITECTURES = ("llama", "qwen2", "qwen3")

_TOP = {"token_embd": "model.embed_tokens", "output_norm": "model.norm", "output": "lm_head"}
_LAYER = {
    "attn_norm": "input_layernorm",
    "attn_q": "self_attn.q_proj",
    "attn_k": "self_attn.k_proj",
    "attn_v": "self_attn.v_proj",
    "attn_output": "self_attn.o_proj",
    "attn_q_norm": "self_attn.q_norm",
    "attn_k_norm": "self_attn.k_norm",
    "ffn_norm": "post_attention_layernorm",
    "ffn_gate": "mlp.gate_proj",
    "ffn_up": "mlp.up_proj",
    "ffn_down": "mlp.down_proj",
}


@dataclass(frozen=True)
class Config:
    """A decoder's dimensions; written to quail.json under these names."""

    hidden_size: int
    num_layers: int
    num_heads: int
    num_kv_heads: int
    head_dim: int
    intermediate_size: int
    vocab_size: int
    rope_theta: float
    rms_norm_eps: float
    tied_embeddings: bool  # no lm_head: the output matrix is the embedding
    attention_bias: bool  # q, k and v have biases
    context: int  # tokens
    qk_norm: bool = False  # an RMS norm of each query and key head before the positions
    rope_factor: float = 0.0  # these four: how Llama 3 stretches its positions; 0 = not at all
    rope_low: float = 0.0
    rope_high: float = 0.0
    rope_context: int = 0


@dataclass(frozen=True)
class Source:
    """Where a tensor of the converted model comes from."""

    name: str  # in the GGUF file
    shape: tuple[int, ...]
    interleaved_heads: int = 0  # rows are stored for interleaved RoPE, in this many heads; 0 = already half-split


def read_architecture(gguf: GgufFile) -> tuple[str, Config]:
    """The architecture's name and its configuration. Raises ModelError for a decoder that the engine would run wrongly."""
    architecture = gguf.metadata.get("general.architecture")
    if architecture not in ARCHITECTURES:
        raise ModelError(f"Models of architecture {architecture!r} cannot be run; known are {', '.join(ARCHITECTURES)}.")
    entries = {k.removeprefix(f"{architecture}."): v for k, v in gguf.metadata.items() if k.startswith(f"{architecture}.")}
    for key in entries:
        if key.startswith(("rope.scaling.", "attention.sliding_window", "expert_")) and entries[key] not in (0, "none"):
            raise ModelError(f"The model needs {architecture}.{key} = {entries[key]!r}, which the engine does not do.")
    heads, hidden = _count(entries, "attention.head_count"), _count(entries, "embedding_length")
    head_dim = _count(entries, "attention.key_length", hidden // heads)
    for key in ("rope.dimension_count", "attention.value_length"):
        if _count(entries, key, head_dim) != head_dim:
            raise ModelError(
                f"The model's {architecture}.{key} differs from its head size {head_dim}; the engine cannot run that."
            )
    tokens = gguf.metadata.get("tokenizer.ggml.tokens")
    if not isinstance(tokens, list) or not tokens:
        raise ModelError("The model's file holds no vocabulary.")
    config = Config(
        hidden_size=hidden,
        num_layers=_count(entries, "block_count"),
        num_heads=heads,
        num_kv_heads=_count(entries, "attention.head_count_kv", heads),
        head_dim=head_dim,
        intermediate_size=_count(entries, "feed_forward_length"),
        vocab_size=len(tokens),
        rope_theta=_number(entries, "rope.freq_base", 10_000.0),
        rms_norm_eps=_number(entries, "attention.layer_norm_rms_epsilon"),
        tied_embeddings="output.weight" not in gguf.tensors,
        attention_bias="blk.0.attn_q.bias" in gguf.tensors,
        context=_count(entries, "context_length"),
        qk_norm=architecture == "qwen3",
    )
    if heads % config.num_kv_heads or head_dim % 2:
        raise ModelError(f"The model's file is damaged: {heads} heads of {head_dim}, {config.num_kv_heads} of them for keys.")
    return architecture, config


def tensor_sources(gguf: GgufFile, architecture: str, config: Config) -> dict[str, Source]:
    """Every tensor of the converted model, by name. Raises ModelError unless the file holds exactly these, in these shapes."""
    if config.num_layers > len(gguf.tensors):  # before a damaged number makes the loop below endless
        raise ModelError(f"The model's file is damaged: {config.num_layers} layers, but {len(gguf.tensors)} tensors.")
    sources = _top_sources(config)
    for layer in range(config.num_layers):
        sources |= _layer_sources(layer, architecture, config)
    wanted = {source.name for source in sources.values()}
    if missing := sorted(wanted - gguf.tensors.keys()):
        raise ModelError(f"The model's file is damaged: {missing[0]} and {len(missing) - 1} more tensors are missing.")
    if surplus := sorted(gguf.tensors.keys() - wanted):
        raise ModelError(
            f"The model has tensors that the engine does not know ({', '.join(surplus[:3])}); it would answer wrongly."
        )
    for source in sources.values():
        found = gguf.tensors[source.name].shape
        if found != source.shape:
            raise ModelError(f"The model's file is damaged: {source.name} has the shape {found} instead of {source.shape}.")
    return sources


def _top_sources(config: Config) -> dict[str, Source]:
    shapes = {"token_embd": (config.vocab_size, config.hidden_size), "output_norm": (config.hidden_size,)}
    if not config.tied_embeddings:
        shapes["output"] = (config.vocab_size, config.hidden_size)
    return {f"{_TOP[name]}.weight": Source(f"{name}.weight", shape) for name, shape in shapes.items()}


def _layer_sources(layer: int, architecture: str, config: Config) -> dict[str, Source]:
    hidden, mlp = config.hidden_size, config.intermediate_size
    query, key = config.num_heads * config.head_dim, config.num_kv_heads * config.head_dim
    shapes: dict[str, tuple[int, ...]] = {
        "attn_norm": (hidden,),
        "attn_q": (query, hidden),
        "attn_k": (key, hidden),
        "attn_v": (key, hidden),
        "attn_output": (hidden, query),
        "ffn_norm": (hidden,),
        "ffn_gate": (mlp, hidden),
        "ffn_up": (mlp, hidden),
        "ffn_down": (hidden, mlp),
    }
    if config.qk_norm:
        shapes |= {"attn_q_norm": (config.head_dim,), "attn_k_norm": (config.head_dim,)}
    # GGUF stores Q and K of the llama family with each head's rows interleaved, for a RoPE over neighbouring pairs.
    interleaved = {"attn_q": config.num_heads, "attn_k": config.num_kv_heads} if architecture == "llama" else {}
    sources = {}
    for name, shape in shapes.items():
        target, source = f"model.layers.{layer}.{_LAYER[name]}", f"blk.{layer}.{name}"
        sources[f"{target}.weight"] = Source(f"{source}.weight", shape, interleaved.get(name, 0))
        if config.attention_bias and name in ("attn_q", "attn_k", "attn_v"):
            sources[f"{target}.bias"] = Source(f"{source}.bias", shape[:1], interleaved.get(name, 0))
    return sources


def _count(entries: Mapping[str, Any], key: str, default: int | None = None) -> int:
    value = entries.get(key, default)
    if not isinstance(value, int) or isinstance(value, bool) or value < 1:
        raise ModelError(f"The model's file is damaged: {key} is {value!r} instead of a positive whole number.")
    return value


def _number(entries: Mapping[str, Any], key: str, default: float | None = None) -> float:
    value = entries.get(key, default)
    if not isinstance(value, float) or not 0 < value < float("inf"):
        raise ModelError(f"The model's file is damaged: {key} is {value!r} instead of a positive number.")
    return value
