"""Pages of lists: sizes are coerced, tokens are opaque and belong to one list, no item is left out."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from spoolrack_server.app.pages import PagedList, PageTokens, page_size
from spoolrack_store.model.errors import InvalidRequest


def test_a_size_is_coerced() -> None:
    assert [page_size(size) for size in (0, 1, 1_000, 1_001, 2**31 - 1)] == [
        100,
        1,
        1_000,
        1_000,
        1_000,
    ]


def test_a_negative_size_is_refused() -> None:
    with pytest.raises(InvalidRequest, match="page_size"):
        page_size(-1)


@given(st.text(max_size=200).filter(lambda text: text.isprintable()))
def test_a_token_leads_to_where_its_page_ended(last: str) -> None:
    tokens = PageTokens("ListQueues", "a prefix")
    assert tokens.after(tokens.token(last), str, "") == last
    assert tokens.after("", str, "first") == "first"


@pytest.mark.parametrize(
    "other",
    [PageTokens("ListStages", "a"), PageTokens("ListQueues", "b"), PageTokens("ListQueues")],
    ids=["list", "filter", "none"],
)
def test_a_token_of_another_list_or_filter_is_refused(other: PageTokens) -> None:
    tokens = PageTokens("ListQueues", "a")
    with pytest.raises(InvalidRequest, match="page_token"):
        tokens.after(other.token("last"), str, "")


@given(st.text(min_size=1, max_size=100))
def test_an_invalid_token_is_refused(text: str) -> None:
    with pytest.raises(InvalidRequest, match="page_token"):
        PageTokens("ListQueues").after(text, str, "")


NUMBERS = PagedList[int, int](
    method="ListNumbers", cursor=int, first=0, read=int, queues=lambda number: (f"q{number % 3}",)
)


@given(st.integers(0, 30), st.integers(1, 10), st.integers(0, 10))
def test_a_walk_meets_each_item_once_in_order(count: int, size: int, after: int) -> None:
    def listing(*, after: int, limit: int) -> list[int]:
        return list(range(after + 1, count + 1))[:limit]

    assert list(NUMBERS.walk(listing, size)) == list(range(1, count + 1))
    assert list(NUMBERS.walk(listing, size, after)) == list(range(after + 1, count + 1))


@given(st.integers(0, 30), st.integers(1, 10), st.sets(st.sampled_from(["q0", "q1", "q2"])))
def test_pages_are_full_and_show_what_is_allowed_once(count: int, size: int, queues: set[str]) -> None:
    def listing(*, after: int, limit: int) -> list[int]:
        return list(range(after + 1, count + 1))[:limit]

    found: list[int] = []
    token = ""
    while True:
        page = NUMBERS.page(listing, queues.__contains__, size, token)
        found += page.items
        token = page.next_token
        if not token:
            break
        assert len(page.items) == size
    assert found == [number for number in range(1, count + 1) if f"q{number % 3}" in queues]
