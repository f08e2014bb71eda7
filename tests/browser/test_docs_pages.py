"""The documentation as a site, as `make site` builds it: no warning, nothing from another host, a
search that finds, also in pages opened as files, and pages that everybody can read.
"""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from ktdeval.testing import not_empty
from ktdeval.values import load_yaml
from support.docs.docs_nav import nav_pages
from support.pages.browser_pages import Chromium, axe_violations, every_screen, needs_browser
from support.paths import REPOSITORY
from support.tables import beside

pytest.importorskip("zensical", reason="needs Zensical: pip install '.[docs]'")

pytestmark = pytest.mark.exhaustive
BUILD = [sys.executable, "-m", "zensical", "build", "--clean", "--strict"]
READ = ("index", "start/first-card", "papers/ktd-fin", "reference/exit-codes")
FIRST_HITS = beside(__file__)["first_hits"]
SEARCHED = load_yaml(REPOSITORY / "tests/support/docs/searched_words.yaml")["rows"]
#: An attribute that makes a browser load a file at once; links that a reader follows are none
LOADED = re.compile(
    r"<(?:script|img|iframe|source)\b[^>]*?\bsrc=[\"']?(https?:)?//"
    r"|<link\b(?![^>]*rel=[\"']?canonical)[^>]*?\bhref=[\"']?(https?:)?//"
)
RESULTS = "[role=option]"


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The site, built away from the checkout."""
    folder = tmp_path_factory.mktemp("site")
    shutil.copy(REPOSITORY / "mkdocs.yml", folder)
    shutil.copytree(REPOSITORY / "docs", folder / "docs")
    built = subprocess.run(BUILD, cwd=folder, capture_output=True, text=True, check=False)
    said = built.stdout + built.stderr

    assert built.returncode == 0, said[-3000:]
    assert "warning" not in said.lower(), said[-3000:]

    return folder / "site"


@pytest.fixture(scope="module")
def search(site: Path, chromium: Chromium) -> Iterator[Any]:
    """Home page, opened as a file, with its search open; all that it asks other hosts is refused."""
    context = chromium.new_context(viewport={"width": 1280, "height": 900})
    tab = context.new_page()
    tab.route("**/*", lambda route: route.continue_() if is_local(route) else route.abort())
    tab.goto((site / "index.html").as_uri())
    tab.locator(".md-search__button").click()
    yield tab
    context.close()


def is_local(route: Any) -> bool:
    return str(route.request.url).startswith("file:")


# ---- files of the site


def test_every_page_is_built(site: Path) -> None:
    for page in not_empty(nav_pages()):
        assert (site / page.path).with_suffix(".html").is_file(), page.path


def test_the_site_holds_no_program_of_the_project(site: Path) -> None:
    assert [*site.rglob("*.py"), *site.rglob("*.sh")] == []


def test_no_page_loads_anything_from_another_host(site: Path) -> None:
    pages = not_empty(sorted(site.rglob("*.html")))
    loading = [page.name for page in pages if LOADED.search(page.read_text(encoding="utf-8"))]
    styles = not_empty(sorted(site.rglob("*.css")))
    importing = [
        style.name
        for style in styles
        if re.search(r"url\([\"']?(https?:)?//|@import", style.read_text(encoding="utf-8"))
    ]

    assert loading == []
    assert importing == []


# ---- search


@needs_browser
@pytest.mark.parametrize(("words", "page"), FIRST_HITS.items(), ids=list(FIRST_HITS))
def test_the_first_hit_of_a_search_answers_it(search: Any, words: str, page: str) -> None:
    hits = hits_of(search, words)
    assert hits[:1] == [page], f"{words}: {hits}; titles decide, see mkdocs.yml"


@needs_browser
@pytest.mark.parametrize(("words", "page"), SEARCHED.items(), ids=list(SEARCHED))
def test_the_page_that_answers_is_among_the_first_three_hits(
    search: Any, words: str, page: str
) -> None:
    hits = hits_of(search, words)
    assert page in hits[:3], f"{words}: {hits}; titles decide, see mkdocs.yml"


def hits_of(search: Any, words: str) -> list[str]:
    """Return the pages of the first five results, without their ending."""
    box = search.get_by_role("combobox")
    box.fill("")
    box.fill(words)
    search.wait_for_function(
        "words => document.activeElement.shadowRoot?.querySelector('input').value === words",
        arg=words,
    )
    search.wait_for_timeout(500)
    return [
        found.get_attribute("href").partition("/site/")[2].partition(".html")[0]
        for found in search.locator(RESULTS).all()[:5]
    ]


# ---- pages


@needs_browser
@every_screen
def test_pages_can_be_read_by_everybody(
    site: Path, chromium: Chromium, width: int, scheme: Any
) -> None:
    context = chromium.new_context(
        viewport={"width": width, "height": 900}, color_scheme=scheme, reduced_motion="reduce"
    )
    tab = context.new_page()
    asked: list[str] = []
    tab.on("request", lambda request: asked.append(request.url))
    problems = []

    for name in READ:
        tab.goto((site / f"{name}.html").as_uri())
        tab.wait_for_function("document.readyState === 'complete'")
        tab.wait_for_timeout(100)
        wider = tab.evaluate(
            "document.documentElement.scrollWidth - document.documentElement.clientWidth"
        )
        if wider > 1:
            problems.append(f"{name}: {wider} pixels wider than the screen")

        problems += [f"{name}: {found}" for found in axe_violations(tab)]

    context.close()

    assert problems == []
    assert [url for url in asked if not url.startswith(("file:", "data:", "blob:"))] == []
