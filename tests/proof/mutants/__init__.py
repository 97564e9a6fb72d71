"""All planted bugs."""

from __future__ import annotations

from typing import Final

from tests.proof.mutants.cost_mutants import COST_MUTANTS, STEP_MUTANTS
from tests.proof.mutants.mutant import Mutant
from tests.proof.mutants.spark_mutants import SPARK_MUTANTS
from tests.proof.mutants.store_mutants import STORE_MUTANTS

MUTANTS: Final[tuple[Mutant, ...]] = (*STORE_MUTANTS, *COST_MUTANTS, *STEP_MUTANTS, *SPARK_MUTANTS)


def mutant_called(name: str) -> Mutant:
    """Return the one of this name; raises `KeyError`."""
    return {mutant.name: mutant for mutant in MUTANTS}[name]
