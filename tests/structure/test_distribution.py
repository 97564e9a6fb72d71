"""pytest-xdist distributes the tests file by file over its workers."""

from __future__ import annotations

import os

import pytest


@pytest.mark.parametrize("place", range(20))
def test_the_tests_of_a_file_run_on_one_worker(
    place: int, tmp_path_factory: pytest.TempPathFactory
) -> None:
    worker = os.environ.get("PYTEST_XDIST_WORKER", "alone")
    folder = tmp_path_factory.getbasetemp()
    workers = (folder.parent if worker != "alone" else folder) / "workers"
    with workers.open("a") as file:
        file.write(f"{worker}\n")
    assert set(workers.read_text().split()) == {worker}
