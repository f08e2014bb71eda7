"""`ktdeval leaderboard init` and `baselines`: begins a board, and runs and submits the baselines that its divisions lack."""

from __future__ import annotations

import sys
import tempfile
from collections.abc import Iterator
from datetime import date, timedelta
from pathlib import Path
from typing import Any

import click
import msgspec

from ktdeval.cards import count
from ktdeval.cli import FilePath, open_plugins, plugin_option
from ktdeval.contracts import Registrant, is_scoring
from ktdeval.errors import ConfigError, VerificationError
from ktdeval.fields import parse_assignments, split_list
from ktdeval.registry import Plugins
from ktdeval_board.baselines import first_day, run_baseline
from ktdeval_board.bundle import Redactor
from ktdeval_board.claims import NO_CUTOFF, Claims
from ktdeval_board.entries import Board, load_board
from ktdeval_board.init import DEFAULT_BASELINES, NewBoard, init_board
from ktdeval_board.options import as_day, as_seeds, moved_market
from ktdeval_board.register import RegisterRequest, baseline_key
from ktdeval_board.registrations import BOARD_SUBMITTER
from ktdeval_board.rules import Baseline, Division
from ktdeval_board.submit import Request, Stored, submit_run


@click.command()
@click.argument("folder", type=FilePath(), metavar="DIR")
@click.option("--name", required=True, help="short name: lower-case letters, digits and dashes")
@click.option("--title", required=True, help="heading of the site")
@click.option("--tasks", required=True, metavar="TASKS", help="tasks, groups or globs, with commas; each becomes a division")
@click.option("--data", default="synthetic", show_default=True, help="data provider or snapshot folder")
@click.option("--data-args", multiple=True, metavar="NAME=VALUE,…", help="arguments of the data provider")
@click.option("--windows", default="", metavar="WINDOWS", help="names, globs or FIRST:LAST days [default: the tasks' own]")
@click.option("--seeds", default="0", show_default=True, metavar="SEEDS", help="seeds of every card, such as 0,1,2")
@click.option("--market", type=click.Choice(["real", "synthetic"]), help="kind of market [default: what the snapshot is]")
@click.option(
    "--certificate", type=click.Choice(["required", "optional"]), default="optional", show_default=True,
    help="whether cards of trading tasks need a certificate of their mask",
)  # fmt: skip
@click.option(
    "--attacker", "attackers", multiple=True, metavar="MODEL",
    help="model whose attack counts in a required certificate; may be repeated",
)  # fmt: skip
@click.option(
    "--keys", type=click.Choice(["registered", "own"]), default="registered", show_default=True,
    help="registered: the board draws mask keys, each after its system was registered; own: submitters choose them",
)  # fmt: skip
@click.option(
    "--most-registrations", type=click.IntRange(1, 1_000_000), default=10, show_default=True, metavar="N",
    help="most registrations of one submitter in a division, where the board draws the keys",
)  # fmt: skip
@click.option(
    "--baseline", "baselines", multiple=True, metavar="MODEL",
    help=f"model that is always shown; may be repeated [default: {', '.join(DEFAULT_BASELINES)}]",
)  # fmt: skip
@click.option("--contact", default="", help="e-mail address or https address for questions; baselines are submitted in its name")
@click.option("--url", default="", help="address of the site, https://…")
@click.option("--summary", default="", help="a sentence for the front page")
@click.option("--on", "today", metavar="YYYY-MM-DD", help="first day of the board [default: today]")
@plugin_option
def init(folder: Path, tasks: str, data_args: tuple[str, ...], windows: str, seeds: str, today: str | None, **options: Any) -> None:
    """Begin a board in DIR: its rules, README, schemas, and the workflow that checks submissions.

    A division is made of each task, with its windows and seeds, on one market; what is compared is fixed by hashes in board.yaml.
    """
    extra, day = options.pop("extra"), as_day(today)
    if not (options["contact"] or options["url"]) and sys.stdin.isatty():
        options["contact"] = click.prompt("contact: e-mail or https address in whose name the baselines are submitted")
    options |= {"data_args": parse_assignments(data_args, "--data-args"), "windows": split_list(windows), "seeds": as_seeds(seeds)}
    new = NewBoard(tasks=split_list(tasks), opened_on=day, **options)
    begun = init_board(folder, new, open_plugins(extra))
    click.echo(f"{folder}: board {new.name} of {f'a {begun.rules.market}' if begun.rules.market else 'no'} market")
    for division in begun.rules.divisions:
        sizes = ((len(division.windows), "window"), (len(division.seeds), "seed"))
        words = (count(number, noun) for number, noun in sizes if number)
        click.echo(f"  division {division.id}: {' × '.join(words)}")
    for note in begun.notes:
        click.echo(f"note: {note}", err=True)
    lucky = [each.id for each in begun.rules.divisions if each.is_governed and len(each.seeds) == 1]
    if lucky:
        click.echo(
            f"note: {', '.join(lucky)}: one seed, so one draw a window; more (--seeds 0-2) average the luck of a key out", err=True
        )
    if begun.rules.baselines:
        contact = "" if begun.rules.contact or begun.rules.url.startswith("https://") else " --contact ADDRESS"
        click.echo(f"next: ktdeval leaderboard baselines {folder}{contact}")


_STRATEGY = "baseline"


@click.command()
@click.argument("board", default=".", type=FilePath(), metavar="[DIR]")
@click.option("--division", "only", metavar="ID", help="of this division alone [default: of all that trade]")
@click.option(
    "--records", "stored", type=click.Choice(["elsewhere", "repository"]), default="elsewhere", show_default=True,
    help="repository: store ledgers and transcripts; elsewhere: store none, the check runs the baseline again",
)  # fmt: skip
@click.option(
    "--concurrency", type=click.IntRange(1, 10_000), default=1, show_default=True, metavar="N", help="episodes run at once"
)
@click.option("--contact", default="", help="e-mail address or https address in whose name they stand [default: the board's]")
@click.option(
    "--data", metavar="DATA", help="the market, where it is not where board.yaml says: a snapshot folder or data provider"
)
@click.option("--data-args", multiple=True, metavar="NAME=VALUE,…", help="arguments of the data provider")
@click.option("--on", "today", metavar="YYYY-MM-DD", help="day of the submission [default: today, UTC]")
@plugin_option
def baselines(board: Path, only: str | None, stored: Stored, concurrency: int, contact: str, **options: Any) -> None:
    """Run the baselines that the board in DIR always shows, and submit their cards; those that are there are passed over.

    They need no key and cost nothing but time. `ktdeval leaderboard check` confirms them afterwards.
    """
    plugins = open_plugins(options["extra"])
    loaded = load_board(board)
    changes, day = moved_market(options["data"], options["data_args"]), as_day(options["today"])
    contact = contact or loaded.rules.contact or (loaded.rules.url if loaded.rules.url.startswith("https://") else "")
    if not contact:
        raise ConfigError("board.yaml: contact is empty; baselines are submitted in the board's name, so set it or say --contact")
    divisions = [loaded.rules.division(only)] if only is not None else list(loaded.rules.divisions)
    lacking = list(_lacking(loaded, divisions, plugins))
    for number, (division, baseline) in enumerate(lacking, start=1):
        click.echo(f"[{number}/{len(lacking)}] {division.id}: {baseline.model}", err=True)
        rules = loaded.rules
        if changes and (market := rules.snapshot_of(division)):  # it is elsewhere on this machine
            rules = rules.with_market(msgspec.structs.replace(market, **changes))
        before = sum(entry.division == division and entry.model == baseline.model for entry in loaded.entries)
        with tempfile.TemporaryDirectory(prefix="ktdeval-baseline-") as private:
            run = Path(private) / "run"
            key: dict[str, Any] = {}
            if division.is_governed:
                request = RegisterRequest(division.id, {}, Registrant(name=BOARD_SUBMITTER, contact=contact), day)
                path = baseline_key(board, rules, baseline, request, plugins)
                key = {"registration": str(path)}
            run_baseline(rules, division, baseline, run, plugins, concurrency=concurrency, **key)
            wanted = Request(run, day, stored=stored, changes=changes, is_checked=stored == "repository")
            # Nothing private goes into the run of a model that reads only the market.
            outcome = submit_run(board, wanted, _claims(division, baseline, contact, before + 1), plugins, Redactor({}))
        if outcome.missing:
            raise VerificationError(f"{division.id}: {baseline.model}: the board does not take it: {outcome.missing[0]}")
        click.echo(outcome.submitted[0].paths[0])
    next_words = f"{count(len(lacking), 'baseline')} submitted; next: ktdeval leaderboard check {board}"
    click.echo(next_words if lacking else "no baseline is missing")


def _lacking(board: Board, divisions: list[Division], plugins: Plugins) -> Iterator[tuple[Division, Baseline]]:
    for division in divisions:
        if not is_scoring(plugins.make_task(division.task)):
            models = {entry.model for entry in board.of_division(division)}
            yield from ((division, baseline) for baseline in board.rules.baselines if baseline.model not in models)


def _claims(division: Division, baseline: Baseline, contact: str, attempts: int) -> Claims:
    cutoff, source = NO_CUTOFF, "a fixed rule, which no data were trained on"
    if baseline.kind == "random":
        source = "random trades, which no data were trained on"
    if baseline.kind == "supervised":
        cutoff = (date.fromisoformat(first_day(division)) - timedelta(days=1)).isoformat()
        source = "trained on the snapshot's days before the division's first window"
    return Claims(
        submitter=BOARD_SUBMITTER, contact=contact, cutoff=cutoff, cutoff_source=source, strategy=_STRATEGY, attempts=attempts
    )
