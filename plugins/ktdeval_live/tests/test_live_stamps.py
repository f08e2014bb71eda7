"""Time stamps of a real authority: they hold for their head alone, and are part of the evidence."""

from __future__ import annotations

import hashlib
import shutil
import ssl
from collections.abc import Iterator
from pathlib import Path

import pytest

from ktdeval.errors import StoreError, VerificationError
from ktdeval.registry import load_plugins
from ktdeval.runner import authority_of
from ktdeval_live.checks.verification import verify_test
from ktdeval_live.plan import Stamping
from ktdeval_live.publication.publish_chain import publications
from ktdeval_live.publication.time_stamps import stamp_head, stamp_time
from ktdeval_live.record.folder import LiveFolder
from support.live.live_plans import rehearsed
from support.live.time_authority import Authority, authority

pytest.importorskip("rfc3161_client", reason="needs the extra live")
if shutil.which("openssl") is None:
    pytest.skip("needs openssl for an authority", allow_module_level=True)

HEAD = "a" * 64


@pytest.fixture(scope="module")
def running(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Authority]:
    with authority(tmp_path_factory.mktemp("authority")) as found:
        yield found


@pytest.fixture(scope="module")
def rule(running: Authority) -> Stamping:
    return Stamping(url=running.url, certificate=running.certificate.read_text("ascii"))


def test_stamp_holds_for_its_head_alone(tmp_path: Path, rule: Stamping) -> None:
    name, time = stamp_head(tmp_path, 7, HEAD, rule)
    assert name == "stamps/000007.tsr"
    assert stamp_time(tmp_path, name, HEAD, rule) == time

    with pytest.raises(VerificationError, match="is not one of this head"):
        stamp_time(tmp_path, name, "b" * 64, rule)


def test_authority_is_named_by_the_sha_256_of_its_certificate(rule: Stamping) -> None:
    certificate = ssl.PEM_cert_to_DER_cert(rule.certificate)
    assert authority_of(rule).sha256 == hashlib.sha256(certificate).hexdigest()


def test_stamp_of_another_authority_does_not_hold(tmp_path: Path, rule: Stamping) -> None:
    name, _ = stamp_head(tmp_path, 0, HEAD, rule)
    with authority(tmp_path / "other") as other:
        strange = Stamping(url=other.url, certificate=other.certificate.read_text("ascii"))
        with pytest.raises(VerificationError, match="is not one of this head"):
            stamp_time(tmp_path, name, HEAD, strange)


@pytest.mark.slow
def test_authority_that_sends_its_root_is_asked_for_no_certificates(tmp_path: Path) -> None:
    with authority(tmp_path / "authority", with_root=True) as running:
        texts = {
            "certificate": running.certificate.read_text("ascii"),
            "signer": running.signer.read_text("ascii"),
        }
        rule = Stamping(url=running.url, **texts)
        name, time = stamp_head(tmp_path, 0, HEAD, rule)
        assert stamp_time(tmp_path, name, HEAD, rule) == time

        other = Stamping(**{"url": running.url, **texts, "signer": texts["certificate"]})
        with pytest.raises(VerificationError, match="is not one of this head"):
            stamp_time(tmp_path, name, HEAD, other)


@pytest.mark.exhaustive
def test_signer_that_is_not_below_the_root_does_not_stamp(tmp_path: Path, rule: Stamping) -> None:
    # A plan that names a root that many trust, and a signer of the maintainer's own.
    with authority(tmp_path / "own") as own:
        forged = Stamping(
            url=own.url, certificate=rule.certificate, signer=own.signer.read_text("ascii")
        )
        with pytest.raises(VerificationError, match="is not one of this head"):
            stamp_head(tmp_path, 0, HEAD, forged)


def test_changed_stamp_does_not_hold(tmp_path: Path, rule: Stamping) -> None:
    name, _ = stamp_head(tmp_path, 0, HEAD, rule)
    path = tmp_path / name
    data = bytearray(path.read_bytes())
    data[len(data) // 2] ^= 1
    path.write_bytes(data)

    with pytest.raises(VerificationError):
        stamp_time(tmp_path, name, HEAD, rule)


def test_authority_that_is_down_is_an_error_of_the_store(tmp_path: Path, rule: Stamping) -> None:
    nobody = Stamping(url="http://127.0.0.1:9", certificate=rule.certificate)
    with pytest.raises(StoreError, match="can't be reached"):
        stamp_head(tmp_path, 0, HEAD, nobody)


@pytest.mark.slow
def test_publications_of_a_test_are_stamped_and_verified(tmp_path: Path, rule: Stamping) -> None:
    plain = {"url": rule.url, "certificate": rule.certificate}
    folder = rehearsed(tmp_path / "week", last="2024-06-03", publish={"stamp": plain})
    public = publications(folder)

    assert public
    assert all(one.stamp is not None for one in public)

    plugins = load_plugins()
    result = verify_test(folder, plugins)

    assert result.findings == ()
    assert result.stamped == len(public)

    last = folder.path / str(public[-1].stamp)
    shutil.copy(folder.path / str(public[0].stamp), last)
    found = verify_test(LiveFolder(folder.path), plugins).findings

    assert [finding.rule for finding in found] == ["published"]
