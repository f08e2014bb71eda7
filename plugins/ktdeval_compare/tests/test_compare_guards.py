"""Edge cases of commands on several cards: conditions from both sides, constants that figures
depend on, and inputs just outside refusals.
"""

from __future__ import annotations

import math
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from msgspec import structs

from ktdeval.cards.fields.origin.fact_types import KnowledgeCutoff, SideDays
from ktdeval.errors import CardError
from ktdeval.trading.ledger import Ledger, StepRecord
from ktdeval.values import file_sha256, from_plain
from ktdeval_compare.cutoffs import compute as cutoff
from ktdeval_compare.forks.episode_distance import course_of
from ktdeval_compare.pairs import sharpe_difference as sharpe
from ktdeval_compare.pairs.compared_cards import (
    EntrantCard,
    card_notes,
    cutoff_notes,
    daily_table,
    flag_notes,
    label,
    left_out_notes,
    load_entrants,
    notes_of_groups,
    on_side,
    paired_cells,
    recorded_ledger,
)
from ktdeval_compare.pairs.signed_ranks import APART
from ktdeval_compare.papers import ama_deepfund_tables
from ktdeval_compare.papers.ama_deepfund_tables import RowName, row_names
from ktdeval_compare.plans import power
from ktdeval_compare.plans.power import DifferenceSpread, PowerPlan, plan_report, spreads_of_cards
from support.figures.card_cases import typed
from support.figures.compare_cards import CardTerminal, make_card, save_run
from support.figures.metric_cases import CODES, step

ONE = {("A1", 0): 0.1}

# -- plans


def test_power_plan_defaults_match_the_papers_windows_and_level() -> None:
    plan = PowerPlan()
    assert (plan.windows, plan.seeds, plan.window_days, plan.days_per_year) == (10, 1, 43, 252)
    assert (plan.alpha, plan.wanted, plan.comparisons, plan.seed, plan.unit) == (
        0.05,
        0.8,
        1,
        0,
        "fraction",
    )
    assert (plan.effect, plan.window_sd, plan.seed_sd, plan.tracking_error) == (None,) * 4
    assert plan.pattern == APART
    assert (power._REACH, power._SEEDS) == ((5, 6, 8, 10, 11, 15, 20, 40, 60), (1, 2, 3, 5, 10))


def test_power_plan_derives_noise_from_windows_or_tracking_error() -> None:
    assert PowerPlan().spread() is None
    assert PowerPlan(seed_sd=0.1).spread() is None
    assert PowerPlan(window_sd=0.02).spread() == DifferenceSpread(0.02, 0.0)
    assert PowerPlan(window_sd=0.02, seed_sd=0.03).spread() == DifferenceSpread(0.02, 0.03)
    assert PowerPlan(window_sd=0.0).spread() == DifferenceSpread(0.0, 0.0)
    assert DifferenceSpread(0.03).of_pairs(1) == 0.03

    by_error = PowerPlan(tracking_error=0.2, window_days=63, days_per_year=252).spread()
    assert by_error is not None
    assert by_error.window_sd == pytest.approx(0.2 * math.sqrt(63 / 252))
    assert PowerPlan(tracking_error=0.2, window_days=None).spread() is None
    assert PowerPlan(
        tracking_error=0.2, window_days=None, window_sd=0.02
    ).spread() == DifferenceSpread(0.02, 0.0)


@pytest.mark.parametrize(
    ("windows", "effect", "expected"),
    [(5, 0.02, 0.0), (6, 0.02, 1.0), (6, -0.02, 1.0), (6, 0.0, 0.0), (6, None, None)],
)
def test_without_noise_any_difference_is_found_once_a_result_is_possible(
    windows: int, effect: float | None, expected: float | None
) -> None:
    """The smallest p of five windows is 0.0625, of six 0.03125."""
    assert PowerPlan(windows=windows, effect=effect).power_at(0.0) == expected


def test_windows_are_needed_only_for_an_effect_and_more_of_them_with_noise() -> None:
    def needed(**fields: Any) -> int | None:
        (row,) = plan_report(PowerPlan(windows=6, **fields)).by_seeds
        return row.windows_needed

    assert needed(window_sd=0.0) is None
    assert needed(window_sd=0.02) is None
    assert needed(window_sd=0.0, effect=0.02) == 6
    assert needed(window_sd=0.02, effect=0.02) > 6


@pytest.mark.parametrize(
    ("one", "other", "expected"),
    [
        (
            {("A1", 0): 0.1},
            {("A1", 0): 0.04},
            {"seeds": 1, "problem": "one window does not show how windows differ"},
        ),
        (
            {("A1", 0): 0.1, ("A1", 1): 0.1},
            {("A1", 0): 0.04, ("A1", 1): 0.0},
            {"seeds": 2, "problem": "one window does not show how windows differ"},
        ),
        (
            {("A1", 0): None, ("A2", 0): 0.1},
            {("A1", 0): 0.1, ("A2", 0): 0.1},
            {"seeds": 1, "problem": "total_return is not defined on both cards in some window"},
        ),
        (
            {("A1", 0): None, ("A1", 1): 0.1, ("A2", 0): 0.1, ("A2", 1): 0.1},
            {(window, seed): 0.0 for window in ("A1", "A2") for seed in (0, 1)},
            {
                "seeds": 1,
                "problem": (
                    "windows have different numbers of seeds, so noise of seeds and of windows can't be separated; give cards with the same seeds in each window"
                ),
            },
        ),
        # By hand: differences 0.1 and 0.3 with one seed: the SD over windows is 0.1 √2, and that
        # over seeds is 0.
        (
            {("A1", 0): 0.1, ("A2", 0): 0.3},
            {("A1", 0): 0.0, ("A2", 0): 0.0},
            {
                "seeds": 1,
                "problem": None,
                "seed_sd": None,
                "window_sd": pytest.approx(0.1 * math.sqrt(2)),
                "window_variance": pytest.approx(0.02),
            },
        ),
        # By hand: means 0.2 and 0.6 with 0.02 within each: 0.08 - 0.02 / 2 over windows, 0.02 / 2
        # of a seed.
        (
            {("A1", 0): 0.1, ("A1", 1): 0.3, ("A2", 0): 0.5, ("A2", 1): 0.7},
            {(window, seed): 0.0 for window in ("A1", "A2") for seed in (0, 1)},
            {
                "seeds": 2,
                "problem": None,
                "seed_sd": pytest.approx(0.1),
                "window_sd": pytest.approx(math.sqrt(0.07)),
                "window_variance": pytest.approx(0.07),
            },
        ),
    ],
)
def test_the_noise_of_two_cards_is_estimated_or_its_absence_reported(
    terminal: CardTerminal, one: Any, other: Any, expected: dict[str, Any]
) -> None:
    ((name, fields),) = spreads_of_cards(terminal.pair(one, other), "total_return")
    assert name == "house/one, house/two"
    assert {field: fields.get(field) for field in expected} == expected
    assert "window_sd" not in fields or fields["problem"] is None


# -- ledgers beside cards

DAYS = {("A1", 0): (0.01, 0.02, -0.01, 0.0, 0.01)}


def saved(folder: Path, agent: str = "direct", returns: Any = None, total: float = 0.1) -> Path:
    """A run with one episode, and the path of its ledger."""
    card = make_card({("A1", 0): total}, agent=(agent and {"name": agent, "args": {}}))
    return save_run(folder, card, returns or DAYS)


def ledger_of(path: Path) -> Path:
    """The only ledger of a run."""
    (ledger,) = path.parent.parent.rglob("ledger.parquet")
    return ledger


def test_a_ledger_counts_as_the_card_was_made_from_it(tmp_path: Path) -> None:
    path = saved(tmp_path)
    (entrant,) = load_entrants([path])
    episode = entrant.card.episodes[0].id

    assert isinstance(recorded_ledger(entrant, episode), Ledger)

    ledger_of(path).write_bytes(b"no ledger")
    assert (
        recorded_ledger(entrant, episode)
        == f"episodes/{episode}/ledger.parquet is not the ledger that the card was made from"
    )

    entrant.card.artefacts[f"episodes/{episode}/ledger.parquet"] = file_sha256(ledger_of(path))
    broken = recorded_ledger(entrant, episode)

    assert isinstance(broken, str)
    assert str(ledger_of(path)) in broken

    ledger_of(path).unlink()
    assert recorded_ledger(entrant, episode) == "no ledgers next to the card"


@pytest.mark.parametrize(
    ("returns", "has_ledgers", "totals", "flat", "compared"),
    [
        ([DAYS, DAYS], True, (0.1, 0.1), False, "daily NAV"),
        ([{("A1", 0): (0.0,) * 5}] * 2, True, (0.1, 0.1), True, "daily NAV"),
        ([DAYS, {("A1", 0): (0.01, 0.02, -0.01, 0.0, 0.02)}], True, (0.1, 0.1), None, "daily NAV"),
        (
            [DAYS, DAYS],
            False,
            (0.1, 0.1),
            False,
            "daily NAV, or all figures of the card if no ledger is next to it",
        ),
        (
            [DAYS, DAYS],
            False,
            (0.0, 0.0),
            True,
            "daily NAV, or all figures of the card if no ledger is next to it",
        ),
        (
            [DAYS, DAYS],
            False,
            (0.1, 0.2),
            None,
            "daily NAV, or all figures of the card if no ledger is next to it",
        ),
    ],
)
def test_identical_runs_are_those_of_one_path_and_flat_ones_never_moved(
    tmp_path: Path,
    terminal: CardTerminal,
    returns: Any,
    has_ledgers: bool,
    totals: tuple[float, float],
    flat: bool | None,
    compared: str,
) -> None:
    """Runs of another model differ from both, because a decomposition needs a second factor."""
    paths = []
    for number, (agent, daily, total) in enumerate(
        zip(("echo", "loud"), returns, totals, strict=True)
    ):
        for model, extra in (("house/one", 0.0), ("house/two", 0.05 * (number + 1))):
            moved = {
                cell: tuple(value + extra for value in values) for cell, values in daily.items()
            }
            card = make_card({("A1", 0): total + extra}, model, agent={"name": agent, "args": {}})
            paths.append(save_run(tmp_path / "runs" / f"{number}-{model[6:]}", card, moved))
            if not has_ledgers:
                ledger_of(paths[-1]).unlink()

    report = terminal.report(
        "compare", "--factor", "agent,model", *[path.parent.parent for path in paths]
    )

    assert report["compared"] == compared

    rows = [(row["runs"], row["is_flat"]) for row in report["identical"]]
    assert rows == (
        [] if flat is None else [([["echo", "house/one", "0"], ["loud", "house/one", "0"]], flat)]
    )


# -- courses of two episodes


def course(*orders: dict[str, Any], open_nav: int = 1000) -> Any:
    """The course of one step with these orders."""
    frame = {
        "code": CODES[0],
        "stock_id": None,
        "side": "buy",
        "confidence": 0.5,
        "reason": "",
        "target_weight": 0.5,
        "shares": None,
        "status": "filled",
        "rule": None,
        "message": "",
        "filled_shares": 100,
        "price_ticks": 50_000,
        "notional_minor": 500,
        "fee_minor": 0,
    }
    made = step(0, 1000, open_nav_minor=open_nav, orders=[{**frame, **order} for order in orders])

    return course_of(Ledger({}, 1000, from_plain([made], list[StepRecord], "steps")))


# -- daily series


def test_jensens_alpha_is_what_beta_leaves_of_each_day() -> None:
    """Planted: 0.1 % per day above 1.5 times the benchmark."""
    market = {"d1": 0.01, "d2": -0.02, "d3": 0.004}
    own = {day: 0.001 + 1.5 * value for day, value in market.items()}
    excess = {day: own[day] - market[day] for day in market}

    assert cutoff._alpha(own, excess) == {day: pytest.approx(0.001) for day in market}

    two = {day: own[day] for day in ("d1", "d2")}
    assert cutoff._alpha(two, excess) == {}
    assert cutoff._alpha(own, {day: excess[day] for day in ("d1", "d2")}) == {}


def test_a_day_in_twenty_is_the_least_for_a_sharpe_difference() -> None:
    rng = np.random.default_rng(0)
    first, second = rng.normal(0.001, 0.01, (2, 20))

    assert sharpe.sharpe_difference(first, second).p is not None

    few = sharpe.sharpe_difference(first[:19], second[:19])
    assert (few.p, few.n) == (None, 19)
    assert sharpe.MINIMUM_DAYS == 20


# -- what cards say of themselves


def entrants_of(*cards: dict[str, Any]) -> list[EntrantCard]:
    """Cards with their labels, without files."""
    return label(
        [EntrantCard(Path(f"card{number}"), typed(card)) for number, card in enumerate(cards)]
    )


def flagged(entrant: EntrantCard, *labels: str) -> EntrantCard:
    """A card with other labels."""
    return replace(entrant, card=structs.replace(entrant.card, labels=list(labels)))


def test_a_label_of_some_cards_names_them_and_one_of_all_does_not() -> None:
    one, other = entrants_of(make_card(ONE), make_card(ONE, "house/two"))
    first = flagged(one, "synthetic", "limited", "mask not certified")
    second = flagged(other, "synthetic", "certificate claimed", "spans cutoff")

    assert list(flag_notes([first, second])) == ["synthetic: every card", "limited: house/one"]
    assert list(flag_notes([first, second], but=("synthetic", "limited"))) == [
        "mask not tested for this model: house/one",
        "certificate claimed: house/two",
        "spans cutoff: house/two",
    ]


CUTOFF = KnowledgeCutoff(
    date="2011-03-03",
    confidence="given",
    source="a test",
    windows={"A1": SideDays(5, 0, 0), "A2": SideDays(0, 2, 3)},
)


@pytest.mark.parametrize(
    ("block", "labels", "days"),
    [
        (CUTOFF, ["spans cutoff"], "pool days on both sides of"),
        (CUTOFF, ["before cutoff"], "are all of days before"),
        (CUTOFF, ["synthetic"], None),
        ("unknown", ["spans cutoff"], None),
        ("none", ["before cutoff"], None),
    ],
)
def test_days_that_a_model_may_know_are_noted(
    block: Any, labels: list[str], days: str | None
) -> None:
    (entrant,) = entrants_of(make_card(ONE))
    card = structs.replace(entrant.card, knowledge_cutoff=block, labels=labels)

    notes = list(cutoff_notes([replace(entrant, card=card)]))

    expected = (
        f"house/one: figures {days} the cutoff 2011-03-03 of its training data: windows before A1;"
        " across A2 (see `ktdeval compare cutoff`)"
    )

    assert notes == ([] if days is None else [expected])


def test_notes_of_all_groups_have_no_name_and_each_stands_once() -> None:
    notes = {"a": ["both", "one", "one"], "b": ["both"], "c": ["both", "one"]}

    assert list(notes_of_groups(notes)) == ["both", "a, c: one"]


TWO = {("A1", 0): 0.1, ("A2", 0): 0.2}


def test_cells_that_not_all_have_finished_are_counted() -> None:
    whole, part = entrants_of(make_card(TWO), make_card(ONE, "house/two"))

    assert list(left_out_notes([whole, part])) == [
        "figures are of the 1 (window, seed) that all have finished; 1 are left out"
    ]
    assert list(left_out_notes([whole, whole])) == []
    assert paired_cells([whole, part], common=True) == [("A1", 0)]

    with pytest.raises(CardError, match="unpaired: it has not finished window A2 seed 0, which"):
        paired_cells([whole, part], common=False)


def test_cards_without_a_common_cell_can_not_be_paired() -> None:
    one, other = entrants_of(make_card(ONE), make_card({("A2", 0): 0.1}, "house/two"))

    with pytest.raises(CardError, match="card1 and card0 have no common window and seed"):
        paired_cells([one, other], common=True)


@pytest.mark.parametrize(
    ("side", "cells"), [("before", [("A1", 0)]), ("after", None), ("across", [("A2", 0)])]
)
def test_windows_of_a_side_lie_there_for_every_card_that_records_a_cutoff(
    side: str, cells: Any
) -> None:
    one, other = entrants_of(make_card(TWO), make_card(TWO, "house/two"))
    known = replace(one, card=structs.replace(one.card, knowledge_cutoff=CUTOFF))
    unknown = replace(other, card=structs.replace(other.card, knowledge_cutoff="unknown"))

    if cells is None:
        with pytest.raises(CardError, match=r"is entirely after the cutoff \(2011-03-03\)"):
            on_side([known, unknown], list(TWO), side)

        return

    assert on_side([known, unknown], list(TWO), side) == cells


def test_a_median_over_fewer_episodes_is_noted_with_its_reason() -> None:
    three = {**TWO, ("A3", 0): None}
    (entrant,) = entrants_of(make_card(three))

    notes = list(card_notes([entrant], ["total_return", "sharpe", "unknown"]))

    assert notes == ["house/one: total_return: median over 2 of 3 episodes: no steps"]


# -- daily returns of several cards


def test_ledgers_of_other_days_or_of_no_money_have_no_daily_table(tmp_path: Path) -> None:
    def of(name: str, model: str, values: tuple[float, ...]) -> Path:
        return save_run(tmp_path / name, make_card(ONE, model), {("A1", 0): values})

    cells = [("A1", 0)]
    whole = of("whole", "house/one", (0.1, 0.0, 0.0))
    short = of("short", "house/two", (0.1, 0.0))
    ruined = of("ruined", "house/two", (0.1, -1.0, 0.0))

    assert daily_table(label(load_entrants([whole, short])), cells) == (
        "house/two: its ledgers cover different days than those of house/one"
    )
    assert daily_table(label(load_entrants([whole, ruined])), cells) == (
        "house/two: a NAV is not positive"
    )


# -- votes


def voted(agent_args: dict[str, Any], model_args: dict[str, Any], elected: int = 5) -> Any:
    """A card of a vote in which this number of steps was elected."""
    (entrant,) = entrants_of(make_card(ONE))
    card = entrant.card
    decisions = structs.replace(card.decisions, elected=elected)
    agent = structs.replace(card.agent, name="vote", args=agent_args)
    model = structs.replace(card.model, args=model_args)

    return replace(
        entrant, card=structs.replace(card, decisions=decisions, agent=agent, model=model)
    )


VOTERS = [{"agent": "react", "model": "a"}, {"agent": "react", "model": "b"}]


@pytest.mark.parametrize(
    ("agent_args", "model_args", "elected", "is_row_of_agent"),
    [
        ({}, {"voters": VOTERS}, 5, True),
        ({}, {"voters": VOTERS}, 0, False),
        ({}, {"voters": [*VOTERS, {"agent": "echo", "model": "a"}]}, 5, False),
        ({"agents": "react, react", "models": "a,b"}, {}, 1, True),
        ({"agents": ["react"], "models": "a,b"}, {}, 1, True),
        ({"agents": "react,echo", "models": "a,b"}, {}, 1, False),
        ({"agents": "react"}, {}, 1, False),
        ({"models": "a,b"}, {}, 1, False),
    ],
)
def test_a_vote_of_one_agent_over_several_models_is_a_row_of_that_agent(
    agent_args: dict[str, Any], model_args: dict[str, Any], elected: int, is_row_of_agent: bool
) -> None:
    vote = voted(agent_args, model_args, elected)

    (name,) = row_names([vote])

    own = RowName(vote.system.agent_name, "house/one")

    if is_row_of_agent:
        assert name == RowName("react", "Vote")
    elif not model_args:
        assert name == own
    else:
        assert (name.agent, name.model == "Vote") == (own.agent, False)


def test_votes_follow_their_agents_models_and_buy_and_hold_comes_first() -> None:
    names = [
        RowName("react", "Vote"),
        RowName("react", "b"),
        RowName("echo", "a"),
        RowName("Buy & Hold", "-"),
        RowName("react", "a"),
    ]

    assert ama_deepfund_tables._in_order(names) == [
        names[3],
        names[1],
        names[4],
        names[0],
        names[2],
    ]
