"""Credits in flight are never free, and a returned credit notifies its listeners."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st
from spoolrack_store.model.credits import Credits


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


def test_the_return_is_told_after_the_credit_is_back() -> None:
    seen: list[int] = []
    allowance = Credits(3, lambda: seen.append(allowance.free))
    allowance.charge(3)
    allowance.give_back(1)
    allowance.give_back(2)
    assert seen == [1, 3]


def test_more_in_flight_than_a_lowered_limit_leaves_nothing_free() -> None:
    credits = Credits(5, lambda: None)
    credits.charge(5)
    credits.limit = 2
    assert credits.free == 0
    credits.give_back(4)
    assert credits.free == 1


def test_a_charge_notifies_no_listener() -> None:
    called: list[bool] = []
    Credits(1, lambda: called.append(True)).charge(1)
    assert not called
