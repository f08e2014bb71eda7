"""All routes of the pages, and the index that leads to them."""

from __future__ import annotations

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from ktdeval_qfinzero.access.pages.health.routes import health_routes
from ktdeval_qfinzero.access.pages.http_answers import give_asset, json_answer, page, wants_html
from ktdeval_qfinzero.access.pages.page_settings import PageSettings
from ktdeval_qfinzero.access.pages.playground.routes import Playground, playground_routes
from ktdeval_qfinzero.access.workspaces import Workspaces


def page_routes(
    workspaces: Workspaces, settings: PageSettings, playground: Playground
) -> list[Route]:
    """Return the routes of `/`, the health page and the playground. `workspaces`: those of the
    server.
    """

    async def give_index(request: Request) -> Response:
        if wants_html(request.headers):
            return page("index")

        info = workspaces.dataset.info
        return json_answer(
            {
                "name": "QFinZero services",
                "dataset": {"name": info.name, "content_id": info.content_id},
                "pages": ["/health", "/playground"],
                "openapi": "/openapi.json",
                "mcp": "/mcp",
            }
        )

    return [
        Route("/", give_index, methods=["GET"]),
        *health_routes(workspaces, settings),
        *playground_routes(playground),
        Route("/playground/assets/{name}", give_asset, methods=["GET"]),
    ]
