"""All planted bugs."""

from __future__ import annotations

from typing import Final

from tests.proof.mutants.mutant import SPARK, Mutant, read_mutants

MUTANTS: Final[tuple[Mutant, ...]] = (
    *read_mutants("store"),
    *read_mutants("cost"),  # They break no promise: the store only asks too much of the disk.
    *read_mutants("steps"),
    *read_mutants("spark", SPARK),
)


def mutant_called(name: str) -> Mutant:
    """Return the one of this name; raises `KeyError`."""
    return {mutant.name: mutant for mutant in MUTANTS}[name]
