"""Every command in docs/*.md, as it stands there but for placeholders and length, on the embedded market; or the reason why not."""

from __future__ import annotations

import re
import shlex
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from ktdeval.cli.main import main
from paths import REPOSITORY

PAGES = sorted((REPOSITORY / "docs").glob("*.md"))
COMMAND = re.compile(r"(?:    |\$ )?(ktdeval .*)")
PLACEHOLDERS = (
    (r"qlib/\*", "builtin/momentum"),
    (r"openai/\*,anthropic/\*", "builtin/reversal"),
    (r"effects RUN …", "effects run-a run-c"),
    (r"(RUN|PATH) ?…|RUN_A RUN_B …|runs/a runs/b", "run-a run-b"),
    (r"\bRUN\b|\bPATH\b|runs/qf\b", "run-a"),
    (r"openai/[\w.-]+", "builtin/chaos"),
    (r" --(seeds|concurrency|max-cost) [\d.]+(?=.*builtin/chaos)|(?<=builtin/chaos)( --tasks \S+)( --seeds \d+)", r"\2"),
    (r" --open\b", ""),
    (r'--episode "W4 seed-1" --day 213', "--episode W1 --day 1"),
)
REASONS = {
    r"^serve|connect|leaderboard serve": "does not end, or sets a client up: tests/unit/qfinzero/test_qfinzero_serve.py",
    r"^leaderboard": "needs a board and its submissions: tests/accept/test_board_path.py",
    r"^(qfinzero data|qfinzero replay)|--data mine|--plugin mine|runs/my|calling.jsonl|planning.jsonl|--publish|my_calling":
        "needs files that the page makes before: tests/accept/test_qfinzero_commands.py",
    r"^data (import|check long|fetch)": "needs a vendor, or files of one: tests/unit/data",
    r"certify|certificate|deanon": "needs attacks with a model: tests/accept/test_accept_deanon.py",
    r"placebo": "needs a snapshot of the CSI300: tests/unit/data",
    r"trading_action/": "needs an agent of the reader's: tests/accept/test_accept_trading_agent.py",
    r"^train |--model qlib/": "takes minutes, or needs the extra qlib: tests/accept/test_qlib_training.py",
    r"^rl train|rl/policy": "needs the extra rl, or a policy: tests/accept/test_rl_training.py",
    r"--embeddings|--model …|--model X| DIR\b": "names what only the reader has",
    r"like qfinzero-2|--prove|--tasks qfinzero( |$)": "takes minutes, or 500 items: tests/accept/test_qfinzero_commands.py",
    r"draw-|^rationale": "needs two whole windows, or a model that writes: tests/accept/test_invariance.py, tests/unit/rationale",
    r"'\{[^']*$": "is shown on two lines: tests/unit/qfinzero/test_qfinzero_catalogue.py",
}  # fmt: skip


def commands(page: Path) -> list[str]:
    """Commands of a page without `ktdeval` and comments, with placeholders filled in."""
    found = []
    for line in page.read_text(encoding="utf-8").replace("\\\n", " ").splitlines():
        if match := COMMAND.fullmatch(line):
            text = re.split(r"\s+#|\s{3,}", match[1])[0].removeprefix("ktdeval ").strip()
            for pattern, instead in PLACEHOLDERS:
                text = re.sub(pattern, instead, text)
            found.append(text)
    return found


def reason(command: str) -> str:
    return next((why for pattern, why in REASONS.items() if re.search(pattern, command)), "")


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Three short runs, of two models and two masks."""
    folder = tmp_path_factory.mktemp("runs")
    kinds = (("a", "momentum", "blinded"), ("b", "reversal", "blinded"), ("c", "momentum", "bright"))
    for name, model, mask in kinds:
        words = ["--tasks", f"{mask}_open_research", "--windows", "W1,W2", "--limit", "3", "--quiet"]
        assert main(["--model", f"builtin/{model}", *words, "--out", str(folder / f"run-{name}")]) == 0
    return folder


def runnable() -> Iterator[tuple[Path, list[str]]]:
    """Pages with the commands that stand on none before."""
    seen: set[str] = set()
    for page in PAGES:
        new = [each for each in dict.fromkeys(commands(page)) if not reason(each) and each not in seen]
        seen.update(new)
        if new:
            yield page, new


@pytest.mark.parametrize(("page", "new"), [pytest.param(*each, id=each[0].stem) for each in runnable()])
def test_the_commands_of_a_page_run(
    page: Path, new: list[str], runs: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    shutil.copytree(runs, tmp_path, dirs_exist_ok=True)
    monkeypatch.chdir(tmp_path)
    for command in new:
        words = shlex.split(command.partition(" > ")[0])
        if words[0].startswith("--model") or words[0] == "run":
            words += [] if "--limit" in words else ["--limit", "2"]
            words += ["--windows", "W1"] if any("open_research" in word for word in words) and "--windows" not in words else []
        assert main(words) == 0, f"{page.name}: ktdeval {command}: {capsys.readouterr().err[-300:]}"


def test_each_reason_is_that_of_a_command() -> None:
    every = [each for page in PAGES for each in commands(page)]
    assert len(every) > 80
    assert [pattern for pattern in REASONS if not any(re.search(pattern, each) for each in every)] == []
