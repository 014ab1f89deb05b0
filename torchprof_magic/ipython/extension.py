"""Registers the magics and the input transformer with IPython, and removes them again."""

from __future__ import annotations

from typing import TYPE_CHECKING

from torchprof_magic.capture import name_compiled_code, take_unfinished
from torchprof_magic.ipython.awaiting import CellTransformer
from torchprof_magic.ipython.magics import TorchProfMagics
from torchprof_magic.run.messages import say_unfinished

if TYPE_CHECKING:
    from IPython.core.interactiveshell import InteractiveShell

NAME = "torchprof"


def load(shell: InteractiveShell) -> None:
    """Register the magics and the transformer for cells that await; loading twice registers them once.

    What is compiled from then on has names. Also prints which runs did not finish because their kernel ended.
    """
    unload(shell)
    name_compiled_code(is_on=True)
    # With a parent, the defaults also come from configuration files.
    magics = TorchProfMagics(shell=shell, parent=shell)
    shell.register_magics(magics)
    magics.idle.watch()
    shell.input_transformers_post.append(CellTransformer(shell))
    say_unfinished(take_unfinished())


def unload(shell: InteractiveShell) -> None:
    """Remove the magics and the transformer; does nothing when they are not loaded."""
    name_compiled_code(is_on=False)
    transformers = shell.input_transformers_post
    transformers[:] = [known for known in transformers if not isinstance(known, CellTransformer)]
    for kind in ("line", "cell"):
        shell.magics_manager.magics[kind].pop(NAME, None)
    shell.magics_manager.registry.pop(TorchProfMagics.__name__, None)
    for magics in [known for known in shell.configurables if isinstance(known, TorchProfMagics)]:
        magics.idle.unwatch()
        shell.configurables.remove(magics)
