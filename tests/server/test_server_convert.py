"""Between the contract's messages and the store's values."""

from __future__ import annotations

from typing import Any

import pytest
from google.protobuf.duration_pb2 import Duration
from google.protobuf.field_mask_pb2 import FieldMask
from google.protobuf.timestamp_pb2 import Timestamp
from hypothesis import given
from hypothesis import strategies as st
from spoolrack.v1 import queue_pb2 as pb
from spoolrack.v1 import queue_service_pb2 as rpc
from spoolrack_server.app import bounds
from spoolrack_server.wire import convert
from spoolrack_server.wire.outgoing_messages import send_of
from spoolrack_store.model.clock import DAY, HOUR, LAST_MOMENT, Millis
from spoolrack_store.model.errors import (
    InvalidMessage,
    InvalidRequest,
    InvalidSetting,
)
from spoolrack_store.model.message_content import MAX_ATTRIBUTES
from spoolrack_store.model.operations import BlockingMessage, Counts, Queue
from spoolrack_store.model.settings import SCHEMA, QueueSettings, SettingKind
from spoolrack_store.model.transitions import State

ID = "0199a000-0000-7000-8000-000000000000"
MALFORMED = [
    Duration(seconds=1, nanos=-1),
    Duration(seconds=-1, nanos=1),
    Duration(nanos=1_000_000_000),
    Duration(seconds=315_576_000_001),
]


@given(st.integers(0, 365 * DAY))
def test_a_span_comes_back_as_it_went(millis: int) -> None:
    assert convert.millis(convert.duration(Millis(millis)), "delay", most=365 * DAY) == millis


@given(st.integers(0, LAST_MOMENT))
def test_a_moment_is_told_and_read_to_the_millisecond(millis: int) -> None:
    timestamp = convert.timestamp(Millis(millis))
    assert timestamp.ToMilliseconds() == millis
    assert convert.moment(timestamp, "deliver_time") == millis


def test_a_part_of_a_millisecond_counts_as_one() -> None:
    assert convert.millis(Duration(nanos=1), "delay", most=1) == 1
    assert convert.moment(Timestamp(seconds=1, nanos=1), "deliver_time") == 1_001


@pytest.mark.parametrize("span", [*MALFORMED, Duration(seconds=-1), Duration(seconds=3, nanos=1)])
def test_a_span_that_cannot_be_is_refused_by_the_name_of_its_field(span: Duration) -> None:
    with pytest.raises(InvalidRequest, match=r"^wait can't be"):
        convert.millis(span, "wait", most=3_000)


@pytest.mark.parametrize("span", MALFORMED)
def test_a_setting_that_is_no_valid_span_is_refused_by_its_name(span: Duration) -> None:
    with pytest.raises(InvalidSetting, match="retention"):
        convert.settings(pb.QueueSettings(retention=span))
    with pytest.raises(InvalidSetting, match="deduplication_window"):
        convert.settings(pb.QueueSettings(deduplication_window=span))


def test_settings_that_are_absent_have_their_defaults() -> None:
    assert convert.settings(pb.QueueSettings()) == QueueSettings()


def test_every_setting_of_the_contract_is_one_of_the_store() -> None:
    fields = pb.QueueSettings.DESCRIPTOR.fields_by_name
    assert set(fields) == set(SCHEMA)
    of_contract: dict[str, Any] = {}
    of_store: dict[str, Any] = {}
    for number, (name, setting) in enumerate(SCHEMA.items(), start=1):
        match setting.kind:
            case SettingKind.SPAN:
                of_contract[name], of_store[name] = Duration(seconds=number), Millis(number * 1_000)
            case SettingKind.CHOICE:
                of_store[name] = word = setting.choices[-1]
                kind = fields[name].enum_type
                assert kind is not None
                (of_contract[name],) = (
                    value.number for value in kind.values if value.name.endswith(f"_{word.upper()}")
                )
            case SettingKind.RATE:
                of_contract[name], of_store[name] = number, number * 1_000
            case SettingKind.QUEUE:
                of_contract[name] = of_store[name] = "dead"
            case _:
                of_contract[name] = of_store[name] = number
    given, settings = pb.QueueSettings(**of_contract), QueueSettings(**of_store)
    assert convert.settings(given) == settings
    assert convert.queue(queue_with(settings), Millis(0)).settings == given


def test_a_visibility_timeout_of_zero_is_refused_and_an_absent_one_is_not() -> None:
    with pytest.raises(InvalidSetting, match="visibility_timeout"):
        convert.settings(pb.QueueSettings(visibility_timeout=Duration()))


def test_an_unknown_group_order_is_refused() -> None:
    with pytest.raises(InvalidSetting, match="group_order"):
        convert.settings(pb.QueueSettings(group_order=7))  # type: ignore[arg-type]


def test_an_unknown_lease_durability_is_refused() -> None:
    with pytest.raises(InvalidSetting, match="lease_durability"):
        convert.settings(pb.QueueSettings(lease_durability=9))  # type: ignore[arg-type]


def test_without_a_mask_an_update_changes_what_is_present() -> None:
    given = pb.QueueSettings(max_messages=5, retention=Duration())
    update = convert.queue_update(pb.Queue(name="q", settings=given), FieldMask())
    assert update.changes == {"max_messages": 5, "retention": 0}
    assert not update.replaces_labels
    labelled = convert.queue_update(pb.Queue(name="q", labels={"team": "a"}), FieldMask())
    assert (labelled.changes, labelled.labels) == ({}, {"team": "a"})
    assert labelled.replaces_labels


def test_a_setting_named_in_the_mask_alone_gets_its_default() -> None:
    named = ("visibility_timeout", "max_message_size", "lease_durability")
    mask = FieldMask(paths=[f"settings.{name}" for name in named])
    queue = pb.Queue(name="q", settings=pb.QueueSettings(max_messages=5))
    assert convert.queue_update(queue, mask).changes == {
        "visibility_timeout": 30_000,
        "max_message_size": 1024 * 1024,
        "lease_durability": "strict",
    }


@pytest.mark.parametrize("path", ["*", "settings"])
def test_a_mask_of_everything_sets_back_what_the_queue_leaves_out(path: str) -> None:
    queue = pb.Queue(name="q", settings=pb.QueueSettings(max_messages=5), labels={"team": "a"})
    update = convert.queue_update(queue, FieldMask(paths=[path]))
    assert QueueSettings(retention=Millis(1)).changed(update.changes) == QueueSettings(max_messages=5)
    assert update.replaces_labels == (path == "*")
    assert update.labels == ({"team": "a"} if path == "*" else {})


def test_a_mask_names_all_labels_or_one_by_its_name() -> None:
    queue = pb.Queue(name="q", labels={"team": "a", "a.b": "c", "not": "named"})
    update = convert.queue_update(queue, FieldMask(paths=["labels.team", "labels.a.b", "labels.gone"]))
    assert update.labels == {"team": "a", "a.b": "c", "gone": None}
    assert not update.replaces_labels
    update = convert.queue_update(queue, FieldMask(paths=["labels"]))
    assert update.labels == {"team": "a", "a.b": "c", "not": "named"}
    assert update.replaces_labels


@pytest.mark.parametrize("paths", [["*", "settings.max_messages"], ["*", "*"]])
def test_a_star_stands_alone_in_a_mask(paths: list[str]) -> None:
    with pytest.raises(InvalidRequest, match="update_mask"):
        convert.queue_update(pb.Queue(name="q"), FieldMask(paths=paths))


@pytest.mark.parametrize(
    "path",
    [
        "max_bytes",
        "settings.relaxed_leases",
        "settings.*",
        "settings.",
        "labels.",
        "",
        "name",
        "version",
        "settings.max_bytes.x",
    ],
)
def test_a_mask_that_names_nothing_that_can_be_changed_is_refused(path: str) -> None:
    with pytest.raises(InvalidRequest, match="update_mask"):
        convert.queue_update(pb.Queue(name="q"), FieldMask(paths=[path]))


def test_an_id_is_taken_in_either_case_and_nothing_else_is() -> None:
    assert bounds.message_id(ID.upper()) == ID
    for wrong in ("", "x", ID[:-1], ID + "0", "{" + ID + "}", ID.replace("-", ""), "../" + ID):
        with pytest.raises(InvalidRequest):
            bounds.message_id(wrong)


def test_zero_takes_the_default_and_beyond_the_bounds_is_refused() -> None:
    assert bounds.number(0, "page_size", default=100, most=1_000) == 100
    assert bounds.number(1_000, "page_size", default=100, most=1_000) == 1_000
    for wrong in (-1, 1_001):
        with pytest.raises(InvalidRequest, match="page_size"):
            bounds.number(wrong, "page_size", default=100, most=1_000)


@pytest.mark.parametrize("count", [0, 1_001])
def test_none_and_too_many_of_something_are_refused(count: int) -> None:
    with pytest.raises(InvalidRequest, match="the number of targets"):
        convert.check_count(count, "targets")


def refusal(message: pb.OutgoingMessage) -> str:
    (error,) = send_of("q", [message])[1].values()
    return str(error)


def test_a_message_to_be_sent_keeps_text_apart_from_bytes() -> None:
    message = pb.OutgoingMessage(body=b"\0\xff", delay=Duration())
    message.attributes["text"].string_value = ""
    message.attributes["binary"].binary_value = b"\xff"
    made, _ = send_of("q", [message, pb.OutgoingMessage()])
    assert made.bodies == [b"\0\xff", b""]
    assert made.attributes == {0: {"text": "", "binary": b"\xff"}}
    assert made.delays == {0: 0}


@pytest.mark.parametrize(
    "name", ["", "x" * 11, "a/b", "..", ".", "a.b", "a\0", "a\n", "ä", "a@1", "a,b", "a:b", "a~", " a"]
)
def test_a_word_that_could_not_be_part_of_a_files_name_is_refused(name: str) -> None:
    with pytest.raises(InvalidRequest, match="stage"):
        bounds.word(name, "stage", most=10)


@pytest.mark.parametrize("name", ["a", "-", "_", "0", "Stage_1-2", "x" * 10])
def test_a_word_is_of_letters_digits_underscores_and_dashes(name: str) -> None:
    assert bounds.word(name, "stage", most=10) == name


def test_an_unsigned_value_is_neither_negative_nor_too_large() -> None:
    assert bounds.place(0, "chunk", most=9) == 0
    assert bounds.place(9, "chunk", most=9) == 9
    for wrong in (-1, 10):
        with pytest.raises(InvalidRequest, match="chunk"):
            bounds.place(wrong, "chunk", most=9)


def test_an_attribute_without_a_value_is_refused() -> None:
    message = pb.OutgoingMessage()
    message.attributes["nothing"].SetInParent()
    assert "nothing" in refusal(message)


def test_a_delay_of_more_than_a_year_is_refused() -> None:
    assert "delay" in refusal(pb.OutgoingMessage(delay=Duration(seconds=366 * 24 * 3600)))


def test_every_state_that_one_may_ask_for_is_one_of_the_store() -> None:
    asked = [pb.MESSAGE_STATE_READY, pb.MESSAGE_STATE_LEASED, pb.MESSAGE_STATE_DELAYED]
    assert convert.states(asked) == {State.READY, State.LEASED, State.DELAYED}
    assert convert.states([]) == frozenset()
    for wrong in (pb.MESSAGE_STATE_UNSPECIFIED, 9):
        with pytest.raises(InvalidRequest, match="states"):
            convert.states([wrong])  # type: ignore[list-item]


def test_a_lease_of_no_time_is_refused_and_an_absent_one_is_the_queues() -> None:
    assert convert.visibility(rpc.ReceiveRequest()) is None
    for wrong in (Duration(), Duration(seconds=12 * 3600, nanos=1)):
        with pytest.raises(InvalidRequest, match="visibility_timeout"):
            convert.visibility(rpc.ReceiveStart(visibility_timeout=wrong))
    assert convert.visibility(rpc.ReceiveRequest(visibility_timeout=convert.duration(HOUR))) == HOUR


def test_the_age_of_the_oldest_message_is_never_negative() -> None:
    assert not convert.queue(queue_with(QueueSettings()), Millis(0)).counts.HasField("oldest_age")
    held = queue_with(QueueSettings(), oldest=Millis(5_000))
    assert convert.queue(held, Millis(7_500)).counts.oldest_age.ToMilliseconds() == 2_500
    assert convert.queue(held, Millis(4_000)).counts.oldest_age.ToMilliseconds() == 0


def test_a_queue_names_the_message_that_blocks_it() -> None:
    blocking = BlockingMessage(id=ID, receive_count=7, explanation="it comes back")
    told = convert.queue(queue_with(QueueSettings(), blocking=blocking), Millis(0))
    assert (told.blocking_message.id, told.blocking_message.receive_count) == (ID, 7)
    assert told.blocking_message.explanation == "it comes back"
    assert (told.name, told.version, told.create_time.ToMilliseconds()) == ("q", 3, 1_000)
    assert (
        *(told.counts.ready_count, told.counts.leased_count),
        *(told.counts.delayed_count, told.counts.byte_count),
    ) == (1, 2, 3, 4)


def queue_with(
    settings: QueueSettings, *, oldest: Millis | None = None, blocking: BlockingMessage | None = None
) -> Queue:
    return Queue(
        name="q",
        settings=settings,
        created_at=Millis(1_000),
        version=3,
        counts=Counts(ready_count=1, leased_count=2, delayed_count=3, byte_count=4, oldest=oldest),
        blocking_message=blocking,
    )


def test_attributes_are_counted_before_one_is_converted() -> None:
    message = pb.OutgoingMessage()
    for number in range(MAX_ATTRIBUTES + 1):
        message.attributes[f"{number}"].Clear()  # without a value, which a conversion would refuse
    with pytest.raises(InvalidMessage, match="it has 1001 attributes, and may have 1000"):
        convert.attributes(message.attributes)
