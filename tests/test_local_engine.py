"""The CPU engine: the margins of transformers, and not a bit of them dependent on batch mates, budgets or threads."""

from __future__ import annotations

import itertools
import json
import random
import stat
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from reference.decoder import TINY, write_tiny_folder
from reference.requests import (
    JUDGE,
    LABELS,
    TINY_MODELS,
    assert_like_reference,
    random_requests,
    score,
    score_in_turn,
    score_on_held_kv,
)

from quail_engine.batching.batch import work_of
from quail_engine.batching.forest import Schedule, joined, schedule
from quail_engine.engine import load_engine, machine_files, rates
from quail_engine.engine.local import engine as engine_module
from quail_engine.engine.local import throughput
from quail_engine.engine.local.attention_kernel import flash_attention, reference_attention
from quail_engine.engine.local.engine import LocalEngine, load
from quail_engine.engine.local.linear import Widened, linear, packing_works, stacked
from quail_engine.engine.local.rows import padded_rows
from quail_engine.errors import EngineError, ModelError
from quail_engine.prompts.request import Ids, Logits, Request
from quail_engine.settings import Settings


@pytest.fixture(autouse=True)
def _threads() -> Iterator[None]:
    before = torch.get_num_threads()
    yield
    torch.set_num_threads(before)


@pytest.mark.parametrize("name", TINY_MODELS)
def test_logits_equal_transformers(name: str, tiny_folder: Callable[[str], Path]) -> None:
    folder = tiny_folder(name)
    requests = random_requests(1, [1, 2, 15, 16, 17, 40, 63, 130])
    assert_like_reference(folder, requests, score(load(folder, "float32", 2), requests), within=1e-3)


token_runs = st.lists(st.integers(0, 4), min_size=1, max_size=20).map(tuple)
few_runs = st.lists(token_runs, min_size=1, max_size=4)


@pytest.mark.parametrize("name", ["llama untied", "qwen2 tied"])
@settings(max_examples=15)
@given(
    pool=few_runs,
    picks=st.lists(st.lists(st.integers(0, 3), min_size=1, max_size=5), min_size=1, max_size=8),
    budget=st.integers(1, 90),
)
def test_random_forests_equal_transformers(
    name: str, tiny_folder: Callable[[str], Path], pool: list[Ids], picks: list[list[int]], budget: int
) -> None:
    folder = tiny_folder(name)
    requests = [
        Request(tuple(pool[i % len(pool)] for i in pick), LABELS if number % 2 else JUDGE) for number, pick in enumerate(picks)
    ]
    assert_like_reference(folder, requests, score(load(folder, "float32", 2), requests, budget), within=1e-3)


@pytest.mark.parametrize("name", ["llama tied", "qwen2 untied"])
def test_long_segments_equal_transformers(name: str, tiny_folder: Callable[[str], Path]) -> None:
    folder = tiny_folder(name)
    requests = random_requests(2, [511, 512, 513, 1_300])[::4]
    assert_like_reference(folder, requests, score(load(folder, "float32", 2), requests, 600), within=1e-3)


@pytest.mark.parametrize("model", ["smollm2-135m", pytest.param("qwen2.5-coder-0.5b", marks=pytest.mark.slow)])
def test_real_margins_equal_transformers(model: str, model_folder: Callable[[str], Path]) -> None:
    folder = model_folder(model)
    requests = random_requests(3, [20, 90], vocabulary=40_000)[::3]
    assert_like_reference(folder, requests, score(load(folder, "float32", 2), requests, 200), within=1e-3)


def assert_bits_never_change(engine: LocalEngine, requests: Sequence[Request], groups: Sequence[int]) -> None:
    """Shuffled requests, other budgets, batches of few requests, one and two threads: every bit as in one go."""
    expected = {
        request: [part.tobytes() for part in parts] for request, parts in zip(requests, score(engine, requests), strict=True)
    }
    rng = random.Random(4)
    for threads in (1, 2):
        engine.set_threads(threads)
        for budget, size in [(2_048, len(requests)), (97, len(requests)), *((2_048, size) for size in groups)]:
            shuffled = rng.sample(list(requests), min(len(requests), 4 * size))
            for start in range(0, len(shuffled), size):
                part = shuffled[start : start + size]
                for request, found in zip(part, score(engine, part, budget), strict=True):
                    assert [vector.tobytes() for vector in found] == expected[request], (threads, budget, size)


# bfloat16 is slow where the processor has no instructions for it: a model of each family in the default run.
@pytest.mark.parametrize(
    ("name", "dtype"),
    [(name, "float32") for name in TINY_MODELS]
    + [
        pytest.param(name, "bfloat16", marks=() if name in ("llama tied", "qwen2 untied", "qwen3") else pytest.mark.slow)
        for name in TINY_MODELS
    ],
)
def test_no_bit_depends_on_batch_mates(name: str, dtype: str, tiny_folder: Callable[[str], Path]) -> None:
    rng = random.Random(5)
    requests = random_requests(6, [rng.randrange(1, 70) for _ in range(12)] + [530])
    assert_bits_never_change(load(tiny_folder(name), dtype, 2), requests, groups=[1, 2, 3, 7, 64])


def test_no_bit_depends_on_batch_mates_in_a_real_model(model_folder: Callable[[str], Path]) -> None:
    requests = random_requests(7, [1, 3, 8, 16, 17, 70], vocabulary=40_000)
    # In the format that is taken here: bfloat16 is ten times slower where the processor has no instructions for it.
    assert_bits_never_change(load(model_folder("smollm2-135m"), "auto", 2), requests, groups=[1, 3])


def test_no_bit_depends_on_another_schedule_in_the_batch(tiny_folder: Callable[[str], Path]) -> None:
    engine = load(tiny_folder("llama tied"), "bfloat16", 1)
    parts = [random_requests(8, [40, 50]), random_requests(9, [45, 55, 3])]
    expected = [score(engine, requests, 60) for requests in parts]
    numbers = itertools.count()
    schedules = [Schedule(requests, numbers) for requests in parts]
    found: list[dict[tuple[int, int], Logits]] = [{}, {}]
    while any(one.tokens for one in schedules):
        pieces = [one.cut(30) for one in schedules]
        logits = iter(engine.score(joined(pieces, pieces[0].keep | pieces[1].keep)))
        for own, piece in zip(found, pieces, strict=True):
            own |= {(read.request, read.part): next(logits) for read in piece.reads}
    for own, wanted in zip(found, expected, strict=True):
        every = {(i, part): vector for i, vectors in enumerate(wanted) for part, vector in enumerate(vectors)}
        assert own.keys() == every.keys()
        assert all(np.array_equal(own[read], every[read]) for read in every)


@pytest.mark.parametrize("token_budget", [60, 2_048])
def test_a_request_that_waited_has_the_bits_of_one_alone(token_budget: int, tiny_folder: Callable[[str], Path]) -> None:
    engine, requests = load(tiny_folder("llama tied"), "float32", 1), random_requests(8, [40, 50, 45, 3, 530])
    for number, parts in score_in_turn(engine, requests, token_budget).items():
        (alone,) = score(engine, [requests[number]])
        assert [vector.tobytes() for vector in parts] == [vector.tobytes() for vector in alone]


@pytest.mark.parametrize("token_budget", [60, 2_048])
def test_a_request_on_held_kv_has_the_bits_of_one_alone(token_budget: int, tiny_folder: Callable[[str], Path]) -> None:
    engine, requests = load(tiny_folder("llama tied"), "float32", 1), random_requests(8, [40, 50, 45, 3, 530])
    for request, parts in zip(requests, score_on_held_kv(engine, requests, token_budget), strict=True):
        (alone,) = score(engine, [request])
        assert [vector.tobytes() for vector in parts] == [vector.tobytes() for vector in alone]


def test_an_abandoned_schedule_leaves_nothing_behind(tiny_folder: Callable[[str], Path]) -> None:
    engine = load(tiny_folder("llama tied"), "bfloat16", 1)
    first, second = random_requests(8, [40, 50]), random_requests(9, [45, 55])
    expected = score(engine, second, 60)
    batches = schedule(first, 60)
    engine.score(next(batches))
    engine.score(next(batches))
    for found, wanted in zip(score(engine, second, 60), expected, strict=True):
        assert all(np.array_equal(a, b) for a, b in zip(found, wanted, strict=True))


def test_torch_s_lack_of_memory_is_a_memory_error(tiny_folder: Callable[[str], Path], monkeypatch: pytest.MonkeyPatch) -> None:
    engine, requests = load(tiny_folder("llama tied"), "float32", 2), random_requests(3, [5, 9])
    expected = score(engine, requests)
    with monkeypatch.context() as patch:
        patch.setattr(engine, "_room", lambda batch, packing: torch.empty(1 << 56))
        with pytest.raises(MemoryError, match="allocate"):
            score(engine, requests)
    found = score(engine, requests)
    assert [list(map(bytes, parts)) for parts in found] == [list(map(bytes, parts)) for parts in expected]


def test_plain_torch_attention_answers_alike(tiny_folder: Callable[[str], Path], monkeypatch: pytest.MonkeyPatch) -> None:
    folder = tiny_folder("llama tied")
    requests = random_requests(10, [5, 40, 530])
    monkeypatch.setattr("quail_engine.engine.local.engine.attention_kernel", lambda: reference_attention)
    assert_like_reference(folder, requests[::3], score(load(folder, "float32", 2), requests, 300)[::3], within=1e-3)


@pytest.mark.parametrize("name", TINY_MODELS)
def test_packed_matrices_give_the_bits_of_plain_ones(
    name: str, tiny_folder: Callable[[str], Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    if not packing_works():
        pytest.skip("this torch has no packed products on this processor")
    requests = random_requests(13, [1, 5, 40, 70, 530])
    packed = score(load(tiny_folder(name), "bfloat16", 2), requests, 300)
    monkeypatch.setattr("quail_engine.engine.local.linear.packing_works", lambda: False)
    plain = score(load(tiny_folder(name), "bfloat16", 2), requests, 300)
    assert all(np.array_equal(a, b) for one, other in zip(packed, plain, strict=True) for a, b in zip(one, other, strict=True))


@pytest.mark.parametrize("rows", [16, 48, 1_040])
def test_a_packed_product_is_the_plain_one(rows: int) -> None:
    if not packing_works():
        pytest.skip("this torch has no packed products on this processor")
    weight, given = torch.randn(96, 80).bfloat16(), torch.randn(rows, 80).bfloat16()
    product = linear(weight)
    assert product.packed
    assert torch.equal(product(given), torch.nn.functional.linear(given, weight))


def test_short_texts_of_one_length_are_one_attention_call(
    tiny_folder: Callable[[str], Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    calls = []

    def counted(query: torch.Tensor, key: torch.Tensor, value: torch.Tensor, causal: bool) -> tuple[torch.Tensor, torch.Tensor]:
        calls.append(causal)
        return reference_attention(query, key, value, causal)

    monkeypatch.setattr("quail_engine.engine.local.engine.attention_kernel", lambda: counted)
    engine = load(tiny_folder("llama tied"), "float32", 1)
    texts = [(n % 97, n // 3, 5, 7, 11) if n % 2 else (n % 97, 13, n // 2) for n in range(60)]
    requests = [Request(((1, 2, 3), text, (4, 8, 6)), JUDGE) for text in texts]
    calls.clear()
    (batch,) = schedule(requests, 2_048)
    engine.score(batch)
    # A layer has one call for all nodes themselves, one for the head, and two for texts of 3 and of 5 tokens.
    assert (calls.count(True), calls.count(False)) == (3, 9)


@pytest.mark.parametrize("causal", [False, True])
def test_the_fused_kernel_is_the_reference(causal: bool) -> None:
    query, key, value = (torch.randn(3, 2, 37, 16) for _ in range(3))
    for found, expected in zip(
        flash_attention(query, key, value, causal), reference_attention(query, key, value, causal), strict=True
    ):
        torch.testing.assert_close(found, expected, atol=1e-5, rtol=1e-5)


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float32])
@pytest.mark.parametrize("width", [128, 100, 1_536])
def test_silu_rounds_alike_at_every_padded_row_count(dtype: torch.dtype, width: int) -> None:
    gate_up = torch.randn(700, 2 * width, generator=torch.Generator().manual_seed(0)).to(dtype)

    def silu(rows: int) -> torch.Tensor:
        return torch.nn.functional.silu(gate_up[:rows, :width])

    torch.set_num_threads(1)
    expected = silu(16 * (700 // 16))
    for threads in (1, 2, 3, 5):
        torch.set_num_threads(threads)
        for wanted in (1, 17, 33, 100, 350, 500):
            rows = padded_rows(wanted, width, threads)
            assert rows >= wanted
            assert torch.equal(silu(rows), expected[:rows])


def test_bfloat16_is_near_float32(tiny_folder: Callable[[str], Path]) -> None:
    folder = tiny_folder("llama tied")
    requests = random_requests(11, [30, 60])
    exact, rounded = (
        np.concatenate([vector for parts in score(load(folder, dtype, 2), requests) for vector in parts])
        for dtype in ("float32", "bfloat16")
    )
    assert 0 < np.linalg.norm(exact - rounded) < 0.05 * np.linalg.norm(exact)


def test_what_an_engine_says_about_itself(tiny_folder: Callable[[str], Path]) -> None:
    engine = load(tiny_folder("llama tied"), "auto", 1)
    assert engine.weights == "5" * 64
    assert engine.precision == "full"
    assert engine.dtype in ("float32", "bfloat16")
    assert engine.roofline.source == "measured"
    assert engine.roofline.tokens_per_second > 0
    engine.close()


def test_rates_are_measured_once_and_what_batches_took_corrects_them(
    tiny_folder: Callable[[str], Path], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(machine_files, "user_cache", lambda: tmp_path)
    engine = load(tiny_folder("llama tied"), "float32", 1)
    measured = engine.roofline
    assert measured.correction == 1
    slow = itertools.count(0, 1_000)  # a clock by which every batch takes 1,000 seconds
    for module in (engine_module, rates):
        monkeypatch.setattr(module, "perf_counter", lambda: next(slow))
    busy = itertools.count(0, 500)  # of which other programs take one half
    monkeypatch.setattr(engine_module, "process_time", lambda: next(busy))
    score(engine, random_requests(12, [200] * 20), 300)
    assert engine.roofline == measured
    busy = itertools.count(0, 1_000)
    score(engine, random_requests(12, [200] * 20), 300)
    corrected = engine.roofline
    assert corrected.correction == 8
    assert corrected.machine == measured.machine
    engine.close()
    (file,) = (tmp_path / "machine").iterdir()
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    monkeypatch.setattr(throughput, "measure", lambda *args: pytest.fail("measured again"))
    again = load(tiny_folder("llama tied"), "float32", 1)
    assert again.roofline == corrected


def test_a_dtype_that_is_far_slower_is_not_measured_until_it_is_asked_for(
    tiny_folder: Callable[[str], Path], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(machine_files, "user_cache", lambda: tmp_path)
    monkeypatch.setattr(throughput, "_product_flops", lambda config, dtype: 1e9 if dtype == torch.bfloat16 else 4e9)
    measured, measure = [], throughput.measure
    monkeypatch.setattr(throughput, "measure", lambda *given: measured.append(given[2]) or measure(*given))  # type: ignore[func-returns-value]
    folder = tiny_folder("llama tied")
    assert [load(folder, dtype, 1).dtype for dtype in ("auto", "auto")] == ["float32", "float32"]
    assert measured == ["float32"]
    named = load(folder, "bfloat16", 1)
    assert measured == ["float32", "bfloat16"]
    assert named.roofline.source == "measured"


def test_dtypes_that_are_near_each_other_are_all_measured(
    tiny_folder: Callable[[str], Path], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(machine_files, "user_cache", lambda: tmp_path)
    monkeypatch.setattr(throughput, "_product_flops", lambda config, dtype: 2e9 if dtype == torch.bfloat16 else 4e9)
    measured, measure = [], throughput.measure
    monkeypatch.setattr(throughput, "measure", lambda *given: measured.append(given[2]) or measure(*given))  # type: ignore[func-returns-value]
    load(tiny_folder("llama tied"), "auto", 1)
    assert measured == ["bfloat16", "float32"]


@pytest.mark.parametrize("harm", ["", "[]", '{"float32": 3}', '{"float32": {"machine": {"matrix_flops": "x"}, "past": []}}'])
def test_damaged_rates_are_measured_again(
    harm: str, tiny_folder: Callable[[str], Path], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(machine_files, "user_cache", lambda: tmp_path)
    load(tiny_folder("llama tied"), "float32", 1)
    (file,) = (tmp_path / "machine").iterdir()
    file.write_text(harm)
    assert load(tiny_folder("llama tied"), "float32", 1).roofline.machine.measured
    assert "attention_flops" in file.read_text()


@pytest.mark.parametrize(("on_core", "seconds"), [(1.0, 0.05), (0.5, 0.3)])
def test_a_measurement_that_others_disturb_goes_on_for_longer(
    on_core: float, seconds: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    clock = [0.0]
    runs = iter([9.0, 0.02, *[0.01] * 100])  # the first one compiles kernels

    def run() -> None:
        clock[0] += next(runs)

    monkeypatch.setattr(throughput, "perf_counter", lambda: clock[0])
    monkeypatch.setattr(throughput, "process_time", lambda: on_core * clock[0])
    assert throughput._best(run, 1) == pytest.approx(0.01)
    assert clock[0] - 9 == pytest.approx(seconds, abs=0.011)


def test_the_batches_of_the_measurement_tell_the_costs_apart() -> None:
    costs = np.array([2e-5, 4e-8, 1e-8, 5e-5, 2e-4])  # a token, a pair of both kinds, a fork, a pass
    works = [work_of(batch.nodes, held) for batch, held in throughput._batches()]
    counts = np.array([[work.tokens, work.own_pairs, work.prefix_pairs, work.forks, 1] for work in works])
    seconds = counts @ costs
    assert throughput._fitted(counts, seconds) == pytest.approx(costs)
    draw = np.random.default_rng(1)
    for _ in range(20):  # times are a little off
        token, pair, prefix_pair, *_ = throughput._fitted(counts, seconds * draw.uniform(0.98, 1.02, len(seconds)))
        assert (token, pair, prefix_pair) == pytest.approx(costs[:3], rel=0.25)


def test_a_widened_matrix_gives_the_bits_of_a_float32_one() -> None:
    generator = torch.Generator().manual_seed(2)
    upper, lower = (torch.randn(48, 32, generator=generator).bfloat16() for _ in range(2))
    given, room = torch.randn(16, 32, generator=generator), torch.full((5_000,), float("nan"))
    both, one = stacked([upper, lower], torch.float32, room), stacked([lower], torch.float32, room)
    assert {type(both), type(one)} == {Widened}  # neither is held in float32
    for product, parts in ((both, [upper, lower]), (one, [lower]), (both, [upper, lower])):
        assert torch.equal(product(given), torch.nn.functional.linear(given, torch.cat(parts).float()))


@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
def test_settings_choose_the_dtype_and_the_threads(dtype: str, tiny_folder: Callable[[str], Path]) -> None:
    engine = load_engine(tiny_folder("qwen2 tied"), Settings.of({"dtype": dtype, "cpu_threads": 1}))
    assert isinstance(engine, LocalEngine)
    assert engine.dtype == dtype
    assert torch.get_num_threads() == 1


def damage(folder: Path, **changes: object) -> None:
    description = json.loads((folder / "quail.json").read_text())
    (folder / "quail.json").write_text(json.dumps({**description, **changes}))


def without_a_tensor(folder: Path) -> None:
    from safetensors.torch import load_file, save_file

    state = load_file(folder / "model.safetensors")
    del state["model.layers.1.mlp.up_proj.weight"]
    save_file(state, folder / "model.safetensors")


@pytest.mark.parametrize(
    ("harm", "says"),
    [
        (lambda folder: (folder / "quail.json").unlink(), "quail.json cannot be read"),
        (lambda folder: (folder / "quail.json").write_text("{"), "quail.json cannot be read"),
        (lambda folder: (folder / "quail.json").write_text("[]"), "not a mapping"),
        (lambda folder: damage(folder, architecture="mamba"), "architecture 'mamba'.*llama, qwen2, qwen3"),
        (lambda folder: damage(folder, converter=7), "converter version 7"),
        (lambda folder: damage(folder, source_sha256=None), "source_sha256"),
        (lambda folder: damage(folder, config={"hidden_size": 64}), "lacks num_layers"),
        (
            lambda folder: damage(folder, config={**TINY, "tied_embeddings": True, "attention_bias": False, "hidden_size": 4}),
            r"embed_tokens.weight is \[97, 64\].*\[97, 4\]",
        ),
        (lambda folder: (folder / "model.safetensors").unlink(), "model.safetensors cannot be opened"),
        (lambda folder: (folder / "model.safetensors").write_bytes(b"short"), "model.safetensors cannot be opened"),
        (without_a_tensor, r"model\.layers\.1\.mlp\.up_proj\.weight"),
    ],
)
def test_a_damaged_folder_is_one_clear_error(harm: Callable[[Path], object], says: str, tmp_path: Path) -> None:
    folder = write_tiny_folder(tmp_path / "model", "llama")
    harm(folder)
    with pytest.raises(ModelError, match=says) as caught:
        load(folder, "float32", 1)
    assert str(folder) in str(caught.value)
    assert "\n" not in str(caught.value)


def test_without_torch_the_error_says_what_to_install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for module in [name for name in sys.modules if name.startswith("quail_engine.engine.local")]:
        monkeypatch.delitem(sys.modules, module)
    monkeypatch.setitem(sys.modules, "torch", None)
    with pytest.raises(EngineError, match=r"pip install 'dbt-quail\[local\]'"):
        load_engine(tmp_path, Settings.of({}))


@pytest.mark.skipif(torch.cuda.is_available() or torch.backends.mps.is_available(), reason="this machine has a device")
def test_a_device_that_is_not_there_is_refused(tmp_path: Path) -> None:
    with pytest.raises(EngineError, match=r"device: cuda cannot be used.*Set device: cpu"):
        load_engine(tmp_path, Settings.of({"device": "cuda"}))
    with pytest.raises(EngineError, match="device: mps is not there"):
        load_engine(tmp_path, Settings.of({"device": "mps"}))


def test_importing_the_engine_package_imports_no_torch() -> None:
    code = "import sys, quail_engine.engine, quail_engine.batching.forest; sys.exit('torch' in sys.modules)"
    subprocess.run([sys.executable, "-c", code], check=True)
