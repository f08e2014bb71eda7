"""Later values by their definition: every value of the market is looked at for each number."""

from __future__ import annotations

import re
from collections import Counter
from datetime import date

import numpy as np
from hypothesis import given, settings, strategies as st

from audit_play import market
from ktdeval_audit.decision_days import DatedText
from ktdeval_audit.later_prices import _FIELDS, HORIZONS, KNOWN_DAYS, LaterPrices
from ktdeval_audit.log_types import LoggedDecision, LogText
from ktdeval_audit.printed_numbers import AssetNames, PrintedNumber

LATER = LaterPrices(market())
TEXT = DatedText(
    LoggedDecision(name="0", texts=()), LogText(role="prompt", text="", place="0"), date(2024, 1, 2)
)
REACHED: Counter[str] = Counter()


def every_value(asset: int | None) -> list[tuple[float, int, str]]:
    """Each finite value of an asset, or of all assets and indices, with its row and name."""
    whole = market()
    columns = slice(None) if asset is None else slice(asset, asset + 1)
    tables = [whole.open, whole.high, whole.low, whole.close, whole.volume, whole.amount]
    tables.append(whole.adjusted_close)
    named = [(name, table[:, columns]) for name, table in zip(_FIELDS, tables, strict=False)]
    if asset is None:
        named += [(_FIELDS[-1], levels[:, None]) for levels in whole.indices.values()]

    found = []
    for name, table in named:
        for row, column in np.argwhere(np.isfinite(table)):
            found.append((float(table[row, column]), int(row), name))

    return found


VALUES = {asset: every_value(asset) for asset in (None, 0, 1)}


def naive(
    number: PrintedNumber, asset: int | None, row: int
) -> tuple[list[float], list[tuple[int, set[str]] | None]] | None:
    """Chances and hits at each horizon: a row, and the names of values that the number equals then."""
    half = number.step * (0.5 + 1e-9)
    same = [entry for entry in VALUES[asset] if abs(entry[0] - number.value) <= half]
    if any(row - KNOWN_DAYS < known <= row for _, known, _ in same):
        return None

    reach = max(0.1 * abs(number.value), 50 * number.step)
    near = [entry for entry in VALUES[asset] if abs(entry[0] - number.value) <= reach]
    chances = []
    hits: list[tuple[int, set[str]] | None] = []
    for horizon in HORIZONS:
        targets = {
            round(value / number.step) for value, day, _ in near if row < day <= row + horizon
        }
        chances.append(min(1.0, len(targets) / (2 * reach / number.step)))
        later = [(day, name) for _, day, name in same if row < day <= row + horizon]
        first = min((day for day, _ in later), default=None)
        if first is None:
            hits.append(None)
        else:
            hits.append((first, {name for day, name in later if day == first}))

    return (chances, hits) if any(chances) else None


@settings(max_examples=200)
@given(st.data())
def compare(data: st.DataObject) -> None:
    """Compare a number near a value of the market, on any day, with the definition."""
    asset = data.draw(st.sampled_from([None, 0, 1]), label="asset")
    row = data.draw(st.integers(0, len(market().days) - 1), label="row")
    value, _, _ = data.draw(st.sampled_from(VALUES[asset]), label="value")
    step = 10.0 ** data.draw(st.integers(-2, 1), label="digits")
    value = round(value / step) * step + step * data.draw(st.integers(-2, 2), label="shift")
    number = PrintedNumber(value, step, 0, 1, asset, is_return=False)

    trial = LATER._trial(number, TEXT, row, asset)
    expected = naive(number, asset, row)

    REACHED["no trial" if expected is None else "trial"] += 1
    assert (trial is None) == (expected is None)
    if trial is None or expected is None:
        return

    chances, hits = expected
    assert np.allclose(trial.chances, chances, rtol=1e-12, atol=0.0)
    for hit, wanted in zip(trial.hits, hits, strict=True):
        assert (hit is None) == (wanted is None)
        if hit is not None and wanted is not None:
            REACHED["hit"] += 1
            assert (hit.row, hit.value_name in wanted[1]) == (wanted[0], True)


def test_chances_and_hits_are_those_of_the_definition() -> None:
    REACHED.clear()
    compare()
    assert min(REACHED[kind] for kind in ("no trial", "trial", "hit")) >= 10, REACHED


WORDS = st.lists(st.text("ab1.", min_size=1, max_size=5), min_size=1, max_size=12, unique=True)


@given(WORDS, st.text("ab1. ,", max_size=80))
def test_names_with_a_common_beginning_are_found_as_from_a_plain_list(
    words: list[str], text: str
) -> None:
    names = AssetNames.of(words, [""] * len(words))
    longest_first = "|".join(map(re.escape, sorted(names.rows, key=len, reverse=True)))
    plain = re.compile(rf"(?<![0-9A-Za-z])(?:{longest_first})(?![0-9A-Za-z])")
    found = [(*match.span(), names.rows[match[0]]) for match in plain.finditer(text)]
    assert names.places(text) == found


def test_names_that_begin_each_other_a_thousand_times_are_found() -> None:
    words = ["a" * length for length in range(1, 1000)]
    assert AssetNames.of(words, [""] * len(words)).places("a" * 700 + " b") == [(0, 700, 699)]
