"""`ktdeval.values.all_cores`: work in one thread for each core."""

from __future__ import annotations

import pytest

from ktdeval.values.all_cores import on_all_cores


@pytest.fixture(params=[1, 3])
def cores(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> int:
    count = int(request.param)
    monkeypatch.setattr("ktdeval.values.all_cores.cores", lambda: count)
    return count


def test_a_part_that_fails_raises_its_own_error(cores: int) -> None:
    with pytest.raises(ZeroDivisionError):
        on_all_cores(lambda number: 1 // number, [2, 1, 0, 3])
