"""Scripts of documents in which the assets of a market have no name."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime

import pytest

from ktdeval.market import Document, Documents, Entity, MarketSnapshot
from ktdeval.market.snapshots.writing_systems import unnamed_scripts
from ktdeval.testing.markets import tiny_snapshot

CHINESE = {"600519.SH": "贵州茅台", "300750.SZ": "宁德时代", "000100.SZ": "TCL科技"}
AMERICAN = {"AAPL": "Apple Inc.", "NVDA": "NVIDIA Corporation", "KO": "The Coca-Cola Company"}
KYIV = datetime(2024, 1, 2, 9, tzinfo=UTC)


def market(names: dict[str, str], text: str, *entities: Entity) -> MarketSnapshot:
    snapshot = tiny_snapshot({code: [1.0, 2.0] for code in names})
    item = Document(KYIV, KYIV, "wire", "news", (), "", text)
    return replace(
        snapshot,
        names=tuple(names[code] for code in snapshot.codes),
        documents=Documents.of([item], None, entities),
    )


@pytest.mark.parametrize(
    ("names", "text", "scripts"),
    [
        (AMERICAN, "Sales of iPhones rose, Beta-Blocker β and 5 μm too.", []),
        (AMERICAN, "苹果公司的销售额上升", ["Han"]),
        (AMERICAN, "Яблоко отчиталось; エヌビディア上昇", ["Han", "Katakana", "Cyrillic"]),
        (AMERICAN, "애플 주가 상승, หุ้นขึ้น", ["Hangul", "Thai"]),
        (CHINESE, "茅台的ETF和AI概念上涨", []),
        (CHINESE, "Kweichow Moutai raised its prices", ["Latin"]),
        (CHINESE, "貴州茅臺上漲", []),
    ],
)
def test_a_script_is_unnamed_where_most_assets_have_no_name_in_it(
    names: dict[str, str], text: str, scripts: list[str]
) -> None:
    assert unnamed_scripts(market(names, text)) == scripts


def test_an_entity_file_with_names_of_most_assets_makes_a_script_known() -> None:
    text = "苹果和英伟达上涨"
    two = (Entity("AAPL", "name", "苹果"), Entity("NVDA", "name", "英伟达"))

    assert unnamed_scripts(market(AMERICAN, text, *two)) == []
    assert unnamed_scripts(market(AMERICAN, text, *two[:1])) == ["Han"]

    person = Entity("NVDA", "person", "黄仁勋")
    assert unnamed_scripts(market(AMERICAN, text, two[0], person)) == ["Han"]
