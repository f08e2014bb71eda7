"""Files with facts about models, which become outdated faster than the code: the folder
`ktdeval/facts`, or a later release of it that is installed as the data package `ktdeval_facts`.
"""

from __future__ import annotations

from functools import cache
from importlib.util import find_spec
from pathlib import Path

_DAY = "day.txt"
_OWN = Path(__file__).resolve().parents[1] / "facts"


def facts_file(name: str) -> Path:
    """Return the path of a facts file."""
    return _folder() / name


@cache
def _folder() -> Path:
    """Return the folder with the later date. The package is located but never imported."""
    spec = find_spec("ktdeval_facts")
    if spec is None or not spec.submodule_search_locations:
        return _OWN

    released = Path(spec.submodule_search_locations[0])
    return max(_OWN, released, key=_day)


def _day(folder: Path) -> str:
    """Return the date of a folder, YYYY.MM.DD; empty if the folder gives no date."""
    path = folder / _DAY
    return path.read_text(encoding="utf-8").strip() if path.is_file() else ""
