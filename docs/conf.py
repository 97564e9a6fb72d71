"""The site of the documentation: `make docs` builds it of these pages, docstrings, commands and protos.

The headings and links of the index are the site's navigation. A page that has a folder of its name
lists the pages of that folder.
"""

from __future__ import annotations

import html
import re
import sys
from importlib import metadata
from pathlib import Path
from typing import Any

from docutils import nodes
from sphinx.application import Sphinx

DOCS = Path(__file__).parent
sys.path.insert(0, str(DOCS))

project = "Spoolrack"
author = "The Spoolrack authors"
copyright = author
version = release = metadata.version("spoolrack")

extensions = [
    "myst_parser",
    "sphinx.ext.autodoc",
    "sphinx.ext.napoleon",
    "sphinx_click",
    "sphinx_copybutton",
    "contract",
]
root_doc = "index"
smartquotes = False  # "--" is the beginning of an option

# MyST: the anchors of headings are those of the forge.
myst_heading_anchors = 6
myst_enable_extensions = ["attrs_inline"]

# Docstrings are written as the pages are, in which single backticks are code.
default_role = "code"
autodoc_member_order = "bysource"
autodoc_typehints = "signature"
autodoc_typehints_format = "short"
autodoc_default_options = {"members": True, "show-inheritance": True}
autodoc_mock_imports = ["pandas", "pyarrow", "pyspark"]
python_use_unqualified_type_names = True
add_module_names = False

html_theme = "furo"
html_title = f"Spoolrack {release}"
html_copy_source = False
html_show_sphinx = False
html_favicon = "../server/spoolrack_server/dashboard/static/icon.svg"
html_static_path = ["_static"]
html_css_files = ["narrow.css"]
html_search_scorer = str(DOCS / "_templates" / "scorer.js")
templates_path = ["_templates"]
html_additional_pages = {"404": "404.html"}
# Without an address of the repository there is no link to a page's source.
_URLS = dict(
    each.split(", ", 1) for each in metadata.metadata("spoolrack").get_all("Project-URL") or []
)
html_baseurl = _URLS.get("Documentation", "/")
html_theme_options = (
    {
        "source_repository": _URLS["Repository"],
        "source_branch": "main",
        "source_directory": "docs/",
    }
    if "Repository" in _URLS
    else {}
)
copybutton_prompt_text = r"\$ |>>> |\.\.\. "
copybutton_prompt_is_regexp = True

# The pages that a forge wants to find in the root of the repository.
OF_THE_ROOT = {"CHANGELOG.md": "/project/changelog.md", "CONTRIBUTING.md": "/project/contributing.md"}


def _list_pages(app: Sphinx, name: str, source: list[str]) -> None:
    """Add a tree of pages to each heading of the index, and to a page that has a folder of its name."""
    if name == root_doc:
        seen: set[str] = set()
        for heading, text in re.findall(r"^##+ (.+)\n((?:(?!^##).*\n?)*)", source[0], re.MULTILINE):
            pages = dict.fromkeys(
                OF_THE_ROOT.get(Path(link).name, link)
                for link in re.findall(r"^\|.*?\|.*$", text, re.MULTILINE)
                for link in re.findall(r"\]\(([\w./-]+\.(?:md|rst))(?:#[\w-]+)?\)", link)
            )
            new = [page for page in pages if page not in seen]
            seen.update(new)
            if new:
                source[0] += _tree("\n".join(new), f":caption: {heading}\n")
    elif any(DOCS.joinpath(name).glob("*.[mr]*")):
        source[0] += _tree(f"{Path(name).name}/*", ":glob:\n")


def _tree(pages: str, options: str) -> str:
    return f"\n```{{toctree}}\n:hidden:\n{options}\n{pages}\n```\n"


def _link_files(app: Sphinx, name: str, source: list[str]) -> None:
    """Make a link to a page outside the documentation one to a copy of that file."""
    above = (DOCS / name).parent

    def link(found: re.Match[str]) -> str:
        target = (above / found[1]).resolve()
        if target.parent == DOCS.parent and target.name in OF_THE_ROOT:
            return f"]({OF_THE_ROOT[target.name]})"
        outside = target.is_file() and not target.is_relative_to(DOCS)
        return f"](path:{found[1]})" if outside else found[0]

    source[0] = re.sub(r"\]\(([^):#\s]+\.md)(?:#[\w-]+)?\)", link, source[0])


def _mark_code(
    app: Sphinx, what: str, name: str, obj: object, options: object, lines: list[str]
) -> None:
    """Mark the indented blocks of a docstring as code."""
    marked: list[str] = []
    inside = False
    for number, line in enumerate(lines):
        indented = line.startswith("    ")
        if indented and not inside and not lines[number - 1].strip():
            marked += [".. code-block:: python", ""]
            inside = True
        elif line.strip() and not indented:
            inside = False
        marked.append(line)
    lines[:] = marked


def _leave_out(app: Sphinx, context: object, lines: list[str]) -> None:
    """Leave out a command's variables, which repeat its options."""
    lines.clear()


def _show_stars(app: Sphinx, context: object, lines: list[str]) -> None:
    """Take a star in a command's help for a star."""
    lines[:] = [line.replace("*", "\\*") for line in lines]


def _describe(
    app: Sphinx, name: str, template: str, context: dict[str, Any], doctree: nodes.document | None
) -> None:
    """Describe a page by its first paragraph, for search engines."""
    if doctree is None:
        return
    first = next(iter(doctree.findall(nodes.paragraph)), None)
    if first is not None:
        text = html.escape(" ".join(first.astext().split())[:300])
        context["metatags"] += f'<meta name="description" content="{text}">'


def _label_cells(
    app: Sphinx, name: str, template: str, context: dict[str, Any], doctree: nodes.document | None
) -> None:
    """Give each cell of a table the title of its column, which a narrow screen shows beside it."""

    def table(found: re.Match[str]) -> str:
        head, body, rows = found[0].partition("<tbody>")
        cells = re.findall(r"<th\b.*?</th>", head, re.DOTALL)
        titles = [re.sub("<[^>]*>", "", each).strip().replace('"', "&quot;") for each in cells]
        if not any(titles):
            return found[0]

        def row(found: re.Match[str]) -> str:
            left = iter(titles)
            return re.sub("<td", lambda cell: f'<td data-label="{next(left, "")}"', found[0])

        return head + body + re.sub(r"<tr.*?</tr>", row, rows, flags=re.DOTALL)

    if "body" in context:
        context["body"] = re.sub(r"<table.*?</table>", table, context["body"], flags=re.DOTALL)


def setup(app: Sphinx) -> None:
    app.connect("html-page-context", _describe)
    app.connect("html-page-context", _label_cells)
    app.connect("source-read", _list_pages)
    app.connect("source-read", _link_files)
    app.connect("autodoc-process-docstring", _mark_code)
    app.connect("sphinx-click-process-envvars", _leave_out)
    app.connect("sphinx-click-process-description", _show_stars)
    app.connect("sphinx-click-process-options", _show_stars)
    app.connect("sphinx-click-process-epilog", _show_stars)
