"""The tools for Jupyter's own MCP server, ``jupyter-server-mcp``, which finds them by an entry point.

It imports them where it is installed, so nothing of it is needed here. They run in the process of the Jupyter server,
may read its root folder, and are called ``torchprof_summary`` and so on, because they stand among the tools of others.
"""

from __future__ import annotations

import inspect
import os
import sys
from functools import cache, partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

from torchprof_magic.agents.answers import Picture
from torchprof_magic.agents.arguments import arguments_of, description_of
from torchprof_magic.agents.calling import called
from torchprof_magic.agents.errors import ToolError
from torchprof_magic.agents.folders import Folders
from torchprof_magic.agents.tools import Tools

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from torchprof_magic.agents.arguments import Argument

_PREFIX = "torchprof_"
# Folders that may be read beside the root of the Jupyter server, separated as in PATH.
FOLDERS_VARIABLE = "TORCHPROF_MCP_FOLDERS"


def tools() -> list[str]:
    """Return the names of the tools as ``module:function``; called by the entry point."""
    return [f"{__name__}:{_PREFIX}{tool.__name__}" for tool in _tools().all]


def __getattr__(name: str) -> Callable[..., Awaitable[object]]:
    for tool in _tools().all if name.startswith(_PREFIX) else ():
        if name == f"{_PREFIX}{tool.__name__}":
            return _for_jupyter(tool, name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


@cache
def _tools() -> Tools:
    more = os.environ.get(FOLDERS_VARIABLE, "").split(os.pathsep)
    return Tools(Folders([_root(), *filter(None, more)]))


def _root() -> Path:
    """Return the root folder of the Jupyter server of this process, or else the current folder."""
    server = sys.modules.get("jupyter_server.serverapp")
    if server is not None and server.ServerApp.initialized():
        return Path(server.ServerApp.instance().root_dir)
    return Path.cwd()


def _for_jupyter(tool: Callable[..., str | Picture], name: str) -> Callable[..., Awaitable[object]]:
    """Return a tool as a function of its own, from whose signature the server makes a schema."""

    async def run(**given: object) -> object:
        import anyio.to_thread  # noqa: PLC0415 - it comes with the server

        try:
            return _content(await anyio.to_thread.run_sync(partial(called, tool, given)))
        except ToolError as exc:
            from fastmcp.exceptions import ToolError as ToldError  # noqa: PLC0415 - it comes with the server

            raise ToldError(str(exc)) from None

    known = arguments_of(tool)
    run.__name__ = run.__qualname__ = name
    run.__doc__ = description_of(tool)
    run.__annotations__ = {each.name: _hint(each) for each in known.values()}
    run.__signature__ = inspect.Signature(  # type: ignore[attr-defined]
        [
            inspect.Parameter(
                each.name,
                inspect.Parameter.KEYWORD_ONLY,
                default=each.default,
                annotation=run.__annotations__[each.name],
            )
            for each in known.values()
        ]
    )
    return run


def _hint(argument: Argument) -> Any:
    from pydantic import Field  # noqa: PLC0415 - it comes with the server

    bounds: dict[str, Any] = (
        {} if argument.bounds is None else {"ge": argument.bounds.least, "le": argument.bounds.most}
    )
    kind: Any = Literal[argument.choices] if argument.choices else argument.kind
    return Annotated[kind, Field(description=argument.description, **bounds)]


def _content(answer: str | Picture) -> object:
    if not isinstance(answer, Picture):
        return answer
    from fastmcp.utilities.types import Image  # noqa: PLC0415 - it comes with the server

    return [Image(data=answer.png, format="png"), answer.text]
