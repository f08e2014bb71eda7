"""Three pictures that show the point of the suite, as SVG for light and dark screens.

    make screenshots

runs `ktdeval demo`, a minute and a half without a network or a key, and writes docs/images/*.svg from its
cards: does a model remember or invest, and where does a return come from. Is it luck is computed
from the Sharpe ratio that the README judges.
"""

from __future__ import annotations

import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from html import escape
from pathlib import Path

import numpy as np
from click.testing import CliRunner

import ktdeval
from ktdeval.cli.main import cli
from ktdeval.values import load_yaml
from ktdeval_judge.printed_figure import PrintedFigure, reached_by_luck
from support.paths import REPOSITORY

IMAGES = REPOSITORY / "docs/images"
TOKENS = REPOSITORY / "plugins/kits/ktdeval_pages/tokens.yaml"
#: The best Sharpe ratio that Agent Market Arena prints, of 64 different results
PRINTED = PrintedFigure(sharpe=6.47, days=40, trials=64)
PARTS = {
    "market": "common_return",
    "industries": "industry_return",
    "style": "style_return",
    "selection": "selection_alpha",
    "trading": "trading_effect",
}
WIDTH, HEIGHT, MARGIN = 640, 300, 24
MINUS = "\N{MINUS SIGN}"


def pictures(demo: Path) -> dict[str, str]:
    """Return the pictures by file name. `demo` is the folder that `ktdeval demo` wrote."""
    return {
        "remembers-or-invests.svg": memory_picture(demo / "memory"),
        "where-it-came-from.svg": parts_picture(demo / "low_volatility"),
        "is-it-luck.svg": luck_picture(PRINTED),
    }


# ---- remembers or invests


def memory_picture(run: Path) -> str:
    """Return the returns of a model with a memory, with and without names in sight."""
    returns_of = ktdeval.load_run(run).episodes().total_return
    groups = {}
    for label, task in (
        ("names shown", "bright_open_research"),
        ("names hidden", "blinded_open_research"),
    ):
        groups[label] = [100 * float(value) for value in returns_of.loc[task]]

    scale = Scale((-20.0, 140.0), (HEIGHT - 44.0, 76.0))
    shapes = [text(MARGIN, 60, "return, two windows", "muted")]
    for index, (label, returns) in enumerate(groups.items()):
        middle = 170.0 + 240.0 * index
        mean = float(np.mean(returns))
        shapes.append(bar(middle - 50, scale(mean), 100, scale(0) - scale(mean), "band2"))
        shapes += [dot(middle, scale(value)) for value in returns]
        shapes.append(text(middle + 62, scale(mean) + 6, percent(mean, 0), "figure"))
        shapes.append(text(middle, HEIGHT - 16, label, "middle"))

    shapes.append(line(90, scale(0), WIDTH - MARGIN, scale(0)))
    return drawing("Remembers or invests?", shapes)


# ---- where the return came from


def parts_picture(run: Path) -> str:
    """Return the parts of a rule's return over the long window, as bars around zero."""
    loaded = ktdeval.load_run(run)
    (card,) = loaded.typed_cards
    (window,) = card.windows
    values = {name: 100 * card.metrics[metric].value for name, metric in PARTS.items()}
    total = 100 * card.metrics["total_return"].value

    scale = Scale((-20.0, 60.0), (150.0, WIDTH - 90.0))
    shapes = [text(MARGIN, 60, f"low volatility, {window.days} days", "muted")]
    for index, (name, value) in enumerate(values.items()):
        top = 80.0 + 42 * index
        start, end = sorted((scale(0), scale(value)))
        colour = "good" if value > 0 else "bad"
        shapes.append(bar(start, top, end - start, 28, colour))
        shapes.append(text(MARGIN, top + 20, name, ""))
        shapes.append(text(max(end, scale(0)) + 10, top + 20, percent(value, 1), "figure small"))

    shapes.append(line(scale(0), 74, scale(0), HEIGHT - 18))
    return drawing(f"Where {percent(total, 1)} came from", shapes)


# ---- is it luck


def luck_picture(figure: PrintedFigure) -> str:
    """Return the density of the best Sharpe ratio of so many tries without skill."""
    grid = np.union1d(np.linspace(2.0, 12.0, 201), figure.sharpe)
    beaten = np.array([reached_by_luck(printed(figure, ratio), figure.trials) for ratio in grid])
    density = -np.gradient(beaten, grid)
    across = Scale((grid[0], grid[-1]), (MARGIN, WIDTH - MARGIN))
    up = Scale((0.0, float(density.max())), (HEIGHT - 46.0, 84.0))
    points = [(across(x), up(y)) for x, y in zip(grid, density, strict=True)]
    beyond = [(x, y) for x, y in points if x >= across(figure.sharpe)]
    share = reached_by_luck(figure, figure.trials)

    at = across(figure.sharpe)
    shapes = [
        text(MARGIN, 60, f"best of {figure.trials} without skill", "muted"),
        area(points, up(0), "band2"),
        area(beyond, up(0), "bad"),
        line(at, 70, at, up(0)),
        text(at + 10, 84, f"printed {figure.sharpe}", ""),
        text(at + 96, up(0) - 50, f"{100 * share:.1f} %", "figure"),
        line(MARGIN, up(0), WIDTH - MARGIN, up(0)),
        text(WIDTH - MARGIN, HEIGHT - 10, "Sharpe ratio", "muted end"),
    ]
    shapes += [text(across(x), HEIGHT - 26, str(x), "muted middle") for x in (4, 6, 8, 10)]
    return drawing("Is it luck?", shapes)


def printed(figure: PrintedFigure, ratio: float) -> PrintedFigure:
    """Return the figure with another ratio, against luck of the same size."""
    return PrintedFigure(sharpe=float(ratio), days=figure.days, trials=figure.trials)


# ---- one style


@dataclass(frozen=True)
class Scale:
    """Linear map from values to pixels."""

    values: tuple[float, float]
    pixels: tuple[float, float]

    def __call__(self, value: float) -> float:
        (low, high), (start, end) = self.values, self.pixels
        return start + (value - low) / (high - low) * (end - start)


def percent(value: float, digits: int) -> str:
    return f"{value:+.{digits}f} %".replace("-", MINUS)


def text(x: float, y: float, words: str, classes: str) -> str:
    return f'<text x="{x:.1f}" y="{y:.1f}" class="{classes}">{escape(words)}</text>'


def bar(x: float, y: float, width: float, height: float, colour: str) -> str:
    return (
        f'<rect x="{x:.1f}" y="{y:.1f}" width="{width:.1f}" height="{height:.1f}"'
        f' fill="var(--{colour})"/>'
    )


def dot(x: float, y: float) -> str:
    return f'<circle cx="{x:.1f}" cy="{y:.1f}" r="6" class="dot"/>'


def line(x: float, y: float, x_end: float, y_end: float) -> str:
    return f'<path d="M{x:.1f} {y:.1f}L{x_end:.1f} {y_end:.1f}" class="line"/>'


def area(points: Sequence[tuple[float, float]], floor: float, colour: str) -> str:
    """Return the area between a curve and its floor."""
    curve = "L".join(f"{x:.1f} {y:.1f}" for x, y in points)
    start, end = points[0][0], points[-1][0]
    return (
        f'<path d="M{start:.1f} {floor:.1f}L{curve}L{end:.1f} {floor:.1f}Z"'
        f' fill="var(--{colour})"/>'
    )


def drawing(title: str, shapes: Sequence[str]) -> str:
    """Return one SVG without scripts, in the colours of the pages."""
    colours = load_yaml(TOKENS)
    tokens = {**colours["surfaces"], **colours["plots"], **colours["series"]}
    style = (
        f":root{{{_variables(tokens, 0)}}}"
        f"@media (prefers-color-scheme:dark){{:root{{{_variables(tokens, 1)}}}}}"
        "text{font:16px system-ui,-apple-system,'Segoe UI',Roboto,sans-serif;fill:var(--ink)}"
        ".title{font-size:22px;font-weight:600}.muted{fill:var(--muted)}"
        ".figure{font-size:22px;font-weight:600}.small{font-size:16px}"
        ".middle{text-anchor:middle}.end{text-anchor:end}"
        ".line{stroke:var(--ink);stroke-width:1.5;fill:none}"
        ".dot{fill:var(--series1);stroke:var(--paper);stroke-width:2}"
    )
    ground = (
        f'<rect x=".5" y=".5" width="{WIDTH - 1}" height="{HEIGHT - 1}" rx="8"'
        ' fill="var(--paper)" stroke="var(--rule)"/>'
    )
    return "\n".join(
        [
            f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}"'
            f' width="{WIDTH}" height="{HEIGHT}" role="img" aria-labelledby="t">',
            f'<title id="t">{escape(title)}</title>',
            f"<style>{style}</style>",
            ground,
            text(MARGIN, 36, title, "title"),
            *shapes,
            "</svg>\n",
        ]
    )


def _variables(tokens: Mapping[str, Sequence[str]], scheme: int) -> str:
    wanted = ("paper", "ink", "muted", "rule", "good", "bad", "band2", "series1")
    return ";".join(f"--{name}:{tokens[name][scheme]}" for name in wanted)


def main() -> None:
    """Run the demo and write the pictures."""
    with tempfile.TemporaryDirectory() as folder:
        demo = Path(folder) / "demo"
        CliRunner().invoke(cli, ["demo", "--out", str(demo), "--quiet"], catch_exceptions=False)
        for name, picture in pictures(demo).items():
            (IMAGES / name).write_text(picture, encoding="utf-8")


if __name__ == "__main__":
    main()
