"""A board's rules: the file `board.yaml`, which its maintainers write."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any, Literal, TypeVar

import msgspec
from msgspec import Meta

from ktdeval.calls import Price, find_price, fitting_pattern
from ktdeval.cards import parse_cutoff
from ktdeval.errors import ConfigError, UsageError
from ktdeval.stats import left_out_windows
from ktdeval.values import (
    Address,
    Arguments,
    Value,
    check_stated,
    from_plain,
    load_yaml,
    near_matches,
)
from ktdeval_board.allowed_packages import AllowedPackage
from ktdeval_board.document_types import Day, Line, Sha256, in_words
from ktdeval_board.layout import path_segment
from ktdeval_board.look_alike_names import holder_of, mark_of_contact
from ktdeval_board.signers import (
    Signer,
    SubmitterKey,
    TimeAuthority,
    signer_problems,
    submitter_key_problems,
)

RULES_FILE = "board.yaml"

MarketKind = Literal["real", "synthetic"]
BaselineKind = Literal["rule", "random", "supervised", "memory"]
Slug = Annotated[
    str,
    Meta(
        description="Lower-case letters, digits and dashes.",
        pattern=r"^[a-z0-9][a-z0-9-]{0,62}$(?!\n)",
    ),
]
Dollars = Annotated[int, Meta(ge=0)] | Annotated[float, Meta(ge=0)]
T = TypeVar("T")

FRESH_FIGURES = ("excess", "selection_alpha", "vs_random")
"""Figures by which a division with fresh windows may rank. Each is relative to the market in its
windows, since windows differ between entrants.
"""

_MEGABYTE = 1_000_000


class WindowRule(Value, frozen=True, kw_only=False):
    """Window that every card of a division covers."""

    name: str  #: Name of the window, as on cards
    first: Day  #: First trading day
    last: Day  #: Last trading day


class SnapshotRule(Value, frozen=True, kw_only=False):
    """Market that a board's cards may use."""

    name: str  #: Name by which divisions refer to it
    id: Sha256  #: Id of the snapshot: SHA-256 over its content
    data: Address = ""  #: Data provider, for re-execution; empty if the board can't open it
    data_args: Arguments = msgspec.field(default_factory=dict)  #: Arguments of the provider


class Division(Value, frozen=True, kw_only=True):
    """Cards that are compared with each other: one task, version and config on one snapshot, with
    the same windows and seeds.
    """

    id: Slug  #: Name of the division in addresses
    task: str  #: Name of the task
    version: str  #: Version of the task
    hash: Sha256  #: SHA-256 of the task's config, as on cards (task.hash)
    #: Name of one of the board's snapshots; omitted, like windows, if the task is not about a
    #: market
    snapshot: str | None = None
    windows: tuple[WindowRule, ...] = ()  #: Windows that a card must cover, exactly
    #: Seeds that a card must have, exactly
    seeds: Annotated[tuple[int, ...], Meta(min_length=1)]
    rules: Literal["strict", "paper"] = "strict"  #: Rule set of the metrics; for trading tasks
    rank_by: str = "total_return"  #: Metric, or score of a scoring task, that ranks are based on
    #: Whether a card needs a certificate of its mask
    certificate: Literal["required", "optional"] = "optional"
    #: Models whose attack counts in a required certificate, by their full names
    attackers: tuple[str, ...] = ()
    #: Whether a card's run must have been anchored while it went on: heads of its chain are on the
    #: board (anchors/), or stamped by one of the board's time_authorities
    anchors: Literal["required", "optional"] = "optional"
    #: registered: the board draws each mask key after the system was registered, and cards under
    #: other keys are not ranked; own: submitters choose their keys. A division without a market has
    #: neither mask nor keys
    keys: Literal["registered", "own"] = "own"
    #: Whether cards of people (label `human`) are ranked, or listed with a reason: a person may
    #: recognise the market that a mask hides from models, and may look things up without a record
    people: Literal["ranked", "listed"] = "listed"
    #: Whether each entrant is ranked only over the windows that begin after the end of its models'
    #: training data, by the cutoffs of the board and of the suite; requires a `rank_by` that is
    #: relative to the market
    fresh: bool = False
    #: Maximum number of registrations per submitter, if the board draws the keys; null: no limit.
    #: Each is a draw, and an attempt
    most_registrations: Annotated[int, Meta(ge=1)] | None = None
    summary: str = ""  #: One line for readers

    @property
    def filed_under(self) -> str:
        """Id of the division under which registrations and verdicts are filed."""
        return self.id

    @property
    def is_governed(self) -> bool:
        """Return whether the board draws the mask keys for the division's cards."""
        return self.keys == "registered"

    def window_names(self) -> list[str]:
        """Return the names of the windows, in order."""
        return [window.name for window in self.windows]

    def scopes(self) -> list[str]:
        """Return the ranked scopes: `all` windows, then each window. If the only window is named
        `all`, it is the only scope.
        """
        names = self.window_names()
        return names if names == ["all"] else ["all", *names]

    def attacker_problem(self, certificate: Mapping[str, Any]) -> str | None:
        """Return why a card's certificate does not count in this division; None if it counts. It
        does not count if none of the required attackers bounds one of its scores.

        An attacker bounds a score only if it passed its positive control, which means that it could
        read unmasked probes.
        """
        counted: set[str] = set()
        # The certificate is only the card's claim, so it may have any form.
        attackers = certificate.get("attackers")
        if isinstance(attackers, list):
            for attacker in attackers:
                if self._is_named(attacker):
                    counted.update(map(str, attacker.get("counts_for") or ()))

        bound = certificate.get("bound")
        unbounded = sorted(set(bound) - counted) if isinstance(bound, dict) else []
        if not unbounded and counted:
            return None

        return (
            f"no attacker that division {self.id} names ({', '.join(self.attackers)}) passed its"
            f" control and bounds {', '.join(unbounded or ['anything'])}"
        )

    def _is_named(self, attacker: object) -> bool:
        return (
            isinstance(attacker, dict)
            and attacker.get("kind") == "model"
            and attacker.get("model") in self.attackers
        )


class OpenBook(Division, frozen=True, kw_only=True):
    """Division open book of another division, which the board adds by itself: entrants who could
    look the market up or could have brought it, ranked only among themselves.
    """

    of: Division

    @property
    def filed_under(self) -> str:
        """Id of the division under which registrations and verdicts are filed."""
        return self.of.id


OPEN_BOOK = "-open-book"  #: end of the id of a division open book, which no other division may have


class ModelCutoff(Value, frozen=True, kw_only=True):
    """The board's entry on the end of a model's training data, with its source."""

    #: Full name of a model, or a pattern such as openai/gpt-5*; the most specific one counts
    match: Annotated[str, Meta(pattern=r"^[^/\s]+/\S+$(?!\n)", max_length=200)]
    #: Last day of the training data, or its month; none: nothing was trained
    cutoff: Annotated[
        str, Meta(pattern=r"^([0-9]{4}-[01][0-9](-[0-3][0-9])?|none)$(?!\n)", max_length=10)
    ]
    source: Line  #: Page that states the date, or evidence that nothing was trained
    as_of: Day  #: Day on which the page was read


class ModelPrice(Value, frozen=True, kw_only=True):
    """The board's price of a model's tokens, in US dollars per million."""

    #: Full name of a model, or a pattern such as openai/gpt-5*; the most specific one counts
    match: Annotated[str, Meta(pattern=r"^[^/\s]+/\S+$(?!\n)", max_length=200)]
    input: Dollars  #: Prompt tokens
    output: Dollars  #: Reply tokens, including reasoning
    cache_read: Dollars | None = (
        None  #: Prompt tokens read from the provider's cache; null: as input
    )
    cache_write: Dollars | None = (
        None  #: Prompt tokens written to the provider's cache; null: as input
    )
    as_of: Day  #: Day of the look-up
    source: Line  #: Source

    def entry(self) -> Price:
        """Return the price in the form that cards use."""
        fields = msgspec.structs.asdict(self)
        del fields["match"]
        return Price(**fields)


class Baseline(Value, frozen=True, kw_only=False):
    """Model that divisions of trading tasks always show."""

    model: str  #: Full name of the model, such as builtin/equal_weight
    #: rule: a fixed rule; random: random trading; supervised: a trained factor model; memory: a
    #: model that remembers the market, at a dose given by its parameters
    kind: BaselineKind = "rule"
    #: Seeds that replace the division's, such as more seeds for a random trader
    seeds: tuple[int, ...] = ()
    #: Parameters that distinguish this baseline from others of the same model
    args: Arguments = msgspec.field(default_factory=dict)
    #: Divisions that show it, if it can't act on other tasks; empty: all
    divisions: tuple[Slug, ...] = ()

    @property
    def words(self) -> str:
        """The baseline as text in the form that `init` accepts, such as
        `builtin/memory(recall=0.1)`.
        """
        if not self.args:
            return self.model

        args = ",".join(f"{name}={value}" for name, value in self.args.items())
        return f"{self.model}({args})"

    def is_of(self, model: str, args: Mapping[str, Any]) -> bool:
        """Return whether a model with these parameters is this baseline. The model may have
        additional parameters, such as the fitted coefficients of a supervised model.
        """
        return model == self.model and all(
            name in args and args[name] == value for name, value in self.args.items()
        )


class Limits(Value, frozen=True):
    """Size limits of a submission; anything larger is refused unread."""

    card_mb: Annotated[int, Meta(ge=1, le=100)] = 8  #: A card, a submission or another JSON file
    file_mb: Annotated[int, Meta(ge=1, le=2000)] = 64  #: A stored ledger or transcript
    unpacked_mb: Annotated[int, Meta(ge=1, le=8000)] = 512  #: An unpacked ledger or transcript
    #: All stored records of a submission
    records_mb: Annotated[int, Meta(ge=1, le=20_000)] = 256
    episodes: Annotated[int, Meta(ge=1, le=100_000)] = 500  #: Number of episodes of a submission

    def bytes_of(self, name: str) -> int:
        """Return a limit in bytes, given its field name."""
        return int(getattr(self, name)) * _MEGABYTE


class Rules(Value, frozen=True, kw_only=False):
    """Rules of a ktdeval leaderboard, version 1. A board uses real or synthetic markets, never
    both.
    """

    name: Slug  #: Short name
    title: str  #: Heading of the site
    #: Real or synthetic; a board never mixes them; null on a board whose tasks are not about a
    #: market
    market: MarketKind | None
    snapshots: tuple[SnapshotRule, ...]  #: Markets
    divisions: tuple[Division, ...]  #: Divisions, each ranked separately
    schema_version: Literal[1] = 1
    summary: str = ""  #: A paragraph for the front page
    contact: str = ""  #: Where to write to
    url: Address = ""  #: Where the site is, https://…
    opened_on: str = ""  #: Day the board began, YYYY-MM-DD
    baselines: tuple[Baseline, ...] = ()  #: Models that are always shown next to the benchmark
    #: Prices by which the board compares costs; a submitter's own price is never used for ranks
    prices: tuple[ModelPrice, ...] = ()
    #: Ends of training data, for divisions that rank fresh windows; they override the suite's list,
    #: and a submitter's claim can only make them later
    cutoffs: tuple[ModelCutoff, ...] = ()
    limits: Limits = Limits()  #: Size limits
    #: Level of the model confidence sets that form tie groups
    tie_level: Annotated[float, Meta(ge=0.001, le=0.5)] = 0.05
    signers: tuple[Signer, ...] = ()  #: Maintainers who sign verdicts
    #: required: a card without a signed verdict is unchecked; optional: a signature, if present,
    #: must be valid
    verdict_signatures: Literal["required", "optional"] = "optional"
    #: Keys of submitters. A new card or registration with the name or contact of one of them must
    #: be signed with that submitter's key
    submitter_keys: tuple[SubmitterKey, ...] = ()
    #: Authorities whose time stamps on forward tests readers of the board may trust
    time_authorities: tuple[TimeAuthority, ...] = ()
    #: Packages that are not part of ktdeval, and may have been in the process of a run
    packages: tuple[AllowedPackage, ...] = ()

    @property
    def draws_keys(self) -> bool:
        """Return whether the board draws the mask keys for any division."""
        return any(division.is_governed for division in self.divisions)

    def division(self, division_id: str) -> Division:
        """Return the division with this id."""
        known = {division.id: division for division in self.divisions}
        if division_id not in known:
            raise ConfigError(f"no division {division_id!r}{near_matches(division_id, known)}")

        return known[division_id]

    def snapshot_of(self, division: Division) -> SnapshotRule | None:
        """Return a division's market; None for a division without a market."""
        for snapshot in self.snapshots:
            if snapshot.name == division.snapshot:
                return snapshot

        return None

    def baselines_of(self, division: Division) -> list[Baseline]:
        """Return the baselines shown by a division of a trading task."""
        return [
            each for each in self.baselines if not each.divisions or division.id in each.divisions
        ]

    def baseline_of(self, model: str, args: Mapping[str, Any]) -> Baseline | None:
        """Return the baseline matching a model's full name and parameters; None for an entrant."""
        return matching_baseline(self.baselines, model, args)

    def price_of(self, model: str) -> Price | None:
        """Return the board's price for a model's tokens; None if the board has no price for it."""
        return find_price({each.match: each.entry() for each in self.prices}, model)

    def cutoff_of(self, model: str) -> ModelCutoff | None:
        """Return the board's entry on the end of a model's training data, or None."""
        listed = {each.match: each for each in self.cutoffs}
        pattern = fitting_pattern(listed, model)
        if pattern is None:
            return None

        return listed[pattern]

    def with_market(self, moved: SnapshotRule) -> Rules:
        """Return the rules with a different location for one market."""
        snapshots = tuple(moved if each.name == moved.name else each for each in self.snapshots)
        return msgspec.structs.replace(self, snapshots=snapshots)


def matching_baseline(
    baselines: Iterable[Baseline], model: str, args: Mapping[str, Any]
) -> Baseline | None:
    """Return the baseline that matches a model with these parameters; None if none matches. If
    several match, the baseline with the most parameters of its own is returned.
    """
    matching = [each for each in baselines if each.is_of(model, args)]
    return max(matching, key=lambda each: len(each.args), default=None)


def load_rules(folder: Path) -> Rules:
    """Read the rules of the board in a folder.

    Raises ConfigError if there is no board in the folder, or if a rule is invalid; the message
    names the field.
    """
    path = folder / RULES_FILE
    if not path.is_file():
        raise ConfigError(
            f"{folder}: not a board ({RULES_FILE} is missing); create one with `ktdeval "
            f"leaderboard init {folder}`"
        )

    rules = read_yaml_file(path, Rules)
    for problem in _rules_problems(rules):
        raise ConfigError(f"{path}: {problem}")

    return rules


def read_yaml_file(path: Path, type_: type[T]) -> T:
    """Read a file written by maintainers.

    Raises ConfigError if the file is invalid; the message names the field.
    """
    try:
        content = load_yaml(path)
        check_stated(
            "board", content, path, "use the version of ktdeval that the board uses", ConfigError
        )
        return from_plain(content, type_, str(path), ConfigError)
    except ConfigError as error:
        raise ConfigError(in_words(str(error))) from error


def _window_problems(where: str, division: Division) -> Iterator[str]:
    """Yield windows that end before they begin, and windows that must not be pooled with others in
    their division.
    """
    for window in division.windows:
        if window.first > window.last:
            yield f"{where}: window {window.name}: expected first and last in order"

    days = {window.name: (window.first, window.last) for window in division.windows}
    try:
        excluded = left_out_windows(days)
    except ValueError as error:
        yield f"{where}: windows: {error}"
        return

    for name, reason in excluded.items():
        yield f"{where}: window {name} {reason}; put it into a separate division"


def _address_problems(rules: Rules) -> Iterator[str]:
    """Yield names that can't be part of an address, or that have the same address on
    case-insensitive file systems.
    """
    markets = [snapshot.name for snapshot in rules.snapshots]
    for name in markets:
        if path_segment(name) != name:
            yield (
                f"snapshots: {name!r} can't be part of an address; use letters, digits, `.`, `_`"
                " and `-`"
            )

    yield from _equal_addresses("snapshots", markets)
    for each in rules.divisions:
        yield from _equal_addresses(f"divisions: {each.id}: windows", each.scopes())


def _equal_addresses(where: str, names: Sequence[str]) -> Iterator[str]:
    named: dict[str, str] = {}
    for name in names:
        address = path_segment(name).lower()
        if address in named:
            first = named[address]
            yield f"{where}: {first!r} and {name!r} would have the same address; rename one of them"
        else:
            named[address] = name


def _twin_problems(rules: Rules) -> Iterator[str]:
    """Yield divisions that match the same cards as an earlier division, which would therefore
    receive all of those cards.
    """
    seen: dict[tuple[object, ...], str] = {}
    for each in rules.divisions:
        asked = (
            each.task,
            each.version,
            each.hash,
            each.snapshot,
            frozenset(each.windows),
            frozenset(each.seeds),
            each.rules,
        )
        first = seen.setdefault(asked, each.id)
        if first != each.id:
            yield (
                f"divisions: {each.id} matches the same cards as {first}, which would get all of "
                "them; keep one of the two"
            )


def _division_problems(division: Division, known: Sequence[str]) -> Iterator[str]:
    """Yield problems with a division. `known` lists the names of the board's snapshots."""
    where = f"divisions: {division.id}"
    names = division.window_names()
    if division.snapshot is None and names:
        yield f"{where}: has windows but no snapshot; give both or neither"
    elif division.snapshot is not None and not names:
        yield f"{where}: has a snapshot but no windows; give both or neither"
    elif division.snapshot is not None and division.snapshot not in known:
        yield f"{where}: no snapshot {division.snapshot!r}{near_matches(division.snapshot, known)}"

    if division.is_governed and not names:
        yield (f"{where}: keys: registered applies to divisions with a market; set keys: own")

    if len(set(names)) != len(names) or len(set(division.seeds)) != len(division.seeds):
        yield f"{where}: a window or seed appears twice"

    if division.certificate == "required" and not division.attackers:
        yield (
            f"{where}: attackers: a required certificate needs named attackers; name at least "
            "one model"
        )

    if division.fresh and not names:
        yield f"{where}: fresh: applies to divisions with a market; remove it"

    if division.fresh and division.rank_by not in FRESH_FIGURES:
        yield (
            f"{where}: rank_by: {division.rank_by!r} can't be compared between markets, and "
            f"fresh windows differ between models; rank by one of {', '.join(FRESH_FIGURES)}"
        )

    yield from _window_problems(where, division)


def _cutoff_problems(rules: Rules) -> Iterator[str]:
    """Yield training-data cutoffs that are not valid calendar dates."""
    for each in rules.cutoffs:
        if each.cutoff == "none":
            continue

        try:
            parse_cutoff(each.cutoff, where=f"cutoffs: {each.match}")
        except UsageError as error:
            yield str(error)


def _contact_problems(rules: Rules) -> Iterator[str]:
    """Yield contacts of key holders that also belong to somebody else, in which case the board
    would require a signature from the wrong person.
    """
    first: dict[str, SubmitterKey] = {}
    for each in rules.submitter_keys:
        if each.contact is None:
            continue

        mark = mark_of_contact(each.contact)
        if rules.contact and mark == mark_of_contact(rules.contact):
            yield (
                f"submitter_keys: {each.name}: its contact is the board's, which registers the "
                "baselines; give another one"
            )

        other = first.setdefault(mark, each)
        if holder_of(other) != holder_of(each):
            yield (
                f"submitter_keys: {other.name} and {each.name} have the same contact; keep one "
                "of them"
            )


def _rules_problems(rules: Rules) -> Iterator[str]:
    """Yield problems that a schema for individual fields can't express."""
    for where, names in (
        ("snapshots", [snapshot.id for snapshot in rules.snapshots]),
        ("divisions", [division.id for division in rules.divisions]),
        ("baselines", [baseline.words for baseline in rules.baselines]),
        ("prices", [price.match for price in rules.prices]),
        ("cutoffs", [cutoff.match for cutoff in rules.cutoffs]),
    ):
        for name in sorted({name for name in names if names.count(name) > 1}):
            yield f"{where}: {name!r} appears twice"

    known = [snapshot.name for snapshot in rules.snapshots]
    for division in rules.divisions:
        if division.id.endswith(OPEN_BOOK):
            yield (
                f"divisions: {division.id}: {OPEN_BOOK} at the end of an id is reserved for the "
                "divisions open book, which the board adds by itself; give another id"
            )
        yield from _division_problems(division, known)

    ids = [division.id for division in rules.divisions]
    for baseline in rules.baselines:
        for name in baseline.divisions:
            if name not in ids:
                yield (
                    f"baselines: {baseline.words}: divisions: no division"
                    f" {name!r}{near_matches(name, ids)}"
                )

    yield from _address_problems(rules)
    yield from _cutoff_problems(rules)
    yield from _twin_problems(rules)
    yield from signer_problems(rules.signers, rules.verdict_signatures == "required")
    yield from submitter_key_problems(rules.submitter_keys)
    yield from _contact_problems(rules)
    if not rules.title.strip():
        yield "title: expected one line of text"

    if rules.url and not rules.url.startswith(("https://", "http://")):
        yield "url: expected an address that begins with https://"
