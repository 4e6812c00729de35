"""Attention of a packed batch along its forest; see `packing` for how it is split."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import torch
from torch import Tensor

from quail_engine.engine.local.attention_kernel import AttentionKernel
from quail_engine.engine.local.packing import OwnAttention, Packing, PrefixCall
from quail_engine.engine.local.rows import query_step, round_up
from quail_engine.engine.local.weights import Config

KV = tuple[Tensor, Tensor]
"""Keys and values, each [kv heads, tokens, head_dim]."""


@dataclass(frozen=True)
class Part:
    """Attention to some of the keys: the output normalised over them, and the weight that they have."""

    output: Tensor  # fp32 [rows, group, kv heads, head_dim]
    log_sum: Tensor  # fp32 [rows, group, kv heads]


def attend(
    kernel: AttentionKernel, config: Config, packing: Packing, query: Tensor, own: KV, contexts: Mapping[int, KV]
) -> Tensor:
    """Output of the attention, [rows, group · kv heads · head_dim].

    `query` is [kv heads, query rows, head_dim], a query row being (token, group member); `own` are the batch's keys and
    values; `contexts` holds the KV of each node that `packing.levels` attends to.
    """
    total = _attend_own(kernel, config, packing.own, query, own)
    for calls in packing.levels:
        total = _merge(total, _attend_prefixes(kernel, config, calls, query, contexts, total))
    return total.output.to(query.dtype).flatten(1)


def _attend_own(kernel: AttentionKernel, config: Config, plan: OwnAttention, query: Tensor, own: KV) -> Part:
    dim, heads, group = config.head_dim, config.num_kv_heads, config.group
    queries = query.reshape(-1, dim).index_select(0, torch.from_numpy(plan.queries))
    keys, values = (part.reshape(-1, dim).index_select(0, torch.from_numpy(plan.keys)) for part in own)
    outputs, log_sums = [], []
    start = 0
    for call in plan.calls:
        pairs = call.nodes * heads
        end = start + pairs * call.length
        # The group's query heads share one key head: an expanded view, with (node, kv head) as the batch.
        key, value = (part[start:end].view(pairs, 1, call.length, dim).expand(-1, group, -1, -1) for part in (keys, values))
        called = queries[start * group : end * group].view(pairs, group, call.length, dim)
        output, log_sum = kernel(called, key, value, True)
        outputs.append(output.transpose(1, 2).reshape(-1, dim))
        log_sums.append(log_sum.transpose(1, 2).reshape(-1))
        start = end
    scatter = torch.from_numpy(plan.scatter)
    return Part(
        torch.cat(outputs).index_select(0, scatter).float().view(-1, group, heads, dim),
        torch.cat(log_sums).index_select(0, scatter).view(-1, group, heads),
    )


def _attend_prefixes(
    kernel: AttentionKernel,
    config: Config,
    calls: tuple[PrefixCall, ...],
    query: Tensor,
    contexts: Mapping[int, KV],
    like: Part,
) -> Part:
    """One level. Tokens without an ancestor on it get the weight exp(-inf)."""
    output, log_sum = torch.zeros_like(like.output), torch.full_like(like.log_sum, float("-inf"))
    group, heads, dim = like.output.shape[1:]
    for call in calls:
        start, end = call.queries.start, call.queries.end
        wanted = (end - start) * group
        # The rows that round the count up belong to other tokens, or to nobody; they are computed and dropped.
        padded = query[:, start * group : start * group + round_up(wanted, query_step(heads))]
        key, value = contexts[call.context]
        part, weight = kernel(padded[None], key[None], value[None], False)
        output[start:end] = part[0, :, :wanted].transpose(0, 1).view(-1, group, heads, dim)
        log_sum[start:end] = weight[0, :, :wanted].transpose(0, 1).view(-1, group, heads)
    return Part(output, log_sum)


def _merge(first: Part, second: Part) -> Part:
    """Both parts' softmax as one. Sigmoid and log-sum-exp are written out: see `rows` for why."""
    share = (1 + (first.log_sum - second.log_sum).exp_()).reciprocal_()
    larger = torch.maximum(first.log_sum, second.log_sum)
    log_sum = (first.log_sum - second.log_sum).abs_().neg_().exp_().log1p_().add_(larger)
    output = second.output.sub_(first.output).mul_(share[..., None]).add_(first.output)
    return Part(output, log_sum)
