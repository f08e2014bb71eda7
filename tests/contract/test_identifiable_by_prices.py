"""The label `identifiable by its prices` is that of each task which an attacker opens who holds the
whole history of the market: he plays the task himself, on each day that it may be, and compares the
figures with those that he is shown. Every trading task of the registry is attacked, so a new one
can't lack the label, and none has it in vain.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import cache
from typing import Any

import numpy as np
import pytest

from ktdeval.cards.card_reading import parse_card
from ktdeval.cards.fields.origin.fact_types import TradingTaskPart
from ktdeval.cards.fields.origin.task import is_identifiable_by_prices
from ktdeval.cards.recomputation_diff import BY_PRICES, card_difference
from ktdeval.errors import CardError
from ktdeval.harness import ModelTraits, table_rows
from ktdeval.harness.chat_messages import ModelRequest, Reply
from ktdeval.keyless.request_and_reply import Conversation
from ktdeval.market import MarketSnapshot
from ktdeval.registry import load_plugins
from ktdeval.runner.episodes.episode import TradingEpisodeRun
from ktdeval.runner.episodes.episode_parts import EpisodeParts
from ktdeval.runner.plans.data_source import open_snapshot
from ktdeval.task_api.episode_spec import EpisodeSpec, Window
from ktdeval.task_api.scoring import is_scoring
from ktdeval.task_api.traits import task_traits
from ktdeval.trading.market_tape import MarketTape
from ktdeval.values import dumps_pretty
from ktdeval_builtin.react import ReactAgent
from support.figures.card_cases import card, episode as ledger_of
from support.figures.metric_cases import spec

PLUGINS = load_plugins()
MARKETS = {
    "ama": "synthetic_arena",
    "deepfund": "synthetic_deepfund",
    "investorbench": "synthetic_investorbench",
    "markets": "synthetic_us",
    "views": "synthetic_views",
}  #: family -> its generated market; that of the others is the A-shares'
WITH_MINUTES = {"first": "2024-02-01", "last": "2024-04-10", "minute_days": 12}


def trading_tasks() -> Iterator[Any]:
    """All trading tasks but those whose account tells prices, which have a label of their own; the
    first of each kind in the quick tests.
    """
    kinds = set()
    for name, listed in sorted(PLUGINS.specs("tasks").items()):
        task = PLUGINS.make_task(name)
        if is_scoring(task) or task_traits(task).identifiable_by_account:
            continue

        family = listed.groups[0].partition("_")[0]
        kind = (family, task.mask, task.mode, "rebased" in name)
        yield pytest.param(name, marks=[pytest.mark.slow] if kind in kinds else [])
        kinds.add(kind)


@cache
def market_of(name: str) -> MarketSnapshot:
    family = PLUGINS.spec("tasks", name).groups[0]
    if "minutes" in name:
        return open_snapshot(PLUGINS, "synthetic_mixed", WITH_MINUTES)
    if "coins" in name:
        return open_snapshot(PLUGINS, "synthetic_crypto", {})
    return open_snapshot(PLUGINS, MARKETS.get(family, "synthetic"), {})


@dataclass
class Reader:
    """A model that asks for what the tools show, and remembers all figures."""

    traits = ModelTraits(is_free=True)
    of_row: dict[str, Counter[float]] = field(default_factory=dict)  #: label -> its figures
    of_market: Counter[float] = field(default_factory=Counter)

    def reply(self, request: ModelRequest) -> Reply:
        conversation = Conversation(request)
        screened = conversation.result_rows("screen_candidates", "candidates")
        if "screen_candidates" in conversation.offered and conversation.turns == 0:
            return conversation.call([("screen_candidates", {"factors": ["RV_60"], "k": 5})])
        if "compare_candidates" in conversation.offered and conversation.turns == 1:
            asked = {"stock_ids": [row["stock_id"] for row in screened], "dims": ["return_1d_pct"]}
            return conversation.call([("compare_candidates", asked)])
        if not conversation.is_submission:
            return Reply("Research done.")

        shown = dict(conversation.state)
        for section in ("account", "constraints", "positions", "last_step", "news"):
            shown.pop(section, None)  # of itself; of a text the words, which are masked elsewhere
        self._read(shown)
        self._read([conversation.result(tool) for tool in conversation.results])
        return conversation.submit([], conversation.reason("it only reads"))

    def _read(self, shown: Any, label: str | None = None) -> None:
        if isinstance(shown, Mapping):
            label = shown.get("stock_id", label)
            rows = table_rows(shown) if "columns" in shown else list(shown.values())
            for value in rows:
                self._read(value, label)
        elif isinstance(shown, list | tuple):
            for value in shown:
                self._read(value, label)
        elif isinstance(shown, int | float) and not isinstance(shown, bool):
            figures = self.of_market if label is None else self.of_row.setdefault(label, Counter())
            figures[float(shown)] += 1

    @property
    def of_day(self) -> Counter[Any]:
        """All figures that it was shown, without the labels."""
        rows = Counter(frozenset(figures.items()) for figures in self.of_row.values())
        return rows + Counter({("market", value): n for value, n in self.of_market.items()})


@dataclass
class Shown:
    """What a task shows of a day under a mask key, and whose labels these are."""

    reader: Reader
    episode: TradingEpisodeRun


def show(name: str, first: str, last: str, key: int) -> Shown:
    task, market = PLUGINS.make_task(name), market_of(name)
    reader = Reader()
    own = EpisodeSpec(
        task=name, task_version=task.version, task_hash="0", snapshot="0", mask=task.mask,
        mode=task.mode, window=Window(f"{first}:{last}", first, last), model="reader",
        model_args={}, agent="react", agent_args={}, seed=0, mask_key=f"{key:032x}",
    )  # fmt: skip
    tape = MarketTape.from_snapshot(market, task.trading)
    parts = EpisodeParts(task, PLUGINS.tools(task.tools), market, tape, reader, ReactAgent())
    episode = TradingEpisodeRun(own, parts)
    episode.run_step(0)
    return Shown(reader, episode)


def two_spans(name: str) -> Iterator[tuple[str, str]]:
    """Days on which the assets of a task trade: three days each, two weeks apart."""
    task, market = PLUGINS.make_task(name), market_of(name)
    column = market.asset_index[next(iter(task.traits.needs_assets), market.codes[0])]
    traded = np.flatnonzero(np.isfinite(market.close[:, column]))
    for end in (-9, -2):
        days = market.days[traded[[end - 2, end]]]
        yield str(days[0]), str(days[1])


def finds(name: str) -> bool:
    """Whether an attacker who plays the task himself, under another key, names the day or more than
    half of the stocks that are shown.
    """
    task = PLUGINS.make_task(name)
    earlier, later = two_spans(name)
    victim = show(name, *earlier, key=1)
    same, other = show(name, *earlier, key=2), show(name, *later, key=2)
    hides_days = task.mask in ("date_blind", "blinded")
    if hides_days and victim.reader.of_day == same.reader.of_day != other.reader.of_day:
        return True

    if task.mask not in ("stock_blind", "blinded"):
        return False

    named = 0
    for label, figures in victim.reader.of_row.items():
        alike = [own for own, shown in same.reader.of_row.items() if shown == figures]
        if len(alike) == 1:
            asset = victim.episode.lens.parse_asset(label)
            named += asset == same.episode.lens.parse_asset(alike[0])

    return named > len(victim.reader.of_row) / 2


def has_label(name: str) -> bool:
    task = PLUGINS.make_task(name)
    return is_identifiable_by_prices(
        TradingTaskPart(
            name=name,
            version=task.version,
            mask=task.mask,
            mode=task.mode,
            hash="0" * 64,
            config={},
        )
    )


@pytest.mark.parametrize("name", list(trading_tasks()))
def test_a_task_has_the_label_if_its_figures_name_the_day_or_the_stocks(name: str) -> None:
    assert has_label(name) == finds(name)


@pytest.mark.needs("ktdeval_ktdfin")
def test_a_task_whose_account_tells_prices_has_that_label_instead() -> None:
    papers = [
        name
        for name in PLUGINS.specs("tasks")
        if task_traits(PLUGINS.make_task(name)).identifiable_by_account
    ]

    assert len(papers) == 3
    assert not any(map(has_label, papers))


def test_a_mode_that_the_suite_does_not_know_is_taken_to_show_figures() -> None:
    def part(mask: Any, mode: str) -> TradingTaskPart:
        return TradingTaskPart(
            name="own", version="1", mask=mask, mode=mode, hash="0" * 64, config={}
        )

    assert is_identifiable_by_prices(part("blinded", "mine"))
    assert not is_identifiable_by_prices(part("blinded", "memory_only"))
    assert not is_identifiable_by_prices(part("bright", "mine"))


# ---- cards that were written before the label existed


def test_a_card_without_the_label_is_read_with_it_and_verifies_as_before() -> None:
    today = card()
    earlier = {**today, "labels": [label for label in today["labels"] if label != BY_PRICES]}
    assert today["labels"] == [*earlier["labels"], BY_PRICES]

    assert parse_card(dumps_pretty(earlier), "card.json").plain == today
    assert card_difference(earlier, today) is None


def test_no_other_label_may_be_missing_and_a_card_that_hides_nothing_has_no_such_label() -> None:
    today = card()
    for labels in ([BY_PRICES], [], [*today["labels"], "limited"]):
        with pytest.raises(CardError, match="labels"):
            parse_card(dumps_pretty({**today, "labels": labels}), "card.json")

    bright = spec(mask="bright")
    shown = card(specs=[bright], ledgers=[ledger_of(bright)])
    assert BY_PRICES not in shown["labels"]
    with pytest.raises(CardError, match="labels"):
        parse_card(dumps_pretty({**shown, "labels": [*shown["labels"], BY_PRICES]}), "card.json")
