"""Placebo markets: what stays of the source, what goes, and that nobody can select in them."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Mapping
from dataclasses import replace
from itertools import product
from pathlib import Path
from typing import Any, get_args

import numpy as np
import pandas as pd
import pytest
from placebo_check import DESCRIPTION, LIKENESS, books, describe, false_alpha, likeness, selection

from ktdeval.attribution.factor_returns import Fit, fit_factors
from ktdeval.errors import ConfigError, DataError
from ktdeval.market.snapshots.documents import Documents, Entity
from ktdeval.market.snapshots.manifest import snapshot_id, with_id
from ktdeval.market.snapshots.snapshot import FloatArray, MarketSnapshot
from ktdeval.market.snapshots.storage import load_snapshot, save_snapshot
from ktdeval.registry import load_plugins
from ktdeval.runner.plans.data_source import open_snapshot
from ktdeval.stats.resampling import Resampling
from ktdeval.stats.series import newey_west_mean
from ktdeval.testing import Terminal, on_each_row, small_market
from ktdeval.testing.markets import tiny_snapshot
from ktdeval_data import placebo as placebo_module
from ktdeval_data.params import Kind, PlaceboParams, SyntheticParams
from ktdeval_data.placebo import PlaceboRecipe, ResidualDraws, draw, placebo_of, regress, take_apart
from ktdeval_data.synthetic import make_synthetic
from ktdeval_raw_markets.checks.quality import check, raw_from_snapshot
from support.accept.accept_runs import card, evaluate, import_real, silently, verify
from support.tasks.ktdfin_market import FIRST, LAST

KINDS: tuple[Kind, ...] = get_args(Kind)
PRICES = ("open", "high", "low", "close")
LIMIT = {"main": 0.10, "chinext": 0.20, "star": 0.20, "bse": 0.30}
LONG = ("2024-01-02", "2026-04-10")


def recipe(kind: Kind, seed: int = 0, block_days: int | None = None) -> PlaceboRecipe:
    return PlaceboRecipe(kind, seed, block_days or (20 if kind == "block_bootstrap" else 1))


@pytest.fixture(scope="module")
def source() -> MarketSnapshot:
    """48 names, 310 days: all boards, suspensions, a split, a late listing, index changes."""
    return with_id(small_market())


@pytest.fixture(scope="module")
def placebos(source: MarketSnapshot) -> Mapping[Kind, MarketSnapshot]:
    return {kind: placebo_of(source, recipe(kind)) for kind in KINDS}


@pytest.fixture(scope="module")
def embedded() -> MarketSnapshot:
    return with_id(make_synthetic(SyntheticParams()))


def references(market: MarketSnapshot) -> FloatArray:
    """[T, N] the last close before each day in that day's terms."""
    return pd.DataFrame(market.adjusted_close).ffill().shift(1).to_numpy() / market.factor


# ---- what it is


@pytest.mark.exhaustive
def test_equal_parameters_give_the_same_market_and_others_another_one(
    source: MarketSnapshot, placebos: Mapping[Kind, MarketSnapshot]
) -> None:
    recipes = [recipe(kind, seed) for seed, kind in product((0, 1), KINDS)]
    recipes += [recipe("sign_flip", 0, 5), recipe("block_bootstrap", 0, 5)]
    ids = [snapshot_id(placebo_of(source, one)) for one in recipes]

    assert len(set(ids)) == len(recipes)
    assert ids[:3] == [snapshot_id(placebos[kind]) for kind in KINDS]


@pytest.mark.exhaustive
@pytest.mark.parametrize("kind", KINDS)
def test_data_that_is_not_generated_equals_the_source(
    kind: Kind, source: MarketSnapshot, placebos: Mapping[Kind, MarketSnapshot]
) -> None:
    # Its meta says placebo of which snapshot how and whether the source was synthetic.
    meta = placebos[kind].meta
    assert meta.name == f"small-placebo-{kind}-0"
    assert meta.source.startswith(f"placebo of snapshot {source.id}: {kind}, seed 0")
    assert meta.source.endswith(source.meta.source)
    assert meta.synthetic

    with_entity = Documents.of((), None, [Entity(source.codes[0], "product", "Feitian")])
    assert with_entity

    real = dataclasses.replace(
        source, meta=dataclasses.replace(source.meta, synthetic=False), documents=with_entity
    )
    of_real = placebo_of(real, recipe(kind))

    assert not of_real.meta.synthetic
    assert not of_real.documents

    # Calendar identities membership suspensions volumes factors and indices are the sources.
    made = placebos[kind]

    for name in ("days", "member", "volume", "factor"):
        np.testing.assert_array_equal(getattr(made, name), getattr(source, name))

    assert (made.codes, made.names, made.industries, made.index_names) == (
        source.codes, source.names, source.industries, source.index_names,
    )  # fmt: skip

    for code in source.indices:
        np.testing.assert_array_equal(made.indices[code], source.indices[code])

    for name in (*PRICES, "amount"):
        np.testing.assert_array_equal(
            np.isnan(getattr(made, name)), np.isnan(getattr(source, name))
        )

    # The first bar of an asset stays and later ones change.
    first = np.isfinite(source.close).argmax(axis=0)

    assert first.max() > 200  # one is listed late

    columns = np.arange(len(source.codes))

    for name in PRICES:
        np.testing.assert_array_equal(
            getattr(made, name)[first, columns], getattr(source, name)[first, columns]
        )

    assert np.nanmean(made.close[50:] == source.close[50:]) < 0.02


# ---- its bars


@pytest.mark.parametrize("kind", KINDS)
def test_bars_and_amounts_are_sound(
    kind: Kind, source: MarketSnapshot, placebos: Mapping[Kind, MarketSnapshot]
) -> None:
    # Bars are whole fen in order inside the limits and without errors.
    made = placebos[kind]
    bars = np.isfinite(made.close)
    prices = np.stack([getattr(made, name)[bars] for name in PRICES])
    np.testing.assert_allclose(prices, np.round(prices, 2), rtol=0, atol=1e-9)

    assert prices.min() > 0

    opens, highs, lows, closes = prices
    assert (highs >= np.maximum(opens, closes)).all()
    assert (lows <= np.minimum(opens, closes)).all()

    # Beyond a limit only where the source itself is.
    limit = np.array([LIMIT[board] for board in source.boards])
    own = references(source)[1:]
    there = references(made)[1:]
    reached = np.fmax.reduce([np.abs(getattr(source, name)[1:] / own - 1.0) for name in PRICES])
    moved = np.fmax.reduce([np.abs(getattr(made, name)[1:] / there - 1.0) for name in PRICES])
    free = reached > limit

    assert 0 < free[bars[1:]].mean() < 0.2
    assert (moved <= limit + 1e-9)[bars[1:] & ~free & np.isfinite(there)].all()
    assert (moved <= reached + 1e-9)[bars[1:] & free & np.isfinite(there)].all()
    assert not [finding for finding in check(raw_from_snapshot(made)) if finding.level == "error"]

    # Amounts follow prices and stay inside the bar.
    average = made.amount[bars] / made.volume[bars]
    assert (average >= made.low[bars] - 1e-6).all()
    assert (average <= made.high[bars] + 1e-6).all()
    assert (
        np.nanmedian(
            np.abs(made.amount[bars] / source.amount[bars] - made.close[bars] / source.close[bars])
        )
        < 0.02
    )


@pytest.mark.exhaustive
def test_adjusted_prices_are_in_ticks_and_still_marked_as_adjusted(
    source: MarketSnapshot,
) -> None:
    meta = dataclasses.replace(source.meta, has_factor=False)
    adjusted = {name: getattr(source, name) * source.factor * 0.3571 for name in PRICES}
    made = placebo_of(
        dataclasses.replace(source, meta=meta, factor=np.ones_like(source.factor), **adjusted),
        recipe("sign_flip"),
    )

    assert not made.meta.has_factor

    closes = made.close[1:, np.isfinite(source.close[0])]  # first bars are the source's
    np.testing.assert_allclose(closes, np.round(closes, 4), rtol=0, atol=1e-9)

    assert np.nanmean(closes == np.round(closes, 2)) < 0.1


# ---- nobody can know: the heart of it


@pytest.mark.exhaustive
@pytest.mark.parametrize("kind", KINDS)
def test_flipping_a_days_signs_flips_its_residuals_and_nothing_earlier(
    kind: Kind, source: MarketSnapshot, monkeypatch: pytest.MonkeyPatch
) -> None:
    """So with fair signs the mean of every residual is zero, whatever is known of the source and of
    the days before.
    """
    row = 280

    def made(turned: bool) -> MarketSnapshot:
        def drawn(*words: Any) -> ResidualDraws:
            draws = draw(*words)
            sign = draws.sign.copy()
            sign[row - 1 :] *= -1.0 if turned else 1.0
            return replace(draws, sign=sign)

        monkeypatch.setattr(placebo_module, "draw", drawn)
        return placebo_of(source, recipe(kind, 5))

    one = made(False)
    other = made(True)
    for name in (*PRICES, "amount"):
        np.testing.assert_array_equal(getattr(one, name)[:row], getattr(other, name)[:row])

    changed = np.isfinite(one.close[row]) & np.isfinite(one.close[row - 1])
    fits = [fit_factors(market, row, row, "paper") for market in (one, other)]
    turned = fits[0].residuals[0] + fits[1].residuals[0]
    sizes = np.abs(fits[0].residuals[0])[changed]
    fen = (0.01 / one.close[row - 1])[changed]

    assert np.median(sizes) > 10 * np.median(fen)
    assert (np.abs(turned[changed]) < 2 * fen + 0.03 * sizes.mean()).all()


@pytest.mark.exhaustive
@pytest.mark.parametrize("kind", ["sign_flip", "shuffle"])
def test_no_later_day_of_the_source_enters(
    kind: Kind, source: MarketSnapshot, placebos: Mapping[Kind, MarketSnapshot]
) -> None:
    stop = 270
    grids = {
        name: getattr(source, name)[:stop]
        for name in ("days", *PRICES, "volume", "amount", "factor", "member")
    }
    indices = {code: levels[:stop] for code, levels in source.indices.items()}
    cut = placebo_of(dataclasses.replace(source, **grids, indices=indices), recipe(kind))

    for name in (*PRICES, "amount"):
        np.testing.assert_array_equal(getattr(cut, name), getattr(placebos[kind], name)[:stop])


def test_regression_with_too_few_assets_falls_back_to_the_weighted_mean() -> None:
    design = np.array([[1.0, 1.0, 1.0, 1.0], [0.0, 1.0, 2.0, 9.0]])
    values = np.array([[1.0, 3.0, 5.0, 100.0], [2.0, 2.0, 2.0, 2.0]])
    weights = np.array([1.0, 2.0, 1.0, 0.0])

    assert regress(design, weights, values) == pytest.approx(
        np.array([[1.0, 2.0], [2.0, 0.0]]), abs=1e-12
    )

    two = np.array([1.0, 3.0, 0.0, 0.0])
    assert regress(design, two, values) == pytest.approx(
        np.array([[2.5, 0.0], [2.0, 0.0]]), abs=1e-12
    )
    assert regress(design, np.zeros(4), values).tolist() == [[0.0, 0.0], [0.0, 0.0]]


def test_signs_are_fair_and_of_one_asset_and_day_or_of_a_whole_day(source: MarketSnapshot) -> None:
    parts = take_apart(source)
    flipped = draw(recipe("sign_flip"), parts.fit.has_return, source.boards, 250)

    assert abs(flipped.sign.mean()) < 4 / np.sqrt(flipped.sign.size)
    assert set(np.unique(flipped.sign)) == {-1.0, 1.0}
    assert abs((flipped.sign[1:] * flipped.sign[:-1]).mean()) < 4 / np.sqrt(flipped.sign.size)

    np.testing.assert_array_equal(
        flipped.asset, np.broadcast_to(np.arange(48), flipped.asset.shape)
    )
    blocks = draw(recipe("sign_flip", 0, 5), parts.fit.has_return, source.boards, 250).sign
    np.testing.assert_array_equal(blocks[:5], np.broadcast_to(blocks[0], (5, 48)))

    assert (blocks[4] != blocks[5]).any()

    for kind in ("block_bootstrap", "shuffle"):
        sign = draw(recipe(kind), parts.fit.has_return, source.boards, 250).sign
        np.testing.assert_array_equal(sign, np.broadcast_to(sign[:, :1], sign.shape))
        assert abs(sign[:, 0].mean()) < 4 / np.sqrt(len(sign))


def test_a_shuffle_permutes_the_assets_of_a_board_that_traded(source: MarketSnapshot) -> None:
    parts = take_apart(source)
    drawn = draw(recipe("shuffle"), parts.fit.has_return, source.boards, 250)
    boards = np.array([str(board) for board in source.boards])

    for day in range(0, len(drawn.day), 7):
        there = np.flatnonzero(parts.fit.has_return[day])
        np.testing.assert_array_equal(np.sort(drawn.asset[day, there]), there)
        assert (boards[drawn.asset[day, there]] == boards[there]).all()

    np.testing.assert_array_equal(
        drawn.day, np.broadcast_to(np.arange(len(drawn.day))[:, None], drawn.day.shape)
    )

    assert (drawn.asset != np.arange(48)).mean() > 0.8


def test_a_block_bootstrap_draws_whole_days_and_substitutes_within_a_board(
    source: MarketSnapshot,
) -> None:
    parts = take_apart(source)
    drawn = draw(recipe("block_bootstrap", 1), parts.fit.has_return, source.boards, 250)
    days = drawn.day[:, 0]
    np.testing.assert_array_equal(drawn.day, np.broadcast_to(days[:, None], drawn.day.shape))

    # what styles can't explain yet stays among itself
    assert days[:250].max() < 250 <= days[250:].min()
    assert 0.9 < (np.diff(days) == 1).mean() < 1.0

    wanted = parts.fit.has_return
    own = np.arange(48)
    there = parts.fit.has_return[drawn.day, own]
    boards = np.array([str(board) for board in source.boards])
    np.testing.assert_array_equal(
        drawn.asset[there], np.broadcast_to(own, drawn.asset.shape)[there]
    )
    substituted = wanted & ~there

    assert substituted.sum() > 50
    assert parts.fit.has_return[drawn.day[substituted], drawn.asset[substituted]].all()
    assert (boards[drawn.asset] == boards)[substituted].mean() > 0.99


# ---- what is kept, what is destroyed


def with_extra_returns(market: MarketSnapshot, extra: FloatArray) -> MarketSnapshot:
    """The market with [T, N] returns multiplied onto its prices."""
    growth = np.cumprod(1.0 + extra, axis=0)
    return with_id(
        dataclasses.replace(
            market, **{name: np.round(getattr(market, name) * growth, 2) for name in PRICES}
        )
    )


@pytest.fixture(scope="module")
def remembering(embedded: MarketSnapshot) -> MarketSnapshot:
    """The embedded market with residuals that go on the next day by a tenth of their size:
    selection for who follows them.
    """
    fit = fit_factors(embedded, 1, len(embedded.days) - 1, "paper")
    extra = np.zeros(embedded.close.shape)
    extra[2:] = 0.1 * fit.residuals[:-1] * fit.has_return[1:]

    return with_extra_returns(embedded, extra)


@pytest.fixture(scope="module")
def forgetting(remembering: MarketSnapshot) -> Mapping[Kind, MarketSnapshot]:
    return {kind: placebo_of(remembering, recipe(kind)) for kind in KINDS}


@pytest.fixture(scope="module")
def before(remembering: MarketSnapshot) -> Mapping[str, float]:
    return describe(remembering, remembering.day_index(LONG[0]))


@pytest.mark.exhaustive
@pytest.mark.parametrize("kind", KINDS)
def test_path_styles_and_clustering_stay_and_memory_of_residuals_goes(
    kind: Kind,
    remembering: MarketSnapshot,
    before: Mapping[str, float],
    forgetting: Mapping[Kind, MarketSnapshot],
) -> None:
    first = remembering.day_index(LONG[0])
    alike = likeness(remembering, forgetting[kind], first)
    after = describe(forgetting[kind], first)

    assert list(after) == list(DESCRIPTION)
    assert list(alike)[: len(LIKENESS)] == list(LIKENESS)
    # Kept.
    assert alike["benchmark"] == pytest.approx(1.0)
    assert min(alike["members"], alike["common"], alike["style"]) > 0.998

    for name in (
        "dispersion_pct",
        "residual_volatility_pct",
        "explained_share",
        "exposure_memory_20d",
    ):
        assert after[name] == pytest.approx(before[name], rel=0.12), name

    assert after["tracking_pct"] == pytest.approx(before["tracking_pct"], rel=0.02)
    assert after["size_memory_1d"] > 0.35 * before["size_memory_1d"]

    least_volatility, least_dispersion = {
        "sign_flip": (0.95, 0.95),
        "block_bootstrap": (0.8, 0.5),
        "shuffle": (0.0, 0.95),
    }[kind]
    assert alike["volatility_of_assets"] > least_volatility
    assert alike["dispersion"] > least_dispersion

    if kind == "block_bootstrap":
        correlation = before["industry_correlation"]
        assert after["industry_correlation"] == pytest.approx(correlation, rel=0.15)

    # Destroyed.
    assert before["residual_memory_1d"] > 0.08
    assert abs(after["residual_memory_1d"]) < 0.02
    assert before["residual_variance_ratio_20d"] > 1.08
    assert after["residual_variance_ratio_20d"] == pytest.approx(1.0, abs=0.06)
    assert abs(alike["residuals"]) < 0.05


def long_fit(market: MarketSnapshot) -> Fit:
    return fit_factors(market, market.day_index(LONG[0]), market.day_index(LONG[1]), "paper")


@pytest.mark.exhaustive
def test_following_residuals_selects_on_the_source_but_not_on_placebos(
    remembering: MarketSnapshot, forgetting: Mapping[Kind, MarketSnapshot]
) -> None:
    def t_of_followers(market: MarketSnapshot) -> float:
        fit = long_fit(market)
        mean, error = newey_west_mean(selection(books(fit, 0)["residual_winners"], fit))
        return mean / error

    assert t_of_followers(remembering) > 5.0
    assert all(abs(t_of_followers(market)) < 3.0 for market in forgetting.values())


@pytest.mark.exhaustive
def test_selection_intervals_find_false_alpha_at_their_stated_level(
    embedded: MarketSnapshot,
) -> None:
    """A placebo of each kind, five books, twelve windows of 43 days; nominal: one interval in
    twenty leaves out zero.
    """
    rates = []
    counts = []

    for number, kind in enumerate(KINDS):
        fit = long_fit(placebo_of(embedded, recipe(kind, number)))
        series = {name: selection(weights, fit) for name, weights in books(fit, number).items()}
        books_alpha = false_alpha(series, 43, Resampling(seed=number))
        rates += [alpha.rate for alpha in books_alpha.values()]
        counts += [alpha.intervals for alpha in books_alpha.values()]

    assert sum(counts) == 3 * 5 * 12
    assert np.average(rates, weights=counts) == pytest.approx(0.05, abs=0.03)


# ---- through the command line and the real runner


@pytest.fixture(scope="module")
def stored(source: MarketSnapshot, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("placebo") / "small"
    save_snapshot(source, folder)
    return folder


@pytest.mark.exhaustive
def test_a_placebo_is_built_with_a_file_that_describes_it(
    stored: Path, source: MarketSnapshot, tmp_path: Path, terminal: Terminal
) -> None:
    words = ["data", "make", "placebo", "--of", str(stored), "--out", str(tmp_path / "p")]
    words += ["--kind", "block_bootstrap", "--seed", "4"]

    assert "small-placebo-block_bootstrap-4" in terminal.out(*words)

    facts = json.loads((tmp_path / "p" / "placebo.json").read_text())
    assert facts == {
        "placebo_of": source.id,
        "name": "small",
        "kind": "block_bootstrap",
        "seed": 4,
        "block_days": 20,
        "version": 1,
        "alpha": 0,
    }

    made = load_snapshot(tmp_path / "p")
    args = {"of": str(stored), "kind": "block_bootstrap", "seed": 4}

    assert open_snapshot(load_plugins(), "placebo", args).id == made.id
    assert silently(["data", "check", str(tmp_path / "p")]) == 0


@pytest.mark.exhaustive
@pytest.mark.parametrize(
    ("args", "block_days", "alpha"),
    [
        ({"kind": "sign_flip"}, 1, 0),
        ({"kind": "sign_flip", "block_days": 5}, 5, None),
        ({"kind": "shuffle"}, None, 0),
    ],
)
def test_the_file_claims_no_alpha_only_where_that_is_so_by_construction(
    args: dict[str, Any], block_days: int | None, alpha: int | None, stored: Path
) -> None:
    _, files = placebo_module.make_with_files(PlaceboParams(of=str(stored), **args))
    facts = json.loads(files["placebo.json"])
    assert (facts["block_days"], facts["alpha"]) == (block_days, alpha)


@pytest.mark.exhaustive
def test_without_a_source_it_is_a_placebo_of_the_embedded_market(
    source: MarketSnapshot, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[SyntheticParams] = []
    monkeypatch.setattr(
        placebo_module, "make_synthetic", lambda params: asked.append(params) or source
    )
    made = load_plugins().make_snapshot("placebo", {})

    assert asked == [SyntheticParams()]
    assert made.meta.name == "small-placebo-sign_flip-0"
    assert made.meta.source.startswith(
        f"placebo of snapshot {source.id}: sign_flip, seed 0, block days 1, version 1; "
    )


@pytest.mark.exhaustive
def test_a_model_runs_on_a_placebo_and_the_card_tells(
    stored: Path, source: MarketSnapshot, tmp_path: Path
) -> None:
    data = ("--data", "placebo", "--data-args", f"of={stored},kind=shuffle,seed=2")
    words = (*data, "--windows", f"{FIRST}:{LAST}")
    run = evaluate(tmp_path / "run", "builtin/momentum", ["blinded_open_research"], *words)
    verify(run.path)
    content = card(run, "blinded_open_research")

    assert content["snapshot"]["name"] == "small-placebo-shuffle-2"
    assert content["snapshot"]["source"].startswith(
        f"placebo of snapshot {source.id}: shuffle, seed 2"
    )
    assert content["orders"]["filled"] > 0


@pytest.fixture(scope="module")
def real(shared_data: Path, tmp_path_factory: pytest.TempPathFactory) -> MarketSnapshot:
    return load_snapshot(import_real(shared_data, tmp_path_factory.mktemp("real") / "csi300"))


@pytest.mark.shared_data
def test_a_placebo_of_the_real_market_is_a_sound_market_with_the_same_path(
    real: MarketSnapshot,
) -> None:
    first = real.day_index(LONG[0])
    before = describe(real, first)
    problems = kinds_of_problems(real)

    for kind in KINDS:
        made = placebo_of(real, recipe(kind))
        assert not made.meta.synthetic
        assert made.meta.source.startswith(f"placebo of snapshot {real.id}")
        assert kinds_of_problems(made) <= problems
        alike = likeness(real, made, first)
        after = describe(made, first)
        assert min(alike["members"], alike["common"], alike["style"]) > 0.998
        assert after["tracking_correlation"] == pytest.approx(
            before["tracking_correlation"], abs=0.005
        )
        assert abs(after["residual_memory_1d"]) < 0.02


def kinds_of_problems(market: MarketSnapshot) -> set[str]:
    return {finding.rule for finding in check(raw_from_snapshot(market)) if finding.level != "note"}


# ---- bad input


@on_each_row(
    "args, message",
    (
        "of=nowhere",
        (
            "of='nowhere' is neither 'synthetic' nor the folder of a stored snapshot; `ktdeval "
            "data make` makes one"
        ),
    ),
    ("of=sinthetic", "did you mean 'synthetic'"),
    ("kind=flip", "expected one of sign_flip, block_bootstrap, shuffle, was 'flip'"),
    ("kind=shuffle,block_days=5", "kind shuffle has no blocks; leave block_days out"),
    ("block_days=0", "expected a value of at least 1"),
    ("seed=-1", "expected a value of at least 0"),
)
def test_bad_parameters_are_one_clear_line(
    args: str, message: str, tmp_path: Path, terminal: Terminal, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    assert message in terminal.refusal("data", "make", "placebo", "--set", args, "--out", "out")
    assert list(tmp_path.iterdir()) == []


def test_a_market_too_short_is_refused_and_a_handful_of_names_is_enough(
    source: MarketSnapshot,
) -> None:
    # A market too short is refused by name.
    with pytest.raises(DataError, match="placebo of tiny: it has fewer than two trading days"):
        placebo_of(tiny_snapshot({"609001.SH": [10.0]}), recipe("sign_flip"))

    with pytest.raises(DataError, match=r"rows from 300 on are no 60 days"):
        describe(source, 300)

    with pytest.raises(DataError, match="has other days or assets than small"):
        likeness(source, tiny_snapshot({"609001.SH": [10.0, 10.1]}), 1)

    with pytest.raises(DataError, match="no window of 43 days has an interval"):
        false_alpha({"random": np.ones(30)}, 43, Resampling())

    # Two days and a handful of names are market enough.
    made = placebo_of(
        tiny_snapshot({"609001.SH": [10.0, 10.5], "609002.SH": [20.0, None]}),
        recipe("block_bootstrap"),
    )

    assert made.close[1, 0] > 0
    assert np.isnan(made.close[1, 1])

    # Block days of a shuffle are refused in code as well.
    with pytest.raises(ConfigError, match="has no blocks"):
        placebo_module.make_with_files(PlaceboParams(kind="shuffle", block_days=3))
