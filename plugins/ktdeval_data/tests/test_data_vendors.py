"""Files as vendors, terminals and libraries write them: read with the right values, or refused with
advice that works.
"""

from __future__ import annotations

import gzip
import shlex
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from support.market.long_imports import Imports
from support.tables import beside

pytestmark = pytest.mark.slow

CASES = beside(__file__)["vendors"]
FIGURES = ("open", "high", "low", "close", "volume", "amount", "factor")


def write_files(folder: Path, case: dict[str, Any]) -> Path:
    """Write the files of a case; return what `--bars` names: the only file, or the folder of
    several.
    """
    files = case.get("files") or {case["file"]: case["text"]}

    for name, text in files.items():
        content = text.replace("→", "\t").encode(case.get("encoding", "utf-8"))
        if name.endswith(".gz"):
            content = gzip.compress(content)

        (folder / name).write_bytes(content)

    is_one = len(files) == 1 and not case.get("in_folder")

    return folder / next(iter(files)) if is_one else folder


def values_on(snapshot: Any, code: str, day: str) -> dict[str, float]:
    """Figures of an asset on a day."""
    row = snapshot.days.astype(str).tolist().index(day)
    column = snapshot.codes.index(code)
    return {name: float(getattr(snapshot, name)[row, column]) for name in FIGURES}


@pytest.mark.exhaustive
@pytest.mark.parametrize("case", CASES, ids=[case["vendor"] for case in CASES])
def test_what_vendors_write_is_read_or_refused_with_advice_that_works(
    tmp_path: Path,
    imports: Imports,
    case: dict[str, Any],
) -> None:
    folder = tmp_path / "files"
    folder.mkdir()
    bars = write_files(folder, case)
    words = ["--venue", case.get("venue", "us_equity"), *shlex.split(case.get("options", ""))]

    # Each refusal is one line that names the file and the option by which the next reading is
    # right.
    for advice, reason, *shown in case.get("advice", []):
        message = imports.refused(bars, *words)
        assert reason in message
        assert (shown or [advice])[0] in message.replace("'", "")
        words += shlex.split(advice)

    if "refused" in case:
        assert case["refused"] in imports.refused(bars, *words)
        return

    snapshot = imports.made(bars, *words)
    if "codes" in case:
        assert list(snapshot.codes) == case["codes"]

    if "days" in case:
        assert len(snapshot.days) == case["days"]

    for (code, day), figures in ((key.split(), value) for key, value in case["values"].items()):
        values = values_on(snapshot, code, day)
        actual = [values[name] for name in figures]
        expected = [np.nan if figure is None else figure for figure in figures.values()]
        np.testing.assert_allclose(actual, expected, rtol=1e-6, err_msg=f"{code} {day}")

    for note in case.get("notes", []):
        assert any(note in each for each in snapshot.meta.notes), snapshot.meta.notes
