"""Memory of files that were read or written: the last ones only."""

from __future__ import annotations

from spoolrack_store.model.operations import Delete, Receive, Send

from tests.store.trouble_rig import Rig
from tests.support.linked_disk import made
from tests.support.power_disk import Model

BODIES = [b"a" * 100, b"b" * 300]


def test_a_file_that_leaves_the_cache_takes_its_line_along_and_counts_as_before() -> None:
    rig = Rig(made(["q"], can_sync_all=True, model=Model.ANY_SUBSET), cache_bytes=1_600)
    rig.add("q")
    for _ in range(5):
        rig.commit(Send(queue="q", bodies=BODIES))
    rig.commit()
    queue = rig.engine.index.queue("q")
    lines = [entry.batch.line is not None for entry in queue.entries]
    assert (queue.bytes, sum(lines)) == (2_000, 2)

    (deliveries,) = rig.commit(Receive(queue="q", max_messages=3))
    assert [body for each in deliveries for body in each.bodies] == [*BODIES, BODIES[0]]
    receipts = [receipt for each in deliveries for receipt in each.receipts]
    rig.commit(Delete(queue="q", receipts=receipts))
    (deliveries,) = rig.commit(Receive(queue="q", max_messages=10))
    receipts = [receipt for each in deliveries for receipt in each.receipts]
    rig.commit(Delete(queue="q", receipts=receipts))
    assert (queue.total, queue.bytes) == (0, 0)


def test_the_bytes_of_a_queue_have_those_of_attributes_without_any_line_in_memory() -> None:
    rig = Rig(made(["q"], can_sync_all=True, model=Model.ANY_SUBSET), cache_bytes=1_000)
    rig.add("q")
    rig.commit(Send(queue="q", bodies=BODIES, attributes={0: {"name": "value"}}))
    for _ in range(5):
        rig.commit(Send(queue="q", bodies=BODIES))
    rig.commit()
    expected = 6 * 400 + len("name" + "value")
    assert rig.engine.index.queue("q").bytes == expected
    assert next(iter(rig.engine.index.batches.values())).line is None
    rig.start()
    rig.commit()
    assert rig.engine.index.queue("q").bytes == expected
