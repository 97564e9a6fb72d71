"""The end of a story of several engines: those who live have taken over, and deliver what is owed."""

from __future__ import annotations

from itertools import cycle

from acts import Act, parse_act
from promises import Broken, Kind
from seen import name_at, sent_files_of
from shared_story import SharedStory, is_bare
from spoolrack_store.files import layout
from spoolrack_store.files.syncer import SyncFailed

TAKE_OVER = 2_000
"""Milliseconds within which the living must have taken over what the dead have left."""
MOST_ROUNDS = 12
"""After so many rounds of receives the finale must have seen everything."""


def finish(story: SharedStory) -> None:
    """Every message that is owed is delivered, and deleted, by those who live."""
    for name in list(story.ones):
        if story.ones[name].has_failed:
            story.kill(name)
        elif story.ones[name].disk.failing is not None:
            _surely(story, name, Act("heal"))
    if not story.ones:
        story.open(story.plot.names[0])
    names = [name for name in story.plot.names if name in story.ones]
    for one in story.ones.values():
        one.disk.ear.cure()
    story.wait(TAKE_OVER)
    _tick_twice(story, names)
    _require_nothing_left(story)
    turns = cycle(names)
    for _ in range(MOST_ROUNDS):
        if not story.fates.alive:
            break
        story.wait(3_700_000)
        for queue in list(story.fates.queues):
            _surely(story, next(turns), Act("tick"), parse_act(f"receive 0 {queue} 1000 0"))
            _surely(story, next(turns), parse_act("delete 0 held 0 1000"))
    if story.fates.alive:
        raise Broken(Kind.LOST, f"never delivered: {sorted(story.fates.alive)}")
    _tick_twice(story, names)
    for name in names:
        _surely(story, name, Act("tick"))
        story.ones[name].rig.engine.heed()
    story.check_indexes()


def _tick_twice(story: SharedStory, names: list[str]) -> None:
    for name in [*names, *names]:
        _surely(story, name, Act("tick"))


def _surely(story: SharedStory, name: str, *acts: Act) -> None:
    """If what another one could not write fails this one's sync too, it starts again."""
    try:
        story.turn(name, "", acts)
    except SyncFailed:
        story.fail(name)
        story.open(name)


def _require_nothing_left(story: SharedStory) -> None:
    """The living have taken over what the dead have left."""
    living = {one.rig.engine._root.owner for one in story.ones.values()}
    left = [found.name for found in story.power.scan(layout.OWNERS) if found.name not in living]
    sent = [
        path
        for path in sent_files_of(story.power)
        # What its writer has refused, and couldn't unlink, it lets lie as long as it lives.
        if not is_bare(path)
        and not any(f",o{owner}" in path for owner in living)
        and name_at(path).queue in story.fates.queues
    ]
    if left or sent:
        raise Broken(Kind.OTHER, f"nobody has taken over {left}, {sent}")
