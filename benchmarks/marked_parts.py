"""Parts of a page that programs make, between marks; people write the rest."""

from __future__ import annotations

from pathlib import Path


def put_between(begin: str, end: str, text: str, page: str) -> str:
    """Return the page with `text`, which has the marks itself, in place of what stands between them.

    At the page's end if it doesn't have them; raises `ValueError` if it has only the first.
    """
    before, found, rest = page.partition(begin)
    if not found:
        return f"{page.rstrip()}\n\n{text}"
    _, found, after = rest.partition(end)
    if not found:
        raise ValueError(f"the page has {begin} and no {end}")
    return before + text.rstrip("\n") + after


def write_between(begin: str, end: str, text: str, path: Path) -> None:
    """Put `text` into a page, as `put_between` does; a page that isn't there is made."""
    page = path.read_text() if path.exists() else f"# {path.stem}\n"
    path.write_text(put_between(begin, end, text, page))
