"""Prose names things of the system: subject clauses and metaphors become fewer, and never more.

`prose.json` holds the count of each word in docstrings, comments and texts of client and server, in the
protos' comments and in the documentation, and beside it in tests, benchmarks and examples. It also
counts sentences whose subject is a clause, and functions whose docstring doesn't begin with a verb. A
count above the stored one fails. `python -m tests.structure.test_prose` stores the lower counts.
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

from tests import CHECKOUT

STORED: Final = Path(__file__).parent / "prose.json"

SUBJECT_CLAUSE: Final = re.compile(
    r"(?:^|[.!?:;]\s+|\n\s*\n\s*)(?!what\s+can\s+fail\b)(?:who|whom|what|whatever|whoever)\b"
    r"[^.?!:;|]*(?P<end>[.?!:;|]|$)",
    re.IGNORECASE,
)
"""A sentence or a part of one whose subject is a clause; questions are none."""
WITHOUT_VERB: Final = re.compile(
    r"(?:an?|the|whether|who|what|how|when|where|which|if|as|so|up|all|each|every|no|nothing|one|it|its"
    r"|this|that|those|these|seconds|bytes|messages|settings|returns|raises|yields|makes|sends)\b|`",
    re.IGNORECASE,
)
"""The beginning of a function's docstring that is no imperative."""

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
        # Of messages: those of an alphabet, and dead letters, are the right word.
        "letters": r"(?<!dead[ -])(?<!small )(?<!80 )letters(?!,? (?:and )?digits)",
        "company": "company",
        "passenger": "passengers?",
        "gate": "gates?",
        "knock": "knock(?:s|ed|ing)?",
        "grave": "graves?",
        "door": "doors?",
        "crew": "crews?",
    }.items()
}

_ANY: Final = re.compile(
    rf"{'|'.join(each.pattern for each in WORDS.values())}|\b(?:who|whom|what|whatever|whoever)\b",
    re.IGNORECASE,
)
"""What a text that counts has. Most files have nothing of it, and needn't be taken apart."""


def texts_of_python(source: str, tree: ast.Module) -> Iterator[str]:
    """Yield docstrings, string literals and comments, without the names of the code."""
    for node in ast.walk(tree):
        # A word alone is data, not prose.
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and " " in node.value:
            yield node.value
    lines: list[str] = []
    last = 0
    for token in tokenize.generate_tokens(io.StringIO(source).readline):
        if token.type == tokenize.COMMENT:
            if token.start[0] != last + 1 and lines:
                yield "\n".join(lines)
                lines = []
            lines.append(token.string.lstrip("# "))
            last = token.start[0]
    yield "\n".join(lines)


def comments_of_proto(text: str) -> str:
    """Return the comments, each block a paragraph."""
    blocks = re.findall(r"(?:^[ ]*//.*\n)+", text, flags=re.MULTILINE)
    return "\n\n".join(re.sub(r"^[ ]*//[ ]?", "", block, flags=re.MULTILINE) for block in blocks)


def prose_of_markdown(text: str) -> str:
    """Return a page without its headings, and without its code, in blocks and in lines."""
    text = re.sub(r"^```.*?^```|^#.*?$", "", text, flags=re.DOTALL | re.MULTILINE)
    return re.sub(r"`[^`\n]*`", "", text)


def is_without_verb(function: ast.FunctionDef | ast.AsyncFunctionDef) -> bool:
    """Return whether a function has a docstring, and it doesn't begin with what the call does."""
    decorators = [ast.unparse(each) for each in function.decorator_list]
    is_noun = function.name.startswith(("test_", "__init__")) or any(
        word in each for each in decorators for word in ("property", "fixture", "command")
    )
    return not is_noun and bool(WITHOUT_VERB.match(ast.get_docstring(function) or ""))


def counts_of(prose: str) -> Counter[str]:
    """Count the words of a text, and the sentences with a clause as their subject."""
    counts = Counter({word: len(pattern.findall(prose)) for word, pattern in WORDS.items()})
    counts["subject clause"] = sum(each["end"] != "?" for each in SUBJECT_CLAUSE.finditer(prose))
    return counts


def counts_of_python(source: str) -> Counter[str]:
    """Count in docstrings, string literals and comments."""
    counts: Counter[str] = Counter()
    tree = ast.parse(source)
    if _ANY.search(source):
        for text in texts_of_python(source, tree):
            counts.update(counts_of(text))
    counts["docstring without verb"] = sum(
        is_without_verb(node)
        for node in ast.walk(tree)
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
    )
    return counts


def _parts(folders: tuple[str, ...], others: tuple[str, ...]) -> Iterator[Counter[str]]:
    for folder in folders:
        for path in sorted((CHECKOUT / folder).rglob("*.py")):
            is_generated = path.parent.name in ("v1", "keda")
            if not is_generated and path != Path(__file__):
                yield counts_of_python(path.read_text())
    for pattern in others:
        for path in sorted(CHECKOUT.glob(pattern)):
            text = path.read_text()
            is_proto = path.suffix == ".proto"
            yield counts_of(comments_of_proto(text) if is_proto else prose_of_markdown(text))


def counted() -> dict[str, dict[str, int]]:
    """Count every word over what is shipped, and over the tests."""
    shipped: Counter[str] = Counter()
    for part in _parts(
        ("client", "server"),
        (
            "protos/spoolrack/**/*.proto",
            "docs/**/*.md",
            "README.md",
            "CONTRIBUTING.md",
            "helm/spoolrack/README.md",
        ),
    ):
        shipped.update(part)
    tests: Counter[str] = Counter()
    for part in _parts(("tests", "benchmarks", "examples"), ()):
        tests.update(part)
    return {"shipped": dict(sorted(shipped.items())), "tests": dict(sorted(tests.items()))}


def test_subject_clauses_and_metaphors_become_fewer_and_never_more() -> None:
    stored = json.loads(STORED.read_text())
    found = counted()
    more = {
        f"{part}: {word}": (stored[part][word], count)
        for part, counts in found.items()
        for word, count in counts.items()
        if count > stored[part][word]
    }
    assert not more, (
        f"stored and found: {more}. Write the new text with a thing of the system as subject."
    )


@pytest.mark.parametrize(
    ("source", "word"),
    [
        ('"""What comes back."""', "subject clause"),
        ('"""Wait. What comes\nis taken."""', "subject clause"),
        ('x = 1\n"""Who waits."""', "subject clause"),
        ("x = 1\n# A lock: who\n# waits, waits.", "subject clause"),
        ("x = 1  # somebody waits", "somebody"),
        ('raise ValueError(f"{x}: nobody waits")', "nobody"),
        ('help = "the letters of a queue"', "letters"),
        ('def f():\n    """Whether it is."""', "docstring without verb"),
    ],
)
def test_a_clause_in_a_docstring_a_comment_or_a_text_is_counted(source: str, word: str) -> None:
    assert counts_of_python(source)[word] == 1


@pytest.mark.parametrize(
    "source",
    [
        '"""Return the whole."""',
        "heir = door(gate)",
        'x = "dead letters of their queue"',
        'x = "use 1 to 80 letters, digits and _"',
        '"""The log. What can fail: the disk."""',
        'x = "Who waits? The receive."',
        'def f():\n    """Return whether it is."""',
        'queue = "nobody"',
        '@property\ndef f():\n    """The root."""',
    ],
)
def test_names_of_the_code_and_terms_of_the_field_are_not_counted(source: str) -> None:
    assert not +counts_of_python(source)


def test_comments_of_a_proto_and_pages_are_counted_and_code_is_not() -> None:
    assert counts_of(comments_of_proto("  // Nobody\n  // waits.\n  nobody = 1;\n"))["nobody"] == 1
    assert not +counts_of(prose_of_markdown("# What is left\nA `nobody`:\n```\nnobody\n```\n"))


if __name__ == "__main__":
    STORED.write_text(json.dumps(counted(), indent=2) + "\n")
    sys.stdout.write(STORED.read_text())
