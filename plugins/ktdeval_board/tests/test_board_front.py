"""What a board's first page says without scripts, and what link previews show of it."""

from __future__ import annotations

import copy
import re
import shutil
import sys
from html import unescape
from pathlib import Path

import pytest

from ktdeval.testing import on_each_row
from ktdeval_board.rules import Rules
from ktdeval_board.site.build import build_site
from ktdeval_board.site.files import render_pages
from ktdeval_board.site.front import PREVIEW, front_of, preview_svg, site_address

ADDRESS = "https://boards.example/tiny/"
HOSTILE = "<img src=x onerror=alert(1)>\u202egnirts"


@pytest.fixture
def addressed(forged, tmp_path: Path) -> Path:
    """A board that knows the address of its site."""
    folder = Path(shutil.copytree(forged.folder.path, tmp_path / "board"))
    rules = folder / "board.yaml"
    text = re.sub(r"(?m)^url: .*$", f"url: {ADDRESS}", rules.read_text(encoding="utf-8"))
    if ADDRESS not in text:
        text += f"url: {ADDRESS}\n"

    rules.write_text(text, encoding="utf-8")
    return folder


def meta_of(page: str) -> dict[str, str]:
    """Property or name -> content of the tags for link previews."""
    tags = re.findall(r'<meta (?:property|name)="([^"]+)" content="([^"]*)">', page)
    return {name: unescape(content) for name, content in tags}


def test_the_first_page_has_sentences_and_first_rows_without_scripts(forged, forged_tables) -> None:
    front = front_of(forged, forged_tables, has_image=False)
    page = unescape(render_pages(forged.rules, (), front)["index.html"])
    still = page[page.index("<noscript>") : page.index("</noscript>")]
    for division, scopes in forged_tables.items():
        table = scopes["all"]
        ranked = [row for row in table["rows"] if row["ranked"]]
        baselines = [row for row in table["rows"] if row["baseline"] is not None]
        for row in [*ranked[:10], *baselines]:
            assert f"<bdi>{row['label']}</bdi>" in still
        for row in ranked[10:]:
            assert f"<bdi>{row['label']}</bdi>" not in still

        assert table["verdict"] in still
        assert table["verdict_figures"] in still
        assert f'href="data/division/{division}/all.json"' in still

    assert "<noscript>" in render_pages(forged.rules, (), front)["about.html"]
    assert "<bdi>" not in render_pages(forged.rules, (), front)["about.html"]


def test_names_of_entrants_are_escaped(forged, forged_tables) -> None:
    tables = copy.deepcopy(dict(forged_tables))
    for scopes in tables.values():
        for row in scopes["all"]["rows"]:
            row["label"] = HOSTILE

        scopes["all"]["verdict"] = HOSTILE

    front = front_of(forged, tables, has_image=False)
    page = render_pages(forged.rules, (), front)["index.html"]
    assert "<img" not in page
    assert "\u202e" not in page
    assert "&lt;img src=x" in page

    picture = preview_svg(forged, tables)
    assert picture is not None
    assert "<img" not in picture
    assert "\u202e" not in picture


@pytest.mark.slow
def test_a_site_with_an_address_has_a_picture_for_link_previews(
    addressed: Path, tmp_path: Path
) -> None:
    pytest.importorskip("vl_convert")
    build_site(addressed, tmp_path / "site", workers=1)
    build_site(addressed, tmp_path / "again", workers=1)
    picture = (tmp_path / "site" / PREVIEW).read_bytes()
    page = (tmp_path / "site" / "index.html").read_text(encoding="utf-8")
    meta = meta_of(page)

    size = [int.from_bytes(picture[at : at + 4], "big") for at in (16, 20)]
    assert (picture[:4], size) == (b"\x89PNG", [1200, 630])
    assert (tmp_path / "again" / PREVIEW).read_bytes() == picture
    assert meta["og:url"] == ADDRESS
    assert meta["og:image"] == f"{ADDRESS}{PREVIEW}"
    assert (meta["og:image:width"], meta["og:image:height"]) == ("1200", "630")
    assert meta["og:description"] == meta["description"]
    assert meta["og:description"] in unescape(page[page.index("<noscript>") :])


@pytest.mark.slow
def test_without_vl_convert_a_note_names_the_extra_and_no_picture_is_promised(
    addressed: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "vl_convert", None)
    report = build_site(addressed, tmp_path / "site", workers=1)
    meta = meta_of((tmp_path / "site" / "index.html").read_text(encoding="utf-8"))

    assert any("the picture for link previews needs vl-convert" in note for note in report.notes)
    assert not (tmp_path / "site" / PREVIEW).exists()
    assert "og:title" in meta
    assert "og:image" not in meta


def test_a_site_without_an_address_promises_nothing(forged, forged_tables) -> None:
    front = front_of(forged, forged_tables, has_image=True)
    assert (front.address, front.image) == ("", "")
    assert "og:" not in render_pages(forged.rules, (), front)["index.html"]


def test_the_picture_has_the_best_systems_and_is_marked_synthetic(forged, forged_tables) -> None:
    picture = preview_svg(forged, forged_tables)
    assert picture is not None
    table = next(iter(forged_tables.values()))["all"]
    place = len(table["tests"]) - 1
    systems = [row for row in table["rows"] if row["baseline"] is None and row["excess"]]
    best = max(systems, key=lambda row: row["excess"][place][0])
    assert best["label"] in unescape(picture)
    assert ">synthetic</text>" in picture


@on_each_row(
    "url, address",
    ("", ""),
    ("https://a.example", "https://a.example/"),
    ("https://a.example/b", "https://a.example/b/"),
    ("https://a.example/b/", "https://a.example/b/"),
    ("https://a.example/b/index.html", "https://a.example/b/"),
)
def test_the_address_of_a_site_is_its_folder(url: str, address: str) -> None:
    rules = Rules("b", "B", "real", (), (), url=url)
    assert site_address(rules) == address
