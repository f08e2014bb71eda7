"""Findings and repairs of market data stand in the guide to data."""

from __future__ import annotations

import csv
import re
from importlib import resources
from pathlib import Path

from ktdeval.market.assembly import REPAIRS


def test_every_kind_of_finding_and_every_repair_is_documented(repository: Path) -> None:
    text = (repository / "docs" / "data.md").read_text(encoding="utf-8")
    with (resources.files("ktdeval.market") / "findings.csv").open(encoding="utf-8") as stream:
        kinds = {row["kind"] for row in csv.DictReader(stream)}
    assert len(kinds) > 20
    assert {kind for kind in kinds if f"`{kind}`" not in text} == set()
    rows = re.findall(r"^\| `([a-z_]+)` \| \w", text, flags=re.MULTILINE)
    assert list(REPAIRS) == [row for row in rows if row in REPAIRS]
