"""All planted bugs."""

from __future__ import annotations

from typing import Final

from awaited_mutants import AWAITED_MUTANTS
from cost_mutants import COST_MUTANTS
from deduplication_mutants import DEDUPLICATION_MUTANTS
from message_mutants import MESSAGE_MUTANTS
from mutant import Mutant
from peer_mutants import PEER_MUTANTS
from redrive_mutants import REDRIVE_MUTANTS
from reservation_mutants import RESERVATION_MUTANTS
from spark_mutants import SPARK_MUTANTS
from staging_mutants import STAGING_MUTANTS
from sync_mutants import SYNC_MUTANTS
from unlistable_mutants import UNLISTABLE_MUTANTS

MUTANTS: Final[tuple[Mutant, ...]] = (
    *SYNC_MUTANTS,
    *MESSAGE_MUTANTS,
    *AWAITED_MUTANTS,
    *PEER_MUTANTS,
    *UNLISTABLE_MUTANTS,
    *COST_MUTANTS,
    *STAGING_MUTANTS,
    *DEDUPLICATION_MUTANTS,
    *RESERVATION_MUTANTS,
    *REDRIVE_MUTANTS,
    *SPARK_MUTANTS,
)


def mutant_called(name: str) -> Mutant:
    """The one of this name; raises `KeyError`."""
    return {mutant.name: mutant for mutant in MUTANTS}[name]
