"""With a pyspark that is too old for the data source, the package is imported, and says what to do."""

from __future__ import annotations

import importlib
from collections.abc import Iterator

import pyspark
import pyspark_spoolrack
import pytest
from spoolrack import spark


@pytest.fixture(params=["3.4.4", "4.0.1", "4.1.0.dev1"])
def old(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    monkeypatch.setattr(pyspark, "__version__", request.param)
    monkeypatch.delattr(pyspark_spoolrack, "DefaultSource")
    yield request.param
    monkeypatch.undo()
    importlib.reload(pyspark_spoolrack)


def test_an_old_spark_finds_no_data_source_and_keeps_its_others(
    old: str, caplog: pytest.LogCaptureFixture
) -> None:
    importlib.reload(pyspark_spoolrack)

    assert not hasattr(pyspark_spoolrack, "DefaultSource")
    assert f"needs pyspark 4.2 or newer, and this is {old}" in caplog.text


def test_an_old_spark_is_told_what_to_use_instead(old: str) -> None:
    with pytest.raises(ImportError, match="foreachBatch"):
        _ = spark.SpoolrackDataSource


def test_a_new_spark_finds_the_data_source() -> None:
    assert pyspark_spoolrack.DefaultSource is spark.SpoolrackDataSource
