"""`ktdeval leaderboard init` and `baselines`: begin a board, and submit the baselines that its
divisions lack.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import date, timedelta
from pathlib import Path
from typing import Any

import click
import msgspec

from ktdeval.cards import count
from ktdeval.cli import FilePath, complete_names, example, open_plugins, plugin_option
from ktdeval.errors import ConfigError, VerificationError
from ktdeval.plugins.registry import Plugins
from ktdeval.runner import Registrant
from ktdeval.tasks import is_scoring
from ktdeval.values.fields import parse_assignments, split_list
from ktdeval.values.temporary import temporary_folder
from ktdeval_board.baselines import first_day, run_baseline
from ktdeval_board.bundle import Redactor
from ktdeval_board.claims import NO_CUTOFF, Claims
from ktdeval_board.documents import Stored
from ktdeval_board.entries import Board, load_board
from ktdeval_board.init import DEFAULT_BASELINES, Begun, NewBoard, init_board
from ktdeval_board.options import (
    as_day,
    as_seeds,
    board_argument,
    day_option,
    market_options,
    moved_market,
)
from ktdeval_board.register import RegisterRequest, baseline_key
from ktdeval_board.registrations import BOARD_SUBMITTER
from ktdeval_board.rules import Baseline, Division, Rules
from ktdeval_board.submit import Request, submit_run


@example(
    "ktdeval leaderboard init my-board --name my-board --title 'My board'"
    " --tasks blinded_open_research --contact you@example.org"
)
@click.command()
@click.argument("folder", type=FilePath(), metavar="DIR")
@click.option("--name", required=True, help="short name: lower-case letters, digits and dashes")
@click.option("--title", required=True, help="heading of the site")
@click.option(
    "--tasks",
    required=True,
    metavar="TASKS",
    shell_complete=complete_names("tasks"),
    help="tasks, groups or globs, with commas; each becomes a division",
)
@market_options("data provider or snapshot folder", default="synthetic", show_default=True)
@click.option(
    "--windows",
    default="",
    metavar="WINDOWS",
    shell_complete=complete_names("windows"),
    help="names, globs or FIRST:LAST days [default: the tasks' own]",
)
@click.option(
    "--seeds",
    default="0",
    show_default=True,
    metavar="SEEDS",
    help="seeds of every card, such as 0,1,2",
)
@click.option(
    "--market",
    type=click.Choice(["real", "synthetic"]),
    help="kind of market [default: what the snapshot is]",
)
@click.option(
    "--certificate",
    type=click.Choice(["required", "optional"]),
    default="optional",
    show_default=True,
    help="whether cards of trading tasks need a certificate of their mask",
)
@click.option(
    "--attacker", "attackers", multiple=True, metavar="MODEL",
    help="model whose attack counts in a required certificate; may be repeated",
)  # fmt: skip
@click.option(
    "--keys",
    type=click.Choice(["registered", "own"]),
    default="registered",
    show_default=True,
    help=(
        "registered: the board draws mask keys, each after its system was registered; own:"
        " submitters choose them"
    ),
)
@click.option(
    "--most-registrations",
    type=click.IntRange(1, 1_000_000),
    default=10,
    show_default=True,
    metavar="N",
    help="most registrations of one submitter in a division, where the board draws the keys",
)
@click.option(
    "--baseline", "baselines", multiple=True, metavar="MODEL",
    help=f"model that is always shown; may be repeated [default: {', '.join(DEFAULT_BASELINES)}]",
)  # fmt: skip
@click.option(
    "--contact",
    default="",
    help="e-mail address or https address for questions; baselines are submitted in its name",
)
@click.option("--url", default="", help="address of the site, https://…")
@click.option("--summary", default="", help="a sentence for the front page")
@day_option("board's beginning")
@plugin_option
def init(
    folder: Path,
    tasks: str,
    data_args: tuple[str, ...],
    windows: str,
    seeds: str,
    today: str | None,
    **options: Any,
) -> None:
    """Begin a board in DIR: its rules, README, schemas, and the workflow that checks submissions.

    A division is made of each task, with its windows and seeds, on one market; what is compared is
    fixed by hashes in board.yaml.
    """
    plugins = open_plugins(options.pop("extra"))
    if not (options["contact"] or options["url"]) and sys.stdin.isatty():
        options["contact"] = click.prompt(
            "contact: e-mail or https address in whose name the baselines are submitted"
        )

    new = NewBoard(
        tasks=split_list(tasks),
        data_args=parse_assignments(data_args, "--data-args"),
        windows=split_list(windows),
        seeds=as_seeds(seeds),
        opened_on=as_day(today),
        **options,
    )
    _print_begun(folder, init_board(folder, new, plugins))


def _print_begun(folder: Path, begun: Begun) -> None:
    """Print a new board's divisions, what its maintainers should know, and the next command."""
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
            f"note: {', '.join(lucky)}: one seed, so one draw a window; more (--seeds 0-2) average"
            " the luck of a key out",
            err=True,
        )

    if rules.baselines:
        contact = "" if _contact_of(rules) else " --contact ADDRESS"
        click.echo(f"next: ktdeval leaderboard baselines {folder}{contact}")


def _contact_of(rules: Rules) -> str:
    """Return the address in whose name a board submits its baselines; empty if it has none."""
    if rules.contact:
        return rules.contact

    return rules.url if rules.url.startswith("https://") else ""


# ---- baselines


_STRATEGY = "baseline"


@example("ktdeval leaderboard baselines my-board")
@click.command()
@board_argument
@click.option(
    "--division", "only", metavar="ID", help="of this division alone [default: of all that trade]"
)
@click.option(
    "--records",
    "stored",
    type=click.Choice(["elsewhere", "repository"]),
    default="elsewhere",
    show_default=True,
    help=(
        "repository: store ledgers and transcripts; elsewhere: store none, the check runs the"
        " baseline again"
    ),
)
@click.option(
    "--concurrency",
    type=click.IntRange(1, 10_000),
    default=1,
    show_default=True,
    metavar="N",
    help="episodes run at once",
)
@click.option(
    "--contact",
    default="",
    help="e-mail address or https address in whose name they stand [default: the board's]",
)
@market_options(
    "the market, if it is not where board.yaml says: a snapshot folder or data provider"
)
@day_option("submission")
@plugin_option
def baselines(
    board: Path, only: str | None, stored: Stored, concurrency: int, contact: str, **options: Any
) -> None:
    """Run the baselines that the board in DIR always shows, and submit their cards; those that are
    there are passed over.

    They need no key and cost nothing but time. `ktdeval leaderboard check` confirms them
    afterwards.
    """
    plugins = open_plugins(options["extra"])
    loaded = load_board(board)
    contact = contact or _contact_of(loaded.rules)
    if not contact:
        raise ConfigError(
            "board.yaml: contact is empty; baselines are submitted in the board's name, so set it"
            " or say --contact"
        )

    divisions = list(loaded.rules.divisions)
    if only is not None:
        divisions = [loaded.rules.division(only)]

    work = _Baselines(
        loaded,
        plugins,
        contact,
        as_day(options["today"]),
        stored,
        moved_market(options["data"], options["data_args"]),
        concurrency,
    )
    lacking = list(_lacking(loaded, divisions, plugins))
    for number, (division, baseline) in enumerate(lacking, start=1):
        click.echo(f"[{number}/{len(lacking)}] {division.id}: {baseline.model}", err=True)
        click.echo(work.submit(division, baseline))

    if lacking:
        submitted = count(len(lacking), "baseline")
        click.echo(f"{submitted} submitted; next: ktdeval leaderboard check {board}")
    else:
        click.echo("no baseline is missing")


def _lacking(
    board: Board, divisions: list[Division], plugins: Plugins
) -> Iterator[tuple[Division, Baseline]]:
    """Yield the baselines that divisions of trading tasks have no card of."""
    for division in divisions:
        if is_scoring(plugins.make_task(division.task)):
            continue

        models = {entry.model for entry in board.of_division(division)}
        for baseline in board.rules.baselines:
            if baseline.model not in models:
                yield division, baseline


@dataclass(frozen=True)
class _Baselines:
    """Runs baselines and submits their cards in the board's name."""

    board: Board
    plugins: Plugins
    contact: str
    day: str
    stored: Stored
    changes: dict[str, Any]  #: `data` and `data_args` where the market is on this machine
    concurrency: int

    def submit(self, division: Division, baseline: Baseline) -> str:
        """Run a baseline on a division and submit it; return the path of its card in the board.

        Raises VerificationError: the board does not accept it.
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
            request = Request(
                run,
                self.day,
                stored=self.stored,
                changes=self.changes,
                is_executed=self.stored == "repository",
            )
            # A model that reads only the market writes nothing private into its run.
            redactor = Redactor({})
            claims = self._claims(division, baseline)
            outcome = submit_run(board, request, claims, self.plugins, redactor)

        if outcome.missing:
            raise VerificationError(
                f"{division.id}: {baseline.model}: the board does not take it: {outcome.missing[0]}"
            )

        return outcome.submitted[0].paths[0]

    def _rules_here(self, division: Division) -> Rules:
        """Return the board's rules, with a division's market where it is on this machine."""
        rules = self.board.rules
        market = rules.snapshot_of(division)
        if market is None or not self.changes:
            return rules

        return rules.with_market(msgspec.structs.replace(market, **self.changes))

    def _key(self, rules: Rules, division: Division, baseline: Baseline) -> dict[str, str]:
        """Return the option of a run under the key that the board draws for it, if it draws any."""
        if not division.is_governed:
            return {}

        submitter = Registrant(name=BOARD_SUBMITTER, contact=self.contact)
        request = RegisterRequest(division.id, {}, submitter, self.day)
        key = baseline_key(self.board.folder.path, rules, baseline, request, self.plugins)
        return {"registration": str(key)}

    def _claims(self, division: Division, baseline: Baseline) -> Claims:
        cutoff = NO_CUTOFF
        source = "a fixed rule, which no data were trained on"
        if baseline.kind == "random":
            source = "random trades, which no data were trained on"

        if baseline.kind == "supervised":
            cutoff = (date.fromisoformat(first_day(division)) - timedelta(days=1)).isoformat()
            source = "trained on the snapshot's days before the division's first window"

        # Withdrawn cards of the baseline count as attempts, too.
        there = [
            entry
            for entry in self.board.entries
            if entry.division == division and entry.model == baseline.model
        ]

        return Claims(
            submitter=BOARD_SUBMITTER,
            contact=self.contact,
            cutoff=cutoff,
            cutoff_source=source,
            strategy=_STRATEGY,
            attempts=len(there) + 1,
        )
