"""The ledger of a study: a file is one try however often it is judged, and lines are only added."""

from __future__ import annotations

import math
import subprocess
import sys
from pathlib import Path

import pytest

from ktdeval.errors import DataError, StoreError, UsageError
from ktdeval.runner import StudyTry, find_studies, record_try, study_ledger

_JUDGED_AT_ONCE = """
import sys
from pathlib import Path
from ktdeval.runner import StudyTry, record_try
for number in range(20):
    record_try(Path("study-one.jsonl"), StudyTry(
        sha256=f"{number:064x}", source=sys.argv[1], plan_sha256=None, returns=60,
        returns_a_year=252.0, sharpe=0.1,
    ))
"""


def tried(number: int, **changes: object) -> StudyTry:
    fields: dict[str, object] = {
        "sha256": f"{number:064x}",
        "source": f"try-{number}.csv",
        "plan_sha256": None,
        "returns": 60,
        "returns_a_year": 252.0,
        "sharpe": 0.1 * number,
    }
    return StudyTry(**{**fields, **changes})  # type: ignore[arg-type]


def test_the_same_file_is_one_try_and_lines_stay_as_they_are(tmp_path: Path) -> None:
    path = study_ledger(tmp_path / "runs", "momentum")
    record_try(path, tried(1))
    before = path.read_bytes()

    assert len(record_try(path, tried(1, source="renamed.csv")).tries) == 1
    assert path.read_bytes() == before

    study = record_try(path, tried(2))
    assert [each.source for each in study.tries] == ["try-1.csv", "try-2.csv"]
    assert path.read_bytes().startswith(before)


def test_processes_that_judge_at_once_lose_no_try_and_count_none_twice(tmp_path: Path) -> None:
    command = [sys.executable, "-c", _JUDGED_AT_ONCE]
    running = [subprocess.Popen([*command, name], cwd=tmp_path) for name in ("a", "b", "c")]
    assert [each.wait() for each in running] == [0, 0, 0]

    lines = (tmp_path / "study-one.jsonl").read_text().splitlines()
    assert len(lines) == 20


def test_ratios_of_another_frequency_are_scaled(tmp_path: Path) -> None:
    path = study_ledger(tmp_path, "mixed")
    record_try(path, tried(1, sharpe=0.1))
    record_try(path, tried(2, sharpe=0.5, returns_a_year=12.0))
    study = record_try(path, tried(3, sharpe=None))

    annual = (0.1 * math.sqrt(252), 0.5 * math.sqrt(12))
    assert study.sharpes_at(1.0) == pytest.approx(annual)
    assert study.sharpes_at(252.0) == pytest.approx((0.1, 0.5 * math.sqrt(12 / 252)))


def test_studies_are_found_in_folders(tmp_path: Path) -> None:
    record_try(study_ledger(tmp_path, "b"), tried(1))
    record_try(study_ledger(tmp_path, "a"), tried(1))
    (tmp_path / "other.jsonl").write_text("{}\n")

    found = find_studies([tmp_path, tmp_path / "none"])
    assert [study.path.name for study in found] == ["study-a.jsonl", "study-b.jsonl"]


def test_a_line_that_was_cut_off_is_named(tmp_path: Path) -> None:
    path = study_ledger(tmp_path, "cut")
    record_try(path, tried(1))
    record_try(path, tried(2))
    path.write_bytes(path.read_bytes()[:-20])

    with pytest.raises(DataError, match=r"study-cut\.jsonl: line 2"):
        record_try(path, tried(3))


def test_a_later_version_is_refused(tmp_path: Path) -> None:
    path = study_ledger(tmp_path, "later")
    record_try(path, tried(1, version=99))
    with pytest.raises(StoreError, match="made by a later ktdeval"):
        record_try(path, tried(2))


@pytest.mark.parametrize("name", ["", "../up", "a/b", ".hidden", "a b", "x" * 65])
def test_a_name_that_is_no_file_name_is_refused(name: str) -> None:
    with pytest.raises(UsageError, match="--study"):
        study_ledger(Path(), name)
