"""Which kernels run on a device: Triton's where they agree with plain torch, and the attention that is the fastest there.

One attention serves all of a model's batches: were it chosen for each, a row's bits would depend on the rows beside it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import torch

from quail_engine.engine.kernel_checks import KernelChecks
from quail_engine.engine.local.device import name_of
from quail_engine.engine.local.device_kernels import TORCH, TRITON, Attention, Kernels, by_sequences
from quail_engine.engine.local.kernel_check import attention_seconds, disagreements
from quail_engine.engine.local.kernels.language import AVAILABLE
from quail_engine.engine.local.varlen import installed
from quail_engine.engine.local.weights import Config


@dataclass(frozen=True)
class Chosen:
    kernels: Kernels
    about: str  # which run, and why, for people
    remarks: tuple[str, ...] = ()  # what a user would want to mend


def choose_kernels(config: Config, dtype: torch.dtype, device: torch.device, fp8: bool) -> Chosen:
    """The kernels for a device, as they were found out by this version on one of its kind, or are now."""
    if device.type != "cuda":
        return Chosen(TORCH, "plain torch")
    others = {name: by_sequences(function) for name, function in installed(device, dtype).items()}
    checks = KernelChecks(config, str(dtype).removeprefix("torch."), fp8)
    if AVAILABLE:
        return chosen(TRITON, others, checks, config, dtype, device, fp8)
    plain = chosen(TORCH, others, checks, config, dtype, device, fp8)
    about = f"{plain.about}, as Triton is not installed: pip install 'dbt-quail[gpu]'"
    return replace(plain, about=about, remarks=(f"{name_of(device)} runs {about}.",))


def chosen(
    kernels: Kernels,
    others: Mapping[str, Attention],
    checks: KernelChecks,
    config: Config,
    dtype: torch.dtype,
    device: torch.device,
    fp8: bool,
) -> Chosen:
    """`kernels` with plain torch in place of each that does not do what it is to do, and the fastest attention of theirs, plain
    torch's and `others` that do. Kept in `checks` where nothing was wrong: what fails for once is tried again."""
    on, attentions = name_of(device), {kernels.name: kernels.attention, TORCH.name: TORCH.attention, **others}
    kept = checks.recall().get(on, "")
    if kept in attentions:
        return Chosen(replace(kernels, attention=attentions[kept]), _about(kernels, kept, on, ()))
    wrong = disagreements(kernels, config, dtype, device, fp8)
    usable = {
        name: attention
        for name, attention in attentions.items()
        if "attention" not in (wrong if name == kernels.name else _alone(attention, config, dtype, device))
    }
    fastest = min(usable, key=lambda name: attention_seconds(usable[name], config, dtype, device))
    mixed = replace(kernels, **{name: getattr(TORCH, name) for name in wrong})
    mixed = replace(mixed, attention=usable[fastest])
    if not wrong:
        checks.remember(on, fastest)
        return Chosen(mixed, _about(kernels, fastest, on, ()))
    served = "; ".join(f"{name} {why}" for name, why in wrong.items())
    remark = f"On {on} others serve in place of {kernels.name}'s kernels that are wrong: {served}."
    return Chosen(mixed, _about(kernels, fastest, on, sorted(wrong.keys() - {"attention"})), (remark,))


def _alone(attention: Attention, config: Config, dtype: torch.dtype, device: torch.device) -> Mapping[str, str]:
    return disagreements(replace(TORCH, attention=attention), config, dtype, device, fp8=False)


def _about(kernels: Kernels, attention: str, on: str, torch_for: Sequence[str]) -> str:
    """
    >>> _about(TRITON, "flash-attn", "H200", ["rope"])
    'Triton kernels, attention by flash-attn, checked on H200, but plain torch for rope'
    """
    served = "plain torch" if kernels is TORCH else f"{kernels.name} kernels"
    if attention != kernels.name:
        served += f", attention by {'plain torch' if attention == TORCH.name else attention}"
    return f"{served}, checked on {on}" + (f", but plain torch for {', '.join(torch_for)}" if torch_for else "")
