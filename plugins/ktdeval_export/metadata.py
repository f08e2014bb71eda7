"""Metadata file next to the rows, which records their sources, what was omitted, what was audited,
and what was allowed. It contains no calendar day, mask key or path.
"""

from __future__ import annotations

from typing import Literal

from ktdeval.values import Value


class MeasureEntry(Value, omit_defaults=True):
    """Figure by which rows are selected or compared."""

    name: str
    formula: str
    better: Literal["higher", "lower"]
    #: bound given by `--where`: a minimum, or a maximum if lower is better
    at_least: float | None = None


class PairCounts(Value):
    """Number of pairs of conversations on the same steps."""

    formed: int
    tied: int  #: pairs left out because both have the same value
    undefined: int  #: pairs left out because one has no value
    another_prompt: int  #: pairs left out because the models were shown different things


class SourceEntry(Value):
    """Episode that is a source of rows."""

    episode: str  #: id of the episode
    task: str
    task_version: str
    window: str | None
    seed: int
    mask: str | None
    model: str
    agent: str
    snapshot: str | None
    synthetic: bool | None  #: whether the market is synthetic; None without a market
    evaluates: str  #: benchmark that the episode is a test set for; empty without one


class RowEntry(Value, omit_defaults=True):
    """Origin of a row: its index in `sources`, and the numbers of its steps."""

    source: int  #: index of the source; for a preference, the source of the chosen conversation
    steps: tuple[int, ...]
    role: str = ""
    value: float | None = None
    rejected_source: int | None = None
    rejected_value: float | None = None


class AuditEntry(Value):
    """Leak audit that the rows passed."""

    checks: tuple[str, ...]
    steps: int  #: steps that were audited
    left_out: int  #: number of audited steps left out by `--skip-leaks` because of the model's text


class Metadata(Value):
    """Metadata for a file of rows."""

    version: Literal[1]
    made_by: str
    format: Literal["chat", "preference"]
    dialect: Literal["trl", "openai"]
    rows_hold: Literal["step", "episode"]
    rows: int
    sha256: str  #: SHA-256 of the file of rows
    measure: MeasureEntry | None
    pairs: PairCounts | None
    allowed: tuple[str, ...]  #: permissions that were needed: `evaluation data`, or nothing
    audit: AuditEntry
    left_out: dict[str, int]  #: number of steps that did not become rows, keyed by reason
    sources: tuple[SourceEntry, ...]
    row_sources: tuple[RowEntry, ...]  #: origin of each row, in order
