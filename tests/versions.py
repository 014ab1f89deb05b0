"""Marks for tests of what not every version of torch has."""

from __future__ import annotations

import pytest

from torchprof_magic.capture.torch_api import features


def needs(name: str) -> pytest.MarkDecorator:
    """Skip a test where the installed torch lacks the feature of this name in the table of features."""
    return pytest.mark.skipif(not features.is_known(name), reason=f"torch {features.VERSION} has no {name}")
