"""Credits in flight are never free, and a returned credit notifies its listeners."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st
from spoolrack_store.credits import Credits


@given(st.integers(0, 100), st.lists(st.integers(0, 20), max_size=30))
def test_credits_in_flight_and_free_credits_add_up_to_the_limit(limit: int, wishes: list[int]) -> None:
    returns = 0

    def on_return() -> None:
        nonlocal returns
        returns += 1

    credits = Credits(limit, on_return)
    held: list[int] = []
    for wish in wishes:
        if wish % 3 == 0 and held:
            credits.give_back(held.pop())
        else:
            taken = min(wish, credits.free)
            credits.charge(taken)
            held.append(taken)
        assert credits.in_flight == sum(held)
        assert credits.free == limit - sum(held)
    before = returns
    for count in held:
        credits.give_back(count)
    assert returns == before + len(held)
    assert credits.free == limit


@given(st.integers(1, 4), st.lists(st.tuples(st.integers(0, 5), st.integers(0, 3)), max_size=40))
def test_a_consumer_with_so_many_handlers_has_begun_what_its_answers_tell(
    concurrency: int, steps: list[tuple[int, int]]
) -> None:
    credits = Credits(1_000, lambda: None, concurrency=concurrency)
    begun, in_hand = 0, []
    for arriving, lane in steps:
        credits.charge(arriving)
        assert credits.deliver(arriving) == credits.delivered - arriving
        if lane < len(in_hand):
            del in_hand[lane]
            credits.give_back(1)
        while len(in_hand) < concurrency and begun < credits.delivered:
            in_hand.append(begun)
            begun += 1
        # All that it has begun; and with all handlers busy nothing else.
        assert begun <= credits.begun
        if len(in_hand) == concurrency:
            assert credits.begun == begun


def test_a_report_changes_the_limit_and_one_without_keeps_it() -> None:
    credits = Credits(2, lambda: None, concurrency=1)
    credits.charge(credits.free)
    credits.deliver(2)
    credits.report(1, 5)
    assert credits.free == 3
    credits.report(2)
    assert credits.free == 3
    credits.report(2, 1)
    assert credits.free == 0
