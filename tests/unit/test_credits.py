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


def test_without_a_concurrency_all_is_begun_and_no_consumer_is_silent() -> None:
    credits = Credits(5, lambda: None)
    credits.charge(2)
    credits.deliver(2)
    credits.be_silent(0)
    assert credits.begun > 2
    assert not credits.is_silent


def test_a_silent_consumer_has_nothing_free_until_it_reports_or_answers() -> None:
    returned: list[int] = []
    credits = Credits(5, lambda: returned.append(credits.free), concurrency=1)
    for act in (lambda: credits.report(1), lambda: credits.give_back(1)):
        credits.charge(2)
        credits.deliver(2)
        credits.give_back(1, is_answer=False)
        credits.be_silent(credits.delivered)
        assert credits.free == 0
        act()
        assert returned[-1] > 0


def test_an_expiry_tells_nothing_of_what_is_begun() -> None:
    credits = Credits(5, lambda: None, concurrency=1)
    credits.charge(5)
    credits.deliver(5)
    credits.give_back(3, is_answer=False)
    assert credits.begun == 1


def test_messages_that_reach_no_consumer_leave_their_numbers_to_others() -> None:
    credits = Credits(5, lambda: None, concurrency=1)
    credits.charge(3)
    credits.deliver(3)
    credits.undeliver(2)
    credits.give_back(2, is_answer=False)
    assert credits.deliver(1) == 1


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
