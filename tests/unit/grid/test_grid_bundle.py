"""The page of a bundle's card: that of the episode nearest to the card's median."""

from __future__ import annotations

from pathlib import Path

from compare_cards import make_card, save_card
from ktdeval.cards import TradingCard
from ktdeval_compare.compared_cards import load_entrants
from ktdeval_grid.final_outputs import _typical


def test_the_page_is_of_an_episode_that_the_median_is_over(tmp_path: Path) -> None:
    """A short window within a long one has rows of its own; the median is over the long ones."""
    windows = {
        "short": ("2024-01-01", "2024-01-05"),
        "long": ("2024-01-02", "2024-01-26"),
        "later": ("2024-02-02", "2024-02-26"),
        "last": ("2024-03-01", "2024-03-26"),
    }
    returns = {("short", 0): 0.21, ("long", 0): 0.1, ("later", 0): 0.2, ("last", 0): 0.9}
    made = make_card(returns, windows=windows)
    (entrant,) = load_entrants([save_card(tmp_path / "run", made)])
    card = entrant.card
    assert isinstance(card, TradingCard)
    assert {episode.window for episode in card.pooled} == {"long", "later", "last"}
    typical = next(episode for episode in card.episodes if episode.id == _typical(card))
    assert typical.window == "later"
