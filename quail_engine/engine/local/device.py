"""Which device computes, what is asked of it, and what is assumed of its speed."""

from __future__ import annotations

from contextlib import AbstractContextManager, nullcontext

import torch

from quail_engine.errors import EngineError
from quail_engine.roofline import ASSUMED, Machine

_LEAST_CAPABILITY = (8, 0)  # bfloat16 matrix products, asynchronous copies to shared memory
_FP8_CAPABILITY = (8, 9)  # matrix products of e4m3

# By capability: matrix FLOP/s in bf16, attention FLOP/s, bytes/s; assumed of the usual card, until batches correct it.
_MACHINES = {
    (10, 0): Machine(1.2e15, 4e14, 6e12, pass_seconds=3e-5),
    (9, 0): Machine(6e14, 3e14, 3e12, pass_seconds=3e-5),
    (8, 0): Machine(2.2e14, 1.2e14, 1.4e12, pass_seconds=3e-5),
}
_SMALLER = Machine(1e14, 5e13, 6e11, pass_seconds=3e-5)


def find_device(wanted: str) -> torch.device:
    """'cpu', 'cuda', 'cuda:1', 'mps', or 'auto': the first CUDA device that can be used, else the CPU.

    Raises EngineError when the device named is not there or cannot be used.
    """
    if wanted == "auto":
        usable = torch.cuda.is_available() and torch.cuda.get_device_capability(0) >= _LEAST_CAPABILITY
        return torch.device("cuda:0" if usable else "cpu")
    kind, _, number = wanted.partition(":")
    if kind == "cuda" and (number.isdecimal() or not number):
        return _cuda(wanted, int(number or 0))
    if wanted == "mps":
        if not torch.backends.mps.is_available():
            raise EngineError("device: mps is not there: torch finds no Apple GPU. Set device: cpu, or auto.")
        return torch.device("mps")
    if wanted != "cpu":
        raise EngineError(f"device: {wanted!r} is unknown. Write auto, cpu, cuda, cuda:0 (or another number), or mps.")
    return torch.device("cpu")


def all_cuda() -> tuple[str, ...]:
    """The CUDA devices of this machine, counted only: those that cannot be used raise when they are. Raises EngineError where
    there is none."""
    count = torch.cuda.device_count()
    if not count:
        raise EngineError("devices: all means every CUDA device, and torch finds none. Leave devices out to run on the CPU.")
    return tuple(f"cuda:{number}" for number in range(count))


def _cuda(wanted: str, number: int) -> torch.device:
    if not torch.cuda.is_available():
        build = "this torch is built without CUDA" if torch.version.cuda is None else "torch finds no CUDA device or driver"
        raise EngineError(f"device: {wanted} cannot be used: {build}. Set device: cpu, or auto.")
    if number >= torch.cuda.device_count():
        raise EngineError(
            f"device: {wanted} is not there: this machine has {torch.cuda.device_count()} CUDA device(s), from 0."
        )
    capability = torch.cuda.get_device_capability(number)
    if capability < _LEAST_CAPABILITY:
        raise EngineError(
            f"device: {wanted} is a {torch.cuda.get_device_name(number)} of compute capability "
            f"{capability[0]}.{capability[1]}; 8.0 or later (A100 and newer) is needed, for bfloat16. Set device: cpu."
        )
    return torch.device("cuda", number)


def listed() -> list[str]:
    """The CUDA devices of this machine, for people: what each is, and why one cannot be used."""
    found = []
    for number in range(torch.cuda.device_count()):
        major, minor = torch.cuda.get_device_capability(number)
        old = "" if (major, minor) >= _LEAST_CAPABILITY else ", too old: 8.0 is needed"
        found.append(f"cuda:{number} {torch.cuda.get_device_name(number)}, compute capability {major}.{minor}{old}")
    return found


def require_fp8(device: torch.device, hidden: int, mlp: int) -> None:
    """Raises EngineError where matrix products in fp8 cannot be done."""
    if device.type == "cuda" and torch.cuda.get_device_capability(device) < _FP8_CAPABILITY:
        raise EngineError(
            f"@fp8 needs compute capability 8.9 or later (H100, L40 and newer); {torch.cuda.get_device_name(device)} has less. "
            "Name the model without @fp8."
        )
    if device.type != "cuda":
        raise EngineError(f"@fp8 runs on CUDA devices, and this is {device.type}. Name the model without @fp8.")
    if hidden % 16 or mlp % 16:
        raise EngineError(f"@fp8 needs widths that are multiples of 16; the model's are {hidden} and {mlp}.")


def current(device: torch.device) -> AbstractContextManager[object]:
    """Makes it the thread's current device: Triton launches there, wherever the tensors are."""
    return torch.cuda.device(device) if device.type == "cuda" else nullcontext()


def name_of(device: torch.device) -> str:
    return torch.cuda.get_device_name(device) if device.type == "cuda" else device.type


def machine_of(device: torch.device, fp8: bool) -> Machine:
    """Assumed rates."""
    if device.type != "cuda":
        return ASSUMED
    major = torch.cuda.get_device_capability(device)[0]
    machine = next((found for (least, _), found in _MACHINES.items() if major == least), _SMALLER)
    if not fp8:
        return machine
    rates = (machine.matrix_flops * 1.7, machine.attention_flops, machine.bandwidth)
    return Machine(*rates, pass_seconds=machine.pass_seconds)


def reserved_bytes(device: torch.device) -> int:
    """What libraries, and gathered keys of attention in plain torch, may need beside a forward pass's own results."""
    return 1 << (26 if device.type == "cpu" else 30)


def free_bytes(device: torch.device) -> int:
    """Of the device's memory; of the CPU a fixed share that tests do with."""
    if device.type == "cuda":
        torch.cuda.empty_cache()
        return torch.cuda.mem_get_info(device)[0]
    if device.type == "mps":
        return int(torch.mps.recommended_max_memory() - torch.mps.current_allocated_memory())
    return 1 << 28
