"""Accounts of `benchmarks/beyond_skill.py` on the embedded market, by the executor and its rules."""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
import pytest
from beyond_skill import Market, at_random, foresight, hiding, main, planted, tally

from ktdeval.cards.fields.returns.rank_correlation import MAX_SKILL
from ktdeval.registry import load_plugins
from ktdeval.runner.plans.data_source import open_snapshot


@pytest.fixture(scope="module")
def embedded() -> Market:
    return Market.of(open_snapshot(load_plugins(), "synthetic", {}))


@pytest.mark.parametrize("names", [1, 10])
def test_who_knows_the_next_opens_is_caught_in_ten_of_ten_windows(
    embedded: Market, names: int
) -> None:
    found = tally(embedded, foresight, 1, names)

    assert (found.labels, found.windows) == (10, 10)
    assert found.floors[0] > MAX_SKILL
    assert np.mean(found.returns) > 0.2


@pytest.mark.parametrize("skill", [0.0, 0.1])
def test_accounts_of_no_or_of_great_skill_are_not_caught(embedded: Market, skill: float) -> None:
    found = tally(embedded, planted(skill) if skill else at_random, 2)

    assert (found.labels, found.windows) == (0, 20)
    assert max(found.floors) < MAX_SKILL


def test_who_hides_one_foreseen_name_among_ten_passes_and_earns(embedded: Market) -> None:
    """The limit of the label, as the docs say."""
    found = tally(embedded, hiding(1), 1)

    assert max(found.floors) < MAX_SKILL
    assert np.mean(found.returns) > 0.2


def test_without_real_data_the_benchmark_says_so(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "argv", ["beyond_skill.py", "--data", str(tmp_path)])

    main()

    assert capsys.readouterr().out == f"skipped: no real market data in {tmp_path / 'a_share'}\n"
