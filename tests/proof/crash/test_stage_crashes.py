"""Stages are published whole or not at all, through power cuts, and through deaths at any step, alone
and beside other processes; and each condition of it is needed."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from itertools import chain
from typing import Any, Final

import pytest
from spoolrack_store.engine import stages
from spoolrack_store.engine.engine import Engine
from spoolrack_store.engine.stages import EndState, Stages, _End, _OpenStage
from spoolrack_store.model.batch_file import body, decode
from spoolrack_store.model.clock import Millis
from spoolrack_store.model.errors import ChunkDiffers, NameTaken, StageNotFound
from spoolrack_store.model.names import Stem
from spoolrack_store.model.operations import Request
from spoolrack_store.model.sealed import NotWhole
from spoolrack_store.model.stage_names import Manifest, Publication, parse_chunk, parse_published
from spoolrack_store.model.stage_requests import Abort, Publish, Published, Stage, Staged

from tests.proof.crash.stories import ALONE, SHARED, Bug, Run, expect_broken, expect_relisted
from tests.support.engine_story import DELAY, QUEUES, Broken, Seen, Story, caching
from tests.support.power_disk import Model

STAGES = ("a", "b", "c")
WRITERS = ("v", "w")
OWNERS = ("", "me", "you")
SHORT = Millis(4_000)
LONG = Millis(600_000)
STAGED: Seen = ("staged",)


@dataclass
class Chunk:
    ids: list[str]
    bodies: list[bytes]
    queue: str
    delay: Millis | None
    at: int
    """The commit that makes it durable; 0: it is."""


@dataclass
class Life:
    """A stage from its first chunk to its end."""

    key: str
    fate: list[tuple[int, str]]
    """open, published or dropped, and by which commit, from the last that is durable on."""
    chunks: dict[int, Chunk] = field(default_factory=dict)
    published_at: int = 0

    @property
    def name(self) -> str:
        return self.key.partition("@")[0]

    @property
    def due(self) -> int:
        return int(self.key.partition("@")[2])

    @property
    def now(self) -> str:
        return self.fate[-1][1]


class StageStory(Story):
    def __init__(self, *arguments: Any, **named: Any) -> None:
        self.lives: dict[str, Life] = {}
        self.epochs: dict[str, list[tuple[int, int]]] = {writer: [(0, -1)] for writer in WRITERS}
        self.owners: dict[tuple[str, int], set[str]] = {}
        """The identities that have published an epoch of a writer, or may have."""
        self.perhaps: list[Request[Any]] = []
        self.arrived = self.dropped = self.published = self.repeated = self.taken = 0
        super().__init__(*arguments, **named)

    # Requests.

    def _request(self) -> Request[Any]:
        chance = self.random
        if chance.random() < 0.55:
            return super()._request()
        stage = chance.choice(STAGES)
        match chance.choice("ssssppa"):
            case "s":
                there = self._open(stage)
                if there is not None and there.chunks and chance.random() < 0.4:
                    number = chance.choice(sorted(there.chunks))
                    known = there.chunks[number]
                    return Stage(
                        stage=stage,
                        chunk_number=number,
                        queue=known.queue,
                        bodies=known.bodies,
                        delay=known.delay,
                    )
                bodies = [
                    chance.randbytes(chance.randint(0, 20)) for _ in range(chance.choice((1, 2, 3)))
                ]
                return Stage(
                    stage=stage,
                    chunk_number=chance.randrange(3),
                    queue=chance.choice(QUEUES),
                    bodies=bodies,
                    delay=chance.choice((None, None, Millis(0), DELAY)),
                    time_to_live=chance.choice((SHORT, LONG, LONG)),
                )
            case "p":
                writer = chance.choice(WRITERS)
                epoch = max(0, self.epochs[writer][-1][1] + chance.choice((-1, 0, 1, 1, 1)))
                names = [life.name for life in self.lives.values() if life.now == "open"]
                named = chance.sample(names, chance.randint(0, len(names))) if names else [stage]
                if chance.random() < 0.1:
                    named.append(stage)
                return Publish(writer=writer, epoch=epoch, stages=named, owner=chance.choice(OWNERS))
            case _:
                return Abort(stage=stage)

    # Answers.

    def _open(self, name: str) -> Life | None:
        for life in self.lives.values():
            if life.name == name and life.now == "open":
                return life
        return None

    def _become_of(self, life: Life, fate: str) -> None:
        life.fate.append((self.at, fate))
        if fate == "dropped":
            self.dropped += 1
        else:
            self.published += 1
            life.published_at = self.clock.now

    def _expired(self, life: Life) -> None:
        if life.due > self.clock.now:
            raise Broken(f"{life.key} has ended without a request")
        self._become_of(life, "dropped")

    def _lay_down(self, key: str) -> None:
        """Forget a stage of which nothing is left: a new one may have its name."""
        life = self.lives.pop(key, None)
        if life is not None:
            if len(life.fate) > 1:
                raise Broken(f"{key} is back")
            life.key += f"#{len(self.lives)}"
            self.lives[life.key] = life

    def _take(self, engine: Engine, requests: list[Request[Any]], outcomes: Sequence[object]) -> None:
        self._arrive(engine)
        for kind in (Stage, Publish, Abort):
            for request, outcome in zip(requests, outcomes, strict=True):
                if isinstance(request, kind):
                    self._answered(engine, request, outcome)
        listed = {info.name for info in engine.stages.listed("", 99)}
        for life in self.lives.values():
            if life.now == "open" and life.name not in listed:
                self._expired(life)
        super()._take(engine, requests, outcomes)

    def _answered(self, engine: Engine, request: Request[Any], outcome: object) -> None:
        if isinstance(request, Stage) and isinstance(outcome, ChunkDiffers):
            life = self._open(request.stage)
            if life is None or request.chunk_number not in life.chunks or _is_chunk(life, request):
                raise Broken(f"chunk {request.chunk_number} of {request.stage} is answered {outcome}")
        elif isinstance(request, Stage):
            assert isinstance(outcome, Staged), outcome
            life = self._open(request.stage)
            key = f"{request.stage}@{outcome.expires_at}"
            if life is not None and life.key != key:
                self._expired(life)
                life = None
            if life is None:
                self._lay_down(key)
                life = self.lives[key] = Life(key, [(self.at, "open")])
            if outcome.duplicate != (request.chunk_number in life.chunks):
                raise Broken(f"chunk {request.chunk_number} of {key} is answered {outcome}")
            if outcome.duplicate and not _is_chunk(life, request):
                raise Broken(f"chunk {request.chunk_number} of {key} holds other messages: {outcome}")
            self.repeated += outcome.duplicate
            if not outcome.duplicate:
                self._take_chunk(life, request.chunk_number, self.at)
                if life.chunks[request.chunk_number].bodies != list(request.bodies):
                    raise Broken(f"chunk {request.chunk_number} of {key} is another")
        elif isinstance(request, Publish):
            self._answered_publication(request, outcome)
        else:
            assert isinstance(request, Abort)
            life = self._open(request.stage)
            if life is not None and outcome:
                self._become_of(life, "dropped")
            elif life is not None:
                self._expired(life)

    def _answered_publication(self, request: Publish, outcome: object) -> None:
        epochs = self.epochs[request.writer]
        lives = [self._open(name) for name in dict.fromkeys(request.stages)]
        owners = self.owners.get((request.writer, epochs[-1][1]), set())
        if isinstance(outcome, NameTaken):
            self.taken += 1
            if not request.owner or owners <= {request.owner}:
                raise Broken(f"{request} is refused, and {owners} published before")
        elif request.epoch <= epochs[-1][1]:
            if not isinstance(outcome, Published) or not outcome.duplicate:
                raise Broken(f"{request} is published again: {outcome}")
            if request.owner and not owners & {"", request.owner}:
                raise Broken(f"{request} is answered to a stranger: {owners} published it")
        elif isinstance(outcome, StageNotFound):
            for life in lives:
                if life is not None and life.due > self.clock.now and None not in lives:
                    due = [each for each in lives if each and each.due <= self.clock.now]
                    if not due:
                        raise Broken(f"{life.key} is not found")
        else:
            if not isinstance(outcome, Published) or outcome.duplicate or None in lives:
                raise Broken(f"{request} is answered {outcome}, with {lives}")
            epochs.append((self.at, request.epoch))
            self.owners[request.writer, request.epoch] = {request.owner}
            for life in lives:
                assert life is not None
                self._become_of(life, "published")

    # Present state.

    def _chunks(self) -> dict[tuple[str, int], tuple[str, str, Millis | None, Stem]]:
        found = {}
        for each in self.disk.scan("staged"):
            if not each.name.endswith("~dropped"):
                chunk = parse_chunk(each.name)
                key = str(chunk.life), chunk.number
                if key in found:
                    raise Broken(f"two chunks {key}")
                found[key] = chunk.path, chunk.queue, chunk.delay, chunk.stem
        return found

    def _take_chunk(self, life: Life, number: int, at: int) -> None:
        path, queue, delay, stem = self._chunks()[life.key, number]
        content = self.disk.read(path)
        line = decode(stem, content, len(content))
        count = stem.count or 1
        ids = [stem.message_id(index) for index in range(count)]
        bodies = [body(line, content, index) for index in range(count)]
        life.chunks[number] = Chunk(ids, bodies, queue, delay, at)

    def _arrive(self, engine: Engine) -> None:
        """Turn published stages into messages, as some commit of some process does."""
        for life in self.lives.values():
            if life.now != "published":
                continue
            for chunk in life.chunks.values():
                for id in chunk.ids:
                    is_new = id not in self.may or self.now(id) == STAGED
                    if is_new and engine.index.holder(id) is not None:
                        self._expect(life, chunk)
                        break

    def _expect(self, life: Life, chunk: Chunk) -> None:
        now: Seen = ("ready", 0)
        if chunk.delay:
            now = ("delayed", 0, life.published_at + chunk.delay)
        for id, sent in zip(chunk.ids, chunk.bodies, strict=True):
            if id in self.may and self.now(id) != STAGED:
                continue
            self.arrived += 1
            self.may[id] = [(self.at, STAGED), (self.at, now)]
            self.queue_of[id], self.bodies[id], self.sender[id] = chunk.queue, sent, ""

    def _found(self) -> dict[str, tuple[Seen, str]]:
        found = super()._found()
        for _, queue, _, stem in self._chunks().values():
            for index in range(stem.count or 1):
                id = stem.message_id(index)
                if id not in found and id in self.may:
                    found[id] = STAGED, queue
        return found

    def _check(self, engine: Engine) -> None:
        super()._check(engine)
        stages = engine.stages
        known = {chunk.path for stage in stages._stages.values() for chunk in stage.chunks.values()}
        known |= set(stages._ends_by_path)
        folders = ("staged", "published")
        there = {f"{folder}/{each.name}" for folder in folders for each in self.disk.scan(folder)}
        if known != there:
            raise Broken(f"it misses {sorted(there - known)}, and believes {sorted(known - there)}")

    # Crashes.

    def _sync(self, owner: str) -> None:
        at, work = self.flying[owner][0]
        for life in self.lives.values() if work.barrier is not None else ():
            for chunk in life.chunks.values():
                if chunk.at <= at:
                    chunk.at = 0
        super()._sync(owner)

    def _histories(self) -> Iterable[list[tuple[int, Any]]]:
        return chain(self.epochs.values(), (life.fate for life in self.lives.values()))

    def _forgive(self, requests: list[Request[Any]]) -> dict[str, list[Seen]]:
        self.perhaps = [each for each in requests if isinstance(each, (Stage, Publish, Abort))]
        for each in requests:
            if isinstance(each, Publish):
                self.owners.setdefault((each.writer, each.epoch), set()).add(each.owner)
        there = self._chunks()
        for life in self.lives.values():
            for number, chunk in life.chunks.items():
                # It has arrived in the commit that died, and may have been leased there.
                if life.now == "published" and (life.key, number) not in there:
                    self._expect(life, chunk)
        return super()._forgive(requests)

    def _adopt(self, maybe: dict[str, list[Seen]] | None) -> None:
        perhaps, self.perhaps = self.perhaps, []
        fates, epochs = self._recorded()
        there = self._chunks()
        for writer, history in self.epochs.items():
            allowed = {epoch for _, epoch in history} if maybe is None else {history[-1][1]}
            allowed |= {p.epoch for p in perhaps if isinstance(p, Publish) and p.writer == writer}
            now = epochs.get(writer, -1)
            if now not in allowed:
                raise Broken(f"the epoch of {writer} is {now}, and may be {allowed}")
            kept = [] if maybe is None else history
            self.epochs[writer] = [*kept, (self.at, now)] if not kept or kept[-1][1] != now else kept
        for key in {key for key, _ in there} - self.lives.keys():
            name = key.partition("@")[0]
            if not any(isinstance(p, Stage) and p.stage == name for p in perhaps):
                raise Broken(f"{key} comes from nowhere")
            self.lives[key] = Life(key, [(self.at, "open")])
        for life in list(self.lives.values()):
            self._adopt_life(life, fates, there, perhaps, is_cut=maybe is None)
        for life in self.lives.values():
            for number, chunk in life.chunks.items():
                if life.now == "published":
                    if not all(id in self.may for id in chunk.ids) and (life.key, number) not in there:
                        self._expect(life, chunk)
                    elif (life.key, number) in there and maybe is None:
                        raise Broken(f"chunk {number} of {life.key} is published, and not delivered")
                    elif any(id in self.may and self.now(id) == STAGED for id in chunk.ids):
                        self._expect(life, chunk)
        super()._adopt(maybe)
        for life in self.lives.values():
            for chunk in life.chunks.values():
                for id in chunk.ids:
                    if life.now != "published" and id in self.may:
                        raise Broken(f"{id} of {life.key} is seen, which is {life.now}")
                    is_staged = any(_has(stem, id) for *_, stem in there.values())
                    if life.now == "published" and id not in self.may and not is_staged:
                        raise Broken(f"{id} of {life.key} is lost")

    def _adopt_life(
        self,
        life: Life,
        fates: dict[str, str],
        there: dict[tuple[str, int], tuple[str, str, Millis | None, Stem]],
        perhaps: list[Request[Any]],
        *,
        is_cut: bool,
    ) -> None:
        allowed = {fate for _, fate in life.fate} if is_cut else {life.now}
        if life.now == "open":
            for each in perhaps:
                if isinstance(each, Publish) and life.name in each.stages:
                    allowed.add("published")
                if isinstance(each, Abort) and each.stage == life.name:
                    allowed.add("dropped")
        if "open" in allowed and life.due <= self.clock.now:
            allowed.add("dropped")
        numbers = {number for key, number in there if key == life.key}
        # No end that may be undone is without its record.
        is_undone = is_cut and len(life.fate) > 1
        default = "open" if numbers or life.now == "open" or is_undone else life.now
        now = fates.get(life.key, default)
        if now not in allowed:
            raise Broken(f"{life.key} is {now}, and may be {allowed}")
        for number in numbers - life.chunks.keys():
            if not any(isinstance(p, Stage) and p.stage == life.name for p in perhaps):
                raise Broken(f"chunk {number} of {life.key} comes from nowhere")
            self._take_chunk(life, number, self.at)
        if now == "open":
            life.published_at = 0
            lost = [n for n, chunk in life.chunks.items() if n not in numbers]
            is_promised = any(not is_cut or not life.chunks[n].at for n in lost)
            if is_promised and ("dropped" not in allowed or numbers):
                raise Broken(f"{life.key} has lost the chunks {lost}")
            for number in lost:
                del life.chunks[number]
            if not numbers:
                del self.lives[life.key]
                return
        if life.now != now and now == "published" and not life.published_at:
            life.published_at = self.clock.now
        if is_cut:
            life.fate = [(self.at, now)]
            for chunk in life.chunks.values():
                chunk.at = 0
        elif life.now != now:
            life.fate.append((self.at, now))

    def _recorded(self) -> tuple[dict[str, str], dict[str, int]]:
        """Return what the records say of stages, and the last epoch of each writer."""
        fates = {
            each.name.removesuffix("~dropped"): "dropped"
            for each in self.disk.scan("staged")
            if each.name.endswith("~dropped")
        }
        epochs: dict[str, int] = {}
        for each in self.disk.scan("published"):
            by = parse_published(each.name)
            assert isinstance(by, Publication)
            try:
                manifest = Manifest.decode(self.disk.read(f"published/{each.name}"))
            except NotWhole:
                continue
            epochs[by.writer] = max(epochs.get(by.writer, -1), by.epoch)
            fates.update(dict.fromkeys(manifest.stages, "published"))
        return fates, epochs


def _is_chunk(life: Life, request: Stage) -> bool:
    """Return whether the chunk that is there is the requested one."""
    there = life.chunks[request.chunk_number]
    return (there.queue, there.delay, there.bodies) == (
        request.queue,
        request.delay,
        list(request.bodies),
    )


def _has(stem: Stem, id: str) -> bool:
    return id in (stem.message_id(index) for index in range(stem.count or 1))


def _tell(run: Run) -> None:
    told = run.tell(caching(StageStory), 6, steps=100)
    assert told.least("crashes", "arrived", "dropped", "published", "repeated") >= told["stories"]
    assert told["taken"]


@ALONE
def test_a_publication_is_whole_or_nothing(run: Run) -> None:
    _tell(run)


@SHARED
def test_processes_that_share_a_root_share_its_stages(run: Run) -> None:
    _tell(run)


@pytest.mark.parametrize("model", list(Model), ids=lambda model: model.value)
def test_a_history_that_has_found_a_fault_is_told_again(model: Model) -> None:
    StageStory(46, model, processes=3).run(100)


def test_a_process_that_others_have_overtaken_reads_the_stages_again(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    expect_relisted(monkeypatch, StageStory, 2_000)


# Planted bugs.

_finish = Stages._finish
_publish = Stages.publish
_leave_end = Stages._leave_end
_owns = stages._owns


def _not_waiting_for_the_record(self: Stages) -> None:
    for end in self.unfinished_ends:
        if end.state is EndState.WRITTEN:
            end.since = 0
    _advance(self)


_advance = Stages.advance


def _not_waiting_for_the_moves(self: Stages, end: _End, most: int) -> int:
    count = _finish(self, end, most)
    return count + _finish(self, end, most) if end.state is EndState.EMPTIED else count


def _taken_at_once(self: Stages, end: _End) -> None:
    _leave_end(self, end)
    for life in end.lives:
        self._ends_by_life.pop(life, None)


def _older_first(self: Stages, request: Publish) -> Published:
    published = _publish(self, request)
    for older in self._writers[request.writer][:-1]:
        if older.state is EndState.EMPTIED and older.since <= self._moves.synced:
            self._moves.unlink_file(older.path)
            self._leave_end(older)
    return published


def _unlinked_one_by_one(self: Stages, stage: _OpenStage) -> None:
    for chunk in list(stage.chunks.values()):
        self._moves.unlink_file(chunk.path)
        self._leave_chunk(chunk)


def _owned_by_this_process(request: Publish, last: Manifest, last_epoch: int) -> bool:
    return _owns(request, replace(last, owner=""), last_epoch)


PLANTED: Final[dict[str, Bug]] = {
    "chunks moved before the manifest is durable": Bug(
        Stages, "advance", _not_waiting_for_the_record, first=9
    ),
    "a record unlinked before its chunks are durably gone": Bug(
        Stages, "_finish", _not_waiting_for_the_moves
    ),
    "an epoch forgotten before the next is durable": Bug(Stages, "publish", _older_first),
    "a manifest made before its chunks are durable": Bug(
        Stages, "_sync", lambda self, stages: None, first=293
    ),
    "a chunk kept that a power cut has torn": Bug(
        Stages, "_is_whole", lambda self, chunk: True, first=11
    ),
    "a chunk kept that a death has torn": Bug(stages, "_is_short", lambda chunk, size: False),
    "a stage that begins a life whose record may come back": Bug(
        Stages, "_leave_end", _taken_at_once, first=395
    ),
    "another process's files not heard of": Bug(Stages, "path_changed", lambda self, path: None),
    "a stage dropped without a record": Bug(Stages, "_drop", _unlinked_one_by_one),
    "the younger of two stages kept": Bug(Stages, "_drop_doubles", lambda self: None, first=284),
    "an owner forgotten with the process": Bug(stages, "_owns", _owned_by_this_process),
    "a chunk not compared": Bug(Stages, "_holds", lambda self, chunk, request: True),
}


@pytest.mark.parametrize("planted", PLANTED)
def test_each_condition_is_needed(planted: str, monkeypatch: pytest.MonkeyPatch) -> None:
    def of(seed: int, model: Model) -> StageStory:
        StageStory(seed, model, processes=2).run(120)
        return StageStory(seed, model, processes=1)

    expect_broken(monkeypatch, PLANTED[planted], of)
