"""Synthetic US, crypto and mixed markets: equal from run to run, shaped by the rules of their
venues, with a signal in the news.
"""

from __future__ import annotations

import io
import json
import re
from collections.abc import Iterator
from itertools import islice
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pandas as pd
import pytest
import zstandard

from ktdeval.cli.main import main
from ktdeval.errors import DataError
from ktdeval.market import FloatArray, MarketSnapshot, sessions
from ktdeval.market.snapshots.manifest import snapshot_id
from ktdeval.masking import Lens, MaskConfig, TextMask
from ktdeval.testing import Terminal, not_empty
from ktdeval_data.params import TwinParams, ViewParams
from ktdeval_data.synthetic_us_crypto import GROUPS, NEWS, make_twin, make_with_files
from ktdeval_raw_markets.sources.raw_tables import raw_from_snapshot
from support.market.raw_market import findings_of

FIRST = "2024-06-03"
LAST = "2026-04-10"
TWINS = ("us", "crypto", "mixed")
SHORT = {"first": "2025-01-02", "last": "2025-04-30"}


class Twin(NamedTuple):
    """A market, and what was planted in it."""

    name: str
    market: MarketSnapshot
    truth: dict[str, pd.DataFrame]

    def returns(self, code: str) -> tuple[FloatArray, FloatArray]:
        """Log returns of an asset from close to close over its own sessions, and of its group's
        market factor on them.
        """
        column = self.market.asset_index[code]
        group = self.truth["assets"].set_index("code").loc[code, "group"]
        is_open = np.isfinite(factor := self.truth["markets"][group].to_numpy())
        moves = np.diff(np.log(self.market.adjusted_close[is_open, column]))
        known = np.isfinite(moves)

        return moves[known], factor[is_open][1:][known]


@pytest.fixture(scope="module", params=TWINS)
def twin(request: pytest.FixtureRequest) -> Twin:
    market, files = make_with_files(request.param, TwinParams(first=FIRST, last=LAST))
    truth = {
        name[len("truth_") : -len(".parquet")]: pd.read_parquet(io.BytesIO(content))
        for name, content in files.items()
    }
    return Twin(request.param, market, truth)


@pytest.mark.slow
def test_another_seed_or_effect_gives_another_market() -> None:
    """That equal ones give equal bytes, in any process, is shown by the records of
    tests/oracle/test_every_task.py.
    """
    others = [
        snapshot_id(make_twin("us", TwinParams(**SHORT, **changed)))
        for changed in ({}, {"seed": 8}, {"effect": 0.5})
    ]

    assert len(set(others)) == 3


@pytest.mark.slow
def test_a_twin_has_no_fault_and_the_shape_of_its_venues(twin: Twin) -> None:
    market = twin.market
    coins = np.array(twin.market.kinds) == "crypto"

    # both are infos
    assert findings_of(raw_from_snapshot(market)).keys() == {
        "documents",
        "suspended_rows",
    }
    assert market.meta.synthetic
    assert market.meta.has_factor
    assert market.meta.benchmark == ("SYNUS" if twin.name == "us" else "")
    assert set(market.venues) == {"us": {"us_equity"}, "crypto": {"crypto_spot"}}.get(
        twin.name, {"us_equity", "crypto_spot"}
    )
    assert all(re.search(r"\d", code) for code in market.codes)

    # Days: stocks trade in sessions of New York alone, coins on every day.
    every_day = np.arange(np.datetime64(FIRST), np.datetime64(LAST) + np.timedelta64(1, "D"))
    exchange = sessions(FIRST, LAST, "XNYS")

    assert (market.days == (exchange if twin.name == "us" else every_day)).all()

    traded = np.isfinite(market.close)
    assert not traded[:, ~coins][~np.isin(market.days, exchange)].any()

    # Coins trade in fractions, shares whole.
    volume = np.where(traded, market.volume, 0.0)
    assert (np.round(volume[:, ~coins]) == volume[:, ~coins]).all()
    assert (np.round(volume[:, coins]) != volume[:, coins]).any() == coins.any()

    # Listings, delistings, halts and splits are as many as the file says.
    for group in [
        GROUPS[name]
        for name in ("us_stock", "coin")
        if (np.array(market.kinds) == GROUPS[name].kind).any()
    ]:
        own = np.array(market.kinds) == group.kind
        bars = (
            traded[np.isin(market.days, exchange)][:, own]
            if group.kind == "stock"
            else traded[:, own]
        )
        assert [(~bars[0]).sum(), (~bars[-1]).sum()] == [group.late, group.delisted]
        assert (np.diff(market.factor[:, own], axis=0) != 0).sum() == group.split
        assert ((market.volume[:, own] == 0).sum(axis=0) > 0).sum() == group.halted


def test_planted_betas_and_volatilities_are_found_again(twin: Twin) -> None:
    for name in not_empty(twin.truth["assets"]["group"].unique()):
        group = GROUPS[name]
        assets = twin.truth["assets"].query("group == @name")
        market = twin.truth["markets"][name].dropna()
        assert market.std() * np.sqrt(group.days_a_year) == pytest.approx(
            group.market_volatility, rel=0.1
        )
        misses = []
        ratios = []
        for code, beta, own in assets[["code", "beta", "own_volatility"]].itertuples(index=False):
            returns, factor = twin.returns(code)
            slope, intercept = np.polyfit(factor, returns, 1)
            rest = returns - slope * factor - intercept
            misses.append((slope - beta) / (rest.std() / factor.std() / np.sqrt(len(rest))))
            variance = own**2 + group.sector_volatility**2 + group.jumps_a_year * group.jump_size**2
            ratios.append(rest.std() * np.sqrt(group.days_a_year / variance))

        assert np.abs(misses).max() < 4
        assert np.sqrt(np.mean(np.square(misses))) < 1.5  # standard errors
        assert np.mean(ratios) == pytest.approx(1.0, abs=0.08)


@pytest.mark.exhaustive
@pytest.mark.parametrize("same", [False, True])
def test_analysts_see_the_next_day_with_independent_or_common_errors(same: bool) -> None:
    market, files = make_with_files("views", ViewParams(first=FIRST, last=LAST, same_view=same))
    events = (
        pd.read_parquet(io.BytesIO(files["truth_news.parquet"]))
        .set_index(["code", "date"])["direction"]
        .sort_index()
    )
    rows = [
        (
            item.assets[0],
            item.known_at.date(),
            item.source,
            1 if item.title.endswith("rise") else -1,
        )
        for item in market.documents.as_of(market.days)
    ]
    signals = pd.DataFrame(rows, columns=["code", "date", "desk", "side"])
    signals["date"] = signals["date"].astype(events.index.levels[1].dtype)
    signals = signals.set_index(["code", "date", "desk"])["side"].unstack()

    assert signals.index.equals(events.index)
    assert list(signals.columns) == [f"desk {number}" for number in range(1, 6)]

    right = signals.eq(events, axis=0)
    error = np.sqrt(0.3 * 0.7 / len(right))

    assert np.abs(right.mean() - 0.7).max() < 4 * error

    between = right.astype(float).corr().to_numpy()[np.triu_indices(5, 1)]
    assert (between == 1).all() if same else np.abs(between).max() < 4 / np.sqrt(len(right))

    after = pd.DataFrame(
        np.diff(np.log(market.adjusted_close), axis=0), market.days[:-1], market.codes
    ).T.stack()
    moves = (
        after.reset_index(drop=True)
        .groupby(events[after.index.rename(events.index.names)].to_numpy())
        .mean()
    )

    assert moves[1] - moves[-1] == pytest.approx(0.04, abs=0.004)


def news_patterns() -> Iterator[tuple[str, str, str, int]]:
    """Kind of asset, class, pattern of its titles and direction of each wording of the news."""
    for kind, classes in NEWS["wordings"].items():
        for name, sides in classes.items():
            for direction, wordings in sides.items():
                for title, _ in wordings:
                    pattern = re.sub(r"\\{\w+\\}", ".+", re.escape(title))
                    yield kind, name, pattern, int(direction)


def read_signal(twin: Twin) -> pd.DataFrame:
    """What a reader of the titles knows, and the returns around it: class and direction of each
    item; log returns of its asset from the next open over the days of the drift and one more
    (`after`), and over as many days up to the close that knows it (`before`).
    """
    market = twin.market
    view = twin.market.documents.as_of(twin.market.days)
    kinds = dict(zip(market.codes, market.kinds, strict=True))
    patterns = list(news_patterns())
    logs = np.log(market.adjusted_close)
    opens = np.log(market.adjusted_open)
    own = {
        code: np.flatnonzero(np.isfinite(logs[:, column]))
        for code, column in market.asset_index.items()
    }
    rows = []

    for row, item in enumerate(view):
        code = item.assets[0]
        title = item.title
        fits = [
            (name, direction)
            for kind, name, pattern, direction in patterns
            if kind == kinds[code] and re.fullmatch(pattern, title)
        ]
        assert len(set(fits)) == 1, title
        column = market.asset_index[code]
        days = own[code]
        after = next(g.news_days for g in GROUPS.values() if g.kind == kinds[code])
        session = int(np.searchsorted(days, view.day_of(row), side="right"))
        if session > after and session + after < len(days):
            gain = logs[days[session + after], column] - opens[days[session], column]
            rows.append(
                (
                    kinds[code],
                    *fits[0],
                    gain,
                    logs[days[session - 1], column] - logs[days[session - 1 - after], column],
                )
            )

    return pd.DataFrame(rows, columns=["kind", "class", "direction", "after", "before"])


def regress(table: pd.DataFrame, name: str) -> tuple[float, float]:
    """Slope of a return on the direction of the news, and its standard error."""
    x = table["direction"] - table["direction"].mean()
    y = table[name] - table[name].mean()
    slope = float((x * y).sum() / (x * x).sum())

    return slope, float(np.sqrt(((y - slope * x) ** 2).sum() / (len(y) - 2) / (x * x).sum()))


@pytest.mark.slow
def test_reading_reports_earns_the_planted_drift_and_no_other_source_does(twin: Twin) -> None:
    signal = read_signal(twin)
    assert set(signal["class"]) == {"report", "rumour", "notice"}

    for kind, table in signal.groupby("kind"):
        effect = next(group.news_effect for group in GROUPS.values() if group.kind == kind)
        reports, rumours = (table[table["class"] == name] for name in ("report", "rumour"))
        slope, error = regress(reports, "after")
        assert abs(slope - effect) < 2 * error
        assert slope > 4 * error
        for others, name in ((reports, "before"), (rumours, "after"), (rumours, "before")):
            slope, error = regress(others, name)
            assert abs(slope) < 2.5 * error, (kind, name)


@pytest.mark.exhaustive
def test_prices_show_news_only_after_the_close_that_knows_them(twin: Twin) -> None:
    silent = make_twin(twin.name, TwinParams(first=FIRST, last=LAST, effect=0))
    assert [item.text for item in silent.documents] == [item.text for item in twin.market.documents]

    planted = np.zeros(silent.close.shape)
    groups = twin.truth["assets"].set_index("code")["group"]

    for code, day, effect, days in twin.truth["news"][
        ["code", "date", "effect", "days"]
    ].itertuples(index=False):
        own = np.flatnonzero(twin.truth["markets"][groups[code]].notna())
        session = np.searchsorted(own, silent.day_index(str(day.date()))) + 1
        planted[own[session : session + days], silent.asset_index[code]] += effect / days

    difference = np.log(twin.market.adjusted_close / silent.adjusted_close) - np.cumsum(
        planted, axis=0
    )

    assert np.nanmax(np.abs(difference)) < 0.01  # of a tick, in prices around one
    assert np.nanmedian(np.abs(difference)) < 2e-4

    # Each item is known after the close of the asset's session before, and by that of its own.
    table = twin.truth["news"].sort_values(["date", "code"])
    close = twin.market.documents.close
    known = {(item.assets[0], int(item.known_at.timestamp())) for item in twin.market.documents}

    assert len(known) == len(table)

    ends = sorted(
        (code, close.instant(np.datetime64(day, "D")) // 10**6)
        for code, day in table[["code", "date"]].to_numpy()
    )

    assert all(
        one == other and 0 < end - stamp < 23 * 3600
        for (one, stamp), (other, end) in zip(sorted(known), ends, strict=True)
    )


def wordings_of(part: object) -> Iterator[str]:
    """Every text of a tree of wordings."""
    if isinstance(part, str):
        yield part
    elif isinstance(part, dict):
        for value in part.values():
            yield from wordings_of(value)
    elif isinstance(part, list):
        for value in part:
            yield from wordings_of(value)


@pytest.mark.parametrize("wording", sorted(set(wordings_of(NEWS["wordings"]))))
def test_the_news_of_a_twin_give_a_code_in_brackets_only(wording: str) -> None:
    assert not re.search(r"(?<!\(){code}|{code}(?!\))", wording)


@pytest.mark.parametrize("name", ["deepfund", "arena", "views", "crypto"])
def test_masked_news_of_a_twin_name_no_code_of_their_market(name: str) -> None:
    params = ViewParams(**SHORT) if name == "views" else TwinParams(**SHORT)
    market = make_twin(name, params)
    lens = Lens(MaskConfig("blinded"), 1, market, 40)
    texts = TextMask(lens, market)
    day = len(market.days) - 1
    codes = re.compile(rf"(?<![A-Za-z])(?:{'|'.join(map(re.escape, market.codes))})(?![A-Za-z])")

    for document in not_empty(islice(market.documents, 150)):
        shown = texts.show(document, day)
        assert shown is not None
        assert not codes.search(str(lens.render(shown.title)) + str(lens.render(shown.text)))


@pytest.mark.slow
def test_a_run_needs_no_download_masks_the_news_and_its_card_verifies(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, terminal: Terminal
) -> None:
    monkeypatch.setenv("KTDEVAL_CACHE_DIR", str(tmp_path / "cache"))
    run = str(tmp_path / "run")
    dates = {"first": "2025-01-02", "last": "2025-09-30"}
    words = [
        "--model",
        "builtin/random",
        "--tasks",
        "market_news_blinded",
        "--data",
        "synthetic_mixed",
        "--quiet",
    ]
    words += ["--data-args", ",".join(f"{name}={day}" for name, day in dates.items())]

    assert main([*words, "--windows", "2025-08-01:2025-08-20", "--out", run]) == 0

    card = json.loads((tmp_path / "run" / "cards" / "market_news_blinded.json").read_text())
    assert "synthetic" in card["labels"]
    assert "verified" in terminal.out("card", "verify", run)

    # The model was shown news, and none of the words that give an asset away.
    [transcript] = (tmp_path / "run").glob("episodes/*/transcript.jsonl.zst")
    text = zstandard.ZstdDecompressor().stream_reader(transcript.read_bytes()).read().decode()
    market = make_twin("mixed", TwinParams(**dates))

    assert "Members of a forum say that asset_" in text

    names = [entity.text for entity in market.documents.entities]
    assert [word for word in (*market.codes, *names) if word in text] == []


@pytest.mark.parametrize(
    ("params", "says"),
    [
        (TwinParams(first="2025-08-01", last="2025-08-10"), "fewer than 40; choose a longer range"),
        (TwinParams(first="yesterday"), "is not a date"),
    ],
)
def test_a_range_that_holds_no_market_is_an_error(params: TwinParams, says: str) -> None:
    with pytest.raises(DataError, match=says):
        make_twin("mixed", params)
