"""Episodes whose orders run into every rule of a market, to the cent: golden ledgers and cards.

Each scene of `corners` is a market and orders that are written by hand. What they did is in
`corners/golden`, for a reader to follow; `python tests/boundary/test_corner_episodes.py [SCENE…]`
writes it anew.
"""

from __future__ import annotations

import json
import math
import sys
from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest
from corner_market import CORNERS, make_market, play, read_scene

import ktdeval

GOLDEN = CORNERS / "golden"
SCENES = sorted(path.stem for path in CORNERS.glob("*.yaml"))
MASKED = [name for name in SCENES if "blinded" in read_scene(name)["runs"]]
DROPPED = ["task", "window", "seed", "reason", "confidence"]
#: of the ledger: what an account was and did, not how often a model was asked
LEDGER = ["step", "decided_on", "filled_on", "provenance", "nav", "cash", "holdings"]
LEDGER += ["orders", "rejected"]
RELATIVE = 1e-12  #: machines differ in the last digits of a figure, never in money


@pytest.fixture(scope="module", params=SCENES)
def scene(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture(scope="module")
def market(scene: str, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_market(read_scene(scene), tmp_path_factory.mktemp("corner") / scene)


def texts_of(folder: Path) -> dict[str, str]:
    """What a run left, by the name of its golden file."""
    run = ktdeval.load_run(folder)
    orders = run.orders().drop(columns=DROPPED)
    fills = run.transactions()
    ledger = run.ledger()[LEDGER]
    return {
        "orders.csv": orders.to_csv(index=False),
        "fills.csv": fills.to_csv(),
        "ledger.csv": ledger.to_csv(index=False),
    }


def card_of(folder: Path) -> dict[str, Any]:
    """The card of a run, without when, where and by which code it was made."""
    (path,) = (folder / "cards").glob("*.json")
    card = json.loads(path.read_text(encoding="utf-8"))
    del card["provenance"]
    for episode in card["episodes"]:
        del episode["made_by"]

    return dict(card)


def figures_of(folder: Path) -> str:
    """Metrics of the card, with all that belongs to each, as text."""
    return json.dumps(card_of(folder)["metrics"], indent=1, sort_keys=True) + "\n"


def differences(found: Any, expected: Any, where: str = "") -> Iterator[tuple[str, Any, Any]]:
    """Yield the places at which two values of JSON are not the same, and both values."""
    if isinstance(found, dict) and isinstance(expected, dict):
        for name in sorted({*found, *expected}):
            yield from differences(found.get(name), expected.get(name), f"{where}.{name}")
    elif isinstance(found, list) and isinstance(expected, list) and len(found) == len(expected):
        for index, pair in enumerate(zip(found, expected, strict=True)):
            yield from differences(*pair, f"{where}[{index}]")
    elif not _are_alike(found, expected):
        yield where, found, expected


def _are_alike(found: Any, expected: Any) -> bool:
    if isinstance(found, float) and isinstance(expected, float):
        return math.isclose(found, expected, rel_tol=RELATIVE, abs_tol=RELATIVE)
    return type(found) is type(expected) and bool(found == expected)


def golden(scene: str) -> dict[str, str]:
    paths = (GOLDEN / scene).iterdir()
    return {path.name: path.read_text(encoding="utf-8") for path in paths}


def test_orders_end_as_recorded(scene: str, market: Path, tmp_path: Path) -> None:
    play(read_scene(scene), market, "bright", tmp_path / "run")
    expected = golden(scene)
    figures = json.loads(expected.pop("card.json"))

    assert texts_of(tmp_path / "run") == expected
    assert list(differences(json.loads(figures_of(tmp_path / "run")), figures)) == []


@pytest.mark.parametrize("scene", MASKED, indirect=True)
def test_a_mask_changes_no_fill(scene: str, market: Path, tmp_path: Path) -> None:
    play(read_scene(scene), market, "blinded", tmp_path / "run")
    expected = golden(scene)
    del expected["card.json"]
    assert texts_of(tmp_path / "run") == expected


@pytest.mark.parametrize("scene", ["mixed"], indirect=True)
def test_the_same_run_gives_the_same_bytes(scene: str, market: Path, tmp_path: Path) -> None:
    runs = [tmp_path / "one", tmp_path / "other"]
    for run in runs:
        play(read_scene(scene), market, "bright", run)

    one, other = map(_records, runs)
    assert one == other
    assert card_of(runs[0]) == card_of(runs[1])


def _records(run: Path) -> dict[str, bytes]:
    names = ("ledger.parquet", "transcript.jsonl.zst")
    paths = sorted(path for path in run.rglob("*") if path.name in names)
    assert len(paths) == len(names)
    return {str(path.relative_to(run)): path.read_bytes() for path in paths}


def write_golden(names: list[str]) -> None:
    """Record what scenes do now."""
    for name in names:
        with TemporaryDirectory() as place:
            scene = read_scene(name)
            market = make_market(scene, Path(place) / name)
            play(scene, market, "bright", Path(place) / "run")
            folder = GOLDEN / name
            folder.mkdir(parents=True, exist_ok=True)

            texts = texts_of(Path(place) / "run")
            for file, text in {**texts, "card.json": figures_of(Path(place) / "run")}.items():
                (folder / file).write_text(text, encoding="utf-8")


if __name__ == "__main__":
    write_golden(sys.argv[1:] or SCENES)
