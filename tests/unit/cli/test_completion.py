"""Completion in a shell: commands, options without the word `run`, names and choices."""

from __future__ import annotations

import shlex
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from inline_snapshot import snapshot

from ktdeval.cli.help.completers import COMPLETION
from ktdeval.cli.help.completion import SHELLS
from ktdeval.cli.main import main
from ktdeval.registry import plugin_registry
from ktdeval.testing import Terminal

Capture = pytest.CaptureFixture[str]


class Typing:
    """Asks for the words that may follow a line, as the script of bash does."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, capsys: Capture) -> None:
        self._monkeypatch = monkeypatch
        self._capsys = capsys

    def words(self, line: str) -> list[str]:
        words = line.split(" ")
        self._monkeypatch.setenv("COMP_WORDS", "\n".join(words))
        self._monkeypatch.setenv("COMP_CWORD", str(len(words) - 1))
        self._monkeypatch.setenv(COMPLETION, "bash_complete")
        self._capsys.readouterr()
        main(["ktdeval"])
        out, err = self._capsys.readouterr()

        assert err == "", "nothing is printed where the user types"

        return [each.partition(",")[2] for each in out.splitlines() if each]

    def shown(self, *lines: str) -> str:
        """Lines, each with the words that may follow it."""
        return "".join(f"{line}: {' '.join(self.words(line))}\n" for line in lines)


@pytest.fixture
def typing(monkeypatch: pytest.MonkeyPatch, capsys: Capture) -> Typing:
    return Typing(monkeypatch, capsys)


def test_options_need_no_run_and_load_no_plugin(
    typing: Typing, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: object) -> None:
        pytest.fail("a plugin was loaded")

    monkeypatch.setattr(plugin_registry, "find_entry_points", refuse)
    shown = typing.shown(
        "ktdeval --mo",
        "ktdeval --model builtin/hold --mo",
        "ktdeval --rules ",
        "ktdeval --rules = p",  # bash makes = a word of its own
        "ktdeval card verify RUN --js",
    )
    assert shown == snapshot("""\
ktdeval --mo: --model --model-args
ktdeval --model builtin/hold --mo: --model-args
ktdeval --rules : strict paper
ktdeval --rules = p: paper
ktdeval card verify RUN --js: --json
""")


@pytest.mark.slow
def test_names_are_completed_also_after_a_comma(typing: Typing) -> None:
    shown = typing.shown(
        "ktdeval com",
        "ktdeval --com",
        "ktdeval --model builtin/mom",
        "ktdeval --model openai_",
        "ktdeval --metrics brier,information_",
        "ktdeval --tasks blinded_open_research --windows W2,W",
        "ktdeval compare --metric total_r",
        "ktdeval list tasks bright_mem",
        "ktdeval list me",
        "ktdeval list metrics total_r",
        "ktdeval grid ktd-fin-",
        "ktdeval grid --mo",
        "ktdeval data make synthetic_u",
        "ktdeval data make us --sy",
        "ktdeval data make --out m us --from yf",
        "ktdeval data make --che",
        "ktdeval data make qfin",
        "ktdeval --data qfin",  # they make no market: a folder, then
        "ktdeval grid ctl lab requ",
    )
    assert shown == snapshot("""\
ktdeval com: compare
ktdeval --com: --completion
ktdeval --model builtin/mom: builtin/momentum
ktdeval --model openai_: openai_compatible/
ktdeval --metrics brier,information_: brier,information_ratio
ktdeval --tasks blinded_open_research --windows W2,W: W2,W1 W2,W3 W2,W4 W2,W5 W2,W6 W2,W7 W2,W8 W2,W9 W2,W10
ktdeval compare --metric total_r: total_return
ktdeval list tasks bright_mem: bright_memory_only bright_memory_only_paper
ktdeval list me: metrics
ktdeval list metrics total_r: total_return
ktdeval grid ktd-fin-: ktd-fin-appendix-j
ktdeval grid --mo: --models
ktdeval data make synthetic_u: synthetic_us
ktdeval data make us --sy: --symbols
ktdeval data make --out m us --from yf: yfinance
ktdeval data make --che: --check-only
ktdeval data make qfin: qfinzero qfinzero_files
ktdeval --data qfin: qfin
ktdeval grid ctl lab requ: requeue
""")


def test_shared_options_and_short_forms_are_completed(typing: Typing) -> None:
    shown = typing.shown(
        "ktdeval grid --temp",
        "ktdeval grid launch --reasoning-e",
        "ktdeval plan --mo",
        "ktdeval plan --model builtin/mom",
        "ktdeval plan ktd-fin-",
        "ktdeval plan ktd-fin --mod",
        "ktdeval list pla",
        "ktdeval list plans ktd-fin-",
        "ktdeval list tasks ama_btc_",
        "ktdeval list models builtin/rev",
        "ktdeval files pr",
    )
    assert shown == snapshot("""\
ktdeval grid --temp: --temperature
ktdeval grid launch --reasoning-e: --reasoning-effort
ktdeval plan --mo: --model --model-args
ktdeval plan --model builtin/mom: builtin/momentum
ktdeval plan ktd-fin-: ktd-fin-appendix-j
ktdeval plan ktd-fin --mod: --models
ktdeval list pla: plans
ktdeval list plans ktd-fin-: ktd-fin-appendix-j
ktdeval list tasks ama_btc_: ama_btc_bright ama_btc_close ama_btc_flat ama_btc_long ama_btc_long_flat ama_btc_pyramid
ktdeval list models builtin/rev: builtin/reversal
ktdeval files pr: prune
""")


def test_a_line_that_is_wrong_is_not_an_error(typing: Typing) -> None:
    assert typing.words("ktdeval no-such-command --x") == []
    assert typing.words("ktdeval --tasks no_such_task --windows W10") == ["W10"]


@pytest.mark.parametrize("shell", SHELLS)
def test_each_shell_has_a_script_that_asks_ktdeval(shell: str, terminal: Terminal) -> None:
    script = terminal.text("--completion", shell)
    assert f"{COMPLETION}={shell}_complete" in script
    if shell == "fish":
        assert 'string split ","' not in script, "a word may have commas"


@pytest.mark.exhaustive
@pytest.mark.skipif(shutil.which("bash") is None, reason="needs bash")
def test_bash_completes(tmp_path: Path) -> None:
    program = tmp_path / "ktdeval"
    program.write_text(f'#!/bin/sh\nexec {shlex.quote(sys.executable)} -m ktdeval "$@"\n')
    program.chmod(0o755)
    script = f"""
        PATH={shlex.quote(str(tmp_path))}:$PATH
        eval "$(ktdeval --completion bash)"
        complete -p ktdeval
        compopt() {{ echo "compopt $1 $2"; }}
        COMP_WORDS=(ktdeval --tasks blinded_memory_only,bright_m); COMP_CWORD=2
        _ktdeval_completion ktdeval --tasks
        echo "${{COMPREPLY[@]}}"
        COMP_WORDS=(ktdeval --model openai_); COMP_CWORD=2; COMPREPLY=()
        _ktdeval_completion ktdeval --model
        echo "${{COMPREPLY[@]}}"
    """
    done = subprocess.run(["bash", "-c", script], capture_output=True, text=True, check=True)

    assert done.stderr == ""
    assert done.stdout.splitlines() == [
        "complete -o nosort -F _ktdeval_completion ktdeval",
        "blinded_memory_only,bright_memory_only blinded_memory_only,bright_memory_only_paper",
        "compopt -o nospace",
        "openai_compatible/",
    ]
