"""Each field of a typed class that holds an address, or free parameters, has a type that refuses
secrets, or stands in the table with its reason.
"""

from __future__ import annotations

import re
from functools import cache
from pathlib import Path
from typing import Any

import pytest
import yaml

from ktdeval.values.requests.secret_free_addresses import address_mark
from support.typed_classes import hints_of, typed_classes

TABLE = Path(__file__).with_suffix(".yaml")
_ADDRESS = re.compile(
    r"(^|_)(address|addresses|bucket|cache|data|endpoint|endpoints|host|hosts|items|link|links|mirror"
    r"|origin|out|place|places|proxy|remote|repo|repository|server|site|source|sources|store|uri|url"
    r"|urls|webhook)$"
)
_FREE = re.compile(
    r"(^|_)(args|arguments|options|params|parameters|extra_body|call|settings|query)$"
)


@cache
def fields() -> dict[str, Any]:
    """Annotation of each field of a typed class whose name is one of an address or of parameters."""
    found = {}
    for made in typed_classes():
        for name, hint in hints_of(made).items():
            words = str(hint)
            is_address = _ADDRESS.search(name) and re.search(r"\bstr\b", words)
            is_free = _FREE.search(name) and re.search(r"(dict|Mapping)\[.*(Any|Json)", words)
            if (is_address or is_free) and not name.startswith("_"):
                found[f"{made.__module__}.{made.__qualname__}.{name}"] = hint

    return found


def is_guarded(hint: Any) -> bool:
    """Whether the type of a field refuses secrets."""
    return address_mark(hint) is not None


@cache
def reasons() -> dict[str, str]:
    """Reason of each field of the table."""
    table = yaml.safe_load(TABLE.read_text("utf-8"))
    reasons = {}

    for reason, names in table.items():
        reasons |= dict.fromkeys(names.split(), reason)

    return reasons


@pytest.mark.slow
def test_each_address_has_a_type_that_refuses_secrets_or_a_reason() -> None:
    bare = {name for name, hint in fields().items() if not is_guarded(hint)}
    assert sorted(bare - set(reasons())) == [], "give it the type Address or Arguments, or a reason"


def test_the_table_has_no_field_that_needs_no_reason() -> None:
    bare = {name for name, hint in fields().items() if not is_guarded(hint)}
    assert sorted(set(reasons()) - bare) == []


def test_the_sweep_finds_fields_of_all_kinds() -> None:
    guarded = {name for name, hint in fields().items() if is_guarded(hint)}
    assert len(fields()) > 150
    assert len(guarded) > 40
    assert {
        "ktdeval_live.plan.Publishing.remote",
        "ktdeval.runner.records.time_stamps.StampAuthority.url",
        "ktdeval_live.plan.PlannedMarket.source_args",
        "ktdeval_grid.planning.plan.PlannedModel.base_url",
        "ktdeval.stores.mirror.Place.url",
        "ktdeval.runner.plans.config.RunConfig.base_url",
        "ktdeval_board.document_types.Submitter.url",
        "ktdeval_memory.params.MemoryParams.embedding_url",
    } <= guarded
