"""The `ktdeval` command. Commands are imported only when called; options without a command mean
`run`.
"""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import partial
from types import TracebackType
from typing import Any

import click

import ktdeval
from ktdeval.cli.command_tree import BUILT_IN, SharedGroup, all_commands, by_title
from ktdeval.cli.groups import LazyCommand, LazyGroup
from ktdeval.cli.help.completers import COMPLETION
from ktdeval.cli.help.moved import with_new_words
from ktdeval.cli.options import (
    WORDS,
    group_options,
    open_plugins,
    printing_option,
    run_options,
    write_groups,
)
from ktdeval.cli.terminal_tables import terminal_width
from ktdeval.errors import BudgetError, KtdevalError, os_reason
from ktdeval.registry.plugin_registry import hint
from ktdeval.stores.paths_as_urls import with_urls

INTRO = "Can a language-model agent invest, or does it remember the market and ride factors?"
EXAMPLE = "ktdeval --model builtin/momentum --tasks blinded_open_research"


_COMMANDS = "ktdeval.commands"  #: key of all commands in the `meta` of a context


class KtdevalGroup(LazyGroup):
    """Root of the command line, with built-in commands followed by plugin commands.

    All plugins are loaded, but only for help and for names that are not built in.
    """

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Parse the arguments, after replacing words that have moved."""
        args = with_new_words(args)
        ctx.meta[WORDS] = tuple(args)
        return super().parse_args(ctx, args)

    def list_commands(self, ctx: click.Context) -> list[str]:
        """Return the names in help order."""
        return list(self.all_commands(ctx))

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """Return a command of ktdeval or of a plugin; None if no command has this name."""
        return self.commands.get(cmd_name) or self.all_commands(ctx).get(cmd_name)

    def all_commands(self, ctx: click.Context) -> dict[str, LazyCommand | SharedGroup]:
        """Return the commands of ktdeval and of all plugins. Plugins are loaded only once."""
        commands: dict[str, LazyCommand | SharedGroup] | None = ctx.meta.get(_COMMANDS)
        if commands is None:
            commands = all_commands(open_plugins())
            ctx.meta[_COMMANDS] = commands

        return commands

    def format_help(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write help that fits one screen: usage, the options for a first run, and the commands by
        group.
        """
        formatter.write_usage("ktdeval", "[OPTIONS OF run] | COMMAND [ARGS]…")
        formatter.write_paragraph()
        formatter.write_text(INTRO)
        formatter.write(f"\n  {EXAMPLE}\n")

        first, *_ = group_options(run_options()).values()
        write_groups(ctx, formatter, {"Options of a first run (all: ktdeval run --help)": first})

        groups = by_title(self.all_commands(ctx))
        heading = "Commands (ktdeval COMMAND --help; what each does: ktdeval list commands)"
        with formatter.section(heading):
            rows = [(title, ", ".join(members)) for title, members in groups.items()]
            formatter.write_dl(rows, col_max=24)

        write_groups(ctx, formatter, {"Options": self.get_params(ctx)})


#: options that contain the parameters of a part of a run
_ARGUMENTS = {"model": "model-args", "agent": "agent-args", "data provider": "data-args"}
_MISSING_ARGUMENT = re.compile(
    rf"(?P<part>{'|'.join(_ARGUMENTS)}) (?P<name>\S+): field '(?P<field>\w+)' is missing"
)
#: beginning of an error about a field, for options of a run, of a provider or of a command
_FIELD = re.compile(
    r"(?P<where>options: |data provider \S+: )?(?P<field>[a-z]\w*)(?P<key>\.[\w.]+)?: "
)
_LONG_FIELD = re.compile(r"(?<![\w.-])[a-z]+(?:_[a-z]+)+(?![\w=])")
_OPTION = re.compile(r"--([a-z][\w-]*)")
_COLOUR = r"\x1b\[(?:0|[1347]|[39]?[0-79]|38;[25];[0-9;]{1,11})(?:;(?:[1347]|[39][0-79]|38;[25];[0-9;]{1,11}))*m"
_UNSEEN = r"[\x00-\x08\x0b-\x1f\x7f-\x9f\xad\u061c\u180e\u200b-\u200f\u2028-\u202e\u2060-\u206f\ufeff\ud800-\udfff]"
_UNDECODED = re.compile(r"[\udc80-\udcff]")  #: undecodable bytes on the command line
_ODD = re.compile(f"({_COLOUR})|{_UNSEEN}")


class CleanStream:
    """Text stream that cleans third-party text. Control and invisible characters become spaces, and
    paths of local copies of runs become the runs' URLs.

    Such text therefore can't move the cursor, or hide or reverse other text. On a terminal, colours
    are kept. `raw` is the underlying stream, for code that moves the cursor on purpose.
    """

    def __init__(self, raw: Any) -> None:
        self.raw = raw

    def write(self, text: str) -> int:
        """Write the cleaned text, and return the length of the original text."""
        shows_colours = self.raw.isatty()

        def clean(match: re.Match[str]) -> str:
            colour = match[1]
            if colour and shows_colours:
                return colour
            return " "

        self.raw.write(_ODD.sub(clean, with_urls(text)))
        return len(text)

    def __getattr__(self, name: str) -> Any:
        return getattr(self.raw, name)


class DroppingStream:
    """Text stream for progress and messages, which drops text that can't be written.

    Commands therefore do not fail because the disk is full, or because the reader of stderr has
    closed it.
    """

    def __init__(self, raw: Any) -> None:
        self.raw = raw

    def __getattr__(self, name: str) -> Any:
        attribute = getattr(self.raw, name)
        if name in ("write", "flush"):
            return partial(_attempt, attribute)
        return attribute


def _attempt(write: Callable[..., object], *text: str) -> None:
    with suppress(OSError):
        write(*text)


def _make_writable(*streams: Any) -> None:
    """In locales without UTF-8, let the streams write `?` for characters that they can't encode."""
    for stream in streams:
        if hasattr(stream, "reconfigure") and not (stream.encoding or "").lower().startswith("utf"):
            stream.reconfigure(errors="replace")


# lm-eval uses `--model_args`; both spellings mean the same option
cli = KtdevalGroup(
    "ktdeval",
    BUILT_IN,
    default="run",
    takes_words=False,
    context_settings={
        "help_option_names": ["-h", "--help"],
        "token_normalize_func": lambda token: token.replace("_", "-"),
    },
)
"""Root of the command line."""
click.version_option(ktdeval.__version__, prog_name="ktdeval", message="%(prog)s %(version)s")(cli)


def _completion(shell: str) -> str:
    from ktdeval.cli.help.completion import script_of

    return script_of(shell, cli)


cli.params.append(
    printing_option(
        "--completion",
        _completion,
        metavar="SHELL",
        type=click.Choice(["bash", "zsh", "fish"]),
        help="Print the script that completes words in bash, zsh or fish.",
    )
)


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command line and return its exit code. Expected failures print one line on stderr.

    Exit codes: 0 success, 1 negative result (a check fails), 2 bad input, 3 budget reached, 130
    interrupted.
    """
    if sys.flags.optimize > 1:
        return _fail(
            "python -OO removes the docstrings that tools, schemas and help are made of; run"
            " without it, or with -O",
            2,
        )

    sys.excepthook = _show_defect
    if argv is None:
        argv = sys.argv[1:]

    arguments = list(argv) or ["--help"]
    _make_writable(sys.stdout, sys.stderr)
    streams = sys.stdout, sys.stderr
    # a stream that the caller has closed is None
    out, err = (stream or open(os.devnull, "w") for stream in streams)  # noqa: SIM115 - used until the process ends
    sys.stdout = CleanStream(out)
    sys.stderr = CleanStream(DroppingStream(err))
    try:
        if COMPLETION in os.environ:
            from ktdeval.cli.help.completion import answer

            return answer(os.environ[COMPLETION], cli)

        return _run_command(arguments)
    finally:
        sys.stdout, sys.stderr = streams


def _run_command(arguments: list[str]) -> int:
    help_width = max(60, min(terminal_width(), 120))
    try:
        result = cli.main(
            arguments, prog_name="ktdeval", standalone_mode=False, terminal_width=help_width
        )
        sys.stdout.flush()
        return result if isinstance(result, int) else 0
    except BudgetError as stop:
        return _fail(str(stop), stop.exit_code, "stopped")
    except KtdevalError as error:
        return _fail(_with_options(str(error), arguments), error.exit_code)
    except click.ClickException as error:
        return _fail_usage(error)
    except (click.Abort, KeyboardInterrupt):
        return _fail("interrupted", 130)
    except OSError as error:
        return _fail_os(error)
    except SystemExit:
        # If the reader of the output has gone (`| head`), click replaces the streams and ends the
        # process itself.
        if isinstance(sys.stdout, CleanStream):
            raise

        return _fail_os(BrokenPipeError())
    except UnicodeEncodeError:
        # A word with undecodable bytes may be a file name, but JSON can't contain it.
        undecoded = [word for word in arguments if _UNDECODED.search(word)]
        if not undecoded:
            raise

        return _fail(
            f"{undecoded[0]!a}: is not UTF-8, which JSON can't hold; choose another name", 2
        )


def _with_options(message: str, arguments: Sequence[str]) -> str:
    """Return an error message in which fields are replaced by the options that the user typed, or
    should type.
    """
    lacks = _MISSING_ARGUMENT.fullmatch(message)
    if lacks is not None:
        part, field = lacks["part"], lacks["field"]
        return f"{part} {lacks['name']} needs {field}: --{_ARGUMENTS[part]} {field}=…"

    typed: dict[str, str] = {}
    for word in arguments:
        option = _OPTION.match(word)
        if option is not None:
            typed[option[1].replace("-", "_")] = option[0]

    about = _FIELD.match(message)
    if about is not None:
        is_option = about["field"] in typed or about["where"] == "options: "
        if is_option and _is_typed(about["key"], arguments):
            option_name = f"--{about['field'].replace('_', '-')}"
            key = about["key"] or ""
            message = f"{option_name}{key.replace('.', ' ', 1)}: {message[about.end() :]}"

    return _LONG_FIELD.sub(lambda found: typed.get(found[0], found[0]), message)


def _is_typed(key: str | None, arguments: Sequence[str]) -> bool:
    """Return whether a key in an option's value was typed, as in `--map open=3`. True if the
    message names no key.

    A message such as `bars.csv: …` is about a file, not about a key in `--bars`.
    """
    if key is None:
        return True
    return any(f"{key.removeprefix('.')}=" in word for word in arguments)


def _fail_usage(error: click.ClickException) -> int:
    """Print what is wrong with the arguments, and return the exit code."""
    # the error's message is the help of the group
    if isinstance(error, click.exceptions.NoArgsIsHelpError):
        click.echo(error.format_message(), err=True)
        return error.exit_code

    if isinstance(error, click.NoSuchOption):
        advice = _hint_of_option(error)
        if advice:
            return _fail(f"no such option {error.option_name}{advice}", error.exit_code)

    message = error.format_message()
    has_advice = isinstance(error, click.NoSuchOption) and error.possibilities
    if isinstance(error, click.UsageError) and error.ctx is not None and not has_advice:
        message = f"{message.rstrip('.')}; see `{error.ctx.command_path} --help`"

    return _fail(message, error.exit_code)


def _hint_of_option(error: click.NoSuchOption) -> str:
    """Return a hint for an unknown option: where the option has moved, or the name that ktdeval
    uses for another suite's option.
    """
    command = ""
    if error.ctx is not None:
        _, _, command = error.ctx.command_path.partition(" ")

    return hint("options", f"{command} {error.option_name}") or hint("options", error.option_name)


def _fail_os(error: OSError) -> int:
    """Print what could not be read or written, and return the exit code."""
    if error.filename is None:
        # stdout itself failed; redirecting it prevents an error when Python flushes it at exit
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())

    if isinstance(error, BrokenPipeError):  # the reader has closed the pipe (`| head`)
        return 0

    where = error.filename or "output"
    return _fail(f"{where}: {os_reason(error, 'fix that, or name another path')}", 2)


def _show_defect(
    kind: type[BaseException], error: BaseException, trace: TracebackType | None
) -> None:
    """Print the traceback of a bug as Python would, but without secrets."""
    import traceback

    from ktdeval.secrets.redaction import redact_secrets

    text = "".join(traceback.format_exception(kind, error, trace))
    sys.stderr.write(redact_secrets(text, os.environ))


#: maximum length up to which an error message shows a word, such as a path, in full; and how many
#: characters at the start and end of a longer word are shown
_LONGEST_WORD = 400
_SHOWN_START = 200
_SHOWN_END = 60


def _fail(message: str, exit_code: int, how: str = "error") -> int:
    from ktdeval.secrets.redaction import redact_secrets

    # A message may quote a file, an address or a server's reply, any of which may contain a key.
    words = redact_secrets(message, os.environ).split()
    line = " ".join(_shortened_word(word) for word in words)
    click.echo(f"ktdeval: {how}: {line}", err=True)
    return exit_code


def _shortened_word(word: str) -> str:
    """Return a word of a message, shortened in the middle if it is too long."""
    if len(word) <= _LONGEST_WORD:
        return word
    return f"{word[:_SHOWN_START]}…{word[-_SHOWN_END:]}"
