"""Convert bars to our units: shares or crypto units, currency units, unadjusted prices."""

from __future__ import annotations

from typing import Literal

import numpy as np
import numpy.typing as npt
import pandas as pd

from ktdeval.errors import DataError
from ktdeval.market import FloatArray
from ktdeval_data.params import LongParams, QlibParams
from ktdeval_raw_markets.checks.unit_inference import stored_volume
from ktdeval_raw_markets.sources.column_units import (
    AMOUNT_UNITS,
    VALUE,
    VOLUME_UNITS,
    Conventions,
    Unit,
)
from ktdeval_tables.codes import categories

_FEN_NOISE = 0.02  # deviation in fen due to single precision
_IN_FEN = 0.95  # minimum share of closes in whole fen, and of bars within their limit prices
_JUMP = 0.03  # minimum log change of the factor that is larger than a dividend's
_MOSTLY = 0.5
_SLACK = 1.005  # tolerance for adjusted limit prices, which are rounded by up to half a fen
VolumeKind = Literal["raw", "divided"]


def to_our_units(
    bars: pd.DataFrame,
    params: LongParams | QlibParams,
    in_fen: npt.NDArray[np.bool_] | bool = True,
) -> tuple[Conventions, tuple[str, ...]]:
    """Convert bars in place to shares, currency units and unadjusted prices; return how the bars
    were read, with notes. Prices of A-shares (`in_fen`) are rounded to fen, their volumes to whole
    shares.

    If some prices have a factor, those without one become missing. Raises DataError if volumes
    don't reveal how they are stored; UsageError if a unit is unknown.
    """
    volume_unit = Unit.parse(params.volume_unit, VOLUME_UNITS, "--volume-unit")
    amount_unit = Unit.parse(params.amount_unit, AMOUNT_UNITS, "--amount-unit")
    for unit, where in ((volume_unit, "--volume-unit"), (amount_unit, "--amount-unit")):
        if unit.scopes:
            unit.check(tuple(categories(bars["code"]).categories), where)

    factor = bars["factor"].where(bars["factor"] > 0)
    has_factor = bool(bars["factor"].notna().any())

    stored_in_fen = False
    if has_factor and params.prices == "adjusted":
        fen = bars["close"] * 100
        in_hundredths = ((fen - fen.round()).abs() < _FEN_NOISE).mean() > _IN_FEN
        stored_in_fen = bool(in_hundredths and not _are_continuous(bars, factor))
        names = ["open", "high", "low", "close"]
        if _bound_prices(bars):
            names += ["limit_up", "limit_down"]

        for name in names:
            prices = bars[name] / factor
            bars[name] = np.where(in_fen, prices.round(2), prices)

    bars["volume"] = in_shares(bars, volume_unit)
    bars["amount"] *= _scales(bars, amount_unit)
    notes = _notes_on_values(volume_unit)
    kind: VolumeKind = "raw"

    if has_factor:
        kind, more = _undo_volume(bars, factor, params, in_fen)
        notes = (*notes, *more)

    conventions = Conventions(
        prices=params.prices if has_factor else "unadjusted",
        volume=kind,
        volume_unit=volume_unit,
        amount_unit=amount_unit,
        stored_in_fen=stored_in_fen,
        has_options=True,
    )
    return conventions, notes


def _are_continuous(bars: pd.DataFrame, factor: pd.Series) -> bool:
    """Return whether, on most days on which the factor jumps, the close does not, as in adjusted
    closes.
    """
    rows = bars[["code", "date", "close"]].assign(factor=factor)
    rows = rows.sort_values(["code", "date"], kind="stable")
    logs = pd.DataFrame(np.log(rows[["close", "factor"]].where(rows[["close", "factor"]] > 0)))
    steps = logs.groupby(rows["code"], observed=True).diff().dropna()
    jumps = steps[steps["factor"].abs() > _JUMP]
    is_continuous = jumps["close"].abs() < (jumps["close"] + jumps["factor"]).abs()
    return bool(is_continuous.mean() > _MOSTLY)


def _bound_prices(bars: pd.DataFrame) -> bool:
    """Return whether most stored bars lie within their limit prices, so that both are adjusted."""
    if not {"limit_up", "limit_down"} <= {*bars.columns}:
        return False

    rows = bars[["low", "high", "limit_up", "limit_down"]].dropna()
    is_within = rows["high"] <= rows["limit_up"] * _SLACK
    is_within &= rows["low"] * _SLACK >= rows["limit_down"]
    return bool(is_within.mean() > _IN_FEN)


def _scales(bars: pd.DataFrame, unit: Unit) -> FloatArray | float:
    """Return the scale of a column's unit, [rows], or a single scale for all rows."""
    if not unit.scopes:
        return unit.scale

    codes = categories(bars["code"])
    days = bars["date"].to_numpy().astype("M8[D]")
    return unit.scales(tuple(codes.categories), codes.codes, days)


def in_shares(bars: pd.DataFrame, unit: Unit) -> pd.Series:
    """Return volumes in shares. Traded values are divided by the day's typical price."""
    scales = _scales(bars, unit)
    shares = bars["volume"] * scales
    is_value = np.equal(scales, VALUE)
    if not is_value.any():
        return pd.Series(shares)

    prices = bars[["high", "low", "close"]]
    typical = prices.mean(axis=1).where(prices.notna().all(axis=1), bars["close"])
    return pd.Series(np.where(is_value, bars["volume"] / typical, shares), index=bars.index)


def _notes_on_values(unit: Unit) -> tuple[str, ...]:
    """Return a note if a unit says that volumes are traded values, not counts."""
    values = [str(scope) for scope, scale in unit.scopes if scale == VALUE]
    if unit.scale == VALUE:
        return (
            "volumes are traded values over the typical price of the day, not counts of shares",
        )

    if values:
        named = ", ".join(values[:8])
        return (f"volumes of {named} are traded values over the typical price of the day",)

    return ()


def _undo_volume(
    bars: pd.DataFrame,
    factor: pd.Series,
    params: LongParams | QlibParams,
    in_fen: npt.NDArray[np.bool_] | bool,
) -> tuple[VolumeKind, tuple[str, ...]]:
    """Multiply volumes by the factor if they were divided by it; return whether they were, with a
    note.
    """
    kind = params.volume
    if kind == "auto":
        detected = stored_volume(
            bars["volume"].to_numpy(dtype=np.float64), factor.to_numpy(dtype=np.float64)
        )
        if detected is None and params.prices == "adjusted":
            raise DataError(
                "volume: whole shares don't show whether volumes are as traded or divided by the "
                "factor; give --volume raw or --volume divided (shares or lots: --volume-unit)"
            )

        kind = detected or "raw"

    if kind == "divided":
        volume = bars["volume"] * factor
        bars["volume"] = np.where(in_fen, volume.round(), volume)

    how = "detected by whole shares" if params.volume == "auto" else "as requested"
    what = {
        "raw": "as traded and left unchanged",
        "divided": "divided by the factor, so they were multiplied by it",
    }[kind]
    notes = (
        (f"volumes were stored {what} ({how})",) if (params.volume, kind) != ("raw", "raw") else ()
    )

    return kind, notes
