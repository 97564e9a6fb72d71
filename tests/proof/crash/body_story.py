"""Stories in which bodies are written in pieces before they are sent, and some are never sent."""

from __future__ import annotations

from itertools import count
from typing import Any

from spoolrack_store.engine.engine import Engine
from spoolrack_store.files.body_file import BodyFile
from spoolrack_store.files.layout import BODIES, BODY, body_owner, new_body_path
from spoolrack_store.model.disk_watermark import DiskWatermark
from spoolrack_store.model.operations import Request, Send

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
