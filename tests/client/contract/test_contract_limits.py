"""Promises of every transport with limits of leases."""

from __future__ import annotations

import pytest
import spoolrack
from spoolrack import Queue
from spoolrack.errors import InvalidSetting

from tests.client.contract.conftest import World

pytestmark = pytest.mark.needs("limits")


def reasons(queue: Queue) -> set[str]:
    return {each.reason for each in queue.info().obstacles}


def test_a_bound_on_leases_is_kept_and_told(client: spoolrack.Client) -> None:
    queue = client.create_queue("bounded", max_leased=2)
    assert queue.info().settings.max_leased == 2
    queue.send_many([b"x"] * 5)
    held = queue.receive(10)
    assert len(held) == 2
    assert queue.receive(10) == []
    assert "MAX_LEASED" in reasons(queue)
    held[0].delete()
    assert len(queue.receive(10)) == 1
    client.update_queue("bounded", max_leased=0)
    assert len(queue.receive(10)) == 2


@pytest.mark.needs("groups")
def test_a_bound_on_the_leases_of_a_group_is_kept_and_told(client: spoolrack.Client) -> None:
    queue = client.create_queue("grouped", group_max_leased=1)
    for group in "aab":
        queue.send(group, group=group)
    assert sorted(message.text for message in queue.receive(10)) == ["a", "b"]
    assert queue.receive(10) == []
    assert "GROUP_MAX_LEASED" in reasons(queue)


def test_a_rate_is_a_number_a_second_with_a_fraction(client: spoolrack.Client, world: World) -> None:
    queue = client.create_queue("rated", rate=0.1, rate_burst=2)
    settings = queue.info().settings
    assert (settings.rate, settings.rate_burst) == (0.1, 2)
    queue.send_many([b"x"] * 5)
    assert len(queue.receive(10)) == 2
    assert queue.receive(10) == []
    assert "RATE" in reasons(queue)
    world.advance(10)
    assert len(queue.receive(10)) == 1


@pytest.mark.parametrize("rate", [-1, 0.0001, 1e7, "2", True])
def test_an_impossible_rate_is_refused(client: spoolrack.Client, rate: object) -> None:
    with pytest.raises(InvalidSetting, match="rate"):
        client.create_queue("rated", rate=rate)  # type: ignore[arg-type]
