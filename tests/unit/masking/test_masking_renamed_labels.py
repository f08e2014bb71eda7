"""Every label that a task shows is read as its asset, also while assets are renamed: in prompts,
answers of tools and schemas, under each mask and mode.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest

from ktdeval.harness import Model, ModelRequest, ModelTraits, Reply
from ktdeval.market import MarketSnapshot, NameSpell, window_rows
from ktdeval.masking import Lens
from ktdeval.runner.episodes.episode import TradingEpisodeRun
from ktdeval.runner.episodes.episode_parts import EpisodeParts
from ktdeval.task_api import is_scoring
from ktdeval.trading.market_tape import MarketTape
from support.tasks.planned_tasks import PLUGINS, planned

_HANDLE = re.compile(r"asset_[0-9]{4}")
STEPS = 3
TASKS = [
    name
    for name in sorted(PLUGINS.specs("tasks"))
    if not is_scoring(PLUGINS.make_task(name))
    and PLUGINS.spec("tasks", name).groups[0] != "qfinzero"
]


def former_codes(market: MarketSnapshot) -> dict[str, str]:
    """A former code of each asset: on A-shares one of the same board, elsewhere a ticker."""
    taken = set(market.codes)
    former = {}
    for number, code in enumerate(market.codes):
        then = f"OLD{number}"
        if code[:6].isdigit():
            digits, exchange = code.split(".")
            free = (f"{digits[:3]}{tail:03}.{exchange}" for tail in range(1000))
            then = next(each for each in free if each not in taken)
        taken.add(then)
        former[code] = then

    return former


def renamed(market: MarketSnapshot, row: int) -> MarketSnapshot:
    """The market, all of whose assets get their codes and names on day `row`."""
    spells = []
    for code, then in former_codes(market).items():
        name = market.names[market.asset_index[code]]
        spells.append(NameSpell(code, "1900-01-01", str(market.days[row - 1]), name, then))
        spells.append(NameSpell(code, str(market.days[row]), "2200-01-01", name, code))

    return replace(market, spells=tuple(spells), id="")


class Reader:
    """A model of this process that reads all labels which a request shows."""

    traits = ModelTraits(is_free=True)

    def __init__(self, model: Model, market: MarketSnapshot) -> None:
        self._model = model
        self.lens: Lens
        self.read = 0
        self._assets = dict(market.asset_index)
        for code, then in former_codes(market).items():
            self._assets[then] = market.asset_index[code]

        codes = sorted(self._assets, key=len, reverse=True)
        # generated news names an asset in parentheses, by today's code
        words = "|".join(map(re.escape, codes))
        self._code = re.compile(rf"(?<![\w.(])(?:{words})(?![\w.]*\w)")

    def reply(self, request: ModelRequest) -> Reply:
        texts = [str(message.to_json()) for message in request.messages]
        texts += [str(tool.parameters) for tool in request.tools]
        for text in texts:
            for label, asset in self._labels(text):
                assert self.lens.parse_asset(label) == asset, label
                self.read += 1

        return self._model.reply(request)

    def _labels(self, text: str) -> Iterator[tuple[str, int]]:
        if not self.lens.hides_assets:
            for label in set(self._code.findall(text)):
                yield label, self._assets[label]
            return

        assert not self._code.search(text)
        for label in set(_HANDLE.findall(text)):
            asset = self.lens.parse_asset(label)
            assert asset is not None, label
            yield label, asset


@pytest.mark.sampled(12)
@pytest.mark.parametrize("name", TASKS)
def test_each_label_that_is_shown_across_a_rename_is_its_asset(name: str) -> None:
    plan = planned(name)
    spec: Any = plan.specs[0]
    first, _ = window_rows(plan.market.days, spec.span.first, spec.span.last)
    market = renamed(plan.market, first + 1)
    model = Reader(PLUGINS.make_model("builtin/momentum", {}), market)
    tape = MarketTape.from_snapshot(market, plan.task.trading)
    tools = PLUGINS.tools(plan.task.tools)
    parts = EpisodeParts(plan.task, tools, market, tape, model, PLUGINS.make_agent("react", {}))
    episode = TradingEpisodeRun(spec, parts)
    model.lens = episode.lens

    orders = []
    for step in range(STEPS):
        orders += episode.run_step(step).step.orders

    assert model.read >= STEPS
    assert all(order.code is not None for order in orders)
