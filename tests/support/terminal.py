"""Commands as somebody types them, in this process: what they print, and how they refuse."""

from __future__ import annotations

import json
import shlex
from typing import Any

import pytest

from ktdeval.cli.main import main


class Terminal:
    """Calls commands, and reads what they printed."""

    def __init__(self, capsys: pytest.CaptureFixture[str]) -> None:
        self._capsys = capsys

    def call(self, *words: object) -> tuple[int, str, str]:
        """Exit code, stdout and stderr."""
        self._capsys.readouterr()
        code = main([str(word) for word in words])
        return code, *self._capsys.readouterr()

    def out(self, *words: object) -> str:
        """What a command that ends well printed; its stderr may show how it went."""
        code, out, err = self.call(*words)
        assert code == 0, err
        return out

    def text(self, *words: object) -> str:
        """What a command that ends well and has nothing to remark printed."""
        code, out, err = self.call(*words)
        assert (code, err) == (0, "")
        return out

    def report(self, *words: object) -> Any:
        return json.loads(self.text(*words, "--json"))

    def error(self, *words: object) -> str:
        """What a command that fails wrote to stderr."""
        code, _, err = self.call(*words)
        assert code == 2, (words, code, err)
        return err

    def refusal(self, *words: object) -> str:
        """The one line of a command that refuses what it was given."""
        code, out, err = self.call(*words)
        assert (code, out, err.count("\n")) == (2, "", 1), (words, out, err)
        return err

    def refusals(self, *lines: str) -> str:
        """Commands as they are typed, each with its refusal below it."""
        shown = ""
        for line in lines:
            shown += f"{line}\n  {self.refusal(*shlex.split(line))}"

        return shown
