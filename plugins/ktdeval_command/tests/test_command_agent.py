"""A program as an agent: days with memory, on record, and executed again."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest

from ktdeval.market.snapshots.storage import load_snapshot
from ktdeval.registry import load_plugins
from ktdeval.runner.records.run_folder import RunFolder
from ktdeval.runner.scoring.verify import verify_records
from ktdeval_command.sandboxes.sandbox import Sandbox
from support.command import literal_player
from support.runs.forging import change_transcript, rehash
from support.runs.outside_programs import (
    HEAD,
    OUTSIDE_PLUGIN,
    PROGRAM,
    TRADER,
    Place,
    did_nothing,
    given_more_time,
)
from support.runs.run_support import PLUGIN, SAME_MASK, TASK, WINDOW, Done, copy_run, ktdeval, start

pytestmark = pytest.mark.slow  # each test is a whole run

STEPS = 3


def react(place: Place) -> Place:
    """A run of the built-in agent, in a folder beside."""
    beside = Place(place.folder / "react", place.market)
    beside.folder.mkdir(exist_ok=True)
    words = ("--tasks", TASK, "--windows", WINDOW, "--limit", STEPS, *SAME_MASK)
    done = ktdeval(
        *("--agent", "react", *BUYER, *words, "--data", place.market, "--out", beside.run),
        cwd=place.folder,
    )
    assert done.code == 0, done
    return beside


BUYER = ("--model", "outside/buyer", "--plugin", OUTSIDE_PLUGIN)


# ---- three days


@pytest.mark.sampled(1)
@pytest.mark.parametrize("sandbox", ["none", "bwrap"])
@pytest.mark.parametrize("session", ["step", "episode"])
def test_a_program_has_the_figures_of_react_with_the_same_decisions(
    place: Place,
    sandbox: str,
    session: str,
    request: pytest.FixtureRequest,
) -> None:
    if sandbox == "bwrap":
        request.getfixturevalue("bwrap")

    done = place.play(TRADER, *BUYER, steps=STEPS, sandbox=sandbox, session=session)

    assert done.code == 0, done
    ours, theirs = place.steps, react(place).steps
    assert [step.orders for step in ours] == [step.orders for step in theirs]
    assert list(ours) == list(theirs)  # counts, reasons, failures, positions and cash, too
    assert [step.provenance for step in ours] == ["model_after_retry"] * STEPS
    assert ours[0].orders

    verified = place.verified()
    assert f"steps executed again: {STEPS}, of these traced" in verified.out
    assert f"own submission: {STEPS})" in verified.out


def test_a_program_that_brings_the_prices_as_its_own_file_is_not_ranked_as_blinded(
    place: Place, bwrap: Sandbox
) -> None:
    """The sandbox keeps it from looking the market up; its own file is in its folder."""
    closes = load_snapshot(place.market).close
    (place.folder / "prices.csv").write_text("\n".join(",".join(map(str, row)) for row in closes))
    place.write('assert open("prices.csv").readline()\nsubmit()')
    done = place.again(run=f"python3 {PROGRAM} prices.csv", sandbox="bwrap")

    assert done.code == 0, done
    card = json.loads((place.run / "cards" / f"{TASK}.json").read_text())
    assert [each["kind"] for each in card["deciders"]] == ["rule", "sandboxed_program"]
    assert "not isolated" not in card["labels"]
    assert card["rankable"]["value"] is False
    assert (
        "command could have brought the market: a program in a sandbox has files of its own; a board"
        " ranks it in its division open book, and as blinded only in windows after it registered the"
        " hash of its files"
    ) in card["rankable"]["reasons"]

    shown = ktdeval("card", "show", place.run, "--all", cwd=place.folder).out
    words = " ".join(shown.split())
    assert "command: a program in a sandbox, 1 step; could have brought the market" in words
    assert place.verified().code == 0


LITERAL = Path(literal_player.__file__).read_text("utf-8")


@pytest.mark.parametrize("session", ["step", "episode"])
def test_a_program_that_follows_its_text_to_the_letter_decides_each_day(
    place: Place, session: str
) -> None:
    """No text of another driver is in it: the player knows no sentence more than once."""
    decides = """
    procedure = told(open("task.md").read())
    play(procedure, lambda name, given: tool(name, **given)["text"], HOLD)
    """
    place.write(decides, HEAD + LITERAL)
    done = place.again(steps=2, session=session)

    assert done.code == 0, done
    assert [step.provenance for step in place.steps] == ["model"] * 2
    assert [step.tool_calls for step in place.steps] == [literal_player.RESEARCH_CALLS] * 2
    assert [step.failures for step in place.steps] == [{}] * 2


def test_a_program_is_told_its_models_own_name(place: Place) -> None:
    """Programs choose effort and thinking by it."""
    done = place.play('submit({"orders": [], "overall_reason": os.environ["KTDEVAL_MODEL"]})')
    assert done.code == 0, done
    assert [step.overall_reason for step in place.steps] == ["hold"]


def test_two_versions_of_a_program_are_two_systems(
    place: Place,
) -> None:
    systems = []
    for version in ("1", "2"):
        program = place.folder / "agent"
        program.write_text(f"#!/usr/bin/env python3\n{HEAD}\nVERSION = {version}\nsubmit()\n")
        program.chmod(0o755)
        beside = Place(place.folder / version, place.market)
        beside.folder.mkdir()
        assert beside.again(run=program).code == 0
        card = json.loads((beside.run / "cards" / f"{TASK}.json").read_text())
        systems.append(card["agent"]["args"])

    one, two = systems
    assert {name for name in one if one[name] != two[name]} == {"program"}
    done = ktdeval(
        *("compare", place.folder / "1" / "run", place.folder / "2" / "run"), cwd=place.folder
    )
    assert "program=" in done.out + done.err  # what tells them apart


@pytest.mark.exhaustive
def test_what_a_program_writes_is_there_at_the_next_step(place: Place) -> None:
    done = place.play(
        """
        past = open("diary").read() if os.path.exists("diary") else ""
        os.makedirs("deep/er", exist_ok=True)
        open("deep/er/note", "a").write("x")
        open("diary", "w").write(past + f"day {len(past.splitlines())}\\n")
        submit({"orders": [], "overall_reason": past + open("deep/er/note").read()})
        """,
        steps=STEPS,
    )

    assert done.code == 0, done
    assert [step.overall_reason for step in place.steps] == [
        "x",
        "day 0\nxx",
        "day 0\nday 1\nxxx",
    ]


@pytest.mark.exhaustive
def test_a_run_that_is_cut_and_taken_up_again_is_as_one_that_was_not(place: Place) -> None:
    """Killed between two steps, a program finds its folder as it left it."""
    whole = Place(place.folder / "whole", place.market)
    whole.folder.mkdir()
    remember = 'open("diary", "a").write("x")\n' + TRADER
    assert whole.play(remember, *BUYER, steps=STEPS).code == 0

    place.write(remember)
    words = place.command(*BUYER, steps=STEPS, run="python3 trader.py")
    environment = {"RUN_PLUGIN_DIE_AFTER_STEP": "1"}
    process = start(*words, "--plugin", PLUGIN, cwd=place.folder, environment=environment)
    assert process.wait().code == -9
    assert ktdeval(*words, "--plugin", PLUGIN, cwd=place.folder).code == 0

    assert [step.nav_minor for step in place.steps] == [step.nav_minor for step in whole.steps]
    assert_same_acts(place, whole)


def assert_same_acts(place: Place, other: Place) -> None:
    def found(of: Place) -> list[Any]:
        return [(entry["exchanges"], entry["external"]) for entry in of.entries]

    assert found(place) == found(other)


@pytest.mark.exhaustive
def test_a_program_may_ask_a_further_model(place: Place) -> None:
    done = place.play(
        """
        body = {"messages": [{"role": "user", "content": "What now?"}]}
        for name in ("builtin/momentum", "gpt-whatever"):
            post(BRIDGE + "/v1/chat/completions", {**body, "model": name}, KEY)
        submit()
        """,
        models="builtin/momentum",
    )

    assert done.code == 0, done
    asked = [exchange.get("model") for exchange in place.entries[0]["exchanges"]]
    assert asked == ["builtin/momentum", None]
    assert place.verified().code == 0


# ---- an episode's program


@pytest.mark.exhaustive
def test_a_program_of_an_episode_is_told_its_days(place: Place) -> None:
    done = place.play(
        """
        print(os.getpid())
        early = tool("next_day")
        assert "not decided" in early["text"], early
        seen = []
        while True:
            submit({"orders": [], "overall_reason": f"{seen}"[:200]})
            told = tool("next_day")
            if "episode is over" in told["text"]:
                break
            seen += re.findall(r"\\(step \\d+\\)", told["text"])
        """,
        steps=STEPS,
        session="episode",
    )

    assert done.code == 0, done
    reasons = [step.overall_reason for step in place.steps]
    assert reasons == ["[]", "['(step 1)']", "['(step 1)', '(step 2)']"]
    assert place.verified().code == 0


@pytest.mark.exhaustive
def test_a_program_of_an_episode_that_ends_early_holds_its_other_days(place: Place) -> None:
    done = place.play(
        """
        if os.path.exists("was_here"):
            sys.exit(4)
        open("was_here", "w").close()
        submit()
        tool("next_day")
        sys.exit(4)
        """,
        steps=STEPS,
        session="episode",
    )

    assert done.code == 0, done
    found = [(step.provenance, step.failures) for step in place.steps]
    assert found[0] == ("model", {})
    assert found[1:] == [("error", {"program_exited": 1})] * 2
    assert place.verified().code == 0


@pytest.mark.exhaustive
def test_a_program_that_lives_through_one_day_only_is_started_for_each(place: Place) -> None:
    done = place.play(
        """
        past = open("diary").read() if os.path.exists("diary") else ""
        open("diary", "w").write(past + "x")
        submit({"orders": [], "overall_reason": past or "none"})
        """,
        steps=STEPS,
        session="episode",
    )

    assert done.code == 0, done
    assert [step.overall_reason for step in place.steps] == ["none", "x", "xx"]
    assert place.verified().code == 0


@pytest.mark.exhaustive
def test_program_too_slow_for_an_episode_holds_and_is_restarted(place: Place) -> None:
    def is_cut(there: Place, done: Done) -> bool:
        return did_nothing(there, done) or any(day.failures for day in there.steps[::2])

    there, done = given_more_time(
        place,
        """
        if not os.path.exists("was_here"):
            open("was_here", "w").close()
            submit()
            tool("next_day")
            time.sleep(600)
        submit()
        """,
        is_cut,
        steps=STEPS,
        session="episode",
        grace_s=0.5,
    )

    assert done.code == 0, done
    found = [(step.provenance, step.failures) for step in there.steps]
    assert found == [("model", {}), ("error", {"program_timed_out": 1}), ("model", {})]
    assert there.verified().code == 0


def test_a_program_that_fails_after_a_resume_holds_as_it_does_without_one(place: Place) -> None:
    body = """
        if "step 0" in sys.stdin.read():
            submit()
        sys.exit(3)
        """
    place.write(body)
    words = place.command("--plugin", PLUGIN, steps=2)
    killed = start(*words, cwd=place.folder, environment={"RUN_PLUGIN_DIE_AFTER_STEP": "0"})
    assert killed.wait().code == -9

    done = ktdeval(*words, cwd=place.folder)

    assert done.code == 0, done
    assert (place.steps[1].provenance, place.steps[1].failures) == ("error", {"program_exited": 1})


@pytest.mark.exhaustive
def test_a_program_of_an_episode_decides_no_day_before_it_asked_for_it(place: Place) -> None:
    """A second submission is not taken for that of the next day, which it does not know."""
    done = place.play(
        """
        submit()
        time.sleep(0.5)
        told = [submit(), tool("get_market_context")]
        for each in told:
            assert "This day is over: call next_day." in each["text"], told
        tool("next_day")
        submit({"orders": [], "overall_reason": "Now I know the day."})
        tool("next_day")
        """,
        steps=2,
        session="episode",
    )

    assert done.code == 0, done
    assert [step.overall_reason for step in place.steps][1] == "Now I know the day."
    assert place.verified().code == 0


# ---- forged records


@pytest.fixture(scope="module")
def original(market: Path, tmp_path_factory: pytest.TempPathFactory) -> Place:
    """A run that verifies, without a sandbox."""
    place = Place(tmp_path_factory.mktemp("original"), market)
    assert place.play(TRADER, *BUYER, steps=STEPS).code == 0
    assert place.verified().code == 0
    return place


def changed_submission(external: Any) -> None:
    last = external["acts"][-1]
    last["arguments"] = json.dumps({"orders": [], "overall_reason": "Nothing."})


def changed_tool(external: Any) -> None:
    act = next(act for act in external["acts"] if act["kind"] == "tool")
    act["arguments"] = '{"x": 1}'


def changed_tool_result(external: Any) -> None:
    act = next(act for act in external["acts"] if act["kind"] == "tool")
    act["result"] = act["result"].replace("1", "2")


def changed_feedback(external: Any) -> None:
    act = next(act for act in external["acts"] if act["kind"] == "submit")
    act["result"] = "Fine."


def dropped_act(external: Any) -> None:
    del external["acts"][0]


def added_act(external: Any) -> None:
    external["acts"].insert(0, {"kind": "refused", "failure": "step_over"})


def added_call(external: Any) -> None:
    external["acts"].insert(0, {"kind": "ask"})


def walls(external: Any) -> None:
    external["isolation"] = "bwrap"


def failed_program(external: Any) -> None:
    external["report"]["outcome"] = {"kind": "killed", "code": 9, "detail": ""}


def no_report(external: Any) -> None:
    external["report"] = None


def offered_tools(external: Any) -> None:
    act = next(act for act in external["acts"] if act["kind"] == "ask")
    act["tools"] = act["tools"][:1]


FORGERIES: list[Callable[[Any], None]] = [
    changed_submission,
    changed_tool,
    changed_tool_result,
    changed_feedback,
    dropped_act,
    added_act,
    added_call,
    walls,
    failed_program,
    no_report,
    offered_tools,
]


@pytest.mark.parametrize("forge", FORGERIES, ids=lambda forge: forge.__name__)
def test_a_forged_record_of_a_program_does_not_verify(
    original: Place, tmp_path: Path, forge: Callable[[Any], None]
) -> None:
    """Transcript, hashes and marks agree with the forgery; the acts, done again, do not."""
    place = Place(tmp_path, original.market)
    copy_run(original.run, place.run)
    (episode,) = (place.run / "episodes").iterdir()
    change_transcript(episode, lambda entries: forge(entries[0]["external"]))
    rehash(episode)

    assert place.verified().code == 1
    assert findings(place)


def findings(place: Place) -> Sequence[str]:
    """What a verification of the records alone, without the card, finds."""
    plugins = load_plugins([str(OUTSIDE_PLUGIN)])
    task = plugins.make_task(TASK)
    snapshot = load_snapshot(place.market)
    verified = verify_records(RunFolder.load(place.run), task, plugins, snapshot)
    return [str(finding) for finding in verified.findings]


def test_walls_that_were_not_there_do_not_verify(original: Place, tmp_path: Path) -> None:
    """Each step and the mark say so; the agent's own arguments do not."""

    def forge(entries: Any) -> None:
        for entry in entries:
            entry["external"]["isolation"] = "bwrap"

    place = Place(tmp_path, original.market)
    copy_run(original.run, place.run)
    (episode,) = (place.run / "episodes").iterdir()
    change_transcript(episode, forge)
    said = json.loads((episode / "episode.json").read_text())["said"]
    rehash(episode, said={**said, "isolation": {"bwrap": STEPS}})

    assert "external.isolation" in findings(place)[0]
