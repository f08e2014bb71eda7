"""The rules of the house, as code: rings, budgets, documented surfaces, a frozen public API."""

from __future__ import annotations

import ast
import dataclasses
import inspect
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import click
import pytest

from ktdeval import api, hookspecs
from ktdeval.cli.main import COMMANDS, _import_command
from ktdeval.config import RunConfig
from ktdeval.harness.config import HarnessConfig
from ktdeval.hookspecs import Spec
from ktdeval.registry import KINDS, load_plugins
from ktdeval.trading.config import TradingConfig

ROOT = Path(__file__).resolve().parents[1]
SOURCE_ROOTS = ("ktdeval", "tasks", "plugins")
SOURCES = sorted(path for root in SOURCE_ROOTS for path in (ROOT / root).rglob("*.py"))
MANIFESTS = {path for path in SOURCES if path.name == "__init__.py" and path.relative_to(ROOT).parts[0] in ("tasks", "plugins")}

MAX_MODULE_LINES = 400
MAX_FUNCTION_LINES = 60
MAX_PARAMETERS = 6

# Where foreign code is called, which may raise anything: a plugin, and an episode.
BROAD_EXCEPT_ALLOWED = {"ktdeval/plugin_import.py", "ktdeval/runner/execute.py"}

API = """
Account Action Agent AnswerRecord AssetArg AssetName AssetRef Attribution Bench Board BoolArray Bootstrap Bounds
CallDelayed CallParams CardError Components ConfidenceSet ConfigError DAILY_LIMIT_PCT DIAGNOSTICS DataError DayArg
DayArray DayRef Decision Desk Encoder Envelope EnvelopeSettings EpisodeFailed EpisodeFailure EpisodeFinished
EpisodeOutcome EpisodeSpec EpisodeStarted Event Exact Exam FACTORS FactorDefinition FactorTable Finding FinishReason
Fit FloatArray Forecast HarnessConfig IndexLevel Interval InvariantError JsonValue KtdevalError LEAKS_REMOVED_BY
LEAK_CATEGORIES LeakError Ledger Length Lens LookAheadError MASK_FACTORS MASK_KINDS MODE_PIECES MODE_PRECEDENCE
MarketSnapshot MarketView MaskConfig Mention Message Metric MetricValue Model ModelError ModelRequest NgramEncoder
Observation Order Outcome PANEL_FAMILIES Payload PluginError Plugins Position Price Provenance ProviderError Range
RankNull RationaleLinter RawMarket Refusal RemoteModel Reply Resampling RuleSet RunConfig RunFolder RunResult Runner
Sample SampleFinished Scene Score ScoreDefinition ScoringTask SectorRef Shares SharpeDifference Shift Side SignFlip
SignedRank SimilarityLinter SnapshotMeta Spec Spread StepFinished StepRecord StoreError Subject Submission Tape Task
Ties Tool ToolCall ToolProtocol ToolResult ToolSpec TradingConfig TradingDay Trials Usage UsageError Verification
VerificationError Window assemble attribute attribution_problem benchmark_levels benjamini_hochberg blocks_of
board_of brier_terms build call clopper_pearson_upper cohort_exposures compare_ranks content_hash correlated_null
count_trials deflated_sharpe_ratio derive_seed derived_fields describe_any dumps_canonical dumps_pretty
effective_count episode_intervals episode_resampling estimate_spread evaluate execute factor_values file_sha256
fit_factors hodges_lehmann holm hookimpl json_tool judged_orders load_card load_ledger load_plugins load_snapshot
load_yaml loads_strict mask_contrasts mean_with_interval model_confidence_set near_matches newey_west_mean
normal_effect open_recorded_snapshot open_snapshot option order_averaged overlap_correlation pack_lines pairs_needed
panel_metric parse_card parse_code poisson_binomial random_envelope redact_secrets reliability_points render_json
rescore save_snapshot sessions sha256_hex sharpe_difference sign_flip signed_rank smallest_p standardise t_of_mean
task_specs tie_groups to_mapping tool validate_card variance_components verify_card wilcoxon_effect wilcoxon_power
wilson window_rows window_sd_of windows_needed with_id write_atomic
"""


def name_of(path: Path) -> str:
    return str(path.relative_to(ROOT))


def tree_of(path: Path) -> ast.Module:
    return ast.parse(path.read_text(), filename=str(path))


def functions_in(tree: ast.AST) -> Iterator[ast.FunctionDef | ast.AsyncFunctionDef]:
    return (node for node in ast.walk(tree) if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)))


def imports_in(tree: ast.AST) -> Iterator[str]:
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and node.module:
            yield node.module
        elif isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)


# ---- sizes


@pytest.mark.parametrize("path", SOURCES, ids=name_of)
def test_modules_and_functions_are_small(path: Path) -> None:
    assert len(path.read_text().splitlines()) <= MAX_MODULE_LINES
    for function in functions_in(tree_of(path)):
        assert function.end_lineno is not None
        assert function.end_lineno - function.lineno < MAX_FUNCTION_LINES, function.name
        arguments = function.args
        given = [*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs]
        count = len([argument for argument in given if argument.arg not in ("self", "cls")])
        # Commands take one parameter for each option; click calls them, nobody else does.
        if not is_click_command(function):
            assert count <= MAX_PARAMETERS, f"{function.name} takes {count} parameters: use a record"


def is_click_command(function: ast.FunctionDef | ast.AsyncFunctionDef) -> bool:
    return any("command" in ast.unparse(decorator) for decorator in function.decorator_list)


# ---- errors


@pytest.mark.parametrize("path", SOURCES, ids=name_of)
def test_only_boundaries_catch_everything(path: Path) -> None:
    for node in ast.walk(tree_of(path)):
        if isinstance(node, ast.ExceptHandler):
            names = (
                {caught.id for caught in ast.walk(node.type) if isinstance(caught, ast.Name)} if node.type else {"BaseException"}
            )
            passes_on = isinstance(node.body[-1], ast.Raise) and node.body[-1].exc is None
            broad = bool(names & {"Exception", "BaseException"}) and not passes_on
            assert not broad or name_of(path) in BROAD_EXCEPT_ALLOWED, f"line {node.lineno}: catch what you expect"


@pytest.mark.parametrize("path", SOURCES, ids=name_of)
def test_nothing_is_pickled_or_evaluated(path: Path) -> None:
    tree = tree_of(path)
    assert {"pickle", "marshal", "shelve", "dill"} & set(imports_in(tree)) == set()
    called = {node.func.id for node in ast.walk(tree) if isinstance(node, ast.Call) and isinstance(node.func, ast.Name)}
    assert called & {"eval", "exec", "compile", "__import__"} == set()


@pytest.mark.parametrize("path", [path for path in SOURCES if name_of(path).split("/")[1] in (
    "market", "masking", "trading", "harness", "attribution", "stats")], ids=name_of)  # fmt: skip
def test_the_library_has_no_clock_and_no_global_chance(path: Path) -> None:
    text = path.read_text()
    assert (
        re.search(r"\bdatetime\.now|\bdate\.today|\btime\.time\(|np\.random\.(seed|rand|normal)\b|^import random", text, re.M)
        is None
    )


# ---- rings


def test_imports_go_inwards_only() -> None:
    """The contracts of pyproject.toml, checked by import-linter."""
    pytest.importorskip("importlinter")
    script = "from importlinter.cli import lint_imports_command; lint_imports_command()"
    done = subprocess.run([sys.executable, "-c", script], cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout[-3000:]


@pytest.mark.parametrize("path", [path for path in SOURCES if not name_of(path).startswith("ktdeval/")], ids=name_of)
def test_plugins_import_only_the_api_and_themselves(path: Path) -> None:
    own = path.relative_to(ROOT).parts[1]
    for module in imports_in(tree_of(path)):
        if module.split(".")[0].startswith("ktdeval"):
            assert module == "ktdeval.api" or module.split(".")[0] == own, f"{module}: plugins import ktdeval.api only"


@pytest.mark.parametrize("path", [*SOURCES, *sorted((ROOT / "examples").rglob("src/**/*.py"))], ids=name_of)
def test_own_code_is_imported_late_only_by_manifests_and_commands(path: Path) -> None:
    """Elsewhere an import inside a function means that something lies in the wrong layer."""
    if path in MANIFESTS or path.parent.name in ("cli", "ktdeval_example"):
        return
    # `--help` is held to a time: it imports no YAML, no task file and no maker of near matches.
    allowed = {"ktdeval/registry.py", "ktdeval/api.py"}
    for function in functions_in(tree_of(path)):
        late = [module for module in imports_in(function) if module.split(".")[0].startswith("ktdeval")]
        assert not late or name_of(path) in allowed, f"{function.name} imports {late}"


def test_there_are_no_import_cycles() -> None:
    """Modules of ktdeval, at run time: what stands under TYPE_CHECKING does not count."""
    graph = {module_name(path): set(run_time_imports(path)) for path in SOURCES}
    graph = {module: {target for target in targets if target in graph} for module, targets in graph.items()}
    while leaves := [module for module, targets in graph.items() if not targets]:
        for leaf in leaves:
            del graph[leaf]
        graph = {module: targets - set(leaves) for module, targets in graph.items()}
    roots = set.union(set(), *graph.values())
    assert not roots, f"modules on or behind a cycle: {sorted(graph)}"


def module_name(path: Path) -> str:
    parts = path.relative_to(ROOT).with_suffix("").parts
    parts = parts if parts[0] == "ktdeval" else parts[1:]
    return ".".join(parts).removesuffix(".__init__")


def run_time_imports(path: Path) -> Iterator[str]:
    def visit(body: list[ast.stmt]) -> Iterator[str]:
        for node in body:
            if isinstance(node, ast.If) and "TYPE_CHECKING" in ast.unparse(node.test):
                continue
            if isinstance(node, ast.ImportFrom) and node.module:
                yield node.module
                yield from (f"{node.module}.{alias.name}" for alias in node.names)
            elif isinstance(node, ast.Import):
                yield from (alias.name for alias in node.names)

    return visit(tree_of(path).body)


# ---- documented surfaces


@pytest.mark.parametrize("hook", [name for name in vars(hookspecs) if name.startswith("ktdeval_")])
def test_every_hook_is_documented_and_in_the_guide(hook: str) -> None:
    assert inspect.getdoc(getattr(hookspecs, hook))
    assert f"`{hook}`" in (ROOT / "CONTRIBUTING.md").read_text()


def test_the_hook_surface_fits_one_screen() -> None:
    assert len((ROOT / "ktdeval/hookspecs.py").read_text().splitlines()) <= 100


def test_every_field_of_a_spec_is_documented() -> None:
    assert {field.name for field in dataclasses.fields(Spec)} - {"extra"} <= set(
        re.findall(r"^ +(\w+): ", Spec.__doc__ or "", re.M)
    )


@pytest.mark.parametrize("config", [RunConfig, TradingConfig, HarnessConfig], ids=lambda config: config.__name__)
def test_every_config_field_has_help(config: type) -> None:
    for field in dataclasses.fields(config):
        assert len(field.metadata["help"]) > 5, field.name


def test_every_parameter_of_a_plugin_has_help_and_every_spec_a_summary() -> None:
    plugins = load_plugins()
    for kind in KINDS:
        for spec in plugins.specs(kind).values():
            assert spec.summary, spec.name
            for field in dataclasses.fields(spec.params) if spec.params else ():
                assert field.metadata.get("help"), f"{spec.name}: {field.name}"


@pytest.mark.parametrize("name", list(COMMANDS))
def test_every_command_and_option_has_help(name: str) -> None:
    def check(command: click.Command, path: str) -> None:
        assert command.help, path
        for parameter in command.params:
            assert not isinstance(parameter, click.Option) or parameter.help, f"{path} {parameter.opts}"
        if isinstance(command, click.Group) and type(command) is click.Group:
            for child, inner in command.commands.items():
                check(inner, f"{path} {child}")

    check(_import_command(name), name)


@pytest.mark.parametrize("path", SOURCES, ids=name_of)
def test_modules_and_public_names_have_docstrings(path: Path) -> None:
    tree = tree_of(path)
    empty = not tree.body
    assert empty or ast.get_docstring(tree), "the module says nothing of itself"
    for node in tree.body:
        if isinstance(node, (ast.FunctionDef, ast.ClassDef)) and not node.name.startswith("_"):
            assert ast.get_docstring(node), node.name


def test_plugins_of_the_wheel_are_those_of_the_source_tree() -> None:
    """A package that pyproject.toml forgets would work here and be missing from the wheel."""
    text = (ROOT / "pyproject.toml").read_text()
    for root in ("tasks", "plugins"):
        for folder in sorted(path for path in (ROOT / root).iterdir() if (path / "__init__.py").is_file()):
            assert f'"{root}/{folder.name}"' in text, f"{folder.name} is not in the wheel's packages"
            assert f'= "{folder.name}"' in text, f"{folder.name} has no entry point"
            assert folder.name in text.partition("root_packages")[2], f"{folder.name} is not linted for imports"


# ---- the public API


def test_the_api_is_frozen() -> None:
    """Adding a name is a decision, removing one breaks somebody's plugin: change this list knowingly."""
    assert api.__all__ == API.split()


def test_every_name_of_the_api_resolves_and_is_declared_to_type_checkers() -> None:
    for name in api.__all__:
        assert getattr(api, name) is not None
    tree = tree_of(ROOT / "ktdeval/api.py")
    guarded = next(node for node in tree.body if isinstance(node, ast.If))
    declared = {alias.asname: node.module for node in guarded.body if isinstance(node, ast.ImportFrom) for alias in node.names}
    assert declared == api._MODULE_OF


def test_an_unknown_name_of_the_api_suggests_near_ones() -> None:
    with pytest.raises(AttributeError, match="has no name 'MarketSnapsht'; did you mean 'MarketSnapshot'"):
        api.MarketSnapsht  # noqa: B018
