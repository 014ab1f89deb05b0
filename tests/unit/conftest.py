"""What the unit tests share."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING

import pytest
from IPython.core.history import HistoryManager

from torchprof_magic.store.upload import Uploads

if TYPE_CHECKING:
    from collections.abc import Iterator


@pytest.fixture(scope="session", autouse=True)
def _shells_have_no_history_file() -> Iterator[None]:
    """A shell saves its history on a thread, whose end during a recording with stacks spoils torch's own event tree."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(HistoryManager, "_get_hist_file_name", lambda *_, **__: ":memory:")
        yield


@pytest.fixture(scope="module", autouse=True)
def _uploads_end_with_their_module() -> Iterator[None]:
    """An upload that is to be tried again has a thread, which torch's tables of a later test would have rows for."""
    yield
    for thread in threading.enumerate():
        uploads = getattr(getattr(thread, "_target", None), "__self__", None)
        if isinstance(uploads, Uploads):
            with uploads._changed:
                uploads._jobs.clear()
                uploads._changed.notify_all()
            thread.join(timeout=5)
