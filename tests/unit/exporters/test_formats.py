from __future__ import annotations

from pathlib import Path

import pytest
from support import make_trace, span

from torchprof_magic.exporters import EXPORTERS, Exporter, choose_exporter
from torchprof_magic.report.trace_report import Report


@pytest.mark.parametrize("exporter", EXPORTERS, ids=lambda exporter: exporter.name)
def test_every_ending_chooses_its_format_and_writes_a_file(exporter: Exporter, tmp_path: Path) -> None:
    report = Report(make_trace(span("a", 0, 1000)))
    for ending in exporter.endings:
        assert choose_exporter(Path(f"RUN{ending.upper()}")) is exporter
        path = report.export(tmp_path / f"run{ending}")
        assert path.stat().st_size > 0


def test_the_longest_ending_decides() -> None:
    assert choose_exporter(Path("a.speedscope.json")).name == "speedscope"
    assert choose_exporter(Path("a.speedscope.json.gz")).name == "speedscope"
    assert choose_exporter(Path("speedscope.json")).name == "chrome"


def test_formats_have_names_and_endings_of_their_own() -> None:
    for values in ([it.name for it in EXPORTERS], [ending for it in EXPORTERS for ending in it.endings]):
        assert len(values) == len(set(values))
