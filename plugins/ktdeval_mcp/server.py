"""Server of the Model Context Protocol over stdio, for SDK version 2."""

from __future__ import annotations

import re
import tempfile
from pathlib import Path
from typing import Any

import click
from mcp import types
from mcp.server import Server, ServerRequestContext
from mcp.server.stdio import stdio_server
from mcp.shared.exceptions import MCPError

import ktdeval
from ktdeval.errors import KtdevalError, UsageError
from ktdeval.values import near_matches
from ktdeval_mcp.answers import SCHEMA, CommandOutput, as_content, bound_text, run_command
from ktdeval_mcp.docs_search import MAX_HIT_CHARS, search_docs
from ktdeval_mcp.folders import Folders
from ktdeval_mcp.secret_free_stream import secret_free
from ktdeval_mcp.tear_sheets import PREFIX, address_of, read_sheets
from ktdeval_mcp.tools import CommandTool, check_arguments, command_tools

_Context = ServerRequestContext[Any, Any]
_Page = types.PaginatedRequestParams | None

INSTRUCTIONS = (
    "ktdeval judges trading backtests and agents: is a result skill, luck, look-ahead or memory?"
    " Files stay on this machine. Give absolute paths; an error is one line that says what to change."
)
SEARCH = "docs_search"
_SEARCH_SCHEMA: dict[str, Any] = {
    "type": "object",
    "properties": {"query": {"type": "string", "description": "words to look for"}},
    "required": ["query"],
    "additionalProperties": False,
}
_HTML = "text/html"
#: Line in the output of `ktdeval judge` that names the folder of the judgement
_RUN_LINE = re.compile(r"^folder +(\S.*)$", re.MULTILINE)


async def serve_stdio(root: click.Command, folders: Folders) -> None:
    """Serve one client over stdin and stdout until it closes one of them. `root` is the command
    `ktdeval`, and `folders` are those that it may read and write.
    """
    server = McpTools(command_tools(root), folders).server()
    try:
        async with stdio_server() as (read, write), secret_free(write) as clean:
            await server.run(read, clean, server.create_initialization_options())
    except* BrokenPipeError:
        pass  # the client has stopped reading


class McpTools:
    """Tools and resources for one client. The object remembers judged runs and offers their tear
    sheets as resources.
    """

    def __init__(self, tools: dict[str, CommandTool], folders: Folders) -> None:
        self._tools = tools
        self._folders = folders
        self._judged: dict[str, Path] = {}

    def server(self) -> Server:
        """Return a server that offers the tools and resources."""
        return Server(
            "ktdeval",
            version=ktdeval.__version__,
            title="ktdeval",
            instructions=INSTRUCTIONS,
            on_list_tools=self._list_tools,
            on_call_tool=self._call_tool,
            on_list_resources=self._list_resources,
            on_list_resource_templates=self._list_templates,
            on_read_resource=self._read_resource,
        )

    async def _list_tools(self, _: _Context, __: _Page) -> types.ListToolsResult:
        listed = []
        for name, tool in self._tools.items():
            listed.append(
                types.Tool(
                    name=name,
                    description=tool.description,
                    input_schema=tool.schema,
                    output_schema=SCHEMA,
                    annotations=_hints(reads_only=not tool.declaration.writes),
                )
            )

        listed.append(
            types.Tool(
                name=SEARCH,
                description="Search ktdeval's documentation: words, figures, options, file formats.",
                input_schema=_SEARCH_SCHEMA,
                annotations=types.ToolAnnotations(read_only_hint=True, open_world_hint=False),
            )
        )
        return types.ListToolsResult(tools=listed)

    async def _call_tool(
        self, _: _Context, params: types.CallToolRequestParams
    ) -> types.CallToolResult:
        arguments = params.arguments or {}
        try:
            if params.name == SEARCH:
                return _search(arguments)
            return await self._call_command(params.name, arguments)
        except KtdevalError as error:
            return types.CallToolResult(content=[_text(error.line)], is_error=True)

    async def _call_command(self, name: str, arguments: dict[str, Any]) -> types.CallToolResult:
        """Call a command for its text, then for its JSON. For `judge`, the JSON is computed from
        the folder of the run.
        """
        if name not in self._tools:
            names = [*self._tools, SEARCH]
            raise UsageError(f"no tool {name!r}{near_matches(name, names)}")

        tool = self._tools[name]
        words = tool.words(arguments)
        self._folders.check(name, arguments)
        printed = ""
        links: list[types.ContentBlock] = []
        if tool.declaration.prints_text:
            printed = (await self._run(words)).printed
            run = _RUN_LINE.search(printed) if name == "judge" else None
            if run is not None:
                folder = self._folders.resolve(run[1])
                links.append(self._link_run(folder))
                arguments = {"decisions": str(folder)}

        output = await self._run(tool.words(arguments, "--json"))
        result = as_content(words, output.exit_code, printed, output.printed)
        text = bound_text(printed or output.printed)
        return types.CallToolResult(content=[_text(text), *links], structured_content=result)

    async def _run(self, words: list[str]) -> CommandOutput:
        """Run a command confined to the server's folders."""
        with tempfile.TemporaryDirectory() as scratch:
            return await run_command(words, self._folders, scratch)

    def _link_run(self, folder: Path) -> types.ResourceLink:
        """Remember a judged run, and return a link to its tear sheet."""
        address = address_of(folder)
        self._judged[address] = folder
        return types.ResourceLink(
            type="resource_link", uri=address, name=folder.name, mime_type=_HTML
        )

    async def _list_resources(self, _: _Context, __: _Page) -> types.ListResourcesResult:
        listed = []
        for address, folder in self._judged.items():
            title = f"Tear sheet of {folder.name}"
            listed.append(
                types.Resource(uri=address, name=folder.name, title=title, mime_type=_HTML)
            )
        return types.ListResourcesResult(resources=listed)

    async def _list_templates(self, _: _Context, __: _Page) -> types.ListResourceTemplatesResult:
        template = types.ResourceTemplate(
            uri_template=f"{PREFIX}{{run}}",
            name="tear-sheet",
            description="Tear sheet of a run folder, as HTML; `run` is its path, percent-encoded.",
            mime_type=_HTML,
        )
        return types.ListResourceTemplatesResult(resource_templates=[template])

    async def _read_resource(
        self, _: _Context, params: types.ReadResourceRequestParams
    ) -> types.ReadResourceResult:
        try:
            pages = await read_sheets(params.uri, self._folders)
        except KtdevalError as error:
            raise MCPError(types.INVALID_PARAMS, error.line) from error

        contents: list[types.TextResourceContents | types.BlobResourceContents] = []
        for page in pages:
            contents.append(types.TextResourceContents(uri=params.uri, mime_type=_HTML, text=page))
        return types.ReadResourceResult(contents=contents)


def _search(arguments: dict[str, Any]) -> types.CallToolResult:
    check_arguments(SEARCH, _SEARCH_SCHEMA, arguments)

    hits = []
    texts = []
    for section in search_docs(arguments["query"]):
        text = section.text[:MAX_HIT_CHARS]
        hits.append({"page": section.page, "title": section.title, "text": text})
        texts.append(f"{section.title} ({section.page})\n\n{text}")

    shown = "\n\n".join(texts) or "nothing found"
    return types.CallToolResult(content=[_text(shown)], structured_content={"hits": hits})


def _hints(reads_only: bool) -> types.ToolAnnotations:
    """Return the hints by which a client decides whether to ask its user before a call. A tool that
    writes adds a new folder and changes no other.
    """
    destructive = None if reads_only else False
    return types.ToolAnnotations(read_only_hint=reads_only, destructive_hint=destructive)


def _text(text: str) -> types.TextContent:
    return types.TextContent(type="text", text=text)
