"""One short run of every task, by its records' hash: what changes a single recorded byte shows here, and is meant or mended."""

from __future__ import annotations

import json
from pathlib import Path
from tempfile import TemporaryDirectory

import pyarrow.parquet as pq
import pytest
import zstandard

from ktdeval.config import RunConfig
from ktdeval.jsonio import sha256_hex
from ktdeval.registry import load_plugins
from ktdeval.runner import evaluate

GOLDEN = Path(__file__).with_name("every_task.json")
TASKS = sorted(load_plugins().specs("tasks"))
STANCES = {
    "investorbench": "synthetic_investorbench",
    "ama": "synthetic_arena",
    "views": "synthetic_views",
}  #: families of decisions
MARKETS = {**STANCES, "deepfund": "synthetic_deepfund"}  #: families with a market of their own


def records_of(run: Path) -> dict[str, dict[str, str]]:
    """SHA-256 of what each episode's records hold: the same whichever version of Parquet or zstd packed them."""
    found: dict[str, dict[str, str]] = {}
    for path in sorted(run.glob("episodes/*/*.zst")):
        content = zstandard.ZstdDecompressor().stream_reader(path.read_bytes()).read()
        found.setdefault(path.parent.name, {})[path.name] = sha256_hex(content)
    for path in sorted(run.glob("episodes/*/*.parquet")):
        rows = pq.read_table(path).to_pylist()
        found.setdefault(path.parent.name, {})[path.name] = sha256_hex(json.dumps(rows, sort_keys=True, default=str))
    return found


def short_run(task: str, folder: Path) -> Path:
    """The folder of a run of three steps with a model of this machine."""
    plugins = load_plugins()
    family = plugins.spec("tasks", task).groups[0]
    is_trading = family.startswith(("ktdfin", "markets", *MARKETS))
    has_market, data = "qfinzero" not in task, {"data": MARKETS[family]} if family in MARKETS else {}
    if "minutes" in task:
        data = {"data": "synthetic_mixed", "data_args": {"first": "2024-02-01", "last": "2024-04-10", "minute_days": 12}}
    last = "2024-04-05" if "minutes" in task else "2024-06-05"
    windows = {"markets": (f"2024-04-01:{last}",), **dict.fromkeys(MARKETS, ())}
    model = "builtin/buy_and_hold" if family in STANCES else "builtin/momentum" if is_trading else "builtin/chaos"
    config = RunConfig(
        model="builtin/random" if task.endswith("memory_only") else model,  # which shows no figure to rank by
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


@pytest.mark.parametrize("task", TASKS)
def test_a_short_run_leaves_the_same_records_as_ever(task: str, tmp_path: Path) -> None:
    assert records_of(short_run(task, tmp_path / "run")) == json.loads(GOLDEN.read_text())[task]


def test_every_golden_record_is_of_a_task() -> None:
    assert sorted(json.loads(GOLDEN.read_text())) == TASKS


if __name__ == "__main__":  # python tests/golden/test_every_task.py, after a change that is meant
    with TemporaryDirectory() as scratch:
        made = {task: records_of(short_run(task, Path(scratch) / task)) for task in TASKS}
    GOLDEN.write_text(json.dumps(made, indent=1, sort_keys=True) + "\n")
