"""`ktdeval judge`: execute and judge decisions, trades or returns that any program has made."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import click

from ktdeval.cli import (
    FilePath,
    OutputPath,
    PluginOptions,
    capital_of,
    example,
    flag,
    line_width,
    open_plugins,
    options_of,
    work_shown,
)
from ktdeval.errors import UsageError
from ktdeval.values import Address, Parameters, dumps_pretty, to_plain
from ktdeval_judge.printed_figure_options import PrintedFigureOptions

# imported here only for types, to keep help fast
if TYPE_CHECKING:
    from ktdeval_judge.document import JudgeFile
    from ktdeval_judge.judging import JudgeSettings


@dataclass(frozen=True, kw_only=True)
class JudgeOptions(PrintedFigureOptions, PluginOptions):
    """Options for `judge`."""

    data: Address | None = flag(
        None,
        metavar="DATA",
        help="the market, a snapshot folder or data provider; required unless only a NAV is judged",
    )
    data_args: Parameters = flag({}, help="parameters of the data provider")
    nav: Path | None = flag(
        None,
        type=FilePath(),
        metavar="FILE",
        help=(
            "account value by day as claimed by the program; without decisions, the value itself "
            "is judged"
        ),
    )
    program: str | None = flag(
        None,
        name="--from",
        metavar="PROGRAM",
        help="program that wrote the file [default: detected from its columns]",
    )
    zone: str | None = flag(
        None,
        metavar="ZONE",
        help="time zone for files with timestamps [default: the market's; for LEAN, New York's]",
    )
    map: Parameters = flag(
        {}, help="columns of the file by role, such as price=Kurs,date=Handelstag"
    )
    code: str | None = flag(
        None, metavar="CODE", help="code of the asset, for a file without a column of codes"
    )
    keep: Parameters = flag(
        {},
        metavar="COLUMN=VALUE",
        help=(
            "read only rows with this value in this column, such as model_id=gpt-5; * reads all "
            "rows as one account"
        ),
    )
    by: str | None = flag(
        None,
        metavar="COLUMN",
        help="judge the rows of each value of this column separately, such as --by model_id",
    )
    columns: str | None = flag(
        None,
        metavar="NAMES",
        help="names of the columns of a file without a header, in order, such as date,nav,-",
    )
    date_format: str | None = flag(
        None,
        metavar="FORMAT",
        help="format of days, such as %m/%d/%Y; or excel, roc, unix_s, unix_ms, unix_us, unix_ns",
    )
    decimal: Literal["auto", "point", "comma"] = flag("auto", help="decimal mark")
    flows: str | None = flag(
        None,
        metavar="COLUMN|FILE",
        help="deposits and withdrawals by day, to remove from the account value",
    )
    table: str | None = flag(
        None, metavar="NAME", help="table to read if a file has several, such as trades"
    )
    cash: str | None = flag(
        None, metavar="N", help="initial cash [default: as in the file, else 1e6]"
    )
    venue: str | None = flag(
        None,
        metavar="NAME",
        help="rules of this venue for all assets [default: each asset's own venue]",
    )
    execution: str | None = flag(
        None, metavar="NAME", help="costs of execution: none, spread, sqrt [default: the venue's]"
    )
    set: Parameters = flag(
        {},
        help=(
            "rules of trading: fill=next_close, fees.buy_bps=5, fees.sell_bps=5 (with --venue), …"
        ),
    )
    dated: Literal["decision", "fill"] = flag(
        "decision",
        help=(
            "meaning of the decisions' days: the day at whose close the decision was made, or the "
            "day of the fill"
        ),
    )
    until: str | None = flag(
        None,
        metavar="DAY",
        help=(
            "keep the final holdings until this day [default: the last fill, or the NAV's last day]"
        ),
    )
    study: str | None = flag(
        None,
        metavar="NAME",
        help=(
            "count this file as a try of the study NAME, in the ledger study-NAME.jsonl next to "
            "the run; sets --trials"
        ),
    )
    model: str | None = flag(
        None,
        metavar="NAME",
        help=(
            "model that made the decisions, such as openai/gpt-4o; also judges the period after "
            "its cutoff"
        ),
    )
    cutoff: str | None = flag(
        None,
        metavar="DAY",
        help="end of the model's training data, a day or a month [default: as listed for --model]",
    )
    keep_others: bool = flag(
        False, help="keep holdings that are missing from a day of weights, instead of selling them"
    )
    check: bool = flag(False, help="execute the plan of a judged run again, and compare every step")
    out: Path | None = flag(
        None,
        type=OutputPath("folder"),
        metavar="DIR",
        help=(
            "folder of the run, or of a NAV's tear sheet [default: a new folder in ktdeval-runs; "
            "none for a NAV]"
        ),
    )


@example("ktdeval judge weights.csv --data synthetic")
@click.command()
@click.argument("decisions", type=FilePath(), metavar="[DECISIONS]", required=False)
@options_of(JudgeOptions)
def judge(decisions: Path | None, options: JudgeOptions) -> None:
    """Judge decisions, trades or returns that were made anywhere, by any program.

    DECISIONS is a table (CSV, Parquet or JSON) of days and codes with weights, holdings, orders or
    trades; they are executed under the venue's rules like any run, with a card labelled `declared`.
    The report says which orders could not have been filled, and where a claimed NAV differs from
    the executed one. Given the folder of an earlier judgement, it shows that judgement again. With
    --nav and no DECISIONS, only returns are judged, for which a market is optional; with --sharpe,
    a printed figure.
    """
    if options.sharpe is not None:
        if decisions is not None or options.nav is not None:
            raise UsageError("--sharpe judges a printed figure without a file; drop the file")

        _refuse_set(options, _OF_FILES, "applies to a file, not to --sharpe")
        from ktdeval_judge.printed_figure_texts import print_printed_figure

        print_printed_figure(options)
        return

    _refuse_set(options, _OF_FIGURES, "applies to --sharpe only; a file determines its own value")
    if options.check:
        _check(decisions, options)
        return

    if options.by is None:
        _print_judgement(*_judgement(decisions, options), options)
        return
    _print_each(decisions, options, options.by)


def _judgement(decisions: Path | None, options: JudgeOptions) -> tuple[JudgeFile, Path | None]:
    """Return an earlier judgement or a new one, and its folder."""
    # imported here to keep help fast
    from ktdeval_judge.judging import judge_files, load_again

    file = load_again(decisions)
    if file is not None:
        words = f"needs the file itself; {decisions} is an earlier judgement"
        _refuse_set(options, _OF_TRIES, words)
        return file, decisions

    with work_shown():
        return judge_files(_settings(decisions, options), open_plugins(options.plugin))


def _settings(decisions: Path | None, options: JudgeOptions) -> JudgeSettings:
    from ktdeval_judge.evidence import LuckSettings
    from ktdeval_judge.judging import JudgeSettings
    from ktdeval_judge.readers.options import ReadOptions

    reader = ReadOptions(
        program=options.program,
        zone=options.zone or "",
        roles={str(role): str(column) for role, column in options.map.items()},
        code=options.code or "",
        keep={str(column): str(value) for column, value in options.keep.items()},
        columns=tuple(options.columns.split(",")) if options.columns else (),
        date_format=options.date_format or "",
        decimal=options.decimal,
        flows=options.flows or "",
        table=options.table or "",
        cash=None if options.cash is None else capital_of(options.cash),
        keeps_others=options.keep_others,
        dated=options.dated,
    )
    luck = LuckSettings(
        trials=options.trials,
        trial_sd=options.trial_sd,
        study=options.study,
        model=options.model,
        cutoff=options.cutoff,
    )
    return JudgeSettings(
        decisions=decisions,
        nav=options.nav,
        reader=reader,
        periods=_periods(options.periods),
        data=options.data,
        data_args=options.data_args,
        venue=options.venue,
        execution=options.execution,
        changes=nest_options(options.set),
        until=options.until,
        out=options.out,
        luck=luck,
    )


def _print_judgement(file: JudgeFile, folder: Path | None, options: JudgeOptions) -> None:
    from ktdeval.cards import folded_texts
    from ktdeval_judge.texts import judge_lines

    if options.as_json:
        click.echo(dumps_pretty(to_plain(file)), nl=False)
        return

    for line in folded_texts(judge_lines(file, folder), line_width()):
        click.echo(line)


def _print_each(decisions: Path | None, options: JudgeOptions, column: str) -> None:
    """Judge the rows of each value of a column separately, and print all judgements."""
    from ktdeval_judge.judging import each_value, judge_files

    plugins = open_plugins(options.plugin)
    judged = []
    for settings in each_value(_settings(decisions, options), column):
        with work_shown():
            judged.append((settings.reader.keep[column], *judge_files(settings, plugins)))

    if options.as_json:
        files = {value: to_plain(file) for value, file, _ in judged}
        click.echo(dumps_pretty(files), nl=False)
        return

    for value, file, folder in judged:
        click.echo(f"=== {column} = {value}")
        _print_judgement(file, folder, options)
        click.echo()


_OF_FIGURES = ("days", "skew", "kurtosis", "autocorrelation")
_OF_FILES = ("study", "model", "cutoff")
_OF_TRIES = ("trials", "trial_sd", "keep", "by", *_OF_FILES)


def _refuse_set(options: JudgeOptions, names: tuple[str, ...], why: str) -> None:
    """Raise UsageError if any of these options is set."""
    unset = JudgeOptions()
    for name in names:
        if getattr(options, name) != getattr(unset, name):
            raise UsageError(f"--{name.replace('_', '-')} {why}")


def _periods(periods: float | None) -> float | None:
    if periods is not None and not 1 <= periods <= 1e6:
        raise UsageError(
            f"--periods {periods:g}: expected the number of returns per year, 1 or more"
        )
    return periods


def _check(run: Path | None, options: JudgeOptions) -> None:
    """Execute a run's plan again. If every step is reproduced, print this."""
    from ktdeval_judge.plan_check import check_plan

    if run is None:
        raise UsageError("--check: name the folder of a judged run")

    with work_shown():
        steps = check_plan(run, open_plugins(options.plugin), options.data)
    click.echo(f"{run}: all {steps:,} steps follow from its plan")


def nest_options(flat: Any) -> dict[str, Any]:
    """Return nested options for dotted names: `fees.buy_bps=5` becomes `{"fees": {"buy_bps": 5}}`.
    Raises UsageError if a name is used both for a value and for a group.
    """
    options: dict[str, Any] = {}
    for name, value in flat.items():
        *groups, last = str(name).split(".")
        inner = options
        for group in groups:
            inner = inner.setdefault(group, {})
            if not isinstance(inner, dict):
                raise UsageError(f"--set {name}: {group} is already set to a value")
        inner[last] = value

    return options
