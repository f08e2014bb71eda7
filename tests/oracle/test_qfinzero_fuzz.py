"""Every operation under arguments of every kind: an answer that follows its schema, or a refusal
that changes nothing.
"""

from __future__ import annotations

from functools import partial
from random import Random

import pytest
from hypothesis import given, settings, strategies as st

from ktdeval.testing import not_empty
from ktdeval_qfinzero.catalogue import catalogue
from ktdeval_qfinzero.errors import ServiceError
from ktdeval_qfinzero.operations import Operation
from ktdeval_qfinzero.pmb.broker import rerun
from ktdeval_qfinzero.pmb.log import state_of_log
from ktdeval_qfinzero.timestamps import moment_text, parse_moment
from support.qfinzero.qfinzero_calls import ask, refused
from support.qfinzero.qfinzero_fuzz import BOTH, SCENES, SESSION, Maker, attempt, scene
from support.qfinzero.qfinzero_invariants import check_invariants
from support.qfinzero.qfinzero_world import at

pytestmark = pytest.mark.slow

OPERATIONS = catalogue().operations
TRADING = [
    operation.name
    for operation in OPERATIONS
    if operation.changes and operation.name != "PMB.session.stop"
]
SEEDS = st.integers(0, 2**32)


@pytest.mark.sampled(15)
@pytest.mark.parametrize("operation", OPERATIONS, ids=[operation.name for operation in OPERATIONS])
def test_any_arguments_give_a_schema_answer_or_a_refusal_without_effect(
    operation: Operation,
) -> None:
    @given(SEEDS, st.integers(0, SCENES - 1))
    @settings(max_examples=4, derandomize=True, database=None)
    def check(seed: int, place: int) -> None:
        maker = Maker(Random(seed))
        workspace = scene(place)
        for _ in range(8):
            attempt(workspace, operation, maker.arguments(operation))

    check()


@pytest.mark.exhaustive
@given(SEEDS, st.integers(0, SCENES - 1))
@settings(max_examples=20, derandomize=True, database=None)
def test_after_any_calls_the_book_is_whole_and_the_log_brings_it_about(
    seed: int, place: int
) -> None:
    random = Random(seed)
    workspace = scene(place)
    maker = Maker(random)
    names = TRADING + ["PMB.order.place"] * 5 + ["PMB.session.step"]

    for _ in range(25):
        operation = catalogue().find(random.choice(names))
        attempt(workspace, operation, maker.arguments(operation))
        check_invariants(workspace.broker)

    lines = workspace.broker.log.to_lines()

    # the broker always has a price of what it holds
    assert '"code":"unavailable"' not in "".join(lines)
    assert state_of_log(lines) == workspace.broker.state
    assert rerun(lines, workspace.dataset) == lines


@pytest.mark.exhaustive
def test_the_made_up_arguments_get_answers_too() -> None:
    """The test has teeth: each operation takes some of them."""
    for operation in not_empty(OPERATIONS):
        maker = Maker(Random(operation.name))
        workspace = scene(3 if operation.name == "PMB.session.create" else 0)
        tries = (attempt(workspace, operation, maker.arguments(operation)) for _ in range(500))
        assert any(not isinstance(answer, ServiceError) for answer in tries), operation.name


# ---- what it found


def test_an_offset_is_less_than_a_day_and_digits_are_those_of_ascii() -> None:
    offsets = (
        "2025-01-06T14:30:00+99:99",
        "2025-01-06T14:30:00+24:00",
        "2025-01-06T14:30:00-00:60",
    )

    for text in (*offsets, "2025-01-06T14:30:00.١Z", "2025-01-06T14:30:00+0١:00", "２０２５-01-06"):
        assert "start: expected a moment" in str(refused(parse_moment, text, "start"))

    assert moment_text(parse_moment("2025-01-06T14:30:00+23:59", "start")) == "2025-01-05T14:31:00Z"


def test_a_pattern_ends_at_the_end_and_not_before_a_line_break() -> None:
    order = {
        "instrument": {"type": "STOCK", "symbol": "AVLN"},
        "side": "BUY",
        "order_type": "MARKET",
        "qty": 1,
    }
    place = partial(ask, scene(0), "PMB.order.place", **BOTH, order=order)

    for call in (
        lambda text: place(client_order_id=text),
        lambda text: ask(scene(0), "ESP.events.query", tickers=[text.upper()]),
    ):
        call("a")
        assert "in the form" in str(refused(call, "a\n"))


def test_a_session_of_years_beyond_the_data_is_stepped_through_in_time() -> None:
    workspace = scene(3)
    span = {"start_ts": "2025-01-06", "end_ts": "2035-10-01", "frequency": "1m"}
    ask(
        workspace,
        "PMB.session.create",
        account_id=BOTH["account_id"],
        **span,
        universe={"stocks": ["AVLN"]},
    )
    answer = attempt(
        workspace, catalogue().find("PMB.session.step"), {"session_id": SESSION, "step": 100_000}
    )

    assert not isinstance(answer, ServiceError)
    assert at(answer["as_of_ts"]) > at("2026-01-01")
