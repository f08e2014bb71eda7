"""Market data: the embedded synthetic market, tables in long form, Qlib's binary layout, and placebos of any of them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ktdeval.hookspecs import Spec, hookimpl

if TYPE_CHECKING:
    from collections.abc import Mapping

    from ktdeval.market import MarketSnapshot, RawMarket
    from ktdeval_data.params import LongParams, PlaceboParams, QlibParams, SyntheticParams


def make_long(params: LongParams) -> MarketSnapshot:
    """A snapshot from CSV or Parquet tables."""
    from ktdeval.api import assemble

    return assemble(read_long(params), params.repair)


def read_long(params: LongParams) -> RawMarket:
    """Return the tables as they are, for checks."""
    from ktdeval_data.long_table import read_long as read

    return read(params)


def make_qlib(params: QlibParams) -> MarketSnapshot:
    """A snapshot from a folder in Qlib's binary layout."""
    from ktdeval.api import assemble

    return assemble(read_qlib(params), params.repair)


def read_qlib(params: QlibParams) -> RawMarket:
    """Return the folder's data as they are, for checks."""
    from ktdeval_data.qlib_binary import read_qlib as read

    return read(params)


def make_synthetic(params: SyntheticParams) -> MarketSnapshot:
    """Return the synthetic market of a seed."""
    return make_synthetic_with_truth(params)[0]


def make_synthetic_with_truth(params: SyntheticParams) -> tuple[MarketSnapshot, Mapping[str, bytes]]:
    """Return the synthetic market of a seed, and the files that hold what was planted in it."""
    from ktdeval_data.synthetic import build

    snapshot, truth = build(params)
    return snapshot, truth.files()


def make_placebo(params: PlaceboParams) -> MarketSnapshot:
    """A placebo of another market."""
    return make_placebo_with_facts(params)[0]


def make_placebo_with_facts(params: PlaceboParams) -> tuple[MarketSnapshot, Mapping[str, bytes]]:
    """A placebo of another market, and the file that says what it is a placebo of and how it was drawn."""
    from ktdeval_data.placebo import build

    return build(params)


@hookimpl
def ktdeval_data() -> list[Spec]:
    """Built-in providers.

    `extra` says what else they can do: `generated` marks a market that depends on nothing but its parameters and `version`, so that
    it can be cached; `make_with_files(params)` gives the snapshot with files to lay beside it; `read(params)` gives a source's
    tables before they are judged, so that they can be checked.
    """
    from ktdeval_data.params import GENERATOR_VERSION, LongParams, PlaceboParams, QlibParams, SyntheticParams

    return [
        Spec(
            "synthetic",
            make_synthetic,
            "a generated CSI300-like market with known factor returns, from a seed",
            SyntheticParams,
            extra={"generated": True, "version": GENERATOR_VERSION, "make_with_files": make_synthetic_with_truth},
        ),
        Spec(
            "placebo",
            make_placebo,
            "a market like another one in which nobody can select: the same market and style returns, residuals under random signs",
            PlaceboParams,
            extra={"make_with_files": make_placebo_with_facts},
        ),
        Spec(
            "long",
            make_long,
            "CSV or Parquet tables of bars, index levels, membership and industries, in any vendor's columns, codes and units",
            LongParams,
            extra={"read": read_long},
        ),
        Spec(
            "qlib",
            make_qlib,
            "a folder in Qlib's binary layout (calendars, instruments, features)",
            QlibParams,
            extra={"read": read_qlib},
        ),
    ]
