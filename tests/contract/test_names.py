"""Names of functions, bounds and classes: `.ci/names` refuses those that say too little."""

from __future__ import annotations

from importlib.machinery import SourceFileLoader
from importlib.util import module_from_spec, spec_from_loader
from pathlib import Path
from types import ModuleType

import pytest

from support.paths import REPOSITORY


@pytest.fixture
def names(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    """The script, about a checkout with one module and an empty list."""
    monkeypatch.syspath_prepend(str(REPOSITORY / ".ci"))
    loader = SourceFileLoader("names", str(REPOSITORY / ".ci" / "names"))
    spec = spec_from_loader("names", loader)
    assert spec is not None
    module = module_from_spec(spec)
    loader.exec_module(module)

    monkeypatch.setattr(module, "ROOT", tmp_path)
    monkeypatch.setattr(module, "LIST", tmp_path / "names.csv")
    monkeypatch.setattr("sys.argv", ["names"])
    write(tmp_path, "days.py", "def wrap(text): ...\n")
    module.store(module.find_all())
    return module


def write(checkout: Path, name: str, text: str) -> None:
    path = checkout / "ktdeval" / "market" / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8")


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("def wrapped(text): ...\n", "ktdeval/market/days.py: wrapped is a bare participle"),
        ("class Days:\n    def _held(self): ...\n", "Days._held is a bare participle"),
        ("def wrap(text, most_chars): ...\n", "most_chars is a bound: call it max_ or min_"),
        ("_LEAST_DAYS = 3\n", "_LEAST_DAYS is a bound: call it max_ or min_"),
    ],
)
def test_a_name_that_says_too_little_is_refused(
    names: ModuleType, tmp_path: Path, capsys: pytest.CaptureFixture[str], text: str, said: str
) -> None:
    write(tmp_path, "days.py", text)
    assert names.main() == 1
    assert said in capsys.readouterr().out


def test_two_classes_of_one_name_are_refused(
    names: ModuleType, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    write(tmp_path, "days.py", "class Session: ...\n")
    write(tmp_path, "hours.py", "class Session: ...\n")
    assert names.main() == 1
    assert "hours.py: Session is the name of a class elsewhere, too" in capsys.readouterr().out


@pytest.mark.parametrize(
    "text",
    [
        "def wrap(text): ...\n",
        "def read(path): ...\ndef embed(text): ...\n",
        "class Days:\n    @property\n    def held(self): ...\n",
        "max_chars = 3\nmost = 4\n",
        "class _Session: ...\n",
    ],
)
def test_verbs_properties_and_private_classes_may_stay(
    names: ModuleType, tmp_path: Path, text: str
) -> None:
    write(tmp_path, "days.py", text)
    write(tmp_path, "hours.py", "class _Session: ...\n")
    assert names.main() == 0


def test_a_name_stays_on_the_list_only_while_it_is_there(
    names: ModuleType,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    write(tmp_path, "days.py", "def wrapped(text): ...\n")
    monkeypatch.setattr("sys.argv", ["names", "--write"])
    assert names.main() == 0

    monkeypatch.setattr("sys.argv", ["names"])
    assert names.main() == 0
    assert "1 participles" in capsys.readouterr().out

    write(tmp_path, "days.py", "def wrap(text): ...\n")
    assert names.main() == 1
    assert "wrapped is on the list of participles and is gone" in capsys.readouterr().out
