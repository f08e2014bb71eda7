"""Plugins that are wrong on purpose: each is refused for its reason, with file and line."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from ktdeval.testing import ConformanceError, check_parts, check_plugin, on_each_row
from support.advertised import modules_forgotten

HEADER = """\
from dataclasses import dataclass
from ktdeval.api import (
    AgentTraits, Decision, ModelError, ModelTraits, QATask, Reply, Spec, hookimpl, metric, option,
    task_specs, tool
)
"""
TASK_FILE = """\
family: wrong
version: "1"
variants:
  wrong_task:
    extends: blinded_open_research
    summary: with a tool that raises
    tools: [wrong_tool]
"""
HERE = "# here"


@pytest.fixture
def folder(tmp_path: Path) -> Iterator[Path]:
    with modules_forgotten(tmp_path):
        yield tmp_path


def write_plugin(folder: Path, code: str) -> Path:
    path = folder / "wrong_plugin.py"
    path.write_text(HEADER + code)
    path.with_suffix(".yaml").write_text(TASK_FILE)
    return path


def marked_line(path: Path) -> int:
    lines = path.read_text().splitlines()
    return next((number for number, line in enumerate(lines, 1) if HERE in line), 1)


@pytest.mark.sampled(20)
# Each plugin is wrong in one way. `# here` marks the line that the finding must name.
@on_each_row(
    "name, code, part, reason, fix",
    (
        "does not compile",
        "x = (  # here\n",
        "manifest",
        "SyntaxError: '(' was never closed",
        "correct that line",
    ),
    (
        "fails at import",
        "x = 1 / 0  # here\n",
        "manifest",
        "ZeroDivisionError: division by zero",
        "correct that line",
    ),
    (
        "imports a name that is not there",
        "from ktdeval.api import Modell  # here\n",
        "manifest",
        "cannot import name 'Modell' from 'ktdeval.api'",
        "did you mean 'Model'",
    ),
    (
        "imports a module of its own that is not there",
        "import wrong_helpers  # here\n",
        "manifest",
        "No module named 'wrong_helpers'",
        "correct that line",
    ),
    (
        "ends the process at import",
        ("import sys\nsys.exit(3)  # here\n"),
        "manifest",
        "SystemExit: 3",
        "correct that line",
    ),
    (
        "misspells a hook",
        ("def ktdeval_modles():  # here\n    return []\n"),
        "manifest",
        "there is no hook 'ktdeval_modles'",
        "did you mean 'ktdeval_models'",
    ),
    (
        "forgets hookimpl",
        ("def ktdeval_models():  # here\n    return []\n"),
        "manifest",
        "ktdeval_models is not marked as a hook",
        "put @hookimpl (from ktdeval.api) above it",
    ),
    (
        "a hook with arguments",
        ("@hookimpl  # here\ndef ktdeval_models(registry):\n    return []\n"),
        "manifest",
        "ktdeval_models",
        "docs/plugins.md shows code",
    ),
    (
        "has no hook",
        "x = 1\n",
        "manifest",
        "offers nothing: it has no hook",
        "give it one, such as ktdeval_tasks",
    ),
    (
        "a hook that raises",
        ("@hookimpl\ndef ktdeval_models():\n    return {}['x']  # here\n"),
        "ktdeval_models",
        "KeyError: 'x'",
        "correct that line",
    ),
    (
        "a hook that returns no list",
        ("@hookimpl  # here\ndef ktdeval_models():\n    return 'x'\n"),
        "ktdeval_models",
        "returned str, expected a list of Spec",
        "docs/plugins.md shows code",
    ),
    (
        "a task without its spec",
        (
            "@hookimpl  # here\n"
            "def ktdeval_tasks():\n"
            "    return [QATask([{'question': '?'}], print, name='q')]\n"
        ),
        "ktdeval_tasks",
        "returned a list with QATask in it, expected Spec only",
        "give its .spec()",
    ),
    (
        "a name in capitals",
        (
            "@hookimpl\n"
            "def ktdeval_models():\n"
            "    return [Spec('Wrong/One', Quiet, 'x')]\n"
            "class Quiet:  # here\n"
            "    def __init__(self, name): pass\n"
            "    def reply(self, request): return Reply('x')\n"
        ),
        "model Wrong/One",
        "the name is 'Wrong/One'",
        "use lower case letters",
    ),
    (
        "no summary",
        (
            "@hookimpl\n"
            "def ktdeval_models():\n"
            "    return [Spec('wrong/one', Quiet, '')]\n"
            "class Quiet:  # here\n"
            "    def __init__(self, name): pass\n"
            "    def reply(self, request): return Reply('x')\n"
        ),
        "model wrong/one",
        "the summary is ''",
        "write one line",
    ),
    (
        "a parameter without help",
        (
            "@dataclass(frozen=True)\n"
            "class P:\n"
            "    x: int = 1\n"
            "@hookimpl\n"
            "def ktdeval_models():\n"
            "    return [Spec('wrong/one', Quiet, 'x', P)]\n"
            "class Quiet:  # here\n"
            "    def __init__(self, name, params): pass\n"
            "    def reply(self, request): return Reply('x')\n"
        ),
        "model wrong/one",
        "parameter x has no help",
        "declare it with ktdeval.api.option",
    ),
    (
        "the name of another plugin",
        (
            "@hookimpl  # here\n"
            "def ktdeval_models():\n"
            "    return [Spec('builtin/hold', list, 'x')]\n"
        ),
        "ktdeval_models",
        "model 'builtin/hold' is offered by",
        "rename it in one of them",
    ),
    (
        "a maker with a wrong signature",
        (
            "@hookimpl\n"
            "def ktdeval_models():\n"
            "    return [Spec('wrong/one', make, 'x')]\n"
            "def make():  # here\n"
            "    return None\n"
        ),
        "model wrong/one",
        "make of its Spec",
        "a Spec without params calls it without them",
    ),
    (
        "a maker that raises",
        (
            "@hookimpl\n"
            "def ktdeval_models():\n"
            "    return [Spec('wrong/one', make, 'x')]\n"
            "def make(name):\n"
            "    raise RuntimeError('no weights')  # here\n"
        ),
        "model wrong/one",
        "RuntimeError: no weights",
        "correct that line",
    ),
    (
        "a model that raises on every call",
        (
            "class Wrong:\n"
            "    def reply(self, request):\n"
            "        raise ValueError('never')  # here\n"
            "@hookimpl\n"
            "def ktdeval_models():\n"
            "    return [Spec('wrong/one', lambda name: Wrong(), 'x')]\n"
        ),
        "model wrong/one",
        "ValueError: never",
        "correct that line",
    ),
    (
        "a model whose calls all fail",
        (
            "class Wrong:\n"
            "    def reply(self, request):\n"
            "        raise ModelError('server', 'down')\n"
            "@hookimpl\n"
            "def ktdeval_models():\n"
            "    return [Spec('wrong/one', lambda name: Wrong(), 'x')]  # here\n"
        ),
        "model wrong/one",
        "each call fails (down)",
        "answer requests with a Reply",
    ),
    (
        "a model that returns text",
        (
            "class Wrong:\n"
            "    def reply(self, request):\n"
            "        return 'yes'\n"
            "@hookimpl\n"
            "def ktdeval_models():\n"
            "    return [Spec('wrong/one', lambda name: Wrong(), 'x')]  # here\n"
        ),
        "model wrong/one",
        "the model gave 'yes', which is not a ktdeval.api.Reply",
        "docs/plugins.md shows code",
    ),
    (
        "a model that draws by itself",
        (
            "import random\n"
            "class Wrong:\n"
            "    def reply(self, request):\n"
            "        return Reply(str(random.random()))\n"
            "@hookimpl\n"
            "def ktdeval_models():\n"
            "    return [Spec('wrong/one', lambda name: Wrong(), 'x')]  # here\n"
        ),
        "model wrong/one",
        "equal requests gave different replies",
        "keep no state, draw from request.chance_seed",
    ),
    (
        "a model of a provider that can not build",
        (
            "class Wrong:\n"
            "    def __init__(self, name):\n"
            "        self.size = int(name)  # here\n"
            "    def reply(self, request): return Reply('x')\n"
            "@hookimpl\n"
            "def ktdeval_models():\n"
            "    return [Spec('wrong', Wrong, 'x')]\n"
        ),
        "model wrong",
        "ValueError: invalid literal for int()",
        "correct that line",
    ),
    (
        "a model that misspells a trait",
        (
            "class Wrong:\n"
            "    traits = ModelTraits(is_fre=True)  # here\n"
            "    def reply(self, request): return Reply('x')\n"
            "@hookimpl\n"
            "def ktdeval_models():\n"
            "    return [Spec('wrong/one', lambda name: Wrong(), 'x')]\n"
        ),
        "manifest",
        "unexpected keyword argument 'is_fre'",
        "correct that line",
    ),
    (
        "a model with a trait of its own",
        (
            "class Wrong:\n"
            "    is_free = True\n"
            "    def reply(self, request): return Reply('x')\n"
            "@hookimpl\n"
            "def ktdeval_models():\n"
            "    return [Spec('wrong/one', lambda name: Wrong(), 'x')]  # here\n"
        ),
        "model wrong/one",
        "Wrong has 'is_free', which only its traits can say: traits = ModelTraits(is_free=…)",
        "docs/plugins.md shows code",
    ),
    (
        "a model with nearly a trait",
        (
            "class Wrong:\n"
            "    draws_chances = True\n"
            "    def reply(self, request): return Reply('x')\n"
            "@hookimpl\n"
            "def ktdeval_models():\n"
            "    return [Spec('wrong/one', lambda name: Wrong(), 'x')]  # here\n"
        ),
        "model wrong/one",
        (
            "Wrong has 'draws_chances', which nothing reads: did you mean traits = "
            "ModelTraits(draws_chance=…)?"
        ),
        "docs/plugins.md shows code",
    ),
    (
        "a model with nearly traits",
        (
            "class Wrong:\n"
            "    trait = ModelTraits(is_free=True)\n"
            "    def reply(self, request): return Reply('x')\n"
            "@hookimpl\n"
            "def ktdeval_models():\n"
            "    return [Spec('wrong/one', lambda name: Wrong(), 'x')]  # here\n"
        ),
        "model wrong/one",
        "Wrong has 'trait', which nothing reads: did you mean 'traits'?",
        "docs/plugins.md shows code",
    ),
    (
        "a model whose traits are a mapping",
        (
            "class Wrong:\n"
            "    traits = {'is_free': True}\n"
            "    def reply(self, request): return Reply('x')\n"
            "@hookimpl\n"
            "def ktdeval_models():\n"
            "    return [Spec('wrong/one', lambda name: Wrong(), 'x')]  # here\n"
        ),
        "model wrong/one",
        "traits of Wrong must be a ktdeval.api.ModelTraits, was dict",
        "docs/plugins.md shows code",
    ),
    (
        "a model whose trait has a wrong type",
        (
            "class Wrong:\n"
            "    traits = ModelTraits(is_free='yes')\n"
            "    def reply(self, request): return Reply('x')\n"
            "@hookimpl\n"
            "def ktdeval_models():\n"
            "    return [Spec('wrong/one', lambda name: Wrong(), 'x')]  # here\n"
        ),
        "model wrong/one",
        "is_free of Wrong's traits must be true or false, was 'yes'",
        "docs/plugins.md shows code",
    ),
    (
        "an agent whose further models are one name",
        (
            "class Wrong:\n"
            "    traits = AgentTraits(further_models='a/b')\n"
            "    def decide(self, observation, session, memory): pass\n"
            "@hookimpl\n"
            "def ktdeval_agents():\n"
            "    return [Spec('wrong', lambda: Wrong(), 'x')]  # here\n"
        ),
        "agent wrong",
        "further_models of Wrong's traits must be a tuple, was 'a/b'",
        "docs/plugins.md shows code",
    ),
    (
        "an agent without decide",
        (
            "@hookimpl\n"
            "def ktdeval_agents():\n"
            "    return [Spec('wrong', Wrong, 'x')]\n"
            "class Wrong:  # here\n"
            "    def act(self): pass\n"
        ),
        "agent wrong",
        "Wrong has no decide",
        "docs/plugins.md shows code",
    ),
    (
        "an agent that decides without a submission",
        (
            "class Wrong:\n"
            "    def decide(self, observation, session, memory):\n"
            "        return Decision((), 'model')\n"
            "@hookimpl\n"
            "def ktdeval_agents():\n"
            "    return [Spec('wrong', lambda: Wrong(), 'x')]  # here\n"
        ),
        "agent wrong",
        "but the model submitted nothing",
        "hold with provenance 'fallback'",
    ),
    (
        "an agent that returns None",
        (
            "class Wrong:\n"
            "    def decide(self, observation, session, memory):\n"
            "        return None\n"
            "@hookimpl\n"
            "def ktdeval_agents():\n"
            "    return [Spec('wrong', lambda: Wrong(), 'x')]  # here\n"
        ),
        "agent wrong",
        "decide() must return a Decision",
        "docs/plugins.md shows code",
    ),
    (
        "a tool that raises",
        (
            "@tool\n"
            "def wrong_tool(context):\n"
            '    "Look."\n'
            "    return context.nothing  # here\n"
            "@hookimpl\n"
            "def ktdeval_tools():\n"
            "    return [Spec('wrong_tool', lambda: wrong_tool, 'x')]\n"
            "@hookimpl\n"
            "def ktdeval_tasks():\n"
            "    return task_specs(__file__.replace('.py', '.yaml'))\n"
        ),
        "task wrong_task",
        "has no attribute 'nothing'",
        "correct that line",
    ),
    (
        "a metric out of its range",
        (
            "@metric('wrong_metric', formula='f/1', unit='1', better='higher', source='me', "
            "range=(0.0, 1.0))\n"
            "def wrong(ledger):\n"
            '    "Wrong."\n'
            "    return 2.0\n"
            "@hookimpl  # here\n"
            "def ktdeval_metrics():\n"
            "    return [wrong]\n"
        ),
        "metric wrong_metric",
        "2.0",
        "",
    ),
    (
        "a metric that fails on a short ledger",
        (
            "@metric('wrong_metric', formula='f/1', unit='1', better='higher', source='me', "
            "range=(None, None))\n"
            "def wrong(ledger):\n"
            '    "Wrong."\n'
            "    return float(ledger.returns[5])  # here\n"
            "@hookimpl\n"
            "def ktdeval_metrics():\n"
            "    return [wrong]\n"
        ),
        "metric wrong_metric",
        "IndexError",
        "correct that line",
    ),
    (
        "a task whose score raises",
        (
            "@hookimpl\n"
            "def ktdeval_tasks():\n"
            "    return [QATask([{'question': '?'}], score, name='wrong_task').spec()]\n"
            "def score(answer, sample):\n"
            "    return sample['gold'] == answer  # here\n"
        ),
        "task wrong_task",
        "KeyError: 'gold'",
        "correct that line",
    ),
    (
        "a task without samples",
        (
            "@hookimpl\n"
            "def ktdeval_tasks():\n"
            "    return [QATask([], print, name='wrong_task').spec()]  # here\n"
        ),
        "ktdeval_tasks",
        "task wrong_task: has no samples",
        "correct that line",
    ),
    (
        "a market that can not be built",
        (
            "@hookimpl\n"
            "def ktdeval_data():\n"
            "    return [Spec('wrong', make, 'x')]\n"
            "def make():\n"
            "    raise OSError('no such disk')  # here\n"
        ),
        "data wrong",
        "OSError: no such disk",
        "correct that line",
    ),
    (
        "a market that differs each time",
        (
            "import random, dataclasses\n"
            "from ktdeval.testing import random_snapshot\n"
            "@hookimpl\n"
            "def ktdeval_data():\n"
            "    return [Spec('wrong', make, 'x')]\n"
            "def make():  # here\n"
            "    return random_snapshot(seed=random.randrange(10**9), n_assets=4, n_days=5)\n"
        ),
        "data wrong",
        "two builds with equal parameters gave different markets",
        "take chance and days from parameters",
    ),
    (
        "a venue of another name",
        (
            "from ktdeval.market import find_venue\n"
            "@hookimpl\n"
            "def ktdeval_venues():\n"
            "    return [Spec('wrong', make, 'x')]\n"
            "def make():  # here\n"
            "    return find_venue('us_equity')\n"
        ),
        "venue wrong",
        "is called 'us_equity'",
        "give it the name of its Spec",
    ),
    (
        "a card kind whose schema is missing",
        (
            "from pathlib import Path\n"
            "from ktdeval.cards import CardKind\n"
            "@hookimpl\n"
            "def ktdeval_cards():\n"
            "    return [Spec('wrong', make, 'x')]\n"
            "def make():  # here\n"
            "    return CardKind(name='wrong', type=object, schema=Path('none.json'), "
            "problems=list, derive=str, report=str, content=str)\n"
        ),
        "card kind wrong",
        "its schema none.json can't be read",
        "ship the file with the package",
    ),
    (
        "a runner that forgets episodes",
        (
            "class Wrong:\n"
            "    def run(self, specs, execute, concurrency):\n"
            "        return [execute(specs[0])]\n"
            "@hookimpl\n"
            "def ktdeval_runners():\n"
            "    return [Spec('wrong', lambda: Wrong(), 'x')]  # here\n"
        ),
        "runner wrong",
        "executed 1 episodes of 3",
        "call `execute` once for each spec",
    ),
    (
        "a command without help",
        (
            "import click\n"
            "@hookimpl\n"
            "def ktdeval_commands():\n"
            "    return [Spec('wrong', lambda: wrong, 'x')]  # here\n"
            "@click.command()\n"
            "@click.option('--day')\n"
            "def wrong(day):\n"
            '    "Do wrong."\n'
        ),
        "command wrong",
        "option --day has no help",
        "give it one",
    ),
    (
        "an observer that raises",
        ("@hookimpl\ndef ktdeval_event(event):\n    raise RuntimeError('blind')  # here\n"),
        "ktdeval_event",
        "RuntimeError: blind",
        "correct that line",
    ),
)
def test_a_wrong_plugin_is_refused_for_its_reason_with_file_and_line(
    folder: Path, name: str, code: str, part: str, reason: str, fix: str
) -> None:
    path = write_plugin(folder, code)
    (finding,) = check_parts(str(path)).findings

    assert finding.part == part
    assert reason in finding.message
    assert fix in finding.fix
    assert (finding.path, finding.line) == (str(path), marked_line(path))


RIGHT = """
class Quiet:
    traits = ModelTraits(is_free=True)
    def reply(self, request):
        from ktdeval.api import Reply
        return Reply("Nothing to say.")

@hookimpl
def ktdeval_models():
    return [Spec("right/quiet", lambda name: Quiet(), "Says nothing of use")]
"""


def test_a_plugin_without_a_fault_is_checked_by_calling_it(folder: Path) -> None:
    report = check_parts(str(write_plugin(folder, RIGHT)))
    assert (report.findings, report.notes) == ([], {})
    assert report.checked == ["model right/quiet"]


@pytest.mark.slow
def test_every_fault_of_a_plugin_is_reported_at_once(folder: Path) -> None:
    code = RIGHT.replace(
        'return [Spec("right/quiet", lambda name: Quiet(), "Says nothing of use")]',
        'return [Spec("a/b", lambda name: 1, "x"), Spec("c/d", lambda name: 2, "x")]',
    )
    path = str(write_plugin(folder, code))

    assert [finding.part for finding in check_parts(path).findings] == ["model a/b", "model c/d"]

    with pytest.raises(ConformanceError) as caught:
        check_plugin(path)

    assert len(str(caught.value).splitlines()) == 2


@pytest.mark.slow
def test_a_manifest_that_imports_something_heavy_is_refused_as_a_package(folder: Path) -> None:
    package = folder / "wrong_package"
    package.mkdir()
    (package / "__init__.py").write_text(
        "import rich\nfrom ktdeval.api import ModelTraits, Spec, hookimpl\n\n\n" + RIGHT
    )
    (finding,) = check_parts(str(package)).findings

    assert "listing imports" in finding.message
    assert "rich" in finding.message
    assert finding.path == str(package / "__init__.py")
