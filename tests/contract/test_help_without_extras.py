"""A plain install, without the packages of any extra, explains every command, and prints what the
README's estimate of costs promises.
"""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import sys
from importlib import metadata

import pytest
from packaging.requirements import Requirement

from support.paths import REPOSITORY, TESTS

pytestmark = pytest.mark.slow

WITHOUT = """
import sys
for name in sys.argv[1].split(","):
    sys.modules[name] = None  # cannot be imported
"""
HELP = f"""{WITHOUT}
import click
from support.docs.docs_commands import all_commands
for words, command in all_commands():
    print(click.Context(command, info_name=words).get_help().splitlines()[0])
"""
RUN = f"""{WITHOUT}
from ktdeval.cli.main import main
del sys.argv[1]
sys.exit(main())
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


def python(script: str, *arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-c", script, *arguments],
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, "PYTHONPATH": str(TESTS)},
    )


def test_every_command_prints_its_help_without_any_extra() -> None:
    blocked = modules_of_extras()
    assert {"openai", "cryptography", "uvicorn", "vl_convert", "pytest"} <= set(blocked)
    assert not {"numpy", "pandas", "click"} & set(blocked)

    done = python(HELP, ",".join(blocked))

    assert (done.stderr, done.returncode) == ("", 0)
    shown = done.stdout.splitlines()
    assert "Usage: ktdeval run [OPTIONS]" in shown
    assert len(shown) > 20


@pytest.mark.parametrize("readme", ["README.md", "README.zh-CN.md"])
def test_the_plan_of_the_readme_states_a_cost_without_any_extra(readme: str) -> None:
    text = (REPOSITORY / readme).read_text(encoding="utf-8")
    [command] = re.findall(r"`ktdeval (plan [^`]+)`", text)

    done = python(RUN, ",".join(modules_of_extras()), *shlex.split(command))

    assert (done.stderr, done.returncode) == ("", 0)
    [cost] = [line for line in done.stdout.splitlines() if "cost, USD" in line]
    assert re.fullmatch(r" *cost, USD( +[0-9][0-9,.]*){3}", cost)
