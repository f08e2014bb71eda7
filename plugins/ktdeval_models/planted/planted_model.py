"""`planted/memory`: a rule-based model that ranks candidates with a small language model.

The language model completes the line of each candidate with an answer, which gives the candidate's
rank. The line is built from the prompt's contents, with labels and days as masked. So masks, leak
guard and parsing affect this memory as they would affect any model's, but the amount remembered is
known.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from itertools import chain

import numpy as np

from ktdeval.errors import UsageError
from ktdeval.harness import ModelTraits
from ktdeval.keyless import (
    Conversation,
    Intent,
    KeylessModel,
    Ranking,
    Row,
    Sizing,
    buyable,
    places_of,
    rebalance,
    standing,
    table_columns,
)
from ktdeval.values import user_path
from ktdeval_models.planted.params import PlantedParams, model_folder
from ktdeval_models.planted.planted_files import DESCRIPTION, read_planted
from ktdeval_models.planted.reduced_text import FIGURES, line_of, tokens_of

LABEL = "what is remembered of the next return"
_DIGITS = 4  # digits of a score; any further digits depend on how a processor rounds sums


class PlantedModel(KeylessModel):
    """Holds the candidates with the highest expected return, and sells names that are no longer
    candidates. The expected return is the sum over return sizes of the language model's probability
    times the mean return of that size.
    """

    needs = f"a table of candidates in the prompt, with {' and '.join(FIGURES)}"

    def __init__(self, _name: str, params: PlantedParams) -> None:
        """Read the model. Raises UsageError if the model is missing, or if its hash differs from
        the pinned hash. Raises the errors of `read_planted` as well.
        """
        self.params = params
        trained = user_path(params.trained)
        folder = model_folder(trained, params.exposures, params.training_seed)
        if not (folder / DESCRIPTION).is_file():
            raise UsageError(
                f"planted/memory: {folder} holds no model; make it: ktdeval train memory --exposures"
                f" {params.exposures} --seed {params.training_seed} --out {params.trained}"
            )

        planted = read_planted(folder)
        if params.sha256 not in (None, planted.sha256):
            raise UsageError(
                f"planted/memory: {folder}: sha256 is {planted.sha256}, not {params.sha256}; "
                "give the recorded model"
            )

        self._network = planted.network
        self._means = np.array(planted.content.sizes.means)
        self._pins = {"sha256": planted.sha256}

    @property
    def traits(self) -> ModelTraits:
        """Traits of a rule-based model, with the hash that pins its file."""
        return replace(super().traits, recorded_args=self._pins)

    def can_act(self, conversations: Sequence[Conversation]) -> bool:
        """Return whether candidates are shown with all the figures that a line needs."""
        return set(FIGURES) <= table_columns(conversations, "candidates")

    def plan(self, conversation: Conversation) -> Sequence[Intent]:
        """Hold the top-ranked candidates."""
        rows = conversation.rows(conversation.state.get("candidates"))
        if not rows:
            return []

        groups = standing(rows, self._expect_returns(rows, conversation.observed.day))
        ranked = list(chain.from_iterable(groups))
        first = [row["stock_id"] for row in ranked[: self.params.keep_rank]]
        ranking = Ranking(buyable(ranked), frozenset(first), LABEL, places_of(groups))
        band = (0.0, self.params.trim_above)
        sizing = Sizing.equal(conversation, self.params.positions, self.params.invested, band)

        return rebalance(conversation, ranking, sizing)

    def _expect_returns(self, rows: Sequence[Row], day: str) -> list[float]:
        """Return the expected return of each candidate, in percent."""
        lines = [line_of(row["stock_id"], day, row) for row in rows]
        probabilities = self._network.answers(tokens_of(lines))
        expected = 100.0 * (probabilities.astype(float) @ self._means)
        return [round(float(each), _DIGITS) for each in expected]
