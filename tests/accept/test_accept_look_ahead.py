"""What happens after a close can't be seen at it: with garbage for a future, every text for the
model stays the same.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from dataclasses import replace
from itertools import cycle, islice, product
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from ktdeval.harness.tools.tool_definition import Tool, call
from ktdeval.market import Close, MinuteBars
from ktdeval.market.rules.calendar import window_rows
from ktdeval.market.snapshots.snapshot import BAR_FIELDS, MarketSnapshot
from ktdeval.market.snapshots.storage import save_snapshot
from ktdeval.masking.lens import Lens
from ktdeval.masking.payload_types import DocumentRef
from ktdeval.runner.episodes.bookkeeper import Bookkeeper
from ktdeval.runner.records.run_folder import RunFolder
from ktdeval.trading.market_tape import MarketTape
from support.accept.accept_runs import PLUGINS, TASKS, evaluate, synthetic
from support.masking.news_items import poisoned_news, with_news
from support.searching import is_searching

# In W2 lie dividends, splits, an index change on 2024-06-17 and suspensions.
WINDOW = "W2"
STEPS = 26
DECISIONS = (0, 1, 9, 14, 15, 25)
FEW = (1, 14, 25)
NEWS = ("search_news", "get_document")
BEYOND = np.random.default_rng(99)

Garbage = Callable[[tuple[int, ...]], np.ndarray]
GARBAGE: dict[str, Garbage] = {
    "nan": lambda shape: np.full(shape, np.nan),
    "infinite": lambda shape: np.full(shape, np.inf),
    "huge": lambda shape: np.full(shape, 1e150),
    "negative": lambda shape: np.full(shape, -3.0),
    "zero": lambda shape: np.zeros(shape),
    "random": lambda shape: (
        BEYOND.normal(0, 1e4, shape) * BEYOND.choice([1e-9, 1.0, 1e9, np.nan], shape)
    ),
}


def poisoned(
    market: MarketSnapshot, row: int, garbage: Garbage, factor: Garbage | None = None
) -> MarketSnapshot:
    """The same market with garbage in every bar, factor, membership and index level after `row`,
    within days, too.
    """

    def spoil(values: np.ndarray, source: Garbage = garbage) -> np.ndarray:
        tail = values[row + 1 :]
        return np.concatenate(
            [values[: row + 1], ~tail if values.dtype == bool else source(tail.shape)]
        )

    fields = {name: spoil(getattr(market, name)) for name in (*BAR_FIELDS, "member")}
    if factor is not None:
        fields["factor"] = spoil(market.factor, factor)

    indices = {code: spoil(levels) for code, levels in market.indices.items()}
    minutes = MinuteBars(market.minutes.codes, market.minutes.rows.copy())
    later = minutes.rows["ends_at"] > np.datetime64(Close().instant(market.days[row]), "us")

    for name in ("open", "high", "low", "close", "volume"):
        minutes.rows[name][later] = garbage((int(later.sum()),))

    return replace(
        market,
        **fields,
        indices=indices,
        documents=poisoned_news(market, row),
        minutes=minutes,
        id="",
    )


@pytest.fixture(scope="module")
def market() -> MarketSnapshot:
    plain = synthetic()
    base_row = plain.day_index("2024-05-27") - 1
    day_rows = np.arange(base_row - 5, base_row + 60)
    columns = np.arange(0, len(plain.codes), 40)
    ends = np.array([Close().instant(plain.days[row]) for row in day_rows], "M8[us]")[
        :, None, None
    ] + np.array([-1, 0, 9], "m8[m]")
    codes = np.tile(np.repeat(np.array(plain.codes, dtype=object)[columns], 3), len(day_rows))
    cells = {"code": codes, "ends_at": np.repeat(ends, len(columns), axis=1).ravel()}
    table = pd.DataFrame(
        {**cells, **dict.fromkeys(("open", "high", "low", "close", "volume"), 5.0)}
    )

    return replace(with_news(plain, base_row - 40, base_row + 60), minutes=MinuteBars.of(table))


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> RunFolder:
    """An episode that holds things, from the real runner."""
    out = tmp_path_factory.mktemp("ahead") / "run"
    return evaluate(
        out,
        "builtin/momentum",
        ["blinded_open_research"],
        "--windows",
        WINDOW,
        "--limit",
        str(STEPS),
    )


class Scenes:
    """A task's scene at any decision of the run's episode, on the true market or a poisoned one."""

    def __init__(self, task: str, market: MarketSnapshot, run: RunFolder) -> None:
        self.task = PLUGINS.make_task(task)
        spec = run.manifest.specs[0]
        self.spec = replace(spec, task=task, mask=self.task.mask, mode=self.task.mode)
        self.steps = run.load_ledger(spec).steps
        self.market, self.tape = market, MarketTape.from_snapshot(market, self.task.trading)
        self.base_row = window_rows(market.days, spec.window.first, spec.window.last)[0] - 1
        self.tools: tuple[Tool, ...] = PLUGINS.tools(
            (*self.task.tools, *(NEWS if self.task.tools else ()))
        )

    def texts(self, step: int, market: MarketSnapshot) -> list[str]:
        """The observation, and what each tool answers to many calls."""
        row = self.base_row + step
        last = self.steps[step - 1] if step else None
        books = Bookkeeper(self.market, self.tape, self.task.trading, self.base_row)

        if last is not None:
            books.resume(last)

        account = books.account

        assert (len(account.positions) > 10) == (step > 0)

        scene = self.task.scene(self.spec, market)
        observation = scene.observe(step, market.as_of(row), account, last)
        context = scene.tool_context(step, market.as_of(row), account)
        answers = [observation.system, observation.user]

        for tool in self.tools:
            for arguments in self.arguments(tool.name, row, scene.lens, list(account.positions)):
                outcome = call(tool, context, arguments, scene.lens)
                answers.append(
                    f"{tool.name} {arguments} {outcome.failure}"
                    f" {scene.lens.render_text(outcome.payload)}"
                )

        return answers

    def arguments(self, tool: str, row: int, lens: Lens, held: list[int]) -> Iterator[str]:
        """Calls of one tool, sound and unsound, that ask for every corner: the future, the
        suspended, the unlisted, outsiders.
        """
        market = self.market
        silent = np.flatnonzero(~(market.volume[row] > 0)).tolist()
        leaving = np.flatnonzero(market.member[row] != market.member[row + 5]).tolist()
        splitting = np.flatnonzero(market.factor[row] != market.factor[row + 1]).tolist()
        outside = np.flatnonzero(~market.member[row]).tolist()
        assets = list(
            dict.fromkeys(
                [*held[:6], *silent[:4], *leaving[:4], *splitting[:4], *outside[:3], 0, 100, 200]
            )
        )
        handles = [lens.asset_handle(asset) for asset in assets]
        factors = (
            "MOM_12_1",
            "RV_60",
            "ILLIQ",
            "REV_ON",
            "MOM_ID",
            "SKEW",
            "CORR_PV",
            "HIGH_52W",
            "CV_VOL",
        )
        measures = (
            "return_1d_pct",
            "return_5d_pct",
            "return_20d_pct",
            "drawdown_60d_pct",
            "amount_20d_cny",
        )
        calls: list[Any] = [{}, {"day": lens.day_handle(row + 1)}]

        if tool == "screen_candidates":
            calls += [
                {"factors": [sign + name], "k": 30}
                for name, sign in product((*factors, *measures), ("", "-"))
            ]
            calls += [
                {"factors": list(factors[:6]), "k": 100},
                {"factors": ["SKEW", "-SKEW"]},
                {"factors": ["FUTURE"]},
            ]
        elif tool == "get_stock_snapshot":
            calls += [
                {"stock_id": handle, "lookback": days}
                for handle, days in product(handles, (1, 20, 120))
            ]
            calls += [{"stock_id": handles[0], "lookback": days} for days in (0, -1, 121)]
        elif tool == "search_news":
            calls += [
                {"query": query, "lookback": 120, "limit": 50}
                for query in ("", "dividend margin", "POISON")
            ]
            calls += [{"stock_ids": handles, "lookback": days} for days in (1, 40)]
        elif tool == "get_document":
            known = len(market.as_of(row).documents)
            calls += [
                {"document_id": lens.render(DocumentRef(place))}
                for place in (0, known - 9, known - 1, known, known + 1)
            ]
        elif tool == "compare_candidates":
            calls += [
                {"stock_ids": handles, "dims": [*factors, *measures]},
                {"stock_ids": handles[:1], "dims": ["RV_60"]},
            ]
        elif tool == "risk_check":
            calls += [
                {"target_weights": dict.fromkeys(handles, weight)}
                for weight in (0, 0.02, 0.0999, 0.5, 1)
            ]
            calls += [
                {"target_weights": {handle: 0.05 + place / 100}}
                for place, handle in enumerate(handles)
            ]

        return map(json.dumps, calls)


@pytest.mark.sampled(4)
@pytest.mark.filterwarnings("ignore:overflow:RuntimeWarning", "ignore:invalid value:RuntimeWarning")
@pytest.mark.parametrize("task", TASKS)
def test_garbage_after_a_close_changes_no_text_of_that_close(
    task: str, market: MarketSnapshot, run: RunFolder
) -> None:
    scenes = Scenes(task, market, run)
    kinds = cycle(GARBAGE.items())
    for step in DECISIONS if task == "blinded_open_research" or is_searching() else FEW:
        clean = scenes.texts(step, market)
        assert len(clean) > (100 if scenes.tools else 1)
        for name, garbage in islice(kinds, len(GARBAGE) if step == 14 else 2):
            spoiled = scenes.texts(step, poisoned(market, scenes.base_row + step, garbage))
            for seen, expected in zip(spoiled, clean, strict=True):
                assert seen == expected, (step, name)


@pytest.mark.parametrize("task", ["bright_open_research", "blinded_fixed_candidate"])
def test_the_same_garbage_at_that_close_does_change_them(
    task: str, market: MarketSnapshot, run: RunFolder
) -> None:
    """Otherwise the test above would show nothing."""
    scenes = Scenes(task, market, run)
    clean, spoiled = (
        scenes.texts(9, snapshot)
        for snapshot in (market, poisoned(market, scenes.base_row + 8, GARBAGE["nan"]))
    )
    changed = sum(seen != expected for seen, expected in zip(spoiled, clean, strict=True))

    assert changed > (100 if scenes.tools else 0)


@pytest.mark.sampled(1)
@pytest.mark.parametrize("model", ["random", "chaos"])
def test_whole_episodes_do_not_depend_on_data_after_their_last_fill(
    model: str, market: MarketSnapshot, tmp_path: Path
) -> None:
    """Through the real runner: ledgers and transcripts of all tasks, with the future drawn by
    chance or gone altogether.
    """
    steps = 6
    task = PLUGINS.make_task("blinded_open_research")
    first_fill = window_rows(market.days, task.windows[WINDOW].first, task.windows[WINDOW].last)[0]
    futures = {
        "true": market,
        "gone": poisoned(market, first_fill + steps - 1, GARBAGE["nan"], np.ones),
        "drawn": poisoned(
            market, first_fill + steps - 1, lambda shape: BEYOND.uniform(0.01, 9e6, shape), np.ones
        ),
    }
    records = {}

    for name, snapshot in futures.items():
        save_snapshot(snapshot, tmp_path / name)
        words = ["--data", str(tmp_path / name), "--windows", WINDOW, "--limit", str(steps)]
        folder = evaluate(tmp_path / f"run-{name}", f"builtin/{model}", ["ktdfin"], *words)
        records[name] = {
            spec.task: (folder.load_ledger(spec).steps, folder.load_transcript(spec))
            for spec in folder.manifest.specs
        }

    assert set(records["true"]) == set(TASKS)
    assert records["gone"] == records["true"]
    assert records["drawn"] == records["true"]
