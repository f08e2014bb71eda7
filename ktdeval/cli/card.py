"""`ktdeval card`: show, verify and sign result cards."""

from __future__ import annotations

import shlex
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING

import click

from ktdeval.cli.checklist import checklist
from ktdeval.cli.examples import example
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
from ktdeval.cli.signing import keygen, sign
from ktdeval.cli.terminal_tables import line_width, print_json
from ktdeval.errors import KtdevalError, VerificationError

if TYPE_CHECKING:
    from ktdeval.runner.scoring.verify import Verification
    from ktdeval.values.strict_json import JsonValue


def print_cards(paths: Sequence[Path]) -> None:
    """Print the first screen of a card, or a table of several, and the commands to see them whole."""
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
    """Options of `card show`."""

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
    """Options of `card verify`."""

    signed_by: Path | None = flag(
        None,
        help="first require a signature by this public key, or by one of a folder's *.pub",
        type=FilePath(),
        metavar="KEY|DIR",
    )
    card_only: bool = flag(
        False,
        help="check the card alone, against its schema and its own episodes; needs no records",
    )


@example("ktdeval card verify ktdeval-runs/my-run")
@card.command(short_help="Execute the recorded decisions again and recompute every figure.")
@_PATH
@options_of(VerifyOptions)
def verify(path: Path, options: VerifyOptions) -> None:
    """Re-execute the recorded decisions, recompute every figure, and name the first difference.

    --data and --data-args are needed only if the snapshot has moved since the run, --items if the
    run had that option.
    """
    if options.signed_by is not None:
        _require_signatures(path, options.signed_by, is_shown=not options.as_json)

    if options.card_only:
        _check_alone(path, options.as_json)
        return

    verify_file = _verifier(options)
    if options.as_json:
        _print_verifications(path, verify_file)
        return

    def judge(file: Path) -> str:
        verification = verify_file(file)
        for finding in verification.findings[1:]:
            click.echo(f"also differs: {finding}")

        if verification.findings:
            raise VerificationError(f"{file}: does not verify: {verification.findings[0]}")

        executed = f"episodes: {verification.episodes}, steps executed again: {verification.steps}"
        verdict = (
            f"verified ({executed}, of these traced to the model's own submission:"
            f" {verification.traced_steps})"
        )
        return "; not known: ".join([verdict, *verification.notes])

    _judge_cards(path, judge, "verified")


def _verifier(options: VerifyOptions) -> Callable[[Path], Verification]:
    """Return what verifies a card by its records, and shows how far it is."""
    from ktdeval.cli.progress import work_shown
    from ktdeval.runner.scoring.verify import verify_card

    plugins = open_plugins(options.plugin)
    given = given_of(options)
    places = ("data", "data_args", "items")
    moved: dict[str, object] = {name: given[name] for name in places if name in given}

    def verify_file(file: Path) -> Verification:
        with work_shown() as tell:
            return verify_card(file, plugins, moved, tell, now=datetime.now(UTC))

    return verify_file


def _check_alone(path: Path, as_json: bool) -> None:
    """Check cards against their schemas and their own episodes, and print the verdicts."""
    from ktdeval.cards.card_reading import card_files, card_kinds, load_card

    def judge(file: Path) -> str:
        checked = load_card(file)
        kind = card_kinds(checked.kind)[checked.kind]
        return f"valid ({kind.content(checked)})"

    if not as_json:
        _judge_cards(path, judge, "valid")
        return

    verdicts: list[JsonValue] = []
    failures: list[KtdevalError] = []
    for file in card_files([path]):
        verdict: dict[str, JsonValue] = {"card": str(file), "valid": True}
        try:
            judge(file)
        except KtdevalError as error:
            verdict.update(valid=False, error=" ".join(str(error).split()))
            failures.append(error)

        verdicts.append(verdict)

    print_json(verdicts)
    if failures:
        raise failures[0]


def _require_signatures(path: Path, keys: Path, is_shown: bool) -> None:
    """Raise SignatureError unless each card is signed by one of the keys."""
    from ktdeval.cards.card_reading import card_files
    from ktdeval.cards.signatures import SIGNED_CARD, check_signature
    from ktdeval.cards.signing_keys import read_public_keys

    trusted = read_public_keys(keys)
    for file in card_files([path]):
        signers = check_signature(file, SIGNED_CARD, trusted)
        if is_shown:
            click.echo(f"{file}: signed by {', '.join(signers)}")


def _print_verifications(path: Path, verify_file: Callable[[Path], Verification]) -> None:
    """Print a JSON list with the verification of each card, then raise the first failure."""
    from ktdeval.cards.card_reading import card_files

    verdicts: list[JsonValue] = []
    failures: list[KtdevalError] = []
    for file in card_files([path]):
        verdict: dict[str, JsonValue] = {"card": str(file)}
        try:
            verification = verify_file(file)
        except KtdevalError as error:
            verdict.update(verified=False, error=" ".join(str(error).split()))
            failures.append(error)
        else:
            findings = list(verification.findings)
            verdict.update(
                verified=not findings,
                findings=[str(finding) for finding in findings],
                episodes=verification.episodes,
                steps=verification.steps,
                traced_steps=verification.traced_steps,
                notes=list(verification.notes),
            )
            if findings:
                failures.append(VerificationError(f"{file}: does not verify: {findings[0]}"))

        verdicts.append(verdict)

    print_json(verdicts)
    if failures:
        raise failures[0]


def _judge_cards(path: Path, judge: Callable[[Path], str], passed: str) -> None:
    """Print the verdict on each card, then raise the first failure."""
    from ktdeval.cards.card_reading import card_files

    files = card_files([path])
    failures = list[KtdevalError]()
    for file in files:
        try:
            click.echo(f"{file}: {judge(file)}")
        except KtdevalError as error:
            failures.append(error)

    for failure in failures[1:]:
        click.echo(f"also fails: {' '.join(str(failure).split())}")

    if failures and len(files) > 1:
        click.echo(f"{len(files) - len(failures)} of {len(files)} cards {passed}")

    if failures:
        raise failures[0]
