"""Parameters of the built-in models, in a separate module so that listing them imports nothing
else.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any, Literal

from ktdeval.values import load_yaml, option


@cache
def rules() -> Mapping[str, Any]:
    """Return the summary, numeric parameters and source of each technical-analysis rule, keyed by
    name.
    """
    return load_yaml(Path(__file__).with_name("technical.yaml"))


@dataclass(frozen=True)
class RankParams:
    """Parameters of the models that hold the top of a ranking."""

    positions: int = option(
        20,
        help="number of names held (all in a smaller market); never more than the task allows",
        minimum=1,
        maximum=1000,
    )
    keep_rank: int = option(
        30, help="a holding is kept while it ranks this high or higher", minimum=1, maximum=1000
    )
    invested: float = option(
        0.98,
        help="share of NAV to invest; the rest covers costs and gaps at the open",
        minimum=0.01,
        maximum=1.0,
    )
    trim_above: float = option(
        1.5,
        help="a holding is cut back when it exceeds this multiple of its target weight",
        minimum=1.01,
    )
    by: str | None = option(
        None,
        help="rank by another shown figure, such as return_20d_pct; null: the model's own",
    )
    shorts: int | None = option(
        None,
        help=(
            "number of names sold short, the worst of the ranking, if the market allows it; "
            "null: none"
        ),
        minimum=1,
        maximum=1000,
    )


@dataclass(frozen=True, kw_only=True)
class LinearFactorParams(RankParams):
    """Parameters of `builtin/linear_factor`."""

    coefficients: str = option(
        help=(
            "coefficient of each style factor in its natural units, such as `MOM_12_1:0.02"
            " RV_60:-0.1`"
        )
    )


@dataclass(frozen=True)
class MemoryParams(RankParams):
    """Parameters of `builtin/memory`."""

    positions: int = option(
        10,
        help="number of names held (all in a smaller market); never more than the task allows",
        minimum=1,
        maximum=1000,
    )
    market: str = option(
        "synthetic", help="the market that it remembers: a snapshot folder, or a data provider"
    )
    horizon: int = option(
        20, help="number of an asset's sessions to look ahead", minimum=1, maximum=1000
    )
    recall: float = option(
        1.0,
        help=(
            "share of facts (name, day) that it remembers; a larger share contains a smaller one,"
            " and for the others it is momentum"
        ),
        minimum=0.0,
        maximum=1.0,
        is_silent=True,
    )
    noise: float = option(
        0.0,
        help=(
            "standard deviation of the error of what it remembers, in standard deviations of growth"
            " over names"
        ),
        minimum=0.0,
        maximum=1000.0,
        is_silent=True,
    )
    keyed_by: Literal["any", "both", "code", "date"] = option(
        "any",
        help=(
            "labels that it must recognise: both (code and date); only code or only date, "
            "whatever the other is; any: whatever is visible"
        ),
        is_silent=True,
    )
    until: str | None = option(
        None,
        help="last day whose prices it knows, such as 2025-01-31; null: the market's last",
        is_silent=True,
    )
    invents: bool = option(
        False,
        help=(
            "control that knows nothing: it invents a memory of each visible label on a day, "
            "true or masked"
        ),
        is_silent=True,
    )
    seed: int = option(
        0,
        help="seed of which facts it remembers, and of their errors",
        minimum=0,
        maximum=2**31 - 1,
        is_silent=True,
    )


@dataclass(frozen=True)
class EqualWeightParams:
    """Parameters of `builtin/equal_weight`."""

    positions: int = option(
        20,
        help="number of names held (all in a smaller market); never more than the task allows",
        minimum=1,
        maximum=1000,
    )
    invested: float = option(
        0.98,
        help="share of NAV to invest; the rest covers costs and gaps at the open",
        minimum=0.01,
        maximum=1.0,
    )
    band: float = option(
        0.25,
        help="relative distance from the equal weight at which a holding is rebalanced",
        minimum=0.01,
        maximum=1.0,
    )


@dataclass(frozen=True)
class FirstListedParams:
    """Parameters of `builtin/first_listed`."""

    positions: int = option(
        10,
        help="number of names bought (all in a smaller market); never more than the task allows",
        minimum=1,
        maximum=1000,
    )
    invested: float = option(
        0.98, help="share of NAV to invest; the rest covers costs", minimum=0.01, maximum=1.0
    )


@dataclass(frozen=True)
class RandomParams:
    """Parameters of `builtin/random`."""

    sell_probability: float = option(
        0.1, help="chance that a holding is sold at a step", minimum=0.0, maximum=1.0
    )
    max_buys: int = option(
        3, help="maximum number of names bought at a step", minimum=0, maximum=100
    )
    largest_weight: float | None = option(
        None,
        help=(
            "upper end of the target weight of a buy; the lower end is a quarter of it. null: "
            "0.08, or 1.6 / names if fewer than 20 can be held"
        ),
        minimum=0.001,
        maximum=1.0,
    )
    short_probability: float | None = option(
        None,
        help="chance that a drawn name is sold short, if the market allows it; null: none",
        minimum=0.0,
        maximum=1.0,
    )


@dataclass(frozen=True, kw_only=True)
class ScriptParams:
    """Parameters of `builtin/script`. The last is read from the file and recorded."""

    file: str = option(help="file of the answers, YAML or JSON; docs/models.md describes it")
    sha256: str | None = option(
        None, help="SHA-256 that the file must have; recorded with each run"
    )


@dataclass(frozen=True)
class CalendarParams:
    """Parameters of `builtin/turn_of_month`."""

    calendar: str | None = option(
        None,
        help="exchange whose sessions form a month; null: 24/7 for coins, XNYS otherwise",
    )


@dataclass(frozen=True)
class ChaosParams:
    """Parameters of `builtin/chaos`."""

    misbehaviour: float = option(
        0.65, help="chance that a reply misbehaves", minimum=0.0, maximum=1.0
    )
    model_errors: float = option(
        0.04, help="chance that a call fails altogether", minimum=0.0, maximum=1.0
    )
