"""Anchors: a run keeps a chain of hashes over its records, whose heads an authority stamps."""

from __future__ import annotations

import json
import shutil
import sqlite3
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from support.live.time_authority import Authority, authority
from support.providers.lucky_plugin import MOOD, PLUGIN
from support.runs.forging import edit_json
from support.runs.run_support import SAME_MASK, WINDOW, Done, ktdeval

pytest.importorskip("rfc3161_client", reason="needs the extra live")
if shutil.which("openssl") is None:
    pytest.skip("needs openssl for an authority", allow_module_level=True)

TASK = "bright_open_research"
STEPS = 4
CARD = f"cards/{TASK}.json"
WORDS = (
    f"run --plugin {PLUGIN} --model lucky/x --tasks {TASK} --windows {WINDOW} --limit {STEPS}"
    " --seeds 2 --cache run --canary 0 --price input=2,output=8 --quiet"
)
PLAN = (*WORDS.split(), *SAME_MASK)


@pytest.fixture(scope="module")
def running(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Authority]:
    with authority(tmp_path_factory.mktemp("authority")) as found:
        yield found


@pytest.fixture(scope="module")
def rule(running: Authority) -> Path:
    path = running.certificate.parent / "authority.yaml"
    path.write_text(f"url: {running.url}\ncertificate: root.pem\n", "utf-8")
    return path


def draw(run: Path, anchor: Path | str | None, mood: str = "momentum") -> Done:
    anchored = () if anchor is None else ("--anchor", anchor)
    return ktdeval(*PLAN, *anchored, "--out", run, cwd=run.parent, environment={MOOD: mood})


def verify(run: Path, *options: str | Path) -> Done:
    return ktdeval("card", "verify", run / CARD, "--plugin", PLUGIN, *options, cwd=run.parent)


def stated(run: Path) -> dict[str, Any]:
    found: dict[str, Any] = json.loads((run / CARD).read_text())["provenance"]["anchors"]
    return found


def links(run: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (run / "anchors.jsonl").read_text().splitlines()]


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory, rule: Path) -> Path:
    run = tmp_path_factory.mktemp("whole") / "run"
    done = draw(run, rule)
    assert done.code == 0, done.err
    return run


@pytest.fixture
def run(tmp_path: Path, whole: Path) -> Path:
    shutil.copytree(whole, tmp_path / "run")
    return tmp_path / "run"


def second_episode(run: Path) -> str:
    """The episode that was begun last."""
    bodies = [link["body"] for link in links(run)]
    opened: list[str] = [body["episode"] for body in bodies if body["kind"] == "opened"]
    return opened[-1]


def rewind(run: Path) -> None:
    """Delete the second episode, its calls, the cached replies and the card."""
    episode = second_episode(run)
    with closing(sqlite3.connect(run / "calls.sqlite")) as book, book:
        book.execute(f"DELETE FROM calls WHERE episode = '{episode}'")
        book.execute("DELETE FROM replies")
    shutil.rmtree(run / "episodes" / episode)
    shutil.rmtree(run / "cards")


def test_card_names_the_stamps_of_its_run(whole: Path, running: Authority) -> None:
    fact = stated(whole)
    assert (fact["steps"], fact["found"], fact["failed"]) == (2 * STEPS, 0, 0)
    assert fact["stamps"] == 4  # at the beginning, after a step, and at the end of each episode
    assert fact["gap"] == STEPS
    assert fact["first"] <= fact["last"]

    done = verify(whole)
    assert done.code == 0, done.out
    assert "which you do not trust yet (--trust)" in done.out

    trusted = verify(whole, "--trust", running.certificate)
    assert trusted.code == 0
    assert "which you trust" in trusted.out


def test_run_without_the_option_has_no_word_of_anchors(tmp_path: Path) -> None:
    assert draw(tmp_path / "run", None).code == 0
    assert not (tmp_path / "run/anchors.jsonl").exists()
    assert "anchors" not in json.loads((tmp_path / "run" / CARD).read_text())["provenance"]


def test_rewound_run_is_not_resumed(run: Path, rule: Path) -> None:
    rewind(run)
    done = draw(run, rule, "random")
    assert done.code != 0
    assert "was anchored, and is not in the records" in done.err

    assert "was anchored, and is not in the records" in draw(run, None, "random").err


def test_rewound_run_whose_chain_was_deleted_is_not_anchored_later(run: Path, rule: Path) -> None:
    rewind(run)
    (run / "anchors.jsonl").unlink()
    assert "was begun without anchors" in draw(run, rule, "random").err


def keep_lines(run: Path, number: int) -> None:
    path = run / "anchors.jsonl"
    path.write_text("".join(path.read_text().splitlines(True)[:number]))


def test_rewound_run_whose_chain_was_cut_verifies(run: Path, rule: Path) -> None:
    """The chain is the submitter's own: only a copy of a head elsewhere finds this."""
    returned = json.loads((run / CARD).read_text())["metrics"]
    bodies = [link["body"] for link in links(run)]
    opened = [number for number, body in enumerate(bodies) if body["kind"] == "opened"]
    rewind(run)
    keep_lines(run, opened[-1])

    assert draw(run, rule, "random").code == 0
    card = json.loads((run / CARD).read_text())
    assert card["metrics"] != returned
    assert verify(run).code == 0


def test_stopped_run_continues_its_chain(tmp_path: Path, whole: Path, rule: Path) -> None:
    cost = json.loads((whole / CARD).read_text())["provenance"]["calls"]["paid_usd"]
    run = tmp_path / "run"
    stop = ("--max-cost", str(0.6 * cost))
    stopped = ktdeval(
        *PLAN, *stop, "--anchor", rule, "--out", run, cwd=tmp_path, environment={MOOD: "momentum"}
    )
    assert stopped.code != 0
    assert draw(run, None).code == 0

    kinds = [link["body"]["kind"] for link in links(run)]
    fact = stated(run)
    assert kinds.count("begun") == 2
    assert (fact["steps"], fact["found"]) == (2 * STEPS, 0)
    assert verify(run).code == 0


def edit_step(run: Path) -> None:
    path = run / "anchors.jsonl"
    text = path.read_text()
    digest = next(link["body"]["sha256"] for link in links(run) if link["body"]["kind"] == "step")
    path.write_text(text.replace(digest, "0" * 64))


def repeat_the_first_stamp(run: Path) -> None:
    """Put the first stamp in the place of the last, which no later line covers."""
    stamps = [link["body"] for link in links(run) if link["body"]["kind"] == "stamp"]
    path = run / "anchors.jsonl"
    lines = path.read_text().splitlines(True)
    last = json.loads(lines[-1])
    assert last["body"] == stamps[-1]
    forged = json.dumps({**last, "body": stamps[0]}, separators=(",", ":"), sort_keys=True)
    path.write_text("".join([*lines[:-1], f"{forged}\n"]))


def drop_a_line(run: Path) -> None:
    path = run / "anchors.jsonl"
    lines = path.read_text().splitlines(True)
    path.write_text("".join([*lines[:2], *lines[3:]]))


def without_anchors(card: dict[str, Any]) -> None:
    del card["provenance"]["anchors"]


FORGERIES: dict[str, tuple[Callable[[Path], None], str]] = {
    "a step of the chain": (edit_step, "does not continue the line before it"),
    "a stamp": (repeat_the_first_stamp, "is not one of this head"),
    "a line left out": (drop_a_line, "does not continue the line before it"),
    "a chain cut short": (lambda run: keep_lines(run, 4), "were anchored"),
    "no chain": (lambda run: (run / "anchors.jsonl").unlink(), "is missing"),
    "no word on the card": (
        lambda run: edit_json(run / CARD, without_anchors),
        "the card says nothing of it",
    ),
    "more stamps on the card": (
        lambda run: edit_json(
            run / CARD, lambda card: card["provenance"]["anchors"].update(stamps=9)
        ),
        "provenance.anchors.stamps",
    ),
}


@pytest.mark.parametrize("name", FORGERIES)
def test_changed_anchors_do_not_verify(name: str, run: Path) -> None:
    forge, message = FORGERIES[name]
    forge(run)
    done = verify(run)
    assert done.code == 1
    assert message in done.out + done.err


def test_failed_stamp_is_recorded_and_the_run_goes_on(tmp_path: Path, rule: Path) -> None:
    down = rule.parent / "down.yaml"
    down.write_text("url: http://127.0.0.1:9\ncertificate: root.pem\n", "utf-8")
    run = tmp_path / "run"
    assert draw(run, down).code == 0

    fact = stated(run)
    assert (fact["stamps"], fact["failed"], fact["steps"]) == (0, 4, 2 * STEPS)
    reasons = [link["body"].get("reason", "") for link in links(run)]
    assert sum("can't be reached" in reason for reason in reasons) == 4
    assert verify(run).code == 0


def test_board_alone_needs_no_authority(tmp_path: Path) -> None:
    run = tmp_path / "run"
    assert draw(run, "board").code == 0
    assert (stated(run)["stamps"], stated(run)["authorities"]) == (0, [])
    assert "compare them with a board's copy" in verify(run).out
