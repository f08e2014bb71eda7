"""`ktdeval train qlib` and the resulting model, with Linear, which needs no extra: files, figures,
trades, refusals.
"""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy.stats import rankdata, spearmanr

from ktdeval import testing
from ktdeval.market.snapshots.storage import load_snapshot, save_snapshot
from ktdeval.registry import load_plugins
from ktdeval.testing import Terminal, on_each_row, small_market
from ktdeval_qlib import TITLES
from ktdeval_qlib.fit_baseline import rank_ics
from ktdeval_qlib.recipes import recipes
from ktdeval_qlib.samples import SegmentDays, Segments, make_samples, make_split
from ktdeval_qlib.trained_baseline import read_log, read_model
from support.baselines.qlib_play import TEST, TRAIN, VALID, WINDOW
from support.runs.forging import read_transcript
from support.runs.run_support import SAME_MASK, episodes, ktdeval, records
from support.tables import changed

DAYS = ("--train", TRAIN, "--valid", VALID, "--test", TEST)
TASK = "blinded_open_research"


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a small market of two years, `data`, and, in `models`, Linear trained on it."""
    folder = tmp_path_factory.mktemp("qlib")
    save_snapshot(small_market(40, first="2022-01-04"), folder / "data")
    done = ktdeval(
        "train", "qlib", "qlib/linear", "--data", "data", *DAYS, "--out", "models", cwd=folder
    )

    assert done.code == 0, done

    return folder


def command(
    trained: Path, out: Path, *words: object, models: Path | None = None
) -> tuple[object, ...]:
    how = (
        "--data",
        trained / "data",
        "--windows",
        WINDOW,
        "--limit",
        3,
        *SAME_MASK,
        "--out",
        out,
        *words,
    )
    return (
        "--model",
        "qlib/linear",
        "--tasks",
        TASK,
        "--model-args",
        f"trained={models or trained / 'models'}",
        *how,
    )


@pytest.mark.slow
def test_the_model_fulfils_the_contract_of_models(trained: Path) -> None:
    testing.check_model(
        load_plugins().make_model("qlib/linear", {"trained": str(trained / "models")})
    )


def test_linear_is_least_squares_of_ranks_on_scaled_factors(trained: Path) -> None:
    snapshot = load_snapshot(trained / "data")
    segments = Segments(*(SegmentDays(*days.split(":")) for days in (TRAIN, VALID, TEST)))
    samples = make_samples(snapshot, make_split(snapshot, segments))
    rows = samples.rows("train")
    features = samples.features[rows]
    labels = samples.labels[rows]
    flat = features[samples.member[rows]]
    middle = np.nanmedian(flat, axis=0)
    scale = 1.4826 * np.nanmedian(np.abs(flat - middle), axis=0)
    x = []
    y = []

    for day, outcomes in zip(features, labels, strict=True):
        known = np.isfinite(outcomes)
        y.extend((rankdata(outcomes[known]) / known.sum() - 0.5) * 3.46)
        x.extend(np.nan_to_num(np.clip((day[known] - middle) / scale, -3, 3)))

    wanted = np.linalg.lstsq(np.array(x), np.array(y), rcond=None)[0]
    stored = json.loads((trained / "models/linear/seed-0/linear.json").read_text())
    np.testing.assert_allclose(stored["coefficients"], wanted, rtol=1e-8, atol=1e-12)


def test_the_description_names_the_training_data(trained: Path) -> None:
    content = read_model(trained / "models/linear/seed-0").content
    assert (content.model, content.label, content.seed) == ("linear", "qlib", 0)
    assert content.snapshot == load_snapshot(trained / "data").id
    assert content.wanted.train == SegmentDays(*TRAIN.split(":"))
    assert content.used.train.first >= content.wanted.train.first
    # purged: labels reach two days ahead
    assert content.used.train.last < content.wanted.train.last

    log = read_log(trained / "models/linear/seed-0")
    assert log.accuracy.keys() == {"valid", "test"}
    assert log.accuracy["test"].low < log.accuracy["test"].rank_ic < log.accuracy["test"].high


def test_retraining_is_reproducible_and_a_second_command_trains_nothing(
    trained: Path, tmp_path: Path
) -> None:
    again = ktdeval(
        "train",
        "qlib",
        "qlib/linear",
        "--data",
        trained / "data",
        *DAYS,
        "--out",
        tmp_path / "models",
        cwd=tmp_path,
    )

    assert again.code == 0, again

    for name in ("trained.json", "linear.json"):
        assert (tmp_path / "models/linear/seed-0" / name).read_bytes() == (
            trained / "models/linear/seed-0" / name
        ).read_bytes()

    once_more = ktdeval(
        "train",
        "qlib",
        "qlib/linear",
        "--data",
        trained / "data",
        *DAYS,
        "--out",
        tmp_path / "models",
        cwd=tmp_path,
    )

    assert once_more.code == 0
    assert "trained before" in once_more.err


@pytest.mark.slow
def test_a_run_verifies_from_its_records_and_repeats_byte_by_byte(
    trained: Path, tmp_path: Path
) -> None:
    runs = [tmp_path / "first", tmp_path / "second"]
    for out in runs:
        done = ktdeval(*command(trained, out), cwd=trained)
        assert done.code == 0, done

    assert records(runs[0]) == records(runs[1])

    shutil.move(trained / "models", trained / "hidden")
    try:
        done = ktdeval("card", "verify", runs[0], cwd=tmp_path)
    finally:
        shutil.move(trained / "hidden", trained / "models")

    assert done.code == 0, done

    entry = read_transcript(episodes(runs[0])[0])[0]
    assert len(entry["predicted"]) == 36

    manifest = json.loads((runs[0] / "manifest.json").read_text())
    assert read_model(trained / "models/linear/seed-0").sha256 in json.dumps(manifest)


def test_days_of_training_can_not_be_evaluated(
    trained: Path, tmp_path: Path, terminal: Terminal
) -> None:
    words = command(trained, tmp_path / "run", "--windows", "2023-12-01:2024-01-31")
    assert (
        "is not after the days of training and validation, which end on 2023-12-29"
        in terminal.error(*words)
    )


# A file of the trained model, what is changed in it (null: it is gone), and what is said.
@on_each_row(
    "file, change, message",
    (".", None, "holds no trained model; make it: ktdeval train qlib qlib/linear"),
    ("linear.json", None, "linear.json: can't be read"),
    ("linear.json", {"0": "1"}, "linear.json: SHA-256 is"),
    ("trained.json", '{"model": "lin', "trained.json"),
    (
        "trained.json",
        {'"model":"linear"': '"model":"quadratic"'},
        "is not a baseline of this version",
    ),
    ("trained.json", {'"linear.json"': '"../linear.json"'}, "trained.json"),
)
def test_a_missing_or_changed_training_is_one_line(
    file: str, change: Any, message: str, trained: Path, tmp_path: Path, terminal: Terminal
) -> None:
    shutil.copytree(trained / "models", tmp_path / "models")
    path = tmp_path / "models/linear/seed-0" / file
    if change is not None:
        path.write_text(changed(path.read_text(), change))
    else:
        shutil.rmtree(path) if path.is_dir() else path.unlink()

    assert message in terminal.error(
        *command(trained, tmp_path / "run", models=tmp_path / "models")
    )


@on_each_row(
    "words, message",
    (["qlib/liner"], "no model to train is called 'qlib/liner'; did you mean 'qlib/linear'"),
    (["qlib/linear", "--train", "2023-06-15"], "--train 2023-06-15: expected FIRST:LAST"),
    (["qlib/linear", "--train", "2023-10-31:2023-06-15"], "segments are in order"),
    (["qlib/linear", "--train", "2001-01-01:2002-01-01"], "none is left of snapshot"),
    # A file of the trained model, what is changed in it (null: it is gone), and what is said.
    (
        [
            "qlib/linear",
            "--train",
            "2023-06-15:2023-10-31",
            "--valid",
            "2023-11-01:2023-12-29",
            "--test",
            "2024-01-02:2024-03-29",
            "--label",
            "open",
        ],
        (
            "models/linear/seed-0 holds a different training: label is 'qlib', not 'open'; "
            "choose another --out"
        ),
    ),
)
def test_what_can_not_be_trained_is_one_line(
    words: tuple[str, ...], message: str, trained: Path, terminal: Terminal
) -> None:
    assert message in terminal.error(
        "train", "qlib", *words, "--data", trained / "data", "--out", trained / "models"
    )


def test_days_default_to_those_that_the_market_has(trained: Path, tmp_path: Path) -> None:
    done = ktdeval(
        "train",
        "qlib",
        "qlib/linear",
        "--data",
        trained / "data",
        "--out",
        tmp_path / "models",
        "--json",
        cwd=tmp_path,
    )

    assert done.code == 0, done
    assert "the paper's days of training are not in snapshot" in done.err
    assert json.loads(done.out)[0]["accuracy"]["test"]["days"] > 30
    assert read_model(tmp_path / "models/linear/seed-0").content.last_day < "2024-01-01"


def test_rank_ics_are_spearmans_correlations_by_day() -> None:
    rng = np.random.default_rng(5)
    predicted = np.round(rng.normal(size=(9, 30)), 1)
    labels = np.round(rng.normal(size=(9, 30)), 1)
    labels[0, 2:] = np.nan  # two names: correlation is not defined
    labels[1] = 1.0  # no spread
    predicted[2, 5] = np.nan
    known = [np.isfinite(predicted[day] + labels[day]) for day in range(9)]
    wanted = [
        spearmanr(predicted[day][known[day]], labels[day][known[day]]).statistic
        for day in range(2, 9)
    ]
    np.testing.assert_allclose(rank_ics(predicted, labels), wanted, atol=1e-12)

    assert rank_ics(np.array([[1.0, 2, 3, 4]]), np.array([[1.0, 2, 4, 3]])) == pytest.approx([0.8])


def test_the_manifest_lists_the_recipes() -> None:
    assert list(recipes()) == list(TITLES)
