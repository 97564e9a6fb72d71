"""Checks every name, size and checksum under a root, and changes nothing.

It may run beside a server: what it wants to look at may move at any moment. A name that is gone when
its file is to be read is therefore no problem, but looked for again in another round, and what only
two looks together show (a message in two places, a queue without settings) is looked at once more.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Final

from ..files import layout
from ..files.disk import Disk, Found, Kind
from ..files.reader import Damaged, Forbidden, Gone, read_message
from ..model.errors import DiskError
from ..model.ids import is_id
from ..model.names import Batch, Entry, NotAName, id_of, is_owner, is_queue_name, moved_out, parse_item
from ..model.transitions import State
from .asides import read_asides
from .doubles import Place, problems_of
from .findings import Leftover, Problem, Remedy, Report, Tally
from .holds import HoldInspector
from .listing import Filed, Seen, count_in, filed_of
from .redrives import RedriveInspector
from .registry import Registry
from .segments import problems_among
from .stages import StageInspector

ROUNDS: Final = 4
"""How often what has moved on is looked for."""
_ALSO_ALLOWED: Final = frozenset({layout.FORMAT, layout.RESERVE, "lost+found"})
_NOT_OURS: Final = "its name is not one of ours"

Progress = Callable[[int, int], None]
"""Told how many messages were looked at, and how many there are, as far as their names say."""


class Inspector:
    """Looks at one root, once."""

    def __init__(self, disk: Disk, progress: Progress | None = None) -> None:
        self._disk = disk
        self._progress = progress
        self._report = Report()
        self._problems: dict[str, Problem] = {}
        self._leftovers: dict[str, Leftover] = {}
        self._registry = Registry(disk)
        self._checked: dict[str, bool] = {}
        """Ids of messages and batches, and whether one with that id is whole."""
        self._suspects: set[str] = set()
        """Ids that were met twice."""
        self._nobodys: set[str] = set()
        """Names of queues that have messages or a folder, and no settings."""
        self._gone = 0
        self._round = 0
        self._total = 0

    def run(self) -> Report:
        """Look at everything. Raises `OSError` only if the root itself can't be listed."""
        self._look_at_root()
        self._problems.update(self._registry.read())
        self._leftovers.update(self._registry.leftovers)
        for self._round in range(ROUNDS):
            self._gone = 0
            self._look_at_messages()
            if not self._gone:
                break
        self._report.unchecked = self._gone
        redrives = RedriveInspector(self._disk, self._scan, self._problem, self._leave)
        redrives.run()
        self._confirm_doubles(redrives.between)
        self._confirm_nobodys()
        self._look_beside()
        report = self._report
        for name in self._registry.names:
            report.queues.setdefault(name, Tally()).is_doomed = name in self._registry.doomed
        report.queues = dict(sorted(report.queues.items()))
        report.problems = [self._problems[path] for path in sorted(self._problems)]
        report.leftovers = [self._leftovers[path] for path in sorted(self._leftovers)]
        return report

    def places_of(self, ids: set[str]) -> dict[str, list[Place]]:
        """Where messages and batches with these ids lie now, by names alone."""
        places: dict[str, list[Place]] = {}
        for filed in self._filed_names():
            item = filed.item
            place = Place(
                path=filed.path,
                queue=filed.queue,
                state=filed.state,
                receives=item.receives,
                due=filed.due,
                is_inside=False,
            )
            if item.id in ids:
                places.setdefault(item.id, []).append(place)
            if not isinstance(item, Batch) or filed.found.kind is not Kind.FOLDER:
                continue
            for inside in self._scan(filed.path):
                if id_of(inside.name) in ids:
                    path = f"{filed.path}/{inside.name}"
                    places.setdefault(id_of(inside.name), []).append(
                        replace(place, path=path, is_inside=True)
                    )
        return places

    # The root, and what lies beside the messages.

    def _look_at_root(self) -> None:
        names = {found.name: found.kind for found in self._disk.scan(".")}
        for folder in layout.ALL:
            if folder not in names:
                self._problem(folder, "this folder of every root is missing", Remedy.FOLDER)
            elif names[folder] is not Kind.FOLDER:
                self._problem(folder, "this is a folder in every root, and it is none", Remedy.HAND)
        for name in names.keys() - set(layout.ALL) - _ALSO_ALLOWED:
            self._leave(name, "not ours; the store neither uses nor touches it")

    def _look_beside(self) -> None:
        report = self._report
        for found in self._scan(layout.OWNERS):
            path = f"{layout.OWNERS}/{found.name}"
            if found.kind is not Kind.FILE or not is_owner(found.name):
                self._problem(path, "not an owner's file")
                continue
            try:
                report.owners.append(self._disk.read(path, 200).decode(errors="replace").strip())
            except OSError:
                continue  # It has just left.
        for found in self._scan(layout.HISTORY):
            report.histories += 1
            self._look_at_history(found)
        holds = HoldInspector(self._disk, self._scan, self._problem, self._leave)
        holds.run()
        report.reserved = holds.reserved
        stages = StageInspector(self._disk, self._scan, self._read, self._problem, self._leave)
        stages.run()
        report.staged, report.published = stages.stages, stages.publications
        for problem in problems_among(self._disk, self._scan(layout.KEYS)):
            self._problems.setdefault(problem.path, problem)
        report.aside = read_asides(self._disk)

    def _look_at_history(self, found: Found) -> None:
        path = f"{layout.HISTORY}/{found.name}"
        queue, _, id = found.name.partition(":")
        if found.kind is not Kind.FILE or not is_queue_name(queue) or not is_id(id):
            self._problem(path, "not a history's file")
            return
        try:
            chapters = json.loads(self._disk.read(path))
        except FileNotFoundError:
            return  # It went with its message.
        except OSError as error:
            self._problem(path, f"it can't be read: {error.strerror}", Remedy.HAND)
            return
        except (ValueError, RecursionError) as error:
            self._problem(path, f"this history can't be parsed: {error}")
            return
        if not isinstance(chapters, list):
            self._problem(path, "this history is not a JSON array")

    # Messages.

    def _names(self) -> list[Seen]:
        """All names where messages are, in the order in which messages move on: none is passed by."""
        seen = [Seen(folder=layout.NEW, found=found, queue=None) for found in self._scan(layout.NEW)]
        for found in self._scan(layout.QUEUES):
            path = f"{layout.QUEUES}/{found.name}"
            if found.kind is not Kind.FOLDER or not is_queue_name(found.name):
                self._problem(path, "not a queue's folder")
                continue
            if found.name not in self._registry.names:
                self._nobodys.add(found.name)
            seen += [Seen(folder=path, found=each, queue=found.name) for each in self._scan(path)]
        for folder in (layout.DELAY, layout.REMOVE):
            seen += [Seen(folder=folder, found=found, queue=None) for found in self._scan(folder)]
        return seen

    def _filed_names(self) -> Iterator[Filed]:
        """What the names say; those that say nothing are problems."""
        listed = self._names()
        self._total = sum(count_in(seen.found.name) for seen in listed)
        for seen in listed:
            try:
                filed = filed_of(seen)
            except NotAName:
                self._problem(seen.path, _NOT_OURS)
                continue
            if seen.folder == layout.DELAY and not filed.due:
                self._problem(seen.path, "it has no due time")
                continue
            yield filed

    def _look_at_messages(self) -> None:
        done = 0
        for filed in self._filed_names():
            self._look_at(filed)
            done += count_in(layout.name_of(filed.path))
            if self._progress is not None:
                self._progress(done, self._total)

    def _look_at(self, filed: Filed) -> None:
        expected = Kind.FOLDER if isinstance(filed.item, Batch) else Kind.FILE
        if filed.found.kind is not expected:
            self._problem(filed.path, f"its name is a {expected.value}'s, and it is none")
            return
        if filed.queue not in self._registry.names and filed.state is not State.REMOVED:
            self._nobodys.add(filed.queue)
        if isinstance(filed.item, Batch):
            self._look_into(filed, filed.item)
        else:
            self._look_at_entry(filed, filed.path, filed.item)

    def _look_into(self, filed: Filed, batch: Batch) -> None:
        if batch.id in self._checked:
            # Seen once more in a later round, it has only moved on; a batch without a name is none.
            if self._round == 0:
                self._suspects.add(batch.id)
            return
        try:
            inside = self._disk.scan(filed.path)
        except FileNotFoundError:
            self._gone += batch.count
            return
        except OSError as error:
            self._problem(filed.path, f"it can't be listed: {error.strerror}", Remedy.HAND)
            return
        if not inside:
            self._leave(filed.path, "an empty batch folder")
        elif filed.state is State.SENT and len(inside) < batch.count:
            why = f"{len(inside)} of its {batch.count} messages are there: it was never sent"
            self._leave(filed.path, why)
            return
        gone_before = self._gone
        for found in inside:
            path = f"{filed.path}/{found.name}"
            try:
                item = parse_item(found.name)
            except NotAName:
                self._problem(path, _NOT_OURS)
                continue
            if isinstance(item, Batch):
                # A purge moves the whole of a queue's folder at once, with the batches in it.
                if filed.state is State.REMOVED and found.kind is Kind.FOLDER:
                    self._look_into(replace(filed, path=path, item=item), item)
                else:
                    self._problem(path, "a batch folder in a batch folder")
            elif found.kind is not Kind.FILE:
                self._problem(path, "its name is a file's, and it is none")
            else:
                self._look_at_entry(filed, path, moved_out(item, batch))
        if self._gone == gone_before:
            self._checked[batch.id] = True

    def _look_at_entry(self, filed: Filed, path: str, entry: Entry) -> None:
        if not entry.is_tagged:
            if filed.state is State.SENT and str(entry) == entry.id:
                self._leave(path, "put here by hand: it waits to be adopted")
            else:
                self._problem(path, "its name doesn't say both size and checksum")
            return
        known = self._checked.get(entry.id)
        if known is not None and self._round:
            return
        try:
            # What is deleted may be damaged: nobody reads it any more.
            if filed.state is not State.REMOVED:
                self._read(path, entry)
        except Gone:
            self._gone += 1
            return
        except Damaged as error:
            if error.torn and filed.state is State.SENT:
                self._leave(path, f"{error}: it was never sent")
            else:
                self._problem(path, str(error))
        except Forbidden as error:
            self._problem(path, f"it may not be read: {error}", Remedy.HAND)
        except DiskError as error:
            self._problem(path, str(error), Remedy.HAND)
        else:
            if known:
                self._suspects.add(entry.id)
            else:
                self._report.queues.setdefault(filed.queue, Tally()).add(filed.state, entry.length)
            known = True
        self._checked[entry.id] = bool(known)
        self._report.checked += 1

    def _read(self, path: str, entry: Entry) -> None:
        try:
            size = self._disk.facts(path).size
        except FileNotFoundError as error:
            raise Gone(path) from error
        except OSError as error:
            raise Forbidden(str(error)) from error
        if size != entry.length:
            # Not read: whatever it is, it may be larger than memory.
            torn = size < entry.length
            raise Damaged(f"it has {size} bytes instead of {entry.length}", torn=torn)
        read_message(self._disk, path, entry)
        self._report.bytes += size

    # What one look alone doesn't show.

    def _confirm_doubles(self, between: set[str]) -> None:
        if not self._suspects:
            return
        for _, places in sorted(self.places_of(self._suspects).items()):
            # What is damaged is dealt with; and each must be there twice, in case it moves meanwhile.
            whole = [place for place in places if place.path not in self._problems]
            there = [place for place in whole if self._exists(place.path)]
            there = [place for place in there if self._exists(place.path)]
            for problem in problems_of(there, self._registry.letters, between):
                self._problems.setdefault(problem.path, problem)

    def _confirm_nobodys(self) -> None:
        if not self._nobodys:
            return
        self._registry.read()
        for queue in sorted(self._nobodys - self._registry.names):
            tally = self._report.queues.pop(queue, Tally())
            folder = layout.queue_folder(queue)
            if tally.messages:
                why = f"there are no settings of the queue {queue}, and {tally.messages} messages of it"
                self._problems[folder] = Problem(
                    path=folder, why=why, remedy=Remedy.SETTINGS, queue=queue
                )
            else:
                self._leave(folder, "a queue without settings and messages: it was never created")

    # What all of them need.

    def _problem(self, path: str, why: str, remedy: Remedy = Remedy.QUARANTINE) -> None:
        if remedy is Remedy.FOLDER or self._exists(path):
            self._problems.setdefault(path, Problem(path=path, why=why, remedy=remedy))

    def _leave(self, path: str, why: str) -> None:
        if self._exists(path):
            self._leftovers.setdefault(path, Leftover(path=path, why=why))

    def _exists(self, path: str) -> bool:
        try:
            self._disk.facts(path)
        except FileNotFoundError:
            return False
        except OSError:
            return True
        return True

    def _scan(self, path: str) -> list[Found]:
        try:
            return self._disk.scan(path)
        except (FileNotFoundError, NotADirectoryError):
            return []  # It has moved, or was complained of where the root was looked at.
        except OSError as error:
            self._problem(path, f"it can't be listed: {error.strerror}", Remedy.HAND)
            return []
