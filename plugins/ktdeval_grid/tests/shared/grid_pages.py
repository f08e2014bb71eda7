"""Page of a grid's bundle, made of a grid without a run."""

from __future__ import annotations

from pathlib import Path

from grid_store import HandMade, failure, record_of, small_plan, unit_id
from ktdeval_grid.outputs.output_kinds import CardsOutput
from ktdeval_grid.outputs.static_site import BundleCard, BundlePage
from ktdeval_grid.state.status import look, reader_of

TABLE = """\
Returns by mask, a \\| b (KTD-Fin, Table 11)

| Model | Mask | Ret. % |
| --- | --- | ---: |
| a\\|b | bright | +1.00 |
| c | blinded | -2.50 |

median over episodes
"""


def bundle_page(folder: Path) -> BundlePage:
    """The index of a hand-made grid: a failure, pruned units, a table, a report, one not made."""
    record = record_of(small_plan(prune=["informative"]), pruned=[3])
    grid = HandMade(folder, record)
    grid.fail(failure(unit_id(0, 0), "<b>down</b>"))
    _, status = look(reader_of(grid.store))
    card = BundleCard(
        system="builtin-momentum_react",
        task="blinded_open_research",
        episodes=3,
        missing=1,
        figure="total_return -3.99 %",
        labels=("synthetic",),
        card="cards/builtin-momentum_react/blinded_open_research.json",
        view="",
    )
    outputs = (
        CardsOutput("ktdfin-11", "", {"md": TABLE, "txt": "…", "csv": "…"}),
        CardsOutput("compare", "Which systems differ", {"txt": "a <i>\nb", "json": "{}"}),
        CardsOutput("luck", "How much is luck", {}, problem="no trials"),
    )

    return BundlePage(record, status, (card,), "", outputs, ("luck: no trials",))
