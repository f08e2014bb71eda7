"""Rules for a single card, its submission and its list of records, independent of other cards."""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, partial

from msgspec import UnsetType

from ktdeval.cards import (
    NEVER_TRADED,
    TradingCard,
    could_know_reasons,
    made_at,
    recorded_cutoff,
)
from ktdeval.harness import CallParams
from ktdeval.registry import Plugins, load_plugins
from ktdeval.runner import (
    ANCHORS,
    ANSWERS,
    CANARY,
    CERTIFICATE,
    LEDGER,
    MANIFEST,
    MARK,
    TRANSCRIPT,
    card_claims,
)
from ktdeval_board.allowed_packages import (
    may_be_ranked,
    standing_reasons,
)
from ktdeval_board.anchored_heads import NO_ANCHORS, CardAnchors, anchor_problems
from ktdeval_board.board_entries import (
    Card,
    facets,
    figures_of,
    nearest_division,
    seeds_of,
    spans_of,
)
from ktdeval_board.checking.findings import Stage, rule
from ktdeval_board.checking.registrations import PLAIN_NAME, card_problems, submitter_problems
from ktdeval_board.document_types import RecordFile, Records, Submission
from ktdeval_board.market_document import Market, description_problems
from ktdeval_board.registrations import NONE_FILED, Registrations
from ktdeval_board.rules import Division, Rules

_METRIC = re.compile(r"[A-Za-z][A-Za-z0-9_.-]{0,63}", re.ASCII)
_MAX_METRICS = 200
_CALL_FIELDS = {field.name for field in dataclasses.fields(CallParams)}
_PLACEBO = "placebo"
_SYNTHETIC = "synthetic"


@dataclass(frozen=True)
class CardInputs:
    """A valid card, with the inputs that the rules need to check it."""

    where: str
    rules: Rules
    card: Card
    is_certified: bool = False  #: whether the board has verified the certificate of the card's mask
    registrations: Registrations = NONE_FILED
    #: the board's document on the card's market; None if the board has not opened it yet
    market: Market | None = None
    plugins: Plugins | None = None  #: plugins to use; None for the installed ones
    anchors: CardAnchors = NO_ANCHORS  #: what the board holds about the run's anchors

    @cached_property
    def nearest(self) -> Division | None:
        """Division with the fewest differences from the card, preferably one for its task."""
        return nearest_division(self.rules, self.card)

    @cached_property
    def division(self) -> Division | None:
        """Nearest division, if it is for the card's task; otherwise None."""
        nearest = self.nearest
        if nearest is None or nearest.task != self.card.task.name:
            return None

        return nearest

    @cached_property
    def facets(self) -> Mapping[str, str]:
        """Reasons why the card does not belong to the nearest division, keyed by rule."""
        if self.nearest is None:
            return {}

        return facets(self.rules, self.nearest, self.card)

    @property
    def is_trading(self) -> bool:
        """Return whether the card belongs to a trading task."""
        return isinstance(self.card, TradingCard)


def _facet(rule_id: str, inputs: CardInputs) -> Iterator[str]:
    """Yield the card's difference from the nearest division under a rule, if there is one."""
    if rule_id in inputs.facets and inputs.nearest is not None:
        yield f"{inputs.facets[rule_id]} (division {inputs.nearest.id})"


for _id in ("task-version", "task-config", "rules"):
    rule(_id, Stage.CARD)(partial(_facet, _id))


def _market_mismatches(rule_id: str, inputs: CardInputs) -> Iterator[str]:
    """Yield the card's false statements about the board's market."""
    if inputs.market is None:
        return

    for broken, message in description_problems(inputs.card, inputs.market):
        if broken == rule_id:
            yield message


@rule("snapshot", Stage.CARD)
def _snapshot(inputs: CardInputs) -> Iterator[str]:
    yield from _facet("snapshot", inputs)
    yield from _market_mismatches("snapshot", inputs)


@rule("reference", Stage.CARD)
def _reference(inputs: CardInputs) -> Iterator[str]:
    yield from _market_mismatches("reference", inputs)


@rule("anchor", Stage.CARD)
def _anchor(inputs: CardInputs) -> Iterator[str]:
    yield from anchor_problems(inputs.card, inputs.division, inputs.rules, inputs.anchors)


@rule("name", Stage.CARD)
def _name(inputs: CardInputs) -> Iterator[str]:
    card = inputs.card
    for part, name in (("model", card.model.name), ("agent", card.agent.name)):
        if not PLAIN_NAME.fullmatch(name):
            yield (
                f"{part}.name: {name[:80]!r} is not 1 to 100 printable ASCII characters that "
                "begin with a letter or digit"
            )


@rule("kind", Stage.CARD)
def _kind(inputs: CardInputs) -> Iterator[str]:
    config = inputs.card.task.config
    is_trading = inputs.is_trading
    trades = "trading" in config
    if trades != is_trading and (trades or "subject_config" in config):
        yield f"is a {inputs.card.kind} card of a {'trading' if trades else 'scoring'} task"


@rule("task", Stage.CARD)
def _task(inputs: CardInputs) -> Iterator[str]:
    if inputs.nearest is None:
        yield f"task {inputs.card.task.name}: the board has no division for it"
    yield from _facet("task", inputs)


@rule("synthetic", Stage.CARD)
def _synthetic(inputs: CardInputs) -> Iterator[str]:
    snapshot = inputs.card.snapshot
    market = inputs.rules.market
    if snapshot and snapshot.synthetic != (market == "synthetic"):
        kind = "synthetic" if snapshot.synthetic else "real"
        yield (
            f"snapshot.synthetic: the card says that its market is {kind}, but the board is for "
            f"{market} markets"
        )

    if snapshot and not snapshot.synthetic and _SYNTHETIC in _market_words(inputs):
        yield f"snapshot: is marked as not synthetic, but its name is {snapshot.name[:60]!r}"


@rule("placebo", Stage.CARD)
def _placebo(inputs: CardInputs) -> Iterator[str]:
    if _PLACEBO in _market_words(inputs) or _PLACEBO in inputs.card.labels:
        yield "the market is a placebo, in which selection is impossible"


def _market_words(inputs: CardInputs) -> str:
    snapshot = inputs.card.snapshot
    return "" if snapshot is None else f"{snapshot.name} {snapshot.source}".casefold()


@rule("windows", Stage.CARD)
def _windows(inputs: CardInputs) -> Iterator[str]:
    division = inputs.nearest
    yield from _market_mismatches("windows", inputs)
    if division is None or not division.windows or "windows" not in inputs.facets:
        return

    covered = spans_of(inputs.card)
    wanted = {window.name: (window.first, window.last) for window in division.windows}
    again = f"run again with --windows {','.join(wanted)}"

    lacking = [each for each in wanted if each not in covered]
    if lacking:
        yield f"{', '.join(lacking)} missing for division {division.id}; {again}"

    surplus = [each for each in covered if each not in wanted]
    if surplus:
        yield f"{', '.join(surplus)} not in division {division.id}; {again}"

    for each in wanted:
        if each in covered and covered[each] != wanted[each]:
            yield f"{each} is {'…'.join(covered[each])}, but the division's is {'…'.join(wanted[each])}"


@rule("seeds", Stage.CARD)
def _seeds(inputs: CardInputs) -> Iterator[str]:
    card = inputs.card
    division = inputs.nearest
    if division is None or "seeds" not in inputs.facets:
        return

    seeds = card.seeds
    wanted = seeds_of(inputs.rules, division, card.model.name, card.model.args)
    again = f"run again with --seeds {len(wanted)}"
    if wanted[0]:
        again += f" --seed {wanted[0]}"

    lacking = [seed for seed in wanted if seed not in seeds]
    if lacking:
        yield f"{', '.join(map(str, lacking))} missing; {again}"

    surplus = [seed for seed in seeds if seed not in wanted]
    if surplus:
        yield f"{', '.join(map(str, surplus))} too many; {again}"

    if not lacking and not surplus:
        yield inputs.facets["seeds"]


@rule("limit", Stage.CARD)
def _limit(inputs: CardInputs) -> Iterator[str]:
    if inputs.card.limit is not None:
        yield f"every episode was cut after {inputs.card.limit:,} steps"


@rule("coverage", Stage.CARD)
def _coverage(inputs: CardInputs) -> Iterator[str]:
    card = inputs.card
    if card.missing_episodes:
        yield f"{len(card.missing_episodes)} planned episodes did not finish"
    elif card.limit is None and _PLACEBO not in card.labels:
        packages = inputs.rules.packages
        if may_be_ranked(card, packages):
            return

        # A card that never traded is accepted, but listed without a rank. One of an entrant who
        # could know the market goes to a division open book.
        listed = {NEVER_TRADED, *could_know_reasons(card)}
        reasons = [each for each in standing_reasons(card, packages) if each not in listed]
        if reasons or not card.rankable.reasons:
            yield "; ".join(reasons) or "the card says that it can't be ranked"


@rule("mask-key", Stage.CARD)
def _mask_key(inputs: CardInputs) -> Iterator[str]:
    if inputs.card.snapshot is not None and not inputs.card.mask_key:
        yield "is missing; without a key, anyone can compute the handles; run it again"


@rule("registered", Stage.CARD)
def _check_registered(inputs: CardInputs) -> Iterator[str]:
    division = inputs.division
    card = inputs.card
    yield from card_problems(card, division, inputs.registrations)
    is_baseline = inputs.rules.baseline_of(card.model.name, card.model.args) is not None

    if is_baseline and division is not None and division.is_governed and not card.registration:
        yield (
            f"{card.model.name} is a baseline; the board runs it itself, under its own drawn key"
        )


@rule("certificate", Stage.CARD)
def _certificate(inputs: CardInputs) -> Iterator[str]:
    division = inputs.division
    card = inputs.card
    if division is None or division.certificate != "required" or not isinstance(card, TradingCard):
        return

    if card.certificate.value is None:
        yield (
            f"division {division.id} requires a certificate of the mask: {card.certificate.reason};"
            " make one with `ktdeval certify`, then `ktdeval score RUN --certificate FILE`"
        )
        return

    problem = division.attacker_problem(card.certificate.value)
    if "mask not certified" in card.labels:
        yield "has too few probes, controls, answers or guesses to certify the mask"
    elif problem is not None:
        yield f"{problem}; attack with one of them, or name another in board.yaml"
    elif not inputs.is_certified:
        yield (
            "is claimed, but this board has not verified it; give the maintainers the certificate"
            " and the runs of its attacks, for `ktdeval leaderboard import FILE --attackers RUN`"
        )


@rule("call", Stage.CARD)
def _call(inputs: CardInputs) -> Iterator[str]:
    for field in sorted(inputs.card.call.keys() - _CALL_FIELDS):
        yield f"call.{field[:60]}: is not a parameter of model calls"


@rule("metric", Stage.CARD)
def _metric(inputs: CardInputs) -> Iterator[str]:
    figures = figures_of(inputs.card)
    division = inputs.division
    if division is not None and division.rank_by not in figures:
        yield f"has no {division.rank_by}, the figure that division {division.id} ranks by"

    for each in figures:
        if not _METRIC.fullmatch(each):
            yield (
                f"{each[:60]!r} is not a name of a metric (letters, digits, dots, dashes and"
                " underscores)"
            )

    if len(figures) > _MAX_METRICS:
        yield f"has {len(figures)} metrics; at most {_MAX_METRICS} are allowed"


@rule("size", Stage.CARD)
def _size(inputs: CardInputs) -> Iterator[str]:
    card = inputs.card
    most = inputs.rules.limits.episodes
    planned = len(card.episodes) + len(card.missing_episodes)
    if planned > most:
        yield f"has {planned:,} episodes; at most {most:,} are allowed"


@rule("provenance", Stage.CARD)
def _claims(inputs: CardInputs) -> Iterator[str]:
    yield from card_claims(inputs.card, inputs.plugins or load_plugins())


# -- submissions


@dataclass(frozen=True)
class SubmissionInputs:
    """A submission with its card."""

    where: str  #: path of the submission, relative to the board
    rules: Rules
    card_id: str  #: SHA-256 of the card's file
    card: Card
    submission: Submission
    #: day of the check; None if an earlier check found the submission's dates to be in the past
    today: str | None
    registrations: Registrations = NONE_FILED


@rule("registered", Stage.SUBMISSION)
def _registered_submitter(inputs: SubmissionInputs) -> Iterator[str]:
    yield from submitter_problems(inputs.card, inputs.submission, inputs.registrations)


@rule("provenance", Stage.SUBMISSION)
def _made_at(inputs: SubmissionInputs) -> Iterator[str]:
    card = inputs.card
    moment = made_at(card.provenance)
    if inputs.today is None or moment is None:
        return
    if (
        inputs.rules.baseline_of(card.model.name, card.model.args) is not None
    ):  # the board runs baselines itself
        return

    day = moment.date().isoformat()
    if day > inputs.today:
        yield f"created_at of the card: {day} is in the future (today is {inputs.today})"

    filed = inputs.registrations.by_id.get(card.registration or "")
    if filed is not None and filed.drawn is not None and day < filed.drawn.drawn_on:
        yield (
            f"created_at of the card: {day} is before the key of its run was drawn"
            f" ({filed.drawn.drawn_on})"
        )


@rule("submission", Stage.SUBMISSION)
def _submission(inputs: SubmissionInputs) -> Iterator[str]:
    submission = inputs.submission
    card = inputs.card
    named = (
        ("model.name", submission.model.name, card.model.name),
        ("agent.name", submission.agent.name, card.agent.name),
    )

    for field, claimed, recorded in (("card", submission.card, inputs.card_id), *named):
        if claimed != recorded:
            yield f"{field}: is {claimed[:80]!r}, but the card says {recorded[:80]!r}"


@rule("cutoff", Stage.SUBMISSION)
def _cutoff(inputs: SubmissionInputs) -> Iterator[str]:
    submission = inputs.submission
    model = inputs.submission.model
    for day, event in ((submission.submitted_on, "submission"), (model.released_on, "release")):
        if model.cutoff_day is not None and day and model.cutoff_day > day:
            yield f"model.cutoff_date: {model.cutoff_day} is after the {event} ({day})"

    recorded = recorded_cutoff(inputs.card)
    if recorded is not None and not model.cutoff_date.startswith(recorded.date):
        yield f"model.cutoff_date: is {model.cutoff_date}, but the card says {recorded.date}"
    elif inputs.card.knowledge_cutoff == "none" and model.cutoff_date == "unknown":
        yield f"model.cutoff_date: is {model.cutoff_date}, but the card says that nothing was trained"


@rule("date", Stage.SUBMISSION)
def _date(inputs: SubmissionInputs) -> Iterator[str]:
    submission = inputs.submission
    opened = inputs.rules.opened_on
    if opened and submission.submitted_on < opened:
        yield f"submitted_on: {submission.submitted_on} is before the board began ({opened})"

    for field, day in (
        ("submitted_on", submission.submitted_on),
        ("model.released_on", submission.model.released_on),
    ):
        if inputs.today is not None and day > inputs.today:
            yield f"{field}: {day} is in the future (today is {inputs.today})"


# -- lists of records


@dataclass(frozen=True)
class ListInputs:
    """A list of records with its card."""

    where: str  #: path of the list, relative to the board
    rules: Rules
    card_id: str  #: SHA-256 of the card's file
    card: Card
    records: Records
    has_folder: bool  #: whether the board has a folder with these records

    @cached_property
    def files(self) -> Mapping[str, RecordFile]:
        """Listed files, by path."""
        return {file.path: file for file in self.records.files}

    @property
    def is_here(self) -> bool:
        """Return whether the records are in the repository. Records stored elsewhere have no size
        limit.
        """
        return self.records.stored == "repository"

    def list_expected(self, is_whole: bool) -> set[str]:
        """Return the files that the card's records must include. `is_whole` says whether the list
        must also include the episodes' completion marks.
        """
        card = self.card
        names = [TRANSCRIPT]
        names.append(LEDGER if isinstance(card, TradingCard) else ANSWERS)
        if is_whole:
            names.append(MARK)

        expected = {MANIFEST}
        for episode in card.episodes:
            expected.update(f"episodes/{episode.id}/{name}" for name in names)

        if isinstance(card, TradingCard) and card.certificate.value is not None:
            expected.add(CERTIFICATE)

        if card.drift.value is not None:
            expected.add(CANARY)

        if not isinstance(card.provenance.anchors, UnsetType):
            expected.add(ANCHORS)

        return expected

    @cached_property
    def surplus(self) -> Sequence[str]:
        """Listed files that are not among the card's records."""
        return sorted(self.files.keys() - self.list_expected(is_whole=True) - {CANARY})


@rule("records", Stage.LIST)
def _listed_records(inputs: ListInputs) -> Iterator[str]:
    records = inputs.records
    card_id = inputs.card_id
    if records.card != card_id:
        yield f"card: is {records.card[:12]}…, expected {card_id[:12]}…"

    if len(inputs.files) < len(records.files):
        yield "files: a path appears twice"

    for path in inputs.card.artefacts:
        if path not in inputs.files:
            yield f"files: {path[:120]}, needed for the card, is missing"

    for path in sorted(inputs.list_expected(inputs.is_here) - inputs.files.keys()):
        yield f"files: {path} is missing"

    for path in inputs.surplus:
        if path != CERTIFICATE:  # reported as `certificate`
            yield f"files: {path} is not a record of this card"

    if inputs.has_folder != inputs.is_here:
        there = "that folder exists" if inputs.has_folder else "that folder does not exist"
        yield f"stored: {records.stored}, but records/{card_id[:12]}…: {there}"


@rule("certificate", Stage.LIST)
def _listed_certificate(inputs: ListInputs) -> Iterator[str]:
    if CERTIFICATE in inputs.surplus:
        yield f"files: {CERTIFICATE} is not a record of this card"


@rule("hash", Stage.LIST)
def _listed_hash(inputs: ListInputs) -> Iterator[str]:
    for path, digest in inputs.card.artefacts.items():
        file = inputs.files.get(path)
        if file is not None and file.sha256 != digest:
            yield f"files: {path}: SHA-256 is {file.sha256[:12]}…, but the card recorded {digest[:12]}…"


@rule("size", Stage.LIST)
def _listed_size(inputs: ListInputs) -> Iterator[str]:
    if inputs.is_here:
        yield from _size_problems(inputs.rules, inputs.records.files)


def _size_problems(rules: Rules, files: Sequence[RecordFile]) -> Iterator[str]:
    largest = rules.limits.bytes_of("file_mb")
    for file in files:
        if file.bytes > largest:
            yield f"files: {file.path} has {file.bytes:,} bytes; at most {largest:,} are allowed"

    total = sum(file.bytes for file in files)
    most = rules.limits.bytes_of("records_mb")
    if total > most:
        yield (
            f"files: the records have {total:,} bytes; at most {most:,} are allowed in the "
            "repository; store them elsewhere with --records https://…"
        )
