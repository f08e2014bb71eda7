"""Profiles: how a certain kind of program is started for a step.

A profile is a YAML file. Its texts have placeholders, listed in `StepValues`; `prepare_start` fills
them and is pure. Profiles for known programs ship with the suite and are chosen by the program's
name; `profile=FILE` selects a user's own profile.
"""

from __future__ import annotations

import os
import re
import shlex
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from ktdeval.errors import ConfigError
from ktdeval.values import (
    JsonValue,
    build,
    content_hash,
    dumps_pretty,
    load_yaml_as,
    near_matches,
    option,
    to_plain,
    user_path,
)
from ktdeval_command.placeholders import (
    SECRETS,
    StepValues,
    check_placeholders,
    fill_placeholders,
    filled_json,
    filled_words,
    names_in,
)
from ktdeval_command.planned_step import Measured
from ktdeval_command.sandboxes.installed_program import Installation, installation_of, start_path

DEFAULT = "default"
TASK_FILES = ("task.md", "state.json")  #: files that each program receives

_FOLDER = Path(__file__).parent / "profiles"
_VARIABLE = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_SET_BY_SANDBOX = ("HOME", "PWD", "TMPDIR")
_MAX_ARGUMENT_BYTES = (128 << 10) - 1  # MAX_ARG_STRLEN of Linux, without the final zero byte


@dataclass(frozen=True)
class Profile:
    """How a program is started for a step. The texts have placeholders."""

    programs: tuple[str, ...] = option((), help="names of programs to which the profile applies")
    subcommand: str = option(
        "", help="first argument, such as exec; added if the command line lacks it"
    )
    arguments: tuple[str, ...] = option((), help="further arguments, after those of the user")
    stdin: str = option("{prompt}", help="text on standard input")
    environment: Mapping[str, str] = option(help="variables", factory=dict)
    files: Mapping[str, str | Mapping[str, JsonValue]] = option(
        help=(
            "files to write to the program's folder before each step, replacing its changes: a "
            "text, or an object, which is written as JSON"
        ),
        factory=dict,
    )
    readable: tuple[str, ...] = option((), help="further folders that the program may read")
    version: tuple[str, ...] = option(
        (),
        help=(
            "arguments that make the program print its version; tried before a run; empty: not "
            "tried"
        ),
    )
    measured: Measured | None = option(
        None, help="what the program adds to a step, for `ktdeval plan`"
    )


@dataclass(frozen=True)
class PreparedProgram:
    """A program that is ready to start in a step."""

    argv: tuple[str, ...]
    environment: Mapping[str, str]
    files: Mapping[str, bytes]  #: keyed by path in the program's folder
    stdin: bytes


# ---- choosing a profile


def run_words(run: str) -> tuple[str, ...]:
    """Return the words of a command line, split as by a shell but without expansions. Braces belong
    to the program and are not placeholders. If the program is given by a path, the path becomes
    absolute, since the program is started in another folder. Raises ConfigError if the program is
    missing, or if a quotation mark is not closed.
    """
    try:
        words = tuple(shlex.split(run))
    except ValueError as error:
        raise ConfigError(f"run: {error} in {run[:80]!r}; close it") from error
    if not words or not words[0]:
        raise ConfigError("run: is empty; give a command line, such as run='codex exec'")

    for index, word in enumerate(words):
        _check_no_end(word, f"run[{index}]")
    return (start_path(words[0]), *words[1:])


def profile_of(run: str, profile: str = "") -> tuple[Profile, Installation]:
    """Return the profile for a command line, and the location of its program on this machine.

    `profile` is a file or the name of a shipped profile. If it is empty, the profile for the
    program's name is used, otherwise `default`. Raises ConfigError if the file is not a profile,
    and the errors of `run_words`.
    """
    program = run_words(run)[0]
    found = chosen_profile(Path(program).name, profile)
    place = installation_of(program)
    if place.path:
        found = replace(found, environment={"PATH": place.path, **found.environment})
    return found, place


def chosen_profile(program: str, profile: str) -> Profile:
    """Return the profile for a program's name, chosen as in `profile_of`, without the installation."""
    shipped = shipped_profiles()
    if not profile:
        for path in shipped.values():
            known = load_profile(path)
            if program in known.programs:
                return known
        return load_profile(shipped[DEFAULT])

    path = user_path(profile)
    if path.is_file():
        return load_profile(path)
    if profile in shipped:
        return load_profile(shipped[profile])
    raise ConfigError(
        f"profile={profile[:80]}: no such file, and no profile with this "
        f"name{near_matches(profile, shipped)}; profiles that ship with the suite are "
        f"{', '.join(shipped)}"
    )


def shipped_profiles() -> dict[str, Path]:
    """Return the files of all shipped profiles, keyed by name."""
    return {path.stem: path for path in sorted(_FOLDER.glob("*.yaml"))}


def profile_hash(profile: Profile) -> str:
    """Return the SHA-256 of the settings with which a profile starts a program. The measured size
    of the program's prompt is excluded.
    """
    counted = ("subcommand", "arguments", "stdin", "environment", "files", "readable")
    parts = {name: to_plain(getattr(profile, name)) for name in counted}
    return content_hash(parts)


def load_profile(path: Path) -> Profile:
    """Read a profile. Raises ConfigError, which names file and field."""
    return load_yaml_as(path, _read)


def _read(content: Mapping[str, Any], where: str) -> Profile:
    profile = build(Profile, content, where)
    _check(profile, where)
    return profile


# ---- rules for profiles


def _check(profile: Profile, where: str) -> None:
    """Raise ConfigError if a text can't be filled, or is not allowed in its field."""
    if names_in(profile.subcommand):
        raise ConfigError(f"{where}: subcommand: expected a word without a placeholder")

    _check_arguments(profile.arguments, f"{where}: arguments")
    check_placeholders(profile.stdin, f"{where}: stdin")
    for name, text in profile.environment.items():
        _check_variable(name, text, f"{where}: environment.{name[:80]}")

    for problem in _file_problems(profile.files):
        raise ConfigError(f"{where}: files: {problem}")
    for name, content in profile.files.items():
        check_placeholders(content, f"{where}: files.{name}")

    for index, folder in enumerate(profile.readable):
        if not Path(folder).is_absolute() or names_in(folder):
            raise ConfigError(
                f"{where}: readable[{index}]: expected the absolute path of a folder, was"
                f" {folder[:80]!r}"
            )


def _check_arguments(words: tuple[str, ...], where: str) -> None:
    """Raise ConfigError if an argument can't be filled, or would show a token to every user of the
    machine.
    """
    check_placeholders(words, where)
    for index, word in enumerate(words):
        _check_no_end(word, f"{where}[{index}]")
        for name in sorted(names_in(word) & SECRETS):
            raise ConfigError(
                f"{where}[{index}]: {{{name}}} would be visible in the list of processes; pass "
                "it in environment or files"
            )


def _check_variable(name: str, text: str, where: str) -> None:
    if not _VARIABLE.fullmatch(name):
        raise ConfigError(f"{where}: not a name of an environment variable; correct it")
    if name in _SET_BY_SANDBOX:
        raise ConfigError(f"{where}: is always set to the program's folder; remove it")
    check_placeholders(text, where)
    _check_no_end(text, where)


def _check_no_end(text: str, where: str) -> None:
    if "\0" in text:
        raise ConfigError(f"{where}: contains the character U+0000; remove it")


def _file_problems(paths: Mapping[str, object]) -> Iterator[str]:
    """Yield the problems with file paths in the program's folder."""
    for path in paths:
        parts = path.split("/")
        if any(part in ("", ".", "..") or "\0" in part for part in parts):
            yield f"{path[:80]!r} is outside the program's folder; use a path like a/b.json"
        if path in TASK_FILES:
            yield f"{path} always holds the task; choose another name"

        above = ["/".join(parts[:count]) for count in range(1, len(parts))]
        for folder in set(above) & {*paths, *TASK_FILES}:
            yield f"{folder[:80]!r} is a file, and cannot be a folder for {path[:80]!r}"


# ---- a step


def prepare_start(
    profile: Profile, run_argv: tuple[str, ...], values: StepValues
) -> PreparedProgram:
    """Return the program to start for a step. Raises ConfigError if a value would give an argument
    or variable that the system can't pass on.
    """
    program, *rest = run_argv
    if profile.subcommand and profile.subcommand not in rest:
        rest = [profile.subcommand, *rest]
    argv = (program, *rest, *filled_words(profile.arguments, values))
    environment = {
        name: fill_placeholders(text, values) for name, text in profile.environment.items()
    }
    for where, text in (*enumerate(argv), *environment.items()):
        _check_passable(text, str(where))

    files = {}
    for path, content in profile.files.items():
        if isinstance(content, str):
            text = fill_placeholders(content, values)
        else:
            text = dumps_pretty(filled_json(content, values))
        files[path] = text.encode()

    return PreparedProgram(
        argv=argv,
        environment=environment,
        files=files,
        stdin=fill_placeholders(profile.stdin, values).encode(),
    )


def _check_passable(text: str, where: str) -> None:
    """Raise ConfigError unless a text can be an argument or the value of a variable."""
    _check_no_end(text, f"profile: {where}")
    try:
        size = len(os.fsencode(text))
    except UnicodeEncodeError as error:
        raise ConfigError(
            f"profile: {where}: contains half a surrogate pair, which is not valid text; remove it"
        ) from error
    if size > _MAX_ARGUMENT_BYTES:
        raise ConfigError(
            f"profile: {where}: {size:,} bytes are more than the system passes on in one argument"
            f" or variable ({_MAX_ARGUMENT_BYTES:,}); give {{prompt}} by stdin, or let the program"
            " read {task_file}"
        )
