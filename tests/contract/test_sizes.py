"""Budget of each room in syntax nodes: `.ci/size` finds a room that has grown."""

from __future__ import annotations

from importlib.machinery import SourceFileLoader
from importlib.util import module_from_spec, spec_from_loader
from pathlib import Path
from types import ModuleType

import pytest

from support.paths import REPOSITORY


@pytest.fixture
def size(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    """The script, about a checkout with one room."""
    loader = SourceFileLoader("size", str(REPOSITORY / ".ci" / "size"))
    spec = spec_from_loader("size", loader)
    assert spec is not None
    module = module_from_spec(spec)
    loader.exec_module(module)

    monkeypatch.setattr(module, "ROOT", tmp_path)
    monkeypatch.setattr(module, "BUDGETS", tmp_path / "size.csv")
    monkeypatch.setattr("sys.argv", ["size"])
    write(tmp_path, "a = 1\n")
    module.store(module.measure())
    return module


def write(checkout: Path, text: str) -> None:
    path = checkout / "ktdeval" / "market" / "days.py"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8")


@pytest.mark.parametrize(
    ("text", "code", "said"),
    [
        ("a = 1\n", 0, "1 rooms are within their budgets: 4 syntax nodes"),
        ('"""Days."""\n\na = 1  # open\n', 0, "1 rooms are within their budgets: 4 syntax nodes"),
        ("a = 1\nb = 2\n", 1, "ktdeval/market: 7 syntax nodes, and its budget is 4"),
        ("a = 1; b = 2\n", 1, "ktdeval/market: 7 syntax nodes, and its budget is 4"),
    ],
)
def test_a_room_that_grows_is_named(
    size: ModuleType,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    text: str,
    code: int,
    said: str,
) -> None:
    write(tmp_path, text)
    assert size.main() == code
    assert said in capsys.readouterr().out


def test_a_room_without_a_budget_may_hold_nothing(
    size: ModuleType, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "tasks" / "ktdeval_new").mkdir(parents=True)
    (tmp_path / "tasks" / "ktdeval_new" / "task.py").write_text("a = 1\n")

    assert size.main() == 1
    assert "tasks/ktdeval_new: 4 syntax nodes, and its budget is 0" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("path", "room"),
    [
        ("ktdeval/market/rules/fees.py", "ktdeval/market"),
        ("ktdeval/errors.py", "ktdeval"),
        ("plugins/ktdeval_judge/readers/forms.py", "plugins/ktdeval_judge"),
        ("plugins/ktdeval_judge/tests/test_judge.py", "plugins/ktdeval_judge/tests"),
        ("plugins/kits/ktdeval_pages/words.py", "plugins/kits/ktdeval_pages"),
        ("plugins/kits/ktdeval_pages/tests/test_words.py", "plugins/kits/ktdeval_pages/tests"),
        ("tests/unit/market/test_days.py", "tests/unit/market"),
        ("tests/contract/test_sizes.py", "tests/contract"),
    ],
)
def test_a_file_belongs_to_a_room(size: ModuleType, path: str, room: str) -> None:
    assert size.room_of(Path(path).parts) == room
