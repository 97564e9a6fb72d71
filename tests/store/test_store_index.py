"""The index of what is hidden: its counts, its credits, and the heap of what is due."""

from __future__ import annotations

from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule
from spoolrack_store.index.hidden import Hidden, Index, QueueIndex
from spoolrack_store.index.ready import BatchFolder
from spoolrack_store.model.clock import Millis
from spoolrack_store.model.credits import Credits
from spoolrack_store.model.names import Batch, Entry, id_of

picks = st.integers(0, 1_000)


class HiddenStory(RuleBasedStateMachine):
    """Against a dictionary from name to the lease or delay that holds it."""

    def __init__(self) -> None:
        super().__init__()
        self.index = Index()
        self.queues = ("a", "b")
        for queue in self.queues:
            self.index.queues[queue] = QueueIndex()
        self.holders: dict[tuple[str, str], Hidden] = {}
        self.returned = 0
        self.credits = Credits(5, self._on_return)
        self.made = 0
        self.now = 0

    def _on_return(self) -> None:
        self.returned += 1

    def _name(self) -> str:
        self.made += 1
        return str(Entry(id=f"{self.made:08}-0000-7000-8000-000000000000", size=self.made, crc=1))

    @rule(
        queue=st.sampled_from(["a", "b"]),
        count=st.integers(1, 4),
        whole=st.booleans(),
        leased=st.booleans(),
        due=picks,
    )
    def hide(self, queue: str, count: int, whole: bool, leased: bool, due: int) -> None:
        names = [self._name() for _ in range(count if whole else 1)]
        item: str | BatchFolder = names[0]
        if whole:
            batch = Batch(id="f" * 8 + id_of(names[0])[8:], count=count)
            item = BatchFolder(batch, names, sum(int(name[:8]) for name in names))
        hidden = Hidden(
            item,
            due=Millis(due),
            due_monotonic=Millis(due),
            token="t" * 13 if leased else None,
            credits=self.credits if leased else None,
        )
        self.index.hide(queue, hidden)
        for name in names:
            self.holders[queue, name] = hidden

    def _pick(self, pick: int) -> tuple[str, str, Hidden] | None:
        if not self.holders:
            return None
        queue, name = sorted(self.holders)[pick % len(self.holders)]
        return queue, name, self.holders[queue, name]

    @rule(pick=picks, whole=st.booleans())
    def unhide(self, pick: int, whole: bool) -> None:
        found = self._pick(pick)
        if found is None:
            return
        queue, name, hidden = found
        before, held = self.returned, self.credits.in_flight
        leaving = list(hidden.names) if whole else [name]
        alone = not hidden.is_folder
        self.index.queues[queue].unhide(hidden, None if whole or alone else leaving)
        for each in leaving:
            del self.holders[queue, each]
        if hidden.credits is not None:
            assert self.returned == before + 1
            assert self.credits.in_flight == held - len(leaving)

    @rule(pick=picks, due=picks)
    def split(self, pick: int, due: int) -> None:
        found = self._pick(pick)
        if found is None or not found[2].is_folder or len(found[2].names) < 2:
            return
        queue, name, hidden = found
        before = self.returned
        alone = Hidden(
            name,
            due=Millis(due),
            due_monotonic=Millis(due),
            token=hidden.token,
            credits=hidden.credits,
        )
        self.index.queues[queue].split(hidden, name, alone)
        self.index.reschedule(queue, alone)
        self.holders[queue, name] = alone
        assert self.returned == before, "a lease that goes on gives no credit back"

    @rule(pick=picks, due=picks)
    def extend(self, pick: int, due: int) -> None:
        found = self._pick(pick)
        if found is not None:
            queue, _, hidden = found
            hidden.due_monotonic = Millis(due)
            self.index.reschedule(queue, hidden)

    @rule(by=st.integers(0, 200))
    def pop(self, by: int) -> None:
        """Everything due comes, each once, the earliest first; nothing else does."""
        self.now += by
        due = {id(h): (q, h) for (q, _), h in self.holders.items() if h.due_monotonic <= self.now}
        last = -1
        for _ in range(len(due)):
            found = self.index.pop_due(Millis(self.now))
            assert found is not None
            queue, hidden = found
            assert due.pop(id(hidden)) == found
            assert last <= hidden.due_monotonic
            last = hidden.due_monotonic
            for name in list(hidden.names):
                del self.holders[queue, name]
            self.index.queues[queue].unhide(hidden)
        assert self.index.pop_due(Millis(self.now)) is None

    @invariant()
    def the_counts_are_right(self) -> None:
        for queue in self.queues:
            index = self.index.queues[queue]
            ours = {name: h for (q, name), h in self.holders.items() if q == queue}
            assert index.leased == sum(h.token is not None for h in ours.values())
            assert index.delayed == sum(h.token is None for h in ours.values())
            assert index.bytes == sum(int(name[:8]) for name in ours)
            assert len(index) == len(ours)
            assert sorted(map(id, index.hidden())) == sorted({id(h) for h in ours.values()})
            for name, hidden in ours.items():
                assert index.find_hidden(id_of(name)) is hidden
                assert hidden.name_of(id_of(name)) == name
            leased = [id_of(n) for n, h in ours.items() if h.token is not None]
            assert index.oldest() == min(leased, default=None)

    @invariant()
    def credits_are_the_leases(self) -> None:
        assert self.credits.in_flight == sum(h.credits is not None for h in self.holders.values())

    @invariant()
    def the_next_due_is_the_earliest(self) -> None:
        dues = [hidden.due_monotonic for hidden in self.holders.values()]
        assert self.index.next_due() == min(dues, default=None)


TestHiddenMessagesAreCountedAndComeBack = HiddenStory.TestCase


def test_a_queue_that_is_gone_has_nothing_due() -> None:
    index = Index()
    index.queues["q"] = QueueIndex()
    name = str(Entry(id="0" * 8 + "-0000-7000-8000-000000000000", size=0, crc=0))
    index.hide("q", Hidden(name, due=Millis(1), due_monotonic=Millis(1), token=None))
    del index.queues["q"]
    assert index.next_due() is None
    assert index.pop_due(Millis(9)) is None
