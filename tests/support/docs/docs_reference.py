"""Pages under docs/reference, generated from what the code knows."""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Sequence
from importlib import import_module
from itertools import chain
from typing import Any

import click

from ktdeval import errors, hookspecs
from ktdeval.cards.fields.words import read_words
from ktdeval.cli.options import group_options, run_options
from ktdeval.hookspecs import Spec
from ktdeval.registry import Plugins
from ktdeval.runner import RunConfig
from support.docs.docs_cards import card_fields, meaning
from support.docs.docs_commands import all_commands
from support.docs.docs_markdown import (
    code,
    fields_table,
    page,
    plain_text,
    table,
    value_text,
)
from support.docs.docs_tables import traits_table

#: Configs of tasks, by the title that a reader looks for
CONFIGS = {
    "Any scoring task": "ktdeval.task_api.trading_task:QuestionsConfig",
    "A task on a market": "ktdeval.task_api.trading_task:TaskConfig",
    "A window of a task": "ktdeval.task_api.trading_task:WindowDates",
    "A trading task behind a mask": "ktdeval.task_api.trading_task:MaskedConfig",
    "KTD-Fin's tasks": "ktdeval_ktdfin.task:KtdfinConfig",
    "Tasks on any market": "ktdeval_markets.config:MarketConfig",
    "Stances: BUY, SELL, HOLD": "ktdeval_markets.stance_orders:StanceConfig",
    "QFinZero's tasks": "ktdeval_qfinzero.suite.config:SuiteConfig",
    "Probes of a mask": "ktdeval_deanon.task:DeanonConfig",
    "Memory floor": "ktdeval_memory_floor.task:MemoryFloorConfig",
    "harness": "ktdeval.harness:HarnessConfig",
    "trading": "ktdeval.trading:TradingConfig",
}

#: Head of a table of options
OPTIONS_HEAD = ("option", "value", "default", "meaning")
#: Characters of a command's summary, above those of the longest
MAX_HELP = 200
#: Kinds of names, in the order of the page
KINDS = ("tasks", "models", "agents", "metrics", "data", "venues", "runners", "tools", "cards")
#: Options and arguments that moved, which no table of the code has
MOVED_OPTIONS = table(
    ("option or argument before", "now"),
    [
        (
            code("ktdeval cache … --file FILE"),
            "the file is the argument: `ktdeval files list FILE`, `check FILE`, `prune FILE`",
        ),
        (
            code("ktdeval grid ctl DIR ACTION") + " as commands of their own",
            "the same words; ACTION is an argument",
        ),
        (
            "`ktdeval grid`, `plan`: options of `run` in their help",
            "`ktdeval run --help` has them; both take them as before",
        ),
    ],
)


#: What readers type who look for a generated page, by its name
SEARCH_WORDS = {
    "commands.md": "list of commands, command line, subcommand",
    "options.md": "command line options, flags, arguments of a run",
    "hooks.md": "pluggy, hookspec, hookimpl, signature of a hook",
    "config.md": "YAML fields, task settings, schema of a task",
    "names.md": "available models, available tasks, list of agents",
    "card-words.md": "label on a card, what does a label mean, JSON field",
    "exit-codes.md": "error message, return code, exit status",
}


def reference_pages(plugins: Plugins) -> dict[str, str]:
    """Return the generated pages by their name under docs/reference."""
    pages = {
        "commands.md": commands_page(),
        "options.md": options_page(),
        "hooks.md": hooks_page(),
        "config.md": config_page(),
        "names.md": names_page(plugins),
        "card-words.md": card_words_page(),
        "exit-codes.md": exit_codes_page(),
    }
    return {name: with_search_words(text, SEARCH_WORDS[name]) for name, text in pages.items()}


def with_search_words(text: str, words: str) -> str:
    """Return a page with its search words below its introduction, before its first section."""
    start = text.find("\n## ")
    before = text if start < 0 else text[:start]
    after = "" if start < 0 else text[start:]
    return f"{before.rstrip()}\n\nSearch words: {words}.\n{after}"


# ---- commands


def commands_page() -> str:
    """Return the page of all commands: what each does."""
    rows = []
    for path, command in all_commands():
        rows.append((code(path), plain_text(command.get_short_help_str(MAX_HELP))))

    return page(
        "Commands",
        "What each command does. `COMMAND --help` prints its arguments and options, `ktdeval list"
        " commands` this list. [Options of a run](options.md) are a page of their own, and"
        " [exit codes](exit-codes.md) say how a command ended.",
        table(("command", "does"), rows),
        "## Arguments that moved\n\nA command that moved works for one release, and one line on stderr"
        " names the new words. Arguments that moved:",
        MOVED_OPTIONS,
    )


def option_row(command: click.Command, option: click.Option) -> tuple[str, str, str, str]:
    """Return option, value, default and meaning of an option."""
    context = click.Context(command)
    names = ", ".join(code(name) for name in (*option.opts, *option.secondary_opts))
    is_plain = option.is_flag or option.count
    value = "" if is_plain else code(option.make_metavar(context).replace("|", " or "))
    # Options of fields say in their help what a field that is not given has.
    help_text = option.help or ""
    suffix = re.search(r" \[(required|default: ([^\]]*))\]$", help_text)

    if suffix is None:
        return names, value, default_text(option), plain_text(help_text)

    meaning = plain_text(help_text[: suffix.start()])
    if suffix[2] is None:
        return names, value, "required", meaning

    return names, value, default_text(option) or value_text(suffix[2]), meaning


def default_text(option: click.Option) -> str:
    """Return an option's default, `required` where there is none to be left out."""
    if option.required:
        return "required"

    default = option.default
    is_unset = default is None or callable(default) or type(default).__name__ == "Sentinel"
    if is_unset or option.is_flag:
        return ""

    return value_text(default)


def options_page() -> str:
    """Return the page of the options of a run."""
    parts = [
        "Options of `ktdeval run`, which is also what runs when no command is named. Each is also"
        " a field of the YAML file that `--config` takes, with underscores for dashes, and an"
        " argument of `ktdeval.evaluate`.",
    ]
    fields = {field.name: field for field in dataclasses.fields(RunConfig)}
    command = click.Command("run")

    for title, options in group_options(run_options()).items():
        rows = []
        for option in options:
            assert isinstance(option, click.Option)
            names, value, default, meaning = option_row(command, option)
            if option.name in fields:
                default = _field_default(fields[option.name])

            rows.append((names, value, default, meaning))

        parts.append(f"## {title}\n\n" + table(OPTIONS_HEAD, rows))

    return page("Options of a run", *parts)


def _field_default(field: dataclasses.Field[Any]) -> str:
    missing = dataclasses.MISSING
    if field.default is missing and field.default_factory is missing:
        return "required"

    return "" if field.default is missing else value_text(field.default)


# ---- what plugins offer


def hooks_page() -> str:
    """Return the page of hooks."""
    hooks = [(code(f"ktdeval_{name}"), text) for name, text in hookspecs.HOOKS.items()]
    hooks.append((code("ktdeval_event"), hookspecs.ktdeval_event.__doc__ or ""))
    fields = [(code(field.name), _attribute(field.name)) for field in dataclasses.fields(Spec)]

    return page(
        "Hooks",
        "A plugin is a module that an entry point of the group `ktdeval` names. It implements"
        " hooks, each marked with `@hookimpl`. [Plugins](../plugins.md) has"
        " code for them.",
        "## Hooks of a plugin\n\n" + table(("hook", "offers"), hooks),
        "## Spec\n\nEvery hook but `ktdeval_event` returns a list of `Spec`:\n\n"
        + table(("field", "meaning"), [row for row in fields if row[1]]),
        "## Traits\n\nProperties that a task, a model or an agent declares in its `traits`, a record"
        " with defaults:\n\n" + traits_table(),
    )


def _attribute(name: str) -> str:
    """Return what the docstring of `Spec` says of a field."""
    documented = (Spec.__doc__ or "").partition("Attributes:")[2]
    lines = [line.strip() for line in documented.splitlines()]
    text: list[str] = []
    is_reading = False

    for line in lines:
        head, _, rest = line.partition(": ")
        if head.isidentifier() and rest:
            is_reading = head == name
            line = rest

        if is_reading:
            text.append(line)

    return " ".join(text).strip()


def config_page() -> str:
    """Return the page of the configs of tasks."""
    parts = [
        "A variant of a task is a mapping in YAML. Its fields are those of one class, and of the"
        " classes that this one extends. `ktdeval list tasks NAME` prints a variant with every"
        " field resolved.",
    ]

    for title, place in CONFIGS.items():
        module, _, name = place.partition(":")
        config = getattr(import_module(module), name)
        inherited = {each.name for each in chain.from_iterable(map(_fields, config.__mro__[1:]))}
        own = [field for field in dataclasses.fields(config) if field.name not in inherited]
        bases = [code(base.__name__) for base in config.__mro__[1:] if _fields(base)]
        extends = f", which extends {bases[0]}" if bases else ""
        parts.append(f"## {title}\n\nClass `{name}`{extends}.\n\n{fields_table(own)}")

    return page("Config of tasks", *parts)


def _fields(cls: type) -> Sequence[dataclasses.Field[Any]]:
    return dataclasses.fields(cls) if dataclasses.is_dataclass(cls) else ()


def names_page(plugins: Plugins) -> str:
    """Return the page of all names that plugins offer, by kind."""
    parts = [
        "What the installed plugins offer, by kind. `ktdeval list KIND` says what each is, and"
        " `ktdeval list KIND NAME` explains its parameters, or the formula, range and source of a metric.",
    ]
    for kind in KINDS:
        names = ", ".join(map(code, plugins.specs(kind)))
        parts.append(f"## {kind.capitalize()}\n\n{names}")

    return page("Names: tasks, models, agents, metrics, data", *parts)


# ---- cards


def card_words_page() -> str:
    """Return the page of the words of a card."""
    words = read_words()
    kinds = card_fields()
    parts = [
        "Words that commands and pages print for the fields of a card. [Cards](../cards.md) has"
        " what `verify` proves, and what keeps a card from a rank. A field without a kind of cards is part of another field.",
    ]
    rows: list[tuple[str, ...]] = []
    for path, each in words.fields.items():
        own = kinds.get(path, [])
        cards = "both" if len(own) > 1 else ", ".join(own)
        rows.append((code(path), cards, each.label, each.unit, meaning(each)))
    header = ("field", "cards", "printed as", "unit", "meaning")
    parts.append("## Fields\n\n" + table(header, rows))

    for title, group in (
        ("Labels", words.labels),
        ("Decided by", words.provenance),
        ("Failures", words.failures),
    ):
        rows = [(code(name), each.label, meaning(each)) for name, each in group.items()]
        parts.append(f"## {title}\n\n" + table(("name", "printed as", "meaning"), rows))

    units = [
        (name, each.shown or "as it is", str(each.decimals), f"{each.factor:g}")
        for name, each in words.units.items()
    ]
    parts.append("## Units\n\n" + table(("unit", "shown as", "decimals", "times"), units))

    return page("Words of a card", *parts)


# ---- exit codes


def exit_codes_page() -> str:
    """Return the page of exit codes: those of errors come from their classes."""
    return page(
        "Exit codes",
        "An expected error is one line on stderr, and the code says of which kind it is.",
        exit_codes_table(),
        "## Errors by class\n\n" + errors_table(),
    )


def exit_codes_table() -> str:
    """Return the table of exit codes."""
    failed = [_class_text(each) for each in error_classes() if each.exit_code == 1]
    rows = [
        ("0", "The command did what it was asked for."),
        (
            "1",
            "The command ran, and what it looked at is not right: "
            + " ".join(failed)
            + " Checks of data, of a cache or of a board that find an error also end so.",
        ),
        ("2", "The command could not run: an option, a name, a file or a plugin is unusable."),
        ("3", _class_text(errors.BudgetError)),
        ("130", "Interrupted (Ctrl-C). A run resumes when the same command is given again."),
    ]

    return table(("code", "meaning"), rows)


def error_classes() -> list[type[errors.KtdevalError]]:
    """Return the classes of expected errors of the suite, as they are defined."""
    return [
        each
        for each in vars(errors).values()
        if isinstance(each, type)
        and issubclass(each, errors.KtdevalError)
        and each is not errors.KtdevalError
    ]


def errors_table() -> str:
    """Return the table of the classes of errors with their exit codes."""
    rows = [
        (code(each.__name__), str(each.exit_code), _class_text(each)) for each in error_classes()
    ]
    return table(("class of `ktdeval.errors`", "exit code", "raised when"), rows)


def _class_text(cls: type) -> str:
    text = (cls.__doc__ or "").partition("Example:")[0]
    return plain_text(" ".join(text.split()))
