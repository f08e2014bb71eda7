"""Manifest of InvestorBench: single assets traded by BUY, SELL and HOLD on prices, news and filings, its figures, and FinMem."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ktdeval.hookspecs import Spec, hookimpl
from ktdeval.lazy import later, maker

if TYPE_CHECKING:
    from collections.abc import Sequence


@hookimpl
def ktdeval_tasks() -> Sequence[Spec]:
    """One asset, one decision a day."""
    from ktdeval.task_files import task_specs

    return task_specs(f"{__path__[0]}/investorbench.yaml")


@hookimpl
def ktdeval_venues() -> list[Spec]:
    """Exchanges of stocks and coins on which a decision is filled at the close that it was made on, without cost."""
    from ktdeval.task_files import venue_specs

    return venue_specs(f"{__path__[0]}/venues.yaml")


@hookimpl
def ktdeval_data() -> list[Spec]:
    """Files of the public repository, and a market of the same form from a seed."""
    from ktdeval_investorbench.params import TWIN_VERSION, FileParams, TwinParams

    summary = "the public files of InvestorBench: a close a day, news and filings of an asset each"
    read = maker("ktdeval_investorbench.files:read_files")
    twin, told = (
        {"generated": True, "version": TWIN_VERSION},
        "a generated market of InvestorBench's symbols and periods, with news",
    )
    return [
        Spec("investorbench", maker("ktdeval_investorbench.files:make_market"), summary, FileParams, extra={"read": read}),
        Spec("synthetic_investorbench", maker("ktdeval_investorbench.twin:make_twin"), told, TwinParams, extra=twin),
    ]


@hookimpl
def ktdeval_agents() -> list[Spec]:
    """FinMem on any task."""
    from ktdeval_investorbench.params import FinmemParams

    summary = "FinMem: layered memory of documents and reasons, recalled by recency, importance and relevancy"
    return [Spec("finmem", maker("ktdeval_investorbench.finmem:FinmemAgent"), summary, FinmemParams)]


@hookimpl
def ktdeval_metrics() -> list[Spec]:
    """Figures of the paper's tables."""
    from ktdeval.metric_files import metric_specs

    return metric_specs(f"{__path__[0]}/figures.csv", "ktdeval_investorbench.figures:figure")


@hookimpl
def ktdeval_commands() -> list[Spec]:
    """Tables of the paper."""
    return [Spec("investorbench", later("ktdeval_investorbench.command:investorbench"), "Tables of InvestorBench, of your cards.")]
