"""Certificate of a mask as a typed card; its JSON Schema is generated from it (`python -m
ktdeval_deanon.certificate.types`).
"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any, Literal

from msgspec import UNSET, Meta, UnsetType

from ktdeval.cards import (
    Card,
    Count,
    Counts,
    Day,
    Figure,
    MaskKind,
    Name,
    Number,
    Pluggable,
    Sha256,
    Share,
    Time,
    card_schema,
)
from ktdeval.task_api import MaskKey
from ktdeval.values import AddressText, Arguments, Value, dumps_pretty, write_atomic

SCHEMA_FILE = Path(__file__).with_name("certificate-v1.json")

MODEL = "model"
MECHANICAL = "mechanical"


class ShareInterval(Value, frozen=True, kw_only=True):
    """Two-sided interval of a share; no ends where there are no trials."""

    low: Number | None
    high: Number | None
    level: Number  #: nominal coverage
    kind: Name
    n: Count  #: trials
    reason: Name | UnsetType = UNSET


class Recovery(Figure, Value, frozen=True, kw_only=True):
    """One score of an attacker: how many of `n` it recovered, as a share."""

    value: Share | None
    reason: Name | UnsetType = UNSET
    successes: Count
    n: Count  #: valid answers
    interval: ShareInterval
    upper: Share  #: exact one-sided bound of Clopper and Pearson; 1 when n is 0
    baseline: Share | None  #: what chance gives on the same probes; null where that is not known


class ControlShare(Figure, Value, frozen=True, kw_only=True):
    """One thing that an attacker had to read off unmasked probes, and whether it did."""

    value: Share | None  #: share of all unmasked probes, answered or not
    reason: Name | UnsetType = UNSET
    successes: Count
    n: Count  #: unmasked probes with a known truth
    interval: ShareInterval  #: exact, of Clopper and Pearson
    #: what chance or the best constant answer gives on the same probes, whichever is more
    baseline: Share | None
    needed: Share | None  #: least lower end of the interval with which the control is passed
    passed: bool


class ControlResult(Figure, Value, frozen=True, kw_only=True):
    """Positive control of an attacker, by what was to be read; null with a reason where it was not
    asked.
    """

    value: Annotated[dict[str, ControlShare], Meta(min_length=1)] | None
    reason: Name | UnsetType = UNSET


class MaskOptions(Value, frozen=True):
    """A mask with its options."""

    kind: MaskKind
    rebase_prices: bool
    round_digits: int | None
    noise_pct: Number


class Keyed(Value, frozen=True):
    """Facts that a trading card must share with a certificate to be covered."""

    snapshot: Sha256  #: id of the market
    task_family: str | None
    task_version: str | None
    mode: str | None
    mask: MaskOptions
    tool_texts: dict[str, Sha256]  #: tool -> hash of what a model reads of it
    harness: dict[str, Any]


class Covers(Keyed, frozen=True):
    """Coverage of a certificate."""

    key: Sha256  #: hash of exactly what a trading card must have in common with it
    task_name: Name
    task_hash: Sha256


class Exam(Value, frozen=True):
    """Scoring task that asked."""

    name: Name
    version: Name
    hash: Sha256


class Market(Value, frozen=True):
    """Market."""

    id: Sha256
    name: Name
    source: str
    synthetic: bool
    assets: Count
    first_day: Day
    last_day: Day


class ProbeWindow(Value, frozen=True):
    """Probes of one window."""

    name: Name
    first: Day
    last: Day
    probes: Count


class Probes(Value, frozen=True, kw_only=True):
    """Probe set."""

    count: Annotated[int, Meta(ge=1)]
    seed: Count
    mask_key: MaskKey  #: what the probes and the handles shown were drawn from
    #: probes of each window where that is not all; null: all
    limit: Annotated[int, Meta(ge=1)] | None
    windows: Annotated[list[ProbeWindow], Meta(min_length=1)]
    boards: Counts  #: probes by board
    sha256: Sha256  #: hash of everything that was shown


class ControlSet(Value, frozen=True, kw_only=True):
    """Unmasked probes of the same windows, which an attacker must read before its misses count."""

    exam: Exam  #: the scoring task that asked
    count: Annotated[int, Meta(ge=1)]
    sha256: Sha256  #: hash of everything that was shown
    level: Number  #: of the intervals
    least_read: Share  #: share of the probes that must have been read rather than guessed
    #: score -> what an attacker must have read for its misses of this score to count
    needs: dict[str, list[Name]]


class RecoveryDefinition(Value, frozen=True):
    """Meaning of a score."""

    formula: Name
    unit: Name
    better: Literal["lower", "higher", ""]
    source: Name


class Named(Value, frozen=True):
    """Answers that name a stock at all, and those that name a day: who never guesses can't be
    right.
    """

    tickers: Count
    date: Count


class Attacker(Value, frozen=True):
    """An attacker and what it recovered."""

    name: Name
    kind: Literal["mechanical", "model"]
    card: Sha256 | None  #: SHA-256 of the card of a model's run; null where there is none
    model: Pluggable | None
    agent: Pluggable | None
    call: dict[str, Any] | None
    probes: Count  #: probes put to it
    answered: Count  #: of these, with a valid answer
    named: Named
    scores: dict[str, Recovery]
    control: ControlResult
    #: scores whose control it passed; its misses of the others certify nothing
    counts_for: list[Name]


class BoundEntry(Value, frozen=True):
    """Largest upper bound of any model that passed its control."""

    upper: Share
    level: Number  #: confidence of the one-sided bound
    attacker: Name  #: the model whose bound it is
    value: Share
    n: Count
    baseline: Share | None


class Bound(Figure, Value, frozen=True, kw_only=True):
    """For each thing to recover, the largest upper bound of any model that counts for it; null with
    a reason where none does.
    """

    value: Annotated[dict[str, BoundEntry], Meta(min_length=1)] | None
    reason: Name | UnsetType = UNSET


class Anonymity(Value, frozen=True):
    """How many pairs of asset and day agree with a payload, over all payloads."""

    mean: Annotated[float, Meta(ge=0)]
    median: Annotated[float, Meta(ge=0)]
    least: Count
    most: Count
    alone: Share  #: share of payloads with which none but its own pair agrees


class AblationEntry(Value, frozen=True):
    """Recoveries of the exact matcher by some of the shown fields."""

    name: Name
    fields: list[Name]
    scores: dict[str, Recovery]
    k: Anonymity


class Identifiability(Value, frozen=True):
    """Recoveries of a database in the same texts, by field."""

    ablation: Annotated[list[AblationEntry], Meta(min_length=1)]
    factors: list[Name]  #: style factors that the exact matcher compares
    factors_not_compared: list[Name]  #: further ones that are shown


class CertificateProvenance(Value, frozen=True):
    """Where and when it was made; the only part that may differ between two equal ones."""

    created_at: Time
    suite_version: Name
    source_revision: str | None
    wall_time_s: Number | None
    environment: dict[str, Any]
    data: Annotated[Name, AddressText()]
    data_args: Arguments


class CertificateFacts(Card, frozen=True):
    """Fields that the bounds of a certificate follow from."""

    kind: Literal["certificate"]
    schema_version: Literal[1]
    covers: Covers
    exam: Exam  #: the scoring task that asked
    snapshot: Market
    probes: Probes
    control: ControlSet
    #: what each score says was recovered
    definitions: Annotated[dict[str, RecoveryDefinition], Meta(min_length=1)]
    score_order: list[Name]  #: names of the scores in the order in which they are shown
    attackers: Annotated[list[Attacker], Meta(min_length=1)]
    identifiability: Identifiability
    artefacts: dict[str, Sha256]  #: probe set and records of the models -> SHA-256
    provenance: CertificateProvenance

    def scores_of(self, attacker: str) -> dict[str, Recovery]:
        """Scores of an attacker; empty if no attacker has this name."""
        return next((entry.scores for entry in self.attackers if entry.name == attacker), {})

    @property
    def models(self) -> list[Attacker]:
        """Attackers that are models."""
        return [attacker for attacker in self.attackers if attacker.kind == MODEL]

    @property
    def counting(self) -> list[Attacker]:
        """Models that passed a control, so that some of their misses count."""
        return [attacker for attacker in self.models if attacker.counts_for]


class Certificate(CertificateFacts, frozen=True):
    """Recoveries of attackers from masked payloads, and what they bound: for the channel to a
    model, not to a database.
    """

    #: what a reader must see before any figure.
    labels: list[
        Literal[
            "synthetic",
            "limited",
            "no model attacked",
            "control failed",
            "control incomplete",
            "few answers",
            "few guesses",
        ]
    ]
    bound: Bound


if __name__ == "__main__":
    write_atomic(SCHEMA_FILE, dumps_pretty(card_schema(Certificate, "certificate")))
