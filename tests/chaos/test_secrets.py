"""What lies on disk after a run: who may read it, and that neither rows' texts nor secrets are in it."""

from __future__ import annotations

import json
import stat
from pathlib import Path

import pytest

import quail_engine
from quail_engine import ModelError
from quail_engine.models.folder import read_folder

REPOSITORY = Path(__file__).resolve().parents[2]
SECRET, ROW = "s3cr3t-t0ken-of-the-profile", "a very private sentence of a row"


def _files(folder: Path) -> list[Path]:
    return [path for path in folder.rglob("*") if path.is_file()]


def test_answers_and_reports_hold_no_row_and_no_secret(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DBT_ENV_SECRET_TOKEN", SECRET)
    with quail_engine.connect(engine="mock", answers=str(tmp_path / "answers"), mock_fail="fails") as con:
        con.sql(f"create secret s (type http, bearer_token '{SECRET}')")
        for text in (ROW, f"{ROW} fails"):
            con.sql(f"select AI_FILTER('is it ''private''?', body) from (select '{text}' as body)")
        report = json.dumps(con.report.as_dict())
    assert SECRET not in report
    written = _files(tmp_path)
    assert any(path.suffix == ".journal" for path in written)
    assert any(path.name == "failures.jsonl" for path in written)
    for path in written:
        content = path.read_bytes()
        assert SECRET.encode() not in content, path
        assert ROW.encode() not in content, path
        assert stat.S_IMODE(path.stat().st_mode) & 0o077 == 0 or path.name == ".gitignore", path


def test_nothing_is_unpickled() -> None:
    words = ("import pickle", "pickle.load", "torch.load(", "allow_pickle=True", "trust_remote_code", "eval(", "exec(")
    code = [*(REPOSITORY / "quail_engine").rglob("*.py"), *(REPOSITORY / "dbt").rglob("*.py")]
    found = [(path.name, word) for path in code for word in words if word in path.read_text(encoding="utf-8")]
    assert found == []


@pytest.mark.parametrize("name", ["../outside", "/etc/hostname", "inner/../../outside"])
def test_a_model_names_no_file_outside_of_its_folder(tmp_path: Path, name: str) -> None:
    pytest.importorskip("torch", reason="the tiny model is written with torch")
    from reference.decoder import write_tiny_folder

    folder = write_tiny_folder(tmp_path / "model", "llama", num_layers=1)
    (tmp_path / "outside").write_text("")
    description = json.loads((folder / "quail.json").read_text())
    description["files"] = {"model.safetensors": "0" * 64}
    (folder / "quail.json").write_text(json.dumps(description))
    assert read_folder(folder).files == description["files"]
    description["files"] = {name: "0" * 64}
    (folder / "quail.json").write_text(json.dumps(description))
    with pytest.raises(ModelError, match="is not the name of a file in the folder"):
        read_folder(folder)
