"""The cache of hidden features: what is found again, by whom, and that it never costs an answer."""

from __future__ import annotations

import os
import stat
from pathlib import Path

import numpy as np
import pytest

import quail_engine.answers.features as features
from quail_engine.answers.features import FeatureStore, Vector

KEYS = [bytes([i]) * 32 for i in range(8)]


def vectors(seed: int, rows: int = len(KEYS)) -> Vector:
    return np.random.default_rng(seed).normal(0, 3, (rows, 100)).astype(np.float16).astype(np.float32)


def arrow_files(folder: Path) -> list[Path]:
    return sorted(folder.glob("*.arrow"))


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
        store = FeatureStore(tmp_path, 1 << 20)
        store.remember(KEYS[:5], vectors(1)[:5])
        store.close()
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
        for age, path in enumerate(arrow_files(tmp_path)):
            assert path.stat().st_size < 4_500, age
    assert 0 < sum(path.stat().st_size for path in arrow_files(tmp_path)) <= 4_500
    assert KEYS[-1] in FeatureStore(tmp_path, 4_500).recall(KEYS)
    assert KEYS[0] not in FeatureStore(tmp_path, 4_500).recall(KEYS)


@pytest.mark.parametrize("content", [b"", b"no arrow file", b"ARROW1\x00\x00" + b"\xff" * 200])
def test_a_damaged_file_or_rule_is_taken_as_unknown(tmp_path: Path, content: bytes) -> None:
    first = FeatureStore(tmp_path, 1 << 20)
    first.remember(KEYS, vectors(1))
    first.close()
    (path,) = arrow_files(tmp_path)
    path.write_bytes(content)
    store = FeatureStore(tmp_path, 1 << 20)
    assert store.recall(KEYS) == {}
    store.remember(KEYS, vectors(2))
    assert len(store.recall(KEYS)) == len(KEYS)


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
