"""Two commands of the README do all the set-up, and CI runs the second one."""

from __future__ import annotations

import re

import pytest

from support.docs.docs_prose import code_blocks
from support.paths import REPOSITORY

MAKEFILE = (REPOSITORY / "Makefile").read_text(encoding="utf-8")


def rule_of(target: str) -> tuple[str, str]:
    """What a target of the Makefile needs, and its commands."""
    match = re.search(rf"^{re.escape(target)}:(.*)\n((?:\t.*\n)+)", MAKEFILE, re.MULTILINE)
    assert match is not None, target
    return match[1].strip(), match[2]


@pytest.mark.parametrize(
    ("target", "need", "command"),
    [
        ("demo", "$(VENV)/.installed", "$(BIN)/ktdeval demo"),
        ("test", "$(VENV)/.installed-dev", '$(PYTEST) -m "not slow and not exhaustive" $(CHOSEN)'),
        ("$(VENV)/.installed", "$(VENV)/bin/python", "$(PIP) install -e"),
        ("$(VENV)/.installed-dev", "$(VENV)/bin/python", "$(PIP) install -e"),
        ("$(VENV)/bin/python", "", "$(PYTHON) -m venv $(VENV)"),
    ],
)
def test_a_command_makes_its_environment_from_nothing_but_python(
    target: str, need: str, command: str
) -> None:
    needs, lines = rule_of(target)
    assert need in needs
    assert command in lines


def test_the_readme_begins_with_the_two_commands_of_which_ci_runs_one() -> None:
    first, second, *_ = code_blocks((REPOSITORY / "README.md").read_text(encoding="utf-8"))
    assert first.text.splitlines() == ["make demo", "make test"]
    assert second.text.splitlines()[0] == ". .venv/bin/activate"
    assert "VENV ?= .venv" in MAKEFILE.splitlines()
    assert "make test" in (REPOSITORY / ".ci/run").read_text(encoding="utf-8").splitlines()
