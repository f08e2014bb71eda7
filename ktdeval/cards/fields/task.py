"""Task, model and agent of a card, with the settings of model calls."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from ktdeval.cards.fields.basics import Name, Problem, Sha256, strict_json, strict_object
from ktdeval.cards.fields.parts import Pluggable, TaskPart, TradingTaskPart, WindowPart
from ktdeval.cards.fields.words import Words
from ktdeval.cards.table import Row, clean
from ktdeval.errors import CardError
from ktdeval.market.fees import duty_rows
from ktdeval.tasks.spec import EpisodeSpec
from ktdeval.values.jsonio import JsonValue, content_hash
from ktdeval.values.typed import Value, from_plain

#: Field of a scoring task's config that holds the config of its target task
TARGET_CONFIG = "subject_config"


#: Field of a task's config with the SHA-256 of the table of duties (`ktdeval.market.fees`)
DUTIES = "duties"
#: Field of a task's config that says why its cards are never ranked
NEVER_RANKED = "never_ranked"


class TargetTaskPart(Value, frozen=True):
    """Trading task that is asked about; its config stands in that of the task."""

    name: Name
    hash: Sha256  #: SHA-256 of the canonical JSON of its config


# ---- gathered from the plan


def gather_task(spec: EpisodeSpec, config: Mapping[str, JsonValue]) -> TaskPart:
    """Return the task of an episode, with its resolved config."""
    return from_plain(_task_fields(spec, config), TaskPart, "card", CardError)


def gather_trading_task(spec: EpisodeSpec, config: Mapping[str, JsonValue]) -> TradingTaskPart:
    """Return the trading task of an episode, with its resolved config."""
    return from_plain(_task_fields(spec, config), TradingTaskPart, "card", CardError)


def _task_fields(spec: EpisodeSpec, config: Mapping[str, JsonValue]) -> dict[str, JsonValue]:
    return {
        "name": spec.task,
        "version": spec.task_version,
        "mask": spec.mask,
        "mode": spec.mode,
        "hash": spec.task_hash,
        "config": strict_json("task", config),
    }


def gather_model(spec: EpisodeSpec) -> Pluggable:
    """Return the model of an episode, with its parameters."""
    return Pluggable(name=spec.model, args=strict_object("model", spec.model_args))


def gather_agent(spec: EpisodeSpec) -> Pluggable:
    """Return the agent of an episode, with its parameters."""
    return Pluggable(name=spec.agent, args=strict_object("agent", spec.agent_args))


def target_task(config: Mapping[str, Any]) -> TargetTaskPart | None:
    """Return the trading task that a scoring task's config asks about; None without one."""
    target = config.get(TARGET_CONFIG)
    if not isinstance(target, Mapping):
        return None
    return TargetTaskPart(name=str(target.get("name")), hash=content_hash(target))


def never_ranked(config: Mapping[str, Any]) -> str:
    """Return why a task is never ranked, by its config; empty where it may be."""
    reason = config.get(NEVER_RANKED)
    if not reason:
        return ""
    return clean(str(reason))


# ---- checked


def task_problems(
    task: TaskPart, windows: Sequence[WindowPart], config: Mapping[str, JsonValue]
) -> Iterator[Problem]:
    """Yield where a card's task and windows differ from the task's config. A field that the config
    lacks is not compared. A window that the config does not name must be named by its days,
    `FIRST:LAST`.
    """
    for name in ("name", "version", "mask", "mode"):
        recorded = getattr(task, name)
        if name in config and (config[name] or None) != recorded:
            yield (
                ("task", name),
                f"is {str(recorded)[:60]!r}, the task's config says {str(config[name])[:60]!r}",
            )

    dates = config.get("windows")
    if not isinstance(dates, Mapping):
        return

    for index, window in enumerate(windows):
        configured = _configured_days(window.name, dates)
        for name in ("first", "last"):
            day = configured.get(name)
            if getattr(window, name) != day:
                says = "has no such day" if day is None else f"says {str(day)[:20]}"
                yield (
                    ("windows", index, name),
                    f"is {getattr(window, name)}, window {window.name[:60]!r} of the task's config"
                    f" {says}",
                )


def _configured_days(window: str, dates: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return the first and last day that a config gives a window, or that its name gives."""
    if window not in dates:
        return dict(zip(("first", "last"), window.split(":"), strict=False))

    days = dates[window]
    return days if isinstance(days, Mapping) else {}


# ---- words


def task_row(task: TaskPart) -> Row:
    """Return the row that names the task, its version, mask and mode."""
    words = f"{task.name}, version {task.version}"
    variant = ", ".join(filter(None, (task.mask, task.mode)))
    if variant:
        words += f" ({variant})"

    return WORDS["task"].label, words


def left_out_rows(task: TaskPart) -> Iterator[Row]:
    """Yield the row that says what a compact prompt left out; none for a full one."""
    left_out = task.config.get("left_out")
    if isinstance(left_out, list) and left_out:
        yield "left out", clean(", ".join(map(str, left_out)))


def costs_row(task: TaskPart, venues: Sequence[str]) -> Row:
    """Return the row that says which costs fills had at the venues of the market: `flat` ones, the
    same on all days, or `dated` ones, with the duties of each day.
    """
    trading = task.config.get("trading")
    is_paper = isinstance(trading, Mapping) and trading.get("board_rules") == "paper"
    own_rules = task.config.get("venue_rules")
    if isinstance(own_rules, Mapping):
        venues = [str(own_rules.get("name"))]

    named = []
    for venue in venues:
        words = "flat"
        if venue == "a_share" and is_paper:
            words = "flat (paper)"
        elif venue in duty_rows() and DUTIES in task.config:
            words = f"dated (duties {str(task.config[DUTIES])[:12]})"

        named.append(f"{venue} {words}")

    return "trading costs", clean(", ".join(named))


def target_rows(target: TargetTaskPart | None) -> Iterator[Row]:
    """Yield the row of the task that a scoring task asks about."""
    if target is not None:
        yield WORDS["subject"].label, f"{target.name} ({target.hash[:12]})"


def system_rows(model: Pluggable, agent: Pluggable) -> Iterator[Row]:
    """Yield model and agent with their arguments."""
    yield WORDS["model"].label, with_args(model)
    yield WORDS["agent"].label, with_args(agent)


def with_args(entry: Pluggable) -> str:
    """Return the name of a model or agent with its arguments."""
    args = ", ".join(f"{name}={value}" for name, value in sorted(entry.args.items()))
    return f"{entry.name} ({args})" if args else entry.name


def call_rows(call: Mapping[str, Any], settings: Mapping[str, Any] | None) -> Iterator[Row]:
    """Yield the parameters of model calls, and those that the provider does not take."""
    yield WORDS["call"].label, ", ".join(f"{name} {value}" for name, value in sorted(call.items()))

    unsent: list[str] = []
    for field in ("not_sent", "omit"):
        names = (settings or {}).get(field) or ()
        unsent += [clean(str(name)) for name in names]

    if unsent:
        yield "not sent", f"{', '.join(unsent)}: the provider does not take it"


WORDS = {
    "task": Words(
        "task",
        "",
        "name, version, mask, mode, and the resolved config with its SHA-256; prompts enter by"
        " their hashes",
    ),
    "subject": Words(
        "subject",
        "",
        "name and hash of the trading task that a scoring task asks about; its whole config is in"
        " `task.config.subject_config`; null without one",
    ),
    "model": Words("model", "", "name and parameters"),
    "agent": Words("agent", "", "name and parameters"),
    "call": Words(
        "calls",
        "",
        "sampling and transport parameters of model calls; for a model with a provider also how"
        " tools were offered (`tool_protocol`)",
    ),
    "sent_as": Words(
        "sent as",
        "",
        "differences of a provider's calls from `call`: fields that are not sent, how a tool is"
        " forced; null for a model of this machine",
    ),
}
