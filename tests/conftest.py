"""What every test may use. Real traces of other people are not part of this repository; tests that need them skip."""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path
from typing import Any

import pytest

sys.path.insert(0, str(Path(__file__).parent))


@pytest.fixture(scope="session")
def traces() -> Path:
    folder = os.environ.get("TORCHPROF_TRACES")
    if not folder:
        pytest.skip("TORCHPROF_TRACES does not name a folder of real traces")
    return Path(folder)


@pytest.fixture(scope="session")
def facts(traces: Path) -> dict[str, Any]:
    rows = json.loads((traces / "facts.json").read_text())
    return {Path(row["file"]).name: row for row in rows}
