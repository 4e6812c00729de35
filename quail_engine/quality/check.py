"""`quail models check`: a converted model is asked labelled rows in each layout."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

from quail_engine.engine import load_engine
from quail_engine.models import ModelFolder
from quail_engine.prompts.chat import prompter_for
from quail_engine.quality.labelled import BUILT_IN, read_sets
from quail_engine.quality.measure import Measured, measure
from quail_engine.settings import Settings


def check_layouts(folder: ModelFolder, settings: Settings, data: Path | None, rows: int) -> Iterator[Measured]:
    """Figures of each labelled set of the folder `data` (None: the built-in ones) in each layout, `rows` rows of a set.

    Raises SettingsError for a folder without labelled rows, before the model is loaded.
    """
    sets = [labelled.sample(rows) for labelled in read_sets(data or BUILT_IN)]
    prompter = prompter_for(folder.path)
    with closing(load_engine(folder.path, settings)) as engine:
        yield from measure(prompter, engine, sets, folder.config.vocab_size, settings.token_budget)
