"""A queue's settings: their bounds, their form in a file, and that no file can break the store."""

from __future__ import annotations

import json
from dataclasses import asdict, fields

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from spoolrack_store.model.clock import DAY, HOUR, Millis
from spoolrack_store.model.errors import DamagedSettings, InvalidSetting, TornSettings
from spoolrack_store.model.sealed import seal, seal_text, unseal
from spoolrack_store.model.settings import (
    SCHEMA,
    QueueSettings,
    Record,
    SettingKind,
    check_labels,
    decode,
    encode,
)

BOUNDS: dict[str, tuple[int, int]] = {
    "visibility_timeout": (1, 12 * HOUR),
    "delivery_delay": (0, 365 * DAY),
    "max_receives": (0, 1_000_000_000),
    "retention": (0, 3650 * DAY),
    "deduplication_window": (1_000, 14 * DAY),
    "archive_retention": (0, 3650 * DAY),
    "expires": (0, 3650 * DAY),
    "max_messages": (0, 1_000_000_000),
    "max_bytes": (0, 2**50),
    "max_message_size": (1, 1024**4),
    "messages_per_file": (0, 1_000),
    "max_leased": (0, 1_000_000_000),
    "group_max_leased": (0, 1_000_000_000),
    "rate": (0, 1_000_000_000),
    "rate_burst": (1, 1_000_000_000),
    "group_rate": (0, 1_000_000_000),
    "group_rate_burst": (1, 1_000_000_000),
    "priority_aging": (0, 365 * DAY),
    "backoff_initial": (0, 12 * HOUR),
    "backoff_factor": (1, 1_000),
    "backoff_maximum": (1, 12 * HOUR),
    "backoff_jitter": (0, 100),
}
DEAD_LETTERS: dict[str, object] = {"max_receives": 3, "dead_letter_queue": "dead"}

NOW = Millis(1_700_000_000_000)

queues = st.from_regex(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,79}", fullmatch=True)
numbers = {
    name: st.integers(least, most) for name, (least, most) in BOUNDS.items() if name != "max_receives"
}
choices = {
    setting.name: st.sampled_from(setting.choices)
    for setting in SCHEMA.values()
    if setting.kind is SettingKind.CHOICE
}
dead_letters: st.SearchStrategy[dict[str, object]] = st.just({}) | st.fixed_dictionaries(
    {"max_receives": st.integers(1, BOUNDS["max_receives"][1]), "dead_letter_queue": queues}
)
changes = st.builds(
    lambda some, dead: {**some, **dead},
    st.fixed_dictionaries({}, optional=numbers | choices),
    dead_letters,
)
json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=8,
)


def test_the_defaults_are_those_of_the_contract() -> None:
    assert asdict(QueueSettings()) == {
        "visibility_timeout": 30_000,
        "delivery_delay": 0,
        "max_receives": 0,
        "dead_letter_queue": "",
        "retention": 0,
        "max_messages": 0,
        "max_bytes": 0,
        "max_message_size": 1024 * 1024,
        "lease_durability": "strict",
        "deduplication_window": 300_000,
        "archive_retention": 0,
        "expires": 0,
        "messages_per_file": 0,
        "group_order": "fair",
        "max_leased": 0,
        "group_max_leased": 0,
        "rate": 0,
        "rate_burst": 1,
        "group_rate": 0,
        "group_rate_burst": 1,
        "priority_aging": 0,
        "dead_letter_at": "lease_end",
        "backoff_initial": 1_000,
        "backoff_factor": 2,
        "backoff_maximum": 300_000,
        "backoff_jitter": 50,
        "backoff_at": "release",
        "sending": "open",
        "receiving": "open",
    }


@given(changes)
def test_settings_read_back_as_they_were_written(changes: dict[str, object]) -> None:
    settings = QueueSettings().changed(changes)
    assert {name: getattr(settings, name) for name in changes} == changes
    record = Record(settings=settings, created_at=NOW)
    assert decode(encode(record), "file") == record
    assert QueueSettings().changed(asdict(settings)) == settings


def test_a_tombstone_reads_back_as_one() -> None:
    record = Record(settings=None, created_at=NOW)
    assert decode(encode(record), "file") == record


def test_a_settings_file_is_text_that_a_person_can_read() -> None:
    line, checksum = encode(Record(settings=QueueSettings(), created_at=NOW)).decode().splitlines()
    assert json.loads(line)["visibility_timeout"] == 30_000
    assert len(checksum) == 8


def test_the_bounds_are_those_of_every_number() -> None:
    assert BOUNDS.keys() == {
        name for name, default in asdict(QueueSettings()).items() if isinstance(default, int)
    }


@pytest.mark.parametrize(("name", "bounds"), BOUNDS.items())
def test_each_number_keeps_to_its_bounds(name: str, bounds: tuple[int, int]) -> None:
    together = dict(DEAD_LETTERS) if name == "max_receives" else {}
    for good in bounds:
        if (name, good) == ("max_receives", 0):
            together = {}
        assert getattr(QueueSettings().changed({**together, name: good}), name) == good
        together = dict(DEAD_LETTERS) if name == "max_receives" else {}
    for bad in (bounds[0] - 1, bounds[1] + 1, -(10**30), 10**30):
        with pytest.raises(InvalidSetting, match=name) as caught:
            QueueSettings().changed({**together, name: bad})
        assert caught.value.facts["name"] == name
        most = SCHEMA[name].text(bounds[1])
        assert most in str(caught.value)


@pytest.mark.parametrize("name", BOUNDS)
@pytest.mark.parametrize("value", [None, True, False, "5", 5.0, float("nan"), [], {}, b"5"], ids=repr)
def test_a_number_is_an_integer_and_nothing_that_looks_like_one(name: str, value: object) -> None:
    with pytest.raises(InvalidSetting, match=name):
        QueueSettings().changed({name: value})


@pytest.mark.parametrize("name", choices)
@pytest.mark.parametrize("value", [None, 0, True, "", "lax", "STRICT", []], ids=repr)
def test_a_choice_is_one_of_its_words(name: str, value: object) -> None:
    with pytest.raises(InvalidSetting, match=f"{name}.*must be one of"):
        QueueSettings().changed({name: value})


@pytest.mark.parametrize(
    "value", [None, 0, 5, False, [], b"dead", "a/b", ".dead", "a" * 81, "d\0", "é", "dead\n"], ids=repr
)
def test_a_dead_letter_queue_has_a_queue_name(value: object) -> None:
    with pytest.raises(InvalidSetting, match="dead_letter_queue"):
        QueueSettings().changed({"max_receives": 3, "dead_letter_queue": value})


@pytest.mark.parametrize("name", DEAD_LETTERS)
def test_max_receives_and_the_dead_letter_queue_go_together(name: str) -> None:
    with pytest.raises(InvalidSetting, match="set both or neither"):
        QueueSettings().changed({name: DEAD_LETTERS[name]})
    both = QueueSettings().changed(DEAD_LETTERS)
    assert both.changed({"max_receives": 0, "dead_letter_queue": ""}) == QueueSettings()
    assert both.changed({"max_receives": 9}).dead_letter_queue == "dead"


@given(st.text(), json_values)
def test_an_unknown_setting_is_refused(name: str, value: object) -> None:
    if name not in {field.name for field in fields(QueueSettings)}:
        with pytest.raises(InvalidSetting) as caught:
            QueueSettings().changed({name: value})
        assert "is not a setting" in str(caught.value)


def test_a_refused_change_changes_nothing() -> None:
    settings = QueueSettings(retention=Millis(5))
    with pytest.raises(InvalidSetting):
        settings.changed({"retention": 6, "max_bytes": -1})
    assert settings == QueueSettings(retention=Millis(5))


# Files, whose text is not always ours.


@given(changes, st.dictionaries(st.text().map("later_".__add__), json_values, max_size=3))
def test_a_setting_of_a_later_version_is_passed_over(
    changes: dict[str, object], later: dict[str, object]
) -> None:
    settings = QueueSettings().changed(changes)
    file = seal({**later, **asdict(settings), "created_at": NOW})
    assert decode(file, "file").settings == settings


@given(changes)
def test_a_setting_that_is_missing_has_its_default(changes: dict[str, object]) -> None:
    file = seal({**changes, "created_at": NOW})
    assert decode(file, "file").settings == QueueSettings().changed(changes)


@given(changes, st.integers(0, 1_000))
def test_a_truncated_file_is_never_taken_for_settings(changes: dict[str, object], at: int) -> None:
    file = encode(Record(settings=QueueSettings().changed(changes), created_at=NOW))
    with pytest.raises(TornSettings, match=r"q\.3\.json"):
        decode(file[: at % len(file)], "q.3.json")


@given(st.binary() | json_values.map(lambda value: seal_text(json.dumps(value))))
@example(b"")
@example(b"null")
@example(seal_text("null"))
@example(seal_text("[]"))
@example(b"\0" * 64)
@example(b"\xff\xfe")
@example(seal_text("[" * 100_000))
@example(seal_text('{"a":' * 100_000))
@example(seal_text("1" * 100_000))
def test_garbage_is_damage_and_nothing_worse(file: bytes) -> None:
    try:
        decode(file, "file")
    except DamagedSettings:
        return
    assert "created_at" in unseal(file)


def test_settings_without_a_seal_or_with_a_flipped_bit_are_damaged() -> None:
    """One flipped bit made `"retention":0` a retention of 4 ms, by which the queue's messages went."""
    whole = encode(Record(settings=QueueSettings(), created_at=NOW, labels={"team": "a"}))
    with pytest.raises(DamagedSettings):
        decode(whole[: whole.index(b"\n") + 1].replace(b'"retention":0', b'"retention":4'), "f")
    for at in range(len(whole)):
        for bit in range(8):
            flipped = bytearray(whole)
            flipped[at] ^= 1 << bit
            with pytest.raises(DamagedSettings) as caught:
                decode(bytes(flipped), "f")
            assert not isinstance(caught.value, TornSettings), "it counts as lost, not as unwritten"


@pytest.mark.parametrize("name", [field.name for field in fields(QueueSettings)])
@given(value=json_values)
def test_a_file_with_a_wrong_value_is_damage_and_nothing_worse(name: str, value: object) -> None:
    file = seal({"created_at": NOW, name: value})
    try:
        settings = decode(file, "file").settings
    except DamagedSettings:
        return
    assert getattr(settings, name) == value
    assert type(getattr(settings, name)) is type(getattr(QueueSettings(), name))


@pytest.mark.parametrize("value", [1, "true", None, [True], False], ids=repr)
def test_only_a_true_tombstone_deletes_a_queue(value: object) -> None:
    file = seal({"created_at": NOW, "deleted": value})
    assert decode(file, "file").settings == QueueSettings()


@pytest.mark.parametrize("value", [None, True, -1, 10**13, 10**30, 1.5, "1", [], {}], ids=repr)
def test_a_file_without_a_plausible_birth_is_damage(value: object) -> None:
    for more in (asdict(QueueSettings()), {"deleted": True}):
        with pytest.raises(DamagedSettings, match="created_at"):
            decode(seal({**more, "created_at": value}), "file")
        with pytest.raises(DamagedSettings, match="created_at"):
            decode(seal(more), "file")


@pytest.mark.parametrize(
    "labels", [{"": "x"}, {"x" * 129: "x"}, {"x": "y" * 1_025}, {"x": "\ud800"}, {"x": 1}]
)
def test_labels_that_no_queue_can_have_are_refused(labels: dict[str, object]) -> None:
    with pytest.raises(InvalidSetting):
        check_labels(labels)
    with pytest.raises(DamagedSettings):
        decode(seal({"created_at": 1, "labels": labels}), "q.1.json")
    with pytest.raises(InvalidSetting):
        check_labels({str(number): "" for number in range(65)})


def test_labels_are_read_as_they_were_written() -> None:
    labels = {"team": "ä", "x" * 128: "y" * 1_024}
    record = Record(settings=QueueSettings(), created_at=Millis(1), salt="s", labels=labels)
    assert decode(encode(record), "q.1.json") == record
