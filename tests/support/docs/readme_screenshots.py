"""Pictures of the README: the practice board's page and one episode, as a browser shows them.

    make screenshots

needs Chromium (`apt-get install chromium`). The board is built from leaderboards/practice; the
episode is a run of a model without a key.
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
from pathlib import Path

from playwright.sync_api import Browser, sync_playwright

from support.docs.docs_pictures import IMAGES, record
from support.paths import REPOSITORY

CHROMIUM = "/usr/bin/chromium"
FLAGS = ("--no-sandbox", "--disable-gpu", "--disable-background-networking", "--disable-sync")
SIZE = {"width": 1280, "height": 800}


def ktdeval(*arguments: str | Path) -> None:
    """Run a command of ktdeval. Raises CalledProcessError: it failed."""
    subprocess.run([sys.executable, "-m", "ktdeval", *map(str, arguments)], check=True)


def take(browser: Browser, page: Path, name: str, link: str | None = None) -> None:
    """Save a picture of a local page's first screen, or of the page that its `link` leads to."""
    tab = browser.new_page(viewport=SIZE, device_scale_factor=1.5)
    tab.goto(page.as_uri())
    if link is not None:
        tab.get_by_role("link", name=link).first.click()
    tab.wait_for_load_state("networkidle")
    tab.screenshot(path=str(IMAGES / name))
    tab.close()


def main() -> None:
    """Build both pages in a temporary folder, and take their pictures."""
    IMAGES.mkdir(exist_ok=True)
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        site = folder / "site"
        run = folder / "run"
        ktdeval("leaderboard", "build", REPOSITORY / "leaderboards/practice", "--out", site)
        ktdeval(
            *("--model", "builtin/momentum", "--tasks", "blinded_open_research"),
            *("--windows", "W1", "--out", run),
        )
        ktdeval("view", run, "--out", folder / "view")

        with sync_playwright() as playwright:
            browser = playwright.chromium.launch(executable_path=CHROMIUM, args=list(FLAGS))
            take(browser, site / "index.html", "board.png")
            take(browser, folder / "view/index.html", "episode.png", "blinded_open_research")
            browser.close()

    record()


if __name__ == "__main__":
    main()
