"""The faults of `make mutants` can still be put in: each changes text that stands in the package once."""

from __future__ import annotations

import pytest
from mutants import MUTANTS, REPOSITORY, Mutant


@pytest.mark.parametrize("mutant", MUTANTS, ids=lambda mutant: mutant.name)
def test_a_fault_can_be_put_in(mutant: Mutant) -> None:
    for file, there, _ in mutant.edits:
        assert (REPOSITORY / "quail_engine" / file).read_text().count(there) == 1, file
