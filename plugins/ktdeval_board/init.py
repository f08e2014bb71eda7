"""Create a board. Its rules are generated from a snapshot and installed tasks, its other files from
the template.
"""

from __future__ import annotations

import importlib.metadata
import json
import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

import msgspec

from ktdeval.errors import ConfigError, UsageError, wrap_os_error
from ktdeval.market import MarketSnapshot, window_rows
from ktdeval.registry import Plugins
from ktdeval.runner import (
    FirstStep,
    choose_windows,
    describe_any,
    open_snapshot,
    refuse_market,
    split_model,
)
from ktdeval.task_api import is_scoring, needs_market
from ktdeval.values import (
    Address,
    JsonValue,
    Parameters,
    content_hash,
    faults_in,
    option,
    requirement,
    stored_market,
    temporary_folder,
    write_atomic,
)
from ktdeval_board.atomic_moves import Placement
from ktdeval_board.baselines import first_steps, refusals
from ktdeval_board.checking.rules import rules_table
from ktdeval_board.errata import ERRATA_FILE
from ktdeval_board.layout import SCHEMAS, path_segment
from ktdeval_board.read_documents import schema_texts
from ktdeval_board.rules import (
    RULES_FILE,
    Baseline,
    BaselineKind,
    Division,
    MarketKind,
    Rules,
    SnapshotRule,
    WindowRule,
    load_rules,
)
from ktdeval_board.templates import render

DEFAULT_BASELINES = (
    "builtin/equal_weight",
    "builtin/momentum",
    "builtin/reversal",
    "builtin/low_volatility",
    "builtin/linear_factor",
    "builtin/random",
)
"""Baselines of a board that specifies none, used in the divisions in which each of them can act."""
#: Seeds for a random baseline, enough to draw a band of random traders
RANDOM_SEEDS = tuple(range(10))

_KINDS: Mapping[str, BaselineKind] = {
    "builtin/random": "random",
    "builtin/linear_factor": "supervised",
    "builtin/memory": "memory",
}
"""Models that are not fixed rules."""
_TEMPLATE: Mapping[str, str] = {
    "board.yaml": RULES_FILE,
    "errata.yaml": ERRATA_FILE,
    "README.md": "README.md",
    "workflow.yml": ".github/workflows/board.yml",
    "codeowners": ".github/CODEOWNERS",
    "gitattributes": ".gitattributes",
    "gitignore": ".gitignore",
}
"""Destinations of the template's files."""


@dataclass(frozen=True)
class NewBoard:
    """Settings requested for a new board."""

    name: str
    title: str
    tasks: tuple[str, ...]  #: names, groups or globs of installed tasks; each becomes a division
    opened_on: str  #: the board's first day, YYYY-MM-DD
    data: Address = "synthetic"
    data_args: Parameters = field(default_factory=dict)
    windows: tuple[str, ...] = ()  #: names, globs or FIRST:LAST; by default the tasks' own windows
    #: seeds for every division; must be consecutive, as in a run
    seeds: tuple[int, ...] = (0,)
    market: MarketKind | None = None  #: None for the value in the snapshot
    certificate: Literal["required", "optional"] = "optional"
    attackers: tuple[str, ...] = ()  #: models whose attacks count in a required certificate
    #: who draws mask keys; divisions without a market have no keys
    keys: Literal["registered", "own"] = "registered"
    #: maximum number of registrations per submitter in a division for which the board draws the
    #: keys; None: no limit
    most_registrations: int | None = option(
        10, help="maximum number of registrations per submitter", minimum=1, maximum=1_000_000
    )
    #: models, as NAME or NAME(option=value,…); by default `DEFAULT_BASELINES`. Only for trading
    #: tasks
    baselines: tuple[str, ...] = ()
    contact: str = ""
    url: Address = ""
    summary: str = ""


@dataclass(frozen=True)
class BegunBoard:
    """A newly created board: its rules, and what its maintainers should know."""

    rules: Rules
    notes: tuple[str, ...]


def init_board(folder: Path, new: NewBoard, plugins: Plugins) -> BegunBoard:
    """Create a board in a folder that is new, empty or a fresh git repository. Either all files are
    written or none.

    Raises UsageError if the folder is not empty, if a task, window or model is unknown, if the
    seeds are not consecutive, or if `market` does not match the snapshot. Raises DataError if the
    snapshot can't be opened or does not cover a window, ConfigError if a name or address can't be
    used, and StoreError if the folder can't be written.
    """
    _check_folder(folder)
    _check_texts(new)
    tasks = {name: plugins.make_task(name) for name in plugins.resolve_tasks(new.tasks)}
    refuse_market(tasks.values(), new, NewBoard(new.name, new.title, new.tasks, new.opened_on))
    snapshot = None
    market: MarketKind | None = None
    snapshots: tuple[SnapshotRule, ...] = ()
    if any(map(needs_market, tasks.values())):
        snapshot = open_snapshot(plugins, new.data, new.data_args)
        market = "synthetic" if snapshot.meta.synthetic else "real"
        if new.market not in (None, market):
            raise UsageError(
                f"market {new.market}: snapshot {snapshot.meta.name} is {market}; a board never "
                "mixes real and synthetic markets"
            )

        name = path_segment(snapshot.meta.name)
        snapshots = (SnapshotRule(name, snapshot.id, new.data, dict(new.data_args)),)

    divisions = tuple(_division(task, new, snapshot, plugins) for task in tasks.values())
    opening = {
        division: first_steps(division, new.data, new.data_args, snapshot, plugins)
        for division in divisions
    }
    trading = {
        division: steps
        for division, steps in opening.items()
        if not is_scoring(tasks[division.task])
    }
    baselines, notes = _baselines(new, trading, snapshot, plugins)
    rules = Rules(
        new.name,
        new.title,
        market,
        snapshots,
        divisions,
        summary=new.summary,
        contact=new.contact,
        url=new.url,
        opened_on=new.opened_on,
        baselines=baselines,
    )

    if stored_market(new.data) is not None:
        notes.append(
            f"{RULES_FILE}: snapshots: data is a folder on this machine; if the check can't open "
            "it, cards stay self-reported"
        )

    return BegunBoard(_write_board(folder, rules), tuple(notes))


# ---- rules


def _check_folder(folder: Path) -> None:
    present = []
    with wrap_os_error(f"{folder}: can't be read as a folder"):
        if folder.exists():
            present = sorted(entry.name for entry in folder.iterdir() if entry.name != ".git")

    if present:
        raise UsageError(
            f"{folder}: already contains {present[0]}; create a board in a new or empty folder"
        )


def _check_texts(new: NewBoard) -> None:
    for name in ("title", "summary", "contact", "url"):
        if not str(getattr(new, name)).isprintable():
            raise ConfigError(f"{name}: expected one line of printable text")

    for path, problem in faults_in(new):
        raise ConfigError(f"{path.lstrip('.')}: expected {problem}")

    if new.certificate == "required" and not new.attackers:
        raise UsageError(
            "certificate: required needs the attackers that count, such as attackers: "
            "[openai/gpt-4.1]"
        )
    if new.attackers and new.certificate != "required":
        raise UsageError(
            "attackers: apply to required certificates only; add certificate: required"
        )

    first = new.seeds[0] if new.seeds else -1
    if first < 0 or list(new.seeds) != list(range(first, first + len(new.seeds))):
        seeds = ", ".join(map(str, new.seeds)) or "none"
        raise UsageError(
            f"--seeds: expected consecutive seeds, like a run's, such as 0,1,2; got {seeds}"
        )


def _division(
    task: Any, new: NewBoard, snapshot: MarketSnapshot | None, plugins: Plugins
) -> Division:
    try:
        windows = [window for window in choose_windows(task, new.windows) if window is not None]
    except UsageError as error:
        raise UsageError(f"--windows: {error}") from error

    if snapshot is not None:
        for window in windows:
            window_rows(snapshot.days, window.first, window.last)

    scoring = is_scoring(task)
    spans = [WindowRule(window.name, window.first, window.last) for window in windows]
    rank_by = "total_return"
    if scoring:
        headlines = [name for name, score in task.scores.items() if score.headline]
        rank_by = next(iter([*headlines, *task.scores]))

    market = path_segment(snapshot.meta.name) if snapshot and windows else None
    is_governed = market is not None and new.keys == "registered"
    return Division(
        id=re.sub(r"[^a-z0-9]+", "-", task.name.lower()).strip("-")[:63],
        task=task.name,
        version=task.version,
        hash=content_hash(describe_any(task, plugins)),
        snapshot=market,
        windows=tuple(spans),
        seeds=new.seeds,
        rank_by=rank_by,
        certificate="optional" if scoring else new.certificate,
        attackers=() if scoring else new.attackers,
        keys="registered" if is_governed else "own",
        most_registrations=new.most_registrations if is_governed else None,
        summary=plugins.spec("tasks", task.name).summary,
    )


def _baselines(
    new: NewBoard,
    opening: Mapping[Division, Sequence[FirstStep]],
    snapshot: MarketSnapshot | None,
    plugins: Plugins,
) -> tuple[tuple[Baseline, ...], list[str]]:
    """Return the baselines for the divisions whose first steps are given, and a note for each
    default baseline that is missing or can't act.
    """
    if not opening or snapshot is None:
        if new.baselines:
            raise UsageError("baselines: apply to trading tasks, but this board has none")

        return (), []

    baselines = []
    notes = []
    for text in dict.fromkeys(new.baselines or DEFAULT_BASELINES):
        model, args = split_model(text)
        kind = _KINDS.get(model, "rule")
        seeds = RANDOM_SEEDS if kind == "random" else ()
        baseline = Baseline(model, kind, seeds, args)

        refused = refusals(baseline, opening, snapshot, plugins)
        acting = tuple(division.id for division in opening if division.id not in refused)
        first = next(iter(refused.values()), None)
        if first is None:
            baselines.append(baseline)
        elif acting:
            baselines.append(msgspec.structs.replace(baseline, divisions=acting))
            notes.append(f"baselines: left out of {', '.join(refused)}: {first}")
        elif new.baselines:
            raise first
        else:
            notes.append(f"baselines: left out: {first}")

    return tuple(baselines), notes


# ---- files


def _write_board(folder: Path, rules: Rules) -> Rules:
    """Write a board's files to a temporary folder next to `folder`, check its rules, and move all
    files into `folder`.
    """
    above = next(parent for parent in folder.absolute().parents if parent.is_dir())
    with ExitStack() as stack:
        with wrap_os_error(f"{folder}: can't be created"):
            staging = stack.enter_context(temporary_folder(".board-", above))

        for name, text in _board_files(rules):
            (staging / name).parent.mkdir(parents=True, exist_ok=True)
            write_atomic(staging / name, text)

        try:
            checked = load_rules(staging)
        except ConfigError as error:
            raise ConfigError(str(error).replace(str(staging), str(folder))) from error

        with Placement() as placement:
            for entry in sorted(staging.iterdir()):
                placement.put(entry, folder / entry.name)

        return checked


def _board_files(rules: Rules) -> Iterator[tuple[str, str]]:
    """Yield the path and text of each of a board's files."""
    governed = next((division for division in rules.divisions if division.is_governed), None)
    values = {
        "rules": rules,
        "is_synthetic": rules.market == "synthetic",
        "version": importlib.metadata.version("ktdeval"),
        "ktdeval": requirement(),
        "run_command": _run_command(rules, rules.divisions[0]),
        "rules_table": rules_table(),
        "is_governed": governed is not None,
        "governed": governed,
        "data_words": "" if governed is None else _data_words(rules, governed),
    }
    for name, path in _TEMPLATE.items():
        yield path, render(f"board/{name}", **values)

    for name, text in schema_texts().items():
        yield f"{SCHEMAS}/{name}", text


def _run_command(rules: Rules, division: Division) -> str:
    words = ["ktdeval", "--model PROVIDER/MODEL", f"--tasks {division.task}"]
    if division.windows:
        words.append(f"--windows {','.join(division.window_names())}")

    first = division.seeds[0]
    if len(division.seeds) > 1 or first:
        words.append(f"--seeds {len(division.seeds)}")

    if first:
        words.append(f"--seed {first}")

    return f"{' '.join(words)}{_data_words(rules, division)} --out run"


def _data_words(rules: Rules, division: Division) -> str:
    """Return the command-line options that select a division's market; empty for the embedded
    market.
    """
    snapshot = rules.snapshot_of(division)
    if snapshot is None or (snapshot.data == "synthetic" and not snapshot.data_args):
        return ""

    # The path of the snapshot folder differs from machine to machine.
    words = f" --data {'SNAPSHOT' if stored_market(snapshot.data) else snapshot.data}"
    if snapshot.data_args:
        args = [_assignment(name, value) for name, value in snapshot.data_args.items()]
        words += f" --data-args {','.join(args)}"

    return words


def _assignment(name: str, value: JsonValue) -> str:
    text = value if isinstance(value, str) else json.dumps(value)
    return f"{name}={text}"
