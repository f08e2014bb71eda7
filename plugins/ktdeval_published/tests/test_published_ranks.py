"""Boards of ranks: hand-worked ladders, and days that were committed before or after the close."""

from __future__ import annotations

import json
import os
import subprocess
from datetime import UTC, datetime
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from click.testing import CliRunner

from ktdeval.market import find_venue
from ktdeval_published.boards import BoardRunOptions, run_board
from ktdeval_published.clone import open_clone
from ktdeval_published.command import published_group
from ktdeval_published.publication import close_of, deadline_of, status_of_clock
from ktdeval_published.ranks_board import (
    changed_ladder,
    closed_ladder,
    open_ranks_market,
    random_ladders,
    run_ladder,
)
from ktdeval_published.recipe import load_recipe

US = find_venue("us_equity")
DAYS = ("2026-04-01", "2026-04-02", "2026-04-06", "2026-04-07")
CLOSES = {
    "A": (10.0, 10.0, 11.0, 11.0),
    "B": (20.0, 20.0, 20.0, 20.0),
    "C": (30.0, 40.0, 30.0, 30.0),
    "D": (50.0, 50.0, 0.0, 50.0),  # missing on the third day
}
RECIPE = """\
recipe: 1
name: ranks
title: Ranks
source:
  repository: me/ranks
  commit: "COMMIT"
  licence: MIT
period: 2026-04
claim: {text: Programs rank four shares.}
form: ranks
published: {by: git, path: "rankings/{day}/{entrant}.csv"}
entrants: {glob: "rankings/{day}/{entrant}.csv"}
columns: {symbol: ticker, rank: rank}
ladder: {top: 300, bottom: -300}
market:
  venue: us_equity
  bar: day
  prices: {form: wide_parquet, path: "prices/{field}.parquet"}
"""


@pytest.fixture
def board(tmp_path: Path) -> Path:
    folder = tmp_path / "ranks"
    (folder / "prices").mkdir(parents=True)
    frame = pd.DataFrame(CLOSES, index=pd.to_datetime(list(DAYS)))
    for field in ("open", "high", "low", "close"):
        frame.to_parquet(folder / f"prices/{field}.parquet")
    (frame * 0 + 1e6).to_parquet(folder / "prices/volume.parquet")
    _rank(folder, 0, "ABCD", DAYS[1], DAYS[2])
    _rank(folder, 1, "DABC", None, None)
    (folder / "recipe.yaml").write_text(RECIPE.replace("COMMIT", "0123456"))
    return folder


def _rank(folder: Path, day: int, names: str, entry: str | None, exit_: str | None) -> None:
    place = folder / "rankings" / DAYS[day].replace("-", "")
    place.mkdir(parents=True)
    rows = "".join(f"{name},{number}\n" for number, name in enumerate(names, 1))
    (place / "one.csv").write_text(f"ticker,rank\n{rows}")
    (place / "one.meta.json").write_text(json.dumps({"entry_date": entry, "exit_date": exit_}))


def ladder(board: Path, zero_is_price: bool = False):
    recipe = load_recipe(board / "recipe.yaml")
    market = open_ranks_market(recipe, open_clone(board, "0123456"))
    return run_ladder(market.ranks["one"], market.repaired, recipe.ladder, zero_is_price)


def test_a_ladder_is_made_over_names_with_a_close_at_entry(board: Path) -> None:
    run = ladder(board)
    # first: A +300, B +100, C -100, D -300; D has no close at its exit and is valued at its entry
    assert run.weights[0] == pytest.approx([300, 100, -100, -300])
    assert run.gains[0] == pytest.approx(300 * 0.1 + 0 - 100 * -0.25)
    # second: the next two days; D has no close at the entry, so A +300, B 0, C -300
    assert run.weights[1] == pytest.approx([300, 0, -300, 0])
    assert run.gains[1] == pytest.approx(0.0)


def test_a_close_of_zero_is_no_price(board: Path) -> None:
    assert ladder(board, zero_is_price=True).gains[0] == pytest.approx(55 + 300)


def test_costs_of_a_changed_and_of_a_closed_ladder(board: Path) -> None:
    run = ladder(board)
    # opened: 800; then A 330 -> 300, B 100 -> 0, C -75 -> -300, D -300 -> 0; closed: 600
    assert changed_ladder(run) == pytest.approx([800, 30 + 100 + 225 + 300, 600])
    assert closed_ladder(run) == pytest.approx([800 + 330 + 100 + 75 + 300, 600 + 600])


def test_random_ladders_have_the_mean_of_no_choice(board: Path) -> None:
    run = ladder(board)
    values = random_ladders(run, "seed")
    # A, B and C are on both ladders; their permutations have the mean of equal weights
    mean = 100 * (0.1 - 0.25)
    assert float(np.mean(values)) == pytest.approx(mean, abs=3.0)


def commit(board: Path, moment: str, path: str) -> None:
    dates = {"GIT_AUTHOR_DATE": moment, "GIT_COMMITTER_DATE": moment}
    who = ("-c", "user.name=a", "-c", "user.email=a@b.c")
    for arguments in (("add", path), ("commit", "-q", "-m", path)):
        subprocess.run(
            ["git", *who, *arguments], cwd=board, check=True, env={**os.environ, **dates}
        )


@pytest.fixture
def clone(board: Path) -> Path:
    """Day one was committed an hour before the close of its entry day, day two a minute after."""
    subprocess.run(["git", "init", "-q"], cwd=board, check=True)
    commit(board, "2026-04-02T19:00:00+00:00", "rankings/20260401")
    commit(board, "2026-04-06T20:01:00+00:00", "rankings/20260402")
    commit(board, "2026-04-07T00:00:00+00:00", ".")
    head = subprocess.run(
        ["git", "rev-parse", "HEAD"], cwd=board, check=True, capture_output=True, text=True
    )
    recipe = board.parent / "recipe.yaml"
    recipe.write_text(RECIPE.replace("COMMIT", head.stdout.strip()))
    return board


def test_the_deadline_is_the_close_of_the_entry_day(clone: Path) -> None:
    recipe = load_recipe(clone.parent / "recipe.yaml")
    report = run_board(recipe, open_clone(clone, recipe.source.commit), BoardRunOptions())
    live = report.entrants[0].live
    assert (live.before, live.after, live.unknown) == (1, 1, 0)
    assert close_of("2026-04-02", US) == datetime(2026, 4, 2, 20, tzinfo=UTC)


def test_a_workflow_fails_when_a_day_was_added_after_its_prices(clone: Path) -> None:
    arguments = ["show", str(clone.parent / "recipe.yaml"), "--source", str(clone), "--json"]
    late = CliRunner().invoke(published_group, [*arguments, "--fail-on", "late-days"])
    assert late.exit_code == 1
    assert (
        "one: 2026-04-02 was first committed 2026-04-06 20:01 UTC, after its deadline"
        " 2026-04-06 20:00 UTC"
    ) in late.stderr

    older = ["--fail-on", "late-days", "--since", "2026-04-03"]
    assert CliRunner().invoke(published_group, [*arguments, *older]).exit_code == 0


def test_without_commits_a_day_is_unknown(board: Path) -> None:
    recipe = load_recipe(board / "recipe.yaml")
    report = run_board(recipe, open_clone(board, "0123456"), BoardRunOptions())
    assert report.entrants[0].live.unknown == 2
    assert report.published_by.startswith("no commits")


def test_a_clock_without_a_zone_counts_only_if_every_zone_agrees() -> None:
    deadline = deadline_of("2025-10-09", find_venue("a_share"))  # 09:30 in Shanghai
    assert deadline == datetime(2025, 10, 9, 1, 30, tzinfo=UTC)
    assert status_of_clock("2025-10-08T12:00:00", deadline) == "before"  # 00:00 UTC at the latest
    assert status_of_clock("2025-10-09T09:00:00", deadline) == "unknown"
    assert status_of_clock("2025-10-09T15:31:00", deadline) == "after"
    assert status_of_clock("2025-10-09T09:00:00+08:00", deadline) == "before"
