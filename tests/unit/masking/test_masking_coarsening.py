"""Rounding and noise change what is shown and nothing else: the same value twice is shown the same
twice, orders stay exact.
"""

from __future__ import annotations

import json
import math
from itertools import pairwise
from typing import Any

import numpy as np
import pytest
from hypothesis import given, strategies as st
from scipy import stats

from ktdeval.errors import ConfigError
from ktdeval.harness.agent import HarnessConfig
from ktdeval.harness.submissions.action import ActionForm
from ktdeval.masking.aliases_and_noise import WICK_SD, WICK_SHIFT, Noise, round_significant
from ktdeval.masking.leak_guard import LeakGuard
from ktdeval.masking.lens import Lens
from ktdeval.masking.mask_config import MASK_KINDS, MaskConfig
from ktdeval.masking.payload_types import (
    AssetRef,
    DayRef,
    IndexLevel,
    MarketFigure,
    OwnFigure,
    Price,
    Shares,
)
from ktdeval.testing import not_empty, small_market
from ktdeval.trading.types import Account, Position
from ktdeval.values import build, derive_seed, to_mapping
from ktdeval_ktdfin.market_day import FACTOR_NAMES, MEASURE_NAMES
from ktdeval_ktdfin.step_view import EpisodeStage
from ktdeval_ktdfin.task import KtdfinScene
from ktdeval_ktdfin.tools import (
    compare_candidates,
    get_market_context,
    get_stock_snapshot,
    portfolio_state,
    screen_candidates,
)
from support.masking.masked_payloads import Masked, drawn, table
from support.masking.masking_market import BASE_ROW, CODES, INDEX_CODE, MARKET as NAMED
from support.searching import examples
from support.tasks.ktdfin_market import poisoned
from support.tasks.ktdfin_play import PLUGINS, Play, trades

MARKET = small_market()
BASE = 262
SUSPENDED = (5, len(MARKET.days) - 12)  # an asset and a day within its eight days without a bar
COARSE = [
    MaskConfig(round_digits=3),
    MaskConfig(round_digits=1),
    MaskConfig(noise_pct=1.0),
    MaskConfig(round_digits=2, noise_pct=0.5),
    MaskConfig(rebase_prices=True, round_digits=3, noise_pct=2.0),
]
coarse_masks = pytest.mark.parametrize("mask", COARSE, ids=repr)


def masked(mask: MaskConfig, base: int = BASE, seed: int = 1, market: Any = MARKET) -> Masked:
    return Masked(market, mask, base, seed)


def lens_of(seed: int = 1, **options: Any) -> Lens:
    return Lens(MaskConfig("blinded", **options), seed, NAMED, BASE_ROW)


def all_shown(of: Masked, row: int, account: Account | None = None) -> dict[str, Any]:
    """What five tools show on a day."""
    step = of.step(row, account)
    names = [*MEASURE_NAMES, *FACTOR_NAMES]

    return {
        "context": of.shown(get_market_context(step)),
        "screen": of.shown(screen_candidates(step, ["SKEW", "return_5d_pct"], 30)),
        "snapshot": of.shown(get_stock_snapshot(step, 4, 30)),
        "compare": of.shown(compare_candidates(step, list(range(0, 48, 5)), names)),
        "portfolio": of.shown(portfolio_state(step)),
    }


# ---- the options


@pytest.mark.parametrize(
    "options", [{"round_digits": 0}, {"round_digits": 7}, {"noise_pct": -0.1}, {"noise_pct": 51.0}]
)
def test_options_out_of_range_are_refused(options: dict[str, Any]) -> None:
    (name,) = options
    with pytest.raises(ConfigError, match=f"^{name}: expected"):
        MaskConfig(**options)

    with pytest.raises(ConfigError, match=name):
        build(MaskConfig, options, "task")


def test_the_options_are_part_of_the_config_and_nothing_by_default() -> None:
    plain = {"kind": "blinded", "rebase_prices": False, "round_digits": None, "noise_pct": 0.0}
    assert to_mapping(MaskConfig()) == plain
    assert build(MaskConfig, {"round_digits": 3, "noise_pct": 1}, "task") == MaskConfig(
        round_digits=3, noise_pct=1.0
    )

    with pytest.raises(ConfigError, match=r"noise_pct: expected 0 … 50 per cent, was nan"):
        MaskConfig(noise_pct=math.nan)


# ---- the default shows the bytes that it always showed


@examples(40)
@given(value=st.floats() | st.floats(-1e7, 1e7) | st.integers(-(10**9), 10**9))
def test_typed_figures_render_as_the_plain_numbers_by_default(value: float) -> None:
    lens = lens_of()
    asset = AssetRef(2)
    for figure in (
        asset.figure(value, "SKEW", 3),
        asset.change_pct(value, 5, 4),
        DayRef(3).figure(value),
        MarketFigure(value),
    ):
        assert lens.render_text(figure) == lens.render_text(value)

    assert lens.render_text(Price(2, value, 3, "high")) == lens.render_text(Price(2, value))


# ---- rounding


def significant(number: float) -> int:
    digits = f"{abs(number):.12e}".split("e")[0].replace(".", "").rstrip("0")
    return max(1, len(digits))


@pytest.mark.parametrize("digits", [1, 2, 3, 4])
@pytest.mark.parametrize("rebase", [False, True])
def test_every_market_number_has_at_most_so_many_digits(digits: int, rebase: bool) -> None:
    mask = MaskConfig("stock_blind", rebase_prices=rebase, round_digits=digits)
    shown = all_shown(masked(mask), BASE + 9)
    snapshot = shown["snapshot"]
    context = shown["context"]
    numbers = [
        *snapshot["factors"].values(),
        snapshot["prev_close_cny"],
        snapshot["last_close_cny"],
    ]
    numbers += snapshot["next_open_limits"].values()

    for row in (
        *table(snapshot["bars"]),
        *table(shown["compare"]["grid"]),
        *table(context["indices"]),
    ):
        numbers += [value for value in row.values() if isinstance(value, int | float)]

    for row in (
        *table(context["sectors"]["strongest_20d"]),
        *table(context["sectors"]["weakest_20d"]),
    ):
        numbers += [value for name, value in row.items() if name.endswith("_pct")]

    for row in table(shown["screen"]["candidates"]):
        numbers += [row["close_cny"], row["SKEW"]]

    numbers += [context["breadth"]["median_return_1d_pct"], context["breadth"]["amount_cny"]]
    numbers += [
        value
        for name, value in shown["portfolio"]["performance"].items()
        if name.startswith("benchmark")
    ]

    assert len(numbers) > 300
    assert max(significant(number) for number in numbers if number is not None) == digits


@examples(40)
@given(value=st.floats(-1e9, 1e9), digits=st.integers(1, 6))
def test_rounding_is_to_the_nearest(value: float, digits: int) -> None:
    rounded = round_significant(value, digits)
    assert abs(rounded - value) <= 0.5000001 * 10.0 ** (
        math.floor(math.log10(abs(value) or 1)) - digits + 1
    )
    assert round_significant(rounded, digits) == rounded


def test_shown_prices_are_rounded_and_undefined_values_stay_null() -> None:
    lens = lens_of(rebase_prices=True, round_digits=2)
    close = float(NAMED.close[BASE_ROW, 0])
    shares = round_significant(3 * close * close, 2)

    assert lens.render([Price(0, close), Price(0, close * 1.2345), Shares(0, 300 * close, 3)]) == [
        100,
        120,
        shares,
    ]
    assert lens.render(OwnFigure(1.2345)) == 1.2

    lens = lens_of(round_digits=2, noise_pct=1.0)
    assert lens.render(OwnFigure(1.2345)) == 1.2345

    values = [
        Price(0, math.nan, 3),
        Shares(0, math.inf, 3),
        AssetRef(0).figure(math.nan, "SKEW", 3),
        DayRef(3).figure(math.inf),
    ]

    assert lens.render([*values, IndexLevel(INDEX_CODE, math.nan)]) == [None] * 5

    # it has no bar before row 260
    snapshot = masked(MaskConfig(noise_pct=1.0, round_digits=2), base=250).snapshot(256, 7)
    assert snapshot["last_close_cny"] is None
    assert snapshot["bars"]["rows"] == []
    assert set(snapshot["factors"].values()) == {None}


def test_a_price_that_is_a_multiple_of_another_is_one_of_the_shown_price() -> None:
    """Else each multiple, rounded at another place, would tell a further digit of it."""
    lens = lens_of(round_digits=2)

    assert lens.render(Price(0, 10.46, 3, times=1.095)) == 11  # 10 * 1.095; 10.46 * 1.095 is 11.45
    assert lens.render(Price(0, 10.44, 3, times=1.195)) == 12  # 10 * 1.195; 10.44 * 1.195 is 12.48
    assert lens_of().render(Price(0, 10.46, 3, times=1.1)) == pytest.approx(11.506)


# ---- what stays exact


@coarse_masks
@pytest.mark.parametrize("day", [BASE, BASE + 9], ids=["first day", "tenth day"])
def test_account_agrees_with_shown_prices_and_exact_shares_unless_rebased(
    mask: MaskConfig, day: int
) -> None:
    """What a holding is worth follows from its shares and its shown close: a value in true money
    would tell the price.
    """
    account = Account(123_456_700, {4: Position(1200, 100), 7: Position(500)})
    shown = all_shown(masked(mask), day, account)["portfolio"]
    held = {row["shares"]: row for row in table(shown["positions"])}
    digits = 1e-5

    if mask.rebase_prices and mask.round_digits:
        digits = 0.51 * 10.0 ** (1 - mask.round_digits)

    for position in held.values():
        assert position["value_cny"] == pytest.approx(
            position["shares"] * position["last_close_cny"], rel=3 * digits
        )

    nav = shown["account"]["cash_cny"] + sum(position["value_cny"] for position in held.values())

    assert shown["account"]["nav_cny"] == pytest.approx(
        nav, rel=5e-3 if mask.rebase_prices else 1e-5
    )

    if not mask.rebase_prices:
        assert held.keys() == {1200, 500}
        assert {row["locked_shares"] for row in held.values()} == {100, 0}
        assert shown["account"]["cash_cny"] == pytest.approx(1_234_567, rel=1e-5)


@examples(40)
@given(asset=st.integers(0, len(CODES) - 1), shares=st.integers(1, 90_000), rebase=st.booleans())
def test_shares_ordered_come_back_as_written(asset: int, shares: int, rebase: bool) -> None:
    lens = lens_of(rebase_prices=rebase, round_digits=None if rebase else 2, noise_pct=2.0)
    shown = json.loads(lens.render_text(Shares(asset, shares)))
    order = {
        "stock_id": lens.asset_handle(asset),
        "side": "BUY",
        "confidence": 0.5,
        "reason": "a reason of its own",
        "shares": shown,
    }
    reading = (
        ActionForm(HarnessConfig(), lens)
        .read(json.dumps({"orders": [order], "overall_reason": "as shown above"}))
        .submission
    )

    assert reading.action is not None
    assert reading.action[0].shares == shares


class CoarseTask:
    """A task of the suite under other options of its mask."""

    def __init__(self, name: str, mask: MaskConfig) -> None:
        task = PLUGINS.make_task(name)
        self.name, self.mask, self.mode, self.tools = task.name, task.mask, task.mode, task.tools
        self.harness, self.trading, self._config, self._options = (
            task.harness,
            task.trading,
            task._config,
            mask,
        )

    def scene(self, spec: Any, market: Any) -> KtdfinScene:
        # the numbers are the same under every kind: one seed for all
        lens = Lens(self._options, 1, market, BASE)
        stage = EpisodeStage.open(market, lens, (self.harness, self.trading))
        return KtdfinScene(self._config, lens, stage, "The episode ends.")


@pytest.mark.parametrize(
    ("mask", "mode"),
    [
        *((mask, "open_research") for mask in COARSE),
        (COARSE[0], "fixed_candidate"),
        (COARSE[-1], "fixed_candidate"),
    ],
)
def test_an_episode_runs_and_settles_on_the_true_market(mask: MaskConfig, mode: str) -> None:
    play = Play(CoarseTask(f"blinded_{mode}", mask), PLUGINS.make_model("builtin/momentum"), MARKET)
    play.run(6)
    n_filled = 0

    for record in play.records:
        filled = [order for order in record.orders if order.status == "filled"]
        n_filled += len(filled)
        for order in filled:
            row = MARKET.day_index(record.filled_on)
            true_open = MARKET.open[row, MARKET.asset_index[order.code]]
            assert order.price_ticks == round(true_open * 10_000)

    assert n_filled >= 5


@pytest.mark.slow
@pytest.mark.parametrize("mask", [MaskConfig(round_digits=2), MaskConfig(noise_pct=2.0)])
def test_a_model_that_looks_at_no_label_trades_alike_under_all_four_kinds(mask: MaskConfig) -> None:
    """Handles and numbers are hidden independently: with one mask seed, the numbers are the same
    under every kind.
    """
    played = []

    for kind in MASK_KINDS:
        options = MaskConfig(kind, mask.rebase_prices, mask.round_digits, mask.noise_pct)
        play = Play(
            CoarseTask(f"{kind}_open_research", options),
            PLUGINS.make_model("builtin/reversal"),
            MARKET,
        )
        played.append(trades(play.run(5)))

    assert played[0]
    assert all(one == played[0] for one in played[1:])


# ---- noise


@coarse_masks
def test_a_value_shown_twice_is_the_same_and_the_tools_agree_about_it(mask: MaskConfig) -> None:
    of = masked(mask)
    row = BASE + 5

    assert all_shown(of, row) == all_shown(of, row)

    # A bar seen on one day and on a later one, while its handle stays.
    earlier = {bar["day"]: bar for bar in table(of.snapshot(row, 4, 20)["bars"])}
    later = {bar["day"]: bar for bar in table(of.snapshot(BASE + 9, 4, 20)["bars"])}
    shared = earlier.keys() & later.keys()

    assert len(shared) >= 14
    assert all(earlier[day] == later[day] for day in shared)

    compared = table(
        of.shown(compare_candidates(of.step(row), [4], [*MEASURE_NAMES, *FACTOR_NAMES]))["grid"]
    )[0]
    snapshot = of.snapshot(row, 4)
    bars = table(snapshot["bars"])

    assert snapshot["last_close_cny"] == compared["close_cny"] == bars[-1]["close_cny"]
    assert snapshot["prev_close_cny"] == bars[-2]["close_cny"]
    assert {name: compared[name] for name in snapshot["factors"]} == snapshot["factors"]
    assert snapshot["factors"]["return_1d_pct"] == bars[-1]["return_pct"]


def test_figures_of_a_suspended_stock_count_from_its_last_bar() -> None:
    asset, row = SUSPENDED
    of = masked(MaskConfig(noise_pct=2.0), base=row - 3)
    snapshot = of.snapshot(row, asset, 20)

    assert snapshot["status"] == "suspended"
    assert (
        snapshot["last_close_cny"]
        == snapshot["prev_close_cny"]
        == table(snapshot["bars"])[-1]["close_cny"]
    )

    compared = of.shown(compare_candidates(of.step(row), [asset], ["SKEW"]))["grid"]
    assert table(compared)[0]["close_cny"] == snapshot["last_close_cny"]

    row = len(MARKET.days) - 8  # five days back it was suspended
    snapshot = masked(MaskConfig(noise_pct=2.0), base=row - 3).snapshot(row, asset, 20)
    bars = table(snapshot["bars"])
    before = next(
        bar for bar, after in pairwise(bars) if int(after["day"][4:]) - int(bar["day"][4:]) > 7
    )
    expected = (snapshot["last_close_cny"] / before["close_cny"] - 1) * 100

    assert snapshot["factors"]["return_5d_pct"] == pytest.approx(expected, abs=0.02)


@pytest.mark.parametrize(("row", "asset"), [(BASE + 5, 4), (BASE + 8, 11), (BASE + 20, 20)])
def test_noisy_returns_follow_from_noisy_prices(row: Any, asset: int) -> None:
    of = masked(MaskConfig(noise_pct=2.0))
    for before, bar in not_empty(pairwise(table(of.snapshot(row, asset, 30)["bars"]))):
        assert bar["return_pct"] == pytest.approx(
            (bar["close_cny"] / before["close_cny"] - 1) * 100, abs=0.02
        )


def test_noise_differs_by_seed_asset_and_day_and_has_the_size_asked_for() -> None:
    closes = {}
    for seed in (1, 2):
        for asset in (4, 11):
            bars = table(
                masked(MaskConfig(noise_pct=1.0), seed=seed).snapshot(BASE + 5, asset, 120)["bars"]
            )
            true = table(masked(MaskConfig(), seed=seed).snapshot(BASE + 5, asset, 120)["bars"])
            closes[seed, asset] = [
                math.log(bar["close_cny"] / other["close_cny"])
                for bar, other in zip(bars, true, strict=True)
            ]

    for noise in closes.values():
        assert np.std(noise) == pytest.approx(0.01, rel=0.25)
        assert abs(np.mean(noise)) < 0.004
        assert len(set(np.round(noise, 8))) > 100

    keys = list(closes)
    for one, other in ((keys[0], keys[1]), (keys[0], keys[2]), (keys[1], keys[3])):
        length = min(len(closes[one]), len(closes[other]))
        assert abs(np.corrcoef(closes[one][:length], closes[other][:length])[0, 1]) < 0.35


@pytest.mark.parametrize(("row", "asset"), [(BASE + 5, 4), (BASE + 30, 20)])
def test_noisy_bars_keep_their_order(row: int, asset: int) -> None:
    bars = table(masked(MaskConfig(noise_pct=10.0)).snapshot(row, asset, 120)["bars"])
    for bar in not_empty(bars):
        low, *inside, high = (bar[f"{part}_cny"] for part in ("low", "open", "close", "high"))
        assert low <= min(inside) <= max(inside) <= high


@pytest.mark.parametrize(("part", "size"), [("open", math.sqrt(2)), ("high", 0.9), ("low", 0.9)])
def test_each_price_of_a_bar_has_noise_of_its_own(part: str, size: float) -> None:
    def shape(mask: MaskConfig) -> Any:
        bars = table(masked(mask).snapshot(BASE + 5, 4, 120)["bars"])
        return np.log([bar[f"{part}_cny"] / bar["close_cny"] for bar in bars])

    noise = shape(MaskConfig(noise_pct=1.0)) - shape(MaskConfig())

    assert np.std(noise) == pytest.approx(0.01 * size, rel=0.25)


def test_noisy_figures_keep_four_digits_and_the_whole_market_has_none() -> None:
    snapshot = masked(MaskConfig(noise_pct=1.0)).snapshot(BASE + 5, 4)
    numbers = [*snapshot["factors"].values()]
    for bar in table(snapshot["bars"]):
        numbers += [bar["volume_shares"], bar["amount_cny"], bar["return_pct"]]

    assert max(significant(number) for number in numbers) == 4

    noisy, plain = (
        all_shown(masked(mask), BASE + 5)["context"]
        for mask in (MaskConfig("stock_blind", noise_pct=5.0), MaskConfig("stock_blind"))
    )

    assert noisy == plain


@pytest.mark.slow
def test_the_law_of_the_noise_is_as_stated_on_every_machine() -> None:
    noise = Noise(5, 1.0)
    highs = np.log([noise.price(3, day, "high") for day in range(6000)]) / 0.01
    lows = np.log([noise.price(3, day, "low") for day in range(6000)]) / 0.01

    assert (highs.mean(), -lows.mean()) == pytest.approx((WICK_SHIFT, WICK_SHIFT), abs=0.04)
    assert (highs.std(), lows.std()) == pytest.approx((WICK_SD, WICK_SD), abs=0.03)
    assert noise.change(2, 9, 4) == pytest.approx(noise.price(2, 9) / noise.price(2, 4)), (
        "the noise of both prices"
    )
    assert noise.change(2, 9, 9) == 1.0
    assert noise.figure(2, 9, "SKEW") != noise.figure(2, 9, "RV_60")

    noise = Noise(7, 1.0)
    factors = [noise.price(0, 1), noise.price(0, 1, "high"), noise.figure(12, 300, "SKEW")]

    assert factors == pytest.approx(
        [0.9999418827115253, 1.001260225161425, 0.9919675896245084], abs=1e-12
    )

    uniform = (derive_seed(7, "noise", 12, 300, "SKEW") + 0.5) / 2**63
    assert factors[2] == pytest.approx(math.exp(0.01 * stats.norm.ppf(uniform)), abs=1e-12)


# ---- the mask holds


@coarse_masks
@pytest.mark.parametrize("row", [BASE, BASE + 7], ids=["first day", "eighth day"])
def test_nothing_later_shines_through(mask: MaskConfig, row: int) -> None:
    assert all_shown(masked(mask), row) == all_shown(
        masked(mask, market=poisoned(MARKET, row)), row
    )


@pytest.mark.parametrize("kind", MASK_KINDS)
def test_coarse_numbers_pass_the_leak_guard(kind: Any) -> None:
    for options in ((True, 6, 50.0), (False, 6, 3.0), (False, None, 0.7)):
        for base, row, asset in drawn(MARKET, 3, seed=4):
            of = masked(MaskConfig(kind, *options), base)
            guard = LeakGuard(of.lens, MARKET)
            step = of.step(row)
            for payload in (
                get_market_context(step),
                screen_candidates(step, ["ILLIQ"], 30),
                get_stock_snapshot(step, asset, 120),
            ):
                guard.check(of.lens.render_text(payload))
