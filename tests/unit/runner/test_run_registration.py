"""A run under a registration: the drawn key and every registered option are its own, and its
records say so.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec
import pytest
from inline_snapshot import snapshot

from ktdeval.cards import load_evaluation
from ktdeval.errors import UsageError
from ktdeval.registry import load_plugins
from ktdeval.runner import (
    DrawnKey,
    RegisteredSystem,
    RegisteredTask,
    RegisteredWindow,
    Registrant,
    Registration,
    RunConfig,
    RunFolder,
    evaluate,
    load_config,
    registered_call,
    verify_card,
)
from ktdeval.testing import errors_of
from ktdeval.values import dumps_pretty, to_plain
from support.runs.run_support import TASK, WINDOW

KEY = "0123456789abcdef" * 2
DAY = "2026-03-02"


def registration_of(run: RunFolder) -> Registration:
    """The registration that a run could have been made under."""
    spec = run.manifest.specs[0]
    return Registration(
        board="small",
        division="blinded",
        task=RegisteredTask(name=spec.task, version=spec.task_version, hash=spec.task_hash),
        snapshot=str(spec.snapshot),
        windows=(
            RegisteredWindow(name=spec.span.name, first=spec.span.first, last=spec.span.last),
        ),
        seeds=tuple(spec.seed for spec in run.manifest.specs),
        rules="strict",
        system=RegisteredSystem(
            model=spec.model,
            model_args=dict(spec.model_args),
            agent=spec.agent,
            agent_args=dict(spec.agent_args),
            call=registered_call(spec.call),
        ),
        submitter=Registrant(name="A team", contact="team@example.org"),
        registered_on=DAY,
    )


def own_config(market: Path, out: Path, **call: Any) -> RunConfig:
    """What a run without a registration is given."""
    return RunConfig(
        "builtin/momentum",
        (TASK,),
        data=str(market),
        windows=(WINDOW,),
        out=str(out),
        quiet=True,
        **call,
    )


@pytest.fixture
def key_file(other_run: Path, tmp_path: Path) -> Path:
    """The answered registration of such a run."""
    registration = registration_of(RunFolder.load(other_run))
    return write_key(tmp_path / "key.json", registration)


def write_key(path: Path, registration: Registration, /, **changes: Any) -> Path:
    """Write an answered registration, with other fields where they are given."""
    drawn = DrawnKey(id=registration.id, registration=registration, mask_key=KEY, drawn_on=DAY)
    path.write_text(dumps_pretty({**to_plain(drawn), **changes}))
    return path


def run_under(key_file: Path, market: Path, out: Path, **options: Any) -> Path:
    """A run that is given the registration, the market, and nothing else unless `options` say
    so.
    """
    given = {"registration": str(key_file), "data": str(market), "out": str(out), "quiet": True}
    return evaluate(load_config(None, given | options), load_plugins()).folder


@pytest.mark.slow
def test_a_run_names_its_registration_verifies_and_stays_under_it(
    key_file: Path, market: Path, tmp_path: Path
) -> None:
    run = run_under(key_file, market, tmp_path / "run", timeout_s=5.0)
    (path,) = (run / "cards").glob("*.json")
    drawn = msgspec.json.decode(key_file.read_bytes(), type=DrawnKey)
    card = load_evaluation(path)
    manifest = RunFolder.load(run).manifest

    assert (card.registration, card.mask_key) == (manifest.registration, KEY) == (drawn.id, KEY)
    assert {spec.mask_key for spec in manifest.specs} == {KEY}
    # the wait for a reply is free
    assert not any("timeout_s" in spec.call for spec in manifest.specs)
    assert verify_card(path, load_plugins(), {}).findings == ()

    before = (run / "manifest.json").read_bytes()
    evaluate(own_config(market, run, timeout_s=5.0), load_plugins())

    assert (run / "manifest.json").read_bytes() == before


@pytest.mark.parametrize(
    "option",
    [
        {"model": "builtin/hold"},
        {"temperature": 0.7000001},
        {"max_output_tokens": 5},
        {"reasoning_tokens": 5},
        {"seeds": 2},
        {"limit": 2},
    ],
    ids=lambda option: next(iter(option)),
)
def test_another_value_than_the_registered_one_is_refused_by_its_name(
    key_file: Path, market: Path, tmp_path: Path, option: dict[str, Any]
) -> None:
    (name,) = option
    with pytest.raises(UsageError, match=f"^--registration: {name}: registered .*, this run has "):
        run_under(key_file, market, tmp_path / "run", **option)

    assert not (tmp_path / "run" / "manifest.json").exists()


def test_a_mask_key_and_a_registration_cannot_be_combined(
    key_file: Path, market: Path, tmp_path: Path
) -> None:
    with pytest.raises(UsageError, match="--mask-key: the registration already contains the"):
        run_under(key_file, market, tmp_path / "run", mask_key="5" * 32)


def test_a_registration_that_was_changed_open_or_unreadable_is_refused(
    other_run: Path, tmp_path: Path
) -> None:
    registration = registration_of(RunFolder.load(other_run))
    changed = to_plain(msgspec.structs.replace(registration, division="other"))
    write_key(tmp_path / "changed.json", registration, registration=changed)
    write_key(tmp_path / "short.json", registration, mask_key="5")
    (tmp_path / "open.json").write_text(dumps_pretty(to_plain(registration)))

    refused = errors_of(
        lambda name: load_config(None, {"registration": str(tmp_path / name)}),
        "changed.json",
        "short.json",
        "open.json",
        "none.json",
        folder=tmp_path,
    )
    assert refused == snapshot("""\
ConfigError: --registration FOLDER/changed.json: id: does not match the content of the registration; download the file from the board again
ConfigError: --registration FOLDER/short.json: mask_key: expected `str` matching regex '^[0-9a-f]{32}$'
ConfigError: --registration FOLDER/open.json: has no key yet; wait until the board draws one, then give its keys/ID.json
ConfigError: --registration FOLDER/none.json: can't read: No such file or directory; give the board's keys/ID.json
""")
