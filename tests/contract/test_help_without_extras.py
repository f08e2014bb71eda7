"""A plain install, without the packages of any extra, explains every command."""

from __future__ import annotations

import os
import subprocess
import sys
from importlib import metadata

import pytest
from packaging.requirements import Requirement

from paths import SUPPORT

SCRIPT = """
import sys
for name in sys.argv[1].split(","):
    sys.modules[name] = None  # cannot be imported
import click
from docs_commands import all_commands
for words, command in all_commands():
    print(click.Context(command, info_name=words).get_help().splitlines()[0])
"""


def needed_by(distribution: str, found: set[str]) -> set[str]:
    """Add a distribution and all that it needs without an extra to `found`, and return it."""
    name = distribution.lower().replace("_", "-")
    if name in found:
        return found

    found.add(name)
    try:
        requirements = metadata.requires(name) or ()
    except metadata.PackageNotFoundError:
        return found

    for text in requirements:
        requirement = Requirement(text)
        if requirement.marker is None or requirement.marker.evaluate({"extra": ""}):
            needed_by(requirement.name, found)

    return found


def modules_of_extras() -> list[str]:
    """Modules that are installed here and that a plain install may lack."""
    plain = needed_by("ktdeval", set())
    modules = []
    for module, distributions in metadata.packages_distributions().items():
        names = {name.lower().replace("_", "-") for name in distributions}
        is_own = module.startswith(("ktdeval", "_"))
        if module.isidentifier() and not is_own and not names & plain:
            modules.append(module)

    return sorted(modules)


@pytest.mark.slow
def test_every_command_prints_its_help_without_any_extra() -> None:
    blocked = modules_of_extras()
    assert {"openai", "cryptography", "uvicorn", "matplotlib", "pytest"} <= set(blocked)
    assert not {"numpy", "pandas", "click"} & set(blocked)

    done = subprocess.run(
        [sys.executable, "-c", SCRIPT, ",".join(blocked)],
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, "PYTHONPATH": str(SUPPORT / "docs")},
    )

    assert (done.stderr, done.returncode) == ("", 0)
    shown = done.stdout.splitlines()
    assert "Usage: ktdeval run [OPTIONS]" in shown
    assert len(shown) > 20
