"""`ktdeval paper ama`: daily news summaries."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import click

from ktdeval.cards import clean
from ktdeval.cli import (
    FilePath,
    OutputPath,
    PluginOptions,
    config_option,
    example,
    flag,
    open_plugins,
    options_of,
    print_grid,
)
from ktdeval.errors import DataError, EpisodeFailure, UsageError
from ktdeval.market import Document, Documents
from ktdeval.runner import load_config
from ktdeval.values import (
    JsonValue,
    dumps_canonical,
    dumps_pretty,
    file_sha256,
    make_folder,
    near_matches,
    sha256_hex,
    split_list,
    write_atomic,
)
from ktdeval_arena.daily_news_summaries import (
    MIS,
    TASK,
    StoryStream,
    ask,
    document_line,
    extract,
    stream_of,
)
from ktdeval_raw_markets.sources.document_files import document_code, read_documents


@dataclass(frozen=True, kw_only=True)
class SummaryOptions(PluginOptions):
    """Options for news summaries."""

    out: Path = flag(
        type=OutputPath("file"),
        metavar="FILE.jsonl",
        help="file to write the documents to; a report is written next to it",
    )
    venue: str = flag(
        metavar="VENUE", help="venue whose closes end the days (see `ktdeval list venues`)"
    )
    assets: tuple[str, ...] = flag(
        (),
        metavar="CODE,…",
        help="assets to summarise [default: all that articles are filed under]",
    )
    model: str | None = flag(
        None,
        metavar="PROVIDER/NAME",
        help=(
            "model that writes the summaries [default: the model of --config; without a model, an "
            "extract is used]"
        ),
    )
    config: Path | None = flag(
        None,
        type=FilePath(),
        metavar="FILE",
        help=(
            "YAML file of the model's run: options of `ktdeval run`, such as out, model_args,"
            " temperature and max_cost"
        ),
    )
    mark_missing: bool = flag(
        False,
        help="if the model fails, mark the summary as missing instead of stopping",
    )


@example("ktdeval paper ama reuters.jsonl --venue us_equity --out news.jsonl")
@click.command()
@click.argument("files", nargs=-1, required=True, type=FilePath(), metavar="FILE…")
@options_of(SummaryOptions)
@config_option("max_cost")
def ama(files: tuple[Path, ...], options: SummaryOptions, max_cost: float | None) -> None:
    """Make daily summaries of news from several sources, as documents for `ktdeval data make
    --documents`.

    FILE is a .jsonl, .csv or .parquet file of articles with published_at, known_at, source, kind,
    assets, title, text. Nothing that became known after the close of a day is in its summary.
    """
    out = options.out
    report = out.with_suffix(".report.json")
    plugins = open_plugins(options.plugin)
    read = {path.resolve() for path in files}
    if out.suffix != ".jsonl" or read & {out.resolve(), report.resolve()}:
        raise UsageError(f"--out {out}: name a .jsonl file that is not one of the input files")
    asks_model = options.model is not None or options.config is not None
    if not asks_model and (options.mark_missing or max_cost is not None):
        raise UsageError("these options require a model; give --model, or leave them out")

    make_folder(out.parent, "choose another --out")
    articles: list[Document] = []
    for path in files:
        articles += read_documents(path)

    codes = _chosen_codes(options.assets, articles)
    stream = stream_of(Documents.of(articles), plugins.make_venue(options.venue), codes)
    failures: dict[str, str] = {}
    folder = None
    summaries_by = "extract"

    if not asks_model or not stream.days:
        texts = {day.id: extract(day) for day in stream.days}
    else:
        given = {"model": options.model, "max_cost": max_cost}
        config = load_config(options.config, {**given, "tasks": (TASK,), "seeds": 1, "canary": 0})
        summaries_by = config.model
        texts, failures, folder = ask(stream.days, config, plugins)

    _print_counts(stream, texts, failures)
    if not stream.days:
        raise DataError(
            "no story is left to summarise, so nothing was written; the counts show which rule "
            "excluded the articles"
        )
    if failures and not options.mark_missing:
        raise EpisodeFailure(
            f"{len(failures)} of {len(stream.days)} summaries failed, so nothing was written: set "
            "another `out` in --config to request them again (the other replies are cached), or "
            f"give --mark-missing to mark them as missing; run: {folder}"
        )

    content = "".join(f"{document_line(day, texts.get(day.id))}\n" for day in stream.days)
    record: dict[str, JsonValue] = {
        "format": "ktdeval-ama-summaries/1",
        "inputs": [{"name": path.name, "sha256": file_sha256(path)} for path in files],
        "rules": sha256_hex(dumps_canonical(dict(MIS))),
        "venue": options.venue,
        "assets": list(codes),
        "summaries_by": summaries_by,
        "run": None if folder is None else str(folder),
        "articles": stream.articles,
        "dropped": dict(stream.dropped),
        "days": [{**day.facts(), "failure": failures.get(day.id)} for day in stream.days],
        "sha256": sha256_hex(content),
    }
    write_atomic(out, content)
    write_atomic(report, dumps_pretty(record) + "\n")
    click.echo(
        f"{out}: {len(stream.days)} documents; import them with --documents-close set to "
        f"{options.venue}'s close. Report: {report}"
    )


def _chosen_codes(assets: Sequence[str], articles: Sequence[Document]) -> tuple[str, ...]:
    """Return the asset codes given by `--assets`. Raises UsageError if no article is filed under
    one of the codes.
    """
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


def _print_counts(stream: StoryStream, texts: dict[str, str], failures: dict[str, str]) -> None:
    """Print the number of articles, stories and summaries, and the first failures."""
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
        rows.append(("summaries that tasks cut, showing only the beginning", long))

    cells = [(name, str(count)) for name, count in rows]
    print_grid(("", "count"), cells, ("",))
    for day in list(failures)[:5]:
        click.echo(clean(f"- no summary of {day}: {failures[day]}"))
