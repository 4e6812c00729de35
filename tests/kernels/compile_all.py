"""Compiles every kernel for a device that is not here, and asserts what its machine code must be like.

    python tests/kernels/compile_all.py 90

Shapes are those of Qwen3-0.6B and 4B. Prints a line a kernel: shared memory, registers, spilled bytes.
"""

from __future__ import annotations

import re
import subprocess
import sys
import tempfile
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import triton
from triton.backends.compiler import GPUTarget
from triton.compiler import ASTSource

from quail_engine.engine.local.kernels.add_norm import add_norm_kernel
from quail_engine.engine.local.kernels.quantise import FP8_MAX, quantise_kernel
from quail_engine.engine.local.kernels.rope import rope_kernel
from quail_engine.engine.local.kernels.scatter_kv import scatter_kv_kernel
from quail_engine.engine.local.kernels.segment_attention import BLOCK_ROWS, block_keys, segment_attention_kernel
from quail_engine.engine.local.kernels.swiglu import swiglu_kernel

SHARED_BYTES = {80: 163 * 1024, 90: 227 * 1024}
TENSOR_CORES = {80: "mma.sync", 90: "wgmma.mma_async"}
FP8_FROM = 89  # compute capability that has e4m3
CUOBJDUMP = Path(triton.__file__).parent / "backends" / "nvidia" / "bin" / "cuobjdump"


@dataclass(frozen=True)
class Case:
    name: str
    kernel: Any
    types: dict[str, str]
    constants: dict[str, Any]
    warps: int
    stages: int = 3
    tensor_cores: bool = False
    aligned: tuple[str, ...] = field(default=())  # pointers and strides that are multiples of 16


def cases(capability: int) -> list[Case]:
    found = []
    for quantise in [False, True] if capability >= FP8_FROM else [False]:
        output = "*fp8e4nv" if quantise else "*bf16"
        quantised = {"QUANTISE": quantise, "MAX": FP8_MAX}
        for columns in (1024, 2560):
            block = triton.next_power_of_2(columns)
            found.append(
                Case(
                    f"add_norm {columns} {output}", add_norm_kernel,
                    {"residual": "*fp32", "update": "*bf16", "weight": "*fp32", "output": output, "scales": "*fp32",
                     "columns": "i32", "epsilon": "fp32"},
                    {"ADD": True, **quantised, "BLOCK": block}, max(1, min(16, block // 512)),
                )
            )  # fmt: skip
        for columns in (3072, 9728):
            block = triton.next_power_of_2(columns)
            found.append(
                Case(
                    f"swiglu {columns} {output}", swiglu_kernel,
                    {"gate_up": "*bf16", "output": output, "scales": "*fp32", "columns": "i32"},
                    {**quantised, "BLOCK": block}, min(32, max(1, block // 512)),
                )
            )  # fmt: skip
    if capability >= FP8_FROM:
        found.append(
            Case(
                "quantise", quantise_kernel,
                {"values": "*bf16", "output": "*fp8e4nv", "scales": "*fp32", "columns": "i32"},
                {"MAX": FP8_MAX, "BLOCK": 4096}, 8,
            )
        )  # fmt: skip
    for normed in (False, True):
        found.append(
            Case(
                f"rope {'with' if normed else 'without'} norm", rope_kernel,
                {"qkv": "*bf16", "rotation": "*fp32", "positions": "*i32", "norms": "*fp32", "query_heads": "i32",
                 "row_stride": "i32", "epsilon": "fp32"},
                {"NORM": normed, "HALF": 64, "BLOCK": 64}, 1,
            )
        )  # fmt: skip
    found.append(
        Case(
            "scatter_kv", scatter_kv_kernel,
            {"qkv": "*bf16", "keys": "*bf16", "values": "*bf16", "slots": "*i32", "row_stride": "i32", "key_offset": "i32",
             "width": "i32"},
            {"BLOCK": 1024}, 4,
        )
    )  # fmt: skip
    for group, dim in ((2, 128), (4, 128), (7, 64), (3, 64)):
        found.append(
            Case(
                f"segment_attention group {group} dim {dim}", segment_attention_kernel,
                {"queries": "*bf16", "keys": "*bf16", "values": "*bf16", "output": "*bf16",
                 **dict.fromkeys(("tile_starts", "starts", "lengths", "lows", "highs", "shifts", "slots"), "*i32"),
                 **dict.fromkeys(("rows", "tile_tokens", "query_stride", "row_stride", "key_heads"), "i32"), "scale": "fp32"},
                {"GROUP": group, "DIM": dim, "ROWS": BLOCK_ROWS, "KEYS": block_keys(capability)}, 8, 2, tensor_cores=True,
                aligned=("queries", "keys", "values", "output", "query_stride", "row_stride"),
            )
        )  # fmt: skip
    return found


def compiled(case: Case, capability: int) -> Any:
    places = {name: number for number, name in enumerate(case.kernel.arg_names)}
    attributes = {(places[name],): [["tt.divisibility", 16]] for name in case.aligned}
    signature = case.types | dict.fromkeys(case.constants, "constexpr")
    ordered = {name: signature[name] for name in case.kernel.arg_names}
    source = ASTSource(case.kernel, ordered, constexprs=case.constants, attrs=attributes)
    return triton.compile(
        source, target=GPUTarget("cuda", capability, 32), options={"num_warps": case.warps, "num_stages": case.stages}
    )


def resources(cubin: bytes) -> tuple[int, int]:
    """Registers a thread and bytes of stack, where spilled registers go."""
    with tempfile.NamedTemporaryFile(suffix=".cubin") as file:
        file.write(cubin)
        file.flush()
        told = subprocess.run([CUOBJDUMP, "-res-usage", file.name], capture_output=True, text=True, check=True)
    usage = re.search(r"REG:(\d+) STACK:(\d+)", told.stdout + told.stderr)
    assert usage, told
    return int(usage[1]), int(usage[2])


def main(capability: int) -> None:
    for case in cases(capability):
        kernel = compiled(case, capability)
        registers, stack = resources(kernel.asm["cubin"])
        shared = kernel.metadata.shared
        sys.stdout.write(f"{case.name}: {shared} bytes shared, {registers} registers, {stack} bytes of stack\n")
        assert shared <= SHARED_BYTES[capability], case.name
        assert stack == 0, f"{case.name} spills"
        assert not case.tensor_cores or TENSOR_CORES[capability] in kernel.asm["ptx"], case.name
    sys.stdout.write(f"all compiled for sm_{capability}\n")


if __name__ == "__main__":
    main(int(sys.argv[1]))
