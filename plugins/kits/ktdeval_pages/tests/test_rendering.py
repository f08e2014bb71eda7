"""Specs become files: words, sizes and what happens where nothing can be drawn."""

from __future__ import annotations

import sys

import pytest

from ktdeval.cli.forked_command import ForkedCall
from ktdeval.errors import UsageError
from ktdeval.values import install_command
from ktdeval_pages.marks import Spec, layer, measure, path_rows, whole_spec
from ktdeval_pages.rendering import png_of, require_renderer, svg_of

pytest.importorskip("vl_convert")


def spec() -> Spec:
    rows = path_rows([0.0, 1.0, 2.0], [1.0, float("nan"), 3.0])
    encoding = {"x": measure("x", "days <1>"), "y": measure("y", "share, %")}
    return whole_spec(layer("line", encoding, rows), 'A "line" & more')


def test_a_figure_is_one_element_with_its_text_alternative() -> None:
    drawn = svg_of(spec())

    assert drawn.startswith('<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 ')
    assert 'role="img" overflow="visible" aria-label="A &#34;line&#34; &amp; more">' in drawn
    assert drawn.count("aria-label") == 1
    assert "days &lt;1&gt;" in drawn
    assert "share, %" in drawn
    assert drawn.endswith("</svg>")


@pytest.mark.slow
def test_equal_specs_give_equal_bytes() -> None:
    assert svg_of(spec()) == svg_of(spec())
    assert png_of(spec()) == png_of(spec())
    assert png_of(spec()).startswith(b"\x89PNG")


def test_without_the_renderer_one_line_names_the_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "vl_convert", None)

    with pytest.raises(UsageError, match="a report is drawn with vl-convert") as refusal:
        require_renderer("a report")

    assert install_command("report") in str(refusal.value)


@pytest.mark.slow
def test_a_fork_of_a_process_that_drew_leaves_drawing_to_it() -> None:
    drawn = svg_of(spec())

    assert ForkedCall(lambda: svg_of(spec())).result() == drawn
