"""How many messages are how old: right to the message for singles, a good guess for many folders."""

from __future__ import annotations

from bisect import bisect_right
from itertools import pairwise
from pathlib import Path
from random import Random

from hypothesis import given
from hypothesis import strategies as st
from spoolrack_store.index.ages import WEIGHED, ages_of
from spoolrack_store.index.order import SortedNames
from spoolrack_store.index.ready import BatchFolder, Ready
from spoolrack_store.model.clock import Clock, Millis
from spoolrack_store.model.ids import IdMaker, first_id_of
from spoolrack_store.model.names import Batch, Entry
from spoolrack_store.store import Store
from store_rig import opened

NOW = Millis(1_700_000_000_000)
BOUNDS = [Millis(1_000 << n) for n in range(11)]
MANY = 200_000


class Then(Clock):
    """Stands where it is put."""

    at = 0

    def wall(self) -> Millis:
        return Millis(self.at)

    def monotonic(self) -> Millis:
        return Millis(self.at)


class Looked(Ready):
    """Counts the folders that are looked at."""

    looks = 0

    def size_of_folder(self, first: str) -> int:
        self.looks += 1
        return super().size_of_folder(first)


def name_of(id: str) -> str:
    return str(Entry(id=id, size=1, crc=0))


def bucket_of(age: int) -> int:
    return bisect_right(BOUNDS, age - 1)


def add_folders(ready: Ready, ages: list[int], sizes: list[int]) -> list[int]:
    """Add a folder for each age; how many messages lie between the bounds in truth."""
    clock, true = Then(), [0] * (len(BOUNDS) + 1)
    ids = IdMaker(clock, Random(3))
    for age, size in sorted(zip(ages, sizes, strict=True), reverse=True):
        clock.at = NOW - age
        batch = Batch(id=ids.make(), count=size)
        ready.add_folder(BatchFolder(batch, [name_of(ids.make()) for _ in range(size)], size))
        true[bucket_of(age)] += size
    return true


@given(ages=st.lists(st.integers(0, 3_000_000), max_size=80))
def test_singles_are_counted_to_the_message(ages: list[int]) -> None:
    clock, true, ready = Then(), [0] * (len(BOUNDS) + 1), Ready()
    ids = IdMaker(clock, Random(3))
    for age in sorted(set(ages), reverse=True):
        clock.at = NOW - age
        ready.add(name_of(ids.make()))
        true[bucket_of(age)] += 1

    found = ages_of(ready, NOW, BOUNDS)

    assert (list(found.counts), found.is_exact) == (true, True)


def test_a_message_is_as_old_as_a_bound_only_once_it_is_older() -> None:
    ready = Ready()
    for age in (999, 1_000, 1_001):
        ready.add(name_of(first_id_of(Millis(NOW - age))))

    assert ages_of(ready, NOW, BOUNDS).counts[:2] == (2, 1)


def test_few_folders_are_counted_to_the_message_and_those_nobody_looked_into_as_their_names_say() -> (
    None
):
    ready = Ready()
    true = add_folders(ready, [500, 1_500, 1_700, 5_000, 9_000_000], [3, 4, 5, 6, 7])
    ready.add_unlisted(Batch(id=first_id_of(Millis(NOW - 600)), count=40))
    true[0] += 40

    found = ages_of(ready, NOW, BOUNDS)

    assert (list(found.counts), found.is_exact) == (true, True)


def test_of_many_folders_a_bounded_number_is_looked_at_and_the_guess_is_close() -> None:
    random, ready = Random(11), Looked()
    ages = random.sample(range(1, 4_000_000), 20_000)
    # As uneven as folders get: most have few messages, some many.
    sizes = [min(200, 1 + int(random.expovariate(1 / 8))) for _ in ages]
    true = add_folders(ready, ages, sizes)

    found = ages_of(ready, NOW, BOUNDS)

    assert ready.looks <= WEIGHED * (len(BOUNDS) + 1)
    assert not found.is_exact
    assert sum(found.counts) == sum(true) == ready.count
    for guessed, count in zip(found.counts, true, strict=True):
        assert abs(guessed - count) <= max(3, count * 0.20)


def test_a_crowd_of_singles_is_counted_without_a_look_at_each() -> None:
    class CountedList(list[str]):
        """A chunk that counts whose names are read."""

        reads = 0

        def __getitem__(self, at: object) -> object:  # type: ignore[override]
            CountedList.reads += 1
            return super().__getitem__(at)  # type: ignore[index]

    names = [name_of(first_id_of(Millis(NOW - age))) for age in range(MANY)]
    ready = Ready()
    ready.add_many(names, MANY)
    order: SortedNames = ready.singles_in_order
    order._chunks = [CountedList(chunk) for chunk in order._chunks]

    found = ages_of(ready, NOW, BOUNDS)

    assert (sum(found.counts), found.is_exact) == (MANY, True)
    assert found.counts[:3] == (1_001, 1_000, 2_000)
    assert CountedList.reads < 1_000


@given(
    places=st.lists(st.integers(0, 3_000), max_size=6).map(sorted),
    total=st.integers(0, 3_000),
    most=st.integers(1, 40),
)
def test_a_sample_is_spread_evenly_over_what_is_counted(
    places: list[int], total: int, most: int
) -> None:
    every = [f"{n:05}" for n in range(total)]
    names = SortedNames(every)

    assert names.counts_below([f"{n:05}" for n in places]) == [min(n, total) for n in places]
    for first, end in pairwise(places):
        taken = names.sample(first, end, most)
        within = every[first:end]
        assert len(taken) == min(most, len(within))
        assert taken == sorted(set(taken))
        assert set(taken) <= set(within)
        if len(within) <= most:
            assert taken == within


def test_what_a_store_did_to_a_queue_is_counted_and_a_retry_is_not(tmp_path: Path) -> None:
    with opened(tmp_path) as rig:
        rig.create()
        rig.create("dead")
        rig.create("letters", dead_letter_queue="dead", max_receives=1)
        rig.send(b"a", b"b", b"c")
        (first,) = rig.receive(1)
        rig.delete(first)
        rig.delete(first)
        rig.send(b"d", queue="letters")
        rig.receive(1, queue="letters")
        rig.clock.advance(30_001)
        assert rig.receive(1, queue="letters") == []

        traffic = {q.name: (q.traffic.entered, q.traffic.left) for q in rig.store.queues()}

    assert traffic == {"q": (3, 1), "letters": (1, 1), "dead": (1, 0)}


def test_a_store_says_who_has_its_root_open(tmp_path: Path) -> None:
    with Store.open(tmp_path) as store:
        (owner,) = store.overview.owners()
        assert owner.is_me
        assert owner.about.startswith("pid ")
        with Store.open(tmp_path) as other:
            assert [o.is_me for o in other.overview.owners()].count(True) == 1
            assert len(store.overview.owners()) == 2


def test_a_queue_that_is_not_there_has_no_ages(tmp_path: Path) -> None:
    with opened(tmp_path) as rig:
        rig.create()
        rig.send(b"x")
        found = rig.store.overview.ages(["q", "nobody"], BOUNDS)

    assert list(found) == ["q"]
    assert found["q"].counts[0] == 1
