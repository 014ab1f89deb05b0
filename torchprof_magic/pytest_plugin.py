"""The pytest fixture ``torchprof``, which records a part of a test."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from torchprof_magic.profiling import profile


@pytest.fixture(name="torchprof")
def torchprof_fixture(request: pytest.FixtureRequest) -> TorchprofFixture:
    """Record with ``with torchprof() as run:``, and check ``run.report.assert_profile(...)``.

    The arguments are those of ``torchprof_magic.profile``; the title is the name of the test.
    """
    return TorchprofFixture(request.node.name)


class TorchprofFixture:
    """Makes recordings with the name of a test. torch is imported when the first is made."""

    def __init__(self, test: str) -> None:
        self.test = test

    def __call__(self, **options: Any) -> profile:
        """Return ``torchprof_magic.profile(**options)``, to be used in a ``with`` statement."""
        from torchprof_magic.profiling import profile  # noqa: PLC0415 - tests that do not record need no torch

        return profile(**{"metadata": {"test": self.test}, **options})
