"""Makes the golden vectors, or says which of them the implementation disagrees with.

    .venv/bin/python -m tests.vectors.make            writes the files
    .venv/bin/python -m tests.vectors.make --check    compares, and exits with 1 if they differ

They are made by this implementation and kept in the repository, so that a change of what is on the wire
or on disk is seen as what it is, and so that another implementation can prove itself: README.md.

The texts of `names.json`, `records.json` and `shards.json` are written by hand, in those files: a new
one is an object with its text, and with `why` or `parsed` null where it is invalid.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any, Final

from tests.vectors import (
    message_vectors,
    name_vectors,
    record_vectors,
    shard_vectors,
    status_vectors,
)

HERE: Final = Path(__file__).parent


def made() -> dict[str, str]:
    """Return the text of each file, by its name."""
    return {
        "messages.json": _text({"vectors": message_vectors.vectors()}),
        "statuses.json": _text({"vectors": status_vectors.vectors()}),
        "names.json": _text(name_vectors.vectors(_kept("names.json"))),
        "records.json": _text(record_vectors.vectors(_kept("records.json"))),
        "shards.json": _text({"vectors": shard_vectors.vectors(_kept("shards.json"))}),
    }


def _kept(name: str) -> dict[str, Any]:
    kept: dict[str, Any] = json.loads((HERE / name).read_text())
    return kept


def _text(value: Any) -> str:
    return json.dumps(value, indent=1, ensure_ascii=False) + "\n"


def main() -> int:
    texts = made()
    if sys.argv[1:] == ["--check"]:
        differing = [name for name, text in texts.items() if (HERE / name).read_text() != text]
        for name in differing:
            print(f"make.py: {name} is not what this implementation says", file=sys.stderr)
        return 1 if differing else 0
    if sys.argv[1:]:
        print("usage: make.py [--check]", file=sys.stderr)
        return 2
    for name, text in texts.items():
        (HERE / name).write_text(text)
    return 0


if __name__ == "__main__":
    sys.exit(main())
