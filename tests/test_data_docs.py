from __future__ import annotations

import inspect
import re
from pathlib import Path

import pytest

from ktdeval.market import quality
from ktdeval.market.repairs import REPAIRS


@pytest.fixture(scope="module")
def text(repository: Path) -> str:
    return (repository / "docs" / "data.md").read_text(encoding="utf-8")


def test_every_kind_of_finding_is_documented(text: str) -> None:
    kinds = set(re.findall(r'"([a-z_]+)",\s+"(?:error|warning|info)"', inspect.getsource(quality)))
    kinds = (kinds - {"error", "warning"}) | {"benchmark_gaps", "index_gaps"}
    assert len(kinds) > 20
    assert {kind for kind in kinds if f"`{kind}`" not in text} == set()


def test_every_repair_is_documented(text: str) -> None:
    rows = re.findall(r"^\| `([a-z_]+)` \| \w", text, flags=re.MULTILINE)
    assert list(REPAIRS) == [row for row in rows if row in REPAIRS]
