"""The public API is what the snapshot says: a removal or a changed signature is seen in review."""

from __future__ import annotations

import pytest

from support.docs.public_api import SNAPSHOT, public_api


@pytest.mark.slow
def test_the_public_api_is_that_of_the_snapshot() -> None:
    before = set(SNAPSHOT.read_text(encoding="utf-8").splitlines())
    now = set(public_api().splitlines())
    renew = "renew it by `make public-api` if docs/stability.md allows the change"

    assert sorted(before - now) == [], f"removed or changed; {renew}"
    assert sorted(now - before) == [], f"added; {renew}"
