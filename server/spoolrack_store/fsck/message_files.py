"""Inspects message files: their names, by the rules of `batch_file`, and their contents. Reads only.

A batch is judged once two starts in a row list the same names of it, and a problem counts if another
one lists them still. Names are never made twice, so a batch that changed in between differs.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final

from ..engine.entries import BatchFile, Entry
from ..files.body_file import body_pieces, open_body
from ..files.disk import Disk
from ..model.batch_file import Damaged, Line, body, decode
from ..model.clock import DAY, SECOND, Clock, Millis, span_text
from ..model.members import indexes, lowest, runs
from ..model.message_content import MAX_DELAY
from ..model.message_ids import batch_of, sent_at
from ..model.names import Name, Stem, body_path, parse
from ..model.receipts import is_set_token
from ..model.settings import MAX_VISIBILITY
from ..model.transitions import COUNTED, State
from .findings import Findings, MessageCounts, Problem, Progress, QuarantinedFile, Remedy
from .trial_start import Paths, TrialStart

ROUNDS: Final = 6
"""Starts at most; files that still change are then reported as unchecked."""
_WHOLE: Final = "whole: it can be restored"
_SLACK: Final = Millis(60 * SECOND)
"""A clock may have been set back by so much, and no lease is called too long."""


@dataclass(slots=True)
class _Verdict:
    """A batch as one look has shown it."""

    batch: BatchFile
    problems: list[Problem]
    leftovers: list[tuple[str, str]]
    damaged: int = 0
    """The messages whose bytes aren't what was sent."""

    def blame(self, entry: Entry, members: int, why: str, remedy: Remedy = Remedy.QUARANTINE) -> None:
        path = entry.name.path
        self.problems.append(Problem(path=path, why=why, remedy=remedy, members=members))


class MessageInspector:
    """The inspection of all message files of one root."""

    def __init__(
        self,
        findings: Findings,
        clock: Clock,
        owners: frozenset[str],
        progress: Progress | None,
    ) -> None:
        """`owners` have a file in `owners/`."""
        self._findings = findings
        self._disk: Disk = findings.disk
        self._clock = clock
        self._owners = owners
        self._progress = progress
        self._verdicts: dict[str, _Verdict] = {}
        """By the text of a stem."""
        self._quarantined: dict[str, str] = {}
        """Of each name in quarantine, what is wrong with its messages."""

    def run(self) -> TrialStart:
        """Inspect all messages, and note what two starts in a row find; return the last one."""
        before, start = None, self._start()
        for _ in range(ROUNDS - 1):
            before, start = start, self._start()
            self._drop_changed(start.paths)
            for text in sorted(start.paths.keys() - self._verdicts.keys()):
                if before.paths.get(text) == start.paths[text]:
                    self._judge(text, start.paths[text], len(start.paths))
            if self._verdicts.keys() >= start.paths.keys():
                break
        self._note_doubles()
        if any(verdict.problems for verdict in self._verdicts.values()):
            before, start = start, self._start()
            self._drop_changed(start.paths)
        self._report(start.paths)
        assert before is not None
        for path in start.found.keys() & before.found.keys():
            self._findings.note(start.found[path])
        return start

    def _start(self) -> TrialStart:
        return TrialStart(self._disk, self._clock, self._owners)

    def _drop_changed(self, now: Paths) -> None:
        """Drop the verdict on a batch with a problem that has other names by now."""
        for text, verdict in list(self._verdicts.items()):
            known = {entry.name.path for entry in verdict.batch.entries}
            if verdict.problems and known != set(now.get(text, ())):
                del self._verdicts[text]

    def _report(self, now: Paths) -> None:
        report = self._findings.report
        for text in now.keys() - self._verdicts.keys():
            report.unchecked += parse(now[text][0]).stem.count or 1
        for verdict in self._verdicts.values():
            for problem in verdict.problems:
                self._findings.add(problem)
            for path, why in verdict.leftovers:
                self._findings.add_leftover(path, why)
            self._count(verdict)

    def _count(self, verdict: _Verdict) -> None:
        batch, report = verdict.batch, self._findings.report
        report.checked += batch.stem.count or 1
        for entry in batch.entries:
            name, whole = entry.name, entry.members & ~verdict.damaged
            if entry.members and (told := name.dead_letter_path) and not self._findings.exists(told):
                why = f"{told}, which tells how its messages died, is not there: only a backup has it"
                self._findings.add_unrepairable(name.path, why)
            if name.state is State.QUARANTINED:
                if entry.members:
                    report.quarantined.append(self._quarantined_file(entry))
                continue
            if whole:
                tally = report.queues.setdefault(name.queue, MessageCounts())
                tally.add(name.state, whole.bit_count(), batch.bytes_of(whole))

    def _quarantined_file(self, entry: Entry) -> QuarantinedFile:
        name, members = entry.name, entry.members
        is_lone = members.bit_count() == 1
        return QuarantinedFile(
            id=name.stem.message_id(lowest(members)) if is_lone else name.stem.id,
            name=name.path.partition("/")[2],
            path=name.path,
            source="",
            why=self._quarantined[name.path],
        )

    # One batch.

    def _judge(self, text: str, paths: list[str], total: int) -> None:
        names = [parse(path) for path in paths]
        batch = BatchFile(names[0].stem)
        for name in names:
            batch.add(name, 0)
        verdict = _Verdict(batch, [], [])
        try:
            if all(name.state is State.SENT for name in names):
                self._judge_sent(verdict)
            else:
                self._judge_published(verdict)
        except FileNotFoundError:
            return  # It has moved on: another round finds it.
        self._judge_times(verdict)
        self._verdicts[text] = verdict
        if self._progress is not None:
            self._progress(len(self._verdicts), max(total, len(self._verdicts)))

    def _judge_sent(self, verdict: _Verdict) -> None:
        """Judge a file of which all names are in `new/`: it was sent if it is whole."""
        batch = verdict.batch
        why = ""
        if not batch.was_sent:
            why = f"it was never sent: {_in_words(batch, batch.unlisted)} not listed"
        else:
            (_, verdict.damaged, damage), *_ = self._damages(batch, batch.entries[:1])
            why = f"it was never sent: {damage}" if verdict.damaged else ""
        if why:
            verdict.damaged = batch.stem.full
        for entry in batch.entries:
            if why:
                verdict.leftovers.append((entry.name.path, why))
            elif entry.name.owner not in self._owners:
                gone = "left by a process that is gone: the next one publishes it"
                verdict.leftovers.append((entry.name.path, gone))

    def _judge_published(self, verdict: _Verdict) -> None:
        batch = verdict.batch
        if batch.unlisted and not batch.is_over:
            why = (
                f"{_in_words(batch, batch.unlisted)} listed by no name of this file: it was "
                "deleted and a name in remove/ was unlinked too early, or a name was lost"
            )
            verdict.blame(batch.entries[-1], batch.unlisted, why)
        read = [e for e in batch.entries if e.members and e.name.state is not State.REMOVED]
        for entry, damaged, why in self._damages(batch, read):
            if entry.name.state is State.QUARANTINED:
                self._quarantined[entry.name.path] = why if damaged & entry.members else _WHOLE
            elif damaged & entry.members:
                members = damaged & entry.members
                verdict.damaged |= members
                if members != batch.stem.full:
                    why = f"{_in_words(batch, members)} damaged: {why}"
                verdict.blame(entry, members, why)

    def _judge_times(self, verdict: _Verdict) -> None:
        now = self._clock.wall()
        for entry in verdict.batch.entries:
            name = entry.name
            if not entry.members or name.state not in COUNTED:
                continue
            if is_set_token(name.token or "0"):
                continue  # The set's record says when its leases end.
            longest = MAX_VISIBILITY if name.state is State.LEASED else MAX_DELAY
            if name.due is not None and name.due > now + longest + _SLACK:
                word = "leased" if name.state is State.LEASED else "delayed"
                span = span_text(name.due - now)
                why = f"{word} for {span} from now, longer than may be: a clock was wrong"
                verdict.blame(entry, entry.members, why, Remedy.READY)
            sent = sent_at(name.stem.id)
            if sent > now + DAY:
                why = (
                    f"its id says that it was sent {span_text(sent - now)} from now: all that is sent "
                    "until then overtakes it; look at the clock, or delete it"
                )
                verdict.blame(entry, entry.members, why, Remedy.HAND)

    # Contents.

    def _damages(self, batch: BatchFile, entries: Sequence[Entry]) -> Iterator[tuple[Entry, int, str]]:
        """Yield for each entry which messages of its file are damaged, and why.

        All names are links of one file, which is read once; unless a copy of the root, or a file system
        that allows no more links, has made files of them.
        """
        of_all: tuple[int, str] | None = None
        for entry in entries:
            if self._links_of(entry.name.path) < len(batch.entries):
                yield entry, *self._damage(batch, entry.name)
                continue
            if of_all is None:
                of_all = self._damage(batch, entry.name)
            yield entry, *of_all

    def _links_of(self, path: str) -> int:
        """Return how many names a file has; 0 if the disk doesn't tell: `_damage` says so."""
        try:
            return self._disk.facts(path).links
        except FileNotFoundError:
            raise
        except OSError:
            return 0

    def _damage(self, batch: BatchFile, name: Name) -> tuple[int, str]:
        """Return which messages of the file at a name are damaged, and why."""
        stem = name.stem
        try:
            size = self._disk.facts(name.path).size
            if size < stem.length:
                return stem.full, f"it has {size} bytes instead of {stem.length}"
            if stem.is_external and (why := self._external_damage(stem, name.path)):
                return stem.full, why
            content = self._disk.read(name.path, stem.length)
        except FileNotFoundError:
            raise
        except OSError as error:
            self._findings.add_unrepairable(name.path, f"it can't be read: {error.strerror}")
            return 0, ""
        self._findings.report.bytes += len(content)
        try:
            line = decode(stem, content, len(content))
        except Damaged as error:
            return stem.full, str(error)
        batch.line = line
        if line.is_external:
            return self._external_content(stem, line)
        damaged, why = 0, ""
        for index in indexes(stem.full):
            try:
                body(line, content, index)
            except Damaged as error:
                damaged, why = damaged | 1 << index, str(error)
        return damaged, why

    def _external_damage(self, stem: Stem, path: str) -> str:
        """Return what is wrong with the size of a body in a file of its own; "": nothing."""
        try:
            size = self._disk.facts(body_path(stem.id)).size
        except FileNotFoundError:
            self._disk.facts(path)  # The message may have been deleted.
            return "its body is not there any more"
        return "" if size == stem.size else f"its body has {size} bytes instead of {stem.size}"

    def _external_content(self, stem: Stem, line: Line) -> tuple[int, str]:
        """Read a body in pieces; return which messages are damaged, and why."""
        path = body_path(stem.id)
        try:
            with open_body(self._disk, path, stem.size) as file:
                for piece in body_pieces(file, line):
                    self._findings.report.bytes += len(piece)
        except Damaged as error:
            return stem.full, str(error)
        except OSError as error:
            self._findings.add_unrepairable(path, f"it can't be read: {error.strerror}")
        return 0, ""

    # Two files of one message.

    def _note_doubles(self) -> None:
        """Note files that have messages of the same ids."""
        of_key: dict[tuple[str, bool], list[_Verdict]] = {}
        for verdict in self._verdicts.values():
            stem = verdict.batch.stem
            if any(entry.members and entry.name.state in COUNTED for entry in verdict.batch.entries):
                of_key.setdefault((stem.id, bool(stem.count)), []).append(verdict)
        suspects: dict[str, list[_Verdict]] = {}
        for (id, is_batch), verdicts in of_key.items():
            beside = [] if is_batch else of_key.get((batch_of(id), True), [])
            if len(verdicts) + len(beside) > 1:
                ids = map(verdicts[0].batch.stem.message_id, range(verdicts[0].batch.stem.count or 1))
                suspects |= {id: [*verdicts, *beside] for id in ids}
        for id, verdicts in sorted(suspects.items()):
            doubles = [verdict for verdict in verdicts if entry_in_queue(verdict.batch, id)]
            if len(doubles) > 1:
                self._note_double(id, sorted(doubles, key=_counts))

    def _note_double(self, id: str, verdicts: list[_Verdict]) -> None:
        *others, true = verdicts
        first = true.batch.entries[0].name.path
        for other in others:
            entry = entry_in_queue(other.batch, id)
            assert entry is not None
            members = other.batch.stem.mask_of(id)
            other.blame(entry, members, f"message {id} is in another file, too: {first}")


def entry_in_queue(batch: BatchFile, id: str) -> Entry | None:
    """Return the entry that holds the message `id`, if it is in a queue."""
    members = batch.stem.mask_of(id)
    entries = (entry for entry in batch.entries if entry.name.state in COUNTED)
    return next((entry for entry in entries if entry.members & members), None)


def _counts(verdict: _Verdict) -> tuple[bool, str]:
    """Rank files of one message; a damaged one never counts."""
    return not verdict.damaged, verdict.batch.stem.text


def _in_words(batch: BatchFile, members: int) -> str:
    """Return members of a batch in words, with the verb that they go with."""
    if not batch.stem.count:
        return "its message is"
    text = ", ".join(f"{a}" if a == b else f"{a}-{b}" for a, b in runs(members))
    return f"its message {text} is" if members.bit_count() == 1 else f"its messages {text} are"
