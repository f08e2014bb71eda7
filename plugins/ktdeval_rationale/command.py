"""`ktdeval rationale`: run folders in, tables or JSON out."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path

import click

from ktdeval.jsonio import dumps_pretty
from ktdeval.registry import load_plugins
from ktdeval.runner import redact_secrets
from ktdeval_rationale.encoders import choose_encoder
from ktdeval_rationale.layout import report_lines
from ktdeval_rationale.report import Options, make_report
from ktdeval_rationale.similarity import SimilarityLinter


@click.command()
@click.argument("runs", nargs=-1, required=True, type=click.Path(path_type=Path), metavar="RUN…")
@click.option("--json", "as_json", is_flag=True, help="print the whole report as JSON")
@click.option(
    "--examples", type=click.IntRange(0, 1000), default=0, show_default=True, metavar="N",
    help="show the first N different mentions of each category under each mask",
)  # fmt: skip
@click.option("--embeddings", is_flag=True, help="also look for sentences that resemble planted leaks in other words")
@click.option(
    "--embedding-model", "model", type=click.Path(path_type=Path), metavar="DIR",
    help="folder of a model2vec model for --embeddings [default: letter groups, which know spelling only]",
)  # fmt: skip
@click.option("--data", metavar="DATA", help="the market, where it has moved since the run: a snapshot folder or data provider")
@click.option(
    "--plugin", "extra", multiple=True, metavar="PLUGIN", help="further plugin, a module or a path to one; may be repeated"
)
def rationale(  # noqa: PLR0913 - a command takes one parameter for each option
    runs: tuple[Path, ...],
    as_json: bool,
    examples: int,
    embeddings: bool,
    model: Path | None,
    data: str | None,
    extra: tuple[str, ...],
) -> None:
    """Count what models name in their reasons, by mask, and say what hiding the stock or the date removes.

    RUN is a run folder, which is only read; give the runs of several masks to set them against each other. Counted are codes,
    companies, brands, sectors, dates, events, hindsight and recognition. Secrets of the environment are taken out of examples.
    """
    plugins = load_plugins(extra, _warn)
    similarity = _second_stage(model) if embeddings or model is not None else None
    report = make_report(runs, plugins, Options(examples, data, _redactor(os.environ), similarity))
    click.echo(dumps_pretty(report) if as_json else "\n".join(report_lines(report)), nl=not as_json)


def _second_stage(model: Path | None) -> SimilarityLinter | str:
    encoder = choose_encoder(model)
    return encoder if isinstance(encoder, str) else SimilarityLinter(encoder)


def _redactor(environment: Mapping[str, str]) -> Callable[[str], str]:
    # Asked once which variables are secrets, so that not every text is compared with all of them.
    secrets = {name: value for name, value in environment.items() if redact_secrets(value, {name: value}) != value}
    return partial(redact_secrets, environment=secrets) if secrets else str


def _warn(message: str) -> None:
    click.echo(f"ktdeval: warning: {message}", err=True)
