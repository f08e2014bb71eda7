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
    """Two-sided interval of a share; without ends if there are no trials."""

    low: Number | None
    high: Number | None
    level: Number  #: nominal coverage
    kind: Name
    n: Count  #: number of trials
    reason: Name | UnsetType = UNSET


class Recovery(Figure, Value, frozen=True, kw_only=True):
    """One score of an attacker: how many of `n` it recovered, as a share."""

    value: Share | None
    reason: Name | UnsetType = UNSET
    successes: Count
    n: Count  #: number of valid answers
    interval: ShareInterval
    upper: Share  #: exact one-sided bound of Clopper and Pearson; 1 when n is 0
    baseline: Share | None  #: chance level on the same probes; null if unknown


class ControlShare(Figure, Value, frozen=True, kw_only=True):
    """One item that an attacker had to read from unmasked probes, and whether it did."""

    value: Share | None  #: share of all unmasked probes, answered or not
    reason: Name | UnsetType = UNSET
    successes: Count
    n: Count  #: number of unmasked probes with a known truth
    interval: ShareInterval  #: exact interval of Clopper and Pearson
    #: level of chance or of the best constant answer on the same probes, whichever is larger
    baseline: Share | None
    needed: Share | None  #: minimum lower end of the interval for passing the control
    passed: bool


class ControlResult(Figure, Value, frozen=True, kw_only=True):
    """Positive control of an attacker, by item to read; null with a reason if it was not asked."""

    value: Annotated[dict[str, ControlShare], Meta(min_length=1)] | None
    reason: Name | UnsetType = UNSET


class MaskOptions(Value, frozen=True):
    """A mask with its options."""

    kind: MaskKind
    rebase_prices: bool
    round_digits: int | None
    noise_pct: Number


class Keyed(Value, frozen=True):
    """Facts in which a trading card must agree with a certificate to be covered."""

    snapshot: Sha256  #: id of the market
    task_family: str | None
    task_version: str | None
    mode: str | None
    mask: MaskOptions
    tool_texts: dict[str, Sha256]  #: tool -> hash of the text that a model reads about it
    harness: dict[str, Any]


class Covers(Keyed, frozen=True):
    """Coverage of a certificate."""

    key: Sha256  #: hash of exactly the facts in which a trading card must agree with it
    task_name: Name
    task_hash: Sha256


class Exam(Value, frozen=True):
    """Scoring task that asked the questions."""

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
    mask_key: MaskKey  #: seed of the probes and of the handles shown
    #: number of probes of each window if limited; null: all
    limit: Annotated[int, Meta(ge=1)] | None
    windows: Annotated[list[ProbeWindow], Meta(min_length=1)]
    boards: Counts  #: probes by board
    sha256: Sha256  #: hash of everything that was shown


class ControlSet(Value, frozen=True, kw_only=True):
    """Unmasked probes of the same windows, which an attacker must be able to read for its misses to
    count.
    """

    exam: Exam  #: the scoring task that asked
    count: Annotated[int, Meta(ge=1)]
    sha256: Sha256  #: hash of everything that was shown
    level: Number  #: level of the intervals
    least_read: Share  #: share of the probes that must have been read rather than guessed
    #: score -> items that an attacker must have read for its misses on this score to count
    needs: dict[str, list[Name]]


class RecoveryDefinition(Value, frozen=True):
    """Meaning of a score."""

    formula: Name
    unit: Name
    better: Literal["lower", "higher", ""]
    source: Name


class Named(Value, frozen=True):
    """Number of answers that name a stock, and of those that name a day: an attacker that never
    guesses can't be right.
    """

    tickers: Count
    date: Count


class Attacker(Value, frozen=True):
    """An attacker, and what it recovered."""

    name: Name
    kind: Literal["mechanical", "model"]
    card: Sha256 | None  #: SHA-256 of the card of a model's run; null if there is none
    model: Pluggable | None
    agent: Pluggable | None
    call: dict[str, Any] | None
    probes: Count  #: number of probes that it was asked
    answered: Count  #: number of these with a valid answer
    named: Named
    scores: dict[str, Recovery]
    control: ControlResult
    #: scores whose control it passed; misses on other scores certify nothing
    counts_for: list[Name]


class BoundEntry(Value, frozen=True):
    """Largest upper bound of any model that passed its control."""

    upper: Share
    level: Number  #: confidence level of the one-sided bound
    attacker: Name  #: model that this bound comes from
    value: Share
    n: Count
    baseline: Share | None


class Bound(Figure, Value, frozen=True, kw_only=True):
    """For each score, the largest upper bound of any model that counts for it; null with a reason
    if none does.
    """

    value: Annotated[dict[str, BoundEntry], Meta(min_length=1)] | None
    reason: Name | UnsetType = UNSET


class Anonymity(Value, frozen=True):
    """Number of asset-day pairs that agree with a payload, over all payloads."""

    mean: Annotated[float, Meta(ge=0)]
    median: Annotated[float, Meta(ge=0)]
    least: Count
    most: Count
    alone: Share  #: share of payloads with which only their own pair agrees


class AblationEntry(Value, frozen=True):
    """Recoveries of the exact matcher from some of the shown fields."""

    name: Name
    fields: list[Name]
    scores: dict[str, Recovery]
    k: Anonymity


class Identifiability(Value, frozen=True):
    """Recoveries by an attacker with a price database from the same texts, by field."""

    ablation: Annotated[list[AblationEntry], Meta(min_length=1)]
    factors: list[Name]  #: style factors that the exact matcher compares
    factors_not_compared: list[Name]  #: further factors that are shown


class PathEntry(Value, frozen=True, kw_only=True):
    """Recoveries of an episode's first day by the path matcher, from the days it has seen."""

    days: Annotated[int, Meta(ge=1)]  #: number of days seen
    candidates: Annotated[int, Meta(ge=1)]  #: number of first days that it chooses from
    #: median place of the true first day among the candidates; 1 is the likeliest
    median_place: Annotated[float, Meta(ge=1)]
    #: episodes whose true first day was the likeliest of all candidates
    first: Recovery


class DatePaths(Figure, Value, frozen=True, kw_only=True):
    """First days of whole episodes, found by the mean return of the stocks shown each day and the
    closes of the public index; null with a reason if there is nothing to find.
    """

    value: Annotated[list[PathEntry], Meta(min_length=1)] | None
    reason: Name | UnsetType = UNSET


NOT_YET_ATTACKED = DatePaths(value=None, reason="the certificate is older than this attack")


class CertificateProvenance(Value, frozen=True):
    """Where and when the certificate was made; the only part that may differ between two equal
    certificates.
    """

    created_at: Time
    suite_version: Name
    source_revision: str | None
    wall_time_s: Number | None
    environment: dict[str, Any]
    data: Annotated[Name, AddressText()]
    data_args: Arguments


class CertificateFacts(Card, frozen=True, kw_only=True):
    """Fields from which the bounds of a certificate follow."""

    kind: Literal["certificate"]
    schema_version: Literal[1]
    covers: Covers
    exam: Exam  #: scoring task that asked the questions
    snapshot: Market
    probes: Probes
    control: ControlSet
    #: meaning of each score
    definitions: Annotated[dict[str, RecoveryDefinition], Meta(min_length=1)]
    score_order: list[Name]  #: names of the scores in the order in which they are shown
    attackers: Annotated[list[Attacker], Meta(min_length=1)]
    identifiability: Identifiability
    #: what whole episodes give away of the day; absent on certificates from before this attack
    paths: DatePaths | UnsetType = UNSET
    artefacts: dict[str, Sha256]  #: probe set and records of the models -> SHA-256
    provenance: CertificateProvenance

    @property
    def date_paths(self) -> DatePaths:
        """What whole episodes give away of the day; null on certificates from before this attack."""
        return NOT_YET_ATTACKED if self.paths is UNSET else self.paths

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


class Certificate(CertificateFacts, frozen=True, kw_only=True):
    """Recoveries of attackers from masked payloads, and the resulting bounds, which hold for the
    channel to a model, not to a database.
    """

    #: Labels that a reader must see before any figure.
    labels: list[
        Literal[
            "synthetic",
            "limited",
            "day found",
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
