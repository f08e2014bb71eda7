"""Forward tests on every kind of market: day by day they come to the ledger of an ordinary run."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from ktdeval.errors import ConfigError
from ktdeval.runner import RunConfig, RunFolder, evaluate
from ktdeval_live.checks.verification import verify_test
from ktdeval_live.days.clock import of_text
from ktdeval_live.record.entrant_episode import EntrantMarket, EntryEpisode
from ktdeval_live.results.settled_cards import settle_test
from support.live.live_drops import plugins
from support.live.live_plans import rehearsed

MASK_KEY = "5eed" * 8


@pytest.mark.sampled(4)
@dataclass(frozen=True)
class Case:
    """A task on an embedded market, over some days."""

    data: str
    task: str
    first: str
    last: str
    model: str = "builtin/momentum"
    splits: tuple[str, ...] = ()  #: assets that are held over a split

    @property
    def model_args(self) -> dict[str, Any]:
        """Arguments of the model: equal weights hold as many assets as the task allows."""
        if self.model == "builtin/equal_weight":
            return {"positions": 40}

        return {}

    @property
    def market(self) -> dict[str, str]:
        """Fields of the market in a plan."""
        return {"data": self.data, "task": self.task, "source": "stored"}


CASES = {
    "US stocks": Case("synthetic_us", "market_bright", "2024-06-03", "2024-06-07"),
    "US stocks, random": Case(
        "synthetic_us", "market_bright", "2024-06-03", "2024-06-07", "builtin/random"
    ),
    "US stocks, a split": Case(
        "synthetic_us",
        "market_bright",
        "2025-03-10",
        "2025-03-18",
        "builtin/equal_weight",
        ("TAMB56",),
    ),
    "US stocks, a halt": Case(
        "synthetic_us", "market_bright", "2024-01-17", "2024-01-24", "builtin/equal_weight"
    ),
    "US stocks, blinded": Case("synthetic_us", "market_blinded", "2024-06-03", "2024-06-07"),
    "US stocks with news, blinded": Case(
        "synthetic_us", "market_news_blinded", "2024-06-03", "2024-06-06"
    ),
    "coins over a weekend": Case(
        "synthetic_crypto", "market_coins_bright", "2024-06-06", "2024-06-11"
    ),
    "CSI300": Case("synthetic", "bright_fixed_candidate", "2024-06-06", "2024-06-12"),
    "CSI300, rules of the exchange": Case(
        "synthetic", "market_bright", "2024-06-06", "2024-06-11", "builtin/equal_weight"
    ),
    "CSI300, blinded, tools": Case(
        "synthetic", "blinded_open_research", "2024-06-06", "2024-06-12"
    ),
    "stocks and coins in one account": Case(
        "synthetic_mixed", "market_coins_bright", "2024-06-06", "2024-06-11"
    ),
}


@pytest.mark.sampled(1)
@pytest.mark.slow
@pytest.mark.parametrize("case", CASES.values(), ids=CASES)
def test_days_one_by_one_give_the_ledger_of_an_ordinary_run(case: Case, tmp_path: Path) -> None:
    test = rehearsed(
        tmp_path / "live",
        plugins(),
        first=case.first,
        last=case.last,
        markets={"one": case.market},
        entrants=[{"name": "system", "model": case.model, "model_args": case.model_args}],
        mask_key=MASK_KEY,
    )
    config = RunConfig(
        model=case.model,
        model_args=case.model_args,
        tasks=(case.task,),
        data=case.data,
        windows=(f"{case.first}:{case.last}",),
        mask_key=MASK_KEY,
        out=str(tmp_path / "run"),
    )
    evaluate(config, plugins())
    run = RunFolder.load(tmp_path / "run")
    ordinary = run.load_ledger(run.manifest.specs[0])

    entry = EntrantMarket(test.plan, test.plan.entrant("system"), "one")
    episode = EntryEpisode(entry, test, plugins(), test.market("one"))
    episode.settle(test.chain(), len(test.schedule("one").deciding))

    assert tuple(episode.records) == ordinary.steps
    assert any(step.orders for step in ordinary.steps)

    acted = {action.code for step in ordinary.steps for action in step.corporate_actions}
    assert set(case.splits) <= acted

    assert verify_test(test, plugins()).findings == ()

    card = settle_test(test, plugins(), of_text("2024-07-01T00:00:00Z")).cards[0]
    assert card.days.counted == card.days.decided == len(ordinary.steps)


def test_account_of_stocks_and_coins_that_fill_at_opens_is_refused(tmp_path: Path) -> None:
    mixed = {"data": "synthetic_mixed", "task": "market_bright", "source": "stored"}
    with pytest.raises(ConfigError, match="use a task whose orders fill at the next close"):
        rehearsed(tmp_path / "live", plugins(), markets={"both": mixed})


@pytest.mark.exhaustive
def test_plan_with_stocks_and_coins_side_by_side(tmp_path: Path) -> None:
    markets = {
        "us": CASES["US stocks"].market,
        "coins": CASES["coins over a weekend"].market,
    }
    test = rehearsed(
        tmp_path / "live", plugins(), first="2024-06-06", last="2024-06-10", markets=markets
    )

    assert verify_test(test, plugins()).findings == ()

    cards = settle_test(test, plugins(), of_text("2024-07-01T00:00:00Z")).cards
    assert {card.market.name: card.days.counted for card in cards} == {"us": 3, "coins": 5}
