"""`ktdeval` command: a group whose commands are imported only when called, and `run` where only options are given."""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from functools import partial
from importlib import import_module
from types import MappingProxyType, TracebackType
from typing import Any, NamedTuple

import click

import ktdeval
from ktdeval.cli.options import grouped, open_plugins, run_options, write_groups
from ktdeval.cli.table import terminal_width
from ktdeval.errors import KtdevalError, PluginError, UsageError
from ktdeval.fields import near_matches
from ktdeval.registry import hint, hints

INTRO = "Can a language-model agent invest, or does it remember the market and ride factors?"
EXAMPLE = "ktdeval --model builtin/momentum --tasks blinded_open_research"


class LazyCommand(NamedTuple):
    """Module and attribute of a command, and its line in `--help`."""

    module: str
    attribute: str
    summary: str


class LazyGroup(click.Group):
    """Group that has only the names of its commands, in the order of help, so that help and a slip in a name cost no import. `path`
    is how the group itself is called, such as `ktdeval leaderboard`; `extras` names, of packages that its commands need and a plain
    install lacks, the extra of ktdeval that brings each; `settings` are those of `click.Group`.
    """

    def __init__(
        self, path: str, lazy: Mapping[str, LazyCommand], extras: Mapping[str, str] = MappingProxyType({}), **settings: Any
    ) -> None:
        context_settings = {"help_option_names": ["-h", "--help"], **settings.pop("context_settings", {})}
        super().__init__(path.rpartition(" ")[2], context_settings=context_settings, **settings)
        self.lazy, self._path, self._extras = lazy, path, extras

    def list_commands(self, ctx: click.Context) -> list[str]:  # noqa: ARG002 - as click calls it
        """Names in the order of help."""
        return list(self.lazy)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:  # noqa: ARG002 - as click calls it
        """Import a command; None when there is none of that name."""
        return self.load(cmd_name) if cmd_name in self.lazy else None

    def load(self, name: str) -> click.Command:
        """Import a command; UsageError: its module, or a package that it needs, is not installed; PluginError: it is no command."""
        lazy = self.lazy[name]
        try:
            module = import_module(lazy.module)
        except ImportError as error:
            package = (error.name or "").partition(".")[0]
            if package in self._extras:
                raise UsageError(
                    f"`{self._path} {name}` needs {package}, which is not installed, or too old: "
                    f"pip install 'ktdeval[{self._extras[package]}]'"
                ) from error
            if error.name != lazy.module:
                raise
            raise UsageError(f"command {name!r} is missing from this installation ({lazy.module}); reinstall ktdeval") from error
        command = getattr(module, lazy.attribute, None)
        if not isinstance(command, click.Command):
            raise PluginError(f"command {name!r} is {type(command).__name__}, expected a click.Command")
        return command

    def resolve_command(self, ctx: click.Context, args: list[str]) -> tuple[str | None, click.Command | None, list[str]]:
        """Return the command that the first word names; UsageError, with near names, where there is none."""
        command = self.get_command(ctx, args[0])
        if command is None:
            near = hint("commands", args[0]) or near_matches(args[0], self.list_commands(ctx)) or f"; see `{self._path} --help`"
            own = self._path.partition(" ")[2]
            raise UsageError(f"{own}: no command {args[0]!r}{near}" if own else f"no command {args[0]!r}{near}")
        return args[0], command, args[1:]

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:  # noqa: ARG002 - as click calls it
        """List the commands without importing any."""
        with formatter.section("Commands"):
            formatter.write_dl([(name, command.summary) for name, command in self.lazy.items()])


COMMANDS = {name: LazyCommand(*entry) for name, entry in hints()["built_in"].items()}


class KtdevalGroup(LazyGroup):
    """Top of the command line: built-in commands, then those of plugins."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Insert `run` where the first word is an option that only `run` has."""
        own = {name for parameter in self.get_params(ctx) for name in parameter.opts}
        if args and args[0].startswith("-") and args[0] not in own:
            args = ["run", *args]
        return super().parse_args(ctx, args)

    def list_commands(self, ctx: click.Context) -> list[str]:
        """Built-in commands, then those of plugins."""
        return [*super().list_commands(ctx), *_plugin_commands(ctx)]

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """Import a command, of ktdeval or of a plugin; None when there is none of that name."""
        if cmd_name in self.lazy:
            return self.load(cmd_name)
        return open_plugins().make("commands", cmd_name) if cmd_name in _plugin_commands(ctx) else None

    def format_help(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Usage, commands with plugins' own, and the options of `run`."""
        formatter.write_usage("ktdeval", "[OPTIONS OF run] | COMMAND [ARGS]…")
        formatter.write_paragraph()
        formatter.write_text(INTRO)
        formatter.write(f"\n  {EXAMPLE}\n")
        with formatter.section("Commands"):
            rows = [(name, command.summary) for name, command in COMMANDS.items()]
            formatter.write_dl(rows + list(_plugin_commands(ctx).items()), col_max=24)
        groups = {f"Options of run: {title}": options for title, options in grouped(run_options()).items()}
        write_groups(ctx, formatter, {**groups, "Options": self.get_params(ctx)})


def _plugin_commands(ctx: click.Context) -> dict[str, str]:
    """Return the commands of plugins and their summaries; needed only for help and for names that are not built in."""
    commands: dict[str, str] | None = ctx.meta.get("ktdeval.commands")
    if commands is None:
        commands = {name: spec.summary for name, spec in open_plugins().specs("commands").items()}
        ctx.meta["ktdeval.commands"] = commands
    return commands


_COLOUR = r"\x1b\[(?:0|[1347]|[39]?[0-79]|38;[25];[0-9;]{1,11})(?:;(?:[1347]|[39][0-79]|38;[25];[0-9;]{1,11}))*m"
_UNSEEN = r"[\x00-\x08\x0b-\x1f\x7f-\x9f\xad\u061c\u180e\u200b-\u200f\u2028-\u202e\u2060-\u206f\ufeff\ud800-\udfff]"
_ODD = re.compile(f"({_COLOUR})|{_UNSEEN}")


class CleanStream:
    """Text stream that writes a space for each control and invisible character, so that no foreign text moves the cursor, hides
    text or reverses it; on a terminal colours pass. `raw` is the stream behind it, for code that moves the cursor on purpose.
    """

    def __init__(self, raw: Any) -> None:
        self.raw = raw

    def write(self, text: str) -> int:
        """Write the text, cleaned; return its length."""
        colours = self.raw.isatty()
        self.raw.write(_ODD.sub(lambda match: match[1] if colours and match[1] else " ", text))
        return len(text)

    def __getattr__(self, name: str) -> Any:
        return getattr(self.raw, name)


class DroppingStream:
    """Text stream for progress and messages, on which no command depends: text that can't be written, on a full disk or to a
    reader that has gone, is dropped.
    """

    def __init__(self, raw: Any) -> None:
        self.raw = raw

    def __getattr__(self, name: str) -> Any:
        attribute = getattr(self.raw, name)
        return partial(_attempt, attribute) if name in ("write", "flush") else attribute


def _attempt(write: Callable[..., object], *text: str) -> None:
    with suppress(OSError):
        write(*text)


def _make_writable(*streams: Any) -> None:
    """Let a stream that can't write every character, as in a locale without UTF-8, write `?` instead of failing."""
    for stream in streams:
        if hasattr(stream, "reconfigure") and not (stream.encoding or "").lower().startswith("utf"):
            stream.reconfigure(errors="replace")


# lm-eval writes `--model_args`; both spellings name one option.
cli = KtdevalGroup("ktdeval", COMMANDS, context_settings={"token_normalize_func": lambda token: token.replace("_", "-")})
"""Root of the command line."""
click.version_option(ktdeval.__version__, prog_name="ktdeval", message="%(prog)s %(version)s")(cli)


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command line and return its exit code: 0 done, 1 a result says no, 2 bad input, 130 interrupted. Every expected
    failure is one line on stderr.
    """
    if sys.flags.optimize > 1:
        return _fail("python -OO takes away the docstrings that tools, schemas and help are made of; run without it, or with -O", 2)
    sys.excepthook = _show_defect
    arguments = list(sys.argv[1:] if argv is None else argv) or ["--help"]
    _make_writable(sys.stdout, sys.stderr)
    streams = sys.stdout, sys.stderr
    out, err = (stream or open(os.devnull, "w") for stream in streams)  # noqa: SIM115 - instead of one that the caller closed
    sys.stdout, sys.stderr = CleanStream(out), CleanStream(DroppingStream(err))  # they have all that a text stream has
    try:
        return _run(arguments)
    finally:
        sys.stdout, sys.stderr = streams


def _run(arguments: list[str]) -> int:
    # click itself imports shutil, with all compression formats, to get the width.
    width = max(60, min(terminal_width(), 120))
    try:
        result = cli.main(arguments, prog_name="ktdeval", standalone_mode=False, terminal_width=width)
        sys.stdout.flush()
        return result if isinstance(result, int) else 0
    except KtdevalError as error:
        return _fail(str(error), error.exit_code)
    except click.ClickException as error:
        if isinstance(error, click.exceptions.NoArgsIsHelpError):  # its message is the group's help
            click.echo(error.format_message(), err=True)
            return error.exit_code
        if isinstance(error, click.NoSuchOption) and (advice := hint("options", error.option_name)):
            return _fail(f"no such option {error.option_name}{advice}", error.exit_code)
        return _fail(error.format_message(), error.exit_code)
    except (click.Abort, KeyboardInterrupt):
        return _fail("interrupted", 130)
    except OSError as error:
        if error.filename is None:
            # Pointing stdout elsewhere keeps Python from complaining when it flushes at exit.
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        if isinstance(error, BrokenPipeError):  # the reader has gone (`| head`)
            return 0
        return _fail(f"{error.filename or 'output'}: {error.strerror or error}; fix that, or name another path", 2)


def _show_defect(kind: type[BaseException], error: BaseException, trace: TracebackType | None) -> None:
    """Print the traceback of a defect as Python would, less the secrets that a message in it may hold."""
    import traceback

    from ktdeval.errors import redact_secrets

    sys.stderr.write(redact_secrets("".join(traceback.format_exception(kind, error, trace)), os.environ))


def _fail(message: str, exit_code: int) -> int:
    click.echo(f"ktdeval: error: {' '.join(message.split())}", err=True)
    return exit_code
