"""`ktdeval leaderboard anchor`: publish the head of a run that is going on."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import click

from ktdeval.cards import count
from ktdeval.cli import FilePath, JsonOptions, example, options_of, print_json
from ktdeval.runner import RunFolder
from ktdeval.values import to_plain
from ktdeval_board.layout import ANCHORS
from ktdeval_board.options import BoardOptions, recorded_day
from ktdeval_board.publish_head import publish_head


@dataclass(frozen=True, kw_only=True)
class AnchorOptions(BoardOptions, JsonOptions):
    """Options of `leaderboard anchor`."""


@example("ktdeval leaderboard anchor my-run --board my-board")
@click.command()
@click.argument("run", type=FilePath())
@options_of(AnchorOptions)
def anchor(run: Path, options: AnchorOptions) -> None:
    """Write the head of a registered run's anchors to a clone of its board, while the run goes on.

    Once the file is merged, no step recorded so far can be drawn again unseen: the board refuses a
    card whose chain lacks the head. Repeat it as often as you like, such as once an episode.
    """
    published = publish_head(options.board, RunFolder.load(run), recorded_day())
    if options.as_json:
        print_json({"path": published.where, "head": to_plain(published.head)})
        return

    head = published.head
    click.echo(f"wrote {published.where}: {count(head.steps, 'step')} recorded so far")
    click.echo("next, in the board's repository:")
    click.echo(f"  git switch -c anchor-{head.head[:12]}")
    click.echo(f"  git add {ANCHORS}")
    click.echo(f"  git commit -m 'Anchor a run after {count(head.steps, 'step')}'")
    click.echo("  git push -u origin HEAD    # then open a pull request")
