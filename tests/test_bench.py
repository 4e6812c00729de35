"""The benchmarks' own parts that can be wrong without anybody noticing."""

from __future__ import annotations

import json
import xml.etree.ElementTree as ElementTree
from collections import Counter
from pathlib import Path

import pytest
from reference.min_tokens import min_tokens

from bench.engine.tables import picture, table
from bench.engine.trees import TREES, Tree
from bench.gpu.__main__ import main as gpu
from quail_engine.sql import analyze, split


@pytest.mark.parametrize("tree", TREES, ids=lambda tree: tree.name)
def test_every_tree_is_a_statement_with_calls(tree: Tree, tmp_path: Path) -> None:
    (statement,) = split(tree.statement(0.1, tmp_path))
    assert analyze(tree.statement(0.1, tmp_path), statement).calls


def test_the_least_tokens_are_those_of_a_trie() -> None:
    assert min_tokens([((1, 2), (3, 4)), ((1, 2), (3, 5)), ((1, 2, 3),)], chunk=512) == 2 + 2 + 1 + 1
    assert min_tokens([((1, 2, 3),), ((1, 2, 4),)], chunk=2) == 2 + 1 + 1


def test_the_bench_of_devices_runs_on_the_cpu(tmp_path: Path) -> None:
    options = ["--device", "cpu", "--models", "tiny", "--scale", "0.02", "--rows", "64", "--budget", "512", "--repeats", "1"]
    assert gpu([*options, "--no-fp8", "--out", str(tmp_path / "gpu.jsonl")]) == 0
    lines = [json.loads(line) for line in (tmp_path / "gpu.jsonl").read_text().splitlines()]
    count = Counter(line["part"] for line in lines)
    assert count == {"schedule": 6, "kernels": 1, "products": 4, "glue": 5, "attention": 6, "whole": 6}
    (kernels,) = [line for line in lines if line["part"] == "kernels"]
    assert kernels["differs"] is None
    for schedule, whole in zip(
        [line for line in lines if line["part"] == "schedule"], [line for line in lines if line["part"] == "whole"], strict=True
    ):
        assert schedule["tokens"] == whole["fresh"] <= whole["logical"]
        assert 0 < schedule["wave_efficiency"] <= 1


def test_others_are_told_in_times_of_ours() -> None:
    line = {
        "tree": "a < b", "asked": 4, "logical_tokens": 4_000, "fresh_tokens": 1_010, "least_tokens": 1_000, "kv_regret": 0.01,
        "seconds": 2.0, "tokens_per_second": 505, "floor_share": 0.8, "peak_mb": 900, "unshared": 8.0, "transformers": 6.0,
        "transformers_head": 3.0, "logits_apart": 0.02, "other_answers": 0,
    }  # fmt: skip
    row = table([line]).splitlines()[-1]
    assert "| 4 | 4,000 | 1,010 | 1,000 | 1.0% | 2.0 | 505 | 80.0% | 900 | 4.00x | 3.00x | 1.50x |" in row
    bars = ElementTree.fromstring(picture([line]))
    assert [text.text for text in bars.iter("{http://www.w3.org/2000/svg}text")][1::2] == ["4.0x", "3.0x", "1.5x"]
