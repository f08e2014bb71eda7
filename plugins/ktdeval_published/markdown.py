"""Page of all boards as Markdown, for the documentation."""

from __future__ import annotations

from collections.abc import Sequence

from ktdeval_published.report import BoardReport, EntrantReport, IntervalEstimate
from ktdeval_published.texts import interval_text, result_text
from ktdeval_published.words import NONE, money, number

_TITLE = "# What the published agents really show"
_INTRODUCTION = """\
Public repositories hold dated decisions of real models. This page executes them again, from the
files of each repository at one commit. Every figure comes from one command:

    ktdeval published table --sources FOLDER --prices PRICES --as markdown --out page.md

`FOLDER` holds a clone of each repository. [Recipes](published.md) describe how a board is read, and
how to add yours.

* *Declared* is what a board or its own rows state. *Executed* is what the same orders yield under
  the rules of the venue, at the first price after each decision, with the venue's costs.
* *Before* counts entrant-days that are shown to be published before their prices. *Unknown* is not
  *live*.
* An interval that holds zero is no evidence, whichever sign its figure has. Nor are data in doubt.
* Sentences are made by the program from the figures. None judges the people behind a board.
"""


def markdown_of(reports: Sequence[BoardReport]) -> str:
    """Return the page."""
    lines = [_TITLE, "", "<!-- Written by `ktdeval published table`; do not edit. -->", ""]
    lines += [_INTRODUCTION, "## Summary", "", *_summary(reports)]
    for report in reports:
        lines += ["", f"## {report.title}", "", *_board(report)]
    return "\n".join(lines).rstrip() + "\n"


def _summary(reports: Sequence[BoardReport]) -> list[str]:
    lines = ["| board | what is shown |", "|---|---|"]
    return [*lines, *(f"| {_cell(one.title)} | {_cell(one.sentence)} |" for one in reports)]


def _board(report: BoardReport) -> list[str]:
    figure = (
        f" Its figure: {report.claim_figure} (`{report.claim_where}`)."
        if report.claim_figure
        else ""
    )
    lines = [
        f"[{report.repository}](https://github.com/{report.repository}) at `{report.commit}`,"
        f" {report.licence}; {report.period}.",
        "",
        f"**{report.sentence}**",
        "",
        f"*Claim.* {report.claim}{figure}",
        "",
    ]
    lines += _entrants(report)
    lines += _causes(report)
    lines += ["*Found*", "", *(f"* {_text(one)}" for one in report.findings), ""]
    lines += ["*What does not follow*", "", *(f"* {_text(one)}" for one in report.limits), ""]
    return [
        *lines,
        "*How the authors could close it*",
        "",
        *(f"* {one}" for one in report.close_gap),
    ]


def _entrants(report: BoardReport) -> list[str]:
    if not report.entrants:
        return []
    has_repair = any(one.unrepaired is not None for one in report.entrants)
    heads = ["entrant", "declared", "executed"]
    heads += ["executed, unrepaired"] if has_repair else []
    heads += [
        "Sharpe ratio",
        "95 % interval",
        "days before / after / unknown",
        "break-even cost, bp",
    ]
    lines = [_row(heads), _row(["---", *(["---:"] * (len(heads) - 1))])]
    for one in report.entrants:
        lines.append(_row(_entrant(one, has_repair, len(heads))))
    return [*lines, ""]


def _entrant(one: EntrantReport, has_repair: bool, columns: int) -> list[str]:
    if one.problem:
        return [one.name, f"not readable: {one.problem}", *([""] * (columns - 2))]
    track = one.executed or one.declared
    sharpe = IntervalEstimate() if track is None else track.sharpe
    live = NONE
    if one.live is not None:
        live = f"{one.live.before} / {one.live.after} / {one.live.unknown}"
    cells = [one.name, result_text(one, "declared"), result_text(one, "executed")]
    if has_repair:
        cells.append(result_text(one, "unrepaired"))
    even = one.costs[0].breakeven_bps if one.costs else None
    return [*cells, number(sharpe.value), interval_text(sharpe), live, number(even, 1)]


def _causes(report: BoardReport) -> list[str]:
    """Return the gap by cause, in currency."""
    with_causes = [one for one in report.entrants if one.causes and one.executed is not None]
    if not with_causes:
        return []
    names = [cause.name for cause in with_causes[0].causes]
    heads = [f"executed less declared, by cause, {report.currency}", *names, "unexplained"]
    lines = [_row(heads), _row(["---", *(["---:"] * (len(heads) - 1))])]
    for one in with_causes:
        amounts = [money(cause.amount, signed=True) for cause in one.causes]
        rest = money(one.residual, signed=True)
        lines.append(_row([one.name, *amounts, rest]))
    return [*lines, ""]


def _row(cells: Sequence[str]) -> str:
    return f"| {' | '.join(_cell(cell) for cell in cells)} |"


def _cell(text: str) -> str:
    return _text(text).replace("|", "\\|").replace("\n", " ")


def _text(text: str) -> str:
    return text.replace("<", "&lt;").replace("*", "\\*")
