"""The grammar of file names: each name has one spelling, none is too long, a lease changes two tags."""

from __future__ import annotations

import uuid
from random import Random

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from spoolrack_store.model.clock import Millis
from spoolrack_store.model.names import (
    MAX_NAME_BYTES,
    MAX_RECEIVES,
    Batch,
    Entry,
    Filed,
    Item,
    NotAName,
    Receipt,
    forgotten,
    is_set_token,
    leased,
    length_of_plain,
    make_set_token,
    make_token,
    moved_out,
    parse_entry,
    parse_filed,
    parse_item,
    parse_receipt,
    unleased,
)
from spoolrack_store.model.settings import MAX_MESSAGE_SIZE

ID = "0190b0c0-1234-7abc-8def-0123456789ab"
LONGEST_QUEUE = "Q" * 80

ids = st.uuids().map(str)
queues = st.from_regex(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,79}", fullmatch=True)
moments = st.integers(0, 10**13 - 1).map(Millis)
tokens = st.integers(0, 2**64).map(lambda seed: make_token(Random(seed)))
owners = st.from_regex(r"[a-z0-9]{1,16}", fullmatch=True)
hashes = st.from_regex(r"[a-z0-9]{1,9}", fullmatch=True)
receives = st.integers(0, 10) | st.integers(0, MAX_RECEIVES)
unknown_tags = st.lists(
    st.from_regex(r"[ABDEZabdehijlpqtu-z][A-Za-z0-9_.-]{0,3}", fullmatch=True), max_size=3
).map(tuple)

entries = st.builds(
    Entry,
    id=ids,
    size=st.none() | st.integers(0, MAX_MESSAGE_SIZE),
    crc=st.none() | st.integers(0, 2**32 - 1),
    trailer=st.integers(0, 999_999),
    receives=receives,
    first_receive=st.none() | moments,
    group=st.none() | hashes,
    dedup=st.none() | hashes,
    owner=st.none() | owners,
)
entries_of_a_later_version = st.builds(
    Entry,
    id=ids,
    size=st.integers(0, MAX_MESSAGE_SIZE),
    crc=st.integers(0, 2**32 - 1),
    receives=receives,
    first_receive=st.none() | moments,
    owner=st.none() | owners,
    unknown=unknown_tags,
)
batches = st.builds(
    Batch,
    id=ids,
    count=st.integers(1, 999_999),
    receives=receives,
    first_receive=st.none() | moments,
    owner=st.none() | owners,
    unknown=unknown_tags,
)
items: st.SearchStrategy[Item] = entries | entries_of_a_later_version | batches
filed = st.one_of(
    st.builds(Filed, queue=queues, item=items),
    st.builds(Filed, queue=queues, item=items, due=moments),
    st.builds(Filed, queue=queues, item=items, due=moments, token=tokens),
)
receipts = st.builds(Receipt, queue=queues, id=ids, token=tokens, batch=st.none() | ids)


# What is formatted parses to the same.


@given(items)
def test_an_item_reads_back_as_it_was_named(item: Item) -> None:
    assert parse_item(str(item)) == item


@given(entries | entries_of_a_later_version)
def test_an_entry_reads_back_as_it_was_named(entry: Entry) -> None:
    assert parse_entry(str(entry)) == entry


@given(filed)
def test_what_lies_in_a_shared_folder_reads_back_as_it_was_named(name: Filed) -> None:
    assert parse_filed(str(name)) == name


@given(receipts)
def test_a_receipt_reads_back_as_it_was_made(receipt: Receipt) -> None:
    assert parse_receipt(str(receipt)) == receipt


@given(batches)
def test_a_batch_is_never_taken_for_an_entry(batch: Batch) -> None:
    with pytest.raises(NotAName):
        parse_entry(str(batch))


@given(receipts, filed)
def test_a_receipt_is_never_a_file_name_and_a_file_name_never_a_receipt(
    receipt: Receipt, name: Filed
) -> None:
    with pytest.raises(NotAName):
        parse_filed(str(receipt))
    with pytest.raises(NotAName):
        parse_receipt(str(name))


@given(items, items)
def test_names_sort_as_their_ids_do(one: Item, other: Item) -> None:
    if one.id != other.id:
        assert (str(one) < str(other)) == (one.id < other.id)


@pytest.mark.parametrize(
    ("name", "text"),
    [
        (Entry(id=ID), ID),
        (Entry(id=ID, size=0, crc=0), f"{ID},s0,c00000000"),
        (
            Entry(
                id=ID,
                size=5,
                crc=0xABC,
                trailer=7,
                receives=2,
                first_receive=Millis(1),
                group="g1",
                dedup="k1",
                owner="me",
                unknown=("zfoo", "Y"),
            ),
            f"{ID},s5,c00000abc,m7,r2,f1,gg1,kk1,ome,zfoo,Y",
        ),
        (Batch(id=ID, count=3), f"{ID},n3"),
        (
            Batch(id=ID, count=3, receives=1, first_receive=Millis(0), owner="a", unknown=("x",)),
            f"{ID},n3,r1,f0,oa,x",
        ),
        (Filed(queue="q", item=Entry(id=ID)), f"q:{ID}"),
        (Filed(queue="q", item=Entry(id=ID), due=Millis(5)), f"q:{ID}@0000000000005"),
        (
            Filed(queue="q", item=Batch(id=ID, count=1), due=Millis(5), token="0123456789abv"),
            f"q:{ID},n1@0000000000005~0123456789abv",
        ),
        (Receipt(queue="q", id=ID, token="0123456789abv"), f"q:{ID}~0123456789abv"),
        (Receipt(queue="q", id=ID, batch=ID, token="0123456789abv"), f"q:{ID}/{ID}~0123456789abv"),
    ],
)
def test_the_grammar_of_format_1_never_drifts(name: object, text: str) -> None:
    assert str(name) == text


# What parses has one spelling: a name that was read can be the source of a rename.


def leased_item(item: Item, now: Millis) -> Item:
    match item:
        case Entry():
            return leased(item, now)
        case Batch():
            return leased(item, now)


TAGS = """
    s0 s5 s05 s-1 c00000000 cABCDEF00 cabcdef00 cabcdef0 m0 m4 n0 n3 n03 r0 r1 r01 r f0 f9 f09
    gx g kx k o oa oA o1 ox-y x X x.y x_ x/ 1 é
"""
tag_texts = st.sampled_from(TAGS.split()) | st.from_regex(
    r"[a-zA-Z][A-Za-z0-9_.-]{0,9}", fullmatch=True
)
item_texts = st.builds(
    lambda first, tags: ",".join([first, *tags]), st.just(ID) | ids, st.lists(tag_texts, max_size=6)
)
deadline_texts = st.sampled_from(
    ["", "@0000000000001", "@1", "@00000000000001", "@", "~", "@0000000000001~", "@0000000000001~zz"]
) | st.builds(lambda due, token: f"@{due:013d}~{token}", moments, tokens)


@given(item_texts)
@example(f"{ID},m0")
@example(f"{ID},r0")
@example(f"{ID},c00000000,s5")
@example(f"{ID},x,s5")
@example(f"{ID},o1,n3")
def test_an_item_that_parses_has_one_spelling(text: str) -> None:
    try:
        item = parse_item(text)
    except NotAName:
        return
    assert str(item) == text


@given(queues, item_texts, deadline_texts)
def test_a_filed_name_that_parses_has_one_spelling(queue: str, item: str, deadline: str) -> None:
    try:
        name = parse_filed(f"{queue}:{item}{deadline}")
    except NotAName:
        return
    assert str(name) == f"{queue}:{item}{deadline}"


@given(entries_of_a_later_version, unknown_tags)
def test_tags_of_a_later_version_are_kept_through_a_whole_life(
    entry: Entry, tags: tuple[str, ...]
) -> None:
    batch = Batch(id=entry.id, count=2, unknown=tags)
    assert parse_item(str(batch)) == batch
    out = moved_out(entry, batch)
    life = forgotten(leased(out, Millis(6)))
    assert life.unknown == entry.unknown
    assert parse_item(str(life)).unknown == entry.unknown


# Length: no name outgrows the file system, also not later in the message's life.


@given(st.one_of(entries, entries_of_a_later_version, batches), tokens, moments)
def test_no_name_is_over_239_bytes_with_the_longest_queue_name(
    item: Item, token: str, due: Millis
) -> None:
    name = str(Filed(queue=LONGEST_QUEUE, item=leased_item(item, due), due=due, token=token))
    assert len(name.encode()) <= MAX_NAME_BYTES


def test_the_longest_name_of_a_message_has_exactly_239_bytes() -> None:
    entry = Entry(
        id=ID,
        size=MAX_MESSAGE_SIZE,
        crc=0,
        trailer=999_999,
        receives=MAX_RECEIVES,
        first_receive=Millis(10**13 - 1),
        group="g" * 9,
        dedup="k" * 9,
        owner="o" * 16,
    )
    name = Filed(queue=LONGEST_QUEUE, item=entry, due=Millis(10**13 - 1), token="v" * 13)
    assert len(str(name)) == MAX_NAME_BYTES
    assert parse_filed(str(name)) == name


@pytest.mark.parametrize("padding", range(40, 80))
def test_what_parses_can_still_be_leased_into_the_longest_queue_name(padding: int) -> None:
    text = f"{ID},s1,c00000000,r999999998,x" + "y" * padding
    try:
        item = parse_item(text)
    except NotAName:
        assert len(text) > 104 + len(",r999999998")
        return
    grown = leased_item(item, Millis(10**13 - 1))
    for _ in range(3):
        grown = leased_item(grown, Millis(0))
        name = Filed(queue=LONGEST_QUEUE, item=grown, due=Millis(10**13 - 1), token="v" * 13)
        assert len(str(name)) <= MAX_NAME_BYTES
        assert parse_filed(str(name)) == name


# Tokens.


@given(st.integers(0, 2**64))
def test_a_token_parses_in_a_lease_and_in_a_receipt(seed: int) -> None:
    token = make_token(Random(seed))
    assert parse_receipt(f"q:{ID}~{token}").token == token
    assert parse_filed(f"q:{ID}@0000000000000~{token}").token == token


def test_tokens_are_unique() -> None:
    random = Random(20)
    assert len({make_token(random) for _ in range(20_000)}) == 20_000


class Bits(Random):
    """Gives one number as its randomness."""

    def __init__(self, bits: int) -> None:
        super().__init__(0)
        self._bits = bits

    def getrandbits(self, count: int, /) -> int:
        assert count == 64
        return self._bits


@given(st.integers(0, 2**64 - 1))
def test_a_token_holds_all_of_its_64_bits(bits: int) -> None:
    token = make_token(Bits(bits))
    assert int(token, 32) == bits
    assert len(token) == 13


@given(st.integers(0, 2**64 - 1))
def test_a_sets_token_holds_them_too_and_says_whose_it_is(bits: int) -> None:
    token = make_set_token(Bits(bits))
    assert int(token, 32) == bits + 2**64
    assert len(token) == 13
    assert parse_filed(f"q:{ID}@0000000000000~{token}").token == token
    assert is_set_token(token)
    assert not is_set_token(make_token(Bits(bits)))


# What a lease does to a name.


@given(items, moments, moments)
def test_a_lease_counts_and_remembers_only_the_first_time(
    item: Item, now: Millis, later: Millis
) -> None:
    once = leased_item(item, now)
    twice = leased_item(once, later)
    assert twice.receives == min(item.receives + 2, MAX_RECEIVES)
    assert once.first_receive == twice.first_receive
    assert once.first_receive == (now if item.first_receive is None else item.first_receive)
    assert parse_item(str(twice)) == twice


@given(entries, batches)
def test_an_entry_takes_the_leases_of_its_batch_along(entry: Entry, batch: Batch) -> None:
    out = moved_out(entry, batch)
    assert out.receives == min(entry.receives + batch.receives, MAX_RECEIVES)
    assert out.first_receive == (
        batch.first_receive if entry.first_receive is None else entry.first_receive
    )
    assert forgotten(out) == forgotten(entry)
    assert parse_item(str(out)) == out


@given(entries | entries_of_a_later_version, moments, moments)
def test_a_lease_that_nobody_saw_leaves_no_trace(entry: Entry, now: Millis, later: Millis) -> None:
    fresh = forgotten(entry)
    once = leased(fresh, now)
    assert unleased(once) == fresh
    assert unleased(leased(once, later)) == once
    assert unleased(fresh) == fresh
    assert forgotten(once) == fresh


def test_a_first_receive_at_the_beginning_of_time_is_not_forgotten() -> None:
    entry = Entry(id=ID, first_receive=Millis(0))
    assert moved_out(entry, Batch(id=ID, count=1, first_receive=Millis(9))).first_receive == 0


def test_only_size_and_checksum_together_make_an_entry_ours() -> None:
    assert Entry(id=ID, size=0, crc=0).is_tagged
    assert not Entry(id=ID).is_tagged
    assert not Entry(id=ID, size=1).is_tagged
    assert not Entry(id=ID, crc=1).is_tagged


def test_the_length_of_a_file_is_its_body_and_its_trailer() -> None:
    assert Entry(id=ID, size=5, crc=0, trailer=7).length == 12
    assert Entry(id=ID).length == 0


@pytest.mark.parametrize("seed", range(20))
def test_the_length_of_a_plain_name_is_what_its_parts_say(seed: int) -> None:
    random = Random(seed)
    entry = Entry(
        id=str(uuid.UUID(int=random.getrandbits(128))),
        size=random.randrange(10**15),
        crc=random.getrandbits(32),
        trailer=random.choice([0, random.randrange(1, 10**9)]),
        receives=random.choice([0, random.randrange(1, 10**9)]),
        first_receive=random.choice([None, Millis(random.randrange(10**13))]),
    )
    assert length_of_plain(str(entry)) == entry.length
    assert parse_entry(str(entry)) == entry


@pytest.mark.parametrize(
    "tag", ["", ",s1", ",c00000001", ",s1,c00000001,oabc", ",s1,c00000001,gabc", "x"]
)
def test_what_is_no_plain_name_is_left_to_be_parsed(tag: str) -> None:
    assert length_of_plain(f"018bcfe5-6800-761f-8d61-3e3148954f78{tag}") is None
    assert length_of_plain("018bcfe5-6800-761f-8d61-3e3148954f78,n3") is None
