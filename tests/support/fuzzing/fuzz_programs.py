"""Parsers of what comes out of a program's sandbox."""

from __future__ import annotations

from io import BytesIO

from support.fuzzing.fuzz_kit import Parser, of_file, scratch


def program_parsers() -> dict[str, Parser]:
    """Return the parsers of a sandbox's outcome, of its folder, as frames, and of profiles."""
    from ktdeval.harness import ToolSpec
    from ktdeval.harness.external.added_fields import without_added
    from ktdeval.stores import LocalStore
    from ktdeval_command.code_identity import imported_files
    from ktdeval_command.placeholders import StepValues
    from ktdeval_command.profiles import load_profile, prepare_start
    from ktdeval_command.sandboxes.program import read_outcome
    from ktdeval_command.sandboxes.workspace import FolderLimits, ProgramWorkspaces

    workspaces = ProgramWorkspaces(LocalStore(scratch() / "workspaces"), "w", FolderLimits())
    form = ToolSpec("look", "", {"properties": {"stock_id": {}}})
    offered = ToolSpec("mcp_look", "", {"properties": {"stock_id": {}, "wait": {}}})
    values = StepValues(
        bridge="http://127.0.0.1:1",
        bridge_token="b",
        tools_url="http://127.0.0.1:2/mcp",
        tools_token="t",
        tools_stdio=("python3", "-c", "x"),
        prompt="Decide.",
        model="a/b",
    )
    file = b'{"path":"a/b","kind":"file","size":2,"executable":true}\nhi'

    return {
        "program outcome": Parser(
            read_outcome,
            (b'{"kind":"exited","code":3,"detail":""}\n',),
            ("ktdeval_command/sandboxes/program.py",),
        ),
        "program folder": Parser(
            lambda data: workspaces.receive(BytesIO(data)),
            (
                b'{"path":"a","kind":"folder"}\n' + file + b'{"end":true}\n',
                b'{"path":"l","kind":"refused","why":"link"}\n{"end":false,"why":"full"}\n',
            ),
            ("ktdeval_command/sandboxes/workspace.py",),
        ),
        "program profile": Parser(
            of_file(lambda path: prepare_start(load_profile(path), ("agent",), values), "own.yaml"),
            (
                b"subcommand: run\narguments: ['{prompt}', '{tools_stdio}']\nstdin: x\n",
                b"environment: {A: '{bridge}'}\nfiles: {a/b.json: {c: ['{tools_stdio}', 1]}}\n",
                b"programs: [x]\nreadable: [/opt]\nfiles: {a.txt: '{task_file} {folder}'}\n",
            ),
            ("ktdeval_command/profiles.py",),
        ),
        "code of an agent": Parser(
            of_file(imported_files, "agent.py"),
            (
                b"import os\nfrom . import tools\nfrom .. import a.b as c\n",
                b"def f(:\n",
                b"#!/bin/sh\n",
            ),
            ("ktdeval_command/code_identity.py",),
        ),
        "arguments for a program": Parser(
            lambda data: without_added(data.decode("utf-8", "replace"), [offered], form),
            (b'{"wait": true, "stock_id": "S1", "n": [1, 2.5, null]}',),
            ("ktdeval/harness/external/added_fields.py",),
        ),
    }
