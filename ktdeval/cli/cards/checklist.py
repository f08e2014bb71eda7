"""`ktdeval card checklist`: a published checklist, filled in from what a run recorded."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import click

from ktdeval.cli.help.examples import example
from ktdeval.cli.options import JsonOptions, RunPath, flag, options_of
from ktdeval.cli.terminal_tables import print_json
from ktdeval.errors import StoreError

if TYPE_CHECKING:
    from ktdeval.cards.checklist import Checklist, FilledItem
    from ktdeval.values.documents.strict_json import JsonValue

_JUDGE = "judge.json"  #: file of a judgement, in the folder of its run
_PUBLISHED = "published"  #: field of a report on a public board with the version of its form


@dataclass(frozen=True, kw_only=True)
class ChecklistOptions(JsonOptions):
    """Options for `card checklist`."""

    name: str = flag(
        name="--as",
        metavar="NAME",
        help="execution-realism (arXiv 2606.08285), validity-tests (The Alpha Illusion) or sr-11-7",
    )


@example("ktdeval card checklist ktdeval-runs/my-run --as execution-realism")
@click.command(short_help="Fill a published checklist from what a run recorded.")
@click.argument("path", type=RunPath())
@options_of(ChecklistOptions)
def checklist(path: Path, options: ChecklistOptions) -> None:
    """Fill a published checklist from what a run, a judgement or a report on a board recorded.

    Each item has the facts of the card, or "not shown". Nothing is filled in by hand, and a fact that
    is shown need not be sound.
    """
    from ktdeval.cards.checklist import fill_checklist, load_checklist

    chosen = load_checklist(options.name)
    filled = {name: fill_checklist(chosen, record) for name, record in _records(path).items()}
    if options.as_json:
        print_json(
            [_plain_checklist(options.name, chosen, name, items) for name, items in filled.items()]
        )
        return

    for name, items in filled.items():
        _print_items(chosen, name, items)


def _records(path: Path) -> dict[str, JsonValue]:
    """Return the records of the cards at a path, keyed by file. For a judgement without a card,
    return the judgement's own record; for a report of `ktdeval published show --json`, the report.
    """
    from ktdeval.cards.card_reading import card_files, load_card

    if path.is_file():
        report = _read_json(path)
        if isinstance(report, dict) and _PUBLISHED in report:
            return {str(path): {"published": report}}

    judgement: JsonValue = None
    document = path / _JUDGE
    if document.is_file():
        judgement = _read_json(document)
        if not (path / "cards").is_dir():
            return {str(document): {"judge": judgement}}

    records: dict[str, JsonValue] = {}
    for file in card_files([path]):
        records[str(file)] = {"card": load_card(file).plain, "judge": judgement}

    return records


def _read_json(path: Path) -> JsonValue:
    """Return the content of a JSON file. Raises StoreError if it is not JSON."""
    from ktdeval.values.disk.files import read_plain
    from ktdeval.values.documents.strict_json import loads_untrusted

    try:
        return loads_untrusted(read_plain(path))
    except ValueError as error:
        raise StoreError(f"{path}: is not JSON: {error}") from error


def _plain_checklist(
    name: str, checklist: Checklist, source: str, items: list[FilledItem]
) -> dict[str, JsonValue]:
    rows: list[JsonValue] = [{**asdict(item), "is_shown": bool(item.facts)} for item in items]
    return {
        "checklist": name,
        "source": checklist.source,
        "note": checklist.note,
        "record": source,
        "items": rows,
    }


def _print_items(checklist: Checklist, source: str, items: list[FilledItem]) -> None:
    shown = sum(bool(item.facts) for item in items)
    click.echo(f"{checklist.title}: {shown} of {len(items)} items are shown by {source}")
    click.echo(f"  {checklist.source}")
    click.echo(f"  {checklist.note}")
    for number, item in enumerate(items, 1):
        click.echo(f"\n{number:>2}  {item.item}")
        for label, fact in item.facts.items():
            click.echo(f"      {label}: {fact}")
        if not item.facts:
            click.echo("      not shown")
        if not item.facts and item.next:
            click.echo(f"      next    {item.next}")
