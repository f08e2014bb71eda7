"""Train one baseline and write its folder atomically."""

from __future__ import annotations

import contextlib
import importlib.metadata
import shutil
import time
from dataclasses import asdict, dataclass
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
from scipy.stats import rankdata

from ktdeval.errors import UsageError
from ktdeval.market import FloatArray, MarketSnapshot
from ktdeval.stats import least_squares, newey_west_mean
from ktdeval.values import (
    content_hash,
    encode_canonical,
    file_sha256,
    later,
    make_folder,
    temporary_folder,
    to_plain,
    write_atomic,
)
from ktdeval_qlib.model_files import TrainedPredictor, load, save
from ktdeval_qlib.recipes import BaselineRecipe, Estimator, Progress
from ktdeval_qlib.samples import (
    Samples,
    Scaler,
    arrange_sequences,
    normalised_labels,
    sequences,
    shuffled_labels,
)
from ktdeval_qlib.trained_baseline import (
    DESCRIPTION,
    LOG,
    Accuracy,
    ModelFile,
    TrainingLog,
    read_model,
)
from ktdeval_qlib.training_options import Device

MIN_NAMES = 3  #: minimum number of labelled names for a day's rank correlation
_Z95 = 1.959963984540054
_LIBRARIES = ("pyqlib", "torch", "numpy", "lightgbm", "xgboost", "catboost", "scikit-learn")


@dataclass(frozen=True, slots=True)
class TrainingSettings:
    """Training settings other than recipe and samples."""

    seed: int = 0
    rounds: int | None = None  #: replaces the published number of epochs, boosting rounds or steps
    threads: int = 1
    device: Device = "cpu"
    #: whether labels are permuted within each day, as a control in which there is nothing to learn
    shuffled: bool = False


def train(
    recipe: BaselineRecipe,
    snapshot: MarketSnapshot,
    samples: Samples,
    settings: TrainingSettings,
    folder: Path,
    progress: Progress | None = None,
) -> tuple[ModelFile, TrainingLog]:
    """Train a recipe on samples that were made with at least `recipe.days` days, and write the
    model to `folder`, which must not exist yet. On one machine, equal settings give equal files,
    except for the time in the log.

    Raises UsageError if the extra is missing or a setting is out of range; DataError if samples and
    recipe don't fit together.
    """
    scaler = Scaler.fit(samples)
    learnt = samples
    if settings.shuffled:
        learnt = shuffled_labels(samples, settings.seed)

    began = time.perf_counter()
    model, rounds = _fit_model(recipe, learnt, scaler, settings, progress)
    seconds = time.perf_counter() - began
    make_folder(folder.parent, "choose another --out")

    with temporary_folder(".training-", folder.parent) as scratch:
        unfinished = scratch / folder.name
        unfinished.mkdir()
        save(model, recipe, unfinished)
        predictor = load(recipe, unfinished)
        segments = [name for name, _ in samples.split.used.items() if name != "train"]
        content = ModelFile(
            format="ktdeval-qlib-model/1",
            model=recipe.name,
            recipe=recipe_hash(recipe),
            snapshot=snapshot.id,
            label=samples.label,
            wanted=samples.split.wanted,
            used=samples.split.used,
            center=tuple(map(_finite_number, scaler.center)),
            scale=tuple(map(_finite_number, scaler.scale)),
            libraries=_installed_versions(),
            files={path.name: file_sha256(path) for path in sorted(unfinished.iterdir())},
            **asdict(settings),
        )
        accuracy = {}
        for name in segments:
            accuracy[name] = accuracy_of(predictor, samples, scaler, recipe, name)

        log = TrainingLog(seconds=round(seconds, 3), rounds=rounds, accuracy=accuracy)
        write_atomic(unfinished / LOG, encode_canonical(log) + "\n")
        write_atomic(unfinished / DESCRIPTION, encode_canonical(content) + "\n")
        shutil.move(unfinished, folder)

    return content, log


def _fit_model(
    recipe: BaselineRecipe,
    samples: Samples,
    scaler: Scaler,
    settings: TrainingSettings,
    progress: Progress | None,
) -> tuple[Any, int]:
    """Return pyqlib's trained object, and the number of rounds.

    Linear is trained without the extra: the suite's least squares of normalised ranks on scaled
    factors, without an intercept, equals pyqlib's LinearModel (`ols`). The returned object has the
    same attributes.
    """
    if recipe.name == "linear":
        rows = samples.rows("train")
        labels = normalised_labels(samples.labels[rows], "CSRankNorm")
        labelled = np.isfinite(labels)
        fitted = least_squares(scaler.apply(samples.features[rows])[labelled], labels[labelled])

        return SimpleNamespace(coef_=fitted, intercept_=0.0), 0

    estimator = Estimator(recipe, settings.seed, settings.rounds, settings.threads, settings.device)
    # imports pyqlib, whose presence `Estimator` has already checked
    make_dataset = later("ktdeval_qlib.dataset:make_dataset")()
    estimator.fit(make_dataset(samples, scaler, recipe.layout, recipe.days, recipe.label), progress)

    return estimator.model, len(estimator.scores.get("valid", ()))


def is_trained(
    folder: Path,
    recipe: BaselineRecipe,
    snapshot: MarketSnapshot,
    samples: Samples,
    settings: TrainingSettings,
) -> bool:
    """Return whether a folder contains exactly this training. Raises UsageError if it contains a
    different training; DataError if it can't be read.
    """
    if not folder.exists():
        return False

    content = read_model(folder).content
    requested = {
        "recipe": recipe_hash(recipe),
        "snapshot": snapshot.id,
        "label": samples.label,
        **asdict(settings),
        "used": samples.split.used,
    }

    for name, value in requested.items():
        # The number of threads does not affect the result.
        if name != "threads" and getattr(content, name) != value:
            difference = f"{name} is {getattr(content, name)!r}, not {value!r}"
            raise UsageError(
                f"{folder} holds a different training: {difference}; choose another --out, or "
                "remove the folder"
            )

    return True


def recipe_hash(recipe: BaselineRecipe) -> str:
    """Return the SHA-256 of a recipe, since another release may change the recipe."""
    return content_hash(to_plain(recipe))


def accuracy_of(
    predictor: TrainedPredictor,
    samples: Samples,
    scaler: Scaler,
    recipe: BaselineRecipe,
    segment: str,
) -> Accuracy:
    """Return the mean daily rank IC over a segment, with its 95 % interval based on the Newey-West
    standard error.
    """
    daily = rank_ics(
        predictions(predictor, samples, scaler, recipe, segment),
        samples.labels[samples.rows(segment)],
    )
    if len(daily) < 2:
        return Accuracy(days=len(daily), rank_ic=None, low=None, high=None)

    mean = newey_west_mean(daily)
    half = _Z95 * mean.se
    return Accuracy(days=len(daily), rank_ic=mean.mean, low=mean.mean - half, high=mean.mean + half)


def predictions(
    predictor: TrainedPredictor,
    samples: Samples,
    scaler: Scaler,
    recipe: BaselineRecipe,
    segment: str,
) -> FloatArray:
    """Return the [T, N] predictions for a segment's samples, computed as in a trading step; NaN
    without a sample.
    """
    rows = samples.rows(segment)
    inputs = sequences(scaler.apply(samples.features[: rows.stop]), recipe.layout, recipe.days)
    predicted = np.full((rows.stop - rows.start, len(samples.codes)), np.nan)

    for row in range(rows.start, rows.stop):
        names = np.flatnonzero(np.isfinite(samples.labels[row]))
        if len(names):
            features = arrange_sequences(inputs[row, names], recipe.layout)
            predicted[row - rows.start, names] = predictor.predict(features)

    return predicted


def rank_ics(predicted: FloatArray, labels: FloatArray) -> FloatArray:
    """Return each day's rank IC as Qlib defines it: the Spearman correlation of predictions and
    labels, both [T, N]. Days with fewer than three names, or on which all values are equal, are
    omitted.
    """
    correlations = []
    for scores, outcomes in zip(predicted, labels, strict=True):
        defined = np.isfinite(scores) & np.isfinite(outcomes)
        if np.count_nonzero(defined) < MIN_NAMES:
            continue

        ranks = rankdata([scores[defined], outcomes[defined]], axis=1)
        ranks -= ranks.mean(axis=1, keepdims=True)
        spread = np.sqrt((ranks**2).sum(axis=1)).prod()

        if spread > 0:
            correlations.append(float((ranks[0] * ranks[1]).sum() / spread))

    return np.array(correlations)


def _finite_number(value: float) -> float | None:
    return float(value) if np.isfinite(value) else None


def _installed_versions() -> dict[str, str]:
    """Return the version of each installed library."""
    versions = {}
    for library in _LIBRARIES:
        with contextlib.suppress(importlib.metadata.PackageNotFoundError):
            versions[library] = importlib.metadata.version(library)
    return versions
