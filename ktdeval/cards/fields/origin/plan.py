"""The plan behind a card: seeds, keys, models, settings, market, windows and rules."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np
from msgspec import UNSET, UnsetType

from ktdeval.calls.costs.prices import FREE, is_free_price
from ktdeval.cards.fields.base_types import (
    Name,
    Problem,
    Sha256,
    decode_part,
    strict_json,
)
from ktdeval.cards.fields.card_inputs import CardSources, days_of
from ktdeval.cards.fields.origin.fact_types import (
    FurtherModelPart,
    KeySource,
    Pluggable,
    SnapshotPart,
    TaskPart,
    WindowPart,
)
from ktdeval.cards.fields.origin.recorded_facts import (
    AnyFacts,
    DerivationBasis,
    ScoringFacts,
    TradingFacts,
)
from ktdeval.cards.fields.words import field_label
from ktdeval.cards.table_types import Row, clean, count
from ktdeval.market.rules.fees import duty_rows
from ktdeval.market.snapshots.snapshot import DayArray, MarketSnapshot
from ktdeval.market.snapshots.writing_systems import unnamed_scripts
from ktdeval.task_api.episode_spec import MaskKey
from ktdeval.values.documents.typed_json import Value
from ktdeval.values.hashes import content_hash

# ---- seeds and keys


def gather_seeds(sources: CardSources) -> list[int]:
    """Return the seeds in the plan, ascending."""
    return sorted({spec.seed for spec in sources.planned})


def gather_mask_key(sources: CardSources) -> MaskKey | UnsetType:
    """Return the mask key; unset if the task needs no market."""
    key = sources.planned[0].mask_key
    return UNSET if key is None else key


def gather_registration(sources: CardSources) -> str | UnsetType:
    """Return the id of the registration that drew the key; unset if the run drew its own."""
    registration = sources.inputs.registration
    return UNSET if registration is None else registration


def gather_key_source(sources: CardSources) -> KeySource | UnsetType:
    """Return the source of a mask key that was known before the run; unset if the run drew its own,
    or has none.
    """
    source = sources.inputs.key_source
    if source is None or not sources.planned[0].mask_key:
        return UNSET
    return source


def key_source_text(source: KeySource | UnsetType, facts: AnyFacts) -> str:
    """Return who knew the mask key before the run; empty if nobody did."""
    if source is UNSET:
        return ""
    return _KEY_SOURCES[source]


_KEY_SOURCES: Mapping[KeySource, str] = {
    "given": "given to the run, so that it was known before",
    "board": "drawn and published by a board before the run",
}


def registration_text(registration: str | UnsetType, facts: AnyFacts) -> str:
    """Return a description of the registration whose leaderboard drew the key. Only the leaderboard
    can say whether the card answers one of its questions; the card itself does not guarantee it.
    """
    if not registration:
        return "none: exploratory, no question was fixed before the run"
    return (
        f"{registration[:12]}: its board drew the mask key, and says whether the card is"
        " confirmatory or exploratory"
    )


# ---- models and agent


PEOPLE = "human/"  #: Prefix of full model names that refer to people
DECLARED = "declared/"  #: Prefix of full model names whose decisions were declared in a file
NOT_RECORDED = "the decisions were made elsewhere, so there is no record of a model"
"""Reason against ranking a card of declared decisions."""


def is_person(model: str) -> bool:
    """Return whether this full model name refers to a person."""
    return model.startswith(PEOPLE)


def is_declared(model: str) -> bool:
    """Return whether the model with this full name submits decisions that were made outside the
    run.
    """
    return model.startswith(DECLARED)


def gather_model(sources: CardSources) -> Pluggable:
    """Return the model in the plan, with its parameters."""
    spec = sources.planned[0]
    return Pluggable(name=spec.model, args=strict_json("model", spec.model_args))


def gather_agent(sources: CardSources) -> Pluggable:
    """Return the agent in the plan, with its parameters."""
    spec = sources.planned[0]
    return Pluggable(name=spec.agent, args=strict_json("agent", spec.agent_args))


def further_problems(models: Sequence[FurtherModelPart], facts: AnyFacts) -> Iterator[Problem]:
    """Yield a problem if an additional model is local although the card's model is remote, or vice
    versa, or if its price contradicts how it is called.
    """
    for number, model in enumerate(models):
        where = ("further_models", number)
        if (model.request_settings is None) != (facts.request_settings is None):
            yield (*where, "sent_as"), "one model of a run is behind a network, the other is not"
        elif model.request_settings is not None and is_free_price(model.price):
            yield (*where, "price"), f"is that of {FREE.source}, though sent_as says otherwise"


def with_args(entry: Pluggable, facts: object = None) -> str:
    """Return a model's or agent's name with its arguments."""
    args = ", ".join(f"{name}={value}" for name, value in sorted(entry.args.items()))
    return f"{entry.name} ({args})" if args else entry.name


def further_rows(models: Sequence[FurtherModelPart], facts: AnyFacts) -> Iterator[Row]:
    """Yield a row for each additional model."""
    for model in models:
        words = model.asked_as
        if model.name != model.asked_as:
            words = f"{model.name}, asked as {model.asked_as}"
        if model.price is None:
            words += "; its price is not known"

        yield field_label("further_models"), words


# ---- call settings


def gather_call(sources: CardSources) -> dict[str, Any]:
    """Return the sampling and transport parameters of model calls."""
    call: dict[str, Any] = strict_json("call", sources.planned[0].call)
    return call


def gather_request_settings(sources: CardSources) -> dict[str, Any] | None:
    """Return how calls were sent to the provider; None if the model is local."""
    settings: dict[str, Any] | None = strict_json("sent_as", sources.inputs.request_settings)
    return settings


def call_text(call: Mapping[str, Any], facts: AnyFacts) -> str:
    """Return a description of the parameters of model calls that were sent, and of those that the
    run left to others.
    """
    unsent = _unsent_names(facts.request_settings)
    sent = []
    left = []
    for name, value in sorted(call.items()):
        if value is None:
            left.append(name)
        elif name not in unsent:
            sent.append(f"{name} {value}")

    parts = []
    if sent:
        parts.append(", ".join(sent))
    if left:
        parts.append(f"left to the provider or to the agent's own program: {', '.join(left)}")
    return "; ".join(parts)


def _unsent_names(settings: Mapping[str, Any] | None) -> list[str]:
    """Return the names of parameters that the provider does not support."""
    unsent: list[str] = []
    for field in ("not_sent", "omit"):
        names = (settings or {}).get(field) or ()
        unsent += [clean(str(name)) for name in names]
    return unsent


def unsent_rows(settings: Mapping[str, Any] | None, facts: AnyFacts) -> Iterator[Row]:
    """Yield the rows on parameters that the provider does not support, and on repeated calls."""
    unsent = _unsent_names(settings)
    if unsent:
        yield "not sent", f"{', '.join(unsent)}: the provider does not take it"
    if settings is not None:
        yield "repeats", _repeat_words(settings)


def _repeat_words(settings: Mapping[str, Any]) -> str:
    """Return in what case the same calls would get the same replies again."""
    if settings.get("repeatable") is True:
        return "each call left the server's prompt cache out, so that a seed repeats its reply"
    return "a seed repeats its reply only in an equal state of the server's prompt cache"


# ---- task that a scoring task asks about


#: field in a scoring task's config that contains the config of its target task
TARGET_CONFIG = "subject_config"


class TargetTaskPart(Value, frozen=True):
    """Trading task that the questions are about; the task's config contains its config."""

    name: Name
    hash: Sha256  #: SHA-256 of the canonical JSON of its config


def derive_target(basis: DerivationBasis[ScoringFacts]) -> TargetTaskPart | None:
    """Return the trading task that a scoring task's config asks about; None if the config names
    none.
    """
    target = basis.facts.task.config.get(TARGET_CONFIG)
    if not isinstance(target, Mapping):
        return None
    return TargetTaskPart(name=str(target.get("name")), hash=content_hash(target))


def target_rows(target: TargetTaskPart | None, facts: ScoringFacts) -> Iterator[Row]:
    """Yield the row on the trading task that a scoring task asks about."""
    if target is not None:
        yield field_label("subject"), f"{target.name} ({target.hash[:12]})"


# ---- market


def gather_market(sources: CardSources) -> SnapshotPart | None:
    """Return a card's market, with the units that apply on its trading days; None if it has no
    market.
    """
    snapshot = sources.inputs.snapshot
    return None if snapshot is None else gather_snapshot(snapshot, sources.days.values())


def gather_snapshot(snapshot: MarketSnapshot, days: Iterable[DayArray]) -> SnapshotPart:
    """Return a market as described on cards, with the units that apply on the given days."""
    meta = snapshot.meta
    fields = {
        "id": snapshot.id,
        "name": meta.name,
        "source": meta.source,
        "synthetic": meta.synthetic,
        "has_factor": meta.has_factor,
        "repairs": meta.repairs,
        "benchmark": meta.benchmark or "none",
        "benchmark_name": snapshot.index_names.get(meta.benchmark, meta.benchmark) or "no index",
        "assets": len(snapshot.codes),
        "first_day": str(snapshot.days[0]),
        "last_day": str(snapshot.days[-1]),
    }
    if meta.placebo:
        fields["placebo"] = True

    if snapshot.documents.table is not None and not snapshot.documents.entities:
        fields["documents"] = "no entity list"

    scripts = unnamed_scripts(snapshot)
    if scripts:
        fields["unnamed_scripts"] = scripts

    spans = list(days)
    all_days = np.concatenate(spans) if spans else snapshot.days
    fields["venues"] = sorted(snapshot.rules)
    fields |= snapshot.units_of(all_days)

    return decode_part("snapshot", fields, SnapshotPart)


def market_text(snapshot: SnapshotPart | None, facts: AnyFacts) -> str:
    """Return a description of the market; empty without a market."""
    if snapshot is None:
        return ""
    return f"{snapshot.name}, {count(snapshot.assets, 'asset')}, id {snapshot.id[:12]}"


def repair_rows(snapshot: SnapshotPart | None, facts: AnyFacts) -> Iterator[Row]:
    """Yield the row on the changes that the import of the market made; no row if there are none."""
    if snapshot is not None and snapshot.repairs:
        yield field_label("snapshot.repairs"), clean(", ".join(snapshot.repairs))


# ---- windows


def gather_windows(sources: CardSources) -> list[WindowPart]:
    """Return the windows in a plan with all their trading days."""
    return [
        WindowPart(
            name=window.name,
            first=window.first,
            last=window.last,
            days=len(days_of(window, sources.inputs.snapshot)),
        )
        for window in sources.days
    ]


def window_problems(windows: Sequence[WindowPart], facts: AnyFacts) -> Iterator[Problem]:
    """Yield a problem for windows without a market, a market without windows, and windows that
    appear twice.
    """
    if (facts.snapshot is None) == bool(windows):
        yield ("windows",), "are given, but the card has no market" if windows else "are missing"

    if len({window.name for window in windows}) < len(windows):
        yield ("windows",), "one appears twice"


def window_rows(windows: Sequence[WindowPart], facts: AnyFacts) -> Iterator[Row]:
    """Yield the row on the windows and the limit; no row if the card has neither."""
    texts = [f"{window.name} {window.first}…{window.last}" for window in windows]
    spans = ", ".join(texts[:2])
    if len(texts) > 2:
        spans += f" and {len(texts) - 2} more"

    limited = ""
    if facts.limit is not None:
        limited = f"the first {count(facts.limit, facts.STEP)} of each"

    if spans or limited:
        name = "windows" if spans else "episodes"
        yield name, ", ".join(filter(None, (spans, limited)))


# ---- rules for metrics and fills


#: Field in a task's config that contains the SHA-256 of the duty table
#: (`ktdeval.market.rules.fees`)
DUTIES = "duties"


def costs_row(task: TaskPart, venues: Sequence[str]) -> Row:
    """Return the row on the trading costs of fills at the market's venues. `flat` costs are the
    same on all days; `dated` costs include the duties in force on each day.
    """
    trading = task.config.get("trading")
    is_paper = isinstance(trading, Mapping) and trading.get("board_rules") == "paper"
    own_rules = task.config.get("venue_rules")
    if isinstance(own_rules, Mapping):
        venues = [str(own_rules.get("name"))]

    named = []
    for venue in venues:
        words = "flat"
        if venue == "a_share" and is_paper:
            words = "flat (paper)"
        elif venue in duty_rows() and DUTIES in task.config:
            words = f"dated (duties {str(task.config[DUTIES])[:12]})"

        named.append(f"{venue} {words}")

    execution = trading.get("execution") if isinstance(trading, Mapping) else None
    if isinstance(execution, Mapping):
        named.append(f"execution {execution.get('name')}")

    return "trading costs", clean(", ".join(named))


def rule_rows(rules: str, facts: TradingFacts) -> Iterator[Row]:
    """Yield the rows on trading costs and on the rule set for the metrics."""
    yield costs_row(facts.task, facts.snapshot.venues)
    yield field_label("rules"), rules
