"""Fixes for models of pyqlib 0.9.7. Each fix is a subclass that explains its reason. Importing this
module needs the extra `qlib`.

The fixes don't change architecture, loss or hyperparameters. The fixes for batches in
`torch_training` are shared by the torch models.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import ModuleType, SimpleNamespace
from typing import Any

import numpy as np
import pandas as pd
import torch
from qlib.contrib.model import (
    catboost_model,
    double_ensemble,
    gbdt,
    pytorch_adarnn,
    pytorch_add,
    pytorch_nn,
    pytorch_tabnet,
)
from qlib.contrib.model.pytorch_tcn_ts import TCN as _TCN
from torch.utils.data import DataLoader, TensorDataset

from ktdeval_qlib.recipes import quiet_lightgbm
from ktdeval_qlib.torch_training import (
    OnFrames,
    OnWindows,
    RenamedSegments,
    TorchNetwork,
    mean_over_rows,
    one_per_row,
)

quiet_lightgbm()

_SWAPPING = threading.RLock()
_UNRECORDED = SimpleNamespace(log_metrics=lambda **_: None)
"""Recorder that does nothing. pyqlib's recorder needs `qlib.init`, and writes an mlflow store into
the working folder (which mlflow 3 refuses).
"""


@contextmanager
def _swap_global(module: ModuleType, name: str, value: Any) -> Iterator[None]:
    """Replace a global variable of a module while a block runs."""
    with _SWAPPING:
        before = getattr(module, name)
        setattr(module, name, value)
        try:
            yield
        finally:
            setattr(module, name, before)


class LightGBM(gbdt.LGBModel):
    """LightGBM that does not record to mlflow."""

    def fit(self, dataset: Any, evals_result: Any, **arguments: Any) -> None:
        """Train. For the arguments, see pyqlib."""
        with _swap_global(gbdt, "R", _UNRECORDED):
            super().fit(dataset, evals_result=evals_result, **arguments)


class CatBoost(catboost_model.CatBoostModel):
    """CatBoost on the given device. The published bootstrap `Poisson` exists only on GPUs; on a CPU
    it is replaced by `Bernoulli` with the same `subsample`. pyqlib itself switches to a GPU
    whenever the machine has one, and does not return the scores.
    """

    def __init__(self, device: str = "cpu", **parameters: Any) -> None:
        if device == "cpu" and parameters.get("bootstrap_type") == "Poisson":
            parameters["bootstrap_type"] = "Bernoulli"
        super().__init__(**parameters)
        self._devices: Callable[[], int] = (
            catboost_model.get_gpu_device_count if device == "cuda" else (lambda: 0)
        )

    def fit(self, dataset: Any, evals_result: Any, **arguments: Any) -> None:
        """Train. For the arguments, see pyqlib."""
        with _swap_global(catboost_model, "get_gpu_device_count", self._devices):
            super().fit(dataset, **arguments)
        for segment, scores in zip(
            ("train", "valid"), self.model.get_evals_result().values(), strict=True
        ):
            evals_result[segment] = next(iter(scores.values()))


class DoubleEnsemble(double_ensemble.DEnsembleModel):
    """DoubleEnsemble that keeps columns in the order of the dataset. pyqlib takes the selected
    columns from a set of strings, whose order differs between processes, so that the trees differ,
    too.
    """

    def feature_selection(self, df_train: pd.DataFrame, loss_values: pd.DataFrame) -> pd.Index:
        """Return the selected columns in the order of the dataset."""
        selected = set(super().feature_selection(df_train, loss_values))
        columns = df_train["feature"].columns
        ordered: pd.Index = pd.Index([column for column in columns if column in selected])
        return ordered


class MLP(TorchNetwork, pytorch_nn.DNNModelPytorch):
    """MLP without three faults in pyqlib. pyqlib compares torch's version as a string ("2.10" <
    "2.6.0"), and so passes an argument that torch has removed. It starts a debugger if no day has
    fifty names. And it needs an mlflow recorder. The metric is only logged, and never used for
    selection.
    """

    network = "dnn_model"

    def __init__(self, **parameters: Any) -> None:
        def scheduler(optimizer: Any) -> Any:
            return torch.optim.lr_scheduler.ReduceLROnPlateau(
                optimizer, factor=0.5, patience=10, threshold=0.0001, min_lr=0.00001
            )

        super().__init__(**parameters, scheduler=scheduler)

    def fit(self, dataset: Any, evals_result: Any, save_path: str) -> None:
        """Train. For the arguments, see pyqlib."""
        with _swap_global(pytorch_nn, "R", _UNRECORDED):
            super().fit(dataset, evals_result, verbose=False, save_path=save_path)

    def get_metric(
        self, pred: torch.Tensor, target: torch.Tensor, index: pd.MultiIndex
    ) -> torch.Tensor:
        """Return the mean daily IC; NaN if no day has an IC."""
        table = pd.DataFrame(
            {"pred": pred.cpu().numpy(), "target": target.cpu().numpy()}, index=index
        )
        daily = [day["pred"].corr(day["target"]) for _, day in table.groupby(level=0)]
        return torch.tensor(pd.Series(daily, dtype=float).mean())


class TCN(OnWindows, _TCN):
    """TCN that predicts with the same axes as in training. pyqlib transposes a window to [factors,
    days] in training but not in prediction. This either fails or, if the window has as many days as
    factors, reads days as factors.
    """

    network = "TCN_model"

    def scores(self, features: torch.Tensor) -> torch.Tensor:
        """Return the scores, [N], of windows [N, days, factors]."""
        return self.module(features.transpose(1, 2))

    def predict(self, dataset: Any, segment: str = "test") -> Any:
        """Return the predictions for any segment."""
        turning = self.module.register_forward_pre_hook(
            lambda _module, inputs: (inputs[0].transpose(1, 2),)
        )
        try:
            return super().predict(dataset, segment)
        finally:
            turning.remove()


class TabNet(OnFrames, pytorch_tabnet.TabnetModel):
    """TabNet with three fixes. It pretrains on the days of training and validation, as the
    published configuration does under two additional segment names. It stores the pretrained
    weights in the run's temporary folder. And it trains its last layer: pyqlib adds this layer
    after the optimizer has collected the weights, so that the layer keeps its initial weights.
    """

    network = "tabnet_model"

    def __init__(self, **parameters: Any) -> None:
        super().__init__(**parameters, pretrain_file=os.devnull)

    def fit(self, dataset: Any, evals_result: Any, save_path: str) -> None:
        """Train. The pretrained weights are stored next to `save_path`."""
        self.pretrain_file = f"{save_path}.pretrained"
        super().fit(
            RenamedSegments(dataset, {"pretrain": "train", "pretrain_validation": "valid"}),
            evals_result,
            save_path,
        )

    def add_output(self) -> None:
        """Add the last layer, as `fit` does, to a model that will load trained weights."""
        self.tabnet_model: Any = pytorch_tabnet.FinetuneModel(
            self.out_dim, self.final_out_dim, self.module
        ).to(self.device)

    def scores(self, features: torch.Tensor) -> torch.Tensor:
        """Return the scores, [N], of samples [N, 9]."""
        return self.module(features, torch.ones_like(features)).reshape(-1)

    def train_epoch(self, x_train: pd.DataFrame, y_train: pd.DataFrame) -> None:
        """Train one epoch, including the last layer."""
        optimised: set[int] = set()
        for group in self.train_optimizer.param_groups:
            optimised.update(map(id, group["params"]))

        added = [weights for weights in self.module.parameters() if id(weights) not in optimised]
        if added:
            self.train_optimizer.add_param_group({"params": added})
            self.module.register_forward_hook(one_per_row)

        super().train_epoch(x_train, y_train)

    def pretrain_epoch(self, x_train: pd.DataFrame) -> None:
        """Pretrain one epoch."""
        with self._batches_of(len(x_train)):
            super().pretrain_epoch(x_train)

    def pretrain_test_epoch(self, x_train: pd.DataFrame) -> float:
        """Return the mean reconstruction loss over batches that together contain all rows."""
        measure = super().pretrain_test_epoch

        def measure_batch(first: int, last: int) -> tuple[float, float]:
            with self._batches_of(last - first):
                loss = measure(x_train.iloc[first:last])
            return loss, loss

        return mean_over_rows(len(x_train), self.batch_size, measure_batch)[0]


class DayByDay(OnFrames):
    """Model whose network reads columns day by day. The columns are ordered factor by factor, as in
    Alpha360; pyqlib mixes up the two orders.
    """

    fea_dim: int

    def __init__(self, **parameters: Any) -> None:
        super().__init__(**parameters)
        self.module.register_forward_pre_hook(lambda _module, inputs: (self._by_day(inputs[0]),))

    def _by_day(self, features: torch.Tensor) -> torch.Tensor:
        return (
            features.reshape(len(features), self.fea_dim, -1)
            .transpose(1, 2)
            .reshape(len(features), -1)
        )


class ADD(TorchNetwork, pytorch_add.ADD):
    """ADD on nine factors over sixty days (sequences of one day fail) that records the scores of
    each epoch. A day without an IC is set to 0: in pyqlib, one such day makes the mean over days
    NaN, so that no weights are kept.
    """

    network = "ADD_model"

    def fit(self, dataset: Any, evals_result: Any, save_path: str) -> None:
        """Train. The scores of each epoch are stored in `evals_result`."""
        self._recorded = evals_result
        super().fit(dataset, evals_result, save_path)

    def scores(self, features: torch.Tensor) -> torch.Tensor:
        """Return the scores, [N], of samples [N, 540]."""
        return self.module(features)["excess"]

    def log_metrics(self, mode: str, metrics: dict[str, float]) -> None:
        """Record the scores of one segment."""
        self._recorded[mode].append(metrics[self.metric])

    def train_epoch(self, x_train_values: Any, y_train_values: Any, m_train_values: Any) -> None:
        """Train one epoch."""
        with self._batches_of(len(x_train_values)):
            super().train_epoch(x_train_values, y_train_values, m_train_values)

    def test_epoch(self, data_x: Any, data_y: Any, data_m: Any) -> Any:
        """Return the metrics, as means over days."""
        with torch.no_grad():
            return super().test_epoch(data_x, data_y, data_m)

    def cal_ic_metrics(self, pred: Any, label: Any) -> dict[str, float]:
        """Return the metrics of one day."""
        metrics: dict[str, float] = super().cal_ic_metrics(pred, label)
        return {name: 0.0 if np.isnan(value) else value for name, value in metrics.items()}


class ADARNN(TorchNetwork, pytorch_adarnn.ADARNN):
    """ADARNN on nine factors over sixty days. pyqlib reshapes training samples to 6 × 60, but not
    others; it sets CUDA_VISIBLE_DEVICES for the process; and it keeps the weights of the epoch with
    the highest mean of score − label, which it calls `mse` and `loss`. Here, `mse` and `loss` are
    the negative mean square.
    """

    network = "model"

    def __init__(self, **parameters: Any) -> None:
        visible = os.environ.get("CUDA_VISIBLE_DEVICES")
        super().__init__(**parameters)
        if visible is None:
            del os.environ["CUDA_VISIBLE_DEVICES"]
        else:
            os.environ["CUDA_VISIBLE_DEVICES"] = visible

        self.model.device = self.device  # pyqlib's default is the first GPU
        predict = self.model.predict
        self.model.predict = lambda features: predict(features).reshape(-1)

    def fit(self, dataset: Any, evals_result: Any, save_path: str) -> None:
        """Train. For the arguments, see pyqlib."""
        with _swap_global(pytorch_adarnn, "data_loader", self._samples):
            super().fit(dataset, evals_result, save_path)

    def scores(self, features: torch.Tensor) -> torch.Tensor:
        """Return the scores, [N], of samples [N, 540]."""
        return self.model.predict(self._sequences(features))

    def _sequences(self, features: torch.Tensor) -> torch.Tensor:
        """Return samples [N, 540] as sequences [N, 60, 9]."""
        return features.reshape(len(features), self.d_feat, -1).transpose(1, 2)

    def _samples(self, table: pd.DataFrame) -> TensorDataset:
        features = torch.tensor(table["feature"].to_numpy(), dtype=torch.float32)
        return TensorDataset(
            self._sequences(features),
            torch.tensor(table["label"].to_numpy().reshape(-1), dtype=torch.float32),
        )

    def train_AdaRNN(
        self, train_loader_list: Any, epoch: int, dist_old: Any = None, weight_mat: Any = None
    ) -> Any:
        """Train one epoch. If a period has fewer rows than a batch, the batch size becomes the
        length of the shortest period: pyqlib skips pairs of unequal batches, which would be all
        pairs here.
        """
        fewest = min(len(loader.dataset) for loader in train_loader_list)
        if fewest < self.batch_size:
            train_loader_list = [
                DataLoader(loader.dataset, batch_size=fewest, shuffle=True, drop_last=True)
                for loader in train_loader_list
            ]
        return super().train_AdaRNN(train_loader_list, epoch, dist_old, weight_mat)

    @staticmethod
    def calc_all_metrics(pred: pd.DataFrame) -> dict[str, float]:
        """Return the metrics for a table with `score` and `label`. `mse` and `loss` are negative
        mean squares.
        """
        metrics: dict[str, float] = pytorch_adarnn.ADARNN.calc_all_metrics(pred)
        square = -float(((pred["label"] - pred["score"]) ** 2).mean())
        return {**metrics, "mse": square, "loss": square}
