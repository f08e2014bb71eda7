"""Index of a grid's bundle in a real browser: readable by everybody, on wide and narrow screens."""

from __future__ import annotations

from pathlib import Path

import pytest

from grid_pages import bundle_page
from ktdeval_grid.outputs.static_site import write_bundle
from support.pages.browser_pages import Reader, every_screen, needs_browser, page_troubles

pytestmark = needs_browser

_LOADED = "document.readyState === 'complete'"


@pytest.fixture(scope="module")
def index(tmp_path_factory: pytest.TempPathFactory) -> str:
    home = tmp_path_factory.mktemp("bundle")
    site = home / "site"
    site.mkdir()
    write_bundle(bundle_page(home / "grid"), site)

    return Path(site / "index.html").as_uri()


@pytest.mark.exhaustive
@every_screen
def test_the_index_fits_the_screen_and_has_no_violation(
    session: Reader, index: str, width: int, scheme: str
) -> None:
    tab = session.open(index, ready=_LOADED, width=width, color_scheme=scheme)
    assert page_troubles(tab) == []
