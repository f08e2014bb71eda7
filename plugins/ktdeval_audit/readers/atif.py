"""Trajectories of Harbor in ATIF, the Agent Trajectory Interchange Format, as JSON or JSON lines. A
trajectory with its embedded subagents is a decision.

ATIF 1.0 to 1.8: https://github.com/harbor-framework/harbor (docs/rfcs, src/harbor/models/trajectories).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from ktdeval.values import JsonValue
from ktdeval_audit.log_files import LogRecord, objects_in
from ktdeval_audit.log_types import AgentLog, LoggedDecision, LogText
from ktdeval_audit.readers.messages import flat_fields, message_texts, recorded_fills

name = "atif"
_SOURCES = {"system": "system", "user": "user", "agent": "assistant"}
_Trajectory = Mapping[str, JsonValue]


def recognises(records: Sequence[LogRecord]) -> bool:
    """Whether the first record names a version of ATIF and has steps."""
    first = next(_trajectories(records[:1]), None)
    return first is not None and str(first.get("schema_version", "")).startswith("ATIF-")


def read(records: Sequence[LogRecord], source: str) -> AgentLog:
    """Return each trajectory as a decision."""
    decisions: list[LoggedDecision] = []
    notes: dict[str, None] = {}
    for record in records:
        for trajectory in _trajectories([record]):
            reader = _TrajectoryReader(record.line)
            decision = reader.decision(trajectory, len(decisions))
            notes |= dict.fromkeys(reader.notes)
            if decision.texts:
                decisions.append(decision)

    return AgentLog(kind=name, source=source, decisions=tuple(decisions), notes=tuple(notes))


def _trajectories(records: Sequence[LogRecord]) -> Iterator[_Trajectory]:
    for record in records:
        for item in objects_in(record.value):
            if isinstance(item.get("steps"), list):
                yield item


class _TrajectoryReader:
    """Reads one trajectory with the subagents that it embeds, each where it is first referred to."""

    def __init__(self, line: int | None) -> None:
        self._line = line
        self._models: dict[str, None] = {}
        self._subagents: dict[str, _Trajectory] = {}  # those that are not read yet
        self.notes: list[str] = []

    def decision(self, trajectory: _Trajectory, number: int) -> LoggedDecision:
        texts = list(self._texts(trajectory, ""))
        extra = trajectory.get("extra")
        return LoggedDecision(
            name=_identity(trajectory) or f"trajectory {number}",
            texts=tuple(texts),
            # not those of agents' steps, which hold what tools returned
            fields=flat_fields(extra, "extra."),
            models=tuple(self._models),
            fills=tuple(recorded_fills(extra, "extra", self._line)),
            line=self._line,
        )

    def _texts(self, trajectory: _Trajectory, prefix: str) -> Iterator[LogText]:
        self._note_model(trajectory.get("agent"))
        goes_on = trajectory.get("continued_trajectory_ref")
        if isinstance(goes_on, str):
            self.notes.append(f"A trajectory goes on in {goes_on[:80]!r}, which was not read.")

        embedded = []
        for index, subagent in enumerate(objects_in(trajectory.get("subagent_trajectories"))):
            identity = str(subagent.get("trajectory_id") or f"{prefix}{index}")
            if identity in self._subagents:  # which ATIF forbids
                identity = f"{identity} #{index}"

            embedded.append(identity)
            self._subagents[identity] = subagent

        for index, step in enumerate(objects_in(trajectory.get("steps"))):
            yield from self._step_texts(step, f"{prefix}step {step.get('step_id', index + 1)}")

        for identity in embedded:  # that no step refers to
            yield from self._subagent_texts(identity)

    def _step_texts(self, step: Mapping[str, JsonValue], place: str) -> Iterator[LogText]:
        self._note_model(step)
        source = str(step.get("source"))
        message: dict[str, JsonValue] = {
            "role": _SOURCES.get(source, "user"),
            "content": step.get("message"),
            "reasoning_content": step.get("reasoning_content"),
            "tool_calls": step.get("tool_calls"),
        }
        if source != "agent":
            message["extra"] = step.get("extra")

        yield from message_texts(message, place, self._line)
        observation = step.get("observation")
        if not isinstance(observation, Mapping):
            return

        for result in objects_in(observation.get("results")):
            returned = {"role": "tool", "content": result.get("content")}
            yield from message_texts(returned, f"{place}/observation", self._line)
            for reference in objects_in(result.get("subagent_trajectory_ref")):
                yield from self._referred_texts(reference)

    def _referred_texts(self, reference: Mapping[str, JsonValue]) -> Iterator[LogText]:
        identity = reference.get("trajectory_id") or reference.get("session_id")
        path = reference.get("trajectory_path")
        if str(identity) in self._subagents:
            yield from self._subagent_texts(str(identity))
        elif isinstance(path, str):
            self.notes.append(f"A subagent's trajectory lies in {path[:80]!r}, which was not read.")

    def _subagent_texts(self, identity: str) -> Iterator[LogText]:
        subagent = self._subagents.pop(identity, None)
        if subagent is not None:
            yield from self._texts(subagent, f"subagent {identity[:40]}/")

    def _note_model(self, holder: JsonValue) -> None:
        if isinstance(holder, Mapping) and isinstance(holder.get("model_name"), str):
            self._models[str(holder["model_name"])] = None


def _identity(trajectory: _Trajectory) -> str:
    for key in ("trajectory_id", "session_id"):
        found = trajectory.get(key)
        if isinstance(found, str) and found:
            return found[:80]
    return ""
