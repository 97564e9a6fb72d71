"""The examples in other languages name the shard of a queue as the vectors do."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from typing import Any

import pytest

from tests import CHECKOUT
from tests.interop.interop_languages import EXAMPLES
from tests.support import STUCK

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
        done = subprocess.run(
            [program, *arguments, count, *(vector["queue"] for vector in VECTORS)],
            cwd=EXAMPLES / language.lower(),
            env={**os.environ, "PATH": TOOLS, "GO111MODULE": "off"},
            capture_output=True,
            text=True,
            timeout=STUCK,
            check=False,
        )
        assert done.returncode == 0, done.stderr
        found = [int(line) for line in done.stdout.split()]
        assert found == [vector["shards"][count] for vector in VECTORS]
