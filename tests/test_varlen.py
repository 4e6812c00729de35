"""Attention of libraries: each release's signature by a stand-in, the same numbers as plain torch, and who is chosen."""

from __future__ import annotations

import sys
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from types import ModuleType
from typing import Any, NamedTuple

import numpy as np
import pytest
import torch
from reference.requests import random_requests, score
from torch import Tensor

from quail_engine.engine import kernel_checks, machine_files
from quail_engine.engine.kernel_checks import KernelChecks
from quail_engine.engine.local import device_engine, kernel_choice
from quail_engine.engine.local.device_kernels import TORCH, Attention, by_sequences
from quail_engine.engine.local.kernel_check import attention_seconds, disagreements
from quail_engine.engine.local.kernel_choice import Chosen, chosen
from quail_engine.engine.local.varlen import installed
from quail_engine.engine.local.weights import Config

CPU = torch.device("cpu")
CONFIG = Config(32, 1, 6, 2, 16, 32, 9, 1e4, 1e-6, tied_embeddings=True, attention_bias=False, context=64, qk_norm=True)


def attention(q: Tensor, k: Tensor, v: Tensor, starts: Tensor, key_starts: Tensor, causal: bool) -> tuple[Tensor, Tensor]:
    """Sequence by sequence, the last query beside the last key; log-sums [heads, tokens]."""
    outputs, log_sums = [], []
    group = q.shape[1] // k.shape[1]
    for (low, high), (first, end) in zip(*(np.lib.stride_tricks.sliding_window_view(b, 2) for b in (starts, key_starts))):  # noqa: B905
        key, value = (part[first:end].repeat_interleave(group, 1) for part in (k, v))
        scores = torch.einsum("qhd,khd->hqk", q[low:high], key) * q.shape[2] ** -0.5
        if causal:
            hidden = torch.ones(high - low, end - first, dtype=torch.bool).triu(1 + (end - first) - (high - low))
            scores = scores.masked_fill(hidden, float("-inf"))
        log_sums.append(scores.logsumexp(-1))
        outputs.append(torch.einsum("hqk,khd->qhd", scores.softmax(-1), value))
    return torch.cat(outputs), torch.cat(log_sums, 1)


class AuxRequest(NamedTuple):
    lse: bool = False


def torch_2_10(query, key, value, cu_seq_q, cu_seq_k, max_q, max_k, is_causal=False, return_aux=None):  # type: ignore[no-untyped-def]
    output, log_sums = attention(query, key, value, cu_seq_q, cu_seq_k, is_causal)
    return (output, log_sums) if return_aux is not None and return_aux.lse else output


def torch_2_13(  # type: ignore[no-untyped-def]
    query, key, value, cu_seq_q, cu_seq_k, max_q, max_k, *,
    return_aux=None, scale=None, window_size=(-1, -1), enable_gqa=False, num_splits=None,
):  # fmt: skip
    assert enable_gqa
    assert num_splits == 1
    output, log_sums = attention(query, key, value, cu_seq_q, cu_seq_k, window_size == (-1, 0))
    return (output, log_sums.t()) if return_aux is not None and return_aux.lse else output


def flash_2(  # type: ignore[no-untyped-def]
    q, k, v, cu_seqlens_q, cu_seqlens_k, max_seqlen_q, max_seqlen_k,
    dropout_p=0.0, softmax_scale=None, causal=False, window_size=(-1, -1), return_attn_probs=False, block_table=None,
):  # fmt: skip
    output, log_sums = attention(q, k, v, cu_seqlens_q, cu_seqlens_k, causal)
    return (output, log_sums, None) if return_attn_probs else output


def flash_3(  # type: ignore[no-untyped-def]
    q, k, v, cu_seqlens_q, cu_seqlens_k, max_seqlen_q, max_seqlen_k,
    seqused_q=None, seqused_k=None, softmax_scale=None, causal=False, window_size=(-1, -1), num_splits=0,
):  # fmt: skip
    assert num_splits == 1
    assert max_seqlen_q == int(cu_seqlens_q.diff().max())
    assert max_seqlen_k == int(cu_seqlens_k.diff().max())
    return attention(q, k, v, cu_seqlens_q, cu_seqlens_k, causal)


RELEASES: dict[str, tuple[str, str, str, Callable[..., Any]]] = {
    "torch 2.10": ("varlen_attn", "torch.nn.attention.varlen", "varlen_attn", torch_2_10),
    "torch 2.13": ("varlen_attn", "torch.nn.attention.varlen", "varlen_attn", torch_2_13),
    "flash-attn 2": ("flash-attn 2", "flash_attn", "flash_attn_varlen_func", flash_2),
    "flash-attn 3": ("flash-attn", "flash_attn_interface", "flash_attn_varlen_func", flash_3),
}


def install(release: str, monkeypatch: pytest.MonkeyPatch, function: Callable[..., Any] | None = None) -> str:
    name, place, attribute, call = RELEASES[release]
    module = ModuleType(place)
    call = function or call
    monkeypatch.setattr(call, "__module__", place)
    vars(module).update({attribute: call, "AuxRequest": AuxRequest})
    monkeypatch.setitem(sys.modules, place, module)
    return name


@pytest.mark.parametrize("release", RELEASES)
def test_every_release_gives_plain_torchs_numbers(release: str, monkeypatch: pytest.MonkeyPatch) -> None:
    assert installed(CPU, torch.float32) == {}, "libraries that are really there have no kernel for this device"
    name = install(release, monkeypatch)
    found = installed(CPU, torch.float32)
    assert list(found) == [name]
    kernels = replace(TORCH, attention=by_sequences(found[name]))
    assert disagreements(kernels, CONFIG, torch.float32, CPU, fp8=False) == {}


def test_a_model_with_a_librarys_attention_answers_as_with_plain_torch(
    tiny_folder: Callable[[str], Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Long segments are chains, siblings begin alike, batches hang below held nodes and are padded."""
    name = install("flash-attn 2", monkeypatch)
    kernels = replace(TORCH, attention=by_sequences(installed(CPU, torch.float32)[name]))
    requests = random_requests(7, [40, 70, 3, 530])[::3]
    answers = []
    for own in (TORCH, kernels):
        engine = device_engine.load(
            tiny_folder("qwen3"), CPU, "float32", fp8=False, memory_fraction=0.9, token_budget=600, cpu_threads=None
        )
        engine._model = replace(engine._model, kernels=own)
        answers.append([vector for parts in score(engine, requests, 300) for vector in parts])
    for one, other in zip(*answers, strict=True):
        np.testing.assert_allclose(one, other, atol=1e-4)


def no_kernel(q, k, v, cu_seqlens_q, cu_seqlens_k, max_seqlen_q, max_seqlen_k, causal=False, return_attn_probs=False):  # type: ignore[no-untyped-def]
    raise RuntimeError("no kernel image is available for execution on the device")


def of_another_time(q, k, v, starts, causal=False):  # type: ignore[no-untyped-def]
    raise AssertionError("it takes other arguments")


def padded(q, k, v, cu_seqlens_q, cu_seqlens_k, max_seqlen_q, max_seqlen_k, causal=False, return_attn_probs=False):  # type: ignore[no-untyped-def]
    output, log_sums = attention(q, k, v, cu_seqlens_q, cu_seqlens_k, causal)
    return output, log_sums[None], None  # log-sums a sequence, as long ago


@pytest.mark.parametrize("function", [no_kernel, of_another_time, padded])
def test_a_release_that_cannot_be_used_is_none(function: Callable[..., Any], monkeypatch: pytest.MonkeyPatch) -> None:
    install("flash-attn 2", monkeypatch, function)
    assert installed(CPU, torch.float32) == {}


@dataclass
class Bench:
    """What choosing looked at."""

    checked: int = 0
    timed: int = 0


def choice(monkeypatch: pytest.MonkeyPatch, others: dict[str, Attention], seconds: dict[str, float]) -> tuple[Chosen, Bench]:
    """The choice among Triton (plain torch under its name), plain torch and others, which take such times."""
    bench, triton = Bench(), replace(TORCH, name="Triton", attention=lambda *given: TORCH.attention(*given))
    times = {triton.attention: seconds["Triton"], TORCH.attention: 9.0}
    times |= {attention: seconds[name] for name, attention in others.items()}

    def checked(*given: Any, **named: Any) -> dict[str, str]:
        bench.checked += 1
        return disagreements(*given, **named)

    def timed(attention: Attention, *_: object) -> float:
        bench.timed += 1
        return times[attention]

    monkeypatch.setattr(kernel_choice, "disagreements", checked)
    monkeypatch.setattr(kernel_choice, "attention_seconds", timed)
    checks = KernelChecks(CONFIG, "float32", False)
    return chosen(triton, others, checks, CONFIG, torch.float32, CPU, fp8=False), bench


def test_the_fastest_that_is_right_is_chosen_and_that_is_remembered(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(machine_files, "user_cache", lambda: tmp_path)
    install("flash-attn 2", monkeypatch)
    right = {name: by_sequences(function) for name, function in installed(CPU, torch.float32).items()}
    wrong = {"varlen_attn": by_sequences(lambda q, *_: (q, q[..., 0]))}
    times = {"Triton": 2.0, "flash-attn 2": 1.0, "varlen_attn": 0.5}

    found, bench = choice(monkeypatch, right | wrong, times)
    assert found.about == "Triton kernels, attention by flash-attn 2, checked on cpu"
    assert (found.kernels.attention, found.remarks) == (right["flash-attn 2"], ())
    assert bench == Bench(checked=4, timed=3)  # Triton, plain torch and the two; the wrong one is not timed

    again, bench = choice(monkeypatch, right | wrong, times)
    assert (again.about, again.kernels.attention) == (found.about, right["flash-attn 2"])
    assert bench == Bench()
    assert KernelChecks(CONFIG, "float32", False).recall() == {"cpu": "flash-attn 2"}
    assert KernelChecks(CONFIG, "bfloat16", False).recall() == KernelChecks(CONFIG, "float32", True).recall() == {}
    assert KernelChecks(replace(CONFIG, head_dim=32), "float32", False).recall() == {}

    gone, bench = choice(monkeypatch, {}, times)  # the library is no longer there
    assert (gone.about, bench.timed) == ("Triton kernels, checked on cpu", 2)


@pytest.mark.parametrize("change", ["version", "source", "damage"])
def test_what_was_found_by_another_version_is_found_again(change: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(machine_files, "user_cache", lambda: tmp_path)
    assert choice(monkeypatch, {}, {"Triton": 2.0})[1] == Bench(checked=2, timed=2)
    assert choice(monkeypatch, {}, {"Triton": 2.0})[1] == Bench()
    if change == "version":
        monkeypatch.setattr(kernel_checks, "version_of", lambda library: "4.0" if library == "triton" else "1")
    elif change == "source":
        monkeypatch.setattr(kernel_checks, "_source", lambda: "another")
    else:
        (file,) = (tmp_path / "machine").iterdir()
        file.write_text('{"cpu": ["Triton"]}')
    assert choice(monkeypatch, {}, {"Triton": 2.0})[1] == Bench(checked=2, timed=2)


def test_a_kernel_that_was_wrong_is_tried_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(machine_files, "user_cache", lambda: tmp_path)
    monkeypatch.setattr(kernel_choice, "attention_seconds", lambda *_: 1.0)
    broken = replace(TORCH, name="Triton", attention=by_sequences(lambda q, *_: (q, q[..., 0])), swiglu=lambda *_: 1 / 0)
    for _ in range(2):
        found = chosen(broken, {}, KernelChecks(CONFIG, "float32", False), CONFIG, torch.float32, CPU, fp8=False)
        assert found.about == "Triton kernels, attention by plain torch, checked on cpu, but plain torch for swiglu"
        (remark,) = found.remarks
        assert "swiglu fails (ZeroDivisionError" in remark
        assert "attention is " in remark
    assert not (tmp_path / "machine").exists()


def test_attention_is_timed() -> None:
    assert attention_seconds(TORCH.attention, replace(CONFIG, num_heads=1, num_kv_heads=1), torch.float32, CPU) > 0
