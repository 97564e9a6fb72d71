"""No language is skipped silently: a skip names its reason, and CI tests two."""

from __future__ import annotations

import re
from fnmatch import fnmatchcase

import pytest

from tests import CHECKOUT
from tests.interop.interop_languages import ALL_WANTED, Language, languages

COMPILED = {"go", "java", "cpp"}


@pytest.mark.parametrize("language", languages(), ids=str)
def test_the_toolchain_is_there(language: Language) -> None:
    """Where it isn't, none of the other tests knows of the language."""
    if missing := language.missing():
        why = (
            f"needs the toolchain of {language.name}: {', '.join(missing)} missing; "
            f"scripts/install-languages {language} installs it"
        )
        pytest.fail(why) if ALL_WANTED else pytest.skip(why)


def test_ci_installs_and_never_skips_node_and_a_compiled_language() -> None:
    makefile = (CHECKOUT / "Makefile").read_text()
    installed = re.findall(r"^\t@scripts/install-languages (.+)$", makefile, re.MULTILINE)
    in_ci = {str(language): language.name for language in languages() if language.is_in_ci}

    assert [set(names.split()) for names in installed] == [set(in_ci)]
    assert "node" in in_ci
    assert COMPILED & in_ci.keys()
    lines = (CHECKOUT / ".ci" / "allowed-skips").read_text().splitlines()
    allowed = [pattern for line in lines if (pattern := line.partition("#")[0].strip())]
    for name in in_ci.values():
        skip = f"tests.interop.test_x.test_y[x]: needs the toolchain of {name}: go missing"
        assert not any(fnmatchcase(skip, pattern) for pattern in allowed)


def test_every_language_can_be_installed_and_is_explained() -> None:
    script = (CHECKOUT / "scripts" / "install-languages").read_text()
    for language in languages():
        assert re.search(rf"^    {language}\)$", script, re.MULTILINE), language
        readme = (language.folder / "README.md").read_text()
        for program in ("producer", "worker"):
            assert " ".join(language.command(program)) in readme, (language, program)
