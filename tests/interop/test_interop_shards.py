"""The examples in other languages name the shard of a queue as the vectors do."""

from __future__ import annotations

import json
import os
import shutil
from typing import Any

import pytest

from tests import CHECKOUT
from tests.interop.interop_languages import EXAMPLES
from tests.support.serving import output_of

VECTORS: list[dict[str, Any]] = json.loads((CHECKOUT / "tests/vectors/shards.json").read_text())[
    "vectors"
]
TOOLS = f"{CHECKOUT / '.toolchains' / 'bin'}:{os.environ.get('PATH', os.defpath)}"
PROGRAMS = {"Go": ("go", "run", "shards/main.go"), "Node": ("node", "shards.js")}


@pytest.mark.parametrize("language", sorted(PROGRAMS))
def test_an_example_names_the_shard_of_the_vectors(language: str) -> None:
    tool, *arguments = PROGRAMS[language]
    program = shutil.which(tool, path=TOOLS)
    if program is None:
        pytest.skip(f"needs the toolchain of {language}: no {tool}")
    for count in ("3", "1024"):
        command = (program, *arguments, count, *(vector["queue"] for vector in VECTORS))
        more = {"PATH": TOOLS, "GO111MODULE": "off"}
        printed = output_of(*command, folder=EXAMPLES / language.lower(), **more)
        found = [int(line) for line in printed.split()]
        assert found == [vector["shards"][count] for vector in VECTORS]
