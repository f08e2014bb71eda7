"""Executes a notebook's code cells in one namespace, without Jupyter: what they print, and what
their last line is.
"""

from __future__ import annotations

import ast
import contextlib
import io
import json
import os
import sys
import tempfile
from pathlib import Path
from typing import Any


def executed(path: Path) -> dict[str, Any]:
    """The notebook with the outputs that its cells have now, run in a new folder."""
    book: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    space: dict[str, Any] = {}

    with tempfile.TemporaryDirectory() as folder, contextlib.chdir(folder):
        for count, cell in enumerate(
            (cell for cell in book["cells"] if cell["cell_type"] == "code"), start=1
        ):
            cell |= {
                "execution_count": count,
                "outputs": _outputs("".join(cell["source"]), space, count),
            }

    return book


def _outputs(source: str, space: dict[str, Any], count: int) -> list[dict[str, Any]]:
    tree = ast.parse(source)
    last = tree.body.pop() if isinstance(tree.body[-1], ast.Expr) else None
    printed = io.StringIO()

    with contextlib.redirect_stdout(printed):
        exec(compile(tree, "<cell>", "exec"), space)
        value = (
            None
            if last is None
            else eval(compile(ast.Expression(last.value), "<cell>", "eval"), space)
        )

    outputs: list[dict[str, Any]] = []
    if printed.getvalue():
        outputs.append(
            {
                "output_type": "stream",
                "name": "stdout",
                "text": printed.getvalue().splitlines(keepends=True),
            }
        )

    if value is not None:
        shown = {"text/plain": repr(value).splitlines(keepends=True)}
        if hasattr(value, "_repr_html_"):
            shown["text/html"] = value._repr_html_().splitlines(keepends=True)

        outputs.append(
            {
                "output_type": "execute_result",
                "execution_count": count,
                "metadata": {},
                "data": shown,
            }
        )

    return outputs


# PYTHONPATH=tests python tests/support/pages/notebook.py examples/evaluate.ipynb, after a change that is meant
if __name__ == "__main__":
    os.environ["COLUMNS"] = "100"
    (file,) = map(Path, sys.argv[1:])
    file.write_text(
        json.dumps(executed(file.resolve()), indent=1, ensure_ascii=False, sort_keys=True) + "\n",
        encoding="utf-8",
    )
