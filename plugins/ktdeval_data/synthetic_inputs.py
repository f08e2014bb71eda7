"""Inputs of a synthetic market before its first day: listings, the path that its index follows, and
all random draws.

The tables are next to this module. `synthetic_names.yaml` has the names. `synthetic_windows.csv`
has the evaluation windows of KTD-Fin (Table 2) with the index regime in each. `synthetic_index.csv`
has the control points that give each window its regime. Some windows overlap (W1 with W2, W3 with
W4, W4 with W5, W5 with W6), so one path must suit both windows of a pair: each window has a point
at the close before its first day and another on its last day. W3 ends 12 trading days into W4, so
the index falls first and is brought back to flat by the first days of the rally, as the real index
was.

Each purpose has its own random stream, so that changing one does not affect the others.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np
import yaml

from ktdeval.attribution import FACTORS
from ktdeval.market import Board, BoolArray, DayArray, FloatArray, board_of
from ktdeval.values import csv_rows, derive_seed

_FOLDER = Path(__file__).parent


@dataclass(frozen=True, slots=True)
class ControlPoint:
    """An index level at the close of the last trading day up to `day`."""

    day: str  # ISO date
    level: float  # index level
    # daily standard deviation of the index, in percent, around the straight line to this point
    noise_pct: float


@dataclass(frozen=True, slots=True)
class SyntheticRegime:
    """An evaluation window and its index regime. Both dates are inclusive."""

    window: str
    first: str
    last: str
    name: str


REGIMES = tuple(SyntheticRegime(**row) for row in csv_rows(_FOLDER / "synthetic_windows.csv"))
CONTROL_POINTS = tuple(
    ControlPoint(row["day"], float(row["level"]), float(row["noise_pct"]))
    for row in csv_rows(_FOLDER / "synthetic_index.csv")
)
_NAMES = yaml.safe_load(_FOLDER.joinpath("synthetic_names.yaml").read_text(encoding="utf-8"))


@dataclass(frozen=True, slots=True)
class Listings:
    """Assets of a synthetic market, by ascending code. `codes, names, boards`: one per asset."""

    codes: tuple[str, ...]
    names: tuple[str, ...]
    boards: tuple[Board, ...]
    industry: np.ndarray[tuple[int], np.dtype[np.intp]]  # [N] index into `industry_names`
    industry_names: tuple[str, ...]  # distinct invented industries


def make_listings(rng: np.random.Generator) -> Listings:
    """Draw codes, names and industries.

    No invented word is used twice, so each word in a name belongs to only one asset or industry.
    """
    codes = []
    for listing in _NAMES["listings"]:
        numbers = [
            number for number in range(listing["numbers"]) if number not in listing.get("real", ())
        ]
        codes += [
            listing["pattern"].format(number)
            for number in rng.choice(np.array(numbers), listing["count"], replace=False)
        ]

    codes.sort()
    vocabulary = [onset + ending for onset in _NAMES["onsets"] for ending in _NAMES["endings"]]
    words = iter([vocabulary[index] for index in rng.permutation(len(vocabulary))])
    trades = _NAMES["trades"]
    industry_names = tuple(f"{next(words)} {trade}" for trade in trades)
    names = tuple(
        f"{next(words)} {next(words)} {number}" for number in rng.integers(11, 100, size=len(codes))
    )
    # Industries differ in size and are never empty: a uniform share first, the rest by drawn
    # weights.
    weights = rng.dirichlet(np.full(len(trades), 2.0))
    least = np.arange(len(codes)) % len(trades)
    drawn = rng.choice(len(trades), size=len(codes), p=weights)
    industry = rng.permutation(np.where(np.arange(len(codes)) < 4 * len(trades), least, drawn))

    return Listings(
        tuple(codes), names, tuple(board_of(code) for code in codes), industry, industry_names
    )


def control_level(day: np.datetime64) -> float:
    """Return the control level on a calendar day. It is linear in log level between control points,
    and constant beyond the first and the last.
    """
    days = np.array([point.day for point in CONTROL_POINTS], dtype="datetime64[D]").astype(np.int64)
    logs = np.log([point.level for point in CONTROL_POINTS])
    return float(np.exp(np.interp(day.astype("datetime64[D]").astype(np.int64), days, logs)))


def daily_noise(days: DayArray) -> FloatArray:
    """Return the daily standard deviation of the index around its control path, [T], as a
    fraction.
    """
    ends = np.array([point.day for point in CONTROL_POINTS], dtype="datetime64[D]")
    noise = np.array([point.noise_pct for point in CONTROL_POINTS]) / 100.0
    return noise[np.minimum(np.searchsorted(ends, days), len(noise) - 1)]


def target_levels(days: DayArray, shocks: FloatArray) -> FloatArray:
    """Return the target index levels, [T], which pass through every control point with a bridge of
    `shocks` in between.

    `days`: [T] trading days. `shocks`: [T] daily log-return noise, whose sum between two control
    points is removed evenly.
    """
    last = len(days) - 1
    anchors = {0: control_level(days[0]), last: control_level(days[-1])}
    for point in CONTROL_POINTS:
        if days[0] <= np.datetime64(point.day) <= days[-1]:
            anchors[int(np.searchsorted(days, np.datetime64(point.day), side="right")) - 1] = (
                point.level
            )

    rows = np.array(sorted(anchors))
    logs = np.log([anchors[row] for row in rows])
    everything = np.arange(len(days))
    walk = np.cumsum(shocks)
    bridge = walk - np.interp(everything, rows, walk[rows])
    levels: FloatArray = np.round(np.exp(np.interp(everything, rows, logs) + bridge), 4)

    return levels


# ---- random draws

_FACTOR_RETURNS = {row["factor"]: row for row in csv_rows(_FOLDER / "synthetic_factors.csv")}
FACTOR_PREMIA = {name: float(row["annual_premium"]) for name, row in _FACTOR_RETURNS.items()}
FACTOR_VOLATILITY = {name: float(row["daily_volatility"]) for name, row in _FACTOR_RETURNS.items()}
"""Annual premium and daily standard deviation of each factor's return per unit of standardised
exposure.
"""

RV_MARKET_SLOPE = 0.15
"""Slope of the RV_60 factor return on the index's target return: volatile names have a higher
market beta.
"""
INDUSTRY_VOLATILITY = 0.0045
IDIOSYNCRATIC_VOLATILITY = 0.0118
TAIL_DEGREES = 5.0  #: degrees of freedom of Student's t distribution, for all shocks
GARCH_SHOCK, GARCH_MEMORY = 0.07, 0.90
"""GARCH(1,1) weights of yesterday's squared shock and variance."""
BOARD_VOLATILITY = {Board.MAIN: 1.0, Board.CHINEXT: 1.25, Board.STAR: 1.3, Board.BSE: 1.4}
TRADING_DAYS_PER_YEAR = 252


@dataclass(frozen=True, slots=True)
class Shocks:
    """Shocks used by the day loop; rows are days, columns are assets, factors or industries."""

    target: FloatArray  # [T] target index levels
    volatility: FloatArray  # [T] multiplier of all shocks, around 1
    factor: FloatArray  # [T, K] factor returns, in the order of `FACTORS`
    industry: FloatArray  # [T, I] industry returns
    idiosyncratic: FloatArray  # [T, N] residual returns
    base_volatility: FloatArray  # [N] long-run daily standard deviation of the residual
    overnight: FloatArray  # [T, N] noise of the opening price
    range_up: FloatArray  # [T, N] how far the high extends above open and close, as a fraction
    range_down: FloatArray  # [T, N] how far the low extends below open and close, as a fraction
    activity: FloatArray  # [T, N] log of turnover relative to the asset's normal turnover
    # [T, N] uniform draws that decide whether a day at the limit trades at one price
    lock: FloatArray


@dataclass(frozen=True, slots=True)
class AssetEvents:
    """Asset events by day."""

    listed: BoolArray  # [T, N] False before an asset's first day
    suspended: BoolArray  # [T, N] True on days without trading
    # [T, N] cash dividend as a share of the previous close, on its ex-day
    dividend_yield: FloatArray
    bonus: FloatArray  # [T, N] new shares per old share, on the ex-day


def stream(seed: int, purpose: str) -> np.random.Generator:
    """Return the random stream for one purpose."""
    return np.random.default_rng(derive_seed(seed, "synthetic market", purpose))


def draw_shocks(seed: int, days: DayArray, listings: Listings) -> Shocks:
    """Draw the complete path of returns and activity."""
    shape = (len(days), len(listings.codes))
    noise = daily_noise(days)
    volatility = _volatility(stream(seed, "volatility"), noise)
    target = target_levels(days, noise * volatility * _student(stream(seed, "index"), (len(days),)))
    boards = np.array([BOARD_VOLATILITY[board] for board in listings.boards])
    drawn = stream(seed, "idiosyncratic volatility").standard_normal(len(boards))
    base = IDIOSYNCRATIC_VOLATILITY * boards * np.exp(0.25 * drawn)
    ranges = (
        np.abs(stream(seed, "range").standard_normal((2, *shape)))
        * (0.4 * base)
        * volatility[:, None]
    )

    return Shocks(
        target=target,
        volatility=volatility,
        factor=_factor_returns(seed, target, volatility),
        industry=_student(stream(seed, "industry"), (len(days), len(listings.industry_names)))
        * (INDUSTRY_VOLATILITY * volatility)[:, None],
        idiosyncratic=_draw_clustered(stream(seed, "idiosyncratic"), shape)
        * base
        * volatility[:, None],
        base_volatility=base,
        overnight=_overnight(stream(seed, "overnight"), base, volatility),
        range_up=ranges[0],
        range_down=ranges[1],
        activity=_activity(stream(seed, "activity"), shape, volatility),
        lock=stream(seed, "lock").random(shape),
    )


def _student(rng: np.random.Generator, shape: tuple[int, ...]) -> FloatArray:
    """Draw Student's t, scaled to unit variance."""
    draws: FloatArray = rng.standard_t(TAIL_DEGREES, shape) * np.sqrt(
        (TAIL_DEGREES - 2.0) / TAIL_DEGREES
    )
    return draws


def _volatility(rng: np.random.Generator, noise: FloatArray) -> FloatArray:
    """Return the common volatility, [T]: a persistent log process on top of the regime's noise
    level.
    """
    steps = rng.standard_normal(len(noise)) * 0.07
    level = np.zeros(len(noise))
    for row in range(1, len(noise)):
        level[row] = 0.96 * level[row - 1] + steps[row]

    multiplier: FloatArray = np.exp(level - level.mean()) * (noise / 0.0075) ** 0.35
    return multiplier


def _factor_returns(seed: int, target: FloatArray, volatility: FloatArray) -> FloatArray:
    names = [definition.name for definition in FACTORS]
    premia = np.array([FACTOR_PREMIA[name] for name in names]) / TRADING_DAYS_PER_YEAR
    spread = np.array([FACTOR_VOLATILITY[name] for name in names])
    returns: FloatArray = (
        _student(stream(seed, "factors"), (len(target), len(names))) * spread * volatility[:, None]
    )
    index_return = np.append(0.0, target[1:] / target[:-1] - 1.0)
    returns[:, names.index("RV_60")] += RV_MARKET_SLOPE * index_return
    # The process is centred, so that the planted premia hold in this sample and not only on average
    # over seeds: in four years, chance would move a premium by about three percentage points a
    # year.
    returns += premia - returns.mean(axis=0)

    return returns


def _draw_clustered(rng: np.random.Generator, shape: tuple[int, int]) -> FloatArray:
    """Draw unit-variance GARCH(1,1) series with Student's t innovations, [T, N], one independent
    series per asset.
    """
    innovations = _student(rng, shape)
    shocks = np.empty(shape)
    variance = np.ones(shape[1])

    for row in range(shape[0]):
        shocks[row] = innovations[row] * np.sqrt(variance)
        variance = (
            1.0
            - GARCH_SHOCK
            - GARCH_MEMORY
            + GARCH_SHOCK * shocks[row] ** 2
            + GARCH_MEMORY * variance
        )
        variance = np.clip(variance, 0.3, 6.0)

    return shocks


def _overnight(rng: np.random.Generator, base: FloatArray, volatility: FloatArray) -> FloatArray:
    """Draw opening noise, [T, N], around a persistent tilt per asset, so that there are overnight
    and intraday styles.
    """
    tilt = 0.0008 * rng.standard_normal(len(base))
    noise: FloatArray = (
        rng.standard_normal((len(volatility), len(base))) * (0.35 * base) * volatility[:, None]
    )
    return tilt + noise


def _activity(
    rng: np.random.Generator, shape: tuple[int, int], volatility: FloatArray
) -> FloatArray:
    """Draw log turnover relative to its usual level, [T, N]. It is persistent, more erratic for
    some assets, and higher in volatile markets.
    """
    erratic = rng.uniform(0.12, 0.40, shape[1])
    steps = rng.standard_normal(shape) * erratic
    level = np.zeros(shape)

    for row in range(1, shape[0]):
        level[row] = 0.8 * level[row - 1] + steps[row]

    return level + 0.6 * np.log(volatility)[:, None]


def draw_events(seed: int, days: DayArray, n_assets: int) -> AssetEvents:
    """Draw listings, suspensions, dividends and bonus issues."""
    listed = _listed_grid(stream(seed, "listing"), days, n_assets)
    suspended = _draw_suspensions(stream(seed, "suspension"), listed)
    dividend_yield, bonus = _distributions(stream(seed, "distribution"), days, listed & ~suspended)

    return AssetEvents(listed, suspended, dividend_yield, bonus)


LATE_LISTINGS = 8
"""Number of assets that are listed after the first day."""


def _listed_grid(rng: np.random.Generator, days: DayArray, n_assets: int) -> BoolArray:
    first = np.zeros(n_assets, dtype=np.int64)
    late = rng.choice(n_assets, size=LATE_LISTINGS, replace=False)
    first[late] = rng.integers(1, max(2, len(days) * 3 // 4), size=LATE_LISTINGS)

    return np.arange(len(days))[:, None] >= first


def _draw_suspensions(rng: np.random.Generator, listed: BoolArray) -> BoolArray:
    """Draw suspensions: about one per asset in ten years, four days long on average, rarely a
    month.
    """
    starts = np.argwhere(rng.random(listed.shape) < 0.0004)
    lengths = np.where(rng.random(len(starts)) < 0.05, 25, 0) + rng.geometric(0.28, len(starts))
    suspended = np.zeros_like(listed)

    for (row, column), length in zip(starts, lengths, strict=True):
        # No suspension falls within an asset's first bars: a suspended asset is valued at an
        # earlier close.
        if row >= 5 and listed[row - 5, column]:
            suspended[row : row + length, column] = True

    return suspended


def _distributions(
    rng: np.random.Generator, days: DayArray, trading: BoolArray
) -> tuple[FloatArray, FloatArray]:
    """Draw one ex-day per year between May and July for most assets. A few assets also issue bonus
    shares.
    """
    shape = trading.shape
    dividend_yield = np.zeros(shape)
    bonus = np.zeros(shape)
    first_bar = trading.argmax(axis=0)

    for year in np.arange(
        days[0].astype("datetime64[Y]"), days[-1].astype("datetime64[Y]") + np.timedelta64(1, "Y")
    ):
        pays = rng.random(shape[1]) < 0.85
        offsets = rng.integers(0, 92, shape[1])
        yields = np.minimum(0.018 * np.exp(0.5 * rng.standard_normal(shape[1])), 0.06)
        splits = np.where(
            rng.random(shape[1]) < 0.06, rng.choice([0.2, 0.3, 0.4, 0.5, 1.0], shape[1]), 0.0
        )
        ex_days = (year.astype("datetime64[M]") + np.timedelta64(4, "M")).astype(
            "datetime64[D]"
        ) + offsets.astype("timedelta64[D]")

        for column in np.flatnonzero(pays & (ex_days > days[0])):
            # An ex-day during a suspension takes effect when trading resumes.
            row = int(np.searchsorted(days, ex_days[column]))
            row += int(trading[row:, column].argmax()) if row < len(days) else 0
            if first_bar[column] < row < len(days) and trading[row, column]:
                dividend_yield[row, column] = yields[column]
                bonus[row, column] = splits[column]

    return dividend_yield, bonus
