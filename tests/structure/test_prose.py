"""Prose names things of the system: subject clauses and metaphors become fewer, and never more.

`prose.json` holds the count of each word in docstrings, comments and texts of client and server, in the
protos' comments and in the documentation. A count above it fails. After a mend,
`python tests/structure/test_prose.py` stores the lower counts.
"""

from __future__ import annotations

import ast
import io
import json
import re
import sys
import tokenize
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import pytest

CHECKOUT: Final = Path(__file__).resolve().parents[2]
STORED: Final = Path(__file__).parent / "prose.json"

OPENING: Final = re.compile(r"\s*(who|what)\b", re.IGNORECASE)
"""The start of a docstring whose subject is a clause."""

WORDS: Final = {
    word: re.compile(rf"\b(?:{pattern})\b", re.IGNORECASE)
    for word, pattern in {
        "whoever": "whoever|whomever",
        "somebody": "somebody|someone",
        "nobody": "nobody",
        "everybody": "everybody|everyone",
        "anybody": "anybody|anyone",
        "he": "he|him|his",
        "bell": "bells?",
        "heir": "heirs?",
        "letters": "(?<!dead[ -])letters",
        "company": "company",
        "passenger": "passengers?",
        "gate": "gates?",
        "knock": "knock(?:s|ed|ing)?",
        "grave": "graves?",
        "door": "doors?",
        "crew": "crews?",
    }.items()
}


def docstrings_of(source: str) -> list[str]:
    """Return the strings that stand alone as statements: docstrings, of attributes too."""
    return [
        node.value.value
        for node in ast.walk(ast.parse(source))
        if isinstance(node, ast.Expr)
        and isinstance(node.value, ast.Constant)
        and isinstance(node.value.value, str)
    ]


def prose_of_python(source: str) -> str:
    """Return docstrings, string literals and comments, without the names of the code."""
    strings = [
        node.value
        for node in ast.walk(ast.parse(source))
        if isinstance(node, ast.Constant) and isinstance(node.value, str)
    ]
    tokens = tokenize.generate_tokens(io.StringIO(source).readline)
    return "\n".join(strings + [each.string for each in tokens if each.type == tokenize.COMMENT])


def prose_of_markdown(text: str) -> str:
    """Return a page without its code, in blocks and in lines."""
    return re.sub(r"`[^`\n]*`", "", re.sub(r"^```.*?^```", "", text, flags=re.DOTALL | re.MULTILINE))


def counts_of(docstrings: list[str], prose: str) -> Counter[str]:
    counts = Counter({word: len(pattern.findall(prose)) for word, pattern in WORDS.items()})
    counts["docstring begins with who or what"] = sum(bool(OPENING.match(each)) for each in docstrings)
    return counts


def _parts() -> Iterator[Counter[str]]:
    for folder in (
        "client/spoolrack",
        "client/kombu_spoolrack",
        "client/pyspark_spoolrack",
        "client/pyspark_spoolrack_root",
        "server",
    ):
        for path in sorted((CHECKOUT / folder).rglob("*.py")):
            if "v1" not in path.parts:
                source = path.read_text()
                yield counts_of(docstrings_of(source), prose_of_python(source))
    for path in sorted((CHECKOUT / "protos" / "spoolrack").rglob("*.proto")):
        yield counts_of([], "\n".join(re.findall(r"//.*", path.read_text())))
    pages = [CHECKOUT / name for name in ("README.md", "CONTRIBUTING.md", "helm/spoolrack/README.md")]
    for path in [*pages, *sorted((CHECKOUT / "docs").rglob("*.md"))]:
        yield counts_of([], prose_of_markdown(path.read_text()))


def counted() -> dict[str, int]:
    """Count every word over the project."""
    total: Counter[str] = Counter()
    for part in _parts():
        total.update(part)
    return dict(sorted(total.items()))


def test_subject_clauses_and_metaphors_become_fewer_and_never_more() -> None:
    stored = json.loads(STORED.read_text())
    found = counted()
    assert set(found) == set(stored)
    more = {word: (stored[word], count) for word, count in found.items() if count > stored[word]}
    assert not more, (
        f"stored and found: {more}. Write the new text with a thing of the system as subject."
    )


@pytest.mark.parametrize(
    ("source", "word"),
    [
        ('"""What comes back."""', "docstring begins with who or what"),
        ('x = 1\n"""Who waits."""', "docstring begins with who or what"),
        ("x = 1  # somebody waits", "somebody"),
        ('raise ValueError(f"{x}: nobody waits")', "nobody"),
        ('help = "the letters of a queue"', "letters"),
    ],
)
def test_a_clause_in_a_docstring_a_comment_or_a_text_is_counted(source: str, word: str) -> None:
    assert counts_of(docstrings_of(source), prose_of_python(source))[word] == 1


@pytest.mark.parametrize(
    "source", ['"""Return the whole."""', "heir = door(gate)", 'x = "dead letters of their queue"']
)
def test_names_of_the_code_and_terms_of_the_field_are_not_counted(source: str) -> None:
    assert not +counts_of(docstrings_of(source), prose_of_python(source))


if __name__ == "__main__":
    STORED.write_text(json.dumps(counted(), indent=2) + "\n")
    sys.stdout.write(STORED.read_text())
