"""Operator trees on the local engine, beside its floor and beside others with the same weights.

    QUAIL_DATA=data python -m bench --model smollm2-135m --scale 0.1
    QUAIL_DATA=data python -m bench --trees 'join,short filter' --repeats 5 --out results
    QUAIL_DATA=data python -m bench --scale 1 --count

Everything runs in one process, interleaved, and medians are told. Needs transformers beside the extra `local`. Writes
`results.jsonl`, and `results.md` and `results.svg` made from it. `--count` counts tokens alone: nothing is prefilled, so it
takes seconds, whatever else the machine does, and every condition is TRUE.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
from pathlib import Path

from bench.engine.measure import Setup, count, measure
from bench.engine.tables import picture, table
from bench.engine.trees import TREES


def main(arguments: list[str]) -> int:
    parser = argparse.ArgumentParser(prog="bench", description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--model", default="smollm2-135m")
    parser.add_argument("--scale", type=float, default=0.1)
    parser.add_argument("--trees", default="", help="names, separated by commas; all if left out")
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument(
        "--sample-tokens", type=int, default=12_000, help="of what others are given; their seconds are scaled up"
    )
    parser.add_argument("--count", action="store_true", help="count tokens alone; nothing is prefilled")
    parser.add_argument("--out", type=Path, default=Path("results"))
    options = parser.parse_args(arguments)
    names = [name.strip() for name in options.trees.split(",") if name.strip()]
    unknown = set(names) - {tree.name for tree in TREES}
    if unknown or "QUAIL_DATA" not in os.environ:
        known = ", ".join(tree.name for tree in TREES)
        parser.error(f"no such tree: {', '.join(unknown)}; there are {known}" if unknown else "set QUAIL_DATA to the data sets")
    setup = Setup(options.model, Path(os.environ["QUAIL_DATA"]), options.scale, options.repeats, options.sample_tokens)
    lines = []
    with options.out.with_suffix(".jsonl").open("w") as file:
        for tree in TREES:
            if not names or tree.name in names:
                lines.append(count(setup, tree) if options.count else measure(setup, tree))
                file.write(json.dumps(lines[-1]) + "\n")
                file.flush()
                sys.stdout.write(table(lines[-1:]) + "\n")
    options.out.with_suffix(".md").write_text(table(lines))
    if not options.count:
        options.out.with_suffix(".svg").write_text(picture(lines))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
