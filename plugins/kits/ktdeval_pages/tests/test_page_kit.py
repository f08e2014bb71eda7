"""Kit of pages: colours that can be read, words for every label, scripts and packed data."""

from __future__ import annotations

import base64
import itertools
import json
import re
import zlib
from collections.abc import Iterator
from importlib.resources import files
from pathlib import Path

import pytest

from ktdeval.cards import card_words
from ktdeval.errors import StoreError
from ktdeval_pages.assets import pack, shared_script, source_hash, stylesheet
from ktdeval_pages.colours import SERIES, TOKENS, css_variables
from ktdeval_pages.page_templates import (
    content_security_policy,
    make_environment,
    refuse_foreign_page,
)
from ktdeval_pages.page_words import OWN_WORDS, WORDS, label_meaning
from support.pages.report_page import contrast

LETTERS = ("ink", "muted", "one", "two", "good", "bad", "warn")


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_letters_and_lines_stand_out_from_their_ground(scheme: str) -> None:
    """WCAG 2.2 AA: a contrast of 4.5 for letters, 3 for what is drawn."""
    codes = {name: getattr(colour, scheme) for name, colour in TOKENS.items()}
    for letters, ground in itertools.product(LETTERS, ("paper", "soft")):
        assert contrast(codes[letters], codes[ground]) >= 4.5, (letters, ground)

    for line in (*SERIES, "other"):
        assert contrast(codes[line], codes["paper"]) >= 3, line


def test_every_token_is_a_variable_in_each_scheme() -> None:
    rules = re.findall(r"\{ (color-scheme: [^}]*)\}", css_variables())
    assert [rule.partition(";")[0] for rule in rules] == [
        "color-scheme: light",
        "color-scheme: dark",
        "color-scheme: dark",
        "color-scheme: light",
    ]

    for rule in rules:
        assert re.findall(r"--(\w+):", rule) == list(TOKENS)


def test_styles_use_only_colours_of_tokens() -> None:
    rules = stylesheet().removeprefix(css_variables())
    assert set(re.findall(r"var\(--(\w+)\)", rules)) <= set(TOKENS)
    opaque = [code for code in re.findall(r"#[0-9a-f]{3,8}\b", rules) if len(code) in (4, 7)]
    assert set(opaque) <= {"#000"}  # the mask of a table's edge


def test_a_label_has_a_meaning_and_another_has_none() -> None:
    meaning = card_words()["labels"]["synthetic"]["meaning"]
    assert label_meaning("synthetic") == meaning.replace("`", "")  # a page shows no Markdown
    assert label_meaning("unheard of") == ""
    assert all(mark.meaning.endswith(".") for mark in WORDS.labels.values())
    assert {mark.tone for mark in WORDS.labels.values()} <= {"", "good", "warn", "bad"}


def test_words_of_cards_are_spelled_nowhere_else() -> None:
    words = card_words()
    assert not words["units"].keys() & OWN_WORDS.units.keys()

    for name, mark in OWN_WORDS.labels.items():
        assert (mark.meaning == "") == (name in words["labels"]), name

    kinds = [*words["provenance"].values(), *words["failures"].values()]
    sources = {path: path.read_text(encoding="utf-8") for path in page_sources()}
    for kind in kinds:
        spelled = [f'"{kind["label"]}"', kind["meaning"]]
        for path, text in sources.items():
            assert not [word for word in spelled if " " in word and word in text], path


def page_sources() -> Iterator[Path]:
    """Scripts, templates and words of the plugins that make pages."""
    for package in (
        "ktdeval_pages",
        "ktdeval_view",
        "ktdeval_report",
        "ktdeval_board",
        "ktdeval_live",
    ):
        folder = Path(str(files(package)))
        for suffix in ("js", "html", "yaml"):
            paths = folder.rglob(f"*.{suffix}")
            yield from (path for path in paths if "vendor" not in path.parts)


def test_scripts_get_tokens_and_words_in_the_order_of_their_files() -> None:
    line = re.search(r"window\.kt = \{values: (.*)\};", shared_script())
    assert line is not None

    values = json.loads(line[1])
    assert values["series"] == list(SERIES)
    assert list(values["words"]["tiers"]) == list(WORDS.tiers)
    assert values["dark"]["paper"] == TOKENS["paper"].dark
    assert "</script" not in shared_script()


def test_packed_data_can_end_no_element() -> None:
    packed = pack(b"</script>" * 9)
    assert zlib.decompress(base64.b64decode(packed)) == b"</script>" * 9
    assert re.fullmatch(r"[A-Za-z0-9+/=]+", packed)


def test_a_frame_states_its_policy_and_escapes_its_title() -> None:
    policy = content_security_policy(source_hash("1"), "'self'", "data:")
    frame = make_environment("ktdeval_view").get_template("pages/frame.html")
    page = frame.render(policy=policy, title="<b>", style="")

    assert "default-src &#39;none&#39;; script-src &#39;sha256-" in page
    assert "<title>&lt;b&gt;</title>" in page


def test_a_page_of_another_generator_is_not_written_over(tmp_path: Path) -> None:
    path = tmp_path / "index.html"
    refuse_foreign_page(path, "ktdeval view")
    path.write_text('<head><meta name="generator" content="ktdeval view"></head>')
    refuse_foreign_page(path, "ktdeval view")

    with pytest.raises(StoreError, match=r"index\.html: was not written by ktdeval live; choose"):
        refuse_foreign_page(path, "ktdeval live")
