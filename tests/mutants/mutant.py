"""What a planted bug is, and how it gets into a copy of the store, or of what Spark runs. It never
touches the checkout."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Final

CHECKOUT: Final = Path(__file__).resolve().parents[2]
STORE: Final = Path("server") / "spoolrack_store"
"""From a checkout, or a copy of one."""
SPARK: Final = Path("client") / "spoolrack" / "spark"

AUDIT: Final = (
    "tests/audit/test_audit_server.py"
    "::test_no_answer_leaves_before_its_syncs_and_no_body_is_touched_twice"
)
"""Alone: its neighbours plant bugs themselves."""


class DoesNotApply(ValueError):
    """The text that a mutant replaces isn't there, or isn't there once: the store has changed."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Edit:
    file: str
    """In the package."""
    old: str
    """Occurs in the file exactly once."""
    new: str
    package: Path = STORE


@dataclass(frozen=True, slots=True, kw_only=True)
class Mutant:
    name: str
    breaks: str
    """The promise that it breaks."""
    edits: tuple[Edit, ...]
    caught_by: tuple[str, ...]
    """What pytest is told to run first: quick, and expected to fail."""
    ancestor: str | None = None
    """Whose known fault this is."""

    def mutated(self, checkout: Path) -> dict[Path, str]:
        """The files as they are with the bug in them, by their paths; raises `DoesNotApply`."""
        texts: dict[Path, str] = {}
        for edit in self.edits:
            path = checkout / edit.package / edit.file
            text = texts[path] if path in texts else path.read_text()
            if text.count(edit.old) != 1:
                raise DoesNotApply(
                    f"{self.name}: {edit.file} holds this {text.count(edit.old)} times:\n{edit.old}"
                )
            texts[path] = text.replace(edit.old, edit.new)
        return texts


def edit(file: str, old: str, new: str, *, package: Path = STORE) -> tuple[Edit, ...]:
    """The edits of a mutant that has one."""
    return (Edit(file=file, old=old, new=new, package=package),)
