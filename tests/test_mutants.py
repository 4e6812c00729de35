"""The faults of `make mutants` can still be put in: each changes text that stands in the package once."""

from __future__ import annotations

import pytest
from mutants import MUTANTS, Mutant, problems


@pytest.mark.parametrize("mutant", MUTANTS, ids=lambda mutant: mutant.name)
def test_a_fault_can_be_put_in(mutant: Mutant) -> None:
    assert problems(mutant) == []
