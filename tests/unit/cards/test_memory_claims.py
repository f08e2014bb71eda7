"""What a card says of memory: figures of its certificate, and what windows like its own show."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest

from ktdeval.cards.claims import memory_claim
from ktdeval.stats.memory_limits import memory_limits
from ktdeval_compare.pairs.signed_ranks import published_spans
from support.figures.card_cases import card, typed
from support.paths import REPOSITORY

NAMED = {"upper": 0.0312, "level": 0.95, "attacker": "m", "value": 0.01, "n": 200, "baseline": 0.0}


def card_of(windows: int, days: int = 43, mask: str = "blinded", **changes: Any) -> dict[str, Any]:
    """A card over so many windows of so many days each."""
    made = card(**changes)
    (episode,) = made["episodes"]
    (window,) = made["windows"]
    made["episodes"] = []
    made["windows"] = []
    for number in range(windows):
        name = f"A{number}"
        # each in a year of its own: windows that share days are left out
        first, last = (f"{2010 + number}-01-{day}" for day in ("04", "08"))
        span = {"first_day": first, "last_day": last}
        made["episodes"].append({**episode, **span, "window": name})
        made["windows"].append({**window, "name": name, "first": first, "last": last, "days": days})

    made["task"]["mask"] = made["task"]["config"]["mask"] = mask
    made["task"]["config"]["family"] = "ktdfin"

    return made


def claim(made: dict[str, Any]) -> str:
    return memory_claim(typed(made))


def test_enough_windows_name_the_memory_that_they_would_show() -> None:
    """The upper end of the limit's interval, on the condition of the card's pair."""
    (limit,) = [limit for limit in memory_limits() if limit.windows == 10]
    assert limit.high is not None
    assert claim(card_of(10)).endswith(
        f" Next to the bright card, 10 windows would show a memory of {100 * limit.high:.2g} % of the"
        " facts or more, as measured with builtin/memory (docs/detection.md)."
    )


def test_a_bright_card_needs_its_blinded_pair() -> None:
    text = claim(card_of(10, mask="bright"))
    assert "can't be distinguished here. Next to the blinded card, 10 windows would show" in text


def test_few_windows_show_none() -> None:
    assert claim(card_of(1)).endswith(
        " 1 window can't show memory, even next to the bright card: at least 6 are needed."
    )


def overlapping(windows: int, share: Sequence[tuple[str, str]]) -> dict[str, Any]:
    """A card whose windows covered these days."""
    made = card_of(windows)
    for episode, (first, last) in zip(made["episodes"], share, strict=True):
        episode.update(first_day=first, last_day=last)

    return made


def test_windows_that_share_many_days_are_worth_few() -> None:
    """Six windows in a chain, each with half of its days in the next, are 3.3 windows."""
    days = [(f"2024-{month:02d}-01", f"2024-{month + 1:02d}-28") for month in range(1, 7)]
    assert claim(overlapping(6, days)).endswith(
        " 6 windows can't show memory, even next to the bright card: at least 6 that share no days"
        " are needed."
    )


def test_windows_of_ktdfin_show_what_was_measured_on_them() -> None:
    """W1 to W10 share days as those of the study do; pairs of windows with half of their days in
    common are worth 7.5 windows, and show less.
    """
    (limit,) = [limit for limit in memory_limits() if limit.windows == 10]
    assert limit.high is not None
    spans = list(published_spans("ktdfin-windows").values())
    assert f"show a memory of {100 * limit.high:.2g} %" in claim(overlapping(10, spans))

    halves = []
    for year in range(2010, 2015):
        halves += [(f"{year}-01-01", f"{year}-02-28"), (f"{year}-01-30", f"{year}-03-30")]

    text = claim(overlapping(10, halves))
    assert f"show a memory of {100 * limit.high:.2g} %" not in text
    assert "not reliably show even a full memory" in text or "would show a memory of" in text


@pytest.mark.parametrize(
    "made",
    [
        pytest.param(card_of(10, mask="stock_blind"), id="a mask without a pair"),
        pytest.param(card_of(10, days=5), id="windows shorter than those measured"),
        pytest.param(card_of(10, limit=5), id="episodes stopped early"),
    ],
)
def test_where_nothing_was_measured_nothing_is_said(made: dict[str, Any]) -> None:
    assert "memory of" not in claim(made)
    assert "windows" not in claim(made)


@pytest.mark.parametrize(
    ("value", "words"),
    [
        (None, "no certificate bounds what a model recovers from its prompts"),
        (
            {"labels": [], "bound": {"ticker_top1": NAMED}},
            "attackers of its certificate named the stock in at most 3.1 % of probes",
        ),
        (
            {"labels": ["control incomplete"], "bound": {"date_within_5": NAMED}},
            "its certificate bounds no attacker that names the stock",
        ),
    ],
)
def test_the_certificate_gives_a_number(value: dict[str, Any] | None, words: str) -> None:
    made = card_of(1)
    made["certificate"] = {"value": value}
    if value is None:
        made["certificate"]["reason"] = "no certificate was given"

    assert f"codes and days were hidden from the model; {words}." in claim(made)


def test_limits_fall_with_the_number_of_windows() -> None:
    """The table covers every number from the fewest that can be significant on."""
    limits = memory_limits()
    assert [limit.windows for limit in limits] == list(range(6, 31))

    for part in ("limit", "low", "high"):
        shares = [getattr(limit, part) for limit in limits]
        known = [1.0 if share is None else share for share in shares]
        assert known == sorted(known, reverse=True)

    for limit in limits:
        if limit.limit is not None and limit.low is not None:
            assert limit.low <= limit.limit <= (limit.high or 1.0)


def test_the_fewest_windows_do_not_surely_show_a_full_memory() -> None:
    """Where the interval of the limit reaches beyond a full memory, no share is named."""
    (limit,) = [limit for limit in memory_limits() if limit.windows == 6]
    assert limit.high is None
    assert claim(card_of(6)).endswith(
        " Next to the bright card, 6 windows would not reliably show even a full memory"
        " (docs/detection.md)."
    )


def test_the_page_of_detection_states_the_memory_that_is_found_with_its_interval() -> None:
    (limit,) = [limit for limit in memory_limits() if limit.windows == 10]
    assert limit.limit is not None
    assert limit.low is not None
    assert limit.high is not None

    estimate = f"{100 * limit.limit:.2g} %"
    low = f"{100 * limit.low:.2g} %"
    high = f"{100 * limit.high:.2g} %"
    text = (REPOSITORY / "docs" / "detection.md").read_text(encoding="utf-8")
    assert f"| 10 windows | {estimate} | {low} … {high} |" in text
