"""The queues of a source that names several, or patterns of names."""

from __future__ import annotations

import re
from collections.abc import Sequence
from fnmatch import fnmatchcase
from itertools import takewhile
from typing import Any, Final

from ..v1 import queue_service_pb2 as rpc
from ._light_client import LightClient

PAGE: Final = 1_000


def matching(caller: LightClient, words: Sequence[str]) -> dict[str, Any]:
    """Return the `QueueCounts` of the queues that exist and match one of the words, by name."""
    literal = [re.split(r"[*?]", word, maxsplit=1)[0] for word in words]
    common = takewhile(lambda pair: pair[0] == pair[1], zip(min(literal), max(literal), strict=False))
    request = rpc.ListQueuesRequest(page_size=PAGE, prefix="".join(one for one, _ in common))
    found: dict[str, Any] = {}
    for page in caller.pages("ListQueues", request):
        for queue in page.queues:
            if any(fnmatchcase(queue.name, word) for word in words):
                found[queue.name] = queue.counts
    return found
