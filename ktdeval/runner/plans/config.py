"""Options of a run, each defined once in `RunConfig`. The command line, YAML files and the card's
`config` are derived from it.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal, get_origin, get_type_hints

from ktdeval.errors import ConfigError, UsageError
from ktdeval.hookspecs import COMPACT
from ktdeval.registry.task_settings import EXECUTIONS
from ktdeval.values.documents.yamlio import load_yaml
from ktdeval.values.options.config_options import (
    build,
    check_plain,
    option,
    parse_assignments,
    split_list,
)
from ktdeval.values.requests.secret_free_addresses import Address, Parameters, faults_in

if TYPE_CHECKING:
    from pathlib import Path

    from ktdeval.values.documents.strict_json import JsonValue


@dataclass(frozen=True)
class RunConfig:
    """Options of `ktdeval run`. Field names are option names, with dashes for underscores."""

    model: str = option(
        help="model to evaluate, PROVIDER/NAME or PROVIDER/NAME(option=value,…) (see `ktdeval list"
        " models`)"
    )
    tasks: tuple[str, ...] = option(help="tasks, groups or globs (see `ktdeval list tasks`)")
    agent: str = option("react", help="agent scaffold around the model (see `ktdeval list agents`)")
    model_args: Parameters = option(factory=dict, help="parameters of the model")
    agent_args: Parameters = option(factory=dict, help="parameters of the agent")
    data: Address = option(
        "synthetic", help="snapshot folder, or data provider (see `ktdeval data`)"
    )
    data_args: Parameters = option(factory=dict, help="parameters of the data provider")
    windows: tuple[str, ...] = option(
        (), help="window names, globs, or FIRST:LAST days; default: the task's own"
    )
    seeds: int = option(
        1, help="number of seeds: episodes of each window", minimum=1, maximum=10_000
    )
    seed: int = option(0, help="first seed", minimum=0, maximum=2**62)
    mask_key: str | None = option(
        None,
        help=(
            "mask key of a recorded run (32 hexadecimal digits), to show the market under the same"
            " handles; default: a new key"
        ),
    )
    registration: str | None = option(
        None,
        help=(
            "registration of this run with a leaderboard that has drawn its mask key (the board's"
            " keys/ID.json); sets all options that it fixes"
        ),
    )
    items: Address | None = option(
        None,
        help=(
            "samples that replace a scoring task's own: hf:ORG/NAME, a folder, or a .parquet or"
            " JSON lines file"
        ),
    )
    limit: int | None = option(
        None, help="stop each episode after this many steps; the card says so", minimum=1
    )
    knowledge_cutoff: str | None = option(
        None,
        help=(
            "end of the model's training data: a day, a month (2024-06), none (not trained on"
            " data), unknown; default: as listed"
        ),
    )
    metrics: tuple[str, ...] = option(
        (), help="metrics in addition to the task's own (see `ktdeval list metrics`)"
    )
    set: Parameters = option(
        factory=dict,
        help=(
            "prompt=compact: fewer tokens (fewer assets and bars, three digits), each task as"
            " TASK_compact; execution=spread or sqrt: fills pay the spread, and impact by size, each"
            " task as TASK_spread or TASK_sqrt (docs/trading.md)"
        ),
    )
    rules: Literal["strict", "paper"] = option(
        "strict", help="rule set to use if a paper's rule and the correct rule differ"
    )
    temperature: float | None = option(
        0.7,
        help=(
            "sampling temperature; a default is not sent for an agent's own program, nor to a model"
            " that takes none"
        ),
        minimum=0,
        maximum=10,
    )
    max_output_tokens: int | None = option(
        4096,
        help="maximum tokens in a reply; a default is not sent for an agent's own program",
        minimum=1,
    )
    reasoning_effort: Literal["none", "minimal", "low", "medium", "high", "xhigh"] | None = option(
        None, help="reasoning effort of a reasoning model; default: the provider's"
    )
    reasoning_tokens: int | None = option(
        None,
        help="maximum reasoning tokens in a reply, if the provider supports such a limit",
        minimum=0,
    )
    tool_protocol: Literal["auto", "native", "native_required", "json_schema", "text"] = option(
        "auto",
        help="how tools are offered to the model; auto: the best protocol that works in a short"
        " check",
    )
    base_url: Address | None = option(
        None, help="address of the model's server, such as http://localhost:8000/v1"
    )
    timeout_s: float = option(
        120.0,
        help=(
            "maximum wait between two parts of a reply, in seconds; may differ when a run is"
            " resumed"
        ),
        minimum=0.001,
        maximum=1_000_000,
    )
    first_timeout_s: float | None = option(
        None,
        help=(
            "maximum wait for the first part of a reply, or for one that comes whole; default:"
            " five times --timeout-s"
        ),
        minimum=0.001,
        maximum=1_000_000,
    )
    max_retries: int = option(
        12,
        help="retries of a call that fails temporarily (network, overload, rate limit)",
        minimum=0,
    )
    max_wait_s: float = option(
        3600.0, help="maximum total wait between the attempts of one call, in seconds", minimum=0
    )
    max_failures: int = option(
        3,
        help=(
            "stop after this many consecutive calls that the provider refuses or answers"
            " unreadably; until then, their steps are holds. An outage stops the run at once,"
            " before a step is recorded; both can be resumed"
        ),
        minimum=1,
    )
    call_gap_s: float = option(
        0.0, help="minimum time between two calls to the provider, in seconds", minimum=0
    )
    max_cost: float | None = option(
        None, help="stop before this many US dollars are spent; the run can be resumed", minimum=0
    )
    max_tokens: int | None = option(
        None,
        help="stop before this many input and output tokens are used; the run can be resumed",
        minimum=1,
    )
    max_hours: float | None = option(
        None, help="stop after this many hours; the run can be resumed", minimum=0
    )
    context_tokens: int | None = option(
        None,
        help=(
            "the model's context length, for prompt and reply together; longer prompts are not"
            " sent; default: as its server reports"
        ),
        minimum=1,
    )
    price: Parameters = option(
        factory=dict,
        help="US dollars per million tokens: input=2,output=8,cache_read=0.5,cache_write=2.5",
    )
    price_table: str | None = option(
        None, help="YAML file of prices; default: the dated table of the model's plugin"
    )
    batch: bool = option(
        False,
        help=(
            "ask in batches of the provider, at half price, each within 24 hours: all samples of"
            " a scoring task at once, or the calls that all trading episodes make at one time"
        ),
    )
    cache: Address = option(
        "shared",
        help=(
            "where replies are cached: for all runs of this user (shared), only in this run's"
            " folder (run), or in a file"
        ),
    )
    canary: int = option(
        6,
        help="number of fixed questions asked at start and end to detect a change of the model; 0:"
        " none",
        minimum=0,
    )
    certificate: str | None = option(
        None,
        help="certificate of the mask (see `ktdeval certify`), to attach to the cards that"
        " it covers",
    )
    anchor: str | None = option(
        None,
        help=(
            "keep a chain of hashes of all that is recorded, whose head a time-stamping authority"
            " stamps: a YAML file with its url and certificate; board: no stamps, for `ktdeval"
            " leaderboard anchor`"
        ),
    )
    runner: str = option("local", help="execution backend (see `ktdeval list runners`)")
    concurrency: int = option(1, help="episodes run at once", minimum=1, maximum=10_000)
    dry_run: bool = option(
        False,
        help="print the calls, cost and time that the run would need, like `ktdeval plan`, and"
        " stop",
    )
    out: Address | None = option(
        None,
        help="folder of the run, or a URL (s3://BUCKET/x); default: a new folder in ktdeval-runs",
    )
    extend: bool = option(
        False, help="add tasks to the run in --out; without this option, its tasks must be the same"
    )
    plugin: tuple[str, ...] = option((), help="additional plugin: a module or a path to one")
    quiet: bool = option(False, help="no progress bar")

    def __post_init__(self) -> None:
        for name, value in vars(self).items():
            if isinstance(value, str) and (not value or "\0" in value):
                raise ConfigError(
                    f"--{name.replace('_', '-')}: expected text, was {value[:40]!r}; omit the"
                    " option for its default"
                )

            if name in _RECORDED:
                check_plain(value, f"--{name.replace('_', '-')}")

        for path, problem in faults_in(self):
            raise ConfigError(f"--{path.lstrip('.').replace('_', '-')}: expected {problem}")

        self._take_parameters("model")
        self._take_parameters("agent")
        self._choose_settings()
        if self.mask_key is not None and not re.fullmatch("[0-9a-f]{32}", self.mask_key):
            raise ConfigError(
                "--mask-key: expected 32 hexadecimal digits (0-9, a-f) as a card has them, was"
                f" {self.mask_key[:40]!r}"
            )

    def _take_parameters(self, kind: Literal["model", "agent"]) -> None:
        """Split `NAME(option=value,…)`, as boards and grids write a model or an agent, into name and
        parameters. Other parentheses are part of the name.
        """
        text = str(getattr(self, kind))
        if "=" not in text.partition("(")[2]:
            return

        name, args = split_model(text)
        given = getattr(self, f"{kind}_args")
        for key, value in args.items():
            if given.get(key, value) != value:
                raise ConfigError(
                    f"--{kind} {text}: {key} is {value!r} here, and {given[key]!r} in"
                    f" --{kind}-args; give one of them"
                )

        object.__setattr__(self, kind, name)
        object.__setattr__(self, f"{kind}_args", {**given, **args})

    def _choose_settings(self) -> None:
        """Replace each task with the variant that `set` selects; records treat variants as separate
        tasks.
        """
        for name, value in self.set.items():
            # The value `none` is parsed as null.
            word = "none" if value is None else value
            if word not in _SETTINGS.get(name, ()):
                taken = "; ".join(
                    f"{known}={' or '.join(values)}" for known, values in _SETTINGS.items()
                )
                raise ConfigError(f"--set {name}={word!s:.40}: tasks take {taken}")

        execution = self.set.get("execution")
        is_compact = self.set.get("prompt") == "compact"
        tasks = []
        for task in self.tasks:
            plain = task.removesuffix(COMPACT)
            behind = COMPACT if is_compact or plain != task else ""
            for suffix, preset in EXECUTIONS.items():
                if preset == execution:
                    plain = f"{plain.removesuffix(suffix)}{suffix}"

            tasks.append(f"{plain}{behind}")

        object.__setattr__(self, "tasks", tuple(tasks))
        object.__setattr__(self, "set", {})


def split_model(text: str) -> tuple[str, dict[str, JsonValue]]:
    """Return the name and parameters of `PROVIDER/NAME(option=value,…)`. Raises UsageError if a
    parameter has no value.
    """
    name, parenthesis, rest = text.partition("(")
    if not parenthesis or not rest.endswith(")"):
        return text, {}
    return name, parse_assignments([rest[:-1]], text)


#: values of `--set` by name
_SETTINGS: Mapping[str, tuple[str, ...]] = {
    "prompt": ("full", "compact"),
    "execution": ("none", *EXECUTIONS.values()),
}
#: options that are recorded exactly as given
_RECORDED = frozenset({"model", "model_args", "agent_args", "data", "data_args"})

_STAND_INS: Mapping[str, Any] = {"model": "builtin/momentum", "tasks": ("blinded_open_research",)}
"""Values for fields without a default, used as examples in messages and as placeholders while a
file is checked by itself.
"""


def load_config(path: Path | str | None, overrides: Mapping[str, Any]) -> RunConfig:
    """Return a run's config, read from a YAML file of `RunConfig` fields and overridden by the
    command line.

    In `overrides`, None means that an option was not given. Mappings such as `model_args` are
    merged with the mappings in the file, key by key; any other value replaces the value in the
    file. Raises UsageError if no model or no task is named. Raises ConfigError if the file is
    unreadable or not YAML, or if a field is unknown, ill-typed or out of range.
    """
    values: dict[str, Any] = {}
    if path is not None:
        # As on the command line, `tasks: a,b` and `tasks: a` are read as lists.
        lists = {name for name, hint in get_type_hints(RunConfig).items() if is_list(hint)}
        for name, value in load_yaml(path).items():
            values[name] = (
                names_in([value], f"{path}: {name}")
                if name in lists and isinstance(value, str)
                else value
            )

        # checked here so that an error names the file
        build(RunConfig, {**_STAND_INS, **values}, str(path))

    for name, value in overrides.items():
        if value is None:
            continue

        below = values.get(name)
        values[name] = (
            {**below, **value}
            if isinstance(below, Mapping) and isinstance(value, Mapping)
            else value
        )

    if values.get("registration"):
        values = _with_registered(values)

    for name, example in _STAND_INS.items():
        if not values.get(name):
            text = example if isinstance(example, str) else example[0]
            one = name.removesuffix("s")
            raise UsageError(
                f"no {one} given; choose one with --{name} {text} (see `ktdeval list {one}s`)"
            )

    return build(RunConfig, values, "options")


def _with_registered(values: Mapping[str, Any]) -> dict[str, Any]:
    """Return the options together with those that a registration fixes.

    An explicit option that contradicts the registration is kept here and rejected when the run is
    planned.
    """
    from ktdeval.runner.records.leaderboard_registration import (  # noqa: PLC0415 - imports msgspec, which `--help` does not need
        load_drawn_key,
        registered_options,
    )

    fixed = registered_options(load_drawn_key(str(values["registration"])))
    return {**fixed, **{name: value for name, value in values.items() if value not in ((), {})}}


def names_in(texts: Sequence[str], where: str) -> tuple[str, ...]:
    """Return the names in comma-separated strings.

    Raises ConfigError if all strings are empty, for example because a shell variable is not set.
    """
    names = split_list(*texts)
    if not names:
        raise ConfigError(
            f"{where}: expected one or more names, was {','.join(texts)!r}; give some, or omit the"
            " option"
        )
    return names


def is_list(hint: Any) -> bool:
    """Return whether an option of this type may be repeated or given as a comma-separated list."""
    return get_origin(hint) is tuple
