"""The chart of an executed account beside the account value that its file claims."""

from __future__ import annotations

import re

import numpy as np
import pandas as pd
import pytest

from ktdeval_judge.tear_sheet import _on_days
from ktdeval_pages.tear_sheet.plots import TrackPlots, _claimed_growth
from ktdeval_pages.tear_sheet.tracks import Track

DAYS = np.array(["2024-04-17", "2024-04-18", "2024-04-19"], dtype="datetime64[D]")
LEVELS = np.array([100.0, 105.0, 100.0])


def track(claimed: np.ndarray | None) -> Track:
    return Track(
        name="weights.csv",
        seed=None,
        is_whole=True,
        days=DAYS,
        levels=LEVELS,
        benchmark=None,
        no_benchmark="none",
        book=None,
        days_a_year=252,
        resolution=1e-6,
        claimed=claimed,
    )


def test_a_claim_is_read_by_day_and_needs_two_of_the_accounts_days() -> None:
    claimed = pd.Series([110.0, 121.0, 7.0], index=[20240418, 20240419, 20240422])
    values = _on_days(claimed, DAYS)
    assert values is not None
    assert np.array_equal(values, [np.nan, 110.0, 121.0], equal_nan=True)

    assert _on_days(claimed[:1], DAYS) is None
    assert _on_days(None, DAYS) is None


def test_a_claim_begins_where_the_account_is_on_its_first_day() -> None:
    growth = _claimed_growth(np.array([np.nan, 110.0, 121.0]), LEVELS)
    assert growth == pytest.approx([np.nan, 0.05, 1.05 * 1.1 - 1.0], nan_ok=True)


@pytest.mark.parametrize(
    ("claimed", "words", "bands"),
    [
        (None, r"The account ends at .?0\.00.{0,8}%[;.]", 0),
        ([50.0, 55.0, 60.0], r"its file claims \+20\.00.{0,8}% from 2024-04-17 to 2024-04-19", 1),
        (
            [np.nan, 110.0, 121.0],
            r"its file claims \+10\.00.{0,8}% from 2024-04-18 to 2024-04-19",
            0,
        ),
    ],
)
def test_the_chart_states_the_claim_and_fills_the_gap_if_every_day_is_claimed(
    claimed: list[float] | None, words: str, bands: int
) -> None:
    values = None if claimed is None else np.array(claimed)
    cumulative = TrackPlots(track(values), (), "account", "index").all()[0]
    drawn = str(cumulative)
    assert re.search(words, drawn)
    assert drawn.count("class=&#34;band") + drawn.count('class="band') == bands
