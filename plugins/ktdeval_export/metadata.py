"""Metadata file next to the rows: their sources, what was omitted, what was audited, and what was
allowed. It contains no calendar day, mask key or path.
"""

from __future__ import annotations

from typing import Literal

from ktdeval.values import Value


class MeasureEntry(Value, omit_defaults=True):
    """Figure by which rows are chosen or compared."""

    name: str
    formula: str
    better: Literal["higher", "lower"]
    at_least: float | None = None  #: bound of `--where`: a minimum, or a maximum if lower is better


class PairCounts(Value):
    """Pairs of talks about the same."""

    formed: int
    tied: int  #: left out: both have the same value
    undefined: int  #: left out: one has no value
    another_prompt: int  #: left out: the models were shown different things


class SourceEntry(Value):
    """One episode."""

    episode: str  #: its id
    task: str
    task_version: str
    window: str | None
    seed: int
    mask: str | None
    model: str
    agent: str
    snapshot: str | None
    synthetic: bool | None  #: whether its market is; None without a market
    evaluates: str  #: benchmark that it is a test set of; empty if none


class RowEntry(Value, omit_defaults=True):
    """Origin of a row: indices of `sources`, and numbers of steps."""

    source: int  #: for a preference, metadata of the chosen conversation
    steps: tuple[int, ...]
    role: str = ""
    value: float | None = None
    rejected_source: int | None = None
    rejected_value: float | None = None


class AuditEntry(Value):
    """Leak audit that the rows passed."""

    checks: tuple[str, ...]
    steps: int  #: steps that were audited
    left_out: int  #: number of these steps left out by --skip-leaks because of the model's text


class Metadata(Value):
    """Metadata of a file of rows."""

    version: Literal[1]
    made_by: str
    format: Literal["chat", "preference"]
    dialect: Literal["trl", "openai"]
    rows_hold: Literal["step", "episode"]
    rows: int
    sha256: str  #: of the file of rows
    measure: MeasureEntry | None
    pairs: PairCounts | None
    allowed: tuple[str, ...]  #: permission that was needed: `evaluation data`, or nothing
    audit: AuditEntry
    left_out: dict[str, int]  #: reason -> steps that are no rows
    sources: tuple[SourceEntry, ...]
    row_sources: tuple[RowEntry, ...]  #: of each row, in order
