"""The cache of hidden features: what is found again, by whom, and that it never costs an answer."""

from __future__ import annotations

import os
import stat
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

import quail_engine.answers.features as features
from quail_engine.answers.features import FeatureStore, Vector

KEYS = [bytes([i]) * 32 for i in range(8)]


def vectors(seed: int, rows: int = len(KEYS)) -> Vector:
    return np.random.default_rng(seed).normal(0, 3, (rows, 100)).astype(np.float16).astype(np.float32)


def found_in(folder: Path, suffix: str = ".arrow") -> list[Path]:
    return sorted(folder.glob(f"*{suffix}"))


@pytest.mark.parametrize("on_disk", [True, False])
def test_what_is_remembered_is_found_to_the_bit(tmp_path: Path, on_disk: bool) -> None:
    store, wanted = FeatureStore(tmp_path / "features" if on_disk else None, 1 << 20), vectors(1)
    store.remember(KEYS[:5], wanted[:5])
    found = store.recall(KEYS)
    assert list(found) == KEYS[:5]
    assert all(np.array_equal(found[key], row) for key, row in zip(KEYS[:5], wanted[:5], strict=True))
    store.close()


def test_another_store_on_the_folder_finds_it(tmp_path: Path) -> None:
    first, second = FeatureStore(tmp_path / "f", 1 << 20), FeatureStore(tmp_path / "f", 1 << 20)
    assert second.recall(KEYS) == {}
    first.remember(KEYS, vectors(1))
    first.keep_rule(KEYS[0], b"a rule")
    first.close()
    assert len(second.recall(KEYS)) == len(KEYS)
    assert second.rule(KEYS[0]) == b"a rule"
    assert second.rule(KEYS[1]) is None
    for path in (tmp_path / "f").rglob("*"):
        private = 0o700 if path.is_dir() else 0o600
        assert os.name == "nt" or stat.S_IMODE(path.stat().st_mode) == private or path.name == ".gitignore"


def test_features_of_another_version_are_not_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with monkeypatch.context() as earlier:
        earlier.setattr(features, "_SCHEMA", features._SCHEMA.with_metadata({"version": "quail-features/0"}))
        earlier.setattr(features, "_JOURNAL", replace(features._JOURNAL, magic=b"quail-features/0\n"))
        for bytes_ in (1, 1 << 20):  # as a file, and in a journal
            earlier.setattr(features, "_FILE_BYTES", bytes_)
            store = FeatureStore(tmp_path, 1 << 20)
            store.remember(KEYS[:5], vectors(1)[:5])
            store.close()
    assert len(list(tmp_path.iterdir())) == 4, "a file, a journal, the folder of rules and .gitignore"
    store = FeatureStore(tmp_path, 1 << 20)
    assert store.recall(KEYS) == {}
    store.remember(KEYS[3:], vectors(2)[3:])
    store.close()
    found = FeatureStore(tmp_path, 1 << 20).recall(KEYS)
    assert list(found) == KEYS[3:]
    assert np.array_equal(found[KEYS[3]], vectors(2)[3])


def test_the_oldest_go_when_there_is_too_much(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(features, "_FILE_BYTES", 1)  # a file each time
    store = FeatureStore(tmp_path, 4_500)
    for i, key in enumerate(KEYS):
        store.remember([key], vectors(i, 1))
        for age, path in enumerate(found_in(tmp_path)):
            assert path.stat().st_size < 4_500, age
    assert 0 < sum(path.stat().st_size for path in found_in(tmp_path)) <= 4_500
    assert KEYS[-1] in FeatureStore(tmp_path, 4_500).recall(KEYS)
    assert KEYS[0] not in FeatureStore(tmp_path, 4_500).recall(KEYS)


@pytest.mark.parametrize("suffix", [".arrow", ".journal"])
@pytest.mark.parametrize("content", [b"", b"no arrow file", b"ARROW1\x00\x00" + b"\xff" * 200])
def test_a_damaged_file_is_taken_as_unknown(
    tmp_path: Path, suffix: str, content: bytes, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(features, "_FILE_BYTES", 1 if suffix == ".arrow" else 1 << 20)
    first = FeatureStore(tmp_path, 1 << 20)
    first.remember(KEYS, vectors(1))
    first.close()
    (path,) = found_in(tmp_path, suffix)
    path.write_bytes(content)
    store = FeatureStore(tmp_path, 1 << 20)
    assert store.recall(KEYS) == {}
    store.remember(KEYS, vectors(2))
    assert len(store.recall(KEYS)) == len(KEYS)


def test_a_journal_is_kept_up_to_its_last_whole_record_and_gone_on_with(tmp_path: Path) -> None:
    first, wanted = FeatureStore(tmp_path, 1 << 20), vectors(1)
    first.remember(KEYS[:3], wanted[:3])
    first.remember(KEYS[3:5], wanted[3:5])
    running = FeatureStore(tmp_path, 1 << 20)
    assert list(running.recall(KEYS)) == KEYS[:5], "what a process that runs has remembered is found by others"
    running.remember(KEYS[7:], wanted[7:])
    assert len(found_in(tmp_path, ".journal")) == 2, "each has its own"
    first.close()
    running.close()
    (path, _) = found_in(tmp_path, ".journal")
    path.write_bytes(path.read_bytes()[:-1])  # the process was killed while it wrote
    next_one = FeatureStore(tmp_path, 1 << 20)
    assert list(next_one.recall(KEYS)) == [*KEYS[:3], KEYS[7]]
    next_one.remember(KEYS[3:7], wanted[3:7])
    assert len(found_in(tmp_path, ".journal")) == 2, "it went on with one that was left"
    next_one.close()
    found = FeatureStore(tmp_path, 1 << 20, writes=False).recall(KEYS)
    assert list(found) == KEYS
    assert np.array_equal(np.stack(list(found.values())), wanted)


def test_a_full_journal_becomes_a_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(features, "_FILE_BYTES", 3 * 200)
    reader = FeatureStore(tmp_path, 1 << 20)
    for i, key in enumerate(KEYS):
        store = FeatureStore(tmp_path, 1 << 20)  # a process a row
        store.remember([key], vectors(i, 1))
        store.close()
        assert list(reader.recall(KEYS)) == KEYS[: i + 1]
    assert len(found_in(tmp_path)) == 2
    assert len(found_in(tmp_path, ".journal")) == 1
    found = FeatureStore(tmp_path, 1 << 20).recall(KEYS)
    assert all(np.array_equal(found[key], vectors(i, 1)[0]) for i, key in enumerate(KEYS))


def test_a_folder_that_cannot_be_written_stops_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(features, "_FILE_BYTES", 1)
    (tmp_path / "file").write_text("in the way")
    store = FeatureStore(tmp_path / "file" / "features", 1 << 20)
    store.keep_rule(KEYS[0], b"a rule")
    store.remember(KEYS, vectors(1))
    assert len(store.recall(KEYS)) == len(KEYS)
    assert store.rule(KEYS[0]) == b"a rule"
    store.close()


def test_nothing_is_written_where_nothing_may_be(tmp_path: Path) -> None:
    for store in (FeatureStore(tmp_path / "f", 1 << 20, writes=False), FeatureStore(tmp_path / "f", 0)):
        store.remember(KEYS, vectors(1))
        store.keep_rule(KEYS[0], b"a rule")
        assert len(store.recall(KEYS)) == len(KEYS)
        store.close()
    assert not (tmp_path / "f").exists()


def test_memory_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(features, "_MEMORY_BYTES", 500)
    store = FeatureStore(None, 0)
    for key in KEYS:
        store.remember([key], vectors(1, 1))
    assert 0 < len(store.recall(KEYS)) < 4
