"""What a grid prints: its table, its estimate, its lines while it runs, and the end of a launch."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import click
import pytest
from inline_snapshot import snapshot
from msgspec import structs

from grid_launches import intent_of, request_of
from grid_store import HandMade, done, failure, small_plan, unit_id
from grid_workers import board_of
from ktdeval.testing import on_each_row, text_of
from ktdeval_grid.launch.driver import LaunchResult
from ktdeval_grid.launch.json_events import UnitEvents, UnitLine
from ktdeval_grid.launch.launch_command import (
    _confirm,
    _folder,
    _LaunchIntent,
    _news,
    _tell_end,
    _tell_news,
)
from ktdeval_grid.launch.launch_display import JsonWatcher, PlainWatcher
from ktdeval_grid.planning.estimate_types import SCENARIOS, Amount, GridEstimate, ModelEstimate
from ktdeval_grid.state.amend import Amendment
from ktdeval_grid.state.layout import bytes_kept, open_place
from ktdeval_grid.state.printed_status import (
    assumption_lines,
    estimate_lines,
    failure_lines,
    headline,
    status_lines,
)
from ktdeval_grid.state.status import FailureKind, GridStatus, Tally, look, reader_of

SYSTEM = "builtin-momentum_react"


def tally(name: str = "total", **changes: Any) -> Tally:
    fields = {
        "planned": 10,
        "done": 0,
        "running": 0,
        "failed": 0,
        "stopped": 0,
        "pruned": 0,
        "cost_usd": 0.0,
        "uncosted": 0,
    }
    return Tally(name=name, **{**fields, **changes})


def status_of(*models: Tally, total: Tally | None = None, **changes: Any) -> GridStatus:
    fields = {
        "name": "lab",
        "place": "here",
        "mask_key": "0" * 32,
        "paused": False,
        "concurrency": None,
        "failures": (),
        "pruned": {},
    }
    return GridStatus(models=models, total=total or tally(), **{**fields, **changes})


# ---- where a grid stands


def test_the_headline_counts_what_there_is() -> None:
    every = tally(planned=2000, done=1000, running=1, failed=1200, stopped=3)
    status = status_of(total=every, unresolved={"a": "no", "b": "no"}, paused=True)

    one = status_of(total=tally(planned=1))

    assert text_of([headline(status), headline(one)]) == snapshot("""\
lab: 1,000 of 2,000 episodes done, 1 running, 1,200 failed, 3 stopped, 2 systems not begun and not counted, paused
lab: 0 of 1 episode done
""")


def test_the_table_has_a_row_for_each_model_and_the_total_below_several() -> None:
    first = tally(
        "a",
        planned=2000,
        done=1500,
        running=2,
        failed=3,
        stopped=4,
        pruned=1005,
        cost_usd=12.5,
        eta_s=600.0,
    )
    second = tally("b", planned=5, dropped=True, cost_usd=0.5, uncosted=1)
    third = tally("c", planned=5, done=5, uncosted=5, eta_s=0.0)

    lines = status_lines(status_of(first, second, third, total=tally(planned=2010)))

    assert text_of(lines) == snapshot("""\
lab: 0 of 2,010 episodes done

MODEL               done  running  failed  stopped   left  pruned       USD     ETA
a            1,500/2,000        2       3        4    497   1,005     12.50  10 min
b (dropped)          0/5                                5          ≥ 0.5000
c                    5/5                                                  ?     0 s
total            0/2,010                            2,010              0.00
""")
    assert len(status_lines(status_of(first))) == 4


def test_notes_follow_the_table_in_their_order() -> None:
    kinds = (
        FailureKind(error="down", is_stopped=False, units=("u", "v"), example="s t seed 0"),
        FailureKind(error="--max-cost", is_stopped=True, units=("w",), example="s t seed 1"),
    )
    status = status_of(
        tally("a"),
        failures=kinds,
        pruned={"odd": "even seeds are enough"},
        unresolved={"b_react": "no key"},
        warnings=("control.json is malformed",),
    )

    assert text_of(status_lines(status)) == snapshot("""\
lab: 0 of 10 episodes done, 1 system not begun and not counted

MODEL  done  left   USD
a      0/10    10  0.00

pruned by odd: even seeds are enough
not begun: no key (b_react)
2 failed: down (first s t seed 0)
1 stopped: --max-cost (s t seed 1)
warning: control.json is malformed
""")


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("x" * 300, "x" * 300),
        ("x" * 301, "x" * 300 + " …"),
        ("word " * 60 + "y", "word " * 59 + "word …"),
    ],
)
def test_an_error_is_shown_up_to_three_hundred_characters(text: str, shown: str) -> None:
    kind = FailureKind(error=text, is_stopped=False, units=("u",), example="e")

    assert list(failure_lines(status_of(failures=(kind,)))) == [f"1 failed: {shown} (e)"]


# ---- estimates


def test_a_model_in_batches_asks_for_all_of_its_episodes_at_once() -> None:
    left = amounts(0.5, 1.5, 2.5)
    batched = structs.replace(model("b", left), is_batched=True)
    heading = "estimate, low / typical / high"

    first, *_ = estimate_lines(estimate_of(batched))
    assert first == f"{heading}, all of b at once, in batches:"

    first, *_ = estimate_lines(estimate_of(model("a", left), batched))
    assert first == f"{heading}, 8 at once; all of b at once, in batches:"


def amounts(*costs: float | None) -> dict[str, Amount]:
    """Low, typical and high, of 1, 2 and 3 thousand calls."""
    made = {}
    for number, (scenario, cost_usd) in enumerate(zip(SCENARIOS, costs), start=1):
        made[scenario] = Amount(
            calls=1000 * number,
            input_tokens=400_000 * number,
            output_tokens=100_000 * number,
            cost_usd=cost_usd,
            hours=0.5 * number,
        )

    return made


def model(
    name: str, left: Mapping[str, Amount], episodes: int = 2000, is_free: bool = False
) -> ModelEstimate:
    return ModelEstimate(name=name, episodes=episodes, is_free=is_free, left=dict(left))


def estimate_of(*models: ModelEstimate, **changes: Any) -> GridEstimate:
    fields = {"concurrency": 8, "pruned": 0, "assumptions": (), "warnings": ()}
    total = structs.replace(models[0], name="total")
    return GridEstimate(models=models, total=total, **{**fields, **changes})


def test_an_estimate_has_low_typical_and_high_of_each_model_that_is_paid() -> None:
    found = estimate_of(
        model("a", amounts(0.5, 1.5, 2.5)),
        model("b", amounts(None, None, None)),
        model("c", amounts(1.0, None, None), episodes=1),
    )

    assert text_of(estimate_lines(found)) == snapshot("""\
estimate, low / typical / high, 8 at once:
  MODEL  episodes                  calls                 tokens                   USD            hours
  a         2,000  1,000 / 2,000 / 3,000  500,000 / 1.0M / 1.5M  0.5000 / 1.50 / 2.50  0.5 / 1.0 / 1.5
  b         2,000  1,000 / 2,000 / 3,000  500,000 / 1.0M / 1.5M                     ?  0.5 / 1.0 / 1.5
  c             1  1,000 / 2,000 / 3,000  500,000 / 1.0M / 1.5M          1.00 / ? / ?  0.5 / 1.0 / 1.5
  total     2,000  1,000 / 2,000 / 3,000  500,000 / 1.0M / 1.5M  0.5000 / 1.50 / 2.50  0.5 / 1.0 / 1.5
no price is known for b, c; give `price` of the model, or --price-table
""")


def test_one_model_has_no_total_and_those_without_episodes_or_price_no_row() -> None:
    found = estimate_of(
        model("a", amounts(1.0, 1.0, 1.0)),
        model("done", amounts(1.0, 1.0, 1.0), episodes=0),
        model("own", amounts(0.0, 0.0, 0.0), episodes=1, is_free=True),
        model("mine", amounts(0.0, 0.0, 0.0), episodes=2, is_free=True),
        pruned=1,
    )

    assert text_of(estimate_lines(found)) == snapshot("""\
own, mine: 3 episodes, no provider is asked
estimate, low / typical / high, 8 at once:
  MODEL  episodes                  calls                 tokens                 USD            hours
  a         2,000  1,000 / 2,000 / 3,000  500,000 / 1.0M / 1.5M  1.00 / 1.00 / 1.00  0.5 / 1.0 / 1.5
1 episode pruned
""")


def test_what_an_estimate_rests_on_is_listed_where_there_is_something() -> None:
    some = estimate_of(model("a", amounts(1.0, 1.0, 1.0)), assumptions=("prices of today",))

    assert assumption_lines(some) == ["", "assumed", "  prices of today"]
    assert assumption_lines(structs.replace(some, assumptions=())) == []


# ---- lines while it runs


def test_a_unit_has_a_line_for_each_state_with_cost_and_reason(grid: HandMade) -> None:
    grid.finish(done(unit_id(0, 0), cost_usd=0.5, seconds=9.0))
    board = board_of(grid)

    assert board.claim(unit_id(0, 1)) is not None

    grid.fail(failure(unit_id(0, 2), "down", cost_usd=0.25))
    grid.fail(failure(unit_id(0, 3), "--max-cost 1", needed={"max_cost": 2.0}))

    lines = UnitEvents().news(reader_of(grid.store).look())

    states = [(line.state, line.error, line.cost_usd, line.seconds) for line in lines]

    assert states == [
        ("done", None, 0.5, 9.0),
        ("running", None, None, None),
        ("failed", "down", 0.25, None),
        ("stopped", "--max-cost 1", None, None),
    ]

    first = lines[0]
    assert (first.unit, first.system, first.task) == (
        unit_id(0, 0),
        SYSTEM,
        "blinded_open_research",
    )
    assert (first.window, first.seed) == ("W1", 0)


def test_a_unit_that_waits_again_is_news_when_it_begins_again(grid: HandMade) -> None:
    events = UnitEvents()
    reader = reader_of(grid.store)
    board = board_of(grid)
    claim = board.claim(unit_id(0, 0))

    assert claim is not None
    assert [line.state for line in events.news(reader.look())] == ["running"]

    claim.release()
    assert events.news(reader.look()) == []

    assert board.claim(unit_id(0, 0)) is not None
    assert [line.state for line in events.news(reader.look())] == ["running"]


def test_plain_lines_are_failures_stops_and_twenty_reports_at_most(
    grid: HandMade, capsys: pytest.CaptureFixture[str]
) -> None:
    watcher = PlainWatcher()
    grid.fail(failure(unit_id(0, 0), "down"))
    grid.fail(failure(unit_id(0, 3), "--max-cost 1", needed={}))
    found, _ = look(reader_of(grid.store))

    for count in (0, 1, 2, 3, 5, 6):
        watcher.show(found, status_of(total=tally(planned=41, done=count)))

    assert capsys.readouterr().err == snapshot("""\
failed: builtin-momentum_react blinded_open_research W1 seed 0: down
stopped: builtin-momentum_react blinded_open_research W2 seed 1: --max-cost 1
lab: 0 of 41 episodes done
lab: 3 of 41 episodes done
lab: 6 of 41 episodes done
""")


def test_json_lines_are_of_what_has_changed_since_the_beginning(
    grid: HandMade, capsys: pytest.CaptureFixture[str]
) -> None:
    reader = reader_of(grid.store)
    watcher = JsonWatcher()
    grid.finish(done(unit_id(0, 0)))
    watcher.begin(reader.look())
    grid.finish(done(unit_id(0, 1)))

    watcher.show(*look(reader))

    (line,) = capsys.readouterr().out.splitlines()

    assert (json.loads(line)["event"], json.loads(line)["unit"]) == ("unit", unit_id(0, 1))
    assert UnitLine.__struct_config__.tag == "unit"


# ---- a launch


def intent(grid: HandMade, **changes: Any) -> _LaunchIntent:
    request = request_of(grid.store.root, words=("grid", "plan.yaml"))
    return intent_of(request, **changes)


def result_of(grid: HandMade, **changes: Any) -> LaunchResult:
    status = look(reader_of(grid.store))[1]
    fields: dict[str, Any] = {
        "launch": "0001",
        "exit_code": 0,
        "status": status,
        "problems": (),
        "site": None,
    }
    return LaunchResult(**{**fields, **changes})


@pytest.mark.parametrize(
    ("name", "out", "folder"),
    [("lab", None, "ktdeval-grids/lab"), ("lab", "x", "x"), ("grid", "x", "x")],
)
def test_a_grid_is_in_its_folder_or_one_of_its_name(
    name: str, out: str | None, folder: str
) -> None:
    assert _folder(small_plan(name=name), None if out is None else Path(out)) == folder


def test_a_grid_that_has_not_begun_has_no_amendment(tmp_path: Path) -> None:
    assert _news(open_place(tmp_path), request_of(tmp_path)) is None


def test_a_plan_is_compared_with_that_of_the_grid(grid: HandMade) -> None:
    place = open_place(grid.store.root)

    same = _news(place, request_of(grid.store.root, only="failed"))
    longer = _news(place, request_of(grid.store.root, plan=small_plan(seeds=3)))

    assert same == Amendment((), (), ())
    assert longer == Amendment(("seed 2",), (), ())


@pytest.mark.parametrize(
    ("news", "lines"),
    [
        (None, ["(new)"]),
        (Amendment((), (), ()), ["(goes on)"]),
        (Amendment(("seed 2",), (), ()), ["(amended)", "new: seed 2"]),
    ],
)
def test_a_launch_says_whether_the_grid_is_new(
    news: Amendment | None, lines: list[str], grid: HandMade, capsys: pytest.CaptureFixture[str]
) -> None:
    _tell_news(news, open_place(grid.store.root))

    first, *rest = capsys.readouterr().out.splitlines()

    assert first.startswith("grid    ")
    assert [first.rpartition(" (")[1].strip() + first.rpartition(" (")[2], *rest] == lines


class Answering:
    """A terminal on which somebody answers, or a pipe."""

    def __init__(self, is_terminal: bool) -> None:
        self.is_terminal = is_terminal

    def isatty(self) -> bool:
        return self.is_terminal


@on_each_row(
    "reads, writes, agreed, episodes, is_asked",
    (True, True, False, 1, True),
    (False, True, False, 1, False),
    (True, False, False, 1, False),
    (True, True, True, 1, False),
    (True, True, False, 0, False),
)
def test_a_person_is_asked_before_money_is_spent(
    reads: bool,
    writes: bool,
    agreed: bool,
    episodes: int,
    is_asked: bool,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    asked: list[str] = []
    monkeypatch.setattr("sys.stdin", Answering(reads))
    monkeypatch.setattr("sys.stderr", Answering(writes))
    monkeypatch.setattr(click, "confirm", lambda text, **_options: asked.append(text))

    found = estimate_of(model("a", amounts(1.0, 1.0, 1.0), episodes=episodes))
    _confirm(found, has_agreed=agreed)

    assert asked == ["run it?"] * is_asked


def test_the_line_of_a_launch_says_what_is_new(grid: HandMade) -> None:
    news = Amendment(("seed 2",), ("seed 0",), ("max_cost: 5.0 (was none)",))

    begun = intent(grid).line("0001", 7, None)
    amended = intent(grid, news=news).line("", 7, Path("driver.log"))

    assert (begun.launch, begun.name, begun.pid, begun.log) == ("0001", "small", 7, None)
    assert (begun.workers, begun.runner, begun.place) == (2, "local", str(grid.store.root))
    assert Amendment(begun.added, begun.removed, begun.changed) == Amendment((), (), ())
    assert amended.log == "driver.log"
    assert Amendment(amended.added, amended.removed, amended.changed) == news


def test_the_end_of_a_launch_tells_the_bytes_of_an_episode_and_the_page(
    grid: HandMade, capsys: pytest.CaptureFixture[str]
) -> None:
    grid.finish(done(unit_id(0, 0)))
    grid.finish(done(unit_id(0, 1)))
    root = grid.store.root
    page = root / "site" / "index.html"

    _tell_end(result_of(grid, site=page), intent(grid))

    lines = capsys.readouterr().out.splitlines()

    assert lines[0] == "small: 2 of 8 episodes done"

    kept, tables, site = lines[-3:]
    assert kept.startswith(f"kept    {bytes_kept(root) // 2:,} bytes an episode, in ")
    assert (tables.split()[0], tables.endswith(f"{root.name}/tables")) == ("tables", True)
    assert (site.split()[0], site.endswith(f"{root.name}/site/index.html")) == ("site", True)


def test_what_a_budget_stopped_has_a_line_that_resumes_it(
    grid: HandMade, capsys: pytest.CaptureFixture[str]
) -> None:
    grid.fail(failure(unit_id(0, 0), "--max-cost 1", needed={"max_cost": 3.0}))

    _tell_end(result_of(grid), intent(grid))

    last = capsys.readouterr().out.splitlines()[-1]

    assert last == "resume  ktdeval grid plan.yaml --max-cost 6.0"


def test_the_end_for_programs_has_the_counts_of_each_model(
    grid: HandMade, capsys: pytest.CaptureFixture[str]
) -> None:
    grid.finish(done(unit_id(0, 0)))

    _tell_end(result_of(grid, exit_code=1, problems=("down",)), intent(grid, as_json=True))

    (line,) = capsys.readouterr().out.splitlines()
    end = json.loads(line)

    assert (end["event"], end["launch"], end["exit_code"]) == ("end", "0001", 1)
    assert (end["total"]["done"], end["total"]["planned"]) == (1, 8)
    assert [each["done"] for each in end["models"]] == [1, 0]
    assert (end["problems"], end["site"], end["resume"]) == (["down"], None, None)


def test_a_grid_that_could_not_be_opened_tells_nothing_more(
    grid: HandMade, capsys: pytest.CaptureFixture[str]
) -> None:
    _tell_end(result_of(grid, status=None), intent(grid))

    assert capsys.readouterr().out == ""
