"""The engine on a device, measured part by part, against what its products alone would take.

    python -m bench.gpu --out gpu.jsonl
    python -m bench.gpu --device cpu --models tiny --scale 0.02 --rows 256 --budget 512

Weights are random, of the published shapes. In order: every kernel beside its definition; schedules without the device;
products, attention and glue; whole models on six workloads. A line of JSON each, and at the end tables; made to end within
eight minutes on an H200.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from time import perf_counter
from typing import Any

import torch

from bench.gpu import measure
from bench.gpu.models import MODELS, random_engine
from bench.gpu.simulate import simulate
from bench.gpu.tables import tables
from bench.gpu.workloads import WORKLOADS, requests_of
from quail_engine.batching.forest import schedule
from quail_engine.engine.local.device import find_device
from quail_engine.engine.local.device_kernels import TORCH, TRITON, by_sequences
from quail_engine.engine.local.kernel_check import disagreements
from quail_engine.engine.local.kernel_choice import choose_kernels
from quail_engine.engine.local.varlen import installed
from quail_engine.engine.local.weights import Config


def lines(options: argparse.Namespace) -> Iterator[dict[str, Any]]:
    device = None if options.schedules else find_device(options.device)
    for name in options.models:
        config = MODELS[name]
        schedules = {}
        for workload in WORKLOADS:
            batches = schedule(requests_of(workload, config.vocab_size, options.scale), options.budget)
            schedules[workload] = simulate(config, batches)
            yield {"part": "schedule", "model": name, "workload": workload, **schedules[workload]}
        if device is None:
            continue
        for fp8 in (False, True) if options.fp8 else (False,):
            rate = f"fresh_per_second {'float8_e4m3fn' if fp8 else 'bfloat16'}"
            for line in _model(config, device, fp8, options):
                if line["part"] == "whole":
                    line["predicted_per_second"] = schedules[line["workload"]][rate]
                yield {"model": name, **line}


@torch.inference_mode()
def _model(config: Config, device: torch.device, fp8: bool, options: argparse.Namespace) -> Iterator[dict[str, Any]]:
    found = choose_kernels(config, torch.bfloat16, device, fp8)
    chosen = found.kernels
    others = {name: by_sequences(function) for name, function in installed(device, torch.bfloat16).items()}
    own = TRITON if chosen.name == TRITON.name else TORCH
    wrong = disagreements(own, config, torch.bfloat16, device, fp8)  # now, whatever is remembered
    for name, attention in others.items():
        alone = disagreements(replace(TORCH, attention=attention), config, torch.bfloat16, device, fp8=False)
        if why := alone.get("attention"):
            wrong[name] = why
    yield {"part": "kernels", "fp8": fp8, "about": found.about, "remarks": found.remarks, "wrong": wrong}
    layer = 0.0
    for line in measure.products(config, device, options.rows, fp8, options.repeats):
        layer += line["seconds"]
        yield {"part": "products", **line}
    floor = options.rows / (layer * config.num_layers)  # tokens a second, of products alone
    for line in measure.glue(config, chosen, device, options.rows, fp8, options.repeats):
        yield {"part": "glue", **line}
    engine = random_engine(config, device, fp8=fp8, token_budget=options.budget)
    attentions = {own.name: own.attention, TORCH.name: TORCH.attention}
    attentions |= {name: attention for name, attention in others.items() if name not in wrong}
    for workload in WORKLOADS:
        requests = requests_of(workload, config.vocab_size, options.scale)
        first = next(schedule(requests, options.budget))
        for line in measure.attention(engine, config, first, options.repeats, attentions):
            yield {"part": "attention", "workload": workload, **line}
        whole = measure.whole(engine, requests, options.budget)
        share = whole["fresh_per_second"] / floor
        yield {"part": "whole", "fp8": fp8, "workload": workload, **whole, "floor_per_second": floor, "of_floor": share}


def main(arguments: list[str]) -> int:
    parser = argparse.ArgumentParser(prog="bench.gpu", description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--device", default="cuda")
    parser.add_argument("--models", nargs="+", choices=list(MODELS), default=["qwen3-0.6b", "qwen3-4b"])
    parser.add_argument("--scale", type=float, default=1.0, help="of the workloads")
    parser.add_argument("--rows", type=int, default=8_192, help="of products and glue")
    parser.add_argument("--budget", type=int, default=8_192, help="fresh tokens a batch")
    parser.add_argument("--repeats", type=int, default=20)
    parser.add_argument("--schedules", action="store_true", help="only what needs no device")
    parser.add_argument("--no-fp8", dest="fp8", action="store_false")
    parser.add_argument("--out", type=Path, default=Path("gpu.jsonl"))
    options = parser.parse_args(arguments)
    start, found = perf_counter(), []
    with options.out.open("w") as file:
        for line in lines(options):
            found.append(line)
            for stream in (sys.stdout, file):
                stream.write(json.dumps(line) + "\n")
                stream.flush()
    sys.stdout.write(f"\n{tables(found)}\nall of it: {perf_counter() - start:.0f} s\n")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
