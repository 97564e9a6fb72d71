"""The table of moves is what the recordings show, and what docs/reference/disk-format.md says."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator

import pytest
from spoolrack_store.model.names import Name, name_at
from spoolrack_store.model.transitions import Move, State

from tests import CHECKOUT

PAGE = CHECKOUT / "docs" / "reference" / "disk-format.md"
RECORDINGS = CHECKOUT / "tests" / "store" / "recordings"
ROW = re.compile(
    r"^\| (?P<move>[a-z_]+) \| [^|]* \| [^|]* \|(?P<sets>[^|]*)\|(?P<drops>[^|]*)\|[^|]*\|$", re.M
)
RENAMED = re.compile(r"^ *(?:rename_new|link) (\S+) (\S+)$", re.M)


def tags(name: Name) -> dict[str, object]:
    return {
        "r": name.receives or None,
        "f": name.first,
        "d": name.death,
        "t": name.renewed,
        "o": name.owner or None,
        "@": name.due,
        "~": name.token or None,
    }


def is_made(move: Move, old: Name, new: Name) -> bool:
    """Return whether a change of a name is this move."""
    if old.state not in move.sources or new.state is not move.target or new.version <= old.version:
        return False
    return all(
        (tag in move.sets and after is not None)
        or (tag in move.drops and after is None)
        or (tag not in move.drops and before == after)
        # Without receives there is no first one.
        or (tag in "rf" and "r" in move.sets and not new.receives)
        for (tag, before), after in zip(tags(old).items(), tags(new).values(), strict=True)
    )


def recorded() -> Iterator[tuple[str, Name, Name]]:
    for path in sorted(RECORDINGS.glob("*.txt")):
        for renamed in RENAMED.finditer(path.read_text()):
            # A recording numbers the ids.
            source, target = (
                re.sub(r"<(\d+)>", lambda found: f"01890a5d-ac96-774b-8000-{int(found[1]):09x}", each)
                for each in renamed.groups()
            )
            old, new = name_at(source), name_at(target)
            if old is not None and new is not None:
                yield f"{path.name}: {renamed[0].strip()}", old, new


def test_each_recorded_move_is_one_of_the_table_and_each_of_the_table_is_recorded() -> None:
    seen: Counter[Move] = Counter()
    strange = []
    for told, old, new in recorded():
        moves = [move for move in Move if is_made(move, old, new)]
        seen.update(moves)
        # A delete may lengthen the list of a name in `remove/`.
        if not moves and not (old.state is new.state is State.REMOVED and tags(old) == tags(new)):
            strange.append(told)
    assert strange == []
    assert seen.keys() == {*Move} - {Move.RESTORE}  # An operator's, by fsck.


@pytest.mark.parametrize("move", Move)
def test_the_page_says_which_tags_a_move_sets_and_drops(move: Move) -> None:
    section = PAGE.read_text().partition("## States and moves")[2].partition("\n## ")[0]
    rows = {row["move"].upper(): row for row in ROW.finditer(section)}
    rows.pop("MOVE")
    assert rows.keys() == Move.__members__.keys()
    row = rows[move.name]
    assert ("".join(re.findall("`(.)`", row["sets"])), "".join(re.findall("`(.)`", row["drops"]))) == (
        move.sets,
        move.drops,
    )
