"""`ktdeval compare transplant` and `compare agents --at`, on runs of builtin models on the embedded market."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from capacity_curves import spread_and_impact_bps

from ktdeval.errors import UsageError
from ktdeval.registry import load_plugins
from ktdeval.runner import RunConfig, evaluate, load_transplant, transplanted_at
from ktdeval.stats import MeanEstimate, estimate_mean
from ktdeval.testing import Terminal, not_empty
from ktdeval_compare.transplants.transplant_command import capital_of
from ktdeval_compare.transplants.transplant_figures import (
    crossing_interval,
    withheld_reason,
    zero_crossing,
)

pytestmark = pytest.mark.needs("ktdeval_builtin", "ktdeval_ktdfin")

TASK = "bright_open_research"
CAPITALS = "1e6,1e8,1e10"


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two short runs, and their transplants with square-root impact."""
    folder = tmp_path_factory.mktemp("runs")
    for model in ("momentum", "equal_weight"):
        config = RunConfig(
            model=f"builtin/{model}",
            tasks=(TASK,),
            windows=("W1", "W2"),
            limit=4,
            mask_key="0" * 32,
            out=str(folder / model),
        )
        result = evaluate(config, load_plugins())
        assert not result.failed

    return folder


@pytest.fixture
def made(runs: Path, terminal: Terminal) -> dict[str, Any]:
    """The report of a transplant, computed once."""
    out = runs / "momentum-transplanted"
    if not out.exists():
        for model in ("momentum", "equal_weight"):
            terminal.call(
                "compare", "transplant", runs / model, "--cash", CAPITALS, "--execution", "sqrt"
            )

    report: dict[str, Any] = json.loads((out / "transplant.json").read_text())
    return report


# ---- the report


@pytest.mark.exhaustive
def test_costs_rise_with_the_capital_and_the_filled_share_falls(made: dict[str, Any]) -> None:
    lines = made["lines"]
    assert [line["capital"] for line in lines] == [10**6, 10**8, 10**10]

    small, middle, large = lines
    assert small["costs"]["execution"] < middle["costs"]["execution"]
    assert small["total_return"]["value"] > middle["total_return"]["value"]
    # a small order loses a remainder to whole lots, a large one most of its size to the day's
    # volume
    assert small["filled_share"] > 0.9
    assert large["filled_share"] < 0.5


RETURNS = ("total_return", "annualised_return", "excess_return", "selection_alpha", "net_selection")


@pytest.mark.exhaustive
def test_returns_where_most_of_what_was_ordered_is_not_filled_are_withheld(
    made: dict[str, Any], runs: Path, terminal: Terminal
) -> None:
    """The return of such an account reflects what it could not buy, so it is not a figure of the
    decisions.
    """
    small, _, large = made["lines"]
    reason = large["withheld"]
    assert reason.endswith("of what was ordered was filled: returns are withheld below 80 %")
    for name in RETURNS:
        assert (large[name]["value"], large[name]["low"], large[name]["reason"]) == (
            None,
            None,
            reason,
        )

    assert (small["withheld"], small["total_return"]["reason"]) == (None, None)
    assert large["turnover"]["value"] is not None
    assert large["costs"]["execution"] > 0

    shown = terminal.text("compare", "transplant", runs / "momentum-transplanted")
    assert f"10,000,000,000: {reason}" in shown

    refused = terminal.error("compare", "agents", runs / "momentum", "--at", "1e10")
    assert reason in refused


@pytest.mark.slow
def test_no_return_of_a_few_days_is_made_one_of_a_year(
    made: dict[str, Any], runs: Path, terminal: Terminal
) -> None:
    line = made["lines"][0]["annualised_return"]
    assert line["value"] is None
    assert line["reason"] == ("a return of at most 4 days, less than a year, is not annualised")
    assert f"a year: {line['reason']}" in terminal.text(
        "compare", "transplant", runs / "momentum-transplanted"
    )


@pytest.mark.parametrize(
    ("filled", "is_withheld"), [(None, False), (1.0, False), (0.8, False), (0.7999, True)]
)
def test_a_filled_share_of_80_per_cent_is_enough(filled: float | None, is_withheld: bool) -> None:
    assert (withheld_reason(filled) is not None) == is_withheld


@pytest.mark.slow
def test_a_planted_half_spread_is_what_the_benchmark_reads_off_the_ledgers(
    runs: Path, terminal: Terminal, tmp_path: Path
) -> None:
    words = ("--cash", "1e7,1e8", "--execution", "none", "--spread", "200", "--out", tmp_path)
    terminal.call("compare", "transplant", runs / "momentum", *words)

    for line in not_empty(load_transplant(tmp_path).lines):
        found = spread_and_impact_bps(line, tmp_path)
        # 2 % of the open is 1.96 % of what a buy pays, and 2.04 % of what a sell brings
        assert found is not None
        assert 200 / 1.02 <= found <= 200 / 0.98


def test_the_text_names_costs_break_even_and_other_states(
    made: dict[str, Any], runs: Path, terminal: Terminal
) -> None:
    shown = terminal.text("compare", "transplant", runs / "momentum-transplanted")
    assert "the decisions of builtin/momentum (momentum), executed again without the model" in shown
    assert f"{TASK}: execution sqrt (half_spread_bps 2.08, impact 0.604, " in shown
    assert "break-even by selection net of costs: " in shown
    assert "never ranked" in shown
    assert (
        json.loads(terminal.text("compare", "transplant", runs / "momentum-transplanted", "--json"))
        == made
    )


@pytest.mark.slow
def test_runs_are_compared_as_executed_at_a_capital(
    made: dict[str, Any], runs: Path, terminal: Terminal
) -> None:
    pair = (runs / "momentum", runs / "equal_weight-transplanted")
    shown = terminal.text("compare", "agents", *pair, "--at", "1e8")
    assert "transplanted: every card" in shown
    assert "Daily returns" in shown

    refused = terminal.error("compare", "agents", *pair, "--at", "2e8")
    assert "no transplant at 200,000,000 (it has 1,000,000, 100,000,000, 10,000,000,000)" in refused

    mixed = (runs / "momentum", transplanted_at(runs / "equal_weight", 10**8))
    assert "have different task configs (never_ranked)" in terminal.error(
        "compare", "agents", *mixed
    )


@pytest.mark.exhaustive
def test_run_pages_show_capacity_only_for_the_matching_run(
    made: dict[str, Any], runs: Path, terminal: Terminal, tmp_path: Path
) -> None:
    words = ("view", runs / "momentum", "--out", tmp_path / "pages", "--json")
    plain = ("view", runs / "momentum", "--out", tmp_path / "pages")
    assert f"at size {TASK}: break-even by excess over the benchmark" in terminal.text(*plain)
    assert terminal.call(*words)[0] == 0

    shutil.copytree(runs / "equal_weight", tmp_path / "momentum")
    shutil.copytree(runs / "momentum-transplanted", tmp_path / "momentum-transplanted")
    other = ("view", tmp_path / "momentum", "--out", tmp_path / "others")
    assert "at size" not in terminal.text(*other)


@pytest.mark.exhaustive
def test_a_transplant_is_no_run_and_is_replaced_whole(
    made: dict[str, Any], runs: Path, terminal: Terminal, tmp_path: Path
) -> None:
    card = transplanted_at(runs / "momentum", 10**8) / "cards" / f"{TASK}.json"
    assert json.loads(card.read_text())["rankable"]["value"] is False
    assert "no run here" in terminal.error("card", "verify", card)

    out = tmp_path / "out"
    for capital in ("1e6", "1e7"):
        terminal.text("compare", "transplant", runs / "momentum", "--cash", capital, "--out", out)

    assert [line.capital for line in load_transplant(out).lines] == [10**7]
    assert [path.name for path in (out / "at").iterdir()] == ["10000000"]


# ---- refusals


@pytest.mark.parametrize("text", ["-5", "0", "1.5", "nan", "inf", "1e16", "much", ""])
def test_a_capital_that_is_no_whole_number_above_zero_is_refused(text: str) -> None:
    with pytest.raises(UsageError, match="expected a whole number of units of currency above 0"):
        capital_of(text)


@pytest.mark.parametrize(
    ("text", "capital"), [("1e6", 10**6), ("2.5e3", 2500), ("1_000", 1000), (" 7 ", 7)]
)
def test_a_capital_may_be_written_with_an_exponent(text: str, capital: int) -> None:
    assert capital_of(text) == capital


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("--execution", "sqr"), "--execution: no preset 'sqr'; did you mean 'sqrt'?"),
        (("--tasks", "blinded"), "--tasks: no trading task 'blinded' in this run"),
        (("--data", "absent"), "absent"),
        (("--cash", "-1"), "--cash '-1': expected a whole number"),
    ],
)
def test_a_setting_that_does_not_fit_is_refused_in_one_line(
    words: tuple[str, ...], message: str, runs: Path, terminal: Terminal, tmp_path: Path
) -> None:
    refused = terminal.error(
        "compare", "transplant", runs / "momentum", *words, "--out", tmp_path / "out"
    )
    assert message in refused
    assert not (tmp_path / "out").exists()


# ---- where an edge is gone


@pytest.mark.parametrize(
    ("means", "crossing"),
    [
        ((0.02, 0.01, -0.01), 10**7),  # half of the two decades from 1e6
        ((0.03, -0.01, -0.02), 10 ** (4 + 2 * 0.75)),
        ((0.02, 0.0, 0.01), 10**6),  # the first crossing counts
        ((0.0, 0.01, 0.02), 0.0),
        ((0.02, 0.02, 0.01), np.inf),
    ],
)
def test_a_crossing_is_read_off_on_the_logarithm_of_the_capital(
    means: tuple[float, ...], crossing: float
) -> None:
    capitals = np.array([1e4, 1e6, 1e8])
    assert zero_crossing(capitals, np.array(means)) == pytest.approx(crossing)


@pytest.mark.exhaustive
@pytest.mark.parametrize("windows", [4, 10, 40])
def test_the_interval_of_a_crossing_holds_the_truth_as_often_as_it_says(windows: int) -> None:
    """Windows whose mean falls by 1 % per decade and crosses zero at 1e7; a null end lies beyond
    the range of capitals.
    """
    capitals = np.array([1e3, 1e5, 1e6, 1e7, 1e8, 1e9, 1e11])
    truth = np.array([0.04, 0.02, 0.01, 0.0, -0.01, -0.02, -0.04])
    rng = np.random.default_rng(windows)
    held = 0
    for _ in range(400):
        curves = truth + rng.normal(0.0, 0.01, size=(windows, 1))
        means = [estimate_mean(column) for column in curves.T]
        low, high = crossing_interval(capitals, means)
        held += (low or 0.0) <= 1e7 <= (high or np.inf)

    # 95 % of 400 is 380, with a standard error of 4.4
    assert 366 <= held <= 393


def test_an_end_beyond_the_capitals_is_null() -> None:
    capitals = np.array([1e6, 1e8])
    means = [MeanEstimate(0.05, 3, 0.01, 0.09), MeanEstimate(-0.05, 3, -0.3, 0.2)]
    low, high = crossing_interval(capitals, means)
    # 0.01 of 0.31, interpolated over two decades
    assert low == pytest.approx(10 ** (6 + 2 * 0.01 / 0.31))
    assert high is None
