"""Wording: `.ci/words` counts expressions that must be read twice, and lets no count rise."""

from __future__ import annotations

from importlib.machinery import SourceFileLoader
from importlib.util import module_from_spec, spec_from_loader
from pathlib import Path
from types import ModuleType

import pytest

from support.paths import REPOSITORY

PLAIN = '"""Days of a market."""\n'


@pytest.fixture
def words(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    """The script, about a checkout with one plain module and an empty list."""
    monkeypatch.syspath_prepend(str(REPOSITORY / ".ci"))
    loader = SourceFileLoader("words", str(REPOSITORY / ".ci" / "words"))
    spec = spec_from_loader("words", loader)
    assert spec is not None
    module = module_from_spec(spec)
    loader.exec_module(module)

    monkeypatch.setattr(module, "ROOT", tmp_path)
    monkeypatch.setattr(module, "LIST", tmp_path / "words.csv")
    monkeypatch.setattr("sys.argv", ["words"])
    write(tmp_path, "ktdeval/days.py", PLAIN)
    module.store(module.count_kinds(list(module.all_texts())))
    return module


def write(checkout: Path, name: str, text: str) -> None:
    path = checkout / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8")


@pytest.mark.parametrize(
    ("name", "text", "said"),
    [
        (
            "ktdeval/days.py",
            '"""What a day is."""\n',
            "'begins with What' in docstrings: 1, 0 on the list",
        ),
        ("ktdeval/days.py", PLAIN + "# a day that is none\n", "'is none' in comments: 1, 0"),
        ("ktdeval/days.py", PLAIN + 'x = "is no valid day"\n', "'is no NOUN' in strings: 1, 0"),
        ("docs/days.md", "The market is told.\n", "'told' in docs: 1, 0"),
    ],
)
def test_an_odd_expression_is_refused(
    words: ModuleType,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    name: str,
    text: str,
    said: str,
) -> None:
    write(tmp_path, name, text)
    assert words.main() == 1
    assert said in capsys.readouterr().out


@pytest.mark.parametrize(
    "name", ["ktdeval/tests/days.py", "docs/reference/days.md", "tests/days.py"]
)
def test_tests_and_made_pages_are_not_searched(
    words: ModuleType, tmp_path: Path, name: str
) -> None:
    write(tmp_path, name, '"""What is none."""\n')
    assert words.main() == 0


def test_a_count_that_fell_must_be_stored(
    words: ModuleType,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    write(tmp_path, "ktdeval/days.py", '"""What a day is."""\n')
    monkeypatch.setattr("sys.argv", ["words", "--write"])
    assert words.main() == 0

    monkeypatch.setattr("sys.argv", ["words"])
    assert words.main() == 0

    write(tmp_path, "ktdeval/days.py", PLAIN)
    assert words.main() == 1
    assert "fewer than the 1 on the list" in capsys.readouterr().out
