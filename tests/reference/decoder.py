"""Decoders as transformers computes them, and tiny converted model folders to compare on."""

from __future__ import annotations

import json
from pathlib import Path

import torch
from safetensors.torch import load_file, save_file
from transformers import AutoConfig, AutoModelForCausalLM, PreTrainedModel

TINY = {
    "hidden_size": 64,
    "num_layers": 3,
    "num_heads": 4,
    "num_kv_heads": 2,
    "head_dim": 16,
    "intermediate_size": 128,
    "vocab_size": 97,
    "rope_theta": 10_000.0,
    "rms_norm_eps": 1e-6,
    "context": 4_096,
}


def tiny_transformers(architecture: str, **changes: object) -> PreTrainedModel:
    """A model of transformers' with random weights; all of them bf16 numbers, so that every dtype reads the same model."""
    model = _transformers(architecture, _config(architecture, changes))
    torch.manual_seed(20)
    model.load_state_dict({name: _spread(name, tensor) for name, tensor in model.state_dict().items()})
    model.tie_weights()
    return model


def write_tiny_folder(folder: Path, architecture: str, **changes: object) -> Path:
    """A converted folder with random weights."""
    config = _config(architecture, changes)
    state = {name: tensor.clone() for name, tensor in tiny_transformers(architecture, **changes).state_dict().items()}
    state = {name: tensor.bfloat16() if tensor.dim() == 2 else tensor for name, tensor in state.items()}
    if config["tied_embeddings"]:
        del state["lm_head.weight"]
    folder.mkdir(parents=True)
    save_file(state, folder / "model.safetensors")
    description = {"name": "tiny", "source_sha256": "5" * 64, "converter": 1, "profile": "none", "architecture": architecture}
    (folder / "quail.json").write_text(json.dumps({**description, "config": config}))
    return folder


def _config(architecture: str, changes: dict[str, object]) -> dict[str, object]:
    bias, norm = architecture == "qwen2", architecture == "qwen3"
    return {**TINY, "tied_embeddings": True, "attention_bias": bias, "qk_norm": norm, **changes}


def reference_model(folder: Path) -> PreTrainedModel:
    """transformers' model, eager attention in fp32, with the weights of a converted folder."""
    description = json.loads((folder / "quail.json").read_text())
    model = _transformers(description["architecture"], description["config"])
    state = {name: tensor.float() for name, tensor in load_file(folder / "model.safetensors").items()}
    missing, unexpected = model.load_state_dict(state, strict=False)
    assert not unexpected
    assert set(missing) <= {"lm_head.weight"}
    model.tie_weights()
    return model.eval()


@torch.inference_mode()
def reference_logits(model: PreTrainedModel, ids: tuple[int, ...]) -> torch.Tensor:
    """Logits of the whole vocabulary after the last of `ids`, fp32."""
    logits: torch.Tensor = model(torch.tensor([ids]), logits_to_keep=1).logits
    return logits[0, -1]


def _transformers(architecture: str, config: dict[str, object]) -> PreTrainedModel:
    bias = {"attention_bias": config["attention_bias"]} if architecture != "qwen2" else {}
    return AutoModelForCausalLM.from_config(
        AutoConfig.for_model(
            architecture,
            hidden_size=config["hidden_size"],
            num_hidden_layers=config["num_layers"],
            num_attention_heads=config["num_heads"],
            num_key_value_heads=config["num_kv_heads"],
            head_dim=config["head_dim"],
            intermediate_size=config["intermediate_size"],
            vocab_size=config["vocab_size"],
            rope_parameters=_rope(config),
            rms_norm_eps=config["rms_norm_eps"],
            tie_word_embeddings=config["tied_embeddings"],
            max_position_embeddings=config["context"],
            **bias,
        ),
        attn_implementation="eager",
        dtype=torch.float32,
    )


def _rope(config: dict[str, object]) -> dict[str, object]:
    if not config.get("rope_factor"):
        return {"rope_type": "default", "rope_theta": config["rope_theta"]}
    return {
        "rope_type": "llama3",
        "rope_theta": config["rope_theta"],
        "factor": config["rope_factor"],
        "low_freq_factor": config["rope_low"],
        "high_freq_factor": config["rope_high"],
        "original_max_position_embeddings": config["rope_context"],
    }


def _spread(name: str, tensor: torch.Tensor) -> torch.Tensor:
    """Weights large enough that logits differ by units, so that a wrong mask or position is seen."""
    if tensor.dim() == 2:
        return (torch.randn(tensor.shape) * (1.0 if "embed" in name else 2.0 * tensor.shape[1] ** -0.5)).bfloat16()
    return (torch.randn(tensor.shape) * 0.3 + ("norm" in name)).bfloat16().float()
