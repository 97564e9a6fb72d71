"""What was asked and answered about stages that two engines share, and what must lie there then."""

from __future__ import annotations

from dataclasses import dataclass, field

from broken import Broken, Kind
from engine_rig import EngineRig
from power_disk import PowerDisk
from seen import check_index, files_of, read
from spoolrack_store.files import layout
from spoolrack_store.model.staging import Publish
from stage_fates import Staged, epochs_on, staged_on


@dataclass(slots=True)
class Known:
    """What was asked and answered."""

    chunks: dict[tuple[str, int], tuple[bytes, ...]] = field(default_factory=dict)
    """Acknowledged."""
    maybe: dict[tuple[str, int], list[tuple[bytes, ...]]] = field(default_factory=dict)
    """Asked for."""
    asked: list[Publish] = field(default_factory=list)
    published: list[Publish] = field(default_factory=list)
    refused: list[Publish] = field(default_factory=list)
    """Answered with an error, or that it was done before."""
    aborting: set[str] = field(default_factory=set)
    aborted: set[str] = field(default_factory=set)
    may_expire: bool = False
    may_lose_d: bool = False

    def copy(self) -> Known:
        return Known(
            dict(self.chunks),
            {place: list(those) for place, those in self.maybe.items()},
            list(self.asked),
            list(self.published),
            list(self.refused),
            set(self.aborting),
            set(self.aborted),
            self.may_expire,
            self.may_lose_d,
        )


def publish_the_rest(power: PowerDisk, rig: EngineRig, known: Known) -> None:
    """What is still staged can be published, and then it is what was staged."""
    there = staged_on(power)
    owed = {
        body
        for chunks in there.values()
        for kept in chunks.values()
        if kept.queue in rig.engine.catalog.queues
        for body in kept.bodies
    }
    stages = [stage for stage in there if not _has_message_for_d(there, stage, known)]
    rig.ask(Publish(writer="z", epoch=0, stages=stages))
    check_index(rig, files_of(power))
    found = _found(power)
    for stage in stages:
        missing = {body for kept in there[stage].values() for body in kept.bodies} - found.keys()
        if missing & owed:
            raise Broken(Kind.LOST, f"{missing} of {stage} can't be published")
    asked = {body for those in known.maybe.values() for bodies in those for body in bodies}
    if found.keys() - asked:
        raise Broken(Kind.TORN, f"{found.keys() - asked}")


def _has_message_for_d(there: Staged, stage: str, known: Known) -> bool:
    return known.may_lose_d and any(kept.queue == "d" for kept in there[stage].values())


def _found(power: PowerDisk) -> dict[bytes, str]:
    """The queue of each body that is in one."""
    found: dict[bytes, str] = {}
    for path, file in files_of(power).items():
        each = read(path, file)
        if each.body in found:
            raise Broken(Kind.DOUBLED, f"{each.body!r}")
        found[each.body] = each.name.queue
    return found


def judge(power: PowerDisk, known: Known) -> None:
    found, there = _found(power), staged_on(power)
    left = [each.name for each in power.scan(layout.PUBLISHED) if "@" in each.name]
    left += [each.name for each in power.scan(layout.STAGED) if each.name.endswith("~dropped")]
    if left:
        raise Broken(Kind.OTHER, f"nobody has taken over {left}")
    _judge_chunks(known, there, set(found))
    _judge_publications(power, known, there, set(found))


def _judge_chunks(known: Known, there: Staged, found: set[bytes]) -> None:
    """A stage is here, or published, or gone, and always all of it."""
    for stage in {stage for stage, _ in known.maybe}:
        here = {body for kept in there.get(stage, {}).values() for body in kept.bodies}
        for at, kept in there.get(stage, {}).items():
            if kept.bodies not in known.maybe.get((stage, at), []):
                raise Broken(Kind.TORN, f"{stage} {at} is {kept}")
        if here & found:
            raise Broken(Kind.DOUBLED, f"{here & found} of {stage}")
        may_be_gone = known.may_expire or stage in known.aborting
        old = set(_first(known, stage))
        owed = {body for body in old if not (known.may_lose_d and body.endswith(b" to d"))}
        if old & here and (old & found or old - here):
            raise Broken(Kind.LOST, f"of {old} are staged {old & here}, and published {old & found}")
        if old & found and owed - found:
            raise Broken(Kind.LOST, f"of {old} only {old & found} are published")
        if old and not old & (here | found) and not may_be_gone:
            raise Broken(Kind.LOST, f"{stage} with {old}")
        for (name, _), bodies in known.chunks.items():
            late = set(bodies) - old if name == stage else set()
            if late and not may_be_gone and not (late <= here or late <= found):
                raise Broken(Kind.LOST, f"{late}, which came late to {stage}")


def _judge_publications(power: PowerDisk, known: Known, there: Staged, found: set[bytes]) -> None:
    epochs = epochs_on(power)
    for request in known.published:
        if epochs.get(request.writer, -1) < request.epoch:
            raise Broken(Kind.OTHER, f"{request} is forgotten: {epochs}")
        for stage in request.stages:
            missing = [body for body in _first(known, stage) if body not in found]
            if known.may_lose_d:
                missing = [body for body in missing if not body.endswith(b" to d")]
            if missing:
                raise Broken(Kind.LOST, f"{request} was answered, and {missing} are nowhere")
    # Two may ask for the same.
    refused, published = set(map(id, known.refused)), set(map(id, known.published))
    takers = [request for request in known.asked if id(request) not in refused]
    for stage in {stage for stage, _ in known.maybe}:
        if any(body in found for body in _first(known, stage)):
            by = [request for request in takers if stage in request.stages]
            if not by:
                raise Broken(Kind.INVENTED, f"{stage} is published, and nobody has done so")
            if stage in known.aborted and not any(id(r) in published for r in by):
                raise Broken(Kind.RESURRECTED, f"{stage} was aborted, and is published")
            if not any(epochs.get(r.writer, -1) >= r.epoch for r in by):
                raise Broken(Kind.OTHER, f"{stage} is published, and that isn't remembered: {epochs}")
            both = [r for r in by if len(r.stages) > 1]
            if by == both and not known.may_lose_d:
                for other in both[0].stages:
                    if not all(body in found for body in _first(known, other)):
                        raise Broken(Kind.LOST, f"{both[0]} has published {stage}, not {other}")


def _first(known: Known, stage: str) -> list[bytes]:
    """What was in the stage before the tale."""
    before = (("s", 0), ("s", 1), ("s", 2), ("t", 0))
    return [body for place in before if place[0] == stage for body in known.maybe[place][0]]
