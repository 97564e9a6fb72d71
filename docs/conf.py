"""The site of the documentation: `make docs` builds it of these pages, docstrings, commands and protos.

A page is in the site because of its folder: each of the four parts lists its pages by itself.
"""

from __future__ import annotations

import re
import sys
from importlib import metadata
from pathlib import Path

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
copybutton_prompt_text = r"\$ |>>> |\.\.\. "
copybutton_prompt_is_regexp = True

PARTS = {
    "Tutorials": "tutorials",
    "How-to guides": "how-to",
    "Reference": "reference",
    "Explanation": "explanation",
    "Project": "project",
}
# The pages that a forge wants to find in the root of the repository.
OF_THE_ROOT = {"CHANGELOG.md": "/project/changelog.md", "CONTRIBUTING.md": "/project/contributing.md"}


def _list_pages(app: Sphinx, name: str, source: list[str]) -> None:
    """Add the pages of each part to the index, and the pages of its folder to a page that has one."""
    if name == root_doc:
        parts = PARTS
    elif any(DOCS.joinpath(name).glob("*.[mr]*")):
        parts = {"": Path(name).name}
    else:
        return
    for title, folder in parts.items():
        title = f":caption: {title}\n" if title else ""
        source[0] += f"\n```{{toctree}}\n:hidden:\n:glob:\n{title}\n{folder}/*\n```\n"


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


def setup(app: Sphinx) -> None:
    app.connect("source-read", _list_pages)
    app.connect("source-read", _link_files)
    app.connect("autodoc-process-docstring", _mark_code)
    app.connect("sphinx-click-process-envvars", _leave_out)
    app.connect("sphinx-click-process-description", _show_stars)
    app.connect("sphinx-click-process-options", _show_stars)
