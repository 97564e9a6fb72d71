"""CAs and files for servers that ask who calls."""

from __future__ import annotations

from pathlib import Path

import pytest
import trustme

from tests.support.access_rig import Files


@pytest.fixture(scope="session")
def ca() -> trustme.CA:
    return trustme.CA()


@pytest.fixture(scope="session")
def other_ca() -> trustme.CA:
    return trustme.CA()


@pytest.fixture
def files(tmp_path: Path) -> Files:
    folder = tmp_path / "etc"
    folder.mkdir()
    return Files(folder)
