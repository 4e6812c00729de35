"""The decoder: weights arranged for packed prefill, and the forward pass."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor

from quail_engine.engine.local.attention import KV, attend
from quail_engine.engine.local.attention_kernel import AttentionKernel
from quail_engine.engine.local.linear import Linear, Widened, linear, stacked
from quail_engine.engine.local.packing import Packing
from quail_engine.engine.local.pooling import Sums
from quail_engine.engine.local.rope import pair_neighbours, rotate, rotations
from quail_engine.engine.local.weights import Checkpoint, Config


@dataclass(frozen=True)
class Layer:
    """Matrices in the model's dtype, norms in fp32."""

    attention_norm: Tensor  # [hidden]
    qkv: Linear  # [(heads + 2 · kv heads) · head_dim, hidden]; Q and K rows in neighbouring pairs
    qk_norms: Tensor | None  # [2, head_dim], of query and of key heads; in neighbouring pairs
    attention_output: Linear  # [hidden, group · kv heads · head_dim]: columns in the order of `attend`
    mlp_norm: Tensor  # [hidden]
    gate_up: Linear | Widened  # [2 · intermediate, hidden]
    down: Linear | Widened  # [hidden, intermediate]


@dataclass(frozen=True)
class Decoder:
    config: Config
    layers: tuple[Layer, ...]
    embedding: Tensor  # [vocab, hidden], memory-mapped; its rows are read as they are needed
    head: Tensor  # likewise; the same matrix when tied
    final_norm: Tensor  # fp32 [hidden]
    rotation: Tensor  # complex64 [context, 1, head_dim / 2]
    kernel: AttentionKernel


def build_decoder(checkpoint: Checkpoint, dtype: torch.dtype, kernel: AttentionKernel) -> Decoder:
    """Fuses matrices, or leaves them where they are mapped, as embedding and head. Raises ModelError for a missing tensor."""
    config, tensor = checkpoint.config, checkpoint.tensor
    embedding = tensor("model.embed_tokens.weight")
    room = room_for(config)
    return Decoder(
        config=config,
        layers=tuple(_layer(checkpoint, f"model.layers.{number}.", dtype, room) for number in range(config.num_layers)),
        embedding=embedding,
        head=embedding if config.tied_embeddings else tensor("lm_head.weight"),
        final_norm=tensor("model.norm.weight").float(),
        rotation=rotations(torch.arange(config.context), config),
        kernel=kernel,
    )


def room_for(config: Config) -> Tensor:
    """Of the largest matrix that may be widened; untouched, it takes no memory."""
    return torch.empty(2 * config.intermediate_size * config.hidden_size)


def _layer(checkpoint: Checkpoint, prefix: str, dtype: torch.dtype, room: Tensor) -> Layer:
    config = checkpoint.config

    def tensor(name: str) -> Tensor:
        return checkpoint.tensor(prefix + name)

    output = tensor("self_attn.o_proj.weight").view(config.hidden_size, config.num_kv_heads, config.group, config.head_dim)
    return Layer(
        attention_norm=tensor("input_layernorm.weight").float(),
        qkv=linear(
            fused_qkv(checkpoint, prefix, "weight").to(dtype),
            fused_qkv(checkpoint, prefix, "bias").to(dtype) if config.attention_bias else None,
        ),
        qk_norms=paired_norms(checkpoint, prefix) if config.qk_norm else None,
        attention_output=linear(output.transpose(1, 2).reshape(config.hidden_size, -1).to(dtype)),
        mlp_norm=tensor("post_attention_layernorm.weight").float(),
        gate_up=stacked([tensor("mlp.gate_proj.weight"), tensor("mlp.up_proj.weight")], dtype, room),
        down=stacked([tensor("mlp.down_proj.weight")], dtype, room),
    )


def fused_qkv(checkpoint: Checkpoint, prefix: str, kind: str) -> Tensor:
    """A layer's Q, K and V projections ('weight' or 'bias') as one; Q and K rows in neighbouring pairs."""
    query, key, value = (checkpoint.tensor(f"{prefix}self_attn.{name}_proj.{kind}") for name in "qkv")
    dim = checkpoint.config.head_dim
    return torch.cat([pair_neighbours(query, dim), pair_neighbours(key, dim), value])


def paired_norms(checkpoint: Checkpoint, prefix: str) -> Tensor:
    """Weights of a layer's QK-norm, fp32 [2, head_dim], in neighbouring pairs."""
    norms = (checkpoint.tensor(f"{prefix}self_attn.{name}_norm.weight").float() for name in "qk")
    return torch.stack([pair_neighbours(norm, checkpoint.config.head_dim) for norm in norms])


def forward(
    model: Decoder, packing: Packing, held: Mapping[int, Tensor], kept: Mapping[int, Tensor], sums: Sums | None = None
) -> Tensor:
    """Hidden states after the final norm, fp32 [read rows, hidden], at `packing.read_tokens`.

    `held` has the KV of earlier nodes, a tensor [layers, 2, kv heads, tokens, head_dim] a node; `kept`, for nodes of this
    batch, is filled alike; `sums` takes the states that it adds up. The residual stream is fp32 whatever the matrices' dtype.
    """
    hidden = model.embedding.index_select(0, torch.from_numpy(packing.ids)).float()
    rotation = model.rotation.index_select(0, torch.from_numpy(packing.positions))
    for number, layer in enumerate(model.layers):
        query, own = _project(model.config, layer, packing, rotation, hidden)
        if packing.taken:
            own = _extended(own, packing, held, number)
        for node, kv in kept.items():
            kv[number, 0], kv[number, 1] = _of_node(own, packing, node)
        attended = attend(model.kernel, model.config, packing, query, own, _contexts(packing, own, held, number))
        if number == len(model.layers) - 1:
            read = torch.from_numpy(packing.read_tokens)
            hidden, attended = hidden.index_select(0, read), attended.index_select(0, read)
        hidden += layer.attention_output(attended)
        hidden += _mlp(model.config, layer, hidden)
        if sums:
            sums.add(number + 1, hidden)
    return _normed(hidden, model.final_norm, model.config.rms_norm_eps)


def readout(model: Decoder, hidden: Tensor, rows: tuple[int, ...]) -> Tensor:
    """Logits fp32 [hidden rows, len(rows)] of some head rows; `hidden` has a safe number of rows."""
    return F.linear(hidden, model.head.index_select(0, torch.tensor(rows)).float())


def _project(config: Config, layer: Layer, packing: Packing, rotation: Tensor, hidden: Tensor) -> tuple[Tensor, KV]:
    """Queries [kv heads, query rows, head_dim] and the batch's KV, positions applied."""
    heads, dim, group = config.num_kv_heads, config.head_dim, config.group
    projected = layer.qkv(_normed(hidden, layer.attention_norm, config.rms_norm_eps).to(layer.qkv.dtype))
    projected = projected.view(packing.rows, -1, dim)
    turned = projected[:, : config.num_heads + heads]
    if layer.qk_norms is not None:
        weights = layer.qk_norms.repeat_interleave(torch.tensor([config.num_heads, heads]), 0)
        turned = _normed(turned.float(), weights, config.rms_norm_eps)
    turned = rotate(turned, rotation)
    query = projected.new_zeros(heads, packing.query_rows, dim)
    query[:, : packing.rows * group].view(heads, packing.rows, group, dim).copy_(
        turned[:, : config.num_heads].view(packing.rows, heads, group, dim).transpose(0, 1)
    )
    key = turned[:, config.num_heads :].transpose(0, 1).contiguous().to(projected.dtype)
    value = projected[:, config.num_heads + heads :].transpose(0, 1).contiguous()
    return query, (key, value)


def _contexts(packing: Packing, own: KV, held: Mapping[int, Tensor], number: int) -> dict[int, KV]:
    """The KV in layer `number` of every node that is attended to in a call of its own."""
    contexts: dict[int, KV] = {}
    for call in (call for level in packing.levels for call in level.alone):
        if call.context in packing.spans:
            contexts[call.context] = _of_node(own, packing, call.context)
        else:
            key, value = held[call.context][number]
            contexts[call.context] = (key, value)
    return contexts


def _of_node(own: KV, packing: Packing, node: int) -> KV:
    """The keys and values of a node of this batch."""
    key, value = own
    if node in packing.kv_rows:
        rows = torch.from_numpy(packing.kv_rows[node])
        return key.index_select(1, rows), value.index_select(1, rows)
    span = packing.spans[node]
    return key[:, span.start : span.end], value[:, span.start : span.end]


def _extended(own: KV, packing: Packing, held: Mapping[int, Tensor], number: int) -> KV:
    """The batch's keys and values with those behind them that are taken from held nodes."""
    key, value = own
    taken = [held[node][number, :, :, :tokens] for node, tokens in packing.taken]
    return torch.cat([key, *(part[0] for part in taken)], 1), torch.cat([value, *(part[1] for part in taken)], 1)


def _mlp(config: Config, layer: Layer, hidden: Tensor) -> Tensor:
    gate_up = layer.gate_up(_normed(hidden, layer.mlp_norm, config.rms_norm_eps).to(layer.gate_up.dtype))
    gate, up = gate_up.chunk(2, dim=-1)
    return layer.down(F.silu(gate).mul_(up))


def _normed(hidden: Tensor, weight: Tensor, epsilon: float) -> Tensor:
    """RMS norm in fp32."""
    return (hidden * hidden.square().mean(-1, keepdim=True).add_(epsilon).rsqrt_()).mul_(weight)
