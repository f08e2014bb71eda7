"""A workspace: one client's clock and broker over a dataset. Workspaces share only the dataset,
which never changes.
"""

from __future__ import annotations

from ktdeval_qfinzero.data.dataset import Dataset
from ktdeval_qfinzero.pmb.broker import Broker
from ktdeval_qfinzero.point_in_time_view import DatasetView
from ktdeval_qfinzero.timestamps import Clock


class Workspace:
    """Clock and broker on which the calls of one client act. The clock starts at the given time, or
    at the dataset's default.
    """

    def __init__(self, dataset: Dataset, as_of_ns: int | None = None) -> None:
        self.dataset = dataset
        self.clock = Clock(dataset.info.default_as_of_ns if as_of_ns is None else as_of_ns)
        self.broker = Broker(dataset, self.clock)

    @property
    def view(self) -> DatasetView:
        """Data as known at the clock's current time."""
        return DatasetView(self.dataset, self.clock.as_of_ns)
