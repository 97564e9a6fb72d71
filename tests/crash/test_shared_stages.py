"""Two engines that publish, drop and expire the same stages: all of each, or nothing, whoever dies."""

from __future__ import annotations

import pytest
from shared_stages import OPERATIONS, tales, try_deaths


@pytest.mark.parametrize("part", range(4))
def test_no_two_who_publish_drop_or_expire_the_same_stages_break_a_promise(part: int) -> None:
    crashes = sum(try_deaths(tale) for tale in list(tales(len(OPERATIONS) ** 2))[part::4])
    assert crashes > 500
