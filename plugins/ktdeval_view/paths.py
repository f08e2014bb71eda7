"""Position and signals of each stock through an episode, as the chart of a stock shows them."""

from __future__ import annotations

from ktdeval.harness import step_signals
from ktdeval.jsonio import JsonValue
from ktdeval_view.market_facts import Names
from ktdeval_view.records import EpisodeRecords

_LETTERS = {"Bullish": "+", "Bearish": "-", "Neutral": "0", None: "x"}
_NOT_ASKED = "."


def stock_paths(records: EpisodeRecords, names: Names) -> dict[str, JsonValue]:
    """Positions and signals by code, or by label where the true name behind it is not known.

    `weights`: code -> [steps] shares of the NAV at the close of the fill day, of what was held. `analysts`: roles that were asked
    for signals. `signals`: code -> for each analyst a text of [steps] letters: + Bullish, - Bearish, 0 Neutral, x none that can be
    read, . not asked, or not shown the asset.
    """
    steps = records.steps
    weights: dict[str, list[float]] = {}
    for place, step in enumerate(steps):
        for position in step.positions if step.nav_minor > 0 else ():
            weights.setdefault(position.code, [0.0] * len(steps))[place] = round(position.value_minor / step.nav_minor, 4)
    found = [step_signals(talk) for talk in records.talks]
    analysts = list(dict.fromkeys(analyst for one in found for analyst in one.answers))
    signals: dict[str, list[list[str]]] = {}
    for place, one in enumerate(found):
        for label in one.held if one.answers else ():
            code = names.assets.get(label, (label, ""))[0]
            rows = signals.setdefault(code, [[_NOT_ASKED] * len(steps) for _ in analysts])
            for analyst, given in one.answers.items():
                rows[analysts.index(analyst)][place] = _LETTERS[given.get(label)]
    texts = {code: ["".join(row) for row in rows] for code, rows in signals.items()}
    return {"weights": {**weights}, "analysts": [*analysts], "signals": {**texts}}
