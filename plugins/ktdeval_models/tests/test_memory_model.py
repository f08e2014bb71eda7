"""`builtin/memory`: what it recalls of a market that it has seen, with codes or days in sight."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from ktdeval.errors import ConfigError
from ktdeval.market.snapshots.snapshot import MarketSnapshot
from ktdeval.market.snapshots.storage import save_snapshot
from ktdeval.registry import load_plugins
from ktdeval.testing import small_market
from ktdeval.trading.ledger import StepRecord
from ktdeval.values import to_mapping
from ktdeval_models.builtin_models import make_builtin
from ktdeval_models.memorizing_model import MemoryModel
from ktdeval_models.params import MemoryParams, RankParams
from ktdeval_models.remembered_facts import RememberedFacts
from support.tasks.ktdfin_play import Play, trades

pytestmark = pytest.mark.slow

PLUGINS = load_plugins()
POSITIONS = 5


@pytest.fixture(scope="module")
def market() -> MarketSnapshot:
    """The name that rises most joins the index after the first decision, the next one leaves it."""
    market = small_market()
    joins = len(market.codes) - 4
    leaves = 0
    bars = {name: getattr(market, name).copy() for name in ("open", "high", "low", "close")}

    for values in bars.values():
        values[0, joins] = 0.01
        values[0, leaves] = 0.1

    return replace(market, **bars, id="")


def first_step(market: MarketSnapshot, folder: Path, task: str) -> tuple[StepRecord, list[str]]:
    """The first decision of the model in a task, and the names that its prompt shows."""
    save_snapshot(market, folder)
    model = MemoryModel("", MemoryParams(market=str(folder), positions=POSITIONS))
    play = Play(PLUGINS.make_task(task), model, market)
    state = play.session(0)[0].state
    (record,) = play.run(1)

    return record, [*state.universe, *state.candidates]


@pytest.mark.parametrize("mode", ["memory_only", "fixed_candidate"])
def test_on_a_hidden_day_it_ranks_the_names_that_it_is_shown(
    mode: str, market: MarketSnapshot, tmp_path: Path
) -> None:
    """Who is in the index on the true day can't be remembered: an order for another name would turn
    the whole submission down.
    """
    record, shown = first_step(market, tmp_path / "market", f"date_blind_{mode}")
    adjusted = pd.DataFrame(market.adjusted_close).ffill().to_numpy()
    growth = dict(zip(market.codes, adjusted[-1] / adjusted[0], strict=True))
    known = [code for code in shown if np.isfinite(growth[code])]
    best = sorted(known, key=growth.__getitem__, reverse=True)[:POSITIONS]

    assert record.provenance == "model"
    assert [order.code for order in record.orders] == best

    joins = market.codes[-4]
    assert growth[joins] == max(growth.values())
    assert (joins in shown) == (mode == "memory_only"), "whose list has every stock of the market"


def test_on_a_known_day_it_ranks_the_members_that_it_remembers(
    market: MarketSnapshot, tmp_path: Path
) -> None:
    record, _ = first_step(market, tmp_path / "market", "bright_fixed_candidate")
    row = market.day_index(record.decided_on)
    adjusted = pd.DataFrame(market.adjusted_close).ffill().to_numpy()
    growth = np.where(market.member[row], adjusted[row + 20] / adjusted[row], np.nan)
    best = [market.codes[asset] for asset in np.argsort(-growth)[:POSITIONS]]

    assert [order.code for order in record.orders] == best


# ---- doses


def played(params: MemoryParams, task: str, market: MarketSnapshot, steps: int = 4) -> list[object]:
    """What the model trades in a task."""
    play = Play(PLUGINS.make_task(task), MemoryModel("", params), market)
    return trades(play.run(steps))


@pytest.fixture(scope="module")
def dosed(market: MarketSnapshot, tmp_path_factory: pytest.TempPathFactory) -> MemoryParams:
    """A model without any memory, whose market is saved."""
    folder = tmp_path_factory.mktemp("dosed") / "market"
    save_snapshot(market, folder)
    return MemoryParams(market=str(folder), positions=POSITIONS, recall=0.0)


@pytest.mark.parametrize("mask", ["bright", "stock_blind", "date_blind", "blinded"])
@pytest.mark.parametrize("mode", ["open_research", "fixed_candidate"])
def test_without_any_fact_it_is_momentum(
    mask: str, mode: str, dosed: MemoryParams, market: MarketSnapshot
) -> None:
    task = f"{mask}_{mode}"
    momentum = make_builtin("momentum", RankParams(positions=POSITIONS))
    expected = trades(Play(PLUGINS.make_task(task), momentum, market).run(4))

    assert any(expected)
    assert played(dosed, task, market) == expected


@pytest.mark.parametrize("recall", [0.3, 1.0])
def test_behind_the_mask_all_doses_are_one(
    recall: float, dosed: MemoryParams, market: MarketSnapshot
) -> None:
    task = "blinded_fixed_candidate"
    assert played(replace(dosed, recall=recall), task, market) == played(dosed, task, market)


def test_a_dose_buys_the_remembered_names_that_rise_and_then_by_momentum(
    dosed: MemoryParams, market: MarketSnapshot
) -> None:
    task = "bright_fixed_candidate"
    params = replace(dosed, recall=0.15, seed=2)
    play = Play(PLUGINS.make_task(task), MemoryModel("", params), market)
    (record,) = play.run(1)
    row = market.day_index(record.decided_on)
    facts = RememberedFacts(market, params)
    members = np.flatnonzero(market.member[row])
    growth, known = facts.on_day(members, row)
    rising = [members[place] for place in np.argsort(-growth) if known[place] and growth[place] > 1]
    expected = [market.codes[asset] for asset in rising]
    bought = [order.code for order in record.orders]

    assert 0 < len(rising) < POSITIONS
    assert bought[: len(rising)] == expected
    assert len(bought) == POSITIONS
    reasons = [order.reason for order in record.orders]
    assert all("remembered" in reason for reason in reasons[: len(rising)])
    assert not any("remembered" in reason for reason in reasons[len(rising) :])


def test_a_larger_dose_contains_a_smaller_one(market: MarketSnapshot) -> None:
    """The share is that of the dose: within four standard errors."""
    shares = []
    remembered = []
    for recall in (0.2, 0.5):
        facts = RememberedFacts(market, MemoryParams(recall=recall, seed=3))
        drawn = np.array([facts.is_remembered(code) for code in market.codes])
        remembered.append(drawn)
        shares.append(drawn.mean())

    assert not (remembered[0] & ~remembered[1]).any()
    count = remembered[0].size
    assert shares == pytest.approx([0.2, 0.5], abs=4 * (0.25 / count) ** 0.5)


def test_another_seed_remembers_other_facts(market: MarketSnapshot) -> None:
    first, second = (
        RememberedFacts(market, MemoryParams(recall=0.5, seed=seed)).is_remembered(market.codes[0])
        for seed in (0, 1)
    )
    assert (first != second).any()


def test_noise_is_in_spreads_of_growth(market: MarketSnapshot) -> None:
    """At noise 2, over all names of 40 days: an error of twice the day's standard deviation."""
    exact = RememberedFacts(market, MemoryParams())
    noisy = RememberedFacts(market, MemoryParams(noise=2.0))
    errors = []
    for row in range(100, 140):
        members = np.flatnonzero(market.member[row])
        growth, _ = exact.on_day(members, row)
        wrong, _ = noisy.on_day(members, row)
        errors.append((wrong - growth) / np.nanstd(growth))

    error = np.concatenate(errors)
    error = error[np.isfinite(error)]
    assert error.std() == pytest.approx(2.0, rel=4 / (2 * len(error)) ** 0.5)
    assert abs(error.mean()) < 4 * 2.0 / len(error) ** 0.5


def test_prices_after_its_last_day_are_unknown(market: MarketSnapshot) -> None:
    """Growth over 20 days is known as far as the last day; from that day on nothing is."""
    row = 100
    last = 105
    facts = RememberedFacts(market, MemoryParams(until=str(market.days[last])))
    members = np.flatnonzero(market.member[row])
    adjusted = pd.DataFrame(market.adjusted_close).ffill().to_numpy()
    growth, _ = facts.on_day(members, row)

    np.testing.assert_array_equal(growth, adjusted[last, members] / adjusted[row, members])
    assert facts.reach(last - 1)
    assert not facts.reach(last)


def test_after_its_last_day_it_is_momentum(dosed: MemoryParams, market: MarketSnapshot) -> None:
    params = replace(dosed, recall=1.0, until=str(market.days[1]))
    task = "bright_fixed_candidate"
    assert played(params, task, market) == played(dosed, task, market)


@pytest.mark.parametrize(
    ("keyed_by", "mask", "known"),
    [
        ("both", "bright", True),
        ("both", "date_blind", False),
        ("both", "stock_blind", False),
        ("code", "date_blind", True),
        ("code", "stock_blind", False),
        ("date", "date_blind", False),
    ],
)
def test_it_needs_the_labels_that_its_memory_is_keyed_by(
    keyed_by: str, mask: str, known: bool, dosed: MemoryParams, market: MarketSnapshot
) -> None:
    params = replace(dosed, recall=1.0, keyed_by=keyed_by)
    task = f"{mask}_fixed_candidate"
    is_momentum = played(params, task, market) == played(dosed, task, market)
    assert is_momentum is not known


@pytest.mark.parametrize("mask", ["bright", "blinded"])
def test_what_it_invents_is_fixed_by_label_and_seed(
    mask: str, dosed: MemoryParams, market: MarketSnapshot
) -> None:
    """It uses labels, true or masked, and no fact of the market."""
    task = f"{mask}_fixed_candidate"
    first, again, other = (
        played(replace(dosed, invents=True, seed=seed), task, market, 1) for seed in (0, 0, 1)
    )
    assert first == again
    assert first != other


def test_a_last_day_that_is_none_is_refused() -> None:
    with pytest.raises(ConfigError, match=r"until: '2024-13-01' is not a date"):
        MemoryModel("", MemoryParams(until="2024-13-01"))


def test_a_full_memory_has_the_hash_of_before_doses() -> None:
    assert set(to_mapping(MemoryParams())).isdisjoint({"recall", "noise", "keyed_by", "until"})


@pytest.mark.exhaustive
def test_well_before_its_last_day_the_end_changes_nothing(
    dosed: MemoryParams, market: MarketSnapshot
) -> None:
    """The facts of four steps look 20 days ahead: the end comes after them."""
    task = "bright_fixed_candidate"
    first = Play(PLUGINS.make_task(task), MemoryModel("", dosed), market).run(1)[0]
    last = market.day_index(first.decided_on) + 3 + dosed.horizon
    full = replace(dosed, recall=0.4)
    ended = replace(full, until=str(market.days[last]))
    assert played(ended, task, market) == played(full, task, market)
