"""Bodies that are written before they are sent survive power cuts and deaths once they are answered,
and leave nothing behind when they aren't sent; and each condition of that is needed."""

from __future__ import annotations

from itertools import count
from typing import Any, Final

import pytest
from spoolrack_store.engine import adoption, recovery
from spoolrack_store.engine.engine import Engine
from spoolrack_store.engine.moves import Moves
from spoolrack_store.files.body_file import BodyFile
from spoolrack_store.files.layout import BODIES, BODY, body_owner, new_body_path
from spoolrack_store.model.batch_file import Damaged, Line, decode_whole
from spoolrack_store.model.disk_watermark import DiskWatermark
from spoolrack_store.model.names import Stem
from spoolrack_store.model.operations import Request, Send, WrittenBody

from tests.proof.crash.stories import ALONE_AND_SHARED, Bug, Run, expect_broken
from tests.support.cuts import Cut
from tests.support.engine_story import Broken, Story, parse
from tests.support.power_disk import Model


class BodyStory(Story):
    """A story in which most messages that are sent alone have a written body."""

    def __init__(self, seed: int, model: Model, **rest: Any) -> None:
        self.writer = ""
        """The process whose commit is being made."""
        self.contents: dict[str, bytes] = {}
        """The bodies by their paths."""
        self.coming: dict[str, list[tuple[BodyFile, str, bytes]]] = {}
        """By process the bodies of which a half is written, with their paths and contents."""
        self.numbers = count()
        self.unsent = 0
        """Bodies whose process ended before they were sent."""
        self.written = 0
        super().__init__(seed, model, **rest)

    def _commit(self, owner: str) -> None:
        self.writer = owner
        super()._commit(owner)

    def _die(self, owner: str) -> None:
        self.writer = owner
        super()._die(owner)

    def _request(self) -> Request[Any]:
        request = super()._request()
        if isinstance(request, Send) and len(request.bodies) == 1 and self.random.random() < 0.8:
            content = request.bodies[0]
            path = new_body_path(self.writer, next(self.numbers))
            file = BodyFile(self.disk, path, DiskWatermark())
            middle = len(content) // 2
            file.write(content[:middle])
            coming = self.coming.setdefault(self.writer, [])
            coming.append((file, path, content))
            if self.random.random() < 0.4:
                return Send(queue=request.queue, bodies=[])  # The rest comes later, or never.
            file, path, content = coming.pop(self.random.randrange(len(coming)))
            file.write(content[file.size :])
            request.written = file.finish()
            self.contents[path] = content
            request.bodies = [b""]
        return request

    def _sent(self, sender: str, id: str, request: Send, place: int) -> None:
        super()._sent(sender, id, request, place)
        if request.written is not None:
            self.bodies[id] = self.contents[request.written.path]
            self.written += 1

    def _bury(self, owner: str, maybe: Any) -> None:
        self.unsent += sum(body_owner(name) == owner for name in self._unsent())
        super()._bury(owner, maybe)

    def _power_cut(self, cut: Cut) -> None:
        self.unsent += len(self._unsent())
        self.coming.clear()
        super()._power_cut(cut)

    def _check(self, engine: Engine) -> None:
        super()._check(engine)
        for name in self._unsent():
            if body_owner(name) not in self.engines and not engine.sharing.orphans:
                raise Broken(f"{name} stays after its process has died")
        known = {parse(path).stem.id for path in self._paths()}
        being_unlinked = {
            path for each in self.engines.values() for path, _ in each.moves.removed_files._paths
        }
        for body in self.disk.scan(BODIES) if not engine.sharing.orphans else ():
            if body.name not in known and f"{BODIES}/{body.name}" not in being_unlinked:
                raise Broken(f"the body {body.name} stays without a message")
        aside = [each.name for each in self.disk.scan("quarantine")]
        if aside:
            raise Broken(f"in quarantine is {aside}")

    def _paths(self) -> list[str]:
        return [path for path in super()._paths() if not path.endswith(BODY)]

    def _unsent(self) -> list[str]:
        return [each.name for each in self.disk.scan("new") if each.name.endswith(BODY)]


@ALONE_AND_SHARED
def test_written_bodies_are_sent_whole_or_leave_nothing_behind(run: Run) -> None:
    told = run.tell(BodyStory, 5)
    assert told.least("written", "unsent", "crashes") > told["stories"] // 2


_make = Moves.make
_remove_bodies_left = recovery._remove_bodies_left
_unlink_file = Moves.unlink_file


def _unlinked_but_for_bodies(self: Moves, path: str) -> None:
    if not path.endswith(BODY):
        _unlink_file(self, path)


def _made_unsynced(
    self: Moves, *arguments: object, written: WrittenBody | None = None, **more: object
) -> object:
    entry = _make(self, *arguments, written=written, **more)  # type: ignore[arg-type]
    if written is not None:
        self.syncer._files.pop(entry.name.path, None)
        self.syncer._files_unsynced = False
    return entry


def _line_without_body(self: Moves, stem: Stem, content: bytes) -> Line | None:
    try:
        return decode_whole(stem, content)
    except Damaged:
        return None


PLANTED: Final[dict[str, Bug]] = {
    "a start takes every body for one of a dead process": Bug(
        recovery, "body_owner", lambda name: "", first=7
    ),
    "a start takes the body of a dead process for a foreign file": Bug(
        adoption, "body_owner", lambda name: ""
    ),
    "the unfinished body of a dead process stays": Bug(Moves, "unlink_file", _unlinked_but_for_bodies),
    "the file beside a body is not synced": Bug(Moves, "make", _made_unsynced),
    "the folder of the bodies is not synced": Bug(
        Moves,
        "_place_body",
        lambda self, source, target: self.disk.rename_new(source, target),
        first=17,
    ),
    "a start takes a file for sent whose body has no name yet": Bug(
        Moves, "line_of_whole", _line_without_body, first=117
    ),
    "a start leaves a body without a message": Bug(
        recovery, "_remove_bodies_left", lambda moves, sent_by_others: None, first=11
    ),
    "a start unlinks the bodies of messages that a living process has in new/": Bug(
        recovery,
        "_remove_bodies_left",
        lambda moves, sent_by_others: _remove_bodies_left(moves, set()),
        first=28,
    ),
    "the body goes with the file that a dead letter was copied from": Bug(
        Moves, "is_body_left", lambda self, entry: entry.batch.stem.is_external, first=116
    ),
    "the body stays when its message is gone": Bug(Moves, "is_body_left", lambda self, entry: False),
}


@pytest.mark.parametrize("planted", PLANTED)
def test_each_condition_is_needed(planted: str, monkeypatch: pytest.MonkeyPatch) -> None:
    def of(seed: int, model: Model) -> BodyStory:
        BodyStory(seed, model, processes=2).run(120)
        return BodyStory(seed, model, can_sync_all=False)

    expect_broken(monkeypatch, PLANTED[planted], of)
