"""The documentation as a site, built by MkDocs and by Zensical from one configuration: no warning,
and its pages can be read by everybody, also on a telephone.
"""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from browser_pages import Chromium, axe_violations, needs_browser
from docs_nav import nav_pages
from loops import not_empty
from paths import REPOSITORY

pytest.importorskip("mkdocs", reason="needs MkDocs: pip install mkdocs")
pytest.importorskip("zensical", reason="needs Zensical: pip install zensical")

pytestmark = pytest.mark.slow
TOOLS = {
    "mkdocs": [sys.executable, "-m", "mkdocs", "build", "--quiet", "--strict"],
    "zensical": [sys.executable, "-m", "zensical", "build", "--strict"],
}
READ = ("index", "start/first-card", "papers/ktd-fin", "reference/exit-codes")


@pytest.fixture(scope="module", params=list(TOOLS))
def site(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The site, built by one of the tools away from the checkout."""
    folder = tmp_path_factory.mktemp("site")
    shutil.copy(REPOSITORY / "mkdocs.yml", folder)
    shutil.copytree(REPOSITORY / "docs", folder / "docs")
    built = subprocess.run(
        TOOLS[request.param], cwd=folder, capture_output=True, text=True, check=False
    )
    said = built.stdout + built.stderr

    assert built.returncode == 0, said[-3000:]
    assert "warning" not in said.lower(), said[-3000:]

    return folder / "site"


def test_every_page_is_built(site: Path) -> None:
    for page in not_empty(nav_pages()):
        assert (site / page.path).with_suffix(".html").is_file(), page.path


@needs_browser
@pytest.mark.parametrize(
    ("width", "scheme"),
    [
        (1280, "light"),
        (390, "dark"),
        pytest.param(390, "light", marks=pytest.mark.exhaustive),
    ],
)
def test_pages_can_be_read_by_everybody(
    site: Path, chromium: Chromium, width: int, scheme: Any
) -> None:
    context = chromium.browser.new_context(
        viewport={"width": width, "height": 900}, color_scheme=scheme, reduced_motion="reduce"
    )
    tab = context.new_page()
    # The themes ask for fonts and colours of code from elsewhere; pages must do without.
    tab.route("**/*", lambda route: route.continue_() if is_local(route) else route.abort())
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


def is_local(route: Any) -> bool:
    return str(route.request.url).startswith("file:")
