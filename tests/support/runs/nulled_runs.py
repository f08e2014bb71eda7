"""Runs whose documents are swept (`nulling`), and what refuses a changed one."""

from __future__ import annotations

import copy
import json
import shutil
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from ktdeval.cards.card_reading import parse_card
from ktdeval.cards.recomputation_diff import card_difference
from ktdeval.errors import KtdevalError
from ktdeval.market.snapshots.storage import save_snapshot
from ktdeval.registry import Plugins, load_plugins
from ktdeval.runner import RunConfig, evaluate, rescore, verify_card
from ktdeval.runner.records.run_folder import RunFolder
from ktdeval.runner.scoring.call_log_checks import provenance_findings
from ktdeval.runner.scoring.model_identity_checks import card_claims
from ktdeval.task_api.episode_spec import EpisodeSpec
from ktdeval.testing import small_market
from ktdeval.values import dumps_pretty, from_plain
from ktdeval_deanon.certificate.certify import CertifyConfig, certify
from support.paths import SUPPORT
from support.providers.lucky_plugin import PLUGIN
from support.runs.forging import relabel, renewed
from support.runs.run_support import TASK

DEANON = str(SUPPORT / "masking" / "deanon_plugin.py")

WINDOW = "2024-03-01:2024-03-14"
PRICES = """
as_of: 2026-01-01
source: the test
models:
  - match: lucky/x
    input: 2
    output: 8
    cache_read: 0.5
    cache_write: 3
    tiers: [{above: 900000, input: 4, output: 16, cache_read: 1, cache_write: 6}]
  - match: lucky/y
    input: 0.25
    output: 1
    cache_read: 0.1
    cache_write: 0.3
    tiers: [{above: 900000, input: 0.5, output: 2, cache_read: 0.2, cache_write: 0.6}]
"""


def plugins() -> Plugins:
    """Installed plugins, and a model as if behind a network."""
    return load_plugins((str(PLUGIN),))


@dataclass(frozen=True)
class Subject:
    """A finished run that verifies, and the folder for changed copies of it."""

    run: Path
    plugins: Plugins
    copies: Path

    @property
    def card(self) -> dict[str, Any]:
        """The run's one card."""
        (path,) = self.run.glob("cards/*.json")
        card: dict[str, Any] = json.loads(path.read_text())
        return card

    def read(self, pattern: str) -> dict[str, Any]:
        """The first of the run's files of a name."""
        document: dict[str, Any] = json.loads(min(self.run.glob(pattern)).read_text())
        return document

    def changed(self, change: Callable[[Path], Any], card: Any = None) -> str | None:
        """Why a changed copy is refused. Without a `card`, it is made anew from what was changed, as
        its owner does.
        """
        copy_ = Path(shutil.copytree(self.run, self.copies / "copy"))

        try:
            change(copy_)
            (path,) = copy_.glob("cards/*.json")
            if card is None:
                path.unlink()
                rescore(copy_, self.plugins, {})

            findings = verify_card(path, self.plugins, {}).findings
        except KtdevalError as error:
            return str(error)
        finally:
            shutil.rmtree(copy_)

        return str(findings[0]) if findings else None


def subject(folder: Path, market: Path, model: str = "lucky/x", **changes: Any) -> Subject:
    """A run of a few steps; `changes`: other options."""
    known = plugins()
    out = folder / "run"
    folder.mkdir(exist_ok=True)
    given: dict[str, Any] = {
        "tasks": (TASK,),
        "data": str(market),
        "windows": (WINDOW,),
        "limit": 2,
        "cache": "run",
        "knowledge_cutoff": "2023-12",
        "quiet": True,
    }

    if model.startswith("lucky"):
        prices = folder / "prices.yaml"
        prices.write_text(PRICES)
        given |= {"canary": 2, "price_table": str(prices)}

    evaluate(RunConfig(model=model, out=str(out), **(given | changes)), known)
    made = Subject(out, known, folder)

    assert made.changed(lambda _: None) is None

    return made


def card_refusal(of: Subject) -> Callable[[Any], str | None]:
    """What refuses a changed card of a run, as it is and with all that follows from it made anew.

    Verification makes the card again from the records, which were not changed, so that the run's own
    card stands for what it would make. The record of calls is not there, as on a board.
    """
    honest = of.card
    folder = RunFolder.load(of.run)
    specs = list(folder.manifest.specs)

    def refused(card: Any) -> str | None:
        try:
            typed: Any = parse_card(dumps_pretty(card), "card")
        except KtdevalError as error:
            return str(error)

        problem = card_difference(card, honest)
        if problem is not None:
            return problem

        claims = [
            *card_claims(typed, of.plugins),
            *provenance_findings("card", folder, typed, specs, True),
        ]

        return claims[0] if claims else None

    return _also_renewed(refused, honest)


def made_card_refusal(honest: Any) -> Callable[[Any], str | None]:
    """The same of a card that was made without a run, of a model that no plugin has."""
    known = plugins()

    def claims(card: Any) -> list[str]:
        typed: Any = parse_card(dumps_pretty(card), "card")
        return list(card_claims(typed, known))

    already = claims(honest)

    def refused(card: Any) -> str | None:
        try:
            further = [claim for claim in claims(card) if claim not in already]
        except KtdevalError as error:
            return str(error)

        return card_difference(card, honest) or next(iter(further), None)

    return _also_renewed(refused, honest)


def _also_renewed(refused: Callable[[Any], str | None], honest: Any) -> Callable[[Any], str | None]:
    """Let a refusal also hold for a card whose other fields were made to follow the forged ones."""

    def either(card: Any) -> str | None:
        first = refused(card)
        followed = renewed(card)
        if first is None or followed in (card, honest):
            return first

        return refused(followed)

    return either


def certificate_of(folder: Path) -> dict[str, Any]:
    """A certificate of a mask with the attack of one model."""
    data = folder / "market"
    known = load_plugins(["ktdeval_deanon", DEANON])
    save_snapshot(replace(small_market(), id=""), data)
    asked: dict[str, Any] = {"windows": ("2024-03-01:2024-03-29",), "mask_key": "0" * 31 + "4"}
    attack = RunConfig(
        model="attacker/reader",
        tasks=("deanon_probe", "deanon_probe_bright"),
        limit=8,
        data=str(data),
        out=str(folder / "attack"),
        quiet=True,
        **asked,
    )
    run = evaluate(attack, known).folder
    config = CertifyConfig("blinded_open_research", data=str(data), probes=8, runs=(run,), **asked)

    return certify(config, known, lambda *_: None).certificate.plain


def certificate_refusal(honest: Any) -> Callable[[Any], str | None]:
    """What refuses a changed certificate: verification draws and attacks its probes again, which
    gives the honest one.
    """

    def refused(certificate: Any) -> str | None:
        try:
            parse_card(dumps_pretty(certificate), "certificate")
        except KtdevalError as error:
            return str(error)

        return card_difference(certificate, honest)

    return refused


def manifest_refusal(of: Subject) -> Callable[[Any], str | None]:
    """What refuses a run whose manifest is changed, and whose card follows from it."""
    return lambda manifest: of.changed(
        lambda run: (run / "manifest.json").write_text(dumps_pretty(manifest))
    )


def mark_refusal(of: Subject) -> Callable[[Any], str | None]:
    """What refuses a run of which one episode's mark is changed, and whose card follows from it."""

    def change(run: Path, mark: Any) -> None:
        min(run.glob("episodes/*/episode.json")).write_text(dumps_pretty(mark))

    return lambda mark: of.changed(lambda run: change(run, mark))


def spec_refusal(of: Subject) -> Callable[[Any], str | None]:
    """What refuses a run that names another plan throughout: manifest, folders, ledgers, marks and
    card.
    """

    def change(run: Path, spec: Any) -> None:
        relabel(
            run,
            lambda old: replace(from_plain(spec, EpisodeSpec, "spec"), seed=old.seed),
            lambda _: None,
        )

    return lambda spec: of.changed(lambda run: change(run, copy.deepcopy(spec)))
