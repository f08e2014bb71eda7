"""Plugins are found, named, refused and made as the registry says."""

from __future__ import annotations

import re
import sys
import textwrap
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, strategies as st
from inline_snapshot import snapshot

from ktdeval.errors import ConfigError, ModelError, PluginError, UsageError
from ktdeval.hookspecs import Spec, hookimpl
from ktdeval.registry import KINDS, Plugins, discovery, load_plugins
from ktdeval.registry.task_files import merge_layers, task_specs
from ktdeval.testing import errors_of, on_each_row
from ktdeval.values import loads_untrusted, parse_yaml
from ktdeval.values.options.config_options import (
    build_params,
    option,
    parse_assignments,
    parse_scalar,
)
from support.advertised import advertise

HEADER = "from ktdeval.api import ModelError, Spec, hookimpl, option, task_specs\n"


@pytest.fixture
def write_plugin(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[str, str], str]:
    """Writes a plugin file and returns its path; the modules it becomes are forgotten after the
    test.
    """
    before = set(sys.modules)

    def write(name: str, code: str) -> str:
        path = tmp_path / f"{name}.py"
        path.write_text(HEADER + textwrap.dedent(code))
        return str(path)

    yield write
    for name in set(sys.modules) - before:
        if str(tmp_path) in str(getattr(sys.modules[name], "__file__", "")):
            del sys.modules[name]


MODEL = """
    class Echo:
        def __init__(self, name, params): self.name, self.params = name, params
        def reply(self, request): ...
    @hookimpl
    def ktdeval_models(): return [Spec("{name}", lambda name, params=None: Echo(name, params), "says what it was asked")]
"""


# ---- finding


def test_of_two_distributions_with_one_name_the_first_on_the_path_counts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for folder in ("later", "first"):
        advertise(tmp_path / folder, "shadow", f"x = {folder}", monkeypatch)

    assert [
        entry.value for entry in discovery.find_entry_points() if entry.distribution == "shadow"
    ] == ["first"]


def test_an_installed_plugin_that_fails_is_reported_and_skipped(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    entries = "broken = broken_manifest\ngone = no_such_module\nlate = late_manifest"
    late = HEADER + "@hookimpl\ndef ktdeval_models(): return {}['no']\n"
    advertise(
        tmp_path, "broken", entries, monkeypatch, broken_manifest="1 / 0\n", late_manifest=late
    )
    heard: list[str] = []
    plugins = load_plugins(warn=heard.append)

    assert (
        plugins.broken["broken_manifest"]
        == "can't be imported: ZeroDivisionError: division by zero (broken_manifest.py:1)"
    )
    assert "No module named 'no_such_module'" in plugins.broken["no_such_module"]
    assert (
        sorted(heard)[0]
        == "plugin broken_manifest is skipped: can't be imported: ZeroDivisionError: division by"
        " zero (broken_manifest.py:1)"
    )
    assert len(heard) == 2  # of the third nothing is known before its hook is called

    plugins.specs("models")
    assert "react" in plugins.specs("agents")
    assert plugins.broken["late_manifest"] == "ktdeval_models: KeyError: 'no' (late_manifest.py:3)"
    assert len(heard) == 3

    with pytest.raises(UsageError, match=r"skipped plugins: broken_manifest, late_manifest"):
        plugins.spec("models", "late/model")


# ---- refusing


@pytest.mark.needs("ktdeval_models")
@on_each_row(
    "code, message",
    ("x", "--plugin .*odd.py: can't be imported: NameError: name 'x'"),
    (
        ("@hookimpl\ndef ktdeval_modles(): return []"),
        "odd: there is no hook 'ktdeval_modles'; did you mean 'ktdeval_models'",
    ),
    (
        "def ktdeval_models(): return []",
        "plugin odd: ktdeval_models is not marked as a hook; put @hookimpl",
    ),
    (("@hookimpl\ndef ktdeval_models(registry): return []"), "plugin odd: .*ktdeval_models"),
    (
        ("@hookimpl(wrapper=True)\ndef ktdeval_models(): return (yield)"),
        "plugin odd: ktdeval_models is a hook wrapper",
    ),
    (
        ("@hookimpl\ndef ktdeval_models(): raise RuntimeError('boom')"),
        "plugin odd: ktdeval_models: RuntimeError: boom",
    ),
    (
        ("@hookimpl\ndef ktdeval_metrics(): return [print]"),
        (
            "plugin odd: ktdeval_metrics returned .* builtin_function_or_method in it, "
            "expected Spec only; put @metric"
        ),
    ),
    (
        (
            "from ktdeval.api import QATask\n"
            "@hookimpl\n"
            "def ktdeval_tasks(): return [QATask([{'question': '?'}], print, name='q')]"
        ),
        (
            "plugin odd: ktdeval_tasks returned a list with QATask in it, expected Spec only; "
            "give its .spec\\(\\)"
        ),
    ),
    (
        ("@hookimpl\ndef ktdeval_models(): return 'text'"),
        "plugin odd: ktdeval_models returned str, expected a list of Spec",
    ),
    (
        ("@hookimpl\ndef ktdeval_models(): return ['text']"),
        "plugin odd: ktdeval_models returned a list with str in it",
    ),
    (
        ("@hookimpl\ndef ktdeval_models(): return [Spec('a/b', list, ''), Spec('a/b', list, '')]"),
        "plugin odd: ktdeval_models offers 'a/b' twice",
    ),
    (
        ("@hookimpl\ndef ktdeval_models(): return [Spec(None, list, '')]"),
        "name of Spec None must be text that is not empty, was None",
    ),
    (
        ("@hookimpl\ndef ktdeval_models(): return [Spec('a/b', None, '')]"),
        "odd: ktdeval_models: make of Spec 'a/b' must be a function",
    ),
    (
        ("@hookimpl\ndef ktdeval_models(): return [Spec('a/b', list, None)]"),
        "odd: ktdeval_models: summary of Spec 'a/b' must be text",
    ),
    (
        ("@hookimpl\ndef ktdeval_models(): return [Spec('a/b', list, '', {})]"),
        "params of Spec 'a/b' must be a dataclass or None, was {}",
    ),
    (
        ("@hookimpl\ndef ktdeval_models(): return [Spec('a/b', list, '', None, 'ab')]"),
        "groups of Spec 'a/b' must be a tuple or list",
    ),
    (
        ("@hookimpl\ndef ktdeval_models(): raise SystemExit(3)"),
        "plugin odd: ktdeval_models: SystemExit: 3",
    ),
    (
        ("@hookimpl\ndef ktdeval_models(): raise GeneratorExit"),
        "plugin odd: ktdeval_models: GeneratorExit: no message",
    ),
    ("raise SystemExit", "--plugin .*odd.py: can't be imported: SystemExit: no message"),
    (
        "A MODEL OF THE NAME builtin/momentum",
        "'builtin/momentum' is offered by plugin (\\w+) and by plugin (?!\\1)\\w+; rename",
    ),
)
def test_a_plugin_asked_for_by_name_that_breaks_the_contract_is_an_error(
    write_plugin: Callable[[str, str], str], code: str, message: str
) -> None:
    code = (
        MODEL.format(name="builtin/momentum")
        if code == "A MODEL OF THE NAME builtin/momentum"
        else code
    )
    kind = next((kind for kind in ("metrics", "tasks") if f"def ktdeval_{kind}(" in code), "models")

    with pytest.raises(PluginError, match=message):
        load_plugins([write_plugin("odd", code + "\n")]).specs(kind)


def test_a_plugin_that_is_not_there_or_named_as_a_loaded_module_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "json.py").write_text("")
    (tmp_path / "itself.py").symlink_to("itself.py")
    references = (
        "itself.py",
        "./nowhere.py",
        ".",
        "no_such_module_anywhere",
        "pathlib_.py/",
        "json.py",
    )
    assert errors_of(lambda name: load_plugins([name]), *references, folder=tmp_path) == snapshot("""\
PluginError: --plugin itself.py: FOLDER/itself.py: no such file; give a .py file, a package folder or a module name
PluginError: --plugin ./nowhere.py: FOLDER/nowhere.py: no such file; give a .py file, a package folder or a module name
PluginError: --plugin .: FOLDER/__init__.py: no such file; give a .py file, a package folder or a module name
PluginError: --plugin no_such_module_anywhere: can't be imported: ModuleNotFoundError: No module named 'no_such_module_anywhere'
PluginError: --plugin pathlib_.py/: FOLDER/pathlib_.py: no such file; give a .py file, a package folder or a module name
PluginError: --plugin json.py: a module called 'json' is already loaded from elsewhere; rename the file
""")

    with pytest.raises(PluginError, match="no such file; give"):
        load_plugins([f"./{'x' * 300}.py"])


# ---- naming and making

ECHO = """
    from dataclasses import dataclass
    @dataclass(frozen=True)
    class Params:
        depth: int = option(3, help="how deep", minimum=1)
        label: str = option("", help="any text")
        dims: tuple[str, ...] = option((), help="some names")
    class Echo:
        def __init__(self, name, params): self.name, self.params = name, params
        def reply(self, request): ...
    def missing():
        import a_module_that_is_not_installed
    @hookimpl
    def ktdeval_models():
        return [Spec("echo", Echo, "a provider", Params), Spec("echo/plain", lambda name: Echo(name, None), "one model")]
    @hookimpl
    def ktdeval_metrics(): return [Spec("needs_more", missing, "needs what is not there")]
"""


@pytest.mark.needs("ktdeval_models")
def test_models_are_made_by_name_or_provider_and_mismatches_are_named(
    write_plugin: Callable[[str, str], str],
) -> None:
    echo = load_plugins([write_plugin("echo_plugin", ECHO)])
    model = echo.make_model("echo/some/model-4.1", {"depth": "5", "label": 7, "dims": "a,b"})

    assert (model.name, model.params.depth, model.params.label, model.params.dims) == (
        "some/model-4.1",
        5,
        "7",
        ("a", "b"),
    )
    assert echo.make_model("echo/plain").params is None, "a listed model goes before its provider"

    asked: list[tuple[Any, ...]] = [
        ("echo",),
        ("builtin/momentun",),
        ("echo/x", {"deph": 1}),
        ("echo/x", {"depth": 0}),
        ("echo/plain", {"depth": 1}),
    ]
    assert errors_of(lambda given: echo.make_model(*given), *asked) == snapshot("""\
UsageError: 'echo' is a provider of models; name one of its models, as in echo/NAME
UsageError: unknown model 'builtin/momentun'; did you mean 'builtin/momentum' or 'builtin/random' or 'builtin/memory'?
ConfigError: model echo: unknown field 'deph'; did you mean 'depth'?
ConfigError: model echo: depth: expected a value of at least 1, was 0
UsageError: model echo/plain takes no arguments, was given depth
""")
    assert errors_of(echo.make_metric, "needs_more") == snapshot(
        "PluginError: metric needs_more of plugin echo_plugin needs a package that can't be imported: No module named 'a_module_that_is_not_installed'\n"
    )


@pytest.mark.parametrize("kind", KINDS)
def test_unknown_names_of_every_kind_are_usage_errors(kind: Any) -> None:
    with pytest.raises(UsageError, match=r"unknown .* 'zzzzzz'; see `ktdeval "):
        load_plugins().spec(kind, "zzzzzz")


# ---- observing


class Watcher:
    def __init__(self, fails: bool) -> None:
        self.seen: list[object] = []
        self.fails = fails

    @hookimpl
    def ktdeval_event(self, event: object) -> None:
        self.seen.append(event)
        if self.fails:
            raise ModelError("server", "boom")


class Unmarked:
    def ktdeval_event(self, event: object) -> None: ...


def test_observers_see_events_and_one_that_raises_is_dropped() -> None:
    heard: list[str] = []
    plugins = Plugins(heard.append)
    good = Watcher(False)
    bad = Watcher(True)

    for observer in (good, bad):
        plugins.register_observer(observer)

    for event in ("one", "two"):
        plugins.emit(event)  # type: ignore[arg-type]

    assert (good.seen, bad.seen) == (["one", "two"], ["one"])

    (warning,) = heard
    assert "receives no further events" in warning

    with pytest.raises(PluginError, match="not marked as a hook"):
        plugins.register_observer(Unmarked())


# ---- task files

FILE = """
family: toy
version: "1"
summary: a toy
groups: [small]
windows: {w: {first: 2024-01-02, last: 2024-01-05}}
default_windows: [w]
defaults: {mask: blinded, harness: {a: 1, b: 2}}
variants:
  toy_one: {harness: {b: 3}, groups: [first]}
  toy_two:
    extends: toy_one
    summary: another
    mask: bright
"""


def plugins_with(tmp_path: Path, text: str) -> Plugins:
    path = tmp_path / "tasks.yaml"
    path.write_text(text)

    class Manifest:
        @hookimpl
        def ktdeval_tasks(self) -> list[Spec]:
            return task_specs(path, lambda name, config, where: (name, config, where))

    plugins = Plugins()
    plugins.add(Manifest(), "toy", "toy-dist", "1")

    return plugins


def test_variants_resolve_against_defaults_and_what_they_extend(tmp_path: Path) -> None:
    plugins = plugins_with(tmp_path, FILE)
    name, config, where = plugins.spec("tasks", "toy_two").make()

    assert (name, where) == ("toy_two", f"{tmp_path}/tasks.yaml: variants: toy_two")

    windows = {
        "windows": {"w": {"first": "2024-01-02", "last": "2024-01-05"}},
        "default_windows": ["w"],
    }

    assert config == {
        "family": "toy",
        "version": "1",
        **windows,
        "mask": "bright",
        "harness": {"a": 1, "b": 2},
    }
    assert plugins.spec("tasks", "toy_one").make()[1]["harness"] == {"a": 1, "b": 3}
    assert (
        plugins.resolve_tasks(["toy"]) == plugins.resolve_tasks(["small"]) == ["toy_one", "toy_two"]
    )
    assert plugins.resolve_tasks(["first"]) == ["toy_one"]
    assert plugins.spec("tasks", "toy_two").summary == "another"


@on_each_row(
    "change, message",
    (["family: toy", "famly: toy"], "unknown key 'famly'; did you mean 'family'"),
    (["family: toy\n", ""], "key 'family' is missing"),
    (
        ["family: toy", ("family: toy\nfamily: toy")],
        "line 3: key 'family' was already given on line 2",
    ),
    (['version: "1"', "version: 1"], "version: expected a string, was 1"),
    (
        [
            'version: "1"',
            (
                "version: [one, two, three, four, five, six, seven, eight, nine, ten, eleven, "
                "twelve, thirteen, fourteen, fifteen, sixteen, seventeen, eighteen, nineteen, "
                "twenty, twenty-one, twenty-two, twenty-three, twenty-four, twenty-five]"
            ),
        ],
        "version: expected a string, was a list",
    ),
    (["family: toy", 'family: ""'], "tasks.yaml: family: expected text, was ''; fill it in"),
    (["groups: [small]", "groups: small"], "groups: expected a list, was 'small'"),
    (["groups: [small]", 'groups: [""]'], "tasks.yaml: groups: expected text, was ''"),
    (
        ["groups: [small]", "data_card: {deep: [.inf]}"],
        "tasks.yaml: data_card: can't be recorded as JSON",
    ),
    (
        ["{harness: {b: 3}, groups: [first]}", "3"],
        "variants: toy_one: expected a mapping of overrides, was int",
    ),
    (["variants:", "variants: ["], "tasks.yaml: line 11, column 3: not YAML"),
    (
        ["extends: toy_one", "extends: toy_on"],
        "variants: toy_two: extends: no task 'toy_on'; did you mean 'toy_one'",
    ),
    (["extends: toy_one", "extends: toy_two"], "extends: a circular reference, toy_two -> toy_two"),
)
def test_mistakes_in_task_files_name_file_and_key(
    tmp_path: Path, change: tuple[str, str], message: str
) -> None:
    plugins = plugins_with(tmp_path, FILE.replace(*change))
    plugins.specs("tasks")

    assert message in plugins.broken["toy"]
    assert f"{tmp_path}/tasks.yaml" in plugins.broken["toy"]
    assert len(plugins.broken["toy"]) < len(str(tmp_path)) + 200, (
        "a value of any length is one readable line"
    )


def test_a_variant_extends_a_task_from_a_file_or_has_a_maker(tmp_path: Path) -> None:
    class Other:
        @hookimpl
        def ktdeval_tasks(self) -> list[Spec]:
            return [Spec("handmade", list, "built in code")]

    plugins = plugins_with(tmp_path, FILE.replace("extends: toy_one", "extends: handmade"))
    plugins.add(Other(), "other", "other-dist", "1")

    assert set(plugins.specs("tasks")) == {"toy_one", "handmade"}
    assert "task 'handmade' is not made from a task file" in plugins.broken["toy"]

    with pytest.raises(
        ConfigError, match="variants: toy_one: name the task that it builds on, as in `extends: "
    ):
        task_specs(tmp_path / "tasks.yaml")


plain = st.recursive(
    st.integers(0, 9),
    lambda inner: st.dictionaries(st.sampled_from("abc"), inner, max_size=3),
    max_leaves=8,
)
mappings = st.dictionaries(st.sampled_from("abc"), plain, max_size=3)


@pytest.mark.slow
@given(mappings, mappings, mappings)
def test_merging_layers_is_associative_and_leaves_its_inputs_alone(
    one: dict, two: dict, three: dict
) -> None:
    before = repr((one, two, three))
    merged = merge_layers((one, two, three))

    assert merged == merge_layers((merge_layers((one, two)), three))
    assert repr((one, two, three)) == before
    assert set(merged) == set(one) | set(two) | set(three)


def test_yaml_scalars_follow_the_core_schema_of_1_2() -> None:
    text = (
        "a: 2024-01-02\nb: no\nc: 1e-3\nd: 010\ne: [1, 2.5, ~, null, true, -.inf]\nf:\ng: {<<: {x:"
        " 1}, y: -3}\nh: 1:30"
    )
    nested = {"e": [1, 2.5, None, None, True, float("-inf")], "g": {"x": 1, "y": -3}}

    assert parse_yaml(text, "f") == {
        "a": "2024-01-02",
        "b": "no",
        "c": 0.001,
        "d": 10,
        "f": None,
        "h": "1:30",
        **nested,
    }


# ---- YAML and parameters


@on_each_row(
    "text, message",
    ("a: {b: 1, b: 2}", "line 1: key 'b' was already given on line 1"),
    ("- 1", "expected a mapping of fields, was list"),
    ("", "expected a mapping of fields, was nothing"),
    ("1: 2", "line 1: expected text as a key, was 1; quote it"),
    (
        "a: !!python/object/apply:os.getcwd []",
        (
            "not YAML: a sequence with the tag !!python/object/apply:os.getcwd is not read; "
            "leave the tag out"
        ),
    ),
    ("a: [", "not YAML"),
    ("a: \x01", "not YAML"),
    ("a: !!int x", "not YAML"),
    (
        "a: &all {b: *all}",
        "line 1, column 4: not YAML: an alias is inside the value that it names, so it never ends",
    ),
)
def test_yaml_mistakes_are_one_line_with_the_file(text: str, message: str) -> None:
    with pytest.raises(ConfigError, match=rf"^file.yaml: [^\n]*{re.escape(message)}[^\n]*$"):
        parse_yaml(text, "file.yaml")


def test_assignments_are_read_as_typed() -> None:
    read = parse_assignments(
        ["a=1,b=x,y,c=true", "d=1e-3", "e=007,f=", '{"g": [1, 2]}'], "--model-args"
    )
    assert read == {"a": 1, "b": "x,y", "c": True, "d": 0.001, "e": "007", "f": "", "g": [1, 2]}


@pytest.mark.parametrize(
    "texts",
    [
        ["a"],
        ["=1"],
        ["a=1,a=2"],
        ["a=1", "a=2"],
        ['{"a": 1, "a": 2}'],
        ['{"a": NaN}'],
        ["{"],
        ["{]"],
    ],
)
def test_invalid_and_repeated_assignments_are_refused_in_one_line(texts: list[str]) -> None:
    with pytest.raises(UsageError, match=r"^--model-args: [^\n]*$"):
        parse_assignments(texts, "--model-args")


@given(
    st.integers(-(10**12), 10**12)
    | st.booleans()
    | st.none()
    | st.floats(allow_nan=False, allow_infinity=False, width=32)
)
def test_scalars_come_back_from_their_text(value: object) -> None:
    words = {"True": "true", "False": "false", "None": "null"}
    assert parse_scalar(words.get(repr(value), repr(value))) == value


@pytest.mark.slow
@given(st.text())
def test_any_text_is_read_without_a_surprise(text: str) -> None:
    assert isinstance(parse_scalar(text), (str, int, float, bool, type(None)))


@dataclass(frozen=True)
class Everything:
    number: int = option(1, help="a number")
    share: float = option(0.5, help="a share", minimum=0, maximum=1)
    name: str | None = option(None, help="a name")
    names: tuple[int, ...] = option((), help="numbers")
    on: bool = option(False, help="a switch")


def test_parameters_take_text_where_it_plainly_fits() -> None:
    built = build_params(
        Everything, {"number": "3", "share": 1, "name": 7, "names": "1,2", "on": "true"}, "here"
    )

    assert built == Everything(3, 1.0, "7", (1, 2), True)
    assert build_params(Everything, {"names": 4, "name": None}, "here") == Everything(names=(4,))


@pytest.mark.parametrize("number", [-(1 << 63), (1 << 63) - 1])
def test_integers_up_to_the_ends_of_64_bits_are_read_from_each_form(number: int) -> None:
    text = str(number)
    assert build_params(Everything, {"number": text}, "here").number == number
    assert parse_yaml(f"a: {text}", "here")["a"] == number
    assert loads_untrusted(text) == number
    assert parse_scalar(f"{text}0") == f"{text}0"  # no float, which would be another number

    with pytest.raises(ConfigError, match=r"an integer of 2[01] digits does not fit 64 bits"):
        parse_yaml(f"a: {text}0", "here")


def test_a_parameter_that_does_not_fit_is_refused_by_name() -> None:
    wrong: list[dict[str, object]] = [
        {"number": "x"},
        {"number": 1.5},
        {"on": "maybe"},
        {"share": "2"},
        {"names": "a"},
    ]
    assert errors_of(lambda given: build_params(Everything, given, "here"), *wrong) == snapshot("""\
ConfigError: here: number: expected an integer, was 'x'
ConfigError: here: number: expected an integer, was 1.5
ConfigError: here: on: expected true or false, was 'maybe'
ConfigError: here: share: expected a value from 0 to 1, was 2
ConfigError: here: names[0]: expected an integer, was 'a'
""")


MADE = """
    from types import SimpleNamespace as Object

    from ktdeval.api import HarnessConfig, ScoreDefinition, TradingConfig

    def nothing(*given): ...

    TASK = dict(name="t", version="1", mask="bright", mode="m", tools=(), harness=HarnessConfig(max_tool_calls=1), windows={},
                default_windows=(), describe=nothing, trading=TradingConfig(), metrics=(), scene=nothing)
    SCORING = {**TASK, "target_task": None, "scores": {}, "samples": nothing, "summarise": nothing}
    METRIC = dict(name="x", formula="f", unit="u", range=(0, 1), better="higher", source="s", headline=False, compute=nothing)
    TOOL = dict(name="x", description="", parameters={}, function=nothing, arguments=None)
    REMOTE = dict(connect=nothing, reply=nothing, provider="p", name="n", endpoint="e", protocols=("native",), price_table=None,
                  settings=nothing, secrets=nothing)
"""


def maker_of(
    write_plugin: Callable[[str, str], str], kind: str, made: str, name: str = "x"
) -> Callable[[str], Any]:
    """What makes things of a kind, of which a plugin `made` offers one, an expression of `MADE`."""
    code = f"""
    {MADE}
    @hookimpl
    def ktdeval_{kind}():
        return [Spec({name!r}, lambda *given: {made}, "made to be checked")]
    """
    return partial(load_plugins([write_plugin("made", code)]).make, kind)


@on_each_row(
    "kind, made, message",
    (
        "metrics",
        'Object(name="x")',
        "metric x of plugin made: SimpleNamespace has no formula, no unit, no range",
    ),
    (
        "metrics",
        "METRIC | range=[0, 1]",
        (
            "range of SimpleNamespace must be a pair such as .* no bound, was list \\(see "
            "ktdeval.api.Metric\\)"
        ),
    ),
    ("metrics", "METRIC | name='y'", "SimpleNamespace is called 'y'; give it the name of its Spec"),
    (
        "models",
        "Object(answer=nothing)",
        "model x of plugin made: SimpleNamespace has no reply \\(see ktdeval.api.Model\\)",
    ),
    (
        "models",
        "Object(reply='yes')",
        "reply of SimpleNamespace must be a method of request, was 'yes'",
    ),
    (
        "models",
        "REMOTE - secrets",
        "SimpleNamespace has no secrets \\(see ktdeval.api.RemoteModel\\)",
    ),
    (
        "agents",
        "Object(decide=lambda observation, session: None)",
        (
            "decide of SimpleNamespace must be a method of observation, session, memory, was "
            "one of \\(observation, session\\)"
        ),
    ),
    ("agents", "object()", "agent x of plugin made: object has no decide"),
    (
        "tools",
        "TOOL | parameters=None",
        "parameters of SimpleNamespace must be a mapping, was NoneType",
    ),
    (
        "tasks",
        "TASK - scene",
        "task x of plugin made: SimpleNamespace has no scene \\(see ktdeval.api.Task\\)",
    ),
    (
        "tasks",
        "SCORING - summarise",
        "SimpleNamespace has no summarise \\(see ktdeval.api.ScoringTask\\)",
    ),
    ("tasks", "TASK | version=''", "version of SimpleNamespace must be text that is not empty"),
    (
        "tasks",
        "TASK | windows=[]",
        "windows of SimpleNamespace must be a mapping of Window, was list",
    ),
    (
        "tasks",
        "TASK | windows={'W1': 1}",
        "windows of SimpleNamespace must be a mapping of Window, was dict",
    ),
    (
        "tasks",
        "TASK | mask='blind'",
        (
            "mask of SimpleNamespace must be one of bright, stock_blind, date_blind, blinded, "
            "was 'blind'"
        ),
    ),
    (
        "tasks",
        "SCORING | harness={}",
        "harness of SimpleNamespace must be a HarnessConfig, was dict",
    ),
    (
        "tasks",
        "SCORING | scores={'x': 'y'}",
        "scores of SimpleNamespace must be a mapping of ScoreDefinition, was dict",
    ),
    (
        "tasks",
        "SCORING | scores={'x': ScoreDefinition('f', 'u', (1, 0), '', 's')}",
        "scores\\['x'\\].range of SimpleNamespace must be a pair such as",
    ),
    (
        "tasks",
        "SCORING | scores={'x': ScoreDefinition('f', 'u', (0, 1), 'up', 's')}",
        "scores\\['x'\\].better of SimpleNamespace must be one of higher, lower, .*, was 'up'",
    ),
    (
        "metrics",
        "METRIC | better='up'",
        "better of SimpleNamespace must be one of higher, lower, neither, was 'up'",
    ),
    (
        "metrics",
        "METRIC | headline='no'",
        "headline of SimpleNamespace must be true or false, was 'no'",
    ),
    ("data", "{}", "data provider x of plugin made: dict has no meta, no days, no codes"),
    ("runners", "None", "runner x of plugin made: NoneType has no run"),
    (
        "commands",
        "print",
        "command x of plugin made: expected a click.Command, was builtin_function_or_method",
    ),
)
def test_what_a_plugin_makes_is_checked_when_it_is_made(
    write_plugin: Callable[[str, str], str], kind: str, made: str, message: str
) -> None:
    """`PARTS | name=value` is an object with the parts of that kind, one of them changed; `PARTS -
    name` lacks one.
    """
    if match := re.fullmatch(r"([A-Z]+) \| (\w+)=(.*)", made):
        made = f"Object(**{{**{match[1]}, {match[2]!r}: {match[3]}}})"
    elif match := re.fullmatch(r"([A-Z]+) - (\w+)", made):
        made = (
            f"Object(**{{part: {match[1]}[part] for part in {match[1]} if part != {match[2]!r}}})"
        )

    with pytest.raises(PluginError, match=message):
        maker_of(write_plugin, kind, made)("x")


def test_a_maker_with_a_wrong_signature_gets_an_error_with_the_right_one(
    write_plugin: Callable[[str, str], str],
) -> None:
    code = (
        "@hookimpl\ndef ktdeval_agents():\n    return [Spec('x', lambda params: params, 'an"
        " agent')]\n"
    )
    message = (
        "agent x of plugin odd: make of its Spec: missing a required argument: 'params'; a Spec"
        " without params calls it without"
    )

    with pytest.raises(PluginError, match=message):
        load_plugins([write_plugin("odd", code)]).make("agents", "x")


@pytest.mark.parametrize("name", ["a/b", "..", "two words", "任务", "x" * 121])
@pytest.mark.parametrize(("kind", "parts"), [("tasks", "TASK"), ("metrics", "METRIC")])
def test_task_or_metric_name_unfit_for_a_file_is_refused_early(
    write_plugin: Callable[[str, str], str], kind: str, parts: str, name: str
) -> None:
    with pytest.raises(
        PluginError, match="of plugin made: the name can't be a file name; use up to 120 of A-Z"
    ):
        maker_of(write_plugin, kind, f"Object(**{{**{parts}, 'name': {name!r}}})", name)(name)
