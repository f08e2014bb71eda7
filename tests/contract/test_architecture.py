"""The rules of the house, as code: rings, budgets, documented surfaces, a frozen public API."""

from __future__ import annotations

import ast
import csv
import re
import subprocess
from collections.abc import Callable, Mapping
from importlib import resources
from pathlib import Path

import click
import pytest

from ktdeval import api, hookspecs
from ktdeval.cli.groups import load_command
from ktdeval.cli.main import cli
from ktdeval.registry import code_hashes, load_plugins
from ktdeval.testing import not_empty
from ktdeval_raw_markets.assembly import REPAIRS
from support.paths import REPOSITORY
from support.source_trees import (
    SOURCES,
    functions_in,
    imports_in,
    is_kit,
    nodes_of,
    parts_of,
    tree_of,
)

ROOT = REPOSITORY
MANIFESTS = {
    path
    for path in SOURCES
    if path.name == "__init__.py" and path.relative_to(ROOT).parts[0] in ("tasks", "plugins")
}

MAX_MODULE_LINES = 600
MAX_STATEMENTS = 40  # of a function; lines are not counted: they cost a reader nothing
MAX_PARAMETERS = 6

# Where foreign code is called, which may raise anything: a plugin, and an episode; and where a
# server answers whatever came in.
BROAD_EXCEPT_ALLOWED = {
    "ktdeval/registry/plugin_boundary.py",
    "ktdeval/runner/episodes/episode_execution.py",
    "tasks/ktdeval_qfinzero/access/guarded_dispatch.py",
}

API = """
Agent AgentTraits AnswerRecord AssetArg AssetRef Bounds CallParams ConfigError DataError DayArg DayRef Decision Environment
EpisodeSpec Event HarnessConfig Interval KtdevalError Ledger Length Lens MarketSnapshot Message Metric MetricValue
Model ModelError ModelRequest ModelTraits Observation Order Payload PluginError Price QATask RawMarket Refusal RemoteModel Reply
Sample SampleSet Scene Score ScoreDefinition ScoringTask Shares Spec StepSession Task TaskTraits Tool ToolCall ToolSpec
TradingConfig UsageError Window assemble derive_seed hookimpl metric option task_specs tool
"""
KITS = {parts_of(path)[0] for path in SOURCES if is_kit(path)}
"""Packages under `plugins/kits` that register nothing, and that plugins may import."""


def name_of(path: Path) -> str:
    return str(path.relative_to(ROOT))


# ---- sizes


def test_modules_and_functions_are_small() -> None:
    too_large = []
    for path in SOURCES:
        if (lines := len(path.read_text().splitlines())) > MAX_MODULE_LINES:
            too_large.append(f"{name_of(path)}: {lines} lines")

        for function in functions_in(path):
            where = f"{name_of(path)}:{function.lineno} {function.name}"
            statements = sum(isinstance(node, ast.stmt) for node in ast.walk(function)) - 1
            if statements > MAX_STATEMENTS:
                too_large.append(f"{where}: {statements} statements")

            given = [*function.args.posonlyargs, *function.args.args, *function.args.kwonlyargs]
            count = len([argument for argument in given if argument.arg not in ("self", "cls")])
            # Commands take one parameter for each option; click calls them, nobody else does.
            if count > MAX_PARAMETERS and not any(
                "command" in ast.unparse(decorator) for decorator in function.decorator_list
            ):
                too_large.append(f"{where}: {count} parameters, use a record")

    assert not too_large, "\n".join(too_large)


# ---- errors


def test_only_boundaries_catch_everything() -> None:
    broad = []
    for path in SOURCES:
        for node in nodes_of(path):
            if isinstance(node, ast.ExceptHandler):
                caught = ast.walk(node.type) if node.type else [ast.Name("BaseException")]
                names = {name.id for name in caught if isinstance(name, ast.Name)}
                passes_on = isinstance(node.body[-1], ast.Raise) and node.body[-1].exc is None
                if (
                    names & {"Exception", "BaseException"}
                    and not passes_on
                    and name_of(path) not in BROAD_EXCEPT_ALLOWED
                ):
                    broad.append(f"{name_of(path)}:{node.lineno}")

    assert not broad, f"catch what you expect: {broad}"


@pytest.mark.slow
def test_nothing_is_pickled_or_evaluated_or_uses_clocks_or_global_chance() -> None:
    impure = re.compile(
        r"\bdatetime\.now|\bdate\.today|\btime\.time\(|np\.random\.(seed|rand|normal)\b|^import"
        r" random",
        re.MULTILINE,
    )

    for path in SOURCES:
        assert {"pickle", "marshal", "shelve", "dill"} & set(imports_in(nodes_of(path))) == set(), (
            name_of(path)
        )
        called = {
            node.func.id
            for node in nodes_of(path)
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Name)
        }
        assert called & {"eval", "exec", "compile", "__import__"} == set(), name_of(path)
        if path.relative_to(ROOT).parts[1] in (
            "market",
            "masking",
            "observation",
            "trading",
            "harness",
            "attribution",
            "stats",
        ):
            assert impure.search(path.read_text()) is None, name_of(path)


# ---- rings: the contracts of pyproject.toml are checked by import-linter, in make lint; here what
# it cannot say


def test_plugins_import_public_names_only_and_ktdeval_no_plugin() -> None:
    """From a package of ktdeval its `__all__`, never a module inside; of other plugins nothing but
    the kits. ktdeval itself imports no kit either.
    """
    wrong = []

    for path in SOURCES:
        own = parts_of(path)[0]
        known = {own} if own == "ktdeval" else {own, *KITS}
        for module in imports_in(nodes_of(path)):
            package, *inside = module.split(".")
            if package == "ktdeval" != own and len(inside) > 1:
                wrong.append(f"{name_of(path)}: {module}")
            elif package.startswith("ktdeval_") and package not in known:
                wrong.append(f"{name_of(path)}: {module} is a plugin's")

    assert not wrong, "\n".join(wrong)


def test_only_the_front_of_ktdeval_names_a_kit() -> None:
    """Names of a package are listed in its stub and imported when they are used."""
    fronts = {}
    for stub in not_empty([*sorted((ROOT / "ktdeval").rglob("*.pyi"))]):
        tops = {
            module.split(".")[0] for module in imports_in(ast.walk(ast.parse(stub.read_text())))
        }
        if tops - {"ktdeval"}:
            fronts[name_of(stub)] = tops - {"ktdeval"}

    assert fronts == {"ktdeval/api.pyi": {"ktdeval_raw_markets"}}


@pytest.mark.slow
def test_own_code_is_imported_late_only_by_manifests_and_commands() -> None:
    """Elsewhere an import inside a function means that something lies in the wrong layer."""
    # `--help` is held to a time: it imports no YAML, no msgspec, no task file and no maker of near
    # matches.
    allowed = {
        "plugins/ktdeval_audit/command.py",
        "plugins/ktdeval_compare/commands.py",
        "plugins/ktdeval_data/check_command.py",
        "plugins/ktdeval_data/command.py",
        "plugins/ktdeval_data/make_command.py",
        "plugins/ktdeval_compare/demo.py",
        "plugins/ktdeval_compare/forks/fork_command.py",
        "plugins/ktdeval_gym/rl/command.py",
        "plugins/ktdeval_models/planted/command.py",
        "plugins/ktdeval_qlib/command.py",
        "plugins/ktdeval_report/command.py",
        "plugins/ktdeval_compare/papers/figure_command.py",
        "plugins/ktdeval_compare/plans/power_command.py",
        "plugins/ktdeval_compare/papers/table_command.py",
        "plugins/ktdeval_compare/transplants/transplant_command.py",
        "plugins/ktdeval_judge/command.py",
        "plugins/ktdeval_published/command.py",
        "tasks/ktdeval_deanon/certificate/command.py",
        "ktdeval/registry/plugin_registry.py",
        "ktdeval/runner/plans/config.py",
        "ktdeval/testing/fixtures.py",  # pytest loads it in anybody's tests
        "ktdeval/values/options/config_options.py",
        "ktdeval/values/lazy.py",
    }
    late = {}

    for path in not_empty([*SOURCES, *sorted((ROOT / "examples").rglob("src/**/*.py"))]):
        if (
            path in MANIFESTS
            or path.parent.name == "ktdeval_example"
            or path.is_relative_to(ROOT / "ktdeval" / "cli")
            or name_of(path) in allowed
        ):
            continue

        for function in functions_in(path):
            own = [
                module
                for module in imports_in(ast.walk(function))
                if module.split(".")[0].startswith("ktdeval")
            ]
            late[f"{name_of(path)}: {function.name}"] = own

    assert len(late) > 1000
    assert {function: own for function, own in late.items() if own} == {}


def whole_name(module: str) -> str:
    return module


def package_of(module: str) -> str:
    return ".".join(module.split(".")[:2])


@pytest.mark.slow
@pytest.mark.parametrize("part_of", [whole_name, package_of])
def test_there_are_no_circles_of_modules_and_of_packages(part_of: Callable[[str], str]) -> None:
    """Imports of types count: who reads an annotation must know the type, too. So do imports inside
    functions. A name of a package's list counts as the module that it comes from.
    """
    homes = {module_name(path): homes_of(path) for path in SOURCES}
    graph: dict[str, set[str]] = {}

    for path in SOURCES:
        part = part_of(module_name(path))
        modules = imports_in(nodes_of(path), names=True)
        found = {part_of(home_of(module, homes)) for module in modules}
        graph.setdefault(part, set()).update(found - {part})

    graph = {part: targets & graph.keys() for part, targets in graph.items()}

    assert len(graph) > 40
    assert circles_in(graph) == set()


def homes_of(path: Path) -> dict[str, str]:
    """Module of each name that a package lists in its `__init__.pyi`."""
    stub = path.with_name("__init__.pyi")
    if path.name != "__init__.py" or not stub.exists():
        return {}

    return {
        alias.asname or alias.name: node.module or ""
        for node in ast.parse(stub.read_text()).body
        if isinstance(node, ast.ImportFrom)
        for alias in node.names
    }


def home_of(module: str, homes: Mapping[str, Mapping[str, str]]) -> str:
    """Module that an imported name comes from, `ktdeval.values.Value` for example."""
    package, _, name = module.rpartition(".")
    return homes.get(package, {}).get(name, module)


def circles_in(graph: Mapping[str, set[str]]) -> set[str]:
    """Parts that are on a circle, or between two."""
    left = dict(graph)
    while True:
        reached = set().union(*left.values()) if left else set()
        outside = {part for part, targets in left.items() if not targets or part not in reached}
        if not outside:
            return set(left)

        left = {part: targets - outside for part, targets in left.items() if part not in outside}


def module_name(path: Path) -> str:
    return ".".join(parts_of(path.with_suffix(""))).removesuffix(".__init__")


# ---- documented surfaces


def test_every_hook_is_documented_in_the_guide_and_all_fit_one_screen() -> None:
    guide = (ROOT / "docs/plugins.md").read_text()
    for hook, text in {"event": hookspecs.ktdeval_event.__doc__, **hookspecs.HOOKS}.items():
        assert text
        assert f"`ktdeval_{hook}`" in guide

    assert len((ROOT / "ktdeval/hookspecs.py").read_text().splitlines()) <= 90


@pytest.mark.parametrize("name", list(cli.commands))
def test_every_command_and_option_has_help(name: str) -> None:
    def check(command: click.Command, path: str) -> None:
        assert command.help, path

        for parameter in command.params:
            assert not isinstance(parameter, click.Option) or parameter.help, (
                f"{path} {parameter.opts}"
            )

        if isinstance(command, click.Group) and type(command) is click.Group:
            for child, inner in command.commands.items():
                check(inner, f"{path} {child}")

    check(load_command(cli.commands[name]), name)


def test_modules_and_public_names_have_docstrings() -> None:
    without = []
    for path in SOURCES:
        tree = tree_of(path)
        if tree.body and not ast.get_docstring(tree):
            without.append(name_of(path))

        definitions = [n for n in tree.body if isinstance(n, (ast.FunctionDef, ast.ClassDef))]
        for node in definitions:
            if not node.name.startswith("_") and not ast.get_docstring(node):
                without.append(f"{name_of(path)}: {node.name}")

    assert without == []


def test_every_kind_of_finding_and_every_repair_is_documented() -> None:
    text = (ROOT / "docs/data.md").read_text(encoding="utf-8")
    with (resources.files("ktdeval_raw_markets.checks") / "findings.csv").open(
        encoding="utf-8"
    ) as stream:
        kinds = {row["rule"] for row in csv.DictReader(stream)}

    assert len(kinds) > 20
    assert {kind for kind in kinds if f"`{kind}`" not in text} == set()

    rows = re.findall(r"^\| `([a-z_]+)` \| \w", text, flags=re.MULTILINE)
    assert list(REPAIRS) == [row for row in rows if row in REPAIRS]


def test_every_plugin_has_an_entry_point_and_is_linted() -> None:
    """A package that pyproject.toml forgets would be in the wheel and never be found."""
    text = (ROOT / "pyproject.toml").read_text()
    folders = []

    for root in ("tasks", "plugins", "plugins/kits"):
        folders += [path.parent.name for path in sorted((ROOT / root).glob("*/__init__.py"))]

    for name in not_empty(folders):
        has_entry_point = f'= "{name}"' in text
        assert has_entry_point == (name not in KITS), f"{name}: wrong entry point"
        assert name in text.partition("root_packages")[2], f"{name} is not linted for imports"


def test_the_recorded_hashes_of_code_cover_each_kit() -> None:
    """Workers of a grid compare them: a kit that is left out could differ unseen."""
    assert set(not_empty(KITS)) <= code_hashes(load_plugins()).keys()


# ---- programs


def test_git_is_called_in_one_place() -> None:
    """Anywhere else a repository of a stranger could run its programs."""
    callers = []
    for path in [*SOURCES, *(REPOSITORY / "benchmarks").rglob("*.py")]:
        if re.search(r"""["']git["'],""", path.read_text("utf-8")):
            callers.append(path.relative_to(REPOSITORY).as_posix())

    assert callers == ["ktdeval/stores/git_commands.py"]


# ---- the public API


def test_no_file_of_the_package_is_ignored_by_git() -> None:
    """The wheel would lack it, since it is built without what git ignores."""
    if not (REPOSITORY / ".git").exists():
        pytest.skip("not a checkout")

    listing = ("git", "ls-files", "--ignored", "--cached", "--exclude-standard")
    words = (*listing, "ktdeval", "tasks", "plugins")
    done = subprocess.run(words, cwd=REPOSITORY, capture_output=True, text=True, check=True)

    assert done.stdout == ""


def test_the_api_is_frozen() -> None:
    """Adding a name is a decision, removing one breaks somebody's plugin: change this list
    knowingly.
    """
    assert api.__all__ == API.split()

    with pytest.raises(
        AttributeError, match="has no name 'MarketSnapsht'; did you mean 'MarketSnapshot'"
    ):
        api.MarketSnapsht  # noqa: B018
