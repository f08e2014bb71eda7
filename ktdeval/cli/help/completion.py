"""`ktdeval --completion SHELL`: complete commands, options and names in bash, zsh and fish."""

from __future__ import annotations

import contextlib
import io
from collections.abc import Mapping

import click
from click.shell_completion import BashComplete, FishComplete, ShellComplete, ZshComplete

from ktdeval.cli.help.completers import COMPLETION
from ktdeval.errors import KtdevalError

# like click's script, but without a space after a word that continues, such as a provider's slash
_BASH = """\
%(complete_func)s() {
    local IFS=$'\\n'
    local kind word
    while IFS=',' read -r kind word; do
        case $kind in
            dir) COMPREPLY=(); compopt -o dirnames ;;
            file) COMPREPLY=(); compopt -o default ;;
            plain)
                COMPREPLY+=("$word")
                [[ $word == */ ]] && compopt -o nospace
                ;;
        esac
    done < <(COMP_WORDS="${COMP_WORDS[*]}" COMP_CWORD=$COMP_CWORD %(complete_var)s=bash_complete "$1")
}
complete -o nosort -F %(complete_func)s %(prog_name)s
"""


class _Bash(BashComplete):
    source_template = _BASH

    def get_completion_args(self) -> tuple[list[str], str]:
        """Return the words before the incomplete word, and the incomplete word itself. Words
        consisting of `=` are dropped, since Bash splits options there.
        """
        words, incomplete = super().get_completion_args()
        return [word for word in words if word != "="], incomplete


class _Fish(FishComplete):
    # a word may contain commas, and only the first comma ends the kind
    source_template = FishComplete.source_template.replace(
        'string split ","', 'string split --max 1 ","'
    )


SHELLS: Mapping[str, type[ShellComplete]] = {"bash": _Bash, "zsh": ZshComplete, "fish": _Fish}


def _shell(name: str, root: click.Command) -> ShellComplete:
    return SHELLS[name](root, {}, "ktdeval", COMPLETION)


def answer(instruction: str, root: click.Command) -> int:
    """Print what a shell's script requests, and return the exit code.

    `instruction` consists of the shell's name and `source` or `complete`, as in `bash_complete`.
    Nothing is printed on stderr, which would disturb the line that the user is typing.
    """
    name, _, action = instruction.partition("_")
    if name not in SHELLS or action not in ("source", "complete"):
        return 1

    shell = _shell(name, root)
    if action == "source":
        click.echo(shell.source(), nl=False)
        return 0

    try:
        with contextlib.redirect_stderr(io.StringIO()):
            words = shell.complete()
    except (KtdevalError, click.ClickException, OSError):  # the line can't be parsed yet
        return 1

    click.echo(words)
    return 0


def script_of(shell: str, root: click.Command) -> str:
    """Return the script that adds completion for commands, options, and names of tasks, models,
    agents, metrics and windows. `shell`: one of `SHELLS`.
    """
    return _shell(shell, root).source()
