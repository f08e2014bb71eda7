"""`ktdeval live`: start a forward test, run its steps, and show its status."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path

import click

from ktdeval.cards import count
from ktdeval.cli import (
    FilePath,
    JsonOptions,
    OutputPath,
    PluginOptions,
    example,
    flag,
    open_plugins,
    options_of,
    print_grid,
    report_findings,
)
from ktdeval.errors import KtdevalError, StoreError, UsageError, VerificationError
from ktdeval.runner import NOBODY, authority_words, load_trust
from ktdeval.values import to_object
from ktdeval_live.checks.verification import LiveVerification, verify_test
from ktdeval_live.days.clock import FileClock, SystemClock, TimeSource, in_text
from ktdeval_live.deciding.ask_entrant import EntrantAsker
from ktdeval_live.deciding.beginning import begin, join as join_test
from ktdeval_live.deciding.consistency_runs import repeat_test
from ktdeval_live.deciding.decision_processes import ProcessAsker, end_after
from ktdeval_live.deciding.past_replay import replay_plan
from ktdeval_live.deciding.step import AT_ONCE, LiveStep, StepReport
from ktdeval_live.page.build_data import live_page
from ktdeval_live.page.write import site_folder, write_page
from ktdeval_live.plan import LivePlan, load_entrant, load_plan
from ktdeval_live.publication.publication_evidence import PROVES
from ktdeval_live.publication.publish_chain import (
    publish as publish_chain,
    publish_evidence,
    reveal,
)
from ktdeval_live.record.entrant_episode import EntrantMarket
from ktdeval_live.record.folder import LiveFolder
from ktdeval_live.results.card_types import LiveCard
from ktdeval_live.results.settled_cards import (
    differences,
    settle_test,
    shown_in_a_year,
    write_cards,
)
from ktdeval_live.status import (
    agreement_row,
    excess_row,
    market_rows,
    pair_row,
    settled_row,
    short_records,
    status_rows,
)

_FOLDER = click.argument("folder", type=FilePath(), metavar="TEST")


@dataclass(frozen=True, kw_only=True)
class LiveClockOptions:
    """Clock used by a command."""

    clock: Path | None = flag(
        None,
        type=FilePath(),
        metavar="FILE",
        help="rehearsals only: take the time from this file, such as 2026-01-05T21:30:00+00:00",
    )


@dataclass(frozen=True, kw_only=True)
class TimedOptions(LiveClockOptions, PluginOptions):
    """Options for a command that runs plugin code at a given time."""


@example("ktdeval live status my-test")
@click.group()
def live() -> None:
    """Run forward tests that can be proved afterwards."""


@dataclass(frozen=True, kw_only=True)
class LiveInitOptions(TimedOptions):
    """Options of `live init`."""

    out: Path = flag(type=OutputPath("folder"), metavar="DIR", help="folder of the test")
    replay: bool = flag(False, help="run the whole plan on past days at once, as a rehearsal")


@example("ktdeval live init PLAN.yaml --out my-test")
@live.command()
@click.argument("plan", type=FilePath(), metavar="PLAN.yaml")
@options_of(LiveInitOptions)
def init(plan: Path, options: LiveInitOptions) -> None:
    """Begin a forward test from a plan, or rehearse all of it with --replay.

    With --replay the days of each market with the source `stored` come one after the other, each at
    its close. A rehearsal is marked as such everywhere, and is never on a board's live page.
    """
    loaded = load_plan(plan)
    plugins = open_plugins(options.plugin)
    if options.replay:
        if options.clock is not None:
            raise UsageError("--replay steps from close to close; leave --clock out")

        folder = replay_plan(loaded, options.out, plugins, lambda line: click.echo(line))
        click.echo(f"{folder.path}: all days are done")
        return

    folder = begin(loaded, options.out, plugins, _clock(options.clock, loaded.kind))
    _print_begun(loaded, folder)


def _print_begun(loaded: LivePlan, folder: LiveFolder) -> None:
    """Print the first steps of a new test, and what the test can prove."""
    click.echo(f"{folder.path}: {loaded.kind} test {loaded.name}, {loaded.first} to {loaded.last}")
    for market in loaded.markets:
        first = folder.schedule(market).sessions[0]
        cutoff = "" if first.cutoff is None else in_text(first.cutoff)
        click.echo(
            f"{market}: first decision on {first.day}, data from {in_text(first.complete_at)} on,"
            f" to be committed before {cutoff}"
        )

    for market in loaded.markets:
        days_a_year = folder.base(market).days_a_year
        width = shown_in_a_year(loaded, days_a_year)
        click.echo(
            f"{market}: after a year a mean difference is known to about ±{width:.0f} % a year, "
            f"at a tracking error of {loaded.tracking_error_pct:g} %"
        )


@example("ktdeval live join my-test ENTRANT.yaml")
@live.command()
@_FOLDER
@click.argument("entrant", type=FilePath(), metavar="ENTRANT.yaml")
@options_of(TimedOptions)
def join(folder: Path, entrant: Path, options: TimedOptions) -> None:
    """Let an entrant join a test that has begun, from the next day on: nothing is filled in."""
    test = LiveFolder(folder)
    with test.lock():
        time = _clock(options.clock, test.plan.kind)
        joined = join_test(test, load_entrant(entrant), open_plugins(options.plugin), time)
    click.echo(f"{joined.name} joins; its first fills are on {joined.first}")


@dataclass(frozen=True, kw_only=True)
class StepOptions(TimedOptions):
    """Options of `live step`."""

    at_once: int = flag(
        AT_ONCE,
        type=click.IntRange(1, 1000),
        metavar="N",
        help="number of entrants to ask in parallel, each in its own process",
    )


@example("ktdeval live step my-test")
@live.command()
@_FOLDER
@options_of(StepOptions)
def step(folder: Path, options: StepOptions) -> None:
    """Do what is due now: freeze data, ask, commit, publish, record gaps.

    Run it as often as you like, by cron or by hand; finished work is not repeated.
    """
    test = LiveFolder(folder)
    plugins = open_plugins(options.plugin)
    time = _clock(options.clock, test.plan.kind)

    words = [] if options.clock is None else ["--clock", str(options.clock)]
    for name in options.plugin:
        words += ["--plugin", name]

    with test.lock():
        report = LiveStep(test, plugins, time, ProcessAsker(test, words), options.at_once).run()

    _print_report(report, time.now())
    if report.problems:
        raise StoreError(
            f"{count(len(report.problems), 'problem')}; the next step tries again what is not done"
        )


def _print_report(report: StepReport, now: datetime) -> None:
    kinds = {
        "frozen": report.frozen,
        "decided": report.decided,
        "gap": report.gaps,
        "problem": report.problems,
    }
    for kind, lines in kinds.items():
        for line in lines:
            click.echo(f"{kind}: {line}")
    if not any(kinds.values()):
        click.echo(f"nothing is due at {in_text(now)}")


@example("ktdeval live status my-test")
@live.command()
@_FOLDER
@options_of(LiveClockOptions)
def status(folder: Path, options: LiveClockOptions) -> None:
    """Show where a test stands: days decided and missed, and what is due next."""
    test = LiveFolder(folder)
    now = _clock(options.clock, test.plan.kind).now()
    columns = ("market", "days", "frozen", "next close", "next cutoff")
    print_grid(columns, market_rows(test, now), left=("market",))
    click.echo("")
    columns = ("entrant", "market", "decided", "gaps", "last gap")
    rows = status_rows(test)
    print_grid(columns, rows, left=("entrant", "market", "last gap"))


@example("ktdeval live settle my-test")
@live.command()
@_FOLDER
@options_of(PluginOptions)
def settle(folder: Path, options: PluginOptions) -> None:
    """Execute the whole chain again on the data as known now, and write its cards.

    Returns are given with positions held on days without a decision, with those days flat, and as
    bounds. Intervals hold however often one looks.
    """
    test = LiveFolder(folder)
    plugins = open_plugins(options.plugin)
    with test.lock():
        settled = settle_test(test, plugins, SystemClock().now())
        paths = write_cards(test, settled.cards)

    click.echo("returns over the whole test")
    columns = ("entrant", "market", "days", "gaps", "held %", "flat %", "bounds %")
    rows = [settled_row(card) for card in settled.cards]
    print_grid(columns, rows, left=("entrant", "market"))

    _print_excesses(settled.cards)
    _print_pairs([pair_row(*pair) for pair in differences(test.plan, settled.results)])
    click.echo("")
    for path, card in zip(paths, settled.cards, strict=True):
        click.echo(f"{path}: {', '.join(card.labels) or 'no label'}")


def _print_excesses(cards: Sequence[LiveCard]) -> None:
    """Print each entry's excess return, and why those of short tests are no yearly figures."""
    click.echo(
        "\nmean excess returns over the index, with intervals of 95 % that hold at all times"
    )
    columns = ("entrant", "market", "n", "over index, %", "per")
    print_grid(columns, [excess_row(card) for card in cards], left=("entrant", "market"))
    for reason in short_records(cards):
        click.echo(f"sums over their days: {reason}")


def _print_pairs(rows: Sequence[tuple[str, ...]]) -> None:
    """Print the differences between entrants; nothing without pairs."""
    if not rows:
        return

    click.echo("\nmean differences, with intervals of 95 % that hold at all times")
    columns = ("entrant", "minus", "market", "n", "difference, %", "per")
    print_grid(columns, rows, left=columns[:3])


@dataclass(frozen=True, kw_only=True)
class LiveVerifyOptions(PluginOptions, JsonOptions):
    """Options of `live verify`."""

    trusted: Path | None = flag(
        None,
        name="--trust",
        type=FilePath(),
        metavar="FILE",
        help="root certificates of time authorities that you trust: a PEM file, or a board.yaml",
    )


@example("ktdeval live verify my-test")
@live.command()
@_FOLDER
@options_of(LiveVerifyOptions)
def verify(folder: Path, options: LiveVerifyOptions) -> int:
    """Verify a test: chain, data, deadlines, evidence, and each decision from its replies.

    Stamps prove when decisions were made only if you trust their authority: get its root
    certificate from the authority itself, never from the test, and name it with --trust. Exit code
    1 if the record does not hold.
    """
    trust = NOBODY if options.trusted is None else load_trust(options.trusted)
    test = LiveFolder(folder)
    result = verify_test(test, open_plugins(options.plugin), SystemClock().now(), trust)
    if result.findings:
        lines = [f"{len(result.findings)} findings; the record does not hold"]
    else:
        is_trusted = result.authority is not None and trust.holds(test.plan.publish.stamp)
        lines = list(_verified_lines(result, is_trusted))

    facts = to_object(result)
    del facts["findings"]
    return report_findings(result.findings, options.as_json, "\n".join(lines), **facts)


def _verified_lines(result: LiveVerification, is_trusted: bool) -> Iterator[str]:
    """Yield text about a record that passed verification. `is_trusted`: whether the reader trusts
    its authority.
    """
    yield (
        f"{result.entries} links hold; {result.decisions} decisions were made again from their"
        f" replies; {result.sealed} are still sealed; {result.stamped} publications are stamped"
    )
    for part in result.uncovered:
        yield part.line()

    yield from result.wide
    if result.authority is not None:
        yield f"time authority: {authority_words(result.authority, is_trusted)}"

    yield f"as far as {result.until}; evidence: {result.level}: {PROVES[result.level]}"


@dataclass(frozen=True, kw_only=True)
class PublishOptions(TimedOptions):
    """Options of `live publish`."""

    out: Path | None = flag(
        None,
        type=OutputPath("folder"),
        metavar="DIR",
        help="folder of the page [default: site/ in the folder of the test]",
    )


@example("ktdeval live publish my-test")
@live.command()
@_FOLDER
@options_of(PublishOptions)
def publish(folder: Path, options: PublishOptions) -> None:
    """Publish new parts of the record, and write the live page.

    Failed publications are retried. The page is made only from public data, as static files that
    make no network requests.
    """
    test = LiveFolder(folder)
    site = site_folder(test, options.out)
    plugins = open_plugins(options.plugin)
    time = _clock(options.clock, test.plan.kind)
    with test.lock():
        problem = _publish(test, time)
        path = write_page(live_page(test, plugins, time.now()), site)

    click.echo(f"page: {path}")
    if problem is not None:
        raise problem


def _publish(test: LiveFolder, clock: TimeSource) -> KtdevalError | None:
    """Publish a test. Return the error if this fails, since the page can be written anyway."""
    chain = test.chain()
    reveal(test, chain, clock.now())
    try:
        publication = publish_chain(test, chain, clock)
        publish_evidence(test, chain)
    except (StoreError, VerificationError) as error:
        return error

    if publication is None:
        click.echo("published: nothing is new")
    else:
        click.echo(f"published: the record up to entry {publication.seq}")
    return None


@dataclass(frozen=True, kw_only=True)
class RepeatOptions(TimedOptions):
    """Options of `live repeat`."""

    times: int = flag(3, type=click.IntRange(1, 100), metavar="N", help="repeats of each day")


@example("ktdeval live repeat my-test --times 3")
@live.command()
@_FOLDER
@options_of(RepeatOptions)
def repeat(folder: Path, options: RepeatOptions) -> None:
    """Ask the entrants again on past days, and show how often they decide the same.

    Each day is asked on the inputs that were frozen then. The calls cost as much as those of the
    test. Repeats are no part of the record: they stay in its private folder.
    """
    test = LiveFolder(folder)
    plugins = open_plugins(options.plugin)
    time = _clock(options.clock, test.plan.kind)
    found = repeat_test(EntrantAsker(test, plugins, time), options.times)
    rows = [agreement_row(each) for each in found]
    columns = ("entrant", "market", "days", "repeats", "failed", "same sides %", "same orders %")
    print_grid(columns, rows, left=("entrant", "market"))


@dataclass(frozen=True, kw_only=True)
class AskOptions(TimedOptions):
    """Options of `live ask`."""

    limit_s: float | None = flag(None, help="end this process after this many seconds")


@live.command(hidden=True)
@_FOLDER
@click.argument("decision", nargs=3, metavar="ENTRANT MARKET DAY")
@options_of(AskOptions)
def ask(folder: Path, decision: tuple[str, str, str], options: AskOptions) -> None:
    """Ask one entrant for one decision; `step` does this."""
    if options.limit_s is not None:
        end_after(options.limit_s)

    entrant, market, day = decision
    test = LiveFolder(folder)
    entry = EntrantMarket(test.plan, test.plan.entrant(entrant), market)
    time = _clock(options.clock, test.plan.kind)
    EntrantAsker(test, open_plugins(options.plugin), time).ask(entry, day)


def _clock(path: Path | None, kind: str) -> TimeSource:
    """Return the clock for a command. Raises UsageError for a clock file in a live test, which uses
    the machine's clock.
    """
    if path is None:
        return SystemClock()
    if kind != "rehearsal":
        raise UsageError("--clock: a live test uses this machine's clock; leave it out")
    return FileClock(path)
