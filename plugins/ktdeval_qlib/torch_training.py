"""Train pyqlib's torch models on all rows: parts shared by the subclasses with fixes. Importing
this module needs torch.

* Every validation row is used. pyqlib drops the last incomplete batch. If there are fewer rows than
  one batch, nothing is left, the score is NaN, no weights are ever kept, and `fit` ends in an
  UnboundLocalError. Scores here are means over all rows.
* If there are fewer training rows than one batch, they form a batch. pyqlib silently drops them.
* A batch with one row keeps its shape. pyqlib squeezes it to a scalar that can't be joined with the
  other batches.
* Models on windows predict the requested segment, not always `test`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from itertools import pairwise
from typing import Any, ClassVar

import numpy as np
import pandas as pd
import torch
from torch.utils.data import DataLoader, Subset


class RenamedSegments:
    """Dataset whose segments are renamed."""

    def __init__(self, dataset: Any, names: Mapping[str, str]) -> None:
        self._dataset = dataset
        self._names = names

    def prepare(self, segments: Any, **arguments: Any) -> Any:
        """Return the data for a segment or for a list of segments."""
        if isinstance(segments, list):
            return self._dataset.prepare(
                [self._names.get(each, each) for each in segments], **arguments
            )
        return self._dataset.prepare(self._names.get(segments, segments), **arguments)


def mean_over_rows(
    rows: int, most: int, measure: Callable[[int, int], tuple[float, float]]
) -> tuple[float, float]:
    """Return the mean loss and score over all rows, computed in as few pieces of nearly equal size
    as possible, each with at most `most` rows.
    """
    bounds = np.linspace(0, rows, -(-rows // most) + 1).astype(int).tolist()
    with torch.no_grad():
        measured = [measure(first, last) for first, last in pairwise(bounds)]
    loss, score = np.average(np.array(measured, dtype=float), axis=0, weights=np.diff(bounds))
    return float(loss), float(score)


def one_per_row(_module: Any, _inputs: Any, output: Any) -> Any:
    """Flatten a network's output to one value per row (forward hook)."""
    return output.reshape(-1) if isinstance(output, torch.Tensor) else output


class TorchNetwork:
    """A pyqlib torch model. `network` is the name of the attribute with its network."""

    network: ClassVar[str]
    batch_size: int

    def __init__(self, **parameters: Any) -> None:
        super().__init__(**parameters)
        self.module.register_forward_hook(one_per_row)

    @property
    def module(self) -> torch.nn.Module:
        """Return the torch network."""
        return getattr(self, self.network)

    def scores(self, features: torch.Tensor) -> torch.Tensor:
        """Return the scores, [N], of a tensor of samples, [N, …] in the recipe's layout."""
        return self.module(features)

    @contextmanager
    def _batches_of(self, rows: int) -> Iterator[None]:
        """Limit the batch size to `rows` samples."""
        before = self.batch_size
        self.batch_size = min(before, rows)
        try:
            yield
        finally:
            self.batch_size = before


class OnFrames(TorchNetwork):
    """Model that reads its samples from tables [N, columns]."""

    def train_epoch(self, x_train: pd.DataFrame, y_train: pd.DataFrame) -> None:
        """Train one epoch."""
        with self._batches_of(len(x_train)):
            super().train_epoch(x_train, y_train)  # type: ignore[misc]

    def test_epoch(self, data_x: pd.DataFrame, data_y: pd.DataFrame) -> tuple[float, float]:
        """Return the mean loss and score over all rows."""
        measure = super().test_epoch  # type: ignore[misc]

        def measure_batch(first: int, last: int) -> tuple[float, float]:
            with self._batches_of(last - first):
                loss, score = measure(data_x.iloc[first:last], data_y.iloc[first:last])
            return loss, score

        return mean_over_rows(len(data_x), self.batch_size, measure_batch)


class OnWindows(TorchNetwork):
    """Model that reads its samples from a loader of windows [N, 20, columns and label]."""

    def train_epoch(self, data_loader: Any) -> None:
        """Train one epoch."""
        if not len(data_loader):
            data_loader = DataLoader(
                data_loader.dataset, batch_size=len(data_loader.dataset), shuffle=True
            )
        super().train_epoch(data_loader)  # type: ignore[misc]

    def test_epoch(self, data_loader: Any) -> tuple[float, float]:
        """Return the mean loss and score over all rows."""
        measure, samples = super().test_epoch, data_loader.dataset  # type: ignore[misc]

        def measure_batch(first: int, last: int) -> tuple[float, float]:
            loss, score = measure(
                DataLoader(Subset(samples, range(first, last)), batch_size=last - first)
            )
            return loss, score

        return mean_over_rows(len(samples), self.batch_size, measure_batch)

    def predict(self, dataset: Any, segment: str = "test") -> Any:
        """Return the predictions for any segment."""
        return super().predict(RenamedSegments(dataset, {"test": segment}))  # type: ignore[misc]
