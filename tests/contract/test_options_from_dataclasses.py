"""Options of commands are fields of dataclasses (`options_of`), not decorators of click."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

from paths import REPOSITORY
from source_trees import SOURCES, nodes_of, tree_of

#: What makes options of fields itself
MAKER = "ktdeval/cli/options.py"
#: Modules whose options are still decorators; a module leaves this list for good
LEFT = frozenset(
    [
        "ktdeval/cli/data.py",
        "plugins/ktdeval_agents/command.py",
        "plugins/ktdeval_agents/vote_command.py",
        "plugins/ktdeval_board/commands/begin.py",
        "plugins/ktdeval_board/commands/check.py",
        "plugins/ktdeval_board/commands/exchange.py",
        "plugins/ktdeval_board/commands/register.py",
        "plugins/ktdeval_board/commands/selftest.py",
        "plugins/ktdeval_board/commands/sign.py",
        "plugins/ktdeval_board/commands/site.py",
        "plugins/ktdeval_board/commands/submit.py",
        "plugins/ktdeval_board/options.py",
        "plugins/ktdeval_compare/commands.py",
        "plugins/ktdeval_compare/demo.py",
        "plugins/ktdeval_export/command.py",
        "plugins/ktdeval_gym/openenv_command.py",
        "plugins/ktdeval_gym/rl/command.py",
        "plugins/ktdeval_live/commands.py",
        "plugins/ktdeval_qlib/command.py",
        "plugins/ktdeval_rationale/command.py",
        "plugins/ktdeval_report/command.py",
        "plugins/ktdeval_view/command.py",
        "tasks/ktdeval_arena/ama_command.py",
        "tasks/ktdeval_arena/deepfund_command.py",
        "tasks/ktdeval_deanon/certificate/command.py",
        "tasks/ktdeval_investorbench/tables.py",
        "tasks/ktdeval_qfinzero/access/commands/data.py",
        "tasks/ktdeval_qfinzero/access/commands/explore.py",
        "tasks/ktdeval_qfinzero/access/commands/options.py",
        "tasks/ktdeval_qfinzero/access/commands/serve.py",
        "tasks/ktdeval_qfinzero/access/commands/wordings.py",
    ]
)
OPTIONS = ("option", "Option")


def option_lines(nodes: tuple[ast.AST, ...] | list[ast.AST]) -> list[int]:
    """The lines that call `click.option` or `click.Option`."""
    lines = []
    for node in nodes:
        if not isinstance(node, ast.Call) or not isinstance(node.func, ast.Attribute):
            continue

        name = node.func
        if name.attr in OPTIONS and isinstance(name.value, ast.Name) and name.value.id == "click":
            lines.append(node.lineno)

    return lines


def test_no_module_declares_options_by_decorators() -> None:
    found = {}
    for path in SOURCES:
        name = path.relative_to(REPOSITORY).as_posix()
        lines = option_lines(nodes_of(path))
        if lines and name not in LEFT and name != MAKER:
            found[name] = lines

    assert found == {}, "make them fields of a dataclass, for `options_of`"


@pytest.mark.parametrize("call", ["click.option('--out')", "click.Option(['--out'])"])
def test_both_ways_to_declare_one_are_seen(call: str, tmp_path: Path) -> None:
    path = tmp_path / "command.py"
    path.write_text(f"import click\n\nOUT = {call}\n")
    assert option_lines(list(ast.walk(tree_of(path)))) == [3]
