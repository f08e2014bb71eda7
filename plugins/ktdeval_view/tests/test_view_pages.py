"""`ktdeval view` on real runs: everything that was said, booked and remembered is in the pages,
secrets are not, and damage is reported.
"""

from __future__ import annotations

import dataclasses
import json
import re
import shutil
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from msgspec import structs

from ktdeval.harness import SIGNAL_FORM, TranscriptEntry
from ktdeval.market import load_snapshot
from ktdeval.registry import load_plugins
from ktdeval.runner import RunFolder, pack_lines
from ktdeval.stats import judged_orders
from ktdeval.testing import not_empty, on_each_row
from ktdeval.trading import Ledger, PositionRecord, StepRecord
from ktdeval.values import file_sha256, loads_strict, to_plain
from ktdeval_view.conversation import SharedTexts
from ktdeval_view.document import EnvironmentRedactor
from ktdeval_view.episode_records import EpisodeRecords, page_name, read_episode, step_in_units
from ktdeval_view.market_facts import TrueNames, find_names, stock_paths
from ktdeval_view.memory import memory_panels
from support.figures.ledger_cases import short_ledger
from support.pages.view_page import (
    KEY,
    SECRETS,
    assets_of,
    check_page,
    check_shared_page,
    data_of,
    days_of,
    head_of,
    pages,
    view,
)
from support.paths import REPOSITORY
from support.runs.run_support import (
    DAYS_IN_WINDOW,
    PLUGIN,
    SAME_MASK,
    TASK,
    episodes,
    error_line,
    ktdeval,
)

pytestmark = pytest.mark.slow

ASSETS = REPOSITORY / "plugins" / "ktdeval_view" / "assets"


def copy_of(runs_folder: Path, run: str, folder: Path) -> Path:
    """A folder with a copy of one run, to be damaged."""
    shutil.copytree(runs_folder / run, folder / run, ignore=shutil.ignore_patterns("view"))
    return folder / run


def notes_of(page: Path) -> str:
    return "\n".join(head_of(page)["notes"])


# -- what is in them


@pytest.mark.exhaustive
@pytest.mark.parametrize("run", ["talk", "seeds", "bright"])
def test_all_messages_and_bookings_are_in_the_pages(runs_folder: Path, run: str) -> None:
    folder = RunFolder.load(runs_folder / run)
    redact = EnvironmentRedactor(SECRETS).value
    for spec in not_empty(folder.manifest.specs):
        ledger = folder.load_ledger(spec)
        days = days_of(runs_folder / run / "view" / page_name(spec))
        assert [day["step"] for day in days] == redact(
            [step_in_units(ledger, step) for step in ledger.steps]
        )
        for day, entry in not_empty(zip(days, folder.load_transcript(spec), strict=True)):
            assert day["talk"] == redact(
                {name: to_plain(entry)[name] for name in ("exchanges", "submission")}
            )


@pytest.mark.exhaustive
def test_pages_load_only_shared_files_and_never_treat_text_as_markup(
    runs_folder: Path,
) -> None:
    files = sorted(runs_folder.glob("*/view/*.html"))
    files = [path for path in files if not path.name.startswith("tear-sheet-")]
    assert len(files) == 4 + 1 + 3 + 1 + 1 + 1

    # The page of a single episode is one file; pages of several episodes share files.
    for path in files:
        is_one_file = path.name in ("index.html", "side-by-side.html")
        if is_one_file or path.parent.parent.name in ("talk", "bright"):
            check_page(path)
        else:
            check_shared_page(path)

    # Scripts never turn text into markup.
    for path in ASSETS.glob("*.js"):
        files = re.findall(
            r"innerHTML|outerHTML|insertAdjacentHTML|document\.write|\beval\b|\bFunction\(|fetch\(|XMLHttp",
            path.read_text(),
        )
        assert not files, path.name

    # Markup in a model's text stays packed.
    (page,) = pages(runs_folder / "talk" / "view")

    assert "onerror" not in page.read_text()
    assert "onerror" in "".join(data_of(page).values())


@pytest.mark.exhaustive
def test_true_names_accompany_handles_if_the_lens_matches_the_run(
    runs_folder: Path,
) -> None:
    (page,) = pages(runs_folder / "talk" / "view")
    names = head_of(page)["names"]
    behind = assets_of(page)
    market = load_snapshot(runs_folder / "market")
    checked = 0

    for day in days_of(page):
        assert len(day["handles"]) in (0, len(day["step"]["orders"]))
        for handle, order in zip(day["handles"], day["step"]["orders"], strict=False):
            company = market.names[market.asset_index[order["code"]]]
            assert re.fullmatch(r"asset_\d{4}", handle)
            assert behind[handle] == [order["code"], company]
            checked += 1

    assert checked > 20

    decided = [row["decided_on"] for row in head_of(page)["rows"]]
    start = -names["first_day"]

    assert names["days"][start : start + len(decided)] == decided
    assert set(names["sectors"].values()) == set(market.industries)

    # A bright page names companies by code.
    (page,) = pages(runs_folder / "bright" / "view")
    names = head_of(page)["names"]

    assert all(
        code == handle and company.startswith("Velmora")
        for handle, (code, company) in assets_of(page).items()
    )
    assert names["days"] == []
    assert names["sectors"] == {}

    # Names are omitted if the lens is not the one of the run.
    run = RunFolder.load(runs_folder / "talk")
    (spec,) = run.manifest.specs
    records = read_episode(run, spec)
    other = EpisodeRecords(
        dataclasses.replace(spec, seed=5), "finished", records.ledger, records.talks
    )

    assert find_names(records, load_plugins(), market).problem == ""
    assert "other handles" in find_names(other, load_plugins(), market).problem


@pytest.mark.exhaustive
def test_prices_and_outcomes_of_orders_match_the_market(runs_folder: Path) -> None:
    # Orders are judged as in calibration.
    market = load_snapshot(runs_folder / "market")
    run = RunFolder.load(runs_folder / "seeds")
    for spec in run.manifest.specs:
        facts = []
        for day in days_of(runs_folder / "seeds" / "view" / page_name(spec)):
            facts += [fact for fact in day["facts"] if fact is not None]

        shown = [fact["right"] for fact in facts if fact["right"] is not None]
        assert shown == [
            forecast.success for forecast in judged_orders(run.load_ledger(spec), market).forecasts
        ]

    # Prices around an order are those of the market.
    (page,) = pages(runs_folder / "talk" / "view")
    days = days_of(page)
    day = next(
        day for day in days if any(order["filled_shares"] for order in day["step"]["orders"])
    )
    row = market.day_index(day["step"]["filled_on"])

    for order, fact in zip(day["step"]["orders"], day["facts"], strict=True):
        if order["filled_shares"]:
            column = market.asset_index[order["code"]]
            assert fact["open"] == pytest.approx(market.open[row, column], abs=1e-6)
            assert fact["open"] == order["price"]
            assert fact["to_close"] == pytest.approx(
                market.close[row, column] / market.open[row, column] - 1, abs=1e-6
            )

    # The closes of every ordered or held stock are included.
    closes = json.loads(data_of(page)["closes"])
    codes = set()
    for day in days:
        rows = (*day["step"]["orders"], *day["step"]["positions"])
        codes |= {row["code"] for row in rows}

    assert set(closes["closes"]) == codes
    assert closes["days"][closes["start"]] == days[0]["step"]["decided_on"]

    first = market.day_index(closes["days"][0])

    for code, changes in closes["closes"].items():
        column = market.asset_index[code]
        now = 0
        for number, change in enumerate(changes):
            expected = (
                market.adjusted_close[first + number, column]
                / market.factor[first + len(changes) - 1, column]
            )
            if change is None:
                assert expected != expected
            else:
                now += change
                assert now / closes["scale"] == pytest.approx(expected, abs=0.51 / closes["scale"])


@pytest.mark.exhaustive
def test_the_index_has_the_figures_of_the_ledgers(runs_folder: Path) -> None:
    run = RunFolder.load(runs_folder / "seeds")
    entries = head_of(runs_folder / "seeds" / "view" / "index.html")["episodes"]

    assert [entry["seed"] for entry in entries] == [0, 1, 2]

    for spec, entry in zip(run.manifest.specs, entries, strict=True):
        ledger = run.load_ledger(spec)
        assert entry["page"] == page_name(spec)
        assert entry["return"] == pytest.approx(ledger.nav[-1] / ledger.nav[0] - 1)
        assert entry["failures"] == sum(sum(step.failures.values()) for step in ledger.steps) > 0
        assert (
            entry["decided"]
            == sum(step.provenance.startswith("model") for step in ledger.steps) / DAYS_IN_WINDOW
            < 1
        )
        assert (entry["state"], entry["steps"], entry["planned"]) == (
            "finished",
            DAYS_IN_WINDOW,
            DAYS_IN_WINDOW,
        )


@pytest.mark.exhaustive
def test_equal_records_give_equal_bytes_and_the_run_is_only_read(runs_folder: Path) -> None:
    before = {
        path: file_sha256(path) for path in (runs_folder / "seeds").rglob("*") if path.is_file()
    }
    view(runs_folder, "seeds", "--out", "again")

    assert {
        path: file_sha256(path) for path in (runs_folder / "seeds").rglob("*") if path.is_file()
    } == before

    for path in (runs_folder / "seeds" / "view").iterdir():
        assert (runs_folder / "again" / path.name).read_bytes() == path.read_bytes()


# -- beside another run


@pytest.mark.exhaustive
def test_episodes_of_another_run_can_be_chosen_on_the_page_of_two(
    runs_folder: Path, tmp_path: Path
) -> None:
    view(runs_folder, "bright", "--beside", "seeds", "--out", tmp_path / "pages")
    page = tmp_path / "pages" / "side-by-side.html"
    episodes = head_of(page)["episodes"]

    assert [one["run"] for one in episodes] == ["bright", "seeds", "seeds", "seeds"]
    for one in episodes:
        assert (page.parent / one["page"]).is_file()

    # The sentence is that of the other run's own page.
    own = head_of(page.parent / episodes[1]["page"])
    assert episodes[1]["sentence"] == own["why"]["sentence"]

    done = view(runs_folder, "bright", "--beside", "killed", "--out", tmp_path / "none", code=2)
    assert "killed: --beside needs a run with a finished trading episode" in error_line(done)


# -- secrets


@pytest.mark.exhaustive
def test_no_secret_is_in_any_page_nor_in_keys_and_lists(runs_folder: Path) -> None:
    run = RunFolder.load(runs_folder / "talk")
    assert KEY in "".join(map(str, run.load_transcript(run.manifest.specs[0])))

    for page in sorted(runs_folder.glob("*/view/*.html")):
        text = page.read_text() + "".join(data_of(page).values())
        assert KEY not in text, page

    (page,) = pages(runs_folder / "talk" / "view")

    assert "my key is [TALKER_API_KEY]" in "".join(data_of(page).values())

    # Secrets are taken out of texts keys and lists.
    redact = EnvironmentRedactor(
        {"MY_TOKEN": "hush-hush-hush", "PATH": "/usr/bin:/bin", "SHORT_KEY": "yes"}
    ).value

    assert redact(
        {"hush-hush-hush": ["a hush-hush-hush b", 1, None, {"x": "/usr/bin:/bin yes"}]}
    ) == {"[MY_TOKEN]": ["a [MY_TOKEN] b", 1, None, {"x": "/usr/bin:/bin yes"}]}
    # A secret that is a prefix of another leaves none of it behind.
    assert (
        EnvironmentRedactor({"A_KEY": "hush-hush", "B_KEY": "hush-hush-hush"}).text(
            "a hush-hush-hush, hush-hush"
        )
        == "a [B_KEY], [A_KEY]"
    )


# -- episodes that are not whole


@pytest.mark.exhaustive
def test_an_unfinished_episode_is_shown_as_far_as_it_is(runs_folder: Path) -> None:
    first, second = head_of(runs_folder / "killed" / "view" / "index.html")["episodes"]
    assert (first["state"], first["steps"], first["planned"]) == ("unfinished", 9, DAYS_IN_WINDOW)
    assert (second["state"], second["page"]) == ("not begun", None)

    (page,) = pages(runs_folder / "killed" / "view")
    head = head_of(page)

    assert (head["state"], len(head["rows"]), head["planned"]) == ("unfinished", 9, DAYS_IN_WINDOW)
    assert head["initial_cash"] == 1_000_000
    assert head["neighbours"] == {}
    assert len(days_of(page)) == 9


@pytest.mark.exhaustive
def test_unfinished_step_is_omitted_and_a_corrupt_journal_shows_the_rest(
    runs_folder: Path, tmp_path: Path
) -> None:
    run = copy_of(runs_folder, "killed", tmp_path)
    (journal,) = run.glob("episodes/*/journal.jsonl")
    whole = journal.read_bytes()
    journal.write_bytes(whole[:-40])
    view(tmp_path, "killed")
    (page,) = pages(run / "view")

    assert (len(head_of(page)["rows"]), notes_of(page), journal.read_bytes()) == (
        8,
        "",
        whole[:-40],
    )

    lines = whole.splitlines(keepends=True)
    journal.write_bytes(b"".join([*lines[:5], b"{}\n", *lines[6:]]))
    done = view(tmp_path, "killed")

    assert "journal.jsonl:6: the journal is corrupt here" in done.err
    assert len(head_of(page)["rows"]) == 5
    assert "corrupt here" in notes_of(page)


@pytest.mark.exhaustive
def test_a_changed_ledger_is_shown_and_marked(runs_folder: Path, tmp_path: Path) -> None:
    run = copy_of(runs_folder, "talk", tmp_path)
    (transcript,) = run.glob("episodes/*/transcript.jsonl.zst")
    transcript.write_bytes(b"nonsense")
    done = view(tmp_path, "talk")

    assert "not a readable transcript" in done.err

    (page,) = pages(run / "view")
    assert "not a readable transcript" in notes_of(page)
    assert all(day["talk"] == {"exchanges": [], "submission": None} for day in days_of(page))

    (ledger,) = run.glob("episodes/*/ledger.parquet")
    ledger.write_bytes(b"nonsense")

    assert "not a readable ledger" in error_line(view(tmp_path, "talk", code=2))


@pytest.mark.exhaustive
def test_changed_answers_and_damaged_transcripts_are_shown_and_marked(
    tmp_path: Path,
) -> None:
    words = (
        "--model",
        "builtin/chaos",
        "--tasks",
        "deanon_probe",
        "--limit",
        "4",
        "--out",
        "probe",
        "--quiet",
    )

    assert ktdeval(*words, cwd=tmp_path).code == 0

    run = RunFolder.load(tmp_path / "probe")
    changed, damaged = (run.episode_path(spec) for spec in run.manifest.specs[:2])
    answers = run.load_answers(run.manifest.specs[0])
    forged = [structs.replace(answers[0], sample="forged"), *answers[1:]]
    (changed / "answers.jsonl.zst").write_bytes(pack_lines(to_plain(forged)))
    (damaged / "transcript.jsonl.zst").write_bytes(b"nonsense")
    done = view(tmp_path, "probe")

    assert f"{changed.name}/answers.jsonl.zst: was changed after the episode ended" in done.err
    assert f"{damaged.name}/transcript.jsonl.zst: not a readable transcript" in done.err

    first, second = (run.path / "view" / page_name(spec) for spec in run.manifest.specs[:2])
    assert head_of(first)["rows"][0]["sample"] == "forged"
    assert "was changed after the episode ended" in notes_of(first)
    assert "not a readable transcript" in notes_of(second)
    assert [day["talk"] for day in days_of(second)] == [
        {"exchanges": [], "submission": None}
    ] * len(head_of(second)["rows"])


@pytest.mark.exhaustive
def test_one_damaged_episode_hides_no_other(runs_folder: Path, tmp_path: Path) -> None:
    run = copy_of(runs_folder, "seeds", tmp_path)
    folder = RunFolder.load(run)
    (folder.episode_path(folder.manifest.specs[1]) / "ledger.parquet").write_bytes(b"nonsense")
    done = view(tmp_path, "seeds")

    assert "2 of 3 episodes" in done.out

    entries = head_of(run / "view" / "index.html")["episodes"]
    assert [entry["state"] for entry in entries] == ["finished", "unreadable", "finished"]
    assert "not a readable ledger" in entries[1]["problem"]


@pytest.mark.exhaustive
def test_without_the_market_the_page_names_the_missing_parts(
    runs_folder: Path, tmp_path: Path
) -> None:
    run = copy_of(runs_folder, "talk", tmp_path)
    manifest = json.loads((run / "manifest.json").read_text())
    manifest["data"]["data"] = str(tmp_path / "gone")
    (run / "manifest.json").write_text(json.dumps(manifest))
    done = view(tmp_path, "talk")

    assert "Without the market there is no benchmark" in done.err

    (page,) = pages(run / "view")
    head = head_of(page)

    assert "Without the market" in notes_of(page)
    assert head["benchmark"]["levels"] is None
    assert head["names"]["handles"] == []
    assert days_of(page)[0]["handles"]  # the handles that the model wrote are in the records
    assert data_of(page)["closes"] == "null"

    view(tmp_path, "talk", "--data", runs_folder / "market")
    assert head_of(page)["notes"] == []


# -- the command line


@pytest.mark.exhaustive
def test_episode_narrows_the_pages_and_the_index_lists_all(runs_folder: Path) -> None:
    done = view(runs_folder, "seeds", "--episode", "seed-1", "--out", "one", "--day", "day_+3")
    (page,) = pages(runs_folder / "one")

    assert done.out.splitlines() == [
        (
            "view    one/index.html (1 of 3 episodes,"
            f" {sum(path.stat().st_size for path in (runs_folder / 'one').iterdir()) / 1e6:.1f} MB)"
        ),
        f"sheet   one/tear-sheet-{TASK}.html",
        f"day     {page.resolve().as_uri()}#day=day_+3",
    ]
    assert [entry["page"] for entry in head_of(runs_folder / "one" / "index.html")["episodes"]] == [
        None,
        page.name,
        None,
    ]
    assert head_of(page)["neighbours"] == {}

    middle = head_of(pages(runs_folder / "seeds" / "view")[1])
    assert {where: label for where, (_, label) in middle["neighbours"].items()} == {
        "previous": f"{TASK} · 2024-03-01:2024-03-29 · seed 0",
        "next": f"{TASK} · 2024-03-01:2024-03-29 · seed 2",
    }


@pytest.mark.exhaustive
def test_open_starts_the_browser_at_the_page(runs_folder: Path, tmp_path: Path) -> None:
    browser = tmp_path / "browser"
    browser.write_text(f'#!/bin/sh\nprintf %s "$1" > {tmp_path}/address\n')
    browser.chmod(0o755)
    words = ("view", "seeds", "--episode", "seed-2", "--out", tmp_path / "pages", "--open")

    assert ktdeval(*words, cwd=runs_folder, environment={"BROWSER": f"{browser} %s"}).code == 0

    (page,) = pages(tmp_path / "pages")
    assert (tmp_path / "address").read_text() == page.resolve().as_uri()


@pytest.mark.exhaustive
@on_each_row(
    "words, problem",
    (["nowhere"], "no run here"),
    (
        ["seeds", "--episode", "seed-7"],
        "no episode has this in task, window, seed or id; did you mean 'seed-",
    ),
    (["seeds", "--day", "tomorrow", "--episode", "seed-1"], "give the day's number such as 17"),
    (["seeds", "--day", "3"], "the run has 3 such episodes; name one of them with --episode"),
    (["seeds", "--out", "market/manifest.json"], "is a file, not a folder"),
    (["seeds", "--data", "seeds"], "seeds"),
    (["killed", "--episode", "seed-1"], "none of these episodes has a finished step"),
)
def test_bad_input_is_one_line(runs_folder: Path, words: tuple[str, ...], problem: str) -> None:
    assert problem in error_line(view(runs_folder, *words, code=2))


@pytest.mark.exhaustive
def test_an_index_of_something_else_is_not_written_over(runs_folder: Path, tmp_path: Path) -> None:
    index = tmp_path / "index.html"
    index.write_text("<!doctype html><title>My own pages</title>")
    words = ("talk", "--out", tmp_path)
    assert f"{index}: was not written by ktdeval view" in error_line(
        view(runs_folder, *words, code=2)
    )
    assert [path.name for path in tmp_path.iterdir()] == ["index.html"]
    assert "My own pages" in index.read_text()

    index.unlink()
    view(runs_folder, *words)
    view(runs_folder, *words)
    assert "My own pages" not in index.read_text()


# ==== memory: layers with what became of each memory, any other JSON as it is


FINMEM = (
    "--plugin",
    PLUGIN,
    "--model",
    "test/naming",
    "--agent",
    "finmem",
    "--agent-args",
    "parameters=investorbench",
    *SAME_MASK,
    "--tasks",
    "investorbench_msft",
    "--data",
    "synthetic_investorbench",
    "--limit",
    "9",
    "--quiet",
)


def entry_of(text: str) -> TranscriptEntry:
    return TranscriptEntry(
        step=0, exchanges=({"sent": [{"role": "user", "content": text}]},), submission=None
    )


def one(name: str, text: str, **fields: Any) -> dict[str, Any]:
    return {"id": name, "text": text, **fields}


@pytest.mark.exhaustive
def test_each_memory_is_shown_with_its_history() -> None:
    days: list[Any] = [
        {
            "memory": {
                "layers": {"mid": [], "short": [one("M1", "rain", importance=50.123456, count=0)]},
                "made": 1,
            },
            "step": 0,
        },
        {
            "memory": {
                "layers": {
                    "mid": [one("M1", "rain", importance=60.0, count=2)],
                    "short": [one("M2", "sun")],
                },
                "made": 2,
            }
        },
        {
            "memory": {
                "layers": {"mid": [one("M1", "rain", importance=42.0, count=1)], "short": []},
                "made": 2,
            }
        },
    ]
    texts = SharedTexts()
    texts.index("a system prompt")
    first, second, third = memory_panels(
        days, [entry_of("none"), entry_of("- M1: rain"), entry_of("")], texts
    )

    assert texts.list_texts() == ["a system prompt", "rain", "sun"]
    assert first["layers"] == ["short", "mid"]
    assert first["fields"] == ["importance", "count"]
    assert first["rows"] == [[0, 1, "M1", False, "new", 50.1235, 0]]
    assert loads_strict(first["rest"]) == {"memory": {"made": 1}, "step": 0}
    assert second["rows"] == [
        [1, 1, "M1", True, "credited +2, short → mid", 60.0, 2],
        [0, 2, "M2", False, "new", None, None],
    ]
    assert third["rows"] == [
        [1, 1, "M1", False, "credited -1", 42.0, 1],
        [0, 2, "M2", False, "gone", None, None],
    ]


@pytest.mark.exhaustive
@on_each_row(
    "memory",
    (3,),
    ("x",),
    ([1],),
    ({"layers": 3},),
    ({"layers": {}, "made": 1},),
    ({"layers": {"a": [{"id": "M1"}]}},),
    ({"layers": {"a": [3]}},),
    ({"a": {"b": {}}},),
)
def test_any_other_memory_is_a_tree(memory: Any) -> None:
    panel, none = memory_panels([memory, None], [entry_of(""), entry_of("")], SharedTexts())
    assert none is None
    assert panel.get("rows", []) == []

    rest = loads_strict(panel["rest"])
    assert rest == memory or {**rest, "layers": {}} == memory


@pytest.mark.exhaustive
def test_packed_data_are_shown_by_their_length() -> None:
    (panel,) = memory_panels(
        [{"a": ["x" * 301, "y " * 301], "b": "z" * 300}], [entry_of("")], SharedTexts()
    )

    assert loads_strict(panel["rest"]) == {
        "a": ["(301 characters of packed data)", "y " * 301],
        "b": "z" * 300,
    }


@pytest.fixture(scope="module")
def remembered(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A finished run of an agent with memory, and a run that was killed."""
    folder = tmp_path_factory.mktemp("memory")

    assert ktdeval(*FINMEM, "--out", "run", cwd=folder).code == 0
    assert (
        ktdeval(
            *FINMEM, "--out", "killed", cwd=folder, environment={"RUN_PLUGIN_DIE_AFTER_STEP": "5"}
        ).code
        == -9
    )

    return folder


def panels_of(remembered: Path, run: str, *words: str) -> tuple[list[Any], str]:
    """Panels of a run's only page, and its notes."""
    done = ktdeval("view", run, *words, "--plugin", PLUGIN, cwd=remembered)

    assert done.code == 0, done

    (page,) = pages(remembered / run / "view")
    check_page(page)

    return [day["memory"] for day in days_of(page)], " ".join(head_of(page)["notes"])


@pytest.mark.exhaustive
def test_a_finished_episode_is_run_again_and_a_killed_one_has_its_journal(remembered: Path) -> None:
    finished, killed = (panels_of(remembered, run, "--memory") for run in ("run", "killed"))
    assert (len(finished[0]), finished[1]) == (9, "")
    assert killed[0] == finished[0][:6]
    assert all(panel["layers"] == ["short", "mid", "long", "reflection"] for panel in finished[0])
    assert any(row[3] for row in finished[0][-1]["rows"])
    assert panels_of(remembered, "run") == ([None] * 9, "")


@pytest.mark.exhaustive
def test_a_memory_that_the_records_do_not_give_is_not_shown(
    remembered: Path, tmp_path: Path
) -> None:
    shutil.copytree(remembered / "run", tmp_path / "run")
    (episode,) = episodes(tmp_path / "run")
    (episode / "transcript.jsonl.zst").unlink()
    panels, notes = panels_of(tmp_path, "run", "--memory")

    assert panels == [None] * 9
    assert "The agent's memory is not shown: " in notes


@pytest.mark.exhaustive
def test_an_agent_without_memory_is_noted(tmp_path: Path) -> None:
    words = (
        "--model",
        "builtin/random",
        "--tasks",
        "investorbench_msft",
        "--data",
        "synthetic_investorbench",
        "--limit",
        "3",
    )

    assert ktdeval(*words, "--out", "run", "--quiet", cwd=tmp_path).code == 0

    panels, notes = panels_of(tmp_path, "run", "--memory")
    assert (panels, notes) == ([None] * 3, "The agent react carries no memory from day to day")


# -- a step and a stock


@pytest.mark.exhaustive
def test_a_step_of_version_2_is_shown_in_units_of_currency_and_shares() -> None:
    ledger = short_ledger()
    step = step_in_units(ledger, ledger.steps[1])

    assert (step["nav"], step["cash"]) == (960.0, 1230.0)
    assert (
        step["orders"][0]
        | {
            "filled_shares": 0.5,
            "shares": 0.5,
            "price": 300.0,
            "notional": 150.0,
            "fee": 1.0,
        }
        == step["orders"][0]
    )
    assert step["positions"] == [
        {"code": "TSLA", "shares": -0.9, "locked": 0.0, "price": 300.0, "value": -270.0}
    ]
    assert [(charge["kind"], charge["shares"], charge["cash"]) for charge in step["charges"]] == [
        ("borrow", -1.0, -0.12),
        ("margin_call", 0.1, -31.0),
    ]
    assert not any(name.endswith(("_minor", "_ticks")) for name in step)


@pytest.mark.exhaustive
def test_the_limit_of_an_order_is_shown_as_a_price() -> None:
    ledger = short_ledger()
    orders = (structs.replace(ledger.steps[1].orders[0], limit_ticks=3_010_000),)
    step = step_in_units(ledger, structs.replace(ledger.steps[1], orders=orders))
    assert step["orders"][0]["limit"] == 301.0


@pytest.mark.exhaustive
def test_a_step_in_a_shares_keeps_whole_shares() -> None:
    ledger = Ledger({}, 100_000, short_ledger().steps)
    step = step_in_units(ledger, ledger.steps[0])
    assert (step["orders"][0]["filled_shares"], step["orders"][0]["price"]) == (15_000, 300.0)
    assert isinstance(step["orders"][0]["filled_shares"], int)


def talk(step: int, **answers: str | None) -> TranscriptEntry:
    table = {"columns": ["stock_id"], "rows": [["asset_1"], ["asset_2"]]}
    sent = [
        {"role": "system", "content": SIGNAL_FORM},
        {"role": "user", "content": f"```json\n{json.dumps({'candidates': table})}\n```"},
    ]
    replies = {
        role: {"error": "timeout"} if text is None else {"reply": {"content": text}}
        for role, text in answers.items()
    }

    return TranscriptEntry(
        step=step,
        exchanges=tuple(
            {"role": role, "kept": 0, "sent": sent, **reply} for role, reply in replies.items()
        ),
        submission=None,
    )


@pytest.mark.exhaustive
def test_positions_and_signals_are_listed_by_code_and_step() -> None:
    def step(nav: int, **values: int) -> StepRecord:
        positions = []
        for code, value in values.items():
            held = PositionRecord(
                code=code, shares=1, locked=0, price_ticks=10_000, value_minor=value
            )
            positions.append(held)

        first = short_ledger().steps[0]
        return structs.replace(first, nav_minor=nav, positions=tuple(positions))

    steps = [step(100, AAA=25), step(0, AAA=25), step(200, AAA=-50, BBB=1)]
    talks = [
        talk(0, news='{"asset_1": "Bullish", "OTHERS": "Bearish"}'),
        talk(1, news=None, macro='{"asset_1": "Neutral"}'),
        talk(2),
    ]
    records: Any = SimpleNamespace(steps=steps, talks=talks)
    paths = stock_paths(records, TrueNames(assets={"asset_1": ("AAA", "A company")}))

    assert paths.to_json() == {
        "weights": {"AAA": [0.25, 0.0, -0.25], "BBB": [0.0, 0.0, 0.005]},
        "analysts": ["news", "macro"],
        "signals": {"AAA": ["+x.", ".0."], "asset_2": ["-x.", ".x."]},
    }
