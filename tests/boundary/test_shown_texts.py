"""What a model is shown under each mask, word for word, and that it names nothing which is hidden.

Each scene of `shown` is a market with documents and what a model says there: real codes, labels
never shown, other spellings. What it was shown is in `shown/golden`, a text for each run;
`python tests/boundary/test_shown_texts.py [SCENE…]` writes it anew.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
import yaml
from corner_market import Scene, evaluate_script, make_market, read_scene
from outside import read_records

SHOWN = Path(__file__).with_name("shown")
GOLDEN = SHOWN / "golden"
SCENES = sorted(path.stem for path in SHOWN.glob("*.yaml"))
RUNS = [(name, run) for name in SCENES for run in read_scene(name, SHOWN)["runs"]]
HIDES_ASSETS = ("stock_blind", "blinded", "rebased")
HIDES_DATES = ("date_blind", "blinded", "rebased")
COUNTS = {"unmask_attempts", "documents_withheld", "tool_validity_rate"}


@pytest.fixture(scope="module")
def markets(tmp_path_factory: pytest.TempPathFactory) -> Mapping[str, Path]:
    place = tmp_path_factory.mktemp("shown")
    return {name: make_market(read_scene(name, SHOWN), place / name) for name in SCENES}


def play_script(name: str, run: str, market: Path, out: Path) -> None:
    """Play what the model of a scene says, with the labels of the mask of this run."""
    scene = _typed(name)
    script = market.with_name(f"{run}-script.yaml")
    script.write_text(_script(scene, run), encoding="utf-8")
    task = market.with_name(f"{run}-task.yaml")
    task.write_text(_task(scene, run), encoding="utf-8")

    evaluate_script(scene, market, str(task), script, out)


def _typed(name: str) -> Scene:
    """Read a scene with its numbers as numbers."""
    return dict(yaml.safe_load((SHOWN / f"{name}.yaml").read_text(encoding="utf-8")))


def _task(scene: Scene, run: str) -> str:
    """Write the task of a scene with the mask of a run."""
    variant = {**scene["task"], **scene["runs"][run]}
    return json.dumps({"family": "shown", "version": "1", "variants": {f"shown_{run}": variant}})


def _script(scene: Scene, run: str) -> str:
    """Write what the model says, with labels as the mask of a run shows them."""
    said = json.dumps({"steps": scene["script"]}, ensure_ascii=False)

    labels = {code: code for code in scene["assets"]} | scene["labels"].get(run, {})
    for name, label in labels.items():
        said = said.replace(f"<{name}>", label)

    return said


def shown_in(run: Path) -> str:
    """All that a model was shown in a run, its rules once, with what the card counts of it."""
    parts: list[str] = []
    (transcript,) = run.rglob("transcript.jsonl.zst")
    for step, entry in enumerate(read_records(transcript)):
        for call, exchange in enumerate(entry["exchanges"]):
            for message in exchange["sent"]:
                role = message.pop("role")
                content = message.pop("content")
                if role == "system" and content in parts:
                    continue
                parts += [f"=== step {step}, call {call}: {role}", content]
                if message:
                    parts.append(json.dumps(message, ensure_ascii=False, sort_keys=True))

    return "\n".join([*parts, "=== counted", *_counted(run)]) + "\n"


def _counted(run: Path) -> Iterator[str]:
    (path,) = (run / "cards").glob("*.json")
    metrics = json.loads(path.read_text(encoding="utf-8"))["metrics"]
    for name in sorted(metrics.keys() & COUNTS):
        yield f"{name}: {metrics[name]['value']}"


def golden(name: str, run: str) -> str:
    return (GOLDEN / name / f"{run}.txt").read_text(encoding="utf-8")


@pytest.mark.parametrize(("name", "run"), RUNS)
def test_a_model_is_shown_these_words(
    name: str, run: str, markets: Mapping[str, Path], tmp_path: Path
) -> None:
    play_script(name, run, markets[name], tmp_path / "run")
    assert shown_in(tmp_path / "run") == golden(name, run)


@pytest.mark.parametrize(("name", "run"), RUNS)
def test_no_golden_text_names_what_its_mask_hides(name: str, run: str) -> None:
    scene = read_scene(name, SHOWN)
    text = golden(name, run)
    assets = scene["assets_hidden"]
    dates = scene["dates_hidden"]

    assert [word for word in assets if word in text] == ([] if run in HIDES_ASSETS else assets)
    assert [word for word in dates if word in text] == ([] if run in HIDES_DATES else dates)


def write_golden(names: list[str]) -> None:
    """Record what models are shown now."""
    for name in names:
        folder = GOLDEN / name
        folder.mkdir(parents=True, exist_ok=True)
        with TemporaryDirectory() as place:
            market = make_market(read_scene(name, SHOWN), Path(place) / name)
            for run in read_scene(name, SHOWN)["runs"]:
                play_script(name, run, market, Path(place) / run)
                text = shown_in(Path(place) / run)
                (folder / f"{run}.txt").write_text(text, encoding="utf-8")


if __name__ == "__main__":
    write_golden(sys.argv[1:] or SCENES)
