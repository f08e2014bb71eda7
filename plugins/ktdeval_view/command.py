"""`ktdeval view`: a run folder in, static pages out."""

from __future__ import annotations

import os
import re
import sys
import webbrowser
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import click

from ktdeval.contracts import EpisodeSpec
from ktdeval.errors import UsageError
from ktdeval.registry import load_plugins
from ktdeval.runner import RunFolder
from ktdeval_view.labels import choose_episodes, episode_label
from ktdeval_view.payload import Redactor
from ktdeval_view.records import has_answers
from ktdeval_view.run_view import RunView, open_market

_DAY = re.compile(r"\d{1,6}|day_\+\d{1,6}|\d{4}-\d{2}-\d{2}")


@click.command()
@click.argument("run", type=click.Path(path_type=Path), metavar="RUN")
@click.option("--out", type=click.Path(path_type=Path), metavar="DIR", help="folder of the pages [default: RUN/view]")
@click.option("--episode", metavar="TEXT", help="only episodes with these words in task, window, seed (`seed-1`) or id")
@click.option("--day", metavar="DAY", help="the day to begin at: its number, `day_+17`, or the date of the decision")
@click.option("--open", "is_opened", is_flag=True, help="open the index in the browser, or the page where it is one")
@click.option("--data", metavar="DATA", help="the market, where it has moved since the run: a snapshot folder or data provider")
@click.option(
    "--plugin", "extra", multiple=True, metavar="PLUGIN", help="further plugin, a module or a path to one; may be repeated"
)
def view(run: Path, out: Path | None, episode: str | None, day: str | None, is_opened: bool, **sources: Any) -> None:
    """Walk a run's episodes day by day, as static pages.

    RUN is a run folder, which is only read; an episode that is still running is shown as far as it is. Each page is one file that
    needs no server and asks nothing of the network. Secrets of the environment are taken out of all texts.
    """
    folder = RunFolder.load(run)
    chosen = choose_episodes(folder.manifest.specs, episode)
    _check_day(day, len(chosen))
    _check_days(folder, chosen)
    plugins = load_plugins(sources["extra"], _warn)
    redactor = Redactor(os.environ)
    show = RunView(folder, plugins, open_market(folder, plugins, sources["data"]), redactor)
    written = show.write(out or run / "view", chosen, _tell)
    for problem in written.problems:
        _warn(problem)
    episodes = f"{len(written.pages)} of {len(folder.manifest.specs)} episodes"
    click.echo(f"view    {written.index} ({episodes}, {written.size / 1e6:.1f} MB)")
    address = (written.pages[0] if len(written.pages) == 1 else written.index).resolve().as_uri()
    if day is not None:
        address = f"{address}#day={day}"
        click.echo(f"day     {address}")
    if is_opened and not webbrowser.open(address):
        _warn(f"no browser could be started; open {address}")


def _check_day(day: str | None, episodes: int) -> None:
    if day is None:
        return
    if not _DAY.fullmatch(day):
        raise UsageError(f"--day {day!r}: give the day's number such as 17, day_+17, or a date such as 2024-11-18")
    if episodes != 1:
        raise UsageError(f"--day {day}: the run has {episodes} such episodes; name one of them with --episode")


def _check_days(folder: RunFolder, chosen: Sequence[EpisodeSpec]) -> None:
    tasks = dict.fromkeys(spec.task for spec in chosen if has_answers(folder, spec))
    if tasks and all(has_answers(folder, spec) for spec in chosen):
        raise UsageError(
            f"{folder.path}: {', '.join(tasks)}: no days to walk through, these tasks score answers; `ktdeval card show "
            f"{folder.path}` prints the scores, and episodes/*/answers.jsonl.zst and transcript.jsonl.zst have every answer"
        )


def _tell(spec: EpisodeSpec) -> None:
    if sys.stderr.isatty():
        click.echo(f"        {episode_label(spec)}", err=True)


def _warn(message: str) -> None:
    click.echo(f"ktdeval: warning: {message}", err=True)
