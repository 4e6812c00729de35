"""The engine for devices, run whole on the CPU: plain torch in place of Triton's kernels, every other line the same."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path

import duckdb
import numpy as np
import pytest
import torch
from reference.requests import (
    JUDGE,
    TINY_MODELS,
    assert_like_reference,
    random_requests,
    score,
    score_in_turn,
    score_on_held_kv,
)

from quail_engine import Session, connect
from quail_engine.batching.batch import Batch
from quail_engine.batching.forest import schedule
from quail_engine.engine import load_engine, machine_files
from quail_engine.engine.kernel_checks import KernelChecks
from quail_engine.engine.local import device_engine, kernel_choice
from quail_engine.engine.local.arena import Arena
from quail_engine.engine.local.device import find_device
from quail_engine.engine.local.device_engine import DeviceEngine
from quail_engine.engine.local.device_kernels import TORCH, Kernels, by_sequences
from quail_engine.engine.local.kernel_check import disagreements
from quail_engine.engine.local.weights import Config, open_checkpoint
from quail_engine.engine.mock import MockEngine
from quail_engine.errors import EngineError, ModelError, SettingsError
from quail_engine.models import find, precision_of
from quail_engine.progress import Warned
from quail_engine.settings import Settings

CPU = torch.device("cpu")


def load(folder: Path, dtype: str = "float32", *, fp8: bool = False, **changes: object) -> DeviceEngine:
    given = {"memory_fraction": 0.9, "token_budget": 1_000, "cpu_threads": None, **changes}
    return device_engine.load(folder, CPU, dtype, fp8=fp8, **given)  # type: ignore[arg-type]


@pytest.mark.parametrize("name", TINY_MODELS)
def test_logits_equal_transformers(name: str, tiny_folder: Callable[[str], Path]) -> None:
    requests = random_requests(1, [1, 2, 16, 17, 63, 130])[::2]
    folder = tiny_folder(name)
    for budget in (2_048, 60):
        assert_like_reference(folder, requests, score(load(folder), requests, budget), within=1e-3)


def test_long_segments_equal_transformers(tiny_folder: Callable[[str], Path]) -> None:
    folder = tiny_folder("qwen3")
    requests = random_requests(2, [511, 513, 1_300])[::4]
    assert_like_reference(folder, requests, score(load(folder), requests, 600), within=1e-3)


def apart(found: Sequence[tuple[np.ndarray, ...]], expected: Sequence[tuple[np.ndarray, ...]]) -> float:
    """Relative Frobenius norm of the difference of all logits."""
    one, other = (np.concatenate([vector for parts in every for vector in parts]) for every in (found, expected))
    return float(np.linalg.norm(one - other) / np.linalg.norm(other))


def test_requests_that_waited_equal_transformers(tiny_folder: Callable[[str], Path]) -> None:
    requests = random_requests(8, [40, 50, 45, 3, 530])
    found = score_in_turn(load(tiny_folder("llama tied")), requests, 60)
    assert_like_reference(tiny_folder("llama tied"), [requests[i] for i in found], list(found.values()), within=1e-3)


def test_requests_on_held_kv_equal_transformers(tiny_folder: Callable[[str], Path]) -> None:
    requests = random_requests(8, [40, 50, 45, 3, 530])
    found = score_on_held_kv(load(tiny_folder("llama tied")), requests, 60)
    assert_like_reference(tiny_folder("llama tied"), requests, found, within=1e-3)


@pytest.mark.parametrize("name", ["llama untied", "qwen3"])
def test_bfloat16_is_near_float32(name: str, tiny_folder: Callable[[str], Path]) -> None:
    folder, requests = tiny_folder(name), random_requests(11, [30, 60])
    assert 0 < apart(score(load(folder, "bfloat16"), requests), score(load(folder), requests)) < 0.05


def only_launches(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever would wait for a device raises, as far as Python sees it."""
    for name in ("item", "tolist", "cpu", "numpy", "nonzero", "__bool__", "__int__", "__float__", "__index__", "__array__"):
        monkeypatch.setattr(torch.Tensor, name, lambda *args, name=name: pytest.fail(f"{name} waits for the device"))


BY_SEQUENCES = replace(TORCH, attention=by_sequences(lambda queries, *_: (queries.clone(), queries[..., 0].float())))


@pytest.mark.parametrize(
    ("name", "fp8", "kernels"), [("qwen3", False, TORCH), ("qwen2 tied", True, TORCH), ("qwen3", False, BY_SEQUENCES)]
)
def test_nothing_waits_for_the_device(
    name: str, fp8: bool, kernels: Kernels, tiny_folder: Callable[[str], Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(device_engine, "require_fp8", lambda *args: None)
    monkeypatch.setattr(device_engine, "choose_kernels", lambda *args: kernel_choice.Chosen(kernels, "these"))
    # What goes to the device is written in NumPy, through the host's own buffer; all that follows is on the device.
    engine, requests = load(tiny_folder(name), fp8=fp8), random_requests(5, [30, 60])
    batches = list(schedule(requests, 80))
    expected = [load(tiny_folder(name), fp8=fp8).score(batch) for batch in batches[:1]]
    with monkeypatch.context() as patch:
        patch.setattr(engine._staging, "upload", _uploaded)
        only_launches(patch)
        pending = [engine.submit(batch) for batch in batches]  # all in flight, none taken
    found = [one.logits() for one in pending]
    assert all(np.array_equal(a, b) for a, b in zip(found[0], expected[0], strict=True))
    assert [len(vectors) for vectors in found] == [len(batch.reads) for batch in batches]


def _uploaded(arrays: dict[str, np.ndarray]) -> dict[str, torch.Tensor]:
    return {name: torch.from_numpy(array.copy()) for name, array in arrays.items()}


def test_batches_in_flight_answer_as_one_by_one(tiny_folder: Callable[[str], Path]) -> None:
    requests = random_requests(6, [40, 70, 3])
    one, other = load(tiny_folder("llama tied")), load(tiny_folder("llama tied"))
    batches = list(schedule(requests, 70))
    pending = [other.submit(batch) for batch in batches]
    for batch, later in zip(batches, pending, strict=True):
        assert all(np.array_equal(a, b) for a, b in zip(one.score(batch), later.logits(), strict=True))


def in_full(
    rows: torch.Tensor, weight: torch.Tensor, *, scale_a: torch.Tensor, scale_b: torch.Tensor, **_: object
) -> torch.Tensor:
    """What `torch._scaled_mm` computes, written out."""
    return (rows.float() * scale_a) @ (weight.float() * scale_b)


@pytest.mark.parametrize("name", ["llama untied", "qwen2 tied", "qwen3"])
def test_fp8_products_are_those_of_quantised_rows(
    name: str, tiny_folder: Callable[[str], Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(device_engine, "require_fp8", lambda *args: None)
    folder, requests = tiny_folder(name), random_requests(11, [30, 60])
    engine = load(folder, fp8=True)
    assert (engine.precision, engine.dtype) == ("fp8", "float8_e4m3fn")
    assert {matrix.weight.dtype for layer in engine._model.layers for matrix in (layer.qkv, layer.down)} == {
        torch.float8_e4m3fn
    }
    found = score(engine, requests)
    monkeypatch.setattr(torch, "_scaled_mm", lambda *args, out_dtype, **given: in_full(*args, **given).to(out_dtype))
    assert apart(found, score(engine, requests)) < 0.02
    assert 0.05 < apart(found, score(load(folder), requests)) < 0.6  # random weights magnify what rounding does to real ones


def test_real_margins_in_fp8_are_near(model_folder: Callable[[str], Path], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(device_engine, "require_fp8", lambda *args: None)
    folder = model_folder("smollm2-135m")
    requests = [request for request in random_requests(3, [20, 40], vocabulary=40_000) if request.readout is JUDGE]
    exact, rounded = (score(load(folder, "bfloat16", fp8=fp8), requests) for fp8 in (False, True))
    margins = [np.array([logits[0] - logits[1] for (logits,) in answers]) for answers in (exact, rounded)]
    assert np.abs(margins[0] - margins[1]).max() < 0.25


def test_fp8_is_refused_where_it_cannot_run(tiny_folder: Callable[[str], Path]) -> None:
    with pytest.raises(EngineError, match=r"@fp8 runs on CUDA devices.*without @fp8"):
        load(tiny_folder("llama tied"), fp8=True)
    with pytest.raises(EngineError, match="@fp8 runs on a GPU"):
        load_engine(tiny_folder("llama tied"), Settings.of({"device": "cpu"}), "fp8")


def test_an_arena_gives_slots_that_nobody_has_and_takes_back_what_is_not_kept() -> None:
    arena = Arena(open_config(), 10, torch.float32, CPU)
    one, other = arena.take(4), arena.take(5)
    assert sorted([*one, *other]) == list(range(1, 10))
    with pytest.raises(MemoryError, match=r"KV of 2 tokens.*1 of 10 slots"):
        arena.take(2)
    arena.give_back([one, other], [one[:2], one[1:3]])
    assert arena.free == 7
    assert not set(arena.take(7)) & set(one[:3])


def open_config() -> Config:
    return Config(8, 1, 2, 1, 4, 8, 10, 1e4, 1e-6, tied_embeddings=True, attention_bias=False, context=16)


def test_an_arena_that_is_full_fails_one_batch_and_no_other(tiny_folder: Callable[[str], Path]) -> None:
    engine, expected = load(tiny_folder("llama tied")), load(tiny_folder("llama tied"))
    engine._arena.take(engine._arena.free - 200)
    requests = random_requests(3, [50, 60])
    (large,) = schedule(requests, 10_000)
    with pytest.raises(MemoryError, match="slots are free"):
        engine.score(Batch(large.nodes * 2, (), frozenset()))
    assert_same(score(engine, requests, 100), score(expected, requests, 100))


def test_a_batch_that_fails_gives_its_slots_back(tiny_folder: Callable[[str], Path], monkeypatch: pytest.MonkeyPatch) -> None:
    engine, requests = load(tiny_folder("llama tied")), random_requests(3, [5, 9])
    free = engine._arena.free
    with monkeypatch.context() as patch:
        patch.setattr(device_engine, "forward", lambda *args: torch.empty(1 << 56))
        with pytest.raises(MemoryError):
            score(engine, requests)
    assert engine._arena.free == free
    assert_same(score(engine, requests), score(load(tiny_folder("llama tied")), requests))
    assert engine._arena.free == free


def assert_same(found: Sequence[tuple[np.ndarray, ...]], expected: Sequence[tuple[np.ndarray, ...]]) -> None:
    for one, other in zip(found, expected, strict=True):
        assert all(np.array_equal(a, b) for a, b in zip(one, other, strict=True))


def test_a_device_too_small_is_one_clear_error(tiny_folder: Callable[[str], Path]) -> None:
    with pytest.raises(EngineError, match="gpu_memory_fraction"):
        load(tiny_folder("llama tied"), token_budget=10_000_000)


def test_a_gpu_has_larger_batches_unless_said_otherwise() -> None:
    assert Settings.of({}).token_budget == Settings.of({"device": "cpu"}).token_budget == 2_048
    assert Settings.of({"device": "cuda:1"}).token_budget == 8_192
    assert Settings.of({"device": "cuda", "token_budget": 100}).token_budget == 100
    for device in ("cuda:x", "gpu", "cuda1"):
        with pytest.raises(SettingsError, match="device must be auto, cpu, cuda"):
            Settings.of({"device": device})


def test_a_name_with_fp8_is_a_model_of_its_own() -> None:
    assert (precision_of("qwen3-4b"), precision_of("qwen3-4b@fp8")) == ("full", "fp8")
    with pytest.raises(ModelError, match="Unknown model 'qwen3-9b'"):
        find("qwen3-9b@fp8", None)


def test_auto_is_the_cpu_where_there_is_no_gpu() -> None:
    assert find_device("auto").type in ("cpu", "cuda")
    assert find_device("cpu") == CPU
    with pytest.raises(EngineError, match="Write auto, cpu, cuda"):
        find_device("tpu")


def test_a_device_of_an_old_kind_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in (("is_available", True), ("device_count", 1), ("get_device_capability", (7, 5))):
        monkeypatch.setattr(torch.cuda, name, lambda *args, value=value: value)
    monkeypatch.setattr(torch.cuda, "get_device_name", lambda *args: "T4")
    assert find_device("auto").type == "cpu"
    with pytest.raises(EngineError, match=r"T4 of compute capability 7\.5; 8\.0 or later"):
        find_device("cuda")
    with pytest.raises(EngineError, match=r"has 1 CUDA device"):
        find_device("cuda:1")


def test_kernels_are_compared_with_plain_torch_one_by_one(
    tiny_folder: Callable[[str], Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    config = open_checkpoint(tiny_folder("qwen3")).config
    assert not disagreements(TORCH, config, torch.float32, CPU, fp8=True)

    def fails(*args: object) -> None:
        raise RuntimeError("no\n  such instruction")

    given = replace(TORCH, name="Triton", swiglu=lambda *args: (torch.zeros(162, 128), torch.ones(162, 1)), rope=fails)
    monkeypatch.setattr(kernel_choice, "attention_seconds", lambda *args: 1.0)
    found = kernel_choice.chosen(given, {}, KernelChecks(config, "auto", True), config, torch.float32, CPU, fp8=True)
    assert found.about == "Triton kernels, checked on cpu, but plain torch for rope, swiglu"
    (remark,) = found.remarks
    assert remark == (
        "On cpu others serve in place of Triton's kernels that are wrong: "
        "rope fails (RuntimeError: no such instruction); swiglu is 1 off."
    )
    assert (found.kernels.swiglu, found.kernels.rope) == (TORCH.swiglu, TORCH.rope)


def test_a_kernel_that_gives_no_number_is_wrong(tiny_folder: Callable[[str], Path]) -> None:
    config = open_checkpoint(tiny_folder("qwen3")).config
    given = replace(TORCH, swiglu=lambda gate_up, quantise: torch.full((162, 128), torch.nan))
    assert disagreements(given, config, torch.float32, CPU, fp8=False) == {"swiglu": "is inf off"}


def test_a_plan_says_whether_kernels_have_run(
    model_folder: Callable[[str], Path], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(machine_files, "user_cache", lambda: tmp_path)
    config = open_checkpoint(model_folder("smollm2-135m")).config
    call = "select AI_FILTER('Is it good?', 'yes' || i) as f from range(3) r(i)"
    unproved = "smollm2-135m on cuda:1: kernels compiled, not run; each is compared with plain torch when the model is loaded"
    for device, expected in (("cuda:1", True), ("cpu", False)):
        with connect(model="smollm2-135m", device=device, answers={"mode": "off"}) as con:
            assert (f"Note: {unproved}" in con.explain(call)) is expected
    KernelChecks(config, "bfloat16", False).remember("NVIDIA H200", "Triton")
    with connect(model="smollm2-135m", device="cuda", answers={"mode": "off"}) as con:
        assert "Note: smollm2-135m on cuda: kernels checked on NVIDIA H200" in con.explain(call)


def test_what_an_engine_remarks_is_said_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(MockEngine, "remarks", ("On X plain torch serves.",))
    events: list[object] = []
    session = Session(Settings.of({"engine": "mock"}), listener=events.append)
    with duckdb.connect() as database:
        session.register(database)
        for turn in range(2):
            session.execute(database, f"select AI_FILTER('Is it good?', 'yes' || (i + {turn})) as f from range(3) r(i)")
    session.close()
    assert [event.text for event in events if isinstance(event, Warned)] == ["On X plain torch serves."]
