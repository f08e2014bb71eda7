"""Systems: cards are grouped not by name but by model, agent, the parameters of both, and the call
settings.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from fnmatch import fnmatchcase
from typing import Any

from ktdeval.cards.fields.episodes import plan_of
from ktdeval.cards.fields.origin.recorded_facts import Evaluation
from ktdeval.errors import UsageError
from ktdeval.harness.call_params import without_transport
from ktdeval.task_api.episode_spec import EpisodeSpec, FurtherModel
from ktdeval.values.documents.strict_json import JsonValue
from ktdeval.values.documents.typed_json import encode_canonical
from ktdeval.values.options.config_options import near_matches

#: Setting names with their values as canonical JSON, sorted by name: a hashable mapping
Settings = tuple[tuple[str, str], ...]

_SENT = "sent."  #: prefix of settings that record how calls were sent to the provider
_LONGEST_VALUE = 40  #: maximum number of characters in a value shown in a label
_MAX_LISTED = 12  #: maximum number of systems listed in a message
_SEPARATORS = {"(": ")", "{": "}"}
#: Text that would be read as a value of another type
_NUMBER = re.compile(r"-?[0-9][0-9.eE+-]*|true|false|null")


@dataclass(frozen=True, slots=True, order=True)
class System:
    """System under evaluation. Two cards belong to the same system if all fields are equal; episode
    seeds are not part of the system.
    """

    model: str  #: name of the model, such as openai/gpt-4.1
    model_args: Settings  #: parameters of the model
    agent: str  #: name of the agent
    agent_args: Settings  #: parameters of the agent
    #: call settings, including settings with the prefix `sent.`, which record how calls were sent
    #: to the provider
    call: Settings
    #: additional models that the agent calls: facts about each model, keyed by the agent's name for
    #: it
    further: Settings = ()

    @classmethod
    def of(cls, card: Evaluation) -> System:
        """Return the system of a card."""
        return cls.of_spec(plan_of(card), card.request_settings)

    @classmethod
    def of_spec(
        cls, spec: EpisodeSpec, request_settings: Mapping[str, JsonValue] | None = None
    ) -> System:
        """Return the system of a planned episode. `request_settings` are the request settings of
        the episode's run.
        """
        asked = without_transport(spec.call)
        call = _settings(asked) + _settings(request_settings or {}, _SENT)
        further = _settings({each.asked_as: _further(each) for each in spec.further_models})
        agent_args = _settings(spec.agent_args)
        return cls(spec.model, _settings(spec.model_args), spec.agent, agent_args, call, further)

    def without_seed(self) -> System:
        """Return the system without the seeds among the model's parameters. Systems that differ
        only in seeds are repeats.
        """
        others = [(name, value) for name, value in self.model_args if not is_seed(name)]
        return replace(self, model_args=tuple(others))

    @property
    def model_name(self) -> str:
        """The model's name and parameters."""
        return _with_args(self.model, self.model_args)

    @property
    def agent_name(self) -> str:
        """The agent's name and parameters."""
        return _with_args(self.agent, self.agent_args)

    @property
    def name(self) -> str:
        """The system without its call settings, as a pattern that matches it:
        `builtin/momentum(positions=3)@react`.
        """
        return f"{self.model_name}@{self.agent_name}"

    @property
    def of_model(self) -> System:
        """The model with its parameters and call settings, regardless of the agent."""
        return replace(self, agent="", agent_args=(), further=())

    def label(self, others: Collection[System]) -> str:
        """Return a label that is unique among the given systems: the model's name, plus everything
        that distinguishes the system from other systems with the same model.
        """
        alike = {other for other in others if other.model == self.model} | {self}
        text = _with_args(self.model, self._distinguishing(alike, "model_args"))
        agent_args = self._distinguishing(alike, "agent_args")

        if agent_args or len({other.agent for other in alike}) > 1:
            text += f"@{_with_args(self.agent, agent_args)}"

        call = self._distinguishing(alike, "call")
        if call:
            text += _brace_call(call)

        return text

    def _distinguishing(self, alike: Collection[System], part: str) -> Settings:
        """Return this system's settings that are not common to all of the given systems."""
        every = [set(getattr(other, part)) for other in alike]
        shared = set.intersection(*every)
        return tuple(each for each in getattr(self, part) if each not in shared)

    def matches(self, pattern: str) -> bool:
        """Return whether the system matches a pattern
        `MODEL(NAME=VALUE,…)@AGENT(NAME=VALUE,…){NAME=VALUE,…}`.

        Every part except the model may be omitted; an omitted part matches anything. Models, agents
        and values are globs. Named parameters must have the given values, whatever the other
        parameters are; `()` matches a model or agent without parameters. Labels are ignored.
        """
        return any(self._fits(reading) for reading in _readings(pattern))

    def _fits(self, reading: _PatternReading) -> bool:
        return (
            fnmatchcase(self.model, reading.model)
            and _have(self.model_args, reading.model_args)
            and (reading.agent is None or fnmatchcase(self.agent, reading.agent))
            and _have(self.agent_args, reading.agent_args)
            and _have(self.call, reading.call)
        )


def is_seed(name: str) -> bool:
    """Return whether a model parameter is a seed."""
    return name == "seed" or name.endswith("_seed")


def system_labels(systems: Iterable[System]) -> dict[System, str]:
    """Return a unique name for each of the given systems.

    The name is the system's label. If several systems have the same label, a digest is appended to
    each of their names.
    """
    every = dict.fromkeys(systems)
    labels = {system: system.label(every) for system in every}
    counts = Counter(labels.values())
    for system, name in labels.items():
        if counts[name] > 1:
            labels[system] = f"{name} #{_short_digest(repr(system))}"

    return labels


def split_patterns(text: str) -> tuple[str, ...]:
    """Split a comma-separated list of patterns. Commas inside parentheses and braces belong to a
    pattern.
    """
    items = [""]
    depth = 0
    for letter in text:
        if letter in _SEPARATORS:
            depth += 1
        elif letter in _SEPARATORS.values():
            depth -= 1

        if letter == "," and depth <= 0:
            items.append("")
        else:
            items[-1] += letter

    stripped = [item.strip() for item in items]
    return tuple(item for item in stripped if item)


def check_match(item: str, systems: Iterable[System], where: str) -> None:
    """Raise UsageError if a pattern matches none of the given systems. The message starts with
    `where` and lists the systems and near matches.
    """
    every = dict.fromkeys(systems)
    if not any(system.matches(item) for system in every):
        raise UsageError(no_match(item, every, where))


def no_match(item: str, systems: Iterable[System], where: str) -> str:
    """Return the message for a pattern that matches none of the given systems."""
    every = dict.fromkeys(systems)
    labels = sorted(system_labels(every).values())
    more = f" and {len(labels) - _MAX_LISTED} more" if len(labels) > _MAX_LISTED else ""
    names = dict.fromkeys([*labels, *(system.model for system in every)])
    there = ", ".join(labels[:_MAX_LISTED]) or "none"

    return (
        f"{where}: {item!r} matches no system here; there are"
        f" {there}{more}{near_matches(item, names)}"
    )


# ---- settings as keys and as text


def _settings(values: Mapping[str, Any], prefix: str = "") -> Settings:
    return tuple(
        sorted((f"{prefix}{name}", encode_canonical(value)) for name, value in values.items())
    )


def _further(model: FurtherModel) -> dict[str, JsonValue]:
    """Return the fields that distinguish an additional model from others."""
    return {
        "name": model.name,
        "args": dict(model.args),
        "tool_protocol": model.tool_protocol,
    }


def _bare(value: str) -> str:
    """Return a JSON value without the quotes if it is a string."""
    decoded = json.loads(value)
    return decoded if isinstance(decoded, str) else value


def _shortened_value(value: str) -> str:
    """Return a value as shown in labels. Strings are shown without quotes, unless they would read
    as a number. A long value is shown as its beginning plus a digest of the whole, so that no two
    values look alike.
    """
    word = _bare(value)
    if word != value and _NUMBER.fullmatch(word):
        word = value

    if len(word) <= _LONGEST_VALUE:
        return word

    return f"{word[: _LONGEST_VALUE - 10]}…{_short_digest(value)}"


def _short_digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()[:6]


def _listed_settings(settings: Settings) -> str:
    return ",".join(f"{name}={_shortened_value(value)}" for name, value in settings)


def _with_args(name: str, args: Settings) -> str:
    return f"{name}({_listed_settings(args)})" if args else name


def _brace_call(call: Settings) -> str:
    return f"{{{_listed_settings(call)}}}"


# ---- patterns


@dataclass(frozen=True, slots=True)
class _PatternReading:
    """One way to read a pattern. None matches anything."""

    model: str
    model_args: Settings | None
    agent: str | None
    agent_args: Settings | None
    call: Settings | None


_ENDING = re.compile(r"(?s)(?P<rest>.*)(?P<open>[({])(?P<inside>[^(){}]*)(?P<close>[)}])\s*")


def _readings(pattern: str) -> Iterator[_PatternReading]:
    """Yield all ways to read a pattern: a model name may itself contain parentheses or an @."""
    yield _PatternReading(pattern.strip(), None, None, None, None)
    rest, call = _take(pattern.strip(), "{")
    at = [index for index, letter in enumerate(rest) if letter == "@"]
    whole, args = _take(rest, "(")
    yield _PatternReading(whole, args, None, None, call)

    for index in at:
        model, model_args = _take(rest[:index], "(")
        agent, agent_args = _take(rest[index + 1 :], "(")
        yield _PatternReading(model, model_args, agent, agent_args, call)


def _take(text: str, opening: str) -> tuple[str, Settings | None]:
    """Split off the list in parentheses or braces at the end of a string. The list is None if it
    is missing.
    """
    found = _ENDING.fullmatch(text)
    if found is None or found["open"] != opening or found["close"] != _SEPARATORS[opening]:
        return text.strip(), None
    pairs = [item.partition("=") for item in found["inside"].split(",") if item.strip()]
    return found["rest"].strip(), tuple((name.strip(), value.strip()) for name, _, value in pairs)


def _have(settings: Settings, wanted: Sequence[tuple[str, str]] | None) -> bool:
    """Return whether settings include all wanted values. An empty list requires empty settings."""
    if wanted is None:
        return True
    if not wanted:
        return not settings

    known = dict(settings)
    return all(name in known and fnmatchcase(_bare(known[name]), value) for name, value in wanted)
