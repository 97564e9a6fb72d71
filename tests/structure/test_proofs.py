"""The page of proofs names tests that exist, and each of its codes is explained and used."""

from __future__ import annotations

import ast
import re

import pytest

from tests import CHECKOUT

PAGE = (CHECKOUT / "docs" / "explanation" / "durability.md").read_text()
NAMED = sorted(set(re.findall(r"tests/[\w/]+\.py(?:::\w+)?", PAGE)))


@pytest.mark.parametrize("named", NAMED)
def test_a_test_that_the_page_names_exists(named: str) -> None:
    path, _, test = named.partition("::")
    tree = ast.parse((CHECKOUT / path).read_text())
    tests = {
        node.name for node in tree.body if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
    }
    assert not test or test in tests


def test_every_code_of_the_table_is_explained_and_every_explained_one_used() -> None:
    rows = [line for line in PAGE.splitlines() if line.startswith("|")]
    used = {code for row in rows for code in re.findall(r"\b[A-Z]\d\b", row)}
    explained = set(re.findall(r"^- ([A-Z]\d) ", PAGE, re.MULTILINE))
    assert used == explained
