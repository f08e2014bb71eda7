"""Baselines of a board: run and submitted once; the supervised one learns what was planted before
the division alone.
"""

from __future__ import annotations

import dataclasses
import json
import re
from pathlib import Path

import numpy as np
import pytest
from msgspec.structs import replace

from ktdeval.attribution import FACTORS
from ktdeval.cards import load_card, load_evaluation
from ktdeval.errors import ConfigError, UsageError
from ktdeval.market import with_id
from ktdeval.market.snapshots.snapshot import MarketSnapshot
from ktdeval.registry import load_plugins
from ktdeval.runner import RunConfig
from ktdeval.testing import not_empty, on_each_row
from ktdeval.values import JsonValue, to_plain
from ktdeval_board.baselines import (
    MAX_FACTORS,
    RIDGE,
    ridge_coefficients,
    run_baseline,
    train_coefficients,
)
from ktdeval_board.board_entries import facets, load_board, seeds_of
from ktdeval_board.checking.check import CheckOptions, check_board
from ktdeval_board.command import leaderboard
from ktdeval_board.init import NewBoard, init_board
from ktdeval_board.ranking.table import missing_baselines
from ktdeval_board.rules import Baseline, WindowRule, load_rules, matching_baseline
from ktdeval_board.site.build import build_site
from support.board import board_teller
from support.board.board_runs import (
    TASK,
    TODAY,
    WINDOW,
    begin,
    call,
    change_rules,
    plugins,
    sums_board,
    tree,
    withdraw,
)
from support.paths import REPOSITORY

_BASELINES = (leaderboard, "--on", TODAY, "baselines")


def test_a_regression_by_hand() -> None:
    # One factor, one day, exposures -1, 0, 1 and returns 0, 3, 3 (mean 2): x'y = 2 + 1 = 3, x'x =
    # 2, penalty 0.1 * 3 = 0.3.
    coefficients = ridge_coefficients(np.array([[[-1.0, 0.0, 1.0]]]), np.array([[0.0, 3.0, 3.0]]))
    np.testing.assert_allclose(coefficients, [3 / 2.3], rtol=1e-15)


@pytest.mark.exhaustive
def test_the_regression_is_ridge_and_omits_undefined_values() -> None:
    from sklearn.linear_model import Ridge

    generator = np.random.default_rng(3)
    exposures = generator.normal(size=(30, 4, 50))
    targets = generator.normal(size=(30, 50))
    exposures[generator.random(exposures.shape) < 0.02] = np.nan
    targets[generator.random(targets.shape) < 0.1] = np.nan
    usable = np.isfinite(targets) & np.isfinite(exposures).all(axis=1)
    y = np.concatenate(
        [targets[day][usable[day]] - targets[day][usable[day]].mean() for day in range(30)]
    )
    x = np.concatenate([exposures[day][:, usable[day]].T for day in range(30)])
    expected = Ridge(alpha=RIDGE * len(y), fit_intercept=False).fit(x, y).coef_
    np.testing.assert_allclose(ridge_coefficients(exposures, targets), expected, rtol=1e-10)


@pytest.mark.exhaustive
def test_the_strongest_factors_get_coefficients_that_the_model_takes(
    embedded: MarketSnapshot,
) -> None:
    coefficients = train_coefficients(embedded, "2024-04-01")
    names = [part.partition(":")[0] for part in coefficients.split()]

    assert names == [factor.name for factor in FACTORS if factor.name in names]
    assert len(names) == MAX_FACTORS
    assert load_plugins().make_model("builtin/linear_factor", {"coefficients": coefficients})
    assert coefficients == train_coefficients(embedded, "2024-04-01")


@pytest.mark.exhaustive
def test_nothing_from_the_first_day_on_is_looked_at(embedded: MarketSnapshot) -> None:
    start = int(np.searchsorted(embedded.days, np.datetime64("2024-04-01")))
    poisoned = {}
    for name in ("open", "high", "low", "close", "volume", "amount"):
        values = getattr(embedded, name).copy()
        values[start:] *= 1.7
        poisoned[name] = values

    other = with_id(dataclasses.replace(embedded, **poisoned, id=""))

    assert other.id != embedded.id
    assert train_coefficients(other, "2024-04-01") == train_coefficients(embedded, "2024-04-01")


def test_a_market_that_begins_too_late_is_refused_in_words(embedded: MarketSnapshot) -> None:
    with pytest.raises(ConfigError, match="training days before 2023-07-03"):
        train_coefficients(embedded, "2023-07-03")


# ---- run and submitted


@pytest.mark.exhaustive
def test_baselines_are_run_and_submitted_once(market: Path, tmp_path: Path) -> None:
    begin(tmp_path / "board", market, baselines=("builtin/equal_weight", "builtin/random"))
    change_rules(tmp_path / "board", ("seeds: [0, 1, 2, 3, 4, 5, 6, 7, 8, 9]", "seeds: [4, 5]"))
    done = call(*_BASELINES, tmp_path / "board")

    assert done.exit_code == 0, done.output

    board = load_board(tmp_path / "board")
    assert {entry.model: entry.card.seeds for entry in board.entries} == {
        "builtin/equal_weight": [0],
        "builtin/random": [4, 5],
    }
    assert all(entry.division is not None and entry.baseline is not None for entry in board.entries)

    submission = board.entries[0].submission
    assert to_plain(submission.submitter) == {"name": "the board", "contact": "board@example.org"}
    assert submission.model.cutoff_date == "none"
    assert not (tmp_path / "board" / "records").exists()

    before = tree(tmp_path / "board")
    assert "all baselines are on the board" in call(*_BASELINES, tmp_path / "board").output
    assert tree(tmp_path / "board") == before

    report = check_board(tmp_path / "board", plugins(), CheckOptions(TODAY, record=False))
    assert (report.findings, [card.tier for card in report.checked]) == ((), ["re-run", "re-run"])


@pytest.mark.exhaustive
def test_baselines_and_an_entrant_of_the_same_model_are_listed_together(
    market: Path, tmp_path: Path
) -> None:
    few = "builtin/equal_weight(positions=5)"
    many = "builtin/equal_weight(positions=12)"
    begin(tmp_path / "board", market, baselines=(few, many))
    assert call(*_BASELINES, tmp_path / "board").exit_code == 0

    board = load_board(tmp_path / "board")
    found = {
        entry.baseline.words: entry.card.model.args for entry in board.entries if entry.baseline
    }
    assert found == {few: {"positions": 5}, many: {"positions": 12}}
    assert not any(missing_baselines(board, division) for division in board.rules.divisions)

    report = check_board(tmp_path / "board", plugins(), CheckOptions(TODAY, record=False))
    assert (report.findings, [card.tier for card in report.checked]) == ((), ["re-run", "re-run"])


@on_each_row(
    "model, args, baseline",
    ("builtin/memory", {"recall": 0.1}, "builtin/memory(recall=0.1)"),
    ("builtin/memory", {"recall": 0.1, "by": "RV_60"}, "builtin/memory(recall=0.1)"),
    ("builtin/memory", {"recall": 0.2}, None),
    ("builtin/memory", {}, None),
    ("builtin/hold", {}, "builtin/hold"),
    ("builtin/hold", {"positions": 3}, "builtin/hold"),
    ("builtin/hold", {"positions": 4, "by": "x"}, "builtin/hold(positions=4)"),
    ("a/stranger", {"recall": 0.1}, None),
)
def test_a_baseline_is_known_by_its_model_and_its_own_parameters(
    model: str, args: dict[str, JsonValue], baseline: str | None
) -> None:
    known = (
        Baseline("builtin/memory", args={"recall": 0.1}),
        Baseline("builtin/hold"),
        Baseline("builtin/hold", args={"positions": 4}),
    )
    found = matching_baseline(known, model, args)
    assert (None if found is None else found.words) == baseline


@pytest.mark.exhaustive
def test_a_baseline_gives_the_same_card_wherever_it_runs(
    market: Path, empty_board: Path, tmp_path: Path
) -> None:
    rules = load_rules(empty_board)
    division = rules.divisions[0]
    baseline = rules.baselines[0]
    first, second = (
        load_card(
            run_baseline(
                rules,
                division,
                baseline,
                tmp_path / name,
                plugins(),
                concurrency=concurrency,
                mask_key="0" * 32,
            )
        ).plain
        for name, concurrency in (("a", 1), ("b", 2))
    )

    assert {name for name in first if first[name] != second[name]} <= {"provenance"}


@pytest.mark.exhaustive
def test_a_withdrawn_baseline_is_run_again_as_a_second_attempt(board: Path) -> None:
    call(*_BASELINES, board)
    first = withdraw(board)

    assert call(*_BASELINES, board, "--records", "repository").exit_code == 0

    attempts = {
        entry.card_id: entry.submission.attempts.runs for entry in load_board(board).entries
    }

    assert (attempts.pop(first), list(attempts.values())) == (1, [2])
    assert len(list((board / "records").glob("*/episodes/*/ledger.parquet"))) == 1


@pytest.mark.exhaustive
def test_a_board_without_a_contact_asks_for_one(market: Path, tmp_path: Path) -> None:
    begin(tmp_path / "board", market, contact="")
    done = call(*_BASELINES, tmp_path / "board")

    assert isinstance(done.exception, ConfigError)
    assert "contact is empty" in str(done.exception)
    assert call(*_BASELINES, tmp_path / "board", "--contact", "https://example.org").exit_code == 0


@pytest.mark.exhaustive
def test_a_division_that_cannot_be_run_here_is_named(empty_board: Path, tmp_path: Path) -> None:
    rules = load_rules(empty_board)
    other, short = (
        WindowRule(name, "2024-03-01", last)
        for name, last in (("W77", "2024-03-14"), (WINDOW, "2024-03-13"))
    )
    lost = replace(rules, snapshots=(replace(rules.snapshots[0], data=""),))

    for changed, change, message in (
        (rules, {"seeds": (0, 2)}, "seeds 0, 2 are not consecutive"),
        (rules, {"version": "0"}, "the board requires 0"),
        (rules, {"windows": (other,)}, "has no window 'W77' here"),
        (rules, {"windows": (short,)}, "on the board"),
        (lost, {}, "does not give the location of snapshot small"),
    ):
        division = replace(rules.divisions[0], **change)
        with pytest.raises(ConfigError, match=message):
            run_baseline(
                replace(changed, divisions=(division,)),
                division,
                rules.baselines[0],
                tmp_path / message,
                plugins(),
            )


@pytest.mark.slow
def test_only_a_baseline_may_have_its_own_seeds(empty_board: Path, run: Path) -> None:
    rules = load_rules(empty_board)
    division = rules.divisions[0]
    card = load_evaluation(run / "cards" / f"{TASK}.json")
    own = replace(rules, baselines=(Baseline("builtin/momentum", "random", (5, 3, 4)),))

    assert seeds_of(rules, division, "builtin/momentum", {}) == (0,)
    assert seeds_of(own, division, "builtin/momentum", {}) == (3, 4, 5)
    assert seeds_of(own, division, "a/stranger", {}) == (0,)
    assert facets(rules, division, card) == {}
    assert facets(own, division, card) == {"seeds": "seeds 0, the board requires 3, 4, 5"}


# ==== a board of questions about no market


@pytest.mark.parametrize(
    ("option", "value"), [("data", "placebo"), ("windows", ("W1",)), ("market", "real")]
)
def test_new_question_board_without_a_market_rejects_market_options(
    option: str, value: object, tmp_path: Path
) -> None:
    new = NewBoard("qa", "Sums", ("sums",), "2026-03-01", **{option: value})
    with pytest.raises(
        UsageError, match=f"--{option}: none of these tasks needs a market; omit the option"
    ):
        init_board(tmp_path / "board", new, load_plugins((board_teller.__file__,)))


@pytest.mark.parametrize(
    ("line", "problem"),
    [
        (
            "    windows: [{name: W1, first: 2024-01-02, last: 2024-01-05}]",
            "has windows but no snapshot",
        ),
        ("    snapshot: small", "has a snapshot but no windows"),
    ],
    ids=["windows alone", "snapshot alone"],
)
def test_rules_give_both_snapshot_and_windows_or_neither(
    line: str, problem: str, tmp_path: Path
) -> None:
    board = sums_board(tmp_path)
    text = (board / "board.yaml").read_text()
    (board / "board.yaml").write_text(text.replace("    seeds: [0]", f"{line}\n    seeds: [0]"))

    with pytest.raises(ConfigError, match=f"divisions: sums: {problem}; give both or neither"):
        load_rules(board)


@pytest.mark.slow
def test_question_board_without_a_market_has_no_snapshot_window_or_mask(
    tmp_path: Path,
) -> None:
    board = sums_board(tmp_path)
    extra = (board_teller.__file__,)
    (division,) = load_rules(board).divisions

    assert (division.snapshot, division.windows) == (None, ())
    assert not re.search("snapshot: |windows:", (board / "board.yaml").read_text())
    assert "--windows" not in (board / "README.md").read_text()

    report = check_board(board, load_plugins(extra), CheckOptions(today=TODAY, plugins=extra))
    assert [card.tier for card in report.checked] == ["re-executed"]

    build_site(board, tmp_path / "site", workers=1)
    data = json.loads((tmp_path / "site/data/board.json").read_text())

    assert (data["market"], data["snapshots"], data["divisions"][0]["windows"]) == (None, [], [])

    (row,) = json.loads((tmp_path / "site/data/division/sums/all.json").read_text())["rows"]
    assert row["ranked"]
    assert not (tmp_path / "site/market.html").exists()
    assert not re.search("snapshot|window|mask", json.dumps(row))


def test_a_baseline_as_a_board_prints_it_runs() -> None:
    rules = load_rules(REPOSITORY / "leaderboards" / "practice")
    for baseline in not_empty(rules.baselines):
        found = RunConfig(baseline.words, tasks=("blinded_open_research",))
        assert baseline.is_of(found.model, found.model_args)
