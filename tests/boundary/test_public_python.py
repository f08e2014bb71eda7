"""ktdeval as a Python package: its names, the options of a run, and the tables of a run."""

from __future__ import annotations

import inspect
import json
import sys
from collections.abc import Mapping
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pandas as pd
import pytest
from corner_market import make_market, play, read_scene

import ktdeval

GOLDEN = Path(__file__).with_name("python.json")
#: a table of each method of a run, and how a row of it is written
TABLES = ("ledger", "orders", "transactions", "positions", "returns")


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return played(tmp_path_factory.mktemp("python"))


def played(place: Path) -> Path:
    """Return the folder of a run."""
    scene = read_scene("mixed")
    play(scene, make_market(scene, place / "market"), "bright", place / "run")
    return place / "run"


def golden() -> dict[str, Any]:
    return dict(json.loads(GOLDEN.read_text(encoding="utf-8")))


def names() -> dict[str, Any]:
    """Names of the package and parameters of its functions."""
    functions = (ktdeval.evaluate, ktdeval.load_run, ktdeval.compare)
    return {
        "names": dir(ktdeval),
        "api": sorted(name for name in dir(ktdeval.api) if not name.startswith("_")),
        "run": sorted(name for name in dir(ktdeval.Evaluation) if not name.startswith("_")),
        "parameters": {each.__name__: _parameters(each) for each in functions},
    }


def _parameters(function: Any) -> list[str]:
    return [
        f"{each.kind.description} {each.name}{'' if each.default is each.empty else '=…'}"
        for each in inspect.signature(function).parameters.values()
    ]


def tables_of(folder: Path) -> Mapping[str, Any]:
    """Columns, index and first rows of the tables of a run."""
    run = ktdeval.load_run(folder)
    frames = {name: getattr(run, name)() for name in TABLES}
    frames |= {"cards": run.cards(), "episodes": run.episodes()}
    return {name: _plain(frame) for name, frame in frames.items()}


def _plain(frame: pd.DataFrame | pd.Series[Any]) -> dict[str, Any]:
    if isinstance(frame, pd.Series):
        frame = frame.to_frame()

    numbers = frame.select_dtypes("number")
    return {
        "columns": [str(name) for name in frame.columns],
        "index": str(frame.index.name),
        "rows": len(frame),
        "sums": {str(name): round(float(numbers[name].sum()), 9) for name in numbers},
    }


def test_names_and_parameters_are_those_of_before() -> None:
    assert names() == golden()["package"]


def test_a_run_is_loaded_with_its_tables(folder: Path) -> None:
    found = tables_of(folder)
    expected = golden()["tables"]
    assert found.keys() == expected.keys()
    for name, table in expected.items():
        sums = table.pop("sums")
        assert found[name].pop("sums") == pytest.approx(sums, rel=1e-9, abs=1e-9), name
        assert found[name] == table


def test_an_evaluation_has_the_tables_of_its_folder(folder: Path, tmp_path: Path) -> None:
    run = ktdeval.load_run(folder)
    scene = read_scene("mixed")
    again = play(scene, folder.with_name("market") / "market", "bright", tmp_path / "run")

    pd.testing.assert_frame_equal(again.ledger(), run.ledger())
    pd.testing.assert_frame_equal(again.episodes(), run.episodes())


if __name__ == "__main__":
    with TemporaryDirectory() as place:
        content = {"package": names(), "tables": tables_of(played(Path(place)))}
    json.dump(content, GOLDEN.open("w", encoding="utf-8"), indent=1, sort_keys=True)
    sys.stdout.write(f"{GOLDEN}\n")
