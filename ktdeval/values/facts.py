"""Files of facts about models, which age faster than the code: `ktdeval/facts`, or a later release of
them that is installed as the data package `ktdeval_facts`.
"""

from __future__ import annotations

from functools import cache
from importlib.util import find_spec
from pathlib import Path

_DAY = "day.txt"
_OWN = Path(__file__).resolve().parents[1] / "facts"


def facts_file(name: str) -> Path:
    """Return the path of a file of facts."""
    return _folder() / name


@cache
def _folder() -> Path:
    """Return the folder whose day is later. The package is found and never imported."""
    spec = find_spec("ktdeval_facts")
    if spec is None or not spec.submodule_search_locations:
        return _OWN

    released = Path(spec.submodule_search_locations[0])
    return max(_OWN, released, key=_day)


def _day(folder: Path) -> str:
    """Return the day of a folder, YYYY.MM.DD; empty if it states none."""
    path = folder / _DAY
    return path.read_text(encoding="utf-8").strip() if path.is_file() else ""
