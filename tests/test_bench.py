"""The benchmarks' own parts that can be wrong without anybody noticing."""

from __future__ import annotations

import ctypes
import json
import sys
import xml.etree.ElementTree as ElementTree
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
from reference.min_tokens import min_tokens

from bench import many
from bench.cases import by_beginning
from bench.engine import llama_baseline
from bench.engine.paired import in_turn, ratios
from bench.engine.recording import Asked, run
from bench.engine.tables import picture, table
from bench.engine.trees import TREES, Tree
from bench.gpu.__main__ import main as gpu
from bench.gpu.simulate import RATES
from quail_engine.sql import analyze, split


@pytest.mark.parametrize("tree", TREES, ids=lambda tree: tree.name)
def test_every_tree_is_a_statement_with_calls(tree: Tree, tmp_path: Path) -> None:
    (statement,) = split(tree.statement(0.1, tmp_path))
    assert analyze(tree.statement(0.1, tmp_path), statement).calls


def test_the_least_tokens_are_those_of_a_trie() -> None:
    assert min_tokens([((1, 2), (3, 4)), ((1, 2), (3, 5)), ((1, 2, 3),)], chunk=512) == 2 + 2 + 1 + 1
    assert min_tokens([((1, 2, 3),), ((1, 2, 4),)], chunk=2) == 2 + 1 + 1


def test_the_bench_of_devices_runs_on_the_cpu(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    options = ["--device", "cpu", "--models", "tiny", "--scale", "0.02", "--rows", "64", "--budget", "512", "--repeats", "1"]
    assert gpu([*options, "--no-fp8", "--out", str(tmp_path / "gpu.jsonl")]) == 0
    lines = [json.loads(line) for line in (tmp_path / "gpu.jsonl").read_text().splitlines()]
    count = Counter(line["part"] for line in lines)
    assert count == {"schedule": 6, "kernels": 1, "products": 4, "glue": 5, "attention": 6, "whole": 6}
    (kernels,) = [line for line in lines if line["part"] == "kernels"]
    assert (kernels["about"], kernels["remarks"], kernels["wrong"]) == ("plain torch", [], {})
    for schedule, whole in zip(
        [line for line in lines if line["part"] == "schedule"], [line for line in lines if line["part"] == "whole"], strict=True
    ):
        assert schedule["tokens"] == whole["fresh"] <= whole["logical"]
        assert whole["predicted_per_second"] == schedule["fresh_per_second bfloat16"]
        assert 0 < schedule["wave_efficiency"] <= 1
        for dtype in RATES:
            assert 0 < schedule[f"waits_of_floor {dtype}"] <= schedule[f"host_of_floor {dtype}"] + 1e-6
    printed = capsys.readouterr().out
    assert [part for part in count if f"**{part}**" in printed] == list(count)


def test_others_are_told_in_times_of_ours() -> None:
    line = {
        "tree": "a < b", "asked": 4, "logical_tokens": 4_000, "fresh_tokens": 1_010, "least_tokens": 1_000, "kv_regret": 0.01,
        "seconds": 2.0, "rows_per_second": 3.0, "asked_per_second": 2.0, "tokens_per_second": 505, "floor_share": 0.8,
        "peak_mb": 900, "unshared": 8.0, "transformers": 6.0,
        "transformers_head": 3.0, "logits_apart": 0.02, "other_answers": 0,
    }  # fmt: skip
    row = table([line]).splitlines()[-1]
    assert "| 4 | 4,000 | 1,010 | 1,000 | 1.0% | 2.0 | 3.0 | 2.0 | 505 | 80.0% | 900 | 4.00x | 3.00x | 1.50x |" in row
    bars = ElementTree.fromstring(picture([line]))
    assert [text.text for text in bars.iter("{http://www.w3.org/2000/svg}text")][1::2] == ["4.0x", "3.0x", "1.5x"]


def test_where_tokens_alone_were_counted_there_are_no_other_columns() -> None:
    line = {"tree": "a", "asked": 4, "logical_tokens": 40, "fresh_tokens": 10, "least_tokens": 10, "kv_regret": 0.0}
    assert table([line]).splitlines()[-1] == "| a | 4 | 40 | 10 | 10 | 0.0% |"


def test_ratios_are_those_of_a_turn_and_the_first_turn_does_not_count() -> None:
    ours, theirs = iter([99.0, 1.0, 2.0, 4.0]), iter([1.0, 3.0, 6.0, 4.0])
    seconds = in_turn({"ours": lambda: next(ours), "theirs": lambda: next(theirs)}, repeats=3)
    assert seconds == {"ours": [1, 2, 4], "theirs": [3, 6, 4]}
    assert ratios(seconds, "ours") == {"seconds": {"ours": 2, "theirs": 4}, "times": {"theirs": 3}}


def test_requests_of_an_anchor_are_one_group() -> None:
    asked = [Asked(((9,), (anchor,), (partner,)), (1,)) for partner in (7, 8) for anchor in (1, 2, 3)]
    groups = by_beginning(asked, 3)
    assert [{one.runs[1] for one in group} for group in groups] == [{(1,)}, {(2,)}, {(3,)}]


def test_counting_prefills_nothing_and_asks_everything(model_folder: Callable[[str], Path]) -> None:
    texts = {"texts": ["It rains.", "It rains again.", "It rains."]}
    recording, report = run(str(model_folder("smollm2-135m")), "SELECT AI_FILTER('Is it wet?', text) FROM texts", texts, True)
    assert report.asked == len(recording.asked) == 2
    assert recording.fresh_tokens == min_tokens([one.runs for one in recording.asked], chunk=512)
    assert not any(logits.any() for logits in recording.logits)


class FakeLlama:
    """llama.cpp as far as the baseline uses it: its logits are the last token and how many tokens lie before it."""

    ctx = None
    n_tokens = 0

    def __init__(self) -> None:
        self.kept: list[int] = []
        self.evaluated = 0

    def eval(self, ids: tuple[int, ...]) -> None:
        self.kept = [*self.kept[: self.n_tokens], *ids]
        self.n_tokens += len(ids)
        self.evaluated += len(ids)

    def n_vocab(self) -> int:
        return 2


@pytest.mark.parametrize(("reuse", "evaluated"), [(True, 3 + 1 + 1), (False, 9)])
def test_llama_cpp_keeps_what_neighbours_begin_with(reuse: bool, evaluated: int, monkeypatch: pytest.MonkeyPatch) -> None:
    llama = FakeLlama()
    logits = SimpleNamespace(llama_get_logits_ith=lambda ctx, i: pointer(llama.kept))
    monkeypatch.setitem(sys.modules, "llama_cpp", logits)
    asked = [Asked(((1, 2), (5,)), (0, 1)), Asked(((1, 2), (4,)), (1,)), Asked(((1, 2), (5,)), (0,))]
    _, found = llama_baseline.score(llama, asked, reuse)
    assert [vector.tolist() for vector in found] == [[5, 3], [3], [5]]
    assert llama.evaluated == evaluated


def pointer(kept: list[int]) -> object:
    logits = np.array([kept[-1], len(kept)], np.float32)
    return logits.ctypes.data_as(ctypes.POINTER(ctypes.c_float))


def test_many_documents_are_asked_once_in_a_process_of_their_own(capfd: pytest.CaptureFixture[str]) -> None:
    many.main(["--documents", "3000", "--measure", "filter", "--answers", "off"])
    found = json.loads(capfd.readouterr().out)
    assert found["asked"] == 3000 > found["rows"] > 1000
    assert 0 < found["baseline_mb"] <= found["peak_mb"]
