"""Reports as tables of aligned plain text: the one place that prints what the commands on several cards find."""

from __future__ import annotations

import itertools
import operator
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import NamedTuple

from ktdeval.cards import SIDES, is_fraction
from ktdeval.cli import grid_lines
from ktdeval_compare.cohort import TEXTS
from ktdeval_compare.entrants import Row
from ktdeval_compare.invariance import FIGURES, WORDS

UNDEFINED = "-"
_UNITS = {metric: unit for _, metric, unit, *_ in TEXTS["baseline"]}


class Column(NamedTuple):
    """Column of a table: its head, and how a row is shown in it."""

    head: str
    cell: Callable[[Row], str]
    is_left: bool = False


def grid(rows: Iterable[Row], *columns: Column) -> Iterator[str]:
    """Lines of an aligned table."""
    cells = [[column.cell(row) for column in columns] for row in rows]
    yield from (f"  {line}" for line in grid_lines([column.head for column in columns], cells,
                                                   [column.head for column in columns if column.is_left]))  # fmt: skip


def text(head: str, name: str = "", is_left: bool = True) -> Column:
    """A column of texts."""
    return Column(head, lambda row: str(row[name or head]), is_left)


def figure_of(head: str, name: str = "value") -> Column:
    """A column of signed figures."""
    return Column(head, lambda row: figure(row[name], row["unit"]))


def plain(head: str, name: str, none: str = UNDEFINED) -> Column:
    """A figure without the sign of a positive one."""
    return Column(head, lambda row: none if row[name] is None else figure(row[name], row["unit"]).removeprefix("+"))


def p_of(head: str, name: str = "") -> Column:
    """A column of p-values."""
    return Column(head, lambda row: p_value(row[name or head]))


COUNT = text("n", is_left=False)
UNIT = Column("", lambda row: unit_name(row["unit"]))
VERDICT = Column("verdict", lambda row: row["verdict"] or f"not tested: {row['reason']}", is_left=True)


def interval(alpha: float, is_signed: bool = True) -> Column:
    """A column of both ends of an interval, with its level."""
    plus = "+" if is_signed else ""
    return Column(f"{100 * (1 - alpha):g} % interval", lambda row: both(row["low"], row["high"], row["unit"]).replace("+", plus))


def unless_alone(rows: Sequence[Row], key: str, others: Sequence[Row] = ()) -> list[Row]:
    """Rows, with an empty `key` where all of them (and of the others) have the same."""
    return list(rows) if len({row[key] for row in (*rows, *others)}) > 1 else [{**row, key: ""} for row in rows]


def figure(value: float | None, unit: str) -> str:
    """A signed figure; fractions in per cent."""
    if value is None:
        return UNDEFINED
    scaled = 100.0 * value if is_fraction(unit) else value
    text = f"{scaled:+.{3 if abs(scaled) < 10 else 2}f}"
    return text[1:] if float(text) == 0 else text


def both(low: float | None, high: float | None, unit: str) -> str:
    """Both ends of an interval."""
    return UNDEFINED if low is None or high is None else f"{figure(low, unit)} … {figure(high, unit)}"


def p_value(value: float | None) -> str:
    """Three significant digits."""
    return UNDEFINED if value is None else f"{value:.4f}" if value >= 1e-4 else f"{value:.0e}"


def unit_name(unit: str) -> str:
    """A unit as tables show it."""
    return "%" if is_fraction(unit) else unit if unit != "ratio" else ""


def compare_lines(report: Row) -> Iterator[str]:
    """Lines of the report of `compare`."""
    pair = "windows, each the median over its seeds" if report["unit"] == "window" else "(window, seed) pairs"
    sides = (text("task"), text("first"), text("second"))
    effect = Column("effect", lambda row: UNDEFINED if row["rank_biserial"] is None else f"{row['rank_biserial']:+z.2f}")
    flips = Column("flip p", lambda row: p_value(row["sign_flip"]["p"]))
    tests = [{**row["shift"], **row} for row in unless_alone(report["tests"], "task")]
    yield f"Paired differences, first - second, over {pair}"
    yield from grid(tests, sides[0], text("metric"), *sides[1:], COUNT, figure_of("shift"), UNIT, interval(report["alpha"]), effect,
                     p_of("p"), flips, p_of("Holm p", "p_holm"), p_of("BH p", "p_benjamini_hochberg"), VERDICT)  # fmt: skip
    yield "  shift: Hodges-Lehmann; effect: rank-biserial, -1 … 1; p: Wilcoxon; flip p: sign flips; verdict: by Holm p"
    yield from ("", "Daily returns (mean over seeds): difference of annualised Sharpe ratios")
    daily = [{"unit": "ratio", **row} for row in unless_alone(report["daily"], "task")]
    if tested := [row for row in daily if row["value"] is not None]:
        yield from grid(tested, *sides, text("days", "n", is_left=False), figure_of("difference"), interval(report["alpha"]),
                         p_of("p"), p_of("Holm p", "p_holm"), VERDICT)  # fmt: skip
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


def score_lines(report: Row) -> Iterator[str]:
    """Lines of the report of `compare` on cards of scoring tasks."""
    yield "Scores of each card"
    for task, rows in itertools.groupby(report["scores"], key=lambda row: row["task"]):
        yield f"  {task}"
        yield from (f"  {line}" for line in grid(list(rows), text("score"), text("card"), plain("value", "value"),
                    UNIT, interval(0.05, is_signed=False), plain("baseline", "baseline"), COUNT))  # fmt: skip
    yield from ("", "Differences, first - second, paired by sample")
    if report["tests"]:
        yield from grid(report["tests"], text("task"), text("score"), text("first"), text("second"),
                              COUNT, text("differing", is_left=False), figure_of("difference"), UNIT,
                              interval(report["alpha"]), p_of("p"), p_of("Holm p", "p_holm"), VERDICT)  # fmt: skip
    yield "  interval: t over samples; p: sign flips of the samples' differences; verdict: by Holm p"
    if report["notes"]:
        yield from ("", "Notes", *(f"  {note}" for note in report["notes"]))


def variance_lines(report: Row) -> Iterator[str]:
    """Lines of the report of `compare --factor`."""
    sizes = " × ".join(f"{count} {factor}s" for count, factor in zip(report["levels"], report["factors"], strict=True))
    each = "one run each" if report["replicates"] == 1 else f"{report['replicates']} runs each"
    yield f"Shares of the variance of {report['metric']}: {sizes}, {each}"
    fitted = [plain("REML", "reml")] if report["replicates"] > 1 else []
    columns = (text("asset"), text("source"), text("df", is_left=False), plain("share", "share"), plain("component", "component"),
               interval(report["alpha"], is_signed=False), *fitted, p_of("p"), p_of("Holm p", "p_holm"), p_of("F p", "p_f"),
               text("verdict"))  # fmt: skip
    yield from grid(unless_alone(report["shares"], "asset"), *columns)
    yield "  share: of the sum of squares of these runs; component: of the variance among other such levels, with its interval"
    yield "  p: permutations within each combination of the other factors (interactions: F); Holm p: over assets; verdict: by it"
    if report["without"]:
        yield from ("", f"Share of the {report['factors'][0]} without each {report['factors'][0]}")
        first = [row for row in report["without"] if row["source"] == report["factors"][0]]
        yield from grid(unless_alone(first, "asset"), text("without"), *columns)
    yield from ("", f"Identical runs ({report['compared']})")
    for row in report["identical"]:
        agents = dict.fromkeys(run[0] for run in row["runs"])
        whose = next(iter(agents)) if len(agents) == 1 else "across agents"
        runs = ", ".join(" × ".join(run if len(agents) > 1 else run[1:]) for run in row["runs"])
        places = ", ".join(filter(None, row["places"]))
        flat = "; never moved" if row["is_flat"] else ""
        yield f"  {whose}: {len(row['runs'])} runs ({runs}){f' on {places}' if places else ''}{flat}"
    if not report["identical"]:
        yield "  none"
    if report["source"] or report["notes"]:
        yield from ("", "Notes", *(f"  {note}" for note in (*report["source"], *report["notes"])))


def effects_lines(report: Row) -> Iterator[str]:
    """Lines of the report of `effects`."""
    mean = (figure_of("mean"), UNIT, interval(report["alpha"]))
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
            steps = list(rungs)
            yield f"  {f'{agent}, ' if agent else ''}{over}: from {steps[0]['from']} to {steps[0]['to']}"
            lines = grid(steps, text("metric"), text("contribution of", "piece"), COUNT, *mean)
            yield from (f"  {line}" for line in lines)
        yield ""
    yield "Notes"
    yield "  interaction: how much more the stock is worth when the date is in sight too; stock + date = memory premium"
    yield "  data: the table of prices and factors of fixed_candidate; tools: the research tools of open_research"
    yield from (f"  {note}" for note in report["notes"])


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
    spelled = ranks["reason"] or f"Spearman {ranks['spearman']:+z.2f}, Kendall {ranks['kendall']:+z.2f}"
    yield f"  rank by return against rank by selection: {spelled}"
    yield from (f"  {note}" for note in report["notes"])
    if report["exposures"]:
        yield from ("", "Style exposures: of the NAV, mean over the days on which something was held")
        exposures = [{"unit": "ratio", **row["cards"], **row} for row in report["exposures"]]
        names = list(report["exposures"][0]["cards"])
        is_wide = sum(len(name) + 2 for name in names) > 50  # then columns are numbered, so that the table fits 80 columns
        yield from (f"  {number}: {name}" for number, name in enumerate(names, 1) if is_wide)
        cards = [figure_of(str(number) if is_wide else name, name) for number, name in enumerate(names, 1)]
        same = Column("same sign", lambda row: f"{row['same_sign']} of {row['members']}")
        yield from grid(exposures, text("factor"), *cards, figure_of("mean", "mean"), same)


def invariance_lines(report: Row) -> Iterator[str]:
    """Lines of the report of `invariance`."""
    keys = sorted({card["mask_key"][:8] for card in report["cards"]})
    yield f"Episodes of one window and seed, set against each other over mask keys {', '.join(keys)}; all in per cent"
    figures = unless_alone(report["figures"], "task")
    what = (text("task"), Column("what differs", lambda row: WORDS["between"][row["between"]], is_left=True))
    pairs = Column("pairs", lambda row: "" if row["pairs"] is None else str(row["pairs"]))
    count = Column("n", lambda row: str(row["cells"] if row["over"] == "episode" else row["windows"]))
    name = Column("figure", lambda row: FIGURES[row["figure"]].label, is_left=True)
    yield from grid(figures, *what, name, pairs, count, plain("mean", "value"), interval(report["alpha"], is_signed=False))
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


def key_lines(report: Row) -> Iterator[str]:
    """Lines of the report of `invariance --keys`."""
    yield (
        f"A model that buys the first {report['positions']} names listed and keeps them, over {report['keys']:,} mask keys: "
        "total return in per cent"
    )
    for (task, card), rows in itertools.groupby(report["spread"], operator.itemgetter("task", "card")):
        yield f"  {task}, {card}"
        quantiles = [figure_of(f"{level} %", f"q{level}") for level in (5, 25, 50, 75, 95)]
        rank = Column("rank", lambda row: f"{row['rank']:.3f}")
        bought = Column("first listed bought", lambda row: f"{row['among_first']} of {row['bought']} ({row['by_chance']:.1f})")
        yield from grid(rows, text("window"), COUNT, *quantiles, figure_of("this key", "own"), rank, bought)
    yield from ("", "Notes")
    yield "  rank: share of keys under which that model does worse than under the card's; without a choice every rank is as likely"
    yield "  first listed bought: of the names that the card bought at the first steps of its episodes (by chance)"
    yield from (f"  {note}" for note in report["notes"])


def cohort_lines(report: Row) -> Iterator[str]:
    """Lines of the report of `cohort`."""
    titles, legends, alpha = TEXTS["titles"], TEXTS["legends"], report["alpha"]
    if report["exposures"]:
        yield titles["exposures"]
        yield from _exposure_lines(report)
        yield from (f"  {legends['exposures']}", "")
    yield titles["baseline"]
    rows = []
    for row in report["baseline"]:
        values = {name: figure(cell["value"], _UNITS[name]) for name, cell in row["figures"].items()}
        rows.append({**row, "seeds": "" if row["seeds"] is None else str(row["seeds"]), **values})
        ends = {name: both(cell["low"], cell["high"], _UNITS[name]) for name, cell in row["figures"].items()}
        if set(ends.values()) != {UNDEFINED}:
            rows.append({"model": f"  {100 * (1 - alpha):g} % interval", "cohort": "", "seeds": "", **ends})
    figures = [Column(head, lambda row, of=name: row[of].replace("+", "")) for head, name, *_ in TEXTS["baseline"]]  # type: ignore[misc]
    yield from grid(rows, text("model"), text("cohort"), text("seeds", is_left=False), *figures)
    yield from (f"  {legends['baseline']}", "")
    if report["declines"]:
        yield titles["declines"]
        declined = [Column(mask, lambda row, of=mask: _declined(row[of], row["n"])) for mask in ("bright", "blinded")]  # type: ignore[misc]
        unknown = text("not known", "not_known", is_left=False)
        yield from grid(report["declines"], text("model"), text("mode"), COUNT, *declined, p_of("p"), unknown)
        yield from (f"  {legends['declines']}", "")
    yield from ("Notes", *(f"  {note}" for note in report["notes"]))


def _exposure_lines(report: Row) -> Iterator[str]:
    columns, cohorts, agreement = [text("factor")], report["cohorts"], report["agreement"]
    for name in (row["cohort"] for row in cohorts):
        of = operator.itemgetter(name)
        columns += [Column(name, lambda row, of=of: figure(of(row["cohorts"])["mean"], "ratio")),  # type: ignore[misc]
                    Column("same sign", lambda row, of=of: "{same_sign} of {members}".format_map(of(row["cohorts"])))]  # type: ignore[misc]  # fmt: skip
    yield from grid(report["exposures"], *columns)
    yield from (
        "  {cohort}: {same_sign} of {members} models have the signs of its mean in all factors".format_map(row) for row in cohorts
    )
    if len(cohorts) > 1:
        agree, shown = (", ".join(agreement[name]) or "none" for name in ("agree", "agreement_shown"))
        yield f"  cohorts agree in sign on {len(agreement['agree'])} of {agreement['factors']} factors: {agree}"
        yield f"  with every cohort's interval on that side of zero: {shown}"
        sides = (text("first"), text("second")) if len(cohorts) > 2 else ()
        head = "difference" if sides else " - ".join(row["cohort"] for row in cohorts)
        yield from ("", *grid(report["differences"], text("factor"), *sides, figure_of(head), interval(report["alpha"]), p_of("p"),
                              p_of("Holm p", "p_holm"), VERDICT._replace(head="higher")))  # fmt: skip


def _declined(share: Row, n: int) -> str:
    return f"{share['declined']} of {n}" + ("" if share["low"] is None else f" [{share['low']:.2f}, {share['high']:.2f}]")


def cutoff_lines(report: Row) -> Iterator[str]:
    """Lines of the report of `cutoff`."""
    yield "Means a year, in %, before and after the end of the model's training data; decay: before less after"
    rows = [row for row in report["cards"] if row["figure"]]
    counts = (text(side, f"days_{side}", is_left=False) for side in SIDES)
    if rows:
        yield from grid(rows, text("card"), text("cutoff"), text("of", "confidence"), text("figure"), *counts,
                    figure_of("mean before", "mean_before"), figure_of("mean after", "mean_after"), figure_of("decay"),
                    interval(report["alpha"]))  # fmt: skip
    yield "  before, across, after: days; a day across the cutoff stands in neither mean"
    notes = [f"{row['card']}: {row['figure'] or 'cutoff'}: {row['reason']}" for row in report["cards"] if row["reason"]]
    sources = [f"{row['model']}: {row['source']}" for row in rows if row["source"]]
    if shown := list(dict.fromkeys([*notes, *sources, *report["notes"]])):
        yield from ("", "Notes", *(f"  {note}" for note in shown))


def power_lines(reports: Sequence[Row]) -> Iterator[str]:
    """Lines of the reports of `power`, one for each pair of cards."""
    first = reports[0]
    yield f"What an exact two-sided test over windows can show at {first['alpha']:g}"
    tests = Column("tests it can carry", lambda row: "over 1000" if row["tests"] > 1000 else str(row["tests"]))
    effect = Column("found in SD", lambda row: "nothing" if row["effect_sd"] is None else f"{row['effect_sd']:.3f}")
    yield from grid(first["reach"], text("windows", is_left=False), p_of("smallest p", "smallest_p"), tests, effect)
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
