"""Market data: the embedded synthetic markets, tables in long form, Qlib's binary layout, markets fetched from vendors,
and placebos of any of them.
"""

from __future__ import annotations

from ktdeval.hookspecs import Spec, hookimpl
from ktdeval.lazy import maker


@hookimpl
def ktdeval_venues() -> list[Spec]:
    """Return the built-in venues."""
    from ktdeval.market import built_in_venues

    return [Spec(name, maker("ktdeval.market:find_venue", name), venue.summary) for name, venue in built_in_venues().items()]


@hookimpl
def ktdeval_data() -> list[Spec]:
    """Built-in providers.

    `extra` says what else they can do: `generated` marks a market that depends on nothing but its parameters and `version`, so
    that it can be cached; `make_with_files(params)` gives the snapshot with files to lay beside it; `read(params)` gives a
    source's tables before they are judged, so that they can be checked; `fetch` marks a market that `ktdeval data fetch` offers,
    and names the parameters that its recipes leave out; `pin(query)` gives the query that they hold.
    """
    from ktdeval_data import params as given
    from ktdeval_data.params import FETCH_LOCAL, FETCHED, GENERATOR_VERSION, LongParams, PlaceboParams, QlibParams, SyntheticParams

    with_truth = maker("ktdeval_data.synthetic:make_with_files")
    return [
        Spec(
            "synthetic",
            maker("ktdeval_data.synthetic:make_synthetic"),
            "a generated CSI300-like market with known factor returns, from a seed",
            SyntheticParams,
            extra={"generated": True, "version": GENERATOR_VERSION, "make_with_files": with_truth},
        ),
        *_twins(),
        Spec(
            "placebo",
            maker("ktdeval_data.placebo:make_placebo"),
            "a market like another one in which nobody can select: the same market and style returns, residuals under random signs",
            PlaceboParams,
            extra={"make_with_files": maker("ktdeval_data.placebo:make_with_files")},
        ),
        Spec(
            "long",
            maker("ktdeval_data.long_table:make_long"),
            "CSV or Parquet tables of bars, index levels, membership and industries, in any vendor's columns, codes and units",
            LongParams,
            extra={"read": maker("ktdeval_data.long_table:read_long")},
        ),
        Spec(
            "qlib",
            maker("ktdeval_data.qlib_binary:make_qlib"),
            "a folder in Qlib's binary layout (calendars, instruments, features)",
            QlibParams,
            extra={"read": maker("ktdeval_data.qlib_binary:read_qlib")},
        ),
        *(
            Spec(market, maker("ktdeval_data.fetch.market:make_fetched", market), summary, params, extra={"fetch": FETCH_LOCAL})
            for market, summary, params in FETCHED
        ),
        Spec(
            "hf",
            maker("ktdeval_data.fetch.hub:make_hub"),
            "a dataset of daily bars on the Hugging Face Hub, ORG/NAME, in any columns, codes and units",
            given.FetchHubParams,
            extra={"fetch": FETCH_LOCAL, "pin": maker("ktdeval_data.fetch.hub:pinned")},
        ),
    ]


def _twins() -> list[Spec]:
    from ktdeval_data.params import TWIN_VERSION, TWINS, TwinParams, ViewParams

    made, with_files = "ktdeval_data.twins:make_twin", "ktdeval_data.twins:make_with_files"
    extra = {"generated": True, "version": TWIN_VERSION}
    own = {"views": ViewParams}
    return [
        Spec(
            f"synthetic_{twin}",
            maker(made, twin),
            told,
            own.get(twin, TwinParams),
            extra={**extra, "make_with_files": maker(with_files, twin)},
        )
        for twin, told in TWINS
    ]
