"""Sends the deduplication ids that are taken once more, to a store that has just started."""

from __future__ import annotations

from asking import ALL_IDS
from engine_rig import EngineRig
from promises import Broken, Promises
from promises import Kind as BrokenKind
from spoolrack_store.model.errors import StoreError
from spoolrack_store.model.keys import id_text, key_of
from spoolrack_store.model.operations import Outgoing, Send, Sent


def repeat_taken_ids(rig: EngineRig, fates: Promises, *, ahead: int = 0) -> None:
    """Raise `Broken` if one isn't refused that must be. Nothing is stored by that.

    By a clock that is so much `ahead`, an id may have been stored again.
    """
    now = rig.clock.wall() + ahead
    by_queue: dict[str, list[tuple[str, str]]] = {}
    for label, id in fates.ids.taken.items():
        fate = fates.alive.get(id)
        is_doubtful = fate is None and id not in fates.dead
        if label[0] not in fates.queues or fates.ids.first_of(label, now) is None:
            continue
        if not (is_doubtful or id in fates.aside or (fate and fate.body in fates.uncertain)):
            by_queue.setdefault(label[0], []).append((label[1], id))
    for queue, taken in by_queue.items():
        messages = [Outgoing(body=b"repeated", deduplication_id=name) for name, _ in taken]
        (results,) = rig.commit(Send(queue=queue, messages=messages))
        if isinstance(results, StoreError):
            raise Broken(BrokenKind.OTHER, f"ids of {queue} can't be sent again: {results}")
        for (name, id), result in zip(taken, results, strict=True):
            if not isinstance(result, Sent) or (result.id, result.is_duplicate) != (id, True):
                raise Broken(
                    BrokenKind.DOUBLED, f"{name} of {queue} was stored as {id}, and now {result}"
                )


def check_known_ids(rig: EngineRig, fates: Promises) -> None:
    """Raise `Broken` if an id would be refused of which no message was ever stored.

    Keys that nobody can send mean nothing: those of a former queue of that name, or of another one.
    """
    known = rig.engine.deduplication.known
    for queue in fates.queues:
        salt = rig.engine.catalog.queues[queue].salt
        keys = known.of(queue)._ids
        for number in filter(None, (keys.get(key_of(name, salt)) for name in ALL_IDS)):
            id = id_text(number)
            if not (id in fates.alive or fates.was_deleted(id)):
                raise Broken(BrokenKind.LOST, f"{id} would be told to be stored, and never was")
