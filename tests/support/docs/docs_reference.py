"""Pages under docs/reference, generated from what the code knows."""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Sequence
from importlib import import_module
from itertools import chain
from typing import Any, NamedTuple

import click

from docs_cards import card_fields, meaning
from docs_commands import all_commands
from docs_markdown import (
    FIELDS_HEAD,
    code,
    fields_rows,
    fields_table,
    new_rows,
    page,
    plain_text,
    table,
    value_text,
)
from docs_tables import moved_commands, paper_tables, traits_table
from ktdeval import errors, hookspecs
from ktdeval.cards.fields.words import read_words
from ktdeval.cli.data_make import ProviderCommand
from ktdeval.cli.options import RunOptionsCommand, group_options, run_options
from ktdeval.cli.terminal_tables import params_of
from ktdeval.hookspecs import Spec
from ktdeval.registry import Plugins
from ktdeval.runner import RunConfig
from ktdeval_board.checking.rules import rules_table

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
    "harness": "ktdeval.harness:HarnessConfig",
    "trading": "ktdeval.trading:TradingConfig",
}

#: Head of a table of options
OPTIONS_HEAD = ("option", "value", "default", "meaning")
#: Provider of `ktdeval data make` whose options others share
OF_OTHERS = "long"
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


def reference_pages(plugins: Plugins) -> dict[str, str]:
    """Return the generated pages by their name under docs/reference."""
    return {
        "commands.md": commands_page(),
        "options.md": options_page(),
        "hooks.md": hooks_page(),
        "config.md": config_page(),
        "names.md": names_page(plugins),
        "metrics.md": metrics_page(plugins),
        "card-words.md": card_words_page(),
        "exit-codes.md": exit_codes_page(),
        "paper-tables.md": paper_tables_page(),
        "board-rules.md": board_rules_page(),
    }


# ---- commands


def commands_page() -> str:
    """Return the page of all commands."""
    parts = [
        "Each command with its arguments and options, as `--help` of the installed version has"
        " them. The options of a run are on a page of their own: [options](options.md).",
        "[Exit codes](exit-codes.md) say how a command ended.",
    ]
    commands = list(all_commands())
    places: dict[tuple[str, ...], str] = {}
    for path, command in commands:
        if command.name == OF_OTHERS and isinstance(command, ProviderCommand):
            places = dict.fromkeys(option_rows(click.Command(path, params=command.own)), path)
    parts += [command_part(path, command, places) for path, command in commands]
    parts.append(
        "## Commands that moved\n\nAn old word works for one release, and one line on stderr says where it"
        " moved."
    )
    parts += [moved_commands(), MOVED_OPTIONS]

    return page("Commands", *parts)


def command_part(path: str, command: click.Command, places: dict[tuple[str, ...], str]) -> str:
    """Return the section of one command. `places`: the command that shows each option of data."""
    depth = "#" * min(2 + path.count(" ") - 1, 4)
    usage = " ".join([path, *_usage(command)])

    if command.name == "run":
        options = "All [options of a run](options.md)."
    elif isinstance(command, ProviderCommand):
        own = click.Command(path, params=command.own)
        rows, others = new_rows(option_rows(own), places, path)
        further = f"{others} Further options are those of `ktdeval data make`.".strip()
        options = f"{table(OPTIONS_HEAD, rows)}\n\n{further}".strip()
    elif isinstance(command, RunOptionsCommand):
        options = f"{options_table(command)}\n\n{_run_options_part(command)}"
    else:
        options = options_table(command)

    return "\n\n".join(
        each
        for each in (
            f"{depth} {path}",
            help_text(command),
            f"```text\n{usage}\n```",
            options,
            f"```text\n{command.epilog}\n```" if command.epilog else "",
        )
        if each
    )


def _run_options_part(command: RunOptionsCommand) -> str:
    """Return which options of a run a command takes besides its own."""
    if not command.run_names:
        return "Besides these, all [options of a run](options.md)."

    names = ", ".join(code(f"--{name.replace('_', '-')}") for name in command.run_names)

    return f"Besides these, of the [options of a run](options.md): {names}."


def help_text(command: click.Command) -> str:
    """Return a command's help as paragraphs; what is not to be wrapped stays as it is."""
    paragraphs = []
    for paragraph in (command.help or "").partition("\f")[0].split("\n\n"):
        lines = paragraph.strip("\n").splitlines()
        if lines and lines[0].strip() == "\b":
            block = "\n".join(line.rstrip() for line in lines[1:])
            paragraphs.append(f"```text\n{block}\n```")
        elif lines:
            paragraphs.append(plain_text(" ".join(line.strip() for line in lines)))

    return "\n\n".join(paragraphs)


def _usage(command: click.Command) -> list[str]:
    arguments = [each for each in command.params if isinstance(each, click.Argument)]
    context = click.Context(command)
    words = ["[OPTIONS]", *(each.make_metavar(context) for each in arguments)]

    if isinstance(command, click.Group):
        words.append(command.subcommand_metavar)

    return words


def options_table(command: click.Command) -> str:
    """Return the table of a command's options."""
    return table(OPTIONS_HEAD, option_rows(command))


def option_rows(command: click.Command) -> list[tuple[str, ...]]:
    """Return the rows of a command's options."""
    return [
        option_row(command, each)
        for each in command.params
        if isinstance(each, click.Option) and not each.hidden
    ]


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
        " classes that this one extends. `ktdeval tasks show NAME` prints a variant with every"
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


class Offer(NamedTuple):
    """One name that a plugin offers."""

    name: str
    plugin: str
    summary: str
    #: fields of its parameters; empty if an earlier name of the kind has the same ones
    params: tuple[dataclasses.Field[Any], ...]
    sharing: tuple[str, ...]  #: names of the kind with the same parameters, this one included


def offers_of(plugins: Plugins, kind: str) -> list[Offer]:
    """Return all names of a kind, in the order of its listing."""
    specs = plugins.specs(kind)
    sharing: dict[type, list[str]] = {}

    for name, spec in specs.items():
        if spec.params is not None:
            sharing.setdefault(spec.params, []).append(name)

    offers = []
    for name, spec in specs.items():
        names = sharing.get(spec.params, []) if spec.params is not None else []
        is_first = bool(names) and names[0] == name
        params = tuple(params_of(spec)) if is_first else ()
        owner = plugins.owner(kind, name)
        offers.append(Offer(name, owner, spec.summary, params, tuple(names)))

    return offers


def names_page(plugins: Plugins) -> str:
    """Return the page of all names that plugins offer, with their parameters."""
    parts = [
        "What the installed plugins offer, by kind. The same lists come from `ktdeval list KIND`;"
        " `ktdeval list KIND NAME` explains one's parameters. Parameters of data that"
        " `ktdeval data make` makes are its options: [commands](commands.md).",
    ]
    made = {command.name for _, command in all_commands() if isinstance(command, ProviderCommand)}

    for kind in ("tasks", "models", "agents", "data", "venues", "runners", "tools", "cards"):
        rows = []
        parameters = []
        places: dict[tuple[str, ...], str] = {}
        for offer in offers_of(plugins, kind):
            rows.append((code(offer.name), offer.plugin, plain_text(offer.summary)))
            is_command = kind == "data" and offer.name in made
            if offer.params and not is_command:
                parameters.append(_parameters_part(offer, places))

        part = f"## {kind.capitalize()}\n\n" + table(("name", "plugin", "summary"), rows)
        parts += [part, *parameters]

    return page("Names: tasks, models, agents, data", *parts)


def _parameters_part(offer: Offer, places: dict[tuple[str, ...], str]) -> str:
    names = ", ".join(code(name) for name in offer.sharing)
    rows, others = new_rows(fields_rows(offer.params), places, offer.sharing[0])
    parts = [f"### Parameters of {names}", table(FIELDS_HEAD, rows), others]
    return "\n\n".join(filter(None, parts))


def metrics_page(plugins: Plugins) -> str:
    """Return the page of metrics: formulas with their ids."""
    rows = []
    for name in plugins.specs("metrics"):
        metric = plugins.make_metric(name)
        low, high = metric.range
        lowest = "" if low is None else f"{low:g}"
        highest = "" if high is None else f"{high:g}"
        limits = f"{lowest} … {highest}" if lowest or highest else "any"
        formula_id, _, formula = metric.formula.partition(": ")
        rows.append(
            (
                code(name),
                code(formula_id),
                plain_text(formula),
                metric.unit,
                limits,
                metric.better or "–",
                plain_text(metric.source),
            )
        )

    header = ("metric", "formula id", "formula", "unit", "range", "better", "source")

    return page(
        "Metrics",
        "All installed metrics. The formula id is on every card next to the figure: a rule that"
        " changes gets another number. [Metrics](../metrics.md) explains the panel and its rule"
        " sets, and says when a figure is not defined.",
        table(header, rows),
    )


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


# ---- rules of a board's check


def board_rules_page() -> str:
    """Return the page of the rules that a board's check refuses by."""
    return page(
        "Rules of a board's check",
        "`ktdeval leaderboard check` refuses a submission that breaks one of these rules, and names the"
        " file, what is wrong, the fix and the rule. [Leaderboards](../leaderboard.md) explains how to"
        " submit, and why a card that was accepted may have no rank.",
        rules_table(),
    )


# ---- exit codes


def paper_tables_page() -> str:
    """Return the page of the tables that `ktdeval paper table --like` prints."""
    return page(
        "Tables of the papers",
        "`ktdeval paper table CARD… --like NAME` prints cards in the columns of a paper's table"
        " ([how](../comparison.md#tables-of-the-papers)).",
        paper_tables(),
    )


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
