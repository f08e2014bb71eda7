"""Which folder of facts counts: the built-in one, or an installed `ktdeval_facts`."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

PRINT = "from ktdeval.values import facts_file; print(facts_file('cutoffs.csv').parent.name)"


@pytest.mark.parametrize(
    ("day", "counts"),
    [("9999.01.01", "ktdeval_facts"), ("2020.01.01", "facts"), (None, "facts")],
)
def test_the_later_folder_counts_and_is_never_run(
    tmp_path: Path, day: str | None, counts: str
) -> None:
    package = tmp_path / "ktdeval_facts"
    package.mkdir()
    (package / "__init__.py").write_text("raise SystemExit('imported')")
    if day is not None:
        (package / "day.txt").write_text(day)

    code = f"import sys; sys.path.append({str(tmp_path)!r}); {PRINT}"
    assert subprocess.check_output([sys.executable, "-c", code], text=True).strip() == counts
