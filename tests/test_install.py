"""What a user gets from a wheel, the sdist and an editable install, in an empty environment: dbt init, debug and build.

Only the base install, without torch: the mock engine answers. Packages come from the user's own pip configuration.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import tarfile
import zipfile
from dataclasses import dataclass
from pathlib import Path

import pytest

REPOSITORY = Path(__file__).resolve().parent.parent
MACROS = ("ai_filter", "ai_score", "ai_join", "ai_classify", "ai_classify_scores", "ai_sentiment")
MODEL = """
select id from (values (1, 'This is URGENT, please'), (2, 'no hurry at all'), (3, null)) as tickets (id, body)
where {{ ai_filter("Does it say 'urgent'?", 'body') }}
"""


@dataclass(frozen=True)
class Environment:
    """A virtual environment, and a folder that holds nothing of ours."""

    binaries: Path
    home: Path

    def run(self, *command: str, answers: str = "", folder: Path | None = None) -> str:
        """What the command prints; a failure shows it."""
        program, *arguments = command
        inherited = {name: value for name, value in os.environ.items() if not name.startswith(("DBT_", "PYTHON", "VIRTUAL"))}
        variables = {"DBT_PROFILES_DIR": str(self.home), "DO_NOT_TRACK": "1", "PIP_DISABLE_PIP_VERSION_CHECK": "1"}
        done = subprocess.run(
            [str(self.binaries / program), *arguments],
            input=answers,
            cwd=folder or self.home,
            env=inherited | variables,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            check=False,
        )
        assert done.returncode == 0, f"{' '.join(command)}\n{done.stdout}"
        return done.stdout


@pytest.fixture(scope="module")
def distributions(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """The wheel, built from the sdist as an installer would, and the sdist."""
    folder = tmp_path_factory.mktemp("dist")
    command = [sys.executable, "-m", "build", "--outdir", str(folder), str(REPOSITORY)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    (wheel,), (sdist,) = folder.glob("*.whl"), folder.glob("*.tar.gz")
    return {"wheel": wheel, "sdist": sdist}


def test_distributions_hold_the_package_and_nothing_else(distributions: dict[str, Path]) -> None:
    with zipfile.ZipFile(distributions["wheel"]) as wheel:
        names = wheel.namelist()
    assert len(names) == len(set(names))
    assert {name.split("/")[0] for name in names if ".dist-info/" not in name} == {"dbt", "quail_engine"}
    for needed in ("dbt/adapters/quail/__version__.py", "dbt/include/quail/macros/ai_functions.sql", "quail_engine/calls.py"):
        assert needed in names
    for open_namespace in ("dbt/__init__.py", "dbt/adapters/__init__.py", "dbt/include/__init__.py"):
        assert open_namespace not in names  # it would overwrite dbt's own
    assert any(name.endswith("licenses/LICENSE") for name in names)
    unwanted = re.compile(r"\.(duckdb|parquet|journal|gguf|safetensors|pyc)$|/target/|/logs/|\.quail/")
    with tarfile.open(distributions["sdist"]) as sdist:
        assert not [name for name in (*names, *sdist.getnames()) if unwanted.search(name)]


@pytest.mark.parametrize(
    "kind",
    ["wheel", pytest.param("sdist", marks=pytest.mark.slow), pytest.param("editable", marks=pytest.mark.slow)],
)
def test_a_new_project_builds(kind: str, distributions: dict[str, Path], tmp_path: Path) -> None:
    # Without a pip of its own, which takes as long to set up as much of what it would install.
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", str(tmp_path / "venv")], check=True)
    (tmp_path / "home").mkdir()
    environment = Environment(tmp_path / "venv" / ("Scripts" if os.name == "nt" else "bin"), tmp_path / "home")
    target = ["--editable", str(REPOSITORY)] if kind == "editable" else [str(distributions[kind])]
    pip = [sys.executable, "-m", "pip", "--python", str(environment.binaries / "python")]
    environment.run(*pip, "install", "--quiet", "--no-compile", "--constraint", str(REPOSITORY / "constraints.txt"), *target)

    plugins = re.findall(r"- (\w+): +\d", environment.run("dbt", "--version").partition("Plugins:")[2])
    assert "quail" in plugins
    _init(environment, plugins)
    project = environment.home / "shop"
    (project / "models" / "urgent.sql").write_text(MODEL, encoding="utf-8")
    assert "All checks passed!" in environment.run("dbt", "debug", folder=project)
    environment.run("dbt", "build", "--select", "urgent", folder=project)

    assert _rows(environment, project) == [[1]]
    _check_macros(project)
    assert "Usage" in environment.run("quail", "--help")
    assert environment.run("python", "-c", "import importlib.util as i; print(i.find_spec('torch'))").strip() == "None"


def _init(environment: Environment, plugins: list[str]) -> None:
    """`dbt init`, answered as a newcomer would: our adapter, and the defaults. Then the mock in place of the model.

    It numbers the adapters in the order in which `dbt --version` names them.
    """
    environment.run("dbt", "init", "shop", answers=f"{plugins.index('quail') + 1}\n\n\n\n")
    profiles = environment.home / "profiles.yml"
    profile = profiles.read_text(encoding="utf-8")
    assert "type: quail" in profile
    assert "engine: local" in profile
    profiles.write_text(profile.replace("engine: local", "engine: mock"), encoding="utf-8")


def _rows(environment: Environment, project: Path) -> object:
    program = "import duckdb, json; print(json.dumps(duckdb.connect('dev.duckdb').sql('select id from urgent').fetchall()))"
    return json.loads(environment.run("python", "-c", program, folder=project))


def _check_macros(project: Path) -> None:
    macros = json.loads((project / "target" / "manifest.json").read_text(encoding="utf-8"))["macros"].values()
    for name in MACROS:
        homes = [(macro["package_name"], macro["original_file_path"]) for macro in macros if macro["name"] == name]
        assert len(homes) == 1, homes
        assert homes[0][0] == "dbt_quail_adapter"
