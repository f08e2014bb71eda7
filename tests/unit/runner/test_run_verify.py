"""`ktdeval card verify` against forgers: whatever of a run is changed, by whomever and however
consistently, is found and named.
"""

from __future__ import annotations

import json
import re
import shutil
from collections.abc import Callable, Sequence
from itertools import chain
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from msgspec.structs import replace

from ktdeval.errors import CardError
from ktdeval.market.snapshots.storage import load_snapshot
from ktdeval.registry import load_plugins
from ktdeval.runner.records.ledger_file import load_ledger
from ktdeval.runner.records.run_folder import RunFolder
from ktdeval.runner.scoring import score
from ktdeval.runner.scoring.score import rescore
from ktdeval.runner.scoring.verify import NOT_CHECKED, verify_records
from ktdeval.values import dumps_pretty, file_sha256, to_plain
from support.json_places import with_value
from support.runs.forging import (
    COLUMNS,
    change_column,
    change_ledger,
    change_transcript,
    execute_again,
    instead,
    more,
    place_of,
)
from support.runs.run_support import (
    MIXED_RUN,
    PLUGIN,
    SAME_MASK,
    TASK,
    WINDOW,
    Done,
    card_of,
    error_line,
    ktdeval,
)

pytestmark = pytest.mark.slow

LIMIT = 7
WHOLE = (*MIXED_RUN, "--limit", LIMIT, *SAME_MASK)
Path_ = tuple[str | int, ...]


@pytest.fixture(scope="module")
def records_findings(market: Path) -> Callable[[Path], Sequence[str]]:
    """What the command finds in the records of a run, without its card."""
    plugins = load_plugins()
    snapshot = load_snapshot(market)
    task = plugins.make_task(TASK)

    def of_run(run: Path) -> list[str]:
        verified = verify_records(RunFolder.load(run), task, plugins, snapshot)
        return [str(finding) for finding in verified.findings]

    return of_run


def verify(run: Path, *words: object) -> Done:
    return ktdeval("card", "verify", run, *words, cwd=run.parent)


def findings(done: Done) -> list[str]:
    """What a verification that fails found; it fails with 1 and without a traceback."""
    assert (done.code, done.err) == (1, ""), done

    *found, verdict = done.out.splitlines()
    assert verdict.endswith(": not verified")

    return [line.removeprefix("error ") for line in found]


def first_episode(run: Path) -> Path:
    """The folder of the episode that a card lists first."""
    return run / "episodes" / card_of(run)["episodes"][0]["id"]


# -- the card
# --------------------------------------------------------------------------------------------------------


def line_of_path(card: Any, path: Path_) -> int:
    """The line of a value in a card's file, found without the code under test: mark it and look
    where the mark is.
    """
    marked = dumps_pretty(with_value(card, path, "\x01mark"))
    return next(
        number for number, line in enumerate(marked.splitlines(), 1) if "\\u0001mark" in line
    )


@pytest.mark.parametrize(
    ("path", "new", "code"),
    [
        (("metrics", "sharpe", "value"), 9.5, 2),
        (("task", "config", "trading", "buy_fee_bps"), 0.0, 2),
        (("windows", 0, "last"), "2024-03-28", 2),
        (("snapshot", "name"), "CSI300", 1),
        (("metrics", "sharpe", "formula"), "sharpe/2: better", 1),
        (("rules",), "paper", 1),
        (
            ("reference", "benchmark_buy_and_hold", WINDOW, "metrics", "total_return", "value"),
            -0.5,
            1,
        ),
    ],
    ids=lambda value: ".".join(map(str, value)) if isinstance(value, tuple) else str(value),
)
def test_a_changed_value_of_the_card_is_named_with_its_line(
    run: Path, path: Path_, new: Any, code: int
) -> None:
    """Also of words, which no other part of the card need contradict; those that one does are
    refused as the card is read.
    """
    card = with_value(card_of(run), path, new)
    (run / "cards" / f"{TASK}.json").write_text(dumps_pretty(card))
    done = verify(run, "--plugin", PLUGIN)
    line = error_line(done) if code == 2 else findings(done)[0]

    assert done.code == code, done
    assert re.search(rf"{TASK}\.json: line \d+: ", line)
    assert code == 2 or f"line {line_of_path(card, path)}: " in line


def test_provenance_is_not_verified_and_a_card_without_its_run_cannot_be(
    run: Path, tmp_path: Path
) -> None:
    card = with_value(card_of(run), ("provenance", "environment", "numpy"), "0.0.1")
    (run / "cards" / f"{TASK}.json").write_text(dumps_pretty(card))

    assert verify(run).code == 0

    shutil.copy(run / "cards" / f"{TASK}.json", tmp_path / "mine.json")
    done = ktdeval("card", "verify", tmp_path / "mine.json", cwd=tmp_path)

    assert "no run here (manifest.json is missing)" in error_line(done)
    assert ktdeval("card", "verify", "--card-only", tmp_path / "mine.json", cwd=tmp_path).code == 0


@pytest.mark.parametrize(("words", "passed"), [([], "verified"), (["--card-only"], "valid")])
def test_each_card_of_a_folder_is_judged_independently(
    run: Path, words: list[str], passed: str
) -> None:
    for name in ("a", "z"):
        (run / "cards" / f"{name}.json").write_text("[]")

    done = ktdeval("card", "verify", *words, run, cwd=run.parent)
    verified, second, verdict, counted = done.out.splitlines()

    assert f"{TASK}.json: {passed} (" in verified
    assert re.match(r"error .*z\.json: line 1: ", second)
    assert verdict == f"{run / 'cards' / 'z.json'}: not {passed}"
    assert counted == f"1 of 3 cards {passed}"
    assert done.code == 2
    assert "a.json: line 1: " in error_line(done)


def test_a_card_alone_is_judged_as_json(run: Path) -> None:
    (run / "cards" / "a.json").write_text("[]")
    done = ktdeval("card", "verify", "--card-only", run, "--json", cwd=run.parent)
    broken, whole = json.loads(done.out)

    assert (broken["card"], broken["valid"]) == (str(run / "cards" / "a.json"), False)
    (finding,) = broken["findings"]
    assert "a.json: line 1: " in finding["message"]
    assert (whole["card"], whole["valid"]) == (str(run / "cards" / f"{TASK}.json"), True)
    assert whole["findings"] == []
    assert done.code == 2


def test_a_path_in_a_card_is_never_followed(run: Path) -> None:
    card = card_of(run)
    paths = (
        "../../etc/passwd",
        "/etc/passwd",
        "episodes/../../../etc/passwd",
        "episodes/x/ledger.parquet",
    )
    card["artefacts"] |= dict.fromkeys(paths, "0" * 64)
    (run / "cards" / f"{TASK}.json").write_text(dumps_pretty(card))
    done = verify(run, "--plugin", PLUGIN)

    assert file_sha256(Path("/etc/passwd"))[:12] not in done.out + done.err

    problems = findings(done)

    for path in paths:
        assert f"{path}: is named by the card, but is not a record of this run" in problems


def test_an_artefact_that_the_card_leaves_out_is_missed(run: Path) -> None:
    card = card_of(run)
    del card["artefacts"][sorted(card["artefacts"])[0]]
    (run / "cards" / f"{TASK}.json").write_text(dumps_pretty(card))
    assert any("artefacts" in finding for finding in findings(verify(run, "--plugin", PLUGIN)))


# -- the ledger
# ------------------------------------------------------------------------------------------------------


def test_the_columns_tampered_with_are_all_that_there_are(whole: Path) -> None:
    steps = to_plain(load_ledger(first_episode(whole) / "ledger.parquet").steps)
    assert {*COLUMNS["steps"], "orders", "positions", "charges"} == set(steps[0])
    assert set(COLUMNS["orders"]) == set(
        next(step["orders"][0] for step in steps if step["orders"])
    )
    assert set(COLUMNS["positions"]) == set(steps[-1]["positions"][0])


def test_a_changed_ledger_is_named_and_so_is_its_hash(run: Path) -> None:
    folder = first_episode(run)
    change_ledger(folder, lambda steps: change_column(steps, "steps", "nav_minor", 3, 3))
    problems = findings(verify(run, "--plugin", PLUGIN))
    name = f"episodes/{folder.name}/ledger.parquet"

    assert problems[0].startswith(f"{name}: line 4 "), problems
    assert any(finding.startswith(f"{name}: SHA-256 is ") for finding in problems), problems


def test_a_card_that_is_not_valid_is_not_written(
    run: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    right = score.build_card
    card = (run / "cards" / f"{TASK}.json").read_bytes()
    monkeypatch.setattr(
        score, "build_card", lambda *given: replace(right(*given), calibration=None)
    )

    with pytest.raises(CardError, match=r"cards/.*calibration"):
        rescore(run, load_plugins(), {})

    assert (run / "cards" / f"{TASK}.json").read_bytes() == card


# -- a ledger forged with care: fills, hashes and card all follow from the forged decisions
# -------------------------------


def forge(run: Path, market: Path, change: Callable[[list[dict[str, Any]]], Any]) -> None:
    """Change decisions, execute them as the engine would, and let a new card be made that
    agrees.
    """
    execute_again(run, first_episode(run), load_plugins(), load_snapshot(market), change)
    (run / "cards" / f"{TASK}.json").unlink()
    rescore(run, load_plugins(), {})  # which also checks the card against its schema and itself


def filled_order(steps: list[dict[str, Any]]) -> dict[str, Any]:
    step, number = place_of(
        steps, lambda order: order["status"] == "filled" and order["target_weight"]
    )
    return steps[step]["orders"][number]  # type: ignore[no-any-return]


def dropped(steps: list[dict[str, Any]]) -> None:
    step, number = place_of(steps, lambda order: order["status"] == "filled")
    del steps[step]["orders"][number]


def each(steps: list[dict[str, Any]], **changes: Any) -> None:
    for step in steps:
        step.update(changes)


def bolder(steps: list[dict[str, Any]]) -> None:
    for order in chain.from_iterable(step["orders"] for step in steps):
        order.update(confidence=1.0)


FORGERIES: dict[str, Callable[[list[dict[str, Any]]], Any]] = {
    "lighter": (
        lambda steps: filled_order(steps).update(
            target_weight=filled_order(steps)["target_weight"] / 2
        )
    ),
    "dropped": dropped,
    "bolder": bolder,
    "another reason": (
        lambda steps: filled_order(steps).update(reason="because I knew it would rise")
    ),
    "blameless": lambda steps: each(
        steps, failures={}, provenance="model", submissions=1, unmask_attempts=0
    ),
    "cheaper": lambda steps: each(steps, input_tokens=1, output_tokens=1),
}


def test_a_ledger_that_is_executed_again_without_a_change_verifies(run: Path, market: Path) -> None:
    """What a forger starts from."""
    forge(run, market, lambda steps: None)
    assert verify(run).code == 0


@pytest.mark.parametrize("change", FORGERIES.values(), ids=FORGERIES)
def test_forged_ledger_with_a_matching_card_is_exposed_by_the_transcript(
    run: Path, market: Path, change: Callable[[list[dict[str, Any]]], Any]
) -> None:
    forge(run, market, change)
    (finding,) = findings(verify(run))
    name = f"episodes/{first_episode(run).name}/transcript.jsonl.zst"

    assert re.match(
        rf"{name}: line \d+: line \d+ of ledger\.parquet does not follow from its replies: ",
        finding,
    ), finding


def test_quick_check_recomputes_figures_and_lists_what_it_does_not_check(
    run: Path, market: Path
) -> None:
    """A changed ledger is found by its figures and its hash; one whose card agrees is found only by
    executing its steps again, which the check says that it does not do.
    """
    made = json.loads(verify(run, "--quick", "--json").out)[0]
    assert made["figures_verified"] is True
    assert made["not_checked"] == [*NOT_CHECKED]

    forge(run, market, FORGERIES["lighter"])
    done = verify(run, "--quick")
    assert done.code == 0
    assert all(unchecked in done.out for unchecked in NOT_CHECKED)

    change_ledger(
        first_episode(run), lambda steps: steps[3].update(nav_minor=2 * steps[3]["nav_minor"])
    )
    done = verify(run, "--quick")
    assert done.code == 1
    *found, verdict = done.out.splitlines()
    assert verdict.endswith("not figures verified")
    assert ["SHA-256 is " in line for line in found] == [True, False], found
    assert f"{TASK}.json: " in found[1]


def test_a_quick_check_and_one_of_the_card_alone_exclude_each_other(run: Path) -> None:
    assert "--card-only and --quick exclude each other" in verify(run, "--quick", "--card-only").err


# -- the transcript
# --------------------------------------------------------------------------------------------------


def test_a_changed_transcript_is_named_with_its_line_and_so_is_its_hash(run: Path) -> None:
    folder = first_episode(run)
    change_transcript(folder, lambda entries: entries[:5])
    problems = findings(verify(run, "--plugin", PLUGIN))
    name = f"episodes/{folder.name}/transcript.jsonl.zst"

    assert re.match(
        rf"{re.escape(name)}: line \d+: 5 lines, but ledger.parquet has 7", problems[0]
    ), problems
    assert any(finding.startswith(f"{name}: SHA-256 is ") for finding in problems), problems


def rewritten(path: Path, change: Callable[[pa.Table], pa.Table]) -> None:
    pq.write_table(change(pq.read_table(path)), path)


UNREADABLE: dict[str, tuple[str, Callable[[Path], Any]]] = {
    "transcript: empty": ("transcript.jsonl.zst: ", lambda path: path.write_bytes(b"")),
    "transcript: not zstd": ("transcript.jsonl.zst: ", lambda path: path.write_bytes(b"not zstd")),
    "transcript: no frame": (
        "transcript.jsonl.zst: ",
        lambda path: path.write_bytes(b"\x28\xb5\x2f\xfd\x00"),
    ),
    "transcript: huge": (
        "transcript.jsonl.zst: ",
        lambda path: path.write_bytes(b"\x28\xb5\x2f\xfd\xe0" + b"\x7f" * 8),
    ),
    "ledger: empty": (
        "ledger.parquet: not a readable ledger: ",
        lambda path: path.write_bytes(b""),
    ),
    "ledger: cut": (
        "ledger.parquet: not a readable ledger: ",
        lambda path: path.write_bytes(path.read_bytes()[:-20]),
    ),
    "ledger: text": (
        "ledger.parquet: not a readable ledger: ",
        lambda path: path.write_text("step,nav\n0,1\n"),
    ),
    "ledger: gone": ("ledger.parquet: not a readable ledger: ", lambda path: path.unlink()),
    "ledger: column": (
        "ledger.parquet: not a readable ledger: ",
        lambda path: rewritten(path, lambda table: table.drop_columns(["cash_minor"])),
    ),
    "ledger: day": (
        "ledger.parquet: not a readable ledger: Failed to parse string: 'someday'",
        lambda path: rewritten(
            path,
            lambda table: table.set_column(
                table.column_names.index("filled_on"),
                table.schema.field("filled_on"),
                pa.array(["someday"] * table.num_rows, pa.string()),
            ),
        ),
    ),
    "ledger: null": (
        "ledger.parquet: not a readable ledger: ",
        lambda path: rewritten(
            path,
            lambda table: table.set_column(
                table.column_names.index("nav_minor"),
                "nav_minor",
                pa.nulls(table.num_rows, pa.int64()),
            ),
        ),
    ),
}


@pytest.mark.parametrize("how", UNREADABLE)
def test_a_record_that_can_not_be_read_is_named(
    run: Path, records_findings: Callable[[Path], Sequence[str]], how: str
) -> None:
    message, damage = UNREADABLE[how]
    damage(first_episode(run) / message.split(":")[0])
    assert message in records_findings(run)[0]


# -- the snapshot
# ----------------------------------------------------------------------------------------------------


def change_cell(folder: Path, table: str, column: str, row: int, new: Callable[[Any], Any]) -> None:
    """Change one cell of a stored table."""
    path = folder / table
    content = pq.read_table(path)
    values = content[column].to_pylist()
    values[row] = new(values[row])
    index = content.column_names.index(column)
    pq.write_table(
        content.set_column(
            index, content.schema.field(index), pa.array(values, content.schema.field(index).type)
        ),
        path,
    )


CELLS: list[tuple[str, str, int, Callable[[Any], Any], str]] = [
    ("bars.parquet", "close", 12_010, more(0.01), "bars.parquet: close differs, first on 2023-12-"),
    ("bars.parquet", "volume", 12_010, more(1), "bars.parquet: volume differs, first on 2023-12-"),
    (
        "bars.parquet",
        "member",
        12_010,
        lambda old: not old,
        "bars.parquet: member differs, first on 2023-12-",
    ),
    (
        "bars.parquet",
        "factor",
        12_010,
        lambda old: old * 2,
        "bars.parquet: factor differs, first on 2023-12-",
    ),
    ("assets.parquet", "industry", 3, instead("Banking"), "assets.parquet: industries differ"),
    (
        "indices.parquet",
        "close",
        5,
        lambda old: old * 1.01,
        "indices.parquet: 609900.SH differs, first on 2022-12-19",
    ),
]


def test_a_market_that_has_moved_is_found(run: Path, own_market: Path) -> None:
    assert verify(run, "--data", own_market).code == 0


@pytest.mark.parametrize(
    ("table", "column", "row", "new", "message"), CELLS, ids=[f"{one[0]} {one[1]}" for one in CELLS]
)
def test_a_changed_cell_of_the_snapshot_is_named_with_table_field_and_day(
    run: Path,
    own_market: Path,
    table: str,
    column: str,
    row: int,
    new: Callable[[Any], Any],
    message: str,
) -> None:
    change_cell(own_market, table, column, row, new)
    assert message in error_line(verify(run, "--data", own_market))


def test_a_changed_manifest_of_the_snapshot_is_named(run: Path, own_market: Path) -> None:
    manifest = json.loads((own_market / "manifest.json").read_text())
    index = ("index_names", "609900.SH")
    for path, new in (
        (("meta", "synthetic"), False),
        (("meta", "placebo"), True),
        (("id",), "0" * 64),
        (index, "CSI 300"),
    ):
        (own_market / "manifest.json").write_text(dumps_pretty(with_value(manifest, path, new)))
        assert "manifest.json: " in error_line(verify(run, "--data", own_market))


@pytest.mark.parametrize(
    ("label", "text"),
    [
        ("name", "CSI300"),
        ("source", "another vendor"),
        ("repairs", ["derive_high_low: 3 rows"]),
    ],
    ids=["name", "source", "repairs"],
)
def test_reimport_of_the_same_content_verifies_under_its_own_labels(
    run: Path, own_market: Path, label: str, text: Any
) -> None:
    manifest = json.loads((own_market / "manifest.json").read_text())
    (own_market / "manifest.json").write_text(
        dumps_pretty(with_value(manifest, ("meta", label), text))
    )

    assert "verified" in verify(run, "--data", own_market).out


def test_labels_on_a_card_are_those_of_the_market_that_the_run_names(run: Path) -> None:
    card = run / "cards" / f"{TASK}.json"
    card.write_text(
        dumps_pretty(
            with_value(
                json.loads(card.read_text()), ("snapshot", "source"), "real data of a vendor"
            )
        )
    )

    assert "snapshot.source" in verify(run).err + verify(run).out


@pytest.mark.parametrize("command", ["score", "card verify"])
def test_arguments_of_a_provider_without_the_provider_are_refused(run: Path, command: str) -> None:
    done = ktdeval(*command.split(), run, "--data-args", "seed=1", cwd=run.parent)
    assert "--data-args needs --data, which names the data provider" in done.err


def test_snapshot_with_another_manifest_is_not_the_one_the_run_used(
    run: Path, tmp_path: Path
) -> None:
    from ktdeval.market.snapshots.storage import save_snapshot
    from ktdeval.testing import small_market

    save_snapshot(small_market(seed=12), tmp_path / "other")

    for done in (
        verify(run, "--data", tmp_path / "other"),
        ktdeval("score", run, "--data", tmp_path / "other", cwd=tmp_path),
    ):
        assert re.search("is snapshot .*the run used ", error_line(done))

    assert verify(run, "--data", tmp_path / "nowhere").code == 2


def test_a_run_uses_its_first_cutoff_unless_given_another(market: Path, tmp_path: Path) -> None:
    words = (
        "--model",
        "builtin/hold",
        "--tasks",
        TASK,
        "--windows",
        WINDOW,
        "--limit",
        1,
        "--data",
        market,
        "--out",
        "run",
    )

    for given, date in (
        ("2024-06", "2024-06"),
        (None, "2024-06"),
        ("2023-01", "2023-01"),
        ("unknown", None),
        (None, None),
    ):
        assert (
            ktdeval(*words, *(("--knowledge-cutoff", given) if given else ()), cwd=tmp_path).code
            == 0
        )
        recorded = card_of(tmp_path / "run").get("knowledge_cutoff", "unknown")
        assert (recorded if isinstance(recorded, str) else recorded["date"]) == (date or "unknown")
