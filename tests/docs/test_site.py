"""Each page is in the site, says at its beginning what it is, and has links that lead somewhere.

`make lint` builds the site, where a warning is an error. These tests need no Sphinx, and look at pages
outside the site, too.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Final

import pytest

from tests import CHECKOUT

DOCS: Final = CHECKOUT / "docs"
PARTS: Final = ("tutorials", "how-to", "reference", "explanation", "project")
PAGES: Final = sorted(path for kind in ("md", "rst") for path in DOCS.rglob(f"*.{kind}"))
OTHERS: Final = (
    "README.md",
    "CHANGELOG.md",
    "CONTRIBUTING.md",
    "helm/spoolrack/README.md",
    "protos/CHANGES.md",
    "tests/vectors/README.md",
    "tests/interop/PROTOCOL.md",
)


def name_of(path: Path) -> str:
    return str(path.relative_to(DOCS))


def prose(page: str) -> str:
    return re.sub(r"^```.*?^```", "", page, flags=re.DOTALL | re.MULTILINE)


def anchors(page: str) -> set[str]:
    """Return the fragments that a forge gives to the headings of a page."""
    headings = re.findall(r"^#+ (.+)$", prose(page), re.MULTILINE)
    plain = [re.sub(r"\]\([^)]*\)", "", each.lower()) for each in headings]
    return {re.sub(r"[^\w\- ]", "", each).replace(" ", "-") for each in plain}


def broken(path: Path, text: str) -> list[str]:
    """Return the links of a page within the project that lead to no file, or to no heading of it."""
    wrong = []
    inline, defined = r"\]\((?!\w+:)([^)\s]+)\)", r"^\[[^\]]+\]: (?!\w+:)(\S+)"
    for links in re.findall(f"{inline}|{defined}", prose(text), re.MULTILINE):
        link = "".join(links)
        file, _, fragment = link.partition("#")
        target = path.parent / file if file else path
        heading = fragment and target.suffix == ".md"
        if not target.exists() or (heading and fragment not in anchors(target.read_text())):
            wrong.append(link)
    return wrong


@pytest.mark.parametrize("path", [*PAGES, *(CHECKOUT / name for name in OTHERS)], ids=str)
def test_every_link_leads_to_a_file_and_a_heading_of_it(path: Path) -> None:
    assert not broken(path, path.read_text())


def test_a_link_that_leads_nowhere_is_found() -> None:
    page = DOCS / "index.md"
    text = "[a](how-to/client.md#no-heading) [b](no.md) [c](how-to/client.md)\n\n[d]: no.txt"
    assert broken(page, text) == ["how-to/client.md#no-heading", "no.md", "no.txt"]


@pytest.mark.parametrize("path", PAGES, ids=name_of)
def test_every_page_is_in_the_site(path: Path) -> None:
    """A part lists the pages of its folder, and a page those of the folder with its name."""
    if path == DOCS / "index.md":
        return
    part, *middle, _ = path.relative_to(DOCS).parts
    assert part in PARTS
    if middle:
        assert len(middle) == 1
        assert path.parent.with_suffix(".md") in PAGES


def test_the_index_lists_every_page() -> None:
    listed = set(re.findall(r"\]\(([\w/-]+\.(?:md|rst))\)", (DOCS / "index.md").read_text()))
    pages = {name_of(path) for path in PAGES if len(path.relative_to(DOCS).parts) == 2}
    assert {page for page in pages if not page.startswith("project/")} == listed


def test_the_index_says_what_it_is_and_how_it_is_installed_before_it_lists_pages() -> None:
    beginning = (DOCS / "index.md").read_text().partition("\n## ")[0]
    title, what, example, *_ = beginning.split("\n\n")
    assert (title, what.startswith("A durable message queue")) == ("# Spoolrack", True)
    assert example.startswith("```python\nimport spoolrack")
    assert "pip install" in beginning
    assert len(beginning.split()) < 300


def test_the_index_lists_how_to_pages_by_topics_that_fit_on_a_screen() -> None:
    """The site's navigation is that of the index: a heading, and the pages below it."""
    index = (DOCS / "index.md").read_text()
    (guides,) = re.findall(r"^## How-to guides\n(.*?)(?=^## )", index, re.DOTALL | re.MULTILINE)
    none, *topics = re.split(r"^### ", guides, flags=re.MULTILINE)
    assert not none.strip()
    assert len(topics) == 5
    assert all(3 <= len(re.findall(r"\]\(how-to/", topic)) <= 10 for topic in topics)


def test_the_page_of_decisions_lists_each() -> None:
    page = (DOCS / "explanation" / "decisions.md").read_text()
    files = sorted((DOCS / "explanation" / "decisions").glob("*.md"))
    assert re.findall(r"\]\(decisions/(\S+)\)", page) == [path.name for path in files]


@pytest.mark.parametrize("path", [path for path in PAGES if path.suffix == ".md"], ids=name_of)
def test_every_page_begins_with_a_sentence_that_says_what_it_is(path: Path) -> None:
    if path.is_relative_to(DOCS / "project"):
        return
    title, empty, sentence, *_ = path.read_text().splitlines()
    assert re.match(r"# \S", title)
    assert not empty
    assert re.match(r"[\w`*\[]", sentence)
    assert not sentence.startswith("```")
