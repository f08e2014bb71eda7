"""Examples in the docstrings of public names run, and give the values that they show.

Words of the reader's own, such as `task`, are those of `readers_words`.
"""

from __future__ import annotations

import random
import textwrap
from collections.abc import Iterator
from dataclasses import dataclass
from http.server import ThreadingHTTPServer
from pathlib import Path
from typing import Annotated, Any

import pytest

import ktdeval
from ktdeval import api, testing
from ktdeval.harness import decide_in_phases
from ktdeval.masking import UNMASKED, MaskConfig
from ktdeval.registry import load_plugins
from support.advertised import modules_forgotten
from support.docs.docs_prose import author_guide, guide_files
from support.docs.docstring_examples import example_of, run_example
from support.market.raw_market import market

WITHOUT = {
    "KtdevalError": "an exception, which is raised with one line of text",
    "ConfigError": "an exception, as KtdevalError",
    "DataError": "an exception, as KtdevalError",
    "PluginError": "an exception, as KtdevalError",
    "UsageError": "an exception, as KtdevalError; cards_of.py raises it",
    "ConformanceError": "an exception, which the checks raise",
    "AnswerRecord": "a record of a run; its docstring is the description in a JSON Schema",
    "AssetArg": "an alias, shown by the example of Length",
    "DayArg": "an alias, used as AssetArg",
    "Payload": "an alias of a JSON value with references in it",
    "Event": "an alias of the events; watching.py takes one",
    "hookimpl": "documented by pluggy; parrot.py marks a hook with it",
    "Metric": "a protocol, which hits.py fulfils by @metric",
    "RawMarket": "a record of tables; walk.py makes one",
    "RemoteModel": "a protocol; local.py is one",
    "StepSession": "a protocol; sizing.py uses one",
    "Task": "a protocol for families with code of their own; others are YAML (mine.yaml)",
    "Scene": "a protocol, as Task",
}
"""Public names without an example, each with its reason; files are those of CONTRIBUTING.md and docs/plugins.md."""

GUIDE = author_guide()
FILES = guide_files()
OF_PACKAGE = ("evaluate", "load_run", "Evaluation")
MISSPELLED = """from ktdeval.api import hookimpl

@hookimpl
def ktdeval_model():
    return []
"""
MY_PLUGIN = """
from ktdeval.api import Spec, hookimpl

def _make(name):
    from mine import Parrot
    return Parrot()

@hookimpl
def ktdeval_models():
    return [Spec("mine/parrot", _make, "Gives one answer to every question")]
"""


def public_names() -> dict[str, Any]:
    found = {name: getattr(ktdeval, name) for name in OF_PACKAGE}
    found |= {name: getattr(api, name) for name in dir(api)}
    found |= {name: getattr(testing, name) for name in dir(testing)}
    return found


NAMES = public_names()
EXAMPLES = {name: example_of(NAMES[name].__doc__ or "") for name in NAMES if name not in WITHOUT}


def mine_yaml() -> str:
    """The variant of a task in docs/plugins.md."""
    text = GUIDE.partition("    # mine.yaml\n")[2].partition("\n\n")[0]
    return textwrap.dedent(text)


def count_words(context: Any, text: str) -> api.Payload:
    """Count the words of a text."""
    return {"words": len(text.split())}


def score(answer: str, sample: Any) -> dict[str, bool]:
    return {"right": answer == sample["gold"]}


@pytest.fixture(scope="module")
def readers_words(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, Any]]:
    """What examples take for granted: imports, and the reader's own market, task, model and files."""
    snapshot = testing.tiny_snapshot({"609001.SH": [10.0, 10.5, 11.0], "609002.SH": [5.0, 5, 5]})
    question = {"question": "What is 2 + 3?", "gold": "5"}
    code: dict[str, Any] = {"__name__": "readers_code"}

    for file in ("parrot.py", "hits.py"):
        exec(FILES[file], code)

    words = {
        **NAMES,
        "ktdeval": ktdeval,
        "api": api,
        "dataclass": dataclass,
        "random": random,
        "Annotated": Annotated,
        "Path": Path,
        "ThreadingHTTPServer": ThreadingHTTPServer,
        "MaskConfig": MaskConfig,
        "UNMASKED": UNMASKED,
        "decide_in_phases": decide_in_phases,
        "load_plugins": load_plugins,
        "Parrot": code["Parrot"],
        "hit_rate": code["hit_rate"],
        "score": score,
        "count_words": count_words,
        "look_up": api.tool(count_words),
        "snapshot": snapshot,
        "bright": api.Lens(MaskConfig("bright"), 0, snapshot, 1),
        "raw": market(),
        "task": api.QATask([question], score, name="sums", scores=("right",)),
        "spec": api.EpisodeSpec(
            task="sums",
            task_version="1",
            task_hash="",
            snapshot=None,
            mask=None,
            mode=None,
            window=None,
            model="mine/parrot",
            model_args={},
            agent="reference",
            agent_args={},
        ),
    }
    folder = tmp_path_factory.mktemp("examples")
    (folder / "mine.py").write_text(FILES["parrot.py"], encoding="utf-8")
    (folder / "my_plugin.py").write_text(MY_PLUGIN, encoding="utf-8")
    (folder / "misspelled.py").write_text(MISSPELLED, encoding="utf-8")
    (folder / "mine.yaml").write_text(mine_yaml(), encoding="utf-8")

    with modules_forgotten(folder), pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        patch.syspath_prepend(str(folder))
        patch.setenv("PYTHONPATH", str(folder))
        yield words


@pytest.fixture(scope="module")
def readers_run(readers_words: dict[str, Any]) -> dict[str, Any]:
    """The reader's words, once the example of `evaluate` has made a run in their folder."""
    run_example(EXAMPLES["evaluate"], dict(readers_words))
    return readers_words


@pytest.mark.parametrize("name", sorted(EXAMPLES))
def test_a_public_name_has_an_example_of_at_most_three_lines(name: str) -> None:
    lines = EXAMPLES[name].split("\n")
    assert lines != [""], "end its docstring with an example, or give the reason in WITHOUT"
    assert len(lines) <= 3


def cases() -> list[Any]:
    """Names whose examples need no run; one starts a process."""
    names = sorted(set(EXAMPLES) - {*OF_PACKAGE, "check_plugin"})
    return [*names, pytest.param("check_plugin", marks=pytest.mark.slow)]


@pytest.mark.slow
@pytest.mark.parametrize("name", cases())
def test_the_example_of_a_public_name_runs_as_shown(
    readers_words: dict[str, Any], name: str, capsys: pytest.CaptureFixture[str]
) -> None:
    run_example(EXAMPLES[name], {**readers_words, "capsys": capsys})


def test_the_examples_of_a_run_work_on_the_run_of_the_first(readers_run: dict[str, Any]) -> None:
    for name in ("load_run", "Evaluation"):
        run_example(EXAMPLES[name], dict(readers_run))


def test_names_without_an_example_are_public_and_have_none() -> None:
    assert sorted(set(WITHOUT) - set(NAMES)) == []
    assert [name for name in WITHOUT if example_of(NAMES[name].__doc__ or "")] == []


@pytest.mark.parametrize(
    ("protocol", "example"),
    [(api.Agent, "Plain"), (api.Model, "Echo"), (api.Environment, "Library")],
)
def test_the_class_in_the_example_of_a_protocol_has_its_members(
    readers_words: dict[str, Any], protocol: type, example: str
) -> None:
    words = dict(readers_words)
    run_example(EXAMPLES[protocol.__name__], words)
    members = {name for name in vars(protocol) if not name.startswith("_")}
    members |= set(vars(protocol).get("__annotations__", {}))

    assert members - set(vars(words[example])) == set()
