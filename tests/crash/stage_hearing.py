"""Notes in `Promises` what is answered about stages and publications, and what breaks a promise."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace

from asking import TIME_TO_LIVE
from message_fate import Fate, Now
from promises import Broken, Kind, Promises
from spoolrack_store.model.errors import StageNotFound, StoreError
from spoolrack_store.model.staging import Publish, Published, Stage, Staged
from stage_fates import Kept


class StageHearing:
    def __init__(self, fates: Promises) -> None:
        self.fates = fates
        self.find_ids: Callable[[], Mapping[bytes, str]] = dict
        """Tells the ids of what lies on the disk, by the bodies: no publication answers with them."""

    def staged(self, request: Stage, outcome: object, now: Now) -> None:
        stages, bodies = self.fates.stages, tuple(each.body for each in request.messages)
        due = stages.dues.get(request.stage, (0, 0))[0]
        is_over = bool(due) and stages.may_be_over(request.stage, now.wall, now.monotonic)
        if isinstance(outcome, Staged) and outcome.expires_at != due and is_over:
            # The last one of this name has expired while nobody looked, since the disk failed.
            stages.staged.pop(request.stage, None)
        chunks = stages.staged.get(request.stage, {})
        if isinstance(outcome, Staged) and not outcome.is_repeated:
            if request.chunk in chunks:
                raise Broken(Kind.DOUBLED, f"chunk {request.chunk} of {request.stage} once more")
            kept = Kept(request.queue, bodies, request.messages[0].delay or 0)
            stages.staged.setdefault(request.stage, {})[request.chunk] = kept
            ends = now.monotonic + TIME_TO_LIVE
            if not chunks:
                stages.dues[request.stage] = outcome.expires_at, ends
            return
        if isinstance(outcome, Staged) and request.chunk not in chunks:
            raise Broken(Kind.OTHER, f"chunk {request.chunk} of {request.stage} is there: since when?")
        self.fates.refused.update(bodies)

    def published(self, request: Publish, outcome: object, now: Now, *, is_failing: bool) -> int:
        """How many messages are acknowledged by that; `is_failing` says that the disk fails."""
        stages, last = self.fates.stages, self.fates.stages.epochs.get(request.writer, -1)
        known = all(stage in stages.staged for stage in request.stages)
        may_be_over = is_failing or any(
            stages.may_be_over(stage, now.wall, now.monotonic) for stage in request.stages
        )
        if isinstance(outcome, StageNotFound) and known and not may_be_over:
            raise Broken(Kind.LOST, f"{outcome}")
        if not isinstance(outcome, Published):
            return 0
        if outcome.is_already != (request.epoch <= last):
            raise Broken(Kind.OTHER, f"{request} is answered {outcome}, and the last was {last}")
        if outcome.is_already:
            return 0
        stages.epochs[request.writer] = request.epoch
        ids = self.find_ids()
        published = [kept for stage in request.stages for kept in stages.staged.pop(stage, {}).values()]
        for kept in published:
            for body in kept.bodies:
                if body not in ids:
                    raise Broken(Kind.LOST, f"published, and nowhere: {body!r}")
                self._sent(ids[body], Fate(body=body, queue=kept.queue), kept.delay, now)
                if is_failing:
                    # It may get to its queue only later, and its delay begins then.
                    self.fates.open.changing.add(ids[body])
        return sum(len(kept.bodies) for kept in published)

    def _sent(self, id: str, fate: Fate, delay: int, now: Now) -> None:
        if delay:
            fate = replace(fate, due=now.wall + delay, ends=now.monotonic + delay)
        self.fates.sent(id, fate)

    def aborted(self, stage: str, outcome: object) -> None:
        if not isinstance(outcome, StoreError):
            self.fates.refused.update(self.fates.stages.bodies_of(stage))
            self.fates.stages.staged.pop(stage, None)
