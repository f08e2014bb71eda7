"""`ktdeval rationale`: tables or JSON from run folders."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path

import click

from ktdeval.cards import clean
from ktdeval.cli import FilePath, grid_lines, open_plugins, plugin_option
from ktdeval.errors import replace_secrets, secrets_of
from ktdeval.jsonio import JsonValue, dumps_pretty
from ktdeval_rationale.linter import LEAK_CATEGORIES, WORDS
from ktdeval_rationale.rates import Row
from ktdeval_rationale.report import Options, make_report
from ktdeval_rationale.similarity import SimilarityLinter, choose_encoder

_UNDEFINED = "-"
_HIDING_ROWS = ("stock", "calendar", "hindsight", "recognition")
_PATH = FilePath()


@click.command()
@click.argument("runs", nargs=-1, required=True, type=_PATH, metavar="RUN…")
@click.option("--json", "as_json", is_flag=True, help="print the whole report as JSON")
@click.option("--examples", type=click.IntRange(0, 1000), default=0, show_default=True, metavar="N",
              help="show the first N different mentions of each category under each mask")  # fmt: skip
@click.option("--embeddings", is_flag=True, help="also look for sentences that resemble planted leaks in other words")
@click.option("--embedding-model", "model", type=_PATH, metavar="DIR",
              help="folder of a model2vec model for --embeddings [default: letter groups, which know spelling only]")  # fmt: skip
@click.option("--data", metavar="DATA", help="the market, where it has moved since the run: a snapshot folder or data provider")
@plugin_option
def rationale(  # noqa: PLR0913 - a command takes one parameter for each option
    runs: tuple[Path, ...],
    as_json: bool,
    examples: int,
    embeddings: bool,
    model: Path | None,
    data: str | None,
    extra: tuple[str, ...],
) -> None:
    """Count what models name in their reasons, by mask, and what hiding the stock or the date removes.

    RUN is a run folder, which is only read; give the runs of several masks to compare them. Counted are codes, companies, brands,
    sectors, dates, events, hindsight and recognition. Secrets of the environment are removed from examples.
    """
    plugins = open_plugins(extra)
    similarity: SimilarityLinter | str | None = None
    if embeddings or model is not None:
        encoder = choose_encoder(model)
        similarity = encoder if isinstance(encoder, str) else SimilarityLinter(encoder)
    # Secret variables are selected once, so that texts are not compared with all variables.
    redact = partial(replace_secrets, secrets=secrets_of(os.environ))
    report = make_report(runs, plugins, Options(examples, data, redact, similarity))
    click.echo(dumps_pretty(report) if as_json else "\n".join(_report_lines(report)), nl=not as_json)


def _report_lines(report: Row) -> Iterator[str]:
    for subject in report["subjects"]:
        yield f"{subject['subject']}"
        for name, unit, title in WORDS["tables"]:
            yield from _titled(title, _rates(subject["masks"], name, unit))
        if subject["hiding"]:
            title = "What hiding removes: share of steps before less after, paired by window and seed where pairs > 0"
            yield from _titled(title, _hiding(subject["hiding"]))
        if subject["effects"]:
            title = "All four masks together: effect of having it in sight on the share of steps, mean over windows"
            yield from _titled(title, _effects(subject["effects"]))
        yield from _examples(subject)
        yield ""
    if (stage := report["second_stage"]) is not None:
        lead = (
            f"{clean(stage['encoder'])}, lead of a leak over harmless sentences above {stage['threshold']:.3f}"
            if stage["encoder"]
            else ""
        )
        yield f"second stage: {lead}" if lead else f"second stage not run: {stage['reason']}"
    yield from (f"note: {clean(note)}" for note in report["notes"])


def _titled(title: str, lines: Sequence[str]) -> Iterator[str]:
    yield from ("", f"  {title}", *(f"    {line}" for line in lines))


def _rates(masks: Mapping[str, Row], table: str, unit: str) -> list[str]:
    """Return lines of shares with their intervals in per cent; a category that is never named has 0."""

    def cells(label: str, rates: Sequence[Row]) -> tuple[str, ...]:
        form = "{:.1f} [{:.1f}, {:.1f}]"
        return label, *(_UNDEFINED if rate["share"] is None
                        else form.format(*(100 * rate[name] for name in ("share", "low", "high"))) for rate in rates)  # fmt: skip

    rows = [("n", *(str(rates[unit]) for rates in masks.values()))]
    for name in (*LEAK_CATEGORIES, *WORDS["rows"]):
        shares = [rates[table][name] for rates in masks.values()]
        rows.append(cells(WORDS["rows"].get(name, name), shares))
    for name, label in WORDS["resembling"].items() if table == "step_rates" else ():
        if all(name in rates for rates in masks.values()):
            rows.append(cells(label, [rates[name] for rates in masks.values()]))
    return grid_lines(("", *masks), rows, ("",))


def _hiding(rows: Sequence[Row]) -> list[str]:
    heads = ("hidden", "named", "pairs", "before %", "after %", "less", "95 % interval", "Appendix A")
    pairs = list(dict.fromkeys((row["before"], row["after"]) for row in rows))
    kept = sorted((row for row in rows if row["row"] in _HIDING_ROWS),
                  key=lambda row: (pairs.index((row["before"], row["after"])), _HIDING_ROWS.index(row["row"])))  # fmt: skip
    shown = [
        [f"{row['hidden']}: {row['before']} → {row['after']}", _name(row), str(row["pairs"]), _points(row["share_before"], ""),
         _points(row["share_after"], ""), _points(row["difference"]), _both(row), row["verdict"] or ""]
        for row in kept
    ]  # fmt: skip
    return grid_lines(heads, shown, ("hidden", "named", "Appendix A"))


def _effects(rows: Sequence[Row]) -> list[str]:
    shown = [[_name(row), WORDS["effects"][row["effect"]], str(row["windows"]), _points(row["value"]), _both(row)] for row in rows]
    return grid_lines(("named", "effect", "windows", "points", "95 % interval"), shown, ("named", "effect"))


def _examples(subject: Row) -> Iterator[str]:
    if subject["examples"]:
        yield from ("", "  Examples (* not among what the model was sent in that step)")
    for row in subject["examples"]:
        mark = " " if row["was_sent"] else "*"
        yield clean(f"  {mark} {row['mask']} {row['category']}: {row['before']}⟦{row['text']}⟧{row['after']}")
        yield clean(f"      {row['where']}, decided on {row['decided_on']}")
    for mask, rows in subject["resemblances"].items():
        for row in rows:
            yield clean(f"  ~ {mask} {row['category']} {row['similarity']:.2f}: {row['text']}  ≈  {row['anchor']}")
            yield clean(f"      {row['where']}")


def _name(row: Row) -> str:
    return str(WORDS["rows"].get(row["row"], row["row"]))


def _points(value: JsonValue, sign: str = "+") -> str:
    return _UNDEFINED if value is None else f"{100 * value:{sign}.1f}"


def _both(row: Row) -> str:
    return _UNDEFINED if row["low"] is None or row["high"] is None else f"{_points(row['low'])} … {_points(row['high'])}"
