from __future__ import annotations

import csv
import re
from importlib import resources
from pathlib import Path

import pytest

from ktdeval.market.assembly import REPAIRS


@pytest.fixture(scope="module")
def text(repository: Path) -> str:
    return (repository / "docs" / "data.md").read_text(encoding="utf-8")


def test_every_kind_of_finding_is_documented(text: str) -> None:
    with (resources.files("ktdeval.market") / "findings.csv").open(encoding="utf-8") as stream:
        kinds = {row["kind"] for row in csv.DictReader(stream)}
    assert len(kinds) > 20
    assert {kind for kind in kinds if f"`{kind}`" not in text} == set()


def test_every_repair_is_documented(text: str) -> None:
    rows = re.findall(r"^\| `([a-z_]+)` \| \w", text, flags=re.MULTILINE)
    assert list(REPAIRS) == [row for row in rows if row in REPAIRS]
