"""InvestorBench: trading of single assets by BUY, SELL and HOLD on prices, news and filings, with
its metrics and the FinMem agent.
"""

from __future__ import annotations

from ktdeval.hookspecs import Spec, hookimpl
from ktdeval.values import maker


@hookimpl
def ktdeval_tasks() -> list[Spec]:
    """Return the tasks with one asset and one decision per day."""
    from ktdeval.registry import task_specs

    return task_specs(f"{__path__[0]}/investorbench.yaml")


@hookimpl
def ktdeval_venues() -> list[Spec]:
    """Return venues for stocks and crypto assets at which decisions are filled at the same close,
    without cost.
    """
    from ktdeval.registry import venue_specs

    return venue_specs(f"{__path__[0]}/venues.yaml")


@hookimpl
def ktdeval_data() -> list[Spec]:
    """Return two providers: one for the public repository's files, and one for a synthetic market
    in the same form.
    """
    from ktdeval_investorbench.provider_params import TWIN_VERSION, FileParams, InvestorMarketParams

    summary = (
        "the public files of InvestorBench: daily closes, news and filings, one file per asset"
    )
    read = maker("ktdeval_investorbench.markets:read_files")
    generated = "a generated market with InvestorBench's symbols and periods, with news"
    extra = {"generated": True, "version": TWIN_VERSION}

    return [
        Spec(
            "investorbench",
            maker("ktdeval_investorbench.markets:make_market"),
            summary,
            FileParams,
            extra={"read": read, "example": "--folder investorbench"},
        ),
        Spec(
            "synthetic_investorbench",
            maker("ktdeval_investorbench.markets:make_twin"),
            generated,
            InvestorMarketParams,
            extra=extra,
        ),
    ]


@hookimpl
def ktdeval_agents() -> list[Spec]:
    """Return FinMem, which runs on any task."""
    from ktdeval_memory.params import MemoryParams

    summary = (
        "FinMem: layered memory of documents and reasons, recalled by recency, importance and"
        " relevancy"
    )
    return [
        Spec("finmem", maker("ktdeval_investorbench.finmem:FinmemAgent"), summary, MemoryParams)
    ]


@hookimpl
def ktdeval_metrics() -> list[Spec]:
    """Return the figures in the paper's tables."""
    from ktdeval.registry import metric_specs

    return metric_specs(f"{__path__[0]}/figures.csv", "ktdeval_investorbench.figures:figure")


@hookimpl
def ktdeval_tables() -> list[Spec]:
    """Return the paper's tables."""
    from ktdeval.registry import table_specs

    return table_specs(f"{__path__[0]}/tables.yaml")
