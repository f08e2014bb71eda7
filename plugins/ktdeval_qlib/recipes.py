"""Recipes for the eighteen baselines, and the estimators that train them. Importing this module
needs neither torch nor pyqlib.
"""

from __future__ import annotations

import functools
import importlib
import inspect
import logging
import threading
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, get_args

import msgspec
import numpy as np

from ktdeval.errors import ConfigError, DataError, UsageError
from ktdeval.values import (
    Value,
    from_plain,
    import_problem,
    install_command,
    load_yaml,
    temporary_folder,
)
from ktdeval_qlib.samples import Layout, Norm
from ktdeval_qlib.training_options import Device

if TYPE_CHECKING:
    import pandas as pd

Progress = Callable[[int, int], None]
"""Called after each round with the number of rounds so far and the maximum number. Early stopping
can end the training before the maximum.
"""

FACTORS = 9
WINDOW_DAYS = 20
UNROLLED_DAYS = 60

_HOLDING = threading.RLock()
_FILE = Path(__file__).with_name("models.yaml")


class HyperparameterChange(Value):
    """A changed hyperparameter, with the reason for the change."""

    value: Any
    why: str


class BaselineRecipe(Value):
    """A baseline as described in `models.yaml`, which explains the fields."""

    name: str
    class_: str = msgspec.field(name="class")
    config: str
    layout: Layout
    label: Norm
    published: dict[str, Any]
    defaults: dict[str, Any] = msgspec.field(default_factory=dict)
    changed: dict[str, HyperparameterChange] = msgspec.field(default_factory=dict)
    fit: dict[str, Any] = msgspec.field(default_factory=dict)
    rounds: tuple[str, ...] = ()
    scored_every: str | None = None
    seed: str | None = None
    threads: str | None = None
    device: str | None = None
    repair: str | None = None
    network: str | None = None

    def __post_init__(self) -> None:
        parameters = {**self.parameters, **self.fit}
        for name in self.rounds:
            if name not in parameters:
                raise ValueError(f"{name} is not a parameter of {self.name}")

    @property
    def parameters(self) -> dict[str, Any]:
        """Return the arguments for the class: pyqlib's defaults, overridden first by the published
        values and then by the changes.
        """
        changed = {name: change.value for name, change in self.changed.items()}
        return {**self.defaults, **self.published, **changed}

    @property
    def max_rounds(self) -> int | None:
        """Return the number of epochs, boosting rounds or steps in a full training; None for
        Linear, which has a closed form.
        """
        if not self.rounds:
            return None
        most: int = {**self.parameters, **self.fit}[self.rounds[0]]
        return most

    @property
    def days(self) -> int:
        """Number of days in a sample: 1, 20 or 60."""
        return {"flat": 1, "window": WINDOW_DAYS, "unrolled": UNROLLED_DAYS}[self.layout]

    @property
    def shape(self) -> tuple[int, ...]:
        """Shape of a sample: (9,), (20, 9) or (540,)."""
        shapes = {
            "flat": (FACTORS,),
            "window": (WINDOW_DAYS, FACTORS),
            "unrolled": (FACTORS * UNROLLED_DAYS,),
        }
        return shapes[self.layout]


@functools.cache
def recipes() -> MappingProxyType[str, BaselineRecipe]:
    """Return the eighteen recipes, keyed by name, in the order of the file. Raises ConfigError if a
    field in the file is invalid.
    """
    by_name = {}
    for name, entry in load_yaml(_FILE).items():
        fields = {"name": name, **entry}
        by_name[name] = from_plain(fields, BaselineRecipe, f"{_FILE.name}: {name}", ConfigError)

    return MappingProxyType(by_name)


class Estimator:
    """A baseline to be trained, with controlled seeds, threads and temporary files.

    `model` is pyqlib's object, rebuilt by each `fit` (None before the first). `scores` has its
    scores on `train` and `valid` after each round.
    """

    def __init__(
        self,
        recipe: BaselineRecipe,
        seed: int,
        rounds: int | None = None,
        threads: int = 1,
        device: Device = "cpu",
    ) -> None:
        """Prepare a training. `rounds` replaces the published number of epochs, boosting rounds or
        steps.

        Raises UsageError if a package or the requested CUDA device is missing, or if a number is
        out of range.
        """
        if not 0 <= seed < 2**32:
            raise UsageError(
                f"qlib/{recipe.name}: seed {seed} is out of range; give 0 to {2**32 - 1}"
            )
        if threads < 1 or (rounds is not None and rounds < 1):
            raise UsageError(f"qlib/{recipe.name}: rounds and threads are whole numbers from 1")
        if device not in get_args(Device):
            raise UsageError(f"qlib/{recipe.name}: device {device!r} is unknown; give cpu or cuda")

        self.recipe = recipe
        self.seed = seed
        self.threads = threads
        self.device: Device = device
        self.model: Any = None
        self.scores: dict[str, list[float]] = {}
        self._class = _class_of(recipe, device)
        self._parameters = recipe.parameters
        self._fit = dict(recipe.fit)
        # Some classes take the name of a device, others the number of a GPU, with -1 for the CPU.
        unit: str | int = -1
        if recipe.device == "device":
            unit = device
        elif device == "cuda":
            unit = 0

        settings = {recipe.seed: seed, recipe.threads: threads, recipe.device: unit}
        for setting, value in settings.items():
            if setting is not None:
                self._parameters[setting] = value

        if rounds is not None:
            self._set_rounds(rounds)

        self.max_rounds = 1
        if recipe.rounds:
            self.max_rounds = {**self._parameters, **self._fit}[recipe.rounds[0]]

    def _set_rounds(self, rounds: int) -> None:
        """Set the number of rounds. Related numbers, such as that of a first phase, are capped at
        it.
        """
        for index, name in enumerate(self.recipe.rounds):
            target = self._fit if name in self._fit else self._parameters
            target[name] = rounds if index == 0 else min(rounds, target[name])

    def build(self) -> Any:
        """Return pyqlib's object with its initial weights, which depend only on the seed."""
        with fix_computation(self.seed, self.threads):
            return self._class(**self._parameters)

    def fit(self, dataset: Any, progress: Progress | None = None) -> None:
        """Train on the segments `train` and `valid` of a dataset in the recipe's layout.

        Nothing is written into the working folder or to mlflow, and the process's random generators
        and thread counts are restored. Only one training can run in a process at a time. Raises
        DataError if no round has a finite validation score.
        """
        self.model = None
        self.scores = {}
        most = self.max_rounds
        step = self._parameters.get(self.recipe.scored_every or "", 1)

        def report(scored: int) -> None:
            if progress is not None:
                progress(min(scored * step, most), most)

        scores = _WatchedScores(report)
        with fix_computation(self.seed, self.threads), temporary_folder("ktdeval-qlib-") as folder:
            model = self._class(**self._parameters)
            offered = {"evals_result": scores, "save_path": str(folder / "best")}
            accepted = inspect.signature(model.fit).parameters
            arguments = {name: value for name, value in offered.items() if name in accepted}

            try:
                model.fit(dataset, **self._fit, **arguments)
            # every score that pyqlib saw was minus infinity or NaN
            except UnboundLocalError as error:
                raise DataError(
                    f"qlib/{self.recipe.name}: no round had a finite validation score; check the"
                    " features and labels"
                ) from error

            self.model = model

        for segment, series in scores.items():
            values = series
            if isinstance(series, dict):  # keyed by metric, of which there is only one
                values = next(iter(series.values()), [])
            self.scores[segment] = [float(value) for value in values]

    def predict(self, dataset: Any, segment: str = "test") -> pd.Series[float]:
        """Return pyqlib's predictions for a segment, indexed by (datetime, instrument). Raises
        UsageError if called before `fit`.
        """
        if self.model is None:
            raise UsageError(f"qlib/{self.recipe.name} is not trained; call fit before predict")
        with fix_computation(self.seed, self.threads):
            predictions: pd.Series[float] = self.model.predict(dataset, segment)
        return predictions.sort_index()


class _WatchedScores(dict[str, Any]):
    """Dictionary that pyqlib's models fill with scores by segment. It reports each new `valid`
    score by the number of scores so far.
    """

    def __init__(self, report: Callable[[int], None], key: str = "") -> None:
        super().__init__()
        self._report = report
        self._key = key

    def __setitem__(self, key: str, value: Any) -> None:
        super().__setitem__(key, self._watch_value(key, value))

    def setdefault(self, key: str, default: Any = None) -> Any:
        """Return the stored value or, after storing the default, the watched default, as LightGBM
        expects.
        """
        if key not in self:
            self[key] = default
        return self[key]

    def _watch_value(self, key: str, value: Any) -> Any:
        segment = self._key or key
        if isinstance(value, dict) and not value:
            return _WatchedScores(self._report, segment)
        if isinstance(value, list) and not value and segment == "valid":
            return _SegmentScores(self._report)

        return value


class _SegmentScores(list[float]):
    """Scores of one segment, one for each round."""

    def __init__(self, report: Callable[[int], None]) -> None:
        super().__init__()
        self._report = report

    def append(self, value: float) -> None:
        super().append(value)
        self._report(len(self))


def _class_of(recipe: BaselineRecipe, device: Device) -> Any:
    """Return the class for a recipe, or its subclass with fixes."""
    module, name = recipe.class_.rsplit(".", 1)
    try:
        class_ = getattr(importlib.import_module(module), name)
        if recipe.repair:
            repair = getattr(importlib.import_module("ktdeval_qlib.pyqlib_fixes"), recipe.repair)
            if recipe.network:
                class_ = type(name, (repair, class_), {"network": recipe.network})
            else:
                class_ = repair
    except ImportError as error:
        raise UsageError(
            f"qlib/{recipe.name}: {import_problem(error)}: {install_command('qlib')}"
        ) from error

    if device == "cuda":
        import torch  # noqa: PLC0415

        if not torch.cuda.is_available():
            raise UsageError(
                f"qlib/{recipe.name}: torch finds no CUDA device here; train with the device cpu"
            )

    return class_


def quiet_lightgbm() -> Any:
    """Return LightGBM with its output redirected from standard output to logging."""
    import lightgbm  # noqa: PLC0415

    lightgbm.register_logger(logging.getLogger("ktdeval.lightgbm"))
    return lightgbm


@contextmanager
def fix_computation(seed: int, threads: int) -> Iterator[None]:
    """Run a block with seeded global generators of numpy and torch, a given number of torch
    threads, and the libraries' warnings silenced. Everything is restored afterwards. Only one block
    can run in a process at a time.
    """
    import torch  # noqa: PLC0415

    with _HOLDING, warnings.catch_warnings():
        warnings.simplefilter("ignore")
        numpy_state = np.random.get_state()  # noqa: NPY002
        torch_state = torch.get_rng_state()
        torch_threads = torch.get_num_threads()
        try:
            np.random.seed(seed)  # noqa: NPY002 - pyqlib draws from the global generator
            torch.manual_seed(seed)
            torch.set_num_threads(threads)
            yield
        finally:
            np.random.set_state(numpy_state)  # noqa: NPY002
            torch.set_rng_state(torch_state)
            torch.set_num_threads(torch_threads)
