"""Equal figures give equal files, wherever the layout's solver finds its variables in memory."""

from __future__ import annotations

import random

import pytest

matplotlib = pytest.importorskip("matplotlib")

from matplotlib.figure import Figure  # noqa: E402

from ktdeval_pages.figure_files import fix_layout, svg_of  # noqa: E402


def laid_out() -> Figure:
    """A figure with parts of its own, whose places the constrained layout finds."""
    figure = Figure(figsize=(8.0, 5.0), layout="constrained")
    parts = figure.subfigures(2, 1, squeeze=False, height_ratios=[0.45, 3.0])
    head, body = parts[:, 0]
    head.text(0.0, 1.0, "caption", va="top")
    for axes in body.subplots(1, 3):
        axes.plot([1, 2, 3], [3, 1, 2])
        axes.set_title("something longer")
        axes.set_ylabel("value")

    return figure


@pytest.mark.exhaustive
@pytest.mark.slow
def test_equal_figures_have_one_svg_whatever_lies_in_memory() -> None:
    draw = random.Random(1)
    kept: list[bytearray] = []
    found: set[bytes] = set()
    with matplotlib.rc_context({"svg.hashsalt": "ktdeval"}):
        for _ in range(8):
            # what is freed in between changes the addresses that the next figure gets
            kept += [bytearray(draw.randrange(30, 300)) for _ in range(draw.randrange(2_000))]
            draw.shuffle(kept)
            del kept[::2]
            found.add(svg_of(laid_out()))

    assert len(found) == 1


@pytest.mark.exhaustive
@pytest.mark.slow
def test_places_are_rounded_and_stay_when_the_figure_is_drawn() -> None:
    figure = laid_out()
    fix_layout(figure)
    before = [axes.get_position().bounds for axes in figure.get_axes()]
    figure.draw_without_rendering()

    assert [axes.get_position().bounds for axes in figure.get_axes()] == before
    for axes in figure.get_axes():
        edges = axes.get_position(original=True).get_points()
        assert edges == pytest.approx(edges.round(4), abs=1e-15)


def test_a_figure_without_a_layout_is_refused() -> None:
    with pytest.raises(ValueError, match="no layout"):
        fix_layout(Figure())
