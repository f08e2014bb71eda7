"""Market data: embedded synthetic markets, tables in long format, Qlib's binary layout, markets
fetched from vendors, and placebos for any of these markets; and the command group `data`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ktdeval.hookspecs import Spec, hookimpl
from ktdeval.values import later, maker


@hookimpl
def ktdeval_venues() -> list[Spec]:
    """Return the built-in venues."""
    from ktdeval.market import built_in_venues

    return [
        Spec(name, maker("ktdeval.market:find_venue", name), venue.listed_summary)
        for name, venue in built_in_venues().items()
    ]


@hookimpl
def ktdeval_commands() -> list[Spec]:
    """Return the command group `data`."""
    summary = "List data providers; make, check or describe market data."
    return [Spec("data", later("ktdeval_data.command:data"), summary, groups=("market",))]


@hookimpl
def ktdeval_data() -> list[Spec]:
    """Return the built-in providers.

    A provider's `extra` describes its other abilities: `generated` marks a market that depends only
    on its parameters and `version`, so that it can be cached; `make_with_files(params)` returns the
    snapshot and the files to store next to it; `read(params)` returns a source's tables before any
    checks, so that they can be checked separately; `fetch` marks a fetched market and lists the
    parameters that its recipes omit; `pin(query)` returns the query to store in a recipe; `example`
    has the arguments for the example on the provider's help page.
    """
    from ktdeval_data import params

    synthetic, placebo = (
        maker(f"ktdeval_data.{name}:make_with_files") for name in ("synthetic", "placebo")
    )
    fetched = {"fetch": params.FETCH_LOCAL}
    return [
        Spec(
            "synthetic",
            lambda *given: synthetic(*given)[0],
            "a generated CSI300-like market with known factor returns, from a seed",
            params.SyntheticParams,
            extra={
                "generated": True,
                "version": params.GENERATOR_VERSION,
                "make_with_files": synthetic,
            },
        ),
        *_twins(),
        Spec(
            "placebo",
            lambda *given: placebo(*given)[0],
            "a copy of a market on which nobody can select: the same market and style returns, "
            "but residuals with random signs",
            params.PlaceboParams,
            extra={"make_with_files": placebo, "example": "--of synthetic --kind sign_flip"},
        ),
        Spec(
            "long",
            _make_assembler("ktdeval_data.long_table:read_long"),
            "CSV or Parquet tables of bars, index levels, membership and industries, in any"
            " vendor's columns, codes and units",
            params.LongParams,
            extra={
                "read": maker("ktdeval_data.long_table:read_long"),
                "example": "--bars bars.csv --venue us_equity",
            },
        ),
        Spec(
            "qlib",
            _make_assembler("ktdeval_data.qlib_binary:read_qlib"),
            "a folder in Qlib's binary layout (calendars, instruments, features)",
            params.QlibParams,
            extra={
                "read": maker("ktdeval_data.qlib_binary:read_qlib"),
                "example": "--folder cn_data",
            },
        ),
        *(
            Spec(
                market,
                _make_assembler("ktdeval_data.fetch.assemble_market:read_fetched", market),
                summary,
                fields,
                extra={**fetched, "example": arguments},
            )
            for market, summary, fields, arguments in params.FETCHED
        ),
        Spec(
            "hf",
            maker("ktdeval_data.fetch.hub:make_hub"),
            "a dataset of daily bars on the Hugging Face Hub, ORG/NAME, in any columns, codes and"
            " units",
            params.FetchHubParams,
            extra={
                **fetched,
                "pin": maker("ktdeval_data.fetch.hub:pin_query"),
                "example": "ORG/NAME --venue us_equity",
            },
        ),
    ]


def _make_assembler(reader: str, *first: str) -> Callable[..., Any]:
    """Return a function that reads tables with the function named by `reader` (`module:name`) and
    makes a snapshot from them.
    """
    read = maker(reader, *first)
    return lambda params: later("ktdeval.api:assemble")()(read(params), params.repair)


def _twins() -> list[Spec]:
    from ktdeval_data.params import TWIN_VERSION, TWINS, TwinParams, ViewParams

    extra = {"generated": True, "version": TWIN_VERSION}
    return [
        Spec(
            f"synthetic_{twin}",
            maker("ktdeval_data.synthetic_us_crypto:make_twin", twin),
            summary,
            ViewParams if twin == "views" else TwinParams,
            extra={
                **extra,
                "make_with_files": maker("ktdeval_data.synthetic_us_crypto:make_with_files", twin),
            },
        )
        for twin, summary in TWINS
    ]
