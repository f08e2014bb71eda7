"""What a board asks for and what it compares: the content of its `board.yaml`."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from ktdeval.api import ConfigError, JsonValue, build, load_yaml, near_matches, option

RULES_FILE = "board.yaml"
SCHEMA_VERSION = 1

Market = Literal["real", "synthetic"]
BaselineKind = Literal["rule", "random", "supervised"]

_SLUG = re.compile(r"[a-z0-9][a-z0-9-]{0,62}")
_SHA256 = re.compile(r"[0-9a-f]{64}")
_DAY = re.compile(r"\d{4}-\d{2}-\d{2}")
_MEGABYTE = 1_000_000


@dataclass(frozen=True)
class WindowRule:
    """A window that every card of a division covers."""

    name: str = option(help="name of the window, as on cards")
    first: str = option(help="first trading day, YYYY-MM-DD")
    last: str = option(help="last trading day, YYYY-MM-DD")


@dataclass(frozen=True)
class SnapshotRule:
    """A market that a board's cards may be of."""

    name: str = option(help="what divisions call it")
    id: str = option(help="id of the snapshot: SHA-256 over its content")
    data: str = option("", help="data provider that gives it, for re-execution; empty where the board can't open it")
    data_args: dict[str, Any] = option(factory=dict, help="arguments of the provider")


@dataclass(frozen=True)
class Division:
    """What is compared with what: cards of one task, version and config on one snapshot, windows and seeds."""

    id: str = option(help="name of the division in addresses: lower-case letters, digits and dashes")
    task: str = option(help="name of the task")
    version: str = option(help="version of the task")
    hash: str = option(help="SHA-256 of the task's config, as on cards (task.hash)")
    snapshot: str = option(help="name of one of the board's snapshots")
    windows: tuple[WindowRule, ...] = option(help="windows that a card must cover, no more and no less")
    seeds: tuple[int, ...] = option(help="seeds that a card must have, no more and no less")
    rules: Literal["strict", "paper"] = option("strict", help="rule set of the metrics; for trading tasks")
    rank_by: str = option("total_return", help="metric, or score of a scoring task, that the rank goes by")
    certificate: Literal["required", "optional"] = option("optional", help="whether a card needs a certificate of its mask")
    summary: str = option("", help="one line for readers")

    def window_names(self) -> list[str]:
        """Names of the windows, in order."""
        return [window.name for window in self.windows]


@dataclass(frozen=True)
class Baseline:
    """A model that every division of trading tasks shows."""

    model: str = option(help="full name of the model, such as builtin/equal_weight")
    kind: BaselineKind = option("rule", help="rule: a fixed rule; random: random trading; supervised: a trained factor model")
    seeds: tuple[int, ...] = option((), help="seeds in the place of the division's, such as more of them for a random trader")


@dataclass(frozen=True)
class Limits:
    """How large what is submitted may be; whatever is larger is refused unread."""

    card_mb: int = option(8, minimum=1, maximum=100, help="a card, a submission or another JSON file")
    file_mb: int = option(64, minimum=1, maximum=2000, help="a ledger or transcript as stored")
    unpacked_mb: int = option(512, minimum=1, maximum=8000, help="a ledger or transcript unpacked")
    records_mb: int = option(256, minimum=1, maximum=20000, help="all records of a submission as stored")
    episodes: int = option(500, minimum=1, maximum=100000, help="episodes of a submission")

    def bytes_of(self, name: str) -> int:
        """A limit in bytes, by the name of its field."""
        return int(getattr(self, name)) * _MEGABYTE


@dataclass(frozen=True)
class Rules:
    """A board.

    A board is of real or of synthetic markets, never of both, so that the two can't stand beside each other.
    """

    name: str = option(help="short name: lower-case letters, digits and dashes")
    title: str = option(help="heading of the site")
    market: Market = option(help="real or synthetic; a board never mixes them")
    snapshots: tuple[SnapshotRule, ...] = option(help="the markets")
    divisions: tuple[Division, ...] = option(help="what is ranked")
    schema_version: int = option(SCHEMA_VERSION, minimum=1, maximum=SCHEMA_VERSION, help="of board.yaml")
    summary: str = option("", help="a paragraph for the front page")
    contact: str = option("", help="where to write to")
    url: str = option("", help="where the site is, https://…")
    opened_on: str = option("", help="day the board began, YYYY-MM-DD")
    baselines: tuple[Baseline, ...] = option((), help="models that are always shown beside the benchmark")
    limits: Limits = option(factory=Limits, help="largest sizes")
    tie_level: float = option(0.05, minimum=0.001, maximum=0.5, help="level of the model confidence sets that form tie groups")

    def division(self, division_id: str) -> Division:
        """The division of an id.

        Raises:
            ConfigError: there is none, with near names.
        """
        for division in self.divisions:
            if division.id == division_id:
                return division
        known = [division.id for division in self.divisions]
        raise ConfigError(f"no division {division_id!r}{near_matches(division_id, known)}")

    def snapshot_of(self, division: Division) -> SnapshotRule:
        """The market of a division."""
        return next(snapshot for snapshot in self.snapshots if snapshot.name == division.snapshot)

    def baseline_of(self, model: str) -> Baseline | None:
        """The baseline that a model is, by its full name; None where it is an entrant."""
        return next((baseline for baseline in self.baselines if baseline.model == model), None)


def load_rules(folder: Path) -> Rules:
    """Read the rules of the board in a folder.

    Raises:
        ConfigError: there is no board here, or a rule is not valid; names the field.
    """
    path = folder / RULES_FILE
    if not path.is_file():
        raise ConfigError(f"{folder}: no board here ({RULES_FILE} is missing); begin one with `ktdeval leaderboard init {folder}`")
    value: JsonValue = load_yaml(path)
    if not isinstance(value, Mapping):
        raise ConfigError(f"{path}: expected a mapping of fields")
    rules = build(Rules, value, str(path))
    for problem in _problems(rules):
        raise ConfigError(f"{path}: {problem}")
    return rules


def _problems(rules: Rules) -> Iterator[str]:
    """What single fields can't say."""
    if not _SLUG.fullmatch(rules.name):
        yield f"name: {rules.name!r} is not made of lower-case letters, digits and dashes"
    for where, names in (
        ("snapshots", [snapshot.name for snapshot in rules.snapshots]),
        ("snapshots", [snapshot.id for snapshot in rules.snapshots]),
        ("divisions", [division.id for division in rules.divisions]),
        ("baselines", [baseline.model for baseline in rules.baselines]),
    ):
        for name in sorted({name for name in names if names.count(name) > 1}):
            yield f"{where}: {name!r} stands there twice"
    for snapshot in rules.snapshots:
        if not _SHA256.fullmatch(snapshot.id):
            yield f"snapshots: {snapshot.name}: id is no SHA-256 (64 hexadecimal digits)"
    known = [snapshot.name for snapshot in rules.snapshots]
    for division in rules.divisions:
        for problem in _division_problems(division, known):
            yield f"divisions: {division.id}: {problem}"
    if rules.url and not rules.url.startswith(("https://", "http://")):
        yield "url: expected an address that begins with https://"


def _division_problems(division: Division, snapshots: list[str]) -> Iterator[str]:
    if not _SLUG.fullmatch(division.id):
        yield "id is not made of lower-case letters, digits and dashes"
    if not _SHA256.fullmatch(division.hash):
        yield "hash is no SHA-256 (64 hexadecimal digits)"
    if division.snapshot not in snapshots:
        yield f"no snapshot {division.snapshot!r}{near_matches(division.snapshot, snapshots)}"
    if not division.windows or not division.seeds:
        yield "needs at least one window and one seed"
    names = division.window_names()
    if len(set(names)) != len(names) or len(set(division.seeds)) != len(division.seeds):
        yield "a window or seed stands there twice"
    for window in division.windows:
        if not (_DAY.fullmatch(window.first) and _DAY.fullmatch(window.last) and window.first <= window.last):
            yield f"window {window.name}: expected first and last as YYYY-MM-DD, in order"
