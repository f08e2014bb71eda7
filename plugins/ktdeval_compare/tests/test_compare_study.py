"""A study in another package, as described in this package's README."""

from __future__ import annotations

import re
import sys
from importlib import import_module
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from ktdeval.values import loads_strict
from support.figures.compare_cards import CardTerminal, make_card
from support.paths import REPOSITORY

README = (REPOSITORY / "plugins/ktdeval_compare/README.md").read_text("utf-8")
FILES = {"study.py": "python", "compute.py": "python", "columns.yaml": "yaml"}
FIGURE = '{"mark": "bar", "encoding": {"x": {"field": "best"}, "y": {"field": "card"}}}'


@pytest.fixture
def package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The files of the README as a package `my_lab.spread`, with a figure."""
    folder = tmp_path / "source/my_lab/spread"
    folder.mkdir(parents=True)
    for name, language in FILES.items():
        blocks = re.findall(rf"```{language}\n(.*?)```", README, re.DOTALL)
        (text,) = [block for block in blocks if f"# {name}" in block]
        (folder / name).write_text(text)

    (folder / "figure.json").write_text(FIGURE)
    monkeypatch.syspath_prepend(tmp_path / "source")
    for name in ("my_lab", "my_lab.spread", "my_lab.spread.study", "my_lab.spread.compute"):
        monkeypatch.delitem(sys.modules, name, raising=False)

    return folder


def call(*words: object) -> Result:
    command = import_module("my_lab.spread.study").spread
    return CliRunner().invoke(command, [str(word) for word in words], catch_exceptions=False)


@pytest.fixture
def card(package: Path, terminal: CardTerminal) -> Path:
    made = make_card({("A1", 0): -0.1, ("A1", 1): 0.02, ("A2", 0): 0.3})
    return terminal.cards(made)[0]


def test_its_figure_has_the_rows_of_its_first_table(card: Path, tmp_path: Path) -> None:
    call(card, "--out", tmp_path / "drawn.json")
    drawn = loads_strict((tmp_path / "drawn.json").read_bytes())
    assert drawn["mark"] == "bar"
    assert drawn["data"]["values"][0]["best"] == 0.3


def test_a_metric_that_no_episode_has_is_a_note(card: Path) -> None:
    assert "alpha_x is not defined in any episode" in call(card, "--metric", "alpha_x").output
