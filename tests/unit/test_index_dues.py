"""The time at which a lease or a delay ends is that of the highest name of a message.

A process that joins finds a name beside the one that has replaced it, in any order: the lower one was
taken for the end of the lease, which never came back then.
"""

from __future__ import annotations

import pytest
from spoolrack_store.engine.index import Index
from spoolrack_store.model.clock import Millis
from spoolrack_store.model.names import Name, name_at

ID = "018bcfe6-0445-777e-a94b-af94d98ec000"
HIGHER = f"delay/q:{ID},s0,c00000000,v8,r2,f1700000055705@1700000065707~0ov81932tllc4"
LOWERS = (
    f"delay/q:{ID},s0,c00000000,v7,r1,f1700000055705@1700000060000",
    f"delay/q:{ID},s0,c00000000,v7,r1,f1700000055705@1700000060000~1ov81932tllc4",
    f"queues/q/{ID},s0,c00000000,v7,r1,f1700000055705",
)


def name(path: str) -> Name:
    found = name_at(path)
    assert found is not None
    return found


@pytest.mark.parametrize("lower", LOWERS)
@pytest.mark.parametrize("is_first", [True, False])
def test_a_lower_name_ends_no_lease(lower: str, is_first: bool) -> None:
    index = Index()
    named = [(name(lower), 100), (name(HIGHER), 500)]
    for each, due in named if is_first else reversed(named):
        index.appear(each, 1, due=due)
    assert index.dues.next() == 500
    old = index.entry_at(name(lower))
    assert old is not None
    index.disappear(old, 2)
    assert list(index.due(Millis(499))) == []
    assert [entry.name.version for entry in index.due(Millis(500))] == [8]
