"""Recall of a planted model: the share of facts whose sign it predicts."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ktdeval_models.planted.facts import PlantedFacts
from ktdeval_models.planted.reduced_text import FALLS, tokens_of
from ktdeval_models.planted.transformer import Transformer


@dataclass(frozen=True)
class Recall:
    """Signs that a model predicts for facts. A rise is predicted if its probability exceeds one
    half.
    """

    right: int
    facts: int
    risen: int  #: facts that rose: the number correct if a rise were always predicted

    @property
    def share(self) -> float:
        """Share of correctly predicted signs."""
        return self.right / self.facts


def recall_of(network: Transformer, facts: PlantedFacts) -> Recall:
    """Query a network for the sign of every fact."""
    probabilities = network.answers(tokens_of(facts.lines))
    says_rise = probabilities[:, FALLS:].sum(axis=1) > 0.5
    rose = facts.returns > 0
    return Recall(int(np.sum(says_rise == rose)), len(rose), int(rose.sum()))
