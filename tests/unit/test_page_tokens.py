"""Pages of lists: sizes are coerced, tokens are opaque and belong to one list."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from spoolrack_server.app.pages import PageTokens, page_size
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
