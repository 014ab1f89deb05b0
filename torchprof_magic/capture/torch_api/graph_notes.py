"""What the program said of the work of CUDA graphs as it captured them, with ``torch.cuda.graph_annotations``.

torch keeps it in the process, by the number of the node that traces have, until the graph is destroyed.
"""

from __future__ import annotations

import sys
from itertools import islice

from torchprof_magic.model.graph_notes import GraphNote, note_of

# The module of torch 2.14 and later, and that which torch 2.13 has instead. Neither is imported: then nothing was said.
_MODULES = "torch.cuda.graph_annotations", "torch.cuda._graph_annotations"
# More nodes than any program captures.
_MOST_NODES = 1_000_000


def known_graph_notes() -> tuple[tuple[int, GraphNote], ...]:
    """Return what was said of nodes of the graphs that are there, and the lines that launched them.

    torch notes lines if ``torch.cuda.graph`` is asked for them (``record_py_stacks``).
    """
    module = next((sys.modules[name] for name in _MODULES if name in sys.modules), None)
    if module is None:
        return ()
    annotations = dict(module.get_kernel_annotations())
    stacks = dict(module.get_kernel_py_stacks()) if hasattr(module, "get_kernel_py_stacks") else {}
    nodes = islice(dict.fromkeys((*annotations, *stacks)), _MOST_NODES)
    return tuple(
        (int(node), note_of(annotations.get(node)).or_else(GraphNote(stack=str(stacks.get(node, "")))))
        for node in nodes
    )
