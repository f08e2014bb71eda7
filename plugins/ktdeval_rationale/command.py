"""`ktdeval compare rationale`: tables or JSON from run folders."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import click
from msgspec import UNSET

from ktdeval.cards import clean, points
from ktdeval.cli import (
    FilePath,
    JsonOptions,
    MarketOptions,
    PluginOptions,
    RunPath,
    example,
    flag,
    grid_lines,
    line_width,
    open_plugins,
    options_of,
)
from ktdeval.secrets import hide_secrets, secrets_of
from ktdeval.values import dumps_pretty, to_plain
from ktdeval_rationale.category_rates import HidingRow, IdentityEffectRow, MaskRates, Share
from ktdeval_rationale.leak_linter import LEAK_CATEGORIES, WORDS
from ktdeval_rationale.paraphrased_leaks import SimilarityLinter, choose_encoder
from ktdeval_rationale.report import (
    ModelSubject,
    RationaleReport,
    ReportSettings,
    SecondStage,
    make_report,
)

_UNDEFINED = "-"
_INDENT = "    "  #: indentation of a table below its title
_HIDING_ROWS = ("stock", "calendar", "hindsight", "recognition")


@dataclass(frozen=True, kw_only=True)
class RationaleOptions(MarketOptions, PluginOptions, JsonOptions):
    """Options of `compare rationale`."""

    examples: int = flag(
        0,
        type=click.IntRange(0, 1000),
        metavar="N",
        help="show the first N distinct mentions of each category under each mask",
    )
    embeddings: bool = flag(False, help="also look for sentences that paraphrase planted leaks")
    model: Path | None = flag(
        None,
        name="--embedding-model",
        type=FilePath(),
        metavar="DIR",
        help=(
            "folder of a model2vec model for --embeddings [default: letter groups, which compare "
            "spelling only]"
        ),
    )


@example("ktdeval compare rationale ktdeval-runs/my-run")
@click.command()
@click.argument("runs", nargs=-1, required=True, type=RunPath(), metavar="RUN…")
@options_of(RationaleOptions)
def rationale(runs: tuple[Path, ...], options: RationaleOptions) -> None:
    """Count what models mention in their reasons, by mask, and how hiding the stock or the date
    changes it.

    RUN is a run folder, which is only read; give the runs of several masks to compare them. The
    categories are codes, companies, brands, sectors, dates, events, hindsight and recognition.
    Secrets of the environment are removed from examples.
    """
    plugins = open_plugins(options.plugin)
    similarity: SimilarityLinter | str | None = None
    if options.embeddings or options.model is not None:
        encoder = choose_encoder(options.model)
        if isinstance(encoder, str):
            similarity = encoder
        else:
            similarity = SimilarityLinter(encoder)

    # Secret variables are selected once, so that not every text is compared with all variables.
    redact = partial(hide_secrets, secrets=secrets_of(os.environ))
    report = make_report(
        runs, plugins, ReportSettings(options.examples, options.data, redact, similarity)
    )
    if options.as_json:
        click.echo(dumps_pretty(to_plain(report)), nl=False)
    else:
        click.echo("\n".join(_report_lines(report, line_width())))


def _report_lines(report: RationaleReport, width: int | None) -> Iterator[str]:
    for subject in report.subjects:
        yield subject.subject
        for name, unit, title in WORDS["tables"]:
            yield from _add_title(title, _rates(subject.masks, name, unit, width))

        if subject.hiding:
            title = (
                "Effect of hiding: share of steps before minus after, paired by window and seed "
                "if pairs > 0"
            )
            yield from _add_title(title, _hiding(subject.hiding, width))

        if subject.effects:
            title = (
                "All four masks together: effect of showing it on the share of steps, mean over "
                "windows"
            )
            yield from _add_title(title, _effect_lines(subject.effects, width))

        yield from _examples(subject)
        yield ""

    if report.second_stage is not None:
        yield _second_stage(report.second_stage)

    yield from (f"note: {clean(note)}" for note in report.notes)


def _second_stage(stage: SecondStage) -> str:
    if not stage.encoder:
        return f"second stage not run: {stage.reason}"
    return (
        f"second stage: {clean(stage.encoder)}, lead of a leak over harmless sentences above"
        f" {stage.threshold:.3f}"
    )


def _add_title(title: str, lines: Sequence[str]) -> Iterator[str]:
    yield ""
    yield f"  {title}"
    yield from lines


def _rates(masks: Mapping[str, MaskRates], table: str, unit: str, width: int | None) -> list[str]:
    """Return lines of shares with their intervals, in per cent. A category that never occurs is
    shown as 0.
    """
    rows = [("n", *(str(getattr(rates, unit)) for rates in masks.values()))]
    for name in (*LEAK_CATEGORIES, *WORDS["rows"]):
        label = str(WORDS["rows"].get(name, name))
        shares = [getattr(rates, table)[name] for rates in masks.values()]
        rows.append((label, *map(_share_text, shares)))

    if table == "step_rates":
        for name, label in WORDS["resembling"].items():
            shares = [getattr(rates, name) for rates in masks.values()]
            if UNSET not in shares:
                rows.append((label, *map(_share_text, shares)))

    return grid_lines(("", *masks), rows, ("",), width, _INDENT)


def _share_text(share: Share) -> str:
    if share.share is None or share.low is None or share.high is None:
        return _UNDEFINED
    return f"{100 * share.share:.1f} [{100 * share.low:.1f}, {100 * share.high:.1f}]"


def _hiding(rows: Sequence[HidingRow], width: int | None) -> list[str]:
    heads = (
        "hidden",
        "named",
        "pairs",
        "before %",
        "after %",
        "less",
        "95 % interval",
        "Appendix A",
    )
    pairs = list(dict.fromkeys((row.before, row.after) for row in rows))
    shown = [row for row in rows if row.row in _HIDING_ROWS]
    shown.sort(key=lambda row: (pairs.index((row.before, row.after)), _HIDING_ROWS.index(row.row)))
    cells = [
        [
            f"{row.hidden}: {row.before} → {row.after}",
            _row_name(row.row),
            str(row.pairs),
            points(row.share_before, ".1f"),
            points(row.share_after, ".1f"),
            points(row.difference, "+.1f"),
            _both(row.low, row.high),
            row.verdict or "",
        ]
        for row in shown
    ]

    return grid_lines(heads, cells, ("hidden", "named", "Appendix A"), width, _INDENT)


def _effect_lines(rows: Sequence[IdentityEffectRow], width: int | None) -> list[str]:
    cells = [
        [
            _row_name(row.row),
            WORDS["effects"][row.effect],
            str(row.windows),
            points(row.value, "+.1f"),
            _both(row.low, row.high),
        ]
        for row in rows
    ]
    heads = ("named", "effect", "windows", "points", "95 % interval")
    return grid_lines(heads, cells, ("named", "effect"), width, _INDENT)


def _examples(subject: ModelSubject) -> Iterator[str]:
    if subject.examples:
        yield ""
        yield "  Examples (*: not sent to the model in that step)"

    for each in subject.examples:
        mark = " " if each.was_sent else "*"
        quoted = f"{each.before}⟦{each.text}⟧{each.after}"
        yield clean(f"  {mark} {each.mask} {each.category}: {quoted}")
        yield clean(f"      {each.where}, decided on {each.decided_on}")

    for mask, rows in subject.resemblances.items():
        for row in rows:
            yield clean(
                f"  ~ {mask} {row.category} {row.similarity:.2f}: {row.text}  ≈  {row.anchor}"
            )
            yield clean(f"      {row.where}")


def _row_name(row: str) -> str:
    return str(WORDS["rows"].get(row, row))


def _both(low: float | None, high: float | None) -> str:
    if low is None or high is None:
        return _UNDEFINED
    return f"{points(low, '+.1f')} … {points(high, '+.1f')}"
