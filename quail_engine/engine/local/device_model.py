"""The decoder on a device: weights, and a forward pass that only launches. Nothing in it waits for the device."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor

from quail_engine.engine.local.arena import Arena
from quail_engine.engine.local.device_kernels import Arrays, Kernels, PlannedAttention
from quail_engine.engine.local.device_plan import DevicePlan, Group
from quail_engine.engine.local.kernels.quantise import Quantised, quantised_reference
from quail_engine.engine.local.model import fused_qkv, paired_norms
from quail_engine.engine.local.pooling import Sums
from quail_engine.engine.local.rope import rotations
from quail_engine.engine.local.weights import Checkpoint, Config
from quail_engine.prompts.request import HIDDEN


@dataclass(frozen=True)
class Matrix:
    weight: Tensor  # [out, in], in the model's dtype or fp8
    scale: Tensor | None  # fp32 [1, out], of fp8 weights: one a row
    bias: Tensor | None = None


@dataclass(frozen=True)
class DeviceLayer:
    attention_norm: Tensor  # fp32 [hidden]
    qkv: Matrix  # Q and K rows in neighbouring pairs
    qk_norms: Tensor | None  # fp32 [2, head_dim], in neighbouring pairs
    attention_output: Matrix
    mlp_norm: Tensor
    gate_up: Matrix
    down: Matrix


@dataclass(frozen=True)
class DeviceModel:
    config: Config
    layers: tuple[DeviceLayer, ...]
    embedding: Tensor  # [vocab, hidden]
    head: Tensor  # likewise; the same when tied
    final_norm: Tensor  # fp32 [hidden]
    rotation: Tensor  # fp32 [context, head_dim / 2, 2]: cosine and sine
    dtype: torch.dtype
    fp8: bool
    kernels: Kernels


def build_device_model(
    checkpoint: Checkpoint, dtype: torch.dtype, device: torch.device, fp8: bool, kernels: Kernels
) -> DeviceModel:
    """Weights copied to the device. With `fp8` the layers' matrices are quantised by rows; embedding, norms, head are not."""
    config = checkpoint.config

    def vector(name: str) -> Tensor:
        return checkpoint.tensor(name).to(device, torch.float32)

    def matrix(weight: Tensor, bias: Tensor | None = None) -> Matrix:
        weight = weight.to(device)
        bias = None if bias is None else bias.to(device, dtype)
        if not fp8:
            return Matrix(weight.to(dtype), None, bias)
        rows, scales = quantised_reference(weight)
        return Matrix(rows, scales.t(), bias)

    def layer(prefix: str) -> DeviceLayer:
        gate_up = torch.cat([checkpoint.tensor(f"{prefix}mlp.{name}_proj.weight") for name in ("gate", "up")])
        bias = fused_qkv(checkpoint, prefix, "bias") if config.attention_bias else None
        return DeviceLayer(
            attention_norm=vector(f"{prefix}input_layernorm.weight"),
            qkv=matrix(fused_qkv(checkpoint, prefix, "weight"), bias),
            qk_norms=paired_norms(checkpoint, prefix).to(device) if config.qk_norm else None,
            attention_output=matrix(checkpoint.tensor(f"{prefix}self_attn.o_proj.weight")),
            mlp_norm=vector(f"{prefix}post_attention_layernorm.weight"),
            gate_up=matrix(gate_up),
            down=matrix(checkpoint.tensor(f"{prefix}mlp.down_proj.weight")),
        )

    embedding = checkpoint.tensor("model.embed_tokens.weight").to(device, dtype)
    return DeviceModel(
        config=config,
        layers=tuple(layer(f"model.layers.{number}.") for number in range(config.num_layers)),
        embedding=embedding,
        head=embedding if config.tied_embeddings else checkpoint.tensor("lm_head.weight").to(device, dtype),
        final_norm=vector("model.norm.weight"),
        rotation=torch.view_as_real(rotations(torch.arange(config.context), config)[:, 0]).to(device),
        dtype=dtype,
        fp8=fp8,
        kernels=kernels,
    )


def forward(
    model: DeviceModel, plan: DevicePlan, arrays: Arrays, attention: PlannedAttention, arena: Arena, sums: Sums | None
) -> Tensor:
    """Hidden states after the final norm, fp32 [read tokens, hidden]. `arrays` are the plan's and the attention's.

    The batch's keys and values are put into the arena; `sums` takes the states that it adds up. The residual stream is fp32.
    """
    config, kernels, fp8 = model.config, model.kernels, model.fp8
    residual = model.embedding.index_select(0, arrays["ids"]).float()
    like, update = model.embedding, None
    for number, layer in enumerate(model.layers):
        keys, values = arena.keys[number], arena.values[number]
        normed = kernels.add_norm(residual, update, layer.attention_norm, config.rms_norm_eps, like, fp8)
        if sums:
            sums.add(number, residual)
        qkv = product(normed, layer.qkv, model.dtype).view(plan.rows, -1, config.head_dim)
        kernels.rope(
            qkv, model.rotation, arrays["positions"], config.num_heads, config.num_kv_heads, layer.qk_norms, config.rms_norm_eps
        )
        kernels.scatter_kv(qkv, keys, values, arrays["fresh"])
        attended = attention.run(arrays, qkv[:, : config.num_heads], keys, values).flatten(1)
        if number == len(model.layers) - 1:
            attended, residual = (part.index_select(0, arrays["read"]) for part in (attended, residual))
        given = kernels.quantise(attended) if fp8 else attended
        update = product(given, layer.attention_output, model.dtype)
        normed = kernels.add_norm(residual, update, layer.mlp_norm, config.rms_norm_eps, like, fp8)
        update = product(kernels.swiglu(product(normed, layer.gate_up, model.dtype), fp8), layer.down, model.dtype)
    hidden = kernels.add_norm(residual, update, model.final_norm, config.rms_norm_eps, model.final_norm)
    assert isinstance(hidden, Tensor)
    return hidden


def readout(model: DeviceModel, plan: DevicePlan, arrays: Arrays, hidden: Tensor, means: Callable[[Group], Tensor]) -> Tensor:
    """What the reads take, group by group, end to end: fp32, of each group [members, head rows or features]. Features are the
    state that is read, and `means` [members, …] of the states before it."""
    found = []
    for number, group in enumerate(plan.groups):
        states = hidden.index_select(0, arrays[f"states {number}"])
        if group.rows[0] == HIDDEN:
            states = torch.cat([states[: len(group.members)], means(group)], 1)
        else:
            states = F.linear(states, model.head.index_select(0, arrays[f"head {number}"]).float())[: len(group.members)]
        found.append(states.flatten())
    return torch.cat(found) if found else hidden.flatten()


def product(given: Tensor | Quantised, matrix: Matrix, dtype: torch.dtype) -> Tensor:
    """[rows, in] times the matrix, in `dtype`; of fp8 rows where the matrix is fp8."""
    if matrix.scale is None:
        assert isinstance(given, Tensor)
        return F.linear(given, matrix.weight, matrix.bias)
    rows, scales = given
    result = torch._scaled_mm(
        rows, matrix.weight.t(), scale_a=scales, scale_b=matrix.scale, out_dtype=dtype, use_fast_accum=True
    )
    return result if matrix.bias is None else result.add_(matrix.bias)
