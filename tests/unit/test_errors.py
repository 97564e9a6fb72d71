"""The store's errors: each says what happened, to what, and what to do, also across a pickle."""

from __future__ import annotations

import copy
import inspect
import pickle
import re
from string import Formatter

import pytest
from hypothesis import given
from hypothesis import strategies as st
from spoolrack_store.model import errors
from spoolrack_store.model.errors import (
    LONGEST_FACT,
    InvalidReceipt,
    QueueFull,
    QueueNotFound,
    StoreError,
)

KINDS = [
    kind
    for kind in vars(errors).values()
    if isinstance(kind, type) and issubclass(kind, StoreError) and kind is not StoreError
]
kinds = pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.__name__)


def facts_of(kind: type[StoreError]) -> dict[str, object]:
    """Return a fact for each field of the message, which is the docstring."""
    fields = [field for _, field, _, _ in Formatter().parse(inspect.getdoc(kind) or "") if field]
    return {field: f"the-{field}" for field in fields}


@kinds
def test_a_reason_is_the_name_of_its_class(kind: type[StoreError]) -> None:
    assert kind.reason == re.sub(r"(?<=[a-z])(?=[A-Z])", "_", kind.__name__).upper()


@kinds
def test_a_message_is_one_line_and_names_every_fact(kind: type[StoreError]) -> None:
    facts = facts_of(kind)
    error = kind(**facts)
    text = str(error)
    assert error.facts == facts
    assert all(str(fact) in text for fact in facts.values())
    assert text.splitlines() == [text]
    assert "  " not in text
    assert not set("{}") & set(text)
    assert text[-1] in ".)"


def test_a_message_that_ends_with_another_error_has_one_full_stop() -> None:
    why = errors.MessageTooLarge(size=9, queue="jobs", limit=5)
    assert str(errors.InvalidMessage(why=str(why))) == f"The message can't be stored: {why}"
    assert str(errors.InvalidMessage(why="it has none")).endswith("it has none.")


@kinds
def test_an_error_survives_a_pickle_and_a_copy(kind: type[StoreError]) -> None:
    error = kind(**facts_of(kind))
    for other in (pickle.loads(pickle.dumps(error)), copy.copy(error), copy.deepcopy(error)):
        assert type(other) is kind
        assert str(other) == str(error)
        assert other.facts == error.facts
        assert other.reason == error.reason
        assert other.retry_after == error.retry_after


@kinds
def test_a_missing_fact_is_noticed_at_once(kind: type[StoreError]) -> None:
    facts = facts_of(kind)
    for missing in facts:
        with pytest.raises(KeyError, match=missing):
            kind(**{name: fact for name, fact in facts.items() if name != missing})


@kinds
def test_a_delay_before_a_retry_is_short_and_positive(kind: type[StoreError]) -> None:
    assert kind.retry_after is None or 0 < kind.retry_after <= 60_000


@pytest.mark.parametrize("text", ["{0}", "{name.__class__}", "{", "}", "%s", "{name!r:>1000000}"])
def test_a_caller_s_text_is_never_taken_for_a_field(text: str) -> None:
    assert text in str(QueueNotFound(queue=text))
    assert text in str(InvalidReceipt(receipt=text))


@given(st.text())
def test_a_quoted_fact_can_be_printed_whatever_it_holds(text: str) -> None:
    message = str(InvalidReceipt(receipt=text))
    assert message.encode()
    assert message.splitlines() == [message]


@pytest.mark.parametrize("character", ["a", "\0", "é", "\U0010ffff"], ids=ascii)
def test_ten_megabytes_of_a_callers_text_do_not_come_back(character: str) -> None:
    error = InvalidReceipt(receipt=character * 10_000_000)
    assert len(str(error)) < 12 * LONGEST_FACT
    assert len(pickle.dumps(error)) < 12 * LONGEST_FACT
    assert pickle.loads(pickle.dumps(error)).facts == error.facts


def test_a_fact_of_a_usual_length_is_whole() -> None:
    assert InvalidReceipt(receipt="r" * LONGEST_FACT).facts == {"receipt": "r" * LONGEST_FACT}


def test_numbers_stay_numbers() -> None:
    error = QueueFull(queue="q", held=5, limit=4, unit="messages")
    assert error.facts == {"queue": "q", "held": 5, "limit": 4, "unit": "messages"}
    assert "with 5 of 4 messages" in str(error)
