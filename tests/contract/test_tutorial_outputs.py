"""What the commands of the first pages write is ignored by git: a checkout stays clean."""

from __future__ import annotations

import re
import shutil
import subprocess

import pytest

from support.paths import REPOSITORY

PAGES = [REPOSITORY / "README.md", *sorted((REPOSITORY / "docs" / "start").glob("*.md"))]
WRITTEN = re.compile(r"(?:--out |out=|leaderboard init |open\()[\"']?([\w./-]+)")


def outputs() -> set[str]:
    """Files and folders that the pages' commands and scripts write."""
    found = set()
    for page in PAGES:
        for block in re.findall(r"^```.*?^```", page.read_text("utf-8"), re.MULTILINE | re.DOTALL):
            found |= set(WRITTEN.findall(block))

    return found


def test_outputs_of_the_first_pages_are_ignored() -> None:
    if shutil.which("git") is None or not (REPOSITORY / ".git").exists():
        pytest.skip("this is no checkout")

    names = outputs()
    assert {"run", "runs/a", "my-board", "my-site", "market", "prices.csv", "report.html"} <= names

    # a folder's rule ends with a slash, which git matches only where there is a folder
    asked = sorted(names | {f"{name}/x" for name in names})
    done = subprocess.run(
        ["git", "check-ignore", *asked], cwd=REPOSITORY, capture_output=True, text=True, check=False
    )
    ignored = set(done.stdout.split())
    missed = {name for name in names if not {name, f"{name}/x"} & ignored}
    assert missed == set(), "add these to .gitignore"
