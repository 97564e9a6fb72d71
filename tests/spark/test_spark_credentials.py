"""A query of Spark at a server with TLS that asks who it is, and what Spark shows of that."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
import spoolrack
import trustme
from spoolrack_server.access.security import Security

from tests.support.access_rig import Files, in_a_thread

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def test_a_stream_goes_from_queue_to_queue_over_tls_and_its_token_is_shown_nowhere(
    spark: SparkSession, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "etc").mkdir()
    files, ca = Files(tmp_path / "etc"), trustme.CA()
    trusted = files.write_ca(ca)
    security = Security(
        tls=files.write_certificate(ca),
        tokens=files.write_tokens("query", "owner"),
        permissions=files.write_permissions(
            "owner all *", "query receive,monitor orders", "query send invoices"
        ),
    )
    token = files.tokens["query"]
    said = files.write("credentials", f"token={token}\nca={trusted}\n")
    with in_a_thread(tmp_path / "root", security) as address:
        options = {"endpoint": f"grpcs://{address}", "credentials": f"file={said}"}
        with spoolrack.connect(f"grpcs://{address}", ca=trusted, token=files.tokens["owner"]) as client:
            for queue in ("orders", "invoices"):
                client.create_queue(queue)
            client.queue("orders").send_many([f"{number}" for number in range(100)])
            source = spark.readStream.format("spoolrack").options(**options, queue="orders").load()
            query = (
                source.select("body")
                .writeStream.format("spoolrack")
                .options(**options, queue="invoices")
                .option("checkpointLocation", str(tmp_path / "checkpoint"))
                .trigger(availableNow=True)
                .start()
            )
            query.awaitTermination()
            source.explain(extended=True)
            query.explain(extended=True)
            bodies = sorted(int(message.body) for message in client.queue("invoices").peek())
            assert bodies == list(range(100))
            batch = spark.read.format("spoolrack").options(**options, queue="orders").load()
            assert batch.count() == 0
            batch.explain(extended=True)
            denied = spark.read.format("spoolrack").options(**options, queue="invoices").load()
            with pytest.raises(Exception, match="query may not monitor"):
                denied.collect()
    shown = "".join(capfd.readouterr())
    assert "Plan" in shown
    kept = [path.read_bytes() for path in (tmp_path / "checkpoint").rglob("*") if path.is_file()]
    assert kept
    for text in (shown.encode(), *kept, str(query.lastProgress).encode()):
        assert token.encode() not in text
        assert b"PRIVATE" not in text
    assert os.path.exists(said)
