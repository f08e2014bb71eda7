"""`ktdeval view share`: what the picture of a run says, and that it says no more than its card."""

from __future__ import annotations

import re
from pathlib import Path
from xml.etree import ElementTree as ET

import pytest

from ktdeval.cards import load_evaluation
from ktdeval.values import loads_strict, sha256_hex
from ktdeval_pages.card_sentences import card_sentence
from ktdeval_pages.share_pictures import ShareBar, SharedTexts, bars, cut, share_svg
from support.runs.run_support import ktdeval

pytestmark = pytest.mark.slow

TASK = "blinded_open_research"
SVG = "{http://www.w3.org/2000/svg}"


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run of two windows on the embedded market."""
    folder = tmp_path_factory.mktemp("shared")
    done = ktdeval(
        *("run", "--model", "builtin/momentum", "--tasks", TASK, "--windows", "W1,W2"),
        *("--out", "mine", "--quiet"),
        cwd=folder,
    )
    assert done.code == 0, done
    return folder


def texts_of(svg: str) -> list[str]:
    return [element.text or "" for element in ET.fromstring(svg).iter(f"{SVG}text")]


def test_the_picture_has_what_the_card_says(folder: Path) -> None:
    done = ktdeval("view", "share", "mine", "--out", "a.svg", "--json", cwd=folder)
    assert loads_strict(done.out)["verified"] is False
    svg = (folder / "a.svg").read_text()
    root = ET.fromstring(svg)
    assert (root.get("width"), root.get("height")) == ("1200", "630")

    path = folder / "mine" / "cards" / f"{TASK}.json"
    card = load_evaluation(path)
    shown = " ".join(texts_of(svg))
    assert card_sentence(card) in shown
    assert sha256_hex(path.read_bytes())[:16] in shown
    for words in ("builtin/momentum", "synthetic", "not verified", TASK):
        assert words in shown

    # the five parts are those of the drawn episode, whose return they add up to
    window = re.search(r"Drawn: .* in (W[12]), seed 0", shown)
    assert window is not None
    (episode,) = [one for one in card.episodes if one.window == window[1]]
    values = re.findall(r"([+−]\d+\.\d\d)\N{NARROW NO-BREAK SPACE}%", shown)
    parts = [float(text.replace("−", "-")) for text in values[-5:]]
    total = 100 * (episode.metrics["total_return"].value or 0.0)
    assert sum(parts) == pytest.approx(total, abs=0.03)


def test_a_verified_card_loses_the_mark_and_equal_runs_have_equal_pictures(folder: Path) -> None:
    for name in ("b.svg", "c.svg"):
        done = ktdeval("view", "share", "mine", "--verify", "--out", name, cwd=folder)
        assert done.code == 0, done

    first = (folder / "b.svg").read_bytes()
    assert first == (folder / "c.svg").read_bytes()
    assert b"not verified" not in first


def test_a_changed_card_is_not_verified(folder: Path, tmp_path: Path) -> None:
    path = folder / "mine" / "cards" / f"{TASK}.json"
    whole = path.read_bytes()
    try:
        path.write_bytes(whole.replace(b"builtin/momentum", b"builtin/mementum"))
        done = ktdeval(
            *("view", "share", "mine", "--verify", "--out", tmp_path / "d.svg"), cwd=folder
        )
    finally:
        path.write_bytes(whole)

    assert done.code == 0, done
    assert "no readable card" in done.err
    assert "not verified" in " ".join(texts_of((tmp_path / "d.svg").read_text()))


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("mine", "--out", "a.jpg"), "name a file that ends in .png or .svg"),
        (("nowhere",), "no run here"),
        (("mine", "--episode", "W9"), "W9"),
    ],
)
def test_a_wrong_request_has_one_line(folder: Path, words: tuple[str, ...], message: str) -> None:
    done = ktdeval("view", "share", *words, cwd=folder)
    assert done.code == 2
    assert message in done.err.splitlines()[-1]


def test_hostile_names_are_text_on_one_line() -> None:
    name = "<script>alert(1)</script>\u202e\n" + "x" * 400
    texts = SharedTexts(name, name, name * 3, ["synthetic"], name)
    svg = share_svg(texts, bars(name, [ShareBar(name, 0.1), ShareBar("b", -0.2)]))
    root = ET.fromstring(svg)

    assert not list(root.iter(f"{SVG}script"))
    assert "\u202e" not in svg
    for text in texts_of(svg):
        assert "\n" not in text
    assert cut("abc", 20, 1000) == "abc"
    assert cut("a" * 400, 20, 100).endswith("…")
