"""`ktdeval card`: show, validate and verify result cards."""

from __future__ import annotations

from pathlib import Path

import click

from ktdeval.cli.options import config_option, open_plugins
from ktdeval.errors import CardError, VerificationError

_PATH = click.argument("path", type=click.Path(path_type=Path))


@click.group()
def card() -> None:
    """Show, validate and verify result cards.

    PATH is a card file, or a run folder, whose cards are taken one after the other.
    """


@card.command()
@_PATH
@click.option("--plain", is_flag=True, help="aligned text without colours, also in a terminal")
def show(path: Path, plain: bool) -> None:
    """Print a card as a table."""
    from ktdeval.cards.check import load_card
    from ktdeval.cards.show import make_report, plain_summary, plain_text, print_card, print_summary

    cards = [load_card(file) for file in _card_files(path)]
    for place, checked in enumerate(cards):
        if place:
            click.echo()
        if plain:
            click.echo(plain_text(make_report(checked)), nl=False)
        else:
            print_card(checked)
    if len(cards) > 1:
        if plain:
            click.echo(plain_summary(cards), nl=False)
        else:
            print_summary(cards)


@card.command()
@_PATH
def validate(path: Path) -> None:
    """Check a card against its schema and against its own episodes."""
    from ktdeval.cards.check import card_kinds, load_card

    for file in _card_files(path):
        checked = load_card(file)
        click.echo(f"{file}: valid ({card_kinds(checked.kind)[checked.kind].content(checked)})")


@card.command(short_help="Execute the recorded decisions again and recompute every figure.")
@_PATH
@config_option("data", "data_args", "items", "plugin")
def verify(path: Path, plugin: tuple[str, ...] | None, **changes: object) -> None:
    """Re-execute the recorded decisions, recompute every figure, and name the first line that differs.

    --data and --data-args are only needed when the snapshot has moved since the run, --items when the run had that option.
    """
    from ktdeval.runner.verify import verify_card

    plugins = open_plugins(plugin or ())
    moved = {name: value for name, value in changes.items() if value is not None}
    for file in _card_files(path):
        found = verify_card(file, plugins, moved)
        if found.findings:
            for finding in found.findings[1:]:
                click.echo(f"also differs: {finding}")
            raise VerificationError(f"{file}: does not verify: {found.findings[0]}")
        click.echo(
            f"{file}: verified (episodes: {found.episodes}, steps executed again: {found.steps}, "
            f"of these traced to the model's own submission: {found.traced_steps})"
        )


def _card_files(path: Path) -> list[Path]:
    """The card itself, or the cards of a run folder."""
    if not path.is_dir():
        return [path]
    files = sorted((path / "cards").glob("*.json"))
    if not files:
        raise CardError(
            f"{path}: no cards here; give a card file, or a run folder with finished episodes (`ktdeval score` writes its cards)"
        )
    return files
