"""`ktdeval investorbench table`: the paper's tables and a test of daily rewards, from the user's cards."""

from __future__ import annotations

from importlib.resources import files
from pathlib import Path
from typing import Any

import click
import pandas as pd

from ktdeval.cards import UNDEFINED, clean
from ktdeval.cli import FilePath, LazyCommand, LazyGroup, grid_lines, open_plugins, print_json
from ktdeval.errors import UsageError
from ktdeval.runner import RunFolder, open_recorded_snapshot
from ktdeval.yamlio import load_yaml
from ktdeval_investorbench.epochs import read_epochs
from ktdeval_investorbench.tables import Row, class_rows, model_rows, notes, read_classes, wilcoxon_rows

_TABLE = LazyCommand(__name__, "table", "Print InvestorBench's tables, made of your own cards, and test models day by day.")
investorbench = LazyGroup("ktdeval investorbench", {"table": _TABLE}, help="Tables of InvestorBench.")


@click.command()
@click.argument("cards", nargs=-1, required=True, type=FilePath(), metavar="CARD…")
@click.option("--show", type=click.Choice(["models", "types", "sizes", "tests"]), default="models", show_default=True,
              help="figures of models and assets; types or sizes of models in % of Buy & Hold; Wilcoxon tests")  # fmt: skip
@click.option("--median", "rule", type=click.Choice(["trajectory", "figures"]), default="trajectory", show_default=True,
              help="figures of the epoch with the median Sharpe ratio, or the median of each figure over the epochs")  # fmt: skip
@click.option("--rules", type=click.Choice(["paper", "strict"]), help="take only the cards by this rule set")
@click.option("--classes", type=FilePath(), metavar="FILE", help="own patterns of models, looked at before those shipped")
@click.option("--class", "class_options", multiple=True, metavar="MODEL=TYPE:BILLIONS", help="class of a model, may be repeated")
@click.option("--data", metavar="DATA", help="where the market of the runs is, if it has moved; --show tests reads it")
@click.option("--format", "form", type=click.Choice(["text", "csv", "markdown", "json"]), default="text", show_default=True,
              help="how it is written; CSV and JSON have every digit")  # fmt: skip
def table(cards: tuple[Path, ...], show: str, classes: Path | None, class_options: tuple[str, ...], **options: Any) -> None:
    """Print InvestorBench's tables, made of your own cards.

    CARD is a card file or a run folder; an epoch is a seed. Buy & Hold is the card of builtin/buy_and_hold. Tests need run folders.
    """
    groups, rule = read_epochs(cards, options["rules"]), options["rule"]
    where = {"data": options["data"]} if options["data"] else {}
    shown = rows = model_rows(groups, rule, read_classes(classes, class_options))
    if show == "tests":
        shown = wilcoxon_rows(groups, rule, lambda run: open_recorded_snapshot(RunFolder.load(run), open_plugins(), where))
    elif show != "models":
        shown = class_rows(rows, show.removesuffix("s"))
    if not shown:
        raise UsageError(f"no model belongs in {show} (sizes are of open-source models); name classes with --class")
    layout = load_yaml(Path(str(files("ktdeval_investorbench") / "tables.yaml")))
    labels = {label for group in groups for epoch in group.members for label in epoch.card.labels}
    title = f"InvestorBench by {groups[0].members[0].card.rules} rules, --median {rule} ({', '.join(sorted(labels))})"
    remarks = [*notes(rows, shown), *layout["notes"].get(show, ())]
    if options["form"] == "json":
        print_json({"title": title, "rows": shown, "notes": remarks})
    elif options["form"] == "csv":
        click.echo(pd.DataFrame(shown).to_csv(index=False), nl=False)
    else:
        click.echo("\n".join([title, *_lines(shown, layout[show], options["form"]), *(f"- {clean(note)}" for note in remarks)]))


def _lines(rows: list[Row], columns: list[Any], form: str) -> list[str]:
    heads = [column[0] for column in columns]
    cells = [[UNDEFINED if row[key] is None else clean(how.format(row[key])) for _, key, how in columns] for row in rows]
    if form == "text":
        words = [head for head, key, _ in columns if isinstance(rows[0][key], str)]
        return [f"  {line}" for line in grid_lines(heads, cells, words)]
    escaped = [heads, ["---"] * len(heads), *([cell.replace("|", "&#124;") for cell in row] for row in cells)]
    return ["", *(f"| {' | '.join(row)} |" for row in escaped), ""]
