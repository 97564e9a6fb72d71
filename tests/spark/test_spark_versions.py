"""With a pyspark that is too old for the data source, the package is imported, and says what to do."""

from __future__ import annotations

import importlib
import os
from collections.abc import Iterator
from pathlib import Path

import pyspark
import pyspark_spoolrack
import pytest
from spoolrack import spark
from spoolrack.testing import running_server

from tests import CHECKOUT
from tests.spark.spark_rig import HERE, environment, printed

OLD = os.environ.get("SPOOLRACK_OLD_SPARK", "")


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


@pytest.mark.slow
@pytest.mark.skipif(not OLD, reason="SPOOLRACK_OLD_SPARK names no python that has pyspark 3.4 to 4.1")
def test_an_old_spark_writes_each_batch_once(tmp_path: Path) -> None:
    """A python of an environment with such a pyspark, pandas, pyarrow, grpcio and protobuf."""
    python = Path(OLD).absolute()
    home = tmp_path / "old"
    home.mkdir()
    alone = {name: value for name, value in environment(home).items() if name != "SPARK_HOME"}
    alone |= dict.fromkeys(("PYSPARK_PYTHON", "PYSPARK_DRIVER_PYTHON"), str(python))
    alone["PYTHONPATH"] = str(CHECKOUT / "client")
    with running_server() as server, server.client() as client:
        for name in ("batches", "partitions", "stream"):
            client.create_queue(name)

        place = server.url.removeprefix("grpc://")
        said = printed(
            os.environ | alone, python, HERE / "old_job.py", place, tmp_path, folder=tmp_path
        )

        assert said.split()[-1] < "4.2"
        for name, count in (("batches", 80), ("partitions", 40), ("stream", 40)):
            found = client.queue(name).receive(1_000)
            assert sorted(int(message.text) for message in found) == list(range(count))
            assert name == "stream" or all(message.attributes for message in found)
