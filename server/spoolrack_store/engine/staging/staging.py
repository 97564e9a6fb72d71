"""All about stages, as the engine sees it: their requests, and what is to be done beside them."""

from __future__ import annotations

import logging
from collections.abc import Callable

from ...model.errors import StoreError
from ...model.staging import Abort, Publish, Stage, StageInfo
from ..catalog import Catalog
from ..order import Turn
from ..root import Root
from .postman import Postman
from .publications import Publications
from .recovery import Left, StageRecovery
from .stager import Stager
from .stages import Stages

log = logging.getLogger(__name__)


class Staging:
    """Not thread-safe."""

    def __init__(self, root: Root, catalog: Catalog, look_into: Callable[[str], None]) -> None:
        """`look_into` lets all messages of a queue be known by name."""
        self._root = root
        self._stages = Stages(root)
        postman = Postman(root, catalog)
        self._publications = Publications(root, catalog, self._stages, postman, look_into)
        self._stager = Stager(root, catalog, self._stages, self._publications.undo_claims)
        self.turns = (
            Turn(Stage, self._stager.stage),
            Turn(Publish, self._publications.publish),
            Turn(Abort, self._stager.abort),
        )

    def recover(self, left_of: Left) -> None:
        """Finish or undo what a crash left; the engine syncs when it is done."""
        StageRecovery(self._root, self._stages, self._publications, left_of).run()

    def forget(self) -> None:
        """Others may come: what is known may soon be wrong."""
        self._stages.forget()
        self._publications.forget()

    def retry(self) -> None:
        """Go on with what was begun and couldn't be done at once."""
        self._publications.retry()
        self._stages.retry()

    def tend(self) -> None:
        """Do what time, and the deaths of others, have brought about."""
        try:
            self._publications.tend()
            if self._root.chores.brings_back:
                self._stages.expire()
        except StoreError as error:
            log.error("what was staged or published has to wait: %s", error)

    def count(self) -> int | None:
        """How many stages there are; None if that must be looked up."""
        return self._stages.count()

    def listed(self, after: str, limit: int) -> list[StageInfo]:
        """Up to `limit` stages whose names stand above `after`, in order."""
        return self._stager.listed(after, limit)
