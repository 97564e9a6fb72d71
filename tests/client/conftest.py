"""The tests of the client. Being here, this file puts the folder on the import path of those below."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.client.lossy_root import LossyRoot, lossy_root


@pytest.fixture
def root() -> Iterator[LossyRoot]:
    with lossy_root() as root:
        yield root
