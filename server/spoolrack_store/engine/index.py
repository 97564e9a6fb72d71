"""The index in memory: the names of all batches, and the waiting messages of each queue, in order.

The index changes in two ways only: a name appears, or a name disappears. A start takes in a listing so,
a commit its own moves, and a process that shares its root the moves of others. It never touches the
disk.

A packed message is a lone one that nothing has touched lately, in any state: the index keeps the path
of its only name, and its places in the orders. So a deep backlog takes few bytes, and the collector of
garbage sees none of it. Its objects are made when something asks for it, and it is packed again if it
stays. A start packs what it lists. Packing is safe between commits alone, while no part holds an entry.
"""

from __future__ import annotations

from collections import defaultdict, deque
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from sys import intern
from typing import Final

from ..files.spares import Spare
from ..model.batch_file import Line
from ..model.clock import Millis
from ..model.message_ids import ID_LENGTH, batch_of, index_of, sent_at
from ..model.names import PACKABLE, Name, dead_letter_path, parse
from ..model.receipts import is_set_token
from ..model.statistics import QueueMetrics
from ..model.transitions import COUNTED, State
from .deadlines import Deadlines
from .entries import BatchFile, Entry, Groups, LeaseShare
from .queue_index import QueueIndex

UNPACKED: Final = 5_000
"""So many lone messages have their objects: those that go soon cost no packing."""
_PACKS: Final = 1_000
"""Messages that one commit packs at most, beside as many as came since the one before."""
_WAITS: Final = (State.LEASED, State.DELAYED)
_OVER: Final = (State.REMOVED, State.QUARANTINED)


class Index:
    """The names of all queues in memory. Not thread-safe."""

    def __init__(self) -> None:
        self.batches: dict[str, BatchFile] = {}
        """All files but those of packed messages, by the texts of their stems."""
        self._packed: dict[str, str] = {}
        """The paths of packed messages, by their ids."""
        self._groups: dict[str, str] = {}
        """The groups of those that have one, or whose file could not say it."""
        self._consumers: dict[str, str] = {}
        """The time in hexadecimal and the consumer of the receives of those whose consumer is known."""
        self.to_be_packed: deque[str] = deque()
        """Ids of messages that may be packed, those that have waited longest first; some are gone."""
        self._left_to_pack = 0
        """As many ids the last commit has left."""
        self.unpacked = UNPACKED
        self._by_id: dict[str, BatchFile] = {}
        """By the id of the file, and for a batch an "n", as its first message has the same id."""
        self._doubles: dict[str, list[BatchFile]] = {}
        """Files with one id, which only a hand can make."""
        self.unused_dead_letter_files: dict[str, int] = {}
        """Dead-letter files that no name refers to any more, and the commit that must be durable before
        they are unlinked."""
        self.queues: dict[str, QueueIndex] = {}
        self.new_keyed_files: dict[BatchFile, None] = {}
        """New batches with deduplication keys, which are not taken in yet."""
        self.unread_group_files: dict[BatchFile, None] = {}
        """Batches whose groups are not known yet: their messages have to wait."""
        self.loose_files: dict[BatchFile, None] = {}
        """Batches that have a name outside `remove/` which may be unlinked after a sync."""
        self.deleted_files: dict[BatchFile, None] = {}
        """Batches whose names in `remove/` the reaper may have after a sync."""
        self.in_spares: dict[str, Spare] = {}
        """Files that have a spare's name on the disk still, by their paths in `new/`."""
        self.outdated_queues: dict[str, None] = {}
        """Queues whose metrics are behind."""
        self.metrics: dict[str, QueueMetrics] = {}
        """The counts of each queue that had a message, as of the last commit's end. Each is replaced,
        and never changed, so that it is read in any thread."""
        self.changed_queues: dict[str, None] = {}
        """Queues that may have become able to give something to those that wait: they take them out."""
        self.dues = Deadlines[str]()
        """When leases and delays end: of a lone message by its id, of any other entry by its path."""
        self._listed = 0
        """The commit that makes durable what the last listing has packed."""
        self.leases_of: dict[str, dict[Entry, None]] = {}
        """The leases of reserved sets, by their tokens."""
        self.is_answer = True
        """Whether consumers end the leases that end now; not time, or the loss of a response."""

    def queue(self, name: str) -> QueueIndex:
        found = self.queues.get(name)
        if found is None:
            found = self.queues[name] = QueueIndex(self.unpack)
        return found

    def drop_queue(self, name: str) -> None:
        """Know no more of a queue that was deleted, once it has no message."""
        queue = self.queues.get(name)
        if queue is None or not queue.total:
            self.queues.pop(name, None)
            self.metrics.pop(name, None)

    def update_metrics(self, sent: Mapping[Entry, int], synced: int) -> None:
        """Bring the metrics of the queues that have changed up to date.

        `sent` are files in `new/`, and the commits that wrote them: those up to `synced` were answered,
        and count as if they were in their queues.
        """
        touched, self.outdated_queues = self.outdated_queues, {}
        answered: dict[str, list[Entry]] = {}
        for entry, commit in sent.items():
            if commit > synced:
                self.outdated_queues[entry.name.queue] = None
            elif entry.members:
                answered.setdefault(entry.name.queue, []).append(entry)
        for name in touched:
            if name not in self.queues and name not in answered:
                continue  # It was deleted.
            queue = self.queues.get(name) or self.queue(name)
            kept, entered, size = self.metrics.get(name), queue.entered, queue.bytes
            ready, leased, delayed = queue.counts.values()
            heads = {State.READY: ("", 0), State.LEASED: ("", 0)}
            for state in heads:
                order = queue.orders[state]
                if chunks := order.names._chunks:
                    first = chunks[0][0]
                    head = order._by_first.get(first)
                    if head is not None:
                        heads[state] = first, head.name.receives
                    elif kept is not None and kept.first == first:
                        heads[state] = first, kept.receives  # It is packed, so nothing touched it.
                    else:
                        heads[state] = first, parse(self._packed[first]).receives
            ready_head, leased_head = heads.values()
            for entry in answered.get(name, ()):
                count, stem = entry.members.bit_count(), entry.batch.stem
                if count == (stem.count or 1):
                    size += stem.size + stem.attributes  # No call for what is nearly always so.
                else:
                    size += entry.batch.counted_bytes_of(entry.members)
                entered += count
                if entry.name.due is not None:
                    delayed += count
                    continue
                ready += count
                if not ready_head[0] or entry.batch.stem.id < ready_head[0]:
                    ready_head = entry.batch.stem.id, 0
            oldest = ready_head
            if leased_head[0] and not "" < ready_head[0] < leased_head[0]:
                oldest = leased_head
            self.metrics[name] = QueueMetrics(
                name=name,
                ready=ready,
                leased=leased,
                delayed=delayed,
                bytes=size,
                first_ready=ready_head[0],
                oldest_ready_receives=ready_head[1],
                first=oldest[0],
                receives=oldest[1],
                entered=entered,
                left=queue.left,
            )

    def batch(self, id: str) -> tuple[BatchFile, int] | None:
        """Return the file that has the message `id`, and the message's index in it."""
        if id in self._packed:
            self.unpack(id)
        batch, index = self._by_id.get(batch_of(id) + "n"), index_of(id)
        if batch is not None and index < batch.stem.count:
            return batch, index
        lone = self._by_id.get(id)
        return None if lone is None else (lone, 0)

    def holder(self, id: str) -> tuple[Entry, int] | None:
        """Return the entry that holds the message `id`, and the message's index; None if it is not
        there."""
        found = self.batch(id)
        if found is None:
            return None
        batch, index = found
        entry = batch.holder(index)
        return None if entry is None else (entry, index)

    def appear(self, name: Name, commit: int, *, due: int = 0) -> Entry:
        """Add a name; `due` is the monotonic time at which its lease or delay ends."""
        if name.stem.id in self._packed:
            self.unpack(name.stem.id)
        batch = self.batches.get(name.stem.text)
        is_new = batch is None
        if batch is None:
            batch = self.batches[name.stem.text] = BatchFile(name.stem)
        entry, losers = batch.add(name, commit)
        if is_new:
            self._register(batch)
            if name.stem.key is not None:
                self.new_keyed_files[batch] = None
            if name.stem.is_grouped:
                self.unread_group_files[batch] = None
        if name.death is not None and name.death.file and self.unused_dead_letter_files:
            self.unused_dead_letter_files.pop(dead_letter_path(name.stem.id, name.death.file), None)
        entry.due = due
        for loser in losers:
            self.outdated_queues[loser.name.queue] = None  # Also of a file in `new/`.
            if loser.shares:
                self._pass_on(loser, entry)
            if loser.name.state in COUNTED:
                self._count(loser, loser.members)
            if not loser.members:
                self.loose_files[batch] = None
        if name.state in COUNTED:
            self._count(entry, entry.members)
            if not name.stem.count:
                self.to_be_packed.append(name.stem.id)
        if name.state in _WAITS:
            self.schedule(entry, due)
        if name.state is State.REMOVED:
            if batch.is_over:
                self.deleted_files[batch] = None
        elif not entry.members:
            self.loose_files[batch] = None
        return entry

    def disappear(self, entry: Entry, commit: int) -> None:
        """Remove a name. Its messages that no other name lists are gone."""
        batch = entry.batch
        members = entry.members
        if entry.name.state is State.SENT:
            self.outdated_queues[entry.name.queue] = None
        batch.drop(entry, commit)
        entry.members = 0
        if entry.shares:
            self._pass_on(entry, None)
        if entry.counted:
            self._count(entry, 0)
        if entry.name.death is not None and entry.name.death.file:
            self._leave_untold(batch, entry.name.death.file, commit)
        if members:
            self._fall_back(batch, members, commit)
        if not batch.entries:
            self.loose_files.pop(batch, None)
            self.deleted_files.pop(batch, None)
            self.unread_group_files.pop(batch, None)
            del self.batches[batch.stem.text]
            self._unregister(batch)
        elif batch.is_over:
            self.loose_files.pop(batch, None)
            self.deleted_files[batch] = None
        elif batch in self.loose_files and not batch.is_loose:
            del self.loose_files[batch]

    def rename(self, entry: Entry, name: Name, commit: int, *, due: int = 0) -> Entry:
        """Replace the only name of a file by another one, to which all that it holds moves: what
        `appear` and `disappear` do, at once."""
        batch, old, members = entry.batch, entry.name, entry.members
        made = Entry(batch, name)
        made.due = due
        batch.entries, batch.top, batch.changed = (made,), name.version, commit
        entry.members, entry.taken = 0, commit
        self.outdated_queues[old.queue] = None  # Also of a file in `new/`.
        if entry.shares:
            self._pass_on(entry, made)
        if old.state in COUNTED:
            self._count(entry, 0)
        if name.state in COUNTED:
            self._count(made, members)
            if not name.stem.count:
                self.to_be_packed.append(name.stem.id)
        if name.state in _WAITS:
            self.schedule(made, due)
        elif name.state in _OVER:
            self.deleted_files[batch] = None
        return made

    def unknown_disappears(self, name: Name, commit: int) -> None:
        """Note the end of a name that another process had in `new/`: its batch may be over."""
        batch = self.batches.get(name.stem.text)
        if batch is not None:
            batch.changed = commit
            if batch.is_over:
                self.deleted_files[batch] = None

    def _fall_back(self, batch: BatchFile, members: int, commit: int) -> None:
        """Let the names that are left hold what the highest one held: it was removed by hand."""
        for other in reversed(batch.entries):
            back = members & other.name.members
            if not back:
                continue
            members &= ~back
            batch.regain(other, back, commit)
            self._count(other, other.members)
            if other.name.state in _WAITS:
                self.schedule(other, other.due)

    def entry_at(self, name: Name) -> Entry | None:
        """Return the entry with the path of `name`."""
        batch = self.file(name.stem.text)
        return None if batch is None else batch.entry_at(name)

    def file(self, text: str) -> BatchFile | None:
        """Return the file whose stem has this text."""
        id = text[:ID_LENGTH]
        if id in self._packed:
            self.unpack(id)
        return self.batches.get(text)

    def entries_of(self, text: str) -> Sequence[Entry]:
        """Return the entries of the file whose stem has this text, or of the lone message with this
        id."""
        file = self.file(text) or self._by_id.get(text)
        return () if file is None else file.entries

    def has_file_of(self, id: str) -> bool:
        """Return whether there is a file of this message alone, in any state."""
        return id in self._by_id or id in self._packed

    # Packed messages.

    def may_be_packed(self, batch: BatchFile) -> None:
        """Pack the message of a file if others follow it, and nothing else touches it."""
        if not batch.stem.count:
            self.to_be_packed.append(batch.stem.id)

    def pack(self, synced: int) -> None:
        """Pack messages that have waited long, so that no more than `unpacked` aren't. No part may hold
        their entries."""
        came = len(self.to_be_packed) - self._left_to_pack
        for _ in range(min(len(self.to_be_packed) - self.unpacked, _PACKS + came)):
            batch = self._by_id.get(self.to_be_packed[0])
            if batch is not None and batch.changed > synced:
                break  # Nor are those behind it durable.
            self.to_be_packed.popleft()
            if batch is not None and len(batch.entries) == 1 and self._is_its_name(batch.entries[0]):
                self._pack(batch, batch.entries[0])
        self._left_to_pack = len(self.to_be_packed)

    def _is_its_name(self, entry: Entry) -> bool:
        """Return whether the path of a lone message's only name says all about it, but for its group
        and consumer. What flow control counts is never packed: that bounds it."""
        name, batch = entry.name, entry.batch
        id = batch.stem.id
        return (
            name.state in COUNTED
            and bool(entry.members)
            and name.version == batch.top
            and (name.state is State.READY or id in self.dues.times)
            and not (name.token and is_set_token(name.token))
            and all(share.credits is None for share in entry.shares)
            and batch not in self.new_keyed_files
            and batch not in self.unread_group_files
            and id not in self._doubles
            and batch_of(id) + "n" not in self._by_id
        )

    def _pack(self, batch: BatchFile, entry: Entry) -> None:
        id = batch.stem.id
        for order in self.queues[entry.name.queue].orders_of(entry):
            order.hide(entry)
        del self.batches[batch.stem.text], self._by_id[id]
        batch.entries = ()  # No cycle is left to the collector.
        self._packed[id] = entry.name.path
        if batch.groups is not None:
            self._groups[id] = intern(batch.groups.of(0))
        for share in entry.shares:
            self._consumers[id] = f"{share.since:x} {share.consumer}"

    def unpack(self, id: str) -> Entry:
        """Make the objects of a packed message."""
        entry = self.look_at_packed(id)
        self.batches[entry.batch.stem.text] = self._by_id[id] = entry.batch
        del self._packed[id]
        self._groups.pop(id, None)
        self._consumers.pop(id, None)
        for order in self.queues[entry.name.queue].orders_of(entry):
            order.show(entry)
        self.to_be_packed.append(id)
        return entry

    def look_at_packed(self, id: str) -> Entry:
        """Return the entry of a packed message, which stays packed. It must not be changed."""
        name = parse(self._packed[id])
        batch = BatchFile(name.stem)
        group = self._groups.get(id)
        if group is not None:
            batch.groups = Groups({group: 1} if group else {}, 1)
        entry, _ = batch.add(name, self._listed)
        entry.counted = entry.members
        entry.due = self.dues.times.get(id, 0)
        since, _, consumer = self._consumers.get(id, "").partition(" ")
        if since:
            share = LeaseShare(1, name.stem.counted, None, consumer, Millis(int(since, 16)), 0, 1)
            entry.shares = (share,)
        return entry

    def pack_listed(
        self, paths: Iterable[str], commit: int, due_of: Callable[[int, bool], int]
    ) -> tuple[list[str], list[str]]:
        """Take in the paths of a listing, in order, of what can be packed; return the ids of that, and
        the other paths. `due_of` returns the monotonic time of a Unix time, and whether it ends a
        lease."""
        packed, by_id = self._packed, self._by_id
        others: list[str] = []
        found: defaultdict[tuple[str, State], tuple[list[str], list[int]]]
        found = defaultdict(lambda: ([], []))
        for path in paths:
            match = PACKABLE.fullmatch(path)
            if match is None:
                others.append(path)
                continue
            ready, hidden, id, body, attributes, due, token = match.groups()
            if (
                id in packed
                or (by_id and (id in by_id or batch_of(id) + "n" in by_id))
                or (token and is_set_token(token))
            ):
                others.append(path)
                continue
            packed[id] = path
            state = State.READY if ready else State.LEASED if token else State.DELAYED
            if due:
                self.dues.set(id, Millis(due_of(int(due), token is not None)))
            ids, sizes = found[ready or hidden, state]
            ids.append(id)
            sizes.append(int(body) + int(attributes or 0))
        for (queue, state), (ids, sizes) in found.items():
            self._listed = commit
            self.queue(queue).extend(state, ids, sum(sizes))
            self.changed_queues[queue] = self.outdated_queues[queue] = None
        return [id for ids, _ in found.values() for id in ids], others

    @property
    def packed_paths(self) -> Collection[str]:
        """The paths of all packed messages."""
        return self._packed.values()

    def _register(self, batch: BatchFile) -> None:
        key = batch.stem.id + "n" if batch.stem.count else batch.stem.id
        there = self._by_id.setdefault(key, batch)
        if there is not batch:
            self._doubles.setdefault(key, [there]).append(batch)

    def _unregister(self, batch: BatchFile) -> None:
        key = batch.stem.id + "n" if batch.stem.count else batch.stem.id
        doubles = self._doubles.get(key)
        if doubles is None:
            del self._by_id[key]
            return
        doubles.remove(batch)
        self._by_id[key] = doubles[0]
        if len(doubles) == 1:
            del self._doubles[key]

    def _leave_untold(self, batch: BatchFile, file: str, commit: int) -> None:
        """Note a dead-letter file, if no name of the batch refers to it any more."""
        for other in batch.entries:
            if other.name.death is not None and other.name.death.file == file:
                return
        self.unused_dead_letter_files[dead_letter_path(batch.stem.id, file)] = commit

    def due(self, now: Millis) -> Iterator[Entry]:
        """Yield the entries whose lease or delay is over; the caller moves them, or schedules them
        again."""
        while (due := self.dues.next()) is not None and due <= now:
            key = self.dues.pop(now) or ""
            if key in self._packed:
                self.unpack(key).due = due
            named = self.entry_at(parse(key)) if "/" in key else None
            for entry in self.entries_of(key) if named is None else (named,):
                # Of a copied file the key may be that of the other one.
                if entry.members and entry.name.state in _WAITS and entry.due <= now:
                    yield entry

    def schedule(self, entry: Entry, due: int) -> None:
        """Let the lease or delay of an entry end then."""
        if entry.members:
            self.dues.set(self._due_key(entry), Millis(due))

    def _due_key(self, entry: Entry) -> str:
        stem = entry.batch.stem
        return entry.name.path if stem.count or stem.id in self._doubles else stem.id

    def end_shares(self, entry: Entry) -> None:
        """Let no consumer hold an entry any more, whose lease goes on for now."""
        shares, entry.shares = entry.shares, ()
        for share in shares:
            if share.credits is not None:
                share.credits.give_back(share.members.bit_count(), share.size, is_answer=False)

    def _pass_on(self, loser: Entry, winner: Entry | None) -> None:
        """Let the shares of messages follow them: a lease that was extended goes on, any other is
        over."""
        kept: list[LeaseShare] = []
        goes_on = winner is not None and winner.name.token == loser.name.token
        for share in loser.shares:
            left, lost = share.members & loser.members, share.members & ~loser.members
            # Of a part of a file that isn't in memory any more they are a guess: the sum is exact.
            lost_size = share.size
            if left and lost_size:
                lost_size = min(lost_size, loser.batch.counted_bytes_of(lost))
            if lost and goes_on:
                assert winner is not None
                winner.shares += (LeaseShare(lost, lost_size, *share[2:]),)
            elif lost and share.credits is not None:
                share.credits.give_back(lost.bit_count(), lost_size, is_answer=self.is_answer)
            if left:
                kept.append(LeaseShare(left, share.size - lost_size, *share[2:]))
        loser.shares = tuple(kept)

    def learn(self, batch: BatchFile, line: Line | None) -> None:
        """Keep a file's line about its messages, for exact byte counts; None: drop it."""
        counted: list[tuple[Entry, int]] = []
        for entry in batch.entries:
            if entry.counted:
                counted.append((entry, entry.counted))
                self.outdated_queues[entry.name.queue] = None
                self.queues[entry.name.queue].bytes -= batch.counted_bytes_of(entry.counted)
        batch.line = line
        if line is not None and batch.groups is None and batch.stem.is_grouped:
            self.learn_groups(batch, line.groups)
        for entry, members in counted:
            self.queues[entry.name.queue].bytes += batch.counted_bytes_of(members)

    def learn_groups(self, batch: BatchFile, groups: Mapping[str, int]) -> None:
        """Order the messages of a file by groups: `groups` has the members of each group."""
        batch.groups = Groups(groups, batch.stem.full)
        self.unread_group_files.pop(batch, None)
        self.may_be_packed(batch)
        for entry in batch.entries:
            queue = self.queues[entry.name.queue] if entry.counted else None
            self.changed_queues[entry.name.queue] = None
            if queue is not None and queue.groups is not None:
                queue.groups.change(entry, 0, entry.counted)

    def _count(self, entry: Entry, members: int) -> None:
        """Make the queue's figures and order be as if the entry held `members`."""
        name = entry.name
        if name.state not in COUNTED:
            return
        queue = self.queue(name.queue)
        stem = entry.batch.stem
        was = entry.counted
        if queue.groups is None and members:
            if stem.is_grouped:
                queue.order_by_group()
            elif stem.priority and queue.priorities is None and name.state is State.READY:
                queue.order_by_priority()
        self.outdated_queues[name.queue] = None
        queue.counts[name.state] += members.bit_count() - was.bit_count()
        if members:
            queue.bytes += entry.batch.counted_bytes_of(members)
        if was:
            queue.bytes -= entry.batch.counted_bytes_of(was)
        entry.counted = members
        if members and not was:
            if name.token and is_set_token(name.token):
                self.leases_of.setdefault(name.token, {})[entry] = None
        elif was and not members and name.token and is_set_token(name.token):
            del self.leases_of[name.token][entry]
            if not self.leases_of[name.token]:
                del self.leases_of[name.token]
        queue.orders[name.state].change(entry, was, members)
        if name.state in _WAITS and was and not members:
            self.dues.discard(self._due_key(entry))  # Else it is that of a higher name of the message.
        if name.state is State.READY or queue.groups is not None or not members:
            self.changed_queues[name.queue] = None  # A lease that ends frees a place.
        if name.state is State.READY:
            queue.ready_by_age.add(sent_at(stem.id), members.bit_count() - was.bit_count())
            if queue.priorities is not None:
                queue.priorities.change(entry, was, members)
        if queue.groups is not None:
            queue.groups.change(entry, was, members)
