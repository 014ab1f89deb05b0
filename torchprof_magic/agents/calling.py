"""Calls a tool for a client: whatever goes wrong becomes a message on few lines."""

from __future__ import annotations

import sys
import threading
import traceback
from typing import TYPE_CHECKING

import polars as pl

from torchprof_magic.agents.answers import Picture, error_text
from torchprof_magic.agents.arguments import checked
from torchprof_magic.agents.errors import ToolError
from torchprof_magic.model.errors import TorchProfError

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping


# Servers call tools in threads. One after the other, they take the memory of one, and share what is open.
_ONE = threading.Lock()


def called(tool: Callable[..., str | Picture], given: Mapping[str, object]) -> str | Picture:
    """Return the answer of a tool to what a client gave; raises only ``ToolError``, whose message is for the client."""
    try:
        with _ONE:
            return tool(**checked(tool, given))
    except (TorchProfError, ValueError, ImportError) as exc:
        raise ToolError(error_text(str(exc)) or type(exc).__name__) from exc
    except MemoryError:
        pass  # its traceback holds what was read
    except (Exception, pl.exceptions.PanicException) as exc:
        traceback.print_exc(file=sys.stderr)  # for who looks after the server
        raise ToolError(f"This is a bug of torchprof-magic ({type(exc).__name__} in {tool.__name__}).") from exc
    raise ToolError("Memory ran out. Ask for less, or about a smaller recording.")
