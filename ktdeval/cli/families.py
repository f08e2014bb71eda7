"""Families of tasks and models, for `ktdeval list tasks` and `ktdeval list models`."""

from __future__ import annotations

import textwrap
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from ktdeval.hookspecs import COMPACT, Spec

WIDTH = 100  #: maximum line width in columns, unless the terminal is narrower
_GAP = "  "

MASK_SUFFIXES = {
    "_bright": "real names and days",
    "_stock_blind": "hidden names, real days",
    "_date_blind": "real names, hidden days",
    "_blinded": "hidden names and days",
    "_rebased": "prices rebased to 100",
}
"""Suffixes of task names that say what the mask hides. Without a suffix, names and days are
hidden.
"""

_OF_ALL = {**MASK_SUFFIXES, COMPACT: "any task in fewer tokens"}


@dataclass(frozen=True)
class TaskFamily:
    """Related tasks, which are one line of a listing."""

    name: str  #: name with which `--tasks` selects all of them
    summary: str
    specs: tuple[Spec, ...]
    #: tasks in each narrower group, which `--tasks` also accepts
    groups: Mapping[str, tuple[Spec, ...]]


def family_of(spec: Spec) -> str:
    """Return the family of a task: its first group, which is the `family` in a task file. A task
    without groups is its own family.
    """
    return next(iter(spec.groups), spec.name)


def families(specs: Iterable[Spec]) -> list[TaskFamily]:
    """Return the families of tasks, sorted by name. Each task belongs to exactly one family."""
    by_name: dict[str, list[Spec]] = {}
    for spec in specs:
        by_name.setdefault(family_of(spec), []).append(spec)

    found = []
    for name in sorted(by_name):
        own = by_name[name]
        groups: dict[str, list[Spec]] = {}
        for spec in own:
            for group in spec.groups[1:]:
                groups.setdefault(group, []).append(spec)

        narrower = {group: tuple(groups[group]) for group in sorted(groups)}
        found.append(TaskFamily(name, _family_summary(own), tuple(own), narrower))

    return found


def _family_summary(specs: Sequence[Spec]) -> str:
    """Return the summary of a family from its task file or, failing that, the summary of its first
    task.
    """
    for spec in specs:
        lineage = spec.extra.get("lineage", ())
        if lineage and lineage[-1].family_summary:
            return str(lineage[-1].family_summary)

    return specs[0].summary


def suffixes_of(specs: Iterable[Spec]) -> dict[str, str]:
    """Return the meanings of task name suffixes: first those for masks, then those declared in task
    files. If two files declare the same suffix, the first one takes precedence.
    """
    meanings = dict(_OF_ALL)
    for spec in specs:
        for variant in spec.extra.get("lineage", ()):
            for suffix, meaning in variant.suffixes.items():
                meanings.setdefault(suffix, meaning)

    return meanings


def split_name(name: str, suffixes: Iterable[str]) -> tuple[str, tuple[str, ...]]:
    """Return a task's name without its suffixes, and the suffixes in order."""
    longest_first = sorted(suffixes, key=len, reverse=True)
    found: list[str] = []
    while True:
        end = next((each for each in longest_first if name.endswith(each)), "")
        if not end or end == name:
            return name, tuple(reversed(found))

        found.append(end)
        name = name.removesuffix(end)


def family_lines(specs: Sequence[Spec], width: int = WIDTH) -> list[str]:
    """Return a line for each family and each narrower group, followed by the meanings of suffixes.
    Lines have at most `width` columns.
    """
    suffixes = suffixes_of(specs)
    rows = [("FAMILY", "TASKS", "SUMMARY")]
    for family in families(specs):
        rows.append((family.name, str(len(family.specs)), family.summary))
        for group, own in family.groups.items():
            bases = _bases(family.name, own, suffixes)
            rows.append((f"{_GAP}{group}", str(len(own)), ", ".join(bases)))

    used = {end for spec in specs for end in split_name(spec.name, suffixes)[1]}
    meanings = [(end, suffixes[end]) for end in sorted({*used, COMPACT})]
    lines = [
        *_align_rows(rows),
        "",
        "Ends of names:",
        *_in_columns(meanings, width),
        "",
        "Tasks of a family: ktdeval list tasks FAMILY; all: --all",
        "A task in full: ktdeval list tasks TASK",
    ]
    return [_shortened_line(line, width) for line in lines]


def model_family_lines(specs: Sequence[Spec], width: int = WIDTH) -> list[str]:
    """Return the names of models by family, wrapped to `width` columns. Providers that accept any
    of their models come first, then the models with full names.
    """
    providers = [spec.name for spec in specs if "/" not in spec.name]
    names_by_family: dict[str, list[str]] = {}
    for spec in specs:
        family, slash, name = spec.name.partition("/")
        if slash:
            names_by_family.setdefault(family, []).append(name)

    lines = ["PROVIDER/MODEL, for any model of these providers:", *_wrapped_names(providers, width)]
    for family in sorted(names_by_family):
        lines += [f"{family}/…", *_wrapped_names(names_by_family[family], width)]

    return [
        *lines,
        "",
        "Models of a family: ktdeval list models FAMILY; all: --all",
        "A model's parameters: ktdeval list models NAME",
    ]


def _wrapped_names(names: Iterable[str], width: int) -> list[str]:
    return textwrap.wrap(
        " ".join(sorted(names)),
        width,
        initial_indent=_GAP,
        subsequent_indent=_GAP,
        break_on_hyphens=False,
    )


def _align_rows(rows: Sequence[tuple[str, str, str]]) -> Iterator[str]:
    """Yield rows of name, number and text as lines, with the numbers right-aligned."""
    names, numbers, _texts = zip(*rows, strict=True)
    name_width = max(map(len, names))
    number_width = max(map(len, numbers))
    for name, number, text in rows:
        yield f"{name:<{name_width}}{_GAP}{number:>{number_width}}{_GAP}{text}"


def _bases(family: str, specs: Iterable[Spec], suffixes: Iterable[str]) -> list[str]:
    """Return the distinct names of tasks, without suffixes and without the family's name."""
    known = list(suffixes)
    bases: dict[str, None] = {}
    for spec in specs:
        base, _ = split_name(spec.name, known)
        bases[base.removeprefix(f"{family}_")] = None

    return list(bases)


def _in_columns(meanings: Sequence[tuple[str, str]], width: int) -> Iterator[str]:
    """Yield lines with suffixes and their meanings, in two columns if they fit."""
    column = max(len(suffix) for suffix, _ in meanings) + len(_GAP)
    cells = [f"{suffix:<{column}}{meaning}" for suffix, meaning in meanings]
    room = max(map(len, cells)) + len(_GAP)
    if 2 * room > width:
        for cell in cells:
            yield f"{_GAP}{cell}"
        return

    half = (len(cells) + 1) // 2
    for left, right in zip(cells[:half], [*cells[half:], ""], strict=False):
        yield f"{_GAP}{left:<{room}}{right}".rstrip()


def _shortened_line(line: str, width: int) -> str:
    """Return a line, shortened to at most `width` columns."""
    if len(line) <= width:
        return line
    return f"{line[: width - 1]}…"
