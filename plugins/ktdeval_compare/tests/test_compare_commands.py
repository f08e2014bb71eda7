"""`ktdeval compare`, `compare power` and `compare masks` on cards: output, refusals, and the
properties of a plan.
"""

from __future__ import annotations

import json
import math
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from inline_snapshot import snapshot
from scipy import stats

from ktdeval.stats.paired import signed_rank
from ktdeval_compare import table_columns
from ktdeval_compare.pairs.signed_ranks import RankTest
from ktdeval_compare.plans.power import DifferenceSpread, estimate_spread, median_variance
from support.figures.compare_cards import APART, CardTerminal, make_card, save_card, save_run
from support.figures.renewed_cards import derived_fields
from support.figures.scoring_cases import scoring_card

MASKS = ("bright", "stock_blind", "date_blind", "blinded")
MODES = ("memory_only", "fixed_candidate", "open_research")
REBASED = {"family": "ktdfin_rebased", "rebase_prices": True, "round_digits": 3}
SHARED = {f"A{k}": (f"2024-{k:02d}-01", f"2024-{k + 1:02d}-20") for k in range(1, 9)}

Figures = Mapping[tuple[str, int], float | None]


def figures(windows: int, seeds: int = 1, seed: int = 0) -> dict[tuple[str, int], float]:
    chance = np.random.default_rng(seed)
    return {
        (f"A{k + 1}", s): float(chance.normal(0, 0.03))
        for k in range(windows)
        for s in range(seeds)
    }


def raised(base: Mapping[tuple[str, int], float]) -> dict[tuple[str, int], float]:
    return {
        cell: value + 0.05 + 0.001 * number for number, (cell, value) in enumerate(base.items())
    }


# ---- compare


@pytest.mark.exhaustive
def test_a_clear_difference_is_a_verdict_and_noise_is_tied(terminal: CardTerminal) -> None:
    base = figures(10, 2)
    made = (
        make_card(base),
        make_card(raised(base), "house/two"),
        make_card(figures(10, 2, 9), "house/three"),
    )
    paths = terminal.cards(*made)
    one_two, one_three, _ = terminal.report("compare", *paths)["tests"]

    assert (one_two["verdict"], one_three["verdict"]) == ("house/two better", "tied")
    assert (one_two["p"], one_two["p_holm"]) == pytest.approx((2 / 2**10, 3 * 2 / 2**10))
    assert one_two["rank_biserial"] == -1.0
    assert one_two["shift"]["low"] <= one_two["shift"]["value"] <= one_two["shift"]["high"] < 0

    assert terminal.text("compare", *paths) == snapshot("""\
Paired differences, first - second, over windows, each the median over its seeds
  metric        first      second        n   shift       95 % interval  effect       p  flip p  Holm p    BH p  verdict
  total_return  house/one  house/two    10  -5.950  %  -6.450 … -5.450   -1.00  0.0020  0.0020  0.0059  0.0059  house/two better
  total_return  house/one  house/three  10  -0.781  %  -3.471 … +1.207   -0.27  0.4922  0.3457  0.4922  0.4922  tied
  total_return  house/two  house/three  10  +5.131  %  +2.990 … +6.942   +0.96  0.0039  0.0039  0.0078  0.0059  house/two better
  shift: Hodges-Lehmann; effect: rank-biserial, -1 … 1; p: Wilcoxon; flip p: sign flips; tests two-sided; verdict: by Holm p

Daily returns (mean over seeds): difference of annualised Sharpe ratios
  house/one, house/two: not tested: house/one: no ledgers next to the card
  house/one, house/three: not tested: house/one: no ledgers next to the card
  house/two, house/three: not tested: house/one: no ledgers next to the card

Tied with the best by mean daily return (model confidence set, 95 %)
  not tested: house/one: no ledgers next to the card

Notes
  synthetic: every card
""")
    # Comparing only the first card with the others is a smaller family.
    assert len(terminal.report("compare", *paths, "--against-first")["tests"]) == 2


@pytest.mark.exhaustive
def test_a_pair_is_a_window_with_the_median_over_its_seeds(terminal: CardTerminal) -> None:
    one = {
        ("A1", 0): 0.01,
        ("A1", 1): 0.05,
        ("A1", 2): 0.02,
        ("A2", 0): 0.0,
        ("A2", 1): 0.0,
        ("A2", 2): 0.0,
    }
    other = {
        ("A1", 0): 0.0,
        ("A1", 1): 0.0,
        ("A1", 2): 0.0,
        ("A2", 0): 0.03,
        ("A2", 1): 0.01,
        ("A2", 2): 0.02,
    }
    paths = terminal.pair(one, other)
    by_window = terminal.report("compare", *paths)["tests"][0]

    assert [entry["value"] for entry in by_window["differences"]] == pytest.approx([0.02, -0.02])

    by_episode = terminal.report("compare", *paths, "--pairs", "episode")
    assert by_episode["tests"][0]["n"] == 6
    assert any("as in KTD-Fin" in note for note in by_episode["notes"])


@pytest.mark.exhaustive
def test_windows_that_share_days_weaken_the_p_value(terminal: CardTerminal) -> None:
    paths = terminal.pair(figures(8), raised(figures(8)), SHARED)
    report = terminal.report("compare", *paths)
    row = report["tests"][0]

    assert row["wilcoxon"]["p_if_windows_were_apart"] == pytest.approx(2 / 2**8)
    assert row["p"] > 2 * row["wilcoxon"]["p_if_windows_were_apart"]
    assert row["sign_flip"]["blocks"] == 1
    assert any("share days" in note for note in report["notes"])
    assert terminal.report("compare", *paths) == report  # the simulation is seeded


def test_cards_that_can_not_be_compared_are_refused(terminal: CardTerminal) -> None:
    later = {name: (f"2040{first[4:]}", f"2040{last[4:]}") for name, (first, last) in APART.items()}
    changes: list[dict[str, Any]] = [
        {"snapshot": {"id": "f" * 64}},
        {"mask": "bright"},
        {"mode": "memory_only"},
        {"config": {"version": "2"}},
        {"config": {"harness": {"max_tool_calls": 6}}},
        {"rules": "paper"},
        {"limit": 5},
        {"windows": later},
    ]
    others = [make_card(figures(6), "house/two", **change) for change in changes]
    one, *paths = terminal.cards(make_card(figures(6)), *others)

    assert terminal.refusals(*(("compare", one, path) for path in paths)) == snapshot("""\
ktdeval: error: FOLDER/1/cards/blinded_open_research.json and FOLDER/0/cards/blinded_open_research.json have different snapshots: HASH… and HASH…; they can't be compared
ktdeval: error: FOLDER/0/cards/blinded_open_research.json and FOLDER/2/cards/bright_open_research.json have different masks: blinded and bright; compare takes cards of one task; `ktdeval compare masks` compares masks and modes
ktdeval: error: FOLDER/0/cards/blinded_open_research.json and FOLDER/3/cards/blinded_memory_only.json have different modes: open_research and memory_only; compare takes cards of one task; `ktdeval compare masks` compares masks and modes
ktdeval: error: FOLDER/4/cards/blinded_open_research.json and FOLDER/0/cards/blinded_open_research.json have different task versions: 2 and 1; they can't be compared
ktdeval: error: FOLDER/5/cards/blinded_open_research.json and FOLDER/0/cards/blinded_open_research.json have different task configs (harness): {"max_tool_calls":6} and {"max_tool_calls":12}; they can't be compared
ktdeval: error: FOLDER/6/cards/blinded_open_research.json and FOLDER/0/cards/blinded_open_research.json have different metric rules: paper and strict; they can't be compared
ktdeval: error: FOLDER/7/cards/blinded_open_research.json and FOLDER/0/cards/blinded_open_research.json have different limits of steps: 5 and null; they can't be compared
ktdeval: error: FOLDER/8/cards/blinded_open_research.json and FOLDER/0/cards/blinded_open_research.json: window A1 is 2040-03-01 … 2040-03-05 on one and 2011-03-01 … 2011-03-05 on the other
""")


@pytest.mark.exhaustive
def test_cards_that_are_missing_twice_or_unpaired_are_refused(terminal: CardTerminal) -> None:
    paths = terminal.pair(figures(6), figures(6))
    (terminal.folder / "empty").mkdir()
    (terminal.folder / "loop").symlink_to("loop")

    unpaired = terminal.pair(figures(6, 2), figures(7, 1))
    nothing = terminal.pair({("A1", 0): 0.1}, {("A1", 1): 0.1})

    assert terminal.refusals(
        ("compare", paths[0], paths[0]),
        ("compare", paths[0]),
        ("compare", *paths, "--metric", "total_retur"),
        ("compare", terminal.folder / "empty", paths[0]),
        ("compare", terminal.folder / "loop", paths[0]),
        ("compare", *unpaired),
        ("compare", *nothing, "--common"),
    ) == snapshot("""\
ktdeval: error: FOLDER/0/cards/blinded_open_research.json: is given twice; a card can't be compared with itself
ktdeval: error: a comparison needs at least two cards; name the run folder or card of another agent, too
ktdeval: error: FOLDER/0/cards/blinded_open_research.json: no metric 'total_retur' on this card; did you mean 'total_return'?
ktdeval: error: FOLDER/empty: no cards found; give cards, or runs with finished episodes (`ktdeval score RUN` writes their cards)
ktdeval: error: FOLDER/loop: can't read the card: Too many levels of symbolic links; give a run folder, or a card in its folder cards
ktdeval: error: FOLDER/4/cards/blinded_open_research.json: unpaired: it has not finished window A7 seed 0, which another card has; run them, or compare on the 6 that all have with --common
ktdeval: error: FOLDER/7/cards/blinded_open_research.json and FOLDER/6/cards/blinded_open_research.json have no common window and seed, so nothing can be paired
""")

    common = terminal.report("compare", *unpaired, "--common")
    assert common["tests"][0]["n"] == 6
    assert (
        "figures are of the 6 (window, seed) that all have finished; 7 are left out"
        in common["notes"]
    )


@pytest.mark.exhaustive
def test_undefined_figures_are_excluded_and_equal_ones_are_tied(
    terminal: CardTerminal,
) -> None:
    def row(one: Figures, other: Figures) -> Any:
        return terminal.report("compare", *terminal.pair(one, other))["tests"][0]

    some = row({**figures(7), ("A1", 0): None}, figures(7, 1, 3))

    assert (some["n"], some["left_out"]) == (6, {"house/one: no steps": 1})

    seeds = terminal.pair({**figures(7, 2), ("A1", 0): None, ("A1", 1): None}, figures(7, 2, 3))
    assert (
        "total_return: 2 (window, seed) left out: house/one: no steps"
        in terminal.report("compare", *seeds)["notes"]
    )

    whole = terminal.cards(
        *(make_card(figures(7), name, mask="bright") for name in ("house/one", "house/two"))
    )
    note = "blinded_open_research: total_return: 2 (window, seed) left out: house/one: no steps"

    assert note in terminal.report("compare", *seeds, *whole)["notes"]

    nothing = row(dict.fromkeys(figures(7)), figures(7))
    assert (nothing["p"], nothing["verdict"], nothing["reason"]) == (None, None, "no pair")

    equal = row(figures(6), figures(6))
    assert (equal["verdict"], equal["p"], equal["rank_biserial"], equal["shift"]["value"]) == (
        "tied",
        1.0,
        None,
        0.0,
    )


def test_figure_one_card_never_reaches_is_not_compared(
    terminal: CardTerminal,
) -> None:
    """Without the window in which it never reaches the figure, the worst card would win."""
    one = make_card(figures(7), "house/one")
    other = make_card(figures(7, 1, 3), "house/two")
    episode, *_ = one["episodes"]
    episode["metrics"]["total_return"] = {
        "value": None,
        "n": 5,
        "reason": "never: it is not positive",
    }
    one |= derived_fields(one)
    code, out, err = terminal.call(
        "compare", *terminal.cards(one, other), "--metric", "total_return", "--json"
    )

    assert code == 0, err

    row = json.loads(out)["tests"][0]
    assert (row["n"], row["p"], row["reason"]) == (0, None, "no pair")
    assert row["left_out"] == {"total_return: never in 1 of 7 episodes, of one card or both": 7}


@pytest.mark.exhaustive
def test_cards_of_one_model_are_distinguished_by_agent_arguments_or_path(
    terminal: CardTerminal,
) -> None:
    by_args = terminal.cards(
        make_card(figures(6)), make_card(figures(6, 1, 1), args={"positions": 5})
    )

    assert terminal.report("compare", *by_args)["tests"][0]["second"] == "house/one(positions=5)"

    same = terminal.cards(make_card(figures(6)), make_card(figures(6, 1, 1)))
    assert str(same[1]) in terminal.report("compare", *same)["tests"][0]["second"]


@pytest.mark.exhaustive
def test_daily_tests_read_ledgers_beside_the_card_or_report_them_missing(
    terminal: CardTerminal,
) -> None:
    without = terminal.report("compare", *terminal.pair(figures(6), figures(6, 1, 1)))
    assert without["daily"][0]["reason"] == "house/one: no ledgers next to the card"
    assert without["best"][0]["tied_with_best"] is None

    chance = np.random.default_rng(1)
    runs = [terminal.folder / "one", terminal.folder / "two"]
    cells = {(f"A{k}", seed): 0.01 for k in range(1, 13) for seed in (0, 1)}

    for run, model, drift in zip(runs, ("house/one", "house/two"), (0.0, 0.02), strict=True):
        save_run(
            run, make_card(cells, model), {cell: chance.normal(drift, 0.01, 5) for cell in cells}
        )

    report = terminal.report("compare", *runs)

    assert (report["daily"][0]["n"], report["daily"][0]["verdict"]) == (60, "house/two better")
    assert report["best"][0]["tied_with_best"] == ["house/two"]

    ledger = next((runs[0] / "episodes").rglob("ledger.parquet"))
    ledger.write_bytes(ledger.read_bytes() + b" ")

    assert (
        "is not the ledger that the card was made from"
        in terminal.report("compare", *runs)["daily"][0]["reason"]
    )


@pytest.mark.exhaustive
def test_sharpe_ratios_are_annualised_by_the_windows_compared(terminal: CardTerminal) -> None:
    """A mixed market in which coins trade only in later windows: its cards give the larger
    number.
    """
    chance = np.random.default_rng(1)
    runs = [terminal.folder / "one", terminal.folder / "two"]
    daily = {(f"A{k}", 0): chance.normal(0, 0.01, (2, 5)) for k in range(1, 13)}
    block = {"date": "2016-12-31", "confidence": "given", "source": "x"}
    early = {f"A{k}" for k in range(1, 7)}  # up to 2016
    sides = {
        name: {"before": 5 * (name in early), "across": 0, "after": 5 * (name not in early)}
        for name, _ in daily
    }

    for index, (run, model) in enumerate(zip(runs, ("house/one", "house/two"), strict=True)):
        card = make_card(
            dict.fromkeys(daily, 0.01), model, knowledge_cutoff={**block, "windows": sides}
        )
        card["snapshot"]["days_a_year"] = 365
        save_run(
            run,
            card,
            {cell: values[index] for cell, values in daily.items()},
            dict.fromkeys({*sides} - early, 365),
        )

    for words, year in (((), 365), (("--side", "before"), 252), (("--side", "after"), 365)):
        row = terminal.report("compare", *runs, *words)["daily"][0]
        chosen = [
            values for (name, _), values in daily.items() if not words or sides[name][words[1]]
        ]
        one, two = np.concatenate(chosen, axis=1)
        difference = one.mean() / one.std(ddof=1) - two.mean() / two.std(ddof=1)
        assert row["value"] == pytest.approx(np.sqrt(year) * difference, rel=1e-4), words

    # Twelve windows of five days: six with 252 days per year, six with 365.
    row = terminal.report("compare", "power", *runs)[0]["by_seeds"][0]

    assert row["effect_per_year"] == pytest.approx(row["effect"] * 12 / (6 * 5 / 252 + 6 * 5 / 365))


@pytest.mark.exhaustive
def test_run_folders_of_many_tasks_are_compared_task_by_task(terminal: CardTerminal) -> None:
    runs = [terminal.folder / "one", terminal.folder / "two"]
    for number, run in enumerate(runs):
        for mask in ("bright", "blinded"):
            save_card(run, make_card(figures(6, 1, number), f"house/{number}", mask=mask))

    report = terminal.report("compare", *runs)

    assert [row["task"] for row in report["tests"]] == [
        "blinded_open_research",
        "bright_open_research",
    ]
    assert "ktdeval compare masks" in terminal.refusal("compare", runs[0])


@pytest.mark.exhaustive
def test_runs_of_different_tasks_are_compared_on_the_named_ones(terminal: CardTerminal) -> None:
    both = terminal.folder / "both"
    bright = terminal.folder / "bright"
    for mask in ("bright", "blinded"):
        save_card(both, make_card(figures(6, 1, 1), "house/one", mask=mask))

    save_card(bright, make_card(figures(6, 1, 2), "house/two", mask="bright"))

    for pattern in ("bright_open_research", "bright_*"):
        report = terminal.report("compare", both, bright, "--tasks", pattern)
        assert [row["task"] for row in report["tests"]] == ["bright_open_research"]

    whole = terminal.report("compare", "masks", both)
    assert terminal.report("compare", "masks", both, "--tasks", "b*_open_research") == whole
    assert terminal.refusals(
        ("compare", both, bright),
        ("compare", both, bright, "--tasks", "blinded_open_research"),
        ("compare", both, bright, "--tasks", "bright_open_reserch"),
        ("compare", "masks", both, "--tasks", "bright_*"),
    ) == snapshot("""\
ktdeval: error: FOLDER/both/cards/blinded_open_research.json and FOLDER/both/cards/bright_open_research.json have different masks: blinded and bright; compare takes cards of one task; --tasks bright_open_research leaves the others out; `ktdeval compare masks` compares masks and modes
ktdeval: error: --tasks: FOLDER/bright has no card of blinded_open_research; common tasks: bright_open_research
ktdeval: error: --tasks: no card is of a task 'bright_open_reserch'; did you mean 'bright_open_research' or 'blinded_open_research'?; common tasks: bright_open_research
ktdeval: error: nothing to compare: give cards of one mode with at least two masks (bright and blinded), or of two modes
""")


def test_a_fraction_of_something_is_shown_in_per_cent_as_on_its_card() -> None:
    of_answers = "fraction of answers"
    assert (table_columns.figure(-1e-9, of_answers), table_columns.figure(0.0, "points")) == (
        "0.000",
        "0.000",
    )
    assert (table_columns.figure(0.0526, of_answers), table_columns.unit_name(of_answers)) == (
        table_columns.figure(0.0526, "fraction"),
        "%",
    )
    assert (
        table_columns.figure(0.0526, "points"),
        table_columns.unit_name("points"),
        table_columns.unit_name("ratio"),
    ) == ("+0.053", "points", "")


@pytest.mark.exhaustive
def test_notes_of_one_task_or_agent_among_several_name_it(terminal: CardTerminal) -> None:
    def cards(task_of: Any, agent_of: Any) -> list[Path]:
        """Four cards, two models under two masks; the cards of one mask or one model have a real
        market.
        """
        made = []

        for model, mask in (
            (model, mask) for model in ("house/a", "house/b") for mask in ("bright", "blinded")
        ):
            market = {"synthetic": task_of == mask or agent_of == model}
            made.append(make_card(figures(6, 1, len(made)), model, mask=mask, snapshot=market))

        return terminal.cards(*made)

    assert (
        "blinded_open_research: synthetic: every card"
        in terminal.report("compare", *cards("blinded", None))["notes"]
    )
    assert (
        "house/b: synthetic: every card"
        in terminal.report("compare", "masks", *cards(None, "house/b"))["notes"]
    )

    shares = terminal.report("compare", *cards("bright", None), "--factor", "model,window")["notes"]
    assert "bright_open_research: synthetic: every card" in shares

    both = terminal.report("compare", *terminal.pair(figures(6), figures(6, 1, 1)))["notes"]
    assert "synthetic: every card" in both


@pytest.mark.exhaustive
def test_tables_fold_to_a_narrow_terminal_with_every_figure_whole(
    terminal: CardTerminal, monkeypatch: pytest.MonkeyPatch
) -> None:
    base = figures(10, 2)

    def check_fits(*words: object) -> None:
        whole = terminal.call(*words)[1]
        for width in (80, 60):
            with monkeypatch.context() as narrow:
                narrow.setenv("COLUMNS", str(width))
                narrow.setattr(sys.stdout, "isatty", lambda: True, raising=False)
                shown = terminal.call(*words)[1]

            assert max(map(len, shown.splitlines())) <= width < max(map(len, whole.splitlines()))
            assert set(whole.split()) <= set(shown.split())

    paths = terminal.cards(make_card(base), make_card(raised(base), "house/two"))
    check_fits("compare", *paths)
    check_fits("compare", "masks", *design(terminal, ("bright", "blinded"), ("open_research",)))


# ---- effects


def design(
    terminal: CardTerminal,
    masks: tuple[str, ...] = MASKS,
    modes: tuple[str, ...] = MODES,
    **changes: Any,
) -> list[Path]:
    """Cards with planted effects: stock 4 %, date 1 %, stock and date jointly 2 % more; data 3 %,
    tools 6 %.
    """
    made = []

    for mask, mode in ((mask, mode) for mask in masks for mode in modes):
        stock = mask in ("bright", "date_blind")
        date = mask in ("bright", "stock_blind")
        worth = (
            0.04 * stock
            + 0.01 * date
            + 0.02 * (stock and date)
            + 0.03 * (mode != "memory_only")
            + 0.06 * (mode == MODES[2])
        )
        extra = changes if (mask, mode) == (masks[-1], modes[-1]) else {}
        made.append(
            make_card(
                {cell: value + worth for cell, value in figures(8, 2).items()},
                mask=mask,
                mode=mode,
                **extra,
            )
        )

    return terminal.cards(*made)


def pieces(report: Any, over: str) -> dict[str, float]:
    return {row["piece"]: row["value"] for row in report["ladder"] if row["over"] == over}


@pytest.mark.exhaustive
def test_planted_effects_come_back(terminal: CardTerminal) -> None:
    report = terminal.report("compare", "masks", *design(terminal))
    planted = {
        "memory_premium": 0.07,
        "stock_effect": 0.05,
        "date_effect": 0.02,
        "interaction": 0.02,
    }
    values = {(row["mode"], row["effect"]): row["value"] for row in report["effects"]}

    assert values == pytest.approx(
        {(mode, name): value for mode in MODES for name, value in planted.items()}
    )
    assert pieces(report, "4 masks") == pytest.approx(
        {"data": 0.03, "date": 0.02, "stock": 0.05, "tools": 0.06, "total": 0.16}
    )
    assert pieces(report, "blinded") == pytest.approx({"data": 0.03, "tools": 0.06, "total": 0.09})


@pytest.mark.exhaustive
def test_bright_and_blinded_alone_give_the_headline(terminal: CardTerminal) -> None:
    report = terminal.report(
        "compare",
        "masks",
        *design(terminal, ("bright", "blinded"), ("memory_only", "open_research")),
    )

    assert {row["effect"] for row in report["effects"]} == {"memory_premium"}
    assert pieces(report, "2 masks") == pytest.approx(
        {"date and stock": 0.07, "data and tools": 0.09, "total": 0.16}
    )

    cards = design(terminal, ("bright", "blinded"), ("open_research",))
    assert terminal.text("compare", "masks", *cards) == snapshot("""\
Effects of the mask: mean over windows, paired within window and seed
  metric        mode           effect                             n    mean       95 % interval       p  Holm p  verdict
  total_return  open_research  memory premium (bright - blinded)  8  +7.000  %  +7.000 … +7.000  0.0078  0.0078  above zero

Notes
  interaction: how much more the stock is worth if the date is visible too; stock + date = memory premium
  data: the table of prices and factors of fixed_candidate; tools: the research tools of open_research
  synthetic: every card
""")


@pytest.mark.exhaustive
def test_effects_refuse_changes_confounded_with_the_mask(terminal: CardTerminal) -> None:
    (bright,) = design(terminal, ("bright",), ("open_research",))
    changes: list[dict[str, Any]] = [
        {"snapshot": {"id": "f" * 64}},
        {"rules": "paper"},
        {"call": {"temperature": 0.0}},
        {"config": {"harness": {"max_tool_calls": 6}}},
        {"config": {"prompts": {"user.md": "0"}}},
        {"config": REBASED},
        {"config": {"round_digits": 3}},
    ]
    paths = [
        path
        for change in changes
        for path in design(terminal, ("blinded",), ("open_research",), **change)
    ]

    assert terminal.refusals(*(("compare", "masks", bright, path) for path in paths)) == snapshot("""\
ktdeval: error: FOLDER/1/cards/blinded_open_research.json and FOLDER/0/cards/bright_open_research.json have different snapshots: HASH… and HASH…; an effect would mix that with mask and mode
ktdeval: error: FOLDER/2/cards/blinded_open_research.json and FOLDER/0/cards/bright_open_research.json have different metric rules: paper and strict; an effect would mix that with mask and mode
ktdeval: error: FOLDER/3/cards/blinded_open_research.json and FOLDER/0/cards/bright_open_research.json have different call parameters: {"temperature":0.0} and {"temperature":0.7}; an effect would mix that with mask and mode
ktdeval: error: FOLDER/4/cards/blinded_open_research.json and FOLDER/0/cards/bright_open_research.json have different task configs (harness): {"max_tool_calls":6} and {"max_tool_calls":12}; an effect would mix that with mask and mode
ktdeval: error: FOLDER/5/cards/blinded_open_research.json and FOLDER/0/cards/bright_open_research.json have different task configs (prompts): {"user.md":"0"} and null; an effect would mix that with mask and mode
ktdeval: error: FOLDER/6/cards/blinded_open_research.json and FOLDER/0/cards/bright_open_research.json have different task configs (family): ktdfin_rebased and null; an effect would mix that with mask and mode
ktdeval: error: FOLDER/7/cards/blinded_open_research.json and FOLDER/0/cards/bright_open_research.json have different task configs (round_digits): 3 and null; an effect would mix that with mask and mode
""")


@pytest.mark.exhaustive
@pytest.mark.parametrize(("name", "rows"), [("ktdfin-3", "modes"), ("ktdfin-11", "masks")])
def test_mask_and_mode_tables_refuse_rebased_prices_as_the_plain_mask(
    terminal: CardTerminal, name: str, rows: str
) -> None:
    cards = design(terminal, ("bright", "blinded"), ("open_research",), config=REBASED)
    assert f"a table of {rows} is of one task family" in terminal.refusal(
        "paper", "table", *cards, "--like", name
    )
    assert terminal.call("paper", "table", cards[1], "--like", name)[0] == 0


def test_tables_of_a_market_without_index_or_factors_have_no_empty_row(
    terminal: CardTerminal, tmp_path: Path
) -> None:
    card = make_card({("A1", 0): 0.01})
    with_index = terminal.text(
        "paper", "table", save_card(tmp_path / "with", card), "--like", "ktdfin-9"
    )

    assert "buy-and-hold" in with_index

    for held in card["reference"]["benchmark_buy_and_hold"].values():
        held["metrics"] = {
            key: {"value": None, "n": 5, "reason": "the market has no index"}
            for key in held["metrics"]
        }

    path = save_card(tmp_path / "without", card)

    assert "buy-and-hold" not in terminal.text("paper", "table", path, "--like", "ktdfin-9")
    assert "have no exposures to the same style factors" in terminal.refusal(
        "paper", "table", path, "--like", "ktdfin-8"
    )


@pytest.mark.exhaustive
def test_effects_need_comparable_cards_and_intervals_several_windows(
    terminal: CardTerminal,
) -> None:
    lone = design(terminal, ("blinded",), ("open_research",))
    apart = terminal.cards(
        make_card(figures(6), mask="bright"), make_card(figures(6), args={"positions": 3})
    )
    twice = terminal.cards(make_card(figures(6)), make_card(figures(6)))

    assert terminal.refusals(
        ("compare", "masks", *lone), ("compare", "masks", *apart), ("compare", "masks", *twice)
    ) == snapshot("""\
ktdeval: error: nothing to compare: give cards of one mode with at least two masks (bright and blinded), or of two modes
ktdeval: error: nothing to compare: give cards of one mode with at least two masks (bright and blinded), or of two modes, of one system; these are of house/one, house/one(positions=3)
ktdeval: error: FOLDER/4/cards/blinded_open_research.json and FOLDER/3/cards/blinded_open_research.json are both blinded open_research of house/one; give one of them
""")

    single = terminal.cards(
        make_card({("A1", 0): 0.1}, mask="bright"), make_card({("A1", 0): 0.04})
    )
    row = terminal.report("compare", "masks", *single)["effects"][0]

    assert row["value"] == pytest.approx(0.06)
    assert (row["low"], row["reason"]) == (None, "a single window does not show how windows vary")
    assert terminal.call("compare", "masks", *single)[0] == 0


def test_effects_allow_for_shared_days_and_leave_undefined_figures_out(
    terminal: CardTerminal,
) -> None:
    undefined = make_card({**figures(8), ("A1", 0): None}, windows=SHARED)
    report = terminal.report(
        "compare",
        "masks",
        *terminal.cards(make_card(figures(8), mask="bright", windows=SHARED), undefined),
    )

    assert report["effects"][0]["n"] == 7
    assert any(
        "1 (window, seed) left out: blinded open_research: no steps" in note
        for note in report["notes"]
    )
    assert any("windows share days: 7 overlapping windows = " in note for note in report["notes"])


@pytest.mark.exhaustive
def test_a_long_window_is_never_pooled_with_short_ones(
    terminal: CardTerminal,
) -> None:
    """A median of eight short windows and one that covers them all would describe neither."""
    spans = {
        **{f"A{k}": (f"20{10 + k}-03-01", f"20{10 + k}-03-05") for k in range(1, 8)},
        "long": ("2011-01-03", "2018-12-28"),
    }
    short = {(f"A{k}", 0): 0.01 * k for k in range(1, 8)}
    cards = [
        make_card({**short, ("long", 0): 9.0}, windows=spans, mask=mask, model=model)
        for mask, model in (
            ("blinded", "house/one"),
            ("blinded", "house/two"),
            ("bright", "house/one"),
        )
    ]

    assert cards[0]["metrics"]["total_return"]["value"] == pytest.approx(0.04)
    assert list(cards[0]["left_out"]) == ["long"]

    files = terminal.cards(*cards)
    assert (
        "Metrics of A1, A2, A3, A4, A5, A6, A7; left out: long"
        in terminal.call("card", "show", files[0])[1]
    )
    assert terminal.report("compare", *files[:2])["tests"][0]["n"] == 7
    assert terminal.report("compare", "masks", files[0], files[2])["effects"][0]["n"] == 7

    for command in (
        ("compare", *files[:2]),
        ("compare", *files[:2], "--pairs", "episode"),
        ("compare", "masks", files[0], files[2]),
    ):
        notes = terminal.report(*command)["notes"]
        assert any(
            "long is left out: has 2085 weekdays, the others 3 to 4: the lengths" in note
            for note in notes
        ), notes

    assert (
        "window long is left out: has 2085 weekdays"
        in terminal.call("compare", "power", *files[:2])[2]
    )
    assert (
        "house/one: window long is left out: has 2085 weekdays"
        in terminal.call("paper", "table", *files[:2], "--like", "ktdfin-9")[2]
    )


@pytest.mark.exhaustive
def test_scoring_cards_among_trading_ones_are_omitted_by_name(terminal: CardTerminal) -> None:
    scored = scoring_card()
    one, other, third = (
        save_card(terminal.folder / name, scored).parents[1] for name in ("one", "other", "third")
    )

    for run, mask, model in (
        (one, "blinded", "house/one"),
        (other, "blinded", "house/two"),
        (third, "bright", "house/one"),
    ):
        save_card(run, make_card(figures(6), model, mask=mask))

    note = "is a scoring card and is left out of a comparison of trading cards; compare scoring cards separately"
    inside = f"cards/{scored['task']['name']}.json"
    report = terminal.report("compare", one, other)

    assert [card["label"] for card in report["cards"]] == ["house/one", "house/two"]
    assert report["notes"][-2:] == [f"{run / inside}: {note}" for run in (one, other)]
    assert f"{one / inside}: {note}" in terminal.text("compare", one, other)
    # If named explicitly, they are no reason to refuse the others, and if a kind has too few they
    # are listed.
    assert (
        terminal.report("compare", one, other)["tests"]
        == terminal.report("compare", one, *(other / "cards").iterdir())["tests"]
    )

    trading = next(path for path in (one / "cards").iterdir() if path != one / inside)
    needs = "a comparison needs at least two cards of the same kind; given:"

    assert f"{needs} {trading} (trading), {one / inside} (scoring)" in terminal.refusal(
        "compare", trading, one / inside
    )
    # Commands on trading cards only report it on stderr.
    assert (
        f"ktdeval: warning: {one / inside}: {note}"
        in terminal.call("compare", "masks", one, third)[2]
    )


# ---- power


@pytest.mark.exhaustive
def test_power_reports_the_effect_of_windows_and_seeds(terminal: CardTerminal) -> None:
    assert terminal.text("compare", "power", "--windows", "5") == snapshot("""\
What a two-sided signed-rank test over windows can show at 0.05
  windows  smallest p  tests it can carry  found in SD
        5      0.0625                   0      nothing
        6      0.0312                   1        1.801
        8      0.0078                   6        1.252
       10      0.0020                  25        1.023
       11      0.0010                  51        0.998
       15       6e-05                 819        0.802
       20       2e-06           over 1000        0.679
       40       2e-12           over 1000        0.463
       60       2e-18           over 1000        0.375
  found: effect in standard deviations of a window's difference, with probability 0.8

The plan: 5 windows, 1 seed, level 0.05
  5 windows can't reach it, whatever the results: the smallest p of the test is 0.0625; at least 6 windows are needed
""")
    assert (
        terminal.report("compare", "power", "--windows", "10", "--comparisons", "45")[
            "windows_for_any_result"
        ]
        == 11
    )

    plan = ("--window-sd", "0.02", "--seed-sd", "0.03", "--windows", "20", "--seeds", "3")
    rows = terminal.report("compare", "power", "--effect", "0.02", *plan)["by_seeds"]
    needed = [row["windows_needed"] for row in rows]

    assert [row["seeds"] for row in rows] == [1, 2, 3, 5, 10, None]
    assert needed == sorted(needed, reverse=True)
    assert needed[0] > needed[-1] >= 6

    silent = terminal.report(
        "compare", "power", "--effect", "0.02", "--window-sd", "0", "--windows", "5"
    )["by_seeds"][0]

    assert (silent["windows_needed"], silent["power"]) == (6, 0.0)


def test_a_negative_variance_over_windows_is_reported(terminal: CardTerminal) -> None:
    """By hand: differences of 0 and 2 %, and of 2 and 0 %, have equal means; seeds alone would give
    a variance of 0.0002 / 2.
    """
    paths = terminal.pair(
        {("A1", 0): 0.0, ("A1", 1): 0.02, ("A2", 0): 0.02, ("A2", 1): 0.0},
        {(w, s): 0.0 for w in ("A1", "A2") for s in (0, 1)},
    )

    assert terminal.text("compare", "power", *paths) == snapshot("""\
What a two-sided signed-rank test over windows can show at 0.05
  windows  smallest p  tests it can carry  found in SD
        2      0.5000                   0      nothing
        5      0.0625                   0      nothing
        6      0.0312                   1        1.801
        8      0.0078                   6        1.252
       10      0.0020                  25        1.023
       11      0.0010                  51        0.998
       15       6e-05                 819        0.802
       20       2e-06           over 1000        0.679
       40       2e-12           over 1000        0.463
       60       2e-18           over 1000        0.375
  found: effect in standard deviations of a window's difference, with probability 0.8

house/one, house/two: The plan: 2 windows, 2 seeds, level 0.05
  2 windows can't reach it, whatever the results: the smallest p of the test is 0.5; at least 6 windows are needed
  the variance over windows is estimated at -0.0001 (squared unit of the metric), less than seeds alone explain; it is set to 0
  noise: SD 0 % over windows, 1 % over seeds; more seeds reduce only the second
      seeds  SD of a window's difference  2 windows find     z test a year
          1                        1.414         nothing  %         141.20
          2                        1.000         nothing  %          99.84
          3                        0.947         nothing  %          94.58
          5                        0.757         nothing  %          75.62
         10                        0.526         nothing  %          52.52
  unlimited                        0.002         nothing  %          0.177
  z test: the same by the normal approximation, which few windows do not justify
""")


@pytest.mark.parametrize(("windows", "percent"), [(6, 38.8), (20, 21.3), (60, 12.3)])
def test_power_of_ten_per_cent_tracking_error_in_windows_of_21_days(
    terminal: CardTerminal, windows: int, percent: float
) -> None:
    """Normal approximation, 5 % two-sided, power 80 %, 242 days per year."""
    options = ("--tracking-error", "0.1", "--window-days", "21", "--days-per-year", "242")
    row = terminal.report("compare", "power", "--windows", str(windows), *options)["by_seeds"][0]

    assert 100 * row["effect_normal_per_year"] == pytest.approx(percent, abs=0.05)
    assert row["effect"] > row["effect_normal"]


@pytest.mark.exhaustive
def test_power_estimates_the_noise_from_cards(terminal: CardTerminal) -> None:
    paths = terminal.pair(figures(12, 5), figures(12, 5, 1))
    plan = terminal.report("compare", "power", *paths, "--effect", "0.02")[0]

    assert (plan["windows"], plan["seeds"]) == (12, 5)
    assert plan["seed_sd"] == pytest.approx(0.03, rel=0.2)  # all of it is seed noise
    assert plan["window_sd"] < 0.02

    lone = terminal.report("compare", "power", *terminal.pair(figures(12), figures(12, 1, 1)))[0]
    # includes the noise of seeds
    assert (lone["seed_sd"], lone["window_sd"]) == (
        None,
        pytest.approx(0.03 * math.sqrt(2), rel=0.4),
    )
    assert terminal.call("compare", "power", *paths)[0] == 0

    single = terminal.report(
        "compare", "power", *terminal.pair({("A1", 0): 0.1}, {("A1", 0): 0.04})
    )[0]

    assert single["reason"] == "one window does not show how windows differ"

    uneven = terminal.report(
        "compare", "power", *terminal.pair(*[{("A1", 0): 0.1, ("A1", 1): 0.2, ("A2", 0): 0.3}] * 2)
    )[0]

    assert uneven["reason"].startswith("windows have different numbers of seeds")

    undefined = terminal.report(
        "compare",
        "power",
        *terminal.pair({("A1", 0): None, ("A2", 0): 0.1}, {("A1", 0): 0.1, ("A2", 0): 0.1}),
    )[0]

    assert undefined["reason"] == "total_return is not defined on both cards in some window"

    shared = terminal.report(
        "compare", "power", *terminal.pair(figures(8), figures(8, 1, 1), SHARED)
    )[0]

    assert any("windows share days as the cards' do: 8 " in line for line in shared["sentences"])
    assert shared["smallest_p"] > 2 / 2**8, "the test is that of `compare` on these cards"


@pytest.mark.exhaustive
def test_power_takes_days_unit_and_overlap_from_cards_by_default(
    terminal: CardTerminal,
) -> None:
    """The cards' windows have five days and share none; a market that never closes has 365 days per
    year.
    """
    paths = terminal.pair(figures(8), figures(8, 1, 1))
    (plan,) = terminal.report("compare", "power", *paths, "--effect", "0.02")
    row = plan["by_seeds"][0]

    assert row["effect_per_year"] == pytest.approx(row["effect"] * 252 / 5)

    (named,) = terminal.report(
        "compare", "power", *paths, "--window-days", "63", "--days-per-year", "126"
    )

    assert named["by_seeds"][0]["effect_per_year"] == pytest.approx(row["effect"] * 2)

    (more,) = terminal.report("compare", "power", *paths, "--windows", "20")
    assert not any("share days" in line for line in more["sentences"])

    whole_year = {"snapshot": {"days_a_year": 365}}
    cards = [
        make_card(figures(8, 1, seed), model, **whole_year)
        for seed, model in enumerate(("house/one", "house/two"))
    ]
    (coins,) = terminal.report("compare", "power", *terminal.cards(*cards))

    assert coins["by_seeds"][0]["effect_per_year"] == pytest.approx(row["effect"] * 365 / 5)

    (ratio,) = terminal.report("compare", "power", *paths, "--metric", "sharpe", "--effect", "2")
    assert ratio["by_seeds"][0]["effect_per_year"] is None
    assert [line for line in ratio["sentences"] if "noise" in line or "it finds" in line] == [
        (
            "noise: SD 0 over windows; variation over seeds is unknown, and is included in that"
            " over windows"
        ),
        "it finds a difference of 2 with probability 1.00",
    ]


@pytest.mark.exhaustive
def test_power_refuses_contradicting_options(terminal: CardTerminal) -> None:
    power = ("compare", "power")
    assert terminal.refusals(
        (*power, "--window-sd", "0.1", "--tracking-error", "0.1"),
        (*power, "--seed-sd", "0.1"),
        (*power, *terminal.cards(make_card(figures(6)))),
    ) == snapshot("""\
ktdeval: error: give the spread once: --window-sd, --tracking-error, or cards
ktdeval: error: --seed-sd needs --window-sd or --tracking-error too
ktdeval: error: the spread of a difference needs two cards; with one card, give --window-sd instead
""")

    for option in (
        "--window-sd",
        "--seed-sd",
        "--tracking-error",
        "--effect",
        "--days-per-year",
        "--alpha",
        "--power",
    ):
        for value in ("nan", "inf", "1e308"):
            assert f"Invalid value for '{option}': " in terminal.refusal(
                "compare", "power", option, value
            )

    assert terminal.call("compare", "power", "--windows", "0")[0] == 2


# -- the facts of a plan


def test_smallest_p_and_required_window_count_match_the_exact_test() -> None:
    least = {windows: RankTest().smallest_p(windows) for windows in (1, 5, 6, 10, 11)}
    assert (least[1], least[5], least[6]) == (1.0, 0.0625, 0.03125)

    for windows, p in least.items():
        assert signed_rank(np.arange(1.0, windows + 1)).p == pytest.approx(p)

    assert (RankTest(0.05).fewest, RankTest(0.05 / 45).fewest) == (6, 11)
    assert least[11] == pytest.approx(0.00098, abs=5e-6)
    assert least[11] <= 0.05 / 45 < least[10]


def test_the_variance_of_a_median_of_normals_and_what_seeds_cut() -> None:
    # n = 3: 1 - sqrt(3)/pi (David and Nagaraja 2003); 2: the mean; large n: pi / 2n.
    assert median_variance(1) == 1.0
    assert median_variance(2) == pytest.approx(0.5, abs=1e-6)
    assert median_variance(3) == pytest.approx(1 - math.sqrt(3) / math.pi, abs=1e-6)
    assert median_variance(60) == pytest.approx(math.pi / 120, rel=0.03)

    for seeds in (4, 5, 8):
        drawn = np.median(np.random.default_rng(seeds).normal(size=(200_000, seeds)), axis=1).var()
        assert median_variance(seeds) == pytest.approx(drawn, rel=0.02)

    sds = [
        DifferenceSpread(window_sd=0.03, seed_sd=0.02).of_pairs(seeds)
        for seeds in (1, 2, 3, 5, 10, 1000)
    ]

    assert sds == sorted(sds, reverse=True)
    assert sds[0] == pytest.approx(math.sqrt(0.03**2 + 2 * 0.02**2))
    assert sds[-1] > 0.03  # decoding noise, and never market noise


@pytest.mark.exhaustive
def test_power_matches_a_simulation_and_equals_the_level_without_effect() -> None:
    assert RankTest().power(0.0, 10) == pytest.approx(0.0488, abs=0.004)

    chance = np.random.default_rng(1)
    simulated = np.mean(
        [
            stats.wilcoxon(chance.normal(0.9, 1.0, 10), method="exact").pvalue <= 0.05
            for _ in range(800)
        ]
    )

    assert RankTest().power(0.9, 10) == pytest.approx(simulated, abs=0.04)

    by_effect = [RankTest(draws=4000).power(effect, 12) for effect in (0.0, 0.3, 0.6, 1.0, 2.0)]
    by_windows = [RankTest(draws=4000).power(0.6, windows) for windows in (6, 10, 20, 40)]

    assert (by_effect, by_windows) == (sorted(by_effect), sorted(by_windows))


@pytest.mark.exhaustive
def test_the_detectable_effect_has_the_power_asked_for() -> None:
    assert RankTest().effect(5) is None  # with five windows no effect can be detected
    assert RankTest().power(50.0, 5) == 0.0

    effect = RankTest().effect(10)

    assert RankTest().power(effect, 10) == pytest.approx(0.8, abs=1e-3)
    assert RankTest().effect(10, power=0.01) == 0.0


def test_the_windows_needed_are_the_fewest_with_the_power() -> None:
    test = RankTest()
    needed = test.windows_needed(0.9)
    assert test.power(0.9, needed) >= 0.8 > test.power(0.9, needed - 1)
    assert (test.windows_needed(5.0), test.windows_needed(-0.9)) == (6, needed)
    assert RankTest(alpha=0.05 / 45).windows_needed(50.0) == 11
    assert RankTest(draws=2000).windows_needed(0.01) is None


def test_variances_are_recovered_from_paired_differences() -> None:
    def variances(table: object) -> tuple[float, float]:
        spread, problem = estimate_spread(np.array(table))
        assert spread is not None, problem
        return spread.window_sd**2, spread.seed_sd**2

    # Windows (1, 3) and (5, 7): within variances 2 and 2; means 2 and 6, variance 8; 8 - 2/2 = 7
    # between.
    assert variances([[1.0, 3.0], [5.0, 7.0]]) == pytest.approx((7.0, 1.0))
    assert variances([[1.0], [3.0]]) == pytest.approx((2.0, 0.0))
    assert variances([[0.0, 9.0], [1.0, 8.5]])[0] == 0.0  # seeds explain all of it

    chance = np.random.default_rng(2)
    planted = 0.03 * chance.normal(size=(4000, 1)) + math.sqrt(2) * 0.02 * chance.normal(
        size=(4000, 5)
    )

    assert np.sqrt(variances(planted)) == pytest.approx((0.03, 0.02), rel=0.05)
    assert estimate_spread(np.array([[1.0, 2.0]])) == (
        None,
        "one window does not show how windows differ",
    )
