"""What the unit tests share."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from IPython.core.history import HistoryManager

if TYPE_CHECKING:
    from collections.abc import Iterator


@pytest.fixture(scope="session", autouse=True)
def _shells_have_no_history_file() -> Iterator[None]:
    """A shell saves its history on a thread, whose end during a recording with stacks spoils torch's own event tree."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(HistoryManager, "_get_hist_file_name", lambda *_, **__: ":memory:")
        yield
