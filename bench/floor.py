"""How near is the local engine to its floor, on requests of one text each that share nothing?

    python -m bench.floor --model smollm2-135m --tokens 128 512

The floor is the model's plain matrix products at the batches' row counts. Engine and floor run in turn; medians are told, a
JSON line a length.
"""

from __future__ import annotations

import argparse
import json
import random
import statistics
import sys
import time

import torch

from bench.engine.floor import floor_seconds
from quail_engine.batching.forest import schedule
from quail_engine.engine.local.engine import load
from quail_engine.engine.local.rows import padded_rows
from quail_engine.engine.local.weights import open_checkpoint
from quail_engine.models import find
from quail_engine.prompts.readout import JudgeReadout, Spellings
from quail_engine.prompts.request import Request


def main(arguments: list[str]) -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--model", default="smollm2-135m")
    parser.add_argument("--tokens", type=int, nargs="+", default=[128, 512])
    parser.add_argument("--dtype", choices=("auto", "bfloat16", "float32"), default="auto", help="auto: the faster here")
    parser.add_argument("--budget", type=int, default=2_048, help="tokens a batch")
    parser.add_argument("--repeats", type=int, default=5)
    options = parser.parse_args(arguments)
    folder = find(options.model, None).path
    config = open_checkpoint(folder).config
    threads = torch.get_num_threads()
    engine = load(folder, options.dtype, threads)
    dtype = getattr(torch, engine.dtype)
    chance = random.Random(0)
    for tokens in options.tokens:
        readout = JudgeReadout(Spellings((1,), (2,)))
        texts = [tuple(chance.randrange(config.vocab_size) for _ in range(tokens)) for _ in range(2 * options.budget // tokens)]
        batches = list(schedule([Request((text,), readout) for text in texts], options.budget))
        rows = [padded_rows(batch.tokens, config.intermediate_size, threads) for batch in batches]
        ours, floors = [], []
        for turn in range(options.repeats + 1):
            begun = time.perf_counter()
            for batch in batches:
                engine.score(batch)
            if turn:  # the first one compiles kernels for the shapes
                ours.append(time.perf_counter() - begun)
                floors.append(floor_seconds(config, dtype, rows))
        seconds, floor = statistics.median(ours), statistics.median(floors)
        rate = sum(batch.tokens for batch in batches) / seconds
        line = {
            "model": options.model,
            "dtype": engine.dtype,
            "tokens": tokens,
            "tokens_per_second": round(rate),
            "of_floor": round(floor / seconds, 3),
        }
        sys.stdout.write(json.dumps(line) + "\n")


if __name__ == "__main__":
    main(sys.argv[1:])
