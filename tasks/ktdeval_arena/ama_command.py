"""`ktdeval ama`: daily summaries of news (`aggregate`), and how far raters of them agree
(`agreement`).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

import click

from ktdeval.cards import clean
from ktdeval.cli import (
    FilePath,
    LazyCommand,
    LazyGroup,
    OutputPath,
    config_option,
    example,
    open_plugins,
    plugin_option,
    print_grid,
    print_json,
)
from ktdeval.errors import DataError, EpisodeFailure, UsageError
from ktdeval.market import Document, Documents, document_code, read_documents
from ktdeval.runner import load_config
from ktdeval.values.fields import near_matches, split_list
from ktdeval.values.jsonio import (
    JsonValue,
    dumps_canonical,
    dumps_pretty,
    file_sha256,
    make_folder,
    sha256_hex,
    write_atomic,
)
from ktdeval_arena.agreement import RULES, Agreement, agreement as agreement_of, read_ratings
from ktdeval_arena.summaries import MIS, TASK, Stream, ask, document_line, extract, stream_of

_AGREEMENT = LazyCommand(
    __name__, "agreement", "Report how far raters of daily summaries agree, also beyond chance."
)
_AGGREGATE = LazyCommand(
    __name__, "aggregate", "Make daily summaries of the news of several sources."
)
_COMMANDS = {"aggregate": _AGGREGATE, "agreement": _AGREEMENT}
ama = LazyGroup(
    "ktdeval ama",
    _COMMANDS,
    help="Agent Market Arena's summaries of news.",
    examples=("ktdeval ama agreement ratings.csv",),
)
_PATH = FilePath()
_HEADS = ["rule", "items", "rated twice", "mean", "0", "1", "2", "agreement %", "95 %", "alpha"]


@example("ktdeval ama agreement ratings.csv")
@click.command()
@click.argument("ratings", type=_PATH, metavar="RATINGS.csv")
@click.option("--json", "as_json", is_flag=True, help="print JSON: shares as fractions")
def agreement(ratings: Path, as_json: bool) -> None:
    """Report how far raters of daily summaries agree, also beyond chance.

    RATINGS.csv has the columns item, rater, rule, score. A rule is date_accuracy, coverage,
    bias_awareness or source_diversity, a score 0, 1 or 2.
    """
    agreements = [agreement_of(rule, items) for rule, items in read_ratings(ratings).items()]
    if as_json:
        print_json([asdict(rated) for rated in agreements])
        return

    rows = [_cells(rated) for rated in agreements]
    print_grid(_HEADS, rows, ("rule",))
    equal = []
    for rated in agreements:
        if rated.shared and rated.alpha is None:
            equal.append(RULES[rated.rule]["title"])

    if equal:
        click.echo(
            f"- {', '.join(equal)}: all scores are equal, which does not show that raters agree"
            " beyond chance"
        )


def _cells(rated: Agreement) -> list[str]:
    same = "-" if rated.same is None else f"{100 * rated.same:.1f}"
    ends = "-"
    if rated.low is not None and rated.high is not None:
        ends = f"{100 * rated.low:.1f} … {100 * rated.high:.1f}"

    chance = "-" if rated.alpha is None else f"{rated.alpha:.3f}"

    return [
        rated.rule,
        str(rated.items),
        str(rated.shared),
        f"{rated.mean:.2f}",
        *map(str, rated.levels),
        same,
        ends,
        chance,
    ]


@example("ktdeval ama aggregate reuters.jsonl --venue us_equity --out news.jsonl")
@click.command()
@click.argument("files", nargs=-1, required=True, type=_PATH, metavar="FILE…")
@click.option(
    "--out",
    required=True,
    type=OutputPath("file"),
    metavar="FILE.jsonl",
    help="the documents; a report is written next to them",
)
@click.option(
    "--venue",
    required=True,
    metavar="VENUE",
    help="venue whose closes end the days (see `ktdeval venues`)",
)
@click.option(
    "--assets",
    multiple=True,
    metavar="CODE,…",
    help="only these assets [default: all that articles are filed under]",
)
@click.option(
    "--model", metavar="PROVIDER/NAME", help="model that summarises [default: none, an extract]"
)
@config_option(
    "model_args",
    "base_url",
    "temperature",
    "max_output_tokens",
    "max_cost",
    "max_tokens",
    "price",
    "cache",
)
@click.option(
    "--config", "config_file", metavar="FILE", help="YAML file of further options of `ktdeval run`"
)
@click.option(
    "--run",
    "run_folder",
    metavar="DIR",
    help="folder of the model's run [default: as of `ktdeval run`]",
)
@click.option(
    "--mark-missing",
    is_flag=True,
    help="write that a summary is missing where the model's failed, instead of stopping",
)
@plugin_option
def aggregate(
    files: tuple[Path, ...],
    out: Path,
    venue: str,
    assets: tuple[str, ...],
    model: str | None,
    mark_missing: bool,
    **options: Any,
) -> None:
    """Make daily summaries of the news of several sources, as documents for `ktdeval data import
    --documents`.

    FILE is a .jsonl, .csv or .parquet file of articles with published_at, known_at, source, kind,
    assets, title, text. Nothing that became known after the close of a day is in its summary.
    """
    report = out.with_suffix(".report.json")
    plugins = open_plugins(options.pop("extra"))
    read = {path.resolve() for path in files}
    if out.suffix != ".jsonl" or read & {out.resolve(), report.resolve()}:
        raise UsageError(f"--out {out}: name a file that ends in .jsonl, and is none of those read")
    if model is None and (mark_missing or any(value is not None for value in options.values())):
        raise UsageError("options of a model without one; give --model, or leave them out")

    make_folder(out.parent, "choose another --out")
    articles: list[Document] = []
    for path in files:
        articles += read_documents(path)

    codes = _codes(assets, articles)
    stream = stream_of(Documents.of(articles), plugins.make_venue(venue), codes)
    failures: dict[str, str] = {}
    folder = None

    if model is None or not stream.days:
        texts = {day.id: extract(day) for day in stream.days}
    else:
        config_file = options.pop("config_file")
        options["out"] = options.pop("run_folder")
        chosen = {**options, "model": model, "tasks": (TASK,), "seeds": 1, "canary": 0}
        config = load_config(config_file, chosen)
        texts, failures, folder = ask(stream.days, config, plugins)

    _print(stream, texts, failures)
    if not stream.days:
        raise DataError(
            "no story is left to summarise, so nothing was written; the counts show which rule left"
            " the articles out"
        )
    if failures and not mark_missing:
        raise EpisodeFailure(
            f"{len(failures)} of {len(stream.days)} summaries failed, so nothing was written: give"
            " another --run to ask for them again (the other replies are in the cache), or"
            f" --mark-missing to write that they are missing; run: {folder}"
        )

    content = "".join(f"{document_line(day, texts.get(day.id))}\n" for day in stream.days)
    record: dict[str, JsonValue] = {
        "format": "ktdeval-ama-summaries/1",
        "inputs": [{"name": path.name, "sha256": file_sha256(path)} for path in files],
        "rules": sha256_hex(dumps_canonical(dict(MIS))),
        "venue": venue,
        "assets": list(codes),
        "summaries_by": model or "extract",
        "run": None if folder is None else str(folder),
        "articles": stream.articles,
        "dropped": dict(stream.dropped),
        "days": [{**day.facts(), "failure": failures.get(day.id)} for day in stream.days],
        "sha256": sha256_hex(content),
    }
    write_atomic(out, content)
    write_atomic(report, dumps_pretty(record) + "\n")
    click.echo(
        f"{out}: {len(stream.days)} documents; import them with --documents-close of {venue}'s"
        f" close. Report: {report}"
    )


def _codes(assets: Sequence[str], articles: Sequence[Document]) -> tuple[str, ...]:
    """Codes of `--assets`. Raises UsageError: no article is filed under one."""
    filed: set[str] = set()
    for article in articles:
        filed.update(article.assets)

    codes = tuple(document_code(name) for name in split_list(*assets))
    for code in codes:
        if code not in filed:
            raise UsageError(
                f"--assets {code}: no article is filed under it{near_matches(code, filed)}"
            )

    return codes


def _print(stream: Stream, texts: dict[str, str], failures: dict[str, str]) -> None:
    """Print counts of articles, stories and summaries, and the first failures."""
    rows = [("articles", stream.articles)]
    for rule, count in stream.dropped.items():
        rows.append((f"left out: {MIS['dropped'][rule]}", count))

    rows.append(("stories", sum(len(day.stories) for day in stream.days)))
    rows.append(("summaries", len(texts)))
    for kind, count in sorted(Counter(failures.values()).items()):
        rows.append((f"summaries failed: {kind}", count))

    most = MIS["summary"]["most_characters"]
    long = sum(len(text) > most for text in texts.values())
    if long:
        rows.append(("summaries of which tasks show only the beginning", long))

    cells = [(name, str(count)) for name, count in rows]
    print_grid(("", "count"), cells, ("",))
    for day in list(failures)[:5]:
        click.echo(clean(f"- no summary of {day}: {failures[day]}"))
