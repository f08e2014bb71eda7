"""A stamp is evidence to who trusts its authority: a maintainer may have made one of his own."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from ktdeval.cards import load_card
from ktdeval.errors import ConfigError
from ktdeval.registry import Plugins
from ktdeval.runner import NOBODY, authority_of, load_trust
from ktdeval.testing import Terminal
from ktdeval_live.checks.verification import verify_test
from ktdeval_live.commands import live
from ktdeval_live.days.clock import of_text
from ktdeval_live.deciding.past_replay import SetClock
from ktdeval_live.page.build_data import live_page
from ktdeval_live.plan import Stamping
from ktdeval_live.publication.publication_evidence import PROVES
from ktdeval_live.record.folder import LiveFolder
from ktdeval_live.results.card_types import LiveCard
from live_day import kept_day
from support.live.live_week import AFTER, BEFORE
from support.live.time_authority import Authority, authority
from support.paths import REPOSITORY

pytestmark = pytest.mark.slow

pytest.importorskip("rfc3161_client", reason="needs the extra live")
if shutil.which("openssl") is None:
    pytest.skip("needs openssl for an authority", allow_module_level=True)

DOCS = (REPOSITORY / "docs" / "live.md").read_text("utf-8")
OWN = "claimed (own authority)"


@dataclass(frozen=True)
class Kept:
    """A test of a day of 2024 that was made today, with an authority of the maintainer's own."""

    path: Path
    authority: Authority
    fingerprint: str  #: of the authority's root, by openssl


@pytest.fixture(scope="module")
def kept(tmp_path_factory: pytest.TempPathFactory, plugins: Plugins) -> Iterator[Kept]:
    folder = tmp_path_factory.mktemp("trust")
    clock = SetClock(of_text(BEFORE))
    with authority(folder / "authority", lambda: clock.time) as running:
        kept_day(folder / "day", plugins, clock, running)
        yield Kept(folder / "day", running, fingerprint(running.certificate))


def fingerprint(certificate: Path) -> str:
    words = ["openssl", "x509", "-in", str(certificate), "-noout", "-fingerprint", "-sha256"]
    said = subprocess.run(words, check=True, capture_output=True, text=True).stdout
    return said.split("=")[1].strip().replace(":", "").lower()


def verified(kept: Kept, *words: str) -> Result:
    result = CliRunner().invoke(live, ["verify", str(kept.path), *words], catch_exceptions=False)
    print(result.output)
    return result


# --- the level of evidence


@pytest.mark.exhaustive
def test_own_authority_of_the_maintainer_stamps_nothing(kept: Kept) -> None:
    output = verified(kept).output
    assert f"evidence: {OWN}: {PROVES[OWN]}" in output
    assert "evidence: stamped" not in output
    assert f"time authority: CN=Test root, SHA-256 {kept.fingerprint}, which you do not" in output


@pytest.mark.exhaustive
def test_record_is_stamped_under_a_root_that_the_reader_gives(kept: Kept) -> None:
    output = verified(kept, "--trust", str(kept.authority.certificate)).output
    assert f"evidence: stamped: {PROVES['stamped']}" in output
    assert f"SHA-256 {kept.fingerprint}, which you trust" in output


@pytest.mark.exhaustive
def test_record_is_not_stamped_under_another_root(kept: Kept, tmp_path: Path) -> None:
    with authority(tmp_path / "other") as other:
        assert f"evidence: {OWN}" in verified(kept, "--trust", str(other.certificate)).output


def test_json_of_a_record_that_holds_has_the_facts_of_its_text(
    kept: Kept, terminal: Terminal
) -> None:
    trust = ("--trust", str(kept.authority.certificate))
    report = terminal.report("live", "verify", kept.path, *trust)
    assert (report["findings"], report["errors"], report["level"]) == ([], 0, "stamped")
    assert report["authority"] == {"subject": "CN=Test root", "sha256": kept.fingerprint}
    assert report["uncovered"]

    (printed,) = re.findall(r"(\d+) links hold", verified(kept, *trust).output)
    assert report["entries"] == int(printed)


def test_json_of_a_record_that_does_not_hold_has_its_findings(
    kept: Kept, tmp_path: Path, terminal: Terminal
) -> None:
    copy = tmp_path / "copy"
    shutil.copytree(kept.path, copy)
    (copy / "chain.jsonl").write_bytes(b"")
    code, out, err = terminal.call("live", "verify", copy, "--json")
    assert (code, err) == (1, "")

    report = json.loads(out)
    assert (report["errors"], report["level"]) == (1, "claimed")
    assert report["findings"][0]["rule"] == "chain"


@pytest.mark.parametrize("is_listed", [True, False])
def test_board_names_the_authorities_that_its_readers_trust(
    kept: Kept, tmp_path: Path, is_listed: bool
) -> None:
    sha256 = kept.fingerprint if is_listed else "0" * 64
    board = tmp_path / "board.yaml"
    board.write_text(f"name: b\ntime_authorities:\n  - {{name: t, sha256: '{sha256}'}}\n", "utf-8")
    level = "stamped" if is_listed else OWN

    assert f"evidence: {level}: " in verified(kept, "--trust", str(board)).output


@pytest.mark.parametrize(
    ("name", "text", "problem"),
    [
        ("root.pem", "no certificate", "has no certificate in PEM"),
        ("root.pem", "", "has no certificate in PEM"),
        ("board.yaml", "name: b\n", "time_authorities: names no authority"),
        ("board.yaml", "time_authorities: []\n", "time_authorities: names no authority"),
        ("board.yaml", "time_authorities: [{name: a, sha256: AB}]\n", "sha256"),
    ],
)
def test_trust_in_nothing_is_an_error(tmp_path: Path, name: str, text: str, problem: str) -> None:
    path = tmp_path / name
    path.write_text(text, "utf-8")
    with pytest.raises(ConfigError, match=problem):
        load_trust(path)


def test_file_of_several_roots_trusts_each(kept: Kept, tmp_path: Path) -> None:
    both = tmp_path / "both.pem"
    with authority(tmp_path / "other") as other:
        texts = [one.certificate.read_text("ascii") for one in (other, kept.authority)]
        both.write_text("".join(texts), "ascii")
        for text in texts:
            assert load_trust(both).holds(Stamping(url="http://a", certificate=text))
            assert not NOBODY.holds(Stamping(url="http://a", certificate=text))


# --- cards and pages can't know their readers


def test_card_names_the_authority_and_is_not_stamped_by_itself(kept: Kept) -> None:
    card = load_card(kept.path / "cards" / "momentum-us.json")
    assert isinstance(card, LiveCard)

    evidence = card.evidence
    assert (evidence.level, evidence.level_if_trusted) == (OWN, "stamped")
    assert evidence.authority is not None
    assert (evidence.authority.subject, evidence.authority.sha256) == (
        "CN=Test root",
        kept.fingerprint,
    )
    assert "own authority" in card.labels
    assert "not stamped" not in card.labels


def test_card_that_says_stamped_is_refused_whatever_its_reader_trusts(
    kept: Kept, tmp_path: Path, plugins: Plugins
) -> None:
    copy = tmp_path / "copy"
    shutil.copytree(kept.path, copy)
    card = copy / "cards" / "momentum-us.json"
    card.write_text(card.read_text("utf-8").replace(f'"{OWN}"', '"stamped"'), "utf-8")
    trust = load_trust(kept.authority.certificate)
    findings = verify_test(LiveFolder(copy), plugins, of_text(AFTER), trust).findings

    assert [finding.rule for finding in findings] == ["card"]


def test_page_names_the_authority_and_is_not_stamped_by_itself(
    kept: Kept, plugins: Plugins
) -> None:
    chain = live_page(LiveFolder(kept.path), plugins, of_text(AFTER)).chain
    assert (chain.evidence, chain.evidence_if_trusted) == (OWN, "stamped")
    assert chain.proves == PROVES[OWN]
    assert chain.authority is not None
    assert chain.authority.sha256 == kept.fingerprint


def test_authority_is_named_by_its_certificate(kept: Kept) -> None:
    text = kept.authority.certificate.read_text("ascii")
    found = authority_of(Stamping(url="http://a", certificate=text))
    assert (found.subject, found.sha256) == ("CN=Test root", kept.fingerprint)


# --- what the docs say


def documented_check() -> str:
    """Return the commands by which the docs check a stamp."""
    (block,) = re.findall(r"```sh\n([^`]*openssl ts -verify[^`]*)```", DOCS)
    return str(block)


def run_check(kept: Kept, folder: Path) -> subprocess.CompletedProcess[str]:
    shutil.copytree(kept.path, folder / "test")
    shutil.copy(kept.authority.certificate, folder / "root.pem")
    return subprocess.run(
        ["bash", "-euo", "pipefail", "-c", documented_check()],
        cwd=folder / "test",
        capture_output=True,
        text=True,
        check=False,
    )


def test_stranger_checks_a_stamp_with_the_commands_of_the_docs(kept: Kept, tmp_path: Path) -> None:
    done = run_check(kept, tmp_path)
    assert done.returncode == 0, done.stderr
    assert "Verification: OK" in done.stdout + done.stderr


def test_commands_of_the_docs_refuse_a_link_that_was_changed(kept: Kept, tmp_path: Path) -> None:
    changed = tmp_path / "changed"
    shutil.copytree(kept.path, changed)
    chain = changed / "chain.jsonl"
    chain.write_text(chain.read_text("utf-8").replace('"seq":1}', '"seq": 1}'), "utf-8")
    done = run_check(Kept(changed, kept.authority, kept.fingerprint), tmp_path)

    assert done.returncode != 0
    assert "Verification: FAILED" in done.stdout + done.stderr


@pytest.mark.parametrize("level", PROVES)
def test_docs_say_what_each_level_proves(level: str) -> None:
    assert f"| `{level}` | {PROVES[level]} |" in DOCS  # type: ignore[index]
