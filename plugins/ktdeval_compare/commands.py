"""Commands on several cards: options in; out comes the report as JSON, or as tables of aligned plain text."""

from __future__ import annotations

import dataclasses
import itertools
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Literal

import click

from ktdeval.cli import Number
from ktdeval.errors import UsageError
from ktdeval.jsonio import JsonValue
from ktdeval_compare.compare import Options as CompareOptions, compare as find_differences
from ktdeval_compare.effects import Options as EffectsOptions, effects as find_effects
from ktdeval_compare.entrants import Row, load_cards, load_entrants
from ktdeval_compare.grid import (
    COUNT,
    UNDEFINED,
    UNIT,
    VERDICT,
    Column,
    figure,
    figure_of,
    grid,
    interval,
    p_of,
    p_value,
    plain,
    show,
    text,
    unit_name,
    unless_alone,
)
from ktdeval_compare.invariance import FIGURES, WORDS, Options as InvarianceOptions, invariance as find_invariance
from ktdeval_compare.luck import luck as find_luck
from ktdeval_compare.plan import Plan, plan_report, spreads_of_cards
from ktdeval_compare.scores import compare_scores, score_lines
from ktdeval_compare.variance import Options as VarianceOptions, study

_PATH = click.Path(path_type=Path)
_spread = Number(0, 1000)
_cards = click.argument("cards", nargs=-1, required=True, type=_PATH, metavar="CARD…")
_metrics = click.option(
    "--metric", "metrics", multiple=True, metavar="NAME", help="metric, may be repeated [default: total_return]"
)
_alpha = click.option("--alpha", type=Number(0.0001, 0.5), default=0.05, show_default=True,
                      help="level of verdicts; intervals hold with 1 - alpha")  # fmt: skip
_common = click.option("--common", is_flag=True, help="where cards differ in windows or seeds, use those that all have")
_seed = click.option("--seed", type=click.IntRange(0), default=0, show_default=True, metavar="N",
                     help="seed of simulations and bootstraps")  # fmt: skip
_json = click.option("--json", "as_json", is_flag=True, help="print the whole report as JSON")


def _names_of(texts: Iterable[str]) -> tuple[str, ...]:
    """Names given one by one or separated by commas."""
    return tuple(name for text in texts for name in text.split(",") if name)


# --- compare


@click.command()
@click.argument("cards", nargs=-1, type=_PATH, metavar="CARD…")
@_metrics
@click.option("--factor", "factors", metavar="NAME,…",
              help="instead of tests: split the metric's variance by agent, model, asset, window or seed")  # fmt: skip
@click.option("--table", metavar="FILE", help="with --factor, in place of cards: a CSV file of runs, or ama-1 (AMA's Table 1)")
@click.option("--pairs", "unit", type=click.Choice(["window", "episode"]), default="window", show_default=True,
              help="what counts as one pair: a window (median over its seeds), or each window and seed as in the "
              "paper")  # fmt: skip
@_alpha
@_common
@click.option("--side", type=click.Choice(["before", "after"]),
              help="only windows wholly before or after the cutoff of every card that records one")  # fmt: skip
@click.option("--against-first", is_flag=True, help="only the first card against each of the others: fewer tests, more power")
@_seed
@_json
def compare(
    cards: tuple[Path, ...], metrics: tuple[str, ...], factors: str | None, table: str | None, as_json: bool, **options: JsonValue
) -> None:
    """Test whether agents differ, paired by window and seed.

    CARD is a card file, or a run folder, whose cards are compared task by task. Daily tests need the run folder around the card.
    Cards of scoring tasks are set beside each other by score, and tested sample by sample.
    A verdict is a difference that is significant after Holm's correction over the whole table; anything else is tied.
    With --factor agent,model: how much of the metric's variance is the agent's and how much the model's.
    """
    named = _names_of(metrics)
    if factors is None:
        if not cards or table is not None:
            raise UsageError("compare needs two cards or run folders" if table is None else "--table goes with --factor")
        report, lines = compared(cards, CompareOptions(metrics=named, **options))
    else:
        if options.pop("against_first") or options.pop("side") or options.pop("unit") != "window":
            raise UsageError("--pairs, --side and --against-first are of paired tests, not of --factor")
        report, lines = study(cards, table, VarianceOptions(_names_of([factors]), named, **options))
    show(report, lines, as_json)


def compared(paths: Sequence[Path], options: CompareOptions) -> tuple[Row, Iterator[str]]:
    """Report of the cards of trading tasks, or, where there are none, of scoring tasks, with its lines."""
    trading, scored = load_cards(paths)
    if scored and not trading:
        if options.side:
            raise UsageError("--side is of trading tasks; these cards are of scoring tasks")
        report = compare_scores(scored, options)
        return report, score_lines(report)
    report = find_differences(load_entrants(paths), options)
    return report, compare_lines(report)


def compare_lines(report: Row) -> Iterator[str]:
    """Lines of the report of `compare`."""
    pair = "windows, each the median over its seeds" if report["unit"] == "window" else "(window, seed) pairs"
    sides = (text("task"), text("first"), text("second"))
    effect = Column("effect", lambda row: UNDEFINED if row["rank_biserial"] is None else f"{row['rank_biserial']:+.2f}")
    flips = Column("flip p", lambda row: p_value(row["sign_flip"]["p"]))
    tests = [{**row["shift"], **row} for row in unless_alone(report["tests"], "task")]
    yield f"Paired differences, first - second, over {pair}"
    yield from grid(tests, sides[0], text("metric"), *sides[1:], COUNT, figure_of("shift"), UNIT, interval(report), effect,
                     p_of("p"), flips, p_of("Holm p", "p_holm"), p_of("BH p", "p_benjamini_hochberg"), VERDICT)  # fmt: skip
    yield "  shift: Hodges-Lehmann; effect: rank-biserial, -1 … 1; p: Wilcoxon; flip p: sign flips; verdict: by Holm p"
    yield from ("", "Daily returns (mean over seeds): difference of annualised Sharpe ratios")
    daily = [{"unit": "ratio", **row} for row in unless_alone(report["daily"], "task")]
    if tested := [row for row in daily if row["value"] is not None]:
        yield from grid(tested, *sides, text("days", "n", is_left=False), figure_of("difference"), interval(report), p_of("p"),
                         p_of("Holm p", "p_holm"), VERDICT)  # fmt: skip
    for row in daily:
        if row["value"] is None:
            yield f"  {_where(row)}{row['first']}, {row['second']}: not tested: {row['reason']}"
    yield from ("", f"Tied with the best by mean daily return (model confidence set, {100 * (1 - report['alpha']):g} %)")
    for row in unless_alone(report["best"], "task"):
        yield f"  {_where(row)}{', '.join(row['tied_with_best']) if row['tied_with_best'] else 'not tested: ' + row['reason']}"
    if report["notes"]:
        yield from ("", "Notes", *(f"  {note}" for note in report["notes"]))


def _where(row: Row) -> str:
    return f"{row['task']}: " if row["task"] else ""


# --- effects


@click.command()
@_cards
@_metrics
@_alpha
@_common
@_seed
@_json
def effects(cards: tuple[Path, ...], metrics: tuple[str, ...], alpha: float, common: bool, seed: int, as_json: bool) -> None:
    """Report the value of stock, date, data and tools, from an agent's cards under several masks and modes.

    CARD is a card file or a run folder. Bright and blinded give the memory premium; all four masks also the stock effect, the date
    effect and their interaction; several modes give the information ladder, whose contributions add up exactly.
    """
    report = find_effects(load_entrants(cards), EffectsOptions(_names_of(metrics), alpha, common, seed))
    show(report, effects_lines(report), as_json)


def effects_lines(report: Row) -> Iterator[str]:
    """Lines of the report of `effects`."""
    mean = (figure_of("mean"), UNIT, interval(report))
    if report["effects"]:
        yield "Effects of the mask: mean over windows, paired within window and seed"
        rows = unless_alone(report["effects"], "agent", report["ladder"])
        effect = Column("effect", lambda row: WORDS["effects"][row["effect"]], is_left=True)
        yield from grid(rows, text("agent"), text("metric"), text("mode"), effect, COUNT, *mean, p_of("p"),
                         p_of("Holm p", "p_holm"), VERDICT)  # fmt: skip
        yield ""
    if report["ladder"]:
        yield "Information ladder: contributions averaged over the orders in which information can be given; they add up"
        ladder = unless_alone(report["ladder"], "agent", report["effects"])
        for (agent, over), rungs in itertools.groupby(ladder, key=lambda row: (row["agent"], row["over"])):
            found = list(rungs)
            yield f"  {f'{agent}, ' if agent else ''}{over}: from {found[0]['from']} to {found[0]['to']}"
            lines = grid(found, text("metric"), text("contribution of", "piece"), COUNT, *mean)
            yield from (f"  {line}" for line in lines)
        yield ""
    yield "Notes"
    yield "  interaction: how much more the stock is worth when the date is in sight too; stock + date = memory premium"
    yield "  data: the table of prices and factors of fixed_candidate; tools: the research tools of open_research"
    yield from (f"  {note}" for note in report["notes"])


# --- luck


@click.command()
@_cards
@click.option("--runs", "stores", multiple=True, type=_PATH, metavar="DIR",
              help="folder of runs to count trials in, besides the cards' own; may be repeated")  # fmt: skip
@_json
def luck(cards: tuple[Path, ...], stores: tuple[Path, ...], as_json: bool) -> None:
    """Report how much of a result is luck, and whether a ranking by return is one by selection.

    CARD is a card file inside its run folder, or a run folder. Every episode that the runs planned counts as a trial, limited and
    unfinished ones too: the deflated Sharpe ratio asks for more than the best that so many worthless trials would have shown.
    """
    report = find_luck(load_entrants(cards), stores)
    show(report, luck_lines(report), as_json)


def luck_lines(report: Row) -> Iterator[str]:
    """Lines of the report of `luck`."""

    def rank(head: str, name: str) -> Column:
        return Column(head, lambda row: UNDEFINED if row[name] is None else f"{row[name]:g}")

    yield "Luck and selection: medians over episodes; psr, dsr: probability that the true Sharpe ratio is above 0, above luck"
    rows = [{"unit": "fraction", **row} for row in report["cards"]]
    trials = Column("trials a window", lambda row: " … ".join(dict.fromkeys(map(str, row["trials"]))))
    note = Column("note", lambda row: row["reason"] or "", is_left=True)
    yield from grid(rows, text("card"), figure_of("return %", "return"), rank("rank", "return_rank"),
                     figure_of("selection %", "selection"), rank("rank ", "selection_rank"),
                     figure_of("as paper %", "paper_selection"), p_of("psr"), p_of("dsr"), trials, note)  # fmt: skip
    ranks = report["ranks"]
    spelled = f"Spearman {ranks['spearman']:+.2f}, Kendall {ranks['kendall']:+.2f}" if ranks["reason"] is None else ranks["reason"]
    yield f"  rank by return against rank by selection: {spelled}"
    yield from (f"  {note}" for note in report["notes"])
    if report["exposures"]:
        yield from ("", "Style exposures: of the NAV, mean over the days on which something was held")
        exposures = [{"unit": "ratio", **row["cards"], **row} for row in report["exposures"]]
        names = list(report["exposures"][0]["cards"])
        is_wide = sum(len(name) + 2 for name in names) > 50  # then columns are numbered, so that the table fits 80 columns
        yield from (f"  {place}: {name}" for place, name in enumerate(names, 1) if is_wide)
        cards = [figure_of(str(place) if is_wide else name, name) for place, name in enumerate(names, 1)]
        same = Column("same sign", lambda row: f"{row['same_sign']} of {row['members']}")
        yield from grid(exposures, text("factor"), *cards, figure_of("mean", "mean"), same)


# --- invariance


@click.command()
@click.argument("cards", nargs=-1, required=True, type=_PATH, metavar="RUN…")
@_alpha
@click.option("--over", type=click.Choice(["episode", "window"]), default="episode", show_default=True,
              help="what intervals vary over: each (window, seed), whose labels are its own, or windows, each the mean of its "
              "seeds")  # fmt: skip
@_common
@_json
def invariance(cards: tuple[Path, ...], alpha: float, over: Literal["episode", "window"], common: bool, as_json: bool) -> None:
    """Report how much changes when only the labels do: runs of one plan under several mask keys.

    RUN is a run folder, or a card in one. Each run shows the same market under other aliases and in another order of rows;
    whatever then changes is noise that every comparison of masked runs carries. A key given twice shows the model's own chance
    beside it, and several seeds what another call seed does.
    """
    report = find_invariance(load_entrants(cards), InvarianceOptions(alpha, over, common))
    show(report, invariance_lines(report), as_json)


def invariance_lines(report: Row) -> Iterator[str]:
    """Lines of the report of `invariance`."""
    keys = sorted({card["mask_key"][:8] for card in report["cards"]})
    yield f"Episodes of one window and seed, set against each other over mask keys {', '.join(keys)}; all in per cent"
    figures = unless_alone(report["figures"], "task")
    what = (text("task"), Column("what differs", lambda row: WORDS["between"][row["between"]], is_left=True))
    pairs = Column("pairs", lambda row: "" if row["pairs"] is None else str(row["pairs"]))
    count = Column("n", lambda row: str(row["cells"] if row["over"] == "episode" else row["windows"]))
    spread = interval(report)
    unsigned = spread._replace(cell=lambda row: spread.cell(row).replace("+", ""))
    name = Column("figure", lambda row: FIGURES[row["figure"]].label, is_left=True)
    yield from grid(figures, *what, name, pairs, count, plain("mean", "value"), unsigned)
    for reason in dict.fromkeys(row["reason"] for row in figures if row["reason"]):
        yield f"  {UNDEFINED}: {reason}"
    less = f"two runs of one model differ by less than this in {100 * (1 - report['alpha']):g} of 100"
    yield from ("", f"What that makes of a total return: {less}")
    noise = report["noise"] if any(row["task"] for row in figures) else [{**row, "task": ""} for row in report["noise"]]
    yield from grid(noise, *what, plain("SD of an episode", "sd"), plain("one episode", "difference_of_one"),
                     plain("mean of all", "difference_of_means"), text("episodes", is_left=False))  # fmt: skip
    yield from ("", "Notes")
    yield "  decisions: sets of (asset, side, weight or shares) in true identities; turnover: 0 the same trades, 100 none in common"
    yield from (f"  {note}" for note in report["notes"])


# --- power


@click.command()
@click.argument("cards", nargs=-1, type=_PATH, metavar="[CARD…]")
@click.option("--windows", type=click.IntRange(1, 300), metavar="N",
              help="windows of the plan [default: those of the cards, or 10]")  # fmt: skip
@click.option("--seeds", type=click.IntRange(1, 1000), metavar="N", help="seeds of each window [default: those of the cards, or 1]")
@click.option(
    "--effect", type=Number(-1e6, 1e6), metavar="X", help="difference in a window's figure that must be found, as a fraction"
)
@click.option("--window-sd", type=_spread, metavar="X",
              help="standard deviation over windows of the true difference of two agents, as a fraction (0.05 is 5 %)")  # fmt: skip
@click.option("--seed-sd", type=_spread, metavar="X", help="the same over seeds of one agent's figure in one window")
@click.option("--tracking-error", type=_spread, metavar="X",
              help="in place of --window-sd: annual, of the difference in return")  # fmt: skip
@click.option("--window-days", type=click.IntRange(1), default=43, show_default=True, metavar="N", help="trading days of a window")
@click.option("--days-per-year", type=Number(1, 1000), default=252, show_default=True, metavar="N",
              help="trading days of a year")  # fmt: skip
@click.option("--alpha", type=Number(0.0001, 0.5), default=0.05, show_default=True,
              help="two-sided level of the comparison")  # fmt: skip
@click.option("--power", "wanted", type=Number(0.01, 0.999), default=0.8, show_default=True,
              help="wanted probability of finding it")  # fmt: skip
@click.option("--comparisons", type=click.IntRange(1), default=1, show_default=True, metavar="N",
              help="tests that share alpha (Bonferroni)")  # fmt: skip
@click.option("--metric", default="total_return", show_default=True, metavar="NAME", help="metric to estimate from cards")
@_seed
@_json
def power(cards: tuple[Path, ...], metric: str, as_json: bool, **given: float | None) -> None:
    """Report what a plan of windows and seeds can tell apart, before it is run.

    The test is that of `ktdeval compare`: Wilcoxon signed-rank over windows, exact. Spreads come from --window-sd and --seed-sd,
    from --tracking-error, or from the differences of two or more cards; without any, effects are in standard deviations.
    """
    if sum(given[name] is not None for name in ("window_sd", "tracking_error")) + bool(cards) > 1:
        raise UsageError("give the spread once: --window-sd, --tracking-error, or cards")
    if given["seed_sd"] is not None and given["window_sd"] is None and given["tracking_error"] is None:
        raise UsageError("--seed-sd needs --window-sd or --tracking-error beside it")
    plan = Plan(**{name: value for name, value in given.items() if value is not None})  # type: ignore[arg-type]
    reports = []
    for name, unit, fields in spreads_of_cards(cards, metric) if cards else [("", "fraction", {})]:
        merged = {field: value for field, value in fields.items() if given.get(field) is None}
        reports.append({"pair": name, "unit": unit, **plan_report(dataclasses.replace(plan, **merged))})
    show(reports if cards else reports[0], _power_lines(reports), as_json)


def _power_lines(reports: Sequence[Row]) -> Iterator[str]:
    first = reports[0]
    yield f"What an exact two-sided test over windows can show at {first['alpha']:g}"
    tests = Column("tests it can carry", lambda row: "over 1000" if row["tests"] > 1000 else str(row["tests"]))
    found = Column("found in SD", lambda row: "nothing" if row["effect_sd"] is None else f"{row['effect_sd']:.3f}")
    yield from grid(first["reach"], text("windows", is_left=False), p_of("smallest p", "smallest_p"), tests, found)
    yield f"  found: effect in standard deviations of a window's difference, with probability {first['power']:g}"
    for report in reports:
        yield from ("", *_plan_lines(report))


def _plan_lines(report: Row) -> Iterator[str]:
    level = f"{report['alpha']:g}" + (f" / {report['comparisons']}" if report["comparisons"] > 1 else "")
    title = f"The plan: {report['windows']} window(s), {report['seeds']} seed(s), level {level}"
    yield f"{report['pair']}: {title}" if report["pair"] else title
    yield from (f"  {line}" for line in report["sentences"])
    if report["by_seeds"]:
        unit, wanted = report["unit"], report["effect"]
        head = "" if wanted is None else f"windows to find {figure(wanted, unit)} {unit_name(unit)}".rstrip()
        known = {"windows_needed": ""} if wanted is None else {}
        rows = [{"unit": unit, **row, **known} for row in report["by_seeds"]]
        seeds = Column("seeds", lambda row: "unlimited" if row["seeds"] is None else str(row["seeds"]))
        needed = Column(head, lambda row: "over 300" if row["windows_needed"] is None else str(row["windows_needed"]))
        yield from grid(rows, seeds, plain("SD of a window's difference", "pair_sd"),
                         plain(f"{report['windows']} windows find", "effect", "nothing"), UNIT,
                         plain("a year", "effect_per_year", ""),
                         plain("z test a year", "effect_normal_per_year", ""), needed)  # fmt: skip
        yield "  z test: the same by the normal approximation, which few windows do not justify"
    if report["reason"]:
        yield f"  {report['reason']}"
