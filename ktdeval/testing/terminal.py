"""Commands as a user types them, run in this process: what they print, and how they refuse."""

from __future__ import annotations

import json
import shlex
from typing import Any

import pytest

from ktdeval.cli.main import main


class Terminal:
    """Runs commands of `ktdeval` in this process; the fixture `terminal` is one. Words are not only
    texts: a path is written as it is.

    Example:
        Terminal(capsys).report("list", "plugins")
    """

    def __init__(self, capsys: pytest.CaptureFixture[str]) -> None:
        self._capsys = capsys

    def call(self, *words: object) -> tuple[int, str, str]:
        """Run a command; return its exit code, stdout and stderr."""
        self._capsys.readouterr()
        code = main([str(word) for word in words])
        return code, *self._capsys.readouterr()

    def out(self, *words: object) -> str:
        """Return the stdout of a command that ends well; its stderr may show progress."""
        code, out, err = self.call(*words)
        assert code == 0, err
        return out

    def text(self, *words: object) -> str:
        """Return the stdout of a command that ends well and writes nothing to stderr."""
        code, out, err = self.call(*words)
        assert (code, err) == (0, ""), err
        return out

    def report(self, *words: object) -> Any:
        """Return the JSON value that a command prints with `--json`."""
        return json.loads(self.text(*words, "--json"))

    def error(self, *words: object) -> str:
        """Return the stderr of a command that refuses what it was given (exit code 2)."""
        code, _, err = self.call(*words)
        assert code == 2, (words, code, err)
        return err

    def refusal(self, *words: object) -> str:
        """Return the one line of a command that refuses what it was given and prints nothing
        else.
        """
        code, out, err = self.call(*words)
        assert (code, out, err.count("\n")) == (2, "", 1), (words, out, err)
        return err

    def refusals(self, *lines: str) -> str:
        """Return command lines, each with its refusal below it."""
        shown = ""
        for line in lines:
            shown += f"{line}\n  {self.refusal(*shlex.split(line))}"

        return shown
