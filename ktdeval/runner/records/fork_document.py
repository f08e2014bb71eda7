"""Folder of a fork: repetitions of a run's decisions with one input changed, and statistics about
them.

    OUT/decisions.jsonl   one line for each decision, durable before the next is requested
    OUT/fork.json         the figures, and their sources
    OUT/calls.sqlite      the call log, for a remote model

A fork is not a result card: it is never ranked, and no card can be made from it.
"""

from __future__ import annotations

from pathlib import Path

from ktdeval.runner.records.result_documents import load_result
from ktdeval.values.documents.format_versions import format_version
from ktdeval.values.documents.strict_json import JsonValue
from ktdeval.values.documents.typed_json import Value

FORMAT = "fork"
FORK_VERSION = format_version(FORMAT)
FORK, DECISIONS = "fork.json", "decisions.jsonl"  #: file names in the folder
_SUFFIX = "-fork"


class ForkPlace(Value):
    """A step whose decision is requested again."""

    episode: str  #: id of the step's episode
    task: str
    window: str
    seed: int
    step: int


class ForkedDecision(Value):
    """One decision of a forked step, in true identities."""

    place: ForkPlace
    variant: str  #: name of the change; `AGAIN` for no change
    sample: int  #: number of the repetition, from 0
    manifest_sha256: str  #: hash of the forked run's manifest
    provenance: str  #: source of the decision, as in a ledger
    #: by code, target share of the NAV after the orders; positions of weight 0 are omitted
    weights: dict[str, float]
    sides: dict[str, str]  #: by code, side of its last order
    cells: int  #: number of values in the prompt and in tool results that changed
    #: by code, increase of its figure; empty if no figure of an asset changes
    differences: dict[str, float]
    input_tokens: int
    output_tokens: int
    failure: str | None  #: why there is no decision; null if there is one
    #: true: a call failed, and is repeated on the next start; false: the decision can't be
    #: requested
    is_call_failure: bool
    #: orders whose text names no asset, as `BUY 'XYZ'`; no weight shows them
    unread: tuple[str, ...] = ()


class VariantFigures(Value):
    """Distance of decisions under one change from repeated decisions without a change; means over
    steps.
    """

    variant: str
    family: str  #: family of the changed input
    is_placebo: bool
    steps: int  #: number of steps at which the change had an effect
    decisions: int  #: number of decisions requested
    failed: int  #: number of these that failed or were omitted
    cells: float | None  #: changed values per decision
    moved_share: float | None  #: fraction of pairs of decisions that differ
    #: half the sum of absolute weight differences, including cash: 0 … 1 for a long portfolio
    turnover: float | None
    flips: float | None  #: stocks on the other side, per decision
    #: correlation over assets between the change in their figure and the change in their weight,
    #: mean over steps; above 0, a larger figure leads to a larger weight
    direction: float | None
    beyond: float | None  #: turnover in excess of that of repeated decisions without a change
    low: float | None  #: 95 % interval of `beyond`
    high: float | None
    #: largest p-value over the null hypotheses, before `adjusted_p`; 0: exact, of a model that
    #: never draws
    p: float | None
    adjusted_p: float | None  #: adjusted by Holm over all changes
    is_read: bool | None  #: whether the change moves decisions beyond every null; null: undecided
    reason: str | None  #: why a figure is missing


class FamilyFigures(Value):
    """Shown inputs of one family, and those that decisions depend on."""

    family: str
    shown: int
    read: int


class ForkFile(Value):
    """Result of `ktdeval fork` (`fork.json`)."""

    version: int
    run: str  #: name of the run's folder
    manifest_sha256: str  #: hash of the run's manifest.json, which identifies the run
    model: str
    agent: str
    samples: int  #: repetitions of each variant at each step
    draws: bool  #: whether a repeated request may give a different decision
    places: tuple[ForkPlace, ...]
    selection: dict[str, JsonValue]  #: steps and changes that were selected, by option
    as_recorded: float | None  #: fraction of repeated decisions that equal the recorded one
    variants: tuple[VariantFigures, ...]
    families: tuple[FamilyFigures, ...]
    notes: tuple[str, ...]


def fork_beside(run: Path) -> Path:
    """Return the default folder of a run's fork."""
    run = run.resolve()
    return run.with_name(f"{run.name}{_SUFFIX}")


def load_fork(folder: Path) -> ForkFile:
    """Read the `fork.json` of a fork. Raises StoreError if it is missing or unreadable."""
    return load_result(folder, FORK, ForkFile, FORMAT, "fork")
