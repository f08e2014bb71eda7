"""Manifest of the KTD-Fin trading tasks."""

from __future__ import annotations

from ktdeval.hookspecs import Spec, hookimpl
from ktdeval.values import maker

_TOOLS = {
    "get_market_context": "Indices, breadth and the tone of industries",
    "screen_candidates": "Tradable stocks ranked by factors",
    "get_stock_snapshot": "Bars, factors and previous close of one stock",
    "compare_candidates": "Chosen figures of several stocks side by side",
    "portfolio_state": "Holdings, cash and T+1 locks",
    "risk_check": "Target weights against the rules",
    "search_news": "News, filings and macro releases known by now, masked",
    "get_document": "One of these with its text, masked",
}


@hookimpl
def ktdeval_tasks() -> list[Spec]:
    """Return twelve tasks: four masks in each of three modes."""
    from ktdeval.registry import task_maker, task_specs

    make = task_maker("ktdeval_ktdfin.task:KtdfinTask", "ktdeval_ktdfin.task:KtdfinConfig")
    return task_specs(f"{__path__[0]}/ktdfin.yaml", make)


@hookimpl
def ktdeval_tools() -> list[Spec]:
    """Return the read-only research tools that query a step of a KTD-Fin scene."""
    return [
        Spec(name, maker("ktdeval_ktdfin.tools:research_tool", name), summary)
        for name, summary in _TOOLS.items()
    ]


@hookimpl
def ktdeval_tables() -> list[Spec]:
    """Return the paper's tables."""
    from ktdeval.registry import table_specs

    return table_specs(f"{__path__[0]}/tables.yaml")
