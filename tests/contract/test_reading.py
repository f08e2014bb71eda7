"""What jobs and rooms make one read: `.ci/reading` finds a row of its tables that grew by a tenth."""

from __future__ import annotations

from importlib.machinery import SourceFileLoader
from importlib.util import module_from_spec, spec_from_loader
from pathlib import Path
from types import ModuleType

import pytest

from support.paths import REPOSITORY

ROW = "| a job | {} | {} |"
ROOMS = "| ktdeval | 26 | 26 |\n| ktdeval_desk | 8 | 13 |"


@pytest.fixture
def reading(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    """The script, about a checkout whose one job begins at `start.py`."""
    loader = SourceFileLoader("reading", str(REPOSITORY / ".ci" / "reading"))
    spec = spec_from_loader("reading", loader)
    assert spec is not None
    module = module_from_spec(spec)
    loader.exec_module(module)

    monkeypatch.setattr(module, "ROOT", tmp_path)
    monkeypatch.setattr(module, "JOBS", {"a job": ("ktdeval/start.py",)})
    monkeypatch.setattr("sys.argv", ["reading"])
    files = {
        "ktdeval/start.py": "from ktdeval.kit import add\n\n\ndef run():\n    import ktdeval.far\n",
        "ktdeval/kit/__init__.py": "",
        "ktdeval/kit/__init__.pyi": "from ktdeval.kit.sums import add\n",
        "ktdeval/kit/sums.py": '"""Sums."""\n\nimport ktdeval.deep\n\nadd = 1\n',
        "ktdeval/far.py": "a = 1\n",
        "ktdeval/deep.py": "a = 1\nb = 2\n",
        "ktdeval/other.py": "never = 'read'\n",
        "plugins/kits/ktdeval_desk/__init__.py": "",
        "plugins/kits/ktdeval_desk/desk.py": "import ktdeval.kit.sums\nimport ktdeval_desk.ink\n",
        "plugins/kits/ktdeval_desk/ink.py": "a = 1\n",
        "plugins/kits/ktdeval_desk/tests/test_desk.py": "never = 'counted'\n",
        "docs/architecture.md": "Before\n<!-- reading -->\n<!-- end of reading -->\nAfter\n",
    }
    for name, text in files.items():
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")

    return module


def test_sizes_follow_public_names_and_imports_in_functions(
    reading: ModuleType, tmp_path: Path
) -> None:
    # Nodes of start 5, sums 5 and far 4 (direct), and deep 7; an import is one node.
    assert reading.measure_jobs(reading.Sources(tmp_path)) == {"a job": (14, 21)}


def test_a_room_is_its_own_files_without_tests_and_what_these_import(
    reading: ModuleType, tmp_path: Path
) -> None:
    # The core: start 5, kit 1 and 5, far 4, deep 7, other 4; it imports nothing else.
    # The room: the manifest 1, desk 3 and ink 4 (own), and sums 5.
    assert reading.measure_rooms(reading.Sources(tmp_path)) == {
        "ktdeval": (26, 26),
        "ktdeval_desk": (8, 13),
    }


@pytest.mark.parametrize(
    ("direct", "everything", "code", "said"),
    [
        (14, 21, 0, "1 jobs, 2 rooms: within a tenth"),
        (13, 20, 0, "1 jobs, 2 rooms: within a tenth"),
        (12, 21, 1, "a job, direct: 14 syntax nodes, the table says 12"),
        (14, 19, 1, "a job, all: 21 syntax nodes, the table says 19"),
    ],
)
def test_a_row_that_grew_by_a_tenth_is_named(
    reading: ModuleType,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    direct: int,
    everything: int,
    code: int,
    said: str,
) -> None:
    page = tmp_path / "docs" / "architecture.md"
    row = ROW.format(direct, everything)
    page.write_text(
        f"<!-- reading -->\n{row}\n{ROOMS}\n<!-- end of reading -->\n", encoding="utf-8"
    )

    assert reading.main() == code
    assert said in capsys.readouterr().out


def test_a_job_or_room_without_a_row_fails_and_write_adds_it(
    reading: ModuleType,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert reading.main() == 1
    said = capsys.readouterr().out
    assert "a job: no row in docs/architecture.md" in said
    assert "ktdeval_desk: no row in docs/architecture.md" in said

    monkeypatch.setattr("sys.argv", ["reading", "--write"])
    assert reading.main() == 0
    page = (tmp_path / "docs" / "architecture.md").read_text(encoding="utf-8")
    assert ROW.format(14, 21) in page
    assert f"| room | own | direct |\n|---|--:|--:|\n{ROOMS}\n" in page
    assert page.startswith("Before\n")
    assert page.endswith("After\n")

    monkeypatch.setattr("sys.argv", ["reading"])
    assert reading.main() == 0
