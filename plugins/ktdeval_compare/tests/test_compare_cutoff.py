"""`ktdeval compare cutoff`: days before, across and after a model's cutoff, the decay and its
interval, unknown cutoffs and refusals.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from statsmodels.regression.linear_model import OLS
from statsmodels.tools import add_constant

from ktdeval.attribution import attribute, fit_factors
from ktdeval.cards import CutoffEntry, listed_cutoff, parse_cutoff, sides
from ktdeval.cards.fields.knowledge import listed_cutoffs as module
from ktdeval.cli.main import main
from ktdeval.errors import UsageError
from ktdeval.registry import load_plugins
from ktdeval.runner import RunFolder, load_ledger, recorded_market
from ktdeval.stats import benchmark_levels
from ktdeval.testing import not_empty, on_each_row
from ktdeval.values import csv_rows, facts_file
from ktdeval_compare.cutoffs.compute import decay
from support.figures.compare_cards import CardTerminal, make_card, save_card, save_run
from support.paths import REPOSITORY
from support.tables import beside

WINDOW = {"A1": ("2024-06-01", "2024-09-28")}


@on_each_row(
    "when, expected",
    ("2024-05-31", ["before", "before", "after", "after"]),
    # between two closes: the return of Monday holds it
    ("2024-06-01", ["before", "before", "across", "after"]),
    ("2024-06-03", ["before", "before", "before", "after"]),
    # some day of May: what ends in May may hold it
    ("2024-05", ["across", "across", "after", "after"]),
    ("2024-06", ["before", "before", "across", "across"]),
    ("2024-05-29", ["after", "after", "after", "after"]),
    ("2024-07", ["before", "before", "before", "before"]),
)
def test_days_are_split_by_hand(when: str, expected: list[str]) -> None:
    days = np.array(["2024-05-30", "2024-05-31", "2024-06-03", "2024-06-04"], dtype="datetime64[D]")
    assert sides(days, np.datetime64("2024-05-29"), parse_cutoff(when)) == expected


@pytest.mark.parametrize(
    "wrong", ["", "2024", "2024-13", "2024-02-30", "June 2024", "20240601x", "20240601", "2024-W23"]
)
def test_an_invalid_date_is_refused(wrong: str) -> None:
    with pytest.raises(UsageError, match="is neither a day"):
        parse_cutoff(wrong)


ROWS = csv_rows(facts_file("cutoffs.csv"))
LISTED = beside(__file__)
BOARD_MODELS = [
    line
    for line in (REPOSITORY / "benchmarks/board_models.txt").read_text("utf-8").splitlines()
    if line and not line.startswith("#")
]


REPORTED = csv_rows(facts_file("reported_cutoffs.csv"))


def test_rules_of_the_suite_are_trained_on_nothing_or_on_what_nobody_knows() -> None:
    own = {row["pattern"]: row["cutoff"] for row in ROWS if "/" in row["pattern"]}
    assert own == {
        "builtin/memory": "unknown",
        "builtin/linear_factor": "unknown",
        "human/*": "unknown",
        "builtin/*": "none",
    }


def test_each_model_of_a_sourced_table_of_others_has_its_month() -> None:
    found = {name: listed_cutoff(f"anybody/{name}", {}) for name in LISTED["guarded"]}
    months = {name: getattr(known, "date", "unknown")[:7] for name, known in found.items()}
    assert months == LISTED["guarded"]


@pytest.mark.parametrize(
    "name",
    [
        "stepfun/step-3.5-flash",
        "dashscope/qwen3.6-plus",
        "minimax/MiniMax-M2.7",
        "moonshot/kimi-k2.6",
        "zhipu/glm-5.1",
        "deepseek/deepseek-v4-pro",
        "openai/o1-preview",
    ],
)
def test_a_date_of_others_than_the_vendor_is_a_lower_bound(name: str) -> None:
    known = listed_cutoff(name, {})

    assert isinstance(known, CutoffEntry)
    assert known.is_lower_bound
    assert known.source.startswith("https://models.dev of 2026-")


@pytest.mark.parametrize("name", BOARD_MODELS)
def test_each_model_of_a_public_board_has_a_row(name: str) -> None:
    known = listed_cutoff(name, {})
    assert isinstance(known, CutoffEntry) or module._listed_row(name) is not None


def test_the_vendors_word_comes_before_a_list_of_others() -> None:
    name = module.reported_name("gpt-4.1")
    assert name in {row["name"] for row in REPORTED}

    known = listed_cutoff("openai/gpt-4.1", {})
    assert isinstance(known, CutoffEntry)
    assert (known.date, known.confidence) == ("2024-06-01", "vendor")


@pytest.mark.parametrize("name", ["human/claude-opus-5", "builtin/gpt-5", "planted/memory"])
def test_a_name_of_the_suite_is_no_model_of_a_vendor(name: str) -> None:
    assert not isinstance(listed_cutoff(name, {}), CutoffEntry)


def test_names_are_matched_exactly() -> None:
    names = {
        "openai/gpt-4o": "2023-10-01",
        "openai/gpt-4o-2024-08-06": "2023-10-01",
        "openai/gpt-4.1": "2024-06-01",
        "google/gemini-2.0-flash": "2024-08",
        "together/meta-llama/Llama-3.3-70B-Instruct-Turbo": "2023-12",
    }

    assert {name: getattr(listed_cutoff(name, {}), "date", None) for name in names} == names

    for unknown in (
        "builtin/memory",
        "openai/chatgpt-4o-latest",
        "openai/gpt-4.2",
        "deepseek/deepseek-chat",
        "rl/policy",
    ):
        assert listed_cutoff(unknown, {}) == "unknown"

    assert listed_cutoff("builtin/momentum", {}) == "none"

    policy = listed_cutoff("rl/policy", {"trained": "2020-01-02:2023-06-30"})
    assert (policy.date, policy.confidence) == ("2023-06-30", "recorded")


@pytest.mark.exhaustive
def test_a_planted_decay_is_recovered_and_none_covers_zero() -> None:
    rng = np.random.default_rng(1)
    covered = 0
    zero = 0
    shown = 0

    for _ in range(16):
        before = rng.normal(0.004, 0.01, 80)
        after = rng.normal(0.0, 0.01, 60)
        planted = decay(before, after)
        none = decay(before - 0.004, after)
        covered += planted.low <= 0.004 <= planted.high
        shown += planted.low > 0
        zero += none.low <= 0 <= none.high

    assert (covered >= 14, zero >= 14, shown >= 8) == (True, True, True), (covered, zero, shown)

    short = decay(before, after[:5])
    assert (short.low, short.reason) == (None, "after the cutoff: fewer than 20 days")
    assert short.value == pytest.approx(before.mean() - after[:5].mean())

    nothing = decay(before[:0], after)
    assert (nothing.mean_before, nothing.value) == (None, None)


def saved(folder: Path, model: str, daily: Any) -> Path:
    card = make_card({("A1", 0): 0.1, ("A1", 1): 0.1}, model, WINDOW)
    return save_run(folder, card, {("A1", seed): daily for seed in (0, 1)}).parent.parent


@pytest.mark.exhaustive
def test_cards_are_reported_with_their_days_and_unknown_ones_named(
    tmp_path: Path, terminal: CardTerminal
) -> None:
    daily = np.r_[np.full(61, 0.01), np.full(59, -0.01)] + np.random.default_rng(2).normal(
        0, 0.001, 120
    )
    known = saved(tmp_path / "a", "openai/gpt-4o", daily)
    unknown = saved(tmp_path / "b", "house/one", daily)
    words = (known, unknown, "--cutoff", "openai/gpt-4o=2024-07-31")
    row, other = terminal.report("compare", "cutoff", *words)["cards"]

    assert [row[f"days_{side}"] for side in ("before", "across", "after")] == [61, 0, 59]
    assert row["low"] < 252 * 0.02 < row["high"]
    assert (row["figure"], row["confidence"], row["reason"]) == ("daily_return", "given", None)
    assert row["value"] == pytest.approx(row["mean_before"] - row["mean_after"])
    assert (other["cutoff"], other["figure"]) == ("unknown", None)

    bounded = saved(tmp_path / "c", "openai/o1-preview", daily)
    for row in not_empty(terminal.report("compare", "cutoff", bounded)["cards"]):
        assert (row["confidence"], row["days_after"]) == ("reported_lower_bound", 0)
        assert "is a lower bound, so no day is known to be after" in row["reason"]
        assert row["value"] is None

    text = terminal.text("compare", "cutoff", *words)
    assert "house/one: cutoff: unknown" in text
    assert "no daily excess, no alpha and no selection" in text
    assert "mean before" not in terminal.text("compare", "cutoff", unknown).partition("\n")[2]

    shipped = terminal.report("compare", "cutoff", known)["cards"][0]
    assert (shipped["cutoff"], shipped["days_after"], shipped["days_before"]) == (
        "2023-10-01",
        120,
        0,
    )
    assert shipped["reason"] == "no days with this figure before the cutoff"


def test_the_days_of_each_window_are_annualised_by_its_own_days_a_year(
    tmp_path: Path, terminal: CardTerminal
) -> None:
    """A mixed market before and after its coins start to trade: 252 days per year, then 365, which
    its cards give for both windows.
    """
    windows = {"A1": ("2024-06-01", "2024-07-30"), "A2": ("2024-08-01", "2024-09-29")}
    daily = 0.001 + np.random.default_rng(3).normal(0, 0.01, 60)
    runs = []

    for model, drift in (("openai/gpt-4o", 0.0), ("house/one", 0.001)):
        card = make_card({("A1", 0): 0.1, ("A2", 0): 0.1}, model, windows)
        card["snapshot"]["days_a_year"] = 365
        both = {("A1", 0): daily, ("A2", 0): daily[::-1] + drift}
        runs.append(save_run(tmp_path / model, card, both, {"A1": 252, "A2": 365}))

    row = terminal.report("compare", "cutoff", runs[0], "--cutoff", "openai/gpt-4o=2024-07-31")[
        "cards"
    ][0]

    assert [row["mean_before"], row["mean_after"]] == pytest.approx(
        [252 * daily.mean(), 365 * daily.mean()], rel=1e-6
    )
    assert row["value"] == pytest.approx(-113 * daily.mean(), rel=1e-6)

    reach = [
        decay(daily, daily[::-1], years=years).high
        for years in ((252, 365), (252, np.full(60, 365)))
    ]

    assert row["high"] == pytest.approx(reach[0], rel=0.05), (
        "another rounding of the NAVs draws other resamples"
    )
    assert reach[0] == reach[1]


@pytest.mark.exhaustive
def test_refusals_are_one_line(tmp_path: Path, terminal: CardTerminal) -> None:
    path = saved(tmp_path / "a", "openai/gpt-4o", np.full(30, 0.01))
    next((path / "episodes").rglob("ledger.parquet")).write_bytes(b"other")
    ruined = saved(tmp_path / "ruined", "openai/gpt-4o", np.append(np.full(29, 0.01), -1.5))

    for words, expected in (
        ((path,), "is not the ledger that the card was made from"),
        (
            (path, "--cutoff", "openai/gpt-4=2024"),
            (
                "--cutoff: 'openai/gpt-4' matches no system here; there are openai/gpt-4o; did you"
                " mean 'openai/gpt-4o'"
            ),
        ),
        ((path, "--cutoff", "openai/gpt-4o=soon"), "'soon' is neither a day"),
        ((path, "--cutoff", "2024-01"), "--cutoff '2024-01': expected MODEL=DATE"),
        (
            (path, "--cutoff", "openai/gpt-4o=2024-01", "--cutoff", "openai/gpt-4o=2024-02"),
            "--cutoff: the same model is given twice",
        ),
        (
            (path, "--cutoff", "openai/*=2024-01", "--cutoff", "openai/gpt-4o=2024-02"),
            "openai/* and openai/gpt-4o both match",
        ),
        ((tmp_path / "none",), "none"),
        ((ruined,), "is not positive on a day, so it has no returns; leave the card out"),
    ):
        assert expected in terminal.refusal("compare", "cutoff", *words), words


@pytest.mark.slow
def test_a_side_without_windows_or_cutoffs_is_refused(
    tmp_path: Path, terminal: CardTerminal
) -> None:
    def cards(name: str, **changes: Any) -> list[Path]:
        return [
            save_card(
                tmp_path / name / model,
                make_card({("A1", 0): 0.1, ("A2", 0): 0.2}, model, **changes),
            )
            for model in ("a", "b")
        ]

    days = {
        "A1": {"before": 5, "across": 0, "after": 0},
        "A2": {"before": 4, "across": 1, "after": 0},
    }
    block = {"date": "2012-03-04", "confidence": "given", "source": "x", "windows": days}

    for words, expected in (
        (
            (*cards("known", knowledge_cutoff=block), "--side", "after"),
            "all cards have is entirely after the cutoff (2012-03-04)",
        ),
        ((*cards("unknown"), "--side", "before"), "no card of its task records a cutoff"),
    ):
        assert expected in terminal.refusal("compare", *words)


@pytest.mark.exhaustive
def test_excess_and_selection_match_the_market(tmp_path: Path, terminal: CardTerminal) -> None:
    words = [
        "--model",
        "builtin/momentum",
        "--tasks",
        "blinded_open_research",
        "--windows",
        "W1",
        "--limit",
        "25",
        "--quiet",
    ]

    assert main([*words, "--out", str(tmp_path / "run")]) == 0

    cards = terminal.report(
        "compare", "cutoff", tmp_path / "run", "--cutoff", "builtin/momentum=2030-01"
    )["cards"]
    rows = {row["figure"]: row for row in cards}

    assert {row["days_before"] for row in rows.values()} == {25}

    folder = RunFolder.load(tmp_path / "run")
    market = recorded_market(folder, load_plugins(), None, "")
    ledger = load_ledger(next((tmp_path / "run/episodes").rglob("ledger.parquet")))
    first = market.day_index(ledger.days[0])
    selection = attribute(ledger, market, fit_factors(market, first, first + 24)).selection

    assert rows["daily_selection"]["mean_before"] == pytest.approx(252 * selection.mean())

    levels = benchmark_levels(ledger, market)
    index = levels[1:] / levels[:-1] - 1

    assert rows["daily_return"]["mean_before"] - rows["daily_excess"][
        "mean_before"
    ] == pytest.approx(252 * index.mean())

    fitted = OLS(ledger.returns, add_constant(index)).fit()  # Jensen's alpha is the intercept
    assert rows["daily_alpha"]["mean_before"] == pytest.approx(252 * fitted.params[0])
