"""What a line of source calls that may wait."""

from __future__ import annotations

import ast

# The last part of the names of what waits in Python's standard library: for time, locks, queues, threads, processes,
# files and the network.
WAITING = frozenset({
    "accept", "acquire", "as_completed", "check_call", "check_output", "communicate", "connect", "fsync", "gather",
    "get", "getaddrinfo", "input", "join", "poll", "put", "read", "readinto", "readline", "readlines", "recv",
    "recv_into", "recvfrom", "request", "result", "run", "select", "send", "sendall", "sleep", "system", "urlopen",
    "wait", "wait_for", "waitpid", "write",
})  # fmt: skip
_HEADERS = (" pass", "")


def call_of_line(text: str) -> str:
    """Return the name of what a line calls: of its only call, or of the only one that waits; empty for others.

    The name is as it is written, such as ``time.sleep`` or ``q.get``. A line that is part of a statement has none.
    """
    tree = _parsed(text.strip())
    nodes = [] if tree is None else [node for node in ast.walk(tree) if isinstance(node, ast.Call)]
    names = list(dict.fromkeys(ast.unparse(node.func) for node in nodes))
    if len(names) > 1:
        names = [name for name in names if name.rpartition(".")[2] in WAITING]
    return names[0] if len(names) == 1 else ""


def _parsed(text: str) -> ast.Module | None:
    for end in _HEADERS:
        try:
            return ast.parse(text + end)
        except (SyntaxError, ValueError, RecursionError, MemoryError):
            continue
    return None
