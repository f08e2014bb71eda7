"""The manifest: what this plugin offers. The makers import what they need when called, so that
listings stay quick.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from ktdeval.api import Spec, hookimpl, option

if TYPE_CHECKING:
    from ktdeval.api import Metric, Model


@dataclass(frozen=True)
class TopFactorParams:
    """What `--model-args` takes for `example/top_factor`."""

    factor: str = option(
        "MOM_12_1", help="style factor to rank by; a leading minus ranks the lowest first"
    )
    names: int = option(5, help="how many names to hold", minimum=1, maximum=10)


def _make_top_factor(name: str, params: TopFactorParams) -> Model:
    from ktdeval_example.model import TopFactor

    return TopFactor(params.factor, params.names)


def _make_win_rate() -> Metric:
    from ktdeval_example.metric import win_rate

    return win_rate


@hookimpl
def ktdeval_tasks() -> list[Spec]:
    from ktdeval.registry import task_specs

    return task_specs(f"{__path__[0]}/tasks.yaml")


@hookimpl
def ktdeval_models() -> list[Spec]:
    return [
        Spec(
            "example/top_factor",
            _make_top_factor,
            "Buys and holds what leads one factor's ranking",
            TopFactorParams,
        )
    ]


@hookimpl
def ktdeval_metrics() -> list[Spec]:
    return [
        Spec(
            "example_win_rate",
            _make_win_rate,
            "share of days on which the NAV rose, among those on which it moved",
        )
    ]
