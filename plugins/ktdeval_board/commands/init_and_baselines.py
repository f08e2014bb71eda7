"""`ktdeval leaderboard init` and `baselines`: create a board, and submit the baselines that its
divisions lack.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from datetime import date, timedelta
from pathlib import Path
from typing import Any

import click
import msgspec

from ktdeval.cards import count
from ktdeval.cli import FilePath, PluginOptions, example, flag, open_plugins, options_of
from ktdeval.errors import ConfigError, UsageError, VerificationError
from ktdeval.registry import Plugins
from ktdeval.runner import Registrant
from ktdeval.task_api import is_scoring
from ktdeval.values import JsonValue, build, load_yaml, temporary_folder
from ktdeval_board.baselines import first_day, run_baseline
from ktdeval_board.board_entries import LoadedBoard, load_board
from ktdeval_board.document_types import Stored
from ktdeval_board.init import BegunBoard, NewBoard, init_board
from ktdeval_board.options import (
    MovedOptions,
    as_seeds,
    board_argument,
    moved_market,
    recorded_day,
)
from ktdeval_board.redacted_records import Redactor
from ktdeval_board.register import RegisterRequest, baseline_key
from ktdeval_board.registrations import BOARD_SUBMITTER
from ktdeval_board.rules import Baseline, Division, OpenBook, Rules
from ktdeval_board.submit import SubmitRequest, submit_run
from ktdeval_board.submitter_claims import NO_CUTOFF, Claims


@dataclass(frozen=True, kw_only=True)
class InitOptions(PluginOptions):
    """Options of `leaderboard init`."""

    name: str = flag("", help="short name: lower-case letters, digits and dashes")
    title: str = flag("", help="heading of the site")
    tasks: tuple[str, ...] = flag(
        (), metavar="TASKS", help="tasks, groups or globs, with commas; each becomes a division"
    )
    data: str | None = flag(
        None, metavar="DATA", help="data provider or snapshot folder [default: synthetic]"
    )
    data_args: Mapping[str, JsonValue] = flag({}, help="arguments of the data provider")
    windows: tuple[str, ...] = flag(
        (),
        metavar="WINDOWS",
        help="windows: names, globs or FIRST:LAST days [default: the tasks' own]",
    )
    seeds: str | None = flag(
        None, metavar="SEEDS", help="seeds that each card must have, such as 0,1,2 [default: 0]"
    )
    contact: str = flag(
        "",
        help="e-mail address or https address for questions; baselines are submitted in its name",
    )
    config: Path | None = flag(
        None,
        type=FilePath(),
        metavar="FILE",
        help=(
            "YAML file with these options and market, certificate, attackers, keys, "
            "most_registrations, baselines, url, summary; options override the file"
        ),
    )


@example(
    "ktdeval leaderboard init my-board --name my-board --title 'My board'"
    " --tasks blinded_open_research --contact you@example.org"
)
@click.command()
@click.argument("folder", type=FilePath(), metavar="DIR")
@options_of(InitOptions)
def init(folder: Path, options: InitOptions) -> None:
    """Create a board in DIR: its rules, README, schemas, and the workflow that checks submissions.

    Each task becomes a division, with its windows and seeds, on one market; board.yaml fixes what
    is compared by hashes.
    """
    new = _new_board(options)
    if not (new.contact or new.url) and sys.stdin.isatty():
        contact = click.prompt(
            "contact: give an e-mail or https address; baselines are submitted in its name"
        )
        new = replace(new, contact=contact)

    plugins = open_plugins(options.plugin)
    _print_begun(folder, init_board(folder, new, plugins))


def _new_board(options: InitOptions) -> NewBoard:
    """Return the settings of a new board; options override the file.

    Raises UsageError if a name, a title or tasks are missing, and ConfigError if the file is not a
    valid board config.
    """
    wishes: dict[str, Any] = {}
    if options.config is not None:
        wishes = dict(load_yaml(options.config))
        if isinstance(wishes.get("seeds"), str):
            wishes["seeds"] = as_seeds(wishes["seeds"])

        # so that an error in the file is reported with the file's name
        build(NewBoard, {**_LEAST, **wishes}, str(options.config))

    for name in ("name", "title", "tasks", "data", "data_args", "windows", "contact"):
        value = getattr(options, name)
        if value:
            wishes[name] = value

    if options.seeds is not None:
        wishes["seeds"] = as_seeds(options.seeds)

    for name in ("name", "title", "tasks"):
        if not wishes.get(name):
            raise UsageError(f"a board needs a name, a title and tasks; add --{name}")

    wishes["opened_on"] = recorded_day()
    return build(NewBoard, wishes, "options")


#: Placeholders for a board's required settings, used while the other fields of a file are checked
_LEAST = {"name": "board", "title": "Board", "tasks": ("task",), "opened_on": "2000-01-01"}


def _print_begun(folder: Path, begun: BegunBoard) -> None:
    """Print a new board's divisions, what its maintainers should know, and the next command
    to run.
    """
    rules = begun.rules
    market = f"a {rules.market}" if rules.market else "no"
    click.echo(f"{folder}: board {rules.name} of {market} market")

    for division in rules.divisions:
        sizes = []
        if division.windows:
            sizes.append(count(len(division.windows), "window"))

        if division.seeds:
            sizes.append(count(len(division.seeds), "seed"))

        click.echo(f"  division {division.id}: {' × '.join(sizes)}")

    for note in begun.notes:
        click.echo(f"note: {note}", err=True)

    lucky = [each.id for each in rules.divisions if each.is_governed and len(each.seeds) == 1]
    if lucky:
        click.echo(
            f"note: {', '.join(lucky)}: one seed, so one draw per window; several seeds (--seeds "
            "0-2) average out the luck of the draw",
            err=True,
        )

    if rules.baselines:
        contact = "" if _contact_of(rules) else " --contact ADDRESS"
        click.echo(f"next: ktdeval leaderboard baselines {folder}{contact}")


def _contact_of(rules: Rules) -> str:
    """Return the contact address under which a board submits its baselines; empty if the board
    gives no address.
    """
    if rules.contact:
        return rules.contact

    return rules.url if rules.url.startswith("https://") else ""


# ---- baselines


_STRATEGY = "baseline"


@dataclass(frozen=True, kw_only=True)
class BaselinesOptions(MovedOptions, PluginOptions):
    """Options of `leaderboard baselines`."""

    division: str | None = flag(
        None, metavar="ID", help="only this division [default: all trading divisions]"
    )
    records: Stored = flag(
        "elsewhere",
        help=(
            "repository: store ledgers and transcripts in it; elsewhere: do not store them, and "
            "let the check run the baseline again"
        ),
    )
    concurrency: int = flag(
        1, type=click.IntRange(1, 10_000), metavar="N", help="number of episodes to run at once"
    )
    contact: str = flag(
        "",
        help="contact shown with the baselines: an e-mail or https address [default: the board's]",
    )


@example("ktdeval leaderboard baselines my-board")
@click.command()
@board_argument
@options_of(BaselinesOptions)
def baselines(board: Path, options: BaselinesOptions) -> None:
    """Run the baselines that the board in DIR always shows, and submit their cards; existing ones
    are skipped.

    They need no API key and cost only time. `ktdeval leaderboard check` confirms them
    afterwards.
    """
    plugins = open_plugins(options.plugin)
    loaded = load_board(board)
    contact = options.contact or _contact_of(loaded.rules)
    if not contact:
        raise ConfigError(
            "board.yaml: contact is empty; baselines are submitted in the board's name, so set "
            "it or give --contact"
        )

    divisions = [each for each in loaded.rules.divisions if not isinstance(each, OpenBook)]
    if options.division is not None:
        divisions = [loaded.rules.division(options.division)]

    work = _BaselineRuns(
        loaded,
        plugins,
        contact,
        recorded_day(),
        options.records,
        moved_market(options),
        options.concurrency,
    )
    lacking = list(_lacking(loaded, divisions, plugins))
    for number, (division, baseline) in enumerate(lacking, start=1):
        click.echo(f"[{number}/{len(lacking)}] {division.id}: {baseline.words}", err=True)
        click.echo(work.submit(division, baseline))

    if lacking:
        submitted = count(len(lacking), "baseline")
        click.echo(f"{submitted} submitted; next: ktdeval leaderboard check {board}")
    else:
        click.echo("all baselines are on the board")


def _lacking(
    board: LoadedBoard, divisions: list[Division], plugins: Plugins
) -> Iterator[tuple[Division, Baseline]]:
    """Yield the baselines for which divisions of trading tasks have no card yet."""
    for division in divisions:
        if is_scoring(plugins.make_task(division.task)):
            continue

        there = [entry.baseline for entry in board.of_division(division)]
        for baseline in board.rules.baselines_of(division):
            if baseline not in there:
                yield division, baseline


@dataclass(frozen=True)
class _BaselineRuns:
    """Runs baselines and submits their cards in the board's name."""

    board: LoadedBoard
    plugins: Plugins
    contact: str
    day: str
    stored: Stored
    changes: dict[str, Any]  #: `data` and `data_args` for the market on this machine
    concurrency: int

    def submit(self, division: Division, baseline: Baseline) -> str:
        """Run a baseline on a division and submit it. Return the path of its card on the board.

        Raises VerificationError if the board does not accept the card.
        """
        rules = self._rules_here(division)
        board = self.board.folder.path
        with temporary_folder("ktdeval-baseline-") as private:
            run = private / "run"
            run_baseline(
                rules,
                division,
                baseline,
                run,
                self.plugins,
                concurrency=self.concurrency,
                **self._key(rules, division, baseline),
            )
            request = SubmitRequest(
                run,
                self.day,
                stored=self.stored,
                changes=self.changes,
                is_executed=self.stored == "repository",
            )
            # A model that reads only the market writes nothing private to its run.
            redactor = Redactor({})
            claims = self._claims(division, baseline)
            outcome = submit_run(board, request, claims, self.plugins, redactor)

        if outcome.missing:
            raise VerificationError(
                f"{division.id}: {baseline.words}: the board refuses it: {outcome.missing[0]}"
            )

        return outcome.submitted[0].paths[0]

    def _rules_here(self, division: Division) -> Rules:
        """Return the board's rules with the division's market replaced by the one on this machine,
        if given.
        """
        rules = self.board.rules
        market = rules.snapshot_of(division)
        if market is None or not self.changes:
            return rules

        return rules.with_market(msgspec.structs.replace(market, **self.changes))

    def _key(self, rules: Rules, division: Division, baseline: Baseline) -> dict[str, str]:
        """Return the run option for the baseline's key, if the board draws keys."""
        if not division.is_governed:
            return {}

        submitter = Registrant(name=BOARD_SUBMITTER, contact=self.contact)
        request = RegisterRequest(division.id, {}, submitter, self.day)
        key = baseline_key(self.board.folder.path, rules, baseline, request, self.plugins)
        return {"registration": str(key)}

    def _claims(self, division: Division, baseline: Baseline) -> Claims:
        cutoff = NO_CUTOFF
        source = "a fixed rule, not trained on any data"
        if baseline.kind == "random":
            source = "random trades, not trained on any data"

        if baseline.kind == "memory":
            source = "a rule that deliberately looks up the board's days; not trained on any data"

        if baseline.kind == "supervised":
            cutoff = (date.fromisoformat(first_day(division)) - timedelta(days=1)).isoformat()
            source = "trained on the snapshot's days before the division's first window"

        # Attempts include withdrawn cards of the baseline.
        there = [
            entry
            for entry in self.board.entries
            if entry.division == division and entry.baseline == baseline
        ]

        return Claims(
            submitter=BOARD_SUBMITTER,
            contact=self.contact,
            cutoff=cutoff,
            cutoff_source=source,
            strategy=_STRATEGY,
            attempts=len(there) + 1,
        )
