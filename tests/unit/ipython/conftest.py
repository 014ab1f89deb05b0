"""What the tests of the magics share."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from IPython.core.interactiveshell import InteractiveShell

from torchprof_magic.ipython import extension

if TYPE_CHECKING:
    from collections.abc import Iterator


@pytest.fixture
def shell() -> Iterator[InteractiveShell]:
    """IPython with the extension."""
    InteractiveShell.clear_instance()
    shell = InteractiveShell.instance()
    extension.load(shell)
    yield shell
    extension.unload(shell)
    InteractiveShell.clear_instance()
