"""Data for the detection limit for memory, one row per episode, and the CSV file that stores it."""

from __future__ import annotations

import csv
import io
from collections.abc import Mapping, Sequence
from dataclasses import astuple, dataclass, fields
from importlib import resources
from pathlib import Path

from ktdeval.errors import DataError
from ktdeval.values import load_yaml
from ktdeval_compare.pairs.signed_ranks import Span, published_spans

BRIGHT = "bright"
HIDDEN = "blinded"
MEMORY = "memory"
"""Kind of row for a model that remembers a share of the facts."""
CONTROL = "control"
"""Kind of row for a model that invents its memories."""
CUTOFF = "cutoff"
"""Kind of row for a dose's effect on the annualised mean before a planted cutoff minus that after
it.
"""
CUTOFF_ERROR = "cutoff_error"
"""Kind of row for that effect's standard error."""
SHIPPED = "memory_doses.csv"
SHIPPED_WINDOWS = "ktdfin-windows"
ORIGIN = "memory_doses.yaml"


@dataclass(frozen=True, kw_only=True)
class DoseRow:
    """Return of one episode, or another figure, depending on the kind of row."""

    kind: str
    dose: float  #: share of remembered facts
    seed: int  #: seed that selects the facts
    mask: str
    window: str
    value: float  #: total return, as a fraction


def write_rows(rows: Sequence[DoseRow]) -> str:
    """Return rows as CSV."""
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow([field.name for field in fields(DoseRow)])
    for row in rows:
        kind, dose, seed, mask, window, value = astuple(row)
        writer.writerow([kind, f"{dose:g}", seed, mask, window, f"{value:.8f}"])

    return text.getvalue()


def read_rows(text: str, where: str) -> list[DoseRow]:
    """Return the rows in CSV text.

    Raises DataError if a row is not valid; the message starts with `where`.
    """
    rows = []
    for number, entry in enumerate(csv.DictReader(io.StringIO(text)), 2):
        try:
            rows.append(
                DoseRow(
                    kind=entry["kind"],
                    dose=float(entry["dose"]),
                    seed=int(entry["seed"]),
                    mask=entry["mask"],
                    window=entry["window"],
                    value=float(entry["value"]),
                )
            )
        except (KeyError, TypeError, ValueError) as error:
            raise DataError(
                f"{where}, line {number}: not a row of a dose-response study"
            ) from error

    return rows


@dataclass(frozen=True)
class DoseStudy:
    """Episodes in a study, and the dates of its windows."""

    rows: Sequence[DoseRow]
    spans: Mapping[str, Span]  #: first and last day of each window


def shipped_study() -> DoseStudy:
    """Return the study that is shipped with the package."""
    text = resources.files(__package__).joinpath(SHIPPED).read_text("utf-8")
    return DoseStudy(read_rows(text, SHIPPED), published_spans(SHIPPED_WINDOWS))


def shipped_origin() -> Mapping[str, str]:
    """Return the provenance of the shipped rows: command, market and date."""
    origin: Mapping[str, str] = load_yaml(Path(__file__).with_name(ORIGIN))
    return origin
