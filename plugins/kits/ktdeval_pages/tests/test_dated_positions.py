"""Days that a chart names below its axis are apart enough for their dates."""

from __future__ import annotations

from itertools import pairwise

import pytest

from ktdeval_pages.day_labels import dated_positions


@pytest.mark.parametrize(
    ("days", "positions"),
    [
        (1, [0]),
        (2, [0, 1]),
        (3, [0, 1, 2]),
        (4, [0, 1, 2, 3]),
        (5, [0, 2, 4]),  # four dates would leave a quarter of the axis for the second
        (10, [0, 3, 6, 9]),
        (43, [0, 14, 28, 42]),
    ],
)
def test_up_to_four_days_are_named_as_evenly_as_they_can_be(
    days: int, positions: list[int]
) -> None:
    assert dated_positions(days) == positions


def test_dates_have_a_third_of_the_axis_each_for_any_number_of_days() -> None:
    for days in range(3, 600):
        positions = dated_positions(days)
        assert positions[0] == 0
        assert positions[-1] == days - 1
        distances = [right - left for left, right in pairwise(positions)]
        assert min(distances) >= 0.32 * (days - 1)
