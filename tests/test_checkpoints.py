"""Published checkpoints: folders as transformers writes them, converted and answered from as transformers does."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from reference.decoder import reference_logits, tiny_transformers
from reference.requests import random_requests, score
from safetensors.torch import load_file, save_file

from quail_engine.engine.local.engine import load
from quail_engine.errors import ModelError
from quail_engine.models import find
from quail_engine.models.checkpoint import read_config
from quail_engine.models.checkpoint_file import _E4M3

STRETCHED = {"rope_factor": 8.0, "rope_low": 1.0, "rope_high": 4.0, "rope_context": 64}
FAMILIES: dict[str, tuple[str, str, dict[str, Any]]] = {
    "qwen3": ("qwen3", "<|im_end|>", {"head_dim": 32}),
    "qwen2.5": ("qwen2", "<|im_end|>", {"tied_embeddings": False}),
    "llama3": ("llama", "<|eot_id|>", STRETCHED),
}


@pytest.fixture(autouse=True)
def _cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))


def write_checkpoint(folder: Path, family: str) -> Any:
    """As published; gives transformers' model of it."""
    architecture, stop, changes = FAMILIES[family]
    tiny_transformers(architecture, **changes).to(torch.bfloat16).save_pretrained(folder)
    tokens = [{"id": 96, "content": stop, "special": True}]
    (folder / "tokenizer.json").write_text(
        json.dumps({"added_tokens": tokens, "model": {"type": "BPE", "vocab": {}, "merges": []}})
    )
    return tiny_transformers(architecture, **changes).eval()


@pytest.mark.parametrize("family", FAMILIES)
def test_a_checkpoint_answers_as_transformers(family: str, tmp_path: Path) -> None:
    model = write_checkpoint(tmp_path / "tiny", family)
    folder = find(str(tmp_path / "tiny"), None)
    assert (folder.name, folder.profile) == ("tiny", family)
    assert find(f"{tmp_path / 'tiny'}@fp8", None) == folder
    requests = random_requests(1, [5, 40])[::3]
    for request, parts in zip(requests, score(load(folder.path, "float32", 2), requests), strict=True):
        for suffix, rows, logits in zip(request.readout.suffixes, request.readout.rows, parts, strict=True):
            expected = reference_logits(model, sum(request.segments, ()) + suffix)[list(rows)]
            np.testing.assert_allclose(logits, expected.numpy(), rtol=0, atol=1e-3)


def test_numbers_in_8_bits_are_torch_s() -> None:
    expected = torch.arange(256, dtype=torch.uint8).view(torch.float8_e4m3fn).float().numpy()
    np.testing.assert_array_equal(_E4M3, expected)


def test_a_checkpoint_in_8_bits_is_read_with_its_block_scales(tmp_path: Path) -> None:
    write_checkpoint(tmp_path / "tiny", "qwen3")
    state, wanted = load_file(tmp_path / "tiny" / "model.safetensors"), {}
    for name in [name for name in state if name.endswith("_proj.weight")]:
        rows, columns = state[name].shape
        scales = torch.rand(-(-rows // 48), -(-columns // 48)) + 0.5
        whole = scales.repeat_interleave(48, 0)[:rows].repeat_interleave(48, 1)[:, :columns]
        state[name] = (state[name].float() / whole).to(torch.float8_e4m3fn)
        state[f"{name}_scale_inv"] = scales
        wanted[name] = (state[name].float() * whole).bfloat16()
    save_file(state, tmp_path / "tiny" / "model.safetensors")
    change(tmp_path / "tiny", quantization_config={"quant_method": "fp8", "weight_block_size": [48, 48]})
    converted = load_file(find(str(tmp_path / "tiny"), None).path / "model.safetensors")
    assert wanted
    assert all(torch.equal(converted[name], values) for name, values in wanted.items())


def change(folder: Path, **values: object) -> None:
    config = json.loads((folder / "config.json").read_text())
    (folder / "config.json").write_text(json.dumps({**config, **values}))


@pytest.mark.parametrize(
    ("changes", "says"),
    [
        ({"num_experts": 8}, "mixture of experts"),
        ({"use_sliding_window": True, "sliding_window": 128}, "sliding windows"),
        ({"layer_types": ["sliding_attention"]}, "sliding windows"),
        ({"model_type": "mamba"}, "architecture 'mamba'"),
        ({"attention_bias": True}, "attention_bias"),
        ({"hidden_act": "gelu"}, "hidden_act"),
        ({"rope_parameters": None, "rope_scaling": {"rope_type": "yarn", "factor": 4.0}}, "stretches its positions by 'yarn'"),
        ({"quantization_config": {"quant_method": "awq"}}, "'awq'"),
        ({"hidden_size": None}, "hidden_size is None"),
        ({"num_hidden_layers": 9}, "tensors are missing"),
        ({"num_hidden_layers": 1}, "does not know"),
        ({"vocab_size": 98}, "shape"),
    ],
)
def test_what_the_engine_would_run_wrongly_is_refused(changes: dict[str, object], says: str, tmp_path: Path) -> None:
    write_checkpoint(tmp_path / "tiny", "qwen3")
    change(tmp_path / "tiny", **changes)
    with pytest.raises(ModelError, match=says):
        find(str(tmp_path / "tiny"), None)


@pytest.mark.parametrize(
    ("harm", "says"),
    [
        (lambda folder: (folder / "tokenizer.json").unlink(), r"tokenizer\.json is missing"),
        (lambda folder: (folder / "model.safetensors").write_bytes(b"short"), "header"),
        (lambda folder: (folder / "config.json").write_text("["), "cannot be read"),
        (lambda folder: (folder / "tokenizer.json").write_text('{"added_tokens": [], "model": {"type": "BPE"}}'), "No profile"),
    ],
)
def test_a_damaged_checkpoint_is_one_clear_error(harm: Callable[[Path], object], says: str, tmp_path: Path) -> None:
    write_checkpoint(tmp_path / "tiny", "qwen3")
    harm(tmp_path / "tiny")
    with pytest.raises(ModelError, match=says):
        find(str(tmp_path / "tiny"), None)


def test_the_published_configs_of_known_models_are_read() -> None:
    qwen = {"model_type": "qwen3", "hidden_size": 2560, "num_hidden_layers": 36, "num_attention_heads": 32, "head_dim": 128,
            "num_key_value_heads": 8, "intermediate_size": 9728, "vocab_size": 151936, "rms_norm_eps": 1e-06,
            "hidden_act": "silu", "rope_theta": 1000000, "rope_scaling": None, "tie_word_embeddings": True,
            "max_position_embeddings": 40960,
            "sliding_window": None, "use_sliding_window": False, "attention_bias": False}  # fmt: skip
    architecture, config = read_config(qwen)
    assert (architecture, config.head_dim, config.qk_norm, config.rope_theta) == ("qwen3", 128, True, 1e6)
    llama = {"model_type": "llama", "hidden_size": 2048, "num_hidden_layers": 16, "num_attention_heads": 32, "head_dim": 64,
             "num_key_value_heads": 8, "intermediate_size": 8192, "vocab_size": 128256, "rms_norm_eps": 1e-05,
             "mlp_bias": False, "rope_theta": 500000.0, "tie_word_embeddings": True, "max_position_embeddings": 131072,
             "hidden_act": "silu",
             "rope_scaling": {"factor": 32.0, "high_freq_factor": 4.0, "low_freq_factor": 1.0, "rope_type": "llama3",
                              "original_max_position_embeddings": 8192}}  # fmt: skip
    _, config = read_config(llama)
    assert (config.rope_factor, config.rope_low, config.rope_high, config.rope_context) == (32.0, 1.0, 4.0, 8192)
