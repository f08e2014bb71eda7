"""`ktdeval card`: show, verify and sign result cards."""

from __future__ import annotations

import shlex
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING

import click

from ktdeval.cards import count
from ktdeval.cli.cards.checklist import checklist
from ktdeval.cli.cards.signing import keygen, sign
from ktdeval.cli.help.examples import example
from ktdeval.cli.options import (
    FilePath,
    JsonOptions,
    RecordedOptions,
    RunPath,
    flag,
    given_of,
    open_plugins,
    options_of,
)
from ktdeval.cli.terminal_tables import line_width, print_findings, print_json
from ktdeval.errors import KtdevalError, UsageError

if TYPE_CHECKING:
    from ktdeval.values.documents.strict_json import JsonValue
    from ktdeval.values.findings import Finding


def print_cards(paths: Sequence[Path]) -> None:
    """Print the first screen of a card, or a table if there are several cards, with the commands
    that show them in full.
    """
    from ktdeval.cards.card_reading import load_card
    from ktdeval.cards.show import card_lines, print_lines, summary_lines

    cards = [load_card(path) for path in paths]
    if len(cards) == 1:
        print_lines(card_lines(cards[0], False, line_width()))
    else:
        print_lines(summary_lines(cards, line_width()))

    if paths:
        click.echo()

    for path in paths:
        click.echo(f"all     ktdeval card show {shlex.quote(str(path))} --all")


_PATH = click.argument("path", type=RunPath())


@example("ktdeval card show ktdeval-runs/my-run")
@click.group()
def card() -> None:
    """Show, verify and sign result cards.

    PATH is a card file, or a run folder with all its cards.
    """


card.add_command(checklist)
card.add_command(keygen)
card.add_command(sign)


@dataclass(frozen=True, kw_only=True)
class ShowOptions:
    """Options for `card show`."""

    whole: bool = flag(
        False,
        name="--all",
        help="the whole card: facts, diagnostics, windows, activity, notes",
    )
    plain: bool = flag(False, help="aligned text without colours, also in a terminal")
    as_json: bool = flag(
        False, name="--json", help="print cards as they are stored, as a JSON list"
    )


@example("ktdeval card show ktdeval-runs/my-run --all")
@card.command()
@click.argument("paths", nargs=-1, required=True, type=RunPath(), metavar="PATH…")
@options_of(ShowOptions)
def show(paths: tuple[Path, ...], options: ShowOptions) -> None:
    """Print a card: its panel and what it claims. Several cards are side by side."""
    from rich.text import Text

    from ktdeval.cards.card_reading import card_files, load_card
    from ktdeval.cards.show import card_lines, plain_text, print_lines, side_by_side

    cards = [load_card(file) for file in card_files(paths)]
    if options.as_json:
        print_json([card.plain for card in cards])
        return

    lines: list[Text] = []
    width = None if options.plain else line_width()
    if len(cards) == 1:
        lines.extend(card_lines(cards[0], options.whole, width))
    elif options.whole:
        for card in cards:
            lines.extend(card_lines(card, options.whole, width))
            lines.append(Text())
    else:
        lines.extend(side_by_side(cards, width))

    if options.plain:
        click.echo(plain_text(lines), nl=False)
    else:
        print_lines(lines)

    if not options.whole:
        click.echo(f"\nall     ktdeval card show {shlex.join(map(str, paths))} --all")


@dataclass(frozen=True, kw_only=True)
class VerifyOptions(RecordedOptions, JsonOptions):
    """Options for `card verify`."""

    signed_by: Path | None = flag(
        None,
        help="first require a signature by this public key, or by one of the keys *.pub in a"
        " folder",
        type=FilePath(),
        metavar="KEY|DIR",
    )
    trust: Path | None = flag(
        None,
        help="time-stamping authorities that you trust: root certificates in PEM, or a board.yaml"
        " (time_authorities); what stamped the run's anchors is compared with them",
        type=FilePath(),
        metavar="FILE",
    )
    card_only: bool = flag(
        False,
        help="check only the card, against its schema and its own episodes; needs no records",
    )
    quick: bool = flag(
        False,
        help="recompute the figures from the records, without executing a step again, and print"
        " what this does not check",
    )


@example("ktdeval card verify ktdeval-runs/my-run")
@card.command(short_help="Execute the recorded decisions again and recompute every figure.")
@_PATH
@options_of(VerifyOptions)
def verify(path: Path, options: VerifyOptions) -> int:
    """Re-execute the recorded decisions, recompute every figure, and name the first difference.

    --data and --data-args are needed only if the snapshot has moved since the run, --items if the
    run had that option.
    """
    if options.signed_by is not None:
        _require_signatures(path, options.signed_by, is_shown=not options.as_json)

    if options.card_only and options.quick:
        raise UsageError("--card-only and --quick exclude each other; leave one out")
    if options.card_only:
        return _check_cards(path, _check_alone, "valid", options.as_json)
    if options.quick:
        return _check_cards(path, _quick_verifier(options), "figures_verified", options.as_json)
    return _check_cards(path, _verifier(options), "verified", options.as_json)


@dataclass(frozen=True)
class _CardReport:
    """Result of checking a card."""

    text: str  #: text for a card without findings
    findings: Sequence[Finding] = ()
    facts: Mapping[str, JsonValue] = field(default_factory=dict)  #: facts for the JSON output


def _verifier(options: VerifyOptions) -> Callable[[Path], _CardReport]:
    """Return a function that verifies a card from its records and shows its progress."""
    from ktdeval.cli.progress import work_shown
    from ktdeval.runner.records.run_folder import RunFolder
    from ktdeval.runner.records.time_authorities import NOBODY, load_trust
    from ktdeval.runner.scoring.anchor_checks import trust_words
    from ktdeval.runner.scoring.score import run_of
    from ktdeval.runner.scoring.verify import verify_card

    plugins = open_plugins(options.plugin)
    moved = _data_places(options)
    trust = NOBODY if options.trust is None else load_trust(options.trust)

    def verify_file(file: Path) -> _CardReport:
        with work_shown() as tell:
            found = verify_card(file, plugins, moved, tell, now=datetime.now(UTC))

        verified = (
            f"verified (episodes: {found.episodes}, steps executed again: {found.steps}, of these"
            f" traced to the model's own submission: {found.traced_steps})"
        )
        facts: dict[str, JsonValue] = {
            "episodes": found.episodes,
            "steps": found.steps,
            "traced_steps": found.traced_steps,
            "notes": [*found.notes],
        }
        stamped = None if found.findings else trust_words(RunFolder.load(run_of(file)), trust)
        if stamped is not None:
            verified += f"; anchors {stamped}"
            facts["anchors"] = stamped
        text = "; not known: ".join([verified, *found.notes])
        return _CardReport(text, found.findings, facts)

    return verify_file


def _data_places(options: VerifyOptions) -> dict[str, object]:
    """Return the options that say where a run's data are now."""
    given = given_of(options)
    return {name: given[name] for name in ("data", "data_args", "items") if name in given}


def _quick_verifier(options: VerifyOptions) -> Callable[[Path], _CardReport]:
    """Return a function that recomputes a card's figures from its records."""
    from ktdeval.runner.scoring.verify import NOT_CHECKED, verify_figures

    plugins = open_plugins(options.plugin)
    moved = _data_places(options)

    def verify_file(file: Path) -> _CardReport:
        found = verify_figures(file, plugins, moved, datetime.now(UTC))
        figures = f"figures verified (episodes: {found.episodes}, steps executed again: 0)"
        unchecked = f"not checked: {'; '.join(NOT_CHECKED)}"
        text = "; not known: ".join([f"{figures}; {unchecked}", *found.notes])
        facts: dict[str, JsonValue] = {
            "episodes": found.episodes,
            "not_checked": [*NOT_CHECKED],
            "notes": [*found.notes],
        }
        return _CardReport(text, found.findings, facts)

    return verify_file


def _check_alone(file: Path) -> _CardReport:
    """Check a card against its schema and for internal consistency, without its run."""
    from ktdeval.cards.card_reading import card_kinds, load_card

    checked = load_card(file)
    kind = card_kinds(checked.kind)[checked.kind]
    return _CardReport(f"valid ({kind.content(checked)})")


def _check_cards(
    path: Path, check: Callable[[Path], _CardReport], passed: str, as_json: bool
) -> int:
    """Print the findings on each card, and return the exit code. `passed`: word to print for a card
    without findings.

    If cards can't be checked, raises KtdevalError for the first of them, after printing the others.
    """
    from ktdeval.cards.card_reading import card_files
    from ktdeval.values.findings import Finding, exit_code, findings_json

    files = card_files([path])
    reports: list[_CardReport] = []
    failures: list[KtdevalError] = []
    for file in files:
        try:
            report = check(file)
        except KtdevalError as error:
            failures.append(error)
            report = _CardReport("", [Finding(message=error.line)])
            is_shown = len(failures) > 1  # only the first failure is raised
        else:
            is_shown = True

        reports.append(report)
        if is_shown and not as_json:
            _print_report(file, report, passed)

    clean = [report for report in reports if not report.findings]
    if as_json:
        documents = []
        for file, report in zip(files, reports, strict=True):
            facts = {"card": str(file), passed: not report.findings, **report.facts}
            documents.append(findings_json(report.findings, **facts))
        print_json(documents)
    elif len(clean) < len(files) > 1:
        words = passed.replace("_", " ")
        click.echo(f"{len(clean)} of {count(len(files), 'card')} {words}")

    if failures:
        raise failures[0]
    return exit_code(chain.from_iterable(report.findings for report in reports))


def _print_report(file: Path, report: _CardReport, passed: str) -> None:
    if not report.findings:
        click.echo(f"{file}: {report.text}")
        return

    print_findings(report.findings, max_shown=None)
    click.echo(f"{file}: not {passed.replace('_', ' ')}")


def _require_signatures(path: Path, keys: Path, is_shown: bool) -> None:
    """Raise SignatureError unless each card is signed with one of the keys."""
    from ktdeval.cards.card_reading import card_files
    from ktdeval.cards.signatures import SIGNED_CARD, check_signature
    from ktdeval.cards.signing_keys import read_public_keys

    trusted = read_public_keys(keys)
    for file in card_files([path]):
        signers = check_signature(file, SIGNED_CARD, trusted)
        if is_shown:
            click.echo(f"{file}: signed by {', '.join(signers)}")
