"""One short run of every task, by its records' hash and its card's figures: what changes one shows
here, and is meant or mended.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pyarrow.parquet as pq
import pytest
import zstandard

from ktdeval.registry import load_plugins
from ktdeval.runner import RunConfig, RunFolder, evaluate, open_recorded_snapshot
from ktdeval.values import sha256_hex

GOLDEN = Path(__file__).with_name("every_task.json")
GOLDEN_FIGURES = Path(__file__).with_name("every_card.json")
TASKS = sorted(load_plugins().specs("tasks"))
STANCES = {
    "investorbench": "synthetic_investorbench",
    "ama": "synthetic_arena",
    "views": "synthetic_views",
}  #: families of decisions
MARKETS = {**STANCES, "deepfund": "synthetic_deepfund"}  #: families with a market of their own


def read(golden: Path) -> dict[str, Any]:
    """What every task left when the golden records were made."""
    return dict(json.loads(golden.read_text(encoding="utf-8")))


def records_of(run: Path) -> dict[str, dict[str, str]]:
    """SHA-256 of what each episode's records hold: the same whichever version of Parquet or zstd
    packed them.
    """
    found: dict[str, dict[str, str]] = {}

    for path in sorted(run.glob("episodes/*/*.zst")):
        content = zstandard.ZstdDecompressor().stream_reader(path.read_bytes()).read()
        found.setdefault(path.parent.name, {})[path.name] = sha256_hex(content)

    for path in sorted(run.glob("episodes/*/*.parquet")):
        rows = pq.read_table(path).to_pylist()
        found.setdefault(path.parent.name, {})[path.name] = sha256_hex(
            json.dumps(rows, sort_keys=True, default=str)
        )

    return found


def figures_of(run: Path) -> dict[str, dict[str, Any]]:
    """Value, interval and number of values of each metric and score on the run's card, and the rank
    correlation of its holdings, with the reason where there is none.
    """
    (path,) = (run / "cards").glob("*.json")
    card = json.loads(path.read_text(encoding="utf-8"))
    found: dict[str, dict[str, Any]] = {}

    for part in ("metrics", "scores"):
        for name, line in card.get(part, {}).items():
            fields = {
                key: line[key]
                for key in ("value", "n", "undefined", "reason", "never", "baseline")
                if key in line
            }
            interval = line.get("quartiles") or line.get("interval") or {}
            found[f"{part}.{name}"] = fields | {
                key: interval[key] for key in ("low", "high") if key in interval
            }

    if "rank_correlation" in card:
        found["rank_correlation"] = card["rank_correlation"]

    return found


def differences(
    found: Mapping[str, dict[str, Any]], expected: Mapping[str, dict[str, Any]]
) -> dict[str, tuple[Any, Any]]:
    """Return the figures of two cards that are not the same to twelve digits, found and
    expected.
    """
    names = sorted({*found, *expected})
    return {
        name: (found.get(name), expected.get(name))
        for name in names
        if not _are_alike(found.get(name), expected.get(name))
    }


def _are_alike(one: Any, other: Any) -> bool:
    if isinstance(one, dict) and isinstance(other, dict):
        return one.keys() == other.keys() and all(
            _are_alike(value, other[key]) for key, value in one.items()
        )

    if isinstance(one, float) and isinstance(other, float):
        return math.isclose(one, other, rel_tol=1e-9, abs_tol=1e-12)

    return type(one) is type(other) and one == other


def short_run(task: str, folder: Path) -> Path:
    """The folder of a run of three steps with a model of this machine."""
    plugins = load_plugins()
    family = plugins.spec("tasks", task).groups[0]
    is_trading = family.startswith(("ktdfin", "markets", *MARKETS))
    has_market = "qfinzero" not in task
    data = {"data": MARKETS[family]} if family in MARKETS else {}

    if "minutes" in task:
        data = {
            "data": "synthetic_mixed",
            "data_args": {"first": "2024-02-01", "last": "2024-04-10", "minute_days": 12},
        }

    if "coins" in task:
        data = {"data": "synthetic_crypto"}

    last = "2024-04-05" if "minutes" in task else "2024-06-05"
    windows = {"markets": (f"2024-04-01:{last}",), **dict.fromkeys(MARKETS, ())}
    model = (
        "builtin/buy_and_hold"
        if family in STANCES
        else "builtin/momentum"
        if is_trading
        else "builtin/chaos"
    )
    config = RunConfig(
        # which shows no figure to rank by
        model="builtin/random" if "memory_only" in task else model,
        tasks=(task,),
        limit=3,
        mask_key="0" * 32 if has_market else None,
        windows=windows.get(family, ("W1",)) if has_market else (),
        **data,
        out=str(folder),
    )
    result = evaluate(config, plugins)

    assert not result.failed

    return result.folder


@pytest.mark.slow
@pytest.mark.parametrize("task", TASKS)
def test_a_short_run_leaves_the_same_records_and_figures_as_ever(task: str, tmp_path: Path) -> None:
    run = short_run(task, tmp_path / "run")
    assert differences(figures_of(run), read(GOLDEN_FIGURES)[task]) == {}
    assert records_of(run) == read(GOLDEN)[task]


def _one_of_each_family() -> list[str]:
    """The first trading task of each family, and of each group of one that trades otherwise."""
    families: dict[str, str] = {}
    for task, spec in load_plugins().specs("tasks").items():
        if spec.groups[0].startswith(("ktdfin", "markets", *MARKETS)):
            families.setdefault(spec.groups[0], task)

    return list(families.values())


@pytest.mark.slow
@pytest.mark.sampled(3)
@pytest.mark.parametrize("task", _one_of_each_family())
def test_a_transplant_at_the_run_s_own_capital_is_its_ledger_to_the_byte(
    task: str, tmp_path: Path
) -> None:
    transplanter = pytest.importorskip("ktdeval_compare.transplants.transplanter")
    plugins = load_plugins()
    folder = RunFolder.load(short_run(task, tmp_path / "run"))
    (made,) = transplanter.trading_tasks(folder, plugins)
    again = transplanter.Transplanter(
        folder, made, open_recorded_snapshot(folder, plugins, {}), plugins
    )
    free = replace(again.own_trading, execution="none")

    for episode in again.at(free, {"execution": "none"}).episodes:
        spec = folder.load_ledger(episode.of).spec
        own = replace(episode, ledger=replace(episode.ledger, spec=spec)).encode()
        recorded = folder.episode_path(episode.of) / "ledger.parquet"

        assert own == recorded.read_bytes()
        assert episode.other_states == ()
        assert episode.figures.execution_minor == 0


def test_every_golden_record_is_of_a_task_and_each_has_figures() -> None:
    assert sorted(read(GOLDEN)) == sorted(read(GOLDEN_FIGURES)) == TASKS
    assert [task for task, figures in read(GOLDEN_FIGURES).items() if not figures] == []


def test_a_figure_that_differs_is_named_with_both_values() -> None:
    line = {"value": 0.25, "n": 3, "undefined": {}, "low": None}
    assert differences({"a": line}, {"a": {**line, "value": 0.25 + 1e-15}}) == {}

    for change in (
        {"value": 0.2500001},
        {"value": None},
        {"n": 4},
        {"undefined": {"no trade": 1}},
        {"low": 0.0},
        {"high": 1.0},
    ):
        assert differences({"a": line}, {"a": line | change}) == {"a": (line, line | change)}

    assert differences({"a": line}, {"b": line}) == {"a": (line, None), "b": (None, line)}


if __name__ == "__main__":  # python tests/oracle/test_every_task.py, after a change that is meant
    with TemporaryDirectory() as scratch:
        runs = {task: short_run(task, Path(scratch) / task) for task in TASKS}
        for golden, made in ((GOLDEN, records_of), (GOLDEN_FIGURES, figures_of)):
            content = {task: made(run) for task, run in runs.items()}
            golden.write_text(json.dumps(content, indent=1, sort_keys=True) + "\n")
