"""Claims about the local engine, each measured by one command, beside what it is compared with.

    QUAIL_DATA=data python -m bench.cases anchors --model smollm2-135m
    QUAIL_DATA=data python -m bench.cases --count traces second

Cases, and the target of each:

* `anchors`: an AI join of 40 anchors of some 400 tokens and 60 partners of some 6. Fresh tokens at most 1.02 times the fewest.
  Timed over `--anchors` of them: transformers without (15x) and with each anchor's KV kept (2.5x), our engine without sharing,
  and llama.cpp with and without reuse where `--gguf FILE` names the weights that the model was converted from
* `long`: rows of 512 tokens, beside transformers (1.2x) and our floor
* `second`: what a second filter over the same documents costs, as a share of the first (15 %); tokens and seconds
* `traces`: agent traces that grow step by step; fresh tokens at most 1.05 times those of a trie over the requests
* `rows`: 2,000 and 20,000 short rows, each in a process of its own: tokens/s and peak of memory. By default with `--layers 1`,
  for memory does not depend on their number; 0 takes all of the model's, and a quarter of an hour

Everything of a case runs in turn, a first time that does not count and then `--repeats` times; medians of the turns' ratios are
told, a JSON line a case. `--count` leaves out what is timed: it takes seconds, whatever else the machine does.
"""

from __future__ import annotations

import argparse
import itertools
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import duckdb
import torch

import quail_engine
from bench.engine import llama_baseline, transformers_baseline, unshared
from bench.engine.floor import floor_seconds
from bench.engine.measure import sample, tokens_of
from bench.engine.paired import in_turn, ratios
from bench.engine.recording import UNBOUNDED, Asked, Recording, run
from bench.memory import peak_mb
from quail_engine.engine.local.rows import padded_rows
from quail_engine.engine.local.weights import open_checkpoint
from quail_engine.models import find
from quail_engine.prompts.tokenizer import Tokenizer
from quail_engine.settings import Settings

_JOIN = """SELECT count(*) FROM anchors a JOIN partners p
    ON AI_JOIN(PROMPT('Report {0} mentions the reaction {1}', a.text, p.text))"""
_FIRST = "AI_FILTER('Did the patient see a doctor?', text)"
_SECOND = "AI_FILTER('Was it a fever?', text)"


@dataclass(frozen=True)
class Setup:
    model: str
    data: Path
    repeats: int
    sample_tokens: int  # of the requests that slow others are given; their seconds are scaled up
    anchors: int  # that are timed
    rows: int  # of 512 tokens that are timed
    layers: int
    counts: Sequence[int]  # of short rows
    gguf: Path | None
    count: bool

    @property
    def folder(self) -> Path:
        return find(self.model, None).path

    def tokenizer(self) -> Tokenizer:
        return Tokenizer(self.folder / "tokenizer.json")

    def read(self, sql: str) -> list[str]:
        """The first column of a query; `{data}` is the folder of the data sets."""
        return [text for (text,) in duckdb.sql(sql.replace("{data}", str(self.data))).fetchall()]


def anchors(setup: Setup) -> dict[str, Any]:
    tokenizer = setup.tokenizer()
    long = cut_texts(tokenizer, setup.read("SELECT report_text FROM '{data}/vaers_reports.parquet' ORDER BY report_id"), 400)
    terms = setup.read("SELECT reaction FROM '{data}/vaers_terms.parquet' ORDER BY n_reports DESC, reaction")
    short = [term for term, ids in zip(terms, tokenizer.encode(terms), strict=True) if 5 <= len(ids) <= 7][:60]
    whole, _ = run(setup.model, _JOIN, {"anchors": long[:40], "partners": short}, counting=True)
    tokens = tokens_of(whole)
    line = {"pairs": 40 * len(short), **tokens, "of_fewest": round(tokens["fresh_tokens"] / tokens["radix_tokens"], 4)}
    if setup.count:
        return line
    tables = {"anchors": long[: setup.anchors], "partners": short}
    first, _ = run(setup.model, _JOIN, tables)
    groups = by_beginning(first.asked, setup.anchors)
    compared = Compared(setup, first)
    return {**line, "timed_anchors": setup.anchors, **compared.timed(lambda: run(setup.model, _JOIN, tables)[0], groups)}


def long(setup: Setup) -> dict[str, Any]:
    traces = setup.read("SELECT transcript FROM '{data}/agent_traces.parquet' ORDER BY ALL")
    tables = {"texts": cut_texts(setup.tokenizer(), traces, 512)[: setup.rows]}
    sql = "SELECT count(*) FROM texts WHERE AI_FILTER('Did the agent cancel a reservation?', text)"
    first, report = run(setup.model, sql, tables, counting=setup.count)
    line = {"rows": report.asked, **tokens_of(first)}
    return line if setup.count else {**line, **Compared(setup, first).timed(lambda: run(setup.model, sql, tables)[0], [])}


def second(setup: Setup) -> dict[str, Any]:
    """One filter, both in the select list, and both as conditions of one AND."""
    statements = {
        "first": f"SELECT {_FIRST} FROM texts",
        "both": f"SELECT {_FIRST}, {_SECOND} FROM texts",
        "and": f"SELECT count(*) FROM texts WHERE {_FIRST} AND {_SECOND}",
    }
    reports = setup.read("SELECT report_text FROM '{data}/vaers_reports.parquet' ORDER BY report_id")
    line: dict[str, Any] = {}
    for length in (128, 400):
        texts = {"texts": cut_texts(setup.tokenizer(), reports, length)[: (6_000 if setup.count else 2_000) // length]}
        fresh = {name: run(setup.model, sql, texts, counting=True)[0].fresh_tokens for name, sql in statements.items()}
        more = {name: round(fresh[name] / fresh["first"] - 1, 4) for name in ("both", "and")}
        line[f"{length} tokens"] = {"rows": len(texts["texts"]), "fresh": fresh, "tokens_of_first": more}
        if not setup.count:
            runs = {name: _seconds_of(setup.model, sql, texts) for name, sql in statements.items()}
            line[f"{length} tokens"] |= ratios(in_turn(runs, setup.repeats), "first")
    return line


def traces(setup: Setup) -> dict[str, Any]:
    """Every 1,200 characters an agent is asked about anew; and all whole traces."""
    grown = """SELECT transcript[:step * 1200]
        FROM (FROM '{data}/agent_traces.parquet' ORDER BY ALL LIMIT 25), range(1, 9) r(step)
        WHERE (step - 1) * 1200 < length(transcript)"""
    texts = {"grown": setup.read(grown), "whole": setup.read("SELECT transcript FROM '{data}/agent_traces.parquet'")}
    line = {}
    for name, given in texts.items():
        sql = "SELECT count(*) FROM texts WHERE AI_FILTER('Did the agent cancel a reservation?', text)"
        tokens = tokens_of(run(setup.model, sql, {"texts": given}, counting=True)[0])
        line[name] = {**tokens, "of_fewest": round(tokens["fresh_tokens"] / tokens["radix_tokens"], 4)}
    return line


def rows(setup: Setup) -> dict[str, Any]:
    """Children, because a process's peak never falls."""
    found = {}
    for count in setup.counts:
        given = ["--model", setup.model, "--layers", str(setup.layers), "--child-rows", str(count)]
        done = subprocess.run([sys.executable, "-m", "bench.cases", *given], check=True, capture_output=True, text=True)
        found[f"{count} rows"] = json.loads(done.stdout)
    few, many = found.values()
    return {
        "layers": setup.layers, **found, "rate": round(many["tokens_per_second"] / few["tokens_per_second"], 3),
        "memory": round(many["peak_mb"] / few["peak_mb"], 3),
    }  # fmt: skip


def some_rows(setup: Setup, count: int) -> dict[str, Any]:
    data = " UNION ".join(f"SELECT text FROM '{{data}}/{name}.parquet'" for name in ("banking77", "clinc150", "sms_spam"))
    known = setup.read(f"SELECT text FROM ({data}) WHERE length(text) < 80 ORDER BY hash(text)")
    texts = [f"{n}: {text}" for n, text in zip(range(count), itertools.cycle(known), strict=False)]
    with tempfile.TemporaryDirectory() as folder:
        model = shallow(setup.folder, Path(folder) / "model", setup.layers) if setup.layers else setup.folder
        before = peak_mb()
        with duckdb.connect() as database:
            database.execute("CREATE TABLE texts AS SELECT unnest($1) AS text", [texts])
            with quail_engine.connect(database, model=str(model), **UNBOUNDED) as con:
                con.sql("SELECT count(*) FROM texts WHERE AI_FILTER('Does the customer ask about a card?', text)")
                report = con.report
    return {
        "asked": report.asked, "fresh_tokens": report.tokens_fresh, "seconds_engine": round(report.seconds_engine, 2),
        "seconds": round(report.seconds, 2), "tokens_per_second": round(report.tokens_fresh / report.seconds_engine),
        "peak_mb": peak_mb(), "baseline_mb": before,
    }  # fmt: skip


@dataclass(frozen=True)
class Compared:
    """What a recorded statement is timed beside."""

    setup: Setup
    first: Recording

    def timed(self, ours: Callable[[], Recording], groups: Sequence[Sequence[Asked]]) -> dict[str, Any]:
        """`groups`: requests that begin alike, for those that keep such a beginning's KV."""
        setup, asked = self.setup, self.first.asked
        config, dtype = open_checkpoint(setup.folder).config, getattr(torch, self.first.dtype)
        threads = torch.get_num_threads()
        batches = [padded_rows(batch.tokens, config.intermediate_size, threads) for batch in self.first.batches]
        sampled, share = sample(asked, setup.sample_tokens)
        model = transformers_baseline.load(setup.folder, dtype)
        model.set_attn_implementation("sdpa")
        head = transformers_baseline.common_head(asked)
        runs: dict[str, Callable[[], float]] = {
            "ours": lambda: ours().seconds,
            "floor": lambda: floor_seconds(config, dtype, batches, repeats=1),
            "transformers": lambda: share * transformers_baseline.score(model, sampled, 0, dtype)[0],
            "transformers, head kept": lambda: share * transformers_baseline.score(model, sampled, head, dtype)[0],
        }
        if groups:
            alone = unshared.open_engine(setup.folder, self.first.dtype)
            runs["transformers, anchor kept"] = lambda: sum(
                transformers_baseline.score(model, group, transformers_baseline.common_head(group), dtype)[0]
                for group in groups
            )
            runs["ours, nothing shared"] = lambda: share * unshared.score(alone, sampled, Settings().token_budget)
        if setup.gguf and llama_baseline.is_installed():
            llama = llama_baseline.load(setup.gguf, threads, 64 + max(len(one.ids) for one in asked))
            runs["llama.cpp"] = lambda: share * llama_baseline.score(llama, sampled, reuse=False)[0]
            runs["llama.cpp, reuse"] = lambda: llama_baseline.score(llama, asked, reuse=True)[0]
        found = ratios(in_turn(runs, setup.repeats), "ours")
        return {"dtype": self.first.dtype, "threads": threads, "of_floor": found["times"].pop("floor"), **found}


def _seconds_of(model: str, sql: str, tables: dict[str, list[str]]) -> Callable[[], float]:
    return lambda: run(model, sql, tables)[0].seconds


def cut_texts(tokenizer: Tokenizer, texts: Sequence[str], tokens: int) -> list[str]:
    """Texts one after the other, cut to pieces of so many tokens, or one more or less."""
    ids = list(itertools.chain.from_iterable(tokenizer.encode([f" {text}" for text in texts])))
    return [tokenizer.decode(ids[start : start + tokens]) for start in range(0, len(ids) - tokens, tokens)]


def by_beginning(asked: Sequence[Asked], count: int) -> list[list[Asked]]:
    """Requests in `count` groups of one size: in the order of their tokens those of one anchor stand together."""
    ordered = sorted(asked, key=lambda one: one.ids)
    each, rest = divmod(len(ordered), count)
    assert not rest, "an anchor has other partners than the next"
    return [ordered[start : start + each] for start in range(0, len(ordered), each)]


def shallow(folder: Path, target: Path, layers: int) -> Path:
    """The first layers of a model as a model of their own: what it answers means nothing."""
    target.mkdir()
    for file in folder.iterdir():
        (target / file.name).symlink_to(file)
    described = json.loads((folder / "quail.json").read_text())
    described["config"]["num_layers"] = layers
    (target / "quail.json").unlink()
    (target / "quail.json").write_text(json.dumps(described))
    return target


CASES: dict[str, Callable[[Setup], dict[str, Any]]] = {
    "anchors": anchors, "long": long, "second": second, "traces": traces, "rows": rows
}  # fmt: skip


def main(arguments: list[str]) -> int:
    parser = argparse.ArgumentParser(prog="bench.cases", description=(__doc__ or "").split("\n")[0])
    parser.add_argument("cases", nargs="*", choices=[*CASES, []], help="all if left out")
    parser.add_argument("--model", default="smollm2-135m")
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--sample-tokens", type=int, default=4_000)
    parser.add_argument("--anchors", type=int, default=3)
    parser.add_argument("--rows", type=int, default=4, help="of 512 tokens")
    parser.add_argument("--layers", type=int, default=1, help="of the model, in the case `rows`; 0: all")
    parser.add_argument("--counts", type=int, nargs=2, default=(2_000, 20_000), help="of short rows, in the case `rows`")
    parser.add_argument("--gguf", type=Path, help="the weights for llama.cpp, if it is installed")
    parser.add_argument("--count", action="store_true", help="nothing is timed")
    parser.add_argument("--child-rows", type=int, help=argparse.SUPPRESS)
    given = vars(parser.parse_args(arguments))
    names, child = given.pop("cases") or list(CASES), given.pop("child_rows")
    setup = Setup(data=Path(os.environ["QUAIL_DATA"]), **given)
    if child:
        sys.stdout.write(json.dumps(some_rows(setup, child)) + "\n")
        return 0
    for name in names:
        line = {"case": name, "model": setup.model, "repeats": setup.repeats, **CASES[name](setup)}
        sys.stdout.write(json.dumps(line) + "\n")
        sys.stdout.flush()
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
