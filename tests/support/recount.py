"""Count anew, from the names of an index, all that it keeps by increments."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from functools import lru_cache
from itertools import chain
from operator import itemgetter

from spoolrack_store.engine.entries import BatchFile, Entry, Groups
from spoolrack_store.engine.entry_orders import EntryOrder, PriorityOrder
from spoolrack_store.engine.group_order import GroupOrder
from spoolrack_store.engine.index import Index
from spoolrack_store.engine.queue_index import CountsByAge, QueueIndex
from spoolrack_store.model.members import indexes, lowest
from spoolrack_store.model.message_ids import sent_at
from spoolrack_store.model.names import Name
from spoolrack_store.model.names import parse as _parse
from spoolrack_store.model.receipts import is_set_token
from spoolrack_store.model.statistics import QueueMetrics
from spoolrack_store.model.transitions import COUNTED, State

WAITS = (State.LEASED, State.DELAYED)
_OVER = (State.REMOVED, State.QUARANTINED)
parse = lru_cache(maxsize=10_000)(_parse)
"""A story looks at the same names after every commit."""


def names_in(index: Index) -> Iterator[tuple[Name, int]]:
    """Yield each name that the index knows, and which of its messages it holds."""
    for batch in index.batches.values():
        for entry in batch.entries:
            yield entry.name, entry.members
    for path in index.packed_paths:
        yield parse(path), 1


def paths_in(index: Index) -> set[str]:
    return {name.path for name, _ in names_in(index)}


def drifts(index: Index, now: int) -> list[str]:
    """Return what the index keeps that isn't what its names say at the monotonic time `now`."""
    entries = [entry for batch in index.batches.values() for entry in batch.entries]
    names = list(names_in(index))
    packed_entries = [_entry_of(index, parse(path)) for path in index.packed_paths]
    found: list[str] = []

    def compare(what: str, kept: object, counted: object) -> None:
        if kept != counted:
            found.append(f"{what} are kept as {kept}, and counted {counted}")

    for name, queue in index.queues.items():
        published = _published(name, index, names)
        if published is not None:
            kept = index.metrics.get(name) or QueueMetrics(name=name)
            compare(f"{name}'s published counts", kept, published)
        there = [each for each in names if each[0].queue == name and each[1]]
        all_of_it = [each for each in (*entries, *packed_entries) if each.name.queue == name]
        _compare_queue(name, queue, there, all_of_it, compare)
    leases: dict[str, dict[Entry, None]] = {}
    hiding = [entry for entry in entries if entry.members and entry.name.state in WAITS]
    packed = {entry.batch.stem.id for entry in packed_entries if entry.name.state in WAITS}
    for entry in hiding:
        if entry.name.token and is_set_token(entry.name.token):
            leases.setdefault(entry.name.token, {})[entry] = None
    compare("the leases of sets", index.leases_of, leases)
    ends = index.dues.times
    lost = [  # Those that are due are on their way back.
        entry for entry in hiding if index._due_key(entry) not in ends and entry.due > now
    ]
    compare("the hidden entries that come back at no time", [], lost)
    compare("the packed messages that come back at no time", set(), packed - ends.keys())
    keys = packed | {index._due_key(entry) for entry in hiding}
    compare("the ends of what isn't hidden", ends.keys() - keys, set())
    compare("the groups of what isn't packed", index._groups.keys() - index._packed.keys(), set())
    compare("the consumers of what isn't packed", index._consumers.keys() - packed, set())
    for batch in index.batches.values():
        _compare_names(batch, compare)
    loose = {batch for batch in index.batches.values() if batch.is_loose and not batch.is_over}
    compare("the loose files", set(index.loose_files), loose)
    known = set(chain(index._by_id.values(), *index._doubles.values()))
    compare("the files by id", known, set(index.batches.values()))
    compare("the packed messages that have objects", index._packed.keys() & index._by_id.keys(), set())
    return found


def _compare_names(batch: BatchFile, compare: Callable[[str, object, object], None]) -> None:
    is_open = [entry.name.state not in _OVER for entry in batch.entries]
    compare(f"whether {batch.stem.text} is over", batch.is_over, not any(is_open))
    loose = [each for each, entry in zip(is_open, batch.entries, strict=True) if not entry.members]
    compare(f"whether {batch.stem.text} is loose", batch.is_loose, any(loose))
    versions = [entry.name.version for entry in batch.entries]
    compare(f"the order of the names of {batch.stem.text}", versions, sorted(versions))
    held = {index: entry for entry in batch.entries for index in indexes(entry.members)}
    holders = {index: batch.holder(index) for index in range(batch.stem.count or 1)}
    compare(
        f"the holders in {batch.stem.text}",
        {index: entry for index, entry in holders.items() if entry is not None},
        held,
    )


def _entry_of(index: Index, name: Name) -> Entry:
    """Return the objects of a packed message, without unpacking it."""
    batch = BatchFile(name.stem)
    entry, _ = batch.add(name, 0)
    entry.counted = entry.members
    group = index._groups.get(name.stem.id)
    if group is not None:
        batch.groups = Groups({group: 1} if group else {}, 1)
    return entry


def _compare_queue(
    name: str, queue: QueueIndex, there: list[tuple[Name, int]], entries: list[Entry], compare: object
) -> None:
    assert callable(compare)
    counts, sent = dict.fromkeys(COUNTED, 0), CountsByAge()
    firsts: dict[State, set[str]] = {state: set() for state in COUNTED}
    levels: dict[int, set[str]] = {0: set()}
    size = 0
    for each, members in there:
        if each.state not in counts:
            continue
        stem, first = each.stem, each.stem.message_id(lowest(members))
        counts[each.state] += members.bit_count()
        firsts[each.state].add(first)
        if not stem.count:
            size += stem.counted
        if each.state is State.READY:
            sent.add(sent_at(stem.id), members.bit_count())
            if not stem.is_grouped:
                levels.setdefault(stem.priority, set()).add(first)
    for entry in entries:
        members = entry.members if entry.name.state in counts else 0
        if entry.counted != members:
            compare(f"the messages of {entry.name.path}", entry.counted, members)
        if entry.batch.stem.count and entry.counted:
            size += entry.batch.counted_bytes_of(entry.counted)
    compare(f"{name}'s counts", queue.counts, counts)
    compare(f"{name}'s bytes", queue.bytes, size)
    compare(
        f"{name}'s ages", (queue.ready_by_age.fine, queue.ready_by_age.coarse), (sent.fine, sent.coarse)
    )
    for state, order in queue.orders.items():
        compare(f"{name}'s {state.value} order", list(order.names), sorted(firsts[state]))
        compare(f"the length of {name}'s {state.value} order", len(order.names), len(firsts[state]))
    if queue.priorities is not None:
        kept = {priority: list(order.names) for priority, order in queue.priorities.levels.items()}
        counted = {priority: sorted(levels.get(priority, ())) for priority in kept}
        compare(f"{name}'s order of priorities", kept, counted)
    if queue.groups is not None:
        unpack = queue._unpack
        anew = GroupOrder(PriorityOrder(EntryOrder(unpack), unpack), 0, unpack)
        for entry in entries:
            anew.change(entry, 0, entry.counted)
        anew._is_strict = queue.groups._is_strict
        for group in anew._groups.values():
            anew._offer(group)
        compare(f"{name}'s available messages", queue.groups.available, anew.available)
        compare(f"{name}'s groups", _groups_of(queue.groups), _groups_of(anew))


def _published(name: str, index: Index, names: Iterable[tuple[Name, int]]) -> QueueMetrics | None:
    """Return what is to be published of a queue; None if its last commit isn't at its end, or if an
    answered send is still in `new/`."""
    heads = {State.READY: ("", 0), State.LEASED: ("", 0)}
    for each, members in names:
        if each.queue == name and members:
            if each.state is State.SENT:
                return None
            if each.state in heads:
                head = each.stem.message_id(lowest(members)), each.receives
                heads[each.state] = min(filter(itemgetter(0), (heads[each.state], head)))
    ready, leased = heads.values()
    first, receives = min(filter(itemgetter(0), (ready, leased)), key=itemgetter(0), default=("", 0))
    queue = index.queues[name]
    metrics = QueueMetrics(
        name=name,
        ready=queue.counts[State.READY],
        leased=queue.counts[State.LEASED],
        delayed=queue.counts[State.DELAYED],
        bytes=queue.bytes,
        first_ready=ready[0],
        oldest_ready_receives=ready[1],
        first=first,
        receives=receives,
        entered=queue.entered,
        left=queue.left,
    )
    return None if name in index.outdated_queues else metrics


def _groups_of(order: GroupOrder) -> dict[str, tuple[int, int, str | None]]:
    groups = order._groups.items()
    return {name: (group.waiting, group.offered, group.hidden.first()) for name, group in groups}
