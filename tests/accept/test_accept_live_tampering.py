"""Forged forward tests of more than a hundred kinds, made by a maintainer who recomputes all hashes and
the published history: each is found, with its rule and its day.

What no record of his shows, he can do: then the verification states that times are only claimed, and
the same forgery is found where stamps of an authority are required.
"""

from __future__ import annotations

import shutil
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest

from ktdeval.registry import Plugins
from ktdeval.runner import plan_trust
from ktdeval_live.checks.verification import LiveVerification, verify_test
from ktdeval_live.days.clock import of_text
from support.live.forged_evidence import AUTHORITY_LEFT_OUT, STAMP_FORGERIES
from support.live.forgery_kinds import Forgery, Found
from support.live.live_forger import Forger
from support.live.live_forgeries import FORGERIES
from support.live.live_week import AFTER, Week, live_week

pytest.importorskip("rfc3161_client", reason="needs the extra live")
if shutil.which("openssl") is None:
    pytest.skip("needs openssl for an authority", allow_module_level=True)

UNSEEN = [one for one in FORGERIES if one.found is None]
SEEN = [one for one in FORGERIES if one.found is not None]


def names(forgeries: Sequence[Forgery]) -> list[str]:
    return [forgery.name for forgery in forgeries]


def each_finding_once(forgeries: Sequence[Forgery]) -> list[Any]:
    """Forgeries as cases of a test; further ones of a rule that another has shown are exhaustive."""
    shown: set[str] = set()
    cases = []

    for forgery in forgeries:
        assert forgery.found is not None
        rule, _ = forgery.found
        marks = [pytest.mark.exhaustive] if rule in shown else []
        shown.add(rule)
        cases.append(pytest.param(forgery, id=forgery.name, marks=marks))

    return cases


@pytest.fixture(scope="module")
def claimed(tmp_path_factory: pytest.TempPathFactory, plugins: Plugins) -> Iterator[Week]:
    with live_week(tmp_path_factory.mktemp("claimed") / "week", plugins) as week:
        yield week


@pytest.fixture(scope="module")
def stamped(tmp_path_factory: pytest.TempPathFactory, plugins: Plugins) -> Iterator[Week]:
    with live_week(tmp_path_factory.mktemp("stamped") / "week", plugins, stamps=True) as week:
        yield week


def forged(
    week: Week, path: Path, plugins: Plugins, forgery: Forgery, cards: bool = False
) -> LiveVerification:
    """Verify a copy of a test after a forgery; with `cards`, after cards were made anew, too."""
    shutil.copytree(week.folder.path, path)
    forger = Forger(path, plugins, of_text(AFTER))
    forgery.make(forger)

    if cards:
        forger.renew_cards()

    return forger.verify()


def has(result: LiveVerification, found: Found | None) -> bool:
    lines = "\n".join(map(str, result.findings))
    print(lines)
    return found in {(finding.rule, finding.day) for finding in result.findings}


def test_forgeries_are_many_and_differ() -> None:
    assert len(set(names(FORGERIES))) == len(FORGERIES) > 100


def test_honest_tests_verify(claimed: Week, stamped: Week, plugins: Plugins) -> None:
    for week, level in ((claimed, "claimed"), (stamped, "stamped")):
        trust = plan_trust(week.folder.plan.publish.stamp)
        result = verify_test(week.folder, plugins, of_text(AFTER), trust)
        assert result.findings == ()
        assert (result.level, result.decisions, result.sealed) == (level, 18, 0)


def test_test_that_is_rebuilt_without_a_change_verifies(
    claimed: Week, tmp_path: Path, plugins: Plugins
) -> None:
    nothing = Forgery("nothing", lambda forger: forger.rebuild(), None)
    assert forged(claimed, tmp_path / "copy", plugins, nothing).findings == ()


@pytest.mark.sampled(3)
@pytest.mark.parametrize("forgery", each_finding_once(SEEN))
def test_forgery_is_found_with_its_rule_and_day(
    claimed: Week, tmp_path: Path, plugins: Plugins, forgery: Forgery
) -> None:
    result = forged(claimed, tmp_path / "copy", plugins, forgery)
    assert has(result, forgery.found)
    assert result.level == "claimed"


@pytest.mark.exhaustive
@pytest.mark.parametrize("forgery", UNSEEN, ids=names(UNSEEN))
def test_what_no_record_shows_is_found_where_stamps_are_required(
    claimed: Week, stamped: Week, tmp_path: Path, plugins: Plugins, forgery: Forgery
) -> None:
    result = forged(claimed, tmp_path / "claimed", plugins, forgery, cards=True)
    assert result.findings == ()
    assert result.level == "claimed"
    assert has(forged(stamped, tmp_path / "stamped", plugins, forgery), forgery.stamped)


@pytest.mark.sampled(2)
@pytest.mark.parametrize("forgery", STAMP_FORGERIES, ids=names(STAMP_FORGERIES))
def test_forged_stamp_is_found(
    stamped: Week, tmp_path: Path, plugins: Plugins, forgery: Forgery
) -> None:
    assert has(forged(stamped, tmp_path / "copy", plugins, forgery), forgery.found)


@pytest.mark.exhaustive
def test_plan_without_its_authority_gives_claims_only(
    stamped: Week, tmp_path: Path, plugins: Plugins
) -> None:
    result = forged(stamped, tmp_path / "copy", plugins, AUTHORITY_LEFT_OUT, cards=True)
    assert result.findings == ()
    assert (result.level, result.stamped) == ("claimed", 0)
