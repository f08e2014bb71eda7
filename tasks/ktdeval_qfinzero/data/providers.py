"""Providers of `ktdeval data make` for the services' data, which can be listed without loading any
table.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from ktdeval.hookspecs import Spec
from ktdeval.registry import DataForm
from ktdeval.values import maker, option
from ktdeval_qfinzero.data.synthetic.params import SyntheticMarketParams

_FORM = "ktdeval_qfinzero.data.make_and_check"

DATASET = DataForm(
    name="QFinZero dataset",
    holds=maker(f"{_FORM}:is_dataset"),
    check=maker("ktdeval_qfinzero.data.check:check_dataset"),
    facts=maker(f"{_FORM}:facts_of_folder"),
)
"""Form of the data that the services read."""


@dataclass(frozen=True)
class FilesParams:
    """Files of one's own, and the dataset that they make or update."""

    ingest: str = field(
        metadata={"help": "YAML or JSON file that maps files to their contents", "flag": "SPEC"}
    )
    update: bool = option(
        False,
        help="add the rows to the dataset in --out, all or nothing; those stored are passed over",
    )
    replace: bool = option(
        False,
        help="with --update: rows that contradict stored ones replace them; else they are refused",
    )


def providers() -> Sequence[Spec]:
    """Return the providers."""
    return [
        Spec(
            "qfinzero",
            maker(f"{_FORM}:generate_market"),
            "an invented market of the QFinZero services: prices, options, events and news, from a"
            " seed",
            SyntheticMarketParams,
            extra={"form": DATASET},
        ),
        Spec(
            "qfinzero_files",
            maker(f"{_FORM}:of_files"),
            "a market of the QFinZero services out of your own CSV and JSON files, which SPEC"
            " describes",
            FilesParams,
            extra={"form": DATASET, "kind": "imported", "example": "ingest.yaml"},
        ),
    ]
