"""A long run counts what its campaigns tell, and takes no silence for success."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.proof.torture import shards
from tests.proof.torture.torture import SHARED_DISK, SIMULATED, Campaign, Summary, run
from tests.support import namespaces
from tests.support.run_counts import Tally, run_campaign


@pytest.fixture
def summary() -> Summary:
    return Summary()


def program(folder: Path, text: str) -> Campaign:
    path = folder / "campaign.py"
    path.write_text(text)
    return Campaign(name="some", program=[str(path)])


def test_counts_of_campaigns_of_one_name_are_added_up(summary: Summary) -> None:
    for _ in range(2):
        summary.add("some", Tally(campaign="some", runs=1, crashes=1_000, messages=3))

    assert summary.is_clean
    assert "| some     |    2 |   2,000 |        6 |" in summary.table()


def test_a_broken_promise_is_told_with_the_command_that_shows_it_again(summary: Summary) -> None:
    summary.add("some", Tally(campaign="some", runs=1, lost=1, broken=["seed 7"]))

    assert not summary.is_clean
    assert "broken: seed 7" in summary.table()


def test_a_campaign_that_dies_is_no_success(summary: Summary, tmp_path: Path) -> None:
    run(program(tmp_path, "raise SystemExit(3)"), 1.0, 1, summary)

    assert not summary.is_clean
    assert "died: some, with 3" in summary.table()


def test_a_campaign_that_can_not_run_here_is_named(summary: Summary) -> None:
    run(Campaign(name="some", program=["none.py"], absent="needs root"), 1.0, 1, summary)

    assert "not run: some: needs root" in summary.table()


def test_a_campaigns_tally_is_the_last_line_that_it_prints(summary: Summary, tmp_path: Path) -> None:
    told = Tally(campaign="some", runs=5, crashes=7).to_json()
    run(program(tmp_path, f"print('on the way'); print({told!r})"), 1.0, 1, summary)

    assert (summary.tallies["some"].runs, summary.tallies["some"].crashes) == (5, 7)


@pytest.mark.parametrize("campaign", [SIMULATED, SHARED_DISK], ids=lambda campaign: campaign.name)
def test_the_simulator_tells_its_tally(summary: Summary, campaign: Campaign) -> None:
    run(campaign, 0.5, 2, summary)

    assert summary.is_clean, summary.table()
    assert summary.tallies[campaign.name].crashes > 0


def test_a_campaign_ends_after_as_many_runs_as_it_was_told(capsys: pytest.CaptureFixture[str]) -> None:
    seeds: list[int] = []

    def once(seed: int) -> Tally:
        seeds.append(seed)
        return Tally(campaign="some", runs=1)

    assert run_campaign("some", once, ["--runs", "3", "--seed", "10"]) == 0
    assert seeds == [10, 11, 12]
    assert Tally.from_json(capsys.readouterr().out).runs == 3


@pytest.mark.slow
@pytest.mark.timeout(600)
@pytest.mark.skipif(namespaces.why_not() is not None, reason=namespaces.why_not() or "")
def test_shards_that_are_killed_frozen_and_cut_off_undo_nothing_and_keep_no_other_queue(
    summary: Summary,
) -> None:
    run(Campaign(name=shards.NAME, program=("-m", "tests.proof.torture.shards")), 1.0, 3, summary)

    assert summary.is_clean, summary.table()
    assert summary.tallies[shards.NAME].crashes >= shards.EVENTS
