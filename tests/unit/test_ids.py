"""Ids: their form, and that one maker's ids rise whatever the clock does."""

from __future__ import annotations

import string
import uuid
from datetime import UTC, datetime
from random import Random

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from spoolrack_store.manual_clock import ManualClock
from spoolrack_store.model.clock import DAY, LAST_MOMENT, Millis
from spoolrack_store.model.message_ids import PLAUSIBLE_LEAD, IdMaker, first_id_of, is_id, sent_at

NOW = Millis(1_700_000_000_000)

uuids = st.integers(0, 2**128 - 1).map(lambda number: str(uuid.UUID(int=number)))
uuids_near_now = st.builds(
    lambda lead, rest: str(uuid.UUID(int=((NOW + lead) << 80) | rest)),
    st.integers(-5, 5) | st.integers(-2 * DAY, 2 * DAY),
    st.integers(0, 2**80 - 1)
    | st.sampled_from([0, 2**80 - 1, (0xF << 76), (0x7FFF << 64) | (2**64 - 1)]),
)


class Dice(Random):
    """Randomness at its edge: only ones, or only zeros."""

    def __init__(self, ones: bool) -> None:
        super().__init__(0)
        self._ones = ones

    def getrandbits(self, count: int, /) -> int:
        return (1 << count) - 1 if self._ones else 0


randoms = st.builds(Random, st.integers(0, 1_000)) | st.builds(Dice, st.booleans())


def is_version_7(id: str) -> bool:
    parsed = uuid.UUID(id)
    return is_id(id) and parsed.version == 7 and parsed.variant == uuid.RFC_4122 and str(parsed) == id


steps = st.lists(
    st.one_of(
        st.tuples(st.just("make"), st.integers(1, 5)),
        st.tuples(st.just("step"), st.integers(-3 * DAY, 3 * DAY) | st.integers(-2, 2)),
        st.tuples(st.just("rise"), uuids_near_now | uuids),
    ),
    max_size=40,
)


@given(randoms, steps)
def test_ids_rise_whatever_the_clock_does_and_whatever_is_found_on_disk(
    random: Random, steps: list[tuple[str, int | str]]
) -> None:
    clock = ManualClock(wall=NOW)
    maker = IdMaker(clock, random)
    last = maker.make()
    for kind, argument in steps:
        if isinstance(argument, str):
            maker.rise_above(argument)
            if sent_at(argument) <= clock.wall() + PLAUSIBLE_LEAD:
                last = max(last, argument)
        elif kind == "step":
            clock.step_wall(argument)
        else:
            for _ in range(argument):
                made = maker.make()
                assert is_version_7(made)
                assert made > last
                assert sent_at(made) >= clock.wall()
                last = made


@given(randoms, uuids_near_now)
def test_the_first_id_after_a_restart_stands_above_every_plausible_one(random: Random, id: str) -> None:
    maker = IdMaker(ManualClock(wall=NOW), random)
    maker.rise_above(id)
    made = maker.make()
    if sent_at(id) <= NOW + PLAUSIBLE_LEAD:
        assert made > id
    else:
        assert sent_at(made) == NOW


@pytest.mark.parametrize(
    "id",
    [
        f"{first_id_of(NOW)[:13]}-ffff-ffff-ffffffffffff",
        f"{first_id_of(NOW)[:13]}-8000-8000-000000000000",
        f"{first_id_of(NOW)[:13]}-7fff-ffff-ffffffffffff",
        f"{first_id_of(NOW)[:13]}-7fff-bfff-ffffffffffff",
        f"{first_id_of(NOW)[:13]}-7000-c000-000000000000",
        f"{first_id_of(NOW)[:13]}-4fff-bfff-ffffffffffff",
    ],
)
def test_an_id_of_another_kind_with_the_same_time_is_risen_above_too(id: str) -> None:
    maker = IdMaker(ManualClock(wall=NOW), Dice(ones=False))
    maker.rise_above(id)
    assert maker.make() > id


def test_a_lead_of_a_day_is_followed_and_a_longer_one_is_not() -> None:
    clock = ManualClock(wall=NOW)
    maker = IdMaker(clock, Random(1))
    maker.rise_above(first_id_of(Millis(NOW + PLAUSIBLE_LEAD + 1)))
    assert sent_at(maker.make()) == NOW
    maker.rise_above(first_id_of(Millis(NOW + PLAUSIBLE_LEAD)))
    assert sent_at(maker.make()) == NOW + PLAUSIBLE_LEAD


@pytest.mark.parametrize("ones", [True, False])
def test_a_millisecond_never_runs_out_of_ids(ones: bool) -> None:
    maker = IdMaker(ManualClock(wall=NOW), Dice(ones=ones))
    maker.rise_above(f"{first_id_of(NOW)[:13]}-7fff-bfff-fffffffffff0")
    made = [maker.make() for _ in range(2_000)]
    assert made == sorted(set(made))
    assert sent_at(made[-1]) <= NOW + 2


@given(st.integers(0, LAST_MOMENT), st.integers(0, 2**32))
def test_an_id_tells_when_it_was_made_and_none_of_its_time_is_below_the_first(
    moment: int, seed: int
) -> None:
    made = IdMaker(ManualClock(wall=Millis(moment)), Random(seed)).make()
    assert sent_at(made) == moment
    assert is_version_7(first_id_of(Millis(moment)))
    assert sent_at(first_id_of(Millis(moment))) == moment
    assert first_id_of(Millis(moment)) <= made
    if moment:
        assert first_id_of(Millis(moment - 1)) < first_id_of(Millis(moment))


@given(uuids)
@example("ffffffff-ffff-ffff-ffff-ffffffffffff")
def test_any_uuid_has_a_time_that_a_calendar_knows(id: str) -> None:
    assert datetime.fromtimestamp(sent_at(id) / 1_000, UTC).year <= 2286


def test_a_moment_before_1970_is_taken_as_1970() -> None:
    assert first_id_of(Millis(-1)) == first_id_of(Millis(0))
    assert is_version_7(IdMaker(ManualClock(wall=Millis(-5)), Random(0)).make())


@given(uuids, uuids)
def test_ids_compare_as_text_as_they_do_as_numbers(one: str, other: str) -> None:
    assert (one < other) == (uuid.UUID(one).int < uuid.UUID(other).int)


@given(uuids)
def test_any_canonical_uuid_is_an_id(id: str) -> None:
    assert is_id(id)


ID = "0190b0c0-1234-7abc-8def-0123456789ab"


@pytest.mark.parametrize(
    "text",
    [
        "",
        ID.upper(),
        ID.replace("-", ""),
        ID + "\n",
        "\n" + ID,
        " " + ID,
        ID + "0",
        ID[:-1],
        f"{{{ID}}}",
        f"urn:uuid:{ID}",
        ID.replace("-", "_"),
        ID.replace("0", "\N{ARABIC-INDIC DIGIT ZERO}"),
        ID.replace("0", "\N{FULLWIDTH DIGIT ZERO}"),
        ID.replace("a", "\N{FULLWIDTH LATIN SMALL LETTER A}"),
        ID.replace("-", "\N{NON-BREAKING HYPHEN}"),
        ID[:-1] + "\0",
        ID[:-1] + "g",
    ],
)
def test_nothing_else_is_an_id(text: str) -> None:
    assert not is_id(text)


@given(st.text() | st.text(string.hexdigits + "-", min_size=36, max_size=36))
def test_garbage_is_not_an_id(text: str) -> None:
    try:
        canonical = str(uuid.UUID(text)) == text
    except ValueError:
        canonical = False
    assert is_id(text) == canonical
