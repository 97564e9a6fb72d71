"""Queries of messages, without leasing them and without stopping commits."""

from __future__ import annotations

import threading
from contextlib import nullcontext
from pathlib import Path
from typing import BinaryIO

import pytest
from spoolrack_store import questions
from spoolrack_store.engine.entries import Entry
from spoolrack_store.files.disk import Space
from spoolrack_store.model.clock import Millis
from spoolrack_store.model.errors import (
    DiskError,
    MessageDamaged,
    MessageNotFound,
)
from spoolrack_store.model.message_ids import sent_at
from spoolrack_store.model.operations import CreateQueue, Delete, Message, MessageFilter, Receive, Send
from spoolrack_store.model.reservation_requests import ExtendReservation, Reserve
from spoolrack_store.model.settings import QueueSettings
from spoolrack_store.model.transitions import State

from tests.store.front_rig import FrontRig, opened
from tests.support.listing import messages_in

HOLD = Millis(60_000)


def all_of(rig: FrontRig, limit: int, *states: State, most: int | None = None) -> list[Message]:
    """Return all messages of the queue, page by page."""
    found: list[Message] = []
    after = ""
    while page := messages_in(
        rig.store, "q", states=frozenset(states), after=after, limit=limit, max_body_bytes=most
    ):
        assert len(page) <= limit
        found += page
        after = page[-1].id
    return found


def test_pages_hold_each_message_once_and_in_order_whatever_state_it_is_in(rig: FrontRig) -> None:
    ids = rig.send(*[b"%d" % number for number in range(20)])
    ids += rig.send(b"alone")
    ids += rig.ask(Send(queue="q", bodies=[b"later"] * 3, delays=dict.fromkeys(range(3), HOLD))).results
    ids += rig.send(*[b"more"] * 5)
    leased = [id for _ in range(3) for each in rig.receive(3) for id in each.ids]
    rig.ask(Delete(queue="q", ids=[ids[4], ids[12]]))
    rig.manual_clock.advance(31_000)
    again = [id for each in rig.receive(2) for id in each.ids]
    left = [id for id in ids if id not in (ids[4], ids[12])]
    assert len(leased) == 9

    for limit in (1, 2, 7, 100):
        found = all_of(rig, limit)
        assert [each.id for each in found] == left
        assert [each.id for each in all_of(rig, limit, State.LEASED)] == again
        assert [each.body for each in all_of(rig, limit, State.DELAYED)] == [b"later"] * 3
        hidden = {*again, *ids[21:24]}
        ready = [id for id in left if id not in hidden]
        assert [each.id for each in all_of(rig, limit, State.READY)] == ready


def test_a_list_passes_over_as_many_messages_as_it_is_told_and_ends_where_it_is_told(
    rig: FrontRig,
) -> None:
    ids = rig.send(*[b"%d" % number for number in range(20)])
    rig.manual_clock.advance(1_000)
    ids += rig.send(b"alone")
    rig.manual_clock.advance(1_000)
    ids += rig.send(*[b"more"] * 5)
    rig.receive(3)
    rig.ask(Delete(queue="q", ids=[ids[4], ids[12]]))
    left = [id for id in ids if id not in (ids[4], ids[12])]

    for skip in range(len(left) + 2):
        for after, end in (("", 26), (ids[2], 26), ("", 21), (ids[2], 20)):
            before = sent_at(ids[end]) if end < len(ids) else None
            page = rig.store.page("q", MessageFilter(sent_before=before), skip=skip, after=after)
            wanted = [id for id in ids[:end] if id in left and after < id]
            assert [each.id for each in page.messages] == wanted[skip:]
            assert page.last == ""


def test_a_page_costs_by_what_it_shows(rig: FrontRig, monkeypatch: pytest.MonkeyPatch) -> None:
    ids = [id for number in range(300) for id in rig.send(b"%d" % number)]
    for _ in range(100):
        rig.receive()
    for state, after in ((State.READY, ids[150]), (State.LEASED, ids[50])):
        messages_in(rig.store, "q", states=frozenset({state}), limit=3)
        looks: list[int] = []
        members = Entry.members
        monkeypatch.setattr(
            Entry,
            "members",
            property(
                lambda entry, looks=looks, members=members: looks.append(1) or members.__get__(entry),
                lambda entry, value, members=members: members.__set__(entry, value),
            ),
        )
        page = messages_in(rig.store, "q", states=frozenset({state}), after=after, limit=3)
        monkeypatch.undo()
        first = ids.index(after) + 1
        assert [each.id for each in page] == ids[first : first + 3]
        assert len(looks) < 20


def pages_of(rig: FrontRig, wanted: MessageFilter, limit: int = 2) -> list[str]:
    """Return the ids of all messages that are wanted, page by page."""
    found: list[str] = []
    after = ""
    while True:
        page = rig.store.page("q", wanted, after=after, limit=limit, max_body_bytes=0)
        assert len(page.messages) <= limit
        found += [each.id for each in page.messages]
        if not page.last:
            return found
        assert page.last > after
        after = page.last


def filtered(rig: FrontRig) -> tuple[list[str], Millis]:
    """Send two files of four messages with groups and attributes, and two lone ones.

    Return the ids, and when the second half was sent.
    """
    ids: list[str] = []
    for _ in range(2):
        send = Send(
            queue="q",
            bodies=[b"0", b"1", b"2", b"3"],
            groups={0: "a", 1: "b", 2: "a"},
            attributes={0: {"n": "0"}, 1: {"n": "1", "raw": b"x"}, 3: {"n": "0"}},
        )
        ids += [str(id) for id in rig.ask(send).results]
        ids += rig.send(b"alone")
        rig.manual_clock.advance(1_000)
    return ids, sent_at(ids[5])


@pytest.mark.parametrize("forgotten", [False, True])
def test_a_filter_shows_the_messages_that_have_all_that_it_names(
    rig: FrontRig, forgotten: bool
) -> None:
    ids, half = filtered(rig)
    rig.receive(1)
    wanted: list[tuple[MessageFilter, list[int]]] = [
        (MessageFilter(), [*range(10)]),
        (MessageFilter(states=frozenset({State.LEASED})), [0]),
        (MessageFilter(sent_since=half), [5, 6, 7, 8, 9]),
        (MessageFilter(sent_before=half), [0, 1, 2, 3, 4]),
        (MessageFilter(sent_since=half, sent_before=half), []),
        (MessageFilter(group="a"), [0, 2, 5, 7]),
        (MessageFilter(group="c"), []),
        (MessageFilter(attributes={"n": "0"}), [0, 3, 5, 8]),
        (MessageFilter(attributes={"raw": b"x", "n": "1"}), [1, 6]),
        (MessageFilter(attributes={"raw": "x"}), []),
        (MessageFilter(group="a", attributes={"n": "0"}, sent_since=half), [5]),
        (MessageFilter(group="a", states=frozenset({State.READY})), [2, 5, 7]),
    ]
    with opened(rig.path) if forgotten else nullcontext(rig) as reader:
        for filter, places in wanted:
            for limit in (1, 2, 100):
                assert pages_of(reader, filter, limit) == [ids[place] for place in places], filter


def test_a_filter_reads_no_body_and_each_file_once(rig: FrontRig) -> None:
    for _ in range(2):
        rig.ask(Send(queue="q", bodies=[b"0", b"1", b"2"], attributes={0: {"n": "0"}, 2: {"n": "0"}}))
        rig.send(b"alone")
    rig.store.close()
    for file in (rig.path / "queues" / "q").iterdir():
        with file.open("r+b") as damaged:
            damaged.write(b"XXX"[: file.stat().st_size])  # Who reads a body passes over its message.
    with opened(rig.path) as reader:
        paths: list[str] = []
        reader.disk.open = _noting(reader.disk.open, paths)  # type: ignore[method-assign]
        wanted = MessageFilter(attributes={"n": "0"})
        page = reader.store.page("q", wanted, limit=100, max_body_bytes=0)
        assert len(page.messages) == 4
        assert len(paths) == 2  # The lone ones have no attributes, as their names tell.


def test_a_filtered_page_reads_a_bounded_number_of_messages(
    rig: FrontRig, monkeypatch: pytest.MonkeyPatch
) -> None:
    ids = []
    for number in range(12):
        kind = "rare" if number == 11 else "often"
        send = Send(queue="q", bodies=[b"x"], attributes={0: {"kind": kind}})
        ids += [str(id) for id in rig.ask(send).results]
    rig.store.close()
    monkeypatch.setattr(questions, "_MOST_FILES", 5)
    with opened(rig.path) as reader:
        paths: list[str] = []
        reader.disk.open = _noting(reader.disk.open, paths)  # type: ignore[method-assign]
        wanted = MessageFilter(attributes={"kind": "rare"})
        first = reader.store.page("q", wanted, max_body_bytes=0)
        assert (first.messages, first.last, len(paths)) == ([], ids[4], 5)
        assert pages_of(reader, wanted) == ids[11:]
    monkeypatch.setattr(questions, "_MOST_LOOKS", 3)
    with opened(rig.path) as reader:
        first = reader.store.page("q", MessageFilter(attributes={"n": "0"}), max_body_bytes=0)
        assert (first.messages, first.last) == ([], ids[2])
        assert pages_of(reader, MessageFilter()) == ids


def test_without_bodies_no_file_is_read_that_says_nothing_but_its_body(tmp_path: Path) -> None:
    with opened(tmp_path) as rig:
        for number in range(3):
            rig.send(b"%d" % number)
    with opened(tmp_path) as rig:
        paths: list[str] = []
        rig.disk.open = _noting(rig.disk.open, paths)  # type: ignore[method-assign]
        assert [each.body_size for each in messages_in(rig.store, "q", max_body_bytes=0)] == [1, 1, 1]
        assert paths == []
        assert [each.body for each in messages_in(rig.store, "q")] == [b"0", b"1", b"2"]
        assert len(paths) == 3


def test_a_list_opens_the_file_of_a_batch_once(tmp_path: Path) -> None:
    with opened(tmp_path) as rig:
        rig.ask(Send(queue="q", bodies=[b"1", b"2", b"3"], attributes={1: {"a": "b"}}))
        rig.receive(1)
    for most, bodies in ((None, [b"1", b"2", b"3"]), (0, [b""] * 3)):
        with opened(tmp_path) as rig:
            paths: list[str] = []
            rig.disk.open = _noting(rig.disk.open, paths)  # type: ignore[method-assign]
            found = messages_in(rig.store, "q", max_body_bytes=most)
            assert [each.body for each in found] == bodies
            assert [dict(each.attributes) for each in found] == [{}, {"a": "b"}, {}]
            assert len(paths) == 1


def _noting(call: object, paths: list[str]) -> object:
    def noting(path: str) -> object:
        paths.append(path)
        return call(path)  # type: ignore[operator]

    return noting


def test_a_page_ends_before_its_bodies_take_too_much_memory(rig: FrontRig) -> None:
    ids = [id for _ in range(10) for id in rig.send(b"x" * 1_000_000)]

    found = messages_in(rig.store, "q", limit=100)

    assert len(found) < 10
    assert [each.id for each in found] == ids[: len(found)]
    assert [each.id for each in all_of(rig, 100)] == ids


def test_a_message_that_is_leased_while_it_is_looked_at_is_found_where_it_is(tmp_path: Path) -> None:
    with opened(tmp_path) as rig:
        ids = rig.send(b"1", b"2")
    with opened(tmp_path) as rig:
        calls = [rig.disk.open]

        def leasing(path: str) -> BinaryIO:
            open = calls[0]
            rig.disk.open = open  # type: ignore[method-assign]
            rig.ask(Receive(queue="q", max_messages=2))
            rig.in_turn()
            return open(path)

        rig.disk.open = leasing  # type: ignore[method-assign]
        found = rig.store.message("q", ids[0])
        assert (found.state, found.body) == (State.LEASED, b"1")

        rig.disk.open = leasing  # type: ignore[method-assign]
        rig.manual_clock.advance(31_000)
        rig.in_turn()
        found = messages_in(rig.store, "q", limit=1)[0]
        assert (found.id, found.body) == (ids[0], b"1")


def test_a_damaged_message_is_named_and_a_list_passes_over_it(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    with opened(tmp_path) as rig:
        ids = [*rig.send(b"1", b"2"), *rig.send(b"3")]
    path = the_file_of(tmp_path, ids[0])
    path.write_bytes(b"!" + path.read_bytes()[1:])
    with opened(tmp_path) as rig:
        with pytest.raises(MessageDamaged, match="checksum"):
            rig.store.message("q", ids[0])
        with pytest.raises(MessageDamaged, match="checksum"):
            rig.store.open_message("q", ids[0])
        assert rig.store.message("q", ids[1]).body == b"2"
        assert [each.id for each in messages_in(rig.store, "q")] == ids[1:]
        assert f"a list passes over message {ids[0]}" in caplog.text
        assert [each.id for each in messages_in(rig.store, "q", limit=1)] == ids[1:2]


def the_file_of(root: Path, id: str) -> Path:
    (found,) = root.glob(f"queues/q/{id[:-3]}*")
    return found


def test_a_file_that_can_not_be_read_for_now_is_told_as_that(tmp_path: Path) -> None:
    with opened(tmp_path) as rig:
        (id,) = rig.send(b"1")
    with opened(tmp_path) as rig:

        def refusing(path: str) -> BinaryIO:
            raise OSError(24, "Too many open files", path)

        rig.disk.open = refusing  # type: ignore[method-assign]
        with pytest.raises(DiskError, match="Too many open files"):
            rig.store.message("q", id)


def test_any_text_is_a_place_between_two_pages(rig: FrontRig) -> None:
    ids = rig.send(b"1", b"2", b"3")
    for after in (
        "",
        "0",
        ids[0][:33],
        ids[0][:34],
        ids[0],
        ids[1] + "~",
        ids[2][:35],
        "z",
        ids[2] + ".",
    ):
        wanted = [id for id in ids if id > after]
        assert [each.id for each in messages_in(rig.store, "q", after=after)] == wanted


def test_an_open_message_is_its_part_of_the_file_whatever_becomes_of_it(rig: FrontRig) -> None:
    bodies = [b"first", b"x" * 200_000, b"", b"y" * 1_000_000]
    ids = rig.send(*bodies)
    for id, body in zip(ids, bodies, strict=True):
        opened_one = rig.store.open_message("q", id)
        rig.ask(Delete(queue="q", ids=[id]))
        for _ in range(4):
            rig.manual_clock.advance(1_000)
            rig.in_turn()
        with opened_one.file as file:
            assert opened_one.message.body_size == len(body)
            assert opened_one.message.body == b""
            assert file.tell() == opened_one.offset
            assert file.read(opened_one.message.body_size) == body


def test_a_message_of_a_set_is_leased_until_the_set_ends(rig: FrontRig) -> None:
    (id,) = rig.send(b"1")
    rig.ask(Reserve(queue="q", stream="s", sequence_number=0, visibility_timeout=HOLD))
    rig.manual_clock.advance(1_000)
    made = rig.ask(ExtendReservation(stream="s", sequence_number=0))

    found = rig.store.message("q", id)

    assert (found.state, found.due) == (State.LEASED, made.expires_at)
    assert messages_in(rig.store, "q")[0].due == made.expires_at


def test_changes_by_another_process_are_seen_at_once(tmp_path: Path) -> None:
    with opened(tmp_path) as rig, opened(tmp_path) as other:
        ids = other.send(b"1", b"2")
        other.in_turn()
        assert [each.id for each in messages_in(rig.store, "q")] == ids
        assert rig.store.queue("q").counts.ready_count == 2
        other.ask(Delete(queue="q", ids=ids[:1]))
        with pytest.raises(MessageNotFound):
            rig.store.message("q", ids[0])
        other.ask(CreateQueue(name="new", settings=QueueSettings()))
        assert rig.store.queue("new").name == "new"


def test_commits_go_on_while_a_description_of_a_queue_waits_for_the_disk(
    rig: FrontRig, monkeypatch: pytest.MonkeyPatch
) -> None:
    caller, space = threading.get_ident(), rig.disk.space
    sent: list[str] = []

    def slow() -> Space:
        if threading.get_ident() == caller:
            sent.extend(rig.send(b"meanwhile"))
        return space()

    monkeypatch.setattr(rig.disk, "space", slow)
    assert rig.store.queue("q").counts.ready_count == 1
    assert len(sent) == 1


def test_owners_ages_and_dead_letter_queues_are_told(tmp_path: Path) -> None:
    with opened(tmp_path) as rig, opened(tmp_path) as other:
        settings = QueueSettings(max_receives=1, dead_letter_queue="q")
        rig.ask(CreateQueue(name="poor", settings=settings))
        rig.send(b"old")
        rig.manual_clock.advance(5_000)
        rig.send(b"1", b"2")
        rig.store.queue("q")
        metrics = rig.store.metrics

        owners = metrics.owners()
        assert [each.is_me for each in owners].count(True) == 1
        assert {each.name for each in owners} == {metrics.owner, other.store.metrics.owner}
        assert all(each.about.startswith("pid ") for each in owners)
        assert metrics.names() == ["in-turn", "poor", "q", "relaxed"]
        assert metrics.dead_letter_sources("q") == ["poor"]
        assert metrics.dead_letter_queues() == {"q"}
        ages = metrics.ages(["q", "missing"], [Millis(1_000), Millis(10_000)])
        assert {name: each.counts for name, each in ages.items()} == {"q": (2, 1, 0)}
