"""Attention over sequences packed end to end, of the libraries that are installed: torch's own, and flash-attn's.

Their signatures change between releases. So parameters are looked up by name, and each function is called once on the device
with a tiny input before anything relies on it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from importlib import import_module
from inspect import signature
from typing import Any

import torch
from torch import Tensor

Varlen = Callable[[Tensor, Tensor, Tensor, Tensor, Tensor, int, int, bool], tuple[Tensor, Tensor]]
"""(queries [tokens, query heads, dim], keys and values [keys, key heads, dim], where each sequence's queries and its keys
begin, and the last one's end, int32 [sequences + 1], the most queries and keys of one, causal) → output as `queries`, and the
log of the sum of weights, fp32 [tokens, query heads]. Scores are scaled by dim^-0.5. Causal: a sequence's last query sees all
keys, the one before it all but the last. No sequence is without keys."""

_LIBRARIES = {
    "flash-attn": ("flash_attn_interface", "flash_attn_varlen_func"),  # its third generation, for Hopper
    "flash-attn 2": ("flash_attn", "flash_attn_varlen_func"),
    "varlen_attn": ("torch.nn.attention.varlen", "varlen_attn"),
}


def installed(device: torch.device, dtype: torch.dtype) -> dict[str, Varlen]:
    """By name, those that take such numbers there and give what is read of them. That it is right is not looked at here."""
    return {name: found for name, call in _imported() if (found := _probed(call, device, dtype))}


def _imported() -> Iterator[tuple[str, Callable[..., Any]]]:
    for name, (module, function) in _LIBRARIES.items():
        try:
            yield name, getattr(import_module(module), function)
        except Exception:  # noqa: BLE001 - not installed, or built for another torch, which raises whatever the linker says
            continue


def _probed(call: Callable[..., Any], device: torch.device, dtype: torch.dtype) -> Varlen | None:
    """None: it cannot be used. More tokens than heads tell which way the log-sums lie."""
    tokens, query_heads, key_heads = 5, 2, 1
    try:
        named = _named(call)
        query, key = (torch.zeros(tokens, heads, 64, dtype=dtype, device=device) for heads in (query_heads, key_heads))
        bounds = torch.tensor([0, tokens], dtype=torch.int32, device=device)
        output, log_sums = named(query, key, key, bounds, bounds, tokens, tokens, True)
    except Exception:  # noqa: BLE001 - whatever a library or a driver raises, others serve as well
        return None
    if output.shape != query.shape or log_sums.shape not in ((tokens, query_heads), (query_heads, tokens)):
        return None
    if log_sums.shape == (tokens, query_heads):
        return named

    def turned(*given: Any) -> tuple[Tensor, Tensor]:
        output, log_sums = named(*given)
        return output, log_sums.t()

    return turned


def _named(call: Callable[..., Any]) -> Varlen:
    """`call` with its options by the names that this release has for them."""
    known = signature(call).parameters
    wanted: dict[str, Any] = {
        "return_attn_probs": True,  # flash-attn: and the log-sums
        "enable_gqa": True,
        "num_splits": 1,  # keys in one piece: else a row's bits depend on how many sequences there are
    }
    options = {name: value for name, value in wanted.items() if name in known}
    if "return_aux" in known:
        options["return_aux"] = import_module(call.__module__).AuxRequest(lse=True)
    ways: dict[str, Any] = {"causal": True, "is_causal": True, "window_size": (-1, 0)}
    name = next((name for name in ways if name in known), "window_size")
    causal = {name: ways[name]}

    def named(
        queries: Tensor,
        keys: Tensor,
        values: Tensor,
        starts: Tensor,
        key_starts: Tensor,
        most: int,
        most_keys: int,
        is_causal: bool,
    ) -> tuple[Tensor, Tensor]:
        given = options | (causal if is_causal else {})
        output, log_sums, *_ = call(queries, keys, values, starts, key_starts, most, most_keys, **given)
        return output, log_sums.float()

    return named
