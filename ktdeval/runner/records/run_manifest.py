"""Manifest of a run: the plan in `manifest.json`, and differences between two plans."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Literal

import msgspec
from msgspec import structs

from ktdeval.calls.costs.prices import FREE, PriceEntry
from ktdeval.cards.fields.origin.fact_types import CutoffEntry, ForeignPackage, KeySource, NoCutoff
from ktdeval.errors import StoreError, wrap_os_error
from ktdeval.harness.call_params import without_transport
from ktdeval.market.rules.calendar import parse_day
from ktdeval.runner.records.completion_marks import LogEntry
from ktdeval.runner.records.leaderboard_registration import ContentHash
from ktdeval.stats.metric import RuleSet
from ktdeval.task_api.episode_spec import EpisodeSpec
from ktdeval.values.disk.files import read_plain
from ktdeval.values.documents.format_versions import check_version, format_version, stated_version
from ktdeval.values.documents.strict_json import JsonValue, dumps_canonical
from ktdeval.values.documents.typed_json import Value, decode_json, from_plain, to_plain
from ktdeval.values.requests.secret_free_addresses import Address, Arguments

FORMAT = "run folder"
MANIFEST_VERSION = format_version(FORMAT)
ANOTHER_RUN = "contains another run ({}); choose another --out, or repeat the command that began it"
Growth = Literal["none", "tasks", "any"]
"""Permitted additions to a recorded plan: none, whole tasks, or any episodes."""


class NotARunError(StoreError):
    """Raised if a `manifest.json` does not describe a run."""


def check_head(data: bytes, path: Path) -> None:
    """Raise StoreError if a manifest has a different version, or does not describe a run."""
    head = decode_json(data, dict[str, msgspec.Raw], f"{path}: not a readable manifest")
    if "episodes" not in head:
        raise NotARunError(
            f"{path}: is not the manifest of a run; give a folder created by `ktdeval run`, or a"
            " new one"
        )

    version = stated_version(head, str(path))
    check_version(FORMAT, version, path, "use the ktdeval that wrote it, or run it again")


class DataSource(Value):
    """How the user named the data: a folder or provider, and its arguments."""

    data: Address
    data_args: Arguments


class FurtherFacts(Value):
    """Facts recorded for an additional model of a run; its name and parameters are in the run's
    specs.
    """

    price: PriceEntry | None  #: price of its tokens; None if unknown
    #: request settings at its provider; None for a local model
    request_settings: Mapping[str, JsonValue] | None = msgspec.field(name="sent_as")
    #: end of its training data, as listed
    knowledge_cutoff: CutoffEntry | NoCutoff


@dataclass(frozen=True)
class RunManifest:
    """Everything that the command line can change about a run's outcome, apart from settings of the
    machine.
    """

    #: data chosen by the user (`DataSource`), from which `score` and `verify` find the snapshot
    data: Mapping[str, JsonValue] | None
    #: id of the snapshot; None, like `data`, if no task needs a market
    snapshot: str | None
    metrics: tuple[str, ...]  #: names of metrics in addition to the tasks' metrics
    rules: RuleSet  #: rule set of the metrics
    specs: tuple[EpisodeSpec, ...]  #: planned episodes, in order
    #: token price of the model; None if unknown or not applicable
    price: PriceEntry | None = None
    #: request settings at the provider (`RemoteModel.settings`); None for a local model
    request_settings: Mapping[str, JsonValue] | None = None
    #: end of the model's training data; `none` if the model has no training data
    knowledge_cutoff: CutoffEntry | NoCutoff = "unknown"
    #: call log that was created when the run began; None for a local model, and in records without
    #: this field
    call_log: LogEntry | None = None
    #: id of the leaderboard registration that provided the mask key; None if the run drew its own
    #: key
    registration: str | None = None
    #: additional models of the run, keyed by the name that the agent uses
    further_models: Mapping[str, FurtherFacts] = field(default_factory=dict)
    #: packages that were in the process of any session and are not part of ktdeval
    foreign: tuple[ForeignPackage, ...] = ()
    #: source of a mask key that was known before the run; None if the run drew its own
    key_source: KeySource | None = None

    @property
    def is_free(self) -> bool:
        """True if all models are local and free, so that tokens need not be counted."""
        further = self.further_models.values()
        return self.price == FREE and all(each.price == FREE for each in further)

    def to_json(self) -> JsonValue:
        """Return the manifest in the form in which it is stored."""
        facts = {name: getattr(self, name) for name in _FACTS}
        facts["data"] = None if self.data is None else from_plain(self.data, DataSource, "data")
        episodes = tuple({"id": spec.id, **spec.to_json()} for spec in self.specs)
        return to_plain(ManifestFile(version=MANIFEST_VERSION, episodes=episodes, **facts))

    @classmethod
    def load(cls, path: Path) -> RunManifest:
        """Read a manifest file. Raises StoreError if the file can't be read or is invalid, for
        example if an episode's id is not the hash of its spec.
        """
        where = f"{path}: not a readable manifest"
        with wrap_os_error(where):
            data = read_plain(path)

        check_head(data, path)
        file = decode_json(data, ManifestFile, where)
        if not file.episodes:
            raise StoreError(f"{where}: episodes: expected at least one")

        specs = []
        for number, entry in enumerate(file.episodes):
            recorded_id = entry.pop("id", None)
            spec = from_plain(entry, EpisodeSpec, f"{where}: episodes[{number}]")
            if spec.id != recorded_id or spec.to_json() != entry:
                raise StoreError(
                    f"{path}: episode {str(recorded_id)[:20]} has been changed: its spec hashes to"
                    f" {spec.id}"
                )

            problem = _spec_problem(spec, file)
            if problem is not None:
                raise StoreError(f"{where}: episodes[{number}].{problem}")

            if spec.window is not None:
                window = f"{where}: episodes[{number}].window"
                parse_day(spec.window.first, f"{window}.first: ", StoreError)
                parse_day(spec.window.last, f"{window}.last: ", StoreError)

            specs.append(spec)

        facts = {name: getattr(file, name) for name in _FACTS}
        facts["data"] = structs.asdict(file.data) if file.data and file.snapshot else None
        facts["snapshot"] = file.snapshot or None
        return cls(specs=tuple(specs), **facts)


def _spec_problem(spec: EpisodeSpec, file: ManifestFile) -> str | None:
    """Return why a well-typed spec is invalid; None if it is valid.

    Its snapshot and additional models must be the run's, its window must match its snapshot, and
    its limit must be positive.
    """
    if spec.snapshot not in (None, file.snapshot):
        return "snapshot: expected the run's"
    if {each.asked_as for each in spec.further_models} != file.further_models.keys():
        return "further_models: expected the run's"
    if (spec.window is None) != (spec.snapshot is None):
        return "window: must be given if snapshot is given, and null otherwise"
    return None if spec.limit is None or spec.limit > 0 else "limit: expected at least 1"


class ManifestFile(Value, omit_defaults=True):
    """Manifest of a run as written (`manifest.json`): `RunManifest`, each episode as its id and its
    spec.
    """

    version: int
    data: DataSource | None
    snapshot: str | None
    metrics: tuple[str, ...]
    rules: RuleSet
    price: PriceEntry | None
    request_settings: Mapping[str, JsonValue] | None = msgspec.field(name="sent_as")
    episodes: tuple[dict[str, JsonValue], ...]
    knowledge_cutoff: CutoffEntry | NoCutoff
    call_log: LogEntry | None = None
    registration: ContentHash | None = None
    further_models: dict[str, FurtherFacts] = msgspec.field(default_factory=dict)
    foreign: tuple[ForeignPackage, ...] = ()
    key_source: KeySource | None = None


_FACTS = tuple(each.name for each in fields(RunManifest) if each.name != "specs")
"""Fields of `RunManifest` that have the same name in the file."""

FACETS: Mapping[str, Callable[[EpisodeSpec], str]] = {
    "task": lambda spec: spec.task,
    "task version": lambda spec: f"{spec.task_version}/{spec.task_hash[:12]}",
    "model": lambda spec: f"{spec.model} {dumps_canonical(spec.model_args)}",
    "further models": lambda spec: dumps_canonical(
        [[each.asked_as, each.name, dict(each.args)] for each in spec.further_models]
    ),
    "agent": lambda spec: f"{spec.agent} {dumps_canonical(spec.agent_args)}",
    "window": lambda spec: spec.window_name or "none",
    "seed": lambda spec: str(spec.seed),
    "limit": lambda spec: str(spec.limit),
    "mask key": lambda spec: spec.mask_key or "none",
    "call parameters": lambda spec: dumps_canonical(without_transport(spec.call)),
}
"""Parts of a plan, under the names that users know."""


def manifest_difference(recorded: RunManifest, planned: RunManifest, *, carded: bool) -> str:
    """Return the first difference between two plans, as a user would have to change it; empty if
    the plans are equal. `carded`: whether cards already exist, in which case rules and metrics are
    compared too.
    """
    if recorded.snapshot != planned.snapshot:
        before = recorded.snapshot or "none"
        after = planned.snapshot or "none"
        return f"snapshot {before:.12}, now {after:.12}"

    for name, facet in FACETS.items():
        had = sorted({facet(spec) for spec in recorded.specs})
        has = sorted({facet(spec) for spec in planned.specs})
        if had != has:
            return f"{name}: {', '.join(had)}; now {', '.join(has)}"

    if {spec.identity for spec in recorded.specs} != {spec.identity for spec in planned.specs}:
        return "the planned episodes differ"

    if not carded:
        return ""

    advice = "use `ktdeval score` to apply others to the records"
    if recorded.rules != planned.rules:
        return f"rules: {recorded.rules}; now {planned.rules}; {advice}"
    if recorded.metrics != planned.metrics:
        before = _metric_names(recorded)
        return f"metrics: {before}; now {_metric_names(planned)}; {advice}"

    return ""


def kept_specs(
    recorded: RunManifest, planned: RunManifest, growth: Growth
) -> tuple[EpisodeSpec, ...]:
    """Return the planned episodes that the recorded run must already contain.

    Depending on `growth`, these are all planned episodes, those of the recorded tasks, or those
    that are recorded.
    """
    if growth == "tasks":
        tasks = {spec.task for spec in recorded.specs}
        return tuple(spec for spec in planned.specs if spec.task in tasks)
    if growth == "any":
        known = {spec.identity for spec in recorded.specs}
        return tuple(spec for spec in planned.specs if spec.identity in known)
    return planned.specs


def _metric_names(manifest: RunManifest) -> str:
    return ", ".join(manifest.metrics) or "no further metrics"
