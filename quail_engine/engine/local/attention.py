"""Attention of a packed batch along its forest; see `packing` for how it is split."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import torch
from torch import Tensor

from quail_engine.engine.local.attention_kernel import AttentionKernel
from quail_engine.engine.local.packing import Gathered, Packing, PrefixCall
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
    values, and those taken; `contexts` holds the KV of each node that is attended to alone.
    """
    total = _attend_gathered(kernel, config, packing.own, query, own, causal=True)
    for level in packing.levels:
        for call in level.alone:
            part = _attend_alone(kernel, config, call, query, contexts[call.context])
            place = slice(call.queries.start, call.queries.end)
            _merge(Part(total.output[place], total.log_sum[place]), part)
        if level.gathered is not None:
            part = _attend_gathered(kernel, config, level.gathered, query, own, causal=False)
            tokens = torch.from_numpy(level.gathered.tokens)
            before = Part(total.output.index_select(0, tokens), total.log_sum.index_select(0, tokens))
            _merge(before, part)
            total.output.index_copy_(0, tokens, before.output)
            total.log_sum.index_copy_(0, tokens, before.log_sum)
    return total.output.to(query.dtype).flatten(1)


def _attend_gathered(kernel: AttentionKernel, config: Config, plan: Gathered, query: Tensor, own: KV, causal: bool) -> Part:
    dim, heads, group = config.head_dim, config.num_kv_heads, config.group
    queries = query.reshape(-1, dim).index_select(0, torch.from_numpy(plan.queries))
    keys, values = (part.reshape(-1, dim).index_select(0, torch.from_numpy(plan.keys)) for part in own)
    outputs, log_sums = [], []
    query_end = key_end = 0
    for call in plan.calls:
        query_start, key_start = query_end, key_end
        query_end += call.pairs * call.members * call.query_rows
        key_end += call.pairs * call.keys
        # The members share one key head: an expanded view, with (node, kv head) as the batch.
        key, value = (
            part[key_start:key_end].view(call.pairs, 1, call.keys, dim).expand(-1, call.members, -1, -1)
            for part in (keys, values)
        )
        called = queries[query_start:query_end].view(call.pairs, call.members, call.query_rows, dim)
        output, log_sum = kernel(called, key, value, causal)
        outputs.append(output.reshape(-1, dim))
        log_sums.append(log_sum.reshape(-1))
    wanted = torch.from_numpy(plan.outputs)
    return Part(
        torch.cat(outputs).index_select(0, wanted).float().view(-1, group, heads, dim),
        torch.cat(log_sums).index_select(0, wanted).view(-1, group, heads),
    )


def _attend_alone(kernel: AttentionKernel, config: Config, call: PrefixCall, query: Tensor, context: KV) -> Part:
    group, heads, dim = config.group, config.num_kv_heads, config.head_dim
    start, wanted = call.queries.start * group, (call.queries.end - call.queries.start) * group
    # The rows that round the count up belong to other tokens, or to nobody; they are computed and dropped.
    padded = query[None, :, start : start + round_up(wanted, query_step(heads))]
    key, value = context
    output, log_sum = kernel(padded, key[None], value[None], False)
    return Part(
        output[0, :, :wanted].float().transpose(0, 1).view(-1, group, heads, dim),
        log_sum[0, :, :wanted].transpose(0, 1).view(-1, group, heads),
    )


def _merge(total: Part, part: Part) -> None:
    """Adds a part to what its tokens have: both parts' softmax as one. Sigmoid and log-sum-exp are written out: see `rows` for
    why."""
    share = (1 + (total.log_sum - part.log_sum).exp_()).reciprocal_()
    larger = torch.maximum(total.log_sum, part.log_sum)
    total.output.add_(part.output.sub_(total.output).mul_(share[..., None]))
    total.log_sum.sub_(part.log_sum).abs_().neg_().exp_().log1p_().add_(larger)
