"""All planted bugs."""

from __future__ import annotations

from typing import Final

from cost_mutants import COST_MUTANTS
from mutant import Mutant
from spark_mutants import SPARK_MUTANTS
from store_mutants import STORE_MUTANTS

MUTANTS: Final[tuple[Mutant, ...]] = (*STORE_MUTANTS, *COST_MUTANTS, *SPARK_MUTANTS)


def mutant_called(name: str) -> Mutant:
    """The one of this name; raises `KeyError`."""
    return {mutant.name: mutant for mutant in MUTANTS}[name]
