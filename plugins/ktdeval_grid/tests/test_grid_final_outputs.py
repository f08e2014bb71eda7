"""The whole end of a grid, with commands that only say what they were called with."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import click
import pytest

from grid_store import HandMade, done, record_of, small_plan, unit_id
from ktdeval.cards import load_evaluation
from ktdeval.errors import StoreError
from ktdeval.hookspecs import Spec, hookimpl
from ktdeval.registry import Plugins
from ktdeval.testing import Terminal
from ktdeval_grid.launch.forecast import finished_cells
from ktdeval_grid.outputs import final_outputs_process, tables_command
from ktdeval_grid.outputs.final_outputs import GridEnding, make_ending
from ktdeval_grid.outputs.final_outputs_process import make_tables
from ktdeval_grid.state.layout import open_place
from ktdeval_grid.state.records import GridRecord
from ktdeval_grid.state.status import look, reader_of
from ktdeval_grid.state.subprocess_command import own_command
from support.figures.compare_cards import make_card, save_card

SYSTEM = "builtin-momentum_react"
TASK = "blinded_open_research"


class Commands:
    """A plugin with the commands of an ending: they write what they are to write, or fail."""

    def __init__(self, fails: Sequence[str] = ()) -> None:
        self.fails = fails
        self.calls: list[tuple[str, ...]] = []

    def command(self, name: str) -> click.Command:
        @click.command(context_settings={"ignore_unknown_options": True})
        @click.argument("words", nargs=-1)
        @click.option("--out", type=Path)
        def called(words: tuple[str, ...], out: Path | None) -> None:
            self.calls.append((name, *words))
            if name in self.fails:
                raise click.ClickException("no\n way")

            if name == "view report":
                assert out is not None
                out.write_text("report")
            elif name == "view episodes":
                assert out is not None
                out.mkdir(parents=True)
                for page in ("second", "first"):
                    (out / f"{page}.html").write_text(page)

            click.echo(name)

        return called

    @hookimpl
    def ktdeval_commands(self) -> list[Spec]:
        names = ("view episodes", "view report", "compare luck", "paper table")
        return [Spec(name, lambda name=name: self.command(name), "says so") for name in names]


def ended(folder: Path, commands: Commands, may_fork: bool = False, **changes: Any) -> GridEnding:
    """End a grid of one gathered system, whose card has three episodes; the second is the median."""
    grid = HandMade(folder, record_of(small_plan(models=["builtin/momentum"], **changes)))
    run = folder / "runs" / SYSTEM

    if not run.exists():
        save_card(run, make_card({("A1", 0): 0.1, ("A2", 0): 0.2, ("A3", 0): 0.3}))

    plugins = Plugins()
    plugins.add(commands, "commands")
    _, status = look(reader_of(grid.store))

    return make_ending(folder, grid.record, status, plugins, may_fork=may_fork)


def files_of(folder: Path) -> list[str]:
    return sorted(
        path.relative_to(folder).as_posix() for path in folder.rglob("*") if path.is_file()
    )


def test_an_ending_has_tables_cards_pages_and_an_index(tmp_path: Path) -> None:
    commands = Commands()

    ending = ended(tmp_path, commands, tables=["ama-1"], pages=["report", "views"])

    site = tmp_path / "site"
    run = tmp_path / "runs" / SYSTEM
    card = run / "cards" / f"{TASK}.json"

    assert ending == GridEnding(
        site / "index.html",
        tables=[tmp_path / "tables" / "ama-1.txt", tmp_path / "tables" / "luck.txt"],
    )
    assert files_of(site) == [
        f"cards/{SYSTEM}/{TASK}.json",
        "index.html",
        "report.html",
        "tables/ama-1.csv",
        "tables/ama-1.md",
        "tables/ama-1.txt",
        "tables/luck.json",
        "tables/luck.txt",
        f"views/{SYSTEM}/{TASK}/first.html",
        f"views/{SYSTEM}/{TASK}/second.html",
    ]
    assert (site / "cards" / SYSTEM / f"{TASK}.json").read_bytes() == card.read_bytes()

    index = (site / "index.html").read_text()
    assert f'href="views/{SYSTEM}/{TASK}/first.html"' in index
    assert 'href="report.html"' in index

    median = load_evaluation(card).episodes[1].id
    form = ("paper table", str(card), "--like", "ama-1", "--format")

    assert commands.calls == [
        (*form, "text"),
        (*form, "markdown"),
        (*form, "csv"),
        ("compare luck", str(card)),
        ("compare luck", str(card), "--json"),
        ("view episodes", str(run), "--episode", median, "--no-index"),
        ("view report", str(card)),
    ]


@pytest.mark.exhaustive
@pytest.mark.skipif(sys.platform != "linux", reason="forks are used on Linux alone")
def test_an_ending_by_forks_has_the_same_files(tmp_path: Path) -> None:
    alone = tmp_path / "alone"
    forked = tmp_path / "forked"
    asked: dict[str, Any] = {"tables": ["ama-1"], "pages": ["report"]}
    ended(alone, Commands(["view report"]), **asked)

    ending = ended(forked, Commands(["view report"]), may_fork=True, **asked)

    assert ending.problems == ["report: no way"]
    assert files_of(forked / "site") == files_of(alone / "site")
    for name in files_of(alone / "tables"):
        assert (forked / "tables" / name).read_bytes() == (alone / "tables" / name).read_bytes()


@pytest.mark.parametrize(
    ("changes", "called", "pages"),
    [
        ({}, {"compare luck"}, ["index.html"]),
        ({"pages": ["report"]}, {"compare luck", "view report"}, ["index.html", "report.html"]),
    ],
)
def test_pages_are_made_where_the_plan_asks_for_them(
    tmp_path: Path, changes: dict[str, Any], called: set[str], pages: list[str]
) -> None:
    commands = Commands()

    ending = ended(tmp_path, commands, tables=[], **changes)

    assert ending.problems == []
    assert {name for name, *_ in commands.calls} == called
    assert [name for name in files_of(tmp_path / "site") if name.endswith(".html")] == pages
    assert "episode page" not in (tmp_path / "site" / "index.html").read_text()


def test_what_can_not_be_made_is_a_problem_in_one_line_and_no_link(tmp_path: Path) -> None:
    commands = Commands(["view episodes", "view report", "compare luck"])

    ending = ended(tmp_path, commands, tables=[], pages=["report", "views"])

    assert ending.tables == []
    assert ending.problems == [
        "luck: no way",
        f"view of {SYSTEM} {TASK}: no way",
        "report: no way",
    ]

    index = (tmp_path / "site" / "index.html").read_text()
    assert "<li>report: no way</li>" in index
    assert "views/" not in index
    assert 'href="report.html"' not in index


def test_an_ending_that_is_made_again_takes_the_place_of_the_one_before(tmp_path: Path) -> None:
    ended(tmp_path, Commands(), tables=["ama-1"])
    before = files_of(tmp_path)

    ended(tmp_path, Commands(), tables=[])

    gone = {
        f"{folder}ama-1.{form}"
        for folder in ("tables/", "site/tables/")
        for form in ("csv", "md", "txt")
    }

    assert files_of(tmp_path) == [name for name in before if name not in gone]


def test_pages_may_be_asked_for_after_the_end(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, terminal: Terminal
) -> None:
    HandMade(tmp_path, record_of(small_plan(pages=["views"])))
    made: list[tuple[str, ...]] = []

    def note(root: Path, record: GridRecord, *_: Any, **__: Any) -> GridEnding:
        made.append(record.plan.pages)
        return GridEnding(root / "site" / "index.html")

    monkeypatch.setattr(tables_command, "make_ending", note)
    for words in ([], ["--pages", "report,views"], ["--pages", "none"]):
        terminal.out("grid", "tables", tmp_path, *words)

    assert made == [("views",), ("report", "views"), ()]
    refused = terminal.refusal("grid", "tables", tmp_path, "--pages", "book")
    assert "--pages: no page 'book'; pages are report, views, or none" in refused


# ---- in a process of its own


def test_a_process_of_ours_imports_nothing_of_the_working_folder() -> None:
    program, *words = own_command("grid", "tables", "lab")

    assert program.endswith(("python", "python3")) or "python" in program
    assert words == ["-P", "-m", "ktdeval", "grid", "tables", "lab"]


def test_tables_that_fail_in_their_process_say_why_and_how_to_make_them(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    place = open_place(tmp_path)
    record = record_of(small_plan())
    script = "import sys; sys.exit('a warning\\nktdeval: error: the disk\\nis full')"
    monkeypatch.setattr(
        final_outputs_process, "own_command", lambda *_words: [own_command()[0], "-c", script]
    )

    with pytest.raises(StoreError) as raised:
        make_tables((), place, record)

    assert str(raised.value) == (
        f"tables and pages: the disk is full; make them by `ktdeval grid tables {tmp_path}`"
    )


# ---- what is left before a launch


def test_finished_cells_are_those_of_done_units(tmp_path: Path) -> None:
    place = open_place(tmp_path)
    assert finished_cells(place) == set()

    grid = HandMade(tmp_path, record_of(small_plan()))
    grid.finish(done(unit_id(0, 1)))
    grid.finish(done(unit_id(1, 2)))
    grid.finish(done("f" * 20))  # of an earlier plan

    assert finished_cells(place) == {
        (SYSTEM, TASK, "W1", 1),
        ("builtin-reversal_react", TASK, "W2", 0),
    }
