"""Folder of a fork: a run's decisions repeated with one input changed, and figures on them.

    OUT/decisions.jsonl   one line for each decision, durable before the next is requested
    OUT/fork.json         the figures, and their sources
    OUT/calls.sqlite      the call log, for a remote model

A fork is not a result card: it is never ranked, and no card can be made from it.
"""

from __future__ import annotations

from pathlib import Path

from ktdeval.runner.records.result_documents import load_result
from ktdeval.values.format_versions import format_version
from ktdeval.values.strict_json import JsonValue
from ktdeval.values.typed_json import Value

FORMAT = "fork"
FORK_VERSION = format_version(FORMAT)
FORK, DECISIONS = "fork.json", "decisions.jsonl"  #: file names in the folder
_SUFFIX = "-fork"


class ForkPlace(Value):
    """A step that is asked again."""

    episode: str  #: id of its episode
    task: str
    window: str
    seed: int
    step: int


class ForkedDecision(Value):
    """One decision of a forked step, in true identities."""

    place: ForkPlace
    variant: str  #: the change as named, `AGAIN` where nothing is changed
    sample: int  #: its number, from 0
    manifest_sha256: str  #: of the run that it is a fork of
    provenance: str  #: how the decision came about, as in a ledger
    #: by code, share of the NAV after the orders, as they were decided; positions of weight 0 are
    #: left out
    weights: dict[str, float]
    sides: dict[str, str]  #: by code, side of the last order
    cells: int  #: values of the prompt and of tool results that were other ones
    #: by code, how much its figure was larger than it was; empty where no figure of assets changes
    differences: dict[str, float]
    input_tokens: int
    output_tokens: int
    failure: str | None  #: why there is no decision; null: there is one
    #: whether that is a call that failed, which is made again; else it can't be asked at all
    is_call_failure: bool


class VariantFigures(Value):
    """How far decisions of one change lie from those asked again as they were; means over steps."""

    variant: str
    family: str  #: of the input that is changed
    is_placebo: bool
    steps: int  #: at which it changed something
    decisions: int  #: that were asked
    failed: int  #: of these, calls that failed or were left out
    cells: float | None  #: changed values a decision
    moved_share: float | None  #: share of pairs of decisions that differ
    #: half the sum of absolute differences of weights, cash included: 0 … 1 of a long portfolio
    turnover: float | None
    flips: float | None  #: stocks on the other side, of a decision
    #: correlation over assets of the change of their figure with that of their weight, mean over
    #: steps: above 0, more of it is bought
    direction: float | None
    beyond: float | None  #: turnover beyond that of plain re-asking
    low: float | None  #: 95 % interval of `beyond`
    high: float | None
    #: p-value of the largest of the nulls, before `adjusted_p`; 0: exact, of a model that never
    #: draws
    p: float | None
    adjusted_p: float | None  #: by Holm over all changes
    is_read: bool | None  #: whether it moves decisions beyond every null; null: not decided
    reason: str | None  #: why a figure is missing


class FamilyFigures(Value):
    """Shown inputs of one family, and those that decisions depend on."""

    family: str
    shown: int
    read: int


class ForkFile(Value):
    """What `ktdeval fork` found (`fork.json`)."""

    version: int
    run: str  #: name of the run's folder
    manifest_sha256: str  #: of its manifest.json, by which it is known again
    model: str
    agent: str
    samples: int  #: of each variant at each step
    draws: bool  #: whether asking again may give another decision
    places: tuple[ForkPlace, ...]
    selection: dict[str, JsonValue]  #: which steps and changes were asked for, by option
    as_recorded: float | None  #: share of decisions asked again that are the recorded one
    variants: tuple[VariantFigures, ...]
    families: tuple[FamilyFigures, ...]
    notes: tuple[str, ...]


def fork_beside(run: Path) -> Path:
    """Return the default folder of a run's fork."""
    run = run.resolve()
    return run.with_name(f"{run.name}{_SUFFIX}")


def load_fork(folder: Path) -> ForkFile:
    """Read the document of a fork. Raises StoreError if it is missing or unreadable."""
    return load_result(folder, FORK, ForkFile, FORMAT)
