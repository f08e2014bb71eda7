"""Two commands of the README do all the set-up, and CI runs the second one."""

from __future__ import annotations

import re

import pytest

from support.docs.docs_prose import code_blocks
from support.paths import REPOSITORY

README = (REPOSITORY / "README.md").read_text(encoding="utf-8")
MAKEFILE = (REPOSITORY / "Makefile").read_text(encoding="utf-8")
COMMANDS = ("make demo", "make test")


def rule_of(target: str) -> tuple[str, str]:
    """What a target of the Makefile needs, and its commands."""
    match = re.search(rf"^{target}:(.*)\n((?:\t.*\n)+)", MAKEFILE, re.MULTILINE)
    assert match is not None, target
    return match[1].strip(), match[2]


def test_first_code_block_of_the_readme_is_the_two_commands() -> None:
    first = next(iter(code_blocks(README)))

    assert first.text.splitlines() == [*COMMANDS]


@pytest.mark.parametrize(
    ("target", "environment", "command"),
    [
        ("demo", "$(VENV)/.installed", "$(BIN)/ktdeval demo"),
        ("test", "$(VENV)/.installed-dev", '$(PYTEST) -m "not slow and not exhaustive" $(CHOSEN)'),
    ],
)
def test_each_of_the_two_commands_makes_its_environment_first(
    target: str, environment: str, command: str
) -> None:
    needs, lines = rule_of(target)

    assert needs == environment
    assert command in lines


@pytest.mark.parametrize("environment", ["installed", "installed-dev"])
def test_an_environment_is_made_from_nothing_but_python(environment: str) -> None:
    needs, lines = rule_of(re.escape(f"$(VENV)/.{environment}"))

    assert "$(VENV)/bin/python" in needs.split()
    assert "$(PIP) install -e" in lines

    _, made = rule_of(re.escape("$(VENV)/bin/python"))
    assert "$(PYTHON) -m venv $(VENV)" in made


def test_ci_calls_the_test_command_of_the_readme() -> None:
    lines = (REPOSITORY / ".ci/run").read_text(encoding="utf-8").splitlines()

    assert "make test" in lines


def test_the_readme_goes_on_in_the_environment_that_the_demo_made() -> None:
    second = list(code_blocks(README))[1]

    assert second.text.splitlines()[0] == ". .venv/bin/activate"
    assert "VENV ?= .venv" in MAKEFILE.splitlines()
