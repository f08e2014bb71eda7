"""Every operation under requests that a machine makes up from the OpenAPI document: no failure, and
no undeclared answer.

All of schemathesis' checks run but one: that every request which follows the schema is accepted. A
schema can't say all that a service knows (a day that is none, a cursor of another query), so these
are refused with 400, as the document declares.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from typing import Any

import pytest
import schemathesis
from hypothesis import HealthCheck, Phase, given, settings, strategies as st
from schemathesis.core.parameters import ParameterLocation
from schemathesis.generation import GenerationMode
from schemathesis.specs.openapi.checks import positive_data_acceptance

from ktdeval_qfinzero.access.guarded_dispatch import AccessRules
from ktdeval_qfinzero.access.http import openapi_document, server_app
from ktdeval_qfinzero.access.workspaces import HEADER, WorkspaceLimits, Workspaces
from ktdeval_qfinzero.catalogue import catalogue
from support.qfinzero.qfinzero_scenario import amid_trading, in_process, played
from support.qfinzero.qfinzero_server import Clock
from support.qfinzero.qfinzero_world import small_dataset
from support.tables import beside

ADDRESS = "http://127.0.0.1:8765"
TOKEN = "a-token-of-some-length"
EXAMPLES = 2

TABLES = beside(__file__)
TICKERS = TABLES["tickers"]
CONTRACTS = st.sampled_from(TABLES["contracts"])
UNKNOWABLE = ("cursor", "fields")
SENSIBLE = {name: st.sampled_from(values) for name, values in TABLES["sensible"].items()}


@pytest.fixture(scope="module")
def workspaces() -> Workspaces:
    return Workspaces(small_dataset(), WorkspaceLimits(most=1000), Clock())


@asynccontextmanager
async def no_lifespan(_: Any) -> AsyncIterator[None]:
    """Each request starts and ends the application, and sessions of MCP, which these are not, can
    be started once only.
    """
    yield


@pytest.fixture(scope="module")
def schema(workspaces: Workspaces) -> Any:
    document = schemathesis.openapi.from_dict(openapi_document(catalogue(), is_guarded=True))
    document.app = server_app(catalogue(), workspaces, AccessRules(None, TOKEN))
    document.app.router.lifespan_context = no_lifespan
    return document


def busy_workspace(workspaces: Workspaces) -> str:
    """A workspace in the midst of trading: fills, positions, a cancelled order, a session that
    runs.
    """
    name = workspaces.open()
    workspace = workspaces.find(name).workspace
    played(amid_trading(), in_process(workspace))

    return name


def sensible(value: Any, draw: Any, name: str = "") -> Any:
    """A made-up value with its names, days and ids replaced by such as there are."""
    if isinstance(value, dict):
        return {
            each: sensible(item, draw, each)
            for each, item in value.items()
            if each not in UNKNOWABLE
        }

    if name in ("tickers", "stocks"):
        chosen = draw(st.lists(st.sampled_from(TICKERS), min_size=1, max_size=3, unique=True))
        return chosen if isinstance(value, list) else ",".join(chosen)

    if name == "options":
        return draw(st.lists(CONTRACTS, max_size=2, unique=True))

    if isinstance(value, list):
        return [sensible(item, draw) for item in value]

    return draw(SENSIBLE[name]) if name in SENSIBLE else value


def operation_paths() -> Iterator[tuple[str, str]]:
    for path, methods in openapi_document(catalogue(), is_guarded=True)["paths"].items():
        for method in methods:
            yield path, method.upper()


@pytest.mark.sampled(6)
@pytest.mark.parametrize(("path", "method"), list(operation_paths()))
def test_an_operation_answers_like_the_document(
    schema: Any, workspaces: Workspaces, path: str, method: str
) -> None:
    operation = schema[path][method]
    workspace = busy_workspace(workspaces)
    modes = [
        operation.as_strategy(generation_mode=mode)
        for mode in (GenerationMode.POSITIVE, GenerationMode.NEGATIVE)
    ]

    @given(case=st.one_of(modes), data=st.data())
    @settings(
        max_examples=2 * EXAMPLES,
        deadline=None,
        phases=[Phase.generate],
        suppress_health_check=list(HealthCheck),
    )
    def check(case: Any, data: Any) -> None:
        components = case.meta.components
        is_valid = all(
            component.mode is GenerationMode.POSITIVE for component in components.values()
        )

        if is_valid and data.draw(st.integers(0, 3)):
            for part in ("query", "path_parameters", "body"):
                if isinstance(getattr(case, part), dict):
                    setattr(case, part, sensible(getattr(case, part), data.draw))

        header = components.get(ParameterLocation.HEADER)
        if header is not None and header.mode is GenerationMode.POSITIVE:
            case.headers[HEADER] = workspace

        case.headers["Authorization"] = f"Bearer {TOKEN}"
        response = case.call(base_url=ADDRESS)
        case.validate_response(response, excluded_checks=[positive_data_acceptance])

    check()
