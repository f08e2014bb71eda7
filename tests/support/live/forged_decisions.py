"""Forgeries of decisions, with all hashes of their records."""

from __future__ import annotations

import json
from collections.abc import Callable

from support.live.forgery_kinds import (
    DAY,
    FIRST,
    ISSUED,
    LAST,
    NEXT,
    Found,
    afterwards,
    first_reply,
    forgery,
    set_to,
    swap,
)
from support.live.live_forger import Forger, Plain


def _record(name: str, change: Callable[[Plain], None], found: Found, entrant: str) -> None:
    """Add a forgery of a record of the second day."""
    forgery(name, found)(lambda forger: forger.edit_record(DAY, change, entrant))


REPLIES = ("replies", DAY)


def _other_reply(record: Plain) -> None:
    call = first_reply(record)["tool_calls"][0]
    call["arguments"] = call["arguments"].replace('"orders": [', '"orders": [ ', 1)


def _other_prompt(record: Plain) -> None:
    message = record["transcript"]["exchanges"][0]["sent"][-1]
    message["content"] = message["content"].replace("nav", "NAV", 1) + " "


def _repeat_exchange(record: Plain) -> None:
    exchanges = record["transcript"]["exchanges"]
    exchanges.append(exchanges[0])


def _order(name: str, value: object) -> Callable[[Plain], None]:
    return lambda record: record["orders"][0].update({name: value})


def _count(name: str) -> Callable[[Plain], None]:
    return lambda record: record["counts"].update({name: record["counts"][name] + 1})


def _other_memory(record: Plain) -> None:
    record["memory"]["entries"][0]["decision"] = "BUY to 20 % of NAV"


for _name, _change in (
    ("the side of an order", _order("side", "HOLD")),
    ("the weight of an order", _order("target_weight", 0.2)),
    ("a limit of an order", _order("limit_ticks", 100)),
    ("the asset of an order", _order("code", None)),
    ("a confidence", _order("confidence", 0.99)),
    ("a reason", _order("reason", "foresight, which never fails")),
    ("an order left out", lambda record: record["orders"].pop()),
    ("an order added", lambda record: record["orders"].append(record["orders"][0])),
    ("orders in another order", lambda record: record["orders"].reverse()),
    ("the overall reason", set_to("overall_reason", "all went as foreseen")),
    ("a provenance", set_to("provenance", "model_after_retry")),
    ("a count of submissions", _count("submissions")),
    ("a count of tokens", _count("input_tokens")),
    ("a prompt", _other_prompt),
    ("the text of a reply", _other_reply),
    ("an exchange added", _repeat_exchange),
    ("the exchanges left out", lambda record: record["transcript"].update(exchanges=[])),
    ("the handles that were shown", lambda record: record["shown"].pop()),
):
    _record(_name, _change, REPLIES, "chance")

_record(
    "a provenance that is no decision", set_to("provenance", "error"), ("record", DAY), "chance"
)
_record("the memory of an agent", _other_memory, REPLIES, "investor")
_record("a memory that is empty", set_to("memory", None), REPLIES, "investor")
_record(
    "a question asked before its data", set_to("asked_at", "2024-06-03T19:00:00Z"), ("times", DAY),
    "chance",
)  # fmt: skip
_record(
    "an answer after its commitment", set_to("answered_at", "2024-06-03T23:00:00Z"), ("times", DAY),
    "chance",
)  # fmt: skip


@forgery("a reply that submits other weights", REPLIES)
def _(forger: Forger) -> None:
    def change(record: Plain) -> None:
        call = first_reply(record)["tool_calls"][0]
        submitted = json.loads(call["arguments"])
        submitted["orders"] = submitted["orders"][:1]
        call["arguments"] = json.dumps(submitted)

    forger.edit_record(DAY, change)


@forgery("a better last decision, reply and all", None, (ISSUED, LAST))
def _(forger: Forger) -> None:
    def change(record: Plain) -> None:
        call = first_reply(record)["tool_calls"][0]
        submitted = json.loads(call["arguments"])
        submitted["overall_reason"] = record["overall_reason"] = "as was to be seen"
        call["arguments"] = json.dumps(submitted)
        record["transcript"]["submission"] = call["arguments"]

    forger.edit_record(LAST, change)


@afterwards("a record without its commitment", ("record", DAY))
def _(forger: Forger) -> None:
    forger.edit_record(DAY, set_to("overall_reason", "all went as foreseen"))


@afterwards("a record that is missing", ("record", DAY))
def _(forger: Forger) -> None:
    (forger.path / f"records/chance/us/{DAY}.json").unlink()


@afterwards("a record that is sealed for ever", ("sealed", DAY))
def _(forger: Forger) -> None:
    name = f"chance/us/{DAY}.json"
    (forger.path / "records" / name).rename(forger.path / "private" / name)


@afterwards("records of two days swapped", ("record", DAY))
def _(forger: Forger) -> None:
    swap(forger.path, f"records/chance/us/{DAY}.json", f"records/chance/us/{NEXT}.json")


@forgery("the decisions of two agents swapped", ("record", DAY))
def _(forger: Forger) -> None:
    swap(forger.path, f"records/chance/us/{DAY}.json", f"records/investor/us/{DAY}.json")


@forgery("the decisions of two agents swapped under their names", REPLIES)
def _(forger: Forger) -> None:
    swap(forger.path, f"records/chance/us/{DAY}.json", f"records/investor/us/{DAY}.json")
    for entrant in ("chance", "investor"):
        forger.edit_record(
            DAY, lambda one, own=entrant: one["question"].update(entrant=own), entrant
        )


@forgery("a decision committed after its cutoff", ("late", DAY))
def _(forger: Forger) -> None:
    link = forger.decided(DAY, "investor")
    forger.drop_link_only(link)
    forger.put(link, forger.link("frozen", market="us", day=NEXT), "2024-06-04T20:15:00Z")


@forgery("a decision committed before its close", ("early", FIRST))
def _(forger: Forger) -> None:
    for link in forger.links[1:4]:
        link["at"] = "2024-05-31T19:00:00Z"
